// The interface between trainer.c and the code that does the passes: threads of this
// process (course_local), or the workers of a cluster (train_cluster/remote.h).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_COURSE_H
#define TUG_TRAIN_COURSE_H

#include "train/run.h"

struct course {
    // The owner of the rows (train/rows/run_rows.h); NULL: this process owns them.
    const struct run_rows *rows;
    // Whether this process reads the training data.
    bool reads_data;

    // `open` is called once r->rows are open, before the save that the run begins with is
    // loaded; `begin` is called after that save was loaded. Either may be NULL.
    int (*open)(struct run *r, struct err *e);
    int (*begin)(struct run *r, struct err *e);
    // Reports to other processes that the run has ended, and why (why->code is 0 if the
    // work is done). May be NULL.
    void (*over)(struct run *r, const struct err *why);
    void (*close)(struct run *r); // frees what open and begin have opened

    // Trains on the rest of the current pass, from the run's position on.
    int (*pass)(struct run *r, struct train_result *result, struct err *e);
    // Scores the data of --valid, or of --test if `test` is true, on the nodes that do
    // the passes (train_cluster.workers_score). Uses the trained rows, or the rows of
    // the best pass if `best` is true. Fills in the metrics of each task. NULL: only
    // this process can score.
    int (*score)(struct run *r, bool test, bool best, struct metrics *ret, struct err *e);
    // Returns the sums over the pass so far, for each label, and resets them.
    struct metrics_stream *(*streams)(struct run *r);
    // Returns, after a pass, the sums over the examples of all processes. NULL: `streams`
    // already has the sums of all processes, not only of this one.
    const struct metrics_stream *(*seen_by_all)(struct run *r);
    void (*clear_streams)(struct run *r);
};

extern const struct course course_local;

#endif
