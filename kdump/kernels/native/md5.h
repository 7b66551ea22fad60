/* MD5 (RFC 1321) of short inputs, such as the keys of records. */
#ifndef KDUMP_MD5_H
#define KDUMP_MD5_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cpu.h"

static const uint32_t kdump_md5_sines[64] = {
    0xd76aa478u, 0xe8c7b756u, 0x242070dbu, 0xc1bdceeeu, 0xf57c0fafu, 0x4787c62au, 0xa8304613u, 0xfd469501u,
    0x698098d8u, 0x8b44f7afu, 0xffff5bb1u, 0x895cd7beu, 0x6b901122u, 0xfd987193u, 0xa679438eu, 0x49b40821u,
    0xf61e2562u, 0xc040b340u, 0x265e5a51u, 0xe9b6c7aau, 0xd62f105du, 0x02441453u, 0xd8a1e681u, 0xe7d3fbc8u,
    0x21e1cde6u, 0xc33707d6u, 0xf4d50d87u, 0x455a14edu, 0xa9e3e905u, 0xfcefa3f8u, 0x676f02d9u, 0x8d2a4c8au,
    0xfffa3942u, 0x8771f681u, 0x6d9d6122u, 0xfde5380cu, 0xa4beea44u, 0x4bdecfa9u, 0xf6bb4b60u, 0xbebfbc70u,
    0x289b7ec6u, 0xeaa127fau, 0xd4ef3085u, 0x04881d05u, 0xd9d4d039u, 0xe6db99e5u, 0x1fa27cf8u, 0xc4ac5665u,
    0xf4292244u, 0x432aff97u, 0xab9423a7u, 0xfc93a039u, 0x655b59c3u, 0x8f0ccc92u, 0xffeff47du, 0x85845dd1u,
    0x6fa87e4fu, 0xfe2ce6e0u, 0xa3014314u, 0x4e0811a1u, 0xf7537e82u, 0xbd3af235u, 0x2ad7d2bbu, 0xeb86d391u};

/* Sixteen steps on words of type T: which word each takes, what it makes of the other three, and four shifts in turn.
 * Compilers unroll it, so that everything but the data is constant. */
#define KDUMP_MD5_ROUND(T, round, word, mixed, s0, s1, s2, s3)                                 \
    for (int i = 0; i < 16; i++) {                                                             \
        const int shift = i % 4 == 0 ? s0 : i % 4 == 1 ? s1 : i % 4 == 2 ? s2 : s3;            \
        const T t = a + (mixed) + kdump_md5_sines[16 * round + i] + words[(word) & 15];        \
        a = d, d = c, c = b;                                                                   \
        b += t << shift | t >> (32 - shift);                                                   \
    }

#define KDUMP_MD5_ROUNDS(T)                                              \
    KDUMP_MD5_ROUND(T, 0, i, d ^ (b & (c ^ d)), 7, 12, 17, 22)           \
    KDUMP_MD5_ROUND(T, 1, 5 * i + 1, c ^ (d & (b ^ c)), 5, 9, 14, 20)    \
    KDUMP_MD5_ROUND(T, 2, 3 * i + 5, b ^ c ^ d, 4, 11, 16, 23)           \
    KDUMP_MD5_ROUND(T, 3, 7 * i, c ^ (b | ~d), 6, 10, 15, 21)

#define KDUMP_MD5_START 0x67452301u, 0xefcdab89u, 0x98badcfeu, 0x10325476u

static inline uint32_t kdump_md5_load(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline void kdump_md5_store(uint8_t *p, uint32_t word) {
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(word >> (8 * i));
}

static void kdump_md5_block(uint32_t state[4], const uint8_t *p) {
    uint32_t words[16], a = state[0], b = state[1], c = state[2], d = state[3];
    for (int i = 0; i < 16; i++) words[i] = kdump_md5_load(p + 4 * i);
    KDUMP_MD5_ROUNDS(uint32_t)
    state[0] += a, state[1] += b, state[2] += c, state[3] += d;
}

/* What follows the data: a one, zeros, and its length in bits at the end of a block. The blocks' bytes. */
static inline size_t kdump_md5_pad(uint8_t tail[128], const uint8_t *p, size_t left, uint64_t n) {
    const size_t end = left < 56 ? 64 : 128;
    memset(tail, 0, end);
    if (left) memcpy(tail, p, left);
    tail[left] = 0x80;
    kdump_md5_store(tail + end - 8, (uint32_t)(n << 3));
    kdump_md5_store(tail + end - 4, (uint32_t)(n >> 29));
    return end;
}

static void kdump_md5(const uint8_t *p, size_t n, uint8_t sum[16]) {
    uint32_t state[4] = {KDUMP_MD5_START};
    uint8_t tail[128];
    size_t left = n;
    for (; left >= 64; left -= 64, p += 64) kdump_md5_block(state, p);
    const size_t end = kdump_md5_pad(tail, p, left, n);
    for (size_t at = 0; at < end; at += 64) kdump_md5_block(state, tail + at);
    for (int i = 0; i < 4; i++) kdump_md5_store(sum + 4 * i, state[i]);
}

/* Several short inputs, side by side in vectors where the compiler has these: a single sum is one long chain of steps
 * that wait for each other. Compiled for each kind of vectors; kdump_md5_init() picks what the processor has. */
#define KDUMP_MD5_LANES 16
#define KDUMP_MD5_SHORT 55

#if defined(__GNUC__)
typedef uint32_t kdump_lanes __attribute__((vector_size(4 * KDUMP_MD5_LANES)));

/* The only block of each input, word by word across the lanes. */
static inline void kdump_md5_spread(
    uint32_t words[16][KDUMP_MD5_LANES], const uint8_t *const *p, const size_t *n) {
    memset(words, 0, 64 * KDUMP_MD5_LANES);
    for (int lane = 0; lane < KDUMP_MD5_LANES; lane++) {
        const size_t whole = n[lane] / 4, rest = n[lane] % 4;
        uint32_t last = 0x80u << (8 * rest);
        for (size_t i = 0; i < whole; i++) words[i][lane] = kdump_md5_load(p[lane] + 4 * i);
        for (size_t i = 0; i < rest; i++) last |= (uint32_t)p[lane][4 * whole + i] << (8 * i);
        words[whole][lane] = last;
        words[14][lane] = (uint32_t)n[lane] << 3;
    }
}

#define KDUMP_MD5_SHORTS(name, attributes)                                                                         \
    attributes static void name(const uint8_t *const *p, const size_t *n, uint8_t *const *sums) {                  \
        static const uint32_t start[4] = {KDUMP_MD5_START};                                                        \
        const kdump_lanes zero = {0};                                                                              \
        uint32_t spread[16][KDUMP_MD5_LANES], out[4][KDUMP_MD5_LANES];                                             \
        kdump_lanes words[16], a = zero + start[0], b = zero + start[1], c = zero + start[2], d = zero + start[3]; \
        kdump_md5_spread(spread, p, n);                                                                            \
        memcpy(words, spread, sizeof words);                                                                       \
        KDUMP_MD5_ROUNDS(kdump_lanes)                                                                              \
        a += start[0], b += start[1], c += start[2], d += start[3];                                                \
        memcpy(out[0], &a, sizeof a), memcpy(out[1], &b, sizeof b);                                                \
        memcpy(out[2], &c, sizeof c), memcpy(out[3], &d, sizeof d);                                                \
        for (int lane = 0; lane < KDUMP_MD5_LANES; lane++)                                                         \
            for (int i = 0; i < 4; i++) kdump_md5_store(sums[lane] + 4 * i, out[i][lane]);                         \
    }

KDUMP_MD5_SHORTS(kdump_md5_shorts, )
#if defined(__x86_64__)
KDUMP_MD5_SHORTS(kdump_md5_shorts_avx2, __attribute__((target("avx2"))))
KDUMP_MD5_SHORTS(kdump_md5_shorts_avx512, __attribute__((target("avx512f"))))
#endif
#else
static void kdump_md5_shorts(const uint8_t *const *p, const size_t *n, uint8_t *const *sums) {
    for (int lane = 0; lane < KDUMP_MD5_LANES; lane++) kdump_md5(p[lane], n[lane], sums[lane]);
}
#endif

/* The sums of KDUMP_MD5_LANES inputs of at most KDUMP_MD5_SHORT bytes. */
static void (*kdump_md5_short)(const uint8_t *const *p, const size_t *n, uint8_t *const *sums) = kdump_md5_shorts;

static void kdump_md5_init(void) {
#if defined(__GNUC__) && defined(__x86_64__)
    const int features = kdump_cpu_features();
    if (features & KDUMP_AVX512F)
        kdump_md5_short = kdump_md5_shorts_avx512;
    else if (features & KDUMP_AVX2)
        kdump_md5_short = kdump_md5_shorts_avx2;
#endif
}

#endif
