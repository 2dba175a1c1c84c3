// The rows of a run in one process with a feature lifecycle; see living_rows.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/rows/living_rows.h"

#include "base/alloc.h"
#include "base/finite.h"
#include "base/relaxed.h"
#include "train/evaluate/diverged.h"
#include "train/rows/dense.h"
#include "train/rows/lifecycle.h"
#include "train/rows/living_steps.h"
#include "train/rows/run_rows.h"
#include "train/rows/run_tables.h"

enum { BATCH = 1024 }; // ids that are linked at a time

// The arrays of links are mapped memory, so that large ones get large pages.

static void unmap_links(struct living_links *l)
{
    mem_unmap((void *)l->handle, l->n * sizeof(*l->handle));
    mem_unmap((void *)l->extra, l->n * sizeof(*l->extra));
    mem_unmap(l->partition, l->n * sizeof(*l->partition));
    *l = (struct living_links){0};
}

static int map_links(struct living_links *l, size_t n, bool extras)
{
    l->n = n + 1;
    l->handle = mem_map(l->n * sizeof(*l->handle));
    l->partition = mem_map(l->n * sizeof(*l->partition));
    if (extras)
        l->extra = mem_map(l->n * sizeof(*l->extra));
    if (l->handle != NULL && l->partition != NULL && (l->extra != NULL || !extras))
        return 0;
    unmap_links(l);
    return TUG_ENOMEM;
}

// ---------------------------------------------------------------- opening and closing

static int open_store(struct store **ret, const struct table_config *t, uint32_t id,
                      const struct model *m, struct err *e)
{
    struct store_options o = {
        .config = t, .id = id, .partition_bits = model_table(m).partition_bits};
    return store_open(ret, &o, e);
}

// Makes the rows of the dense parameters. Their addresses never change, not even
// when a save is loaded.
static int make_dense(struct living_rows *l, struct err *e)
{
    size_t n = l->model.blocks;
    uint64_t *keys = dense_keys(&l->model);
    float *first = dense_floats(&l->model);
    l->blocks = mem_array(n, sizeof(*l->blocks));
    int rc = keys != NULL && first != NULL && l->blocks != NULL
                 ? 0
                 : err_nomem(e, "dense parameters");
    if (rc == 0) {
        model_first_dense(&l->model, first);
        struct store_push p = {.op = STORE_ASSIGN,
                               .keys = keys,
                               .n = n,
                               .values = first,
                               .rate = 1,
                               .scale = 1};
        rc = store_push(l->dense, &p, NULL, e);
    }
    for (size_t i = 0; i < n && rc == 0; i++)
        l->blocks[i] = store_steps_row(l->dense, keys[i]);
    mem_free(keys);
    mem_free(first);
    return rc;
}

static int open_tables(struct living_rows *l, const struct train_config *c,
                       const struct model *m, struct err *e)
{
    struct table_config sparse, dense;
    TRY(run_tables(c, m, &sparse, &dense, e));
    TRY(lifecycle_model(&sparse, m, &l->model, e));
    TRY(open_store(&l->sparse, &sparse, 0, m, e));
    TRY(open_store(&l->dense, &dense, 1, m, e));
    const struct accessor *a = &l->model.accessor;
    l->zeros = mem_zalloc((a->width + a->extra_width) * sizeof(*l->zeros));
    return l->zeros != NULL ? make_dense(l, e) : err_nomem(e, "a row");
}

static int open_rows(struct run *r, struct err *e)
{
    struct living_rows *l = r->local.living = mem_zalloc(sizeof(*l));
    if (l == NULL)
        return err_nomem(e, "the rows of a model");
    pthread_mutex_init(&l->lock, NULL);
    TRY(open_tables(l, r->config, &r->parameters.model, e));
    r->model = &l->model;
    return 0;
}

static void close_rows(struct run *r)
{
    struct living_rows *l = r->local.living;
    if (l == NULL)
        return;
    store_steps_close(l->steps);
    store_close(l->sparse);
    store_close(l->dense);
    table_close(l->ids);
    unmap_links(&l->links);
    mem_free(l->zeros);
    mem_free(l->blocks);
    parameters_close(&l->cache);
    pthread_mutex_destroy(&l->lock);
    mem_free(l);
    r->local.living = NULL;
}

// -------------------------------------------------------- ids of keys, and links to rows

// Removes the links to rows that the store has removed.
static void unlink(void *ctx, const uint64_t *keys, size_t n)
{
    struct living_rows *l = ctx;
    uint32_t ids[BATCH];
    for (size_t at = 0, len; at < n; at += len) {
        len = n - at < BATCH ? n - at : BATCH;
        table_find(l->ids, keys + at, len, ids);
        for (size_t i = 0; i < len; i++) {
            if (ids[i] != TABLE_NONE)
                living_link(&l->links, ids[i], LIVING_NONE, TABLE_NONE);
        }
    }
}

static int living_rows_begin(struct run *r, struct err *e)
{
    struct living_rows *l = r->local.living;
    TRY(store_finish(l->sparse, e));
    TRY(store_steps_open(&l->steps, l->sparse, unlink, l, e));
    l->views = store_steps_views(l->steps);
    l->steps_before = store_step_of(l->sparse) - r->at.batches;
    r->local.blocks = l->blocks;
    r->local.row.bytes = l->views.rows.stride +
                         (l->views.extras.slab != NULL ? l->views.extras.stride : 0);
    living_steps_copied(l, r->local.row.copied);
    return 0;
}

static int living_rows_resolve(void *ctx, const uint64_t *keys, size_t n,
                               uint32_t *ret_ids)
{
    struct living_rows *l = ctx;
    numbering_add(&l->known, keys, n);
    return table_rows(l->ids, keys, n, ret_ids);
}

// Starts new ids for another data set.
static int begin_data(struct run *r, struct dataset_options *o, struct err *e)
{
    struct table_options ids = {.width = 0};
    struct living_rows *l = r->local.living;
    table_close(l->ids);
    l->ids = NULL;
    o->resolve = living_rows_resolve;
    o->resolve_ctx = l;
    return table_open(&l->ids, &ids, e);
}

static int link_some(struct living_rows *l, const uint32_t *ids, size_t n,
                     uint64_t *keys_of, struct err *e)
{
    struct table_slabs slabs = table_slabs(l->ids);
    uint64_t keys[BATCH];
    uint32_t handles[BATCH], extras[BATCH];
    for (size_t i = 0; i < n; i++)
        keys[i] = table_row_key(table_row(slabs, ids[i]));
    TRY(store_steps_find(l->steps, keys, n, handles, extras, e));
    for (size_t i = 0; i < n; i++) {
        living_link(&l->links, ids[i], handles[i], extras[i]);
        uint32_t partition = store_partition(l->sparse, keys[i]);
        l->links.partition[ids[i]] = (uint16_t)partition;
        keys_of[partition]++;
    }
    return 0;
}

// Links the ids of the new data to the rows that exist.
static int end_data(struct run *r, struct err *e)
{
    struct living_rows *l = r->local.living;
    uint32_t ids[BATCH];
    uint64_t cursor = 0;
    if (l->model.options.ops->needs_fields)
        numbering_add_fields(&l->known, dataset_first_slot(r->data),
                             dataset_slots(r->data));
    unmap_links(&l->links);
    if (map_links(&l->links, table_handles(l->ids), l->views.extras.slab != NULL) != 0)
        return err_nomem(e, "the rows of a model");
    uint64_t *keys = mem_zalloc(sizeof(*keys) << model_table(&l->model).partition_bits);
    if (keys == NULL)
        return err_nomem(e, "the rows of a model");
    int rc = 0;
    for (size_t n; rc == 0 && (n = table_scan(l->ids, &cursor, ids, BATCH)) > 0;)
        rc = link_some(l, ids, n, keys, e);
    if (rc == 0 && store_stats(l->sparse).rows == 0)
        store_steps_expect(l->steps, keys);
    mem_free(keys);
    return rc;
}

// Functions for evaluations. Rows are copied into the cache when a key of the text is
// first looked up.

static int begin_cache(struct living_rows *l, struct err *e)
{
    struct model_options o = l->model.options;
    parameters_close(&l->cache);
    TRY(parameters_open(&l->cache, &o, e));
    numbering_copy(&l->cache.known, &l->known);
    for (size_t i = 0; i < l->model.blocks; i++)
        relaxed_load_n(l->cache.blocks[i], l->blocks[i], l->model.dense.width);
    return 0;
}

static int take_row(struct living_rows *l, uint64_t key)
{
    const float *extra, *row = store_row(l->sparse, key, &extra);
    uint32_t handle;
    if (row == NULL)
        return 0;
    TRY(table_rows(l->cache.sparse, &key, 1, &handle));
    lifecycle_copy_row(&l->model.accessor, &l->cache.model.accessor, row, extra,
                       table_row(table_slabs(l->cache.sparse), handle));
    return 0;
}

static int resolve_seen(void *ctx, const uint64_t *keys, size_t n, uint32_t *ret_ids)
{
    struct living_rows *l = ctx;
    int rc = 0;
    pthread_mutex_lock(&l->lock);
    table_find(l->cache.sparse, keys, n, ret_ids);
    for (size_t i = 0; i < n && rc == 0; i++)
        if (ret_ids[i] == TABLE_NONE)
            rc = take_row(l, keys[i]);
    pthread_mutex_unlock(&l->lock);
    return rc != 0 ? rc : parameters_resolve_seen(&l->cache, keys, n, ret_ids);
}

static int evaluates(struct run *r, bool best, struct evaluation_options *o,
                     struct err *e)
{
    (void)best; // tables with a feature lifecycle do not keep the rows of the best pass
    o->parameters = &r->local.living->cache;
    o->resolve = resolve_seen;
    o->resolve_ctx = r->local.living;
    return begin_cache(r->local.living, e);
}

static int keep_best(struct run *r, struct err *e)
{
    (void)r;
    return err_set(
        e, TUG_EUSAGE,
        "the rows of the best pass cannot be kept for tables that --table makes");
}

// ----------------------------------------------------------- saving and loading the rows

static bool is_finite(const struct accessor_group *g, const float *row)
{
    return row == NULL || (finite_floats(row + g->weights, g->n) &&
                           finite_floats(row + g->state, g->n_state));
}

struct check {
    const struct accessor *accessor;
    const struct reader *reader;
};

static int check_row(void *ctx, uint64_t key, const float *row, const float *extra,
                     struct err *e)
{
    const struct check *c = ctx;
    const struct accessor *a = c->accessor;
    for (uint32_t g = 0; g < a->n_groups; g++)
        if (!is_finite(&a->groups[g], g > 0 && a->extra_width > 0 ? extra : row))
            return diverged_key(key, c->reader, e);
    return 0;
}

static int living_rows_check(const struct run *r, struct err *e)
{
    const struct living_rows *l = r->local.living;
    struct check c = {.accessor = &l->model.accessor, .reader = r->reader};
    for (uint32_t p = 0; p < 1u << model_table(&l->model).partition_bits; p++)
        TRY(store_each(l->sparse, p, check_row, &c, e));
    for (size_t i = 0; i < l->model.blocks; i++)
        if (!finite_floats(l->blocks[i], l->model.dense.width))
            return diverged_dense(&l->model, l->blocks, e);
    return 0;
}

static int living_rows_save(void *ctx, const char *dir, struct save_manifest *m,
                            struct saved_run *run, struct err *e)
{
    const struct run *r = ctx;
    struct living_rows *l = r->local.living;
    struct store *const both[] = {l->sparse, l->dense};
    (void)run;
    store_set_step(l->sparse, l->steps_before + r->at.batches);
    TRY(save_add_stores(m, dir, both, 2, 0, e));
    // STORE_PUBLISHED, which ended the cut, must finish before the next operation.
    return store_finish(l->sparse, e);
}

static struct saved_rows living_rows_saved(struct run *r, bool best)
{
    return (struct saved_rows){
        .model = &r->parameters.model, .ctx = r, .best = best, .save = living_rows_save};
}

static int living_rows_load(struct run *r, const char *dir, const struct saved_run *m,
                            bool sparse, bool dense, struct err *e)
{
    struct save_chain chain;
    (void)m;
    TRY(saved_open(&chain, dir, e));
    int rc = 0;
    if (sparse)
        rc = save_load(&chain, RUN_SPARSE, r->local.living->sparse, NULL, NULL, e);
    if (rc == 0 && dense)
        rc = save_load(&chain, RUN_DENSE, r->local.living->dense, NULL, NULL, e);
    save_chain_close(&chain);
    return rc;
}

// Refuses a save that a cluster made in the middle of a pass, because one process
// cannot resume that pass.
static int living_rows_resume(struct run *r, const char *dir, const struct saved_run *m,
                              struct err *e)
{
    if (m->readers != NULL)
        return err_set(e, TUG_EUSAGE,
                       "%s was saved in the middle of a pass by workers: resume it with "
                       "--save-every BATCHES, as before, or on a cluster",
                       dir);
    return living_rows_load(r, dir, m, true, true, e);
}

static struct numbering *known(struct run *r)
{
    return &r->local.living->known;
}

static void fill_result(struct run *r, struct train_result *result)
{
    struct store_stats s = store_stats(r->local.living->sparse);
    result->keys = s.rows;
    const struct accessor *a = store_accessor(r->local.living->sparse);
    result->bytes_per_key = table_key_bytes(s.rows, s.bytes, a->width + a->extra_width,
                                            &result->fixed_bytes);
}

static struct train_table table_of(const char *name, const struct store *s)
{
    return (struct train_table){
        .name = name, .rows = store_counts(s).rows, .bytes = store_bytes(s)};
}

static size_t describe(struct run *r, struct train_table ret[TRAIN_TABLES])
{
    ret[0] = table_of("sparse", r->local.living->sparse);
    ret[1] = table_of("dense", r->local.living->dense);
    return 2;
}

// Rows are saved only between passes (whole_passes). So a cluster can resume the run,
// although a cluster describes a position within a pass in another form.
static const struct local_rows local = {
    .begin = living_rows_begin,
    .begin_data = begin_data,
    .end_data = end_data,
    .open_worker = living_steps_open,
    .close_worker = living_steps_close,
    .batch = living_steps_batch,
    .take = living_steps_take,
    .find = living_steps_find_hot,
};

const struct run_rows rows_living = {
    .whole_passes = true,
    .open = open_rows,
    .close = close_rows,
    .evaluates = evaluates,
    .keep_best = keep_best,
    .check = living_rows_check,
    .saved = living_rows_saved,
    .load = living_rows_load,
    .resume = living_rows_resume,
    .known = known,
    .fill_result = fill_result,
    .describe = describe,
    .local = &local,
};
