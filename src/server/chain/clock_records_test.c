// Ticks and steps reach loops that are only backups, and are answered when these have them.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/replicas.h"
#include "server/chain/records.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"

// Sends a tick to server 0, which leads all partitions.
static void send_tick(struct replicas *w, uint64_t clock)
{
    struct msg_tick m = {.table = REPLICAS_TABLE,
                         .epoch = w->epoch,
                         .session = REPLICAS_SESSION,
                         .clock = clock};
    van_send(w->worker, w->servers[0].s.link, MSG_TICK, REPLICAS_OTHER, &m, NULL);
}

static void send_step(struct replicas *w, uint64_t steps, uint64_t least)
{
    struct msg_step m = {
        .epoch = w->epoch, .session = REPLICAS_SESSION, .steps = steps, .least = least};
    van_send(w->worker, w->servers[0].s.link, MSG_STEP, REPLICAS_OTHER, &m, NULL);
}

// Returns the clock of the worker on a server; 0 if it has sent no tick.
static uint64_t clock_on(const struct replicas *w, uint32_t server)
{
    const struct shard_table *t = w->servers[server].shard->tables[REPLICAS_TABLE];
    const struct ssp_worker *x = t->ssp.workers.first;
    for (size_t i = 0; i < t->ssp.workers.n; i++)
        if (x[i].session == REPLICAS_SESSION && x[i].ticked)
            return x[i].clock;
    return 0;
}

static uint64_t steps_on(const struct replicas *w, uint32_t server)
{
    return step_clock_sum(&w->servers[server].shard->steps);
}

static void test_ticks(void **state)
{
    (void)state;
    for (uint32_t replicas = 2; replicas <= 3; replicas++) {
        struct replicas *w = replicas_open_with_mode(replicas, replicas, CONFIG_SSP);
        send_tick(w, 1);
        REPLICAS_UNTIL(w, w->tables == 1);
        for (uint32_t i = 0; i < replicas; i++)
            assert_int_equal(clock_on(w, i), 1);
        // While the last member cannot be reached, a tick is not answered.
        sim_partition(w->sim, w->servers[replicas - 2].v, w->servers[replicas - 1].v,
                      true);
        send_tick(w, 2);
        replicas_run(w, SECOND_NS);
        assert_true(clock_on(w, 0) == 2 && clock_on(w, replicas - 1) == 1);
        assert_int_equal(w->tables, 1);
        sim_partition(w->sim, w->servers[replicas - 2].v, w->servers[replicas - 1].v,
                      false);
        REPLICAS_UNTIL(w, w->tables == 2);
        assert_int_equal(clock_on(w, replicas - 1), 2);
        replicas_close(w);
    }
}

static void test_steps(void **state)
{
    (void)state;
    struct replicas *w = replicas_open_with_mode(2, 2, CONFIG_SSP);
    send_step(w, 5, 0);
    REPLICAS_UNTIL(w, w->tables == 1);
    assert_true(steps_on(w, 0) == 5 && steps_on(w, 1) == 5);
    sim_partition(w->sim, w->servers[0].v, w->servers[1].v, true);
    send_step(w, 7, 20);
    replicas_run(w, SECOND_NS);
    assert_true(steps_on(w, 0) == 20 && steps_on(w, 1) == 5);
    assert_int_equal(w->tables, 1);
    sim_partition(w->sim, w->servers[0].v, w->servers[1].v, false);
    REPLICAS_UNTIL(w, w->tables == 2);
    assert_int_equal(steps_on(w, 1), 20);
    send_step(w, 9, 0);
    REPLICAS_UNTIL(w, w->tables == 3);
    assert_true(steps_on(w, 0) == 22 && steps_on(w, 1) == 22);
    const struct shard_table *t = w->servers[1].shard->tables[REPLICAS_TABLE];
    assert_int_equal(store_step_of(t->store), 22);
    replicas_close(w);
}

// The ticks and steps that a member has, but not the member after it, are sent on when the
// first one has died.
static void test_promotion(void **state)
{
    (void)state;
    struct replicas *w = replicas_open_with_mode(3, 3, CONFIG_SSP);
    sim_partition(w->sim, w->servers[1].v, w->servers[2].v, true);
    send_tick(w, 4);
    send_step(w, 6, 0);
    replicas_run(w, SECOND_NS);
    assert_true(clock_on(w, 1) == 4 && clock_on(w, 2) == 0 && w->tables == 0);
    replicas_crash(w, 0);
    replicas_take_out(w, 0);
    sim_partition(w->sim, w->servers[1].v, w->servers[2].v, false);
    REPLICAS_UNTIL(w, clock_on(w, 2) == 4 && steps_on(w, 2) == 6);
    replicas_close(w);
}

static void test_damaged_records(void **state)
{
    (void)state;
    struct replicas *w = replicas_open_with_mode(2, 2, CONFIG_SSP);
    struct shard *s = w->servers[1].shard;
    uint64_t x[4] = {REPLICAS_TABLE, REPLICAS_SESSION, 1, 1};
    struct channel_record r = {.kind = RECORD_TICK,
                               .space = WIRE_SPACE_SPARSE,
                               .bits = REPLICAS_BITS,
                               .common = (const void *)x,
                               .n_common = sizeof(x)};
    struct err e;
    uint32_t n;
    OK(records_apply(s, &r, &n, &e));
    r.n_common = 24;
    assert_int_equal(records_apply(s, &r, &n, &e), TUG_EDATA);
    r.n_common = 32;
    x[0] = REPLICAS_TABLE + 1; // there is no such table
    assert_int_equal(records_apply(s, &r, &n, &e), TUG_EDATA);
    x[0] = REPLICAS_TABLE;
    x[1] = 0; // no session
    assert_int_equal(records_apply(s, &r, &n, &e), TUG_EDATA);
    r.kind = RECORD_STEP;
    r.n_common = 24;
    uint64_t steps[3] = {REPLICAS_SESSION, 3, 3};
    r.common = (const void *)steps;
    OK(records_apply(s, &r, &n, &e));
    steps[2] = UINT64_MAX;
    assert_int_equal(records_apply(s, &r, &n, &e), TUG_EDATA);
    replicas_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ticks),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_promotion),
        cmocka_unit_test(test_damaged_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
