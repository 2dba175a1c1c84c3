// See rng.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/rng.h"

#include "base/random.h"

uint64_t rng_below(struct rng *d, uint64_t n)
{
    return random_below(d->seed, 0, d->at++, n);
}

uint32_t rng_below_u32(struct rng *d, uint32_t n)
{
    return (uint32_t)rng_below(d, n);
}
