// The mean of a run's parameters over about its last W batches (Polyak & Juditsky 1992),
// beside the parameters: evaluations and saved models use it, training goes on with the
// parameters themselves.
//
// It is made of samples: every min(batches so far, W) / AVERAGING_SAMPLES batches, and
// when the data at hand is over, the parameters are added, with the weight of the batches
// since the sample before:
//
//   mean += (parameters - mean) * batches since then / min(batches so far, W)
//
// That is the plain mean at first, and fades as exp(-batches / W) later. A row's mean
// begins with the first sample after its first update; until then the model does not know
// the feature. docs/design/0014-averaging.md says why.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_AVERAGING_H
#define TUG_TRAIN_AVERAGING_H

#include "base/team.h"
#include "train/parameters.h"

enum { AVERAGING_SAMPLES = 32 };

struct averaging;

int averaging_open(struct averaging **ret, uint64_t window, struct team *team,
                   const struct parameters *p, struct err *e);
void averaging_close(struct averaging *a); // NULL is fine

// After how many batches of the run the next sample is due, when the last one was after
// `at`, 0: there was none. A window longer than the run has samples from the beginning.
uint64_t averaging_next(const struct averaging *a, uint64_t at);
// Likewise for a window of so many batches; and the weight of a sample after `batches`.
uint64_t averaging_due(uint64_t window, uint64_t at);
float averaging_share(uint64_t window, uint64_t batches, uint64_t at);

// Takes a sample after so many batches of the run, of which *at were in earlier samples;
// then sets *at to all. Nobody trains meanwhile, here and below.
int averaging_sample(struct averaging *a, uint64_t batches, uint64_t *at, struct err *e);

// The mean stands where the parameters were, until it is called again. Rows without a
// mean are as if they were never updated.
int averaging_swap(struct averaging *a, struct err *e);

// Takes these, which have the rows of a saved mean, for the mean.
int averaging_load(struct averaging *a, const struct parameters *mean, struct err *e);

#endif
