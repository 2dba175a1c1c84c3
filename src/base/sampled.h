// Chooses how often a whole state is checked. Checks of what must hold (`*_check`,
// without NDEBUG) run after every event, and some look at all there is: in small clusters
// they always do, in large ones so rarely that an event costs no more than in small ones.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_SAMPLED_H
#define TUG_BASE_SAMPLED_H

#include <stdbool.h>
#include <stdint.h>

enum { SAMPLED_SMALL = 64 };

// Whether the whole of `n` things is looked at after this event, of so many before.
static inline bool sampled_now(uint64_t events, uint64_t n)
{
    return n <= SAMPLED_SMALL || events % (n / SAMPLED_SMALL + 1) == 0;
}

#endif
