// The files of --tfevents DIR, from which TensorBoard shows the run while it trains.
//
// A file is a sequence of records (length, masked CRC32C of the length, bytes, masked
// CRC32C of the bytes). The bytes of a record are a protobuf message, tensorflow.Event,
// whose few fields are encoded here by hand. Each record is written at once, so that a
// reader never waits for a buffer. The step of an event is the number of examples that
// the run has trained on, in all passes.
//
//   loss/window, auc/window     training examples since the previous event, each scored
//                               before it was trained on
//   examples_per_second         the rate since the previous event
//   learning_rate               --lr by the schedule
//   loss/train, auc/train       a pass: its training examples
//   loss/valid, auc/valid       a pass: the validation data
//   seconds/pass                a pass: reading, training and validation
//
// With several labels each tag of loss and AUC ends with the label: loss/valid/click.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_TFEVENTS_H
#define TUG_TRAIN_TFEVENTS_H

#include "model/metrics.h"
#include "train/history.h"

struct tfevents;

// Returns TUG_EUSAGE if `dir` cannot be a directory of event files. `out` is the directory
// of --out. Both may be NULL.
int tfevents_check(const char *dir, const char *out, struct err *e);

// Makes the directory, and a new file in it. `h` has the passes before this run was
// resumed, and the labels' names; it must outlive *ret. If `resumes` is true, the file
// begins with a mark that makes readers drop later events of earlier files: those after
// `examples`, the approximate number of examples of the current pass on which the earlier
// run had trained.
int tfevents_open(struct tfevents **ret, const char *dir, const struct history *h,
                  enum loss loss, bool resumes, uint64_t examples, struct err *e);
void tfevents_close(struct tfevents *t); // `t` may be NULL

// Returns the time, on clock_ns, at which an event about the running pass is due: every
// second at first, later every 500th part of the time so far.
uint64_t tfevents_next_ns(const struct tfevents *t);

// Writes an event about the running pass. `examples` is the number of the pass's examples
// so far, without those passed to tfevents_open; `seen` has the sums over these examples
// for each label; `rate` is the learning rate.
void tfevents_window(struct tfevents *t, uint64_t examples,
                     const struct metrics_stream *seen, double rate);

// Writes an event about the last pass of the history. `seen` has the sums of the whole
// pass.
void tfevents_pass(struct tfevents *t, const struct metrics_stream *seen);

// If a file cannot be written, the run goes on. Returns the first such error, or NULL.
const struct err *tfevents_failed(const struct tfevents *t);

#endif
