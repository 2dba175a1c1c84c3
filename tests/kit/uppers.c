// See uppers.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/uppers.h"

#if defined(__x86_64__)

#include <cpuid.h>

void uppers_clear(void)
{
    __asm__ volatile("vzeroupper" ::: "memory");
}

// Returns whether the upper halves of ymm0 to ymm15 (bit 2) or of zmm0 to zmm15 (bit 6)
// are in use.
bool uppers_dirty(void)
{
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1) : "memory");
    return (low & (1u << 2 | 1u << 6)) != 0;
}

bool uppers_can_tell(void)
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

void uppers_clear(void)
{
}
bool uppers_dirty(void)
{
    return false;
}
bool uppers_can_tell(void)
{
    return false;
}

#endif
