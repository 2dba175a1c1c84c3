// Internals that the files of the member share.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLUSTER_MEMBER_INTERNAL_H
#define TUG_CLUSTER_MEMBER_INTERNAL_H

#include "cluster/member.h"
#include "cluster/session.h"
#include "os/clock.h"

// A link that is silent for MEMBER_SILENCE_NS is replaced, and so is a new link that is
// not greeted for MEMBER_GREET_NS. The second time is shorter, because a member without
// an open link may be declared dead after five seconds (--dead-timeout).
#define MEMBER_SILENCE_NS (10 * SECOND_NS)
#define MEMBER_GREET_NS (3 * SECOND_NS)

enum {
    MEMBER_ASKS = 32, // most requests under way at the same time
    MEMBER_GROUPS = 8,
    MEMBER_MISSING_MAX = 512,
};

// Request numbers: the member's own requests have fixed numbers; the numbers of requests
// by member_ask start at REQUEST_FIRST.
enum { REQUEST_JOIN = 1, REQUEST_LEAVE, REQUEST_BARRIER, REQUEST_ROSTER, REQUEST_FIRST };

struct ask {
    uint64_t request; // 0 if this entry is free
    uint16_t type;
    struct wire_out frame; // an encoded copy of the caller's message
    union wire_any msg;    // the decoded message, which points into `frame`
    uint64_t sent_at;
    member_answer_fn done;
    void *ctx;
};

struct member_barrier {
    uint64_t asked, done; // numbers of the newest barrier that was entered, and of
                          // the newest complete one
    uint64_t sent_at;
    char missing[MEMBER_MISSING_MAX];
};

// A collective call, at the newest barrier of the workers.
struct member_collective {
    // ask.request is REQUEST_BARRIER while the call is in progress, else 0.
    struct ask ask;
    struct err why; // the error of the last call; code 0: the call succeeded
    struct buf result;
};

struct member {
    struct member_options o; // the options; their strings are the copies below
    char scheduler[VAN_ADDRESS_MAX], address[VAN_ADDRESS_MAX], host[64];
    char zone[WIRE_ZONE_MAX];

    // This node's identity; id and number are 0 before it has joined.
    struct session_who who;
    struct session_side side;
    struct session s; // the session with the scheduler
    // The link over which the node has joined; 0 if it has not yet joined
    // over the present one.
    van_link here;
    uint64_t lost_at; // time at which the link to the scheduler was lost
    uint64_t due;     // time at which the next tick is due; 0: before the first one

    uint32_t rank;
    bool has_key; // whether `key` is set; only servers get it (cluster/proof.h)
    uint8_t key[MAC_BYTES];
    struct roster roster;
    uint64_t wanted_epoch, wanted_at;

    struct member_barrier barriers[MEMBER_GROUPS];
    struct member_collective collective;
    struct ask asks[MEMBER_ASKS];
    uint64_t last_request;
    // The piece that this worker has leased and not reported yet; pass 0: none.
    uint64_t leased_pass, leased_piece;

    bool leaving, left;
    struct err leaves_for; // the reason for leaving; code 0: the node has finished
    uint64_t leave_sent_at;

    bool ended;
    struct err why;
};

static inline bool member_is_here(const struct member *m)
{
    return m->s.state == SESSION_OPEN && m->here == m->s.link;
}

// Returns whether the scheduler at the other end of the link is of an older generation
// than the newest that the member knows.
static inline bool member_is_behind(const struct member *m)
{
    return m->s.generation < m->who.generation && !bug_in(m->o.bugs, WITHOUT_GENERATION);
}

// Returns whether several requests of this type may be under way. The scheduler takes
// reports of pieces by their numbers, so a worker need not wait for its last report.
static inline bool member_asks_ahead(uint16_t type)
{
    return type == MSG_PIECE_DONE;
}

void member_send(struct member *m, uint16_t type, uint64_t request, const void *msg);

// Repeats requests without an answer that are due, or all of them if `again` is set.
// Returns the time at which the next request is due.
uint64_t member_resend(struct member *m, uint64_t now, bool again);
// Passes an answer to the caller of its request. Returns false if no request under way
// has the answer's number.
bool member_answered(struct member *m, const struct van_message *msg);
// Takes the answer to the collective call that is under way.
void member_collect_answered(struct member *m, const struct msg_collected *msg);
// Ends all requests under way: their `done` is called with NULL.
void member_asks_end(struct member *m);
void member_asks_free(struct member *m);

// Asserts what must hold between two events: member_check.c.
#ifndef NDEBUG
void member_check(const struct member *m, uint64_t now);
#else
static inline void member_check(const struct member *m, uint64_t now)
{
    (void)m, (void)now;
}
#endif

#endif
