// A member is a node's side of the cluster. It links to the scheduler, joins, keeps the
// roster, reaches barriers, leases work, and learns when it is over. A state machine
// inside the node's van handler: the node passes on what belongs to the member.
//
// The link to the scheduler is opened again when it breaks, with the same ticket: the
// node stays the same. When the scheduler cannot be reached for `scheduler_timeout_ns`,
// or says STOP, or gives the node up, the member has ended: member_ended says why.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLUSTER_MEMBER_H
#define TUG_CLUSTER_MEMBER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "cluster/roster.h"
#include "van/van.h"

struct member;
struct session_who;

struct member_options {
    uint64_t cluster;
    const char *scheduler; // address
    enum wire_role role;
    enum wire_tables tables;
    uint64_t ticket, process; // random
    uint16_t loop, loops;
    uint32_t wish; // 1 + the rank that it would like, if nobody has it; 0: any
    uint32_t pid;
    const char *host;
    const char *address;           // where the node listens; "" if it does not
    uint64_t scheduler_timeout_ns; // to reach it at first, and when the link broke
    bool without_identity; // tests: any id and session will do when it joins again
    bool without_redial;   // tests: its link to the scheduler is kept while it is silent
    bool without_answers;  // tests: whatever comes on that link shows that it is alive
    uint64_t resend_ns;    // requests to the scheduler are sent again after this; 0: 2 s
    // A new roster has come (its epoch may be the same). May be NULL.
    void (*changed)(void *ctx, const struct roster *r, uint64_t now);
    // Servers: pushes of the piece come no more. Workers: batches are
    // divided anew. May be NULL.
    void (*forget)(void *ctx, const struct msg_forget *m);
    void (*view)(void *ctx, const struct msg_view *m);
    void *ctx;
};

int member_open(struct member **ret, const struct member_options *o, struct err *e);
void member_close(struct member *m);

// Before member_serve: where the node listens, when that was not known at member_open.
int member_set_address(struct member *m, const char *address, struct err *e);

// The van it sends on, once that is open; it connects to the scheduler at once.
void member_serve(struct member *m, struct van *v, uint64_t now);

// Called from the node's van handler. True: it was the member's.
bool member_opened(struct member *m, van_link link, bool accepted, uint64_t now);
bool member_message(struct member *m, van_link link, const struct van_message *msg,
                    uint64_t now);
bool member_closed(struct member *m, van_link link, const struct err *why, uint64_t now);
uint64_t member_tick(struct member *m, uint64_t now);

// The identity with which it greets other nodes; for sessions of the same van
// (cluster/session.h).
const struct session_who *member_who(const struct member *m);
// For a peer that opened a link to this node: checks a HELLO (cluster, and that the
// session is alive if the roster knows it) and answers WELCOME or ERROR; then the link's
// other end is node *ret_node of session *ret_session.
int member_greeted(struct member *m, van_link link, const struct van_message *msg,
                   uint32_t *ret_node, uint64_t *ret_session, struct err *e);

uint32_t member_id(const struct member *m);      // 0: has not joined yet
uint64_t member_session(const struct member *m); // likewise
uint32_t member_rank(const struct member *m);
const struct roster *member_roster(const struct member *m); // epoch 0 before it has come
bool member_ready(const struct member *m); // joined, and the epoch is not 0
bool member_ended(const struct member *m, struct err *ret_why); // code 0: all was well
// Likewise as a status, for callers to which any end is a failure: 0 if it has not ended;
// TUG_EIO if it ended well.
int member_over(const struct member *m, struct err *e);
// Returns the reason of a wait, as the end of "the scheduler at X ...".
const char *member_waits_for(const struct member *m);

// Asks the scheduler for its newest roster (a peer has a newer epoch).
void member_want_roster(struct member *m, uint64_t epoch);

// Tells the scheduler something that needs no answer; lost if it is out of reach.
void member_tell(struct member *m, uint16_t type, const void *msg);

// Requests to the scheduler: asked again until answered. One of a kind at a time; `done`
// is called with the answer (NULL when the member has ended first). TUG_EUSAGE: one of
// the kind is under way, or the member has ended; TUG_ENOMEM.
typedef void (*member_answer_fn)(void *ctx, const struct van_message *answer);
int member_ask(struct member *m, uint16_t type, const void *msg, member_answer_fn done,
               void *ctx);
// Gives up requests with this ctx: `done` is not called any more.
void member_unask(struct member *m, const void *ctx);

// Reaches the next barrier of the group (enum wire_group bits). Poll member_barrier_done;
// *ret_missing names the members that have not come yet. Any loop of a process speaks for
// all of them. A member that joins a running cluster is waited for from its first barrier
// on.
void member_barrier(struct member *m, uint8_t group);
bool member_barrier_done(const struct member *m, uint8_t group, const char **ret_missing);

// Says that the node has finished; code as in msg_leave. Poll member_left.
void member_leave(struct member *m, int code, const char *why);
bool member_left(const struct member *m);

#endif
