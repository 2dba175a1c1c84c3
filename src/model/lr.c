// Logistic regression: each feature has a weight.
//
// SPDX-License-Identifier: Apache-2.0
#include "model/model_internal.h"

static void defaults(struct model_options *o)
{
    o->normalize = false; // normalisation applies to pairs, which lr does not have
}

static float lr_score(struct model_work *w, const struct model_example *x, float *kept)
{
    (void)kept;
    return model_linear(w, x);
}

static void gradient(struct model_work *w, const struct model_example *x,
                     const float *kept, float err, float *const *ret)
{
    (void)kept;
    model_linear_gradients(w, x, err, ret[MODEL_LINEAR]);
}

static void step(struct model_work *w, const struct model_example *x, const float *kept,
                 float err, const struct model_training *t)
{
    (void)kept;
    model_linear_step(w, x, err, t);
}

MODEL_BY_EXAMPLE(lr_score, gradient, step)

const struct model_ops model_lr = {
    .name = "lr",
    .groups = {"w"},
    .defaults = defaults,
    .at_once = 8,
    .forward = forward,
    .backward = backward,
    .step = fused_step,
};
