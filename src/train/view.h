// Turns packed examples into a model's input: row pointers, values, and prefetched rows.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_VIEW_H
#define TUG_TRAIN_VIEW_H

#include "data/dataset.h"
#include "train/hot.h"
#include "train/parameters.h"

// A batch of examples with all that the model wants to see: one thread's.
struct view {
    struct batch batch;
    size_t cap; // features that rows and x have room for
    float **rows;
    float *x;       // values, 1 where the data has none
    float *u;       // the same, scaled when the model normalizes
    size_t n_ones;  // of both, that are 1 because no batch has had values
    uint64_t *draw; // model_batch.draw, of n_draws examples
    size_t n_draws, cap_draws;
    struct model_latent latent; // model_batch.latent
};
// Room for the batch's features, and their values x and u.
int view_values(struct view *v, const struct model *m);
// Takes examples order[0..n) of the data set. Rows that `hot` (or NULL) has copies of are
// those.
int view_take(struct view *v, const struct dataset *d, const uint64_t *order, size_t n,
              const struct parameters *p, const struct hot_copies *hot);
// Likewise for the examples in v->batch already.
int view_rows(struct view *v, const struct parameters *p, const struct hot_copies *hot);
// Training: draws what dropout leaves of each example's layers, if there is any. `pass`:
// another one has others.
int view_draw(struct view *v, const struct model *m, uint64_t pass, const uint64_t *order,
              size_t n);
struct model_batch view_batch(const struct view *v);
void view_free(struct view *v);

#endif
