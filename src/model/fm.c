// Factorization machine: a feature has a latent vector in addition to its weight, and
// each pair of an example's features adds the product of their vectors.
//
// SPDX-License-Identifier: Apache-2.0
#include "model/model_internal.h"

static void fm_layout(const struct model_options *o, struct accessor_options *ret)
{
    ret->dim = o->dim;
}

// Returns the number of kept floats, which are the sum of an example's vectors.
static size_t kept_floats(const struct model *m)
{
    return m->options.dim + KERNEL_PADDING;
}

static float fm_score_one(struct model_work *w, const struct model_example *x,
                          float *sums)
{
    const struct model *m = w->model;
    return model_linear(w, x) +
           m->kernels->fm_score(x->latent.rows, model_group(w, MODEL_LATENT)->weights,
                                x->latent.u, x->latent.n, m->options.dim, sums);
}

static void gradient(struct model_work *w, const struct model_example *x,
                     const float *sums, float err, float *const *ret)
{
    const struct model *m = w->model;
    model_linear_gradients(w, x, err, ret[MODEL_LINEAR]);
    m->kernels->fm_grad(x->latent.rows, model_group(w, MODEL_LATENT)->weights,
                        x->latent.u, x->latent.n, m->options.dim, sums, err,
                        ret[MODEL_LATENT]);
}

static void step(struct model_work *w, const struct model_example *x, const float *sums,
                 float err, const struct model_training *t)
{
    const struct model *m = w->model;
    const struct rule_params *rule = &t->rules[MODEL_LATENT];
    const struct accessor_group *g = model_group(w, MODEL_LATENT);
    model_linear_step(w, x, err, t);
    model_set_l2(w, rule, x->latent.n);
    w->kernels->fm_step[rule->kind](rule, w->l2, x->latent.rows, g->weights, g->state,
                                    x->latent.u, x->latent.n, m->options.dim, sums, err,
                                    w->gradients[MODEL_LATENT]);
}

static float pair(const struct model *m, const struct model_batch *b, size_t i, size_t j)
{
    uint32_t v = m->accessor.groups[MODEL_LATENT].weights;
    return b->u[i] * b->u[j] *
           model_product(b->rows[i] + v, b->rows[j] + v, m->options.dim);
}

MODEL_BY_EXAMPLE(fm_score_one, gradient, step)

const struct model_ops model_fm = {
    .name = "fm",
    .groups = {"w", "v"},
    .check = model_check_dim,
    .layout = fm_layout,
    .kept = kept_floats,
    .at_once = 8,
    .forward = forward,
    .backward = backward,
    .step = fused_step,
    .pair = pair,
};
