// Plans of placements, over random histories of joins and drains: shares stay about
// equal, few partitions move, and none without a reason.
//
// SPDX-License-Identifier: Apache-2.0
#include "cluster/placement.h"

#include <string.h>

#include "base/random.h"
#include "cluster/ring.h"
#include "kit/test.h"

enum { MAX_LOOPS = 40, MAX_PARTITIONS = 1 << 12, HISTORIES = 60, STEPS = 30 };

static struct placement_loop loops[MAX_LOOPS];
static size_t n_loops;
static uint32_t partitions, owners[MAX_PARTITIONS], wanted[MAX_PARTITIONS];
static uint32_t next_id;

static void begin(size_t n, uint32_t bits)
{
    uint32_t ids[MAX_LOOPS];
    next_id = 8;
    n_loops = 0;
    for (size_t i = 0; i < n; i++, next_id += 2) {
        ids[i] = next_id;
        loops[n_loops++] = (struct placement_loop){.id = next_id};
    }
    partitions = (uint32_t)1 << bits;
    assert_int_equal(ring_place(ids, n, partitions, owners), 0);
    memcpy(wanted, owners, sizeof(wanted));
}

static void plan(bool even)
{
    assert_int_equal(placement_plan(loops, n_loops, even, partitions, owners, wanted), 0);
}

static uint32_t load_of(const uint32_t *list, uint32_t id)
{
    uint32_t n = 0;
    for (uint32_t p = 0; p < partitions; p++)
        n += list[p] == id;
    return n;
}

static uint32_t moves(void)
{
    uint32_t n = 0;
    for (uint32_t p = 0; p < partitions; p++)
        n += owners[p] != wanted[p];
    return n;
}

// Checks that each partition has an owner that stays, and that no loop has more than 1.1
// times its share and two partitions more.
static void check_bound(void)
{
    uint32_t sum = 0, most = (uint32_t)(1.1 * partitions / (double)n_loops) + 2;
    for (size_t i = 0; i < n_loops; i++) {
        uint32_t load = load_of(wanted, loops[i].id);
        assert_in_range(load, 0, most);
        sum += load;
    }
    assert_int_equal(sum, partitions);
}

static void join(void)
{
    loops[n_loops++] = (struct placement_loop){.id = next_id};
    next_id += 2;
}

static uint32_t drain(size_t at)
{
    uint32_t id = loops[at].id;
    memmove(loops + at, loops + at + 1, (--n_loops - at) * sizeof(*loops));
    return id;
}

// All moves of a join go to the new loop, which gets its share.
static void test_join(void **state)
{
    (void)state;
    for (size_t n = 1; n < 32; n++)
        for (uint32_t bits = 8; bits <= 12; bits += 2) {
            begin(n, bits);
            join();
            plan(false);
            check_bound();
            uint32_t new_id = loops[n].id, share = partitions / (uint32_t)(n + 1);
            assert_int_equal(load_of(wanted, new_id), share);
            assert_int_equal(moves(), share);
            for (uint32_t p = 0; p < partitions; p++)
                assert_true(wanted[p] == owners[p] || wanted[p] == new_id);
        }
}

// A loop that leaves gives all its partitions away, and the other loops keep theirs.
static void test_drain(void **state)
{
    (void)state;
    for (size_t n = 2; n < 32; n++)
        for (size_t at = 0; at < n; at++) {
            begin(n, 8);
            uint32_t gone = drain(at);
            plan(false);
            check_bound();
            for (uint32_t p = 0; p < partitions; p++)
                assert_int_equal(wanted[p] != owners[p], owners[p] == gone);
        }
}

// If a loop leaves before a partition has moved to it, the new plan is as if the
// loop had never joined.
static void test_join_and_leave(void **state)
{
    (void)state;
    for (size_t n = 1; n < 16; n++) {
        begin(n, 8);
        join();
        plan(false);
        drain(n);
        plan(false);
        assert_int_equal(moves(), 0);
    }
}

// No partition moves if nothing has changed, or if a finished plan is made again.
static void test_nothing_to_do(void **state)
{
    (void)state;
    begin(5, 8);
    plan(false);
    assert_int_equal(moves(), 0);
    join();
    plan(false);
    memcpy(owners, wanted, sizeof(owners));
    plan(false);
    assert_int_equal(moves(), 0);
}

static void test_even(void **state)
{
    (void)state;
    for (size_t n = 1; n < 32; n++) {
        begin(n, 8);
        plan(true);
        for (size_t i = 0; i < n; i++)
            assert_in_range(load_of(wanted, loops[i].id), 256 / n, (256 + n - 1) / n);
        assert_in_range(moves(), 0, 256 / 20 + n);
    }
}

// A full loop keeps its partitions and gets no more; if all loops are full, no partition
// moves.
static void test_full(void **state)
{
    (void)state;
    begin(4, 8);
    uint32_t gone = drain(1), full = loops[0].id;
    loops[0].full = true;
    plan(false);
    for (uint32_t p = 0; p < partitions; p++) {
        assert_int_not_equal(wanted[p], gone);
        assert_true(wanted[p] != full || owners[p] == full);
    }
    for (size_t i = 0; i < n_loops; i++)
        loops[i].full = true;
    plan(false);
    assert_int_equal(moves(), 0);
}

// Makes about a quarter of the planned moves, chosen at random.
static void some_moves(uint64_t seed, uint64_t step)
{
    for (uint32_t p = 0; p < partitions; p++)
        if (random_u64(seed, step, p) % 4 == 0)
            owners[p] = wanted[p];
}

// Loops join and leave in random order, while moves of earlier plans are not done yet. A
// loop may leave while partitions still move to it.
static void test_histories(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < HISTORIES; seed++) {
        begin(1 + seed % 6, 4 + (uint32_t)(seed % 6));
        for (uint64_t step = 0; step < STEPS; step++) {
            uint64_t r = random_u64(seed, 1000 + step, 0);
            if (r % 3 == 0 && n_loops < MAX_LOOPS)
                join();
            else if (r % 3 == 1 && n_loops > 1)
                drain((size_t)(r >> 8) % n_loops);
            plan(r % 7 == 0);
            check_bound();
            some_moves(seed, step);
        }
        memcpy(owners, wanted, sizeof(owners));
        plan(false);
        assert_int_equal(moves(), 0);
    }
}

static void test_no_memory(void **state)
{
    (void)state;
    begin(3, 6);
    FAIL_EACH_ALLOCATION(
        placement_plan(loops, n_loops, true, partitions, owners, wanted), );
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_join),           cmocka_unit_test(test_drain),
        cmocka_unit_test(test_nothing_to_do),  cmocka_unit_test(test_even),
        cmocka_unit_test(test_join_and_leave), cmocka_unit_test(test_full),
        cmocka_unit_test(test_histories),      cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
