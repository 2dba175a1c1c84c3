// Fully connected layers over the fields' vectors:
//
//   x = [for each field the sum of its features' vectors]
//   score = b + u . relu(... relu(x W1 + b1) ...)
//
// SPDX-License-Identifier: Apache-2.0
#include "model/deep.h"

static void forward(struct model_work *w, const struct model_batch *b, float *ret)
{
    struct deep d = deep_of(w, b);
    deep_forward(&d, w, b, ret);
}

static void backward(struct model_work *w, const struct model_batch *b, const float *err,
                     float *const *ret, float *dense)
{
    struct deep d = deep_of(w, b);
    deep_backward(&d, w, b, err, dense);
    deep_no_linear(b, ret[MODEL_LINEAR]);
    fields_backward(w, b, d.dx, ret[MODEL_LATENT]);
}

const struct model_ops model_mlp = {
    .name = "mlp", .dims_by_field = true, .layout = deep_layout, DEEP_OPS};
