// A worker of a cluster: it opens what it needs, describes its data to the scheduler, and
// works on what the scheduler leases to it until the run is over.
//
// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/plural.h"
#include "cluster/node.h"
#include "os/clock.h"
#include "os/log.h"
#include "train/columns.h"
#include "train/evaluate/guard.h"
#include "train/fields.h"
#include "train/rows/lifecycle.h"
#include "train_cluster/remote.h"
#include "train_cluster/report.h"

static const double lease_pause_seconds = 0.01;

struct metrics_stream *remote_seen(struct remote_worker *w)
{
    struct metrics_stream *all = w->threads[0].stream;
    uint32_t labels = w->model.options.tasks;
    for (int i = 1; i < w->n_threads; i++) {
        for (uint32_t k = 0; k < labels; k++)
            metrics_stream_merge(&all[k], &w->threads[i].stream[k]);
        metrics_streams_clear(w->threads[i].stream, labels);
    }
    return all;
}

int remote_tell_done(struct remote_worker *w, struct msg_piece_done *m, struct err *e)
{
    m->number = client_told(w->remote.client) + 1;
    return client_tell(w->remote.client, MSG_PIECE_DONE, m, e);
}

int remote_report(struct remote_worker *w, struct msg_piece_done *m, struct err *e)
{
    struct buf b = BUF_INIT(WIRE_BYTES_MAX);
    struct metrics_stream *all = remote_seen(w);
    uint32_t labels = w->model.options.tasks;
    // A worker without a driver sends no description, because no node asks for it.
    if (w->config->cluster->peer != NULL) {
        w->reported += m->examples;
        w->at_end = m->at_end;
        return 0;
    }
    uint64_t waited = client_stats(w->remote.client).waited_ns;
    struct report r = {
        .stream = all,
        .labels = labels,
        .read_seconds = w->read_seconds,
        .wait_seconds = w->wait_seconds + (double)(waited - w->waited_ns) * 1e-9,
        .bad_lines = w->bad_lines,
        .data_bytes = w->pending_bytes,
        .keys = &w->keys.seen,
    };
    int rc = report_write(&r, &b) == 0 ? 0 : err_nomem(e, "a report");
    m->report = (struct wire_text){b.data, (uint32_t)b.len};
    if (rc == 0)
        rc = remote_tell_done(w, m, e);
    buf_free(&b);
    metrics_streams_clear(all, labels);
    w->read_seconds = w->wait_seconds = 0;
    w->waited_ns = waited;
    w->bad_lines = 0;
    return rc;
}

// ---------------------------------------------------------------- facts

// In sync mode the worker waits for rows without the client, so those waits are added.
static struct work_now work_now(const struct remote_worker *w)
{
    struct client_stats s = client_stats(w->remote.client);
    bool alone = w->config->cluster->mode == CONFIG_SYNC;
    return (struct work_now){
        .time_ns = clock_ns(),
        .waited_ns = s.waited_ns + (alone ? w->pulled_ns : 0),
        .pulled_ns = w->pulled_ns,
        .resent = s.resent,
        .refused = s.refused,
        .sent_bytes = s.bytes_sent,
        .received_bytes = s.bytes_received,
    };
}

void remote_began(struct remote_worker *w, uint64_t pass, uint32_t file, uint64_t index)
{
    if (w->work == NULL)
        return;
    struct work_now now = work_now(w);
    work_begin(w->work, &now, pass, file, index);
}

void remote_did_batch(struct remote_worker *w, uint64_t examples)
{
    if (w->work == NULL)
        return;
    struct work_now now = work_now(w);
    work_batch(w->work, &now, examples);
}

void remote_did_piece(struct remote_worker *w)
{
    if (w->work == NULL)
        return;
    struct work_now now = work_now(w);
    work_end(w->work, &now);
}

void remote_has_read(struct remote_worker *w, double start)
{
    double seconds = clock_seconds() - start;
    w->read_seconds += seconds;
    work_read(w->work, seconds);
}

// ---------------------------------------------------------------- opening

static int put_files(const struct pieces *p, struct buf *list, struct err *e)
{
    struct piece_file *files = mem_array(pieces_files(p), sizeof(*files));
    int rc = files != NULL ? pieces_describe(p, files, e) : err_nomem(e, "the data");
    for (uint32_t i = 0; i < pieces_files(p) && rc == 0; i++) {
        bool exact;
        uint64_t n = pieces_count(p, i, &exact);
        struct wire_data_file f = {
            .bytes = files[i].bytes,
            .hash = files[i].hash,
            .pieces = exact ? n : UINT64_MAX,
            .compressed = files[i].compressed,
            .name = wire_text(files[i].name),
        };
        if (wire_put_data_file(list, &f) != 0)
            rc = err_set(e, TUG_EUSAGE,
                         "%zu files, such as %s, are too many for one run on a cluster: "
                         "concatenate some of them",
                         pieces_files(p), files[i].name);
    }
    mem_free(files);
    return rc;
}

static int tell_data(struct remote_worker *w, uint64_t piece_bytes, struct err *e)
{
    struct buf list = BUF_INIT(WIRE_BYTES_MAX), schema = BUF_INIT(WIRE_BYTES_MAX);
    const struct pieces *valid = remote_score_pieces(w, false),
                        *test = remote_score_pieces(w, true);
    int rc = put_files(w->pieces, &list, e);
    if (rc == 0 && valid != NULL)
        rc = put_files(valid, &list, e);
    if (rc == 0 && test != NULL)
        rc = put_files(test, &list, e);
    if (rc == 0 && schema_write(reader_schema(w->reader), &schema) != 0)
        rc = err_nomem(e, "the schema of the data");
    if (rc == 0) {
        struct msg_data m = {
            .piece_bytes = piece_bytes,
            .files = {list.data, (uint32_t)list.len},
            .schema = {schema.data, (uint32_t)schema.len},
            .buckets = w->dealt != NULL ? deal_rows_buckets(w->dealt) : 0,
            .valid = valid != NULL ? (uint32_t)pieces_files(valid) : 0,
            .test = test != NULL ? (uint32_t)pieces_files(test) : 0,
        };
        rc = client_ask(w->remote.client, MSG_DATA, &m, NULL, NULL, e);
    }
    buf_free(&list);
    buf_free(&schema);
    return rc;
}

static uint64_t text_bytes(const struct remote_worker *w, struct err *e, int *rc)
{
    struct source_options o = {.paths = w->config->data.items,
                               .n_paths = w->config->data.n,
                               .command = w->config->data.command};
    struct source *s;
    *rc = source_open(&s, &o, e);
    if (*rc != 0)
        return 0;
    uint64_t bytes = source_text_bytes(s);
    guard_repeated(source_data_files(s), 0, source_files(s), "--data");
    source_close(s);
    return bytes;
}

static int open_shuffle(struct remote_worker *w, uint64_t bytes, struct err *e)
{
    const struct train_cluster *k = w->config->cluster;
    struct deal_rows_options o = {.client = w->remote.client,
                                  .pieces = w->pieces,
                                  .deal = {.buckets = deal_buckets(w->pieces, bytes),
                                           .seed = w->config->model.seed,
                                           .reader = w->reader,
                                           .by = k->shuffle_by,
                                           .option = "--shuffle-by"}};
    return k->shuffle ? deal_rows_open(&w->dealt, &o, e) : 0;
}

static int open_data(struct remote_worker *w, struct err *e)
{
    const struct train_config *c = w->config;
    int rc;
    if (c->data.n == 0) // the workers have files of their own, and this worker has none
        return 0;
    uint64_t bytes = text_bytes(w, e, &rc);
    TRY(rc);
    struct pieces_options o = {
        .paths = c->data.items,
        .n_paths = c->data.n,
        .command = c->data.command,
        .piece_bytes = remote_piece_bytes(bytes),
        .interrupted = c->interrupted,
    };
    TRY(pieces_open(&w->pieces, &o, e));
    TRY(dataset_decide_schema(w->reader, w->pieces, e));
    w->may_hold = c->data_in == DATA_IN_STREAM   ? 0
                  : c->data_in == DATA_IN_MEMORY ? UINT64_MAX
                                                 : mem_available() / 4 / w->lanes;
    if (c->cluster->peer != NULL)
        return 0;
    TRY(open_shuffle(w, bytes, e));
    TRY(remote_score_open(w, e));
    return tell_data(w, o.piece_bytes, e);
}

// Gets from the driver how the data is to be read.
static int learn_schema(struct remote_worker *w, struct err *e)
{
    struct remote_data *data = mem_zalloc(sizeof(*data));
    if (data == NULL)
        return err_nomem(e, "the schema of the data");
    int rc = remote_data_told(&w->remote, data, e);
    if (rc == 0)
        rc = remote_agree(&w->remote, w->config, e);
    if (rc == 0 && data->has_schema) {
        w->schema = mem_alloc(sizeof(*w->schema));
        if (w->schema == NULL)
            rc = err_nomem(e, "the schema of the data");
        else
            *w->schema = data->schema;
    }
    mem_free(data);
    w->own.reader.schema = w->schema;
    return rc;
}

// Opens the reader. The data is read like the data of the saved model with which the
// run begins; without such a model, as another worker reads it, or else by the
// options and the first file.
static int open_reader(struct remote_worker *w, struct err *e)
{
    if (w->config->cluster->peer == NULL)
        TRY(learn_schema(w, e));
    TRY(columns_check_drop(&w->own, &w->own.reader.drop_elsewhere, e));
    TRY(reader_open(&w->reader, &w->own.reader, e));
    columns_complete(&w->own, w->reader);
    return 0;
}

static int open_model(struct remote_worker *w, struct err *e)
{
    const struct train_config *c = w->config;
    struct model_options m = c->model;
    TRY(open_reader(w, e));
    TRY(fields_count(w->team, &c->data, &c->reader, w->reader, c->interrupted, &m, e));
    TRY(fields_numbers(reader_schema(w->reader), &m, e));
    TRY(fields_dims(reader_schema(w->reader), c->dims, &m, e));
    m.tasks = schema_labels(reader_schema(w->reader));
    TRY(model_init(&w->model, &m, e));
    TRY(remote_tables(&w->remote, c, &w->model, e));
    // The model on rows in the form in which the servers have them.
    struct model rows = w->model;
    if (c->table != NULL)
        TRY(lifecycle_model(&client_spec(w->remote.client, EXCHANGE_SPARSE)->config,
                            &w->model, &rows, e));
    if (c->cluster->geo > 0)
        TRY(exchange_local_open(&w->local, &rows, c->cluster->elastic > 0, e));
    for (size_t i = 0; i < REMOTE_SLOTS; i++) {
        TRY(exchange_open(&w->slots[i], &rows, remote_steps(c), w->remote.client,
                          &w->keys, e));
        w->slots[i].local = c->cluster->geo > 0 ? &w->local : NULL;
    }
    return remote_threads_open(w, e);
}

// Stores a new division of batches, which the worker applies between
// batches and during waits.
static void on_view(void *ctx, const struct msg_view *m)
{
    struct remote_worker *w = ctx;
    if (m->view > w->view.view && remote_check_view(m, NULL) == 0)
        w->view = *m;
}

int remote_worker_open(struct remote_worker *w, struct err *e)
{
    const struct train_config *c = w->config;
    TRY(remote_reserve_order(w, c->batch, e));
    TRY(team_open(&w->team, w->lanes > 1 ? 1 : c->threads, e));
    TRY(exchange_keys_open(&w->keys, e));
    struct remote_options o = {.role = WIRE_WORKER,
                               .loop = w->lane,
                               .loops = w->lanes,
                               .view = on_view,
                               .ctx = w};
    TRY(remote_open(&w->remote, c, &o, e));
    work_joined(w->work, member_rank(client_member(w->remote.client)));
    TRY(open_model(w, e));
    return open_data(w, e);
}

void remote_worker_close(struct remote_worker *w)
{
    if (w->remote.client != NULL)
        remote_count_left_out(w);
    for (size_t i = 0; i < REMOTE_SLOTS; i++)
        exchange_close(&w->slots[i]);
    exchange_local_close(&w->local);
    for (size_t i = 0; i < w->n_held; i++)
        dataset_close(w->held[i].data);
    mem_free(w->held);
    dataset_close(w->all);
    deal_rows_close(w->dealt);
    remote_score_close(w);
    pieces_close(w->pieces);
    remote_threads_close(w);
    exchange_keys_close(&w->keys);
    reader_close(w->reader);
    mem_free(w->schema);
    team_close(w->team);
    mem_free(w->order);
    if (w->config->cluster->peer == NULL)
        remote_close(&w->remote);
    else
        remote_give_back(&w->remote);
}

static void keep_lease(void *ctx, const union wire_any *m)
{
    *(struct msg_leased *)ctx = m->leased;
}

// Marks a save at the servers. All pushes for pieces that were reported as done have
// been acknowledged before.
static int mark(struct remote_worker *w, const struct msg_leased *l, struct err *e)
{
    client_ts ts = client_mark(w->remote.client, l->save, l->saver, e);
    if (ts == 0)
        return e->code;
    TRY(client_wait(w->remote.client, ts, e));
    w->marked = l->save;
    return 0;
}

// Checks a lease against this worker's files, because the identities of pushes, and
// clocks, are computed from the numbers in the lease.
static int check_lease(const struct remote_worker *w, const struct msg_leased *l,
                       struct err *e)
{
    struct msg_view view = {l->pass, l->view, l->slot, l->slots};
    bool works = l->what == WIRE_LEASE_PIECE || l->what == WIRE_LEASE_SHARE;
    if (works && (l->pass == 0 || l->pass > UINT32_MAX || l->first > UINT32_MAX))
        return err_set(e, TUG_EDATA,
                       "the scheduler leases batch %llu of pass %llu, which are not "
                       "numbers of a batch and a pass",
                       (unsigned long long)l->first, (unsigned long long)l->pass);
    bool bucket = w->dealt != NULL && l->file == pieces_files(w->pieces) &&
                  l->index < deal_rows_buckets(w->dealt);
    if (l->what == WIRE_LEASE_PIECE && !bucket &&
        (l->file >= pieces_files(w->pieces) || l->index >> REMOTE_INDEX_BITS != 0))
        return err_set(e, TUG_EDATA,
                       "the scheduler leases piece %llu of file %u, but this worker has "
                       "only %zu file%s, or files with fewer pieces",
                       (unsigned long long)l->index, l->file, pieces_files(w->pieces),
                       PLURAL_S(pieces_files(w->pieces)));
    bool scores = l->what == WIRE_LEASE_SCORE || l->what == WIRE_LEASE_SCORE_BEST;
    if (scores && (!remote_score_has(w, l->file) || l->index >> REMOTE_INDEX_BITS != 0))
        return err_set(e, TUG_EDATA,
                       "the scheduler leases piece %llu of file %u, which is not one of "
                       "--valid or --test",
                       (unsigned long long)l->index, l->file);
    return l->what == WIRE_LEASE_SHARE ? remote_check_view(&view, e) : 0;
}

static int remote_worker_work(struct remote_worker *w, struct err *e)
{
    struct msg_leased l = {0};
    TRY(remote_pieces_pause(w, e));
    for (;;) {
        struct msg_lease ask = {.pass = w->pass, .finished = 0, .marked = w->marked};
        if (l.what == WIRE_LEASE_SHARE) {
            ask.finished = l.pass;
            // The division by which the share was computed; a newer one may have arrived
            // since.
            ask.view = w->share.view;
        }
        ask.reports = client_told(w->remote.client);
        TRY(client_ask(w->remote.client, MSG_LEASE, &ask, keep_lease, &l, e));
        TRY(check_lease(w, &l, e));
        switch (l.what) {
        case WIRE_LEASE_PIECE:
            TRY(remote_train_piece(w, &l, e));
            break;
        case WIRE_LEASE_SHARE:
            TRY(remote_train_share(w, &l, e));
            break;
        case WIRE_LEASE_SCORE:
        case WIRE_LEASE_SCORE_BEST:
            // Else other workers would wait for this worker's clock.
            TRY(remote_pieces_pause(w, e));
            TRY(remote_score_piece(w, &l, e));
            break;
        case WIRE_LEASE_MARK:
            TRY(mark(w, &l, e));
            break;
        case WIRE_LEASE_OVER:
            return 0;
        default:
            TRY(remote_pieces_pause(w, e));
            TRY(remote_pause(&w->remote, lease_pause_seconds, e));
        }
    }
}

// Lanes are threads of a worker's process. Each is a node of its own, with its own
// batches.

struct lane {
    const struct train_config *config;
    uint16_t number, of;
    struct work_lane *work;
    pthread_t thread;
    bool started;
    struct err end;
};

static void *run_lane(void *arg)
{
    struct lane *l = arg;
    struct remote_worker *w = mem_aligned(64, sizeof(*w));
    if (w == NULL) {
        err_nomem(&l->end, "the worker");
        return NULL;
    }
    memset(w, 0, sizeof(*w));
    w->own = *l->config;
    w->config = &w->own;
    w->work = l->work;
    w->lane = l->number;
    w->lanes = l->of;
    int rc = remote_worker_open(w, &l->end);
    if (rc == 0)
        rc = remote_worker_work(w, &l->end);
    // Other nodes wait for this worker, so it leaves even after an error.
    if (w->remote.client != NULL)
        (void)client_leave(w->remote.client, rc != 0 ? &l->end : NULL, NULL);
    remote_worker_close(w);
    mem_free(w);
    if (rc == 0)
        l->end.code = 0;
    return NULL;
}

// Returns the error for which the worker ends: the first that is not TUG_EIO, if there is
// one, because a lane that only learns of the end of another lane returns TUG_EIO.
static int reason(const struct lane *lanes, uint32_t n, struct err *e)
{
    const struct err *why = NULL;
    for (uint32_t i = 0; i < n; i++)
        if (lanes[i].end.code != 0 && (why == NULL || why->code == TUG_EIO))
            why = &lanes[i].end;
    if (why == NULL)
        return 0;
    *e = *why;
    return e->code;
}

uint32_t remote_worker_lanes(const struct train_config *c)
{
    // In sync mode each worker has all examples in memory, so a process has only one
    // lane.
    bool one = c->cluster->mode == CONFIG_SYNC || c->cluster->together || c->threads < 1;
    return one ? 1 : (uint32_t)c->threads;
}

int remote_worker_run(const struct train_config *c, struct work_facts *facts,
                      struct err *e)
{
    uint32_t n = remote_worker_lanes(c);
    struct lane *lanes = mem_zalloc(n * sizeof(*lanes));
    if (lanes == NULL)
        return err_nomem(e, "the worker");
    guard_layers(&c->model);
    int rc = node_heartbeat(c->cluster->node, NULL, e);
    for (uint32_t i = 0; i < n && rc == 0; i++) {
        lanes[i] = (struct lane){.config = c,
                                 .number = (uint16_t)i,
                                 .of = (uint16_t)n,
                                 .work = work_facts_lane(facts, i)};
        if (i == 0)
            continue; // the first lane runs in this thread
        lanes[i].started = pthread_create(&lanes[i].thread, NULL, run_lane, &lanes[i]) ==
                           0;
        if (!lanes[i].started)
            rc = err_set(e, TUG_EIO, "cannot start thread %u of the worker", i);
    }
    if (rc == 0)
        run_lane(&lanes[0]);
    for (uint32_t i = 1; i < n; i++)
        if (lanes[i].started)
            pthread_join(lanes[i].thread, NULL);
    if (rc == 0)
        rc = reason(lanes, n, e);
    mem_free(lanes);
    return rc;
}
