/* What is in a text: bytes beyond ASCII, bytes that are not UTF-8, characters that could drive a terminal.
 *
 * With AVX2, 32 bytes a step, by three look-ups of half bytes as in Keiser and Lemire, "Validating UTF-8 In Less Than
 * One Instruction Per Byte" (Software: Practice and Experience 51, 2021); else character by character. */
#ifndef KDUMP_UTF8_H
#define KDUMP_UTF8_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cpu.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif
#if defined(__GNUC__) && defined(__x86_64__)
#define KDUMP_UTF8_AVX2 1
#include <immintrin.h>
#endif

/* KDUMP_CONTROLS: of U+0080 to U+009F, U+2028 and U+2029 there is one. */
enum kdump_text { KDUMP_FOREIGN = 1, KDUMP_NOT_UTF8 = 2, KDUMP_CONTROLS = 4 };

static inline int kdump_continues(uint8_t byte) { return (byte & 0xC0) == 0x80; }

/* How many bytes become one character, or one replacement (formats.java_utf8). */
static size_t kdump_sequence(const uint8_t *p, size_t left, int *valid) {
    uint8_t lead = p[0], second;
    *valid = 0;
    if (lead < 0xC2 || lead > 0xF4 || left == 1) return 1;
    second = p[1];
    if (!kdump_continues(second)) return 1;
    if (lead <= 0xDF) {
        *valid = 1;
        return 2;
    }
    if (lead <= 0xEF) {
        if (lead == 0xE0 && second < 0xA0) return 1;
        if (left == 2 || !kdump_continues(p[2])) return 2;
        *valid = !(lead == 0xED && second >= 0xA0);
        return 3;
    }
    if ((lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second >= 0x90)) return 1;
    if (left == 2 || !kdump_continues(p[2])) return 2;
    if (left == 3 || !kdump_continues(p[3])) return 3;
    *valid = 1;
    return 4;
}

/* The number of a valid character of two to four bytes. */
static inline uint32_t kdump_character(const uint8_t *p, size_t length) {
    if (length == 2) return (uint32_t)(p[0] & 0x1F) << 6 | (p[1] & 0x3F);
    if (length == 3) return (uint32_t)(p[0] & 0x0F) << 12 | (uint32_t)(p[1] & 0x3F) << 6 | (p[2] & 0x3F);
    return (uint32_t)(p[0] & 0x07) << 18 | (uint32_t)(p[1] & 0x3F) << 12 | (uint32_t)(p[2] & 0x3F) << 6 |
           (p[3] & 0x3F);
}

/* Whether a character beyond ASCII could drive a terminal, or end a line. */
static inline int kdump_is_control(uint32_t character) {
    return character < 0xA0 || character == 0x2028 || character == 0x2029;
}

static int kdump_plain_utf8(const uint8_t *p, size_t n) {
    int found = KDUMP_FOREIGN, valid;
    for (size_t at = 0; at < n;) {
        size_t length;
        if (p[at] < 0x80) {
            at++;
            continue;
        }
        length = kdump_sequence(p + at, n - at, &valid);
        if (!valid) return KDUMP_FOREIGN | KDUMP_NOT_UTF8;
        if (kdump_is_control(kdump_character(p + at, length))) found |= KDUMP_CONTROLS;
        at += length;
    }
    return found;
}

#if defined(KDUMP_UTF8_AVX2)
/* What two bytes can be wrong by; the last one is no mistake where a longer sequence has it. */
#define KDUMP_SHORT 1u      /* no byte follows that must */
#define KDUMP_LONG 2u       /* one follows that must not */
#define KDUMP_OVER3 4u      /* three bytes for what takes two */
#define KDUMP_LARGE 8u      /* above U+10FFFF, lead F4 */
#define KDUMP_SURROGATE 16u /* U+D800 to U+DFFF */
#define KDUMP_OVER2 32u     /* two bytes for what takes one */
#define KDUMP_LARGER 64u    /* above U+10FFFF, another lead; or four bytes for what takes three */
#define KDUMP_TWO 128u      /* two bytes that continue */
#define KDUMP_CARRY (KDUMP_SHORT | KDUMP_LONG | KDUMP_TWO)
#define KDUMP_ROW(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)                                                      \
    _mm256_setr_epi8((char)(a), (char)(b), (char)(c), (char)(d), (char)(e), (char)(f), (char)(g), (char)(h), (char)(i), \
                     (char)(j), (char)(k), (char)(l), (char)(m), (char)(n), (char)(o), (char)(p), (char)(a), (char)(b), \
                     (char)(c), (char)(d), (char)(e), (char)(f), (char)(g), (char)(h), (char)(i), (char)(j), (char)(k), \
                     (char)(l), (char)(m), (char)(n), (char)(o), (char)(p))

/* The block's mistakes, and its controls, given the block in front of it. */
__attribute__((target("avx2"))) static inline void kdump_utf8_block(
    __m256i now, __m256i before, __m256i *mistakes, __m256i *controls
) {
    const uint8_t all = KDUMP_CARRY;
    const __m256i nibble = _mm256_set1_epi8(0x0F), two = _mm256_permute2x128_si256(before, now, 0x21);
    const __m256i last = _mm256_alignr_epi8(now, two, 15), second = _mm256_alignr_epi8(now, two, 14);
    const __m256i third = _mm256_alignr_epi8(now, two, 13);
    const __m256i by_lead = KDUMP_ROW(
        KDUMP_LONG, KDUMP_LONG, KDUMP_LONG, KDUMP_LONG, KDUMP_LONG, KDUMP_LONG, KDUMP_LONG, KDUMP_LONG, KDUMP_TWO,
        KDUMP_TWO, KDUMP_TWO, KDUMP_TWO, KDUMP_SHORT | KDUMP_OVER2, KDUMP_SHORT,
        KDUMP_SHORT | KDUMP_OVER3 | KDUMP_SURROGATE, KDUMP_SHORT | KDUMP_LARGE | KDUMP_LARGER
    );
    const __m256i by_low = KDUMP_ROW(
        all | KDUMP_OVER3 | KDUMP_OVER2 | KDUMP_LARGER, all | KDUMP_OVER2, all, all, all | KDUMP_LARGE,
        all | KDUMP_LARGE | KDUMP_LARGER, all | KDUMP_LARGE | KDUMP_LARGER, all | KDUMP_LARGE | KDUMP_LARGER,
        all | KDUMP_LARGE | KDUMP_LARGER, all | KDUMP_LARGE | KDUMP_LARGER, all | KDUMP_LARGE | KDUMP_LARGER,
        all | KDUMP_LARGE | KDUMP_LARGER, all | KDUMP_LARGE | KDUMP_LARGER,
        all | KDUMP_LARGE | KDUMP_LARGER | KDUMP_SURROGATE, all | KDUMP_LARGE | KDUMP_LARGER,
        all | KDUMP_LARGE | KDUMP_LARGER
    );
    const __m256i by_second = KDUMP_ROW(
        KDUMP_SHORT, KDUMP_SHORT, KDUMP_SHORT, KDUMP_SHORT, KDUMP_SHORT, KDUMP_SHORT, KDUMP_SHORT, KDUMP_SHORT,
        KDUMP_LONG | KDUMP_OVER2 | KDUMP_TWO | KDUMP_OVER3 | KDUMP_LARGER,
        KDUMP_LONG | KDUMP_OVER2 | KDUMP_TWO | KDUMP_OVER3 | KDUMP_LARGE,
        KDUMP_LONG | KDUMP_OVER2 | KDUMP_TWO | KDUMP_SURROGATE | KDUMP_LARGE,
        KDUMP_LONG | KDUMP_OVER2 | KDUMP_TWO | KDUMP_SURROGATE | KDUMP_LARGE, KDUMP_SHORT, KDUMP_SHORT, KDUMP_SHORT,
        KDUMP_SHORT
    );
    const __m256i pairs = _mm256_and_si256(
        _mm256_and_si256(
            _mm256_shuffle_epi8(by_lead, _mm256_and_si256(_mm256_srli_epi16(last, 4), nibble)),
            _mm256_shuffle_epi8(by_low, _mm256_and_si256(last, nibble))
        ),
        _mm256_shuffle_epi8(by_second, _mm256_and_si256(_mm256_srli_epi16(now, 4), nibble))
    );
    const __m256i longer = _mm256_or_si256(
        _mm256_subs_epu8(second, _mm256_set1_epi8(0x60)), _mm256_subs_epu8(third, _mm256_set1_epi8(0x70))
    );
    const __m256i c1 = _mm256_and_si256(
        _mm256_cmpeq_epi8(last, _mm256_set1_epi8((char)0xC2)), _mm256_cmpgt_epi8(_mm256_set1_epi8((char)0xA0), now)
    );
    const __m256i separators = _mm256_and_si256(
        _mm256_and_si256(
            _mm256_cmpeq_epi8(second, _mm256_set1_epi8((char)0xE2)),
            _mm256_cmpeq_epi8(last, _mm256_set1_epi8((char)0x80))
        ),
        _mm256_cmpeq_epi8(_mm256_and_si256(now, _mm256_set1_epi8((char)0xFE)), _mm256_set1_epi8((char)0xA8))
    );
    *mistakes = _mm256_or_si256(
        *mistakes, _mm256_xor_si256(_mm256_and_si256(longer, _mm256_set1_epi8((char)0x80)), pairs)
    );
    *controls = _mm256_or_si256(*controls, _mm256_or_si256(c1, separators));
}

__attribute__((target("avx2"))) static int kdump_fast_utf8(const uint8_t *p, size_t n) {
    __m256i before = _mm256_setzero_si256(), mistakes = before, controls = before, now;
    uint8_t rest[32] = {0};
    size_t at = 0;
    int found = KDUMP_FOREIGN;
    for (; n - at >= 32; at += 32) {
        now = _mm256_loadu_si256((const __m256i *)(p + at));
        kdump_utf8_block(now, before, &mistakes, &controls);
        before = now;
    }
    memcpy(rest, p + at, n - at); /* the zeros behind it show what is cut off */
    kdump_utf8_block(_mm256_loadu_si256((const __m256i *)rest), before, &mistakes, &controls);
    if (!_mm256_testz_si256(mistakes, mistakes)) found |= KDUMP_NOT_UTF8;
    else if (!_mm256_testz_si256(controls, controls)) found |= KDUMP_CONTROLS;
    return found;
}
#endif

static int kdump_utf8_has_avx2 = 0;

static void kdump_utf8_init(void) { kdump_utf8_has_avx2 = kdump_cpu_features() & KDUMP_AVX2; }

/* The parts of kdump_text that a text has; not told where it is not UTF-8: the controls. Nothing behind it is read. */
static int kdump_text_of(const uint8_t *p, size_t n) {
    size_t at = 0;
#if defined(__SSE2__)
    for (; n - at >= 32; at += 32) {
        const __m128i *block = (const __m128i *)(p + at);
        if (_mm_movemask_epi8(_mm_or_si128(_mm_loadu_si128(block), _mm_loadu_si128(block + 1)))) break;
    }
#endif
    if (n >= 8) {
        uint64_t word;
        for (; n - at > 8; at += 8) {
            memcpy(&word, p + at, 8);
            if (word & UINT64_C(0x8080808080808080)) break;
        }
        if (n - at <= 8) {
            memcpy(&word, p + n - 8, 8);
            if (!(word & UINT64_C(0x8080808080808080))) return 0;
        }
    } else {
        while (at < n && p[at] < 0x80) at++;
        if (at == n) return 0;
    }
#if defined(KDUMP_UTF8_AVX2)
    if (kdump_utf8_has_avx2) return kdump_fast_utf8(p + at, n - at);
#endif
    return kdump_plain_utf8(p + at, n - at);
}

#endif
