// The node's view of the cluster (roster, ids, ranges), and the handlers of its van's
// events.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "doors/kvapp/node.h"
#include "os/clock.h"
#include "runtime/environment.h"
#include "runtime/interrupt.h"
#include "runtime/ready.h"

// The default polling time, in microseconds: several times the cost of waking up. With
// less, two nodes that answer each other would fall asleep just before each answer.
enum { SPIN_US = 300 };

const char *kv_node_name(const struct tug_node *n, uint32_t id, char to[ROSTER_NAME_MAX])
{
    return roster_name_of(member_roster(n->member), id, to);
}

uint64_t kv_node_deadline(const struct tug_node *n)
{
    return van_now(n->van) + clock_ns_of(n->o.wait_seconds);
}

uint64_t kv_node_spin_ns(const struct tug_node *n)
{
    return clock_ns_of((n->o.spin_us > 0 ? n->o.spin_us : SPIN_US) * 1e-6);
}

void kv_node_give_up(struct tug_node *n, const struct err *why)
{
    if (n->over)
        return;
    n->over = true;
    n->why = *why;
    for (struct kv_request *r = n->first, *behind; r != NULL; r = behind) {
        behind = r->behind;
        for (uint32_t i = 0; i < r->n_parts && r->state == KV_OPEN; i++)
            if (!r->parts[i].answered)
                kv_part_answered(&r->parts[i], &n->why);
    }
    for (struct kv_peer *p = n->peers; p != NULL; p = p->next)
        kv_line_clear(&p->line);
}

// ---------------------------------------------------------------- the roster

static int take_servers(struct tug_node *n, const struct roster *r)
{
    uint32_t *servers = mem_zalloc(r->servers * sizeof(*servers));
    uint64_t *last_keys = mem_zalloc(r->servers * sizeof(*last_keys));
    if (servers == NULL || last_keys == NULL) {
        mem_free(servers);
        mem_free(last_keys);
        return TUG_ENOMEM;
    }
    for (uint32_t i = 0; i < r->n_nodes; i++) {
        const struct roster_node *s = &r->nodes[i];
        if (s->role == WIRE_SERVER && s->loop == 0 && s->rank < r->servers)
            servers[s->rank] = s->id;
    }
    uint32_t shift = 64 - r->partition_bits;
    for (uint64_t p = 0; p >> r->partition_bits == 0; p++) {
        const struct roster_node *s = roster_find(r, r->owners[WIRE_SPACE_RANGE][p]);
        if (s != NULL && s->rank < r->servers)
            last_keys[s->rank] = shift < 64 ? ((p + 1) << shift) - 1 : UINT64_MAX;
    }
    mem_free(n->servers);
    mem_free(n->last_keys);
    n->servers = servers;
    n->last_keys = last_keys;
    n->n_servers = r->servers;
    if (!n->placed && n->role != WIRE_SCHEDULER)
        role_tell_rank(&n->environment, n->role == WIRE_SERVER, member_rank(n->member));
    n->placed = true;
    return 0;
}

// Checks that the servers' ranges cover all keys: the last range must end with the
// greatest key. Requests are cut by these ranges.
static int check_ranges(const struct roster *r, struct err *e)
{
    uint32_t last = ((uint32_t)1 << r->partition_bits) - 1;
    const struct roster_node *s = roster_find(r, r->owners[WIRE_SPACE_RANGE][last]);
    if (s != NULL && s->rank < r->servers)
        return 0;
    return err_set(e, TUG_EDATA,
                   "the scheduler's roster is damaged: none of the %u servers has the "
                   "last range of keys",
                   r->servers);
}

// Checks that the cluster has the numbers of servers and workers with which the program
// was started, because programs use these numbers to divide keys and data.
static int check_counts(const struct tug_node *n, const struct roster *r, struct err *e)
{
    if ((n->o.servers == 0 || n->o.servers == r->servers) &&
        (n->o.workers == 0 || n->o.workers == r->workers))
        return 0;
    return err_set(
        e, TUG_EUSAGE,
        "this process expects %u servers and %u workers, but the scheduler at %s "
        "expects %u and %u: DMLC_NUM_SERVER and DMLC_NUM_WORKER (or the options for "
        "them) must "
        "be the same in all processes",
        n->o.servers, n->o.workers, n->scheduler, r->servers, r->workers);
}

// Checks that this worker's rank is below the cluster's number of workers. If it is not,
// the cluster already has all its workers; it continues without this one.
static int check_rank(struct tug_node *n, const struct roster *r, struct err *e)
{
    n->one_too_many = n->role == WIRE_WORKER && member_rank(n->member) >= r->workers;
    if (!n->one_too_many)
        return 0;
    return err_set(
        e, TUG_EUSAGE,
        "this cluster was started for %u worker%s, and %s: it does not take another "
        "(the replacement of a dead worker is admitted %.3g s after the death)",
        r->workers, r->workers == 1 ? "" : "s",
        r->workers == 1 ? "it has joined" : "all have joined", n->o.dead_seconds);
}

// Leaves the cluster because the roster does not fit this node.
static void leave_at_once(struct tug_node *n, const struct err *why)
{
    kv_node_give_up(n, why);
    member_leave(n->member, n->one_too_many ? NULL : why);
}

static void look_at_roster(struct tug_node *n)
{
    const struct roster *r = member_roster(n->member);
    struct err e;
    if (r->version == n->version || r->epoch == 0)
        return;
    if (check_ranges(r, &e) != 0 || check_counts(n, r, &e) != 0 ||
        check_rank(n, r, &e) != 0) {
        n->version = r->version;
        leave_at_once(n, &e);
        return;
    }
    n->o.servers = r->servers; // a worker may have been started without these numbers
    n->o.workers = r->workers;
    if (take_servers(n, r) != 0)
        return; // the next round of the van's loop tries again
    n->version = r->version;
    kv_numbers_forget(n, false);
    kv_peers_roster(n);
    for (uint32_t i = 0; n->role == WIRE_WORKER && i < n->n_servers; i++)
        kv_peer_reach(n, n->servers[i]);
}

// ---------------------------------------------------------- handlers of the van's events

// Finds the part of a request to which an answer belongs; NULL if that part was not sent
// or is gone.
static struct kv_part *asked_of(struct tug_node *n, const struct kv_peer *p,
                                uint64_t request)
{
    struct kv_request *r = kv_request_by_id(n, request);
    struct kv_part *part = r != NULL ? kv_request_part(r, p->node) : NULL;
    return part != NULL && part->peer == p && !part->queued ? part : NULL;
}

static void *on_place(void *ctx, van_link link, uint16_t type, uint64_t request,
                      const union wire_any *head, uint64_t body_bytes)
{
    struct tug_node *n = ctx;
    const struct kv_peer *p = kv_peer_find(n, link);
    if (p == NULL && n->beneath.place != NULL)
        return n->beneath.place(n->beneath.ctx, link, type, request, head, body_bytes);
    struct kv_part *part = p != NULL && type == MSG_APP ? asked_of(n, p, request) : NULL;
    return part != NULL ? kv_place(part->request, part, &head->app, body_bytes) : NULL;
}

static void node_on_opened(void *ctx, van_link link, bool accepted, uint64_t now)
{
    struct tug_node *n = ctx;
    struct kv_peer *p = accepted ? NULL : kv_peer_find(n, link);
    if (p != NULL) {
        kv_peer_opened(p, link, now);
    } else if (n->shard != NULL) {
        n->beneath.opened(n->beneath.ctx, link, accepted, now);
    } else if (!member_opened(n->member, link, accepted, now) && accepted) {
        struct guest *g = mem_zalloc(sizeof(*g));
        if (g == NULL) {
            van_close_link(n->van, link);
            return;
        }
        chains_put(&n->guests, &g->by_link, link);
    }
}

static void answered(struct tug_node *n, struct kv_peer *p, struct van_message *m)
{
    struct kv_part *part = asked_of(n, p, m->request);
    struct err why;
    char name[ROSTER_NAME_MAX];
    if (part == NULL)
        return; // the request was given up
    struct kv_request *r = part->request;
    if (wire_check_flags(m->type, m->m, &why) != 0) {
        kv_part_answered(part, &why);
    } else if (m->type == MSG_ERROR) {
        wire_refusal(&m->m->error, kv_node_name(n, part->node, name), &why);
        kv_part_answered(part, &why);
    } else if (r->kind == KV_DATA) {
        kv_answered(n, part, m);
    } else {
        bool wanted = r->kind == KV_SIMPLE ? r->app->h.response != NULL
                                           : r->app->h.message != NULL;
        if (wanted)
            kv_received_response(r->app, p->node, m);
        kv_part_answered(part, NULL);
    }
}

static struct guest *guest_of(struct tug_node *n, van_link link)
{
    return (struct guest *)chains_find(&n->guests, link);
}

static void forget_guest(struct tug_node *n, van_link link)
{
    struct guest *g = guest_of(n, link);
    if (g == NULL)
        return;
    chains_take(&n->guests, &g->by_link);
    mem_free(g);
}

// Refuses a request of a node that counts as dead, because another node may already do its
// work.
static void refuse_dead(struct tug_node *n, const struct guest *g, uint64_t request)
{
    struct err why;
    char name[ROSTER_NAME_MAX];
    err_set(
        &why, TUG_EIO,
        "the request was sent by %s, whose session has ended because it counted as dead",
        kv_node_name(n, g->node, name));
    struct msg_error e = wire_error(&why);
    (void)van_send(n->van, (van_link)g->by_link.key, MSG_ERROR, request, &e, NULL);
}

static void from_guest(struct tug_node *n, struct guest *g, struct van_message *m)
{
    van_link link = (van_link)g->by_link.key;
    if (!g->greeted && member_greeted(n->member, link, m, &g->node, &g->session, NULL))
        forget_guest(n, link); // the guest has got the error, and its link is closed
    else if (!g->greeted)
        g->greeted = true;
    else if (m->type == MSG_PING)
        (void)van_send(n->van, link, MSG_OK, m->request, &(struct msg_ok){0}, NULL);
    else if (m->type != MSG_APP || !wire_may(m->type, van_trust(n->van, link).role))
        return;
    else if (roster_session_over(member_roster(n->member), g->session))
        refuse_dead(n, g, m->request);
    else
        kv_received_app(n, link, g->node, m);
}

static void node_on_message(void *ctx, van_link link, struct van_message *m, uint64_t now)
{
    struct tug_node *n = ctx;
    struct kv_peer *p = kv_peer_find(n, link);
    if (p != NULL) {
        if (kv_peer_message(n, p, link, m, now))
            answered(n, p, m);
    } else if (n->shard != NULL) {
        n->beneath.message(n->beneath.ctx, link, m, now);
    } else if (!member_message(n->member, link, m, now)) {
        struct guest *g = guest_of(n, link);
        if (g != NULL)
            from_guest(n, g, m);
    }
}

static void node_on_closed(void *ctx, van_link link, const struct err *why, uint64_t now)
{
    struct tug_node *n = ctx;
    struct kv_peer *p = kv_peer_find(n, link);
    if (p != NULL)
        kv_peer_closed(n, p, link, why, now);
    else if (n->shard != NULL)
        n->beneath.closed(n->beneath.ctx, link, why, now);
    else if (!member_closed(n->member, link, why, now))
        forget_guest(n, link);
}

static uint64_t node_on_tick(void *ctx, uint64_t now)
{
    struct tug_node *n = ctx;
    struct err why;
    uint64_t next = n->shard != NULL ? n->beneath.tick(n->beneath.ctx, now)
                                     : member_tick(n->member, now);
    look_at_roster(n);
    if (member_roster(n->member)->version != n->held_version)
        kv_received_deliver_held(n); // the new roster may have the nodes that sent them
    kv_peers_flush(n);
    kv_kept_drain(n);
    if (!n->over && member_over(n->member, &why) != 0)
        kv_node_give_up(n, &why);
    uint64_t expires = kv_received_expire(n, now);
    next = clock_earlier(next, kv_barriers_look(n, now));
    next = clock_earlier(next, kv_peers_look(n, now));
    next = clock_earlier(next, kv_handle_look(n, now));
    kv_node_check(n, now);
    return clock_earlier(next, expires);
}

struct van_handler kv_node_handler(struct tug_node *n)
{
    return (struct van_handler){
        .ctx = n,
        .opened = node_on_opened,
        .message = node_on_message,
        .place = on_place,
        .closed = node_on_closed,
        .tick = node_on_tick,
    };
}

// -------------------------------------------------- facts about the node and the cluster

int tug_node_role(const struct tug_node *n)
{
    return n->o.role;
}

uint32_t tug_node_servers(const struct tug_node *n)
{
    pump_enter(n->pump);
    uint32_t servers = n->o.servers;
    pump_leave(n->pump);
    return servers;
}

uint32_t tug_node_workers(const struct tug_node *n)
{
    pump_enter(n->pump);
    uint32_t workers = n->o.workers;
    pump_leave(n->pump);
    return workers;
}

uint32_t tug_node_id(struct tug_node *n)
{
    pump_enter(n->pump);
    uint32_t id = member_id(n->member);
    pump_leave(n->pump);
    return id;
}

uint32_t tug_node_rank(struct tug_node *n)
{
    pump_enter(n->pump);
    uint32_t rank = member_rank(n->member);
    pump_leave(n->pump);
    return rank;
}

bool kv_node_is_in(const struct roster *r, const struct roster_node *node,
                   uint32_t groups)
{
    bool extra = node->role == WIRE_WORKER && node->rank >= r->workers;
    return node->loop == 0 && !extra && (group_of_role(node->role) & groups);
}

static size_t ids_of(const struct tug_node *n, bool alive, uint32_t groups, uint32_t *ret,
                     size_t room)
{
    const struct roster *r = member_roster(n->member);
    size_t found = 0;
    for (uint32_t i = 0; i < r->n_nodes; i++) {
        const struct roster_node *node = &r->nodes[i];
        if (node->alive != alive || !kv_node_is_in(r, node, groups))
            continue;
        if (found < room)
            ret[found] = node->id;
        found++;
    }
    return found;
}

size_t kv_node_ids(struct tug_node *n, uint32_t group_or_id, uint32_t *ret, size_t room)
{
    if (group_or_id < FIRST_SERVER)
        return ids_of(n, true, group_or_id, ret, room);
    if (roster_find(member_roster(n->member), group_or_id) == NULL)
        return 0;
    if (room > 0)
        ret[0] = group_or_id;
    return 1;
}

size_t tug_node_ids(struct tug_node *n, uint32_t group_or_id, uint32_t *ret, size_t room)
{
    pump_enter(n->pump);
    size_t found = kv_node_ids(n, group_or_id, ret, room);
    pump_leave(n->pump);
    return found;
}

// Returns the port of the first TCP address in a list of addresses, or of a HOST:PORT; 0
// if `addresses` has no port.
static uint16_t port_of(const char *addresses)
{
    const char *tcp = strstr(addresses, "://") == NULL ? addresses
                                                       : strstr(addresses, "tcp://");
    size_t n = tcp != NULL ? strcspn(tcp, ",") : 0;
    const char *port = n > 0 ? memrchr(tcp, ':', n) : NULL;
    return port != NULL ? (uint16_t)strtoul(port + 1, NULL, 10) : 0;
}

// Returns whether the node replaces a dead node of the same role and rank.
static bool in_dead_ones_place(const struct roster *r, const struct roster_node *node)
{
    for (uint32_t i = 0; i < r->n_nodes; i++) {
        const struct roster_node *x = &r->nodes[i];
        if (!x->alive && x->id != node->id && x->role == node->role &&
            x->rank == node->rank && x->loop == node->loop)
            return true;
    }
    return false;
}

int tug_node_find(struct tug_node *n, uint32_t id, struct tug_node_info *ret)
{
    int rc = 0;
    pump_enter(n->pump);
    const struct roster_node *r = roster_find(member_roster(n->member), id);
    if (r == NULL) {
        rc = err_set(last_error(), TUG_EUSAGE, "there is no node %u", id);
    } else {
        bool roots = r->role == WIRE_SCHEDULER && port_of(n->scheduler) != 0;
        *ret = (struct tug_node_info){
            .role = group_of_role(r->role),
            .id = id,
            .rank = r->rank,
            .alive = r->alive,
            .port = port_of(roots ? n->scheduler : r->address),
            .recovered = r->alive && in_dead_ones_place(member_roster(n->member), r),
        };
        snprintf(ret->host, sizeof(ret->host), "%s", r->host);
    }
    pump_leave(n->pump);
    return rc;
}

int tug_node_reach(struct tug_node *n, uint32_t id)
{
    int rc = 0;
    pump_enter(n->pump);
    if (roster_find(member_roster(n->member), id) == NULL)
        rc = err_set(last_error(), TUG_EUSAGE, "there is no node %u", id);
    else
        kv_peer_reach(n, id);
    pump_leave(n->pump);
    return rc;
}

size_t tug_node_dead(struct tug_node *n, uint32_t *ret, size_t room)
{
    pump_enter(n->pump);
    size_t found = ids_of(n, false, TUG_GROUP_ALL, ret, room);
    pump_leave(n->pump);
    return found;
}

int tug_node_range(struct tug_node *n, uint32_t server_rank, uint64_t *ret_first,
                   uint64_t *ret_last)
{
    int rc = 0;
    pump_enter(n->pump);
    if (!n->placed)
        rc = err_set(last_error(), TUG_EUSAGE,
                     "the servers have no ranges of keys until all servers and workers "
                     "have joined");
    else if (server_rank >= n->n_servers)
        rc = err_set(last_error(), TUG_EUSAGE,
                     "there is no server %u; the number of servers is %u", server_rank,
                     n->n_servers);
    if (rc == 0) {
        *ret_first = server_rank > 0 ? n->last_keys[server_rank - 1] + 1 : 0;
        *ret_last = n->last_keys[server_rank];
    }
    pump_leave(n->pump);
    return rc;
}

// ------------------------------ callbacks that the program queues itself (tug_node_call)

struct call {
    struct pump_work work;
    void (*fn)(void *ctx);
    void *ctx;
};

static void run_call(struct pump_work *w)
{
    struct call *c = (struct call *)w;
    c->fn(c->ctx);
    mem_free(c);
}

int tug_node_call(struct tug_node *n, void (*fn)(void *ctx), void *ctx)
{
    struct call *c = mem_zalloc(sizeof(*c));
    if (c == NULL)
        return err_nomem(last_error(), "a callback");
    *c = (struct call){.work = {.run = run_call}, .fn = fn, .ctx = ctx};
    pump_enter(n->pump);
    int rc = n->ending ? last_error_is(&n->why) : 0;
    if (rc == 0)
        pump_queue(n->pump, &c->work);
    pump_leave(n->pump);
    if (rc != 0)
        mem_free(c);
    return rc;
}

// ---------------------------------------------------------------- waiting

static bool ready_or_over(void *ctx)
{
    const struct tug_node *n = ctx;
    return n->over || n->placed;
}

int kv_node_wait_ready(struct tug_node *n)
{
    struct err *e = last_error();
    double seconds;
    bool in_time = ready_wait(n->pump, n->van, n->member, ready_or_over, n,
                              n->o.wait_seconds, &seconds);
    pump_enter(n->pump);
    struct err why = {0};
    int rc = 0;
    // A short run may end, without an error, before a slow server or the scheduler gets here.
    bool ended_well = n->role != WIRE_WORKER && member_ended(n->member, &why) &&
                      why.code == 0;
    if (n->over)
        rc = ended_well ? 0 : last_error_is(&n->why);
    else if (!in_time && interrupt_came())
        rc = err_set(
            e, TUG_EINTERRUPTED,
            "interrupted before the cluster was complete: the scheduler at %s %s",
            n->scheduler, member_waits_for(n->member));
    else if (!in_time && !pump_broken(n->pump, e))
        rc = err_set(e, TUG_EIO,
                     "the cluster is not complete after %.3g s: the scheduler at %s %s",
                     seconds, n->scheduler, member_waits_for(n->member));
    pump_leave(n->pump);
    return rc;
}

int tug_node_wait(struct tug_node *n)
{
    if (pump_working(n->pump))
        return err_set(last_error(), TUG_EUSAGE, "a callback or handler must not wait");
    return kv_node_wait_ready(n);
}
