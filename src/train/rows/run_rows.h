// Two interfaces to a run's rows: run_rows for trainer.c and checkpoint.c, wherever the
// rows are, and local_rows for the loop of a process that has them. The rows are the
// model's own tables (own_rows.c), stores with a feature lifecycle (living_rows.c), or
// tables of servers (train_cluster/driver_rows.c).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_ROWS_RUN_ROWS_H
#define TUG_TRAIN_ROWS_RUN_ROWS_H

#include "train/evaluate/evaluate.h"
#include "train/facts.h"
#include "train/run.h"
#include "train/saved/saved.h"

// A process's access to rows that it has itself: the training loop and the updaters use
// these functions batch by batch.
struct local_rows {
    // Called when loading is complete, before threads update rows. Sets r->local.blocks and
    // r->local.row.
    int (*begin)(struct run *r, struct err *e);
    // begin_data is called before data other than the training data is read, such as that
    // of --valid, and sets how its keys become ids; end_data is called when it was read.
    int (*begin_data)(struct run *r, struct dataset_options *o, struct err *e);
    int (*end_data)(struct run *r, struct err *e); // may be NULL
    // Called when a worker begins and ends a stretch of batches. May return TUG_ENOMEM.
    int (*open_worker)(struct worker *w);
    void (*close_worker)(struct worker *w);
    // Trains on batch `number` by hogwild's steps (hogwild.h), at most `size` examples at
    // a time. Sets w->rc.
    void (*batch)(struct worker *w, size_t size, uint64_t number);
    // Puts the rows of n examples into the worker's view; uses the worker's copies for
    // rows that `hot` (or NULL) has. May return TUG_ENOMEM.
    int (*take)(struct worker *w, const uint64_t *order, size_t n,
                const struct hot_copies *hot);
    hot_find_fn find; // finds the pieces of a row that workers copy; ctx is the run
};

struct run_rows {
    // Whether a pass that has begun is finished, with its validation, even after a signal
    // that asks the run to end. A save in the middle of a pass could not be resumed,
    // because its rows would not belong to one position in the data.
    bool whole_passes;

    // Called when r->parameters are open, before the save that the run begins with is
    // loaded. May be NULL.
    int (*open)(struct run *r, struct err *e);
    void (*close)(struct run *r); // frees what open has opened; may be NULL

    // `evaluates` sets up an evaluation by the current rows, or by those of the best
    // pass. `reason` (may be NULL) is called after a failed evaluation: if rows could not
    // be read, it sets *e to that error.
    int (*evaluates)(struct run *r, bool best, struct evaluation_options *o,
                     struct err *e);
    int (*reason)(struct run *r, int rc, struct err *e);
    // Exchanges the trained rows with the rows that are scored and saved, if these differ
    // (averaging.h); the next call exchanges them back. NULL: the trained rows are scored
    // and saved.
    int (*swap)(struct run *r, struct err *e);
    // Keeps the current rows as those of the best pass.
    int (*keep_best)(struct run *r, struct err *e);

    // Returns TUG_EDATA if a row to be saved is not finite. NULL: rows are
    // checked when they are read.
    int (*check)(const struct run *r, struct err *e);
    // Returns the source of a save's rows.
    struct saved_rows (*saved)(struct run *r, bool best);
    // Publishes the rows for the last time when training has ended. NULL: the rows are
    // not published.
    int (*publish)(struct run *r, const struct train_result *result, struct err *e);
    // `load` loads the rows of a save; `resume` loads all that a resumed run needs.
    int (*load)(struct run *r, const char *dir, const struct saved_run *m, bool sparse,
                bool dense, struct err *e);
    int (*resume)(struct run *r, const char *dir, const struct saved_run *m,
                  struct err *e);

    // Returns the numbering of the features on which the rows were trained; in a worker
    // of a cluster, of the features on which this worker has trained.
    struct numbering *(*known)(struct run *r);
    // Sets the number of rows and their bytes in the result, at the end of the run.
    void (*fill_result)(struct run *r, struct train_result *result);
    // Describes the tables for the facts of the run. Returns their number; 0: servers of
    // a cluster have the tables, and describe them in their own facts.
    size_t (*describe)(struct run *r, struct train_table ret[TRAIN_TABLES]);

    const struct local_rows *local; // NULL: the rows are on servers
};

// Describes the tables anew in the facts of the run. No thread may update rows.
static inline void run_rows_tell(struct run *r)
{
    struct train_table tables[TRAIN_TABLES];
    if (r->config->facts != NULL)
        train_facts_tables(r->config->facts, tables, r->rows->describe(r, tables));
}

// The two kinds of rows that lie in this process.
extern const struct run_rows rows_own, rows_living;

#endif
