/* The inner loops of rows as text: escape JSON, double the quotes of CSV, base64.
 *
 * What is read in steps of 32 bytes may lie behind the text, but within the `room` bytes that may be read: texts of a
 * column lie one behind the other. What is written may lie up to KDUMP_SPILL bytes behind what counts. */
#ifndef KDUMP_ROWS_H
#define KDUMP_ROWS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "utf8.h"

#define KDUMP_SPILL 64

enum kdump_escapes { KDUMP_JSON_TEXT, KDUMP_CSV_TEXT };

/* For each ASCII character what stands for it inside a text of JSON: up to six bytes, and behind them how many. */
static uint8_t kdump_json_escapes[128][8];

static void kdump_rows_init(void) {
    static const char hex[] = "0123456789abcdef", short_ones[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    for (int c = 0; c < 128; c++) {
        uint8_t *to = kdump_json_escapes[c];
        if (c >= 0x20 && c != 0x7F) {
            to[0] = (uint8_t)c;
            to[7] = 1;
        } else {
            memcpy(to, "\\u00", 4);
            to[4] = (uint8_t)hex[c >> 4];
            to[5] = (uint8_t)hex[c & 15];
            to[7] = 6;
        }
    }
    for (const char *each = short_ones; *each; each += 2) {
        uint8_t *to = kdump_json_escapes[(uint8_t)each[0]];
        to[0] = '\\';
        to[1] = (uint8_t)each[1];
        to[7] = 2;
    }
    kdump_utf8_init();
}

static inline uint8_t *kdump_put_json_byte(uint8_t *to, uint8_t c) {
    if (c >= 0x80) {
        *to = c;
        return to + 1;
    }
    memcpy(to, kdump_json_escapes[c], 8);
    return to + kdump_json_escapes[c][7];
}

static inline uint8_t *kdump_put_escaped_byte(uint8_t *to, uint8_t c, enum kdump_escapes how) {
    if (how == KDUMP_JSON_TEXT) return kdump_put_json_byte(to, c);
    to[0] = c;
    to[1] = c;
    return to + (c == '"' ? 2 : 1);
}

#if defined(__SSE2__)
static inline uint32_t kdump_to_escape(__m128i c, enum kdump_escapes how) {
    __m128i found = _mm_cmpeq_epi8(c, _mm_set1_epi8('"'));
    if (how == KDUMP_JSON_TEXT) {
        found = _mm_or_si128(found, _mm_cmpeq_epi8(c, _mm_set1_epi8('\\')));
        found = _mm_or_si128(found, _mm_cmpeq_epi8(c, _mm_set1_epi8(0x7F)));
        found = _mm_or_si128(found, _mm_cmpeq_epi8(c, _mm_min_epu8(c, _mm_set1_epi8(0x1F))));
    }
    return (uint32_t)_mm_movemask_epi8(found);
}

static inline void kdump_copy_32(uint8_t *to, const uint8_t *p) {
    __m128i low = _mm_loadu_si128((const __m128i *)p), high = _mm_loadu_si128((const __m128i *)(p + 16));
    _mm_storeu_si128((__m128i *)to, low);
    _mm_storeu_si128((__m128i *)(to + 16), high);
}
#endif

/* Copy `n` bytes, escaped; where it ends. `to` has room for six times as many and the spill. */
static inline uint8_t *kdump_put_escaped(
    uint8_t *to, const uint8_t *p, size_t n, size_t room, enum kdump_escapes how
) {
    size_t at = 0;
#if defined(__SSE2__)
    while (at < n && room - at >= 64) {
        const __m128i *block = (const __m128i *)(p + at);
        __m128i low = _mm_loadu_si128(block), high = _mm_loadu_si128(block + 1);
        uint32_t found = kdump_to_escape(low, how) | kdump_to_escape(high, how) << 16;
        size_t width = n - at < 32 ? n - at : 32, done = 0;
        if (width < 32) found &= (1u << width) - 1;
        _mm_storeu_si128((__m128i *)to, low);
        _mm_storeu_si128((__m128i *)(to + 16), high);
        while (found) {
            size_t next = (size_t)__builtin_ctz(found);
            to = kdump_put_escaped_byte(to + (next - done), p[at + next], how);
            done = next + 1;
            kdump_copy_32(to, p + at + done);
            found &= found - 1;
        }
        to += width - done;
        at += width;
    }
#endif
    for (; at < n; at++) to = kdump_put_escaped_byte(to, p[at], how);
    return to;
}

static uint8_t *kdump_put_json(uint8_t *to, const uint8_t *p, size_t n, size_t room) {
    return kdump_put_escaped(to, p, n, room, KDUMP_JSON_TEXT);
}

static uint8_t *kdump_put_csv(uint8_t *to, const uint8_t *p, size_t n, size_t room) {
    return kdump_put_escaped(to, p, n, room, KDUMP_CSV_TEXT);
}

static uint8_t *kdump_put_unit(uint8_t *to, uint32_t unit) {
    static const char hex[] = "0123456789abcdef";
    to[0] = '\\';
    to[1] = 'u';
    for (int digit = 0; digit < 4; digit++) to[2 + digit] = (uint8_t)hex[unit >> (12 - 4 * digit) & 15];
    return to + 6;
}

/* Copy valid UTF-8 with those characters escaped that could drive a terminal, or (`is_ascii`) all beyond ASCII;
 * `is_json`: the text is JSON already, and what is special in JSON stays as it is. Room as above. */
static uint8_t *kdump_put_characters(uint8_t *to, const uint8_t *p, size_t n, int is_ascii, int is_json) {
    for (size_t at = 0; at < n;) {
        int valid;
        size_t length;
        uint32_t character;
        if (p[at] < 0x80) {
            if (is_json && p[at] != 0x7F) *to++ = p[at];
            else to = kdump_put_json_byte(to, p[at]);
            at++;
            continue;
        }
        length = kdump_sequence(p + at, n - at, &valid);
        character = kdump_character(p + at, length);
        if (!is_ascii && !kdump_is_control(character)) {
            memcpy(to, p + at, length);
            to += length;
        } else if (character < 0x10000) {
            to = kdump_put_unit(to, character);
        } else {
            to = kdump_put_unit(to, 0xD7C0 + (character >> 10));
            to = kdump_put_unit(to, 0xDC00 + (character & 0x3FF));
        }
        at += length;
    }
    return to;
}

/* Bytes in base64; `to` has room for 4 bytes for 3. */
static uint8_t *kdump_put_base64(uint8_t *to, const uint8_t *p, size_t n) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t at = 0;
    for (; n - at >= 3; at += 3, to += 4) {
        uint32_t all = (uint32_t)p[at] << 16 | (uint32_t)p[at + 1] << 8 | p[at + 2];
        for (int digit = 0; digit < 4; digit++) to[digit] = (uint8_t)digits[all >> (18 - 6 * digit) & 63];
    }
    if (at < n) {
        uint32_t all = (uint32_t)p[at] << 16 | (n - at == 2 ? (uint32_t)p[at + 1] << 8 : 0);
        to[0] = (uint8_t)digits[all >> 18];
        to[1] = (uint8_t)digits[all >> 12 & 63];
        to[2] = n - at == 2 ? (uint8_t)digits[all >> 6 & 63] : '=';
        to[3] = '=';
        to += 4;
    }
    return to;
}

/* Whether there is no ASCII in a text but letters and digits. */
static inline int kdump_is_plain(const uint8_t *p, size_t n, size_t room) {
    size_t at = 0;
#if defined(__SSE2__)
    const __m128i zero = _mm_set1_epi8('0'), nine = _mm_set1_epi8(9), lower = _mm_set1_epi8(32);
    const __m128i a = _mm_set1_epi8('a'), z = _mm_set1_epi8(25), none = _mm_setzero_si128();
    for (; at < n && room - at >= 16; at += 16) {
        __m128i c = _mm_loadu_si128((const __m128i *)(p + at));
        __m128i digit = _mm_sub_epi8(c, zero), letter = _mm_sub_epi8(_mm_or_si128(c, lower), a);
        __m128i is_digit = _mm_cmpeq_epi8(_mm_min_epu8(digit, nine), digit);
        __m128i is_letter = _mm_cmpeq_epi8(_mm_min_epu8(letter, z), letter);
        __m128i is_plain = _mm_or_si128(_mm_or_si128(is_digit, is_letter), _mm_cmplt_epi8(c, none));
        uint32_t other = ~(uint32_t)_mm_movemask_epi8(is_plain) & 0xFFFF;
        if (n - at < 16) other &= (1u << (n - at)) - 1;
        if (other) return 0;
    }
#endif
    for (; at < n; at++) {
        uint8_t c = p[at];
        if (c < 0x80 && (uint8_t)(c - '0') > 9 && (uint8_t)((c | 32) - 'a') > 25) return 0;
    }
    return 1;
}

/* Copy `n` bytes; `to` has room for them and the spill. */
static inline uint8_t *kdump_copy(uint8_t *to, const uint8_t *p, size_t n, size_t room) {
#if defined(__SSE2__)
    if (n <= 32 && room >= 32) {
        kdump_copy_32(to, p);
        return to + n;
    }
#endif
    if (n) memcpy(to, p, n);
    return to + n;
}

#endif
