// exp and log of our own: double additions and multiplications in a fixed order, so that
// they have the same bits on every machine (those of libm differ between versions). The
// relative error is below 1e-14.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_MATHS_H
#define TUG_BASE_MATHS_H

#include <stdint.h>
#include <string.h>

static inline double maths_from_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

// Returns e^x: 0 below -708, and e^708 above 708 (finite, so that a loss stays finite).
// NaN stays NaN.
static inline double maths_exp(double x)
{
    if (x != x)
        return x;
    if (x < -708)
        return 0;
    if (x > 708)
        x = 708;
    // With x = k ln 2 + r and |r| <= ln 2 / 2, e^x is 2^k e^r. Adding and subtracting
    // 1.5 * 2^52 rounds to an integer.
    const double ln2_high = 0x1.62e42fee00000p-1, ln2_low = 0x1.a39ef35793c76p-33;
    double k = (x * 0x1.71547652b82fep0 + 0x1.8p52) - 0x1.8p52;
    double r = (x - k * ln2_high) - k * ln2_low;
    double r2 = r * r, r4 = r2 * r2;
    // The Taylor terms up to r^13, in pairs that the CPU can compute at the same time.
    double p01 = 1 + r, p23 = 1.0 / 2 + r * (1.0 / 6), p45 = 1.0 / 24 + r * (1.0 / 120);
    double p67 = 1.0 / 720 + r * (1.0 / 5040), p89 = 1.0 / 40320 + r * (1.0 / 362880);
    double p1011 = 1.0 / 3628800 + r * (1.0 / 39916800);
    double p1213 = 1.0 / 479001600 + r * (1.0 / 6227020800.0);
    double low = p01 + r2 * p23, middle = p45 + r2 * p67,
           high = p89 + r2 * p1011 + r4 * p1213;
    double e = low + r4 * (middle + r4 * high);
    return e * maths_from_bits((uint64_t)(1023 + (int64_t)k) << 52);
}

// Returns the natural logarithm of a positive normal x; for smaller x, the logarithm of
// the smallest normal number.
static inline double maths_log(double x)
{
    if (!(x >= 0x1p-1022))
        x = 0x1p-1022;
    uint64_t bits;
    memcpy(&bits, &x, sizeof(bits));
    // x = 2^k m with m in [1/sqrt 2, sqrt 2).
    uint64_t shifted = bits - 0x3fe6a09e667f3bcdull;
    int64_t k = (int64_t)shifted >> 52;
    double m = maths_from_bits(bits - ((uint64_t)k << 52));
    // log m = 2 atanh(s), s = (m - 1) / (m + 1), |s| < 0.172.
    double s = (m - 1) / (m + 1), s2 = s * s;
    double p = 1.0 / 19;
    p = p * s2 + 1.0 / 17;
    p = p * s2 + 1.0 / 15;
    p = p * s2 + 1.0 / 13;
    p = p * s2 + 1.0 / 11;
    p = p * s2 + 1.0 / 9;
    p = p * s2 + 1.0 / 7;
    p = p * s2 + 1.0 / 5;
    p = p * s2 + 1.0 / 3;
    double log_m = 2 * s + 2 * s * s2 * p;
    return (double)k * 0x1.62e42fefa39efp-1 + log_m;
}

// Returns 1 / (1 + e^-x).
static inline double maths_sigmoid(double x)
{
    return 1 / (1 + maths_exp(-x));
}

#endif
