// Vectors of different lengths: see dims.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "model/dims.h"

#include "base/alloc.h"

int model_check_dims_by_field(const struct model_ops *ops, struct err *e)
{
    if (ops->dims_by_field)
        return 0;
    return err_set(e, TUG_EUSAGE,
                   "--dims: model %s has no vectors, or multiplies them with each other, "
                   "so they need one length: use mlp, wide_deep or dcn, or --dim",
                   ops->name);
}

int dims_check(const struct model_options *o, struct err *e)
{
    if (o->n_dims > 0)
        TRY(model_check_dims_by_field(o->ops, e));
    for (uint32_t i = 0; i < o->n_dims; i++) {
        const struct model_dim *d = &o->dims[i];
        if (d->field >= o->fields)
            return err_set(e, TUG_EUSAGE,
                           "--dims: field %u is not below %u, the number of fields",
                           d->field, o->fields);
        if (i > 0 && d->field <= d[-1].field)
            return err_set(e, TUG_EUSAGE, "--dims gives field %u two lengths", d->field);
        if (d->dim < 1 || d->dim > MODEL_MAX_DIM)
            return err_set(e, TUG_EUSAGE,
                           "--dims: a length is %u; it must be between 1 and %d", d->dim,
                           MODEL_MAX_DIM);
    }
    return 0;
}

static uint32_t common_divisor(uint32_t a, uint32_t b)
{
    while (b != 0) {
        uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

struct dims dims_of(const struct model_options *o)
{
    // If --dims lists every field, --dim applies to no field.
    uint32_t first = o->n_dims > 0 && o->n_dims == o->fields ? o->dims[0].dim : o->dim;
    struct dims ret = {first, first, first};
    for (uint32_t i = 0; i < o->n_dims; i++) {
        uint32_t dim = o->dims[i].dim;
        ret.longest = dim > ret.longest ? dim : ret.longest;
        ret.shortest = dim < ret.shortest ? dim : ret.shortest;
        ret.divisor = common_divisor(ret.divisor, dim);
    }
    return ret;
}

size_t dims_sum(const struct model_options *o)
{
    size_t sum = (size_t)(o->fields - o->n_dims) * o->dim;
    for (uint32_t i = 0; i < o->n_dims; i++)
        sum += o->dims[i].dim;
    return sum;
}

int dims_open(struct model_work *w)
{
    const struct model_options *o = &w->model->options;
    if (o->n_dims == 0)
        return 0;
    w->spans = mem_array(o->fields, sizeof(*w->spans));
    if (w->spans == NULL)
        return TUG_ENOMEM;
    uint32_t at = 0;
    for (uint32_t f = 0, i = 0; f < o->fields; f++) {
        bool listed = i < o->n_dims && o->dims[i].field == f;
        w->spans[f] = (struct model_span){at, listed ? o->dims[i++].dim : o->dim};
        at += w->spans[f].n;
    }
    return 0;
}

void dims_close(struct model_work *w)
{
    mem_free(w->spans);
    w->spans = NULL;
}
