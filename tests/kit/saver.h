// A second saver besides the driver of a simulated world: a guest with an operator's
// rights, like `tug table save`. It saves a table at random moments, gives some of its
// saves up, and may die in the middle of a save. It begins a save again that servers have
// given up because a server has died. Now and then a bit of a save is flipped while it is
// loaded.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_SAVER_H
#define TUG_KIT_SAVER_H

#include "kit/cast.h"
#include "store/store.h"

struct sim_saver_options {
    uint64_t seed;
    const char *dir;    // the servers' save root; the saver uses a directory below it
    const char *config; // settings of the table
    uint32_t table, partition_bits;
    uint64_t bugs; // injected bugs of the saver: see cluster/bugs.h
    // Whether the saves are bases and deltas, and the table records changes; otherwise they
    // are checkpoints.
    bool deltas;
    // Called when a save begins. May be NULL.
    void (*begins)(void *ctx);
    // Checks the contents of a save that was committed.
    void (*check)(void *ctx, struct store *s);
    void *ctx;
};

struct sim_saver;

int sim_saver_open(struct sim_saver **ret, struct sim *s,
                   const struct sim_saver_options *o, struct err *e);
void sim_saver_close(struct sim_saver *k); // NULL is fine
void sim_saver_kill(struct sim_saver *k);

// Does the next step. `ready` is true if the table exists. Errors are in *e.
int sim_saver_step(struct sim_saver *k, const struct scheduler *s, bool ready,
                   struct err *e);
// Returns whether the saver has finished, or is dead.
bool sim_saver_is_done(const struct sim_saver *k);
uint64_t sim_saver_saves(const struct sim_saver *k);
// Returns the number of saves that began again.
uint64_t sim_saver_again(const struct sim_saver *k);

// Loads the table from the save at this path.
int sim_load(struct store **ret, const char *path, const char *config,
             uint32_t partition_bits, struct err *e);

#endif
