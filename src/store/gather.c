// Rows that are gathered before they are handed on: see gather.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "store/gather.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"

int gather_open(struct gather **ret, const struct accessor *a,
                int (*take)(struct gather *g, struct err *e), void *ctx, struct err *e)
{
    struct gather *g = mem_zalloc(sizeof(*g));
    if (g == NULL)
        return err_nomem(e, "a copy of rows");
    g->accessor = a;
    g->take = take;
    g->ctx = ctx;
    g->rows = mem_array(GATHER_ROWS, a->width * sizeof(float) + 1);
    g->extras = mem_array(GATHER_ROWS, a->extra_width * sizeof(float) + 1);
    if (g->rows == NULL || g->extras == NULL) {
        gather_close(g);
        return err_nomem(e, "a copy of rows");
    }
    *ret = g;
    return 0;
}

void gather_close(struct gather *g)
{
    if (g == NULL)
        return;
    mem_free(g->rows);
    mem_free(g->extras);
    mem_free(g);
}

int gather_flush(struct gather *g, struct err *e)
{
    int rc = g->take(g, e);
    g->n = g->n_extras = 0;
    return rc;
}

int gather_row(void *ctx, uint64_t key, const float *row, const float *extra,
               struct err *e)
{
    struct gather *g = ctx;
    const struct accessor *a = g->accessor;
    assert(g->n < GATHER_ROWS && g->n_extras <= g->n);
    memcpy(g->rows + g->n * a->width, row, a->width * sizeof(*row));
    g->keys[g->n++] = key;
    if (extra != NULL) {
        memcpy(g->extras + g->n_extras * a->extra_width, extra,
               a->extra_width * sizeof(*extra));
        g->extra_keys[g->n_extras++] = key;
    }
    return g->n == GATHER_ROWS ? gather_flush(g, e) : 0;
}
