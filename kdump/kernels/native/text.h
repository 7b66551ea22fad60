/* The inner loops of rendering: copy text while looking at it, and print numbers. */
#ifndef KDUMP_TEXT_H
#define KDUMP_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

static inline uint8_t *kdump_put_bytes(uint8_t *to, const char *text, size_t length) {
    memcpy(to, text, length);
    return to + length;
}

/* Copy a literal, without its last zero; where it ends. There must be room. Its length is that of its array:
 * what has become a pointer does not compile. */
#if defined(__GNUC__)
#define KDUMP_NO_POINTER(text) \
    (0 * sizeof(char[1 - 2 * __builtin_types_compatible_p(__typeof__(text), __typeof__(&(text)[0]))]))
#else
#define KDUMP_NO_POINTER(text) 0
#endif
#define KDUMP_PUT_LITERAL(to, text) kdump_put_bytes(to, text, sizeof(text) - 1 + KDUMP_NO_POINTER(text))

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
    if (n < 8) {
        while (done < n && from[done] < 0x80) {
            to[done] = from[done];
            done++;
        }
        return done;
    }
    while (done < n) { /* the last word may begin with bytes that were copied before */
        size_t at = n - done < 8 ? n - 8 : done;
        uint64_t word;
        memcpy(&word, from + at, 8);
        memcpy(to + at, &word, 8);
        if (word & UINT64_C(0x8080808080808080)) {
            while (from[at] < 0x80) at++;
            return at;
        }
        done = at + 8;
    }
    return done;
}

/* The eight digits of a number below 10^8 as the bytes 0 to 9, the first one lowest: pairs of four, of two, of one. */
static inline uint64_t kdump_eight_digits(uint32_t number) {
    uint64_t all = number / 10000 | (uint64_t)(number % 10000) << 32;
    uint64_t high = (all * 10486 >> 20) & UINT64_C(0x0000007f0000007f);
    all = high | (all - 100 * high) << 16;
    high = (all * 103 >> 10) & UINT64_C(0x000f000f000f000f);
    return high | (all - 10 * high) << 8;
}

/* Eight bytes, the lowest one first. */
static inline void kdump_put_word(uint8_t *to, uint64_t word) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    memcpy(to, &word, 8);
#else
    for (int byte = 0; byte < 8; byte++) to[byte] = (uint8_t)(word >> 8 * byte);
#endif
}

/* Exactly eight digits. */
static inline void kdump_put_eight(uint8_t *to, uint32_t number) {
    kdump_put_word(to, kdump_eight_digits(number) | UINT64_C(0x3030303030303030));
}

/* A number from 1 to 10^8 - 1 without leading zeros; how many bytes it took. `to` must have room for eight. */
static inline size_t kdump_put_small(uint8_t *to, uint32_t number) {
    uint64_t digits = kdump_eight_digits(number);
#if defined(__GNUC__)
    size_t zeros = (size_t)__builtin_ctzll(digits) >> 3;
#else
    size_t zeros = 0;
    while (!(digits >> 8 * zeros & 0xff)) zeros++;
#endif
    kdump_put_word(to, (digits | UINT64_C(0x3030303030303030)) >> 8 * zeros);
    return 8 - zeros;
}

/* A number from 10 to 9999; the rest as above. */
static inline size_t kdump_put_tiny(uint8_t *to, uint32_t number) {
    uint32_t high = number * 10486 >> 20, all = high | (number - 100 * high) << 16, digits;
    high = (all * 103 >> 10) & 0x000f000fu;
    digits = high | (all - 10 * high) << 8;
#if defined(__GNUC__)
    size_t zeros = (size_t)__builtin_ctz(digits) >> 3;
#else
    size_t zeros = 0;
    while (!(digits >> 8 * zeros & 0xff)) zeros++;
#endif
    kdump_put_word(to, (digits | 0x30303030u) >> 8 * zeros);
    return 4 - zeros;
}

static size_t kdump_put_large(uint8_t *to, int64_t number) {
    uint64_t rest = (uint64_t)number;
    size_t length = 0;
    if (number < 0) {
        to[length++] = '-';
        rest = 0 - rest;
    }
    if (rest < 10) {
        to[length] = (uint8_t)('0' + rest);
        return length + 1;
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

/* Any number in decimal, at most 20 bytes; how many it took. `to` must have room for 28. */
static inline size_t kdump_put_number(uint8_t *to, int64_t number) {
    if (number == -1) {
        to[0] = '-';
        to[1] = '1';
        return 2;
    }
    if ((uint64_t)number < 10) {
        to[0] = (uint8_t)('0' + number);
        return 1;
    }
    if ((uint64_t)number < 10000) return kdump_put_tiny(to, (uint32_t)number);
    return kdump_put_large(to, number);
}

#endif
