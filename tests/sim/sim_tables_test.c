// Simulated clusters with tables that live, and proof that they would notice
// shards that do pushes or orders twice, or save without regard to marks. Many more:
//
//     test_sim_tables --seeds 100000 [--from 1] [--bug NAME]
//     test_sim_tables --seed 4711 --trace
//
// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "sim/tables.h"

enum { SEEDS = 300 };

static char dir[64];

static void test_all_holds(void **state)
{
    (void)state;
    struct tables_counts counts = {0};
    struct err e = {0};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct tables_options o = {.seed = seed, .dir = dir};
        if (tables_run(&o, &counts, &e) != 0)
            fail_msg("test_sim_tables --trace --seed %llu: %s", (unsigned long long)seed,
                     e.text);
    }
    // It was not peaceful.
    assert_true(counts.pushes > 10 * SEEDS && counts.saves > SEEDS / 3);
    assert_true(counts.taken_back > SEEDS / 10 && counts.orders > SEEDS);
    assert_true(counts.deaths > SEEDS / 10 && counts.resent > SEEDS);
    assert_true(counts.others > SEEDS / 2);
}

static void test_bugs_are_found(void **state)
{
    (void)state;
    for (enum tables_bug bug = TABLES_BUG_NONE + 1; bug < TABLES_BUGS; bug++) {
        struct tables_counts counts = {0};
        struct err e = {0};
        uint64_t seed = 1;
        for (; seed <= SEEDS; seed++) {
            struct tables_options o = {.seed = seed, .bug = bug, .dir = dir};
            if (tables_run(&o, &counts, &e) != 0)
                break;
        }
        if (seed > SEEDS)
            fail_msg("%s was not found", tables_bug_name(bug));
        print_message("%s: seed %llu: %s\n", tables_bug_name(bug),
                      (unsigned long long)seed, e.text);
    }
}

static int prepare(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "%s/tug-sim-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    return mkdtemp(dir) == NULL;
}

static int clean(void **state)
{
    (void)state;
    return rmdir(dir);
}

static int run_many(struct tables_options *o, uint64_t from, uint64_t seeds)
{
    struct tables_counts c = {0};
    struct err e = {0};
    double began = clock_seconds();
    uint64_t seed = from;
    int rc = 0;
    for (; seed < from + seeds && rc == 0; seed++) {
        o->seed = seed;
        rc = tables_run(o, &c, &e);
    }
    printf("%llu seeds in %.1f s: %llu pushes, %llu saves, %llu taken back, %llu by "
           "another, %llu orders, "
           "%llu deaths, %llu messages sent again, %llu events\n",
           (unsigned long long)(seed - from), clock_seconds() - began,
           (unsigned long long)c.pushes, (unsigned long long)c.saves,
           (unsigned long long)c.taken_back, (unsigned long long)c.others,
           (unsigned long long)c.orders, (unsigned long long)c.deaths,
           (unsigned long long)c.resent, (unsigned long long)c.events);
    if (rc != 0)
        printf("%s\nagain, with every event: --trace --seed %llu\n", e.text,
               (unsigned long long)o->seed);
    return rc != 0;
}

static int by_hand(int argc, char **argv)
{
    struct tables_options o = {.dir = dir};
    uint64_t from = 1, seeds = 1000;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "1";
        if (strcmp(argv[i], "--trace") == 0)
            o.trace = true;
        else if (strcmp(argv[i], "--seeds") == 0)
            seeds = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--from") == 0)
            from = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--seed") == 0)
            from = strtoull(value, NULL, 10), seeds = 1;
        for (int bug = 0; bug < TABLES_BUGS; bug++)
            if (strcmp(argv[i], tables_bug_name((enum tables_bug)bug)) == 0)
                o.bug = (enum tables_bug)bug;
    }
    if (prepare(NULL) != 0)
        return 2;
    int rc = run_many(&o, from, seeds);
    clean(NULL);
    return rc;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_holds),
        cmocka_unit_test(test_bugs_are_found),
    };
    return argc > 1 ? by_hand(argc, argv) : cmocka_run_group_tests(tests, prepare, clean);
}
