// Progress: the output of a run on standard error. On a terminal it is one line that is
// drawn over; elsewhere it is a plain line from time to time, or every N batches.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_PROGRESS_H
#define TUG_TRAIN_PROGRESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "data/format/schema.h"
#include "model/metrics.h"
#include "train/config.h"

struct progress;
struct tfevents;
struct train_facts;

// log_batches != 0: prints plain lines when the trainer asks for them; 0: prints by the
// clock. If `listener` is not NULL, it is called instead of printing. dot_batches != 0:
// also prints a dot each time that this number of batches has been trained.
int progress_open(struct progress **ret, uint32_t epochs, uint64_t log_batches,
                  uint64_t dot_batches, const struct train_listener *listener,
                  struct err *e);
// From this call on, metrics have one element per label of the schema, and lines contain
// the labels' names. Before this call, there is one label. May return TUG_ENOMEM.
int progress_name_labels(struct progress *p, const struct schema *s, struct err *e);
void progress_close(struct progress *p); // `p` may be NULL; ends a line that is being
                                         // drawn

// From this call on, progress_at also says when an event about the running pass is due:
// with log_batches at each line, else at the times of tfevents_next_ns.
void progress_set_events(struct progress *p, struct tfevents *events);
// From this call on, progress_at also says when the facts of the run (train/facts.h) are
// due: about once a second.
void progress_set_facts(struct progress *p, struct train_facts *facts);

// Returns whether the team should stop, so that a line can be printed or because a signal
// came. One thread calls it after each batch. It reads the clock only at some calls.
bool progress_wants_a_stop(struct progress *p, const atomic_bool *interrupted);

// Notes that `batches` batches of the run are done; a caller may skip numbers. Prints the
// dots that are due. Returns whether a line or an event is due, by batches or else by the
// clock. The first call only tells the progress at which batch the run begins.
bool progress_at(struct progress *p, uint64_t batches);

// With log_batches: computes the metrics of the examples since the previous call from
// `stream`, the sums of the pass so far. Returns false without log_batches.
bool progress_window(struct progress *p, uint32_t epoch,
                     const struct metrics_stream *stream, enum loss loss,
                     struct metrics *ret);

// Writes an event (tfevents_window) if the last progress_at has found that one is due.
void progress_event(struct progress *p, uint64_t examples,
                    const struct metrics_stream *seen, double rate);

// Prints a line about the pass so far, if the last progress_at said that one is due.
// `share` is the part of the pass that is done, 0 to
// 1; negative if unknown. `window` has the metrics of the examples since the last line;
// NULL if unknown.
void progress_line(struct progress *p, uint32_t epoch, double share, uint64_t batches,
                   const struct metrics *m, const struct metrics *window);

// Prints a line about a finished pass; `valid` may be NULL. A listener gets `record`.
// Other messages go to the log, which replaces a line that is being drawn
// (os/terminal.h).
void progress_pass(struct progress *p, uint32_t epoch, const struct metrics *m,
                   const struct metrics *valid, const struct metrics_stream *seen,
                   const struct history_pass *record);

#endif
