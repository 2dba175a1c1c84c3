// Makes the roster and sends it to all nodes until they acknowledge it.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/plural.h"
#include "cluster/ring.h"
#include "cluster/scheduler/scheduler_keep.h"

enum {
    SMALL_CLUSTER = 256, // largest number of nodes that get each roster without a pause
    PAUSE_NS = 100000,   // pause between two versions of the roster in a larger cluster,
                         // per node
    LATER_NS = 5000000,  // delay before a roster for which no room was left is sent
    ROSTERS_QUEUED_MAX = 64 << 20, // limit of queued bytes of all rosters together
};

static int by_id(const void *a, const void *b)
{
    const struct roster_node *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

// Returns the scheduler's own line. If a member has joined in the scheduler's role (the
// process of a program), that member's line takes its place.
static struct roster_node own_line(const struct scheduler *s)
{
    struct roster_node n = {
        .id = 1,
        .role = WIRE_SCHEDULER,
        .alive = true,
        .pid = s->o.pid,
    };
    memcpy(n.host, s->host, sizeof(n.host));
    memcpy(n.address, s->address, sizeof(n.address));
    return n;
}

// Writes the moves that are under way, sorted by space and partition.
static uint32_t list_moves(const struct scheduler *s, struct roster_move *ret)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->moving.n; i++) {
        const struct move *x = &s->moving.list[i];
        if (!x->over)
            ret[n++] = (struct roster_move){x->id, x->space, x->partition, x->to,
                                            scheduler_has_chains(s)};
    }
    return n;
}

int scheduler_list(struct scheduler *s)
{
    struct roster_node *list = mem_array(s->n_nodes + 1, sizeof(*list));
    struct roster_move *moves = mem_array(s->moving.n + 1, sizeof(*moves));
    struct roster_unbacked *unbacked = mem_array(s->n_unbacked + 1, sizeof(*unbacked));
    if (list == NULL || moves == NULL || unbacked == NULL) {
        mem_free(list);
        mem_free(moves);
        mem_free(unbacked);
        return TUG_ENOMEM;
    }
    uint32_t n = 0;
    bool have_scheduler = false;
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        if (!s->nodes[i].used ||
            (s->nodes[i].n.role == WIRE_SCHEDULER && !s->nodes[i].n.alive))
            continue;
        have_scheduler |= s->nodes[i].n.role == WIRE_SCHEDULER;
        list[n++] = s->nodes[i].n;
    }
    if (!have_scheduler)
        list[n++] = own_line(s);
    qsort(list, n, sizeof(*list), by_id);
    mem_free(s->roster.nodes);
    s->roster.nodes = list;
    s->roster.n_nodes = n;
    mem_free(s->roster.moves);
    s->roster.moves = moves;
    s->roster.n_moves = list_moves(s, moves);
    mem_free(s->roster.unbacked);
    s->roster.unbacked = unbacked;
    s->roster.n_unbacked = scheduler_unbacked_list(s, unbacked);
    s->roster.version++;
    s->roster.newest = s->session;
    s->listed_at = s->now;
    s->changed = false;
    return 0;
}

bool scheduler_takes(const struct roster_node *n, int space, bool any)
{
    enum wire_tables other = space == WIRE_SPACE_DENSE ? WIRE_TABLES_SPARSE
                                                       : WIRE_TABLES_DENSE;
    return n->role == WIRE_SERVER && n->alive && (any || n->tables != other);
}

static int by_rank(const void *a, const void *b)
{
    const struct roster_node *x = *(const struct roster_node *const *)a;
    const struct roster_node *y = *(const struct roster_node *const *)b;
    if (x->rank != y->rank)
        return (x->rank > y->rank) - (x->rank < y->rank);
    return (x->loop > y->loop) - (x->loop < y->loop);
}

// Returns the loops that take tables of the space, by ascending id. For ranges, loops are
// sorted by the ranks of their processes, and loops of a process are adjacent, so that a
// server can name its range.
static size_t loops_of(const struct scheduler *s, int space, uint32_t *ret,
                       const struct roster_node **room)
{
    size_t n = 0;
    for (int any = 0; any < 2 && n == 0; any++)
        for (uint32_t i = 0; i < s->roster.n_nodes; i++)
            if (scheduler_takes(&s->roster.nodes[i], space, any))
                room[n++] = &s->roster.nodes[i];
    if (space == WIRE_SPACE_RANGE)
        qsort(room, n, sizeof(*room), by_rank);
    for (size_t i = 0; i < n; i++)
        ret[i] = room[i]->id;
    return n;
}

// Adds to *shorter the number of chains with too few members.
static int place_space(struct scheduler *s, int space, uint64_t *shorter)
{
    uint32_t partitions = roster_partitions(&s->roster);
    uint32_t *owners = mem_array(partitions, sizeof(*owners));
    uint32_t *ids = mem_array(s->roster.n_nodes, sizeof(*ids));
    const struct roster_node **room = mem_array(s->roster.n_nodes, sizeof(*room));
    int rc = owners != NULL && ids != NULL && room != NULL ? 0 : TUG_ENOMEM;
    if (rc == 0) {
        size_t n = loops_of(s, space, ids, room);
        if (space == WIRE_SPACE_RANGE)
            ring_place_ranges(ids, n, partitions, owners);
        else
            rc = ring_place(ids, n, partitions, owners);
    }
    mem_free(room);
    mem_free(ids);
    if (rc != 0) {
        mem_free(owners);
        return rc;
    }
    mem_free(s->roster.owners[space]);
    s->roster.owners[space] = owners;
    uint64_t n = 0;
    if (scheduler_has_chains(s))
        TRY(scheduler_chains_place(s, space, &n));
    *shorter += n;
    return 0;
}

// Computes the first placement from the current node table. Later placements differ from
// it by moves.
static int scheduler_roster_place(struct scheduler *s)
{
    uint64_t shorter = 0;
    assert(s->phase == SCHEDULER_GATHERING);
    for (int space = 0; space < WIRE_SPACES; space++)
        TRY(place_space(s, space, &shorter));
    scheduler_chains_tell(s, shorter);
    s->roster.epoch++;
    s->roster.version++;
    return 0;
}

// Returns the number of processes of a role that have joined with all their loops.
static uint32_t scheduler_roster_complete(const struct scheduler *s, enum wire_role role)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_processes; i++)
        n += s->processes[i].role == role && s->processes[i].here > 0 &&
             s->processes[i].here == s->processes[i].loops;
    return n;
}

static bool are_all_here(const struct scheduler *s)
{
    return scheduler_roster_complete(s, WIRE_SERVER) >= s->o.servers &&
           scheduler_roster_complete(s, WIRE_WORKER) >= s->o.workers;
}

static void begin_when_all_are_here(struct scheduler *s)
{
    if (s->phase != SCHEDULER_GATHERING || !are_all_here(s) ||
        scheduler_roster_place(s) != 0)
        return;
    s->phase = SCHEDULER_RUNNING;
    s->phase_at = s->now;
    for (uint32_t i = 0; i < s->n_processes; i++)
        s->processes[i].placed = s->processes[i].role == WIRE_SERVER;
    uint32_t workers = scheduler_roster_complete(s, WIRE_WORKER);
    char text[OPERATION_TEXT];
    snprintf(text, sizeof(text), "all have joined: %u server%s, %u worker%s",
             s->o.servers, PLURAL_S(s->o.servers), workers, PLURAL_S(workers));
    scheduler_say(s, "%s", text);
    scheduler_note(s, "phase", "scheduler", text);
}

// Returns whether a roster may be sent. If a server has died, nodes would refuse the
// roster because some partitions have no owner, so they get STOP instead.
static bool can_be_sent(const struct scheduler *s)
{
    return s->phase != SCHEDULER_ENDING && !s->broken;
}

void scheduler_drop_roster(void *encoded)
{
    struct encoded_roster *x = encoded;
    assert(x == NULL || x->users > 0);
    if (x == NULL || --x->users > 0)
        return;
    buf_free(&x->nodes);
    buf_free(&x->owners);
    mem_free(x);
}

// Returns the encoded roster, which is made once per version and shared by all links that
// send it; NULL if memory is out.
static struct encoded_roster *encoded(struct scheduler *s)
{
    struct encoded_roster *x = s->encoded;
    if (x != NULL && x->msg.version == s->roster.version &&
        x->msg.epoch == s->roster.epoch)
        return x;
    x = mem_zalloc(sizeof(*x));
    if (x == NULL)
        return NULL;
    x->users = 1;
    x->nodes = BUF_INIT(WIRE_SPAN_MAX);
    x->owners = BUF_INIT(WIRE_SPAN_MAX);
    if (roster_encode(&s->roster, &x->nodes, &x->owners, &x->msg) != 0) {
        scheduler_drop_roster(x);
        return NULL;
    }
    scheduler_drop_roster(s->encoded);
    s->encoded = x;
    return x;
}

void scheduler_send_roster(struct scheduler *s, struct sched_node *n, van_link link,
                           uint64_t request)
{
    if (!can_be_sent(
            // Answers even if no roster can be sent, because the answer is also a sign of
            // life.
            s)) {
        scheduler_send(s, link, MSG_OK, request, &(struct msg_ok){0});
        return;
    }
    // A chain may have changed since the roster was made.
    if (scheduler_has_chains(s) && s->changed && scheduler_list(s) != 0)
        return;
    if (n != NULL)
        n->roster_at = s->now;
    struct encoded_roster *x = scheduler_has_room(s, link) ? encoded(s) : NULL;
    if (x == NULL)
        return;
    const struct van_release release = {scheduler_drop_roster, x};
    x->users++;
    if (s->keep != NULL) {
        outbox_send_roster(&s->keep->out, link, request, x);
        return;
    }
    (void)van_send(s->van, link, MSG_ROSTER, request, &x->msg, &release);
}

// Returns when the next version of the roster may be made. In large clusters, where
// rosters are large, several changes are collected into one version, so that a thousand
// guests that join one after the other do not cause a thousand rosters for each of a
// thousand nodes.
static uint64_t list_due(const struct scheduler *s)
{
    uint64_t pause = s->used_nodes > SMALL_CLUSTER ? s->used_nodes * PAUSE_NS : 0;
    return s->phase == SCHEDULER_GATHERING ? s->now : s->listed_at + pause;
}

// Returns whether more rosters may be queued. In large clusters the queued rosters of all
// nodes together are limited.
static bool is_room_for_more(const struct scheduler *s)
{
    uint64_t queued = 0;
    for (uint32_t i = 0; i < s->n_nodes && s->used_nodes > SMALL_CLUSTER; i++)
        if (s->nodes[i].link != 0)
            queued += van_queued(s->van, s->nodes[i].link);
    return queued < ROSTERS_QUEUED_MAX;
}

uint64_t scheduler_spread_roster(struct scheduler *s)
{
    uint64_t next = VAN_NEVER;
    if (s->phase == SCHEDULER_GATHERING && !are_all_here(s))
        return VAN_NEVER; // no roster is sent before all have joined
    if (s->changed && s->now < list_due(s))
        next = list_due(s);
    else if (s->changed && scheduler_list(s) != 0)
        return s->now + SCHEDULER_RESEND_NS;
    begin_when_all_are_here(s);
    if (s->phase == SCHEDULER_GATHERING || !can_be_sent(s))
        return VAN_NEVER;
    uint32_t sent_now = 0;
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        struct sched_node *n = &s->nodes[i];
        if (!n->n.alive || n->link == 0 || n->roster_version >= s->roster.version)
            continue;
        bool sent = n->sent_version == s->roster.version;
        if (!sent || s->now >= n->roster_at + SCHEDULER_RESEND_NS) {
            if (s->now < s->room_at)
                return clock_earlier(next, s->room_at);
            if (sent_now++ % 16 == 0 && !is_room_for_more(s)) {
                s->room_at = s->now + LATER_NS;
                return clock_earlier(next, s->room_at);
            }
            n->sent_version = s->roster.version;
            scheduler_send_roster(s, n, n->link, 0);
        }
        if (n->roster_at + SCHEDULER_RESEND_NS < next)
            next = n->roster_at + SCHEDULER_RESEND_NS;
    }
    return next;
}
