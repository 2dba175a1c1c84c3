// The driver of a run on a cluster: what the course of a run (trainer.c) does by
// messages, because rows live on servers and passes are the workers'.
//
// It opens passes and follows them; `run.parameters` is no more than a cache here, of the
// rows that an evaluation asks for. The best pass so far is kept by the servers, as
// copies of the tables. Saves and loads go part by part: never more than a part is held.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_DRIVER_H
#define TUG_TRAIN_DRIVER_H

#include "train/evaluate.h"
#include "train/run.h"
#include "train/saved.h"

// Joins the cluster, waits until all are here, makes the tables. r->parameters is open.
int driver_open(struct run *r, struct err *e);

// Tells workers and servers that the run is over, and how.
void driver_over(struct run *r, int code, const char *why);
void driver_close(struct run *r);

int driver_pass(struct run *r, struct train_result *result, struct err *e);

// What the workers saw in the pass so far, added up.
struct metrics_stream *driver_streams(struct run *r);

// Empties the cache, and lets an evaluation look rows up on the servers: in the tables
// that are trained, or in the copies of the best pass.
int driver_evaluates(struct run *r, bool best, struct evaluation_options *o,
                     struct err *e);

// After a failed evaluation: says in *e why a row could not be had, if that was the
// reason.
int driver_reason(struct run *r, int rc, struct err *e);

int driver_keep_best(struct run *r, struct err *e);

// Where the rows of a save come from.
struct saved_rows driver_rows(struct run *r, bool best);

// Loads tables of a save onto the servers; all that a resumed run goes on with.
int driver_load(struct run *r, const char *dir, const struct manifest *m,
                enum part_role role, bool sparse, bool dense, struct err *e);
int driver_resume(struct run *r, const char *dir, const struct manifest *m,
                  struct err *e);

void driver_fill_result(struct run *r, struct train_result *result);

#endif
