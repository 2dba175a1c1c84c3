// A session is a node's connection with another node, over a link that the node opens,
// and opens again when it breaks. The session sends HELLO with a proof, checks the proof
// in the answer, asks for a sign of life when the other end is silent, and keeps the
// reason when it closes. Members, clients, heartbeats, tools and kvapp have sessions with
// schedulers and servers.
//
// Only an answer is a sign of life. A link may be dead in one direction: messages that
// the other end sends by itself, and repeats until they are acknowledged, do not show
// that anything reaches the other end.
//
// The session is a state machine without callbacks: the user passes the van's events to
// it, gets the results, and decides when to connect and for how long to try.
//
// HELLO's field "session" is something else: the number of a member's stay in the
// cluster, which may use any number of links.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLUSTER_SESSION_H
#define TUG_CLUSTER_SESSION_H

#include "van/mac.h"
#include "van/van.h"

// The identity of this end. A guest (WIRE_TOOL) has no id, no session number and no
// secret.
struct session_who {
    uint64_t cluster;
    enum wire_role role;
    uint32_t id;
    uint64_t number;
    uint64_t
        generation;  // newest generation of the scheduler that this end knows; 0: none
    bool has_secret; // whether `secret` is set (cluster/proof.h)
    uint8_t secret[MAC_BYTES];
};

// Settings that all sessions of a user share.
struct session_side {
    struct van *van;
    const struct session_who *who;
    uint64_t resend_ns; // interval at which HELLO and PING are repeated; 0: never
    uint64_t greet_ns;  // time limit for the answer to HELLO; 0: none
    uint64_t ping_ns, silence_ns; // silence after which PING is sent, and after which the
                                  // session closes; 0: never
    uint64_t retry_ns, retry_max_ns; // delay before the next attempt to connect: it
                                     // doubles up to the maximum, and starts again at
                                     // retry_ns after a WELCOME
    bool any_sign; // tests: every message counts as a sign of life, not only answers
};

enum session_state { SESSION_CLOSED, SESSION_DIALLING, SESSION_GREETING, SESSION_OPEN };

struct session {
    const struct session_side *side;
    enum wire_role role; // role that the other end must have; WIRE_NOBODY: any
    uint32_t node;       // node id that the other end must have; 0: any
    enum session_state state;
    van_link link;       // 0 if the session is closed
    uint64_t due;        // time of the next attempt to connect, if the session is closed
    uint64_t wait;       // the last delay before connecting again
    uint64_t heard_at;   // time of the last sign of life that was an answer
    uint64_t asked_at;   // time at which HELLO, PING or another request was last sent
    uint64_t generation; // the scheduler's generation in the other end's WELCOME; 0: none
    uint64_t told;       // the generation in the last HELLO on this link
    uint8_t version; // newest version of the protocol that both ends of the link speak
    struct err why;  // why the session closed the last time
    // The address that refused the session the last time, "" after a WELCOME, and the
    // number of refusals since the last WELCOME.
    char refused_by[VAN_ADDRESS_MAX];
    unsigned refusals;
};

enum session_news {
    SESSION_NOT_ITS, // the message belongs to another link
    SESSION_NOTHING, // the message does not concern the user
    SESSION_GREETED, // the session is open now
    SESSION_REFUSED, // the session is closed now
    SESSION_MESSAGE, // the message is for the user; the session is open
};

// Connects a closed session. If `address` is a list, the address that refused the session
// last is tried last, because another address may be the scheduler's. Returns false if
// memory is out; `due` then says when to try again.
bool session_dial(struct session *s, const char *address, uint64_t timeout_ns,
                  uint64_t now);

// Called after a refusal. Returns true if it is not final: an address of the list is left
// that has not refused the session since the last WELCOME.
bool session_may_retry(const struct session *s, const char *addresses);

// The van's handler calls these functions. They return false or SESSION_NOT_ITS if the
// link does not belong to the session.
bool session_opened(struct session *s, van_link link, uint64_t now);
bool session_closed(struct session *s, van_link link, const struct err *why,
                    uint64_t now);
enum session_news session_message(struct session *s, van_link link,
                                  const struct van_message *m, uint64_t now);

// Does the timed work of the session. Closes the session if its peer was silent for too
// long, so that the user can connect the session again at once. Returns the time of the
// next call.
uint64_t session_tick(struct session *s, uint64_t now);

// Returns whether a PING was sent that is not answered yet.
static inline bool session_is_asked(const struct session *s)
{
    return s->state == SESSION_OPEN && s->asked_at > s->heard_at;
}

// Sends another HELLO if this end has learned of a newer generation of the scheduler
// since its last HELLO.
void session_tell(struct session *s);

void session_break(struct session *s, const struct err *why, uint64_t now);
void session_end(struct session *s); // closes the session for good

// These functions serve greetings without a session: session_greet sends HELLO, and
// session_believes checks that WELCOME is from a node of `role`.
void session_greet(struct van *v, van_link link, const struct session_who *who);
bool session_believes(struct van *v, van_link link, const struct session_who *who,
                      enum wire_role role, const struct msg_welcome *w, struct err *e);

// Asserts the invariants that hold between two events.
#ifndef NDEBUG
void session_check(const struct session *s, uint64_t now);
#else
static inline void session_check(const struct session *s, uint64_t now)
{
    (void)s, (void)now;
}
#endif

#endif
