// Random numbers as a function of a seed and of how many were drawn before.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_DICE_H
#define TUG_KIT_DICE_H

#include <stdint.h>

struct dice {
    uint64_t seed, at;
};

uint64_t dice_below(struct dice *d, uint64_t n);
uint32_t dice_below_u32(struct dice *d, uint32_t n);

#endif
