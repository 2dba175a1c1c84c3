// DeepFM (Guo et al. 2017, figure 1): a factorization machine and layers in parallel,
// both on the same vectors.
//
//   e_f = the sum of the vectors of field f's features
//   score = b + sum w_i x_i + sum over pairs <e_f, e_g> / fields
//             + u . relu(... relu([e] W1 + b1) ...)
//
// The division by `fields` is not in the paper. It keeps the sum over pairs from growing
// with the number of fields, as normalized values do in fm, so that the same learning
// rate fits few and many fields (docs/models.md).
//
// Several tasks share the vectors, and so the pairs' products. Each task has a
// vector a of its own, initially all ones, that weights their floats: a . (sum over
// pairs e_f * e_g) / fields (He & Chua 2017, where the output of such a pooling is
// an FM when a is ones).
//
// SPDX-License-Identifier: Apache-2.0
#include "model/deep.h"

#include <stdio.h>

// Computes the sum of all fields' vectors.
static void sum_fields(const float *x, size_t fields, size_t dim, float *ret)
{
    memset(ret, 0, dim * sizeof(*ret));
    for (size_t f = 0; f < fields; f++)
        for (size_t c = 0; c < dim; c++)
            ret[c] += x[f * dim + c];
}

// Returns the sum of the products of all pairs of fields, divided by `fields`. The sum is half
// of: the square of the fields' sum, minus the squares of the fields (Rendle 2010, lemma 3.1).
static float pairs(const float *x, size_t fields, size_t dim)
{
    float sum[MODEL_MAX_DIM], score = 0;
    sum_fields(x, fields, dim, sum);
    for (size_t c = 0; c < dim; c++)
        score += sum[c] * sum[c];
    for (size_t i = 0; i < fields * dim; i++)
        score -= x[i] * x[i];
    return score / 2 / (float)fields;
}

static void pairs_gradient(const float *x, size_t fields, size_t dim, float err,
                           float *dx)
{
    float sum[MODEL_MAX_DIM];
    sum_fields(x, fields, dim, sum);
    for (size_t f = 0; f < fields; f++)
        for (size_t c = 0; c < dim; c++)
            dx[f * dim + c] += err / (float)fields * (sum[c] - x[f * dim + c]);
}

// Returns the number of dense parameters: those of the towers, followed by a vector for
// each task if there are several tasks.
static size_t dense(const struct model_options *o)
{
    return deep_dense(o) + (o->tasks > 1 ? (size_t)o->tasks * o->dim : 0);
}

static void first(const struct model_options *o, float *ret)
{
    deep_first(o, ret);
    for (size_t i = deep_dense(o); i < dense(o); i++)
        ret[i] = 1;
}

// Computes the sum of e_f * e_g / fields over all pairs of fields f and g.
static void products(const struct model_options *o, const float *x, float *ret)
{
    float share = 1 / (2 * (float)o->fields);
    sum_fields(x, o->fields, o->dim, ret);
    for (size_t c = 0; c < o->dim; c++)
        ret[c] *= ret[c];
    for (size_t i = 0; i < (size_t)o->fields * o->dim; i++)
        ret[i % o->dim] -= x[i] * x[i];
    for (size_t c = 0; c < o->dim; c++)
        ret[c] *= share;
}

static void task_pairs(const struct model_work *w, const float *x, float *scores)
{
    const struct model_options *o = &w->model->options;
    const float *a = model_layers(w) + deep_dense(o);
    float p[MODEL_MAX_DIM];
    products(o, x, p);
    for (uint32_t k = 0; k < o->tasks; k++, a += o->dim)
        for (size_t c = 0; c < o->dim; c++)
            scores[k] += a[c] * p[c];
}

static void task_pairs_gradient(const struct model_work *w, const float *x,
                                const float *err, float *dx, float *gradients)
{
    const struct model_options *o = &w->model->options;
    const float *a = model_layers(w) + deep_dense(o);
    float p[MODEL_MAX_DIM], sum[MODEL_MAX_DIM], dp[MODEL_MAX_DIM] = {0};
    float *da = gradients + deep_dense(o);
    products(o, x, p);
    sum_fields(x, o->fields, o->dim, sum);
    for (uint32_t k = 0; k < o->tasks; k++, a += o->dim, da += o->dim)
        for (size_t c = 0; c < o->dim; c++) {
            dp[c] += err[k] * a[c];
            da[c] += err[k] * p[c];
        }
    for (size_t i = 0; i < (size_t)o->fields * o->dim; i++)
        dx[i] += dp[i % o->dim] / (float)o->fields * (sum[i % o->dim] - x[i]);
}

static void forward(struct model_work *w, const struct model_batch *b, float *ret)
{
    const struct model_options *o = &w->model->options;
    struct deep d = deep_of(w, b);
    deep_forward(&d, w, b, ret);
    deep_linear(w, b, ret);
    model_needs(w, deep_dense(o), dense(o) - deep_dense(o));
    for (size_t i = 0; i < b->n && o->tasks > 1; i++)
        task_pairs(w, d.x.at + i * d.x.stride, ret + i * o->tasks);
    if (o->tasks > 1)
        return;
    for (size_t i = 0; i < b->n; i++)
        ret[i] += pairs(d.x.at + i * d.x.stride, o->fields, o->dim);
}

static void backward(struct model_work *w, const struct model_batch *b, const float *err,
                     float *const *ret, float *gradients)
{
    const struct model_options *o = &w->model->options;
    struct deep d = deep_of(w, b);
    deep_backward(&d, w, b, err, gradients);
    for (size_t i = 0; i < b->n && o->tasks > 1; i++)
        task_pairs_gradient(w, d.x.at + i * d.x.stride, err + i * o->tasks,
                            d.dx.at + i * d.dx.stride, gradients);
    model_has(w, deep_dense(o), dense(o) - deep_dense(o));
    for (size_t i = 0; i < b->n && o->tasks == 1; i++)
        pairs_gradient(d.x.at + i * d.x.stride, o->fields, o->dim, err[i],
                       d.dx.at + i * d.dx.stride);
    deep_linear_gradients(w, b, err, ret[MODEL_LINEAR]);
    fields_backward(w, b, d.dx, ret[MODEL_LATENT]);
}

// Returns the term that a pair of features adds to the score; 0 if both are in one field.
static float pair(const struct model *m, const struct model_batch *b, size_t i, size_t j)
{
    uint32_t v = m->accessor.groups[MODEL_LATENT].weights;
    if (b->slot[i] == b->slot[j])
        return 0;
    return b->u[i] * b->u[j] / (float)m->options.fields *
           model_product(b->rows[i] + v, b->rows[j] + v, m->options.dim);
}

static void layer_name(const struct model_options *o, size_t at,
                       char ret[MODEL_LAYER_NAME_MAX])
{
    if (at < deep_dense(o))
        deep_layer_name(o, at, ret);
    else
        snprintf(ret, MODEL_LAYER_NAME_MAX, "the pairs of label %zu",
                 (at - deep_dense(o)) / o->dim + 1);
}

const struct model_ops model_deepfm = {
    .name = "deepfm",
    .groups = {"w", "v"},
    .needs_fields = true,
    .tasks = true,
    .defaults = deep_defaults,
    .check = deep_check,
    .layout = deep_wide_layout,
    .dense = dense,
    .first = first,
    .summaries = deep_summaries,
    .kept = deep_kept,
    .at_once = MODEL_AT_ONCE_MAX,
    .by_layer = true,
    .forward = forward,
    .backward = backward,
    .pair = pair,
    .layers = deep_layers,
    .layer_name = layer_name,
};
