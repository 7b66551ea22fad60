/* CRC-32 (IEEE, message formats v0 and v1) and CRC-32C (Castagnoli, format v2), both reflected.
 *
 * Plain C works eight bytes a step from tables. Where the processor has an instruction for CRC-32C, three lanes run side
 * by side, because the instruction's latency is three times its throughput; a lane's CRC is moved over the bytes of the
 * lanes behind it by a table of the linear map "append LANE zero bytes". */
#ifndef KDUMP_CRC_H
#define KDUMP_CRC_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cpu.h"

#if defined(__GNUC__) && defined(__x86_64__)
#define KDUMP_CRC_X86 1
#include <nmmintrin.h>
#elif defined(__GNUC__) && defined(__aarch64__) && (defined(__linux__) || defined(__APPLE__))
#define KDUMP_CRC_ARM 1
#include <arm_acle.h>
#endif

#define KDUMP_CRC32_POLY 0xEDB88320u
#define KDUMP_CRC32C_POLY 0x82F63B78u
#define KDUMP_LONG_LANE 2048
#define KDUMP_SHORT_LANE 128

static uint32_t kdump_crc32_table[8][256];
static uint32_t kdump_crc32c_table[8][256];
static uint32_t kdump_long_shift[4][256];
static uint32_t kdump_short_shift[4][256];
static int kdump_crc_hardware = 0;

static void kdump_fill_table(uint32_t table[8][256], uint32_t poly) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ (poly & (0u - (crc & 1u)));
        table[0][byte] = crc;
    }
    for (uint32_t byte = 0; byte < 256; byte++)
        for (int k = 1; k < 8; k++)
            table[k][byte] = (table[k - 1][byte] >> 8) ^ table[0][table[k - 1][byte] & 0xff];
}

/* The map is linear, so the images of the 32 single bits are enough to fill its table. */
static void kdump_fill_shift(uint32_t shift[4][256], size_t zeros) {
    uint32_t image[32];
    for (int bit = 0; bit < 32; bit++) {
        uint32_t crc = 1u << bit;
        for (size_t i = 0; i < zeros; i++) crc = (crc >> 8) ^ kdump_crc32c_table[0][crc & 0xff];
        image[bit] = crc;
    }
    for (int k = 0; k < 4; k++)
        for (int byte = 0; byte < 256; byte++) {
            uint32_t crc = 0;
            for (int bit = 0; bit < 8; bit++)
                if (byte >> bit & 1) crc ^= image[8 * k + bit];
            shift[k][byte] = crc;
        }
}

static void kdump_crc_init(void) {
    kdump_fill_table(kdump_crc32_table, KDUMP_CRC32_POLY);
    kdump_fill_table(kdump_crc32c_table, KDUMP_CRC32C_POLY);
    kdump_crc_hardware = (kdump_cpu_features() & (KDUMP_SSE42 | KDUMP_ARM_CRC)) != 0;
    if (kdump_crc_hardware) {
        kdump_fill_shift(kdump_long_shift, KDUMP_LONG_LANE);
        kdump_fill_shift(kdump_short_shift, KDUMP_SHORT_LANE);
    }
}

static const char *kdump_crc32c_method(void) {
    if (!kdump_crc_hardware) return "tables";
#if defined(KDUMP_CRC_X86)
    return "SSE 4.2";
#else
    return "ARMv8 CRC";
#endif
}

static uint32_t kdump_crc_tables(uint32_t table[8][256], uint32_t crc, const uint8_t *p, size_t n) {
    while (n >= 8) {
        uint32_t low = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
        crc = table[7][low & 0xff] ^ table[6][low >> 8 & 0xff] ^ table[5][low >> 16 & 0xff] ^ table[4][low >> 24]
            ^ table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
        p += 8;
        n -= 8;
    }
    while (n--) crc = (crc >> 8) ^ table[0][(crc ^ *p++) & 0xff];
    return crc;
}

#if defined(KDUMP_CRC_X86) || defined(KDUMP_CRC_ARM)
#if defined(KDUMP_CRC_X86)
#if defined(__clang__)
#define KDUMP_HARDWARE __attribute__((target("sse4.2,crc32")))
#else
#define KDUMP_HARDWARE __attribute__((target("sse4.2")))
#endif
#define KDUMP_STEP8(crc, word) _mm_crc32_u64((crc), (word))
#define KDUMP_STEP1(crc, byte) _mm_crc32_u8((uint32_t)(crc), (byte))
#else
#if defined(__clang__)
#define KDUMP_HARDWARE __attribute__((target("crc")))
#else
#define KDUMP_HARDWARE __attribute__((target("+crc")))
#endif
#define KDUMP_STEP8(crc, word) __crc32cd((uint32_t)(crc), (word))
#define KDUMP_STEP1(crc, byte) __crc32cb((uint32_t)(crc), (byte))
#endif

static inline uint64_t kdump_word(const uint8_t *p) {
    uint64_t word;
    memcpy(&word, p, 8);
    return word;
}

static inline uint32_t kdump_shift(uint32_t shift[4][256], uint32_t crc) {
    return shift[0][crc & 0xff] ^ shift[1][crc >> 8 & 0xff] ^ shift[2][crc >> 16 & 0xff] ^ shift[3][crc >> 24];
}

#define KDUMP_LANES(LANE, SHIFT)                                          \
    while (n >= 3 * (LANE)) {                                             \
        uint64_t a = crc, b = 0, c = 0;                                   \
        for (size_t i = 0; i < (LANE); i += 8) {                          \
            a = KDUMP_STEP8(a, kdump_word(p + i));                        \
            b = KDUMP_STEP8(b, kdump_word(p + (LANE) + i));               \
            c = KDUMP_STEP8(c, kdump_word(p + 2 * (LANE) + i));           \
        }                                                                 \
        crc = kdump_shift(SHIFT, (uint32_t)a) ^ (uint32_t)b;              \
        crc = kdump_shift(SHIFT, (uint32_t)crc) ^ (uint32_t)c;            \
        p += 3 * (LANE);                                                  \
        n -= 3 * (LANE);                                                  \
    }

KDUMP_HARDWARE static uint32_t kdump_crc32c_hardware(uint32_t start, const uint8_t *p, size_t n) {
    uint64_t crc = start;
    KDUMP_LANES(KDUMP_LONG_LANE, kdump_long_shift)
    KDUMP_LANES(KDUMP_SHORT_LANE, kdump_short_shift)
    for (; n >= 8; p += 8, n -= 8) crc = KDUMP_STEP8(crc, kdump_word(p));
    for (; n; p++, n--) crc = KDUMP_STEP1(crc, *p);
    return (uint32_t)crc;
}
#endif

/* Both take the CRC of what came before (0 at the start), as zlib's crc32 does. */
static uint32_t kdump_crc32c(uint32_t value, const uint8_t *p, size_t n) {
#if defined(KDUMP_CRC_X86) || defined(KDUMP_CRC_ARM)
    if (kdump_crc_hardware) return ~kdump_crc32c_hardware(~value, p, n);
#endif
    return ~kdump_crc_tables(kdump_crc32c_table, ~value, p, n);
}

static uint32_t kdump_crc32(uint32_t value, const uint8_t *p, size_t n) {
    return ~kdump_crc_tables(kdump_crc32_table, ~value, p, n);
}

#endif
