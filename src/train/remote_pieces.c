// A worker's passes by pieces (async, ssp): batches of a piece are pulled ahead, computed
// and pushed without waiting for each other.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "train/fields.h"
#include "train/remote.h"

enum {
    POLL_EVERY = 256, // examples, so that answers do not wait in the system
    BIAS_EVERY = 32,
};

static uint64_t piece_id(const struct msg_leased *l)
{
    return (uint64_t)l->file << REMOTE_INDEX_BITS | l->index;
}

static struct held_piece *find_held(struct remote_worker *w, const struct msg_leased *l)
{
    for (size_t i = 0; i < w->n_held; i++)
        if (w->held[i].file == l->file && w->held[i].index == l->index)
            return &w->held[i];
    return NULL;
}

static int load(struct remote_worker *w, const struct msg_leased *l, struct dataset **ret,
                struct err *e)
{
    struct dataset_options o = {
        .reader = w->reader,
        .team = w->team,
        .resolve = exchange_keys_resolve,
        .resolve_ctx = &w->keys,
        .max_bad_lines = w->config->max_bad_lines,
        .bad_lines = &w->bad_lines,
    };
    double start = clock_seconds();
    int rc = dataset_load_piece(ret, &o, w->pieces, l->file, l->index, e);
    w->read_seconds += clock_seconds() - start;
    if (rc == 0)
        rc = fields_check(*ret, NULL, w->pieces, &w->model.options, e);
    return rc;
}

static int hold(struct remote_worker *w, const struct msg_leased *l, struct dataset *d)
{
    if (w->n_held == w->cap_held) {
        size_t cap = w->cap_held * 2 + 16;
        struct held_piece *held = mem_realloc_array(w->held, cap, sizeof(*held));
        if (held == NULL)
            return TUG_ENOMEM;
        w->held = held;
        w->cap_held = cap;
    }
    w->held[w->n_held++] = (struct held_piece){l->file, l->index, d};
    w->pending_bytes += dataset_bytes(d);
    return 0;
}

// The examples of a piece; `*ret_own`: they are not kept, the caller closes them. Ids of
// pieces that are not kept need not be either.
static int take_piece(struct remote_worker *w, const struct msg_leased *l,
                      struct dataset **ret, bool *ret_own, struct err *e)
{
    struct held_piece *held = find_held(w, l);
    *ret_own = false;
    *ret = held != NULL ? held->data : NULL;
    if (held != NULL)
        return 0;
    if (w->n_held == 0) {
        exchange_keys_close(&w->keys);
        TRY(exchange_keys_open(&w->keys, e));
    }
    TRY(load(w, l, ret, e));
    *ret_own = w->pending_bytes + dataset_bytes(*ret) > w->may_hold ||
               hold(w, l, *ret) != 0;
    return 0;
}

struct batches {
    const struct msg_leased *lease;
    const struct dataset *data;
    struct order order;
    struct order_block hand;
    uint64_t n;
    uint64_t window; // batches that are pulled and not acknowledged yet
    float rate;
    uint64_t first_clock; // ssp: of batch 0
};

// With staleness s a batch may be pulled before the s batches before it are pushed.
static uint64_t window_of(const struct train_cluster *k)
{
    return k->mode == CONFIG_SSP && k->staleness < REMOTE_SLOTS - 1 ? k->staleness + 1
                                                                    : REMOTE_SLOTS;
}

// All of them in turn, whatever the window: when batch b is computed it needs what batch
// b - 1 has changed, and batch b + 1 is on its way.
static struct exchange *slot_of(struct remote_worker *w, uint64_t b)
{
    return &w->slots[b % REMOTE_SLOTS];
}

static int tick(struct remote_worker *w, uint64_t clock, struct err *e)
{
    for (uint32_t table = 0; table < 2; table++) {
        client_ts ts = client_tick(w->remote.client, table, clock, e);
        if (ts == 0)
            return e->code;
        TRY(client_wait(w->remote.client, ts, e));
    }
    return 0;
}

// Waits until batch b's pushes are acknowledged.
static int finish_batch(struct remote_worker *w, const struct batches *s, uint64_t b,
                        struct err *e)
{
    TRY(exchange_pushed(slot_of(w, b), e));
    return w->config->cluster->mode == CONFIG_SSP ? tick(w, s->first_clock + b + 1, e)
                                                  : 0;
}

static int begin_batch(struct remote_worker *w, struct batches *s, uint64_t b,
                       struct err *e)
{
    struct exchange *x = slot_of(w, b);
    uint64_t size = w->config->batch;
    if (b >= s->window)
        TRY(finish_batch(w, s, b - s->window, e));
    size_t n = order_take(&s->order, &s->hand, b * size, size, w->order);
    struct exchange *before = b > 0 && s->window > 1 ? slot_of(w, b - 1) : NULL;
    TRY(exchange_take(x, s->data, w->order, n, before, e));
    if (view_draw(&x->view, &w->model, s->lease->pass << 32 ^ piece_id(s->lease),
                  w->order, n) != 0)
        return err_nomem(e, "a batch");
    return exchange_pull(x, s->first_clock + b, e);
}

// Between two parts of a batch. `before` examples were done, now `done` are.
static int poll_sometimes(struct remote_worker *w, size_t before, size_t done,
                          struct err *e)
{
    return before / POLL_EVERY != done / POLL_EVERY ? client_poll(w->remote.client, e)
                                                    : 0;
}

static int take_gradients(struct remote_worker *w, struct batches *s, struct exchange *x,
                          struct err *e)
{
    struct model_batch b = view_batch(&x->view), part;
    exchange_clear(x);
    for (size_t i = 0; i < b.n; i += part.n) {
        float err[MODEL_AT_ONCE_MAX];
        part = model_part(&b, i, remote_at_once(w));
        TRY(remote_failed(remote_gradients(w, x, &part, err, x->dense_gradient),
                          s->lease->pass, e));
        exchange_add(x, i, part.n, w->work.gradients);
        TRY(poll_sometimes(w, i, i + part.n, e));
    }
    // As in one process, layers are updated by the mean.
    if (model_has_layers(&x->model) && b.n > 0)
        x->model.kernels->scale(x->dense_gradient, 1 / (float)b.n, x->dense_gradient,
                                x->dense_floats);
    return 0;
}

// The bias, which every example touches, steps once for a few of them, as in one process.
static int take_steps(struct remote_worker *w, struct batches *s, struct exchange *x,
                      struct err *e)
{
    struct model_batch b = view_batch(&x->view), part;
    exchange_catch_up(x);
    for (size_t i = 0; i < b.n; i += part.n) {
        struct model_training t = {
            .loss = w->config->reader.loss,
            .dense_gradient = w->dense.gradient,
            .rules = w->rules,
            .pass = (float)s->lease->pass,
            .stream = &w->stream,
        };
        part = model_part(&b, i, BIAS_EVERY);
        dense_read(&x->model, x->blocks, w->dense.values);
        w->work.dense = w->dense.values;
        TRY(remote_failed(model_step(&w->work, &part, &t), s->lease->pass, e));
        dense_step(&w->dense, &x->model, w->dense_rule, x->blocks, 1);
        TRY(poll_sometimes(w, i, i + part.n, e));
    }
    exchange_finish(x);
    return 0;
}

static int compute_batch(struct remote_worker *w, struct batches *s, uint64_t b,
                         struct err *e)
{
    struct exchange *x = slot_of(w, b);
    TRY(exchange_pulled(x, e));
    TRY(x->steps ? take_steps(w, s, x, e) : take_gradients(w, s, x, e));
    // The next batch's rows are to come without what this one changed, but servers hold
    // a pull that is ahead of others, and answer it by what is there then.
    if (x->steps && s->window > 1 && b + 1 < s->n &&
        w->config->cluster->mode == CONFIG_SSP)
        TRY(exchange_pulled(slot_of(w, b + 1), e));
    struct exchange_push p = {
        .rate = s->rate,
        .pass = (float)s->lease->pass,
        .id_pass = s->lease->pass,
        .id_piece = piece_id(s->lease),
        .id_group = (uint32_t)b,
        .examples = x->view.batch.n,
    };
    return exchange_push(x, &p, e);
}

static int train_batches(struct remote_worker *w, struct batches *s, struct err *e)
{
    if (s->window == 1)
        for (uint64_t b = 0; b < s->n; b++) {
            TRY(begin_batch(w, s, b, e));
            TRY(compute_batch(w, s, b, e));
        }
    else
        for (uint64_t b = 0; b <= s->n; b++) {
            if (b < s->n)
                TRY(begin_batch(w, s, b, e));
            if (b > 0)
                TRY(compute_batch(w, s, b - 1, e));
        }
    for (uint64_t b = s->n > s->window ? s->n - s->window : 0; b < s->n; b++)
        TRY(finish_batch(w, s, b, e));
    return 0;
}

// ssp: a pass has its own clocks; a worker that begins later than others takes part from
// the slowest of them on, and does not make them wait until it has done as much.
static int begin_pass(struct remote_worker *w, uint64_t pass, struct err *e)
{
    struct msg_table_is now;
    if (w->pass == pass)
        return 0;
    w->pass = pass;
    w->paused = false;
    w->clock = pass << 32;
    if (w->config->cluster->mode != CONFIG_SSP)
        return 0;
    client_ts ts = client_stat(w->remote.client, EXCHANGE_SPARSE, &now, e);
    if (ts == 0)
        return e->code;
    TRY(client_wait(w->remote.client, ts, e));
    if (now.clock > w->clock && now.clock != UINT64_MAX)
        w->clock = now.clock;
    return tick(w, w->clock, e);
}

int remote_pieces_pause(struct remote_worker *w, struct err *e)
{
    if (w->paused || w->config->cluster->mode != CONFIG_SSP)
        return 0;
    w->paused = true;
    w->pass = 0;
    return tick(w, UINT64_MAX, e);
}

static double passes_done(const struct msg_leased *l)
{
    double share = l->pieces > 0 ? (double)l->pieces_done / (double)l->pieces : 0;
    return (double)(l->pass - 1) + (share < 1 ? share : 1);
}

int remote_train_piece(struct remote_worker *w, const struct msg_leased *l, struct err *e)
{
    struct dataset *d = NULL;
    bool own;
    int rc = take_piece(w, l, &d, &own, e);
    if (rc == 0)
        rc = begin_pass(w, l->pass, e);
    if (rc == 0) {
        struct batches s = {
            .lease = l,
            .data = d,
            .order = order_make(dataset_size(d), w->config->model.seed,
                                l->pass << 32 ^ mix64(piece_id(l))),
            .window = window_of(w->config->cluster),
            .rate = (float)schedule_factor(&w->config->schedule, passes_done(l)),
            .first_clock = w->clock,
        };
        accessor_rules(&w->model.accessor, s.rate, w->rules);
        accessor_rules(&w->model.dense, s.rate, w->dense_rule);
        s.n = (order_positions(&s.order) + w->config->batch - 1) / w->config->batch;
        rc = train_batches(w, &s, e);
        w->clock += s.n;
        if (rc == 0 && w->config->table != NULL)
            rc = remote_step(&w->remote, s.n, e);
    }
    if (rc == 0)
        rc = remote_report(w,
                           &(struct msg_piece_done){
                               .pass = l->pass,
                               .file = l->file,
                               .index = l->index,
                               .at_end = dataset_at_end(d),
                               .examples = dataset_size(d),
                           },
                           e);
    if (d != NULL && own)
        dataset_close(d);
    return rc;
}
