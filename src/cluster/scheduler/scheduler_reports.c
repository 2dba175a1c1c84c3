// Reports of targets about their moves, hand-overs of partitions, and nodes that hold the
// placement. See scheduler_moves.c.
//
// Partitions that one target reports together are handed over together, and change their
// owner in one epoch: each hand-over stops requests, and each epoch makes clients cut
// their requests anew.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/compare.h"
#include "cluster/scheduler/scheduler_internal.h"

// An admin operation (a save, for example) interrupts copies of partitions that are under
// way. Before such an operation begins, its hold waits COPY_NS for these copies, and
// doubles that time for a copy that was interrupted before. Meanwhile no new copy begins.
#define COPY_NS (10 * SECOND_NS)
enum { COPY_DOUBLES = 2 };

// The moves of a report, in the report's order.
struct report {
    uint32_t n;
    struct wire_moving moves[WIRE_MOVES_MOST];
};

static void all_done(struct scheduler *s)
{
    const struct moving *m = &s->moving;
    char text[4 * OPERATION_TEXT], stop[64] = "";
    if (!scheduler_has_chains(s))
        snprintf(stop, sizeof(stop), ", each stopped %.0f ms at most",
                 (double)m->longest_stop_ns * 1e-6);
    snprintf(text, sizeof(text),
             "%" PRIu64 " partition%s %s in %.1f s, %.1f MB%s, because %s", m->since_plan,
             m->since_plan == 1 ? " has" : "s have",
             scheduler_has_chains(s) ? "been copied" : "moved",
             (double)(s->now - m->planned_at) * 1e-9, (double)m->bytes_since_plan * 1e-6,
             stop, m->why);
    scheduler_say(s, "placement: %s", text);
    scheduler_note(s, "placement", "scheduler", text);
}

// Logs how many moves are left, at most about once a second, because a plan may
// have a thousand moves.
static void tell_progress(struct scheduler *s)
{
    struct moving *m = &s->moving;
    if (s->now < m->told_at + SECOND_NS)
        return;
    m->told_at = s->now;
    if (scheduler_has_chains(s))
        scheduler_say(s,
                      "placement: %" PRIu64 " partitions have been copied, and %" PRIu64
                      " are left",
                      m->since_plan, m->left);
    else
        scheduler_say(s, "placement: %" PRIu64 " of %" PRIu64 " partitions have moved",
                      m->since_plan, m->since_plan + m->left);
}

// Notes that the partition of x belongs to its new owner, or has the new backup.
static void has_moved(struct scheduler *s, struct move *x)
{
    struct moving *m = &s->moving;
    if (scheduler_has_chains(s)) {
        scheduler_chain_append(s, x);
    } else {
        assert(x->handing && s->roster.owners[x->space][x->partition] == x->from);
        s->roster.owners[x->space][x->partition] = x->to;
        if (s->now - x->handed_at > m->longest_stop_ns)
            m->longest_stop_ns = s->now - x->handed_at;
        m->left--;
    }
    struct retry *r = &m->retries[x->space][x->partition];
    r->at = r->fails = r->broken = r->out = 0;
    r->joined = s->roster.epoch + 1;
    scheduler_node_of(s, x->to)->moves = (struct retry){0};
    m->done++;
    m->since_plan++;
    m->bytes_since_plan += x->bytes;
}

// Makes the target the owner, or the last backup, of all reported partitions, in one
// epoch. Returns false if memory is out; the target will report again.
static bool arrive(struct scheduler *s)
{
    struct moving *m = &s->moving;
    for (uint32_t i = 0; i < m->n; i++)
        m->list[i].over = m->list[i].reported;
    if (scheduler_list(s) != 0) {
        for (uint32_t i = 0; i < m->n; i++)
            m->list[i].over = false;
        return false;
    }
    for (uint32_t i = 0; i < m->n; i++)
        if (m->list[i].over)
            has_moved(s, &m->list[i]);
    s->roster.epoch++;
    m->version = s->roster.version;
    for (uint32_t i = m->n; i-- > 0;)
        if (m->list[i].over)
            scheduler_move_take_out(s, &m->list[i]);
    // The roster that was just made lacks the moves already, so no other roster is due.
    s->changed = false;
    if (m->left == 0)
        all_done(s);
    else
        tell_progress(s);
    return true;
}

// Returns whether the hold that n asks for still waits for the copy of x to end.
static bool waits_for(const struct scheduler *s, const struct sched_node *n,
                      const struct move *x)
{
    uint32_t broken = s->moving.retries[x->space][x->partition].broken;
    return s->now < n->hold_since + (COPY_NS << min_u64(broken, COPY_DOUBLES));
}

// Returns whether x must not be handed over, because a hold was granted or
// has waited long enough.
static bool is_held(const struct scheduler *s, const struct move *x)
{
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        const struct sched_node *n = &s->nodes[i];
        if (n->held || (n->holds && !waits_for(s, n, x)))
            return true;
    }
    return false;
}

// Returns whether a hold may be granted to n. It may if another hold is granted already.
// It also may if no partition is being handed over, and either none is being copied or
// the hold has waited long enough.
static bool may_hold(const struct scheduler *s, const struct sched_node *n)
{
    bool held = false, copied = false;
    for (uint32_t i = 0; i < s->n_nodes; i++)
        held |= s->nodes[i].held;
    for (uint32_t i = 0; i < s->moving.n; i++) {
        if (s->moving.list[i].handing)
            return false;
        copied |= waits_for(s, n, &s->moving.list[i]);
    }
    return held || !copied;
}

// Returns whether another hand-over of the owner of x is under way.
static bool owner_is_busy(const struct scheduler *s, const struct move *x)
{
    for (uint32_t i = 0; i < s->moving.n; i++) {
        const struct move *other = &s->moving.list[i];
        if (other->handing && other->from == x->from && !other->reported)
            return true;
    }
    return false;
}

// Lets the owners of the reported partitions hand them over now. A partition that must
// wait does not delay the others. A backup is filled without a hand-over. Returns the
// answer to the report.
static uint64_t hand_over(struct scheduler *s, uint32_t n_reported)
{
    struct moving *m = &s->moving;
    uint64_t some = 0, all = ((uint64_t)1 << n_reported) - 1;
    bool fills = scheduler_has_chains(s);
    for (uint32_t i = 0; i < m->n; i++) {
        struct move *x = &m->list[i];
        if (!x->reported ||
            (!fills && !x->handing && (is_held(s, x) || owner_is_busy(s, x))))
            continue;
        some |= (uint64_t)1 << x->place;
        if (fills || x->handing)
            continue;
        x->handing = true;
        x->grown = x->handed_at = s->now;
    }
    if (some == all || some == 0)
        return some == all ? WIRE_MOVE_GO_ON : WIRE_MOVE_WAIT;
    return WIRE_MOVE_SOME | some << WIRE_MOVED_BITS;
}

static int report_read(struct report *r, const struct msg_move_says *m, struct err *e)
{
    struct wire_text others = m->others;
    r->moves[0] = (struct wire_moving){m->move, m->bytes, m->total};
    r->n = 1;
    while (others.n > 0) {
        if (r->n == WIRE_MOVES_MOST)
            return err_set(e, TUG_EUSAGE,
                           "a report has more than %d moves; report the rest in another "
                           "message",
                           WIRE_MOVES_MOST);
        if (wire_next_moving(&others, &r->moves[r->n++]) != 1)
            return err_set(e, TUG_EDATA, "a report has a damaged list of moves");
    }
    return 0;
}

static void hear(struct scheduler *s, struct move *x, const struct wire_moving *m)
{
    x->heard = s->now;
    if (m->bytes > x->bytes)
        x->grown = s->now;
    x->bytes = m->bytes;
    x->total = m->total;
}

// Finds the moves of this target that the report is about. The scheduler has most likely
// given up the other moves of the report. Returns the first move of the report, or NULL
// if it is not a move of this target.
static struct move *hear_all(struct scheduler *s, const struct sched_node *n,
                             const struct report *r)
{
    struct move *first = NULL;
    for (uint32_t i = 0; i < s->moving.n; i++) {
        struct move *x = &s->moving.list[i];
        x->reported = false;
        if (x->to != n->n.id)
            continue;
        for (x->place = 0; x->place < r->n && r->moves[x->place].move != x->id;)
            x->place++;
        if (x->place == r->n)
            continue;
        x->reported = true;
        hear(s, x, &r->moves[x->place]);
        if (x->place == 0)
            first = x;
    }
    return first;
}

// Serves the report that partitions have arrived. Returns false if memory is out.
static bool hear_arrived(struct scheduler *s)
{
    struct moving *m = &s->moving;
    bool some = false;
    for (uint32_t i = m->n; i-- > 0;) {
        struct move *x = &m->list[i];
        if (x->reported && !x->handing && !scheduler_has_chains(s))
            scheduler_move_fail(s, x, TUG_EINTERNAL,
                                "the partition arrived before it was handed over");
        else
            some |= x->reported;
    }
    return !some || arrive(s);
}

void scheduler_move_says_serve(struct scheduler *s, struct sched_node *n,
                               uint64_t request, const struct msg_move_says *m)
{
    struct report r;
    struct err e;
    uint64_t answer = WIRE_MOVE_GO_ON;
    char why[ERR_TEXT_MAX];
    if (report_read(&r, m, &e) != 0) {
        scheduler_refuse(s, n->link, request, e.code, e.text);
        return;
    }
    struct move *x = hear_all(s, n, &r);
    if (m->state == WIRE_MOVE_ARRIVED) {
        // This may be the repetition of the report that ended the moves. So the answer
        // never says that a move is over: only the roster shows who owns the partitions.
        if (!hear_arrived(s))
            return;
    } else if (x == NULL) {
        answer = WIRE_MOVE_OVER;
    } else if (m->state >= WIRE_MOVE_FAILED) {
        scheduler_move_fail(s, x, wire_code(m->code),
                            wire_words(m->why, why, sizeof(why)));
        answer = WIRE_MOVE_OVER;
    } else if (m->state == WIRE_MOVE_COPIED) {
        answer = hand_over(s, r.n);
    }
    scheduler_send(s, n->link, MSG_OK, request, &(struct msg_ok){answer});
}

// Returns whether all servers know the newest owners, and so refuse requests that name
// older owners. Otherwise a save's mark could reach the earlier owners of a partition and
// miss the newest one.
static bool servers_know_owners(const struct scheduler *s)
{
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        const struct sched_node *n = &s->nodes[i];
        if (n->n.alive && n->n.role == WIRE_SERVER &&
            n->roster_version < s->moving.version)
            return false;
    }
    return true;
}

void scheduler_hold_serve(struct scheduler *s, struct sched_node *n, uint64_t request,
                          const struct msg_hold *m)
{
    if (request < n->hold_request)
        return; // an old request that arrived late must not hold for ever
    n->hold_request = request;
    if (!n->holds)
        n->hold_since = s->now;
    n->holds = m->on != 0 && !bug_in(s->o.bugs, WITHOUT_HOLDS);
    // Before the cluster is complete, no placement exists that could be held.
    n->held = n->holds && s->roster.epoch != 0 && may_hold(s, n) &&
              servers_know_owners(s);
    // Moves begin at once, not at the next tick: the next hold may already be on its way,
    // and would prevent them.
    if (!n->holds && s->phase == SCHEDULER_RUNNING && s->moving.wanted[0] != NULL &&
        !s->moving.plan_again)
        scheduler_moves_begin(s);
    if (n->held)
        s->moving.held_epoch = s->roster.epoch;
    scheduler_send(s, n->link, MSG_OK, request,
                   &(struct msg_ok){n->held || !n->holds ? s->roster.epoch : 0});
}
