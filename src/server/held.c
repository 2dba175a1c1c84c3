// Requests that wait: for a newer roster, for other workers' ticks, for batches to be
// complete. They wait in the order in which they came, and stand in nobody's way.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "server/shard_internal.h"

enum { HELD_MAX = 1 << 16 };
#define HELD_BYTES_MAX ((uint64_t)1 << 30)
#define LATER_NS (SECOND_NS / 1000)
#define ROSTER_TIMEOUT_NS (30 * SECOND_NS)
#define HOLD_TIMEOUT_NS (600 * SECOND_NS)

static uint64_t timeout_of(const struct shard *s, enum outcome wants)
{
    if (wants == WANTS_LATER)
        return LATER_NS;
    if (wants == WANTS_ROSTER)
        return ROSTER_TIMEOUT_NS;
    return s->o.hold_timeout_ns != 0 ? s->o.hold_timeout_ns : HOLD_TIMEOUT_NS;
}

// What its texts point at, which lies in no body. Only TABLE has some.
static size_t texts_bytes(const struct request *q)
{
    const struct msg_table *m = &q->m->table;
    return q->type == MSG_TABLE ? (size_t)m->groups.n + m->inits.n + m->name.n : 0;
}

static char *copy_text(struct wire_text *t, char *to)
{
    if (t->n > 0)
        memcpy(to, t->data, t->n);
    t->data = to;
    return to + t->n;
}

static void copy_texts(struct held *h)
{
    char *to = h->texts;
    if (h->type != MSG_TABLE)
        return;
    to = copy_text(&h->m.table.groups, to);
    to = copy_text(&h->m.table.inits, to);
    copy_text(&h->m.table.name, to);
}

int held_add(struct shard *s, struct request *q, enum outcome wants, struct err *e)
{
    uint64_t bytes = q->fresh->body_bytes + texts_bytes(q);
    if (s->n_held >= HELD_MAX || s->held_bytes + bytes > HELD_BYTES_MAX)
        return err_set(e, TUG_ENOMEM, "too many requests wait: %u, %llu bytes", s->n_held,
                       (unsigned long long)s->held_bytes);
    struct held *h = mem_alloc(sizeof(*h) + texts_bytes(q));
    if (h == NULL)
        return err_nomem(e, "a request that waits");
    void *kept = q->fresh->body != NULL ? van_keep(s->van, q->fresh) : NULL;
    if (kept == NULL && q->fresh->body != NULL) {
        mem_free(h);
        return err_nomem(e, "a request that waits");
    }
    *h = (struct held){.peer = q->peer,
                       .id = q->id,
                       .type = q->type,
                       .wants = wants,
                       .m = *q->m,
                       .kept = kept,
                       .bytes = bytes,
                       .since = s->now,
                       .deadline = s->now + timeout_of(s, wants)};
    copy_texts(h);
    *s->held_end = h;
    s->held_end = &h->next;
    s->held_bytes += bytes;
    s->n_held++;
    return 0;
}

// Takes the one at *at out of the list.
static void held_take(struct shard *s, struct held **at)
{
    struct held *h = *at;
    if (s->profiling)
        profiling_waited(s, h);
    *at = h->next;
    if (s->held_end == &h->next)
        s->held_end = at;
    s->held_bytes -= h->bytes;
    s->n_held--;
    if (h->kept != NULL)
        van_unkeep(s->van, h->kept);
    mem_free(h);
}

static void retry(struct shard *s, uint32_t wants)
{
    for (struct held **at = &s->held; *at != NULL;) {
        struct held *h = *at;
        enum outcome outcome = h->wants;
        if (wants >> h->wants & 1) {
            struct request q = {h->peer, h->type, h->id, &h->m, NULL, h->kept, false};
            outcome = shard_serve_request(s, &q);
            h->kept = q.kept; // unless it was taken over
        }
        if (outcome == ANSWERED) {
            held_take(s, at);
            continue;
        }
        if (outcome != h->wants) {
            h->wants = outcome;
            h->deadline = s->now + timeout_of(s, outcome);
        }
        at = &h->next;
    }
}

void held_settle(struct shard *s)
{
    while (s->woken != 0) {
        uint32_t wants = s->woken;
        s->woken = 0;
        retry(s, wants);
    }
}

void held_drop_peer(struct shard *s, const struct peer *p)
{
    for (struct held **at = &s->held; *at != NULL;)
        if (p == NULL || (*at)->peer == p)
            held_take(s, at);
        else
            at = &(*at)->next;
}

void held_drop_all(struct shard *s)
{
    held_drop_peer(s, NULL);
}

uint32_t held_count(const struct shard *s, uint32_t table)
{
    uint32_t n = 0;
    for (const struct held *h = s->held; h != NULL; h = h->next)
        n += h->type == MSG_PULL && h->m.pull.table == table;
    return n;
}

// Whom it waited for.

static void name_slow(const struct shard *s, const struct shard_table *t, uint64_t clock,
                      struct buf *to)
{
    char name[ROSTER_NAME_MAX];
    for (size_t i = 0; i < t->ssp.n; i++) {
        const struct ssp_worker *w = &t->ssp.workers[i];
        if (w->living && clock > t->spec.staleness &&
            w->clock < clock - t->spec.staleness)
            buf_printf(to, "%s%s at clock %llu", to->len > 0 ? ", " : "",
                       shard_session_name(s, w->session, name),
                       (unsigned long long)w->clock);
    }
}

static void name_micros(const struct shard_table *t, struct buf *to)
{
    uint32_t missing = sync_clock_missing(&t->sync);
    buf_printf(to, "micro-batches");
    for (uint32_t i = 0; i < SHARD_MICROS; i++)
        if (missing >> i & 1)
            buf_printf(to, " %u", i);
    buf_printf(to, " of batch %llu", (unsigned long long)t->sync.next);
}

static void refuse_late(struct shard *s, const struct held *h)
{
    struct err e = {0};
    struct request q = {h->peer, h->type, h->id, &h->m, NULL, h->kept, false};
    struct buf whom = BUF_INIT(512);
    const struct shard_table *t = NULL;
    unsigned long long seconds = (s->now - h->since) / SECOND_NS;
    if (h->wants != WANTS_ROSTER)
        t = tables_find(s, h->m.pull.table, &e);
    if (t == NULL) {
        err_set(&e, TUG_EIO, "the scheduler's newer placement has not come for %llu s",
                seconds);
    } else {
        if (h->wants == WANTS_TICK)
            name_slow(s, t, h->m.pull.clock, &whom);
        else
            name_micros(t, &whom);
        const char *names = buf_str(&whom);
        err_set(&e, TUG_EIO, "pull of table '%s' at clock %llu has waited %llu s for %s",
                t->spec.name, (unsigned long long)h->m.pull.clock, seconds,
                names != NULL ? names : "others");
    }
    buf_free(&whom);
    shard_refuse(s, &q, &e);
}

// A push that was acknowledged before it is applied.
static void serve_later(struct shard *s, const struct held *h)
{
    struct request q = {h->peer, h->type, h->id, &h->m, NULL, h->kept, true};
    shard_serve_request(s, &q);
}

uint64_t held_expire(struct shard *s)
{
    uint64_t next = VAN_NEVER;
    for (struct held **at = &s->held; *at != NULL;) {
        if ((*at)->deadline <= s->now) {
            if ((*at)->wants == WANTS_LATER)
                serve_later(s, *at);
            else
                refuse_late(s, *at);
            held_take(s, at);
            continue;
        }
        if ((*at)->deadline < next)
            next = (*at)->deadline;
        at = &(*at)->next;
    }
    return next;
}
