// For tests of a shard's saves: a directory below a root, saves in progress, and their
// requests.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_SAVING_H
#define TUG_KIT_SAVING_H

#include "kit/files.h"
#include "kit/loops.h"
#include "save/save.h"
#include "store/cut.h"

// Group fixtures: make and remove a directory for saves.
int saving_prepare(void **state);
int saving_clean(void **state);

// saving_users are the settings of a table; saving_rest returns the part of a path after
// the directory; saving_open_loop opens a loop that may save.
extern const char saving_users[];
const char *saving_rest(const char *path);
struct lone *saving_open_loop(uint32_t i, uint32_t n, const char *config);

// A save in progress: its manifest, and the directory of its files.
struct saving {
    struct save_manifest m;
    char path[FILE_PATH_MAX];
    uint64_t id;
};

extern uint64_t saving_last; // the id of the latest save
struct saving saving_begin(enum save_mode mode);
void saving_send(struct lone *w, const struct saving *x, bool marked, uint64_t clock);
void saving_mark(struct lone *w, uint32_t worker, uint64_t save);
void saving_end(struct lone *w, uint64_t save, bool committed);
// Lets the loop work until it has answered that all files are written.
void saving_finish(struct lone *w, struct saving *x);
void saving_commit(struct saving *x);
void saving_load(struct lone *w, const char *path, bool clear);
// Gives the copies of the rows of the loop's table so little room that they crowd it.
void saving_crowd(struct lone *w);
// Frees a save that was given up.
void saving_forget(struct saving *x);

#endif
