// See toy_model.h. A model needs only this file, and a line that registers it.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/toy_model.h"

#include "base/relaxed.h"

static void toy_layout(const struct model_options *o, struct accessor_options *ret)
{
    (void)o;
    ret->embed = 2;
}

static void toy_forward(struct model_work *w, const struct model_batch *b, float *ret)
{
    uint32_t at = w->model->accessor.groups[0].weights;
    for (size_t i = 0; i < b->n; i++) {
        ret[i] = 0;
        for (uint32_t j = b->start[i]; j < b->start[i + 1]; j++) {
            float p = relaxed_load(b->rows[j] + at),
                  q = relaxed_load(b->rows[j] + at + 1);
            ret[i] += (p + 2 * q + p * q) * b->x[j];
        }
    }
}

static void toy_backward(struct model_work *w, const struct model_batch *b,
                         const float *err, float *const *ret, float *dense)
{
    (void)dense;
    uint32_t at = w->model->accessor.groups[0].weights;
    for (size_t i = 0; i < b->n; i++) {
        for (uint32_t j = b->start[i]; j < b->start[i + 1]; j++) {
            float *to = ret[0] + 2 * (size_t)(j - b->start[0]);
            to[0] = err[i] * b->x[j] * (1 + relaxed_load(b->rows[j] + at + 1));
            to[1] = err[i] * b->x[j] * (2 + relaxed_load(b->rows[j] + at));
        }
    }
}

const struct model_ops toy = {
    .name = "toy",
    .groups = {"p and q"},
    .layout = toy_layout,
    .at_once = 16,
    .forward = toy_forward,
    .backward = toy_backward,
};
