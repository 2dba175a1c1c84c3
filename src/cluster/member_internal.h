// What the files of the member share.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLUSTER_MEMBER_INTERNAL_H
#define TUG_CLUSTER_MEMBER_INTERNAL_H

#include "base/clock.h"
#include "cluster/member.h"
#include "cluster/proof.h"

// A link that is silent for so long is tried with PING; after twice that it is replaced.
#define MEMBER_SILENCE_NS (5 * SECOND_NS)
#define MEMBER_TRY_NS (10 * SECOND_NS) // to connect

enum {
    MEMBER_ASKS = 16, // kinds of requests under way at the same time
    MEMBER_GROUPS = 8,
    MEMBER_MISSING_MAX = 512,
};

// Requests of the member's own have numbers of their own; those of member_ask follow.
enum {
    REQUEST_JOIN = 1,
    REQUEST_LEAVE,
    REQUEST_BARRIER,
    REQUEST_ROSTER,
    REQUEST_PING,
    REQUEST_FIRST
};

enum member_state {
    MEMBER_APART,      // no link; the next one is tried at retry_at
    MEMBER_CONNECTING, // the van is at it
    MEMBER_GREETING,   // HELLO is sent
    MEMBER_JOINING,    // JOIN is sent
    MEMBER_HERE,
};

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
    struct van *van;

    enum member_state state;
    van_link link;
    uint64_t retry_at;
    uint64_t lost_at;  // since when the scheduler is out of reach
    uint64_t sent_at;  // HELLO or JOIN
    uint64_t heard_at; // the last message of the scheduler
    uint64_t pinged_at;

    uint32_t id, rank;
    uint64_t session;
    bool has_secret, has_key; // see cluster/proof.h
    uint8_t secret[MAC_BYTES], key[MAC_BYTES];
    struct roster roster;
    uint64_t wanted_epoch, wanted_at;

    struct member_barrier barriers[MEMBER_GROUPS];
    struct ask asks[MEMBER_ASKS];
    uint64_t last_request;

    bool leaving, left;
    int leave_code;
    char leave_why[ERR_TEXT_MAX];
    uint64_t leave_at, leave_sent_at;

    bool ended;
    struct err why;
};

void member_send(struct member *m, uint16_t type, uint64_t request, const void *msg);
void member_end(struct member *m, int code, const char *why);

// What waits for an answer: sent again now if that is due (or `again`); returns when the
// next is due.
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
