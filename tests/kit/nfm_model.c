// nfm_model.h:
//   z = sum over pairs of features v_i u_i * v_j u_j          (* by element)
//   score = b + sum w_i x_i + h . relu(... relu(z W1 + b1) ...)
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/nfm_model.h"

#include "base/relaxed.h"
#include "model/deep.h"

static struct tower tower(const struct model_options *o)
{
    return tower_of(o, o->dim);
}

static size_t dense(const struct model_options *o)
{
    struct tower t = tower(o);
    return tower_score_parameters(&t);
}

static void first(const struct model_options *o, float *ret)
{
    struct tower t = tower(o);
    tower_score_first(&t, ret);
}

static size_t summaries(const struct model_options *o)
{
    struct tower t = tower(o);
    return tower_summaries(&t);
}

// Returns the number of floats that are kept for an example: z, d loss / d z, the sum of
// its vectors, and the tower's values.
static size_t kept(const struct model *m)
{
    struct tower t = tower(&m->options);
    return 3 * (size_t)m->options.dim + tower_kept(&t);
}

// z = (sum^2 - sum of squares) / 2.
static void pairs(const struct model_work *w, const struct model_example *x, float *z)
{
    uint32_t dim = w->model->options.dim, v = model_group(w, MODEL_LATENT)->weights;
    float *sum = z + 2 * dim;
    memset(z, 0, 3 * dim * sizeof(*z));
    for (size_t j = 0; j < x->latent.n; j++)
        for (uint32_t c = 0; c < dim; c++) {
            float a = x->latent.u[j] * relaxed_load(x->latent.rows[j] + v + c);
            sum[c] += a;
            z[c] -= a * a / 2;
        }
    for (uint32_t c = 0; c < dim; c++)
        z[c] += sum[c] * sum[c] / 2;
}

static void forward(struct model_work *w, const struct model_batch *b, float *ret)
{
    uint32_t dim = w->model->options.dim;
    struct tower t = tower(&w->model->options);
    struct matrix z = {w->kept, b->n, dim, w->stride};
    memset(ret, 0, b->n * sizeof(*ret));
    for (size_t i = 0; i < b->n; i++) {
        struct model_example x = model_example(b, i);
        pairs(w, &x, model_kept(w, i));
    }
    tower_score(&t, w, b, z, w->kept + 3 * dim, ret);
    deep_linear(w, b, ret);
}

static void backward(struct model_work *w, const struct model_batch *b, const float *err,
                     float *const *ret, float *gradient)
{
    uint32_t dim = w->model->options.dim, v = model_group(w, MODEL_LATENT)->weights;
    struct tower t = tower(&w->model->options);
    float *to = ret[MODEL_LATENT];
    struct matrix z = {w->kept, b->n, dim, w->stride},
                  dz = {w->kept + dim, b->n, dim, w->stride};
    tower_score_backward(&t, w, b, z, err, w->kept + 3 * dim, gradient, dz);
    deep_linear_gradients(w, b, err, ret[MODEL_LINEAR]);
    for (size_t i = 0; i < b->n; i++) {
        struct model_example x = model_example(b, i);
        const float *d = model_kept(w, i) + dim, *sum = d + dim;
        for (size_t j = 0; j < x.latent.n; j++, to += dim)
            for (uint32_t c = 0; c < dim; c++) {
                float u = x.latent.u[j];
                to[c] = d[c] * u * (sum[c] - u * relaxed_load(x.latent.rows[j] + v + c));
            }
    }
}

const struct model_ops nfm = {
    .name = "nfm",
    .groups = {"w", "v"},
    .defaults = deep_defaults,
    .check = deep_check,
    .layout = deep_layout,
    .dense = dense,
    .first = first,
    .summaries = summaries,
    .kept = kept,
    .at_once = MODEL_AT_ONCE_MAX,
    .forward = forward,
    .backward = backward,
};
