// Pools several features of a field: see pooling.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "model/pooling.h"

#include <assert.h>

#include "base/alloc.h"

int pooling_open(struct model_work *w)
{
    const struct model_options *o = &w->model->options;
    if (!o->pooling_mean)
        return 0;
    w->pool.counts = mem_zalloc(o->fields * sizeof(*w->pool.counts));
    return w->pool.counts != NULL ? 0 : TUG_ENOMEM;
}

void pooling_close(struct model_work *w)
{
    mem_free(w->pool.counts);
    mem_free(w->pool.u);
    w->pool = (struct model_pool){0};
}

static int pooling_reserve(struct model_pool *p, size_t n)
{
    n += KERNEL_PADDING;
    if (n <= p->cap)
        return 0;
    mem_free(p->u);
    p->cap = n + n / 2;
    p->u = mem_zalloc(p->cap * sizeof(*p->u));
    p->cap = p->u != NULL ? p->cap : 0;
    return p->cap != 0 ? 0 : TUG_ENOMEM;
}

int pooling(struct model_work *w, struct model_batch *b)
{
    struct model_pool *p = &w->pool;
    if (!w->model->options.pooling_mean)
        return 0;
    assert(b->latent.start == NULL);
    TRY(pooling_reserve(p, b->start[b->n]));
    for (size_t i = 0; i < b->n; i++) {
        uint32_t begin = b->start[i], end = b->start[i + 1];
        for (uint32_t j = begin; j < end; j++)
            p->counts[b->slot[j]]++;
        for (uint32_t j = begin; j < end; j++)
            p->u[j] = b->u[j] / (float)p->counts[b->slot[j]];
        for (uint32_t j = begin; j < end; j++)
            p->counts[b->slot[j]] = 0;
    }
    b->u = p->u;
    return 0;
}
