// Chains of replicas: the first placement, plans, and the steps from the present chains to
// the planned ones (cluster/chain_steps.h). Used only if a partition has more than one
// replica; otherwise see scheduler_plan.c and scheduler_moves.c, which call this file.
//
// A dead server leaves all chains at once, in a new epoch, and the next member of each
// chain that it led becomes the primary. A loop is filled by a move, which ends when the
// target is appended to the chain, in a new epoch. No partition stops for that: the last
// member makes the target its next member by itself, before the scheduler knows, so a
// hold does not delay it. A primary that leaves its chain waits until no hold is granted.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/plural.h"
#include "cluster/chain_steps.h"
#include "cluster/scheduler/scheduler_internal.h"

static uint32_t *wanted_of(const struct scheduler *s, int space, uint32_t partition,
                           uint32_t *ret_n)
{
    uint32_t replicas = s->roster.replicas, n = 0;
    uint32_t *ids = s->moving.wanted[space] + (size_t)partition * replicas;
    while (n < replicas && ids[n] != 0)
        n++;
    *ret_n = n;
    return ids;
}

// Writes a chain of n > 0 members to the roster.
static void write_chain(struct scheduler *s, int space, uint32_t partition,
                        const uint32_t *chain, uint32_t n)
{
    struct roster *r = &s->roster;
    uint32_t *backups = r->backups[space] + (size_t)partition * r->replicas;
    assert(n > 0 && n <= r->replicas + 1);
    r->owners[space][partition] = chain[0];
    for (uint32_t i = 0; i < r->replicas; i++)
        backups[i] = i + 1 < n ? chain[i + 1] : 0;
}

void scheduler_chain_take_out(struct scheduler *s, int space, uint32_t partition,
                              uint32_t id)
{
    uint32_t chain[ROSTER_MAX_CHAIN], left = 0;
    uint32_t n = roster_chain(&s->roster, (enum wire_space)space, partition, chain);
    for (uint32_t i = 0; i < n; i++)
        if (chain[i] != id)
            chain[left++] = chain[i];
    write_chain(s, space, partition, chain, left);
}

bool scheduler_has_chains(const struct scheduler *s)
{
    return s->roster.replicas > 1;
}

bool scheduler_chain_is_settled(const struct scheduler *s, int space, uint32_t partition)
{
    uint32_t chain[ROSTER_MAX_CHAIN], wanted_n;
    uint32_t n = roster_chain(&s->roster, (enum wire_space)space, partition, chain);
    const uint32_t *wanted = wanted_of(s, space, partition, &wanted_n);
    return n == wanted_n && memcmp(chain, wanted, n * sizeof(*chain)) == 0;
}

uint32_t scheduler_chain_leaves(const struct scheduler *s, int space, uint32_t partition)
{
    uint32_t chain[ROSTER_MAX_CHAIN], wanted_n;
    uint32_t n = roster_chain(&s->roster, (enum wire_space)space, partition, chain);
    const uint32_t *wanted = wanted_of(s, space, partition, &wanted_n);
    return chain_steps_leaves(chain, n, wanted, wanted_n);
}

uint32_t scheduler_chain_fills(const struct scheduler *s, int space, uint32_t partition)
{
    uint32_t chain[ROSTER_MAX_CHAIN], wanted_n;
    uint32_t n = roster_chain(&s->roster, (enum wire_space)space, partition, chain);
    const uint32_t *wanted = wanted_of(s, space, partition, &wanted_n);
    return chain_steps_fills(chain, n, wanted, wanted_n);
}

// ---------------------------------------------------------------- plans

static int by_id(const void *a, const void *b)
{
    const struct domain_loop *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static uint32_t domain_of(const char *name)
{
    return (uint32_t)hash_bytes(name, strlen(name), 0);
}

// Lists all living loops of servers, by ascending id. A loop that may not get partitions of
// the space is listed as leaving: it does not serve such tables, its server is drained, or
// not all loops of its server have joined. Returns the number of loops.
static size_t list_loops(const struct scheduler *s, int space, struct domain_loop *ret)
{
    size_t n = 0, stay = 0;
    for (int any = 0; any < 2 && stay == 0; any++) {
        n = 0;
        for (uint32_t i = 0; i < s->n_nodes; i++) {
            const struct sched_node *x = &s->nodes[i];
            const struct process *p = &s->processes[x->process];
            if (!x->used || !x->n.alive || x->n.role != WIRE_SERVER)
                continue;
            bool placed = p->placed || s->phase == SCHEDULER_GATHERING;
            bool stays = placed && !p->draining && scheduler_takes(&x->n, space, any);
            uint32_t host = domain_of(x->n.host);
            ret[n++] = (struct domain_loop){
                .id = x->n.id,
                .process = x->process,
                .host = host,
                .zone = p->zone[0] != '\0' ? domain_of(p->zone) : host,
                .full = x->full,
                .leaves = !stays};
            stay += stays;
        }
    }
    qsort(ret, n, sizeof(*ret), by_id);
    return n;
}

static int open_list(const struct scheduler *s, struct chain_list *ret)
{
    ret->partitions = roster_partitions(&s->roster);
    ret->replicas = s->roster.replicas;
    ret->ids = mem_zalloc((size_t)ret->partitions * ret->replicas * sizeof(*ret->ids));
    return ret->ids != NULL ? 0 : TUG_ENOMEM;
}

int scheduler_chains_place(struct scheduler *s, int space, uint64_t *ret_shorter)
{
    struct roster *r = &s->roster;
    struct chain_list present = {0}, wanted = {0};
    struct chains_faults faults;
    uint32_t *backups = mem_zalloc((size_t)roster_partitions(r) * r->replicas *
                                   sizeof(*backups));
    struct domain_loop *loops = mem_array(s->n_nodes, sizeof(*loops));
    int rc = backups != NULL && loops != NULL ? 0 : TUG_ENOMEM;
    if (rc == 0)
        rc = open_list(s, &present);
    if (rc == 0)
        rc = open_list(s, &wanted);
    for (uint32_t p = 0; p < roster_partitions(r) && rc == 0; p++)
        *chains_of(&present, p) = *chains_of(&wanted, p) = r->owners[space][p];
    if (rc == 0)
        rc = chains_plan(loops, list_loops(s, space, loops), false, &present, &wanted,
                         &faults);
    if (rc == 0) {
        mem_free(r->backups[space]);
        r->backups[space] = backups;
        backups = NULL;
    }
    for (uint32_t p = 0; p < roster_partitions(r) && rc == 0; p++) {
        const uint32_t *chain = chains_of(&wanted, p);
        uint32_t n = 0;
        while (n < wanted.replicas && chain[n] != 0)
            n++;
        write_chain(s, space, p, chain, n);
    }
    *ret_shorter = rc == 0 ? faults.shorter : 0;
    mem_free(backups);
    mem_free(loops);
    mem_free(present.ids);
    mem_free(wanted.ids);
    return rc;
}

void scheduler_chains_tell(struct scheduler *s, uint64_t shorter)
{
    if (shorter > 0 && shorter != s->moving.shorter)
        scheduler_say(s,
                      "placement: %" PRIu64
                      " partition%s fewer than %u replicas, because "
                      "there are too few servers; start more with --join",
                      shorter, shorter == 1 ? " has" : "s have", s->roster.replicas);
    s->moving.shorter = shorter;
}

void scheduler_chains_copy(const struct scheduler *s, int space, uint32_t *ret)
{
    uint32_t chain[ROSTER_MAX_CHAIN], replicas = s->roster.replicas;
    for (uint32_t p = 0; p < roster_partitions(&s->roster); p++) {
        uint32_t n = roster_chain(&s->roster, (enum wire_space)space, p, chain);
        for (uint32_t i = 0; i < replicas; i++)
            ret[(size_t)p * replicas + i] = i < n ? chain[i] : 0;
    }
}

// Lists the present chains for a plan. A member too many, which leaves at the end of a
// hold, is left out.
static void list_present(const struct scheduler *s, int space, struct chain_list *ret)
{
    uint32_t chain[ROSTER_MAX_CHAIN];
    for (uint32_t p = 0; p < ret->partitions; p++) {
        uint32_t n = roster_chain(&s->roster, (enum wire_space)space, p, chain);
        uint32_t gone = n > ret->replicas ? scheduler_chain_leaves(s, space, p) : 0,
                 to = 0;
        for (uint32_t i = 0; i < n && to < ret->replicas; i++)
            if (chain[i] != gone)
                chains_of(ret, p)[to++] = chain[i];
    }
}

void scheduler_chains_order(struct scheduler *s, int space)
{
    uint32_t chain[ROSTER_MAX_CHAIN], wanted_n;
    for (uint32_t p = 0; p < roster_partitions(&s->roster); p++) {
        uint32_t n = roster_chain(&s->roster, (enum wire_space)space, p, chain);
        uint32_t *wanted = wanted_of(s, space, p, &wanted_n);
        chain_steps_order(chain, n, wanted, wanted_n, s->roster.replicas);
    }
}

int scheduler_chains_plan(struct scheduler *s, int space, struct chains_faults *ret)
{
    struct chain_list present = {0};
    struct chain_list wanted = {.partitions = roster_partitions(&s->roster),
                                .replicas = s->roster.replicas,
                                .ids = s->moving.wanted[space]};
    struct domain_loop *loops = mem_array(s->n_nodes, sizeof(*loops));
    uint32_t *avoid = mem_array(wanted.partitions, sizeof(*avoid));
    int rc = loops != NULL && avoid != NULL ? open_list(s, &present) : TUG_ENOMEM;
    if (rc == 0) {
        for (uint32_t p = 0; p < wanted.partitions; p++)
            avoid[p] = scheduler_chain_avoids(s, space, p);
        wanted.avoid = avoid;
        list_present(s, space, &present);
        rc = chains_plan(loops, list_loops(s, space, loops), s->moving.even, &present,
                         &wanted, ret);
    }
    if (rc == 0 && scheduler_keeps_primaries(s, space) &&
        !bug_in(s->o.bugs, WITHOUT_KEPT_PRIMARIES))
        scheduler_keep_primaries(s, space);
    if (rc == 0)
        scheduler_chains_order(s, space);
    mem_free(loops);
    mem_free(avoid);
    mem_free(present.ids);
    return rc;
}

// ---------------------------------------------------------------- steps

void scheduler_chains_begin_epoch(struct scheduler *s)
{
    s->roster.epoch++;
    s->moving.version = s->roster.version + 1; // of the roster that is made next
    s->changed = true;
}

static bool any_hold(const struct scheduler *s)
{
    for (uint32_t i = 0; i < s->n_nodes; i++)
        if (s->nodes[i].held)
            return true;
    return false;
}

// Lets the members of a chain leave that are not needed any more. Returns whether the
// chain has changed.
static bool settle(struct scheduler *s, int space, uint32_t partition)
{
    bool changed = false;
    for (uint32_t id; (id = scheduler_chain_leaves(s, space, partition)) != 0;
         changed = true) {
        if (id == s->roster.owners[space][partition] &&
            (any_hold(s) || scheduler_keeps_primaries(s, space)))
            break;
        scheduler_chain_take_out(s, space, partition, id);
    }
    return changed;
}

void scheduler_chains_settle(struct scheduler *s)
{
    struct moving *m = &s->moving;
    bool changed = false;
    for (int space = 0; space < WIRE_SPACES && m->left > 0; space++)
        for (uint32_t p = 0; p < roster_partitions(&s->roster) && m->left > 0; p++)
            if (!scheduler_chain_is_settled(s, space, p) && settle(s, space, p)) {
                changed = true;
                m->left -= scheduler_chain_is_settled(s, space, p);
            }
    if (changed)
        scheduler_chains_begin_epoch(s);
}

void scheduler_chain_append(struct scheduler *s, const struct move *x)
{
    uint32_t chain[ROSTER_MAX_CHAIN];
    uint32_t n = roster_chain(&s->roster, x->space, x->partition, chain);
    assert(n <= s->roster.replicas && chain[n - 1] == x->from);
    chain[n++] = x->to;
    write_chain(s, x->space, x->partition, chain, n);
    settle(s, x->space, x->partition);
    s->moving.left -= scheduler_chain_is_settled(s, x->space, x->partition);
}

// ---------------------------------------------------------------- deaths

bool scheduler_is_member(const struct scheduler *s, const struct sched_node *n)
{
    for (int space = 0; space < WIRE_SPACES && s->roster.epoch != 0; space++)
        for (uint32_t p = 0; p < roster_partitions(&s->roster); p++)
            if (roster_is_member(&s->roster, (enum wire_space)space, p, n->n.id))
                return true;
    return false;
}

static bool has_no_backup(const struct scheduler *s, int space, uint32_t partition,
                          uint32_t primary)
{
    return roster_tail(&s->roster, (enum wire_space)space, partition) == primary;
}

// Returns whether rows of a partition are lost with this primary: it is the only member of the
// chain, or a table has no backups.
static bool is_lost_without(const struct scheduler *s, int space, uint32_t partition,
                            uint32_t id)
{
    return has_no_backup(s, space, partition, id) || scheduler_keeps_primaries(s, space);
}

static bool leads_some(const struct scheduler *s, const struct sched_node *n,
                       bool (*is)(const struct scheduler *s, int space,
                                  uint32_t partition, uint32_t id))
{
    for (int space = 0; space < WIRE_SPACES && s->roster.epoch != 0; space++)
        for (uint32_t p = 0; p < roster_partitions(&s->roster); p++)
            if (s->roster.owners[space][p] == n->n.id && is(s, space, p, n->n.id))
                return true;
    return false;
}

bool scheduler_is_needed(const struct scheduler *s, const struct sched_node *n)
{
    return leads_some(s, n, is_lost_without);
}

bool scheduler_is_alone(const struct scheduler *s, const struct sched_node *n)
{
    return leads_some(s, n, has_no_backup);
}

// Logs "server 1 (host:11) led 40 partitions: server 0 (host:10) leads 20 of them now, ...".
// `led` has the new primaries of these partitions.
static void tell_promoted(struct scheduler *s, const struct sched_node *dead,
                          const uint64_t *led)
{
    char name[ROSTER_NAME_MAX], text[OPERATION_TEXT];
    uint64_t all = 0;
    for (uint32_t i = 0; i < s->n_nodes; i++)
        all += led[i];
    if (all == 0)
        return;
    int n = snprintf(text, sizeof(text), "%s led %" PRIu64 " partition%s",
                     scheduler_name(dead, name), all, PLURAL_S(all));
    size_t at = (size_t)n;
    const char *before = ": ";
    for (uint32_t i = 0; i < s->n_nodes && at < sizeof(text); i++) {
        if (led[i] == 0)
            continue; // a list that is too long is cut
        n = snprintf(text + at, sizeof(text) - at, "%s%s leads %" PRIu64 " of them now",
                     before, scheduler_name(&s->nodes[i], name), led[i]);
        at += (size_t)n;
        before = ", ";
    }
    scheduler_say(s, "placement: %s", text);
    scheduler_note(s, "placement", "scheduler", text);
}

// Removes a node from the chain of a partition, unless rows are lost with it. Returns
// whether the node was a member.
static bool lose(struct scheduler *s, int space, uint32_t partition, uint32_t id,
                 uint64_t *led)
{
    struct roster *r = &s->roster;
    bool leads = r->owners[space][partition] == id;
    if (!roster_is_member(r, (enum wire_space)space, partition, id))
        return false;
    if (leads && is_lost_without(s, space, partition, id))
        return true; // rows are lost, and the run ends
    scheduler_chain_take_out(s, space, partition, id);
    const struct sched_node *first = scheduler_node_of(s, r->owners[space][partition]);
    if (leads && led != NULL)
        led[first - s->nodes]++;
    return true;
}

void scheduler_chains_lose(struct scheduler *s, const struct sched_node *n)
{
    bool changed = false;
    if (s->roster.epoch == 0)
        return;
    uint64_t *led = mem_zalloc(s->n_nodes * sizeof(*led)); // only for the log
    for (int space = 0; space < WIRE_SPACES; space++)
        for (uint32_t p = 0; p < roster_partitions(&s->roster); p++)
            changed |= lose(s, space, p, n->n.id, led);
    if (led != NULL && s->phase != SCHEDULER_ENDING)
        tell_promoted(s, n, led);
    mem_free(led);
    if (!changed)
        return;
    scheduler_chains_begin_epoch(s);
    if (s->moving.wanted[0] != NULL)
        scheduler_plan_count(s);
}

// ---------------------------------------------------------------- the status

void scheduler_chains_print(const struct scheduler *s, struct json_out *o)
{
    uint32_t chain[ROSTER_MAX_CHAIN];
    uint64_t shorter = 0;
    if (!scheduler_has_chains(s))
        return;
    for (int space = 0; space < WIRE_SPACES && s->roster.epoch != 0; space++)
        for (uint32_t p = 0; p < roster_partitions(&s->roster); p++)
            shorter += roster_chain(&s->roster, (enum wire_space)space, p, chain) <
                       s->roster.replicas;
    json_out_open(o, "replicas", '{');
    json_out_u64(o, "wanted", s->roster.replicas);
    json_out_u64(o, "partitions_with_fewer", shorter);
    json_out_u64(o, "false_deaths", s->false_deaths);
    json_out_close(o, '}');
}
