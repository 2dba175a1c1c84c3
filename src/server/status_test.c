// The status of a shard: its figures are what the shard has done. The text of many tables
// is written in parts, and is the same.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/lone_shard.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kit/test.h"
#include "os/json.h"

enum { BITS = 4, WIDTH = 3, T = 5, MANY = 100, KEYS = 64 };

static const struct shard_options plain;

static json_t *read_status(struct lone *w)
{
    struct parcel *p = lone_expect(w, MSG_STATUS_IS);
    json_t *all = json_loadb(p->m.status_is.json.data, p->m.status_is.json.n, 0, NULL);
    assert_non_null(all);
    parcel_unpin(p);
    return all;
}

static json_t *ask(struct lone *w)
{
    lone_deliver(w, WORKER_LINK, MSG_STATUS, 3, &(struct msg_status){});
    while (w->shard->status.on)
        lone_pass_time(w, 0);
    return read_status(w);
}

// Returns the number at a path like "requests.push.count"; a number in the path is the
// index of an array's element.
static double at(const json_t *o, const char *path)
{
    char copy[128], *rest = NULL;
    snprintf(copy, sizeof(copy), "%s", path);
    for (char *name = strtok_r(copy, ".", &rest); name != NULL;
         name = strtok_r(NULL, ".", &rest))
        o = json_is_array(o) ? json_array_get(o, strtoul(name, NULL, 10))
                             : json_object_get(o, name);
    if (!json_is_number(o))
        fail_msg("%s is not a number", path);
    return json_number_value(o);
}

static void check_at(const json_t *o, const char *path, double expect)
{
    if (fabs(at(o, path) - expect) > 1e-9)
        fail_msg("%s is %g instead of %g", path, at(o, path), expect);
}

static void make_table(struct lone *w, uint32_t id, enum wire_mode mode)
{
    struct table_spec s = lone_plain_spec(id, mode, WIDTH);
    s.config.staleness = mode == WIRE_SSP ? 1 : 0;
    lone_make_table(w, &s);
}

static void push_of(struct lone *w, uint32_t n, uint64_t examples)
{
    uint64_t keys[KEYS];
    float values[KEYS * WIDTH] = {1};
    n = lone_draw_keys(w, WIRE_SPACE_SPARSE, n, 977, keys);
    struct msg_push m = lone_push_of(w, 0, T, keys, n, values, WIDTH);
    m.examples = examples;
    lone_send_push(w, 0, &m);
    (void)lone_expect_ok(w);
    struct msg_pull pull = lone_pull_of(w, 0, T, keys, n);
    lone_send_pull(w, 0, &pull);
    parcel_unpin(lone_expect(w, MSG_PULLED));
}

static void push(struct lone *w, uint32_t n)
{
    push_of(w, n, 10);
}

static void test_counts(void **state)
{
    (void)state;
    struct lone *w = lone_open(BITS, &plain);
    make_table(w, T, WIRE_ASYNC);
    json_t *before = ask(w);
    push(w, KEYS);
    push(w, KEYS);
    json_t *all = ask(w);
    struct msg_table_is m = lone_figures(w, T);
    assert_string_equal(json_string_value(json_object_get(all, "role")), "server");
    assert_string_equal(json_string_value(json_object_get(all, "version")),
                        tug_version());
    assert_string_equal(json_string_value(json_object_get(
                            json_array_get(json_object_get(all, "tables"), 0), "name")),
                        "t5");
    check_at(all, "node", ME);
    check_at(all, "tables.0.id", T);
    check_at(all, "tables.0.rows", (double)m.rows);
    check_at(all, "tables.0.made", (double)m.rows);
    check_at(all, "tables.0.bytes", (double)m.bytes);
    check_at(all, "tables.0.pushes", 2);
    check_at(all, "tables.0.pulls", 2);
    check_at(all, "tables.0.examples", 20);
    check_at(all, "tables.0.removed.age", 0);
    check_at(all, "requests.push.count", at(before, "requests.push.count") + 2);
    check_at(all, "requests.pull.count", at(before, "requests.pull.count") + 2);
    check_at(all, "requests.other.count", at(before, "requests.other.count") + 1);
    check_at(all, "saves.made", 0);
    assert_true(json_is_null(json_object_get(json_object_get(all, "saves"), "last")));
    json_decref(before);
    json_decref(all);
    lone_close(w);
}

// The time of a request that has waited counts from its arrival. The status of a table
// names the worker that is behind.
static void test_waiting(void **state)
{
    (void)state;
    struct lone *w = lone_open(BITS, &plain);
    make_table(w, T, WIRE_SSP);
    for (uint32_t i = 0; i < WORKERS; i++) {
        struct msg_tick tick = {
            .epoch = w->epoch, .session = lone_session(i), .table = T, .clock = 3 + i};
        lone_deliver(w, WORKER_LINK + i, MSG_TICK, 50, &tick);
        (void)lone_expect_ok(w);
    }
    uint64_t key[4];
    uint32_t n = lone_draw_keys(w, WIRE_SPACE_SPARSE, 4, 977, key);
    struct msg_pull pull = lone_pull_of(w, 2, T, key, n);
    pull.clock = 5;
    lone_send_pull(w, 2, &pull);
    lone_pass_time(w, 3 * SECOND_NS);
    json_t *all = ask(w);
    check_at(all, "waiting", 1);
    check_at(all, "tables.0.held", 1);
    check_at(all, "tables.0.clock", 3);
    check_at(all, "tables.0.staleness", 1);
    for (uint32_t i = 0; i < WORKERS; i++) {
        char name[64];
        snprintf(name, sizeof(name), "tables.0.workers.%u.clock", i);
        check_at(all, name, 3 + i);
        snprintf(name, sizeof(name), "tables.0.workers.%u.behind", i);
        check_at(all, name, WORKERS - 1 - i);
    }
    check_at(all, "requests.pull.count", 0);
    json_decref(all);
    struct msg_tick tick = {
        .epoch = w->epoch, .session = lone_session(0), .table = T, .clock = 4};
    lone_deliver(w, WORKER_LINK, MSG_TICK, 51, &tick);
    lone_forget(w);
    all = ask(w);
    check_at(all, "waiting", 0);
    check_at(all, "tables.0.held", 0);
    check_at(all, "requests.pull.count", 1);
    check_at(all, "requests.pull.seconds", 3);
    check_at(all, "requests.pull.buckets.16", 1); // above 2.1 s, up to 4.2 s
    json_decref(all);
    lone_close(w);
}

// The status counts updates that were left out, because their rule's state would have
// become infinite.
static void test_left_out(void **state)
{
    (void)state;
    struct lone *w = lone_open(BITS, &plain);
    struct table_config c = lone_plain_spec(T, WIRE_ASYNC, WIDTH).config;
    struct table_spec s;
    struct err e;
    uint64_t keys[2];
    float values[2 * WIDTH] = {1e25f};
    c.accessor.rule = rule_defaults(RULE_ADAGRAD);
    assert_int_equal(spec_make(&s, T, &c, &e), 0);
    lone_make_table(w, &s);
    uint32_t n = lone_draw_keys(w, WIRE_SPACE_SPARSE, 2, 1, keys);
    for (uint32_t i = 1; i <= 2; i++) {
        struct msg_push m = lone_push_of(w, 0, T, keys, n, values, WIDTH);
        lone_send_push(w, 0, &m);
        assert_int_equal(lone_expect_ok(w), keys[0] + 1);
        json_t *all = ask(w);
        check_at(all, "tables.0.left_out", i);
        json_decref(all);
    }
    lone_close(w);
}

// Requests are served while a long text is written part by part; all requests for the
// status get this text.
static void test_many_tables(void **state)
{
    (void)state;
    struct lone *w = lone_open(BITS, &plain);
    for (uint32_t i = 0; i < MANY; i++)
        make_table(w, T + i, WIRE_ASYNC);
    lone_deliver(w, WORKER_LINK, MSG_STATUS, 3, &(struct msg_status){});
    assert_true(w->shard->status.on);
    push(w, KEYS); // is served at once, while the text is written
    lone_deliver(w, WORKER_LINK + 1, MSG_STATUS, 4, &(struct msg_status){});
    uint32_t parts = 0;
    for (; w->shard->status.on; parts++)
        w->h.tick(w->h.ctx, w->now);
    assert_in_range(parts, 2, MANY);
    for (int i = 0; i < 2; i++) {
        json_t *all = read_status(w), *tables = json_object_get(all, "tables");
        assert_int_equal(json_array_size(tables), MANY);
        for (uint32_t k = 0; k < MANY; k++)
            check_at(json_array_get(tables, k), "id", T + k);
        json_decref(all);
    }
    w->h.tick(w->h.ctx, w->now);
    assert_null(w->shard->status.json.data); // the text was freed after it was sent
    json_t *all = ask(w);
    check_at(all, "tables.0.pushes", 1);
    json_decref(all);
    lone_close(w);
}

// If an allocation fails, the request STATUS is refused or answered nevertheless; the
// next answer is complete.
static void test_without_memory(void **state)
{
    (void)state;
    struct lone *w = lone_open(BITS, &plain);
    for (uint32_t i = 0; i < 20; i++)
        make_table(w, T + i, WIRE_ASYNC);
    bool failed = true;
    for (long n = 0; failed; n++) {
        w->fault_after = n;
        w->faulted = false;
        lone_deliver(w, WORKER_LINK, MSG_STATUS, 3, &(struct msg_status){});
        for (int i = 0; i < 5; i++)
            lone_pass_time(w, 0);
        failed = w->faulted;
        w->fault_after = -1;
        lone_forget(w);
        json_t *all = ask(w);
        assert_int_equal(json_array_size(json_object_get(all, "tables")), 20);
        json_decref(all);
    }
    lone_close(w);
}

// Impossible numbers from one worker do not make the text of the status unreadable.
static void test_numbers_that_no_reader_takes(void **state)
{
    (void)state;
    struct lone *w = lone_open(BITS, &plain);
    make_table(w, T, WIRE_SSP);
    struct msg_tick tick = {.table = T,
                            .clock = UINT64_MAX - 1,
                            .epoch = w->epoch,
                            .session = lone_session(0)};
    lone_deliver(w, WORKER_LINK, MSG_TICK, ++w->next_request, &tick);
    (void)lone_expect_ok(w);
    push_of(w, KEYS, UINT64_MAX - 7);
    json_t *all = ask(w); // checks that jansson can read the text
    check_at(all, "tables.0.examples", (double)INT64_MAX);
    json_decref(all);
    lone_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_numbers_that_no_reader_takes),
        cmocka_unit_test(test_waiting),
        cmocka_unit_test(test_left_out),
        cmocka_unit_test(test_many_tables),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
