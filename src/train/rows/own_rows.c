// The rows of a run that belong to its model (struct parameters): a row that was made is
// never removed.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/evaluate/diverged.h"
#include "train/rows/averaging.h"
#include "train/rows/hogwild.h"
#include "train/rows/run_rows.h"

static int open(struct run *r, struct err *e)
{
    return r->config->average == 0
               ? 0
               : averaging_open(&r->local.averaging, r->config->average, r->team,
                                &r->parameters, e);
}

static void close(struct run *r)
{
    averaging_close(r->local.averaging);
}

static int evaluates(struct run *r, bool best, struct evaluation_options *o,
                     struct err *e)
{
    (void)e;
    o->parameters = best ? &r->best : &r->parameters;
    return 0;
}

static int own_rows_swap(struct run *r, struct err *e)
{
    return r->at.averaged > 0 ? averaging_swap(r->local.averaging, e) : 0;
}

static int keep_best(struct run *r, struct err *e)
{
    parameters_close(&r->best);
    return parameters_clone(&r->best, &r->parameters, e);
}

static struct saved_rows own_rows_saved(struct run *r, bool best)
{
    return (struct saved_rows){.model = &r->parameters.model,
                               .local = best ? &r->best : &r->parameters};
}

static int own_rows_load(struct run *r, const char *dir, const struct saved_run *m,
                         bool sparse, bool dense, struct err *e)
{
    (void)m;
    return saved_load_into(dir, SAVED_MODEL, sparse, dense, r->team, &r->parameters, e);
}

static int resume_mean(struct run *r, const char *dir, const struct saved_run *m,
                       struct err *e)
{
    struct parameters mean;
    TRY(saved_load(dir, m, m->has_best ? SAVED_MEAN : SAVED_MODEL, r->team, &mean, e));
    int rc = averaging_load(r->local.averaging, &mean, e);
    parameters_close(&mean);
    return rc;
}

static int own_rows_resume(struct run *r, const char *dir, const struct saved_run *m,
                           struct err *e)
{
    bool mean = m->at.averaged > 0;
    TRY(saved_load_into(dir, m->has_best || mean ? SAVED_TRAINING : SAVED_MODEL, true,
                        true, r->team, &r->parameters, e));
    if (mean)
        TRY(resume_mean(r, dir, m, e));
    return m->has_best ? saved_load(dir, m, SAVED_MODEL, r->team, &r->best, e) : 0;
}

static struct numbering *known(struct run *r)
{
    return &r->parameters.known;
}

static void fill_result(struct run *r, struct train_result *result)
{
    struct table_stats s = table_stats(r->parameters.sparse);
    result->keys = s.rows;
    result->bytes_per_key = table_key_bytes(s.rows, s.row_bytes + s.index_bytes,
                                            table_options(r->parameters.sparse)->width,
                                            &result->fixed_bytes);
}

static size_t describe(struct run *r, struct train_table ret[TRAIN_TABLES])
{
    struct table_stats s = table_stats(r->parameters.sparse),
                       d = table_stats(r->parameters.dense);
    ret[0] = (struct train_table){
        .name = "sparse", .rows = s.rows, .bytes = s.row_bytes + s.index_bytes};
    ret[1] = (struct train_table){
        .name = "dense", .rows = d.rows, .bytes = d.row_bytes + d.index_bytes};
    return 2;
}

static int own_rows_begin(struct run *r, struct err *e)
{
    (void)e;
    r->local.blocks = r->parameters.blocks;
    r->local.row = (struct run_row){
        .bytes = table_slabs(r->parameters.sparse).stride,
        .copied = {table_options(r->parameters.sparse)->width}};
    return 0;
}

// Sets how keys become ids when data is read: an id is the handle of a row, which is made
// when its key is first read.
static int begin_data(struct run *r, struct dataset_options *o, struct err *e)
{
    (void)e;
    o->resolve = parameters_resolve_new;
    o->resolve_ctx = &r->parameters;
    return 0;
}

static int open_worker(struct worker *w)
{
    (void)w;
    return 0;
}

static void close_worker(struct worker *w)
{
    (void)w;
}

static int own_rows_take(struct worker *w, const uint64_t *order, size_t n,
                         const struct hot_copies *hot)
{
    const struct run *r = w->run;
    return view_take(&w->view, r->data, order, n, &r->parameters, hot);
}

static bool own_rows_find(const void *run, uint32_t id, float *ret[HOT_PIECES])
{
    const struct run *r = run;
    ret[0] = table_row(table_slabs(r->parameters.sparse), id);
    return true;
}

static const struct local_rows local = {
    .begin = own_rows_begin,
    .begin_data = begin_data,
    .open_worker = open_worker,
    .close_worker = close_worker,
    .batch = hogwild_batch,
    .take = own_rows_take,
    .find = own_rows_find,
};

const struct run_rows rows_own = {
    .open = open,
    .close = close,
    .evaluates = evaluates,
    .swap = own_rows_swap,
    .keep_best = keep_best,
    .check = diverged_check,
    .saved = own_rows_saved,
    .load = own_rows_load,
    .resume = own_rows_resume,
    .known = known,
    .fill_result = fill_result,
    .describe = describe,
    .local = &local,
};
