// A saved model as it is served: one that readers score by, and a second one into which
// the next save is loaded beside them. When that is complete, one pointer changes, so
// that readers never wait and see rows of one save only (docs/design/0018-scoring.md).
//
// A reader pins the copy that it reads, in a place of its own, and nobody else writes
// there. The loader waits until no reader has pinned the copy that it is going to write.
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

// The model as one save has it. Readers change nothing of it.
struct served_copy {
    struct parameters p; // packed; p.sparse NULL: there is none
    float *dense;        // model_dense floats
    uint64_t checksum;   // of the manifest
    uint32_t number;
    uint64_t step;
    enum save_mode mode;
    bool deltas; // can come behind it: the other copy is kept ready
};

struct served_reader {
    _Alignas(SERVED_LINE) atomic_bool taken;
    _Atomic(const struct served_copy *) pinned;
    void *scratch; // of whoever has taken it; freed by served_close's caller
};

// Identifies a manifest's file: a different one is a different save, even under the same
// number.
struct served_file {
    uint64_t device, inode, bytes;
    int64_t seconds, nanoseconds;
};

struct served_status {
    uint32_t number; // of the save that is read
    enum save_mode mode;
    uint64_t step, rows;
    uint64_t taken, refused; // saves since served_open
    struct err refusal;      // of the newest save; code 0: it was not refused
};

struct served {
    char from[FILE_PATH_MAX];
    struct saved_run *run; // of the first save: all others have to fit it
    struct model model;    // packed
    bool numbered;         // keys are numbers from the data
    atomic_bool differs;   // data seems to be numbered another way: warned of once
    void (*warn)(const char *text); // by the thread that scores; NULL: the log
    _Atomic(const struct served_copy *) current;
    struct served_copy copies[2];
    struct served_reader readers[SERVED_READERS];
    atomic_uint_least64_t
        told[SERVED_TOLD]; // a bit a column: its values are unknown, which
                           // is warned of once

    // The members below belong to the follower: one thread at a time.
    struct team *team;
    struct served_file seen; // the newest manifest, whether it was taken or not
    uint32_t wait,
        waited; // looks until a save that was refused is tried again; and since
    uint32_t poll_ms;

    pthread_mutex_t lock; // of what is below
    pthread_cond_t changed;
    struct served_status status;
    bool follows, stop;
    pthread_t thread;
};

struct served_options {
    int threads;         // that load; 0: one per core, at most 8
    bool follow;         // saves are taken as they come, by a thread of its own
    uint32_t poll_ms;    // how often it looks for one; 0: 200
    double wait_seconds; // for the first save
    const atomic_bool *interrupted; // ends served_open; or NULL
    void (*warn)(const char *text); // gets warnings of the data's numbering
};

// Opens the newest save in `from`, or one save. TUG_EDATA: there is none.
int served_open(struct served **ret, const char *from, const struct served_options *o,
                struct err *e);
void served_stop(struct served *s);  // no more saves are taken
void served_close(struct served *s); // nobody reads; NULL is fine

// Checks once for new saves and loads them, for callers without a follower. A save that
// is refused leaves the readers with the one that they have, and is a warning; 0 all the
// same. *ret_taken may be NULL.
int served_refresh(struct served *s, bool *ret_taken, struct err *e);

struct served_status served_status(struct served *s);

// Returns a place among the readers; NULL if all are taken. Takes no lock; a thread gets
// the one that it had.
struct served_reader *served_enter(struct served *s);
void served_leave(struct served_reader *r);

// The copy to read until served_unpin.
static inline const struct served_copy *served_pin(struct served *s,
                                                   struct served_reader *r)
{
    const struct served_copy *c = atomic_load(&s->current), *again;
    for (;; c = again) {
        atomic_store(&r->pinned, c); // seen by who looks after it has moved `current`
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
