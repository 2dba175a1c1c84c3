// Requests that wait: for a newer roster, for ticks of other workers, for
// batches to be complete. They are kept in the order in which they arrived,
// while other requests are served.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/clocks/pending.h"

#include <string.h>

#include "base/alloc.h"
#include "server/background.h"
#include "server/clocks/sync.h"
#include "server/profile/profiling.h"
#include "server/request_fields.h"
#include "server/room.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"

enum { PENDING_MAX = 1 << 16 };
#define LATER_NS (SECOND_NS / 1000)
#define SAVE_TIMEOUT_NS (24 * 3600 * SECOND_NS)
#define HOLD_TIMEOUT_NS (600 * SECOND_NS)
#define DRAIN_TIMEOUT_NS (60 * SECOND_NS)

static uint64_t timeout_of(const struct shard *s, uint16_t type, enum outcome wants)
{
    if (wants == WANTS_LATER)
        return LATER_NS;
    if (wants == WANTS_ROSTER) // until the member gives up trying to reach the scheduler
        return s->o.member.scheduler_timeout_ns;
    if ((wants == WANTS_SAVED && type != MSG_SAVE_TURN) || wants == WANTS_MOVE)
        return SAVE_TIMEOUT_NS; // saves and moves have deadlines of their own
    if (wants == WANTS_DRAIN)
        return DRAIN_TIMEOUT_NS;
    return s->o.hold_timeout_ns != 0 ? s->o.hold_timeout_ns : HOLD_TIMEOUT_NS;
}

// Returns whether a request that waits already is the same request, sent a second time.
static bool is_held(const struct shard *s, const struct shard_request *q)
{
    for (const struct pending *h = s->held; h != NULL; h = h->next)
        if (h->peer == q->peer && h->id == q->id && h->type == q->type)
            return true;
    return false;
}

static bool is_of_stores(enum outcome wants)
{
    return wants == WANTS_TURN || wants == WANTS_CUT || wants == WANTS_ROOM ||
           wants == WANTS_SAVED;
}

// Returns whether this is a push that waits for a save of its table, for replicas, or
// because one of its partitions moves. Later pushes and pulls of its worker to the table
// must wait behind it.
static bool is_stopped_push(const struct pending *h)
{
    return h->type == MSG_PUSH && (h->wants == WANTS_CUT || h->wants == WANTS_ROOM ||
                                   h->wants == WANTS_MOVE || h->wants == WANTS_MEMBER);
}

// Returns the table of a pull or a push; SPEC_MAX_TABLES for other requests, and for a
// number that no table has.
static uint32_t table_of(const struct pending *h)
{
    uint32_t table = h->type == MSG_PULL   ? h->m.pull.table
                     : h->type == MSG_PUSH ? h->m.push.table
                                           : SPEC_MAX_TABLES;
    return table < SPEC_MAX_TABLES ? table : SPEC_MAX_TABLES;
}

static void count_waiting(struct shard *s, const struct pending *h, uint32_t n)
{
    uint32_t table = table_of(h);
    assert(n == 1 || table == SPEC_MAX_TABLES || s->held_of[table] > 0);
    if (table < SPEC_MAX_TABLES)
        s->held_of[table] += n;
    assert(n == 1 || !is_stopped_push(h) || h->peer->n_stopped_pushes > 0);
    h->peer->n_stopped_pushes += is_stopped_push(h) ? n : 0;
    if (h->wants != WANTS_DRAIN)
        return;
    assert(n == 1 || (s->n_draining > 0 && h->peer->n_draining > 0));
    s->n_draining += n;
    h->peer->n_draining += n;
    h->peer->n_draining_pushes += h->type == MSG_PUSH ? n : 0;
}

// Returns whether an admin operation waits until a batch that is applied in some
// partitions is applied in all.
static bool waits_for_rest(const struct pending *h, const struct shard_table *t)
{
    return h->wants == WANTS_TURN && t->n_applied != 0 && background_free(t);
}

// Returns whether the request waits for a batch that no retry can apply.
static bool waits_in_vain(struct shard *s, const struct pending *h)
{
    struct request_fields f = {.table = SPEC_MAX_TABLES};
    struct err e;
    if (h->wants != WANTS_BATCH && h->wants != WANTS_TURN)
        return false;
    request_fields(h->type, &h->m, &f);
    const struct shard_table *t = tables_find(s, f.table, &e);
    return t != NULL && sync_in_vain(t) &&
           (h->wants == WANTS_BATCH || waits_for_rest(h, t));
}

static void refuse_late(struct shard *s, const struct pending *h);

bool pending_room(struct shard *s, uint64_t bytes, bool early)
{
    struct budget *b = s->o.budget;
    if (early && bytes > 0 &&
        budget_used(b, BUDGET_PENDING) + bytes > budget_most(b, BUDGET_PENDING) / 2) {
        budget_refused(b);
        return false;
    }
    return budget_take(b, BUDGET_PENDING, bytes);
}

// Handles a request that has no room to wait. Answers it if it waits for a batch that no
// retry can apply; otherwise returns an error after which the client sends it again.
static int refuse_for_room(struct shard *s, const struct shard_request *q,
                           enum outcome wants, struct err *e)
{
    struct pending h = {
        .peer = q->peer, .id = q->id, .type = q->type, .wants = wants, .since = s->now};
    h.m = *q->m;
    if (waits_in_vain(s, &h)) {
        refuse_late(s, &h);
        return 0;
    }
    return err_because(e, TUG_EIO, REASON_NO_ROOM, 0,
                       "no room now for another waiting request: %u wait already, with "
                       "%llu bytes (--memory)",
                       s->n_pending, (unsigned long long)s->pending_bytes);
}

int pending_add(struct shard *s, struct shard_request *q, enum outcome wants,
                struct err *e)
{
    union wire_any m = *q->m;
    size_t texts = wire_texts(q->type, &m, NULL);
    assert(wants != ANSWERED && wants != GOES_ON && q->peer->greeted);
    uint64_t bytes = sizeof(struct pending) + texts + q->fresh->body_bytes;
    if (is_of_stores(wants) && is_held(s, q))
        return 0;
    if (s->n_pending >= PENDING_MAX || !pending_room(s, bytes, wants == WANTS_BATCH))
        return refuse_for_room(s, q, wants, e);
    struct pending *h = mem_alloc(sizeof(*h) + texts);
    void *kept = NULL;
    if (h != NULL && q->fresh->body != NULL)
        kept = van_keep(s->van, q->fresh);
    if (h == NULL || (kept == NULL && q->fresh->body != NULL)) {
        mem_free(h);
        budget_give(s->o.budget, BUDGET_PENDING, bytes);
        return err_nomem(e, "a request that waits");
    }
    *h = (struct pending){.peer = q->peer,
                          .id = q->id,
                          .type = q->type,
                          .wants = wants,
                          .m = m,
                          .kept = kept,
                          .bytes = bytes,
                          .room = q->room,
                          .since = s->now,
                          .deadline = s->now + timeout_of(s, q->type, wants)};
    wire_texts(h->type, &h->m, h->texts);
    *s->pending_end = h;
    s->pending_end = &h->next;
    s->pending_bytes += bytes;
    s->n_pending++;
    h->peer->n_pending++;
    s->pending_due = clock_earlier(s->pending_due, h->deadline);
    count_waiting(s, h, 1);
    if (waits_in_vain(s, h))
        s->pending_due = s->now;
    return 0;
}

// Removes the request at *at from the list.
static void pending_take(struct shard *s, struct pending **at)
{
    struct pending *h = *at;
    assert(s->n_pending > 0 && h->peer->n_pending > 0 && s->pending_bytes >= h->bytes);
    if (s->profiling)
        profiling_waited(s, h);
    *at = h->next;
    if (s->pending_end == &h->next)
        s->pending_end = at;
    s->pending_bytes -= h->bytes;
    s->n_pending--;
    h->peer->n_pending--;
    count_waiting(s, h, -1u);
    budget_give(s->o.budget, BUDGET_PENDING, h->bytes);
    if (h->type == MSG_TABLE_DO) // batches may have waited for this operation
        background_again(s, h->m.table_do.table);
    if (h->kept != NULL)
        van_unkeep(s->van, h->kept);
    mem_free(h);
}

// Returns whether a push still runs too far ahead of its table's batches. Returns false
// if the roster has changed since the push began to wait, because the push may now belong
// to another shard.
static bool still_ahead(const struct shard *s, const struct pending *h)
{
    const struct msg_push *m = &h->m.push;
    struct err e;
    if (h->wants != WANTS_BATCH || h->type != MSG_PUSH ||
        m->epoch != member_roster(s->member)->epoch)
        return false;
    const struct shard_table *t = tables_find(s, m->table, &e);
    return t != NULL && t->spec.mode == WIRE_SYNC && sync_is_ahead(t, m->clock);
}

// Returns whether this waiting request may be ready and is to be tried again. This is
// called often while requests wait for room or batches, so it must not decode keys.
static bool may_go(const struct shard *s, const struct pending *h, uint32_t wants)
{
    if ((wants >> h->wants & 1) == 0 || h->dropped || still_ahead(s, h))
        return false;
    return h->wants != WANTS_DRAIN ||
           (h->peer->blocked != s->retries && room_now(s, h->peer, h->room));
}

static void retry(struct shard *s, uint32_t wants)
{
    s->retries++;
    for (struct pending **at = &s->held; *at != NULL;) {
        struct pending *h = *at;
        enum outcome outcome = h->wants;
        if (may_go(s, h, wants)) {
            struct shard_request q = {h->peer, h->type, h->id, &h->m,
                                      NULL,    h->kept, false, 0};
            outcome = shard_serve_request(s, &q);
            // No request was removed from the list while this one was served.
            assert(*at == h);
            h->kept = q.kept; // NULL if serving the request has taken over its body
            h->room = q.room;
        }
        assert(outcome != GOES_ON);
        if (outcome == WANTS_DRAIN)
            h->peer->blocked = s->retries;
        if (outcome == ANSWERED) {
            shard_answered(s, h->type, h->since);
            pending_take(s, at);
            continue;
        }
        if (outcome != h->wants) {
            count_waiting(s, h, -1u);
            h->wants = outcome;
            count_waiting(s, h, 1);
            h->deadline = s->now + timeout_of(s, h->type, outcome);
            s->pending_due = clock_earlier(s->pending_due, h->deadline);
        }
        at = &h->next;
    }
}

void pending_settle(struct shard *s)
{
    while (s->woken != 0) {
        assert((s->woken >> ANSWERED & 1) == 0);
        uint32_t wants = s->woken;
        s->woken = 0;
        retry(s, wants);
    }
}

void pending_drop_peer(struct shard *s, const struct shard_peer *p)
{
    for (struct pending **at = &s->held; *at != NULL && p->n_pending > 0;)
        if ((*at)->peer == p)
            pending_take(s, at);
        else
            at = &(*at)->next;
}

void pending_batch_applied(struct shard *s, const struct shard_table *t)
{
    for (struct pending *h = s->held; h != NULL; h = h->next) {
        struct request_fields f = {.table = SPEC_MAX_TABLES};
        if (h->wants != WANTS_BATCH)
            continue;
        request_fields(h->type, &h->m, &f);
        if (f.table == t->spec.id)
            h->deadline = s->now + timeout_of(s, h->type, h->wants);
    }
    pending_wake(s, WANTS_BATCH);
}

void pending_drop_pushes(struct shard *s, const struct shard_table *t)
{
    for (struct pending *h = s->held; h != NULL && t->spec.mode == WIRE_SYNC;
         h = h->next) {
        if (h->type != MSG_PUSH || h->m.push.table != t->spec.id ||
            h->m.push.op != WIRE_GRADIENT || h->wants == WANTS_LATER)
            continue;
        h->dropped = true;
        s->pending_due = s->now;
    }
}

enum outcome pending_before(const struct shard *s, const struct shard_request *q,
                            uint32_t table)
{
    if (q->peer->n_stopped_pushes == 0)
        return GOES_ON;
    for (const struct pending *h = s->held; h != NULL; h = h->next) {
        if (h->peer != q->peer)
            continue;
        if (h->id == q->id && h->type == q->type)
            break;
        if (is_stopped_push(h) && h->m.push.table == table)
            return h->wants;
    }
    return GOES_ON;
}

bool pending_wants(const struct shard *s, enum outcome wants)
{
    const struct pending *h = s->held;
    while (h != NULL && h->wants != wants)
        h = h->next;
    return h != NULL;
}

bool pending_order(const struct shard *s, const struct shard_table *t, uint64_t clock)
{
    for (const struct pending *h = s->held; h != NULL; h = h->next)
        if (h->type == MSG_TABLE_DO && h->m.table_do.table == t->spec.id &&
            h->m.table_do.clock != 0 && h->m.table_do.clock == clock &&
            admin_look(&s->admin, h->peer->session, h->m.table_do.number) == ADMIN_NEW)
            return true;
    return false;
}

static void name_slow(const struct shard *s, const struct shard_table *t, uint64_t clock,
                      struct buf *to)
{
    char name[ROSTER_NAME_MAX];
    const struct ssp_worker *w = t->ssp.workers.first;
    for (size_t i = 0; i < t->ssp.workers.n; i++, w++)
        if (ssp_clock_counts(&t->ssp, w) && clock > t->spec.config.staleness &&
            w->clock < clock - t->spec.config.staleness)
            buf_printf(to, "%s%s at clock %llu", to->len > 0 ? ", " : "",
                       shard_session_name(s, w->session, name),
                       (unsigned long long)w->clock);
}

static void name_micros(const struct shard_table *t, struct buf *to)
{
    const struct sync_group *g = sync_first(t);
    uint64_t least = sync_least(t);
    while (g != NULL && g->clock.next != least) // finds a group that is furthest behind
        g = g->next;
    if (g == NULL)
        return;
    uint32_t missing = sync_clock_missing(&g->clock);
    buf_printf(to, "micro-batches");
    for (uint32_t i = 0; i < SHARD_MICROS; i++)
        if (missing >> i & 1)
            buf_printf(to, " %u", i);
    buf_printf(to, " of batch %llu", (unsigned long long)g->clock.next);
}

// Returns the error of the batch for which the request waits; NULL if it has none.
static const struct err *name_missing(const struct shard *s, const struct shard_table *t,
                                      const struct pending *h, uint64_t clock,
                                      struct buf *to)
{
    if (h->wants == WANTS_TURN && !waits_for_rest(h, t))
        buf_printf(to, "the end of an admin operation or a save");
    else if (is_of_stores(h->wants) && h->wants != WANTS_TURN)
        buf_printf(to, "a save");
    else if (h->wants == WANTS_MOVE)
        buf_printf(to, "the end of a move of a partition");
    else if (h->wants == WANTS_MEMBER)
        buf_printf(to, "replicas that are behind");
    else if (h->wants == WANTS_TICK)
        name_slow(s, t, clock, to);
    else if (t->stuck.code == 0)
        name_micros(t, to);
    else {
        buf_printf(to, "batch %llu, which cannot be applied: %s",
                   (unsigned long long)t->sync.clock.next, t->stuck.text);
        return &t->stuck;
    }
    return NULL;
}

static void refuse_dropped(struct shard *s, const struct pending *h)
{
    struct err e = {0};
    struct shard_request q = {h->peer, h->type, h->id, &h->m, NULL, h->kept, false, 0};
    const struct shard_table *t = tables_find(s, h->m.push.table, &e);
    assert(h->type == MSG_PUSH);
    if (t != NULL)
        err_set(&e, TUG_EUSAGE,
                "batch %llu of table '%s' was dropped: the table was cleared, loaded or "
                "copied into, or its clock was set",
                (unsigned long long)h->m.push.clock, t->spec.config.name);
    shard_refuse(s, &q, &e);
}

static void refuse_late(struct shard *s, const struct pending *h)
{
    struct err e = {0};
    struct shard_request q = {h->peer, h->type, h->id, &h->m, NULL, h->kept, false, 0};
    struct buf whom = BUF_INIT(ERR_TEXT_MAX);
    const struct shard_table *t = NULL;
    unsigned long long seconds = (s->now - h->since) / SECOND_NS;
    struct request_fields f = {.table = SPEC_MAX_TABLES};
    if (h->wants == WANTS_DRAIN) {
        err_because(&e, TUG_EIO, REASON_NO_ROOM, 0,
                    "no room now for an answer of %llu bytes: it has waited %llu s for "
                    "clients to read earlier answers",
                    (unsigned long long)h->room, seconds);
        shard_refuse(s, &q, &e);
        return;
    }
    request_fields(h->type, &h->m, &f);
    if (h->wants != WANTS_ROSTER)
        t = tables_find(s, f.table, &e);
    if (t == NULL) {
        err_set(&e, TUG_EIO, "%s has not come for %llu s",
                h->wants == WANTS_ROSTER ? "the scheduler's newer placement"
                : h->wants == WANTS_MEMBER
                    ? "an acknowledgement of replicas that are behind"
                    : "the end of an earlier save",
                seconds);
    } else {
        const struct err *why = name_missing(s, t, h, f.clock, &whom);
        const char *names = buf_str(&whom);
        err_because(&e, TUG_EIO, why != NULL ? why->reason : REASON_NONE,
                    why != NULL ? why->about : 0,
                    "%s of table '%s' at clock %llu has waited %llu s for %s",
                    h->type == MSG_TABLE_DO ? "the operation" : wire_name(h->type),
                    t->spec.config.name, (unsigned long long)f.clock, seconds,
                    names != NULL ? names : "others");
    }
    buf_free(&whom);
    shard_refuse(s, &q, &e);
}

// Applies a push that was acknowledged before it was applied (tests only:
// ACKNOWLEDGE_BEFORE_APPLY).
static void serve_later(struct shard *s, const struct pending *h)
{
    struct shard_request q = {h->peer, h->type, h->id, &h->m, NULL, h->kept, true, 0};
    shard_serve_request(s, &q);
}

// Answers requests whose deadline has passed. It walks over the list only when a deadline
// is due, as many requests may wait while others are served.
uint64_t pending_expire(struct shard *s)
{
    uint64_t next = VAN_NEVER;
    if (s->now < s->pending_due)
        return s->pending_due;
    for (struct pending **at = &s->held; *at != NULL;) {
        if ((*at)->dropped || (*at)->deadline <= s->now || waits_in_vain(s, *at)) {
            if ((*at)->wants == WANTS_LATER)
                serve_later(s, *at);
            else if ((*at)->dropped)
                refuse_dropped(s, *at);
            else
                refuse_late(s, *at);
            shard_answered(s, (*at)->type, (*at)->since);
            pending_take(s, at);
            continue;
        }
        if ((*at)->deadline < next)
            next = (*at)->deadline;
        at = &(*at)->next;
    }
    s->pending_due = next;
    return next;
}

void pending_wake(struct shard *s, enum outcome wants)
{
    s->woken |= 1u << wants;
}
