// Whether a function left the upper halves of the vector registers dirty.
//
// A function that used vectors of 32 or 64 bytes has to clear what lies above the lower
// 16 (vzeroupper) before it returns: on Intel every SSE instruction behind it would wait
// for the halves that nobody wants, and whole programs run at half their speed. gcc
// forgets it where a function that is not inlined is given vectors by value.
//
// XGETBV with ecx = 1 tells which parts of the registers are in use. Not every CPU counts
// exactly, and valgrind has no such instruction: uppers_can_tell tries it first.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KERNELS_UPPERS_TESTING_H
#define TUG_KERNELS_UPPERS_TESTING_H

#include <stdbool.h>

#if defined(__x86_64__)

#include <cpuid.h>

static inline void uppers_clear(void)
{
    __asm__ volatile("vzeroupper" ::: "memory");
}

// The upper halves of ymm0 to ymm15 (bit 2) and of zmm0 to zmm15 (bit 6).
static inline bool uppers_dirty(void)
{
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1) : "memory");
    return (low & (1u << 2 | 1u << 6)) != 0;
}

static inline bool uppers_can_tell(void)
{
    enum { XGETBV_1 = 1u << 2 };
    unsigned a, b, c, d;
    if (!__builtin_cpu_supports("avx2") || !__get_cpuid_count(0xd, 1, &a, &b, &c, &d) ||
        (a & XGETBV_1) == 0)
        return false;
    uppers_clear();
    bool clean = !uppers_dirty();
    __asm__ volatile("vpcmpeqd %%ymm0, %%ymm0, %%ymm0" ::: "xmm0", "memory");
    bool dirty = uppers_dirty();
    uppers_clear();
    return clean && dirty;
}

#else

static inline void uppers_clear(void)
{
}
static inline bool uppers_dirty(void)
{
    return false;
}
static inline bool uppers_can_tell(void)
{
    return false;
}

#endif
#endif
