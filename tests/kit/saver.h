// A second saver besides the driver of a simulated world: a guest with an operator's
// rights, like `tug table save`. It saves a table as it is at any moment, now and again,
// takes some of its saves back, and may die in the middle of one.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_SAVER_H
#define TUG_KIT_SAVER_H

#include "kit/cast.h"
#include "store/store.h"

struct sim_saver_options {
    uint64_t seed;
    const char *dir;    // the servers' save root; it saves in a directory below
    const char *config; // of the table
    uint32_t table, partition_bits;
    bool without_turns; // see client_options
    // The contents of a save that it has committed.
    void (*check)(void *ctx, struct store *s);
    void *ctx;
};

struct sim_saver;

int sim_saver_open(struct sim_saver **ret, struct sim *s,
                   const struct sim_saver_options *o, struct err *e);
void sim_saver_close(struct sim_saver *k); // NULL is fine

// Does its next step; `ready`: the table exists. Failures are in *e.
int sim_saver_step(struct sim_saver *k, const struct scheduler *s, bool ready,
                   struct err *e);
bool sim_saver_is_done(const struct sim_saver *k); // or dead
uint64_t sim_saver_saves(const struct sim_saver *k);

// The table in a save whose path that is.
int sim_load(struct store **ret, const char *path, const char *config,
             uint32_t partition_bits, struct err *e);

#endif
