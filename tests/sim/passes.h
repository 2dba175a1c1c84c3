// A pass by pieces in a simulated network, from one number: workers lease pieces,
// push what is in them, join late and die; the driver saves in the middle of the
// pass, and somebody else saves, too. What must hold:
//
//   - a save holds the pieces that the scheduler says it holds, each wholly and once, and
//     nothing else; or it is torn, and the driver is told
//   - at the end every row is the sum of all pieces, each once
//   - nobody alive hangs or fails
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SIM_PASSES_H
#define TUG_SIM_PASSES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

// What the scheduler and shards can be told to do wrongly.
enum passes_bug {
    PASSES_BUG_NONE,
    PASSES_BUG_WITHOUT_LATE_MARKS,      // who joins during a save need not mark it
    PASSES_BUG_WITHOUT_ROSTER_OF_SAVES, // a save begins by whatever roster a shard has
    PASSES_BUG_WITHOUT_TURNS, // of two saves each begins where the other has not yet
    PASSES_BUGS
};
const char *passes_bug_name(enum passes_bug bug);

struct passes_options {
    uint64_t seed;
    enum passes_bug bug;
    bool trace;
    const char *dir; // for saves: empty, and empty again afterwards
};

struct passes_counts {
    uint64_t pieces, saves, torn, joins, deaths, resent, events;
    uint64_t others; // saves of the other saver
};

// 0, or TUG_EINTERNAL saying what did not hold. *counts is added to.
int passes_run(const struct passes_options *o, struct passes_counts *counts,
               struct err *e);

#endif
