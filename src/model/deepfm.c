// DeepFM (Guo et al. 2017, figure 1): a factorization machine beside layers, both on the
// same vectors.
//
//   e_f = the sum of the vectors of field f's features
//   score = b + sum w_i x_i + sum over pairs <e_f, e_g> / fields
//             + u . relu(... relu([e] W1 + b1) ...)
//
// The paper has no / fields: with it the pairs of many fields weigh no more than those of
// few, as normalized values do in fm, and one rate is right for both (docs/models.md).
//
// SPDX-License-Identifier: Apache-2.0
#include "model/deep.h"

// The sum of all fields' vectors.
static void sum_fields(const float *x, size_t fields, size_t dim, float *ret)
{
    memset(ret, 0, dim * sizeof(*ret));
    for (size_t f = 0; f < fields; f++)
        for (size_t c = 0; c < dim; c++)
            ret[c] += x[f * dim + c];
}

// Half of the sum's square without the fields' own (Rendle 2010, lemma 3.1), by fields.
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

static void forward(struct model_work *w, const struct model_batch *b, float *ret)
{
    const struct model_options *o = &w->model->options;
    struct deep d = deep_of(w, b);
    deep_forward(&d, w, b, ret);
    deep_linear(w, b, ret);
    for (size_t i = 0; i < b->n; i++)
        ret[i] += pairs(d.x.at + i * d.x.stride, o->fields, o->dim);
}

static void backward(struct model_work *w, const struct model_batch *b, const float *err,
                     float *const *ret, float *dense)
{
    const struct model_options *o = &w->model->options;
    struct deep d = deep_of(w, b);
    deep_backward(&d, w, b, err, dense);
    for (size_t i = 0; i < b->n; i++)
        pairs_gradient(d.x.at + i * d.x.stride, o->fields, o->dim, err[i],
                       d.dx.at + i * d.dx.stride);
    deep_linear_gradients(w, b, err, ret[MODEL_LINEAR]);
    fields_backward(w, b, d.dx, ret[MODEL_LATENT]);
}

// Of features of two fields, whose vectors are terms of the fields'.
static float pair(const struct model *m, const struct model_batch *b, size_t i, size_t j)
{
    uint32_t v = m->accessor.groups[MODEL_LATENT].weights;
    if (b->slot[i] == b->slot[j])
        return 0;
    return b->u[i] * b->u[j] / (float)m->options.fields *
           model_product(b->rows[i] + v, b->rows[j] + v, m->options.dim);
}

const struct model_ops model_deepfm = {.name = "deepfm", DEEP_OPS, .pair = pair};
