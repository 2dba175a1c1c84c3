// Tables of a model, and keys resolved to rows.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/parameters.h"

static int find_bias(struct parameters *p, struct err *e)
{
    uint64_t key = 0;
    uint32_t handle;
    if (table_rows(p->dense, &key, 1, &handle) != 0)
        return err_nomem(e, "the bias");
    p->bias = table_row(table_slabs(p->dense), handle);
    return 0;
}

int parameters_open(struct parameters *p, const struct model_options *o, struct err *e)
{
    *p = (struct parameters){0};
    TRY(model_init(&p->model, o, e));
    struct table_options sparse = model_table(&p->model), dense = model_bias_table(&p->model);
    int rc = table_open(&p->sparse, &sparse, e);
    if (rc == 0)
        rc = table_open(&p->dense, &dense, e);
    if (rc == 0)
        rc = find_bias(p, e);
    if (rc != 0)
        parameters_close(p);
    return rc;
}

void parameters_close(struct parameters *p)
{
    table_close(p->sparse);
    table_close(p->dense);
    *p = (struct parameters){0};
}

int parameters_clone(struct parameters *ret, const struct parameters *p, struct err *e)
{
    *ret = (struct parameters){.model = p->model};
    int rc = table_clone(&ret->sparse, p->sparse, e);
    if (rc == 0)
        rc = table_clone(&ret->dense, p->dense, e);
    if (rc == 0)
        rc = find_bias(ret, e);
    if (rc != 0)
        parameters_close(ret);
    return rc;
}

int parameters_resolve_new(void *ctx, const uint64_t *keys, size_t n, uint32_t *ret_ids)
{
    struct parameters *p = ctx;
    return table_rows(p->sparse, keys, n, ret_ids);
}

int lookup_open(struct lookup *l, const struct parameters *p, struct err *e)
{
    struct table_options unseen = model_table(&p->model);
    *l = (struct lookup){.parameters = p};
    return table_open(&l->unseen, &unseen, e);
}

void lookup_close(struct lookup *l)
{
    table_close(l->unseen);
    *l = (struct lookup){0};
}

// Makes rows for the keys of a stretch that have none.
static int resolve_unseen(struct lookup *l, const uint64_t *keys, size_t n, uint32_t *ids)
{
    enum { AT_ONCE = 128 };
    uint64_t missing[AT_ONCE];
    uint32_t handle[AT_ONCE], at[AT_ONCE];
    for (size_t i = 0; i < n;) {
        size_t m = 0;
        for (; i < n && m < AT_ONCE; i++) {
            if (ids[i] == TABLE_NONE) {
                missing[m] = keys[i];
                at[m++] = (uint32_t)i;
            }
        }
        TRY(table_rows(l->unseen, missing, m, handle));
        for (size_t j = 0; j < m; j++)
            ids[at[j]] = handle[j] | TABLE_MAX_ROWS;
    }
    return 0;
}

int lookup_resolve(void *ctx, const uint64_t *keys, size_t n, uint32_t *ret_ids)
{
    struct lookup *l = ctx;
    table_find(l->parameters->sparse, keys, n, ret_ids);
    return resolve_unseen(l, keys, n, ret_ids);
}
