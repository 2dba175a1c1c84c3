// Functions common to all models: the registry, tables, a thread's memory, and batches in
// parts.
//
// SPDX-License-Identifier: Apache-2.0
#include "model/model.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/plural.h"
#include "model/data_norm.h"
#include "model/dims.h"
#include "model/layers.h"
#include "model/model_internal.h"
#include "model/pooling.h"
#include "rule/rule.h"

enum { MODELS_MAX = 32 };

#define ENTRY(name, about) &model_##name,
static const struct model_ops *models[MODELS_MAX] = {MODELS(ENTRY)};

const struct model_ops *model_at(size_t i)
{
    return i < MODELS_MAX ? models[i] : NULL;
}

static const struct model_ops *model_find_ops(const char *name)
{
    for (size_t i = 0; model_at(i) != NULL; i++)
        if (strcmp(models[i]->name, name) == 0)
            return models[i];
    return NULL;
}

int model_find(const char *name, const struct model_ops **ret, struct err *e)
{
    char names[MODELS_MAX * (MODEL_NAME_MAX + 2)] = "";
    size_t used = 0;
    *ret = model_find_ops(name);
    if (*ret != NULL)
        return 0;
    for (size_t i = 0; model_at(i) != NULL; i++)
        used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s",
                                 i > 0 ? ", " : "", models[i]->name);
    return err_set(e, TUG_EUSAGE, "there is no model '%.100s'; choose from %s", name,
                   names);
}

int model_register(const struct model_ops *ops, struct err *e)
{
    size_t n = 0;
    while (model_at(n) != NULL)
        n++;
    size_t length = strnlen(ops->name, MODEL_NAME_MAX);
    if (length == 0 || length == MODEL_NAME_MAX || model_find_ops(ops->name) != NULL)
        return err_set(e, TUG_EUSAGE,
                       "'%.100s' cannot be the name of another model: it is taken, or "
                       "has not 1 to %d characters",
                       ops->name, MODEL_NAME_MAX - 1);
    if (n == MODELS_MAX)
        return err_set(e, TUG_EUSAGE, "%d models are registered already, the maximum",
                       MODELS_MAX);
    models[n] = ops;
    return 0;
}

// Sets the defaults, found by a search on MovieLens-1M and on data from a planted model
// (docs/models.md).
void model_defaults(struct model_options *o, const struct model_ops *ops,
                    enum rule_kind rule)
{
    o->ops = ops;
    o->dim = 8;
    o->normalize = true;
    o->tasks = 1;
    o->init = 0.05f;
    o->linear = rule_defaults(rule == RULE_ADAGRAD_ROW ? RULE_ADAGRAD : rule);
    o->linear.prior = 2;
    o->latent = rule_defaults(rule);
    o->latent.lr *= 3;
    o->latent.l2 = 2e-4f;
    o->latent.prior = 1;
    if (ops->defaults != NULL)
        ops->defaults(o);
}

int model_check_dim(const struct model_options *o, struct err *e)
{
    return o->dim >= 1 && o->dim <= MODEL_MAX_DIM
               ? 0
               : err_set(e, TUG_EUSAGE, "--dim is %u; it must be between 1 and %d",
                         o->dim, MODEL_MAX_DIM);
}

// Checks the number of tasks and their weights. If no weights are given, sets them to 1.
static int check_tasks(struct model_options *o, struct err *e)
{
    if (o->tasks == 0)
        o->tasks = 1;
    if (o->tasks > 1 && !o->ops->tasks)
        return err_set(e, TUG_EUSAGE,
                       "the examples have %u labels, but model %s can learn only one: "
                       "give one label, or a model with layers, such as mlp",
                       o->tasks, o->ops->name);
    if (o->tasks > MODEL_MAX_TASKS)
        return err_set(e, TUG_EUSAGE, "the examples have %u labels; at most %d", o->tasks,
                       MODEL_MAX_TASKS);
    uint32_t weights = 0;
    while (weights < MODEL_MAX_TASKS && o->task_weight[weights] != 0)
        weights++;
    if (weights > 0 && (weights != o->tasks || o->tasks == 1))
        return err_set(
            e, TUG_EUSAGE, "--task-weights: there %s %u weight%s, and %u label%s%s",
            weights == 1 ? "is" : "are", weights, PLURAL_S(weights), o->tasks,
            PLURAL_S(o->tasks), o->tasks == 1 ? ", whose loss needs none" : "");
    for (uint32_t t = 0; t < o->tasks && o->tasks > 1; t++)
        o->task_weight[t] = weights > 0 ? o->task_weight[t] : 1;
    return 0;
}

static void set_blocks(struct model *m)
{
    const struct model_options *o = &m->options;
    size_t dense = o->tasks + (o->ops->dense != NULL ? o->ops->dense(o) : 0),
           own = o->ops->summaries != NULL ? o->ops->summaries(o) : 0,
           summaries = own + data_norm_summaries(o);
    uint32_t block = dense < MODEL_DENSE_BLOCK ? (uint32_t)dense : MODEL_DENSE_BLOCK;
    m->options.dense.block = rule_info(m->options.dense.kind)->per_block != 0 ? block : 1;
    accessor_plain(&m->dense, m->options.dense, block);
    m->blocks = (dense + block - 1) / block;
    m->summaries = summaries > 0 ? m->blocks * block : 0;
    m->data_norm_at = m->summaries + own;
    m->blocks += (summaries + block - 1) / block;
}

int model_init(struct model *m, const struct model_options *o, struct err *e)
{
    *m = (struct model){.options = *o, .kernels = kernels_get()};
    TRY(check_tasks(&m->options, e));
    if (o->ops->check != NULL)
        TRY(o->ops->check(&m->options, e));
    if (o->pooling_mean && o->fields == 0)
        return err_set(e, TUG_EUSAGE, "--pooling mean: an %s model has no fields",
                       o->ops->name);
    for (size_t i = 0; i < o->n_numbers; i++)
        if (o->numbers[i].field >= o->fields)
            return err_set(e, TUG_EUSAGE,
                           "--data-norm: field %u is not below %u, the number of fields",
                           o->numbers[i].field, o->fields);
    TRY(dims_check(o, e));
    m->options.linear.block = 1;
    m->options.latent.block = rule_info(o->latent.kind)->per_block != 0
                                  ? dims_of(o).divisor
                                  : 1;
    m->layout = (struct accessor_options){.name = "features",
                                          .embed = 1,
                                          .rule = m->options.linear,
                                          .extra = m->options.latent,
                                          .life = life_defaults()};
    if (o->ops->layout != NULL)
        o->ops->layout(&m->options, &m->layout);
    if (model_has_layers(m)) {
        TRY(layers_begin(e));
    } else {
        m->options.dense = m->options.linear;
        // No penalty applies to the bias, which every example uses.
        m->options.dense.l1 = m->options.dense.l2 = m->options.dense.prior = 0;
    }
    set_blocks(m);
    if (accessor_make(&m->accessor, &m->layout, e) != 0)
        return err_set(e, TUG_EUSAGE,
                       "a row of this model would not fit %d floats, with the state of "
                       "its rules: use fewer fields or a smaller --dim",
                       TABLE_MAX_WIDTH);
    return 0;
}

void model_packed(struct model *ret, const struct model *m)
{
    *ret = *m;
    accessor_packed(&ret->accessor, &m->accessor);
}

static bool same_dims(const struct model_options *x, const struct model_options *y)
{
    return x->n_dims == y->n_dims &&
           memcmp(x->dims, y->dims, x->n_dims * sizeof(*x->dims)) == 0;
}

bool model_same_rows(const struct model *a, const struct model *b)
{
    bool same = a->options.ops == b->options.ops && same_dims(&a->options, &b->options) &&
                a->accessor.n_groups == b->accessor.n_groups;
    for (uint32_t g = 0; g < a->accessor.n_groups && same; g++) {
        const struct accessor_group *x = &a->accessor.groups[g],
                                    *y = &b->accessor.groups[g];
        same = x->n == y->n && x->rule.kind == y->rule.kind &&
               x->rule.block == y->rule.block;
    }
    return same;
}

bool model_same_dense(const struct model *a, const struct model *b)
{
    const struct model_options *x = &a->options, *y = &b->options;
    return x->ops == y->ops && x->dim == y->dim && same_dims(x, y) &&
           x->fields == y->fields &&
           memcmp(x->hidden, y->hidden, sizeof(x->hidden)) == 0 && x->tasks == y->tasks &&
           memcmp(x->tower, y->tower, sizeof(x->tower)) == 0 && x->cross == y->cross &&
           x->batch_norm == y->batch_norm && x->data_norm == y->data_norm &&
           a->blocks == b->blocks &&
           a->dense.groups[0].rule.kind == b->dense.groups[0].rule.kind;
}

struct table_options model_table(const struct model *m)
{
    struct table_options t = {.seed = m->options.seed,
                              .id = 0,
                              .width = m->accessor.width,
                              .partition_bits = 8};
    accessor_inits(&m->accessor, 0, 0, -m->options.init, m->options.init, &t);
    return t;
}

struct table_options model_dense_table(const struct model *m)
{
    struct table_options t = {
        .seed = m->options.seed, .id = 1, .width = m->dense.width, .partition_bits = 8};
    accessor_inits(&m->dense, 0, 0, 0, 0, &t);
    return t;
}

void model_first_dense(const struct model *m, float *ret)
{
    memset(ret, 0, model_dense(m) * sizeof(*ret));
    if (m->options.ops->first != NULL)
        m->options.ops->first(&m->options, ret + m->options.tasks);
}

// Returns whether a float is only padding of a block, after the layers or after the
// summaries.
static bool fills_block(const struct model *m, size_t at)
{
    const struct model_options *o = &m->options;
    size_t layers = o->tasks + (o->ops->dense != NULL ? o->ops->dense(o) : 0);
    return m->summaries == 0 || at < m->summaries
               ? at >= layers
               : at >= m->data_norm_at + data_norm_summaries(o);
}

void model_dense_name(const struct model *m, size_t at, char ret[MODEL_LAYER_NAME_MAX])
{
    const struct model_ops *ops = m->options.ops;
    uint32_t biases = m->options.tasks;
    bool summary = m->summaries > 0 && at >= m->summaries, fills = fills_block(m, at);
    if (at >= biases && !summary && !fills && ops->layer_name != NULL)
        ops->layer_name(&m->options, at - biases, ret);
    else
        snprintf(ret, MODEL_LAYER_NAME_MAX, "%s",
                 fills         ? ""
                 : at < biases ? "the bias"
                 : summary     ? "the summaries"
                               : "the layers");
}

void model_step_dense(const struct model *m, const struct rule_params *rule,
                      float *const *blocks, const float *gradient)
{
    uint32_t n = m->dense.groups[0].n, state = m->dense.groups[0].state;
    size_t trained = m->summaries > 0 ? m->summaries / n : m->blocks;
    for (size_t i = 0; i < trained; i++)
        m->kernels->apply[rule->kind](rule, rule->l2, blocks[i], blocks[i] + state,
                                      gradient + i * n, n);
    for (size_t i = trained; i < m->blocks; i++)
        m->kernels->apply[RULE_SUM](rule, 0, blocks[i], NULL, gradient + i * n, n);
}

bool model_by_layer(const struct model *m)
{
    return m->options.ops->by_layer && m->summaries == 0;
}

// Allocates memory for n examples. Values that were kept for earlier examples are lost.
static int model_make_room(struct model_work *w, size_t n)
{
    size_t bytes = (w->stride * n + KERNEL_PADDING) * sizeof(float),
           scores = n * w->model->options.tasks;
    float *kept = mem_aligned(64, bytes), *both = mem_array(2 * scores, sizeof(*both));
    if (kept == NULL || both == NULL) {
        mem_free(kept);
        mem_free(both);
        return TUG_ENOMEM;
    }
    mem_free(w->kept);
    mem_free(w->scores);
    w->kept = memset(kept, 0, bytes);
    w->scores = both;
    w->err = both + scores;
    w->room = n;
    return 0;
}

int model_room(struct model_work *w, size_t n, size_t bytes)
{
    if (!model_by_layer(w->model))
        return 0;
    size_t most = bytes / (w->stride * sizeof(float));
    n = n < most ? n : most;
    return n > w->room ? model_make_room(w, n) : 0;
}

int model_work_open(struct model_work *w, const struct model *m, struct err *e)
{
    const struct model_ops *ops = m->options.ops;
    *w = (struct model_work){.model = m};
    assert(ops->at_once > 0 && ops->at_once <= MODEL_AT_ONCE_MAX);
    size_t floats = ops->kept != NULL ? ops->kept(m) : 0;
    w->stride = (floats + KERNEL_LANES - 1) / KERNEL_LANES * KERNEL_LANES;
    if (model_make_room(w, ops->at_once) != 0 || model_reserve(w, 64) != 0 ||
        data_norm_open(w) != 0 || pooling_open(w) != 0 || dims_open(w) != 0 ||
        accessor_scratch_init(&w->apply, &m->accessor, m->kernels, NULL) != 0) {
        model_work_close(w);
        return err_nomem(e, "a thread's scratch");
    }
    return 0;
}

static void free_rows(struct model_rows *r)
{
    key_set_fini(&r->set);
    mem_free(r->address);
    mem_free(r->first);
    mem_free(r->occurrences);
    mem_free(r->squares);
    *r = (struct model_rows){0};
}

static int reserve_rows(struct model_rows *r, size_t n)
{
    free_rows(r);
    r->address = mem_array(n, sizeof(*r->address));
    r->first = mem_array(n, sizeof(*r->first));
    r->occurrences = mem_array(n + KERNEL_PADDING, sizeof(float));
    r->squares = mem_array(n + KERNEL_PADDING, sizeof(float));
    return r->address != NULL && r->first != NULL && r->occurrences != NULL &&
                   r->squares != NULL
               ? key_set_reserve(&r->set, n)
               : TUG_ENOMEM;
}

void model_work_close(struct model_work *w)
{
    for (uint32_t g = 0; g < ACCESSOR_MAX_GROUPS; g++)
        mem_free(w->gradients[g]);
    mem_free(w->share);
    mem_free(w->kept);
    mem_free(w->scores);
    free_rows(&w->rows);
    data_norm_close(w);
    pooling_close(w);
    dims_close(w);
    accessor_scratch_fini(&w->apply);
    *w = (struct model_work){0};
}

int model_reserve(struct model_work *w, size_t n)
{
    if (n <= w->features)
        return 0;
    const struct accessor *a = &w->model->accessor;
    size_t cap = n + n / 2, padded = cap + KERNEL_PADDING;
    bool ok = w->model->options.ops->step != NULL || reserve_rows(&w->rows, cap) == 0;
    for (uint32_t g = 0; g < a->n_groups; g++) {
        mem_free(w->gradients[g]);
        w->gradients[g] = mem_aligned(64, (cap * a->groups[g].n + KERNEL_PADDING) *
                                              sizeof(float));
        ok &= w->gradients[g] != NULL;
    }
    mem_free(w->share);
    w->share = mem_aligned(64, 2 * padded * sizeof(float));
    w->l2 = w->share + padded;
    w->features = ok && w->share != NULL ? cap : 0;
    for (size_t i = 0; i < w->features; i++)
        w->share[i] = 1; // the share stays 1 if rows do not count their updates
    return w->features != 0 ? 0 : TUG_ENOMEM;
}

// Prepares a batch for the model: normalises numbers and pools. In training, adds the
// batch's sums to ret_summaries.
static int prepare(struct model_work *w, struct model_batch *b, float *ret_summaries)
{
    TRY(data_norm(w, b, ret_summaries));
    return pooling(w, b);
}

int model_scores(struct model_work *w, const struct model_batch *b, float *ret_scores)
{
    const struct model_ops *ops = w->model->options.ops;
    for (size_t i = 0; i < b->n; i += ops->at_once) {
        struct model_batch part = model_part(b, i, ops->at_once);
        TRY(prepare(w, &part, NULL));
        ops->forward(w, &part, ret_scores + i * w->model->options.tasks);
    }
    return 0;
}

// Computes d loss / d score of task k of example i, and adds it to the gradient of the
// task's bias. A task whose label is missing has no loss and is not counted. Returns
// false if the score is not finite.
static bool task_err(struct model_work *w, struct model_training *t,
                     const struct model_batch *b, size_t i, uint32_t k, float score,
                     float *ret_err)
{
    const struct model_options *o = &w->model->options;
    float label = b->label[i * o->tasks + k],
          weight = b->weight != NULL ? b->weight[i] : 1;
    *ret_err = 0;
    if (o->tasks > 1 && isnan(label))
        return score - score == 0;
    if (!model_err_of(t, t->stream + k, score + w->dense[k], label, weight, ret_err))
        return false;
    if (o->tasks > 1)
        *ret_err *= o->task_weight[k];
    t->dense_gradient[k] += *ret_err;
    return true;
}

// Computes the gradients of a batch of at most w->room examples.
static int part_gradients(struct model_work *w, const struct model_batch *b,
                          struct model_training *t, float *ret_err,
                          float *const *ret_gradients)
{
    const struct model_ops *ops = w->model->options.ops;
    uint32_t tasks = w->model->options.tasks;
    struct model_batch in_training = *b;
    ret_err = ret_err != NULL ? ret_err : w->err;
    in_training.training = true;
    in_training.share = t->batch > 0 ? (float)b->n / (float)t->batch : 1;
    t->bad = 0;
    TRY(prepare(w, &in_training, t->dense_gradient + w->model->data_norm_at));
    b = &in_training;
    ops->forward(w, b, w->scores);
    if (w->flow != NULL)
        w->flow->needs(w->flow->ctx, 0, tasks); // the biases, one for each task
    for (size_t i = 0; i < b->n; i++) {
        t->bad = i;
        for (uint32_t k = 0; k < tasks; k++)
            if (!task_err(w, t, b, i, k, w->scores[i * tasks + k],
                          &ret_err[i * tasks + k]))
                return TUG_EDATA;
    }
    ops->backward(w, b, ret_err, ret_gradients, t->dense_gradient + tasks);
    return 0;
}

int model_gradients(struct model_work *w, const struct model_batch *b,
                    struct model_training *t, float *ret_err, float *const *ret_gradients)
{
    const struct accessor *a = &w->model->accessor;
    for (size_t i = 0; i < b->n; i += w->room) {
        struct model_batch part = model_part(b, i, w->room);
        float *to[ACCESSOR_MAX_GROUPS];
        for (uint32_t g = 0; g < a->n_groups; g++)
            to[g] = ret_gradients[g] +
                    (size_t)(part.start[0] - b->start[0]) * a->groups[g].n;
        float *err = ret_err != NULL ? ret_err + i * w->model->options.tasks : NULL;
        int rc = part_gradients(w, &part, t, err, to);
        if (rc != 0) {
            t->bad += i;
            return rc;
        }
    }
    return 0;
}

// If several features have the same row, adds their gradients to those of the first of these
// features. Returns the number of distinct rows.
static size_t add_rows(struct model_work *w, const struct model_batch *b)
{
    const struct accessor *a = &w->model->accessor;
    struct model_rows *r = &w->rows;
    size_t n = 0, features = model_features(b);
    key_set_clear(&r->set, features);
    for (size_t j = 0; j < features; j++) {
        uint64_t address = (uintptr_t)b->rows[b->start[0] + j];
        float u = b->u[b->start[0] + j];
        uint32_t *place = key_set_place(&r->set, r->address, address);
        if (*place == 0) {
            r->address[n] = address;
            r->first[n] = (uint32_t)j;
            r->occurrences[n] = 1;
            r->squares[n] = u * u;
            *place = (uint32_t)++n;
            continue;
        }
        size_t row = *place - 1;
        r->occurrences[row] += 1;
        r->squares[row] += u * u;
        for (uint32_t g = 0; g < a->n_groups; g++) {
            size_t width = a->groups[g].n;
            w->model->kernels->axpy(w->gradients[g] + r->first[row] * width, 1,
                                    w->gradients[g] + j * width, width);
        }
    }
    return n;
}

// Updates each row of the batch once, by its gradients in w->gradients.
static void step_rows(struct model_work *w, const struct model_batch *b,
                      const struct model_training *t)
{
    enum { STRIP = 64 };
    const struct accessor *a = &w->model->accessor;
    const struct model_rows *r = &w->rows;
    const float *gradients[ACCESSOR_MAX_GROUPS][STRIP];
    float *rows[STRIP];
    size_t all = add_rows(w, b);
    for (size_t from = 0; from < all; from += STRIP) {
        size_t n = all - from < STRIP ? all - from : STRIP;
        struct accessor_update u = {.rules = t->rules,
                                    .pass = t->pass,
                                    .scale = 1,
                                    .n = n,
                                    .rows = rows,
                                    .occurrences = r->occurrences + from,
                                    .squares = r->squares + from};
        for (size_t i = 0; i < n; i++) {
            rows[i] = b->rows[b->start[0] + r->first[from + i]];
            for (uint32_t g = 0; g < a->n_groups; g++)
                gradients[g][i] = w->gradients[g] + r->first[from + i] * a->groups[g].n;
        }
        for (uint32_t g = 0; g < a->n_groups; g++)
            u.gradients[g] = gradients[g];
        accessor_apply(&w->apply, &u);
    }
}

int model_step(struct model_work *w, const struct model_batch *b,
               struct model_training *t)
{
    const struct model_ops *ops = w->model->options.ops;
    if (ops->step != NULL)
        return ops->step(w, b, t);
    for (size_t i = 0; i < b->n; i += ops->at_once) {
        struct model_batch part = model_part(b, i, ops->at_once);
        TRY(model_reserve(w, model_features(&part)));
        int rc = model_gradients(w, &part, t, NULL, w->gradients);
        if (rc != 0) {
            t->bad += i;
            return rc;
        }
        step_rows(w, &part, t);
    }
    return 0;
}
