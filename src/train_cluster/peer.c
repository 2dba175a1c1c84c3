// Peers: workers without a driver (peer.h), as the course of a run. A peer is a worker
// that makes its own leases; for saves and tests it has access to rows as a driver has.
//
// SPDX-License-Identifier: Apache-2.0
#include "train_cluster/peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "data/frame/rows.h"
#include "os/clock.h"
#include "os/log.h"
#include "train/checkpoint.h"
#include "train/progress.h"
#include "train_cluster/driver_internal.h"
#include "train_cluster/peer_agree.h"
#include "train_cluster/peer_seen.h"

static bool is_first(const struct driver *d)
{
    return member_rank(client_member(d->remote.client)) == 0;
}

static int peer_describe(struct run *r, struct err *e)
{
    const struct pieces *p = r->driver->worker->pieces;
    size_t n = p != NULL ? pieces_files(p) : 0;
    struct piece_file *files = mem_array(n + 1, sizeof(*files));
    if (files == NULL)
        return err_nomem(e, "the data");
    int rc = n > 0 ? pieces_describe(p, files, e) : 0;
    for (size_t i = 0; i < n && rc == 0; i++)
        identity_add(r->data_identity,
                     &(struct identity_file){.name = files[i].name,
                                             .name_len = strlen(files[i].name),
                                             .bytes = files[i].bytes,
                                             .hash = files[i].hash});
    for (size_t i = 0; i < n; i++) {
        const struct rows *rows = pieces_rows(p, (uint32_t)i);
        uint64_t columns = rows != NULL ? rows_matrix_columns(rows) : 0;
        r->columns = columns > r->columns ? columns : r->columns;
    }
    mem_free(files);
    return rc;
}

static int open_worker(struct run *r, struct err *e)
{
    struct driver *d = r->driver;
    struct remote_worker *w = mem_aligned(64, sizeof(*w));
    if (w == NULL)
        return err_nomem(e, "the worker");
    memset(w, 0, sizeof(*w));
    w->own = *r->config;
    w->config = &w->own;
    w->lanes = 1;
    d->worker = w;
    return remote_worker_open(w, e);
}

// Clears the rows on the servers: another model of the same program may have left some.
static int clear_rows(struct driver *d, struct err *e)
{
    for (uint32_t table = 0; table < 2; table++) {
        client_ts ts = client_admin(d->remote.client, table, WIRE_CLEAR, 0, e);
        if (ts == 0)
            return e->code;
        TRY(client_wait(d->remote.client, ts, e));
    }
    return 0;
}

static int open_peer(struct run *r, struct err *e)
{
    struct driver *d = mem_zalloc(sizeof(*d));
    if (d == NULL)
        return err_nomem(e, "the worker");
    r->driver = d;
    d->run = r;
    d->labels = r->model->options.tasks;
    pthread_mutex_init(&d->lock, NULL);
    d->cut.done = d->resumed.done = BUF_INIT(WIRE_BYTES_MAX);
    TRY(open_worker(r, e));
    d->remote = d->worker->remote;
    if ((d->stream = metrics_streams(d->labels)) == NULL)
        return err_nomem(e, "the metrics of a pass");
    const struct roster *roster = member_roster(client_member(d->remote.client));
    d->workers = roster->workers;
    d->servers = roster->servers;
    d->opened = true;
    TRY(peer_describe(r, e));
    r->own.reader.schema = reader_schema(d->worker->reader);
    TRY(run_open_reader(r, e));
    if (!is_first(d) || r->config->cluster->peer->begun)
        return 0;
    TRY(clear_rows(d, e));
    return driver_begin_layers(r, e);
}

// Returns the number of the current or last pass of this call, from 1.
static uint32_t pass_of(const struct run *r)
{
    return (uint32_t)(r->at.epoch - r->driver->first_epoch) + 1;
}

// Returns the number of the pass among all passes of these workers, counted over all
// calls.
static uint64_t pass_of_all(const struct run *r)
{
    return (uint64_t)r->config->cluster->peer->passes + pass_of(r);
}

// Begins the run: waits until all rows exist and all workers have come.
static int peer_begin(struct run *r, struct err *e)
{
    r->driver->first_epoch = r->at.epoch;
    TRY(remote_pieces_pause(r->driver->worker, e));
    return peer_agree(r, 0, e);
}

static void close_peer(struct run *r)
{
    struct driver *d = r->driver;
    if (d == NULL)
        return;
    if (d->worker != NULL)
        remote_worker_close(d->worker);
    mem_free(d->worker);
    mem_free(d->stream);
    buf_free(&d->cut.done);
    buf_free(&d->resumed.done);
    pthread_mutex_destroy(&d->lock);
    mem_free(d);
    r->driver = NULL;
}

// Ends the run with a barrier, so that no worker continues while the first worker still
// saves. A worker that fails does not reach this barrier; the other workers see the
// failure when it leaves.
static void over(struct run *r, const struct err *why)
{
    struct err ignored;
    if (why->code == 0 && r->driver != NULL)
        (void)peer_meet(r, &ignored);
}

static struct metrics_stream *streams(struct run *r)
{
    return remote_seen(r->driver->worker);
}

static const struct metrics_stream *seen_by_all(struct run *r)
{
    return r->driver->stream;
}

static void clear_streams(struct run *r)
{
    metrics_streams_clear(streams(r), r->driver->labels);
}

static int batch_done(void *ctx, struct err *e)
{
    struct driver *d = ctx;
    struct run *r = d->run;
    struct metrics m[LABELS_MAX];
    if (run_interrupted(r))
        return err_set(e, TUG_EINTERRUPTED, "interrupted");
    (void)progress_at(r->progress, r->at.batches);
    r->at.batches++;
    if (!progress_at(r->progress, r->at.batches))
        return 0;
    const struct metrics_stream *seen = streams(r);
    for (uint32_t k = 0; k < d->labels; k++)
        m[k] = metrics_stream_result(&seen[k], r->config->reader.loss);
    progress_line(r->progress, r->at.epoch, -1, r->at.batches, m, NULL);
    return 0;
}

struct place {
    uint64_t key, index;
};

static int by_key(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    return (x->key > y->key) - (x->key < y->key);
}

// Returns whether the piece with this number belongs to this worker. If all n workers
// were given the same files, every n-th piece belongs to this worker.
static bool piece_is_mine(const struct run *r, uint64_t number)
{
    const struct driver *d = r->driver;
    return r->config->cluster->peer->own_files || d->workers == 0 ||
           number % d->workers == member_rank(client_member(d->remote.client));
}

static int train_piece(struct run *r, struct msg_leased *l, uint64_t index, struct err *e)
{
    l->index = index;
    TRY(remote_train_piece(r->driver->worker, l, e));
    numbering_join(&r->fields, numbering_range(&r->driver->worker->keys.seen));
    l->pieces_done++;
    return 0;
}

// Trains on a file whose number of pieces is known, in the seeded order of the pass.
static int train_known(struct run *r, struct msg_leased *l, uint64_t n, struct err *e)
{
    struct place *order = mem_array(n + 1, sizeof(*order));
    size_t mine = 0;
    int rc = 0;
    if (order == NULL)
        return err_nomem(e, "the pieces of a file");
    for (uint64_t i = 0; i < n; i++)
        if (piece_is_mine(r, i + l->file))
            order[mine++] = (struct place){
                random_u64(r->config->model.seed, l->pass << 20 ^ l->file, i), i};
    qsort(order, mine, sizeof(*order), by_key);
    for (size_t i = 0; i < mine && rc == 0; i++)
        rc = train_piece(r, l, order[i].index, e);
    mem_free(order);
    return rc;
}

// Trains on a compressed file or a command's output, which is read from beginning to end.
static int train_stream(struct run *r, struct msg_leased *l, struct err *e)
{
    struct remote_worker *w = r->driver->worker;
    w->at_end = false;
    for (uint64_t i = 0; !w->at_end; i++)
        if (piece_is_mine(r, i + l->file))
            TRY(train_piece(r, l, i, e));
    return 0;
}

static int train_pieces(struct run *r, uint64_t pass, struct err *e)
{
    const struct pieces *p = r->driver->worker->pieces;
    size_t files = p != NULL ? pieces_files(p) : 0;
    struct msg_leased l = {.what = WIRE_LEASE_PIECE, .pass = pass};
    for (uint32_t i = 0; i < files; i++) {
        bool exact;
        uint64_t n = pieces_count(p, i, &exact);
        l.file = i;
        TRY(exact ? train_known(r, &l, n, e) : train_stream(r, &l, e));
    }
    return 0;
}

// Logs which workers lag in a batch, as the servers report them.
static void tell_of_shares(struct driver *d, double began)
{
    const struct run *r = d->run;
    const struct roster *roster = member_roster(client_member(d->remote.client));
    uint32_t own = member_rank(client_member(d->remote.client));
    char names[ERR_TEXT_MAX / 2] = "", name[ROSTER_NAME_MAX];
    double seconds;
    if (d->waiting.began != began)
        d->waiting = (struct waiting){began, began + r->config->cluster->peer->patience};
    if (!waiting_is_due(&d->waiting, &seconds))
        return;
    for (uint32_t i = 0; i < roster->n_nodes; i++) {
        const struct roster_node *n = &roster->nodes[i];
        size_t at = strlen(names);
        if (n->role == WIRE_WORKER && n->alive && n->rank != own)
            snprintf(names + at, sizeof(names) - at, "%s%s", at > 0 ? ", " : "",
                     roster_name(n, name));
    }
    log_warn(
        "waiting for %s for %.0f s already: a batch of pass %u lacks shares of other "
        "workers, which are alive, but slow",
        names, seconds, pass_of(r));
}

// Checks that all workers still take part. A batch that lacks the share of a dead worker
// never becomes complete, because the replacement of the worker does not know about the
// batch. If a worker has left because another one died, the error names both.
static int all_share(void *ctx, double began, struct err *e)
{
    struct driver *d = ctx;
    const struct roster *roster = member_roster(client_member(d->remote.client));
    uint32_t gone[SYNC_MICROS];
    size_t n = 0;
    for (uint32_t rank = 0; rank < d->workers; rank++)
        if (d->sharing[rank] == 0 || roster_session_over(roster, d->sharing[rank]))
            gone[n++] = rank;
    if (n > 0)
        return peer_agree_gone(d->remote.client, gone, n, pass_of(d->run), e);
    tell_of_shares(d, began);
    return 0;
}

// Trains on this worker's share of the batches of a pass. Every pass has clocks of its
// own, which the first worker sets.
static int train_share(struct run *r, uint64_t pass, struct err *e)
{
    struct driver *d = r->driver;
    struct msg_leased l = {
        .what = WIRE_LEASE_SHARE,
        .pass = pass,
        .view = pass,
        .slot = member_rank(client_member(d->remote.client)),
        .slots = d->workers,
    };
    struct msg_view view = {l.pass, l.view, l.slot, l.slots};
    TRY(remote_check_view(&view, e));
    if (is_first(d))
        TRY(driver_set_clock(d, pass << 32, e));
    TRY(peer_meet(r, e));
    for (uint32_t rank = 0; rank < d->workers; rank++)
        d->sharing[rank] = peer_agree_session(d->remote.client, rank);
    return remote_train_share(d->worker, &l, e);
}

static int check_bad_lines(const struct run *r, uint64_t n, struct err *e)
{
    if (n <= r->config->max_bad_lines)
        return 0;
    return err_set(e, TUG_EDATA,
                   "%llu lines of --data cannot be read, and --max-bad-lines allows %llu",
                   (unsigned long long)n, (unsigned long long)r->config->max_bad_lines);
}

// Ends a pass: checks that all workers have done their parts, and adds up their results.
// A pass that lacks a dead worker's part fails.
static int end_together(struct run *r, struct train_result *result, struct err *e)
{
    struct driver *d = r->driver;
    struct peer_seen own = {.labels = d->labels,
                            .stream = streams(r),
                            .examples = d->worker->reported,
                            .bad_lines = d->worker->bad_lines};
    struct peer_seen all = {.labels = d->labels, .stream = d->stream};
    TRY(peer_agree(r, pass_of(r), e));
    TRY(peer_seen_add(r, &own, r->config->cluster->mode == CONFIG_SYNC, &all, e));
    result->examples = all.examples;
    if (all.bad_lines > r->bad_lines)
        r->bad_lines = all.bad_lines;
    return check_bad_lines(r, all.bad_lines, e);
}

static int train_pass(struct run *r, struct train_result *result, struct err *e)
{
    struct remote_worker *w = r->driver->worker;
    const struct train_config *c = r->config;
    uint64_t pass = pass_of_all(r);
    TRY(peer_meet(r, e)); // the first worker may still save the rows of the previous pass
    double start = clock_seconds();
    w->bad_lines = w->reported = 0;
    w->read_seconds = w->wait_seconds = 0;
    w->waited_ns = client_stats(w->remote.client).waited_ns;
    w->batch_done = batch_done;
    w->waits = all_share;
    w->ctx = r->driver;
    TRY(c->cluster->mode == CONFIG_SYNC ? train_share(r, pass, e)
                                        : train_pieces(r, pass, e));
    TRY(remote_pieces_pause(w, e));
    double seconds = clock_seconds() - start, read = w->read_seconds;
    uint64_t waited = client_stats(w->remote.client).waited_ns - w->waited_ns;
    result->read_seconds += read < seconds ? read : seconds;
    result->train_seconds += read < seconds ? seconds - read : 0;
    result->wait_seconds += w->wait_seconds + (double)waited * 1e-9;
    result->data_bytes = w->pending_bytes;
    TRY(check_bad_lines(r, w->bad_lines, e));
    checkpoint_compare_numbering(r);
    return end_together(r, result, e);
}

const struct course course_peer = {
    .rows = &rows_driver,
    .open = open_peer,
    .begin = peer_begin,
    .over = over,
    .close = close_peer,
    .pass = train_pass,
    .streams = streams,
    .seen_by_all = seen_by_all,
    .clear_streams = clear_streams,
};
