// The member's link to the scheduler: connects, joins, keeps the roster and learns of the
// end. member_ask.c sends the member's requests to the scheduler; member_greet.c checks
// greetings between members.
//
// SPDX-License-Identifier: Apache-2.0
#include "cluster/member.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/printable.h"
#include "cluster/member_internal.h"

enum { DEFAULT_RESEND_NS = 2000000000 };

static int keep_text(char *to, size_t cap, const char *what, const char *text,
                     struct err *e)
{
    if (text == NULL)
        text = "";
    int n = snprintf(to, cap, "%s", text);
    if (n >= 0 && (size_t)n < cap)
        return 0;
    return err_set(e, TUG_EUSAGE, "%s '%.40s...' is too long: at most %zu bytes", what,
                   text, cap - 1);
}

int member_open(struct member **ret, const struct member_options *o, struct err *e)
{
    assert(o->role >= WIRE_SCHEDULER && o->role <= WIRE_DRIVER);
    struct member *m = mem_zalloc(sizeof(*m));
    if (m == NULL)
        return err_nomem(e, "a member");
    m->o = *o;
    if (m->o.resend_ns == 0)
        m->o.resend_ns = DEFAULT_RESEND_NS;
    m->last_request = REQUEST_FIRST;
    m->who = (struct session_who){.cluster = o->cluster, .role = o->role};
    m->side = (struct session_side){
        .who = &m->who,
        .resend_ns = m->o.resend_ns,
        .greet_ns = bug_in(o->bugs, WITHOUT_REDIAL) ? 0 : MEMBER_GREET_NS,
        .ping_ns = MEMBER_SILENCE_NS / 2,
        .silence_ns = bug_in(o->bugs, WITHOUT_REDIAL) ? 0 : MEMBER_SILENCE_NS,
        .retry_ns = m->o.resend_ns / 4,
        .retry_max_ns = m->o.resend_ns / 4,
        .any_sign = bug_in(o->bugs, WITHOUT_ANSWERS),
    };
    m->s = (struct session){.side = &m->side, .role = WIRE_SCHEDULER};
    int rc = keep_text(m->scheduler, sizeof(m->scheduler), "the scheduler's address",
                       o->scheduler, e);
    if (rc == 0)
        rc = member_set_address(m, o->address, e);
    if (rc == 0)
        rc = keep_text(m->zone, sizeof(m->zone), "--zone", o->zone, e);
    if (rc != 0) {
        member_close(m);
        return rc;
    }
    // The host name is used only in messages, so a long name is cut.
    snprintf(m->host, sizeof(m->host), "%s", o->host != NULL ? o->host : "");
    printable_make(m->host);
    *ret = m;
    return 0;
}

int member_set_address(struct member *m, const char *address, struct err *e)
{
    // The address must be set before the van, because JOIN contains the address.
    assert(m->side.van == NULL);
    return keep_text(m->address, sizeof(m->address), "the address", address, e);
}

void member_close(struct member *m)
{
    if (m == NULL)
        return;
    member_asks_free(m);
    roster_free(&m->roster);
    mem_free(m);
}

void member_send(struct member *m, uint16_t type, uint64_t request, const void *msg)
{
    assert(m->s.link != 0);
    // If sending fails, the message is sent again later, or the link closes.
    (void)van_send(m->side.van, m->s.link, type, request, msg, NULL);
}

void member_tell(struct member *m, uint16_t type, const void *msg)
{
    if (member_is_here(m))
        member_send(m, type, 0, msg);
}

static void member_end(struct member *m, int code, const char *why)
{
    if (m->ended)
        return;
    m->ended = true;
    m->why.code = code;
    snprintf(m->why.text, sizeof(m->why.text), "%s", why);
    member_asks_end(m);
}

// Closes the link for good.
static void part(struct member *m)
{
    session_end(&m->s);
    m->left |= m->leaving;
}

// Ends the member because the scheduler cannot be reached.
static void give_up(struct member *m, const char *why)
{
    char text[ERR_TEXT_MAX];
    snprintf(text, sizeof(text),
             "the scheduler at %s could not be reached for %llu s%s%s", m->scheduler,
             (unsigned long long)(m->o.scheduler_timeout_ns / SECOND_NS),
             why[0] != 0 ? ": " : "", why);
    part(m);
    member_end(m, TUG_EIO, text);
}

// Connects to the scheduler. An attempt may hang even after its socket is connected; it
// is then given up after MEMBER_TRY_NS and replaced.
static void dial(struct member *m, uint64_t now)
{
    uint64_t until = m->lost_at + m->o.scheduler_timeout_ns;
    uint64_t left = until > now ? until - now : 1;
    m->here = 0;
    (void)session_dial(&m->s, m->scheduler, clock_earlier(left, MEMBER_TRY_NS), now);
}

void member_serve(struct member *m, struct van *v, uint64_t now)
{
    assert(v != NULL);
    m->side.van = v;
    m->lost_at = now;
    dial(m, now);
    member_check(m, now);
}

// Takes over the newest generation that any member of the process knows, or publishes
// this member's own generation if it is newer.
static void share_generation(struct member *m)
{
    uint64_t all = m->o.generation != NULL ? atomic_load(m->o.generation) : 0;
    if (all > m->who.generation)
        m->who.generation = all;
    while (m->o.generation != NULL && all < m->who.generation &&
           !atomic_compare_exchange_weak(m->o.generation, &all, m->who.generation))
        ;
}

// If a newer scheduler has replaced the scheduler at the other end of the link: tells the
// old scheduler, because it may not know, and closes the link.
static void leave_replaced(struct member *m, uint64_t now)
{
    struct err why;
    bool was_here = member_is_here(m);
    if (m->s.state != SESSION_OPEN || m->ended || !member_is_behind(m))
        return;
    session_greet(m->side.van, m->s.link, &m->who);
    err_set(&why, TUG_EIO,
            "generation %llu of the scheduler is still there, but generation %llu has "
            "replaced it",
            (unsigned long long)m->s.generation, (unsigned long long)m->who.generation);
    session_break(&m->s, &why, now);
    if (was_here)
        m->lost_at = now;
}

void member_heard_of(struct member *m, uint64_t generation, uint64_t now)
{
    if (generation > m->who.generation)
        m->who.generation = generation;
    share_generation(m);
    leave_replaced(m, now);
    member_check(m, now);
}

static void member_join(struct member *m, uint64_t now)
{
    struct msg_join msg = {
        .role = (uint8_t)m->o.role,
        .tables = (uint8_t)m->o.tables,
        .ticket = m->o.ticket,
        .process = m->o.process,
        .loop = m->o.loop,
        .loops = m->o.loops,
        .pid = m->o.pid,
        .host = wire_text(m->host),
        .zone = wire_text(m->zone),
        .address = wire_text(m->address),
        .wish = m->o.wish,
        .late = m->o.late,
        .fixed = m->o.fixed,
        .node = bug_in(m->o.bugs, WITHOUT_IDENTITY) ? 0 : m->who.id,
        .session = bug_in(m->o.bugs, WITHOUT_IDENTITY) ? 0 : m->who.number,
        .pass = bug_in(m->o.bugs, WITHOUT_TOLD_PIECES) ? 0 : m->leased_pass,
        .piece = m->leased_piece,
    };
    m->s.asked_at = now; // JOIN also asks for a sign of life, so no PING is sent until
                         // JOIN is answered or overdue
    member_send(m, MSG_JOIN, REQUEST_JOIN, &msg);
}

bool member_opened(struct member *m, van_link link, bool accepted, uint64_t now)
{
    bool mine = !accepted && session_opened(&m->s, link, now);
    member_check(m, now);
    return mine;
}

bool member_closed(struct member *m, van_link link, const struct err *why, uint64_t now)
{
    bool was_here = member_is_here(m);
    if (!session_closed(&m->s, link, why, now))
        return false;
    if (was_here)
        m->lost_at = m->s.due = now;
    if (m->ended) { // a member that has ended does not connect again
        part(m);
    } else if (why->code == TUG_EDATA || why->code == TUG_EUSAGE) {
        m->s.due = VAN_NEVER;
        member_end(m, why->code, why->text);
    } else if (now >= m->lost_at + m->o.scheduler_timeout_ns) {
        give_up(m, why->text);
    }
    member_check(m, now);
    return true;
}

// Returns whether the scheduler has given this node a different id, session or rank than
// before. A node with a different id would not own the partitions whose rows it has.
static bool is_somebody_else(const struct member *m, const struct msg_joined *msg)
{
    return m->who.id != 0 && !bug_in(m->o.bugs, WITHOUT_IDENTITY) &&
           (msg->node != m->who.id || msg->session != m->who.number ||
            msg->rank != m->rank);
}

static bool keep_secret(uint8_t to[MAC_BYTES], struct wire_text from)
{
    if (from.n != MAC_BYTES)
        return false;
    memcpy(to, from.data, MAC_BYTES);
    return true;
}

static void joined(struct member *m, const struct msg_joined *msg, uint64_t now)
{
    if (member_is_here(m) || msg->node == 0 || msg->session == 0 ||
        msg->generation != m->s.generation)
        return;
    if (is_somebody_else(m, msg)) {
        char why[ERR_TEXT_MAX];
        snprintf(why, sizeof(why),
                 "the scheduler at %s gives node %u the number %u, so it is not the "
                 "scheduler that the node joined; start the whole cluster again",
                 m->scheduler, m->who.id, msg->node);
        part(m);
        member_end(m, TUG_EIO, why);
        return;
    }
    m->here = m->s.link;
    m->who.id = msg->node;
    m->who.number = msg->session;
    m->rank = msg->rank;
    m->who.has_secret = keep_secret(m->who.secret, msg->secret);
    m->has_key = keep_secret(m->key, msg->key);
    if (msg->generation > m->who.generation)
        m->who.generation = msg->generation;
    share_generation(m);
    leave_replaced(m, now); // another member of the process may know a newer scheduler
    if (!member_is_here(m))
        return;
    member_resend(m, now, true);
}

static void ask_roster(struct member *m, uint64_t request)
{
    struct msg_roster_wanted msg = {.version = m->roster.version,
                                    .generation = m->roster.generation};
    member_send(m, MSG_ROSTER_WANTED, request, &msg);
}

// Returns whether a roster is newer than the member's. Versions of rosters from two
// schedulers that run at the same time cannot be compared.
static bool is_newer(const struct member *m, const struct msg_roster *msg)
{
    const struct roster *had = &m->roster;
    if (msg->generation == had->generation || bug_in(m->o.bugs, WITHOUT_GENERATION))
        return msg->version > had->version;
    return msg->generation > had->generation;
}

// Takes a roster and acknowledges it; the scheduler repeats each roster until it is
// acknowledged. A roster that overtook JOINED is ignored: a node that does not know its
// own id yet cannot tell which partitions it owns, and the member takes over a
// scheduler's generation only with JOINED.
static void new_roster(struct member *m, const struct msg_roster *msg, uint64_t now)
{
    if (m->who.id == 0 || msg->generation != m->s.generation ||
        msg->generation > m->who.generation)
        return;
    if (is_newer(m, msg)) {
        struct roster r;
        struct err e = {0};
        int rc = roster_decode(&r, msg, &e);
        if (rc == TUG_ENOMEM)
            return; // the scheduler repeats the message
        if (rc == 0 && (rc = roster_check_next(&m->roster, &r, &e)) != 0)
            roster_free(&r);
        if (rc != 0) {
            member_end(m, rc, e.text);
            return;
        }
        roster_free(&m->roster);
        m->roster = r;
        if (m->o.changed != NULL)
            m->o.changed(m->o.ctx, &m->roster, now);
    }
    ask_roster(m, 0);
}

static void barrier_state(struct member *m, const struct msg_barrier_state *msg)
{
    if (msg->group >= MEMBER_GROUPS)
        return;
    struct member_barrier *b = &m->barriers[msg->group];
    bool collects = msg->group == WIRE_GROUP_WORKERS && m->collective.ask.request != 0;
    if (msg->number != b->asked || collects)
        return;
    if (msg->done)
        b->done = b->asked;
    wire_words(msg->missing, b->missing, sizeof(b->missing));
}

// Takes STOP. A node that has not joined closes its link at once, because it does not have to
// leave.
static void stop(struct member *m, const struct msg_stop *msg)
{
    char text[ERR_TEXT_MAX];
    int code = wire_code(msg->code);
    if (m->who.id == 0)
        part(m);
    if (!m->ended) {
        m->why.reason = REASON_RUN_ENDED;
        m->why.about = wire_known_reason(msg->reason);
    }
    member_end(m, code,
               (code != 0 ? wire_reason : wire_words)(msg->why, text, sizeof(text)));
}

// Ends a member that the scheduler refused, before or after it joined. A member that was
// leaving counts as having left.
static void member_refused(struct member *m, const struct err *why)
{
    part(m);
    if (!m->left)
        member_end(m, why->code, why->text);
}

static void heard(struct member *m, const struct van_message *msg, uint64_t now)
{
    struct err why;
    switch (msg->type) {
    case MSG_JOINED:
        joined(m, &msg->m->joined, now);
        break;
    case MSG_ROSTER:
        new_roster(m, &msg->m->roster, now);
        break;
    case MSG_BARRIER_STATE:
        barrier_state(m, &msg->m->barrier_state);
        break;
    case MSG_COLLECTED:
        member_collect_answered(m, &msg->m->collected);
        break;
    case MSG_STOP:
        stop(m, &msg->m->stop);
        break;
    case MSG_FORGET:
        if (m->o.forget != NULL && msg->m->forget.generation == m->s.generation)
            m->o.forget(m->o.ctx, &msg->m->forget);
        break;
    case MSG_VIEW:
        if (m->o.view != NULL)
            m->o.view(m->o.ctx, &msg->m->view);
        break;
    case MSG_PING:
        member_send(m, MSG_OK, msg->request, &(struct msg_ok){0});
        break;
    case MSG_ERROR:
        if (msg->request < REQUEST_FIRST && msg->request != REQUEST_LEAVE) {
            wire_refusal(&msg->m->error, NULL, &why);
            member_refused(m, &why);
            break;
        }
        member_answered(m, msg);
        break;
    default:
        member_answered(m, msg);
        break;
    }
}

bool member_message(struct member *m, van_link link, const struct van_message *msg,
                    uint64_t now)
{
    switch (session_message(&m->s, link, msg, now)) {
    case SESSION_NOT_ITS:
        return false;
    case SESSION_NOTHING:
        break;
    case SESSION_GREETED:
        leave_replaced(m, now);
        if (m->s.state == SESSION_OPEN)
            member_join(m, now);
        break;
    case SESSION_REFUSED:
        if (session_may_retry(&m->s, m->scheduler))
            m->s.due = now;
        else
            member_refused(m, &m->s.why);
        break;
    case SESSION_MESSAGE:
        heard(m, msg, now);
        break;
    }
    member_check(m, now);
    return true;
}

static uint64_t want_roster(struct member *m, uint64_t now)
{
    if (m->wanted_epoch <= m->roster.epoch)
        return VAN_NEVER;
    if (now >= m->wanted_at + m->o.resend_ns) {
        m->wanted_at = now;
        ask_roster(m, REQUEST_ROSTER);
    }
    return m->wanted_at + m->o.resend_ns;
}

// Does the timed work. A dead link may stay open without any error. So after some silence
// the member asks the scheduler for a sign of life, and then replaces the link. Only
// after scheduler_timeout_ns does the member give up.
static uint64_t tick(struct member *m, uint64_t now)
{
    bool here = member_is_here(m);
    uint64_t over = (here ? m->s.heard_at : m->lost_at) + m->o.scheduler_timeout_ns;
    if (m->s.state == SESSION_CLOSED && m->s.due == VAN_NEVER)
        return VAN_NEVER;
    if (now >= over) {
        give_up(m, "it does not answer");
        return VAN_NEVER;
    }
    if (m->s.state == SESSION_CLOSED && now >= m->s.due)
        dial(m, now);
    bool joins = m->s.state == SESSION_OPEN && !here;
    if (joins && now >= m->s.asked_at + m->o.resend_ns)
        member_join(m, now);
    uint64_t next = clock_earlier(over, session_tick(&m->s, now));
    if (here && m->s.state == SESSION_CLOSED)
        m->lost_at = m->s.heard_at;
    if (joins)
        return clock_earlier(next, m->s.asked_at + m->o.resend_ns);
    if (m->s.state != SESSION_OPEN)
        return next;
    return clock_earlier(clock_earlier(next, want_roster(m, now)),
                         member_resend(m, now, false));
}

// If this process was stopped or swapped out, counts the scheduler's silence from now on,
// because a process that does not run receives nothing. The scheduler then tells this
// member whether it was declared dead.
static void forgive_silence(struct member *m, uint64_t now)
{
    if (m->due == 0 || m->due >= now || now - m->due < m->o.scheduler_timeout_ns / 4)
        return;
    m->lost_at = now;
    if (m->s.state != SESSION_CLOSED)
        m->s.heard_at = now;
}

uint64_t member_tick(struct member *m, uint64_t now)
{
    if (m->left) // a node that has left ignores all messages
        member_asks_end(m);
    if (m->side.van == NULL || m->left)
        return VAN_NEVER;
    forgive_silence(m, now);
    share_generation(m);
    leave_replaced(m, now);
    uint64_t next = tick(m, now);
    // The member runs often enough to notice that it was stopped: see forgive_silence.
    m->due = m->ended ? 0 : clock_earlier(next, now + m->o.scheduler_timeout_ns / 8);
    member_check(m, now);
    return m->due != 0 ? m->due : next;
}

uint32_t member_id(const struct member *m)
{
    return m->who.id;
}

uint64_t member_session(const struct member *m)
{
    return m->who.number;
}

uint32_t member_rank(const struct member *m)
{
    return m->rank;
}

const struct roster *member_roster(const struct member *m)
{
    return &m->roster;
}

bool member_ready(const struct member *m)
{
    return m->who.id != 0 && m->roster.epoch != 0;
}

const char *member_waits_for(const struct member *m)
{
    if (m->s.state <= SESSION_DIALLING)
        return "cannot be reached (is it running, and is this its address?)";
    if (m->who.id == 0)
        return "has not admitted this node";
    return m->roster.epoch == 0 ? "still waits for servers or workers"
                                : "has not said what is missing";
}

bool member_ended(const struct member *m, struct err *ret_why)
{
    if (m->ended && ret_why != NULL)
        *ret_why = m->why;
    return m->ended;
}

int member_over(const struct member *m, struct err *e)
{
    if (m->ended && m->why.code == 0)
        return err_because(e, TUG_EIO, REASON_RUN_ENDED, 0, "the cluster has ended");
    return m->ended ? err_copy(e, &m->why) : 0;
}

void member_want_roster(struct member *m, uint64_t epoch)
{
    if (epoch <= m->roster.epoch || epoch <= m->wanted_epoch)
        return;
    m->wanted_epoch = epoch;
    if (member_is_here(m)) {
        m->wanted_at = van_now(m->side.van);
        ask_roster(m, REQUEST_ROSTER);
    }
}
