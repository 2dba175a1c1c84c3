// See dice.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/dice.h"

#include "base/random.h"

uint64_t dice_below(struct dice *d, uint64_t n)
{
    return random_below(d->seed, 0, d->at++, n);
}

uint32_t dice_below_u32(struct dice *d, uint32_t n)
{
    return (uint32_t)dice_below(d, n);
}
