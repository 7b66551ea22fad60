/* The inner loops of rendering: copy text while looking at it, and print numbers. */
#ifndef KDUMP_TEXT_H
#define KDUMP_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* Copy ASCII bytes up to the first other one; how many there were. `to` must have room for `n` bytes. */
static inline size_t kdump_copy_ascii(uint8_t *to, const uint8_t *from, size_t n) {
    size_t done = 0;
#if defined(__SSE2__)
    while (n - done >= 64) {
        __m128i a = _mm_loadu_si128((const __m128i *)(from + done));
        __m128i b = _mm_loadu_si128((const __m128i *)(from + done + 16));
        __m128i c = _mm_loadu_si128((const __m128i *)(from + done + 32));
        __m128i d = _mm_loadu_si128((const __m128i *)(from + done + 48));
        if (_mm_movemask_epi8(_mm_or_si128(_mm_or_si128(a, b), _mm_or_si128(c, d)))) break;
        _mm_storeu_si128((__m128i *)(to + done), a);
        _mm_storeu_si128((__m128i *)(to + done + 16), b);
        _mm_storeu_si128((__m128i *)(to + done + 32), c);
        _mm_storeu_si128((__m128i *)(to + done + 48), d);
        done += 64;
    }
#endif
    while (n - done >= 8) {
        uint64_t word;
        memcpy(&word, from + done, 8);
        if (word & UINT64_C(0x8080808080808080)) break;
        memcpy(to + done, &word, 8);
        done += 8;
    }
    while (done < n && from[done] < 0x80) {
        to[done] = from[done];
        done++;
    }
    return done;
}

static char kdump_digits[200];

static void kdump_text_init(void) {
    for (int number = 0; number < 100; number++) {
        kdump_digits[2 * number] = (char)('0' + number / 10);
        kdump_digits[2 * number + 1] = (char)('0' + number % 10);
    }
}

/* Exactly eight digits. */
static inline void kdump_put_eight(uint8_t *to, uint32_t number) {
    uint32_t high = number / 10000, low = number % 10000;
    memcpy(to, kdump_digits + 2 * (high / 100), 2);
    memcpy(to + 2, kdump_digits + 2 * (high % 100), 2);
    memcpy(to + 4, kdump_digits + 2 * (low / 100), 2);
    memcpy(to + 6, kdump_digits + 2 * (low % 100), 2);
}

/* A number below 10^8 without leading zeros; how many bytes it took. */
static inline size_t kdump_put_small(uint8_t *to, uint32_t number) {
    uint8_t digits[8];
    size_t skip;
    if (number < 10) {
        *to = (uint8_t)('0' + number);
        return 1;
    }
    if (number < 100) {
        memcpy(to, kdump_digits + 2 * number, 2);
        return 2;
    }
    kdump_put_eight(digits, number);
    skip = number < 10000 ? (number < 1000 ? 5 : 4) : number < 1000000 ? (number < 100000 ? 3 : 2) : number < 10000000;
    memcpy(to, digits + skip, 8 - skip);
    return 8 - skip;
}

/* Any number in decimal, at most 20 bytes; how many it took. */
static inline size_t kdump_put_number(uint8_t *to, int64_t number) {
    uint64_t rest = (uint64_t)number;
    size_t length = 0;
    if (number < 0) {
        to[length++] = '-';
        rest = 0 - rest;
    }
    if (rest < 100000000) return length + kdump_put_small(to + length, (uint32_t)rest);
    if (rest < UINT64_C(10000000000000000)) {
        length += kdump_put_small(to + length, (uint32_t)(rest / 100000000));
    } else {
        uint64_t high = rest / 100000000;
        length += kdump_put_small(to + length, (uint32_t)(high / 100000000));
        kdump_put_eight(to + length, (uint32_t)(high % 100000000));
        length += 8;
    }
    kdump_put_eight(to + length, (uint32_t)(rest % 100000000));
    return length + 8;
}

#endif
