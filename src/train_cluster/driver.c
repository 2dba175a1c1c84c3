// The driver: it runs the passes of workers from the scheduler's process. driver_rows.c
// has the rows.
//
// SPDX-License-Identifier: Apache-2.0
#include "train_cluster/driver_internal.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/plural.h"
#include "os/below.h"
#include "os/clock.h"
#include "os/log.h"
#include "train/checkpoint.h"
#include "train/look.h"
#include "train/progress.h"
#include "train/report_data.h"
#include "train/saved/run_options.h"
#include "train_cluster/report.h"

// The state of a pass is checked soon after its beginning, then less often.
static const double look_first_seconds = 0.002, look_seconds = 0.05;

// Tells the scheduler how to read the data: as described in the save with which the run
// begins, or, without a save, as the workers find out. Also sends the run's options,
// without those from the save; workers must have the same options.
static int tell_schema(struct run *r, struct err *e)
{
    struct buf b = BUF_INIT(WIRE_BYTES_MAX);
    struct train_config given = *r->config;
    given.reader = r->given;
    const struct schema *s = r->config->reader.schema;
    int rc = s == NULL || schema_write(s, &b) == 0 ? 0 : err_nomem(e, "a schema");
    char *options = NULL;
    if (rc == 0)
        rc = run_options_print(&given, &options, e);
    struct msg_schema m = {.schema = {b.data, (uint32_t)b.len},
                           .options = wire_text(options != NULL ? options : "")};
    if (rc == 0)
        rc = client_ask(r->driver->remote.client, MSG_SCHEMA, &m, NULL, NULL, e);
    buf_free(&b);
    mem_free(options);
    return rc;
}

// Gets the description of the data from the scheduler, because this process need not be
// able to read the data.
static int learn_data(struct run *r, struct err *e)
{
    struct driver *d = r->driver;
    d->data = mem_zalloc(sizeof(*d->data));
    if (d->data == NULL)
        return err_nomem(e, "the data");
    TRY(remote_data_known(&d->remote, r->config->interrupted, d->data, e));
    *r->data_identity = d->data->files;
    r->own.reader.schema = &d->data->schema;
    return run_open_reader(r, e);
}

// Asks the servers for their path of --out, so that an error shows before the first save.
static int ask_below(struct run *r, struct err *e)
{
    struct driver *d = r->driver;
    if (r->config->table == NULL || r->config->out == NULL)
        return 0;
    TRY(below_absolute(r->config->out, d->out, e));
    return remote_below(&d->remote, WIRE_ROOT_SAVE, d->out, d->out_below, e);
}

static int open_driver(struct run *r, struct err *e)
{
    struct driver *d = mem_zalloc(sizeof(*d));
    if (d == NULL)
        return err_nomem(e, "the driver");
    r->driver = d;
    d->published.lock = -1;
    pthread_mutex_init(&d->lock, NULL);
    d->labels = r->model->options.tasks;
    d->stream = metrics_streams(d->labels);
    if (d->stream == NULL)
        return err_nomem(e, "the driver");
    struct remote_options o = {.role = WIRE_DRIVER, .loops = 1};
    TRY(remote_open(&d->remote, r->config, &o, e));
    const struct roster *roster = member_roster(client_member(d->remote.client));
    d->workers = roster->workers;
    d->servers = roster->servers;
    d->cut.done = d->resumed.done = BUF_INIT(WIRE_BYTES_MAX);
    d->ahead = DRIVER_AHEAD;
    d->opened = true;
    // From this call on, signals are checked only at places where the run can end in
    // order.
    client_set_interrupt(d->remote.client, NULL);
    TRY(tell_schema(r, e));
    TRY(remote_tables(&d->remote, r->config, &r->parameters.model, e));
    if (checkpoint_kept(r->config) == NULL)
        TRY(driver_begin_layers(r, e));
    TRY(ask_below(r, e));
    TRY(driver_publish_open(r, e));
    TRY(learn_data(r, e));
    return look_open(&r->look, r, e);
}

static void over(struct run *r, const struct err *why)
{
    struct driver *d = r->driver;
    if (d == NULL || !d->opened)
        return;
    struct msg_run_over m = {
        .code = why->code, .reason = (uint16_t)why->reason, .why = wire_text(why->text)};
    (void)client_ask(d->remote.client, MSG_RUN_OVER, &m, NULL, NULL, NULL);
    (void)client_leave(d->remote.client, why, NULL);
}

static void close_driver(struct run *r)
{
    struct driver *d = r->driver;
    if (d == NULL)
        return;
    look_close(r->look);
    r->look = NULL;
    remote_close(&d->remote);
    file_unlock_dir(d->published.lock);
    buf_free(&d->cut.done);
    buf_free(&d->resumed.done);
    pthread_mutex_destroy(&d->lock);
    mem_free(d->data);
    mem_free(d->stream);
    mem_free(d);
    r->driver = NULL;
}

static struct metrics_stream *streams(struct run *r)
{
    return r->driver->stream;
}

static void clear_streams(struct run *r)
{
    metrics_streams_clear(r->driver->stream, r->model->options.tasks);
}

struct state {
    struct driver *driver;
    struct msg_pass_state pass;
    int rc; // the result of reading the reports
};

// Called for a report that is a total, because a total replaces all earlier reports.
static void clear_counts(struct driver *d)
{
    d->read_seconds = d->wait_seconds = 0;
    d->bad_lines = 0;
}

static void take_state(void *ctx, const union wire_any *m)
{
    struct state *s = ctx;
    struct driver *d = s->driver;
    s->pass = m->pass_state;
    const char *bytes = s->pass.report.data;
    size_t n = s->pass.report.n;
    struct report r = {.stream = d->stream, .labels = d->labels, .keys = &d->known};
    int rc;
    while ((rc = report_next(&bytes, &n, &r)) == 1) {
        if (r.total)
            clear_counts(d);
        d->read_seconds += r.read_seconds;
        d->wait_seconds += r.wait_seconds;
        if (!d->all_read_all)
            d->bad_lines += r.bad_lines;
        else if (r.most_bad_lines > d->bad_lines)
            d->bad_lines = r.most_bad_lines;
        d->data_bytes = r.data_bytes > d->data_bytes ? r.data_bytes : d->data_bytes;
    }
    s->rc = rc;
    s->pass.report = (struct wire_text){0};
    d->cut.data = s->pass.data;
}

static int damaged(struct err *e)
{
    return err_set(e, TUG_EINTERNAL, "the report of a worker is damaged");
}

static int driver_look(struct driver *d, uint64_t pass, struct state *s, struct err *e)
{
    struct msg_pass_wanted m = {.pass = pass};
    *s = (struct state){.driver = d};
    TRY(client_ask(d->remote.client, MSG_PASS_WANTED, &m, take_state, s, e));
    return s->rc == 0 ? 0 : damaged(e);
}

int driver_is_over(struct driver *d, uint64_t pass, bool *ret, uint64_t *ret_clock,
                   struct err *e)
{
    struct state s;
    struct msg_table_is now;
    TRY(driver_look(d, pass, &s, e));
    client_ts ts = client_stat(d->remote.client, EXCHANGE_SPARSE, &now, e);
    if (ts == 0)
        return e->code;
    TRY(client_wait(d->remote.client, ts, e));
    *ret = s.pass.done;
    *ret_clock = now.clock;
    return 0;
}

// Sets the servers' clock. Every pass has clocks of its own, which do not depend on the
// number of batches in earlier passes.
int driver_set_clock(struct driver *d, uint64_t clock, struct err *e)
{
    for (uint32_t table = 0; table < 2; table++) {
        client_ts ts = client_clock(d->remote.client, table, clock, e);
        if (ts == 0)
            return e->code;
        TRY(client_wait(d->remote.client, ts, e));
    }
    return 0;
}

static int open_pass(struct run *r, uint64_t pass, const struct train_result *result,
                     struct err *e)
{
    struct driver *d = r->driver;
    bool sync = r->config->cluster->mode == CONFIG_SYNC;
    const struct driver_position *from = &d->resumed;
    static const struct driver_position begin;
    if (from->pass != pass)
        from = &begin;
    uint64_t resumed = sync ? from->first : from->examples / r->config->batch;
    // Saves of older versions may have a smaller count of batches than the pass had.
    d->batches_before = r->at.batches > resumed ? r->at.batches - resumed : 0;
    if (!d->began)
        d->saved_batches = d->batches_before + resumed;
    d->began = true;
    // If this driver goes on with an open pass, the clock must not be set back to
    // the pass's first batch.
    if (sync && d->goes_on == 0)
        TRY(driver_set_clock(d, pass << 32 | from->first, e));
    struct buf note = BUF_INIT(WIRE_BYTES_MAX);
    int rc = d->goes_on == 0 ? driver_note(r, pass, result, &note, e) : 0;
    struct msg_pass m = {
        .pass = pass,
        .kind = sync ? WIRE_PASS_SHARES : WIRE_PASS_PIECES,
        .seed = r->config->model.seed,
        .first = from->first,
        .examples = from->examples,
        .done = {from->done.data, (uint32_t)from->done.len},
        .data = from->data,
        .backups = r->config->cluster->backups,
        .note = {note.data, (uint32_t)note.len},
    };
    // If the pass was open already, the answer has the reports so far.
    struct state s = {.driver = d};
    if (rc == 0)
        rc = client_ask(d->remote.client, MSG_PASS, &m, take_state, &s, e);
    if (rc == 0 && s.rc != 0)
        rc = damaged(e);
    // Ends a save that a killed driver may have left unfinished.
    if (rc == 0 && d->goes_on != 0)
        rc = client_ask(d->remote.client, MSG_CUT, &(struct msg_cut){0}, NULL, NULL, e);
    buf_free(&note);
    return rc;
}

static double share_of(const struct msg_pass_state *p)
{
    return p->pieces > 0 ? (double)p->pieces_done / (double)p->pieces : -1;
}

// Gets the progress of a pass by shares from the servers' clock, because workers report
// only at the end of such a pass.
static int look_at_clock(struct run *r, uint64_t pass, uint64_t *ret_examples,
                         double *ret_share, struct err *e)
{
    struct driver *d = r->driver;
    struct msg_table_is now;
    if (r->config->cluster->mode != CONFIG_SYNC)
        return 0;
    client_ts ts = client_stat(d->remote.client, EXCHANGE_SPARSE, &now, e);
    if (ts == 0)
        return e->code;
    TRY(client_wait(d->remote.client, ts, e));
    uint64_t batches = now.clock >> 32 == pass ? (uint32_t)now.clock : 0;
    *ret_examples = batches * r->config->batch;
    *ret_share = d->examples > 0 ? (double)*ret_examples / (double)d->examples : -1;
    *ret_share = *ret_share < 1 ? *ret_share : 1;
    return 0;
}

// Returns the number of batches in a pass over `examples` examples in one process.
static uint64_t batches_of(const struct run *r, uint64_t examples)
{
    uint64_t runs = (examples + ORDER_RUN - 1) / ORDER_RUN;
    return (runs * ORDER_RUN + r->config->batch - 1) / r->config->batch;
}

static void look_at_shuffle(struct driver *d, const struct msg_pass_state *p)
{
    if (p->dealing && d->shuffle_begun == 0)
        d->shuffle_begun = clock_seconds();
    if (p->dealing || d->shuffle_begun == 0)
        return;
    log_info(
        "--shuffle global: all examples were redistributed into %llu piece%s in %.2f s",
        (unsigned long long)p->pieces, PLURAL_S(p->pieces),
        clock_seconds() - d->shuffle_begun);
    d->shuffle_begun = 0;
}

// Pulls the dense parameters and rows that --fetch or --dump names, as they are on the
// servers now.
static int ask_rows(struct run *r, struct err *e)
{
    uint64_t keys[LOOK_MAX_NAMES];
    uint32_t ids[LOOK_MAX_NAMES];
    struct evaluation_options o = {0};
    size_t n = look_keys(r->look, keys);
    r->driver->looks_into = true;
    int rc = r->rows->evaluates(r, false, &o, e);
    r->driver->looks_into = false;
    TRY(rc);
    rc = n > 0 ? o.resolve(o.resolve_ctx, keys, n, ids) : 0;
    if (rc != 0)
        err_nomem(e, "looking into the model");
    return r->rows->reason(r, rc, e);
}

// Writes --fetch and --dump after `batches` batches, if they are due. Examples of a piece
// are reported when the piece is done.
static int look_into(struct run *r, uint64_t batches, struct err *e)
{
    struct driver *d = r->driver;
    uint64_t looks = r->look != NULL ? batches / r->config->fetch_batches : 0;
    if (looks <= d->looks)
        return 0;
    d->looks = looks;
    r->at.batches = batches;
    struct metrics seen = metrics_stream_result(&d->stream[0], r->config->reader.loss);
    TRY(ask_rows(r, e));
    return look_now(r->look, r, &seen, e);
}

// Does what look_into does, within a pass. The last batch is left out here and written at
// the end of the pass, because the workers report its loss only after the clock shows
// that the batch is done.
static int look_within(struct run *r, uint64_t pass, uint64_t first,
                       const struct msg_pass_state *p, struct err *e)
{
    uint64_t examples = p->examples;
    double share = 0;
    if (r->look == NULL)
        return 0;
    TRY(look_at_clock(r, pass, &examples, &share, e));
    if (share >= 1)
        return 0;
    return look_into(r, first + examples / r->config->batch, e);
}

// Prints the dots and the line that are due, and writes the event.
static int tell_progress(struct run *r, uint64_t pass, uint64_t first,
                         const struct msg_pass_state *p, struct err *e)
{
    struct driver *d = r->driver;
    const struct train_config *c = r->config;
    bool counts = c->log_batches != 0 || c->dot_batches != 0 || c->average > 0,
         looked = false;
    uint64_t examples = p->examples;
    double share = share_of(p);
    if (counts && !p->done) {
        TRY(look_at_clock(r, pass, &examples, &share, e));
        looked = true;
    }
    uint64_t batches = first + (p->done ? batches_of(r, examples) : examples / c->batch);
    TRY(driver_sample(r, batches, p->done, e));
    if (!p->done)
        report_data_note_share(c->report_data, r->at.epoch + 1, share_of(p),
                               &d->stream[0], c->reader.loss);
    if (!progress_at(r->progress, batches) || (p->done && c->log_batches == 0))
        return 0;
    struct metrics m[LABELS_MAX];
    if (!looked)
        TRY(look_at_clock(r, pass, &examples, &share, e));
    double rate = (double)c->model.linear.lr *
                  schedule_factor(&c->schedule, r->at.epoch + (share > 0 ? share : 0));
    progress_event(r->progress, examples, d->stream, rate);
    for (uint32_t k = 0; k < d->labels; k++)
        m[k] = metrics_stream_result(&d->stream[k], c->reader.loss);
    if (c->cluster->mode == CONFIG_SYNC)
        m[0].examples = examples;
    r->at.batches = p->done ? batches : first + m[0].examples / c->batch;
    run_rows_tell(r);
    progress_line(r->progress, r->at.epoch, share, r->at.batches, m, NULL);
    return 0;
}

// Waits for the end of a pass. In a run with --out, a signal to end does not interrupt a
// pass that has begun, because rows in the middle of a pass do not belong to one position
// in the data.
static int follow_pass(struct run *r, uint64_t pass, struct state *s,
                       struct train_result *result, struct err *e)
{
    struct driver *d = r->driver;
    uint64_t first = d->batches_before;
    bool told = false;
    (void)progress_at(r->progress, first);
    for (double pause = look_first_seconds;; pause *= pause < look_seconds ? 1.5 : 1) {
        TRY(driver_look(d, pass, s, e));
        numbering_join(&r->fields, numbering_range(&d->known));
        look_at_shuffle(d, &s->pass);
        TRY(driver_publish_due(r, first + s->pass.examples / r->config->batch, result,
                               e));
        TRY(tell_progress(r, pass, first, &s->pass, e));
        if (s->pass.done) {
            r->at.batches = first + batches_of(r, s->pass.examples);
            return look_into(r, r->at.batches, e);
        }
        if (run_interrupted(r) && r->config->out == NULL)
            return TUG_EINTERRUPTED;
        if (run_interrupted(r) && !told)
            log_info("interrupted: pass %u is finished first, so that the save "
                     "counts every example once",
                     r->at.epoch + 1);
        told |= run_interrupted(r);
        TRY(look_within(r, pass, first, &s->pass, e));
        if (r->config->save_batches != 0) {
            uint64_t examples = s->pass.examples;
            double ignored;
            TRY(look_at_clock(r, pass, &examples, &ignored, e));
            TRY(driver_save_within(r, pass, examples, result, e));
        }
        TRY(remote_pause(&d->remote, pause, e));
    }
}

// Returns the number of nodes that read at the same time; each thread of a worker is a
// node.
static uint32_t readers(struct driver *d)
{
    const struct roster *r = member_roster(client_member(d->remote.client));
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->n_nodes; i++)
        n += r->nodes[i].role == WIRE_WORKER && r->nodes[i].alive;
    return n > 0 ? n : 1;
}

// Adds the times of a pass to the result: `seconds`, without `saves`, the time of saves within
// the pass. The mean time that workers have spent reading is subtracted from the time of
// training. Workers may wait for servers during all of a save, so its time is subtracted from that
// of waiting.
static void count_time(struct driver *d, double seconds, double saves,
                       struct train_result *result)
{
    uint32_t n = readers(d);
    double read = fmin(d->read_seconds / n, seconds);
    result->read_seconds += read;
    result->train_seconds += seconds - read;
    result->wait_seconds += fmin(fmax(d->wait_seconds / n - saves, 0), seconds - read);
    result->data_bytes = d->data_bytes > result->data_bytes ? d->data_bytes
                                                            : result->data_bytes;
    d->read_seconds = d->wait_seconds = 0;
}

static int train_pass(struct run *r, struct train_result *result, struct err *e)
{
    struct driver *d = r->driver;
    uint64_t pass = (uint64_t)r->at.epoch + 1;
    struct state s = {.driver = d};
    double start = clock_seconds(), saved = result->save_seconds;
    d->bad_lines = 0;
    d->all_read_all = r->config->cluster->mode == CONFIG_SYNC;
    if (!d->began)
        driver_go_on(d, r);
    int rc = open_pass(r, pass, result, e);
    if (rc == 0)
        rc = follow_pass(r, pass, &s, result, e);
    saved = result->save_seconds - saved;
    count_time(d, clock_seconds() - start - saved, saved, result);
    // A pass over examples in memory reads nothing and counts no bad lines, so the count of
    // the pass that read them stays.
    if (d->bad_lines > r->bad_lines)
        r->bad_lines = d->bad_lines;
    TRY(rc);
    if (d->bad_lines > r->config->max_bad_lines)
        return err_set(
            e, TUG_EDATA,
            "%llu lines of --data cannot be read, and --max-bad-lines allows %llu",
            (unsigned long long)d->bad_lines,
            (unsigned long long)r->config->max_bad_lines);
    checkpoint_compare_numbering(r);
    result->examples = d->examples = s.pass.examples;
    // In other modes workers add their batches to the step. In sync mode no worker
    // computes a whole batch, so the driver adds them.
    if (r->config->table != NULL && r->config->cluster->mode == CONFIG_SYNC)
        TRY(driver_add_steps(r, batches_of(r, s.pass.examples), e));
    d->goes_on = 0;
    return run_check_examples(r, s.pass.examples, e);
}

const struct course course_cluster = {
    .rows = &rows_driver,
    .open = open_driver,
    .over = over,
    .close = close_driver,
    .pass = train_pass,
    .score = driver_score,
    .streams = streams,
    .clear_streams = clear_streams,
};
