// A served model: one copy by which readers score, and a second copy into which the next
// save is loaded. When the second copy is complete, one pointer changes, so that readers
// never wait and see rows of only one save (docs/design/0018-scoring.md).
//
// A reader pins the copy that it reads: it writes the copy's address to its place, which
// no other thread writes. The loader waits until no reader has pinned the copy that it
// will write.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVE_SERVED_H
#define TUG_SERVE_SERVED_H

#include <pthread.h>
#include <stdatomic.h>

#include "os/file.h"
#include "os/team.h"
#include "save/save.h"
#include "train/rows/parameters.h"
#include "train/saved/saved_run.h"

enum { SERVED_READERS = 512, SERVED_LINE = 128, SERVED_TOLD = 64 };

// A copy of the model with the rows of one save. Readers do not change it.
struct served_copy {
    struct parameters p; // rows without rules' states; p.sparse NULL: the copy is empty
    float *dense;        // the dense parameters: model_dense floats
    uint64_t checksum;   // checksum of the save's manifest
    uint32_t number;
    uint64_t step;
    enum save_mode mode;
    bool deltas; // deltas can follow this save, so the other copy gets the same rows
};

struct served_reader {
    _Alignas(SERVED_LINE) atomic_bool taken;
    _Atomic(const struct served_copy *) pinned;
    void *scratch; // the thread's scoring memory; freed by score_close
};

// The identity of a manifest's file. Two saves with the same number are different saves
// if their files differ.
struct served_file {
    uint64_t device, inode, bytes;
    int64_t seconds, nanoseconds;
};

struct served_status {
    uint32_t number; // number of the save by which readers score
    enum save_mode mode;
    uint64_t step, rows;
    uint64_t taken, refused; // numbers of saves loaded and refused since served_open
    struct err refusal; // why the newest save was refused; code 0: it was not refused
};

struct served {
    char from[FILE_PATH_MAX];
    // The description of the first save, which all later saves must match.
    struct saved_run *run;
    struct model model;  // the model for rows without rules' states
    bool numbered;       // whether keys are numbers from the data
    atomic_bool differs; // true once the user was warned that data is numbered
                         // differently
    _Atomic(const struct served_copy *) current;
    struct served_copy copies[2];
    struct served_reader readers[SERVED_READERS];
    // One bit for each column, set once the user was warned of the column's unknown
    // values.
    atomic_uint_least64_t told[SERVED_TOLD];

    // Only the thread that loads saves uses the members down to poll_ms; only one
    // thread loads at a time.
    struct team *team;
    // The newest manifest found, whether its save was loaded or refused.
    struct served_file seen;
    // A refused save is tried again after `wait` checks; `waited` counts the checks since
    // the last attempt.
    uint32_t wait, waited;
    uint32_t poll_ms;

    pthread_mutex_t lock; // guards the members below
    pthread_cond_t changed;
    struct served_status status;
    bool follows, stop;
    pthread_t thread;
};

struct served_options {
    int threads;         // number of threads that load a save; 0: one per core, at most 8
    bool follow;         // a thread of the served model loads saves as they come
    uint32_t poll_ms;    // milliseconds between two checks for a new save; 0: 200
    double wait_seconds; // the longest wait for the first save
    const atomic_bool *interrupted; // when it becomes true, served_open ends; may be NULL
};

// Opens the newest save in the directory `from`, or the save `from`. Returns TUG_EDATA if
// there is no save.
int served_open(struct served **ret, const char *from, const struct served_options *o,
                struct err *e);
void served_stop(struct served *s);  // loads no more saves
void served_close(struct served *s); // no thread may be reading; NULL is fine

// Checks once for a new save and loads it, for callers that do not follow. If the save is
// refused, readers keep the save that they have, a warning is given, and the call returns
// 0. *ret_taken (may be NULL) becomes whether a new save is in use.
int served_refresh(struct served *s, bool *ret_taken, struct err *e);

struct served_status served_status(struct served *s);

// Returns a place among the readers, or NULL if all places are taken. Takes no lock. A
// thread gets the place that it had before, if that place is free.
struct served_reader *served_enter(struct served *s);
void served_leave(struct served_reader *r);

// Returns the copy to read, which is pinned until served_unpin.
static inline const struct served_copy *served_pin(struct served *s,
                                                   struct served_reader *r)
{
    const struct served_copy *c = atomic_load(&s->current), *again;
    for (;; c = again) {
        // If `current` is still the same after the pin was written, a loader that changes
        // `current` later sees the pin.
        atomic_store(&r->pinned, c);
        again = atomic_load(&s->current);
        if (again == c)
            return c;
    }
}

static inline void served_unpin(struct served_reader *r)
{
    atomic_store_explicit(&r->pinned, NULL, memory_order_release);
}

#endif
