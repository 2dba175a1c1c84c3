// See seeds.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/seeds.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kit/stage.h"
#include "kit/test.h"
#include "os/clock.h"

enum { NEAR_SEEDS = 20 };

static const struct seeds *all;
static bool keeps;  // --state
static bool rounds; // --rounds
static char dir[64];

// Runs the seeds and returns the first that fails, with the reason in *e; 0 if none does.
static uint64_t run(struct seeds_run *r, uint64_t from, uint64_t seeds, struct err *e)
{
    r->dir = dir;
    r->keeps = keeps;
    r->rounds = rounds;
    for (r->seed = from; r->seed < from + seeds; r->seed++)
        if (stage_run(all->world, r, e) != 0)
            return r->seed;
    return 0;
}

static const char *name_of(const struct seeds_bug *b)
{
    static const char *const names[N_BUGS] = {
#define NAME(bug, name) [bug] = name,
        CLUSTER_BUGS(NAME)
#undef NAME
    };
    return b->name != NULL ? b->name : names[b->bug];
}

static const char *variant(void)
{
    return keeps ? " --state" : rounds ? " --rounds" : "";
}

static uint64_t seeds_of_test(void)
{
    if (keeps)
        return all->state_seeds;
    if (rounds)
        return all->round_seeds;
#ifdef __SANITIZE_ADDRESS__
    if (all->asan_seeds != 0)
        return all->asan_seeds;
#endif
    return all->seeds;
}

static void test_all_holds(void **state)
{
    uint64_t counts[SEEDS_COUNTS] = {0}, failed;
    struct seeds_run r = {.counts = counts};
    struct err e = {0};
    (void)state;
    const uint64_t *kept = keeps ? all->state_kept : all->kept;
    failed = run(&r, 1, seeds_of_test(), &e);
    for (int i = 0; i < SEEDS_KEPT && !rounds && kept[i] != 0 && failed == 0; i++)
        failed = run(&r, kept[i], 1, &e);
    if (failed != 0)
        fail_msg("%s%s --trace --seed %llu: %s", all->program, variant(),
                 (unsigned long long)failed, e.text);
    if (keeps)
        assert_true(r.came_back > all->state_seeds);
    else
        all->check(counts, seeds_of_test());
}

static const struct seeds_bug *bugs_of(void)
{
    return keeps ? all->state_bugs : all->bugs;
}

static void test_bugs_are_found(void **state)
{
    (void)state;
    for (const struct seeds_bug *b = bugs_of(); b->bug != NO_BUG; b++) {
        uint64_t counts[SEEDS_COUNTS] = {0};
        struct seeds_run r = {.bug = b->bug, .counts = counts};
        struct err e = {0};
        uint64_t found = 0;
        if (b->near != 0)
            found = run(&r, b->near, NEAR_SEEDS, &e);
        if (found == 0)
            found = run(&r, 1, all->bug_seeds, &e);
        if (found == 0)
            fail_msg("%s was not found", name_of(b));
        print_message("%s: seed %llu: %s\n", name_of(b), (unsigned long long)found,
                      e.text);
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

// ----------------------------------------------------------- running the program by hand

static bool number(const char *text, uint64_t *ret)
{
    char *end;
    errno = 0;
    *ret = strtoull(text, &end, 10);
    return errno == 0 && end != text && *end == '\0';
}

static const struct seeds_bug *bug_named(const char *text)
{
    for (const struct seeds_bug *b = bugs_of(); b->bug != NO_BUG; b++)
        if (strcmp(text, name_of(b)) == 0)
            return b;
    return NULL;
}

static int usage(const char *argv0)
{
    fprintf(stderr,
            "usage: %s [--state | --rounds] [--seeds N] [--from M] [--seed S] [--trace] "
            "[--bug NAME]\n",
            argv0);
    return 2;
}

static int run_by_hand(struct seeds_run *r, const struct seeds_bug *bug, uint64_t from,
                       uint64_t seeds)
{
    struct err e = {0};
    double began = clock_seconds();
    r->bug = bug != NULL ? bug->bug : NO_BUG;
    uint64_t failed = run(r, from, seeds, &e);
    uint64_t n = failed != 0 ? failed - from + 1 : seeds;
    double took = clock_seconds() - began;
    printf("%llu seeds in %.1f s, %.0f an hour", (unsigned long long)n, took,
           (double)n / took * 3600);
    for (int i = 0; i < SEEDS_COUNTS && all->counted[i] != NULL; i++)
        printf("%s %llu %s", i == 0 ? ":" : ",", (unsigned long long)r->counts[i],
               all->counted[i]);
    printf("\n");
    if (failed != 0)
        printf("%s\nagain, with every event: %s%s --trace%s%s --seed %llu\n", e.text,
               all->program, variant(), bug != NULL ? " --bug " : "",
               bug != NULL ? name_of(bug) : "", (unsigned long long)failed);
    return failed != 0;
}

static int by_hand(int argc, char **argv)
{
    uint64_t counts[SEEDS_COUNTS] = {0}, seeds = 1000, from = 1;
    struct seeds_run r = {.counts = counts};
    const struct seeds_bug *bug = NULL;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        bool good = true;
        if (strcmp(argv[i], "--trace") == 0)
            r.trace = true;
        else if (strcmp(argv[i], "--seeds") == 0)
            good = number(value, &seeds) && ++i > 0;
        else if (strcmp(argv[i], "--from") == 0)
            good = number(value, &from) && ++i > 0;
        else if (strcmp(argv[i], "--seed") == 0)
            good = number(value, &from) && (seeds = 1) && ++i > 0;
        else if (strcmp(argv[i], "--bug") == 0)
            good = (bug = bug_named(value)) != NULL && ++i > 0;
        else
            good = false;
        if (!good)
            return usage(argv[0]);
    }
    if (prepare(NULL) != 0)
        return 2;
    int rc = run_by_hand(&r, bug, from, seeds);
    clean(NULL);
    return rc;
}

int seeds_main(const struct seeds *s, int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_holds),
        cmocka_unit_test(test_bugs_are_found),
    };
    const struct CMUnitTest without_bugs[] = {cmocka_unit_test(test_all_holds)};
    all = s;
    keeps = argc > 1 && strcmp(argv[1], "--state") == 0;
    rounds = argc > 1 && strcmp(argv[1], "--rounds") == 0;
    argc -= keeps || rounds;
    argv += keeps || rounds;
    if (argc > 1)
        return by_hand(argc, argv);
    return rounds ? cmocka_run_group_tests(without_bugs, prepare, clean)
                  : cmocka_run_group_tests(tests, prepare, clean);
}
