// An interruption ends explanations at the next example.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/evaluate/explain.h"

#include "kit/files.h"
#include "kit/test.h"
#include "kit/training.h"

enum { ROWS = 20, FEATURES = 5 };

struct watcher {
    atomic_bool stop;
    // The number of examples after which the test interrupts, and the number of examples that
    // were explained.
    size_t stop_after, explained;
};

static float weight_of(uint64_t key)
{
    return (float)key;
}

static int count(void *ctx, const struct explained *x, struct err *e)
{
    struct watcher *w = ctx;
    (void)x, (void)e;
    if (++w->explained == w->stop_after)
        atomic_store(&w->stop, true);
    return 0;
}

static int run(struct watcher *w)
{
    const char *paths[] = {files_in("data")};
    struct source_options s = {.paths = paths, .n_paths = 1};
    struct reader_options r = {.format = "libffm", .labels = true};
    struct parameters p;
    uint64_t bad = 0;
    struct explain_options o = {
        .data = {.parameters = &p, .bad_lines = &bad, .interrupted = &w->stop},
        .each = count,
        .ctx = w,
    };
    training_linear(&p, FEATURES, weight_of);
    o.data.team = training_team(1);
    int rc = reader_open(&o.data.reader, &r, &test_err);
    if (rc == 0)
        rc = source_open(&o.data.source, &s, &test_err);
    if (rc == 0)
        rc = explain(&o, &test_err);
    source_close(o.data.source);
    reader_close(o.data.reader);
    team_close(o.data.team);
    parameters_close(&p);
    return rc;
}

static void an_interrupt_ends_it(void **state)
{
    (void)state;
    FILE *f = fopen(files_in("data"), "w");
    assert_non_null(f);
    for (int i = 0; i < ROWS; i++)
        fprintf(f, "1 0:%d:1\n", i % FEATURES);
    assert_int_equal(fclose(f), 0);
    struct watcher all = {.stop_after = ROWS + 1}, some = {.stop_after = 7},
                   none = {.stop = true};
    assert_int_equal(run(&all), 0);
    assert_int_equal(all.explained, ROWS);
    assert_int_equal(run(&some), TUG_EINTERRUPTED);
    assert_int_equal(some.explained, 7);
    assert_int_equal(run(&none), TUG_EINTERRUPTED);
    assert_int_equal(none.explained, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_interrupt_ends_it)};
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
