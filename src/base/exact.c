// Exact sums of doubles (exact.h): merging sums and reading their value.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/exact.h"

#include <math.h>

double exact_value(const struct exact *s)
{
    struct exact x = *s;
    double sum = 0, sign = 1;
    exact_carry(&x);
    if (x.special != 0) // also if it is NaN
        return x.special;
    if (x.limb[EXACT_LIMBS - 1] < 0) {
        sign = -1;
        for (int i = 0; i < EXACT_LIMBS; i++)
            x.limb[i] = -x.limb[i];
        exact_carry(&x);
    }
    for (int i = EXACT_LIMBS; i-- > 0;) // add the largest first, so that little is lost
        sum += ldexp((double)x.limb[i], 32 * i - 1074);
    return sign * sum;
}
