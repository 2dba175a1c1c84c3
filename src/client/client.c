// Opens and closes a client, handles the van's events, and does its timed work.
//
// SPDX-License-Identifier: Apache-2.0
#include "client/client.h"

#include <assert.h>

#include "base/alloc.h"
#include "client/private.h"

static void on_roster(void *ctx, const struct roster *r, uint64_t now)
{
    struct client *c = ctx;
    if (r->epoch == 0)
        return;
    if (r->epoch == c->epoch) {
        slice_let_all_dead_be(c);
        return;
    }
    c->stale = placement_update(c) != 0;
    c->next_due = now;
    if (!c->stale)
        slice_replace_all(c, now);
}

static void on_view(void *ctx, const struct msg_view *m)
{
    struct client *c = ctx;
    c->o.view(c->o.view_ctx, m);
}

int client_open(struct client **ret, const struct client_options *o, struct err *e)
{
    struct client *c = mem_zalloc(sizeof(*c));
    if (c == NULL)
        return err_nomem(e, "a client");
    c->o = *o;
    if (c->o.connect_timeout_ns == 0)
        c->o.connect_timeout_ns = 10000 * MS;
    if (c->o.request_timeout_ns == 0)
        c->o.request_timeout_ns = CLIENT_TIMEOUT_NS;
    if (c->o.admin_timeout_ns == 0)
        c->o.admin_timeout_ns = 3600000 * MS;
    c->main.pushes = NUMBERS_OF_PUSHES;
    c->admins = (struct numbers){.next = 1, .low = 1, .window = ADMIN_WINDOW};
    c->next_due = VAN_NEVER;
    c->packed = BUF_INIT(WIRE_SPAN_MAX);
    c->side = (struct session_side){
        .resend_ns = c->o.resend_ns,
        .greet_ns = c->o.connect_timeout_ns,
        .ping_ns = bug_in(o->member.bugs, WITHOUT_SILENCE_WATCH) ? 0 : SILENCE_NS,
        .retry_ns = 10 * MS,
        .retry_max_ns = 1000 * MS,
    };
    struct member_options m = o->member;
    m.changed = on_roster;
    m.view = o->view != NULL ? on_view : NULL;
    m.forget = NULL;
    m.ctx = c;
    int rc = member_open(&c->member, &m, e);
    if (rc != 0) {
        client_close(c);
        return rc;
    }
    *ret = c;
    return 0;
}

void client_close(struct client *c)
{
    if (c == NULL)
        return;
    member_close(c->member);
    memory_free(c);
    lanes_free(c);
    placement_free(c);
    peers_free(c);
    buf_free(&c->packed);
    for (size_t i = 0; i < c->n_tables; i++)
        mem_free(c->tables[i]);
    for (size_t i = 0; i < c->n_former; i++)
        mem_free(c->former[i]);
    mem_free(c->tables);
    mem_free(c->former);
    mem_free(c);
}

void client_serve(struct client *c, struct van *v, uint64_t now)
{
    assert(c->van == NULL && v != NULL);
    c->van = c->side.van = v;
    c->side.who = member_who(c->member);
    member_serve(c->member, v, now);
}

struct member *client_member(struct client *c)
{
    return c->member;
}

struct client_stats client_stats(const struct client *c)
{
    return c->stats;
}

// ---------------------------------------------------------------- handlers of the van

static void client_on_opened(void *ctx, van_link link, bool accepted, uint64_t now)
{
    struct client *c = ctx;
    if (!member_opened(c->member, link, accepted, now))
        peers_opened(c, link, now);
    client_check(c);
}

static void client_on_closed(void *ctx, van_link link, const struct err *why,
                             uint64_t now)
{
    struct client *c = ctx;
    if (!member_closed(c->member, link, why, now))
        peers_closed(c, link, why, now);
    client_check(c);
}

// Returns the slice that an answer belongs to; NULL if there is none, or the answer did
// not come over the link of a greeted server.
static struct slice *slice_asked(struct client *c, van_link link, uint64_t request)
{
    struct slice *s = slice_find(c, request);
    bool asked = s != NULL && s->peer->s.link == link && s->peer->s.state == SESSION_OPEN;
    return asked ? s : NULL;
}

static void *on_place(void *ctx, van_link link, uint16_t type, uint64_t request,
                      const union wire_any *head, uint64_t body_bytes)
{
    struct client *c = ctx;
    struct slice *s = slice_asked(c, link, request);
    if (s == NULL)
        return NULL;
    return rows_place(s, type, head, body_bytes);
}

static void from_server(struct client *c, van_link link, struct van_message *m,
                        uint64_t now)
{
    struct slice *s = slice_asked(c, link, m->request);
    if (s != NULL)
        slice_take_answer(s, m, now);
    else
        peers_message(c, link, m, now);
    request_advance(c, now);
}

static void client_on_message(void *ctx, van_link link, struct van_message *m,
                              uint64_t now)
{
    struct client *c = ctx;
    if (!member_message(c->member, link, m, now))
        from_server(c, link, m, now);
    client_check(c);
}

int client_ended(const struct client *c, struct err *e)
{
    struct err why;
    if (!member_ended(c->member, &why))
        return 0;
    if (why.code == 0)
        return err_set(e, TUG_EIO, "the cluster has ended");
    return err_set(e, why.code, "the cluster has ended: %s", why.text);
}

static void check_end(struct client *c)
{
    struct err e;
    if (!c->over && client_ended(c, &e) != 0)
        client_abandon(c, &e);
}

void client_abandon(struct client *c, const struct err *why)
{
    if (c->over) // the reason of the first call is kept
        return;
    c->over = true;
    c->end = *why;
    request_end_all(c, why);
}

static void look_at_peers(struct client *c, uint64_t now)
{
    uint64_t next = VAN_NEVER;
    c->next_due = VAN_NEVER; // lowered by the checks below
    for (size_t i = 0; i < c->n_peers; i++)
        next = min_u64(next, peer_tick(c->peers[i], now));
    c->next_due = min_u64(c->next_due, next);
}

static uint64_t client_on_tick(void *ctx, uint64_t now)
{
    struct client *c = ctx;
    uint64_t next = member_tick(c->member, now);
    check_end(c);
    if (c->stale)
        on_roster(c, member_roster(c->member), now);
    uint64_t late = request_check_deadlines(c, now);
    uint64_t hold = hold_tick(c, now);
    request_advance(c, now);
    if (c->next_due <= now && !c->over)
        look_at_peers(c, now);
    request_flush(c);
    client_check(c);
    if (c->stale)
        next = min_u64(next, now + 100 * MS);
    if (c->over) // a client that is over has no timed work
        return min_u64(next, late);
    next = min_u64(next, hold);
    return min_u64(min_u64(next, late), c->next_due);
}

struct van_handler client_handler(struct client *c)
{
    return (struct van_handler){
        .ctx = c,
        .opened = client_on_opened,
        .message = client_on_message,
        .place = on_place,
        .closed = client_on_closed,
        .tick = client_on_tick,
    };
}
