// A cluster with tables that live in a simulated network, from one number: workers
// push integers into a table of sums, mark saves, do steps and die; the first of them
// saves, shrinks another table and ends days, and somebody else saves, too. What must hold:
//
//   - a marked save has, of each living worker, the pushes before its mark and none that
//     are behind it; of one that died without a mark, all that were acknowledged
//   - at the end every row is the sum of what was acknowledged, and of some that the dead
//     had in flight
//   - shrinks and days happen as often as they were ordered, on every loop
//   - the global step is that of all sessions together, of the dead, too
//   - nobody alive hangs or fails
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SIM_TABLES_H
#define TUG_SIM_TABLES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

// What shards can be told to do wrongly.
enum tables_bug {
    TABLES_BUG_NONE,
    TABLES_BUG_WITHOUT_REPEAT_CHECK,
    TABLES_BUG_WITHOUT_ORDER_CHECK,
    TABLES_BUG_WITHOUT_MARKS,
    TABLES_BUG_WITHOUT_TURNS, // of two saves each begins where the other has not yet
    TABLES_BUGS
};
const char *tables_bug_name(enum tables_bug bug);

struct tables_options {
    uint64_t seed;
    enum tables_bug bug;
    bool trace;
    const char *dir; // for saves: empty, and empty again afterwards
};

struct tables_counts {
    uint64_t pushes, saves, taken_back, orders, deaths, resent, events;
    uint64_t others; // saves of the other saver
};

// 0, or TUG_EINTERNAL saying what did not hold. *counts is added to.
int tables_run(const struct tables_options *o, struct tables_counts *counts,
               struct err *e);

#endif
