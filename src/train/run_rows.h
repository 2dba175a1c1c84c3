// The interface to a run's rows: for trainer.c and checkpoint.c, and, for rows of this
// process, also for its loop (loop.c) and its updaters, a batch at a time. They are the
// tables of the model itself (own_rows.c), stores whose features live (living_rows.c), or
// the servers' (remote/driver_rows.c).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_RUN_ROWS_H
#define TUG_TRAIN_RUN_ROWS_H

#include "train/evaluate.h"
#include "train/run.h"
#include "train/saved.h"

struct run_rows {
    // Whether a pass that was begun is finished, validation too, also when a signal asks
    // for the end: rows in the middle of it belong to no place in the data.
    bool whole_passes;

    // Before the save that the run begins with is loaded; r->parameters are open. May be
    // NULL.
    int (*open)(struct run *r, struct err *e);
    void (*close)(struct run *r); // likewise; whatever was opened

    // Lets an evaluation score by the rows that are trained, or by those of the best pass;
    // and after one that failed says why a row could not be had, if that was the reason
    // (may be NULL).
    int (*evaluates)(struct run *r, bool best, struct evaluation_options *o,
                     struct err *e);
    int (*reason)(struct run *r, int rc, struct err *e);
    // Puts what is scored and saved in the place of what is trained, where that is
    // something else (averaging.h); and back, the next time. NULL: the same.
    int (*swap)(struct run *r, struct err *e);
    // Notes that the current rows are those of the best pass so far.
    int (*keep_best)(struct run *r, struct err *e);

    // TUG_EDATA when a row that is to be saved is not finite. NULL: they are read as they
    // come.
    int (*check)(const struct run *r, struct err *e);
    // The source of a save's rows.
    struct saved_rows (*saved)(struct run *r, bool best);
    // Publishes for the last time, when training is over. NULL: no publishing.
    int (*publish)(struct run *r, const struct train_result *result, struct err *e);
    // Rows of a save; and all that a resumed run goes on with.
    int (*load)(struct run *r, const char *dir, const struct saved_run *m, bool sparse,
                bool dense, struct err *e);
    int (*resume)(struct run *r, const char *dir, const struct saved_run *m,
                  struct err *e);

    // The final number of rows, and their bytes.
    void (*fill_result)(struct run *r, struct train_result *result);

    // Only for rows in this process:

    // Called when loading is complete: threads step from here on. Fills r->blocks and
    // r->row.
    int (*begin)(struct run *r, struct err *e);
    // Before other data is read, with how its keys become ids; and after it.
    int (*begin_data)(struct run *r, struct dataset_options *o, struct err *e);
    int (*end_data)(struct run *r, struct err *e); // may be NULL
    // A worker begins a stretch of batches of the data at hand, and ends it. TUG_ENOMEM.
    int (*open_worker)(struct worker *w);
    void (*close_worker)(struct worker *w);
    // Does hogwild's steps (hogwild.h) of batch `number`, at most `size` examples at a
    // time. Leaves w->rc.
    void (*batch)(struct worker *w, size_t size, uint64_t number);
    // Gets the rows of n examples into the worker's view. Rows that `hot` (or NULL) has
    // copies of are the copies. TUG_ENOMEM.
    int (*take)(struct worker *w, const uint64_t *order, size_t n,
                const struct hot_copies *hot);
    hot_find_fn find; // of the run: the pieces of a row that workers copy
};

// The rows of this process.
extern const struct run_rows rows_own, rows_living;

#endif
