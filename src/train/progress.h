// Progress: the output of a running run on standard error. On a terminal one line that is
// drawn over; elsewhere a plain line now and then, or every N batches.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_PROGRESS_H
#define TUG_TRAIN_PROGRESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "data/schema.h"
#include "model/metrics.h"
#include "train/config.h"

struct progress;

// log_batches != 0: plain lines only, asked for by the trainer; 0: by the clock.
// `listener` (NULL: nobody) hears what is else printed.
// dot_batches != 0: and a dot every so many batches.
int progress_open(struct progress **ret, uint32_t epochs, uint64_t log_batches,
                  uint64_t dot_batches, const struct train_listener *listener,
                  struct err *e);
// From here on metrics are those of each of the schema's labels, one behind the other:
// lines have their names. Before, there is one label. TUG_ENOMEM.
int progress_name_labels(struct progress *p, const struct schema *s, struct err *e);
void progress_close(struct progress *p); // NULL is fine; ends a line that is being drawn

// Called by one thread after each batch: the team should stop so that a line can be
// printed, or because a signal came. Reads the clock now and then only.
bool progress_wants_a_stop(struct progress *p, const atomic_bool *interrupted);

// Whether the clock says that a line is due.
bool progress_is_due(const struct progress *p);

// Notes that so many batches of the run are trained: for a caller that learns of several
// at once. Prints the dots that are due, and gives whether a line is, by batches or else
// by the clock. The first call only says where the run begins.
bool progress_at(struct progress *p, uint64_t batches);

// With log_batches: the metrics of the examples since the previous call, from the stream
// of the pass so far. False: there are no such lines.
bool progress_window(struct progress *p, uint32_t epoch,
                     const struct metrics_stream *stream, enum loss loss,
                     struct metrics *ret);

// Prints a line about the pass so far. `share` of the pass is done (0..1; negative: not
// known). `window`: likewise of the examples since the line before; NULL: not known.
void progress_line(struct progress *p, uint32_t epoch, double share, uint64_t batches,
                   const struct metrics *m, const struct metrics *window);

// A line about a finished pass; `valid` may be NULL. A listener is told its record. Other
// messages between lines go to the log, which takes the place of a line that is being
// drawn (base/terminal.h).
void progress_pass(struct progress *p, uint32_t epoch, const struct metrics *m,
                   const struct metrics *valid, const struct metrics_stream *seen,
                   const struct history_pass *record);

#endif
