// Data about a run that its report (--report) shows besides the result: loss and AUC
// within passes, the curves and the importance of columns on the scored data, and the
// warnings. Collected only if --report is given.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_REPORT_DATA_H
#define TUG_TRAIN_REPORT_DATA_H

#include "base/buf.h"
#include "train/evaluate/importance.h"

// Loss and AUC of the first label at a point of a pass; each example was scored before it
// was trained on. `window` covers the examples since the point before.
struct report_data_point {
    uint32_t pass;     // the number of the pass, from 1
    uint64_t examples; // examples of the pass so far
    double loss, auc;  // metrics over these examples
    double window_loss, window_auc;
};

enum { REPORT_DATA_POINTS = 400, REPORT_DATA_STEPS = 40 };

// A zeroed struct is empty.
struct report_data {
    struct report_data_point point[REPORT_DATA_POINTS];
    uint32_t points;
    struct metrics_stream *before; // the sums at the last point; NULL: no point yet
    uint32_t before_pass;
    // The part of the pass that had been done at the last point added by
    // report_data_note_share.
    double share;
    double positives; // sum of weighted labels of the last pass
    // The curves on the --test data, of the latest validation, and of the validation of
    // the pass that the model is taken from.
    struct curves test, latest, valid;
    struct importance importance; // measured on the --test data
    bool has_importance;
    struct buf warnings; // warnings of the run, each followed by a line end
    uint64_t began_unix_ns;
};
void report_data_free(struct report_data *p);

// Drops the data of an earlier run, and collects this thread's warnings until
// report_data_end. If `p` is NULL, this function and the following ones do nothing.
void report_data_begin(struct report_data *p);
void report_data_end(struct report_data *p);

// Returns the number of batches between two points, for a pass or window of `batches`; 0:
// no points are wanted.
uint64_t report_data_every(const struct report_data *p, uint32_t passes,
                           uint64_t batches);

// Adds a point. `seen` has the sums of the pass so far. If memory is short, no point is
// added.
void report_data_note(struct report_data *p, uint32_t pass,
                      const struct metrics_stream *seen, enum loss loss);
// Does what report_data_note does, if at least 1/REPORT_DATA_STEPS of the pass was done
// since the last point (a greater part of it if the run has many passes).
void report_data_note_share(struct report_data *p, uint32_t pass, double share,
                            const struct metrics_stream *seen, enum loss loss);

// Adds a warning to those of the page. `p` must not be NULL.
void report_data_warn(struct report_data *p, const char *text);

// Keeps the curves of the latest validation, because it was the best so far.
void report_data_keep(struct report_data *p);

// Checks, before the run begins, that the file of --report can be written and that it is
// missing, empty or an earlier report, and none of the data files `read` (NULL: none).
// Returns TUG_EUSAGE or TUG_EIO if not.
struct data_files;
int report_data_check_file(const char *path, const struct data_files *read,
                           struct err *e);

#endif
