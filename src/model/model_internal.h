// Internals that the files of the models share: the linear part, and the loops of models
// that compute each example by itself.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_MODEL_MODEL_INTERNAL_H
#define TUG_MODEL_MODEL_INTERNAL_H

#include <assert.h>

#include "base/relaxed.h"
#include "model/loss.h"
#include "model/model.h"

#define MODEL_DECLARE(name, about) extern const struct model_ops model_##name;
MODELS(MODEL_DECLARE)
#undef MODEL_DECLARE

enum {
    MODEL_LINEAR,
    MODEL_LATENT
}; // indices of a row's groups, in all models of this library

// Checks --dim. Returns 0 or TUG_EUSAGE.
int model_check_dim(const struct model_options *o, struct err *e);

static inline const struct accessor_group *model_group(const struct model_work *w,
                                                       uint32_t group)
{
    return &w->model->accessor.groups[group];
}

// Returns the layers' parameters, which are the dense parameters after the biases.
static inline const float *model_layers(const struct model_work *w)
{
    return w->dense + w->model->options.tasks;
}

// Report n parameters of the layers from `at` on to model_work.flow: model_needs before
// they are read, model_has when their gradients are complete.
static inline void model_needs(const struct model_work *w, size_t at, size_t n)
{
    if (w->flow != NULL)
        w->flow->needs(w->flow->ctx, w->model->options.tasks + at, n);
}
static inline void model_has(const struct model_work *w, size_t at, size_t n)
{
    if (w->flow != NULL)
        w->flow->has(w->flow->ctx, w->model->options.tasks + at, n);
}

// The first function returns the summaries, the second the memory to which their changes
// are added (in the layers' gradients).
static inline const float *model_summaries(const struct model_work *w)
{
    return w->dense + w->model->summaries;
}
static inline float *model_summary_gradients(const struct model_work *w, float *layers)
{
    return layers - w->model->options.tasks + w->model->summaries;
}

// Returns the values that `forward` has kept for example i of the batch.
static inline float *model_kept(const struct model_work *w, size_t i)
{
    return w->kept + i * w->stride;
}

// Computes d loss / d score of an example from its score without the bias, and counts the
// example. Returns false if the score is not finite.
static inline bool model_err_of(struct model_training *t, struct metrics_stream *stream,
                                float score, float label, float weight, float *ret_err)
{
    if (!(score - score == 0))
        return false;
    double prediction = loss_prediction(t->loss, score);
    metrics_stream_add(stream, t->loss, score, prediction, label, weight);
    *ret_err = weight * loss_gradient(t->loss, prediction, label);
    return true;
}

static inline bool model_err(const struct model_work *w, struct model_training *t,
                             const struct model_batch *b, size_t i, float score,
                             float *ret_err)
{
    return model_err_of(t, t->stream, score + w->dense[0], b->label[i],
                        b->weight != NULL ? b->weight[i] : 1, ret_err);
}

// The features of one example. `latent` has those features that have weights of the
// second group.
struct model_example {
    size_t n;
    float *const *rows;
    const float *x;
    struct {
        size_t n;
        float *const *rows;
        const float *u;
        const uint16_t *slot;
    } latent;
};

static inline struct model_example model_example(const struct model_batch *b, size_t i)
{
    uint32_t from = b->start[i], n = b->start[i + 1] - from;
    struct model_example x = {
        .n = n,
        .rows = b->rows + from,
        .x = b->x + from,
        .latent = {n, b->rows + from, b->u + from, b->slot + from},
    };
    if (b->latent.start == NULL)
        return x;
    from = b->latent.start[i];
    x.latent.n = b->latent.start[i + 1] - from;
    x.latent.rows = b->latent.rows + from;
    x.latent.u = b->latent.u + from;
    x.latent.slot = b->latent.slot + from;
    return x;
}

// The linear part: sum w_i x_i, its gradients, and its step. The step also counts each
// row's updates if rows have a count. Without a count, rule_params.prior is 0.

static inline float model_linear(const struct model_work *w,
                                 const struct model_example *x)
{
    return w->model->kernels->gather_dot(x->rows, model_group(w, MODEL_LINEAR)->weights,
                                         x->x, x->n);
}

static inline void model_linear_gradients(const struct model_work *w,
                                          const struct model_example *x, float err,
                                          float *ret)
{
    w->model->kernels->scale(ret, err, x->x, x->n);
}

// Returns the product of two vectors of n floats in rows that other threads may be
// changing.
static inline float model_product(const float *a, const float *b, size_t n)
{
    float sum = 0;
    for (size_t c = 0; c < n; c++)
        sum += relaxed_load(a + c) * relaxed_load(b + c);
    return sum;
}

// Sets w->l2 to the decay of each row's weights in a step. See rule_params.prior.
static inline void model_set_l2(struct model_work *w, const struct rule_params *rule,
                                size_t n)
{
    for (size_t i = 0; i < n; i++)
        w->l2[i] = rule->l2 + rule->prior * w->share[i];
}

static inline void model_linear_step(struct model_work *w, const struct model_example *x,
                                     float err, const struct model_training *t)
{
    const struct kernels *k = w->kernels;
    const struct rule_params *rule = &t->rules[MODEL_LINEAR];
    const struct accessor_group *g = model_group(w, MODEL_LINEAR);
    float *gradients = w->gradients[MODEL_LINEAR];
    if (w->model->accessor.count != ACCESSOR_NO_COUNT)
        k->count(x->rows, w->model->accessor.count, NULL, t->pass, w->share, x->n);
    k->scale(gradients, err, x->x, x->n);
    model_set_l2(w, rule, x->n);
    k->apply_column[rule->kind](rule, w->l2, x->rows, g->weights, g->state, gradients,
                                x->n);
}

// Returns the kernels for a step. If a row occurs twice in an example, its second update
// must read the first one's result.
static inline const struct kernels *model_step_kernels(const struct model_work *w,
                                                       const struct model_example *x)
{
    const struct kernels *k = w->model->kernels;
    bool repeats = k->repeats(x->rows, x->n) ||
                   (x->latent.rows != x->rows && k->repeats(x->latent.rows, x->latent.n));
    return repeats ? &kernels_ref : k;
}

// A model that computes each example by itself has three functions of one example:
//
//   float score(struct model_work *w, const struct model_example *x, float *kept);
//   void gradient(struct model_work *w, const struct model_example *x, const float *kept,
//                 float err, float *const *ret_gradients);
//   void step(struct model_work *w, const struct model_example *x, const float *kept,
//             float err, const struct model_training *t);
//
// This macro defines forward, backward and fused_step with them. The loops are in the
// model's file, so that the compiler can inline the three functions.
#define MODEL_BY_EXAMPLE(score, gradient, step)                                          \
    static void forward(struct model_work *w, const struct model_batch *b, float *ret)   \
    {                                                                                    \
        for (size_t i = 0; i < b->n; i++) {                                              \
            struct model_example x = model_example(b, i);                                \
            ret[i] = score(w, &x, model_kept(w, i));                                     \
        }                                                                                \
    }                                                                                    \
                                                                                         \
    static void backward(struct model_work *w, const struct model_batch *b,              \
                         const float *err, float *const *ret, float *dense)              \
    {                                                                                    \
        const struct accessor *a = &w->model->accessor;                                  \
        (void)dense;                                                                     \
        assert(b->latent.start == NULL);                                                 \
        for (size_t i = 0; i < b->n; i++) {                                              \
            struct model_example x = model_example(b, i);                                \
            float *to[ACCESSOR_MAX_GROUPS];                                              \
            for (uint32_t g = 0; g < a->n_groups; g++)                                   \
                to[g] = ret[g] + (size_t)(b->start[i] - b->start[0]) * a->groups[g].n;   \
            gradient(w, &x, model_kept(w, i), err[i], to);                               \
        }                                                                                \
    }                                                                                    \
                                                                                         \
    static int fused_step(struct model_work *w, const struct model_batch *b,             \
                          struct model_training *t)                                      \
    {                                                                                    \
        for (size_t i = 0; i < b->n; i++) {                                              \
            struct model_example x = model_example(b, i);                                \
            float err;                                                                   \
            TRY(model_reserve(w, x.n));                                                  \
            if (!model_err(w, t, b, i, score(w, &x, w->kept), &err)) {                   \
                t->bad = i;                                                              \
                return TUG_EDATA;                                                        \
            }                                                                            \
            w->kernels = model_step_kernels(w, &x);                                      \
            step(w, &x, w->kept, err, t);                                                \
            t->dense_gradient[0] += err;                                                 \
        }                                                                                \
        return 0;                                                                        \
    }

#endif
