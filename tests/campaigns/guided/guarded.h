/* Memory that ends where a page begins that nobody may touch: a read or a write behind it ends the process. */

#ifndef KDUMP_GUARDED_H
#define KDUMP_GUARDED_H

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* The end of new memory of at least `size` bytes; NULL where there is none. */
static uint8_t *kdump_guarded(size_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t room = (size + page - 1) / page * page;
    uint8_t *start = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED || mprotect(start + room, page, PROT_NONE))
        return NULL;
    return start + room;
}

#endif
