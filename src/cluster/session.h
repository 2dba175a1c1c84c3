// A session is a node's connection with another over a link that it opens, and opens
// again when that breaks. It greets, believes who greets back and proves who it is, asks
// for a sign of life where nothing is heard, and when it is closed a sentence says why.
// Members, clients, heartbeats, tools and kvapp have theirs with schedulers and servers.
//
// A sign of life is an answer to what was sent. A link may be dead in one direction only:
// messages that the other end sends unasked, and repeats until acknowledged, do not show
// that anything arrives there.
//
// A state machine without callbacks: the user passes on the van's events, gets the
// results, and decides when it dials, and for how long in vain.
//
// HELLO's "session" is one stay of a member in the cluster, by its number, over any
// number of links.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLUSTER_SESSION_H
#define TUG_CLUSTER_SESSION_H

#include "van/mac.h"
#include "van/van.h"

// Who greets. A guest (WIRE_TOOL) has no id, no number and no secret.
struct session_who {
    uint64_t cluster;
    enum wire_role role;
    uint32_t id;
    uint64_t number;
    bool has_secret; // see cluster/proof.h
    uint8_t secret[MAC_BYTES];
};

// Common to all sessions of a user.
struct session_side {
    struct van *van;
    const struct session_who *who;
    uint64_t resend_ns;           // HELLO and PING are sent again; 0: never
    uint64_t greet_ns;            // until it has to be greeted; 0: any time
    uint64_t ping_ns, silence_ns; // of silence: until PING, until it is closed; 0: never
    uint64_t retry_ns, retry_max_ns; // between attempts: doubled until it is greeted
    bool any_sign; // tests: whatever comes counts as a sign of life, not only answers
};

enum session_state { SESSION_CLOSED, SESSION_DIALLING, SESSION_GREETING, SESSION_OPEN };

struct session {
    const struct session_side *side;
    enum wire_role role; // of the other end; WIRE_NOBODY: whatever it says
    enum session_state state;
    van_link link;     // 0: closed
    uint64_t due;      // closed: when to dial
    uint64_t wait;     // how long it waited for that
    uint64_t heard_at; // the last sign of life: an answer
    uint64_t asked_at; // HELLO or PING
    struct err why;    // it was closed the last time
};

enum session_news {
    SESSION_NOT_ITS, // of another link
    SESSION_NOTHING, // for its user
    SESSION_GREETED, // it is open now
    SESSION_REFUSED, // it is closed now
    SESSION_MESSAGE, // for its user, from who was believed: it is open
};

// For a closed session. False: there is no memory; `due` says when to try again.
bool session_dial(struct session *s, const char *address, uint64_t timeout_ns,
                  uint64_t now);

// Called from the van's handler. False: of another link.
bool session_opened(struct session *s, van_link link, uint64_t now);
bool session_closed(struct session *s, van_link link, const struct err *why,
                    uint64_t now);
enum session_news session_message(struct session *s, van_link link,
                                  const struct van_message *m, uint64_t now);

// Does what is due; closes a session that was silent for too long, to be dialled at once.
// Returns when to look again.
uint64_t session_tick(struct session *s, uint64_t now);

// PING has no answer yet.
static inline bool session_is_asked(const struct session *s)
{
    return s->state == SESSION_OPEN && s->asked_at > s->heard_at;
}

void session_break(struct session *s, const struct err *why, uint64_t now);
void session_end(struct session *s); // closed, with nothing due

// The greetings by themselves: HELLO, and whether WELCOME is from a node of `role`.
void session_greet(struct van *v, van_link link, const struct session_who *who);
bool session_believes(struct van *v, van_link link, const struct session_who *who,
                      enum wire_role role, const struct msg_welcome *w, struct err *e);

// Asserts what must hold between two events.
#ifndef NDEBUG
void session_check(const struct session *s, uint64_t now);
#else
static inline void session_check(const struct session *s, uint64_t now)
{
    (void)s, (void)now;
}
#endif

#endif
