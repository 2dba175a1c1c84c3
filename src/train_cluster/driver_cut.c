// Saves of a run in the middle of a pass: the table as it is at one moment, and the
// position of the readers of the data at that moment.
//
//   pieces   every worker marks the save between two of its pieces (cluster/leases/leases_cut.c);
//            the position is the set of pieces that the save holds
//   shares   the moment is between two batches; the position is the number of the next one
//
// The position is part of the save's description of its run (train/saved/saved_run.h).
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "os/below.h"
#include "os/clock.h"
#include "os/json.h"
#include "os/log.h"
#include "save/save.h"
#include "train/checkpoint.h"
#include "train/progress.h"
#include "train_cluster/driver_internal.h"

enum { MARKS_SECONDS = 60 };

static const double look_seconds = 0.005;

static int driver_cut_wait(struct driver *d, client_ts ts, struct err *e)
{
    return ts != 0 ? client_wait(d->remote.client, ts, e) : e->code;
}

bool driver_saves_again(const struct err *e, int tries)
{
    if (e->reason != REASON_SAVE_AGAIN || tries == CLIENT_SAVE_TRIES)
        return false;
    log_warn("a save begins again: %s", e->text);
    return true;
}

static json_t *bits_to_json(struct wire_text bits)
{
    static const char digits[] = "0123456789abcdef";
    char *text = mem_alloc(2 * (size_t)bits.n + 1);
    if (text == NULL)
        return NULL;
    for (uint32_t i = 0; i < bits.n; i++) {
        text[2 * i] = digits[(uint8_t)bits.data[i] >> 4];
        text[2 * i + 1] = digits[(uint8_t)bits.data[i] & 15];
    }
    json_t *value = json_stringn(text, 2 * (size_t)bits.n);
    mem_free(text);
    return value;
}

static json_t *files_to_json(struct wire_text list)
{
    struct wire_file_done f;
    json_t *files = json_array();
    while (wire_next_file_done(&list, &f) == 1)
        if (json_array_append_new(files, bits_to_json(f.bits)) != 0) {
            json_decref(files);
            return NULL;
        }
    return files;
}

int driver_set_readers(struct saved_run *run, const struct driver_position *p,
                       struct err *e)
{
    json_begin();
    struct wire_text done = {p->done.data, (uint32_t)p->done.len};
    char data[17];
    snprintf(data, sizeof(data), "%016llx", (unsigned long long)p->data);
    json_t *o = json_pack("{s:I, s:I, s:I, s:s, s:o}", "pass", (json_int_t)p->pass,
                          "first", (json_int_t)p->first, "examples",
                          (json_int_t)p->examples, "data", data, "done",
                          files_to_json(done));
    run->readers = o != NULL ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    return run->readers != NULL && !json_memory_failed() ? 0 : err_nomem(e, "a save");
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int read_bits(const char *text, struct buf *to)
{
    struct buf bits = BUF_INIT(WIRE_BYTES_MAX);
    int rc = strlen(text) % 2 == 0 ? 0 : TUG_EDATA;
    for (size_t i = 0; text[i] != 0 && rc == 0; i += 2) {
        int high = digit(text[i]), low = digit(text[i + 1]);
        uint8_t byte = (uint8_t)((unsigned)high << 4 | (unsigned)low);
        rc = high < 0 || low < 0 ? TUG_EDATA : buf_add(&bits, &byte, 1);
    }
    struct wire_file_done f = {.bits = {bits.data, (uint32_t)bits.len}};
    if (rc == 0)
        rc = wire_put_file_done(to, &f);
    buf_free(&bits);
    return rc;
}

static int read_position(const json_t *o, const char *path, struct driver_position *p,
                         struct err *e)
{
    struct json_fields f = {.path = path, .e = e};
    p->pass = json_read_int(&f, o, "pass", UINT32_MAX);
    p->first = json_read_int(&f, o, "first", UINT32_MAX);
    p->examples = json_read_int(&f, o, "examples", INT64_MAX);
    p->data = json_read_hex(&f, o, "data");
    const json_t *files = json_read_array(&f, o, "done", UINT16_MAX);
    buf_clear(&p->done);
    for (size_t i = 0; f.rc == 0 && i < json_array_size(files); i++) {
        const char *text = json_string_value(json_array_get(files, i));
        if (text == NULL || read_bits(text, &p->done) != 0)
            json_complain(&f, "done", "is not a list of pieces");
    }
    return f.rc;
}

int driver_find_position(struct driver *d, const struct saved_run *run, const char *dir,
                         struct err *e)
{
    d->resumed.pass = 0;
    if (run->readers == NULL)
        return 0;
    json_begin();
    json_t *o = json_loads(run->readers, 0, NULL);
    int rc = o != NULL ? read_position(o, dir, &d->resumed, e)
                       : err_nomem(e, "the position of a run");
    json_decref(o);
    return rc;
}

static void take_cut(void *ctx, const union wire_any *m)
{
    struct driver_position *p = ctx;
    const struct msg_cut_state *s = &m->cut_state;
    buf_clear(&p->done);
    p->known = s->known != 0;
    p->torn = s->torn != 0;
    p->examples = s->examples;
    p->roster = s->roster;
    p->newest = s->newest;
    p->lost = p->known && buf_add(&p->done, s->done.data, s->done.n) != 0;
}

static int ask_cut(struct driver *d, uint64_t save, struct err *e)
{
    struct msg_cut m = {.save = save};
    TRY(client_ask(d->remote.client, MSG_CUT, &m, take_cut, &d->cut, e));
    return d->cut.lost ? err_nomem(e, "where the run stands") : 0;
}

static int follow_marks(struct driver *d, uint64_t save, struct err *e)
{
    uint64_t until = clock_ns() + MARKS_SECONDS * SECOND_NS;
    do {
        TRY(ask_cut(d, save, e));
        if (d->cut.known)
            return d->cut.torn
                       ? err_set(e, TUG_EIO, "a worker died in the middle of a piece")
                       : 0;
        TRY(remote_pause(&d->remote, look_seconds, e));
    } while (clock_ns() < until);
    return err_set(e, TUG_EIO, "workers have not reached the end of a piece within %d s",
                   MARKS_SECONDS);
}

// Follows the clock in a pass by shares until the batch before which a save is made. The
// pass may end before that batch, because the number of batches is known only after the
// first pass.
static int follow_clock(struct driver *d, client_ts ts, struct err *e)
{
    int rc;
    while (!client_done(d->remote.client, ts, &rc, e)) {
        bool over;
        uint64_t clock;
        rc = driver_is_over(d, d->cut.pass, &over, &clock, e);
        if (rc == 0 && over && clock < d->cut.clock)
            rc = err_set(e, TUG_EINTERRUPTED, "the pass ended first");
        if (rc == 0)
            rc = remote_pause(&d->remote, look_seconds, e);
        if (rc != 0) {
            client_cancel(d->remote.client, ts);
            return rc;
        }
    }
    return rc;
}

static int driver_cut_write_rows(struct driver *d, struct client_save *s,
                                 struct save_manifest *m, struct saved_run *run,
                                 struct err *e)
{
    if (s->marked) {
        TRY(driver_cut_wait(d, client_save_turn(d->remote.client, s->id, e), e));
        // From now on the scheduler gives pieces only to workers that have marked the
        // save.
        TRY(ask_cut(d, s->id, e));
        s->roster = d->cut.roster;
        s->newest = d->cut.newest;
    }
    client_ts ts = client_save(d->remote.client, s, m, e);
    if (ts == 0)
        return e->code;
    int rc = s->marked ? follow_marks(d, s->id, e) : 0;
    if (rc != 0) {
        client_cancel(d->remote.client, ts);
        return rc;
    }
    TRY(s->clock != 0 ? follow_clock(d, ts, e) : client_wait(d->remote.client, ts, e));
    if (d->cut.pass == 0)
        return 0;
    // With marks, the number of batches is estimated from the number of examples,
    // as in progress lines.
    uint64_t batches = s->marked ? d->cut.examples / run->options.batch : d->cut.first;
    run->at.batches = d->batches_before + batches;
    return driver_set_readers(run, &d->cut, e);
}

// Returns the servers' name of a save's directory, which is below --out. The name of
// --out was asked for when the run began: in sync mode the batch of the save could pass
// while the servers answer.
static int save_below(const struct driver *d, const char *path, char ret[FILE_PATH_MAX],
                      struct err *e)
{
    char absolute[FILE_PATH_MAX];
    TRY(below_absolute(path, absolute, e));
    const char *rest = below_rest(d->out, absolute);
    return rest != NULL
               ? file_join(ret, d->out_below, rest, e)
               : err_set(e, TUG_EUSAGE, "'%s' is not below '%s'", absolute, d->out);
}

static int save_once(struct driver *d, const char *there, struct save_manifest *m,
                     struct saved_run *run, struct err *e)
{
    static const uint32_t tables[] = {EXCHANGE_SPARSE, EXCHANGE_DENSE};
    struct client_save s = {.id = clock_unix_ns(),
                            .mode = SAVE_CHECKPOINT,
                            .path = there,
                            .tables = tables,
                            .n = 2,
                            .marked = d->cut.pass != 0 && d->cut.clock == 0,
                            .clock = d->cut.clock};
    int rc = driver_cut_write_rows(d, &s, m, run, e);
    // A checkpoint publishes nothing, so an error here is ignored: the servers only
    // have to end their cuts.
    struct err ignored;
    (void)driver_cut_wait(
        d, client_save_end(d->remote.client, s.id, rc == 0, 0, &ignored), &ignored);
    if (s.marked)
        // Tells the scheduler that workers need not mark this save any more.
        (void)ask_cut(d, 0, &ignored);
    return rc;
}

static int save_rows(struct driver *d, const char *path, struct save_manifest *m,
                     struct saved_run *run, struct err *e)
{
    char there[FILE_PATH_MAX];
    TRY(save_below(d, path, there, e));
    int rc = save_once(d, there, m, run, e);
    for (int i = 1; rc != 0 && driver_saves_again(e, i); i++) {
        TRY(save_empty(path, m, e));
        rc = save_once(d, there, m, run, e);
    }
    return rc;
}

int driver_save_tables(void *ctx, const char *dir, struct save_manifest *m,
                       struct saved_run *run, struct err *e)
{
    struct run *r = ctx;
    pthread_mutex_lock(&r->driver->lock);
    int rc = save_rows(r->driver, dir, m, run, e);
    pthread_mutex_unlock(&r->driver->lock);
    return rc;
}

// Returns whether a save is due after this number of batches of the pass. Batches are
// counted from the last save on, across passes, because a pass may have fewer batches
// than lie between two saves.
static bool is_due(struct run *r, uint64_t batches)
{
    struct driver *d = r->driver;
    uint64_t every = r->config->save_batches;
    batches += d->batches_before;
    if (r->config->table == NULL || r->config->out == NULL || every == 0 ||
        batches < d->saved_batches + every)
        return false;
    d->saved_batches = batches;
    return true;
}

int driver_save_within(struct run *r, uint64_t pass, uint64_t examples,
                       struct train_result *result, struct err *e)
{
    struct driver *d = r->driver;
    struct err why = {0};
    uint64_t batches = examples / r->config->batch;
    if (!is_due(r, batches))
        return 0;
    d->cut.pass = pass;
    d->cut.first = d->cut.clock = 0;
    if (r->config->cluster->mode == CONFIG_SYNC) {
        d->cut.first = batches + d->ahead;
        d->cut.clock = pass << 32 | d->cut.first;
        buf_clear(&d->cut.done);
        if (d->examples != 0 &&
            d->cut.first * r->config->batch + r->config->batch >= d->examples)
            d->cut.pass = 0; // the pass will end before the batch of the save
    }
    int rc = d->cut.pass != 0 ? checkpoint_save(r, false, result, &why) : 0;
    bool passed = rc != 0 && d->cut.clock != 0 && why.reason == REASON_SAVE_PASSED;
    bool again = passed && d->ahead < DRIVER_AHEAD_MAX;
    if (passed || (rc == 0 && d->cut.pass != 0 && d->cut.clock != 0))
        d->ahead = driver_ahead(d->ahead, passed);
    d->cut.pass = d->cut.clock = 0;
    if (again) { // the next save is tried at once
        d->saved_batches -= r->config->save_batches;
        return 0;
    }
    if (rc == 0 ||
        rc ==
            TUG_EINTERRUPTED) // TUG_EINTERRUPTED: the pass ended before the save's batch
        return 0;
    if (member_ended(client_member(d->remote.client), NULL) || rc == TUG_EINTERNAL) {
        *e = why;
        return rc;
    }
    log_warn("a save was not made, training goes on: %s", why.text);
    return 0;
}
