// Compares the searches for loops in failure domains with searches through all loops.
//
// SPDX-License-Identifier: Apache-2.0
#include "cluster/domains.h"

#include "base/alloc.h"
#include "base/random.h"
#include "kit/test.h"

enum { MAX_LOOPS = 70, WORLDS = 150, STEPS = 120, MAX_MEMBERS = 5 };

static struct domain_loop loops[MAX_LOOPS];
static uint32_t n_loops, load[MAX_LOOPS], limit[MAX_LOOPS]; // by index in `loops`

static uint64_t dice(uint64_t seed, uint64_t *counter, uint64_t below)
{
    return random_below(seed, 7, (*counter)++, below);
}

static void make_loops(uint64_t seed, uint64_t *counter)
{
    uint32_t zones = 1 + (uint32_t)dice(seed, counter, 4);
    n_loops = 1 + (uint32_t)dice(seed, counter, MAX_LOOPS);
    for (uint32_t i = 0; i < n_loops; i++) {
        uint32_t process = (uint32_t)dice(seed, counter, n_loops), host = process % 9;
        loops[i] = (struct domain_loop){
            .id = 8 + 3 * i, .process = process, .host = host, .zone = host % zones};
        load[i] = (uint32_t)dice(seed, counter, 5);
        limit[i] = (uint32_t)dice(seed, counter, 6);
    }
}

static uint32_t closeness(uint32_t a, uint32_t b)
{
    const struct domain_loop *x = &loops[a], *y = &loops[b];
    return x->process == y->process ? 3
           : x->host == y->host     ? 2
           : x->zone == y->zone     ? 1
                                    : 0;
}

static uint32_t closeness_to(uint32_t a, const uint32_t *members, uint32_t n)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < n; i++)
        most = closeness(a, members[i]) > most ? closeness(a, members[i]) : most;
    return most;
}

static uint32_t index_of(const struct domains *d, uint32_t at)
{
    return (d->places[at].loop.id - 8) / 3;
}

// Returns whether loop a is a better choice than loop b.
static bool is_better(uint32_t a, uint32_t b)
{
    const struct domain_loop *x = &loops[a], *y = &loops[b];
    if (load[a] != load[b])
        return load[a] < load[b];
    if (x->zone != y->zone)
        return x->zone < y->zone;
    if (x->host != y->host)
        return x->host < y->host;
    return x->process != y->process ? x->process < y->process : x->id < y->id;
}

static void check_search(struct domains *d, uint64_t seed, uint64_t *counter)
{
    uint32_t members[MAX_MEMBERS], places[MAX_MEMBERS];
    uint32_t n = (uint32_t)dice(seed, counter, MAX_MEMBERS + 1);
    uint32_t most = (uint32_t)dice(seed, counter, DOMAINS), best = n_loops;
    for (uint32_t i = 0; i < n; i++) {
        members[i] = (uint32_t)dice(seed, counter, n_loops);
        places[i] = domains_find(d, loops[members[i]].id);
    }
    for (uint32_t i = 0; i < n_loops; i++) {
        uint32_t at = domains_find(d, loops[i].id), near = closeness_to(i, members, n);
        assert_int_equal(index_of(d, at), i);
        assert_int_equal(domains_closeness(d, at, places, n), near);
        if (load[i] < limit[i] && near <= most && (best == n_loops || is_better(i, best)))
            best = i;
    }
    uint32_t found = domains_least(d, places, n, most);
    assert_int_equal(found < d->n ? index_of(d, found) : n_loops, best);
}

static void test_searches(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < WORLDS; seed++) {
        uint64_t counter = 0;
        struct domains d;
        make_loops(seed, &counter);
        assert_int_equal(domains_make(&d, loops, n_loops), 0);
        for (uint32_t i = 0; i < n_loops; i++) {
            struct domain_place *x = &d.places[domains_find(&d, loops[i].id)];
            x->load = load[i];
            x->limit = limit[i];
        }
        domains_update_all(&d);
        for (int step = 0; step < STEPS; step++) {
            check_search(&d, seed, &counter);
            uint32_t i = (uint32_t)dice(seed, &counter, n_loops);
            uint32_t at = domains_find(&d, loops[i].id);
            d.places[at].load = load[i] = (uint32_t)dice(seed, &counter, 5);
            d.places[at].limit = limit[i] = (uint32_t)dice(seed, &counter, 6);
            domains_update(&d, at);
        }
        assert_int_equal(domains_find(&d, 7), d.n);
        assert_int_equal(domains_find(&d, 9), d.n);
        assert_int_equal(domains_find(&d, 8 + 3 * n_loops), d.n);
        domains_free(&d);
    }
}

static void test_no_memory(void **state)
{
    (void)state;
    uint64_t counter = 0;
    struct domains d;
    make_loops(1, &counter);
    FAIL_EACH_ALLOCATION(domains_make(&d, loops, n_loops), domains_free(&d));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_searches),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
