// Checks whether floats are finite. The loops check all values before the result is used,
// because the compiler vectorizes only a loop without a branch.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/finite.h"

#include <stdint.h>
#include <string.h>

// Compares the bits without the sign as signed integers, which even the oldest vector
// instructions can compare.
static const int32_t infinity = 0x7f800000;
// the smallest float that is rounded to infinity when it becomes a bf16
static const int32_t infinite_bf16 = 0x7f7f8000;

static bool all_below(const char *p, size_t n, int32_t limit)
{
    int32_t bad = 0;
    for (size_t i = 0; i < n; i++) {
        int32_t x;
        memcpy(&x, p + i * sizeof(x), sizeof(x));
        bad |= -((x & 0x7fffffff) >= limit);
    }
    return bad == 0;
}

bool finite_floats(const void *floats, size_t n)
{
    return all_below(floats, n, infinity);
}

bool finite_below(const void *floats, size_t n, float limit)
{
    int32_t bits;
    memcpy(&bits, &limit, sizeof(bits));
    return all_below(floats, n, bits);
}

bool finite_when_bf16(const void *floats, size_t n)
{
    return all_below(floats, n, infinite_bf16);
}

static bool none_has_all(const char *p, size_t n, uint16_t exponent)
{
    uint16_t bad = 0;
    for (size_t i = 0; i < n; i++) {
        uint16_t x;
        memcpy(&x, p + i * sizeof(x), sizeof(x));
        bad |= (x & exponent) == exponent;
    }
    return bad == 0;
}

bool finite_bf16(const void *halves, size_t n)
{
    return none_has_all(halves, n, 0x7f80);
}

bool finite_halves(const void *halves, size_t n)
{
    return none_has_all(halves, n, 0x7c00);
}

bool finite_doubles(const void *doubles, size_t n)
{
    const char *p = doubles;
    const uint64_t exponent = UINT64_C(0x7ff) << 52;
    bool bad = false;
    for (size_t i = 0; i < n; i++) {
        uint64_t x;
        memcpy(&x, p + i * sizeof(x), sizeof(x));
        bad |= (x & exponent) == exponent;
    }
    return !bad;
}
