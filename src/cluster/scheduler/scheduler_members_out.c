// Members of chains that cannot follow: they leave the chains about which a member reports
// this (MSG_MEMBER_OUT), and are filled again.
//
// A link between a member and its primary may stay broken. The member would then be reported
// and filled again without end, and answers would wait before each report. So from the
// second time on, another loop takes the place of the member that left last. If there is
// none, that member is filled again after a pause, which doubles each time. The loop that
// had left before waits for the pause, too, because two loops may fail in turn.
//
// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdio.h>

#include "base/compare.h"
#include "base/plural.h"
#include "cluster/scheduler/scheduler_internal.h"

// Longer than the pause between two reports of a member that cannot follow.
#define REPORTS_NS (2 * SECOND_NS)
// The first pause before a loop is filled again, and how often it doubles.
#define AGAIN_NS (5 * SECOND_NS)
enum { AGAIN_DOUBLES = 4 };
// A member that has stayed for so long begins with the first pause again.
#define OUTS_NS (3600 * SECOND_NS)

// Returns whether the primary of a partition can leave its chain: another member can lead it,
// and no table's rows would be lost.
static bool has_heir(const struct scheduler *s, enum wire_space space, uint32_t partition)
{
    uint32_t primary = s->roster.owners[space][partition];
    return roster_next(&s->roster, space, partition, primary) != 0 &&
           !scheduler_keeps_primaries(s, space);
}

// Returns whether the node is a member of the chain and can leave it: the reporter is the
// node itself, the member before it, or the primary, which needs its lease; or the node leads
// the chain, reports this itself, and another member can lead the chain.
static bool may_leave(const struct scheduler *s, enum wire_space space,
                      uint32_t partition, uint32_t node, uint32_t reporter)
{
    const struct roster *r = &s->roster;
    if (r->owners[space][partition] == node)
        return reporter == node && has_heir(s, space, partition);
    return roster_is_member(r, space, partition, node) &&
           (reporter == node || r->owners[space][partition] == reporter ||
            roster_previous(r, space, partition, node) == reporter);
}

// Returns whether a report about the chain is under way.
static bool is_reported(const struct scheduler *s, const struct retry *r)
{
    return r->out != 0 && s->now < r->out_heard + REPORTS_NS;
}

// Notes a report. It is carried out when the primary has acknowledged the roster that is made
// after the first one (scheduler_members_out). A primary that has died before cannot do
// that: then the member may be the only one that has all acknowledged updates. Reports
// about another member of the chain wait.
static void note_report(struct scheduler *s, uint64_t place, uint32_t reporter,
                        const struct msg_member_out *m, const char *why)
{
    uint64_t space = place >> 32, partition = place & UINT32_MAX;
    enum wire_space of = (enum wire_space)space;
    if (space >= WIRE_SPACES || partition >= roster_partitions(&s->roster))
        return;
    struct retry *r = &s->moving.retries[space][partition];
    if (!may_leave(s, of, (uint32_t)partition, m->node, reporter)) {
        scheduler_fill_stop(s, of, (uint32_t)partition, reporter, m->node, why);
        return;
    }
    if (m->epoch < r->joined || (is_reported(s, r) && r->out != m->node))
        return;
    if (!is_reported(s, r)) {
        r->out_version = s->roster.version + 1;
        s->moving.out_version = r->out_version;
        s->changed = true;
    }
    r->out = m->node;
    r->out_leads = s->roster.owners[space][partition] == m->node;
    r->out_code = wire_code(m->code);
    r->out_heard = s->now;
}

void scheduler_member_out_serve(struct scheduler *s, struct sched_node *n,
                                uint64_t request, const struct msg_member_out *m)
{
    const uint64_t *places = m->places.data;
    uint64_t n_places = m->places.n / sizeof(*places);
    (void)request;
    if (!scheduler_has_chains(s) || s->phase != SCHEDULER_RUNNING ||
        n_places > (uint64_t)WIRE_SPACES * roster_partitions(&s->roster) ||
        m->epoch > s->roster.epoch || scheduler_node_of(s, m->node) == NULL ||
        scheduler_plan_make_room(s) != 0)
        return; // the sender reports again
    wire_words(m->why, s->moving.out_why, sizeof(s->moving.out_why));
    for (uint64_t i = 0; i < n_places; i++)
        note_report(s, places[i], n->n.id, m, s->moving.out_why);
}

// Counts that a member had to leave the chain, and puts off the time at which it may be filled
// again.
static void count_out(const struct scheduler *s, struct retry *r, uint32_t id)
{
    if (r->outs > 0 && s->now >= r->again_at + OUTS_NS)
        r->outs = 0;
    if (r->last_out != id)
        r->before_out = r->last_out;
    r->last_out = id;
    r->again_at = s->now + (AGAIN_NS << min_u64(r->outs++, AGAIN_DOUBLES));
}

uint32_t scheduler_chain_avoids(const struct scheduler *s, int space, uint32_t partition)
{
    const struct retry *r = &s->moving.retries[space][partition];
    return r->outs > 1 && s->now < r->again_at + OUTS_NS ? r->last_out : 0;
}

// Takes a member out of a chain if a report about it can be carried out, because the primary
// has acknowledged a roster and is connected. Returns its id, or 0.
static uint32_t take_out_reported(struct scheduler *s, int space, uint32_t partition)
{
    struct retry *r = &s->moving.retries[space][partition];
    uint32_t id = r->out;
    if (!is_reported(s, r))
        return 0;
    const struct sched_node *primary = scheduler_node_of(
        s, s->roster.owners[space][partition]);
    if (primary == NULL || primary->roster_version < r->out_version)
        return 0;
    if (primary->link == 0) {
        s->moving.out_acked = true; // it may connect again
        return 0;
    }
    r->out = 0;
    // A member that has become the primary since the report stays.
    if ((id == primary->n.id && !r->out_leads) ||
        !roster_is_member(&s->roster, (enum wire_space)space, partition, id) ||
        (id == primary->n.id && !has_heir(s, (enum wire_space)space, partition)))
        return 0;
    scheduler_chain_take_out(s, space, partition, id);
    scheduler_move_stop(s, (enum wire_space)space, partition);
    s->moving.dropped++;
    if (r->out_code != TUG_EINTERRUPTED)
        count_out(s, r, id);
    return id;
}

// Logs that a member has left chains.
static void tell_out(struct scheduler *s, const struct sched_node *out, uint64_t chains)
{
    char name[ROSTER_NAME_MAX], text[ERR_TEXT_MAX + 256];
    snprintf(text, sizeof(text), "%s has left %" PRIu64 " chain%s: %s",
             scheduler_name(out, name), chains, PLURAL_S(chains), s->moving.out_why);
    scheduler_say(s, "placement: %s", text);
    scheduler_note(s, "placement", "scheduler", text);
    if (s->moving.left > 0)
        return;
    snprintf(s->moving.why, sizeof(s->moving.why), "%s could not follow", name);
    s->moving.planned_at = s->now;
    s->moving.since_plan = s->moving.bytes_since_plan = 0;
}

void scheduler_reports_again(struct scheduler *s)
{
    struct moving *m = &s->moving;
    if (m->out_version == 0 || m->retries[0] == NULL)
        return;
    m->out_version = s->roster.version + 1;
    for (int space = 0; space < WIRE_SPACES; space++)
        for (uint32_t p = 0; p < roster_partitions(&s->roster); p++) {
            struct retry *r = &m->retries[space][p];
            r->out_version = m->out_version;
            s->changed |= is_reported(s, r);
        }
}

void scheduler_members_out(struct scheduler *s)
{
    struct moving *m = &s->moving;
    struct sched_node *full = NULL, *again = NULL;
    bool any = false;
    if (!m->out_acked || m->out_version == 0 || s->phase != SCHEDULER_RUNNING ||
        m->retries[0] == NULL)
        return;
    m->out_acked = false;
    for (uint32_t i = 0; i < s->n_nodes; i++)
        s->nodes[i].outs = 0;
    for (int space = 0; space < WIRE_SPACES; space++)
        for (uint32_t p = 0; p < roster_partitions(&s->roster); p++) {
            uint32_t id = take_out_reported(s, space, p);
            struct sched_node *out = id != 0 ? scheduler_node_of(s, id) : NULL;
            if (out == NULL)
                continue;
            out->outs++;
            full = m->retries[space][p].out_code == TUG_ENOMEM ? out : full;
            again = scheduler_chain_avoids(s, space, p) == id ? out : again;
            any = true;
        }
    if (!any)
        return;
    for (uint32_t i = 0; i < s->n_nodes; i++)
        if (s->nodes[i].outs > 0)
            tell_out(s, &s->nodes[i], s->nodes[i].outs);
    scheduler_chains_begin_epoch(s);
    for (int space = 0; space < WIRE_SPACES; space++)
        scheduler_chains_order(s, space);
    scheduler_plan_count(s);
    m->look_at = s->now;
    if (full != NULL)
        scheduler_plan_around(s, full);
    else if (again != NULL)
        scheduler_plan_without(s, again);
}
