// Simulated worlds, one a seed: that all seeds hold, that each of the checks that can be
// switched off is missed, and by hand:
//
//     test_sim_x --seeds 100000 [--from 1] [--bug NAME]   ends at the first that fails
//     test_sim_x --seed 4711 --trace                      one again, with every event
//
// By hand the exit status is 0: all held; 1: a seed failed, which the last line says; 2:
// usage.
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
    int bug; // 0: none
    bool trace;
    const char *dir; // for saves: empty, and empty again afterwards
    // Adds up how much happened: a world without events finds nothing.
    uint64_t *counts;
};

struct seeds {
    const char *program;
    const char *bugs[SEEDS_BUGS]; // what parts can be told to do wrongly; [0]: "none"
    const char *counted[SEEDS_COUNTS]; // what the counts are
    const struct stage_world *world;   // kit/stage.h
    uint64_t seeds, bug_seeds;         // that the test runs; finds each bug within
    void (*check)(const uint64_t *counts, uint64_t seeds); // it was not peaceful
};

// A test's main.
int seeds_main(const struct seeds *s, int argc, char **argv);

#endif
