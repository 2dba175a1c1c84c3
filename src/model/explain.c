// Splits a score into its parts: see explain.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "model/explain.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "model/data_norm.h"
#include "model/model_internal.h"
#include "model/pooling.h"

// Inserts a pair into the sorted list of the largest pairs, unless it is too small. The list
// is short, so its elements are moved one by one.
static void keep_pair(struct model_explained *x, struct model_pair p)
{
    if (x->n_pairs == x->max_pairs &&
        (x->max_pairs == 0 || fabs(x->pair[x->n_pairs - 1].adds) >= fabs(p.adds)))
        return;
    size_t i = x->n_pairs < x->max_pairs ? x->n_pairs++ : x->n_pairs - 1;
    for (; i > 0 && fabs(x->pair[i - 1].adds) < fabs(p.adds); i--)
        x->pair[i] = x->pair[i - 1];
    x->pair[i] = p;
}

// Adds up the terms of all pairs. Returns a value to which rounding errors are proportional:
// fm subtracts the squares of the features' vectors from the square of the vectors' sum, and
// both are at most the square of the sum of the vectors' lengths.
static double add_pairs(const struct model *m, const struct model_batch *b, uint32_t n,
                        struct model_explained *x)
{
    size_t from = b->start[0];
    double lengths = 0;
    for (uint32_t i = 0; i < n; i++) {
        lengths += sqrt(fabs((double)m->options.ops->pair(m, b, from + i, from + i)));
        for (uint32_t j = i + 1; j < n; j++) {
            double adds = (double)m->options.ops->pair(m, b, from + i, from + j);
            x->pairs += adds;
            x->feature[i].pairs += adds;
            x->feature[j].pairs += adds;
            keep_pair(x, (struct model_pair){i, j, adds});
        }
    }
    x->all_pairs = (uint64_t)n * (n - (n > 0)) / 2;
    return lengths * lengths;
}

static double add_linear(const struct model *m, const struct model_batch *b, uint32_t n,
                         struct model_explained *x)
{
    const struct accessor_group *g = &m->accessor.groups[MODEL_LINEAR];
    double size = 0;
    for (uint32_t i = 0; i < n; i++) {
        size_t at = b->start[0] + i;
        float term = relaxed_load(b->rows[at] + g->weights) * b->x[at];
        x->feature[i].linear = (double)term;
        x->linear += (double)term;
        size += fabs((double)term);
    }
    return size;
}

// The features of an example without one of them, padded like those of a batch.
struct rest {
    float **rows;
    float *x, *u;
    uint16_t *slot;
};

static void rest_free(struct rest *r)
{
    mem_free(r->rows);
    mem_free(r->x);
    mem_free(r->u);
    mem_free(r->slot);
}

static int rest_open(struct rest *r, size_t n)
{
    n += KERNEL_PADDING;
    *r = (struct rest){mem_array(n, sizeof(*r->rows)), mem_zalloc(n * sizeof(*r->x)),
                       mem_zalloc(n * sizeof(*r->u)), mem_zalloc(n * sizeof(*r->slot))};
    return r->rows != NULL && r->x != NULL && r->u != NULL && r->slot != NULL
               ? 0
               : TUG_ENOMEM;
}

static void rest_fill(struct rest *r, const struct model_batch *b, uint32_t n,
                      uint32_t without)
{
    size_t to = 0;
    for (uint32_t i = 0; i < n + KERNEL_PADDING; i++) {
        size_t at = b->start[0] + i;
        if (i == without)
            continue;
        r->rows[to] = b->rows[at];
        if (i < n) {
            r->x[to] = b->x[at];
            r->u[to] = b->u[at];
            r->slot[to] = b->slot[at];
        }
        to++;
    }
    r->rows[to] = r->rows[to - 1];
}

// Computes the term of the layers. Numbers are normalised before a feature is left out,
// because otherwise the numbers after it in its field would take its place. Pooling comes
// after that, so means do not count the feature that is left out.
static int layers_of(struct model_work *w, struct model_batch b, double *ret)
{
    float score;
    TRY(pooling(w, &b));
    w->model->options.ops->layers(w, &b, &score);
    *ret = (double)score;
    return 0;
}

static int add_layers(struct model_work *w, const struct model_batch *b, uint32_t n,
                      struct model_explained *x)
{
    struct rest r;
    uint32_t start[2] = {0, n - 1};
    double rest;
    TRY(layers_of(w, *b, &x->layers));
    int rc = rest_open(&r, n);
    for (uint32_t i = 0; i < n && rc == 0; i++) {
        rest_fill(&r, b, n, i);
        struct model_batch part = {.n = 1,
                                   .start = start,
                                   .rows = r.rows,
                                   .x = r.x,
                                   .u = r.u,
                                   .slot = r.slot,
                                   .label = b->label};
        rc = layers_of(w, part, &rest);
        if (rc == 0)
            x->feature[i].layers = x->layers - rest;
    }
    rest_free(&r);
    return rc;
}

static int check_sum(const struct model *m, const struct model_explained *x, double size,
                     struct err *e)
{
    double sum = x->bias + x->linear + x->pairs + x->layers;
    if (fabs(sum - x->score) <= 1e-5 * (1 + size) || !isfinite(x->score))
        return 0;
    return err_set(e, TUG_EINTERNAL,
                   "the score is %.9g, but its parts add up to %.9g: model %s has parts "
                   "that tug cannot explain",
                   x->score, sum, m->options.ops->name);
}

int model_explain(struct model_work *w, const struct model_batch *example,
                  struct model_explained *x, struct err *e)
{
    const struct model *m = w->model;
    // `one` is the normalised example; `whole` is the same, normalised and pooled.
    struct model_batch one = *example, whole;
    uint32_t n = one.start[1] - one.start[0];
    float score;
    if (data_norm(w, &one, NULL) != 0)
        return err_nomem(e, "an explanation");
    whole = one;
    if (pooling(w, &whole) != 0)
        return err_nomem(e, "an explanation");
    memset(x->feature, 0, n * sizeof(*x->feature));
    x->linear = x->pairs = x->layers = 0;
    x->n_pairs = 0;
    x->all_pairs = 0;
    x->bias = (double)w->dense[0];
    m->options.ops->forward(w, &whole, &score);
    x->score = (double)(w->dense[0] + score);
    double size = fabs(x->bias) + add_linear(m, &whole, n, x);
    if (m->options.ops->pair != NULL)
        size += add_pairs(m, &whole, n, x);
    if (m->options.ops->layers != NULL && add_layers(w, &one, n, x) != 0)
        return err_nomem(e, "an explanation");
    return check_sum(m, x, size + fabs(x->layers), e);
}
