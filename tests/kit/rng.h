// Random numbers that depend on a seed and on how many were drawn before.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_RNG_H
#define TUG_KIT_RNG_H

#include <stdint.h>

struct rng {
    uint64_t seed, at;
};

uint64_t rng_below(struct rng *d, uint64_t n);
uint32_t rng_below_u32(struct rng *d, uint32_t n);

#endif
