// The dense parameters as one thread uses them: the floats that a model sees, read from
// the rows of the blocks (model/model.h), and their gradient. Also the sums of gradients
// in the order of the fixed tree.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_ROWS_DENSE_H
#define TUG_TRAIN_ROWS_DENSE_H

#include "model/model.h"
#include "table/tree_sum.h"

// Returns a new array of model_dense(m) zeros, which the caller frees; NULL if there is
// not enough memory.
float *dense_floats(const struct model *m);

// Returns the keys of the blocks, which the caller frees; NULL if there is not enough
// memory.
uint64_t *dense_keys(const struct model *m);

// dense_read copies the weights out of the blocks' rows, which other threads may be
// changing; dense_write stores weights into them.
void dense_read(const struct model *m, float *const *blocks, float *ret);

void dense_write(const struct model *m, const float *values, float *const *blocks);

struct dense {
    float *values, *gradient;
};
int dense_open(struct dense *d, const struct model *m); // may return TUG_ENOMEM
void dense_close(struct dense *d);                      // a zeroed struct is fine

// Multiplies a gradient by `scale`, except for the floats of summaries, which are added
// up and never averaged.
void dense_scale(const struct model *m, float scale, float *gradient);

// Updates the rows once by the gradient times `scale`, and zeroes the gradient.
void dense_step(struct dense *d, const struct model *m, const struct rule_params *rule,
                float *const *blocks, float scale);

// Sums of the gradients of the micro-batches [from, end) (train/rows/micro.h), which are
// added in ascending order. Two neighbouring sums are joined as soon as they are complete
// halves of a node of the tree. Other sums stay separate, because other threads have the
// micro-batches that would complete them.
struct dense_sums {
    size_t n, width;
    uint32_t from, end;
    uint8_t first[TREE_LEAVES]; // the first micro-batch of each sum
    float *values[TREE_LEAVES]; // the sums; NULL: not allocated yet
};
void dense_sums_begin(struct dense_sums *s, const struct model *m, uint32_t from,
                      uint32_t end);
void dense_sums_close(struct dense_sums *s);
// Returns the array to which the caller adds the gradient of this micro-batch. The first
// call for a micro-batch returns zeros. Returns NULL if there is not enough memory.
float *dense_sums_micro(struct dense_sums *s, const struct kernels *k, uint8_t micro);

#endif
