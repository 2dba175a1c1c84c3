// A whole cluster in a simulated network, from one number: its size, what its workers do,
// what the network does to their messages, who dies and which partitions move.
//
// The scheduler, the shards and the clients are those of the processes. Workers push
// integers into a table that adds them up, and pull. What must hold:
//
//   - at the end every row is the sum of the pushes that were acknowledged, and of some
//     that dead workers had in flight: each of those, in each partition, wholly or not
//   - a push that another worker repeats for a dead one, under the same identity, counts
//     once
//   - what a pull returns holds all pushes that were acknowledged before it was made, and
//     none that had not been made when it ended
//   - in tables of mode ssp it was made by nobody who is further ahead of the slowest
//     living worker than the staleness; one that comes late counts from its first tick
//     on, and nobody waits for it before
//   - in tables of mode sync it returns the sum of all batches before, to the bit
//   - rows lie where the placement says and nowhere else
//   - when the scheduler is killed and started again, all who were there end with an
//     error, and until then what is said above holds
//   - who lives is not taken for dead, though links of its heartbeats, or
//     its others, fall silent
//   - frames of strangers and of a session that has ended change nothing
//   - nobody alive hangs or fails, and everybody leaves at the end
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SIM_WORLD_H
#define TUG_SIM_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

// What a shard can be told to do wrongly, so that a test sees it found.
enum world_bug {
    BUG_NONE,
    BUG_WITHOUT_REPEAT_CHECK,
    BUG_WITHOUT_EPOCH_CHECK,
    BUG_ACKNOWLEDGE_BEFORE_APPLY,
    BUG_WITHOUT_LATE_WORKERS,
    BUG_WITHOUT_IDENTITY,
    BUG_WITHOUT_SIGNS,  // who sends no heartbeats is not asked before it is dead
    BUG_WITHOUT_REDIAL, // members keep their link to the scheduler while it is silent
    BUG_WITHOUT_SILENCE_WATCH, // clients keep theirs to servers
    BUG_WITHOUT_SESSION_CHECK, // servers listen to whom has no session, or had one
    BUGS
};
const char *world_bug_name(enum world_bug bug);

struct world_options {
    uint64_t seed;
    enum world_bug bug;
    bool trace; // every event goes to standard output
};

// How much happened: a simulation in which nothing happens finds nothing.
struct world_counts {
    uint64_t pushes, pulls, deaths, moves, repeated, resent, refused, events;
    uint64_t late, restarts;
    uint64_t strange; // frames of strangers
};

// 0, or TUG_EINTERNAL saying what did not hold. *counts is added to.
int world_run(const struct world_options *o, struct world_counts *counts, struct err *e);

#endif
