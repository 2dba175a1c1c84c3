// Field-aware factorization machine: a feature has a latent vector for each field. The
// term of a pair is the product of each feature's vector for the other's field.
//
// SPDX-License-Identifier: Apache-2.0
#include "model/model_internal.h"
#include "rule/rule.h"

enum { MAX_SUMS = 1 << 24 }; // the most floats of sums in a thread (64 MiB)

// Sets values found by a search on MovieLens-1M and on data from a planted model
// (docs/models.md).
static void defaults(struct model_options *o)
{
    o->dim = 4;
    o->init = 0.3f;
    o->latent = rule_defaults(o->latent.kind);
    if (rule_takes(o->latent.kind, "n0"))
        o->latent.n0 = 1e-3f;
    o->latent.l2 = 1e-3f;
    o->latent.prior = 2;
}

static int ffm_check(const struct model_options *o, struct err *e)
{
    TRY(model_check_dim(o, e));
    if (o->fields < 1)
        return err_set(e, TUG_EUSAGE,
                       "model ffm needs data with fields: formats criteo, csv, "
                       "libffm or multislot");
    if ((uint64_t)o->fields * o->fields * o->dim > MAX_SUMS)
        return err_set(
            e, TUG_EUSAGE,
            "model ffm with %u fields and --dim %u is too large (fields x fields x dim "
            "may be %d at most): use fewer fields, a smaller --dim, or model fm",
            o->fields, o->dim, MAX_SUMS);
    return 0;
}

static void ffm_layout(const struct model_options *o, struct accessor_options *ret)
{
    ret->dim = o->dim * o->fields;
    ret->by_squares = true;
}

// The values that are kept for an example: the arrays `out` and `in` (kernels.h), the
// list of the example's fields, and a mark for each of these fields (a byte each, 0
// between examples).

static size_t sums(const struct model *m)
{
    return (size_t)m->options.dim * m->options.fields * m->options.fields +
           KERNEL_PADDING;
}

static size_t kept_floats(const struct model *m)
{
    return 2 * sums(m) +
           m->options.fields; // a float per field is enough for list and marks (3 bytes)
}

static const float *heard(const struct model_work *w, const float *kept)
{
    return kept + sums(w->model);
}

// Returns the list of an example's fields if they are few; NULL if the example has most
// fields, because using the list would then take longer than using all fields.
static const uint16_t *list_fields(const struct model_work *w,
                                   const struct model_example *x, float *kept,
                                   size_t *ret_present)
{
    size_t fields = w->model->options.fields;
    uint16_t *list = (uint16_t *)(kept + 2 * sums(w->model));
    uint8_t *marks = (uint8_t *)(list + fields);
    *ret_present = fields;
    if (x->latent.n * 2 >= fields)
        return NULL;
    *ret_present = 0;
    for (size_t i = 0; i < x->latent.n; i++) {
        if (!marks[x->latent.slot[i]])
            list[(*ret_present)++] = x->latent.slot[i];
        marks[x->latent.slot[i]] = 1;
    }
    for (size_t i = 0; i < *ret_present; i++)
        marks[list[i]] = 0;
    return list;
}

static float ffm_score(struct model_work *w, const struct model_example *x, float *kept)
{
    const struct model *m = w->model;
    size_t dim = m->options.dim, fields = m->options.fields,
           col = model_group(w, MODEL_LATENT)->weights, present;
    const uint16_t *list = list_fields(w, x, kept, &present);
    float *in = kept + sums(m), linear = model_linear(w, x);
    m->kernels->ffm_sums(x->latent.rows, col, x->latent.slot, x->latent.u, x->latent.n,
                         fields, dim, list, present, kept, in);
    return linear + m->kernels->ffm_score(x->latent.rows, col, x->latent.slot,
                                          x->latent.u, x->latent.n, fields, dim, list,
                                          present, kept, in);
}

static void gradient(struct model_work *w, const struct model_example *x,
                     const float *kept, float err, float *const *ret)
{
    const struct model *m = w->model;
    model_linear_gradients(w, x, err, ret[MODEL_LINEAR]);
    m->kernels->ffm_grad(x->latent.rows, model_group(w, MODEL_LATENT)->weights,
                         x->latent.slot, x->latent.u, x->latent.n, m->options.fields,
                         m->options.dim, heard(w, kept), err, ret[MODEL_LATENT]);
}

static void step(struct model_work *w, const struct model_example *x, const float *kept,
                 float err, const struct model_training *t)
{
    const struct model *m = w->model;
    const struct rule_params *rule = &t->rules[MODEL_LATENT];
    const struct accessor_group *g = model_group(w, MODEL_LATENT);
    model_linear_step(w, x, err, t);
    model_set_l2(w, rule, x->latent.n);
    for (size_t i = 0; i < x->latent.n; i++)
        // A feature's decay is multiplied by its squared value: see decays_by_squares.
        w->l2[i] *= x->latent.u[i] * x->latent.u[i];
    w->kernels->ffm_step[rule->kind](rule, w->l2, x->latent.rows, g->weights, g->state,
                                     x->latent.slot, x->latent.u, x->latent.n,
                                     m->options.fields, m->options.dim, heard(w, kept),
                                     err, w->gradients[MODEL_LATENT]);
}

static float pair(const struct model *m, const struct model_batch *b, size_t i, size_t j)
{
    uint32_t v = m->accessor.groups[MODEL_LATENT].weights, dim = m->options.dim;
    return b->u[i] * b->u[j] *
           model_product(b->rows[i] + v + (size_t)b->slot[j] * dim,
                         b->rows[j] + v + (size_t)b->slot[i] * dim, dim);
}

MODEL_BY_EXAMPLE(ffm_score, gradient, step)

const struct model_ops model_ffm = {
    .name = "ffm",
    .groups = {"w", "v"},
    .needs_fields = true,
    .defaults = defaults,
    .check = ffm_check,
    .layout = ffm_layout,
    .kept = kept_floats,
    .at_once = 1, // the kept values of one example already fill a cache
    .forward = forward,
    .backward = backward,
    .step = fused_step,
    .pair = pair,
};
