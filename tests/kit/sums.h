// A table of sums that is saved while clients push into it, for simulated worlds: its
// settings, the save that the world makes through one of its clients, and the saves of
// another saver at any moment.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_SUMS_H
#define TUG_KIT_SUMS_H

#include "kit/saver.h"
#include "kit/stage.h"
#include "os/file.h"
#include "save/save.h"

#define SUMS_CONFIG "name=sums;accessor=merge;dim=1;deltas=off"

enum { SUMS_TABLE = 3, SUMS_BITS = 3, SUMS_KEYS_MAX = 24 };

struct sums {
    struct stage *stage;
    const char *dir; // directory of saves
    uint32_t n_keys;
    uint64_t keys[SUMS_KEYS_MAX];
    struct roots *roots;
    struct sim_saver *other;
    int64_t saved[SUMS_KEYS_MAX]; // values in the last save of the other saver
    // Returns the largest value that a save made now may have for a key.
    int64_t (*most)(void *ctx, uint32_t key);
    void *ctx;

    // State of the save that the world itself makes.
    bool commits;
    struct save_manifest manifest;
    char path[FILE_PATH_MAX];
};

// The caller sets these members of `s` before: stage, dir, n_keys, most,
// ctx.
int sums_open(struct sums *s, struct err *e);
// Returns the options of a server that this table needs; the world sets the other
// options.
struct shard_options sums_server(const struct sums *s);
// Opens the other saver. Call it when all other nodes have come.
int sums_open_other(struct sums *s, struct err *e);
// Lets the other saver act. `made` is true if the table exists.
void sums_step(struct sums *s, bool made);
void sums_leave(struct sums *s); // must be called before the stage closes
// Call it when the client that makes the world's save has died during this save.
void sums_drop_save(struct sums *s);
// Must be called before the stage closes, if all savers have crashed and the table may go
// back to an older save.
void sums_crash(struct sums *s);
void sums_close(struct sums *s); // must be called after the stage has closed

// Each function returns the request that it has begun: sums_begin_save the request for
// the save's turn, sums_save the request for its rows (the function sets path and
// directory), sums_end_save the request for its end.
client_ts sums_begin_save(struct sums *s, struct stage_client *c, uint64_t id,
                          enum save_mode mode); // returns 0 if no turn is needed
client_ts sums_save(struct sums *s, struct stage_client *c, struct client_save *o);
client_ts sums_end_save(struct sums *s, struct stage_client *c, uint64_t id);
// Call it when the save has ended. Checks that a committed save has the values of `holds`
// for each key.
void sums_forget_save(struct sums *s, uint64_t id,
                      void (*holds)(void *ctx, uint32_t key, int64_t *least,
                                    int64_t *most));

#endif
