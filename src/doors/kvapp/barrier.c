// Barriers. The scheduler handles barriers of processes. Barriers of customers are
// requests to the node in the scheduler's process (or to the first server, if that hosts
// the scheduler), which answers all of them when the last one has arrived.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "doors/kvapp/node.h"
#include "runtime/environment.h"
#include "runtime/interrupt.h"

static int check_allowed(const struct tug_node *n, uint32_t group, struct err *e)
{
    if (pump_working(n->pump))
        return err_set(e, TUG_EUSAGE, "a callback or handler must not wait at a barrier");
    if (group > TUG_GROUP_ALL || !(group & (uint32_t)n->o.role))
        return err_set(e, TUG_EUSAGE,
                       "this node cannot wait at a barrier of group %u, because it is "
                       "not in the group",
                       group);
    return group == TUG_GROUP_WORKERS ? 0 : environment_needs_servers(e);
}

// ---------------------------------------------------------------- barriers of processes

struct barrier {
    struct tug_node *node;
    uint8_t group;
};

static bool barrier_over(void *ctx)
{
    const struct barrier *b = ctx;
    return b->node->over || member_barrier_done(b->node->member, b->group, NULL);
}

// Returns the result of a wait for a barrier. The caller has the van.
static int result(const struct tug_node *n, uint8_t group, bool in_time, struct err *e)
{
    char what[40];
    if (n->over && !member_barrier_done(n->member, group, NULL))
        return last_error_is(&n->why);
    if (in_time)
        return 0;
    snprintf(what, sizeof(what), "the barrier of group %u", group);
    return member_barrier_result(n->member, group, what, interrupt_came(),
                                 n->o.wait_seconds, e);
}

int tug_node_barrier(struct tug_node *n, uint32_t group)
{
    struct barrier b = {.node = n, .group = (uint8_t)group};
    struct err *e = last_error();
    TRY(check_allowed(n, group, e));
    pump_enter(n->pump);
    int rc = n->over ? last_error_is(&n->why) : 0;
    if (rc == 0)
        member_barrier(n->member, b.group);
    pump_leave(n->pump);
    if (rc != 0)
        return rc;
    bool in_time = pump_wait(n->pump, barrier_over, &b, kv_node_deadline(n));
    pump_enter(n->pump);
    rc = result(n, b.group, in_time, e);
    pump_leave(n->pump);
    return rc;
}

// ---------------------------------------------------------------- barriers of customers

// The body of the request by which a customer reaches a barrier. The head of this
// request is the group.
struct reach {
    uint32_t customer;
    uint32_t wait_ms;
};

int kv_barriers_open(struct tug_node *n, struct err *e)
{
    n->barriers = mem_zalloc(sizeof(*n->barriers));
    if (n->barriers == NULL)
        return err_nomem(e, "a customer for barriers");
    *n->barriers = (struct tug_app){.node = n, .app = KV_BARRIERS};
    return 0;
}

// The thread that has the van calls the following functions.

static bool read_reach(const struct received *q, struct reach *ret)
{
    if (q->m.body.n != sizeof(*ret))
        return false;
    memcpy(ret, q->m.body.data, sizeof(*ret));
    return q->m.head > 0 && q->m.head <= TUG_GROUP_ALL;
}

static struct received *reached_by(const struct tug_node *n, uint32_t node,
                                   const struct reach *like, int32_t group)
{
    struct reach r;
    for (struct received *q = n->reached; q != NULL; q = q->next)
        if (q->m.sender == node && q->m.head == group && read_reach(q, &r) &&
            r.customer == like->customer)
            return q;
    return NULL;
}

// Writes the names of the group's nodes that have not reached the barrier of *q to `to`.
// Returns false if all have reached it.
static bool missing(struct tug_node *n, const struct received *q, char *to, size_t cap)
{
    struct reach r = {0};
    uint32_t ids[ROSTER_MAX_NODES];
    size_t n_ids = kv_node_ids(n, (uint32_t)q->m.head, ids, ROSTER_MAX_NODES), at = 0;
    bool any = false;
    (void)read_reach(q, &r);
    to[0] = '\0';
    for (size_t i = 0; i < n_ids; i++) {
        char name[ROSTER_NAME_MAX];
        if (reached_by(n, ids[i], &r, q->m.head) != NULL)
            continue;
        int more = snprintf(to + at, cap - at, "%s%s", any ? ", " : "",
                            kv_node_name(n, ids[i], name));
        any = true;
        if (more < 0 || (size_t)more >= cap - at)
            break;
        at += (size_t)more;
    }
    return any;
}

static void done_with(struct tug_node *n, struct received *q, const char *why)
{
    struct msg_app m = {0};
    struct err e;
    struct received **at = &n->reached;
    while (*at != q)
        at = &(*at)->next;
    *at = q->next;
    if (why != NULL)
        kv_received_refuse(n, q, TUG_EIO, why);
    else
        (void)kv_received_answer(n, q, &m, NULL, &e);
    kv_received_let_go(q);
}

static bool is_waiting(const struct tug_node *n, const struct received *q)
{
    const struct received *p = n->reached;
    while (p != NULL && p != q)
        p = p->next;
    return p != NULL;
}

// Answers the requests of all nodes that have reached the barrier of *q. *q itself is
// answered even if its node has died or is not in the group.
static void barrier_complete(struct tug_node *n, struct received *q)
{
    uint32_t ids[ROSTER_MAX_NODES];
    struct reach r = {0};
    int32_t group = q->m.head;
    size_t n_ids = kv_node_ids(n, (uint32_t)group, ids, ROSTER_MAX_NODES);
    (void)read_reach(q, &r);
    for (size_t i = 0; i < n_ids; i++)
        done_with(n, reached_by(n, ids[i], &r, group), NULL);
    if (is_waiting(n, q))
        done_with(n, q, "its node is not in the group of this barrier, or has died");
}

void kv_barrier_reached(struct tug_node *n, struct received *q)
{
    struct reach r;
    bool good = read_reach(q, &r);
    struct received *before = good ? reached_by(n, q->m.sender, &r, q->m.head) : NULL;
    // `before` is from an earlier wait of the same node that was interrupted. It must not
    // count for this barrier.
    if (before != NULL)
        done_with(n, before, "the same node has called this barrier again");
    q->next = n->reached;
    n->reached = q;
    if (!good) {
        done_with(n, q, "the barrier's request is malformed");
        return;
    }
    q->give_up = van_now(n->van) + (uint64_t)r.wait_ms * (SECOND_NS / 1000);
    (void)kv_barriers_look(n, van_now(n->van));
}

// Completes barriers that lack only dead nodes, and gives up requests whose time limit
// has passed. Called repeatedly while barriers are open; returns when it is to be called
// again.
uint64_t kv_barriers_look(struct tug_node *n, uint64_t now)
{
    char who[256], why[400];
    uint64_t next = VAN_NEVER;
    struct received *q = n->placed ? n->reached : NULL;
    while (q != NULL) {
        struct reach r = {0};
        if (!missing(n, q, who, sizeof(who))) {
            barrier_complete(n, q);
            // Starts from the beginning of the list again, because other requests may
            // have been removed from it.
            q = n->reached;
            continue;
        }
        struct received *behind = q->next;
        (void)read_reach(q, &r);
        if (q->give_up <= now) {
            snprintf(
                why, sizeof(why),
                "the barrier of customers %u in group %d is not complete: %s did not "
                "come",
                r.customer, q->m.head, who);
            done_with(n, q, why);
        } else if (q->give_up < next) {
            next = q->give_up;
        }
        q = behind;
    }
    return next;
}

// Returns the id of the node that answers the requests of customers at barriers.
static uint32_t meeting_place(const struct tug_node *n)
{
    uint32_t first = n->n_servers > 0 ? n->servers[0] : 0;
    const struct roster *r = member_roster(n->member);
    for (uint32_t i = 0; i < r->n_nodes; i++)
        if (r->nodes[i].role == WIRE_SCHEDULER)
            return r->nodes[i].id;
    return first;
}

int tug_node_barrier_of(struct tug_node *n, uint32_t customer, uint32_t group)
{
    struct err *e = last_error();
    uint32_t timestamp;
    double longest = 4e6; // in seconds; as milliseconds it fits 32 bits
    double wait = n->o.wait_seconds < longest ? n->o.wait_seconds : longest;
    struct reach r = {.customer = customer, .wait_ms = (uint32_t)(wait * 1000)};
    if (customer == 0)
        return tug_node_barrier(n, group);
    TRY(check_allowed(n, group, e));
    TRY(kv_node_wait_ready(n));
    pump_enter(n->pump);
    int rc = kv_app_ask(n->barriers, (int32_t)group, &r, sizeof(r), meeting_place(n),
                        &timestamp, e);
    pump_leave(n->pump);
    return rc != 0 ? rc
                   : kv_app_wait(n->barriers, timestamp,
                                 n->o.wait_seconds + (double)KV_LONGER / SECOND_NS);
}
