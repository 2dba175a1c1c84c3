// The course of a run: what trainer.c and checkpoint.c ask of whoever has the rows and
// does the passes. Threads of this process do both for course_local, whose rows are those
// of its model, and for course_living, whose rows live (train/local_rows.h); for
// course_cluster rows lie on servers and passes are the workers'.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_COURSE_H
#define TUG_TRAIN_COURSE_H

#include "train/evaluate.h"
#include "train/run.h"
#include "train/saved.h"

struct course {
    // Whether this process reads the training data.
    bool reads_data;
    // Whether a pass that was begun is finished, validation too, also when a signal asks
    // for the end: rows in the middle of it belong to no place in the data.
    bool whole_passes;

    // Before the save that the run begins with is loaded, and after it; r->parameters are
    // open. Either may be NULL.
    int (*open)(struct run *r, struct err *e);
    int (*begin)(struct run *r, struct err *e);
    // The run has ended, and how: for others to hear. May be NULL.
    void (*over)(struct run *r, int code, const char *why);
    void (*close)(struct run *r); // whatever was opened

    // Trains on the pass that the run stands in, from where it stands.
    int (*pass)(struct run *r, struct train_result *result, struct err *e);
    // What was seen in the pass so far, added up; and nothing from now on.
    struct metrics_stream *(*streams)(struct run *r);
    void (*clear_streams)(struct run *r);

    // Lets an evaluation score by the rows that are trained, or by those of the best pass;
    // and after one that failed says why a row could not be had, if that was the reason.
    int (*evaluates)(struct run *r, bool best, struct evaluation_options *o,
                     struct err *e);
    int (*reason)(struct run *r, int rc, struct err *e);
    // What is trained now is the best pass so far.
    int (*keep_best)(struct run *r, struct err *e);

    // TUG_EDATA when a row that is to be saved is not finite. NULL: they are looked at as
    // they come.
    int (*check)(const struct run *r, struct err *e);
    // Where the rows of a save come from.
    struct saved_rows (*rows)(struct run *r, bool best);
    // Rows of a save; and all that a resumed run goes on with.
    int (*load)(struct run *r, const char *dir, const struct saved_run *m, bool sparse,
                bool dense, struct err *e);
    int (*resume)(struct run *r, const char *dir, const struct saved_run *m,
                  struct err *e);

    void (*fill_result)(struct run *r, struct train_result *result);
};

extern const struct course course_local, course_living, course_cluster;

static inline const struct course *course_of(const struct train_config *c)
{
    if (c->cluster != NULL)
        return &course_cluster;
    return c->table != NULL ? &course_living : &course_local;
}

#endif
