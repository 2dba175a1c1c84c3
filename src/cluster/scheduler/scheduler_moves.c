// Moves of partitions: the moves under way, and the owner of each partition. The
// scheduler alone decides about both. A move is listed in the roster, from which both
// ends learn about it. The target asks the owner for the partition and reports its
// progress to the scheduler, and asks the scheduler before it lets the owner hand over.
// The end of a move is either a new owner, with a new epoch, or, if the move failed, its
// disappearance from the roster in the same epoch: then the partition keeps its owner,
// and the target drops its copy.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/compare.h"
#include "base/json_out.h"
#include "cluster/scheduler/scheduler_internal.h"

enum {
    MOVES_MAX = 4096, // with more moves the roster's list would not fit its field
    // A node takes part in as many moves at a time as have about AT_ONCE_BYTES together.
    // Small partitions are then handed over together, in one epoch.
    AT_ONCE_LEAST = 2,
    AT_ONCE_MOST = 16,
    AT_ONCE_BYTES = 4 << 20,
};
// The scheduler gives up a move if its target sends nothing for this time. It gives up a
// hand-over after a shorter time without progress, because no request for the partition
// is served during a hand-over.
#define SILENT_NS (30 * SECOND_NS)
#define HAND_OVER_NS (15 * SECOND_NS)
// It gives up a fill without progress after this time, although the target sends reports: the
// target may not reach the source, and other fills wait for their turn.
#define STILL_NS (60 * SECOND_NS)
// A failed move is tried again after this time, which doubles with each failure.
#define RETRY_NS (5 * SECOND_NS)
#define RETRY_MAX_NS (60 * SECOND_NS)

// An interrupted move is tried again after this time, which doubles with each
// interruption.
#define BROKEN_NS (SECOND_NS / 20)
enum { BROKEN_DOUBLES = 6 };

struct sched_node *scheduler_node_of(struct scheduler *s, uint32_t id)
{
    for (uint32_t i = 0; i < s->n_nodes; i++)
        if (s->nodes[i].used && s->nodes[i].n.id == id)
            return &s->nodes[i];
    return NULL;
}

bool scheduler_owns(const struct scheduler *s, const struct sched_node *n)
{
    uint32_t partitions = roster_partitions(&s->roster);
    for (int space = 0; space < WIRE_SPACES && s->roster.epoch != 0; space++)
        for (uint32_t p = 0; p < partitions; p++)
            if (s->roster.owners[space][p] == n->n.id)
                return true;
    return false;
}

static struct move *move_of(const struct scheduler *s, enum wire_space space,
                            uint32_t partition)
{
    for (uint32_t i = 0; i < s->moving.n; i++) {
        struct move *x = &s->moving.list[i];
        if (x->space == space && x->partition == partition)
            return x;
    }
    return NULL;
}

void scheduler_moves_count(struct scheduler *s, const struct move *x, int more)
{
    struct sched_node *from = scheduler_node_of(s, x->from);
    struct sched_node *to = scheduler_node_of(s, x->to);
    if (from != NULL)
        from->in_flight += (uint32_t)more;
    if (to != NULL)
        to->in_flight += (uint32_t)more;
}

void scheduler_move_take_out(struct scheduler *s, struct move *x)
{
    struct moving *m = &s->moving;
    scheduler_moves_count(s, x, -1);
    memmove(x, x + 1, (size_t)(m->list + --m->n - x) * sizeof(*x));
    m->look_at = s->now;
    s->changed = true;
}

static void move_begin(struct scheduler *s, int space, uint32_t partition, uint32_t from,
                       uint32_t to)
{
    struct moving *m = &s->moving;
    struct move *x = scheduler_grow(&m->list, &m->n, &m->cap, sizeof(*x));
    if (x == NULL) {
        m->look_at = s->now + SCHEDULER_RESEND_NS;
        return;
    }
    const struct move new_one = {.id = ++m->last_id,
                                 .space = (enum wire_space)space,
                                 .partition = partition,
                                 .from = from,
                                 .to = to,
                                 .began = s->now,
                                 .heard = s->now,
                                 .grown = s->now};
    for (; x > m->list && (x[-1].space > new_one.space ||
                           (x[-1].space == new_one.space && x[-1].partition > partition));
         x--)
        *x = x[-1];
    *x = new_one;
    scheduler_moves_count(s, x, 1);
    s->changed = true;
}

// Returns in how many moves a node takes part at a time, from the mean size of those that
// the plan has done.
static uint32_t at_once(const struct moving *m)
{
    uint64_t mean = m->since_plan > 0 ? m->bytes_since_plan / m->since_plan
                                      : AT_ONCE_BYTES / AT_ONCE_LEAST;
    uint64_t n = AT_ONCE_BYTES / (mean > 0 ? mean : 1);
    return n < AT_ONCE_LEAST ? AT_ONCE_LEAST : (uint32_t)min_u64(n, AT_ONCE_MOST);
}

static bool has_turn(const struct scheduler *s, const struct sched_node *n)
{
    return n != NULL && n->n.alive && n->in_flight < at_once(&s->moving);
}

// Begins the move of a partition, or returns the time at which to try again.
static uint64_t begin_one(struct scheduler *s, int space, uint32_t partition)
{
    uint32_t from = s->roster.owners[space][partition];
    uint32_t to = s->moving.wanted[space][partition];
    if (scheduler_has_chains(s)) {
        from = roster_tail(&s->roster, (enum wire_space)space, partition);
        to = scheduler_chain_fills(s, space, partition);
    }
    const struct sched_node *target = scheduler_node_of(s, to);
    const struct retry *r = &s->moving.retries[space][partition];
    bool had_left = to == r->last_out || to == r->before_out;
    uint64_t at = had_left ? max_u64(r->at, r->again_at) : r->at;
    if (move_of(s, (enum wire_space)space, partition) != NULL || !has_turn(s, target) ||
        !has_turn(s, scheduler_node_of(s, from)))
        // the end of another move will make room and begin this one
        return VAN_NEVER;
    at = at > target->moves.at ? at : target->moves.at;
    if (s->now < at)
        return at;
    move_begin(s, space, partition, from, to);
    return VAN_NEVER;
}

static bool is_wanted(const struct scheduler *s)
{
    for (uint32_t i = 0; i < s->n_nodes; i++)
        if (s->nodes[i].holds)
            return true;
    return false;
}

// Begins the planned moves whose two ends have room for another move. Begins none while a
// node holds the placement or waits for a hold.
void scheduler_moves_begin(struct scheduler *s)
{
    struct moving *m = &s->moving;
    uint32_t partitions = roster_partitions(&s->roster);
    bool chains = scheduler_has_chains(s);
    m->look_at = VAN_NEVER;
    if (chains)
        scheduler_chains_settle(s);
    uint64_t left = m->left;
    if (is_wanted(s))
        return; // these moves begin when the hold ends
    for (int space = 0; space < WIRE_SPACES; space++)
        for (uint32_t p = 0; p < partitions && left > 0 && m->n < MOVES_MAX; p++) {
            if (chains ? scheduler_chain_is_settled(s, space, p)
                       : s->roster.owners[space][p] == m->wanted[space][p])
                continue;
            left--;
            m->look_at = clock_earlier(m->look_at, begin_one(s, space, p));
        }
}

static const char *node_name_of(struct scheduler *s, uint32_t id,
                                char to[ROSTER_NAME_MAX])
{
    const struct sched_node *n = scheduler_node_of(s, id);
    if (n != NULL)
        return scheduler_name(n, to);
    snprintf(to, ROSTER_NAME_MAX, "node %u", id);
    return to;
}

// Writes "partition 17 (sparse) from server 0 (a:1) to server 3 (b:2)".
static const char *move_describe(struct scheduler *s, const struct move *x,
                                 char to[ERR_TEXT_MAX])
{
    char a[ROSTER_NAME_MAX], b[ROSTER_NAME_MAX];
    snprintf(to, ERR_TEXT_MAX, "partition %u (%s) from %s to %s", x->partition,
             wire_space_name(x->space), node_name_of(s, x->from, a),
             node_name_of(s, x->to, b));
    return to;
}

// Gives a move up: its partition keeps its owner and backups, in the same epoch.
static void move_give_up(struct scheduler *s, struct move *x, const char *why)
{
    char text[ERR_TEXT_MAX];
    s->moving.failed++;
    scheduler_say(s, "the %s of %s was given up: %s",
                  scheduler_has_chains(s) ? "copy" : "move", move_describe(s, x, text),
                  why);
    scheduler_note(s, "move", "scheduler", text);
    scheduler_move_take_out(s, x);
}

// Counts a failure, and returns the time until the next attempt.
static uint64_t put_off(const struct scheduler *s, struct retry *r)
{
    uint64_t wait = r->fails < 8 ? RETRY_NS << r->fails : RETRY_MAX_NS;
    wait = clock_earlier(wait, RETRY_MAX_NS);
    r->fails++;
    r->at = s->now + wait;
    return wait;
}

// Gives up a move that has failed, and tries it again later; soon if it was only
// interrupted.
void scheduler_move_fail(struct scheduler *s, struct move *x, int code, const char *why)
{
    struct sched_node *to = scheduler_node_of(s, x->to);
    char text[ERR_TEXT_MAX + 64];
    bool full = code == TUG_ENOMEM && to != NULL;
    if (code == TUG_EINTERRUPTED) { // for example by an admin operation
        struct retry *r = &s->moving.retries[x->space][x->partition];
        r->at = s->now + (BROKEN_NS << min_u64(r->broken++, BROKEN_DOUBLES));
        move_give_up(s, x, why);
        return;
    }
    uint64_t wait = put_off(s, &s->moving.retries[x->space][x->partition]);
    if (to != NULL && put_off(s, &to->moves) > wait)
        wait = to->moves.at - s->now;
    if (full)
        snprintf(text, sizeof(text),
                 "%s; it is tried again when servers come or go, or by a rebalance", why);
    else
        snprintf(text, sizeof(text), "%s; it is tried again in %" PRIu64 " s", why,
                 wait / SECOND_NS);
    move_give_up(s, x, text);
    if (full)
        scheduler_plan_around(s, to);
}

void scheduler_move_stop(struct scheduler *s, enum wire_space space, uint32_t partition)
{
    struct move *x = move_of(s, space, partition);
    if (x != NULL)
        move_give_up(s, x, "its chain has lost a member");
}

void scheduler_fill_stop(struct scheduler *s, enum wire_space space, uint32_t partition,
                         uint32_t from, uint32_t to, const char *why)
{
    struct move *x = move_of(s, space, partition);
    if (x != NULL && x->from == from && x->to == to)
        scheduler_move_fail(s, x, TUG_EIO, why);
}

void scheduler_moves_sift(struct scheduler *s)
{
    struct moving *m = &s->moving;
    for (uint32_t i = m->n; i-- > 0;) {
        struct move *x = &m->list[i];
        uint32_t to = scheduler_has_chains(s)
                          ? scheduler_chain_fills(s, x->space, x->partition)
                          : m->wanted[x->space][x->partition];
        if (to != x->to)
            move_give_up(s, x, m->why);
    }
}

// Returns whether the plan gives this node a partition that it does not own.
static bool is_target(const struct scheduler *s, uint32_t id)
{
    const struct moving *m = &s->moving;
    for (int space = 0; space < WIRE_SPACES && m->wanted[space] != NULL; space++)
        for (uint32_t p = 0; p < roster_partitions(&s->roster); p++)
            if (m->wanted[space][p] == id && s->roster.owners[space][p] != id)
                return true;
    return false;
}

void scheduler_moves_lost(struct scheduler *s, const struct sched_node *n)
{
    struct moving *m = &s->moving;
    char why[ROSTER_NAME_MAX + 16], name[ROSTER_NAME_MAX];
    snprintf(why, sizeof(why), "%s %s", scheduler_name(n, name),
             n->left ? "has left" : "is gone");
    for (uint32_t i = m->n; i-- > 0;)
        if (m->list[i].from == n->n.id || m->list[i].to == n->n.id)
            move_give_up(s, &m->list[i], why);
    // A process with several loops leaves loop by loop. Until the last one has gone, a new
    // plan is needed only if partitions were to move to this loop, or chains have lost it.
    bool last = s->processes[n->process].here == 0;
    if (!s->broken && (last || scheduler_has_chains(s) || is_target(s, n->n.id)))
        (void)scheduler_plan(s, false, why);
}

static void move_fail_silent(struct scheduler *s, struct move *x)
{
    char why[ERR_TEXT_MAX];
    if (x->handing)
        snprintf(why, sizeof(why), "the hand-over made no progress for %" PRIu64 " s",
                 (uint64_t)(HAND_OVER_NS / SECOND_NS));
    else if (s->now < x->heard + SILENT_NS)
        snprintf(why, sizeof(why), "the copy made no progress for %" PRIu64 " s",
                 (uint64_t)(STILL_NS / SECOND_NS));
    else
        snprintf(why, sizeof(why), "its new %s sent nothing about it for %" PRIu64 " s",
                 scheduler_has_chains(s) ? "replica" : "owner",
                 (uint64_t)(SILENT_NS / SECOND_NS));
    scheduler_move_fail(s, x, TUG_EIO, why);
}

static uint64_t give_up_silent(struct scheduler *s)
{
    struct moving *m = &s->moving;
    uint64_t next = VAN_NEVER;
    for (uint32_t i = m->n; i-- > 0;) {
        struct move *x = &m->list[i];
        uint64_t due = x->heard + SILENT_NS;
        if (x->handing)
            due = clock_earlier(due, x->grown + HAND_OVER_NS);
        else if (scheduler_has_chains(s))
            due = clock_earlier(due, x->grown + STILL_NS);
        if (s->now >= due)
            move_fail_silent(s, x);
        else
            next = clock_earlier(next, due);
        if (i > m->n)
            i = m->n; // a new plan may also have given up other moves
    }
    return next;
}

uint64_t scheduler_moves_tick(struct scheduler *s)
{
    struct moving *m = &s->moving;
    if (s->phase != SCHEDULER_RUNNING) {
        while (m->n > 0) // the run is over
            scheduler_move_take_out(s, &m->list[m->n - 1]);
        return VAN_NEVER;
    }
    if (m->wanted[0] == NULL)
        return VAN_NEVER;
    uint64_t next = give_up_silent(s);
    if (s->now >= m->look_at && !m->plan_again)
        scheduler_moves_begin(s);
    return m->plan_again ? next : clock_earlier(next, m->look_at);
}

struct scheduler_moves scheduler_moves(const struct scheduler *s)
{
    const struct moving *m = &s->moving;
    return (struct scheduler_moves){.left = m->left,
                                    .done = m->since_plan,
                                    .failed = m->failed,
                                    .bytes = m->bytes_since_plan,
                                    .longest_stop_ns = m->longest_stop_ns};
}

static void print_held_by(const struct scheduler *s, struct json_out *o)
{
    json_out_open(o, "held_by", '[');
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        char name[ROSTER_NAME_MAX];
        if (s->nodes[i].holds)
            json_out_text(o, NULL, scheduler_name(&s->nodes[i], name));
    }
    json_out_close(o, ']');
}

void scheduler_moves_print(const struct scheduler *s, struct json_out *o)
{
    const struct moving *m = &s->moving;
    json_out_open(o, "moves", '[');
    for (uint32_t i = 0; i < m->n; i++) {
        const struct move *x = &m->list[i];
        json_out_open(o, NULL, '{');
        json_out_text(o, "space", wire_space_name(x->space));
        json_out_u64(o, "partition", x->partition);
        json_out_u64(o, "from", x->from);
        json_out_u64(o, "to", x->to);
        json_out_text(o, "state", x->handing ? "handing over" : "copying");
        json_out_u64(o, "bytes", x->bytes);
        json_out_u64(o, "bytes_total", x->total);
        json_out_real(o, "seconds", 9, (double)(s->now - x->began) * 1e-9);
        json_out_close(o, '}');
    }
    json_out_close(o, ']');
    json_out_open(o, "moving", '{');
    json_out_u64(o, "moves_done", m->done);
    json_out_u64(o, "moves_failed", m->failed);
    json_out_u64(o, "moves_left", m->left);
    json_out_u64(o, "replicas_dropped", m->dropped);
    json_out_real(o, "longest_stop_seconds", 9, (double)m->longest_stop_ns * 1e-9);
    print_held_by(s, o);
    json_out_close(o, '}');
}

void scheduler_moving_free(struct scheduler *s)
{
    struct moving *m = &s->moving;
    for (int space = 0; space < WIRE_SPACES; space++) {
        mem_free(m->wanted[space]);
        mem_free(m->retries[space]);
    }
    mem_free(m->list);
    *m = (struct moving){0};
}
