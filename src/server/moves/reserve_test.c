// Tests how much room the index gets for the partitions after one that arrives.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/moves/partition.h"

#include "kit/lone_shard.h"

#include <string.h>

#include "kit/test.h"

// A stripe of the index has 16 of the partitions.
enum { BITS = 8, T = 2, ROWS = 2000 };

static const struct shard_options plain;

// Returns the bytes that a table of a shard takes more after it made room for partition
// p. The shard has n of the partitions before p, which are not in p's stripe.
static uint64_t reserved(uint32_t p, uint32_t n, uint64_t rows)
{
    struct lone *w = lone_open_shard(BITS, &plain);
    for (uint32_t i = 0; i < 1u << BITS; i++)
        w->mine[i] = i < n;
    lone_begin(w, WORKERS);
    struct table_spec spec = lone_plain_spec(T, WIRE_ASYNC, 2);
    lone_make_table(w, &spec);
    w->move = (struct wire_move){
        .move = 77, .space = WIRE_SPACE_SPARSE, .partition = p, .to = ME};
    lone_send_roster(w);
    const struct shard_table *t = w->shard->tables[T];
    uint64_t before = store_bytes(t->store);
    partition_reserve(w->shard, t, p, rows);
    uint64_t made = store_bytes(t->store) - before;
    w->live = SIZE_MAX;
    lone_close(w);
    return made;
}

static bool about(uint64_t a, double b)
{
    return (double)a > 0.9 * b && (double)a < 1.1 * b;
}

static void test_room(void **state)
{
    (void)state;
    // The shard has all partitions before this one, so it expects all of the stripe.
    double all = (double)reserved(32, 32, ROWS);
    assert_true(all > 16 * ROWS * 5);
    assert_true(about(reserved(32, 32, 2 * ROWS), 2 * all));
    // It has about three quarters of them.
    assert_true(about(reserved(64, 48, ROWS), 13 * all / 16));
    // It has few of them, but may get the partitions of one of the two servers.
    assert_true(about(reserved(64, 1, ROWS), all / 2));
    assert_int_equal(reserved(64, 48, 100), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_room)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
