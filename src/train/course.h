// The interface between trainer.c and the code that does the passes: threads of this
// process (course_local), or the workers of a cluster (remote/remote.h).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_COURSE_H
#define TUG_TRAIN_COURSE_H

#include "train/run.h"

struct course {
    // The owner of the rows (train/run_rows.h); NULL: this process.
    const struct run_rows *rows;
    // Whether this process reads the training data.
    bool reads_data;

    // Once r->rows are open, before the save that the run begins with is loaded; and
    // after it. Either may be NULL.
    int (*open)(struct run *r, struct err *e);
    int (*begin)(struct run *r, struct err *e);
    // The run has ended, and how: for others to hear. May be NULL.
    void (*over)(struct run *r, int code, const char *why);
    void (*close)(struct run *r); // whatever was opened

    // Trains on the pass that the run stands in, from where it stands.
    int (*pass)(struct run *r, struct train_result *result, struct err *e);
    // --valid, or --test by the rows in training or those of the best pass, are scored
    // where the passes are done, if config.cluster says so: metrics of each task. NULL:
    // only this process can.
    int (*score)(struct run *r, bool test, bool best, struct metrics *ret, struct err *e);
    // Returns the sums over the pass so far, for each label, and resets them.
    struct metrics_stream *(*streams)(struct run *r);
    // Once a pass is over: what all who train together saw in it, where `streams` are of this
    // process. NULL: `streams` are of all.
    const struct metrics_stream *(*seen_by_all)(struct run *r);
    void (*clear_streams)(struct run *r);
};

extern const struct course course_local;

#endif
