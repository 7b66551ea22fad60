/* Large tables that are read at random: few page faults, few misses of the processor's table of pages. */
#ifndef KDUMP_MEMORY_H
#define KDUMP_MEMORY_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#define KDUMP_HUGE_PAGE ((size_t)2 << 20)

/* `n` zero bytes, in huge pages where the system has them; to be freed with free(). NULL where there is no memory. */
static void *kdump_zeros(size_t n) {
#if defined(MADV_HUGEPAGE)
    void *p = NULL;
    if (n >= 2 * KDUMP_HUGE_PAGE) {
        if (posix_memalign(&p, KDUMP_HUGE_PAGE, n)) return NULL;
        madvise(p, n, MADV_HUGEPAGE);
        return memset(p, 0, n);
    }
#endif
    return calloc(n ? n : 1, 1);
}

#endif
