// Simulated worlds, one for each seed. A test runs some seeds, which must all pass, and
// checks that a failure is found for each safeguard that can be switched off. By hand:
//
//     test_sim_x --seeds 100000 [--from 1] [--bug NAME]   stops at the first failure
//     test_sim_x --seed 4711 --trace                      runs one seed, and prints every event
//     test_sim_x --state ...                              with schedulers that die and come back
//     test_sim_x --rounds ...                             with busy processes
//
// test_sim_x --state alone is a test, and so is test_sim_x --rounds.
//
// By hand the exit status is 0 if all seeds passed, 1 if a seed failed (the last line
// names it), and 2 for wrong usage.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_SEEDS_H
#define TUG_KIT_SEEDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "cluster/bugs.h"

enum { SEEDS_COUNTS = 20, SEEDS_BUGS = 20, SEEDS_KEPT = 16 };

struct seeds_run {
    uint64_t seed;
    int bug; // the bug to simulate, as in struct seeds_bug
    bool trace;
    bool rounds; // processes get several messages before they tick
    bool keeps;  // the scheduler has a journal, dies and comes back (kit/restarts.h)
    uint64_t came_back; // number of deaths of schedulers that have a journal
    const char *dir;    // directory for saves; it is empty before and after
    // The number of events of each kind, summed over all seeds. They are counted because a
    // world in which nothing happens finds no defect.
    uint64_t *counts;
};

struct seeds_bug {
    int bug; // enum bug (cluster/bugs.h), or N_BUGS and up for bugs of the world's own code
    // Name of a bug of the world's own code; NULL: the bug has its name in
    // cluster/bugs.h.
    const char *name;
    // The seed from which the test searches first if few seeds show the bug; else 0.
    uint64_t near;
};

struct seeds {
    const char *program;
    struct seeds_bug bugs[SEEDS_BUGS]; // bugs that the test must find; ends with NO_BUG
    struct seeds_bug state_bugs[SEEDS_BUGS]; // the same for --state
    const char *counted[SEEDS_COUNTS];       // names of the counts
    const struct stage_world *world;         // kit/stage.h
    // Seeds that have failed in the past; the test runs them in addition.
    uint64_t kept[SEEDS_KEPT];
    // Number of seeds that the test runs; number of seeds within which each bug is found.
    uint64_t seeds, bug_seeds;
    uint64_t
        asan_seeds; // replaces `seeds` under AddressSanitizer; 0: does not replace it
    uint64_t state_seeds, state_kept[SEEDS_KEPT]; // the same for --state
    uint64_t round_seeds;                         // the same for --rounds
    // Checks that the worlds had enough events of each kind.
    void (*check)(const uint64_t *counts, uint64_t seeds);
};

// The main function of a test.
int seeds_main(const struct seeds *s, int argc, char **argv);

#endif
