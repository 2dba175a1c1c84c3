// Dense parameters, as a thread has them: the floats that a model sees, read from the
// rows of the blocks (model/model.h), and their gradient; and sums of gradients in the
// order of the fixed tree.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_DENSE_H
#define TUG_TRAIN_DENSE_H

#include "model/model.h"
#include "table/tree_sum.h"

// Returns model_dense floats, zeros; NULL if memory is out.
float *dense_floats(const struct model *m);

// Returns the keys of the blocks, which the caller frees; NULL if memory is out.
uint64_t *dense_keys(const struct model *m);

// Copies the weights of the blocks' rows, which others may be changing; and sets them.
void dense_read(const struct model *m, float *const *blocks, float *ret);

void dense_write(const struct model *m, const float *values, float *const *blocks);

struct dense {
    float *values, *gradient;
};
int dense_open(struct dense *d, const struct model *m); // TUG_ENOMEM
void dense_close(struct dense *d);                      // a zeroed one is fine

// A gradient that was added up becomes that times `scale`. Summaries are added up, never
// averaged: they stay.
void dense_scale(const struct model *m, float scale, float *gradient);

// Updates the rows once by the gradient times `scale`, and zeroes the gradient.
void dense_step(struct dense *d, const struct model *m, const struct rule_params *rule,
                float *const *blocks, float scale);

// Gradients of the micro-batches (train/micro.h) [from, end), which come ascending.
// Gradients of a whole half of the tree are added up as soon as it is complete; others
// stay apart, since other threads have the parts between them.
struct dense_sums {
    size_t n, width;
    uint32_t from, end;
    uint8_t first[TREE_LEAVES]; // the first micro-batch of each
    float *values[TREE_LEAVES]; // NULL: none yet
};
void dense_sums_begin(struct dense_sums *s, const struct model *m, uint32_t from,
                      uint32_t end);
void dense_sums_close(struct dense_sums *s);
// Where the gradient of this micro-batch is added: zeros when it is the first time. NULL
// if memory is out.
float *dense_sums_micro(struct dense_sums *s, const struct kernels *k, uint8_t micro);

#endif
