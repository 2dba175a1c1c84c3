// A thousand simulated clusters, and proof that they would notice: shards that do
// not look for repeats, do not check the placement, acknowledge a push before it is
// applied or wait for who has not begun, and members that become somebody else, are found
// within as many. What fails can be seen again:
// sim_cluster --trace --seed N.
//
// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sim/world.h"

enum { SEEDS = 1000 };

static void test_all_holds(void **state)
{
    (void)state;
    struct world_counts counts = {0};
    struct err e = {0};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct world_options o = {.seed = seed};
        if (world_run(&o, &counts, &e) != 0)
            fail_msg("sim_cluster --trace --seed %llu: %s", (unsigned long long)seed,
                     e.text);
    }
    // It was not peaceful.
    assert_true(counts.pushes > 10 * SEEDS && counts.pulls > 5 * SEEDS);
    assert_true(counts.deaths > SEEDS / 10 && counts.repeated > SEEDS / 10);
    assert_true(counts.moves > SEEDS && counts.refused > SEEDS / 10);
    assert_true(counts.resent > SEEDS);
    assert_true(counts.strange > 10 * SEEDS);
    assert_true(counts.late > SEEDS / 20 && counts.restarts > SEEDS / 20);
}

static void expect_found(enum world_bug bug)
{
    struct world_counts counts = {0};
    struct err e = {0};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct world_options o = {.seed = seed, .bug = bug};
        if (world_run(&o, &counts, &e) != 0) {
            print_message("%s: seed %llu: %s\n", world_bug_name(bug),
                          (unsigned long long)seed, e.text);
            return;
        }
    }
    fail_msg("%s was not found", world_bug_name(bug));
}

static void test_bugs_are_found(void **state)
{
    (void)state;
    for (int bug = BUG_NONE + 1; bug < BUGS; bug++)
        expect_found((enum world_bug)bug);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_holds),
        cmocka_unit_test(test_bugs_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
