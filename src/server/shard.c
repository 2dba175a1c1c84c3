// A shard's links and peers, its roster, and the dispatch of messages.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/shard.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "server/background.h"
#include "server/clocks/pending.h"
#include "server/clocks/sync_sum.h"
#include "server/profile/profiling.h"
#include "server/request_fields.h"
#include "server/room.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"

enum {
    QUESTION_BYTES = 64 << 10
};                                // room that an answer about a process or table is
                                  // assumed to need; most answers fit
#define GREET_NS (20 * SECOND_NS) // time limit for HELLO after a link has opened
#define IDLE_NS (300 * SECOND_NS) // silence after which the link of a tool is closed
#define IDLE_LOOK_NS (60 * SECOND_NS)

static struct shard_peer **bucket(struct shard *s, van_link link)
{
    return &s->peers[link % PEER_BUCKETS];
}

static struct shard_peer *peer_find(struct shard *s, van_link link)
{
    struct shard_peer *p = *bucket(s, link);
    while (p != NULL && p->link != link)
        p = p->next;
    return p;
}

static void peer_free(struct shard *s, struct shard_peer *p)
{
    struct shard_peer **at = bucket(s, p->link);
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    pending_drop_peer(s, p);
    chain_drop_link(s, p->link);
    assert(p->n_pending == 0 && p->n_draining == 0);
    assert(p->greeted || s->n_strangers > 0);
    s->n_strangers -= !p->greeted;
    key_lists_free(&p->lists);
    mem_free(p);
}

static void end_pushing(struct retries *applied, const struct roster *r)
{
    const struct sessions *pushing = retries_sessions(applied);
    for (size_t i = pushing->n; i-- > 0;)
        if (roster_session_over(r, sessions_at(pushing, i)))
            retries_end_session(applied, sessions_at(pushing, i));
}

// Ends the sessions of dead nodes, as the roster shows them.
static void end_sessions(struct shard *s, const struct roster *r)
{
    const struct sessions *ordering = &s->admin.sessions, *stepping = &s->steps.sessions;
    end_pushing(s->applied, r);
    for (uint32_t i = 0; i < s->n_tables; i++)
        if (s->tables[i] != NULL && s->tables[i]->applied != NULL)
            end_pushing(s->tables[i]->applied, r);
    for (size_t i = ordering->n; i-- > 0;)
        if (roster_session_over(r, sessions_at(ordering, i)))
            admin_end_session(&s->admin, sessions_at(ordering, i));
    for (size_t i = stepping->n; i-- > 0;)
        if (roster_session_over(r, sessions_at(stepping, i)))
            step_clock_end(&s->steps, sessions_at(stepping, i));
    for (size_t i = 0; i < PEER_BUCKETS; i++)
        for (struct shard_peer *p = s->peers[i]; p != NULL; p = p->next)
            p->ended = p->session != 0 && roster_session_over(r, p->session);
}

static int get_ready(struct shard *s, const struct roster *r)
{
    uint32_t bits = r->partition_bits;
    assert(s->n_tables == 0); // the number of partitions must be known before tables are
                              // made
    TRY(keys_scratch_init(&s->keys, bits));
    int rc = retries_open(&s->applied, bits, s->o.budget, NULL);
    if (rc == 0)
        rc = roles_open(&s->roles, r, member_id(s->member));
    if (rc == 0)
        rc = chain_open(s, r);
    if (rc != 0) {
        roles_close(&s->roles);
        retries_close(s->applied);
        s->applied = NULL;
        keys_scratch_fini(&s->keys);
        return rc;
    }
    s->bits = bits;
    s->ready = true;
    return 0;
}

static void roster_changed(void *ctx, const struct roster *r, uint64_t now)
{
    struct shard *s = ctx;
    s->now = now;
    // If memory is out, requests wait for the next roster, or for their deadlines.
    if (r->epoch == 0 || (!s->ready && get_ready(s, r) != 0))
        return;
    end_sessions(s, r);
    moves_follow(s, r);
    if (s->chain != NULL)
        chain_follow(s, r);
    roles_count(&s->roles, r, member_id(s->member));
    tables_own(s);
    tables_living(s);
    saves_follow(s);
    pending_wake(s, WANTS_ROSTER);
    pending_wake(s, WANTS_MOVE);
    // Parts of batches wait as well, if they were sent under older placements.
    pending_wake(s, WANTS_BATCH);
}

static void piece_forgotten(void *ctx, const struct msg_forget *m)
{
    struct shard *s = ctx;
    if (s->ready)
        retries_forget(s->applied, m->pass, m->piece);
    for (uint32_t i = 0; i < s->n_tables; i++)
        if (s->tables[i] != NULL && s->tables[i]->applied != NULL)
            retries_forget(s->tables[i]->applied, m->pass, m->piece);
}

static uint64_t session_of(const struct shard_request *q)
{
    struct request_fields f = {.session = q->peer->session};
    request_fields(q->type, q->m, &f);
    return f.session;
}

static bool refused_for_session(struct shard *s, const struct shard_request *q)
{
    const struct shard_peer *p = q->peer;
    struct err e;
    char name[ROSTER_NAME_MAX];
    if (bug_in(s->o.member.bugs, WITHOUT_SESSION_CHECK) ||
        (p->session != 0 && !p->ended && session_of(q) == p->session))
        return false;
    if (p->session == 0)
        err_set(&e, TUG_EUSAGE, "%s: join the cluster first", wire_name(q->type));
    else if (p->ended) // TUG_EIO, as for a lost link: after another code, the other
                       // workers' run would end
        err_set(&e, TUG_EIO,
                "%s was sent by %s, whose session has ended because it counted as dead",
                wire_name(q->type), shard_peer_name(s, p, name));
    else
        err_set(&e, TUG_EUSAGE,
                "%s of %s names session %llu, but the link belongs to session %llu",
                wire_name(q->type), shard_peer_name(s, p, name),
                (unsigned long long)session_of(q), (unsigned long long)p->session);
    shard_refuse(s, q, &e);
    return true;
}

static bool refused_for_flags(struct shard *s, const struct shard_request *q)
{
    struct err e;
    if (wire_check_flags(q->type, q->m, &e) == 0)
        return false;
    shard_refuse(s, q, &e);
    return true;
}

// Returns whether the caller must check for room for the answer to this type of request.
// Requests for rows check for room themselves.
static bool is_question(uint16_t type)
{
    switch (type) {
#define TO_QUESTION(NAME, name) case MSG_##NAME:
#include "wire/messages.def"
        return true;
    default:
        return false;
    }
}

static enum outcome shard_serve_one(struct shard *s, struct shard_request *q)
{
    switch (q->type) {
#define TO_SERVER(NAME, name)                                                            \
    case MSG_##NAME:                                                                     \
        return name##_serve(s, q);
#include "wire/messages.def"
    default:
        return ANSWERED; // is_request has refused all other types before
    }
}

// Serves a request of a shard whose partitions have replicas.
static enum outcome serve_with_replicas(struct shard *s, struct shard_request *q)
{
    enum outcome outcome = shard_serve_one(s, q);
    // The keys that the request was about are not valid any more.
    chain_is_about(s, ABOUT_NONE, WIRE_SPACE_SPARSE, NULL);
    return outcome;
}

// The size of the answer is not known yet, so QUESTION_BYTES must be free; or fewer, if
// an answer of QUESTION_BYTES could never be sent.
static enum outcome room_for_question(struct shard *s, struct shard_request *q)
{
    struct err never;
    uint64_t most = room_most(s);
    return room_for(s, q, most < QUESTION_BYTES ? most : QUESTION_BYTES, &never);
}

static enum outcome dispatch(struct shard *s, struct shard_request *q)
{
    enum outcome room = is_question(q->type) ? room_for_question(s, q) : GOES_ON;
    if (room != GOES_ON)
        return room;
    // these requests concern the process and need no placement
    if (q->type == MSG_STATUS || q->type == MSG_PROFILE)
        return shard_serve_one(s, q);
    if (refused_for_session(s, q) || refused_for_flags(s, q))
        return ANSWERED;
    if (!s->ready)
        return WANTS_ROSTER;
    if (__builtin_expect(s->chain != NULL, false))
        return serve_with_replicas(s, q);
    return shard_serve_one(s, q);
}

enum outcome shard_serve_request(struct shard *s, struct shard_request *q)
{
    if (__builtin_expect(!s->profiling, true) || q->type == MSG_PROFILE)
        return dispatch(s, q);
    struct wire_event event;
    profiling_begin(s, q, &event);
    enum outcome outcome = dispatch(s, q);
    profiling_end(s, &event);
    return outcome;
}

static bool is_request(uint16_t type)
{
    switch (type) {
#define TO_SERVER(NAME, name) case MSG_##NAME:
#include "wire/messages.def"
        return true;
    default:
        return false;
    }
}

// Refuses a message that the role of the peer may not send. Returns whether it has
// refused the message.
static bool refused_for_role(struct shard *s, struct shard_peer *p,
                             const struct van_message *m)
{
    struct err e = {0};
    struct shard_request q = {.peer = p, .type = m->type, .id = m->request, .m = m->m};
    if (wire_may(m->type, p->role))
        return false;
    wire_may_not(m->type, p->role, &e);
    shard_refuse(s, &q, &e);
    return true;
}

static void serve_fresh(struct shard *s, struct shard_peer *p, struct van_message *m)
{
    struct err e = {0};
    struct shard_request q = {
        .peer = p, .type = m->type, .id = m->request, .m = m->m, .fresh = m};
    assert(p->greeted && is_request(m->type));
    if (refused_for_role(s, p, m))
        return;
    if (m->type != MSG_MOVE_WANTED) // a source of moves is not busy for that
        s->served_at = s->now;
    enum outcome outcome = shard_serve_request(s, &q);
    if (outcome != ANSWERED) {
        if (pending_add(s, &q, outcome, &e) == 0)
            return;
        shard_refuse(s, &q, &e);
    }
    shard_answered(s, q.type, s->now);
}

static void on_refused(void *ctx, const struct err *why, uint64_t now)
{
    struct shard *s = ctx;
    char line[ERR_TEXT_MAX];
    s->now = now;
    if (s->o.log != NULL && refusals_note(&s->refusals, why, now, line))
        s->o.log(s->o.log_ctx, line);
}

// Handles HELLO, which must be the first message of a link. HELLO may arrive again
// if the answer was lost.
static void greet(struct shard *s, struct shard_peer *p, const struct van_message *m)
{
    uint32_t node;
    uint64_t session;
    char from[VAN_ADDRESS_MAX];
    struct err e = {0};
    snprintf(from, sizeof(from), "%s", van_peer(s->van, p->link));
    if (member_greeted(s->member, p->link, m, &node, &session, &e) != 0) {
        err_wrap(&e, "%s", from);
        on_refused(s, &e, s->now);
        peer_free(s, p); // the peer was told why, and the link is closed
        return;
    }
    if (p->greeted && (p->node != node || p->session != session)) {
        van_close_link(s->van, p->link); // a link belongs to one node
        peer_free(s, p);
        return;
    }
    s->n_strangers -= !p->greeted;
    p->greeted = true;
    p->role = van_trust(s->van, p->link).role;
    p->node = node;
    p->session = session;
    if (session != 0)
        van_joined(s->van, p->link);
    else
        s->idle_look = clock_earlier(s->idle_look, s->now + IDLE_LOOK_NS);
}

static void serve_message(struct shard *s, struct shard_peer *p, struct van_message *m)
{
    struct err e = {0};
    struct shard_request q = {.peer = p, .type = m->type, .id = m->request, .m = m->m};
    p->heard = s->now;
    if (!p->greeted || m->type == MSG_HELLO)
        greet(s, p, m);
    else if (m->type == MSG_PING)
        shard_ok(s, &q, 0);
    else if (is_request(m->type))
        serve_fresh(s, p, m);
    else if (m->type == MSG_APP &&
             (refused_for_role(s, p, m) || refused_for_flags(s, &q) ||
              (p->ended && refused_for_session(s, &q))))
        return;
    else if (m->type == MSG_APP && s->o.app != NULL)
        s->o.app(s->o.app_ctx, p->link, p->node, m);
    else if (m->request != 0) {
        err_set(&e, TUG_EUSAGE,
                "%s: a server's loop does not answer messages of this kind",
                wire_name(m->type));
        shard_refuse(s, &q, &e);
    }
}

// Called after each event: does what the event has made possible.
static void settle(struct shard *s)
{
    if (s->chain != NULL)
        chain_take(s);
    pending_settle(s);
    shard_check(s);
}

// ---------------------------------------------------------------- the calls of the van

static void shard_on_opened(void *ctx, van_link link, bool accepted, uint64_t now)
{
    struct shard *s = ctx;
    s->now = now;
    if (member_opened(s->member, link, accepted, now) ||
        (!accepted && moves_opened(s, link)) || !accepted)
        return;
    assert(peer_find(s, link) == NULL); // the van never uses a number twice
    struct shard_peer *p = mem_zalloc(sizeof(*p));
    if (p == NULL) {
        van_close_link(s->van, link);
        return;
    }
    p->link = link;
    p->lists.budget = s->o.budget;
    p->greet_by = now + GREET_NS;
    p->heard = now;
    p->next = *bucket(s, link);
    *bucket(s, link) = p;
    s->n_strangers++;
}

static void shard_on_message(void *ctx, van_link link, struct van_message *m,
                             uint64_t now)
{
    struct shard *s = ctx;
    s->now = now;
    bool taken = member_message(s->member, link, m, now) ||
                 (s->moves.sources != NULL && moves_message(s, link, m));
    if (!taken) {
        struct shard_peer *p = peer_find(s, link);
        if (p != NULL)
            serve_message(s, p, m);
    }
    settle(s);
}

static void shard_on_closed(void *ctx, van_link link, const struct err *why, uint64_t now)
{
    struct shard *s = ctx;
    s->now = now;
    if (!member_closed(s->member, link, why, now) && !moves_closed(s, link, why)) {
        struct shard_peer *p = peer_find(s, link);
        if (p != NULL)
            peer_free(s, p);
    }
    settle(s);
}

// Closes links that have not sent HELLO in time. Returns when to call it again.
static uint64_t close_strangers(struct shard *s)
{
    uint64_t next = VAN_NEVER;
    for (size_t i = 0; i < PEER_BUCKETS && s->n_strangers > 0; i++)
        for (struct shard_peer *p = s->peers[i], *behind; p != NULL; p = behind) {
            behind = p->next;
            if (p->greeted)
                continue;
            if (p->greet_by <= s->now) {
                van_close_link(s->van, p->link);
                peer_free(s, p);
            } else if (p->greet_by < next) {
                next = p->greet_by;
            }
        }
    return next;
}

// Closes links of tools that were silent for long; the scheduler watches members.
static uint64_t close_idle(struct shard *s)
{
    if (s->now < s->idle_look)
        return s->idle_look;
    s->idle_look = VAN_NEVER; // set again when a tool sends HELLO
    for (size_t i = 0; i < PEER_BUCKETS; i++)
        for (struct shard_peer *p = s->peers[i], *behind; p != NULL; p = behind) {
            behind = p->next;
            if (!p->greeted || p->session != 0)
                continue;
            s->idle_look = s->now + IDLE_LOOK_NS;
            if (s->now - p->heard < IDLE_NS || p->n_pending > 0)
                continue;
            van_close_link(s->van, p->link);
            peer_free(s, p);
        }
    return s->idle_look;
}

static uint64_t shard_on_tick(void *ctx, uint64_t now)
{
    struct shard *s = ctx;
    s->now = now;
    uint64_t next = member_tick(s->member, now);
    uint64_t strangers = clock_earlier(close_strangers(s), close_idle(s));
    uint64_t held = pending_expire(s);
    uint64_t saves = saves_expire(s);
    uint64_t work = clock_earlier(background_tick(s), room_look(s));
    work = clock_earlier(work, status_tick(s));
    if (!moves_idle(s))
        work = clock_earlier(work, moves_tick(s, now));
    settle(s);
    if (s->chain != NULL)
        work = clock_earlier(work, chain_tick(s));
    next = clock_earlier(clock_earlier(strangers, next), clock_earlier(held, saves));
    // work_due is read again here, because a request that was served just now may have
    // set it.
    return clock_earlier(next, clock_earlier(work, s->work_due));
}

float *shard_floats(struct shard *s, size_t n)
{
    if (n <= s->max_floats)
        return s->floats;
    float *floats = mem_array(n + n / 4, sizeof(*floats));
    if (floats == NULL)
        return NULL;
    mem_free(s->floats);
    s->floats = floats;
    s->max_floats = n + n / 4;
    return floats;
}

int shard_open(struct shard **ret, const struct shard_options *o, struct err *e)
{
    struct shard *s = mem_zalloc(sizeof(*s));
    *ret = NULL;
    if (s == NULL)
        return err_nomem(e, "a server's loop");
    s->o = *o;
    s->pending_end = &s->held;
    s->pending_due = s->idle_look = VAN_NEVER;
    s->work_due = VAN_NEVER;
    s->saves.marks.budget = o->budget;
    s->o.member.changed = roster_changed;
    s->o.member.forget = piece_forgotten;
    s->o.member.view = NULL;
    s->o.member.ctx = s;
    s->pool = pool_open(s->o.budget);
    int rc = s->pool != NULL ? 0 : err_nomem(e, "a server's answers");
    if (rc == 0)
        rc = member_open(&s->member, &s->o.member, e);
    if (rc != 0)
        shard_close(s);
    else
        *ret = s;
    return rc;
}

void shard_close(struct shard *s)
{
    if (s == NULL)
        return;
    for (size_t i = 0; i < PEER_BUCKETS; i++)
        while (s->peers[i] != NULL)
            peer_free(s, s->peers[i]);
    saves_close(s);
    chain_close(s);
    moves_close(s);
    tables_close(s);
    sync_scratch_free(s->sync);
    admin_fini(&s->admin);
    step_clock_fini(&s->steps);
    profile_free(&s->profile);
    buf_free(&s->status.json);
    retries_close(s->applied);
    roles_close(&s->roles);
    keys_scratch_fini(&s->keys);
    pool_close(s->pool);
    member_close(s->member);
    mem_free(s->strip);
    mem_free(s->floats);
    mem_free(s);
}

struct van_handler shard_handler(struct shard *s)
{
    return (struct van_handler){.ctx = s,
                                .opened = shard_on_opened,
                                .message = shard_on_message,
                                .closed = shard_on_closed,
                                .tick = shard_on_tick,
                                .refused = on_refused};
}

void shard_serve(struct shard *s, struct van *v, uint64_t now)
{
    s->van = v;
    s->now = now;
    member_serve(s->member, v, now);
}

struct member *shard_member(struct shard *s)
{
    return s->member;
}

bool shard_finished(const struct shard *s, struct err *ret_why)
{
    return member_ended(s->member, ret_why);
}
