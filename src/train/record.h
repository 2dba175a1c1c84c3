// The records of a run besides its saves: the history, and the files of --history and
// --tfevents. If one of these files cannot be written while the run trains, the run goes
// on, and the error comes at its end, when the model is saved.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_RECORD_H
#define TUG_TRAIN_RECORD_H

#include "train/run.h"

struct data_files;
struct train_result;

// Returns TUG_EUSAGE if the run must not write one of the files, for example because the
// run reads it.
int record_check(const struct train_config *c, const struct data_files *read,
                 struct err *e);

// Opens the files. Before this call, the history must have the passes of an earlier run
// and the names of the labels, and the run its position.
int record_open(struct run *r, struct err *e);
void record_close(struct run *r);

// Records a pass that has ended. `all` has the sums over its training examples, for each
// label; `seen` and `valid` are metrics of each label, and `valid` is NULL without
// validation. `examples` counts all examples of a pass.
struct record_of_pass {
    const struct metrics_stream *all;
    const struct metrics *seen, *valid;
    uint64_t examples;
    double seconds;
};
int record_pass(struct run *r, const struct record_of_pass *pass, struct err *e);

// Returns an error if passes are missing in --history, or events in --tfevents; else 0.
int record_error(const struct run *r, const struct train_result *result, struct err *e);

#endif
