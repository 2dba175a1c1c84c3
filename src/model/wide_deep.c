// Wide & Deep (Cheng et al. 2016, figure 1): logistic regression on all features and
// layers over the fields' vectors, trained together.
//
//   score = b + sum w_i x_i + u . relu(... relu(x W1 + b1) ...)
//
// SPDX-License-Identifier: Apache-2.0
#include "model/deep.h"

static void forward(struct model_work *w, const struct model_batch *b, float *ret)
{
    struct deep d = deep_of(w, b);
    deep_forward(&d, w, b, ret);
    deep_linear(w, b, ret);
}

static void backward(struct model_work *w, const struct model_batch *b, const float *err,
                     float *const *ret, float *dense)
{
    struct deep d = deep_of(w, b);
    deep_backward(&d, w, b, err, dense);
    deep_linear_gradients(w, b, err, ret[MODEL_LINEAR]);
    fields_backward(w, b, d.dx, ret[MODEL_LATENT]);
}

const struct model_ops model_wide_deep = {
    .name = "wide_deep", .dims_by_field = true, .layout = deep_wide_layout, DEEP_OPS};
