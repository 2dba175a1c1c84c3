// A member is a node's side of the cluster. It links to the scheduler, joins, keeps
// the roster, reaches barriers, leases work, and learns when the run is over. It is a
// state machine inside the node's van handler: the node passes on the events that
// belong to the member.
//
// When the link to the scheduler breaks, the member opens another one and joins again
// with the same ticket, so that the node keeps its id. When the scheduler cannot be
// reached for `scheduler_timeout_ns`, or sends STOP, or declares the node dead, the
// member has ended: member_ended returns the reason.
//
// A scheduler that is started again with its state has the next generation, and the
// previous scheduler may still run. A member follows the newest generation of which it
// has heard: it takes no message of an older scheduler, sends that scheduler the newer
// generation in HELLO, so that it ends, and closes the link.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLUSTER_MEMBER_H
#define TUG_CLUSTER_MEMBER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "cluster/bugs.h"
#include "cluster/roster.h"
#include "os/clock.h"
#include "van/van.h"

// The time limit, in nanoseconds, of one attempt of a member to connect to the scheduler.
#define MEMBER_TRY_NS (10 * SECOND_NS)

struct member;
struct session_who;

struct member_options {
    uint64_t cluster;
    const char *scheduler; // address of the scheduler
    enum wire_role role;
    enum wire_tables tables;
    uint64_t ticket, process; // random numbers: the ticket identifies the node, and
                              // `process` identifies the process
    uint16_t loop, loops;
    // 1 + the rank that the node asks for and gets if it is free; 0: any rank.
    uint32_t wish;
    bool late;  // a server that joins a running cluster, and takes over some partitions
    bool fixed; // a server whose own handlers hold state: its partitions cannot move
    uint32_t pid;
    const char *host;
    const char *zone;    // of a server (node_options); NULL: none
    const char *address; // address at which the node listens; "" if it does not listen
    // Time limit for reaching the scheduler, at the start and after the link broke.
    uint64_t scheduler_timeout_ns;
    uint64_t resend_ns; // interval at which an unanswered request to the scheduler is
                        // sent again; 0: 2 s
    uint64_t bugs;      // tests: injected bugs (cluster/bugs.h) of the node
    // The newest generation of which the process knows, shared by all members and the
    // heartbeats of a process; NULL: the member shares it with no other.
    _Atomic uint64_t *generation;
    // Called when a new roster has arrived, perhaps with the same epoch. May be NULL.
    void (*changed)(void *ctx, const struct roster *r, uint64_t now);
    // forget is called on servers: no more pushes of this piece will come. view
    // is called on workers: from now on this worker has another share of the
    // batches. Both may be NULL.
    void (*forget)(void *ctx, const struct msg_forget *m);
    void (*view)(void *ctx, const struct msg_view *m);
    void *ctx;
};

int member_open(struct member **ret, const struct member_options *o, struct err *e);
void member_close(struct member *m);

// Sets the address at which the node listens, if it was not known at member_open. Call it
// before member_serve.
int member_set_address(struct member *m, const char *address, struct err *e);

// Gives the member its van, once that is open; the member starts to connect at once.
void member_serve(struct member *m, struct van *v, uint64_t now);

// The node's van handler calls these functions. They return true if the event belonged to
// the member.
bool member_opened(struct member *m, van_link link, bool accepted, uint64_t now);
bool member_message(struct member *m, van_link link, const struct van_message *msg,
                    uint64_t now);
bool member_closed(struct member *m, van_link link, const struct err *why, uint64_t now);
uint64_t member_tick(struct member *m, uint64_t now);

// Returns the identity with which this member greets other nodes; sessions of the same
// van use it (cluster/session.h).
const struct session_who *member_who(const struct member *m);
// Handles HELLO of a peer that opened a link to this node. Checks that the message is for
// this cluster, that the session belongs to the peer, and that the roster, if it lists
// the session, lists it as alive. Answers WELCOME or ERROR. On success, *ret_node and
// *ret_session are the node and the session of the peer.
int member_greeted(struct member *m, van_link link, const struct van_message *msg,
                   uint32_t *ret_node, uint64_t *ret_session, struct err *e);

// Tells the member that a peer, which has proven its identity, knows this
// generation of the scheduler.
void member_heard_of(struct member *m, uint64_t generation, uint64_t now);

// Returns the node's id; 0 if it has not joined yet.
uint32_t member_id(const struct member *m);
// Returns the node's session; 0 if it has not joined yet.
uint64_t member_session(const struct member *m);
uint32_t member_rank(const struct member *m);
// Returns the roster, whose epoch is 0 before the cluster is ready.
const struct roster *member_roster(const struct member *m);
// Returns whether the node has joined and the cluster is ready.
bool member_ready(const struct member *m);
// Returns whether the member has ended. Then ret_why->code is 0 if the run ended well.
bool member_ended(const struct member *m, struct err *ret_why);
// Returns 0 if the member has not ended, otherwise the error with which it ended. Callers
// treat any end as a failure, so the error is TUG_EIO even if the run ended without an
// error.
int member_over(const struct member *m, struct err *e);
// Returns what the member waits for, as words to follow "the scheduler at X" in a
// message.
const char *member_waits_for(const struct member *m);

// Asks the scheduler for its newest roster, after a peer has mentioned the newer `epoch`.
void member_want_roster(struct member *m, uint64_t epoch);

// Sends the scheduler a message that needs no answer. The message is lost if the
// scheduler cannot be reached.
void member_tell(struct member *m, uint16_t type, const void *msg);

// Sends the scheduler a request, and repeats it until it is answered. Only one request of
// each type may be in flight. `done` is called with the answer, or with NULL if the
// member ends first. Returns 0, TUG_EUSAGE (a request of this type is under way, or the
// member has ended) or TUG_ENOMEM.
typedef void (*member_answer_fn)(void *ctx, const struct van_message *answer);
int member_ask(struct member *m, uint16_t type, const void *msg, member_answer_fn done,
               void *ctx);
// Gives up the requests with this ctx: `done` will not be called.
void member_unask(struct member *m, const void *ctx);

// Enters the next barrier of the group (enum wire_group bits). The caller polls
// member_barrier_done, where *ret_missing names the members that have not come yet. Any
// loop of a process stands for all its loops. A member that joins a running cluster is
// waited for from its first barrier on.
void member_barrier(struct member *m, uint8_t group);
bool member_barrier_done(const struct member *m, uint8_t group, const char **ret_missing);
// Returns the result of a wait for a barrier: 0 if all nodes have come; the error with
// which the member ended; or TUG_EINTERRUPTED, or TUG_EIO after `seconds`, with the names
// of the missing nodes. `what` is the name of the barrier in the error.
int member_barrier_result(const struct member *m, uint8_t group, const char *what,
                          bool interrupted, double seconds, struct err *e);

// A collective call of all workers: each worker sends bytes, the scheduler gathers or
// reduces them, and all workers get the result.
struct member_collect {
    const char *call; // name of the call, which must be the same at all workers
    enum wire_collect op;
    enum wire_number type;
    uint64_t first; // number of the first value in the call, for error messages
    // This worker's number in the call: the position of its bytes in the result.
    uint32_t index;
    // The number of workers that must take part; their indexes are 0 to workers - 1. If
    // it is 0, all living workers take part, with any indexes.
    uint32_t workers;
    const void *bytes;
    size_t n; // number of bytes, at most WIRE_COLLECT_MAX
};
// Returns how many bytes each of `workers` workers sends at a time if it has n bytes: n,
// or a multiple of 8 if n is too large. The bytes of all workers must fit into the
// scheduler's memory for a gather, or into half of its memory for a reduction.
size_t member_collect_piece(size_t n, enum wire_collect op, uint32_t workers);
// Enters the next barrier of the workers with a collective call. The caller polls
// member_barrier_done of WIRE_GROUP_WORKERS and then gets the answer. Returns TUG_EUSAGE
// if the previous barrier is not complete yet, or the arguments are not valid.
int member_collect(struct member *m, const struct member_collect *c, struct err *e);
// Gets the answer to the last complete collective call, which is valid until the next
// call, or the error with which the call failed at all workers.
int member_collected(const struct member *m, struct wire_text *ret, struct err *e);

// Tells the scheduler that the node has finished, or (unless `why` is NULL or its code is
// 0) failed for this reason. The caller polls member_left.
void member_leave(struct member *m, const struct err *why);
bool member_left(const struct member *m);

#endif
