// Passes in one process.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_LOCAL_H
#define TUG_TRAIN_LOCAL_H

#include "train/run.h"

int local_open(struct run *r, struct err *e); // after the parameters are open
void local_close(struct run *r);

// Trains on the pass that the run stands in, from where it stands.
int local_pass(struct run *r, struct train_result *result, struct err *e);

// What the workers saw in the pass so far, added up.
struct metrics_stream *local_streams(struct run *r);
void local_clear_streams(struct run *r);

#endif
