// Row layouts and the three models' scores and gradients, made of kernels.
//
// SPDX-License-Identifier: Apache-2.0
#include "model/model.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "table/rule.h"

enum { LINEAR, LATENT };
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
    return err_set(e, TUG_EUSAGE, "there is no model '%s'; choose from lr, fm, ffm", name);
}

// Found by search on MovieLens-1M and on data from a planted model (docs/defaults.md).
void model_defaults(struct model_options *o, enum model_kind kind, enum rule_kind rule)
{
    o->kind = kind;
    o->linear = rule_defaults(rule);
    o->latent = rule_defaults(rule == RULE_ADAGRAD ? RULE_ADAGRAD_ROW : rule);
    o->linear.prior = 2;
    o->normalize = kind != MODEL_LR;
    o->dim = kind == MODEL_FFM ? 4 : 8;
    if (kind == MODEL_FFM) {
        o->init = 0.3f;
        o->latent.n0 = 1e-3f;
        o->latent.l2 = 3e-3f;
        o->latent.prior = 2;
    } else {
        o->init = 0.05f;
        o->latent.lr *= 3;
        o->latent.l2 = 2e-4f;
        o->latent.prior = 1;
    }
}

static void add_group(struct model *m, const struct rule_params *rule, uint32_t n)
{
    struct model_group *g = &m->groups[m->n_groups++];
    g->rule = *rule;
    g->n = n;
    g->weights = m->width;
    g->state = g->weights + n;
    g->n_state = rule_state(rule, n);
    m->width = g->state + g->n_state;
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
        return err_set(e, TUG_EUSAGE, "model ffm needs data with fields: formats criteo, csv or "
                                      "libffm");
    if ((uint64_t)o->fields * o->fields * o->dim > FFM_MAX_SUMS)
        return err_set(e, TUG_EUSAGE,
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
    add_group(m, &m->options.linear, 1);
    m->bias = m->groups[LINEAR];
    m->count = m->width++;
    if (o->kind != MODEL_LR)
        add_group(m, &m->options.latent, o->dim * (o->kind == MODEL_FFM ? o->fields : 1));
    if (m->width > TABLE_MAX_WIDTH)
        return err_set(e, TUG_EUSAGE, "a row of this model would have %u floats; at most %d: use "
                                      "fewer fields or a smaller --dim",
                       m->width, TABLE_MAX_WIDTH);
    return 0;
}

// Sums of squares begin at the rule's n0.
static void add_n0(struct table_options *t, const struct model_group *g)
{
    if (g->rule.n0 != 0 && g->n_state != 0)
        t->inits[t->n_inits++] = (struct table_init){
            .begin = g->state, .count = g->n_state, .low = g->rule.n0, .high = g->rule.n0};
}

struct table_options model_table(const struct model *m)
{
    struct table_options t = {.seed = m->options.seed, .id = 0, .width = m->width,
                              .partition_bits = 8};
    for (uint32_t g = 0; g < m->n_groups; g++)
        add_n0(&t, &m->groups[g]);
    if (m->options.kind != MODEL_LR && m->options.init > 0)
        t.inits[t.n_inits++] = (struct table_init){
            .begin = m->groups[LATENT].weights,
            .count = m->groups[LATENT].n,
            .low = -m->options.init,
            .high = m->options.init,
        };
    return t;
}

struct table_options model_bias_table(const struct model *m)
{
    struct table_options t = {.seed = m->options.seed, .id = 1, .width = m->bias.n + m->bias.n_state,
                              .partition_bits = 8};
    add_n0(&t, &m->bias);
    return t;
}

static size_t latent_n(const struct model *m)
{
    return m->n_groups > LATENT ? m->groups[LATENT].n : 0;
}

static size_t sums_n(const struct model *m)
{
    return m->options.kind == MODEL_FFM ? latent_n(m) * m->options.fields : latent_n(m);
}

int model_scratch_init(struct model_scratch *s, const struct model *m, struct err *e)
{
    *s = (struct model_scratch){.model = m};
    s->sums = mem_aligned(64, (sums_n(m) + KERNEL_LANES) * sizeof(float));
    s->field_seen = mem_zalloc((size_t)m->options.fields + 1);
    s->fields = mem_array((size_t)m->options.fields + 1, sizeof(*s->fields));
    if (s->sums == NULL || s->field_seen == NULL || s->fields == NULL || model_scratch_reserve(s, 64) != 0) {
        model_scratch_fini(s);
        return err_nomem(e, "a thread's scratch");
    }
    return 0;
}

int model_scratch_reserve(struct model_scratch *s, size_t n)
{
    if (n <= s->cap)
        return 0;
    size_t latent = latent_n(s->model);
    if (n > SIZE_MAX / sizeof(float) / 6 / (latent + 1))
        return TUG_ENOMEM;
    size_t cap = n + n / 2, padded = cap + KERNEL_PADDING;
    mem_free(s->linear);
    mem_free(s->latent);
    s->linear = mem_aligned(64, 3 * padded * sizeof(float));
    s->share = s->linear + padded;
    s->l2 = s->share + padded;
    s->latent = mem_aligned(64, (cap * latent + 1) * sizeof(float));
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

// The sums of ffm, for the fields that the example has (kernels.h says what they are).

static size_t ffm_fields_of(struct model_scratch *s, const struct model_example *x)
{
    size_t n = 0;
    memset(s->field_seen, 0, s->model->options.fields);
    for (size_t i = 0; i < x->n; i++) {
        if (!s->field_seen[x->slot[i]])
            s->fields[n++] = x->slot[i];
        s->field_seen[x->slot[i]] = 1;
    }
    return n;
}

// Few of many fields: only what they say to each other.
static void ffm_sums_of_few(struct model_scratch *s, const struct model_example *x)
{
    const struct model *m = s->model;
    size_t k = m->options.dim, row = m->groups[LATENT].n, present = ffm_fields_of(s, x);
    for (size_t j = 0; j < present; j++)
        memset(s->sums + s->fields[j] * row, 0, row * sizeof(float));
    for (size_t i = 0; i < x->n; i++) {
        const float *v = x->rows[i] + m->groups[LATENT].weights;
        float *column = s->sums + x->slot[i] * k;
        for (size_t j = 0; j < present; j++)
            m->kernels->axpy(column + s->fields[j] * row, x->u[i], v + s->fields[j] * k, k);
    }
}

static float ffm_score(struct model_scratch *s, const struct model_example *x)
{
    const struct model *m = s->model;
    size_t k = m->options.dim, fields = m->options.fields, col = m->groups[LATENT].weights;
    if (x->n * 2 < fields) {
        ffm_sums_of_few(s, x);
    } else {
        memset(s->sums, 0, fields * fields * k * sizeof(float));
        m->kernels->ffm_sums(x->rows, col, x->slot, x->u, x->n, fields, k, s->sums);
    }
    return m->kernels->ffm_score(x->rows, col, x->slot, x->u, x->n, fields, k, s->sums);
}

float model_score(struct model_scratch *s, const struct model_example *x)
{
    const struct model *m = s->model;
    assert(x->n <= s->cap);
    float f = m->kernels->gather_dot(x->rows, m->groups[LINEAR].weights, x->x, x->n);
    if (m->options.kind == MODEL_FM)
        f += m->kernels->fm_score(x->rows, m->groups[LATENT].weights, x->u, x->n, m->options.dim,
                                  s->sums);
    else if (m->options.kind == MODEL_FFM)
        f += ffm_score(s, x);
    return f;
}

void model_grad(struct model_scratch *s, const struct model_example *x, float err, float *linear,
                float *latent)
{
    const struct model *m = s->model;
    m->kernels->scale(linear, err, x->x, x->n);
    if (m->options.kind == MODEL_FM)
        m->kernels->fm_grad(x->rows, m->groups[LATENT].weights, x->u, x->n, m->options.dim, s->sums,
                            err, latent);
    else if (m->options.kind == MODEL_FFM)
        m->kernels->ffm_grad(x->rows, m->groups[LATENT].weights, x->slot, x->u, x->n,
                             m->options.fields, m->options.dim, s->sums, err, latent);
}

static void apply_linear(struct model_scratch *s, const struct model_update *u)
{
    const struct model *m = s->model;
    const struct rule_params *rule = &u->rules[LINEAR];
    const struct model_group *g = &m->groups[LINEAR];
    for (size_t i = 0; i < u->n; i++)
        s->l2[i] = (u->occurrences != NULL ? u->occurrences[i] : 1) * rule->l2 +
                   rule->prior * s->share[i];
    m->kernels->apply_column[rule->kind](rule, s->l2, u->rows, g->weights, g->state, u->linear,
                                         u->n);
}

static void apply_latent(struct model_scratch *s, const struct model_update *u)
{
    const struct model *m = s->model;
    const struct rule_params *rule = &u->rules[LATENT];
    const struct model_group *g = &m->groups[LATENT];
    for (size_t i = 0; i < u->n; i++) {
        float m_i = u->occurrences != NULL ? u->occurrences[i] : 1;
        s->l2[i] = m_i * rule->l2 + rule->prior * s->share[i];
        // A vector of ffm meets others one by one, each time weighted by u_i u_j, not all at once:
        // its decay has to be as small as these meetings.
        if (m->options.kind == MODEL_FFM)
            s->l2[i] *= u->occurrences != NULL ? u->squares[i] / m_i : u->u[i] * u->u[i];
    }
    if (u->latent != NULL)
        m->kernels->apply_rows[rule->kind](rule, s->l2, u->rows, g->weights, g->state, u->latent,
                                           g->n, u->n);
    for (size_t i = 0; i < u->n && u->latent == NULL; i++)
        m->kernels->apply[rule->kind](rule, s->l2[i], u->rows[i] + g->weights,
                                      u->rows[i] + g->state, u->latent_of[i], g->n);
}

void model_apply(struct model_scratch *s, const struct model_update *u)
{
    const struct model *m = s->model;
    assert(u->n <= s->cap);
    m->kernels->count(u->rows, m->count, u->occurrences, u->pass, s->share, u->n);
    apply_linear(s, u);
    if (m->n_groups > 1)
        apply_latent(s, u);
}
