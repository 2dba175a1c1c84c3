// Bugs that a simulated world injects to show that it would find them, each by leaving out
// one safeguard of a scheduler, member, server or client. Their options have a set of bugs
// (`bugs`, bit 1 << bug), which is 0 in production. docs/simulator.md describes each bug.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLUSTER_BUGS_H
#define TUG_CLUSTER_BUGS_H

#include <stdbool.h>
#include <stdint.h>

// BUG(enumerator, name)
#define CLUSTER_BUGS(BUG)                                                                \
    BUG(ACKNOWLEDGE_BEFORE_APPLY, "acknowledge-before-apply")                            \
    BUG(ANSWERED_BEFORE_DURABLE, "answered-before-durable")                              \
    BUG(WITHOUT_ADMIN_NUMBERS, "without-admin-numbers")                                  \
    BUG(WITHOUT_ANSWERS, "without-answers")                                              \
    BUG(WITHOUT_CHAIN_ANSWERS, "without-chain-answers")                                  \
    BUG(WITHOUT_CHAIN_PARTS, "without-chain-parts")                                      \
    BUG(WITHOUT_EPOCH_CHECK, "without-epoch-check")                                      \
    BUG(WITHOUT_EXACT_EPOCHS, "without-exact-epochs")                                    \
    BUG(WITHOUT_FILLED, "without-filled")                                                \
    BUG(WITHOUT_FORGIVING, "without-forgiving")                                          \
    BUG(WITHOUT_FRESH_CLOCK, "without-fresh-clock")                                      \
    BUG(WITHOUT_GENERATION, "without-generation")                                        \
    BUG(WITHOUT_HOLDS, "without-holds")                                                  \
    BUG(WITHOUT_IDENTITY, "without-identity")                                            \
    BUG(WITHOUT_KEPT_PRIMARIES, "without-kept-primaries")                                \
    BUG(WITHOUT_LAST_PUSHES, "without-last-pushes")                                      \
    BUG(WITHOUT_LATE_MARKS, "without-late-marks")                                        \
    BUG(WITHOUT_LATE_WORKERS, "without-late-workers")                                    \
    BUG(WITHOUT_LEASES, "without-leases")                                                \
    BUG(WITHOUT_MARKS, "without-marks")                                                  \
    BUG(WITHOUT_PARTITION_COVERAGE, "without-partition-coverage")                        \
    BUG(WITHOUT_POSITIONS, "without-positions")                                          \
    BUG(WITHOUT_RECORD_EPOCHS, "without-record-epochs")                                  \
    BUG(WITHOUT_RECORD_POSITIONS, "without-record-positions")                            \
    BUG(WITHOUT_RECORD_REPEATS, "without-record-repeats")                                \
    BUG(WITHOUT_REDIAL, "without-redial")                                                \
    BUG(WITHOUT_REPEAT_CHECK, "without-repeat-check")                                    \
    BUG(WITHOUT_ROSTER_OF_SAVES, "without-roster-of-saves")                              \
    BUG(WITHOUT_ROW_CLUSTER, "without-row-cluster")                                      \
    BUG(WITHOUT_ROW_COLLECTED, "without-row-collected")                                  \
    BUG(WITHOUT_ROW_DATA, "without-row-data")                                            \
    BUG(WITHOUT_ROW_FORGETS, "without-row-forgets")                                      \
    BUG(WITHOUT_ROW_GROUP, "without-row-group")                                          \
    BUG(WITHOUT_ROW_MOVES, "without-row-moves")                                          \
    BUG(WITHOUT_ROW_NODE, "without-row-node")                                            \
    BUG(WITHOUT_ROW_OWNERS, "without-row-owners")                                        \
    BUG(WITHOUT_ROW_PASS, "without-row-pass")                                            \
    BUG(WITHOUT_ROW_PIECES, "without-row-pieces")                                        \
    BUG(WITHOUT_ROW_PROCESS, "without-row-process")                                      \
    BUG(WITHOUT_ROW_REPORT, "without-row-report")                                        \
    BUG(WITHOUT_ROW_WANTED, "without-row-wanted")                                        \
    BUG(WITHOUT_ROW_WORK, "without-row-work")                                            \
    BUG(WITHOUT_SECOND_REPORTS, "without-second-reports")                                \
    BUG(WITHOUT_SESSION_CHECK, "without-session-check")                                  \
    BUG(WITHOUT_SIGNS, "without-signs")                                                  \
    BUG(WITHOUT_SILENCE_WATCH, "without-silence-watch")                                  \
    BUG(WITHOUT_STEPS_OF_PUSHES, "without-steps-of-pushes")                              \
    BUG(WITHOUT_STOPS, "without-stops")                                                  \
    BUG(WITHOUT_TAIL, "without-tail")                                                    \
    BUG(WITHOUT_TOLD_PIECES, "without-told-pieces")                                      \
    BUG(WITHOUT_TURNS, "without-turns")                                                  \
    BUG(WITHOUT_UNSURE_WORKERS, "without-unsure-workers")

enum bug {
    NO_BUG,
#define ENUMERATOR(bug, name) bug,
    CLUSTER_BUGS(ENUMERATOR)
#undef ENUMERATOR
        N_BUGS,
};

static inline bool bug_in(uint64_t bugs, enum bug bug)
{
    return (bugs >> bug & 1) != 0;
}

#endif
