// The facts of a worker, as another thread prints them.
//
// SPDX-License-Identifier: Apache-2.0
#include "train_cluster/work_facts.h"

#include <math.h>
#include <pthread.h>

#include <jansson.h>

#include "kit/test.h"
#include "os/clock.h"

static json_t *printed(struct work_facts *f, int64_t asked)
{
    struct buf b = BUF_INIT(1 << 20);
    struct json_out o = JSON_OUT(&b);
    json_out_open(&o, NULL, '{');
    work_facts_put(f, asked, &o);
    json_out_close(&o, '}');
    assert_int_equal(o.rc, 0);
    json_t *all = json_loadb(b.data, b.len, 0, NULL);
    assert_non_null(all);
    buf_free(&b);
    return all;
}

static void is(const json_t *o, const char *name, double want)
{
    const json_t *v = json_object_get(o, name);
    assert_true(json_is_number(v));
    assert_true(fabs(json_number_value(v) - want) < 1e-6);
}

static void nobody_asks(void **state)
{
    (void)state;
    struct work_now now = {0};
    assert_null(work_facts_lane(NULL, 0));
    work_joined(NULL, 1);
    work_read(NULL, 1);
    work_begin(NULL, &now, 1, 0, 0);
    work_batch(NULL, &now, 1);
    work_end(NULL, &now);
    work_facts_close(NULL);
}

static void has_joined_when_all_lanes_have(void **state)
{
    (void)state;
    struct work_facts *f = NULL;
    assert_int_equal(work_facts_open(&f, 2, NULL), 0);
    assert_null(work_facts_lane(f, 2));
    json_t *o = printed(f, -1);
    assert_true(json_is_false(json_object_get(o, "joined")));
    assert_null(json_object_get(o, "rank"));
    assert_true(json_is_null(json_object_get(o, "seconds_since_progress")));
    json_decref(o);
    o = printed(f, 7);
    is(o, "rank", 7);
    json_decref(o);
    work_joined(work_facts_lane(f, 0), 3);
    o = printed(f, 7);
    assert_true(json_is_false(json_object_get(o, "joined")));
    is(o, "rank", 3);
    json_decref(o);
    work_joined(work_facts_lane(f, 1), 3);
    o = printed(f, 7);
    assert_true(json_is_true(json_object_get(o, "joined")));
    json_decref(o);
    work_facts_close(f);
}

// Two lanes work. Their times are sums, and time without waiting counts as computing.
static void tells_what_lanes_did(void **state)
{
    (void)state;
    struct work_facts *f = NULL;
    assert_int_equal(work_facts_open(&f, 2, NULL), 0);
    struct work_lane *a = work_facts_lane(f, 0), *b = work_facts_lane(f, 1);
    uint64_t t = clock_ns();
    struct work_now now = {.time_ns = t, .waited_ns = 500, .pulled_ns = 100};
    work_read(a, 2);
    work_read(b, 1);
    work_begin(a, &now, 2, 1, 5);
    now.time_ns += 1000000000;
    now.waited_ns += 600000000;
    now.pulled_ns += 400000000;
    work_batch(a, &now, 100);
    now.sent_bytes = 7;
    now.resent = 2;
    now.waited_ns += 100000000;
    now.time_ns += 100000000;
    work_end(a, &now);
    now = (struct work_now){.time_ns = t, .refused = 1};
    work_begin(b, &now, 3, UINT32_MAX, 0);
    now.time_ns += 500000000;
    work_batch(b, &now, 50);
    json_t *o = printed(f, -1), *pieces = json_object_get(o, "pieces");
    is(o, "pass", 3);
    is(o, "batches", 2);
    is(o, "examples", 150);
    is(o, "pieces_done", 1);
    is(o, "pieces_held", 1);
    is(o, "read_seconds", 3);
    is(o, "pull_seconds", .4);
    is(o, "push_seconds", .3);
    is(o, "compute_seconds", .9);
    is(o, "resent", 2);
    is(o, "refused", 1);
    is(o, "sent_bytes", 7);
    assert_int_equal(json_array_size(pieces), 1);
    is(json_array_get(pieces, 0), "lane", 1);
    assert_null(json_object_get(json_array_get(pieces, 0), "file"));
    json_decref(o);
    work_begin(a, &now, 3, 4, 9);
    o = printed(f, -1);
    pieces = json_object_get(o, "pieces");
    assert_int_equal(json_array_size(pieces), 2);
    is(json_array_get(pieces, 0), "file", 4);
    is(json_array_get(pieces, 0), "index", 9);
    json_decref(o);
    work_facts_close(f);
}

// Clocks that go backwards, as those of a broken machine may, make no huge numbers.
static void bears_bad_clocks(void **state)
{
    (void)state;
    struct work_facts *f = NULL;
    assert_int_equal(work_facts_open(&f, 1, NULL), 0);
    struct work_lane *l = work_facts_lane(f, 0);
    uint64_t t = clock_ns();
    work_begin(l, &(struct work_now){.time_ns = t}, 1, 0, 0);
    work_batch(l, &(struct work_now){.time_ns = t + 5, .waited_ns = 3, .pulled_ns = 9},
               1);
    json_t *o = printed(f, -1);
    is(o, "compute_seconds", 0);
    is(o, "push_seconds", 0);
    json_decref(o);
    work_facts_close(f);
}

static void *work(void *lane)
{
    struct work_now now = {.time_ns = clock_ns()};
    work_joined(lane, 1);
    work_begin(lane, &now, 1, 0, 0);
    for (int i = 0; i < 20000; i++) {
        now.time_ns += 100000;
        work_batch(lane, &now, 1);
    }
    work_end(lane, &now);
    return NULL;
}

// A lane works while another thread reads; meant for a build with a thread sanitizer.
static void is_read_while_it_works(void **state)
{
    (void)state;
    struct work_facts *f = NULL;
    pthread_t thread;
    assert_int_equal(work_facts_open(&f, 1, NULL), 0);
    assert_int_equal(pthread_create(&thread, NULL, work, work_facts_lane(f, 0)), 0);
    for (int i = 0; i < 50; i++)
        json_decref(printed(f, -1));
    pthread_join(thread, NULL);
    json_t *o = printed(f, -1);
    is(o, "examples", 20000);
    is(o, "pieces_held", 0);
    json_decref(o);
    work_facts_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_asks),
        cmocka_unit_test(has_joined_when_all_lanes_have),
        cmocka_unit_test(tells_what_lanes_did),
        cmocka_unit_test(bears_bad_clocks),
        cmocka_unit_test(is_read_while_it_works),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
