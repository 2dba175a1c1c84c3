// Whole clusters in the simulator: hundreds of seeds with losses, repeats, messages out
// of order, broken links, deaths and late joins. Nobody hangs, everybody has the same
// roster, barriers hold, each piece counts once in each pass.
//
// SPDX-License-Identifier: Apache-2.0
#include "cluster/cluster_testing.h"

static struct world w;

static void check_rosters(void)
{
    const struct roster *truth = scheduler_roster(w.s);
    for (uint32_t i = 0; i < w.n; i++) {
        const struct actor *a = &w.actors[i];
        if (a->crashed)
            continue;
        const struct roster *r = member_roster(a->m);
        if (r->version != truth->version)
            fail_msg("seed %llu: actor %u has version %llu, not %llu",
                     (unsigned long long)w.seed, i, (unsigned long long)r->version,
                     (unsigned long long)truth->version);
        assert_int_equal(r->epoch, truth->epoch);
        assert_int_equal(r->n_nodes, truth->n_nodes);
        for (uint32_t k = 0; k < r->n_nodes; k++) {
            assert_int_equal(r->nodes[k].id, truth->nodes[k].id);
            assert_int_equal(r->nodes[k].alive, truth->nodes[k].alive);
            assert_int_equal(r->nodes[k].session, truth->nodes[k].session);
        }
        for (int space = 0; space < WIRE_SPACES; space++)
            assert_memory_equal(r->owners[space], truth->owners[space],
                                sizeof(uint32_t) << truth->partition_bits);
    }
}

static uint64_t draw(uint64_t what, uint64_t n)
{
    return random_below(w.seed, 0, what, n);
}

// One worker of at least two dies at some time, and perhaps another comes.
static void make_trouble(uint32_t servers, uint32_t workers)
{
    while (scheduler_roster(w.s)->epoch == 0)
        assert_true(sim_step(w.sim, 60 * SECONDS));
    world_run(&w, draw(10, 10 * SECONDS));
    if (workers > 1 && draw(11, 2) == 0)
        world_crash(&w.actors[servers + draw(12, workers)]);
    if (draw(13, 2) == 0) {
        world_run(&w, draw(14, 8 * SECONDS));
        struct actor *a = world_add(&w, WIRE_WORKER);
        a->late = true;
    }
}

static void run_seed(uint64_t seed, double rate)
{
    uint32_t servers = 1 + (uint32_t)random_below(seed, 0, 1, 3);
    uint32_t workers = 1 + (uint32_t)random_below(seed, 0, 2, 4);
    struct scheduler_options o = world_options(servers, workers);
    o.dead_timeout_ns = 30 * SECONDS; // many tries to come back at these rates
    world_open(&w, seed, &o);
    w.with_barriers = w.with_work = true;
    w.pieces = 1 + (uint32_t)draw(3, 30);
    w.compressed = draw(4, 2) == 0;
    w.shares = draw(5, 3) == 0;
    w.passes = 3;
    sim_set_faults(w.sim, rate, rate, rate, rate / 10);
    world_add_all(&w, servers, workers, true);
    struct actor *driver = &w.actors[servers + workers];
    make_trouble(servers, workers);

    uint64_t limit = sim_now(w.sim) + 900 * SECONDS;
    while (!driver->waits) {
        struct err why = {0};
        if (member_ended(driver->m, &why))
            fail_msg("seed %llu: ended: %s\n%s", (unsigned long long)seed, why.text,
                     w.log);
        if (!sim_step(w.sim, limit))
            fail_msg("seed %llu: pass %llu never ends\n%s", (unsigned long long)seed,
                     (unsigned long long)driver->pass, w.log);
    }
    sim_set_faults(w.sim, 0, 0, 0, 0);
    world_run(&w, o.dead_timeout_ns + 5 * SECONDS);
    check_rosters();

    sim_set_faults(w.sim, rate, rate, rate, rate / 10);
    w.go_on = true;
    struct err e = world_finish(&w, 300 * SECONDS);
    if (e.code != 0)
        fail_msg("seed %llu: %s\n%s", (unsigned long long)seed, e.text, w.log);
    assert_int_equal(w.reported_pass, w.passes);
    world_close(&w);
}

static void test_quiet(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++)
        run_seed(seed, 0);
}

static void test_faults(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 800; seed++)
        run_seed(1000 + seed, 0.02 + 0.1 * (double)(seed % 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quiet),
        cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
