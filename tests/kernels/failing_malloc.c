/* Stands before the C library's allocator (LD_PRELOAD): one allocation, once that is asked for, gets no memory. */
#include <errno.h>
#include <stddef.h>

extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t count, size_t n);
extern void *__libc_realloc(void *p, size_t n);
extern void *__libc_memalign(size_t alignment, size_t n);

/* While `kdump_armed`, the allocation with the number `kdump_left`, from 1, fails, and no other. */
int kdump_armed;
long kdump_left;

static int fails(void) {
    if (!kdump_armed || --kdump_left) return 0;
    kdump_armed = 0;
    return 1;
}

static void *none(void) {
    errno = ENOMEM;
    return NULL;
}

void *malloc(size_t n) { return fails() ? none() : __libc_malloc(n); }
void *calloc(size_t count, size_t n) { return fails() ? none() : __libc_calloc(count, n); }
void *realloc(void *p, size_t n) { return fails() ? none() : __libc_realloc(p, n); }

int posix_memalign(void **p, size_t alignment, size_t n) {
    if (fails()) return ENOMEM;
    *p = __libc_memalign(alignment, n);
    return *p ? 0 : ENOMEM;
}
