// A worker's passes by shares (sync): it computes the micro-batches of its share
// of every batch, and the servers go on to the next batch when they have all
// sixteen micro-batches.
//
// When workers die the batches are divided anew. A worker whose share of the awaited
// batch has grown then computes the rest of it. The bits are the same, whichever worker
// computes them and however often.
//
// SPDX-License-Identifier: Apache-2.0
#include "os/clock.h"
#include "train/evaluate/evaluate.h"
#include "train/fields.h"
#include "train/rows/micro.h"
#include "train_cluster/remote.h"

static const uint64_t look_ns = 50000000; // interval at which a wait checks for a new
                                          // division

static int load_all(struct remote_worker *w, struct err *e)
{
    const struct train_config *c = w->config;
    struct source_options so = {.paths = c->data.items,
                                .n_paths = c->data.n,
                                .command = c->data.command,
                                .interrupted = c->interrupted};
    struct source *s;
    if (w->all != NULL)
        return 0;
    TRY(source_open(&s, &so, e));
    struct dataset_options o = {
        .source = s,
        .reader = w->reader,
        .team = w->team,
        .resolve = exchange_keys_resolve,
        .resolve_ctx = &w->keys,
        .max_bad_lines = c->max_bad_lines,
        .bad_lines = &w->bad_lines,
    };
    double start = clock_seconds();
    int rc = dataset_load(&w->all, &o, e);
    remote_has_read(w, start);
    if (rc == 0)
        rc = fields_check(w->all, s, NULL, &w->model.options, &w->keys.seen, e);
    if (rc == 0)
        w->pending_bytes = dataset_bytes(w->all);
    source_close(s);
    return rc;
}

static uint64_t clock_of(const struct share *s, uint64_t batch)
{
    return s->pass << 32 | batch;
}

int remote_check_view(const struct msg_view *v, struct err *e)
{
    if (v->slots != 0 && v->slot < v->slots && v->slots <= SYNC_MICROS)
        return 0;
    return err_set(e, TUG_EUSAGE,
                   "a synchronous batch has %d parts, so more than %d workers cannot "
                   "share it; use --mode ssp:S or async",
                   SYNC_MICROS, SYNC_MICROS);
}

// Returns the micro-batches of a worker's share, as bits.
static uint32_t micros_of(const struct msg_view *v)
{
    uint32_t first = SYNC_MICROS * v->slot / v->slots,
             end = SYNC_MICROS * (v->slot + 1) / v->slots;
    return (1u << end) - (1u << first);
}

// Gets the largest aligned range of wanted micro-batches that begins with the first
// wanted one.
static void next_run(uint32_t wanted, uint32_t *ret_first, uint32_t *ret_n)
{
    uint32_t first = (uint32_t)__builtin_ctz(wanted), n = 1;
    while (2 * n <= SYNC_MICROS && first % (2 * n) == 0) {
        uint32_t twice = ((1u << 2 * n) - 1) << first;
        if ((wanted & twice) != twice)
            break;
        n *= 2;
    }
    *ret_first = first;
    *ret_n = n;
}

// Picks the examples of micro-batch m of batch b, except those held out.
static size_t pick(struct share *s, uint64_t b, uint32_t m, uint64_t *ret)
{
    const struct train_config *c = s->worker->config;
    struct micro part = micro_of(b, c->batch, m);
    size_t n = order_take(&s->order, &s->hand, part.first, part.end - part.first, ret),
           kept = 0;
    for (size_t i = 0; i < n; i++)
        if (!held_out_has(c->valid_part, c->model.seed, ret[i]))
            ret[kept++] = ret[i];
    return kept;
}

static bool requests_over(struct exchange *x, int *ret_rc, struct err *e)
{
    for (size_t i = 0; i <= x->n_parts; i++) {
        if (x->pulls[i] == 0)
            continue;
        if (!client_done(x->client, x->pulls[i], ret_rc, e))
            return false;
        x->pulls[i] = 0;
        if (*ret_rc != 0 && i > 0)
            exchange_part_failed(*ret_rc, e);
        if (*ret_rc != 0)
            return true;
    }
    return true;
}

static int redo(struct share *s, struct err *e);

// Waits for the rows of batch b. They arrive when all servers have applied the previous
// batch. If a worker dies meanwhile, this worker may have to compute more of that batch.
static int wait_for_rows(struct share *s, struct exchange *x, uint64_t b, struct err *e)
{
    struct remote_worker *w = s->worker;
    int rc = 0;
    double begin = clock_seconds();
    while (!requests_over(x, &rc, e)) {
        if (w->view.view != s->view && b > s->last)
            TRY(redo(s, e));
        if (w->waits != NULL)
            TRY(w->waits(w->ctx, begin, e));
        TRY(van_poll(w->remote.van, van_now(w->remote.van) + look_ns, e));
    }
    double waited = clock_seconds() - begin;
    w->wait_seconds += waited;
    w->pulled_ns += (uint64_t)(waited * 1e9);
    return rc;
}

static int gradients(struct share *s, struct exchange *x, uint32_t first, uint32_t n,
                     const size_t *ends, struct err *e)
{
    struct remote_worker *w = s->worker;
    struct model_batch b = view_batch(&x->view), part;
    size_t i = 0;
    exchange_begin(x, first, n);
    for (uint32_t m = 0; m < n; m++)
        for (; i < ends[m]; i += part.n) {
            size_t left = ends[m] - i, most = remote_at_once(w);
            part = model_part(&b, i, left < most ? left : most);
            float *dense = exchange_dense_micro(x, (uint8_t)(first + m));
            int rc = dense != NULL ? remote_gradients(w, w->threads, x, &part, dense)
                                   : TUG_ENOMEM;
            if (rc == 0)
                rc = exchange_add_micro(x, (uint8_t)(first + m), i, part.n,
                                        w->threads->work.gradients);
            TRY(remote_failed(w, rc, s->pass, e));
        }
    exchange_sum(x);
    return 0;
}

// Computes and pushes micro-batches [first, first + n) of batch b.
static int push_run(struct share *s, struct exchange *x, uint64_t b, uint32_t first,
                    uint32_t n, struct err *e)
{
    struct remote_worker *w = s->worker;
    const struct train_config *c = w->config;
    size_t ends[SYNC_MICROS], examples = 0;
    TRY(exchange_pushed(x, e));
    for (uint32_t m = 0; m < n; m++) {
        examples += pick(s, b, first + m, w->order + examples);
        ends[m] = examples;
    }
    TRY(exchange_take(x, w->all, w->order, examples, NULL, e));
    if (view_draw(&x->view, &w->model, s->pass - 1, w->order, examples) != 0)
        return err_nomem(e, "a batch");
    TRY(exchange_pull(x, clock_of(s, b), e));
    int rc = wait_for_rows(s, x, b, e);
    if (rc == 0)
        rc = gradients(s, x, first, n, ends, e);
    if (rc != 0)
        return remote_diverged(w, x, w->all, s->pass, rc, e);
    double at = schedule_passes((uint32_t)s->pass - 1, b, s->batches, c->batch,
                                dataset_size(w->all));
    struct exchange_push p = {
        .rate = (float)schedule_factor(&c->schedule, at),
        .pass = (float)s->pass,
        .clock = clock_of(s, b),
        .micro = (uint8_t)first,
        .micros = (uint8_t)n,
        .examples = examples,
    };
    rc = exchange_push(x, &p, e);
    if (rc != 0)
        return remote_diverged(w, x, w->all, s->pass, rc, e);
    remote_did_batch(w, examples);
    return 0;
}

// Pushes those micro-batches of this worker's share of batch b that are not in *done
// yet. A new division may arrive whenever the van is polled, so the share is read
// again after each push.
static int push_share(struct share *s, struct exchange *x, uint64_t b, uint32_t *done,
                      struct err *e)
{
    uint32_t missing, first, n;
    while ((missing = micros_of(&s->worker->view) & ~*done) != 0) {
        next_run(missing, &first, &n);
        TRY(push_run(s, x, b, first, n, e));
        *done |= ((1u << n) - 1) << first;
    }
    s->view = s->worker->view.view;
    return 0;
}

// After a new division of batches, computes the part of the last batch that this worker
// has to do in addition.
static int redo(struct share *s, struct err *e)
{
    return s->begun
               ? push_share(s, &s->worker->slots[REMOTE_SLOTS - 1], s->last, &s->done, e)
               : 0;
}

static int train_batches(struct share *s, struct err *e)
{
    struct remote_worker *w = s->worker;
    for (uint64_t b = s->first; b < s->batches; b++) {
        uint32_t done = 0;
        TRY(push_share(s, &w->slots[b % (REMOTE_SLOTS - 1)], b, &done, e));
        s->begun = true;
        s->last = b;
        s->done = done;
        if (w->batch_done != NULL)
            TRY(w->batch_done(w->ctx, e));
    }
    return 0;
}

static int begin_pass(struct remote_worker *w, const struct msg_leased *l, struct err *e)
{
    TRY(load_all(w, e));
    w->share = (struct share){
        .worker = w,
        .pass = l->pass,
        .first = l->first,
        .order = order_make(dataset_size(w->all), w->config->model.seed,
                            (l->pass - 1) << 32),
    };
    w->share.batches = (order_positions(&w->share.order) + w->config->batch - 1) /
                       w->config->batch;
    return 0;
}

int remote_train_share(struct remote_worker *w, const struct msg_leased *l, struct err *e)
{
    // The worker has finished this pass, and the scheduler has divided batches anew
    // since.
    bool again = w->share.pass == l->pass;
    if (l->view >= w->view.view)
        w->view = (struct msg_view){l->pass, l->view, l->slot, l->slots};
    if (!again)
        TRY(begin_pass(w, l, e));
    remote_began(w, l->pass, UINT32_MAX, 0);
    int rc = again ? redo(&w->share, e) : train_batches(&w->share, e);
    for (size_t i = 0; i < REMOTE_SLOTS && rc == 0; i++)
        rc = exchange_pushed(&w->slots[i], e);
    remote_did_piece(w);
    if (rc != 0)
        return remote_name_key(w, w->all, rc, e);
    remote_tell_left_out(w, w->all);
    struct msg_piece_done done = {
        .what = l->what,
        .pass = l->pass,
        .index = w->share.reports++,
        .examples = dataset_size(w->all), // the examples of the whole pass, which all
                                          // workers report
    };
    return remote_report(w, &done, e);
}
