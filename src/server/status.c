// The status of a shard, for tug status: docs/cluster.md describes its fields.
//
// The text of many tables is written in parts, between requests, so that no request waits
// for all of it.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "os/budget.h"
#include "server/clocks/pending.h"
#include "server/room.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"

enum {
    AT_ONCE = 16,    // with at most this many tables the text is written at once
    PART = 16,       // number of tables that are written together; each takes 1 to 4 us
    PART_NS = 50000, // time after which a part ends early, because measuring a table can
                     // take 200 us
};
// The bytes of a table are measured again after this time, even if the
// table has not changed.
#define MEASURE_NS (10 * SECOND_NS)

static const char *mode_name(enum wire_mode mode)
{
    const char *names[] = {"async", "ssp", "sync"};
    return names[mode];
}

static void put_removed(const struct msg_table_is *m, struct json_out *o)
{
    json_out_open(o, "removed", '{');
    json_out_u64(o, "score", m->evicted_score);
    json_out_u64(o, "age", m->evicted_age);
    json_out_u64(o, "ttl", m->evicted_ttl);
    json_out_u64(o, "budget", m->evicted_budget);
    json_out_close(o, '}');
}

static void put_cold(const struct shard_table *t, const struct msg_table_is *m,
                     struct json_out *o)
{
    if (t->spec.config.cold[0] == '\0')
        return;
    uint64_t row_bytes = (uint64_t)t->spec.accessor.width * sizeof(float);
    json_out_open(o, "cold", '{');
    json_out_u64(o, "rows", m->cold_rows);
    json_out_u64(o, "bytes", m->cold_rows * row_bytes);
    json_out_u64(o, "hits", m->hot_hits);
    json_out_u64(o, "reads", m->promoted);
    json_out_u64(o, "writes", m->demoted);
    json_out_close(o, '}');
}

static const struct roster_node *node_of(const struct shard *s, uint64_t session)
{
    const struct roster *r = member_roster(s->member);
    for (uint32_t i = 0; i < r->n_nodes; i++)
        if (r->nodes[i].session == session)
            return &r->nodes[i];
    return NULL;
}

static bool has_clock(const struct ssp_clock *c, const struct ssp_worker *w)
{
    return ssp_clock_counts(c, w) && w->clock != SSP_FINISHED;
}

// Writes the clocks of the workers, and how far each is behind the fastest.
static void put_staleness(const struct shard *s, const struct shard_table *t,
                          struct json_out *o)
{
    const struct ssp_worker *all = t->ssp.workers.first;
    uint64_t fastest = 0;
    if (t->spec.mode != WIRE_SSP)
        return;
    for (size_t i = 0; i < t->ssp.workers.n; i++)
        if (has_clock(&t->ssp, &all[i]) && all[i].clock > fastest)
            fastest = all[i].clock;
    json_out_u64(o, "staleness", t->spec.config.staleness);
    json_out_open(o, "workers", '[');
    for (size_t i = 0; i < t->ssp.workers.n; i++) {
        const struct roster_node *n = node_of(s, all[i].session);
        if (!has_clock(&t->ssp, &all[i]) || n == NULL)
            continue;
        json_out_open(o, NULL, '{');
        json_out_u64(o, "rank", n->rank);
        json_out_u64(o, "loop", n->loop);
        json_out_u64(o, "clock", all[i].clock);
        json_out_u64(o, "behind", fastest - all[i].clock);
        json_out_close(o, '}');
    }
    json_out_close(o, ']');
}

static void put_table(struct shard *s, struct shard_table *t, struct json_out *o)
{
    if (t->measured != t->version || s->now - t->measured_at > MEASURE_NS)
        tables_measure(s, t);
    struct msg_table_is m = tables_count_cheaply(s, t);
    json_out_open(o, NULL, '{');
    json_out_u64(o, "id", t->spec.id);
    json_out_text(o, "name", t->spec.config.name);
    json_out_text(o, "mode", mode_name(t->spec.mode));
    json_out_u64(o, "width", t->spec.accessor.width);
    json_out_u64(o, "rows", m.rows);
    json_out_u64(o, "backup_rows", store_counts(t->store).backup_rows);
    json_out_u64(o, "bytes", m.bytes);
    json_out_u64(o, "pushes", m.pushes);
    json_out_u64(o, "repeats", m.repeats);
    json_out_u64(o, "pulls", m.pulls);
    json_out_u64(o, "pushed_keys", m.pushed_keys);
    json_out_u64(o, "pulled_keys", m.pulled_keys);
    json_out_u64(o, "examples", m.examples);
    json_out_i64(o, "clock", (int64_t)m.clock); // -1: no worker is waited for
    json_out_u64(o, "held", m.held);
    json_out_u64(o, "made", m.made);
    put_removed(&m, o);
    json_out_u64(o, "refused", m.refused);
    json_out_u64(o, "left_out", store_counts(t->store).left_out);
    put_cold(t, &m, o);
    put_staleness(s, t, o);
    json_out_close(o, '}');
}

// Writes the memory of the whole process, which each of its loops reports.
static void put_memory(const struct shard *s, struct json_out *o)
{
    const struct budget *b = s->o.budget;
    if (b == NULL)
        return;
    json_out_open(o, "memory", '{');
    json_out_u64(o, "rows", s->bytes);
    json_out_u64(o, "rows_max", s->o.max_bytes);
    json_out_u64(o, "limit", s->o.memory);
    json_out_u64(o, "buffers", atomic_load(&b->used) + budget_used(b, BUDGET_REST));
    json_out_u64(o, "buffers_max", b->bytes);
    for (int k = 0; k < BUDGET_KINDS; k++)
        json_out_u64(o, budget_name((enum budget_kind)k),
                     budget_used(b, (enum budget_kind)k));
    json_out_u64(o, "refused", atomic_load(&b->refused));
    json_out_u64(o, "closed", atomic_load(&b->closed));
    json_out_close(o, '}');
}

static void put_requests(const struct shard *s, struct json_out *o)
{
    static const char *const names[SHARD_KINDS] = {"push", "pull", "other"};
    histogram_print_bounds(o, "bucket_seconds");
    json_out_open(o, "requests", '{');
    for (int k = 0; k < SHARD_KINDS; k++) {
        json_out_open(o, names[k], '{');
        histogram_print(&s->requests[k], o);
        json_out_close(o, '}');
    }
    json_out_close(o, '}');
}

// Writes the number of a save, which is the end of its directory's name.
static void put_number(struct json_out *o, const char *path)
{
    const char *name = strstr(path, "save-"), *next;
    while (name != NULL && (next = strstr(name + 1, "save-")) != NULL)
        name = next;
    char *end = NULL;
    unsigned long number = name != NULL ? strtoul(name + 5, &end, 10) : 0;
    if (end != NULL && end != name + 5)
        json_out_u64(o, "number", number);
    else
        json_out_null(o, "number");
}

static void put_save_now(const struct shard *s, struct json_out *o)
{
    const struct save_run *r = s->saves.run;
    if (r == NULL || r->state == SAVE_FAILED) {
        json_out_null(o, "now");
        return;
    }
    json_out_open(o, "now", '{');
    put_number(o, r->path);
    json_out_text(o, "state",
                  r->state == SAVE_CUTS      ? "writes"
                  : r->state == SAVE_WRITTEN ? "written"
                                             : "waits");
    json_out_text(o, "path", r->path);
    json_out_u64(o, "bytes", save_bytes(r));
    json_out_real(o, "seconds", 12, (double)(s->now - r->since) * 1e-9);
    json_out_null(o, "finished_unix_seconds");
    json_out_null(o, "error");
    json_out_close(o, '}');
}

static void put_saves(const struct shard *s, struct json_out *o)
{
    const struct save_ended *x = &s->saves.last;
    json_out_open(o, "saves", '{');
    json_out_u64(o, "made", s->saves.made);
    json_out_u64(o, "failed", s->saves.failed);
    put_save_now(s, o);
    if (x->known) {
        json_out_open(o, "last", '{');
        put_number(o, x->path);
        json_out_text(o, "state", x->written ? "written" : "failed");
        json_out_text(o, "path", x->path);
        json_out_u64(o, "bytes", x->bytes);
        json_out_real(o, "seconds", 12, (double)x->took_ns * 1e-9);
        json_out_real(o, "finished_unix_seconds", 13, (double)x->unix_ns * 1e-9);
        json_out_text(o, "error", x->written ? NULL : x->why.text);
        json_out_close(o, '}');
    } else {
        json_out_null(o, "last");
    }
    json_out_close(o, '}');
}

// Begins the text of the status: writes all that comes before the first table.
static void text_begin(struct shard *s)
{
    struct status_text *x = &s->status;
    buf_clear(&x->json);
    x->json.max = WIRE_SPAN_MAX;
    x->out = JSON_OUT(&x->json);
    x->at = 0;
    x->on = true;
    x->done = false;
    json_out_open(&x->out, NULL, '{');
    json_out_text(&x->out, "role", "server");
    usage_print(s->o.usage, &x->out);
    json_out_u64(&x->out, "node", member_id(s->member));
    if (member_ready(s->member))
        json_out_u64(&x->out, "rank", member_rank(s->member));
    json_out_u64(&x->out, "epoch", member_roster(s->member)->epoch);
    json_out_u64(&x->out, "waiting", s->n_pending);
    put_requests(s, &x->out);
    put_saves(s, &x->out);
    if (s->o.door != NULL) {
        json_out_open(&x->out, "door", '{');
        s->o.door(s->o.app_ctx, &x->out);
        json_out_close(&x->out, '}');
    }
    json_out_open(&x->out, "tables", '[');
}

// Writes at most n more tables, fewer if they take long. After the last table it
// writes the end of the text.
static void text_continue(struct shard *s, uint32_t n)
{
    struct status_text *x = &s->status;
    uint64_t until = van_now(s->van) + PART_NS;
    for (; x->at < s->n_tables && n > 0; x->at++)
        if (s->tables[x->at] != NULL) {
            put_table(s, s->tables[x->at], &x->out);
            n = van_now(s->van) < until ? n - 1 : 0;
        }
    if (x->at < s->n_tables)
        return;
    json_out_close(&x->out, ']');
    put_memory(s, &x->out); // comes last, because the tables were measured just now
    json_out_close(&x->out, '}');
    x->on = false;
    x->done = true;
}

static void text_drop(struct status_text *x)
{
    buf_free(&x->json);
    *x = (struct status_text){0};
}

uint64_t status_tick(struct shard *s)
{
    struct status_text *x = &s->status;
    if (x->done) // all requests that waited for the text have been answered
        text_drop(x);
    if (!x->on)
        return VAN_NEVER;
    text_continue(s, PART);
    if (x->done)
        pending_wake(s, WANTS_STATUS);
    return s->now;
}

static enum outcome text_send(struct shard *s, struct shard_request *q)
{
    const struct status_text *x = &s->status;
    struct msg_status_is m = {.json = {x->json.data, x->json.len}};
    struct err e = {0};
    if (x->out.rc != 0)
        err_nomem(&e, "the state of a server's loop");
    else if (room_for(s, q, x->json.len, &e) != GOES_ON)
        return WANTS_DRAIN;
    if (e.code != 0)
        shard_refuse(s, q, &e);
    else
        van_send(s->van, q->peer->link, MSG_STATUS_IS, q->id, &m, NULL);
    return ANSWERED;
}

enum outcome status_serve(struct shard *s, struct shard_request *q)
{
    struct status_text *x = &s->status;
    if (q->fresh == NULL && x->done)
        return text_send(s, q);
    if (!x->on)
        text_begin(s);
    if (s->n_tables > AT_ONCE)
        return WANTS_STATUS;
    text_continue(s, AT_ONCE);
    if (!x->done)
        return WANTS_STATUS;
    enum outcome outcome = text_send(s, q);
    text_drop(x);
    return outcome;
}
