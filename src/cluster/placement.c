// The plan has two steps: first the number of partitions that each loop shall have, then
// which partitions change hands. Partitions that must move in any case are chosen first.
//
// SPDX-License-Identifier: Apache-2.0
#include "cluster/placement.h"

#include <assert.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/search.h"
#include "cluster/ring.h"

enum { NOWHERE = 0 }; // "No node", as an id

struct plan {
    const struct placement_loop *loops;
    size_t n;
    const uint32_t *owners;
    uint32_t partitions, *wanted;
    // Numbers of partitions of each loop. `load`: how many the plan gives the loop so
    // far. `goal`: how many the loop should have. `home`: how many of the partitions that
    // the loop owns now still need a loop.
    uint32_t *load, *goal, *home;
    size_t next; // the loop to which a partition was last given
};

// Returns the index of the loop with this id; n if this loop leaves.
static size_t loop_of(const struct plan *p, uint32_t id)
{
    size_t at = search_first(0, p->n, i, p->loops[i].id >= id);
    return at < p->n && p->loops[at].id == id ? at : p->n;
}

// Takes over the assignments of the previous plan that are still possible. An assignment
// to a loop that leaves, or a move to a full loop, is not possible. Returns the number of
// partitions that need a loop.
static uint32_t take_over(struct plan *p)
{
    uint32_t homeless = 0;
    for (uint32_t i = 0; i < p->partitions; i++) {
        size_t at = loop_of(p, p->wanted[i]), owner = loop_of(p, p->owners[i]);
        if (at < p->n && p->loops[at].full)
            at = owner;
        else if (at == p->n && owner < p->n && p->loops[owner].full)
            at = owner;
        if (at < p->n)
            p->load[at]++;
        else
            homeless++;
        if (at == p->n && owner < p->n)
            p->home[owner]++;
        p->wanted[i] = at < p->n ? p->loops[at].id : NOWHERE;
    }
    return homeless;
}

// most_loaded returns the loop with the most partitions. least_loaded returns the loop
// with the fewest partitions among those that are not full; n if all loops are full.
static size_t most_loaded(const struct plan *p)
{
    size_t most = 0;
    for (size_t i = 1; i < p->n; i++)
        if (p->goal[i] > p->goal[most])
            most = i;
    return most;
}

static size_t least_loaded(const struct plan *p)
{
    size_t least = p->n;
    for (size_t i = 0; i < p->n; i++)
        if (!p->loops[i].full && (least == p->n || p->goal[i] < p->goal[least]))
            least = i;
    return least;
}

// Sets the number of partitions that each loop shall have.
static void set_goals(struct plan *p, uint32_t homeless, bool even)
{
    uint32_t share = p->partitions / (uint32_t)p->n;
    for (size_t i = 0; i < p->n; i++)
        p->goal[i] = p->load[i];
    if (least_loaded(p) == p->n)
        return;
    // A partition remains on its loop if the loop stays, up to the bound of the ring
    // (ring_most).
    for (size_t i = 0; i < p->n; i++)
        while (p->home[i] > 0 && p->goal[i] < ring_most(p->partitions, p->n)) {
            p->home[i]--;
            p->goal[i]++;
            homeless--;
        }
    for (uint32_t i = 0; i < homeless; i++)
        p->goal[least_loaded(p)]++;
    for (size_t i = 0; i < p->n; i++) {
        if (p->load[i] > 0 || p->loops[i].full)
            continue;
        while (p->goal[i] < share) {
            p->goal[most_loaded(p)]--;
            p->goal[i]++;
        }
    }
    while (even) {
        size_t most = most_loaded(p), least = least_loaded(p);
        if (p->goal[most] <= p->goal[least] + 1)
            return;
        p->goal[most]--;
        p->goal[least]++;
    }
}

static void give(struct plan *p, uint32_t partition, size_t from, size_t to)
{
    if (from < p->n)
        p->load[from]--;
    p->load[to]++;
    p->wanted[partition] = p->loops[to].id;
}

// Returns a loop that has fewer partitions than it should have; n if there is no such
// loop.
static size_t needy(struct plan *p)
{
    for (size_t i = 0; i < p->n; i++, p->next++) {
        size_t at = p->next % p->n;
        if (p->load[at] < p->goal[at])
            return at;
    }
    return p->n;
}

// The kinds of partitions that may get a new owner, in the order in which they are
// chosen.
enum choice {
    AT_HOME,  // the loop that gets the partition owns it already
    HOMELESS, // the partition's owner leaves
    ON_MOVE,  // the previous plan already moves it to another loop
    ANY,
    CHOICES
};

static void choose(struct plan *p, enum choice what)
{
    for (uint32_t i = 0; i < p->partitions; i++) {
        size_t from = loop_of(p, p->wanted[i]), owner = loop_of(p, p->owners[i]);
        bool spare = from == p->n || p->load[from] > p->goal[from];
        if (!spare || (what == HOMELESS && from < p->n) ||
            (what == ON_MOVE && from == owner))
            continue;
        size_t to = what == AT_HOME ? owner : needy(p);
        if (to < p->n && p->load[to] < p->goal[to])
            give(p, i, from, to);
    }
}

int placement_plan(const struct placement_loop *loops, size_t n, bool even,
                   uint32_t partitions, const uint32_t *owners, uint32_t *wanted)
{
    assert(n > 0 && partitions > 0);
    uint32_t *counts = mem_zalloc(3 * n * sizeof(*counts));
    if (counts == NULL)
        return TUG_ENOMEM;
    struct plan p = {.loops = loops,
                     .n = n,
                     .owners = owners,
                     .partitions = partitions,
                     .wanted = wanted,
                     .load = counts,
                     .goal = counts + n,
                     .home = counts + 2 * n};
    set_goals(&p, take_over(&p), even);
    for (enum choice what = AT_HOME; what < CHOICES; what++)
        choose(&p, what);
    // If all loops are full, partitions keep their owners.
    for (uint32_t i = 0; i < partitions; i++)
        if (wanted[i] == NOWHERE)
            wanted[i] = owners[i];
    mem_free(counts);
    return 0;
}
