// Row layouts and the three models' scores and gradients, made of kernels.
//
// SPDX-License-Identifier: Apache-2.0
#include "model/model.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "rule/rule.h"

enum { FFM_MAX_SUMS = 1 << 24 }; // floats of scratch: 64 MiB a thread

static const char *const names[MODEL_KINDS] = {"lr", "fm", "ffm"};

const char *model_name(enum model_kind kind)
{
    return names[kind];
}

int model_find(const char *name, enum model_kind *ret_kind, struct err *e)
{
    for (int i = 0; i < MODEL_KINDS; i++) {
        if (strcmp(names[i], name) == 0) {
            *ret_kind = (enum model_kind)i;
            return 0;
        }
    }
    return err_set(e, TUG_EUSAGE, "there is no model '%s'; choose from lr, fm, ffm",
                   name);
}

// Found by search on MovieLens-1M and on data from a planted model (docs/models.md).
void model_defaults(struct model_options *o, enum model_kind kind, enum rule_kind rule)
{
    o->kind = kind;
    o->linear = rule_defaults(rule == RULE_ADAGRAD_ROW ? RULE_ADAGRAD : rule);
    o->latent = rule_defaults(rule);
    o->linear.prior = 2;
    o->normalize = kind != MODEL_LR;
    o->dim = kind == MODEL_FFM ? 4 : 8;
    if (kind == MODEL_FFM) {
        o->init = 0.3f;
        o->latent.n0 = 1e-3f;
        o->latent.l2 = 1e-3f;
        o->latent.prior = 2;
    } else {
        o->init = 0.05f;
        o->latent.lr *= 3;
        o->latent.l2 = 2e-4f;
        o->latent.prior = 1;
    }
}

static int check_sizes(const struct model_options *o, struct err *e)
{
    if (o->kind == MODEL_LR)
        return 0;
    if (o->dim < 1 || o->dim > MODEL_MAX_DIM)
        return err_set(e, TUG_EUSAGE, "--dim is %u; it must be between 1 and %d", o->dim,
                       MODEL_MAX_DIM);
    if (o->kind == MODEL_FM)
        return 0;
    if (o->fields < 1)
        return err_set(e, TUG_EUSAGE,
                       "model ffm needs data with fields: formats criteo, csv or "
                       "libffm");
    if ((uint64_t)o->fields * o->fields * o->dim > FFM_MAX_SUMS)
        return err_set(
            e, TUG_EUSAGE,
            "model ffm with %u fields and --dim %u is too large (fields x fields x dim "
            "may be %d at most): use fewer fields, a smaller --dim, or model fm",
            o->fields, o->dim, FFM_MAX_SUMS);
    return 0;
}

int model_init(struct model *m, const struct model_options *o, struct err *e)
{
    *m = (struct model){.options = *o, .kernels = kernels_get()};
    TRY(check_sizes(o, e));
    m->options.linear.block = 1;
    m->options.latent.block = o->dim;
    m->accessor = ACCESSOR_EMPTY;
    accessor_add_group(&m->accessor, &m->options.linear, 1);
    accessor_add_count(&m->accessor);
    if (o->kind != MODEL_LR)
        accessor_add_group(&m->accessor, &m->options.latent,
                           o->dim * (o->kind == MODEL_FFM ? o->fields : 1))
            ->decays_by_squares = o->kind == MODEL_FFM;
    struct rule_params bias = m->options.linear;
    bias.l2 = bias.prior = 0;
    accessor_plain(&m->bias, bias, 1);
    if (m->accessor.width > TABLE_MAX_WIDTH)
        return err_set(e, TUG_EUSAGE,
                       "a row of this model would have %u floats; at most %d: use "
                       "fewer fields or a smaller --dim",
                       m->accessor.width, TABLE_MAX_WIDTH);
    return 0;
}

void model_packed(struct model *ret, const struct model *m)
{
    *ret = *m;
    accessor_packed(&ret->accessor, &m->accessor);
}

// Sums of squares begin at the rule's n0.
static void add_n0(struct table_options *t, const struct accessor_group *g)
{
    if (g->rule.n0 != 0 && g->n_state != 0)
        t->inits[t->n_inits++] = (struct table_init){.begin = g->state,
                                                     .count = g->n_state,
                                                     .low = g->rule.n0,
                                                     .high = g->rule.n0};
}

struct table_options model_table(const struct model *m)
{
    struct table_options t = {.seed = m->options.seed,
                              .id = 0,
                              .width = m->accessor.width,
                              .partition_bits = 8};
    for (uint32_t g = 0; g < m->accessor.n_groups; g++)
        add_n0(&t, &m->accessor.groups[g]);
    if (m->options.kind != MODEL_LR && m->options.init > 0)
        t.inits[t.n_inits++] = (struct table_init){
            .begin = m->accessor.groups[MODEL_LATENT].weights,
            .count = m->accessor.groups[MODEL_LATENT].n,
            .low = -m->options.init,
            .high = m->options.init,
        };
    return t;
}

struct table_options model_bias_table(const struct model *m)
{
    struct table_options t = {
        .seed = m->options.seed, .id = 1, .width = m->bias.width, .partition_bits = 8};
    add_n0(&t, &m->bias.groups[0]);
    return t;
}

static size_t sums_n(const struct model *m)
{
    return m->options.kind == MODEL_FFM ? 2 * model_latent(m) * m->options.fields
                                        : model_latent(m);
}

int model_scratch_init(struct model_scratch *s, const struct model *m, struct err *e)
{
    *s = (struct model_scratch){.model = m};
    s->sums = mem_aligned(64, (sums_n(m) + 2 * KERNEL_PADDING) * sizeof(float));
    s->field_seen = mem_zalloc((size_t)m->options.fields + 1);
    s->fields = mem_array((size_t)m->options.fields + 1, sizeof(*s->fields));
    if (s->sums == NULL || s->field_seen == NULL || s->fields == NULL ||
        model_scratch_reserve(s, 64) != 0) {
        model_scratch_fini(s);
        return err_nomem(e, "a thread's scratch");
    }
    return 0;
}

int model_scratch_reserve(struct model_scratch *s, size_t n)
{
    if (n <= s->cap)
        return 0;
    size_t latent = model_latent(s->model);
    if (n > SIZE_MAX / sizeof(float) / 6 / (latent + 1))
        return TUG_ENOMEM;
    size_t cap = n + n / 2, padded = cap + KERNEL_PADDING;
    mem_free(s->linear);
    mem_free(s->latent);
    s->linear = mem_aligned(64, 3 * padded * sizeof(float));
    s->share = s->linear + padded;
    s->l2 = s->share + padded;
    s->latent = mem_aligned(64, (cap * latent + KERNEL_PADDING) * sizeof(float));
    s->cap = s->linear != NULL && s->latent != NULL ? cap : 0;
    return s->cap != 0 ? 0 : TUG_ENOMEM;
}

void model_scratch_fini(struct model_scratch *s)
{
    mem_free(s->sums);
    mem_free(s->field_seen);
    mem_free(s->fields);
    mem_free(s->linear);
    mem_free(s->latent);
    *s = (struct model_scratch){0};
}

// Which fields an example has, when they are few; NULL when they are most: then asking
// costs more than doing all.
static const uint16_t *ffm_list(struct model_scratch *s, const struct model_example *x,
                                size_t *ret_present)
{
    *ret_present = s->model->options.fields;
    if (x->n * 2 >= s->model->options.fields)
        return NULL;
    *ret_present = 0;
    for (size_t i = 0; i < x->n; i++) {
        if (!s->field_seen[x->slot[i]])
            s->fields[(*ret_present)++] = x->slot[i];
        s->field_seen[x->slot[i]] = 1;
    }
    for (size_t i = 0; i < *ret_present; i++)
        s->field_seen[s->fields[i]] = 0;
    return s->fields;
}

// What fields hear from each other, behind what they say.
static float *ffm_in(const struct model_scratch *s)
{
    return s->sums +
           (size_t)s->model->accessor.groups[MODEL_LATENT].n * s->model->options.fields +
           KERNEL_PADDING;
}

static float ffm_score(struct model_scratch *s, const struct model_example *x)
{
    const struct model *m = s->model;
    size_t k = m->options.dim, fields = m->options.fields,
           col = m->accessor.groups[MODEL_LATENT].weights, present;
    const uint16_t *list = ffm_list(s, x, &present);
    m->kernels->ffm_sums(x->rows, col, x->slot, x->u, x->n, fields, k, list, present,
                         s->sums, ffm_in(s));
    return m->kernels->ffm_score(x->rows, col, x->slot, x->u, x->n, fields, k, list,
                                 present, s->sums, ffm_in(s));
}

float model_score(struct model_scratch *s, const struct model_example *x)
{
    const struct model *m = s->model;
    assert(x->n <= s->cap);
    float f = m->kernels->gather_dot(x->rows, m->accessor.groups[MODEL_LINEAR].weights,
                                     x->x, x->n);
    if (m->options.kind == MODEL_FM)
        f += m->kernels->fm_score(x->rows, m->accessor.groups[MODEL_LATENT].weights, x->u,
                                  x->n, m->options.dim, s->sums);
    else if (m->options.kind == MODEL_FFM)
        f += ffm_score(s, x);
    return f;
}

void model_grad(struct model_scratch *s, const struct model_example *x, float err,
                float *linear, float *latent)
{
    const struct model *m = s->model;
    m->kernels->scale(linear, err, x->x, x->n);
    if (m->options.kind == MODEL_FM)
        m->kernels->fm_grad(x->rows, m->accessor.groups[MODEL_LATENT].weights, x->u, x->n,
                            m->options.dim, s->sums, err, latent);
    else if (m->options.kind == MODEL_FFM)
        m->kernels->ffm_grad(x->rows, m->accessor.groups[MODEL_LATENT].weights, x->slot,
                             x->u, x->n, m->options.fields, m->options.dim, ffm_in(s),
                             err, latent);
}

// Decay of w and v of the rows. See rule_params.prior.
static void set_l2(struct model_scratch *s, const struct rule_params *rule, size_t n)
{
    for (size_t i = 0; i < n; i++)
        s->l2[i] = rule->l2 + rule->prior * s->share[i];
}

static void step_linear(struct model_scratch *s, const struct model_example *x, float err,
                        const struct rule_params *rule)
{
    const struct model *m = s->model;
    const struct accessor_group *g = &m->accessor.groups[MODEL_LINEAR];
    m->kernels->scale(s->linear, err, x->x, x->n);
    set_l2(s, rule, x->n);
    m->kernels->apply_column[rule->kind](rule, s->l2, x->rows, g->weights, g->state,
                                         s->linear, x->n);
}

static void step_latent(struct model_scratch *s, const struct model_example *x, float err,
                        const struct rule_params *rule)
{
    const struct model *m = s->model;
    const struct accessor_group *g = &m->accessor.groups[MODEL_LATENT];
    set_l2(s, rule, x->n);
    for (size_t i = 0; i < x->n && g->decays_by_squares; i++)
        s->l2[i] *= x->u[i] * x->u[i];
    if (m->options.kind == MODEL_FM)
        m->kernels->fm_step[rule->kind](rule, s->l2, x->rows, g->weights, g->state, x->u,
                                        x->n, m->options.dim, s->sums, err, s->latent);
    else
        m->kernels->ffm_step[rule->kind](rule, s->l2, x->rows, g->weights, g->state,
                                         x->slot, x->u, x->n, m->options.fields,
                                         m->options.dim, ffm_in(s), err, s->latent);
}

void model_step(struct model_scratch *s, const struct model_example *x, float err,
                const struct rule_params *rules, float pass)
{
    const struct model *m = s->model;
    m->kernels->count(x->rows, m->accessor.count, NULL, pass, s->share, x->n);
    step_linear(s, x, err, &rules[MODEL_LINEAR]);
    if (m->accessor.n_groups > MODEL_LATENT)
        step_latent(s, x, err, &rules[MODEL_LATENT]);
}
