// Common functions of the models with layers: their options, and the gradients of the
// linear part.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_MODEL_DEEP_H
#define TUG_MODEL_DEEP_H

#include <string.h>

#include "model/layers.h"
#include "model/model_internal.h"

// Sets the defaults of models with layers: three layers of 400 units, as in the papers.
void deep_defaults(struct model_options *o);
int deep_check(const struct model_options *o, struct err *e);
void deep_layout(const struct model_options *o, struct accessor_options *ret);

// Returns the number of dense parameters: those of the layers that the tasks share and,
// for each task, those of its tower and of the output unit above it. The tower of a
// single task has no layers, only the unit.
size_t deep_dense(const struct model_options *o);
void deep_first(const struct model_options *o, float *ret);
size_t deep_summaries(const struct model_options *o);
void deep_layer_name(const struct model_options *o, size_t at,
                     char ret[MODEL_LAYER_NAME_MAX]);

// The values that are kept for an example: the layers' input x, d loss / d x, then the
// values of the shared layers and of each tower.
struct deep {
    struct tower shared;
    struct matrix x, dx;
    float *kept; // values of the shared layers, then of each tower
};
struct deep deep_of(const struct model_work *w, const struct model_batch *b);
size_t deep_kept(const struct model *m);

// deep_forward computes x, and the scores of the towers on it. deep_backward computes dx,
// and the gradients of the layers.
void deep_forward(struct deep *d, const struct model_work *w, const struct model_batch *b,
                  float *ret_scores);
// Computes only the towers' scores; used as model_ops.layers.
void deep_layers(struct model_work *w, const struct model_batch *b, float *ret_scores);
void deep_backward(struct deep *d, const struct model_work *w,
                   const struct model_batch *b, const float *err, float *dense);

// Members of struct model_ops, without the name, for a model whose score is the tower's score
// plus the bias. The model's file must define `forward` and `backward`.
#define DEEP_OPS                                                                         \
    .groups = {"w", "v"}, .needs_fields = true, .tasks = true,                           \
    .defaults = deep_defaults, .check = deep_check, .dense = deep_dense,                 \
    .first = deep_first, .summaries = deep_summaries, .kept = deep_kept,                 \
    .at_once = MODEL_AT_ONCE_MAX, .by_layer = true, .forward = forward,                  \
    .backward = backward, .layers = deep_layers, .layer_name = deep_layer_name

// These functions serve the linear part, in which each feature has a weight for each task
// (deep_wide_layout). deep_linear adds the linear part to the scores.
// deep_linear_gradients computes its gradients. For a model without a linear part, whose
// rows have one weight, deep_no_linear sets the gradients to 0.
void deep_wide_layout(const struct model_options *o, struct accessor_options *ret);
void deep_linear(const struct model_work *w, const struct model_batch *b, float *scores);
void deep_linear_gradients(const struct model_work *w, const struct model_batch *b,
                           const float *err, float *ret_gradients);
static inline void deep_no_linear(const struct model_batch *b, float *ret_gradients)
{
    memset(ret_gradients, 0, model_features(b) * sizeof(*ret_gradients));
}

#endif
