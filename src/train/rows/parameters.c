// The tables of a model, and functions that find the rows of keys.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/rows/parameters.h"

#include "base/alloc.h"
#include "base/relaxed.h"
#include "train/rows/dense.h"

static int find_rows(struct parameters *p, struct err *e)
{
    size_t n = p->model.blocks;
    p->blocks = mem_array(n, sizeof(*p->blocks));
    for (uint64_t key = 0; key < n && p->blocks != NULL; key++) {
        uint32_t handle;
        if (table_rows(p->dense, &key, 1, &handle) != 0)
            return err_nomem(e, "dense parameters");
        p->blocks[key] = table_row(table_slabs(p->dense), handle);
    }
    if (p->blocks == NULL)
        return err_nomem(e, "dense parameters");
    p->zeros = mem_zalloc((p->model.accessor.width + 1) * sizeof(float));
    return p->zeros != NULL ? 0 : err_nomem(e, "a row");
}

static int begin_dense(struct parameters *p, struct err *e)
{
    float *first = dense_floats(&p->model);
    if (first == NULL)
        return err_nomem(e, "dense parameters");
    model_first_dense(&p->model, first);
    dense_write(&p->model, first, p->blocks);
    mem_free(first);
    return 0;
}

static int open_tables(struct parameters *p, const struct table_options *sparse,
                       struct err *e)
{
    struct table_options dense = model_dense_table(&p->model);
    int rc = table_open(&p->sparse, sparse, e);
    if (rc == 0)
        rc = table_open(&p->dense, &dense, e);
    if (rc == 0)
        rc = find_rows(p, e);
    if (rc == 0)
        rc = begin_dense(p, e);
    if (rc != 0)
        parameters_close(p);
    return rc;
}

int parameters_open(struct parameters *p, const struct model_options *o, struct err *e)
{
    *p = (struct parameters){0};
    TRY(model_init(&p->model, o, e));
    struct table_options sparse = model_table(&p->model);
    return open_tables(p, &sparse, e);
}

// Returns the alignment of a row. Without alignment, a row slightly longer than half a
// cache line would usually lie in two lines.
static uint32_t packed_align(uint32_t width)
{
    enum { LINE = 64 };
    size_t bytes = sizeof(uint64_t) + width * sizeof(float), over = bytes % LINE;
    return over == 0 || (over > LINE / 2 && bytes >= LINE / 2) || bytes > 4 * LINE ? LINE
                                                                                   : 8;
}

int parameters_open_packed(struct parameters *p, const struct model_options *o,
                           struct err *e)
{
    struct model m;
    *p = (struct parameters){0};
    TRY(model_init(&m, o, e));
    model_packed(&p->model, &m);
    struct table_options sparse = model_table(&p->model);
    sparse.n_inits = 0;
    sparse.align = packed_align(sparse.width);
    return open_tables(p, &sparse, e);
}

void parameters_close(struct parameters *p)
{
    table_close(p->sparse);
    table_close(p->dense);
    mem_free(p->zeros);
    mem_free(p->blocks);
    *p = (struct parameters){0};
}

int parameters_clone(struct parameters *ret, const struct parameters *p, struct err *e)
{
    *ret = (struct parameters){.model = p->model};
    numbering_copy(&ret->known, &p->known);
    int rc = table_clone(&ret->sparse, p->sparse, e);
    if (rc == 0)
        rc = table_clone(&ret->dense, p->dense, e);
    if (rc == 0)
        rc = find_rows(ret, e);
    if (rc != 0)
        parameters_close(ret);
    return rc;
}

int parameters_resolve_new(void *ctx, const uint64_t *keys, size_t n, uint32_t *ret_ids)
{
    struct parameters *p = ctx;
    numbering_add(&p->known, keys, n);
    return table_rows(p->sparse, keys, n, ret_ids);
}

int parameters_resolve_seen(void *ctx, const uint64_t *keys, size_t n, uint32_t *ret_ids)
{
    struct parameters *p = ctx;
    struct table_slabs slabs = table_slabs(p->sparse);
    table_find(p->sparse, keys, n, ret_ids);
    for (size_t i = 0; i < n; i++)
        if (ret_ids[i] == TABLE_NONE ||
            relaxed_load(table_row(slabs, ret_ids[i]) + p->model.accessor.count) == 0)
            ret_ids[i] = PARAMETERS_UNSEEN;
    return 0;
}
