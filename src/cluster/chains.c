// First all memory is allocated and the primaries are planned, then the backups of one
// partition after the other. At last loops without backups get their share of them.
//
// SPDX-License-Identifier: Apache-2.0
#include "cluster/chains.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/search.h"
#include "cluster/placement.h"
#include "cluster/ring.h"

enum { NOWHERE = 0 }; // "No node", as an id

static bool is_alive(const struct domain_loop *loops, size_t n, uint32_t id)
{
    size_t at = search_first(0, n, i, loops[i].id >= id);
    return at < n && loops[at].id == id;
}

uint32_t chains_remove_dead(struct chain_list *c, const struct domain_loop *loops,
                            size_t n)
{
    uint32_t empty = 0;
    for (uint32_t p = 0; p < c->partitions; p++) {
        uint32_t *chain = chains_of(c, p), left = 0;
        for (uint32_t k = 0; k < c->replicas; k++)
            if (is_alive(loops, n, chain[k]))
                chain[left++] = chain[k];
        empty += left == 0;
        while (left < c->replicas)
            chain[left++] = NOWHERE;
    }
    return empty;
}

uint32_t chains_find_lost(const struct chain_list *c, const struct domain_loop *loops,
                          size_t n, uint32_t copies, uint32_t from)
{
    for (uint32_t p = from; p < c->partitions; p++) {
        bool lost = true;
        for (uint32_t k = 0; k < c->replicas && k < copies && lost; k++)
            lost = !is_alive(loops, n, chains_of(c, p)[k]);
        if (lost)
            return p;
    }
    return c->partitions;
}

struct chain_plan {
    struct domains d;
    size_t stay; // number of loops that do not leave
    const struct chain_list *present;
    struct chain_list *wanted;
    uint32_t *owners;    // of each partition, for placement_plan
    uint32_t *primary;   // of each partition: the planned primary
    uint32_t *primaries; // of each place: how many partitions it leads
    uint32_t *backups;   // of each place: how many partitions it backs up
    uint32_t *pairs;     // of each place: as `backups`, of the present primary only
    uint32_t *sorted;    // the partitions, sorted by the places of their primaries
    struct placement_loop *left; // the loops that do not leave
    bool *without;               // of each place: it had no backups in the previous plan
    bool *promoted;              // of each partition: its previous primary leaves
    uint8_t *appended;           // of each partition: a bit for each appended member
};

static void close_plan(struct chain_plan *p)
{
    domains_free(&p->d);
    mem_free(p->owners);
    mem_free(p->primary);
    mem_free(p->primaries);
    mem_free(p->backups);
    mem_free(p->pairs);
    mem_free(p->sorted);
    mem_free(p->left);
    mem_free(p->without);
    mem_free(p->promoted);
    mem_free(p->appended);
}

static int open_plan(struct chain_plan *p, const struct domain_loop *loops, size_t n)
{
    uint32_t partitions = p->present->partitions;
    p->owners = mem_array(partitions, sizeof(*p->owners));
    p->primary = mem_array(partitions, sizeof(*p->primary));
    p->primaries = mem_zalloc(n * sizeof(*p->primaries));
    p->backups = mem_zalloc(n * sizeof(*p->backups));
    p->pairs = mem_zalloc(n * sizeof(*p->pairs));
    p->sorted = mem_array(partitions, sizeof(*p->sorted));
    p->left = mem_array(n, sizeof(*p->left));
    p->without = mem_zalloc(n * sizeof(*p->without));
    p->promoted = mem_zalloc(partitions * sizeof(*p->promoted));
    p->appended = mem_zalloc(partitions * sizeof(*p->appended));
    if (p->owners == NULL || p->primary == NULL || p->primaries == NULL ||
        p->backups == NULL || p->pairs == NULL || p->sorted == NULL || p->left == NULL ||
        p->without == NULL || p->promoted == NULL || p->appended == NULL)
        return TUG_ENOMEM;
    for (size_t i = 0; i < n; i++)
        if (!loops[i].leaves)
            p->left[p->stay++] = (struct placement_loop){.id = loops[i].id,
                                                         .full = loops[i].full};
    return domains_make(&p->d, loops, n);
}

// Returns whether this place exists and its loop does not leave.
static bool stays(const struct chain_plan *p, uint32_t at)
{
    return at < p->d.n && !p->d.places[at].loop.leaves;
}

// Returns the member of the present chain that leads the fewest partitions; d.n if no
// member can lead. The first member that stays leads the chain, unless it leads `most`
// partitions already. A full loop does not become the primary in place of another.
static uint32_t leader(const struct chain_plan *p, uint32_t partition, uint32_t most)
{
    const uint32_t *chain = chains_of(p->present, partition);
    uint32_t best = p->d.n;
    for (uint32_t k = 0; k < p->present->replicas && chain[k] != NOWHERE; k++) {
        uint32_t at = domains_find(&p->d, chain[k]);
        if (!stays(p, at) || (best < p->d.n && p->d.places[at].loop.full))
            continue;
        if (best == p->d.n || p->primaries[at] < p->primaries[best])
            best = at;
        if (p->primaries[best] < most)
            break;
    }
    return best;
}

// Sets for each partition the present owner, from which placement_plan starts: the first
// member that stays. If all members leave, the first one.
static void set_owners(struct chain_plan *p)
{
    for (uint32_t i = 0; i < p->present->partitions; i++) {
        const uint32_t *chain = chains_of(p->present, i);
        p->owners[i] = chain[0];
        for (uint32_t k = 0; k < p->present->replicas && chain[k] != NOWHERE; k++)
            if (stays(p, domains_find(&p->d, chain[k]))) {
                p->owners[i] = chain[k];
                break;
            }
    }
}

// Takes over the primaries of the previous plan that stay. In the other chains another
// member becomes the primary, because it has the rows already.
static void take_over(struct chain_plan *p)
{
    uint32_t most = ring_most(p->present->partitions, p->stay);
    for (uint32_t i = 0; i < p->present->partitions; i++) {
        uint32_t at = domains_find(&p->d, chains_of(p->wanted, i)[0]);
        p->promoted[i] = !stays(p, at);
        if (p->promoted[i])
            continue;
        p->primary[i] = p->d.places[at].loop.id;
        p->primaries[at]++;
    }
    for (uint32_t i = 0; i < p->present->partitions; i++) {
        if (!p->promoted[i])
            continue;
        uint32_t at = leader(p, i, most);
        p->primary[i] = p->owners[i];
        if (at < p->d.n) {
            p->primary[i] = p->d.places[at].loop.id;
            p->primaries[at]++;
        }
    }
}

// Gives partitions of loops that lead more than their share to other members of their
// chains, which have the rows already.
static void even_out(struct chain_plan *p)
{
    uint32_t share = (uint32_t)((p->present->partitions + p->stay - 1) / p->stay);
    for (uint32_t i = 0; i < p->present->partitions; i++) {
        uint32_t from = domains_find(&p->d, p->primary[i]);
        if (!stays(p, from) || p->primaries[from] <= share)
            continue;
        uint32_t to = leader(p, i, 0);
        if (to == p->d.n || p->d.places[to].loop.full || p->primaries[to] >= share)
            continue;
        p->primary[i] = p->d.places[to].loop.id;
        p->primaries[from]--;
        p->primaries[to]++;
    }
}

static int plan_primaries(struct chain_plan *p, bool even)
{
    set_owners(p);
    if (p->present->replicas == 1) {
        memcpy(p->primary, p->wanted->ids, p->present->partitions * sizeof(*p->primary));
    } else {
        take_over(p);
        if (even)
            even_out(p);
    }
    return placement_plan(p->left, p->stay, even, p->present->partitions, p->owners,
                          p->primary);
}

// Sorts the partitions by the places of their primaries. `primaries` gets the end of each
// place's partitions in `sorted`.
static void sort_partitions(struct chain_plan *p)
{
    uint32_t n = p->present->partitions, end = 0;
    memset(p->primaries, 0, p->d.n * sizeof(*p->primaries));
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = domains_find(&p->d, p->primary[i]);
        assert(at < p->d.n); // else no member of the present chain was alive
        p->primaries[at]++;
    }
    for (uint32_t at = 0; at < p->d.n; at++) {
        uint32_t begin = end;
        end += p->primaries[at];
        p->primaries[at] = begin;
    }
    for (uint32_t i = 0; i < n; i++)
        p->sorted[p->primaries[domains_find(&p->d, p->primary[i])]++] = i;
}

// Returns the load by which backups are appended: loops with fewer backups of this primary
// come first, so that the partitions of a primary that dies are spread over all other
// loops. Then loops with fewer backups come first.
static uint64_t load_of(const struct chain_plan *p, uint32_t at)
{
    return (uint64_t)p->pairs[at] << 32 | p->backups[at];
}

static void update_load(struct chain_plan *p, uint32_t at)
{
    p->d.places[at].load = load_of(p, at);
    domains_update(&p->d, at);
}

// Counts the backups of the previous plan.
static void count_backups(struct chain_plan *p)
{
    struct domains *d = &p->d;
    for (uint32_t i = 0; i < p->wanted->partitions; i++)
        for (uint32_t k = 1; k < p->wanted->replicas; k++) {
            uint32_t at = domains_find(d, chains_of(p->wanted, i)[k]);
            if (at < d->n)
                p->backups[at]++;
        }
    for (uint32_t at = 0; at < d->n; at++) {
        const struct domain_loop *x = &d->places[at].loop;
        d->places[at].limit = x->leaves || x->full ? 0 : UINT64_MAX;
        d->places[at].load = load_of(p, at);
        p->without[at] = p->backups[at] == 0;
    }
    domains_update_all(d);
}

static bool is_member(const struct chain_list *c, uint32_t partition, uint32_t id)
{
    const uint32_t *chain = chains_of(c, partition);
    for (uint32_t k = 0; k < c->replicas; k++)
        if (chain[k] == id)
            return true;
    return false;
}

// Returns the place of the loop that the partition avoids; d.n if there is none, or it is a
// member of the present chain.
static uint32_t avoided(const struct chain_plan *p, uint32_t partition)
{
    uint32_t id = p->wanted->avoid != NULL ? p->wanted->avoid[partition] : NOWHERE;
    return id == NOWHERE || is_member(p->present, partition, id)
               ? p->d.n
               : domains_find(&p->d, id);
}

// Sets the limit of a place that exists. Returns the former limit.
static uint64_t set_limit(struct chain_plan *p, uint32_t at, uint64_t limit)
{
    if (at == p->d.n)
        return 0;
    uint64_t before = p->d.places[at].limit;
    p->d.places[at].limit = limit;
    domains_update(&p->d, at);
    return before;
}

// Writes the places of the loops that may remain backups of the partition: those of the
// previous plan, then those of the present chain. Returns their number.
static uint32_t find_candidates(const struct chain_plan *p, uint32_t partition,
                                uint32_t ret[2 * CHAINS_MAX_REPLICAS])
{
    const uint32_t *before = chains_of(p->wanted, partition);
    const uint32_t *now = chains_of(p->present, partition);
    uint32_t n = 0, replicas = p->wanted->replicas;
    for (uint32_t k = 1; k < 2 * replicas; k++) {
        uint32_t id = k < replicas ? before[k] : now[k - replicas];
        uint32_t at = domains_find(&p->d, id);
        if (stays(p, at) && at != avoided(p, partition) &&
            (!p->d.places[at].loop.full || is_member(p->present, partition, id)))
            ret[n++] = at;
    }
    return n;
}

// Returns the place of the next backup behind n members; d.n if there is none.
static uint32_t next_backup(const struct chain_plan *p, const uint32_t *members,
                            uint32_t n, const uint32_t *candidates, uint32_t n_candidates,
                            bool *ret_appended)
{
    *ret_appended = false;
    for (uint32_t closeness = 0; closeness < DOMAINS; closeness++) {
        for (uint32_t i = 0; i < n_candidates; i++)
            if (domains_closeness(&p->d, candidates[i], members, n) <= closeness)
                return candidates[i];
        uint32_t at = domains_least(&p->d, members, n, closeness);
        *ret_appended = at < p->d.n;
        if (*ret_appended)
            return at;
    }
    return p->d.n;
}

static void add_backup(struct chain_plan *p, uint32_t at, int n)
{
    p->backups[at] += (uint32_t)n;
    p->pairs[at] += (uint32_t)n;
    update_load(p, at);
}

static void plan_chain(struct chain_plan *p, uint32_t partition)
{
    uint32_t *chain = chains_of(p->wanted, partition), replicas = p->wanted->replicas;
    uint32_t candidates[2 * CHAINS_MAX_REPLICAS], members[CHAINS_MAX_REPLICAS];
    uint32_t n_candidates = find_candidates(p, partition, candidates), n = 0;
    for (uint32_t k = 1; k < replicas; k++) {
        uint32_t at = domains_find(&p->d, chain[k]);
        if (at < p->d.n)
            add_backup(p, at, -1);
    }
    members[n++] = domains_find(&p->d, p->primary[partition]);
    uint32_t last = avoided(p, partition);
    uint64_t limit = set_limit(p, last, 0);
    while (n < replicas) {
        bool appended;
        uint32_t at = next_backup(p, members, n, candidates, n_candidates, &appended);
        if (at == p->d.n && last == p->d.n)
            break;
        if (at == p->d.n) { // no other loop is left
            (void)set_limit(p, last, limit);
            last = p->d.n;
            continue;
        }
        p->appended[partition] |= (uint8_t)(appended << n);
        add_backup(p, at, 1);
        members[n++] = at;
    }
    (void)set_limit(p, last, limit);
    for (uint32_t k = 0; k < replicas; k++)
        chain[k] = k < n ? p->d.places[members[k]].loop.id : NOWHERE;
}

// Adds the backups of one primary to `pairs` (sign 1), or takes them off (sign -1).
static void count_pairs(struct chain_plan *p, const uint32_t *partitions, uint32_t n,
                        int sign)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 1; k < p->wanted->replicas; k++) {
            uint32_t at = domains_find(&p->d, chains_of(p->wanted, partitions[i])[k]);
            if (at == p->d.n)
                continue;
            p->pairs[at] += (uint32_t)sign;
            update_load(p, at);
        }
}

static void plan_chains(struct chain_plan *p)
{
    sort_partitions(p);
    for (uint32_t at = 0, begin = 0; at < p->d.n; begin = p->primaries[at++]) {
        const uint32_t *group = p->sorted + begin;
        uint32_t n = p->primaries[at] - begin;
        count_pairs(p, group, n, 1);
        for (uint32_t i = 0; i < n; i++)
            plan_chain(p, group[i]);
        count_pairs(p, group, n, -1);
    }
}

// Swaps the primary of a partition with the backup that leads the fewest partitions.
static void swap_primary(struct chain_plan *p, uint32_t partition, uint32_t from,
                         uint32_t most)
{
    uint32_t *chain = chains_of(p->wanted, partition), best = p->d.n, slot = 0;
    for (uint32_t k = 1; k < p->wanted->replicas && chain[k] != NOWHERE; k++) {
        uint32_t at = domains_find(&p->d, chain[k]);
        if (!p->d.places[at].loop.full &&
            p->primaries[at] < (slot > 0 ? p->primaries[best] : most)) {
            best = at;
            slot = k;
        }
    }
    if (slot == 0)
        return;
    p->primaries[from]--;
    p->primaries[best]++;
    p->backups[from]++;
    p->backups[best]--;
    p->appended[partition] &= (uint8_t) ~(1u << slot);
    chain[slot] = chain[0];
    chain[0] = p->d.places[best].loop.id;
}

// If one member of a chain is left, that member has to lead at first. If it then leads
// more than its share, a backup is to lead later, which has to be filled in any case.
static void swap_promoted(struct chain_plan *p)
{
    uint32_t most = ring_most(p->wanted->partitions, p->stay);
    memset(p->primaries, 0, p->d.n * sizeof(*p->primaries));
    for (uint32_t i = 0; i < p->wanted->partitions; i++)
        p->primaries[domains_find(&p->d, p->primary[i])]++;
    for (uint32_t i = 0; i < p->wanted->partitions; i++) {
        uint32_t at = domains_find(&p->d, p->primary[i]);
        if (p->promoted[i] && p->primaries[at] > most)
            swap_primary(p, i, at, most);
    }
}

// Gives the backup k of a partition to another loop, which is not closer to the other
// members and is below its limit. Does nothing if there is no such loop.
static void give_away(struct chain_plan *p, uint32_t partition, uint32_t k, uint32_t from)
{
    uint32_t *chain = chains_of(p->wanted, partition);
    uint32_t others[CHAINS_MAX_REPLICAS], n = 0, to = p->d.n;
    for (uint32_t i = 0; i < p->wanted->replicas && chain[i] != NOWHERE; i++)
        if (i != k)
            others[n++] = domains_find(&p->d, chain[i]);
    uint32_t most = domains_closeness(&p->d, from, others, n);
    uint32_t avoid = avoided(p, partition);
    uint64_t limit = set_limit(p, avoid, 0);
    for (uint32_t closeness = 0; closeness <= most && to == p->d.n; closeness++)
        to = domains_least(&p->d, others, n, closeness);
    (void)set_limit(p, avoid, limit);
    if (to == p->d.n)
        return;
    p->backups[from]--;
    p->backups[to]++;
    p->d.places[from].load = p->backups[from];
    p->d.places[to].load = p->backups[to];
    domains_update(&p->d, from);
    domains_update(&p->d, to);
    chain[k] = p->d.places[to].loop.id;
}

// Gives backups of the loops with more than `above` backups to loops below their limits;
// only appended ones if `appended` is set. Visits the partitions in large steps, so that
// the backups of many primaries change hands also in a space where each primary has
// neighbouring partitions.
static void spread(struct chain_plan *p, uint32_t above, bool appended)
{
    domains_update_all(&p->d);
    uint32_t partitions = p->wanted->partitions;
    for (size_t first = 0; first < p->stay; first++)
        for (size_t i = first; i < partitions; i += p->stay)
            for (uint32_t k = 1; k < p->wanted->replicas; k++) {
                uint32_t at = domains_find(&p->d, chains_of(p->wanted, (uint32_t)i)[k]);
                if (at < p->d.n && p->backups[at] > above &&
                    (!appended || (p->appended[i] >> k & 1) != 0))
                    give_away(p, (uint32_t)i, k, at);
            }
}

// Returns how many backups the loops have beyond `level` each.
static uint64_t excess(const struct chain_plan *p, uint64_t level)
{
    uint64_t n = 0;
    for (uint32_t at = 0; at < p->d.n; at++)
        if (p->backups[at] > level)
            n += p->backups[at] - level;
    return n;
}

// Gives loops without backups their share, from the loops with the most. If the zones do
// not allow this, then from any loops with more than their share.
static void spread_to_new(struct chain_plan *p, uint32_t share)
{
    uint64_t need = 0;
    for (uint32_t at = 0; at < p->d.n; at++) {
        struct domain_place *x = &p->d.places[at];
        bool is_new = p->without[at] || p->backups[at] == 0;
        x->load = p->backups[at];
        x->limit = is_new && !x->loop.leaves && !x->loop.full ? share : 0;
        need += x->load < x->limit ? x->limit - x->load : 0;
    }
    if (need == 0)
        return;
    uint64_t above = search_first(share, UINT32_MAX, i, excess(p, i) < need);
    spread(p, above > share ? (uint32_t)above - 1 : share, false);
    spread(p, share, false);
}

// Brings loops up to `share` backups each, from loops with more.
static void spread_all(struct chain_plan *p, uint32_t share, bool appended)
{
    for (uint32_t at = 0; at < p->d.n; at++) {
        const struct domain_loop *x = &p->d.places[at].loop;
        p->d.places[at].load = p->backups[at];
        p->d.places[at].limit = x->leaves || x->full ? 0 : share;
    }
    spread(p, share, appended);
}

static void balance_backups(struct chain_plan *p, bool even)
{
    uint32_t share = (uint32_t)(excess(p, 0) / p->stay);
    spread_all(p, share, !even);
    spread_all(p, share + 1, !even);
    spread_to_new(p, share);
}

// Orders loops that have to be filled. The order differs between partitions, so that all
// loops are equally often the first backup, and does not depend on earlier plans.
static bool is_later(uint32_t partition, uint32_t a, uint32_t b)
{
    uint64_t x = mix64((uint64_t)partition << 32 | a);
    uint64_t y = mix64((uint64_t)partition << 32 | b);
    return x > y; // mix64 maps different numbers to different numbers
}

// Orders the members of a wanted chain as chains.h says.
static uint32_t order_chain(struct chain_plan *p, uint32_t partition)
{
    uint32_t *chain = chains_of(p->wanted, partition), replicas = p->wanted->replicas;
    uint32_t ordered[CHAINS_MAX_REPLICAS] = {chain[0]}, n = 1;
    const uint32_t *now = chains_of(p->present, partition);
    for (uint32_t k = 0; k < replicas; k++)
        if (now[k] != NOWHERE && now[k] != chain[0] &&
            is_member(p->wanted, partition, now[k]))
            ordered[n++] = now[k];
    uint32_t first_fill = n;
    for (uint32_t k = 1; k < replicas; k++) {
        if (chain[k] == NOWHERE || is_member(p->present, partition, chain[k]))
            continue;
        uint32_t to = n++;
        for (; to > first_fill && is_later(partition, ordered[to - 1], chain[k]); to--)
            ordered[to] = ordered[to - 1];
        ordered[to] = chain[k];
    }
    memcpy(chain, ordered, n * sizeof(*chain));
    return n;
}

static void finish_chain(struct chain_plan *p, uint32_t partition,
                         struct chains_faults *ret)
{
    uint32_t members[CHAINS_MAX_REPLICAS], n = order_chain(p, partition);
    bool together = false;
    for (uint32_t k = 0; k < n; k++) {
        members[k] = domains_find(&p->d, chains_of(p->wanted, partition)[k]);
        together |= domains_closeness(&p->d, members[k], members, k) > 0;
    }
    ret->shorter += n < p->wanted->replicas;
    ret->together += together;
}

int chains_plan(const struct domain_loop *loops, size_t n, bool even,
                const struct chain_list *present, struct chain_list *wanted,
                struct chains_faults *ret)
{
    assert(n > 0 && present->partitions > 0 && present->replicas > 0 &&
           present->replicas <= CHAINS_MAX_REPLICAS &&
           wanted->partitions == present->partitions &&
           wanted->replicas == present->replicas);
    struct chain_plan p = {.present = present, .wanted = wanted};
    int rc = open_plan(&p, loops, n);
    if (rc == 0 && p.stay > 0)
        rc = plan_primaries(&p, even);
    if (rc != 0) {
        close_plan(&p);
        return rc;
    }
    if (p.stay > 0) {
        count_backups(&p);
        plan_chains(&p);
        swap_promoted(&p);
        balance_backups(&p, even);
    } else { // no loop could take over: all partitions stay where they are
        memcpy(wanted->ids, present->ids,
               (size_t)present->partitions * present->replicas * sizeof(*wanted->ids));
    }
    *ret = (struct chains_faults){0};
    for (uint32_t i = 0; i < wanted->partitions; i++)
        finish_chain(&p, i, ret);
    close_plan(&p);
    return 0;
}
