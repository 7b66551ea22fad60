/* Zigzag varints of one byte or two, which most are: to be expanded where they are read. */
#ifndef KDUMP_VARINT_H
#define KDUMP_VARINT_H

#include <stdint.h>

#if defined(__GNUC__)
#define KDUMP_EXPANDED inline __attribute__((always_inline))
#else
#define KDUMP_EXPANDED inline
#endif

/* Whether there is one at `*at`, before `end`; then `*at` moves behind it. */
static KDUMP_EXPANDED int kdump_short_varint(const uint8_t *p, int64_t *at, int64_t end, int64_t *value) {
    int64_t left = end - *at;
    uint32_t number;
    p += *at;
    if (left > 0 && p[0] < 0x80) {
        number = p[0];
        *at += 1;
    } else if (left > 1 && p[1] < 0x80) {
        number = (uint32_t)(p[0] & 0x7f) | (uint32_t)p[1] << 7;
        *at += 2;
    } else {
        return 0;
    }
    *value = (int64_t)(number >> 1) ^ -(int64_t)(number & 1);
    return 1;
}

#endif
