// A table of sums that is saved while clients push into it, for simulated worlds: its
// settings, the save that the world does by one of its clients, and that of somebody else,
// who saves at any moment.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_SUMS_H
#define TUG_KIT_SUMS_H

#include "base/file.h"
#include "kit/saver.h"
#include "kit/stage.h"
#include "save/save.h"

#define SUMS_CONFIG "name=sums;accessor=merge;dim=1;deltas=off"

enum { SUMS_TABLE = 3, SUMS_BITS = 3, SUMS_KEYS_MAX = 24 };

struct sums {
    struct stage *stage;
    const char *dir; // of saves
    bool without_turns;
    uint32_t n_keys;
    uint64_t keys[SUMS_KEYS_MAX];
    struct roots *roots;
    struct sim_saver *other;
    int64_t saved[SUMS_KEYS_MAX]; // by the other: the last time
    // The most that a save taken now may have for a key.
    int64_t (*most)(void *ctx, uint32_t key);
    void *ctx;

    // The world's own save.
    bool commits;
    struct save_manifest manifest;
    char path[FILE_PATH_MAX];
};

// Members of `s` to set: stage, dir, without_turns, n_keys, most, ctx.
int sums_open(struct sums *s, struct err *e);
// A server's options; the world sets the others.
struct shard_options sums_server(const struct sums *s);
// When all others have come.
int sums_open_other(struct sums *s, struct err *e);
// `made`: the table exists.
void sums_step(struct sums *s, bool made);
void sums_leave(struct sums *s); // before the stage closes
// Call before the stage closes: all savers have crashed, and the table may go back to an
// older save.
void sums_crash(struct sums *s);
void sums_close(struct sums *s); // behind it

// Each of these gives the request that it has begun: its turn, the rows (whose path and
// directory are set here), the end.
client_ts sums_begin_save(struct sums *s, struct stage_client *c, uint64_t id,
                          enum save_mode mode); // 0: none is needed
client_ts sums_save(struct sums *s, struct stage_client *c, struct client_save *o);
client_ts sums_end_save(struct sums *s, struct stage_client *c, uint64_t id);
// When all is over. Checks that a committed save has the values of `holds` for each key.
void sums_forget_save(struct sums *s, uint64_t id,
                      void (*holds)(void *ctx, uint32_t key, int64_t *least,
                                    int64_t *most));

#endif
