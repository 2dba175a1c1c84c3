// Plans of chains, over random histories of joins, drains and deaths: no chain has two
// members in one domain without need, shares stay about equal, few loops have to be
// filled, and none without a reason. If there is one replica, the plan is placement_plan's.
//
// SPDX-License-Identifier: Apache-2.0
#include "cluster/chains.h"

#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "cluster/placement.h"
#include "cluster/ring.h"
#include "kit/test.h"

enum {
    MAX_LOOPS = 48,
    MAX_PARTITIONS = 1 << 9,
    MAX_IDS = MAX_PARTITIONS * CHAINS_MAX_REPLICAS,
    HISTORIES = 150,
    STEPS = 25,
};

struct world {
    struct domain_loop loops[MAX_LOOPS];
    uint32_t n_loops, next_id, next_process;
    uint32_t hosts, zones; // new processes are spread over so many; 0: a host for each
    uint32_t present_ids[MAX_IDS], wanted_ids[MAX_IDS];
    struct chain_list present, wanted;
    struct chains_faults faults;
    uint64_t seed, counter;
};

static uint32_t dice(struct world *w, uint32_t below)
{
    return (uint32_t)random_below(w->seed, 3, w->counter++, below);
}

static void add_process(struct world *w, uint32_t n)
{
    uint32_t process = w->next_process++, host = process;
    if (w->hosts > 0)
        host = dice(w, w->hosts);
    for (uint32_t i = 0; i < n && w->n_loops < MAX_LOOPS; i++, w->next_id += 2)
        w->loops[w->n_loops++] = (struct domain_loop){
            .id = w->next_id,
            .process = process,
            .host = host,
            .zone = w->zones > 0 ? host % w->zones : host};
}

static void set_size(struct world *w, uint32_t partitions, uint32_t replicas)
{
    w->present = (struct chain_list){
        .partitions = partitions, .replicas = replicas, .ids = w->present_ids};
    w->wanted = (struct chain_list){
        .partitions = partitions, .replicas = replicas, .ids = w->wanted_ids};
}

static size_t bytes_of(const struct chain_list *c)
{
    return (size_t)c->partitions * c->replicas * sizeof(*c->ids);
}

static void plan(struct world *w, bool even)
{
    assert_int_equal(
        chains_plan(w->loops, w->n_loops, even, &w->present, &w->wanted, &w->faults), 0);
}

// Carries the plan out.
static void finish(struct world *w)
{
    memcpy(w->present_ids, w->wanted_ids, bytes_of(&w->wanted));
}

// Places the primaries by the ring, and plans the first backups.
static void place(struct world *w)
{
    uint32_t ids[MAX_LOOPS], owners[MAX_PARTITIONS];
    for (uint32_t i = 0; i < w->n_loops; i++)
        ids[i] = w->loops[i].id;
    assert_int_equal(ring_place(ids, w->n_loops, w->present.partitions, owners), 0);
    memset(w->present_ids, 0, bytes_of(&w->present));
    for (uint32_t p = 0; p < w->present.partitions; p++)
        chains_of(&w->present, p)[0] = owners[p];
    memcpy(w->wanted_ids, w->present_ids, bytes_of(&w->present));
    plan(w, false);
    for (uint32_t p = 0; p < w->present.partitions; p++)
        assert_int_equal(chains_of(&w->wanted, p)[0], owners[p]);
    finish(w);
}

// Begins a world with one loop on each of n hosts.
static struct world *begin(struct world *w, uint32_t n, uint32_t partitions,
                           uint32_t replicas)
{
    *w = (struct world){.next_id = 8};
    for (uint32_t i = 0; i < n; i++)
        add_process(w, 1);
    set_size(w, partitions, replicas);
    place(w);
    return w;
}

static const struct domain_loop *loop_of(const struct world *w, uint32_t id)
{
    for (uint32_t i = 0; i < w->n_loops; i++)
        if (w->loops[i].id == id)
            return &w->loops[i];
    return NULL;
}

static bool has(const struct chain_list *c, uint32_t p, uint32_t id)
{
    for (uint32_t k = 0; k < c->replicas; k++)
        if (chains_of(c, p)[k] == id)
            return true;
    return false;
}

static uint32_t length(const struct chain_list *c, uint32_t p)
{
    uint32_t n = 0;
    while (n < c->replicas && chains_of(c, p)[n] != 0)
        n++;
    return n;
}

// Returns how many members of the plan's chains have to be filled; only those in the loop
// with this id unless it is 0.
static uint32_t fills(const struct world *w, uint32_t id)
{
    uint32_t n = 0;
    for (uint32_t p = 0; p < w->wanted.partitions; p++)
        for (uint32_t k = 0; k < length(&w->wanted, p); k++) {
            uint32_t x = chains_of(&w->wanted, p)[k];
            n += !has(&w->present, p, x) && (id == 0 || x == id);
        }
    return n;
}

// Returns how many chains of the list the loop leads (backups: false) or backs up.
static uint32_t load_of(const struct chain_list *c, uint32_t id, bool backups)
{
    uint32_t n = 0;
    for (uint32_t p = 0; p < c->partitions; p++)
        n += (chains_of(c, p)[0] == id) != backups && has(c, p, id);
    return n;
}

static uint32_t closeness(const struct domain_loop *x, const struct domain_loop *y)
{
    return x->process == y->process ? 3
           : x->host == y->host     ? 2
           : x->zone == y->zone     ? 1
                                    : 0;
}

// Returns how close the loop is to the closest member of the chain, itself left out.
static uint32_t closeness_to(const struct world *w, const struct domain_loop *x,
                             const uint32_t *chain, uint32_t n)
{
    uint32_t most = 0;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t near = chain[k] == x->id ? 0 : closeness(x, loop_of(w, chain[k]));
        most = near > most ? near : most;
    }
    return most;
}

// Checks that no other loop would be farther from the chain's members than the two
// closest members are from each other.
static void check_chain(const struct world *w, uint32_t p, struct chains_faults *faults)
{
    const uint32_t *chain = chains_of(&w->wanted, p);
    uint32_t n = length(&w->wanted, p), most = 0;
    assert_in_range(n, 1, w->wanted.replicas);
    for (uint32_t k = n; k < w->wanted.replicas; k++)
        assert_int_equal(chain[k], 0);
    for (uint32_t k = 0; k < n; k++) {
        const struct domain_loop *x = loop_of(w, chain[k]);
        assert_non_null(x);
        assert_false(x->leaves);
        assert_true(!x->full || has(&w->present, p, x->id));
        uint32_t near = closeness_to(w, x, chain, n);
        most = near > most ? near : most;
    }
    assert_true(most < 3); // never in one process
    for (uint32_t i = 0; i < w->n_loops; i++) {
        const struct domain_loop *x = &w->loops[i];
        if (x->leaves || x->full || has(&w->wanted, p, x->id))
            continue;
        uint32_t near = closeness_to(w, x, chain, n);
        assert_true(near >= most);
        assert_true(n == w->wanted.replicas || near == 3);
    }
    faults->shorter += n < w->wanted.replicas;
    faults->together += most > 0;
}

// Checks that the members that are not filled keep the order of the present chain, except
// that another member may have become the primary, and that the others come last.
static void check_order(const struct world *w, uint32_t p)
{
    const uint32_t *chain = chains_of(&w->wanted, p), *now = chains_of(&w->present, p);
    uint32_t k = 1, n = length(&w->wanted, p);
    for (uint32_t i = 0; i < w->present.replicas; i++)
        if (now[i] != 0 && now[i] != chain[0] && has(&w->wanted, p, now[i]))
            assert_int_equal(chain[k++], now[i]);
    for (; k < n; k++)
        assert_false(has(&w->present, p, chain[k]));
}

static void check_plan(const struct world *w)
{
    struct chains_faults faults = {0};
    for (uint32_t p = 0; p < w->wanted.partitions; p++) {
        check_chain(w, p, &faults);
        check_order(w, p);
    }
    assert_int_equal(faults.shorter, w->faults.shorter);
    assert_int_equal(faults.together, w->faults.together);
}

// Checks that a second plan, during or after the first one, changes nothing.
static void check_again(const struct world *w)
{
    static struct world other;
    for (int done = 0; done < 2; done++) {
        other = *w;
        set_size(&other, w->present.partitions, w->present.replicas);
        if (done)
            finish(&other);
        plan(&other, false);
        assert_memory_equal(other.wanted_ids, w->wanted_ids, bytes_of(&w->wanted));
    }
}

// A loop that joins gets its share of primaries and of backups, and no other loop is
// filled.
static void test_join(void **state)
{
    (void)state;
    static struct world w;
    for (uint32_t replicas = 2; replicas <= 4; replicas++)
        for (uint32_t n = replicas; n < 20; n++) {
            begin(&w, n, 256, replicas);
            assert_int_equal(w.faults.shorter + w.faults.together, 0);
            uint32_t share = 256 / (n + 1), backups = (replicas - 1) * 256 / (n + 1);
            add_process(&w, 1);
            plan(&w, false);
            check_plan(&w);
            check_again(&w);
            uint32_t id = w.loops[n].id;
            assert_int_equal(load_of(&w.wanted, id, false), share);
            assert_int_equal(load_of(&w.wanted, id, true), backups);
            assert_int_equal(fills(&w, 0), share + backups);
            assert_int_equal(fills(&w, id), share + backups);
        }
}

static void remove_loop(struct world *w, uint32_t at)
{
    memmove(w->loops + at, w->loops + at + 1, (--w->n_loops - at) * sizeof(*w->loops));
}

// If a loop dies or leaves, its partitions need another member each, and no other loop is
// filled. The primaries stay within their bound.
static void test_death_and_drain(void **state)
{
    (void)state;
    static struct world w;
    for (uint32_t replicas = 2; replicas <= 4; replicas++)
        for (uint32_t n = replicas + 1; n < 20; n++)
            for (int dies = 0; dies < 2; dies++) {
                begin(&w, n, 256, replicas);
                uint32_t at = n / 2, id = w.loops[at].id;
                uint32_t slots = load_of(&w.present, id, false) +
                                 load_of(&w.present, id, true);
                if (dies) {
                    remove_loop(&w, at);
                    assert_int_equal(chains_remove_dead(&w.present, w.loops, n - 1), 0);
                } else {
                    w.loops[at].leaves = true;
                }
                plan(&w, false);
                check_plan(&w);
                check_again(&w);
                assert_int_equal(fills(&w, 0), slots);
                for (uint32_t i = 0; i < w.n_loops; i++)
                    assert_in_range(load_of(&w.wanted, w.loops[i].id, false), 0,
                                    ring_most(256, n - 1) + 1);
            }
}

// The first member that is left of a chain leads it, and the order stays.
static void test_remove_dead(void **state)
{
    (void)state;
    uint32_t ids[] = {8, 10, 12, 10, 12, 0, 12, 14, 0, 14, 8, 12};
    const uint32_t after[] = {8, 12, 0, 12, 0, 0, 12, 0, 0, 8, 12, 0};
    const struct domain_loop loops[] = {{.id = 8}, {.id = 12}}, *none = loops;
    struct chain_list c = {.partitions = 4, .replicas = 3, .ids = ids};
    assert_int_equal(chains_find_lost(&c, loops, 2, 3, 0), 4);
    assert_int_equal(chains_find_lost(&c, loops, 2, 1, 0), 1);
    assert_int_equal(chains_find_lost(&c, loops, 2, 1, 2), 3);
    assert_int_equal(chains_find_lost(&c, loops, 2, 1, 4), 4);
    assert_int_equal(chains_find_lost(&c, loops, 1, 3, 0), 1); // only loop 8 is alive
    assert_int_equal(chains_find_lost(&c, loops, 1, 3, 2), 2);
    assert_int_equal(chains_find_lost(&c, loops, 1, 3, 3), 4);
    assert_int_equal(chains_remove_dead(&c, loops, 2), 0);
    assert_memory_equal(ids, after, sizeof(after));
    assert_int_equal(chains_remove_dead(&c, loops, 1), 2);
    assert_int_equal(chains_find_lost(&c, loops, 1, 1, 0), 1);
    assert_int_equal(chains_remove_dead(&c, none, 0), 4);
}

// More replicas than domains make shorter chains, or chains that share a domain, and
// the plan says so.
static void test_too_few_loops(void **state)
{
    (void)state;
    static struct world w;
    begin(&w, 2, 64, 3);
    assert_int_equal(w.faults.shorter, 64);
    assert_int_equal(w.faults.together, 0);
    check_plan(&w);
    add_process(&w, 1);
    w.loops[2].full = true; // the third loop has no room
    plan(&w, false);
    assert_int_equal(w.faults.shorter, 64);
    assert_int_equal(fills(&w, 0), 0);
    w.loops[2].full = false;
    w.loops[2].host = w.loops[2].zone = w.loops[1].host;
    plan(&w, false);
    check_plan(&w);
    assert_int_equal(w.faults.shorter, 0);
    assert_int_equal(w.faults.together, 64);
    for (uint32_t i = 0; i < w.n_loops; i++)
        w.loops[i].leaves = true;
    finish(&w);
    plan(&w, true); // no loop could take over
    assert_memory_equal(w.wanted_ids, w.present_ids, bytes_of(&w.present));
}

// Each chain has lost a member, which it avoids: another loop takes the place. If there is
// none, the same loop does.
static void test_avoid(void **state)
{
    (void)state;
    static struct world w;
    uint32_t avoid[64];
    for (uint32_t n = 3; n <= 6; n++) {
        begin(&w, n, 64, 3);
        for (uint32_t p = 0; p < 64; p++) {
            uint32_t *chain = chains_of(&w.present, p), k = 1 + p % 2;
            avoid[p] = chain[k];
            chain[k] = chain[2];
            chain[2] = 0;
        }
        w.wanted.avoid = avoid;
        plan(&w, n == 5);
        check_plan(&w);
        for (uint32_t p = 0; p < 64; p++) {
            assert_int_equal(length(&w.wanted, p), 3);
            assert_int_equal(has(&w.wanted, p, avoid[p]), n == 3);
        }
        finish(&w);
        memcpy(w.wanted_ids, w.present_ids, bytes_of(&w.present));
        for (uint32_t p = 0; p < 64; p++)
            avoid[p] = chains_of(&w.present, p)[1];
        plan(&w, false); // they are members, and stay
        assert_int_equal(fills(&w, 0), 0);
    }
}

// When a second host joins, each chain gets a member there, and each partition needs one
// fill for that.
static void test_second_host(void **state)
{
    (void)state;
    static struct world w;
    w = (struct world){.next_id = 8, .hosts = 1};
    for (int i = 0; i < 4; i++)
        add_process(&w, 2);
    set_size(&w, 128, 2);
    place(&w);
    check_plan(&w);
    assert_int_equal(w.faults.together, 128);
    w.hosts = 0;
    add_process(&w, 2);
    plan(&w, false);
    check_plan(&w);
    check_again(&w);
    assert_int_equal(w.faults.together, 0);
    assert_int_equal(fills(&w, w.loops[8].id) + fills(&w, w.loops[9].id), 128);
    assert_int_equal(fills(&w, 0), 128);
}

// Equal shares of primaries and of backups, if asked for. Members that have the rows
// become primaries first.
static void test_even(void **state)
{
    (void)state;
    static struct world w;
    for (uint32_t n = 3; n < 20; n++) {
        begin(&w, n + 2, 256, 2);
        w.n_loops -= 2;
        if (chains_remove_dead(&w.present, w.loops, w.n_loops) > 0)
            continue; // both members of a chain have died
        plan(&w, false);
        finish(&w);
        plan(&w, true);
        check_plan(&w);
        check_again(&w);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t id = w.loops[i].id;
            assert_in_range(load_of(&w.wanted, id, false), 256 / n, (256 + n - 1) / n);
            assert_in_range(load_of(&w.wanted, id, true), 256 / n, (256 + n - 1) / n);
        }
        assert_in_range(fills(&w, 0), 0, 256 / 8 + n);
    }
}

// If there is one replica, the plan is placement_plan's, and domains do not matter.
static void test_one_replica(void **state)
{
    (void)state;
    static struct world w;
    static uint32_t wanted[MAX_PARTITIONS];
    for (uint64_t seed = 0; seed < HISTORIES; seed++) {
        begin(&w, 1 + (uint32_t)(seed % 6), 16u << (seed % 5), 1);
        w.seed = seed;
        w.hosts = (uint32_t)(seed % 3);
        for (int step = 0; step < STEPS; step++) {
            struct placement_loop stay[MAX_LOOPS];
            uint32_t r = dice(&w, 4), partitions = w.present.partitions;
            size_t n = 0;
            if (r == 0)
                add_process(&w, 1 + dice(&w, 2));
            else if (r == 1)
                w.loops[dice(&w, w.n_loops)].leaves ^= true;
            else if (r == 2)
                w.loops[dice(&w, w.n_loops)].full ^= true;
            for (uint32_t i = 0; i < w.n_loops; i++)
                if (!w.loops[i].leaves)
                    stay[n++] = (struct placement_loop){w.loops[i].id, w.loops[i].full};
            bool even = dice(&w, 7) == 0;
            memcpy(wanted, n > 0 ? w.wanted_ids : w.present_ids,
                   partitions * sizeof(*wanted));
            plan(&w, even);
            if (n > 0)
                assert_int_equal(
                    placement_plan(stay, n, even, partitions, w.present_ids, wanted), 0);
            assert_memory_equal(w.wanted_ids, wanted, partitions * sizeof(*wanted));
            for (uint32_t p = 0; p < partitions; p++)
                if (dice(&w, 3) == 0)
                    w.present_ids[p] = wanted[p];
        }
    }
}

// Returns how close the loop is to the n members of a chain.
static uint32_t naive_closeness(const struct world *w, const struct domain_loop *x,
                                const uint32_t *chain, uint32_t n)
{
    uint32_t most = 0;
    for (uint32_t k = 0; k < n; k++)
        if (closeness(x, loop_of(w, chain[k])) > most)
            most = closeness(x, loop_of(w, chain[k]));
    return most;
}

// Appends the next backup to a chain of n members: one of the previous plan `before` or
// of the present chain, else any loop. Sets *ret_kept in the first case. Returns false if
// no loop fits.
static bool naive_append(const struct world *w, uint32_t p, const uint32_t *before,
                         uint32_t *chain, uint32_t n, bool *ret_kept)
{
    const uint32_t *now = chains_of(&w->present, p);
    uint32_t replicas = w->present.replicas;
    for (uint32_t most = 0; most < 3; most++) {
        *ret_kept = true;
        for (uint32_t i = 1; i < 2 * replicas; i++) {
            chain[n] = i < replicas ? before[i] : now[i - replicas];
            const struct domain_loop *x = loop_of(w, chain[n]);
            if (x != NULL && !x->leaves && (!x->full || has(&w->present, p, x->id)) &&
                naive_closeness(w, x, chain, n) <= most)
                return true;
        }
        *ret_kept = false;
        for (uint32_t i = 0; i < w->n_loops; i++) {
            const struct domain_loop *x = &w->loops[i];
            chain[n] = x->id;
            if (!x->leaves && !x->full && naive_closeness(w, x, chain, n) <= most)
                return true;
        }
    }
    return false;
}

// Returns whether all loops with room have backups in this plan.
static bool all_have_backups(const struct world *w, const struct chain_list *c)
{
    for (uint32_t i = 0; i < w->n_loops; i++)
        if (!w->loops[i].leaves && !w->loops[i].full &&
            load_of(c, w->loops[i].id, true) == 0)
            return false;
    return true;
}

static bool is_backup(const struct chain_list *c, uint32_t p, uint32_t id)
{
    return has(c, p, id) && chains_of(c, p)[0] != id;
}

// Returns whether a member other than the first that stays leads a chain in place of a
// primary that died or leaves. The naive plan does not do this.
static bool may_have_swapped(const struct world *w, const struct chain_list *before)
{
    for (uint32_t p = 0; p < before->partitions; p++) {
        const struct domain_loop *x = loop_of(w, chains_of(before, p)[0]);
        const uint32_t *now = chains_of(&w->present, p);
        if (x != NULL && !x->leaves)
            continue;
        uint32_t k = 0, n = length(&w->present, p);
        while (k < n && loop_of(w, now[k])->leaves)
            k++;
        if (k == n || chains_of(&w->wanted, p)[0] != now[k])
            return true;
    }
    return false;
}

// Checks that the plan keeps the backups that a naive plan after `before` keeps, and has
// as many. Returns false if loops may get backups from others: then it checks nothing.
static bool check_naive(const struct world *w, const struct chain_list *before)
{
    static uint32_t ids[MAX_IDS];
    const struct chain_list kept = {before->partitions, before->replicas, ids, NULL};
    if (!all_have_backups(w, before) || may_have_swapped(w, before))
        return false;
    memset(ids, 0, sizeof(ids));
    for (uint32_t p = 0; p < before->partitions; p++) {
        uint32_t chain[CHAINS_MAX_REPLICAS] = {chains_of(&w->wanted, p)[0]}, n = 1;
        bool keep;
        for (; n < before->replicas &&
               naive_append(w, p, chains_of(before, p), chain, n, &keep);
             n++)
            if (keep)
                chains_of(&kept, p)[n] = chain[n];
        assert_int_equal(n, length(&w->wanted, p));
    }
    if (!all_have_backups(w, &kept))
        return false;
    for (uint32_t p = 0; p < before->partitions; p++) {
        uint32_t *chain = chains_of(&w->wanted, p);
        for (uint32_t k = 1; k < before->replicas; k++) {
            uint32_t id = chains_of(&kept, p)[k];
            assert_true(id == 0 || has(&w->wanted, p, id));
            bool was = k < length(&w->wanted, p) &&
                       (has(&w->present, p, chain[k]) || is_backup(before, p, chain[k]));
            assert_true(!was || has(&kept, p, chain[k]));
        }
    }
    return true;
}

// Makes some of the planned moves. A chain may get the planned loops one by one.
static void some_moves(struct world *w)
{
    for (uint32_t p = 0; p < w->present.partitions; p++) {
        uint32_t *now = chains_of(&w->present, p), *then = chains_of(&w->wanted, p);
        uint32_t r = dice(w, 4), n = length(&w->present, p);
        if (r == 0)
            memcpy(now, then, w->present.replicas * sizeof(*now));
        for (uint32_t k = 0; r == 1 && k < length(&w->wanted, p); k++)
            if (n < w->present.replicas && !has(&w->present, p, then[k]))
                now[n++] = then[k];
    }
}

// Removes a process. If that loses partitions, checks their names and returns false.
static bool kill_process(struct world *w, uint32_t process)
{
    static bool lost[MAX_PARTITIONS];
    uint32_t n = 0, found = 0;
    for (uint32_t i = w->n_loops; i-- > 0;)
        if (w->loops[i].process == process)
            remove_loop(w, i);
    for (uint32_t p = 0; p < w->present.partitions; p++) {
        lost[p] = true;
        for (uint32_t k = 0; k < length(&w->present, p); k++)
            lost[p] &= loop_of(w, chains_of(&w->present, p)[k]) == NULL;
        n += lost[p];
    }
    for (uint32_t p = 0; p < w->present.partitions; p++, found++) {
        p = chains_find_lost(&w->present, w->loops, w->n_loops, CHAINS_MAX_REPLICAS, p);
        if (p == w->present.partitions)
            break;
        assert_true(lost[p]);
    }
    assert_int_equal(found, n);
    assert_int_equal(chains_remove_dead(&w->present, w->loops, w->n_loops), n);
    return n == 0;
}

// One event of a history. Returns false if the run ends.
static bool event(struct world *w)
{
    uint32_t r = dice(w, 8), process = w->loops[dice(w, w->n_loops)].process, stay = 0;
    for (uint32_t i = 0; i < w->n_loops; i++)
        stay += !w->loops[i].leaves && w->loops[i].process != process;
    if (r < 3)
        add_process(w, 1 + dice(w, 3));
    else if (r < 5 && stay > 0)
        return kill_process(w, process);
    else if (r == 5 && stay > 0)
        for (uint32_t i = 0; i < w->n_loops; i++)
            w->loops[i].leaves |= w->loops[i].process == process;
    for (uint32_t i = 0; i < w->n_loops; i++)
        w->loops[i].full = w->seed % 3 == 0 && dice(w, 12) == 0;
    return true;
}

static uint32_t run_history(struct world *w, uint64_t seed)
{
    static uint32_t ids[MAX_IDS];
    *w = (struct world){.next_id = 8, .seed = seed};
    w->hosts = dice(w, 7);
    w->zones = w->hosts > 1 ? dice(w, w->hosts) : 0;
    for (uint32_t i = 0; i < 2 + seed % 5; i++)
        add_process(w, 1 + dice(w, 2));
    set_size(w, 16u << dice(w, 4), 2 + dice(w, 3));
    place(w);
    const struct chain_list before = {w->present.partitions, w->present.replicas, ids,
                                      NULL};
    uint32_t compared = 0;
    for (int step = 0; step < STEPS && event(w); step++) {
        memcpy(ids, w->wanted_ids, bytes_of(&before));
        bool even = dice(w, 6) == 0, some_full = false, all_full = true;
        for (uint32_t i = 0; i < w->n_loops; i++)
            if (!w->loops[i].leaves) {
                some_full |= w->loops[i].full;
                all_full &= w->loops[i].full;
            }
        if (all_full)
            continue; // then chains keep loops that leave
        plan(w, even);
        check_plan(w);
        check_again(w);
        compared += !even && check_naive(w, &before);
        some_moves(w);
    }
    return compared;
}

static void test_histories(void **state)
{
    (void)state;
    static struct world w;
    uint32_t compared = 0;
    for (uint64_t seed = 0; seed < HISTORIES; seed++)
        compared += run_history(&w, seed);
    assert_in_range(compared, HISTORIES, HISTORIES * STEPS);
}

// On hosts of their own, the shares of the loops stay about equal over a history.
static void test_shares(void **state)
{
    (void)state;
    static struct world w;
    for (uint64_t seed = 0; seed < HISTORIES; seed++) {
        uint32_t replicas = 2 + (uint32_t)(seed % 2);
        begin(&w, 4 + (uint32_t)(seed % 5), 256, replicas);
        w.seed = seed;
        for (int step = 0; step < STEPS; step++) {
            uint32_t at = dice(&w, w.n_loops);
            if (w.n_loops <= replicas + 1 || dice(&w, 2) == 0)
                add_process(&w, 1);
            else if (!kill_process(&w, w.loops[at].process))
                break;
            plan(&w, false);
            check_plan(&w);
            uint32_t sum[2] = {0};
            for (uint32_t i = 0; i < w.n_loops; i++)
                for (int backups = 0; backups < 2; backups++) {
                    uint32_t load = load_of(&w.wanted, w.loops[i].id, backups);
                    double mean = (backups ? replicas - 1 : 1) * 256.0 / w.n_loops;
                    assert_in_range(load, 0, (uint32_t)(1.25 * mean) + 2);
                    sum[backups] += load;
                }
            assert_int_equal(sum[0], 256);
            assert_int_equal(sum[1], 256 * (replicas - 1));
            if (dice(&w, 3) != 0)
                finish(&w);
        }
    }
}

// Returns the most chains of a primary that one loop backs up.
static uint32_t most_pairs(const struct world *w)
{
    static uint32_t pairs[MAX_LOOPS * 4][MAX_LOOPS * 4];
    uint32_t most = 0;
    memset(pairs, 0, sizeof(pairs));
    for (uint32_t p = 0; p < w->wanted.partitions; p++)
        for (uint32_t k = 1; k < length(&w->wanted, p); k++) {
            const uint32_t *chain = chains_of(&w->wanted, p);
            uint32_t *n = &pairs[chain[0]][chain[k]];
            most = ++*n > most ? *n : most;
        }
    return most;
}

// All other loops back up the chains of a primary about equally often, also when the
// primaries of neighbouring partitions are the same loop, and after a drain.
static void test_pairs(void **state)
{
    (void)state;
    static struct world w;
    for (uint32_t n = 3; n < 20; n++)
        for (int ranges = 0; ranges < 2; ranges++) {
            begin(&w, n, 256, 2);
            if (ranges) {
                memset(w.present_ids, 0, bytes_of(&w.present));
                for (uint32_t p = 0; p < 256; p++)
                    chains_of(&w.present, p)[0] = w.loops[p * n / 256].id;
                memcpy(w.wanted_ids, w.present_ids, bytes_of(&w.wanted));
                plan(&w, false);
                finish(&w);
            }
            uint32_t most = ring_most(256, n);
            assert_in_range(most_pairs(&w), 1, (most + n - 2) / (n - 1) + 2);
            w.loops[0].leaves = true;
            plan(&w, false);
            most = ring_most(256, n - 1) + 1;
            assert_in_range(most_pairs(&w), 1, (most + n - 3) / (n - 2) + 3);
        }
}

static void test_no_memory(void **state)
{
    (void)state;
    static struct world w;
    static uint32_t ids[MAX_IDS];
    begin(&w, 5, 64, 3);
    w.loops[1].leaves = true;
    memcpy(ids, w.wanted_ids, bytes_of(&w.wanted));
    for (long k = 0;; k++) {
        size_t live = mem_live();
        mem_fault_after(k);
        int rc = chains_plan(w.loops, w.n_loops, false, &w.present, &w.wanted, &w.faults);
        bool faulted = mem_faulted();
        mem_fault_after(-1);
        assert_int_equal(mem_live(), live);
        assert_int_equal(rc, faulted ? TUG_ENOMEM : 0);
        if (!faulted)
            break;
        assert_memory_equal(w.wanted_ids, ids, bytes_of(&w.wanted));
    }
    check_plan(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_join),        cmocka_unit_test(test_death_and_drain),
        cmocka_unit_test(test_remove_dead), cmocka_unit_test(test_too_few_loops),
        cmocka_unit_test(test_second_host), cmocka_unit_test(test_even),
        cmocka_unit_test(test_one_replica), cmocka_unit_test(test_histories),
        cmocka_unit_test(test_shares),      cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_no_memory),   cmocka_unit_test(test_avoid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
