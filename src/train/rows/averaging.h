// The mean of a run's parameters over about its last W batches (Polyak & Juditsky 1992),
// kept beside the parameters. Evaluations and saved models use the mean; training goes on
// with the parameters.
//
// The mean is made of samples. A sample adds the parameters with the weight of the
// batches since the last sample. Samples are taken every min(batches so far, W) /
// AVERAGING_SAMPLES batches, and when the data at hand is over:
//
//   mean += (parameters - mean) * batches since then / min(batches so far, W)
//
// At first this is the plain mean; later, old batches fade as exp(-batches / W). A row's
// mean begins with the first sample after the row's first update; until then the mean
// model does not know the feature. docs/design/0014-averaging.md gives the reasons.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_ROWS_AVERAGING_H
#define TUG_TRAIN_ROWS_AVERAGING_H

#include "os/team.h"
#include "train/rows/parameters.h"

enum { AVERAGING_SAMPLES = 32 };

struct averaging;

int averaging_open(struct averaging **ret, uint64_t window, struct team *team,
                   const struct parameters *p, struct err *e);
void averaging_close(struct averaging *a); // `a` may be NULL

// Returns the number of batches of the run after which the next sample is due. The
// last sample was taken after `at` batches; 0 if there was none. As long as the run
// has had fewer batches than the window, the interval is computed as if the window
// were as long as the run so far.
uint64_t averaging_next(const struct averaging *a, uint64_t at);
// Returns what averaging_next returns, for a window of `window` batches; used where no
// struct averaging exists.
uint64_t averaging_due(uint64_t window, uint64_t at);
float averaging_share(uint64_t window, uint64_t batches, uint64_t at);

// Takes a sample after `batches` batches of the run. Earlier samples covered *at of these
// batches; sets *at to `batches`. No thread may train during this call, nor during the
// calls below.
int averaging_sample(struct averaging *a, uint64_t batches, uint64_t *at, struct err *e);

// Exchanges the parameters with their mean; a second call exchanges them back. A row
// without a mean looks as if it was never updated.
int averaging_swap(struct averaging *a, struct err *e);

// Replaces the mean by `mean`, the rows of a saved mean.
int averaging_load(struct averaging *a, const struct parameters *mean, struct err *e);

#endif
