// Simulated worlds, one for each seed. A test runs some seeds, which must all pass, and
// checks that a failure is found for each safeguard that can be switched off. By hand:
//
//     test_sim_x --seeds 100000 [--from 1] [--bug NAME]   stops at the first failure
//     test_sim_x --seed 4711 --trace                      runs one seed, and prints every event
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

enum { SEEDS_COUNTS = 13, SEEDS_BUGS = 16 };

struct seeds_run {
    uint64_t seed;
    int bug; // the bug to simulate by switching a safeguard off; 0: none
    bool trace;
    const char *dir; // directory for saves; it is empty before and after
    // Sums of how often each kind of event happened: a world without such events would
    // find nothing.
    uint64_t *counts;
};

struct seeds {
    const char *program;
    // Names of the defects that can be switched on; [0]: "none".
    const char *bugs[SEEDS_BUGS];
    const char *counted[SEEDS_COUNTS]; // names of the counts
    const struct stage_world *world;   // kit/stage.h
    // For a bug that few seeds bring out, the seed from which the test searches first;
    // otherwise 0.
    uint64_t near[SEEDS_BUGS];
    // Number of seeds that the test runs; number of seeds within which each bug is found.
    uint64_t seeds, bug_seeds;
    // Checks that the worlds had enough events of each kind.
    void (*check)(const uint64_t *counts, uint64_t seeds);
};

// The main function of a test.
int seeds_main(const struct seeds *s, int argc, char **argv);

#endif
