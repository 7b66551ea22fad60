/* What the processor can do, asked of it alone: not every compiler's library answers __builtin_cpu_supports(). */
#ifndef KDUMP_CPU_H
#define KDUMP_CPU_H

enum kdump_cpu { KDUMP_SSE42 = 1, KDUMP_AVX2 = 2, KDUMP_AVX512F = 4, KDUMP_ARM_CRC = 8 };

#if defined(__GNUC__) && defined(__x86_64__)
#include <cpuid.h>

static int kdump_cpu_features(void) {
    unsigned int a, b, c, d, low, high;
    int found = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return 0;
    if (c & 1u << 20) found |= KDUMP_SSE42;
    if (!(c & 1u << 27)) return found; /* the system does not say which registers it keeps */
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if ((low & 0x06) != 0x06 || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return found;
    if (b & 1u << 5) found |= KDUMP_AVX2;
    if ((low & 0xe0) == 0xe0 && b & 1u << 16) found |= KDUMP_AVX512F;
    return found;
}

#elif defined(__GNUC__) && defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>

static int kdump_cpu_features(void) { return getauxval(AT_HWCAP) & 1ul << 7 ? KDUMP_ARM_CRC : 0; }

#elif defined(__GNUC__) && defined(__aarch64__) && defined(__APPLE__)

static int kdump_cpu_features(void) { return KDUMP_ARM_CRC; } /* every Mac with such a processor has it */

#else

static int kdump_cpu_features(void) { return 0; }

#endif
#endif
