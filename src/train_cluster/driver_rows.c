// Rows between the driver and the servers: an evaluation looks them up, a save fetches
// them part by part, and a load sends them.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/relaxed.h"
#include "save/save.h"
#include "train/evaluate/diverged.h"
#include "train/rows/averaging.h"
#include "train/rows/lifecycle.h"
#include "train_cluster/driver_internal.h"
#include "train_cluster/peer.h"

enum { FETCH_ROWS = 1 << 15, SEND_ROWS = 4096 };

static int driver_rows_wait(struct driver *d, client_ts ts, struct err *e)
{
    return ts != 0 ? client_wait(d->remote.client, ts, e) : e->code;
}

static struct numbering *known(struct run *r)
{
    struct driver *d = r->driver;
    return d->worker != NULL ? &d->worker->keys.seen : &d->known;
}

static int evaluates(struct run *r, bool best, struct evaluation_options *o,
                     struct err *e)
{
    struct driver *d = r->driver;
    struct model_options model = r->parameters.model.options;
    parameters_close(&r->parameters);
    TRY(parameters_open(&r->parameters, &model, e));
    numbering_copy(&r->parameters.known, known(r));
    d->rows = (struct remote_rows){.client = d->remote.client,
                                   .cache = &r->parameters,
                                   .offset = best ? EXCHANGE_BEST
                                             : r->at.averaged > 0 && !d->looks_into
                                                 ? EXCHANGE_MEAN
                                                 : 0,
                                   .lock = &d->lock};
    o->parameters = &r->parameters;
    o->resolve = remote_rows_resolve;
    o->resolve_ctx = &d->rows;
    return remote_rows_begin(&d->rows, e);
}

static int reason(struct run *r, int rc, struct err *e)
{
    return remote_rows_reason(&r->driver->rows, rc, e);
}

// Returns the number of the table to read: the copy of the best pass, the current table,
// or its mean if `shows_mean` is set.
static uint32_t driver_rows_number(const struct driver *d, bool dense, bool best)
{
    return remote_number(dense, best) + (!best && d->shows_mean ? EXCHANGE_MEAN : 0U);
}

// Makes this client know a copy of a table that the servers have made.
static int know(struct driver *d, uint32_t copy, struct err *e)
{
    struct client *c = d->remote.client;
    return client_spec(c, copy) != NULL
               ? 0
               : driver_rows_wait(d, client_info(c, NULL, copy, NULL, e), e);
}

static int copy_tables(struct driver *d, uint32_t from, uint32_t to, struct err *e)
{
    struct client *c = d->remote.client;
    for (int dense = 0; dense < 2; dense++) {
        uint32_t own = remote_number(dense, false);
        TRY(driver_rows_wait(d, client_admin(c, own + from, WIRE_COPY, own + to, e), e));
        TRY(know(d, own + to, e));
    }
    return 0;
}

static int keep_best(struct run *r, struct err *e)
{
    struct driver *d = r->driver;
    return copy_tables(d, d->shows_mean ? EXCHANGE_MEAN : 0, EXCHANGE_BEST, e);
}

static int driver_rows_swap(struct run *r, struct err *e)
{
    (void)e;
    r->driver->shows_mean ^= r->at.averaged > 0;
    return 0;
}

int driver_sample(struct run *r, uint64_t batches, bool over, struct err *e)
{
    struct driver *d = r->driver;
    uint64_t window = r->config->average, at = r->at.averaged;
    if (window == 0 || batches <= at || (!over && batches < averaging_due(window, at)))
        return 0;
    float share = averaging_share(window, batches, at);
    for (int dense = 0; dense < 2; dense++) {
        uint32_t own = remote_number(dense, false), mean = own + EXCHANGE_MEAN;
        TRY(driver_rows_wait(
            d, client_mean(d->remote.client, own, mean, share < 1 ? share : 1, e), e));
        TRY(know(d, mean, e));
    }
    r->at.averaged = batches;
    return 0;
}

struct fetch {
    struct driver *driver;
    uint64_t *keys;
    float *values;
    uint8_t *found; // for each row 1, because all rows are found
};

static int fetch_partition(struct fetch *f, struct client_walk *w, struct table *t,
                           struct err *e)
{
    struct client *c = f->driver->remote.client;
    while (!w->over) {
        TRY(driver_rows_wait(
            f->driver, client_walk_next(c, w, FETCH_ROWS, f->keys, f->values, e), e));
        if (remote_rows_put(t, f->keys, w->n, f->values, f->found, NULL, NULL) != 0)
            return err_nomem(e, "a part of the model");
    }
    return 0;
}

static int fetch_part(void *ctx, bool dense, bool best, uint32_t first, uint32_t n,
                      struct table **ret, struct err *e)
{
    struct run *r = ctx;
    const struct model *m = &r->parameters.model;
    struct table_options o = dense ? model_dense_table(m) : model_table(m);
    struct fetch f = {.driver = r->driver};
    struct client_walk walk = client_walk_begin(
        driver_rows_number(f.driver, dense, best));
    TRY(table_open(ret, &o, e));
    f.keys = mem_array(FETCH_ROWS, sizeof(*f.keys));
    f.values = mem_array((size_t)FETCH_ROWS * o.width, sizeof(*f.values));
    f.found = mem_array(FETCH_ROWS, sizeof(*f.found));
    int rc = f.keys != NULL && f.values != NULL && f.found != NULL
                 ? 0
                 : err_nomem(e, "a part of the model");
    if (rc == 0)
        memset(f.found, 1, FETCH_ROWS);
    pthread_mutex_lock(&r->driver->lock);
    for (uint32_t p = first; p < first + n && rc == 0; p++) {
        client_walk_partition(&walk, p);
        rc = fetch_partition(&f, &walk, *ret, e);
    }
    pthread_mutex_unlock(&r->driver->lock);
    mem_free(f.keys);
    mem_free(f.values);
    mem_free(f.found);
    if (rc == 0)
        rc = diverged_check_table(*ret, r->reader, e);
    if (rc == TUG_EDATA && dense)
        rc = diverged_dense(m, NULL, e);
    if (rc != 0)
        table_close(*ret);
    return rc;
}

static int count_rows(void *ctx, bool best, uint64_t *ret, struct err *e)
{
    struct run *r = ctx;
    struct msg_table_is s = {0};
    TRY(driver_rows_wait(r->driver,
                         client_stat(r->driver->remote.client,
                                     driver_rows_number(r->driver, false, best), &s, e),
                         e));
    *ret = s.rows;
    return 0;
}

static int may_commit(void *ctx, struct err *e)
{
    return run_may_write(ctx, e);
}

static struct saved_rows driver_rows_saved(struct run *r, bool best)
{
    return (struct saved_rows){.model = &r->parameters.model,
                               .ctx = r,
                               .best = best,
                               .fetch = fetch_part,
                               .count = count_rows,
                               .may_commit = may_commit,
                               .save = r->config->table != NULL ? driver_save_tables
                                                                : NULL};
}

struct sending {
    struct driver *driver;
    uint32_t number, width;
    uint64_t *keys;
    float *values;
    size_t n;
};

static int send_rows(struct sending *s, struct err *e)
{
    struct client_push p = {
        .table = s->number,
        .keys = s->keys,
        .n = s->n,
        .values = s->values,
        .op = WIRE_ROW,
    };
    s->n = 0;
    return p.n > 0 ? driver_rows_wait(s->driver,
                                      client_push(s->driver->remote.client, &p, e), e)
                   : 0;
}

static int send_block(void *ctx, const struct rows_block *b, struct err *e)
{
    struct sending *s = ctx;
    size_t values = s->width * sizeof(float), stride = sizeof(uint64_t) + values;
    const char *row = b->payload;
    if (b->kind != ROWS_ROW)
        return 0;
    if (b->width != s->width)
        return err_set(e, TUG_EDATA,
                       "a server sent rows of %u floats, but a row of the model has %u",
                       b->width, s->width);
    for (uint32_t i = 0; i < b->n; i++, row += stride) {
        memcpy(&s->keys[s->n], row, sizeof(*s->keys));
        memcpy(s->values + s->n * s->width, row + sizeof(uint64_t), values);
        if (++s->n == SEND_ROWS)
            TRY(send_rows(s, e));
    }
    return 0;
}

static int reserve_sending(struct sending *s, struct err *e)
{
    s->keys = mem_array(SEND_ROWS, sizeof(*s->keys));
    s->values = mem_array((size_t)SEND_ROWS * s->width, sizeof(*s->values));
    return s->keys != NULL && s->values != NULL ? 0 : err_nomem(e, "rows of a model");
}

static int send_files(struct sending *s, const struct save_chain *c, const char *table,
                      struct err *e)
{
    const struct save_table *t;
    TRY(save_open_table(c, table, &t, e));
    TRY(reserve_sending(s, e));
    for (size_t i = 0; i < t->n_files; i++)
        TRY(save_each_block(c, t, i, send_block, s, e));
    return send_rows(s, e);
}

static int send_blocks(struct sending *s, const struct parameters *p, struct err *e)
{
    for (size_t i = 0; i < p->model.blocks; i++) {
        s->keys[s->n] = i;
        relaxed_load_n(s->values + s->n * s->width, p->blocks[i], s->width);
        if (++s->n == SEND_ROWS)
            TRY(send_rows(s, e));
    }
    return send_rows(s, e);
}

// Sets the layers' initial values on the servers, in the process that begins the run.
int driver_begin_layers(struct run *r, struct err *e)
{
    const struct model *m = &r->parameters.model;
    struct sending s = {.driver = r->driver,
                        .number = remote_number(true, false),
                        .width = m->dense.width};
    if (!model_has_layers(m))
        return 0;
    int rc = reserve_sending(&s, e);
    if (rc == 0)
        rc = send_blocks(&s, &r->parameters, e);
    mem_free(s.keys);
    mem_free(s.values);
    return rc;
}

static int send_table(struct run *r, const struct save_chain *c, enum saved_role role,
                      bool dense, struct err *e)
{
    const struct model *m = &r->parameters.model;
    struct sending s = {
        .driver = r->driver,
        .number = remote_number(dense, false),
        .width = dense ? m->dense.width : m->accessor.width,
    };
    int rc = send_files(&s, c, saved_table(role, dense), e);
    mem_free(s.keys);
    mem_free(s.values);
    return rc;
}

// Lets the servers load the table from the save.
static int load_table(struct run *r, const struct save_chain *c, bool dense,
                      struct err *e)
{
    struct driver *d = r->driver;
    char there[FILE_PATH_MAX];
    TRY(remote_below(&d->remote, WIRE_ROOT_LOAD, c->paths[0], there, e));
    client_ts ts = client_load(d->remote.client, remote_number(dense, false), there,
                               c->saves[0].checksum, saved_table(SAVED_MODEL, dense),
                               true, NULL, e);
    return driver_rows_wait(d, ts, e);
}

static int load_tables(struct run *r, const char *dir, const struct saved_run *m,
                       enum saved_role role, bool sparse, bool dense, struct err *e)
{
    const bool wanted[] = {sparse, dense};
    struct save_chain c;
    TRY(saved_open(&c, dir, e));
    int rc = 0;
    for (int t = 0; t < 2 && rc == 0; t++)
        if (wanted[t])
            rc = saved_run_has_lifecycle(m) ? load_table(r, &c, t, e)
                                            : send_table(r, &c, role, t, e);
    save_chain_close(&c);
    return rc;
}

static int driver_rows_load(struct run *r, const char *dir, const struct saved_run *m,
                            bool sparse, bool dense, struct err *e)
{
    return load_tables(r, dir, m, SAVED_MODEL, sparse, dense, e);
}

// Loads the save's rows of this role into copies of the tables: the number of a copy is
// the table's number plus `offset`. The rows pass through the model's tables in this
// process, which are emptied afterwards.
static int resume_copy(struct run *r, const char *dir, const struct saved_run *m,
                       enum saved_role role, uint32_t offset, struct err *e)
{
    struct driver *d = r->driver;
    TRY(load_tables(r, dir, m, role, true, true, e));
    TRY(copy_tables(d, 0, offset, e));
    for (int dense = 0; dense < 2; dense++)
        TRY(driver_rows_wait(
            d,
            client_admin(d->remote.client, remote_number(dense, false), WIRE_CLEAR, 0, e),
            e));
    return 0;
}

// Resumes a run whose rows are still on the servers: makes the copies of the best pass
// known.
static int know_best(struct run *r, const char *dir, const struct saved_run *m,
                     struct err *e)
{
    for (int dense = 0; dense < 2 && m->has_best; dense++)
        TRY(know(r->driver, remote_number(dense, true), e));
    return driver_find_position(r->driver, m, dir, e);
}

static int driver_rows_resume(struct run *r, const char *dir, const struct saved_run *m,
                              struct err *e)
{
    const struct train_peer *peer = r->config->cluster->peer;
    if (peer != NULL && peer->begun)
        return 0; // the rows are on the servers already: an earlier run left them there
    if (r->config->cluster->kept != NULL)
        return know_best(r, dir, m, e);
    bool mean = m->at.averaged > 0;
    TRY(driver_find_position(r->driver, m, dir, e));
    if (mean)
        TRY(resume_copy(r, dir, m, m->has_best ? SAVED_MEAN : SAVED_MODEL, EXCHANGE_MEAN,
                        e));
    if (m->has_best)
        TRY(resume_copy(r, dir, m, SAVED_MODEL, EXCHANGE_BEST, e));
    return load_tables(r, dir, m, m->has_best || mean ? SAVED_TRAINING : SAVED_MODEL,
                       true, true, e);
}

static void fill_result(struct run *r, struct train_result *result)
{
    struct driver *d = r->driver;
    struct msg_table_is s = {0};
    result->workers = d->workers;
    result->servers = d->servers;
    client_ts ts = d->opened ? client_stat(d->remote.client, EXCHANGE_SPARSE, &s, NULL)
                             : 0;
    if (ts == 0 || client_wait(d->remote.client, ts, NULL) != 0)
        return;
    result->keys = s.rows;
    const struct accessor *a = &r->model->accessor;
    result->bytes_per_key = table_key_bytes(s.rows, s.bytes, a->width + a->extra_width,
                                            &result->fixed_bytes);
}

static bool describe_table(struct driver *d, uint32_t number, const char *name,
                           struct train_table *ret)
{
    struct msg_table_is s = {0};
    client_ts ts = client_stat(d->remote.client, number, &s, NULL);
    if (ts == 0 || client_wait(d->remote.client, ts, NULL) != 0)
        return false;
    const struct table_spec *spec = client_spec(d->remote.client, number);
    *ret = (struct train_table){.name = name,
                                .rows = s.rows,
                                .bytes = s.bytes,
                                .cold = spec != NULL && spec->config.cold[0] != '\0',
                                .cold_rows = s.cold_rows,
                                .hits = s.hot_hits,
                                .reads = s.promoted,
                                .writes = s.demoted};
    return true;
}

static size_t describe(struct run *r, struct train_table ret[TRAIN_TABLES])
{
    struct driver *d = r->driver;
    if (!r->config->cluster->within ||
        !describe_table(d, EXCHANGE_SPARSE, "sparse", &ret[0]))
        return 0;
    return 1 + describe_table(d, EXCHANGE_DENSE, "dense", &ret[1]);
}

const struct run_rows rows_driver = {
    .whole_passes = true,
    .evaluates = evaluates,
    .reason = reason,
    .swap = driver_rows_swap,
    .keep_best = keep_best,
    .saved = driver_rows_saved,
    .publish = driver_publish_last,
    .load = driver_rows_load,
    .resume = driver_rows_resume,
    .known = known,
    .fill_result = fill_result,
    .describe = describe,
};
