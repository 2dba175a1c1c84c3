// The built-in models over a program's tables (tug/net.h): a batch as the program has it
// becomes one as models see it, and their gradients by feature become one push a row.
//
// SPDX-License-Identifier: Apache-2.0
#include "tug/net.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/maths.h"
#include "facade/last_error.h"
#include "model/model.h"
#include "rule/rule.h"

struct tug_net {
    struct model model, packed; // packed: on rows as they are pulled
    struct model_work work;
    struct metrics_stream *stream;
    // The batch with the room behind it that kernels may read.
    float *pulled, *dense, *value, *err;
    float **row;
    uint16_t *slot;
    size_t cap_pulled, cap_features, cap_examples;
};

static int read_rules(struct model_options *m, const struct tug_net_options *o,
                      struct err *e)
{
    m->linear.prior = m->latent.prior = 0; // counts passes, which a program's are its own
    if (o->rule != NULL) {
        TRY(rule_parse(o->rule, &m->linear, e));
        m->latent = m->linear;
    }
    if (o->dense_rule == NULL)
        return 0;
    if (m->ops->dense == NULL)
        return err_set(e, TUG_EUSAGE, "dense_rule: an %s model has no layers",
                       m->ops->name);
    return rule_parse(o->dense_rule, &m->dense, e);
}

static int read_options(struct model_options *m, const struct tug_net_options *o,
                        struct err *e)
{
    const struct model_ops *ops;
    if (o->model == NULL || o->slots == 0 || o->slots > UINT16_MAX)
        return err_set(e, TUG_EUSAGE, "a net needs a model and 1 to %d slots of features",
                       UINT16_MAX);
    if (!(o->init >= 0 && o->init <= 10))
        return err_set(e, TUG_EUSAGE, "init is %g; it must be from 0 to 10",
                       (double)o->init);
    TRY(model_find(o->model, &ops, e));
    model_defaults(m, ops, RULE_ADAGRAD_ROW);
    m->normalize = false; // values are used as they are given
    m->fields = o->slots;
    m->seed = o->seed;
    m->dim = o->dim > 0 ? o->dim : m->dim;
    m->init = o->init > 0 ? o->init : m->init;
    if (o->hidden != NULL && ops->dense == NULL)
        return err_set(e, TUG_EUSAGE, "hidden: an %s model has no layers", ops->name);
    if (o->hidden != NULL)
        TRY(model_hidden_parse(o->hidden, m->hidden, e));
    return read_rules(m, o, e);
}

static int open_net(struct tug_net *n, const struct tug_net_options *o, struct err *e)
{
    struct model_options m = {0};
    TRY(read_options(&m, o, e));
    TRY(model_init(&n->model, &m, e));
    model_packed(&n->packed, &n->model);
    TRY(model_work_open(&n->work, &n->packed, e));
    size_t floats = model_dense(&n->model);
    n->stream = metrics_streams(1);
    n->dense = mem_aligned(64, (floats + KERNEL_PADDING) * sizeof(float));
    if (n->stream == NULL || n->dense == NULL)
        return err_nomem(e, "a net");
    memset(n->dense, 0, (floats + KERNEL_PADDING) * sizeof(float));
    return 0;
}

int tug_net_open(struct tug_net **ret, const struct tug_net_options *o)
{
    struct tug_net *n = mem_zalloc(sizeof(*n));
    if (n == NULL)
        return err_nomem(last_error(), "a net");
    int rc = open_net(n, o, last_error());
    if (rc != 0)
        tug_net_close(n);
    else
        *ret = n;
    return rc;
}

void tug_net_close(struct tug_net *n)
{
    if (n == NULL)
        return;
    model_work_close(&n->work);
    mem_free(n->stream);
    mem_free(n->pulled);
    mem_free(n->dense);
    mem_free(n->value);
    mem_free(n->err);
    mem_free(n->row);
    mem_free(n->slot);
    mem_free(n);
}

void tug_net_settings(const struct tug_net *n, char ret_features[TUG_NET_SETTINGS_MAX],
                      char ret_dense[TUG_NET_SETTINGS_MAX])
{
    const struct accessor_options *a = &n->model.layout;
    char rule[RULE_TEXT_MAX], extra[RULE_TEXT_MAX];
    rule_print(&a->rule, rule);
    rule_print(&a->extra, extra);
    snprintf(ret_features, TUG_NET_SETTINGS_MAX,
             "accessor = features; embed = %u; dim = %u; rule = %s; embedx-rule = %s; "
             "embedx-init = %.9g; embedx-random = %u; by-squares = %s; seed = %llu",
             a->embed, a->dim, rule, extra, (double)n->model.options.init, a->random,
             a->by_squares ? "yes" : "no", (unsigned long long)n->model.options.seed);
    const struct accessor_group *g = &n->model.dense.groups[0];
    rule_print(&g->rule, rule);
    snprintf(ret_dense, TUG_NET_SETTINGS_MAX,
             "accessor = plain; dim = %u; rule = %s; placement = dense; sums-from = %zu",
             g->n, rule, n->model.summaries / g->n);
}

void tug_net_widths(const struct tug_net *n, struct tug_net_widths *ret)
{
    *ret = (struct tug_net_widths){.pull = n->model.accessor.pull_width,
                                   .push = n->model.accessor.push_width,
                                   .block = n->model.dense.groups[0].n};
}

size_t tug_net_dense(const struct tug_net *n)
{
    return model_dense(&n->model);
}

void tug_net_first(const struct tug_net *n, float *ret_dense)
{
    model_first_dense(&n->model, ret_dense);
}

// ---------------------------------------------------------------- batches

static int check_batch(const struct tug_net *n, const struct tug_net_batch *b,
                       struct err *e)
{
    if (b->start[0] != 0)
        return err_set(e, TUG_EUSAGE, "start[0] is %u, and must be 0", b->start[0]);
    for (size_t i = 0; i < b->examples; i++)
        if (b->start[i + 1] < b->start[i])
            return err_set(e, TUG_EUSAGE, "start[%zu] is below start[%zu]", i + 1, i);
    for (size_t j = 0; j < b->start[b->examples]; j++)
        if (b->row[j] >= b->rows || b->slot[j] >= n->model.options.fields)
            return err_set(e, TUG_EUSAGE,
                           "feature %zu is of row %u and slot %u; there are %zu rows and "
                           "%u slots",
                           j, b->row[j], b->slot[j], b->rows, n->model.options.fields);
    for (size_t i = 0; i < b->examples && b->label != NULL; i++)
        if (b->label[i] != 0 && b->label[i] != 1)
            return err_set(e, TUG_EUSAGE,
                           "the label of example %zu is %g, and must be "
                           "0 or 1",
                           i, (double)b->label[i]);
    return 0;
}

static bool reserve_features(struct tug_net *n, size_t features)
{
    if (features <= n->cap_features)
        return true;
    size_t padded = features + KERNEL_PADDING;
    mem_free(n->value);
    mem_free(n->row);
    mem_free(n->slot);
    n->value = mem_aligned(64, padded * sizeof(*n->value));
    n->row = mem_array(padded, sizeof(*n->row));
    n->slot = mem_array(padded, sizeof(*n->slot));
    bool ok = n->value != NULL && n->row != NULL && n->slot != NULL;
    n->cap_features = ok ? features : 0;
    return ok;
}

static bool reserve(struct tug_net *n, const struct tug_net_batch *b)
{
    size_t floats = b->rows * n->model.accessor.pull_width;
    if (floats > n->cap_pulled || n->pulled == NULL) {
        mem_free(n->pulled);
        n->pulled = mem_aligned(64, (floats + KERNEL_PADDING) * sizeof(float));
        n->cap_pulled = n->pulled != NULL ? floats : 0;
    }
    if (b->examples > n->cap_examples || n->err == NULL) {
        mem_free(n->err);
        n->err = mem_array(b->examples + 1, sizeof(float));
        n->cap_examples = n->err != NULL ? b->examples : 0;
    }
    size_t features = b->start[b->examples];
    return n->pulled != NULL && n->err != NULL && reserve_features(n, features) &&
           model_reserve(&n->work, features) == 0;
}

static void copy_features(struct tug_net *n, const struct tug_net_batch *b)
{
    size_t features = b->start[b->examples], width = n->model.accessor.pull_width;
    for (size_t j = 0; j < features; j++) {
        n->row[j] = n->pulled + b->row[j] * width;
        n->value[j] = b->value != NULL ? b->value[j] : 1;
        n->slot[j] = b->slot[j];
    }
    for (size_t j = features; j < features + KERNEL_PADDING; j++) { // read, never used
        n->row[j] = n->pulled;
        n->value[j] = 0;
        n->slot[j] = 0;
    }
}

static int take(struct tug_net *n, const struct tug_net_batch *b, struct model_batch *ret,
                struct err *e)
{
    TRY(check_batch(n, b, e));
    if (!reserve(n, b))
        return err_nomem(e, "a batch");
    size_t floats = b->rows * n->model.accessor.pull_width;
    if (floats > 0)
        memcpy(n->pulled, b->pulled, floats * sizeof(float));
    memset(n->pulled + floats, 0, KERNEL_PADDING * sizeof(float));
    memcpy(n->dense, b->dense, model_dense(&n->model) * sizeof(float));
    n->work.dense = n->dense;
    copy_features(n, b);
    *ret = (struct model_batch){
        .n = b->examples,
        .tasks = 1,
        .start = b->start,
        .rows = n->row,
        .x = n->value,
        .u = n->value,
        .slot = n->slot,
        .label = b->label,
    };
    return 0;
}

int tug_net_predict(struct tug_net *n, const struct tug_net_batch *b,
                    float *ret_probability)
{
    struct model_batch m;
    struct err *e = last_error();
    float none = 0;
    TRY(take(n, b, &m, e));
    if (m.label == NULL)
        m.label = &none; // parts of a batch count from it, and scores do not read it
    if (model_scores(&n->work, &m, ret_probability) != 0)
        return err_nomem(e, "scores");
    for (size_t i = 0; i < b->examples; i++)
        ret_probability[i] = (float)maths_sigmoid(ret_probability[i] + n->dense[0]);
    return 0;
}

// What a push of features carries: gradients, occurrences and the sum of squares of values.
static void add_up(const struct tug_net *n, const struct tug_net_batch *b,
                   float *ret_rows)
{
    const struct accessor *a = &n->model.accessor;
    size_t features = b->start[b->examples], column = 0;
    memset(ret_rows, 0, b->rows * a->push_width * sizeof(float));
    for (uint32_t g = 0; g < a->n_groups; g++) {
        size_t width = a->groups[g].n;
        for (size_t j = 0; j < features; j++) {
            float *to = ret_rows + (size_t)b->row[j] * a->push_width + column;
            const float *from = n->work.gradients[g] + j * width;
            for (size_t c = 0; c < width; c++)
                to[c] += from[c];
        }
        column += width;
    }
    for (size_t j = 0; j < features; j++) {
        float *to = ret_rows + (size_t)b->row[j] * a->push_width + column;
        to[0] += 1;
        to[1] += n->value[j] * n->value[j];
    }
}

// By the examples' gradients, p - label.
static double loss_of(const float *err, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        double missed = fabs((double)err[i]);
        sum -= log1p(-(missed < 1 - 1e-7 ? missed : 1 - 1e-7));
    }
    return n > 0 ? sum / (double)n : 0;
}

int tug_net_gradients(struct tug_net *n, const struct tug_net_batch *b, float *ret_rows,
                      float *ret_dense, float *ret_probability, double *ret_loss)
{
    struct model_batch m;
    struct err *e = last_error();
    if (b->label == NULL)
        return err_set(e, TUG_EUSAGE, "gradients need labels");
    TRY(take(n, b, &m, e));
    memset(ret_dense, 0, model_dense(&n->model) * sizeof(float));
    struct model_training t = {
        .loss = LOSS_LOGISTIC,
        .stream = n->stream,
        .dense_gradient = ret_dense,
        .batch = (uint32_t)b->examples,
    };
    metrics_stream_clear(n->stream);
    int rc = model_gradients(&n->work, &m, &t, n->err, n->work.gradients);
    if (rc == TUG_EDATA)
        return err_set(e, TUG_EDATA,
                       "the score of example %zu is not finite: training has diverged; "
                       "use a smaller learning rate",
                       t.bad);
    if (rc != 0)
        return err_nomem(e, "gradients");
    add_up(n, b, ret_rows);
    for (size_t i = 0; i < b->examples; i++)
        ret_probability[i] = n->err[i] + b->label[i];
    if (ret_loss != NULL)
        *ret_loss = loss_of(n->err, b->examples);
    return 0;
}
