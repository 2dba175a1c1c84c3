// Collective calls: the results that the scheduler makes from the workers' bytes, and its
// answers when workers are in different calls, die, ask again, or give too much.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "cluster/member_internal.h"
#include "cluster/scheduler/scheduler_internal.h"
#include "kit/guest.h"
#include "kit/test.h"

enum { WORKERS = 3 }; // actor 0 is a server, and the workers are actors 1 to 3

static void open_world(void)
{
    guest_open_world(1, WORKERS);
    guest_add_all(1, WORKERS, false);
}

static void run(void)
{
    world_run(&w, 20 * MILLIS);
}

static void begin(uint32_t actor, struct member_collect c)
{
    struct err e;
    if (member_collect(w.actors[actor].m, &c, &e) != 0)
        fail_msg("%s", e.text);
    run();
}

// Sends these bytes as the worker with this index in a gather.
static void give(uint32_t actor, const char *call, uint32_t index, const char *bytes)
{
    begin(actor, (struct member_collect){.call = call,
                                         .index = index,
                                         .workers = WORKERS,
                                         .bytes = bytes,
                                         .n = strlen(bytes)});
}

static bool done(uint32_t actor, const char **missing)
{
    return member_barrier_done(w.actors[actor].m, WIRE_GROUP_WORKERS, missing);
}

static void expect_parts(uint32_t actor, const char *want)
{
    struct wire_text result;
    struct wire_part p;
    struct err e;
    char text[64] = "";
    assert_true(done(actor, NULL));
    if (member_collected(w.actors[actor].m, &result, &e) != 0)
        fail_msg("%s", e.text);
    while (wire_next_part(&result, &p) == 1) {
        size_t at = strlen(text);
        snprintf(text + at, sizeof(text) - at, "%u=%.*s ", p.index, (int)p.bytes.n,
                 p.bytes.data);
    }
    assert_string_equal(text, want);
}

static void expect_failed(uint32_t actor, int code, const char *words)
{
    struct wire_text result;
    struct err e;
    assert_true(done(actor, NULL));
    assert_int_equal(member_collected(w.actors[actor].m, &result, &e), code);
    if (strstr(e.text, words) == NULL)
        fail_msg("%s: lacks '%s'", e.text, words);
    assert_int_equal(result.n, 0);
}

static void test_gather(void **state)
{
    (void)state;
    const char *missing;
    open_world();
    for (int round = 0; round < 2; round++) {
        give(3, "gather", 0, "first");
        give(1, "gather", 2, "");
        world_run(&w, 20 * SECONDS);
        assert_false(done(3, &missing));
        assert_string_equal(missing, "worker 1 (host:12)");
        give(2, "gather", 1, "x");
        for (uint32_t i = 1; i <= 3; i++)
            expect_parts(i, "0=first 1=x 2= ");
        for (uint32_t i = 1; i <= 3; i++) { // ordinary barriers between the calls
            member_barrier(w.actors[i].m, WIRE_GROUP_WORKERS);
            run();
        }
        assert_true(done(1, NULL) && done(2, NULL) && done(3, NULL));
    }
    world_close(&w);
}

// All workers in the calls get an error that names both calls. A worker that came to the
// barrier without a call continues.
static void test_different_calls(void **state)
{
    (void)state;
    open_world();
    give(1, "gather of 1 bytes", 0, "a");
    give(2, "gather of 1 bytes", 1, "b");
    give(3, "gather of 2 bytes", 2, "cc");
    for (uint32_t i = 1; i <= 3; i++)
        expect_failed(i, TUG_EUSAGE,
                      "worker 0 in gather of 1 bytes, worker 2 in gather of 2 bytes");
    give(1, "gather", 0, "a");
    give(2, "gather", 1, "b");
    member_barrier(w.actors[3].m, WIRE_GROUP_WORKERS);
    run();
    assert_true(done(3, NULL));
    expect_failed(1, TUG_EUSAGE, "worker 0 in gather, worker 2 at a barrier");
    give(1, "gather", 0, "a"); // a call after one that failed is a new call
    give(2, "gather", 0, "b");
    give(3, "gather", 2, "c");
    expect_failed(3, TUG_EUSAGE, "two processes are worker 0");
    world_close(&w);
}

// If a worker's error ends the run, a call that waits for this worker fails with the
// error.
static void test_error_of_another(void **state)
{
    (void)state;
    open_world();
    give(1, "gather", 0, "a");
    run();
    member_leave(w.actors[3].m,
                 &(struct err){.code = TUG_EUSAGE, .text = "its numbers differ"});
    run();
    give(2, "gather", 1, "b");
    expect_failed(1, TUG_EUSAGE, "its numbers differ");
    expect_failed(2, TUG_EUSAGE, "its numbers differ");
    world_close(&w);
}

static void test_deaths(void **state)
{
    (void)state;
    open_world();
    give(1, "gather", 0, "a");
    give(3, "gather", 2, "c"); // this worker dies after it has given its bytes
    world_crash(&w.actors[3]);
    world_run(&w, 6 * SECONDS);
    give(2, "gather", 1, "b");
    expect_failed(1, TUG_EIO, "worker 2 took no part in gather");
    expect_failed(2, TUG_EIO, "worker 2 took no part in gather");
    for (uint32_t i = 1; i <= 2; i++)
        begin(i, (struct member_collect){
                     .call = "of those alive", .index = 8 - i, .bytes = "z", .n = 1});
    expect_parts(1, "6=z 7=z ");
    begin(1, (struct member_collect){.call = "alone"});
    member_leave(w.actors[2].m, NULL);
    run();
    expect_parts(1, "0= ");
    world_close(&w);
}

// All answers are lost, and each worker asks again after its own interval.
static void test_lost_answer(void **state)
{
    (void)state;
    open_world();
    give(1, "gather", 0, "a");
    give(2, "gather", 1, "b");
    give(3, "gather", 2, "c");
    for (uint32_t i = 1; i <= 3; i++)
        expect_parts(i, "0=a 1=b 2=c ");
    give(1, "next", 0, "d");
    give(2, "next", 1, "e");
    member_collect(w.actors[3].m,
                   &(struct member_collect){.call = "next", .index = 2, .workers = 3},
                   NULL);
    world_run(&w, MILLIS / 2); // the message is in flight
    sim_set_faults(w.sim, 1, 0, 0, 0);
    world_run(&w, SECONDS / 10);
    for (uint32_t i = 1; i <= 3; i++)
        assert_false(done(i, NULL));
    assert_int_equal(w.s->groups[WIRE_GROUP_WORKERS].completed, 2);
    sim_set_faults(w.sim, 0, 0, 0, 0);
    world_run(&w, 20 * SECONDS);
    for (uint32_t i = 1; i <= 3; i++)
        expect_parts(i, "0=d 1=e 2= ");
    world_close(&w);
}

// A copy of a request that arrives after a later call harms neither its sender nor a call.
static void test_late_copy(void **state)
{
    (void)state;
    struct msg_collect late = {.number = 1, .call = wire_text("gather"), .workers = 3};
    struct err e;
    open_world();
    for (int call = 0; call < 2; call++) {
        give(1, "gather", 0, "a");
        give(2, "gather", 1, "b");
        give(3, "gather", 2, "c");
    }
    member_send(w.actors[1].m, MSG_COLLECT, REQUEST_BARRIER, &late);
    run();
    if (member_ended(w.actors[1].m, &e))
        fail_msg("%s", e.text);
    expect_parts(1, "0=a 1=b 2=c ");
    give(2, "next", 1, "e");
    give(1, "next", 0, "d");
    late.number = 2; // the number of an earlier barrier
    member_send(w.actors[1].m, MSG_COLLECT, REQUEST_BARRIER, &late);
    give(3, "next", 2, "f");
    for (uint32_t i = 1; i <= 3; i++)
        expect_parts(i, "0=d 1=e 2=f ");
    world_close(&w);
}

// ---------------------------------------------------------------- reductions

static void reduce(enum wire_collect op, enum wire_number type, const void *values[],
                   size_t n)
{
    for (uint32_t i = 1; i <= WORKERS; i++)
        begin(i, (struct member_collect){.call = "reduce",
                                         .op = op,
                                         .type = type,
                                         .first = 100,
                                         .index = i - 1,
                                         .workers = WORKERS,
                                         .bytes = values[i - 1],
                                         .n = n * 8});
}

static void expect_values(const void *want, size_t n)
{
    struct wire_text result;
    struct err e;
    for (uint32_t i = 1; i <= WORKERS; i++) {
        assert_int_equal(member_collected(w.actors[i].m, &result, &e), 0);
        assert_int_equal(result.n, n * 8);
        assert_memory_equal(result.data, want, n * 8);
    }
}

static void test_reduce(void **state)
{
    (void)state;
    const double a[] = {0.1, 1, -2}, b[] = {0.7, NAN, 5}, c[] = {0.3, 3, 4};
    const void *doubles[] = {a, b, c}, *reals[] = {&a[0], &b[0], &c[0]};
    double sum = 0.1 + 0.7 + 0.3;
    const int64_t x[] = {-7, INT64_MAX}, y[] = {3, 1}, z[] = {-9, -5};
    const void *whole[] = {x, y, z};
    const uint64_t big = UINT64_MAX - 2, one = 1;
    const void *naturals[] = {&big, &one, &one}, *beyond[] = {&big, &big, &one};
    open_world();
    reduce(WIRE_SUM, WIRE_F64, reals, 1);
    expect_values(&sum, 1);
    reduce(WIRE_MAX, WIRE_F64, doubles, 3);
    expect_values((const double[]){0.7, NAN, 5}, 3);
    reduce(WIRE_MIN, WIRE_F64, doubles, 3);
    expect_values((const double[]){0.1, NAN, -2}, 3);
    reduce(WIRE_MIN, WIRE_I64, whole, 2);
    expect_values((const int64_t[]){-9, -5}, 2);
    reduce(WIRE_MAX, WIRE_I64, whole, 2);
    expect_values((const int64_t[]){3, INT64_MAX}, 2);
    reduce(WIRE_SUM, WIRE_I64, whole, 1);
    expect_values((const int64_t[]){-13}, 1);
    reduce(WIRE_SUM, WIRE_I64, whole, 2);
    expect_failed(2, TUG_EUSAGE, "value 101 does not fit in 64 bits");
    reduce(WIRE_SUM, WIRE_U64, naturals, 1);
    expect_values((const uint64_t[]){UINT64_MAX}, 1);
    reduce(WIRE_SUM, WIRE_U64, beyond, 1);
    expect_failed(1, TUG_EUSAGE, "value 100 does not fit in 64 bits");
    reduce(WIRE_SUM, WIRE_F64, reals, 0);
    expect_values("", 0);
    world_close(&w);
}

static void test_too_much(void **state)
{
    (void)state;
    struct err e;
    char *bytes = mem_zalloc(WIRE_COLLECT_MAX + 1);
    struct member_collect c = {.call = "gather", .bytes = bytes, .n = 30000};
    open_world();
    for (c.index = 0; c.index < WORKERS; c.index++)
        begin(1 + c.index, c);
    expect_failed(1, TUG_EUSAGE, "more than 65536 bytes to gather");
    c.n = WIRE_COLLECT_MAX + 1;
    assert_int_equal(member_collect(w.actors[1].m, &c, &e), TUG_EUSAGE);
    c.n = 0;
    c.workers = 2;
    assert_int_equal(member_collect(w.actors[1].m, &c, &e), TUG_EUSAGE);
    c.index = 0;
    begin(1, c);
    assert_int_equal(member_collect(w.actors[1].m, &c, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "is not complete yet"));
    world_close(&w);
    mem_free(bytes);
}

// Sends a message to the scheduler. First acknowledges the newest roster, so that no
// roster arrives before the answer.
static void say(const struct msg_collect *m, uint16_t answer)
{
    guest_say(MSG_ROSTER_WANTED, &(struct msg_roster_wanted){.version = 1000});
    guest_say(MSG_COLLECT, m);
    assert_int_equal(guest.type, answer);
}

// Messages with invalid contents are refused, and the barrier still completes.
static void test_made_up(void **state)
{
    (void)state;
    char bytes[WIRE_COLLECT_MAX + 1] = {0}, name[WIRE_CALL_MAX + 1] = {0};
    const struct msg_collect bad[] = {
        {.number = 1, .op = 4},
        {.number = 1, .op = WIRE_SUM, .type = 3},
        {.number = 1, .op = WIRE_GATHER, .type = 1},
        {.number = 1, .call = {name, sizeof(name)}},
        {.number = 1, .bytes = {bytes, sizeof(bytes)}},
        {.number = 1, .op = WIRE_SUM, .bytes = {bytes, 12}},
        {.number = 1, .index = 7, .workers = 7},
        {.number = 0},
        {.number = 2},
        {.number = UINT64_MAX},
    };
    guest_open_world(1, 1);
    guest_add(WIRE_SERVER);
    guest_open();
    guest_join_as(WIRE_WORKER);
    world_run(&w, SECONDS);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        say(&bad[i], MSG_ERROR);
    struct msg_collect good = {.number = 1, .call = wire_text("a")};
    for (good.number = 1; good.number < 4; good.number++)
        say(&good, MSG_COLLECTED);
    good.number = 3; // a repeated request for the newest barrier
    say(&good, MSG_COLLECTED);
    good.number = 1; // a request for an earlier barrier, whose result was dropped
    say(&good, MSG_COLLECTED);
    guest_close();
}

// A call fails at all workers if the scheduler had no room for a worker's bytes.
static void test_no_room(void **state)
{
    (void)state;
    char bytes[64] = {0};
    struct msg_collect m = {
        .op = WIRE_SUM, .bytes = {bytes, 64}, .call = wire_text("sum")};
    struct given *all[2] = {collect_keep(&m, 63), collect_keep(&m, 64)};
    struct buf result = BUF_INIT(1000);
    struct err e;
    assert_true(all[0]->lost && all[0]->n == 0 && !all[1]->lost && all[1]->n == 64);
    all[1]->index = 1;
    assert_int_equal(collect_make(all, 2, -1, &result, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "more than 1048576 bytes to sum"));
    mem_free(all[0]);
    mem_free(all[1]);
    buf_free(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gather),           cmocka_unit_test(test_different_calls),
        cmocka_unit_test(test_error_of_another), cmocka_unit_test(test_deaths),
        cmocka_unit_test(test_lost_answer),      cmocka_unit_test(test_reduce),
        cmocka_unit_test(test_late_copy),        cmocka_unit_test(test_too_much),
        cmocka_unit_test(test_made_up),          cmocka_unit_test(test_no_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
