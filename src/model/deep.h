// Shared by the models with layers: their options, and the gradients of the linear part.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_MODEL_DEEP_H
#define TUG_MODEL_DEEP_H

#include <string.h>

#include "model/layers.h"
#include "model/model_internal.h"

// Three layers of 400 units by default, as the papers have them.
void deep_defaults(struct model_options *o);
int deep_check(const struct model_options *o, struct err *e);
void deep_layout(const struct model_options *o, struct accessor_options *ret);

// The dense parameters of the layers that the tasks share, and of each task's tower with
// the unit behind it. For a single task that tower has no layers.
size_t deep_dense(const struct model_options *o);
void deep_first(const struct model_options *o, float *ret);
size_t deep_summaries(const struct model_options *o);
void deep_layer_name(const struct model_options *o, size_t at,
                     char ret[MODEL_LAYER_NAME_MAX]);

// Kept for an example: the layers' input x, d loss / d x, then the values of the shared
// layers and of each tower.
struct deep {
    struct tower shared;
    struct matrix x, dx;
    float *kept; // the shared layers'
};
struct deep deep_of(const struct model_work *w, const struct model_batch *b);
size_t deep_kept(const struct model *m);

// x, and the scores of the towers on it. Backward: dx, and the gradients of the layers.
void deep_forward(struct deep *d, const struct model_work *w, const struct model_batch *b,
                  float *ret_scores);
// model_ops.layers: the towers' scores alone.
void deep_layers(struct model_work *w, const struct model_batch *b, float *ret_scores);
void deep_backward(struct deep *d, const struct model_work *w,
                   const struct model_batch *b, const float *err, float *dense);

// Defines a model that has only the tower behind the bias, but for its name: the file
// provides `forward` and `backward`.
#define DEEP_OPS                                                                         \
    .groups = {"w", "v"}, .needs_fields = true, .tasks = true,                           \
    .defaults = deep_defaults, .check = deep_check, .dense = deep_dense,                 \
    .first = deep_first, .summaries = deep_summaries, .kept = deep_kept,                 \
    .at_once = MODEL_AT_ONCE_MAX, .by_layer = true, .forward = forward,                  \
    .backward = backward, .layers = deep_layers, .layer_name = deep_layer_name

// The linear part, with a weight of a feature for each task (deep_wide_layout): it is
// added to the scores. Its gradients; zeros where a model has none, and one weight.
void deep_wide_layout(const struct model_options *o, struct accessor_options *ret);
void deep_linear(const struct model_work *w, const struct model_batch *b, float *scores);
void deep_linear_gradients(const struct model_work *w, const struct model_batch *b,
                           const float *err, float *ret_gradients);
static inline void deep_no_linear(const struct model_batch *b, float *ret_gradients)
{
    memset(ret_gradients, 0, model_features(b) * sizeof(*ret_gradients));
}

#endif
