// What a report shows of a run besides its result (--report): the course of loss and AUC
// within passes, the curves and the importance of columns on the data that was scored,
// and the warnings. Only collected when a report is wanted.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_PICTURES_H
#define TUG_TRAIN_PICTURES_H

#include "base/buf.h"
#include "train/evaluate/importance.h"

// Loss and AUC of the first label at a point of a pass; each example was scored before it
// was trained on. `window` covers the examples since the point before.
struct pictures_point {
    uint32_t pass;     // the number of the pass, from 1
    uint64_t examples; // examples of the pass so far
    double loss, auc;  // over these examples
    double window_loss, window_auc;
};

enum { PICTURES_POINTS = 400, PICTURES_STEPS = 40 };

// A zeroed struct is empty.
struct pictures {
    struct pictures_point point[PICTURES_POINTS];
    uint32_t points;
    struct metrics_stream *before; // the stream at the last point; NULL: none yet
    uint32_t before_pass;
    double share;     // the share of the pass at the last point of pictures_note_share
    double positives; // sum of weighted labels of the last pass
    // The curves of --test; of the latest validation; of the validation of the pass that
    // is kept.
    struct curves test, latest, valid;
    struct importance importance; // on --test
    bool has_importance;
    struct buf warnings; // warnings of the run, each followed by a line end
    uint64_t began_unix_ns;
};
void pictures_free(struct pictures *p);

// Begins a run: forgets an earlier one, and collects this thread's warnings until
// pictures_end. If `p` is NULL, this function and those below do nothing.
void pictures_begin(struct pictures *p);
void pictures_end(struct pictures *p);

// Returns the number of batches between two points, in a pass or window of `batches`; 0:
// none is wanted.
uint64_t pictures_every(const struct pictures *p, uint32_t passes, uint64_t batches);

// Adds a point. `seen` has the sums of the pass so far. Without memory the course has
// fewer points.
void pictures_note(struct pictures *p, uint32_t pass, const struct metrics_stream *seen,
                   enum loss loss);
// Does what pictures_note does, if the pass has come at least a step further since the
// last point.
void pictures_note_share(struct pictures *p, uint32_t pass, double share,
                         const struct metrics_stream *seen, enum loss loss);

// Says that the latest validation was the best so far.
void pictures_keep(struct pictures *p);

// Checks the file of --report before the work: that it can be written, and that this
// overwrites neither data (`read`; NULL: none) nor anything but an earlier report. Returns
// TUG_EUSAGE or TUG_EIO.
struct data_files;
int pictures_check_file(const char *path, const struct data_files *read, struct err *e);

#endif
