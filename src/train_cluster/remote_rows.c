// See remote_rows.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "train_cluster/remote_rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/compare.h"
#include "base/relaxed.h"
#include "train/rows/dense.h"
#include "train/rows/lifecycle.h"
#include "train_cluster/exchange.h"

static int remote_rows_wait(struct remote_rows *r, client_ts ts, struct err *e)
{
    return ts != 0 ? client_wait(r->client, ts, e) : e->code;
}

// Puts rows that were pulled into the table. `living` is the accessor by whose layout the
// values were pulled; NULL: the values are whole rows.
int remote_rows_put(struct table *t, const uint64_t *keys, size_t n, const float *values,
                    const uint8_t *found, const struct accessor *living,
                    const struct accessor *own)
{
    uint32_t width = living != NULL ? living->pull_width : table_options(t)->width;
    uint32_t *handles = mem_array(n, sizeof(*handles));
    int rc = handles != NULL ? table_rows(t, keys, n, handles) : TUG_ENOMEM;
    struct table_slabs slabs = table_slabs(t);
    for (size_t i = 0; i < n && rc == 0; i++) {
        if (!found[i])
            continue;
        float *row = table_row(slabs, handles[i]);
        if (living != NULL)
            lifecycle_put(living, own, values + i * width, row);
        else
            relaxed_store_n(row, values + i * width, width);
    }
    mem_free(handles);
    return rc;
}

// Returns the accessor of the servers' table of features if its rows have a lifecycle,
// else NULL. For dense parameters returns NULL.
static const struct accessor *living_of(const struct remote_rows *r, bool dense)
{
    const struct table_spec *s = client_spec(r->client, remote_number(false, false));
    if (!accessor_has_lifecycle(&s->accessor))
        return NULL;
    return &client_spec(r->client, remote_number(dense, false))->accessor;
}

// Pulls rows into the cache. A key without a row gets a row that was never updated.
static int remote_rows_pull_rows(struct remote_rows *r, bool dense, const uint64_t *keys,
                                 size_t n, struct err *e)
{
    struct table *t = dense ? r->cache->dense : r->cache->sparse;
    const struct accessor *living = living_of(r, dense);
    uint32_t width = living != NULL ? living->pull_width : table_options(t)->width;
    float *values = mem_array(n * width + 1, sizeof(*values));
    uint8_t *found = mem_array(n, sizeof(*found));
    struct client_pull p = {
        .table = remote_number(dense, false) + r->offset,
        .keys = keys,
        .n = n,
        .values = values,
        .whole_rows = living == NULL,
        .found = found,
    };
    int rc = values != NULL && found != NULL
                 ? remote_rows_wait(r, client_pull(r->client, &p, e), e)
                 : err_nomem(e, "rows of an evaluation");
    const struct model *m = &r->cache->model;
    if (rc == 0 && remote_rows_put(t, keys, n, values, found, living,
                                   dense ? &m->dense : &m->accessor) != 0)
        rc = err_nomem(e, "rows of an evaluation");
    mem_free(values);
    mem_free(found);
    return rc;
}

static size_t missing_keys(struct table *t, const uint64_t *keys, size_t n,
                           uint32_t *handles, uint64_t *ret)
{
    size_t missing = 0;
    table_find(t, keys, n, handles);
    for (size_t i = 0; i < n; i++)
        if (handles[i] == TABLE_NONE)
            ret[missing++] = keys[i];
    return missing;
}

static size_t distinct(uint64_t *keys, size_t n)
{
    size_t kept = 0;
    qsort(keys, n, sizeof(*keys), compare_u64);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || keys[i] != keys[i - 1])
            keys[kept++] = keys[i];
    return kept;
}

// Gets the ids of keys for dataset_load. Several threads call it; only one at a
// time asks the servers.
int remote_rows_resolve(void *ctx, const uint64_t *keys, size_t n, uint32_t *ret_ids)
{
    struct remote_rows *r = ctx;
    uint64_t *wanted = mem_array(n, sizeof(*wanted));
    if (wanted == NULL)
        return TUG_ENOMEM;
    pthread_mutex_lock(r->lock);
    size_t missing = missing_keys(r->cache->sparse, keys, n, ret_ids, wanted);
    int rc = missing > 0 ? remote_rows_pull_rows(r, false, wanted,
                                                 distinct(wanted, missing), &r->lookup)
                         : 0;
    pthread_mutex_unlock(r->lock);
    mem_free(wanted);
    return rc != 0 ? rc : parameters_resolve_seen(r->cache, keys, n, ret_ids);
}

int remote_rows_begin(struct remote_rows *r, struct err *e)
{
    uint64_t *keys = dense_keys(&r->cache->model);
    if (keys == NULL)
        return err_nomem(e, "dense parameters");
    int rc = remote_rows_pull_rows(r, true, keys, r->cache->model.blocks, e);
    mem_free(keys);
    return rc;
}

int remote_rows_reason(struct remote_rows *r, int rc, struct err *e)
{
    if (r->lookup.code != 0)
        *e = r->lookup;
    r->lookup.code = 0;
    return rc != 0 ? e->code : 0;
}
