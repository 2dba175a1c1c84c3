// Turns packed examples into the input of a model: pointers to rows, prefetched, and
// values.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_ROWS_VIEW_H
#define TUG_TRAIN_ROWS_VIEW_H

#include "data/dataset/dataset.h"
#include "train/rows/hot.h"
#include "train/rows/parameters.h"

// A batch of examples as a model needs it. It belongs to one thread.
struct view {
    struct batch batch;
    size_t cap; // features that rows, x and u have room for
    float **rows;
    float *x; // values; 1 for features without a value in the data
    float *u; // values, scaled if the model normalizes
    // Number of elements at the start of x and u that are 1 from earlier batches.
    size_t n_ones;
    uint64_t *draw; // model_batch.draw, for n_draws examples
    size_t n_draws, cap_draws;
    struct model_latent latent; // model_batch.latent
};
// Makes room for the batch's features, and sets their values x and u.
int view_values(struct view *v, const struct model *m);
// Takes examples order[0..n) of the data set; uses the worker's copies for rows that
// `hot` (or NULL) has.
int view_take(struct view *v, const struct dataset *d, const uint64_t *order, size_t n,
              const struct parameters *p, const struct hot_copies *hot);
// Does what view_take does, for the examples that v->batch already holds.
int view_rows(struct view *v, const struct parameters *p, const struct hot_copies *hot);
// For training with dropout: draws a random number for each example, which selects the
// units that are kept. Each pass draws other numbers.
int view_draw(struct view *v, const struct model *m, uint64_t pass, const uint64_t *order,
              size_t n);
struct model_batch view_batch(const struct view *v);
void view_free(struct view *v);

#endif
