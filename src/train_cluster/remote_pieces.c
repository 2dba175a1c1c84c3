// A worker's passes by pieces (all modes but sync): batches of a piece are pulled ahead,
// computed, and pushed without waiting for each other. In geo mode a stretch of batches
// is pulled and pushed at a time; it ends with its piece.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "os/clock.h"
#include "train/fields.h"
#include "train_cluster/even.h"
#include "train_cluster/remote.h"

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

static int remote_pieces_load(struct remote_worker *w, const struct msg_leased *l,
                              struct dataset **ret, struct err *e)
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
    int rc = w->dealt != NULL
                 ? deal_rows_load(w->dealt, (uint32_t)l->index, &o, ret, e)
                 : dataset_load_piece(ret, &o, w->pieces, l->file, l->index, e);
    remote_has_read(w, start);
    if (rc == 0)
        rc = fields_check(*ret, NULL, w->pieces, &w->model.options, &w->keys.seen, e);
    return rc;
}

static int hold(struct remote_worker *w, const struct msg_leased *l, struct dataset *d)
{
    TRY(mem_room(&w->held, &w->cap_held, w->n_held + 1));
    w->held[w->n_held++] = (struct held_piece){l->file, l->index, d};
    w->pending_bytes += dataset_bytes(d);
    return 0;
}

// Gets the examples of a piece. If *ret_own is set, the piece is not kept, and the caller
// must close it. The ids of keys are dropped when no piece is kept.
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
    TRY(remote_pieces_load(w, l, ret, e));
    *ret_own = w->pending_bytes + dataset_bytes(*ret) > w->may_hold ||
               hold(w, l, *ret) != 0;
    return 0;
}

struct batches {
    const struct msg_leased *lease;
    const struct dataset *data;
    struct order order;
    struct order_block hand;
    uint64_t batches; // the number of batches in the piece
    uint64_t n, each; // `each` batches are pulled and pushed together, so the piece has n
                      // such groups
    uint64_t most;    // most examples in a group
    uint64_t window;  // the number of groups that may be pulled and not acknowledged yet
    uint64_t finished; // the number of groups that are acknowledged
    float rate;
    uint64_t first_clock; // ssp: the clock of the piece's first batch
    uint64_t ticked; // in ssp mode, for layers: number of batches whose clock was sent
};

// Returns the window: how many groups of batches may be pulled and not acknowledged yet.
// A staleness of s lets a batch be pulled before the previous s batches are pushed.
static uint64_t window_of(const struct train_cluster *k)
{
    uint64_t most = k->in_flight > 0 && k->in_flight < REMOTE_SLOTS ? k->in_flight
                                                                    : REMOTE_SLOTS;
    return k->mode == CONFIG_SSP && k->staleness < most - 1 ? k->staleness + 1 : most;
}

// Returns the slot of batch b. For any window, batches are computed one after the
// other: batch b with the changes of batch b - 1, while batch b + 1 is being pulled.
static struct exchange *slot_of(struct remote_worker *w, uint64_t b)
{
    return &w->slots[b % REMOTE_SLOTS];
}

// Returns whether pulls of this table wait for other workers.
static bool keeps_clock(const struct train_cluster *k, uint32_t table)
{
    return k->mode == CONFIG_SSP || (table == EXCHANGE_DENSE && k->dense_bounded);
}

static int tick(struct remote_worker *w, uint64_t clock, struct err *e)
{
    for (uint32_t table = 0; table < 2; table++) {
        if (!keeps_clock(w->config->cluster, table))
            continue;
        client_ts ts = client_tick(w->remote.client, table, clock, e);
        if (ts == 0)
            return e->code;
        TRY(client_wait(w->remote.client, ts, e));
    }
    return 0;
}

// Waits until the pushes of batch b are acknowledged.
static int finish_batch(struct remote_worker *w, struct batches *s, uint64_t b,
                        struct err *e)
{
    TRY(exchange_pushed(slot_of(w, b), e));
    s->finished = b + 1;
    return w->config->cluster->mode == CONFIG_SSP ? tick(w, s->first_clock + b + 1, e)
                                                  : 0;
}

// Sends the clock of batches up to `batches`. If only layers have a bounded delay, the
// clock of a batch is sent once the layers' gradients are applied, even if those of
// the rows are not yet.
static int pass_clock(struct remote_worker *w, struct batches *s, uint64_t batches,
                      struct err *e)
{
    const struct train_cluster *k = w->config->cluster;
    for (; k->dense_bounded && s->ticked < batches; s->ticked++) {
        TRY(exchange_dense_pushed(slot_of(w, s->ticked), e));
        TRY(tick(w, s->first_clock + s->ticked + 1, e));
    }
    return 0;
}

// Returns the fraction of a change that is pushed. In geo mode the rows become the
// average over the workers that are in the cluster when the rows are pulled and have work
// to do. In elastic mode this fraction is also multiplied by `elastic`.
static float fraction_of(const struct remote_worker *w, const struct msg_leased *l)
{
    const struct roster *r = member_roster(client_member(w->remote.client));
    uint64_t workers = 0,
             left = l->pieces > l->pieces_done ? l->pieces - l->pieces_done : 1;
    const struct train_cluster *k = w->config->cluster;
    if (k->geo == 0)
        return 1;
    for (uint32_t i = 0; i < r->n_nodes; i++)
        workers += r->nodes[i].role == WIRE_WORKER && r->nodes[i].alive;
    if (l->pieces != 0 && left < workers)
        workers = left; // the other workers have no pieces left to train on
    return (k->elastic > 0 ? k->elastic : 1) / (float)(workers > 0 ? workers : 1);
}

// Returns the position in the pass's order at which batch b, or stretch b, begins. Layers
// are updated by the mean of a batch, so all batches of a piece must have about the same
// size.
static uint64_t begin_of(const struct remote_worker *w, const struct batches *s,
                         uint64_t b)
{
    uint64_t n = order_positions(&s->order),
             at = b * s->each < s->batches ? b * s->each : s->batches;
    if (model_has_layers(&w->model))
        return even_begin(n, s->batches, at);
    return at < s->batches ? at * w->config->batch : n;
}

static int begin_batch(struct remote_worker *w, struct batches *s, uint64_t b,
                       struct err *e)
{
    struct exchange *x = slot_of(w, b);
    if (b >= s->window)
        TRY(finish_batch(w, s, b - s->window, e));
    uint64_t first = begin_of(w, s, b);
    size_t n = order_take(&s->order, &s->hand, first, begin_of(w, s, b + 1) - first,
                          w->order);
    struct exchange *before = b > 0 && s->window > 1 ? slot_of(w, b - 1) : NULL;
    x->fraction = fraction_of(w, s->lease);
    TRY(exchange_take(x, s->data, w->order, n, before, e));
    if (view_draw(&x->view, &w->model, s->lease->pass << 32 ^ piece_id(s->lease),
                  w->order, n) != 0)
        return err_nomem(e, "a batch");
    return exchange_pull(x, s->first_clock + b, e);
}

static int compute_batch(struct remote_worker *w, struct batches *s, uint64_t b,
                         struct err *e)
{
    struct exchange *x = slot_of(w, b);
    // All batches up to b - window are acknowledged, so the clock need not be later than
    // that.
    uint64_t may_miss = w->config->cluster->dense_staleness;
    may_miss = may_miss < s->window ? may_miss : s->window - 1;
    TRY(pass_clock(w, s, b > may_miss ? b - may_miss : 0, e));
    struct exchange_push p = {
        .rate = s->rate,
        .pass = (float)s->lease->pass,
        .id_pass = w->config->cluster->peer == NULL ? s->lease->pass : 0,
        .id_piece = piece_id(s->lease),
        .id_group = (uint32_t)b,
        .id_low = (uint32_t)s->finished,
        .examples = x->view.batch.n,
        // as in one process, layers are updated by the mean
        .dense_scale = !x->steps && model_has_layers(&x->model) && x->view.batch.n > 0
                           ? 1 / (float)x->view.batch.n
                           : 0,
    };
    // From here on, the client waits for rows.
    uint64_t waited = client_stats(w->remote.client).waited_ns;
    int rc = remote_compute(w, x, &p, e);
    if (rc != 0)
        return remote_diverged(w, x, s->data, s->lease->pass, rc, e);
    // The next batch's rows should not include this batch's changes. But servers let a
    // pull that is ahead of other workers wait, and answer it with the rows at the end of
    // the wait. So the pushes are sent only after that answer.
    if (x->steps && s->window > 1 && b + 1 < s->n &&
        w->config->cluster->mode == CONFIG_SSP)
        TRY(exchange_pulled(slot_of(w, b + 1), e));
    w->pulled_ns += client_stats(w->remote.client).waited_ns - waited;
    rc = exchange_push(x, &p, e);
    if (rc != 0)
        return remote_diverged(w, x, s->data, s->lease->pass, rc, e);
    remote_did_batch(w, p.examples);
    return w->batch_done != NULL ? w->batch_done(w->ctx, e) : 0;
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
    return pass_clock(w, s, s->n, e);
}

// Begins a pass in mode ssp. Each pass has its own clocks. A worker that begins late
// starts with the clock of the slowest worker, so that the other workers do not wait
// until it has caught up.
static int begin_pass(struct remote_worker *w, uint64_t pass, struct err *e)
{
    const struct train_cluster *k = w->config->cluster;
    struct msg_table_is now;
    if (w->pass == pass)
        return 0;
    w->pass = pass;
    w->paused = false;
    w->clock = pass << 32;
    if (!keeps_clock(k, EXCHANGE_DENSE))
        return 0;
    client_ts ts = client_stat(
        w->remote.client,
        keeps_clock(k, EXCHANGE_SPARSE) ? EXCHANGE_SPARSE : EXCHANGE_DENSE, &now, e);
    if (ts == 0)
        return e->code;
    TRY(client_wait(w->remote.client, ts, e));
    if (now.clock > w->clock && now.clock != UINT64_MAX)
        w->clock = now.clock;
    return tick(w, w->clock, e);
}

int remote_pieces_pause(struct remote_worker *w, struct err *e)
{
    if (w->paused || !keeps_clock(w->config->cluster, EXCHANGE_DENSE))
        return 0;
    w->paused = true;
    w->pass = 0;
    return tick(w, UINT64_MAX, e);
}

// Divides the piece into batches; in geo mode a stretch of batches is pulled and pushed
// at a time.
static void remote_pieces_cut(struct batches *s, const struct train_config *c)
{
    s->batches = even_parts(order_positions(&s->order), c->batch);
    s->each = c->cluster->geo > 0 ? c->cluster->geo : 1;
    s->n = even_parts(s->batches, s->each);
    s->most = s->each < s->batches ? s->each * c->batch : order_positions(&s->order);
}

static double passes_done(const struct msg_leased *l)
{
    double done = l->pieces > 0 ? (double)l->pieces_done / (double)l->pieces : 0;
    return (double)(l->pass - 1) + (done < 1 ? done : 1);
}

static int deal_piece_of(struct remote_worker *w, const struct msg_leased *l,
                         struct err *e)
{
    struct msg_piece_done m = {
        .what = l->what, .pass = l->pass, .file = l->file, .index = l->index};
    bool at_end;
    double start = clock_seconds();
    TRY(deal_rows_put(w->dealt, l->file, l->index, &at_end, e));
    m.at_end = at_end;
    remote_has_read(w, start);
    return remote_report(w, &m, e);
}

int remote_train_piece(struct remote_worker *w, const struct msg_leased *l, struct err *e)
{
    if (w->dealt != NULL && l->file < pieces_files(w->pieces))
        return deal_piece_of(w, l, e);
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
        remote_pieces_cut(&s, w->config);
        rc = remote_reserve_order(w, s.most, e);
        remote_began(w, l->pass, l->file, l->index);
        if (rc == 0)
            rc = train_batches(w, &s, e);
        remote_did_piece(w);
        if (rc != 0)
            rc = remote_name_key(w, d, rc, e);
        remote_tell_left_out(w, d);
        w->clock += s.n;
        if (rc == 0 && w->config->table != NULL)
            rc = remote_step(&w->remote, s.n, e);
    }
    if (rc == 0)
        rc = remote_report(w,
                           &(struct msg_piece_done){
                               .what = l->what,
                               .pass = l->pass,
                               .file = l->file,
                               .index = l->index,
                               .at_end = dataset_at_end(d),
                               .held = !own,
                               .examples = dataset_size(d),
                           },
                           e);
    if (d != NULL && own)
        dataset_close(d);
    return rc;
}
