// What the files of the member share.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLUSTER_MEMBER_INTERNAL_H
#define TUG_CLUSTER_MEMBER_INTERNAL_H

#include "base/clock.h"
#include "cluster/member.h"
#include "cluster/session.h"

#define MEMBER_SILENCE_NS                                                                \
    (10 * SECOND_NS)                   // a link that is silent for so long is replaced
#define MEMBER_TRY_NS (10 * SECOND_NS) // to connect

enum {
    MEMBER_ASKS = 16, // kinds of requests under way at the same time
    MEMBER_GROUPS = 8,
    MEMBER_MISSING_MAX = 512,
};

// Requests of the member's own have numbers of their own; those of member_ask follow.
enum { REQUEST_JOIN = 1, REQUEST_LEAVE, REQUEST_BARRIER, REQUEST_ROSTER, REQUEST_FIRST };

struct ask {
    uint64_t request; // 0: free
    uint16_t type;
    struct wire_out frame; // the message, encoded, so that it outlives the caller's
    union wire_any msg;    // points into it
    uint64_t sent_at;
    member_answer_fn done;
    void *ctx;
};

struct member_barrier {
    uint64_t asked, done; // generations
    uint64_t sent_at;
    char missing[MEMBER_MISSING_MAX];
};

struct member {
    struct member_options o; // texts point to the copies below
    char scheduler[VAN_ADDRESS_MAX], address[VAN_ADDRESS_MAX], host[64];

    struct session_who who; // id and number are 0 before it has joined
    struct session_side side;
    struct session s; // with the scheduler
    van_link here;    // the link over which it has joined; 0: not yet
    uint64_t lost_at; // since when the scheduler is out of reach

    uint32_t rank;
    bool has_key; // see cluster/proof.h
    uint8_t key[MAC_BYTES];
    struct roster roster;
    uint64_t wanted_epoch, wanted_at;

    struct member_barrier barriers[MEMBER_GROUPS];
    struct ask asks[MEMBER_ASKS];
    uint64_t last_request;

    bool leaving, left;
    int leave_code;
    char leave_why[ERR_TEXT_MAX];
    uint64_t leave_sent_at;

    bool ended;
    struct err why;
};

static inline bool member_is_here(const struct member *m)
{
    return m->s.state == SESSION_OPEN && m->here == m->s.link;
}

void member_send(struct member *m, uint16_t type, uint64_t request, const void *msg);

// Sends requests without an answer again, if due (or `again`); returns when the next is
// due.
uint64_t member_resend(struct member *m, uint64_t now, bool again);
// An answer to what was asked. False: to nothing that is under way.
bool member_answered(struct member *m, const struct van_message *msg);
// Nothing will be answered any more.
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
