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

enum { SEEDS_COUNTS = 12, SEEDS_BUGS = 13 };

struct seeds_run {
    uint64_t seed;
    int bug; // 0: no safeguard is switched off
    bool trace;
    const char *dir; // directory for saves; it is empty before and after
    // The sums of how often things happened: a world without events would find nothing.
    uint64_t *counts;
};

struct seeds {
    const char *program;
    const char *bugs[SEEDS_BUGS]; // what parts can be told to do wrongly; [0]: "none"
    const char *counted[SEEDS_COUNTS]; // what the counts are
    const struct stage_world *world;   // kit/stage.h
    // Of a bug that few worlds bring out: the seed from which the test searches first; else 0.
    uint64_t near[SEEDS_BUGS];
    uint64_t seeds, bug_seeds; // that the test runs; finds each bug within
    void (*check)(const uint64_t *counts, uint64_t seeds); // it was not peaceful
};

// The main function of a test.
int seeds_main(const struct seeds *s, int argc, char **argv);

#endif
