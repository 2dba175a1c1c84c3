// One end of a link to another node, from connecting to silence: see session.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "cluster/session.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "cluster/proof.h"
#include "os/clock.h"

// The request number of PING. Users of a session must not use it.
#define PING_REQUEST UINT64_MAX

// Sends HELLO. Only tools state their clock in HELLO; members state theirs in heartbeats.
void session_greet(struct van *v, van_link link, const struct session_who *who)
{
    const struct van_trust trust = van_trust(v, link);
    const struct wire_versions own = wire_own_versions();
    uint8_t proof[MAC_BYTES];
    struct msg_hello hello = {
        .cluster = who->cluster,
        .role = (uint8_t)who->role,
        .node = who->id,
        .session = who->number,
        .unix_ns = who->role == WIRE_TOOL ? clock_unix_ns() : 0,
        .generation = who->generation,
        .version = wire_text(tug_version()),
        .oldest = own.oldest,
        .newest = own.newest,
    };
    if (who->has_secret && proof_hello(proof, who->secret, &trust))
        hello.proof = (struct wire_text){(const char *)proof, MAC_BYTES};
    (void)van_send(v, link, MSG_HELLO, 0, &hello, NULL);
}

// Returns whether a node that has sent WELCOME is what it claims. A process that took the
// port of a server or of the scheduler has neither a certificate of that role nor the key
// of sessions.
bool session_believes(struct van *v, van_link link, const struct session_who *who,
                      enum wire_role role, const struct msg_welcome *w, struct err *e)
{
    const struct van_trust trust = van_trust(v, link);
    uint8_t proof[MAC_BYTES];
    if (role == WIRE_NOBODY)
        role = (enum wire_role)w->role;
    bool good = w->role == role && proof_role_fits(role, trust.role);
    if (good && role == WIRE_SERVER && who->has_secret)
        good = proof_welcome(proof, who->secret, &trust) &&
               mac_same(w->proof.data, w->proof.n, proof);
    if (!good)
        err_set(
            e, TUG_EIO,
            "the process that listens at %s cannot prove that it is a %s of the cluster",
            van_peer(v, link), wire_role_name(role) ?: "node");
    return good;
}

static uint64_t after(uint64_t time, uint64_t ns)
{
    return ns != 0 ? time + ns : VAN_NEVER;
}

static void wait_longer(struct session *s, uint64_t now)
{
    const struct session_side *side = s->side;
    s->wait = s->wait == 0 ? side->retry_ns
                           : clock_earlier(2 * s->wait, side->retry_max_ns);
    s->due = now + s->wait;
}

// Returns the place of an address in a list, and its length in *ret_n; NULL if the list
// lacks the address.
static const char *find_address(const char *list, const char *one, size_t *ret_n)
{
    for (const char *at = list;; at++) {
        *ret_n = strcspn(at, ",");
        if (strlen(one) == *ret_n && memcmp(at, one, *ret_n) == 0)
            return at;
        at += *ret_n;
        if (*at == '\0')
            return NULL;
    }
}

// Rotates a list of addresses so that the address that has refused the session comes
// last.
static const char *turn_list(char ret[VAN_ADDRESS_MAX], const char *list,
                             const char *refused_by)
{
    size_t n;
    const char *at = refused_by[0] != '\0' ? find_address(list, refused_by, &n) : NULL;
    if (at == NULL || at[n] == '\0')
        return list;
    int len = snprintf(ret, VAN_ADDRESS_MAX, "%s,%.*s", at + n + 1, (int)(at + n - list),
                       list);
    return len >= 0 && len < VAN_ADDRESS_MAX ? ret : list;
}

bool session_may_retry(const struct session *s, const char *addresses)
{
    unsigned n = 1;
    size_t len;
    for (const char *at = addresses; (at = strchr(at, ',')) != NULL; at++)
        n++;
    return s->refusals < n && find_address(addresses, s->refused_by, &len) != NULL;
}

bool session_dial(struct session *s, const char *address, uint64_t timeout_ns,
                  uint64_t now)
{
    assert(s->state == SESSION_CLOSED);
    char turned[VAN_ADDRESS_MAX];
    s->link = van_connect(s->side->van, turn_list(turned, address, s->refused_by),
                          timeout_ns);
    if (s->link != 0)
        s->state = SESSION_DIALLING;
    else
        wait_longer(s, now);
    return s->link != 0;
}

static void greet(struct session *s)
{
    s->told = s->side->who->generation;
    session_greet(s->side->van, s->link, s->side->who);
}

void session_tell(struct session *s)
{
    if (s->state == SESSION_OPEN && s->told < s->side->who->generation)
        greet(s);
}

static void ask(struct session *s, uint64_t now)
{
    s->asked_at = now;
    if (s->state == SESSION_GREETING)
        greet(s);
    else
        (void)van_send(s->side->van, s->link, MSG_PING, PING_REQUEST,
                       &(struct msg_ping){}, NULL);
}

bool session_opened(struct session *s, van_link link, uint64_t now)
{
    if (link != s->link || link == 0)
        return false;
    s->state = SESSION_GREETING;
    s->heard_at = now;
    ask(s, now);
    session_check(s, now);
    return true;
}

bool session_closed(struct session *s, van_link link, const struct err *why, uint64_t now)
{
    if (link != s->link || link == 0)
        return false;
    s->link = 0;
    s->state = SESSION_CLOSED;
    s->why = *why;
    wait_longer(s, now);
    session_check(s, now);
    return true;
}

void session_break(struct session *s, const struct err *why, uint64_t now)
{
    if (s->link != 0)
        van_close_link(s->side->van, s->link);
    (void)session_closed(s, s->link, why, now);
}

void session_end(struct session *s)
{
    if (s->link != 0)
        van_close_link(s->side->van, s->link);
    s->link = 0;
    s->state = SESSION_CLOSED;
    s->due = VAN_NEVER;
}

// Returns whether a message answers a request of this end. The other end's own messages
// have request number 0 or are PING.
static bool is_answer(const struct van_message *m)
{
    return m->request != 0 && m->type != MSG_PING;
}

// Another process may listen at the address of one that has died.
static bool is_wanted(const struct session *s, const struct msg_welcome *w, struct err *e)
{
    if (s->node == 0 || w->node == 0 || w->node == s->node)
        return true;
    err_set(e, TUG_EIO, "node %u listens at %s, where node %u was", w->node,
            van_peer(s->side->van, s->link), s->node);
    return false;
}

static int agree(const struct session *s, const struct msg_welcome *w, struct err *e)
{
    const struct wire_versions theirs = {w->oldest, w->newest};
    int rc = wire_agree(theirs, w->version, e);
    return rc == 0 ? 0 : err_wrap(e, "%s", van_peer(s->side->van, s->link));
}

// Handles a message. From a peer that has not proven itself, only a refusal of the link
// is accepted. An impostor gains nothing by a refusal, because it could have the same
// effect by not sending WELCOME.
enum session_news session_message(struct session *s, van_link link,
                                  const struct van_message *m, uint64_t now)
{
    if (link != s->link || link == 0)
        return SESSION_NOT_ITS;
    // Only the code is cleared, because clearing the text for every message costs too
    // much.
    struct err why;
    why.code = 0;
    bool greets = m->type == MSG_WELCOME && s->state == SESSION_GREETING;
    if (m->type == MSG_ERROR && m->request == 0) // number 0: it refuses the link itself
        wire_refusal(&m->m->error, NULL, &why);
    else if (greets &&
             session_believes(s->side->van, link, s->side->who, s->role, &m->m->welcome,
                              &why) &&
             is_wanted(s, &m->m->welcome, &why))
        (void)agree(s, &m->m->welcome, &why);
    if (why.code != 0) {
        snprintf(s->refused_by, sizeof(s->refused_by), "%s",
                 van_peer(s->side->van, s->link));
        s->refusals++;
        session_break(s, &why, now);
        return SESSION_REFUSED;
    }
    if (greets) {
        s->generation = m->m->welcome.generation;
        s->state = SESSION_OPEN;
        s->wait = 0;
        s->refused_by[0] = '\0';
        s->refusals = 0;
    }
    bool open = s->state == SESSION_OPEN;
    if (greets || (open && (is_answer(m) || s->side->any_sign)))
        s->heard_at = now;
    session_check(s, now);
    return greets                           ? SESSION_GREETED
           : open && m->type != MSG_WELCOME ? SESSION_MESSAGE
                                            : SESSION_NOTHING;
}

uint64_t session_tick(struct session *s, uint64_t now)
{
    const struct session_side *side = s->side;
    bool open = s->state == SESSION_OPEN;
    struct err why;
    if (s->state == SESSION_CLOSED)
        return s->due;
    if (s->state == SESSION_DIALLING) // the van watches the time limit
        return VAN_NEVER;
    uint64_t over = after(s->heard_at, open ? side->silence_ns : side->greet_ns);
    if (now >= over) {
        err_set(&why, TUG_EIO, open ? "it is silent" : "it does not identify itself");
        session_break(s, &why, now);
        return s->due = now;
    }
    uint64_t due = open && !session_is_asked(s) ? after(s->heard_at, side->ping_ns)
                                                : after(s->asked_at, side->resend_ns);
    if (now >= due) {
        ask(s, now);
        due = after(now, side->resend_ns);
    }
    return clock_earlier(over, due);
}

#ifndef NDEBUG
// A session without a link is not open: its messages would be lost without notice. Times
// of past events are not later than now, because deadlines are computed from them.
void session_check(const struct session *s, uint64_t now)
{
    assert(s->state <= SESSION_OPEN);
    assert((s->link == 0) == (s->state == SESSION_CLOSED));
    assert(s->link == 0 || s->side->van != NULL);
    assert(s->heard_at <= now && s->asked_at <= now);
}
#endif
