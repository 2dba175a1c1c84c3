// Links to other nodes, one for each node that has got a request. A link is opened with
// the first request, and opened again when it has broken or is silent, as long as the
// roster lists the node as alive: the scheduler knows better whether a node is dead than
// another node that cannot reach it. Meanwhile requests wait for the link; those that
// were sent without an answer are sent again.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>

#include "base/alloc.h"
#include "doors/kvapp/node.h"
#include "os/clock.h"

#define TRY_NS (10 * SECOND_NS) // time limit for connecting and for the greeting
#define RETRY_NS (SECOND_NS / 500)
#define RETRY_MAX_NS SECOND_NS
#define RESEND_NS (2 * SECOND_NS)
// Requests to a node that has died or left wait this long for answers: longer than a node
// that leaves takes to send its last answers.
#define GONE_NS (2 * SECOND_NS)

// After this many links in a row that a peer has refused or broken, without an answer on
// any of them, the peer is given up: probably a message of this node makes it break links.
enum { BREAKS_MAX = 100 };

struct session_side kv_peers_side(const struct tug_node *n)
{
    return (struct session_side){
        .van = n->van,
        .who = member_who(n->member),
        .resend_ns = RESEND_NS,
        .greet_ns = TRY_NS,
        .ping_ns = SILENCE_NS,
        .retry_ns = RETRY_NS,
        .retry_max_ns = RETRY_MAX_NS,
    };
}

static struct kv_peer *peer_of(struct tug_node *n, uint32_t node)
{
    struct kv_peer *p = (struct kv_peer *)chains_find(&n->peers_by_node, node);
    if (p == NULL && (p = mem_zalloc(sizeof(*p))) != NULL) {
        chains_put(&n->peers_by_node, &p->by_node, node);
        p->node = node;
        p->s.side = &n->side;
        p->acked = 1;
        p->next = n->peers;
        n->peers = p;
    }
    return p;
}

struct kv_peer *kv_peer_find(struct tug_node *n, van_link link)
{
    const struct kv_peer_link *l = link != 0 ? (struct kv_peer_link *)chains_find(
                                                   &n->peers_by_link, link)
                                             : NULL;
    return l != NULL ? l->peer : NULL;
}

// Updates the index of links. Called after every function that may dial, close or
// exchange a peer's links.
static void note_links(struct tug_node *n, struct kv_peer *p)
{
    const van_link now[2] = {p->s.link, p->silence.another.link};
    for (int i = 0; i < 2; i++) {
        struct kv_peer_link *l = &p->links[i];
        if (l->by_link.key == now[i])
            continue;
        if (l->by_link.key != 0)
            chains_take(&n->peers_by_link, &l->by_link);
        l->by_link.key = 0;
        l->peer = p;
        if (now[i] != 0)
            chains_put(&n->peers_by_link, &l->by_link, now[i]);
    }
}

static int find_address(struct tug_node *n, struct kv_peer *p, const char **ret,
                        struct err *e)
{
    char name[ROSTER_NAME_MAX];
    const struct roster_node *r = roster_find(member_roster(n->member), p->node);
    if (r == NULL || !r->alive)
        return err_set(e, TUG_EIO, "%s cannot be reached%s",
                       kv_node_name(n, p->node, name), r != NULL ? " any more" : "");
    if (r->address[0] == 0)
        return err_set(e, TUG_EUSAGE,
                       "%s listens at no address, so no request can be sent to it",
                       kv_node_name(n, p->node, name));
    p->s.role = r->role;
    *ret = r->address;
    return 0;
}

// Dials a peer. If that is not possible now, kv_peers_look tries again soon.
static void dial(struct tug_node *n, struct kv_peer *p, const char *address, uint64_t now)
{
    p->greeted = false;
    (void)session_dial(&p->s, address, TRY_NS, now);
    note_links(n, p);
    p->look = now;
}

void kv_peer_reach(struct tug_node *n, uint32_t node)
{
    struct err e;
    const char *address;
    uint64_t now = van_now(n->van);
    struct kv_peer *p = peer_of(n, node);
    if (p != NULL && p->s.state == SESSION_CLOSED && now >= p->s.due &&
        find_address(n, p, &address, &e) == 0)
        dial(n, p, address, now); // errors are reported to requests when they are sent
}

// ------------------------------------------------------------ parts that wait to be sent

static int32_t priority_of(const struct kv_part *p)
{
    return p->copy != NULL ? p->copy->priority : p->request->kv.priority;
}

static void line_up(struct kv_peer *p, struct kv_part *part)
{
    part->queued = true;
    if (part->number != 0) // was sent before: it is sent again before all new parts
        kv_line_put_at_once(&p->line, &part->in_line, part->number);
    else
        kv_line_put(&p->line, &part->in_line, priority_of(part));
}

bool kv_peer_is_full(const struct kv_peer *p)
{
    return p->last_number + 1 - p->acked >= KV_WINDOW;
}

// The most bytes, about, that the van gets at a time. It sends messages in the order in
// which it gets them; parts that still wait here can be overtaken by a higher priority.
enum { IN_VAN = 1 << 20 };

static bool may_go(const struct kv_peer *p)
{
    const struct kv_lined *first = p->line.first;
    return first != NULL && p->s.state == SESSION_OPEN && p->in_van < IN_VAN &&
           (first->priority == KV_AT_ONCE || !kv_peer_is_full(p));
}

static void peers_flush(struct tug_node *n, struct kv_peer *p)
{
    while (may_go(p)) {
        struct kv_part *part = (struct kv_part *)kv_line_take(&p->line);
        part->queued = false;
        if (part->number == 0)
            part->number = ++p->last_number;
        kv_part_transmit(n, p, part);
    }
}

void kv_peers_flush(struct tug_node *n)
{
    for (struct kv_peer *p = n->peers; p != NULL; p = p->next)
        peers_flush(n, p);
}

static void reach_for(struct tug_node *n, struct kv_peer *p, struct err *e)
{
    const char *address;
    uint64_t now = van_now(n->van);
    if (p->s.state != SESSION_CLOSED || find_address(n, p, &address, e) != 0)
        return;
    p->look = now;
    if (now >= p->s.due)
        dial(n, p, address, now);
    else
        van_wake(n->van); // kv_peers_look dials after the pause
}

void kv_peer_send(struct tug_node *n, struct kv_part *part)
{
    struct err e;
    struct kv_peer *p = peer_of(n, part->node);
    e.code = 0;
    if (p == NULL)
        err_nomem(&e, "a link");
    else
        reach_for(n, p, &e);
    if (e.code != 0) {
        kv_part_answered(part, &e);
        return;
    }
    if (p->waiting++ == 0 && p->s.state == SESSION_OPEN)
        p->look = silence_begin(&p->s, van_now(n->van));
    part->peer = p;
    part->sent = true;
    line_up(p, part);
    peers_flush(n, p);
}

static uint64_t bit_of(uint64_t number)
{
    return (uint64_t)1 << (number % 64);
}

void kv_peer_answered(struct kv_part *part)
{
    struct kv_peer *p = part->peer;
    uint64_t *words = p->answered;
    assert(p->waiting > 0);
    p->waiting--;
    p->breaks = 0;
    if (part->number == 0)
        return;
    assert(part->number >= p->acked && part->number <= p->last_number);
    words[part->number % KV_WINDOW / 64] |= bit_of(part->number);
    while (p->acked <= p->last_number &&
           (words[p->acked % KV_WINDOW / 64] & bit_of(p->acked))) {
        words[p->acked % KV_WINDOW / 64] &= ~bit_of(p->acked);
        p->acked++;
    }
}

// ---------------------------------------------------------------- broken links

static void fail(struct tug_node *n, struct kv_peer *p, const struct err *why)
{
    silence_end(&p->silence);
    kv_line_clear(&p->line);
    kv_requests_of_node_fail(n, p->node, why);
}

// Fails all requests to a peer that does not answer. Only a new request dials it again.
static void peers_failed(struct tug_node *n, struct kv_peer *p)
{
    char name[ROSTER_NAME_MAX];
    struct err e;
    err_set(&e, TUG_EIO, "%s does not answer: %s", kv_node_name(n, p->node, name),
            p->s.why.text[0] != 0 ? p->s.why.text : "it has closed the link");
    fail(n, p, &e);
}

// Sends the requests without an answer again. They keep their numbers, by which the peer
// recognizes requests that it has already handled.
static void send_again(struct tug_node *n, struct kv_peer *p)
{
    for (struct kv_request *r = n->first; r != NULL; r = r->behind)
        for (uint32_t i = 0; i < r->n_parts && r->state == KV_OPEN; i++) {
            struct kv_part *part = &r->parts[i];
            if (part->peer == p && part->number != 0 && !part->answered && !part->queued)
                line_up(p, part);
        }
}

// Returns whether the peer may be dialled again after its link broke, and sets the pause
// before the next dial. A peer that sends invalid messages, or that has refused or broken
// BREAKS_MAX links, is not dialled again.
static bool may_dial_again(struct kv_peer *p, uint64_t now)
{
    if (p->greeted) {
        uint64_t wait = RETRY_NS << (p->breaks < 9 ? p->breaks : 9);
        p->breaks++;
        p->s.due = now + clock_earlier(wait, RETRY_MAX_NS);
    }
    p->greeted = false;
    return p->s.why.code != TUG_EDATA && p->breaks < BREAKS_MAX;
}

// Called when a peer's link was closed: dials again, or fails the requests to it.
static void lost(struct tug_node *n, struct kv_peer *p, uint64_t now)
{
    silence_end(&p->silence);
    p->look = now;
    if (!n->over && may_dial_again(p, now))
        send_again(n, p);
    else
        peers_failed(n, p);
}

void kv_peer_opened(struct kv_peer *p, van_link link, uint64_t now)
{
    if (!session_opened(&p->s, link, now))
        (void)session_opened(&p->silence.another, link, now);
    p->look = now;
}

void kv_peer_closed(struct tug_node *n, struct kv_peer *p, van_link link,
                    const struct err *why, uint64_t now)
{
    if (session_closed(&p->s, link, why, now))
        lost(n, p, now);
    else // kv_peers_look dials after the pause
        (void)session_closed(&p->silence.another, link, why, now);
    note_links(n, p);
}

// Called when a peer has refused the link. A refusal with TUG_EIO is temporary: a server
// refuses workers until it learns that it has joined, and a worker may see the server in
// the scheduler's roster before that.
static void peers_refused(struct tug_node *n, struct kv_peer *p, uint64_t now)
{
    bool for_good = p->s.why.code != TUG_EIO;
    p->greeted = !for_good; // a temporary refusal counts as a broken link
    if (for_good)
        peers_failed(n, p);
    else
        lost(n, p, now);
}

static void greeted(struct tug_node *n, struct kv_peer *p, uint64_t now)
{
    p->greeted = true;
    p->look = now;
    peers_flush(n, p);
}

bool kv_peer_message(struct tug_node *n, struct kv_peer *p, van_link link,
                     const struct van_message *m, uint64_t now)
{
    enum session_news news = session_message(&p->s, link, m, now);
    if (news == SESSION_GREETED) {
        greeted(n, p, now);
    } else if (news == SESSION_REFUSED) {
        peers_refused(n, p, now);
    } else if (news == SESSION_NOT_ITS &&
               session_message(&p->silence.another, link, m, now) == SESSION_GREETED) {
        silence_adopt(&p->silence, &p->s, now);
        send_again(n, p);
        greeted(n, p, now);
    }
    note_links(n, p);
    return news == SESSION_MESSAGE && (m->type == MSG_ERROR || m->type == MSG_APP);
}

// Ends a customer's parts at a peer, or, with p NULL, its parts without a peer.
static void give_up_parts(struct tug_node *n, const struct kv_peer *p,
                          const struct tug_app *a, const struct err *why)
{
    for (struct kv_request *r = n->first, *behind; r != NULL; r = behind) {
        behind = r->behind;
        for (uint32_t i = 0; i < r->n_parts && r->state == KV_OPEN && r->app == a; i++)
            if (r->parts[i].peer == p)
                kv_part_answered(&r->parts[i], why);
    }
}

// Queues all unanswered parts of this peer again, after this node has broken the link.
static void line_up_all(struct tug_node *n, struct kv_peer *p)
{
    for (struct kv_request *r = n->first; r != NULL; r = r->behind)
        for (uint32_t i = 0; i < r->n_parts && r->state == KV_OPEN; i++)
            if (r->parts[i].peer == p && !r->parts[i].answered)
                line_up(p, &r->parts[i]);
}

void kv_peers_give_up(struct tug_node *n, const struct tug_app *a, const struct err *why)
{
    uint64_t now = van_now(n->van);
    for (struct kv_peer *p = n->peers; p != NULL; p = p->next) {
        if (!kv_request_waits(a, p))
            continue;
        session_break(&p->s, why, now);
        silence_end(&p->silence);
        kv_line_clear(&p->line);
        p->greeted = false;
        p->look = now;
        give_up_parts(n, p, a, why);
        line_up_all(n, p);
        note_links(n, p);
    }
    // Ends the parts of requests that the program is to send itself, but has not sent yet.
    give_up_parts(n, NULL, a, why);
    van_wake(n->van);
}

void kv_peers_roster(struct tug_node *n)
{
    uint64_t now = van_now(n->van);
    for (struct kv_peer *p = n->peers; p != NULL; p = p->next)
        p->look = now;
}

// Checks a peer that is dead or has left according to the roster. The system closes the
// links of a process that died. A stopped or unreachable node's link stays open, so the
// requests to it fail after GONE_NS. A node that left may still send answers during this
// time. Returns when to check again.
static uint64_t look_at_gone(struct tug_node *n, struct kv_peer *p, uint64_t now)
{
    struct err why;
    const char *address;
    bool open = p->s.state == SESSION_OPEN;
    p->gone_at = p->gone_at == 0 ? now : p->gone_at;
    if (open && now < p->gone_at + GONE_NS)
        return p->gone_at + GONE_NS;
    if (open)
        err_set(&why, TUG_EIO, "the cluster continues without it");
    else
        (void)find_address(n, p, &address, &why);
    session_break(&p->s, &why, now);
    if (open)
        peers_failed(n, p);
    else
        fail(n, p, &why);
    return VAN_NEVER;
}

static uint64_t peers_look_at(struct tug_node *n, struct kv_peer *p, uint64_t now)
{
    struct err why;
    const char *address = NULL;
    const struct roster_node *r = roster_find(member_roster(n->member), p->node);
    if (r != NULL && !r->alive)
        return look_at_gone(n, p, now);
    if (p->s.state == SESSION_OPEN && p->waiting > 0)
        return silence_watch(&p->silence, &p->s, r != NULL ? r->address : NULL, now);
    if (p->s.state == SESSION_OPEN) {
        silence_end(&p->silence);
        return now + SILENCE_NS; // by then a request may wait for an answer
    }
    if (p->s.state == SESSION_CLOSED && p->waiting == 0)
        return VAN_NEVER;
    if (p->s.state == SESSION_CLOSED && find_address(n, p, &address, &why) != 0) {
        fail(n, p, &why);
        return VAN_NEVER;
    }
    if (p->s.state == SESSION_CLOSED && now >= p->s.due)
        dial(n, p, address, now);
    bool greets = p->s.state == SESSION_GREETING;
    uint64_t next = session_tick(&p->s, now);
    if (greets && p->s.state == SESSION_CLOSED)
        lost(n, p, now);
    return next;
}

uint64_t kv_peers_look(struct tug_node *n, uint64_t now)
{
    uint64_t next = VAN_NEVER;
    for (struct kv_peer *p = n->peers; p != NULL && !n->over; p = p->next) {
        if (now >= p->look) {
            p->look = peers_look_at(n, p, now);
            note_links(n, p);
        }
        next = clock_earlier(next, p->look);
    }
    return next;
}

// Frees a guest; x is its first member, by_link.
static void free_guest(struct chained *x)
{
    mem_free(x);
}

void kv_peers_free(struct tug_node *n)
{
    for (struct kv_peer *p = n->peers, *next; p != NULL; p = next) {
        next = p->next;
        mem_free(p);
    }
    chains_free(&n->peers_by_node, NULL);
    chains_free(&n->peers_by_link, NULL);
    chains_free(&n->guests, free_guest);
}
