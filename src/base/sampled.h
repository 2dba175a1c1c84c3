// Chooses how often a whole state is checked. Consistency checks (`*_check`, without
// NDEBUG) run after every event, and some look at the whole state. In small clusters they
// always run; in large ones so rarely that an event does not cost more.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_SAMPLED_H
#define TUG_BASE_SAMPLED_H

#include <stdbool.h>
#include <stdint.h>

enum { SAMPLED_SMALL = 64 };

// Returns whether to check all n objects after this event; `events` is the number of
// events before it.
static inline bool sampled_now(uint64_t events, uint64_t n)
{
    return n <= SAMPLED_SMALL || events % (n / SAMPLED_SMALL + 1) == 0;
}

#endif
