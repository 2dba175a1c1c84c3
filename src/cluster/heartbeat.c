// The thread of heartbeats. It keeps trying for as long as the process runs: the members
// of the process decide what to do when the scheduler is silent.
//
// SPDX-License-Identifier: Apache-2.0
#include "cluster/heartbeat.h"

#include <pthread.h>

#include "base/alloc.h"
#include "cluster/session.h"
#include "os/log.h"

static const uint64_t poll_ns = 200000000; // the interval at which *asked is checked
#define MILLIS_NS (SECOND_NS / 1000)
#define LEAST_NS (20 * MILLIS_NS) // the shortest time between two heartbeats
// The request numbers of heartbeats and of MSG_MAY_LEAVE.
enum { BEAT_REQUEST = 1, LEAVE_REQUEST };

struct heartbeat {
    const struct node *node;
    struct session_who who;
    struct session_side side;
    struct session s;
    uint64_t every;    // time between two heartbeats, in nanoseconds
    uint64_t next;     // time at which the next heartbeat is due
    uint64_t heard_at; // time of the scheduler's last answer; 0: no answer yet
    uint64_t asked_at; // time at which a signal was first seen; 0: none yet
    uint64_t began_at; // time of the first attempt to connect; 0: none yet
    // `greeted`: the scheduler has sent WELCOME once. `told`: the user was told that the
    // process waits for the scheduler; `told_leave`: that it waits before it ends.
    bool greeted, told, told_leave;
    bool returns; // the scheduler keeps its state, so it can come back
    atomic_bool *lost;
    bool threaded;
    atomic_bool stop;
    pthread_t thread;
};

static void heartbeat_on_opened(void *ctx, van_link link, bool accepted, uint64_t now)
{
    struct heartbeat *h = ctx;
    (void)accepted;
    (void)session_opened(&h->s, link, now);
}

// Closes the link to a scheduler that a newer one has replaced. The members of this
// process have joined the newer scheduler, so the old one may take the process for dead.
static void leave_replaced(struct heartbeat *h, uint64_t now)
{
    struct err why;
    const struct node *n = h->node;
    if (h->s.state != SESSION_OPEN || n->generation == NULL ||
        h->s.generation >= atomic_load(n->generation))
        return;
    err_set(&why, TUG_EIO, "a newer scheduler has replaced it");
    session_break(&h->s, &why, now);
    h->next = now + h->every;
}

// The scheduler chooses the time between two heartbeats. A link is replaced after three of
// them without an answer.
static void set_pace(struct heartbeat *h, uint32_t every_ms)
{
    uint64_t every = every_ms * MILLIS_NS;
    h->every = every_ms == 0 || every > SECOND_NS ? SECOND_NS
               : every < LEAST_NS                 ? LEAST_NS
                                                  : every;
    h->side.greet_ns = h->side.silence_ns = HEARTBEAT_SILENCE_NS / SECOND_NS * h->every;
}

static void take_answer(struct heartbeat *h, const struct van_message *m, uint64_t now)
{
    h->heard_at = now > 0 ? now : 1;
    if (m->type == MSG_HEARTBEAT_OK) {
        h->returns = m->m->heartbeat_ok.returns != 0;
        set_pace(h, m->m->heartbeat_ok.every_ms);
        // The first heartbeat was sent before the pace was known, and the scheduler may wait
        // less than the usual second for the next one.
        h->next = clock_earlier(h->next, now + h->every);
    }
    if (m->type == MSG_HEARTBEAT_OK && !m->m->heartbeat_ok.known && h->lost != NULL)
        atomic_store(h->lost, true);
    if (m->type == MSG_OK && m->request == LEAVE_REQUEST && m->m->ok.value != 0 &&
        h->asked_at != 0)
        atomic_store(h->node->leave, true);
}

// Tells the members of this process of the scheduler's generation. A member that is idle
// would otherwise notice only by the silence of its link that a newer scheduler leads.
static void share_generation(const struct heartbeat *h)
{
    _Atomic uint64_t *of = h->node->generation;
    uint64_t all = of != NULL ? atomic_load(of) : 0;
    while (of != NULL && all < h->s.generation &&
           !atomic_compare_exchange_weak(of, &all, h->s.generation))
        ;
}

// Checks that the peer is the scheduler before heartbeats send it the process's number.
// Another process that has taken the scheduler's port is refused.
static void heartbeat_on_message(void *ctx, van_link link, struct van_message *m,
                                 uint64_t now)
{
    struct heartbeat *h = ctx;
    enum session_news news = session_message(&h->s, link, m, now);
    h->greeted |= news == SESSION_GREETED;
    if (news == SESSION_GREETED)
        share_generation(h);
    if (news == SESSION_GREETED)
        h->next = now;
    else if (news == SESSION_REFUSED)
        h->next = session_may_retry(&h->s, h->node->scheduler) ? now : now + h->every;
    leave_replaced(h, now);
    if (news == SESSION_MESSAGE && h->s.state == SESSION_OPEN)
        take_answer(h, m, now);
}

static void heartbeat_on_closed(void *ctx, van_link link, const struct err *why,
                                uint64_t now)
{
    struct heartbeat *h = ctx;
    bool was_open = h->s.state == SESSION_OPEN;
    // The heartbeat that was under way is lost with a broken link, so a new link is opened
    // before the next heartbeat would be due.
    if (session_closed(&h->s, link, why, now))
        h->next = now + (was_open ? h->every / 8 : h->every);
}

// Returns how long the scheduler must be silent before the process may end without its
// answer. A server has rows that no other process has. So it waits for a scheduler that can
// come back, for as long as its members do.
static uint64_t patience_of(const struct heartbeat *h)
{
    return h->returns && h->node->options.role == WIRE_SERVER
               ? clock_ns_of(node_scheduler_timeout(h->node))
               : HEARTBEAT_LEAVE_NS;
}

static void tell_leave(struct heartbeat *h)
{
    if (h->told_leave || !h->threaded)
        return;
    h->told_leave = true;
    log_warn(
        "this server was asked to end, but the scheduler at %s does not answer: waiting "
        "up to %.0f s for it, because the partitions of this server must first move to "
        "other servers",
        h->node->scheduler, node_scheduler_timeout(h->node));
}

// Asks the scheduler whether the process may end, once a signal has asked the process to end. Sets
// *n->leave if the scheduler has been silent for too long, so that the process ends without
// an answer.
static void look_at_signals(struct heartbeat *h, uint64_t now)
{
    const struct node *n = h->node;
    if (n->asked == NULL || !atomic_load(n->asked))
        return;
    if (h->asked_at == 0) {
        h->asked_at = now > 0 ? now : 1;
        h->next = now;
    }
    uint64_t since = h->heard_at > h->asked_at ? h->heard_at : h->asked_at;
    if (h->heard_at == 0 || now >= since + patience_of(h))
        atomic_store(n->leave, true);
    else if (now >= since + HEARTBEAT_LEAVE_NS)
        tell_leave(h);
}

// Logs once that the process waits for the scheduler; otherwise it would print nothing
// until the time limit. The thread of heartbeats logs it, because a process has one such
// thread but may have many members.
static void tell_wait(struct heartbeat *h, uint64_t now)
{
    const struct node *n = h->node;
    if (h->began_at == 0)
        h->began_at = now > 0 ? now : 1;
    if (h->greeted || h->told || !h->threaded || now < h->began_at + SECOND_NS)
        return;
    h->told = true;
    log_info("waiting up to %.0f s for the scheduler at %s, which does not answer yet",
             node_scheduler_timeout(n), n->scheduler);
}

static void beat(struct heartbeat *h)
{
    struct msg_heartbeat m = {.process = h->node->process, .unix_ns = clock_unix_ns()};
    (void)van_send(h->side.van, h->s.link, MSG_HEARTBEAT, BEAT_REQUEST, &m, NULL);
}

static uint64_t heartbeat_on_tick(void *ctx, uint64_t now)
{
    struct heartbeat *h = ctx;
    look_at_signals(h, now);
    if (h->side.van == NULL || now < h->next)
        return h->next;
    // If this process was stopped, the scheduler's answers may wait to be read.
    if (h->s.state == SESSION_OPEN && now >= h->next + h->every)
        h->s.heard_at = now;
    h->next = now + h->every;
    tell_wait(h, now);
    leave_replaced(h, now);
    (void)session_tick(&h->s, now); // closes the link if the scheduler is silent
    if (h->s.state == SESSION_CLOSED) {
        // An attempt to connect that hangs is given up and replaced, like a silent link.
        (void)session_dial(&h->s, h->node->scheduler, HEARTBEAT_SILENCE_NS, now);
    } else if (h->s.state == SESSION_OPEN) {
        struct msg_may_leave ask = {.process = h->node->process};
        beat(h);
        if (h->asked_at != 0)
            (void)van_send(h->side.van, h->s.link, MSG_MAY_LEAVE, LEAVE_REQUEST, &ask,
                           NULL);
    }
    return h->next;
}

struct van_handler heartbeat_handler(struct heartbeat *h)
{
    return (struct van_handler){
        .ctx = h,
        .opened = heartbeat_on_opened,
        .message = heartbeat_on_message,
        .closed = heartbeat_on_closed,
        .tick = heartbeat_on_tick,
    };
}

void heartbeat_serve(struct heartbeat *h, struct van *v)
{
    h->side.van = v;
}

static void *heartbeat_run(void *arg)
{
    struct heartbeat *h = arg;
    struct err e = {0};
    while (!atomic_load(&h->stop) &&
           van_poll(h->side.van, van_now(h->side.van) + poll_ns, &e) == 0)
        ;
    // The scheduler may have declared this process dead; it counts how often it was wrong.
    if (h->s.state == SESSION_OPEN) {
        beat(h);
        (void)van_poll(h->side.van, van_now(h->side.van), &e);
    }
    return NULL;
}

int heartbeat_open(struct heartbeat **ret, const struct node *n, atomic_bool *lost,
                   struct err *e)
{
    struct heartbeat *h = mem_zalloc(sizeof(*h));
    if (h == NULL)
        return err_nomem(e, "heartbeats");
    *h = (struct heartbeat){
        .node = n,
        .who = {.cluster = n->cluster, .role = WIRE_TOOL},
        .side = {.who = &h->who,
                 .greet_ns = HEARTBEAT_SILENCE_NS,
                 .silence_ns = HEARTBEAT_SILENCE_NS},
        .s = {.side = &h->side, .role = WIRE_SCHEDULER},
        .lost = lost,
        .every = SECOND_NS,
    };
    *ret = h;
    return 0;
}

int heartbeat_start(struct heartbeat **ret, struct node *n, atomic_bool *lost,
                    struct err *e)
{
    struct heartbeat *h = NULL;
    TRY(heartbeat_open(&h, n, lost, e));
    struct van_handler handler = heartbeat_handler(h);
    int rc = node_van(n, &h->side.van, &handler, false, e);
    h->threaded = true;
    if (rc == 0 && pthread_create(&h->thread, NULL, heartbeat_run, h) != 0)
        rc = err_set(e, TUG_EIO, "cannot start the thread of heartbeats");
    if (rc != 0) {
        van_free(h->side.van);
        mem_free(h);
        return rc;
    }
    *ret = h;
    return 0;
}

void heartbeat_stop(struct heartbeat *h)
{
    if (h == NULL)
        return;
    if (h->threaded) {
        atomic_store(&h->stop, true);
        van_wake(h->side.van);
        pthread_join(h->thread, NULL);
        van_free(h->side.van);
    }
    mem_free(h);
}
