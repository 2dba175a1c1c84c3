// Tests ring placements: loads stay within the bound, few partitions move, and only
// the nodes' ids decide.
//
// SPDX-License-Identifier: Apache-2.0
#include "cluster/ring.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "kit/test.h"

enum { MAX_NODES = 300, MAX_PARTITIONS = 1 << 14 };

static uint32_t nodes[MAX_NODES], owners[MAX_PARTITIONS], after[MAX_PARTITIONS];

static void first_nodes(size_t n)
{
    for (size_t i = 0; i < n; i++)
        nodes[i] = (uint32_t)(8 + 2 * i);
}

static size_t index_of(uint32_t id, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (nodes[i] == id)
            return i;
    fail_msg("%u is no node", id);
    return 0;
}

static void check_balance(size_t n, uint32_t partitions)
{
    uint32_t load[MAX_NODES] = {0}, sum = 0;
    uint32_t most = (uint32_t)((1.05 * partitions) / (double)n + 1 - 1e-9);
    for (uint32_t p = 0; p < partitions; p++)
        load[index_of(owners[p], n)]++;
    for (size_t i = 0; i < n; i++) {
        assert_in_range(load[i], 0, most);
        sum += load[i];
    }
    assert_int_equal(sum, partitions);
}

static void test_balance(void **state)
{
    (void)state;
    static const size_t counts[] = {1, 2, 3, 4, 7, 16, 100, 300};
    for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++)
        for (uint32_t bits = 0; bits <= 14; bits += 2) {
            first_nodes(counts[k]);
            assert_int_equal(ring_place(nodes, counts[k], 1u << bits, owners), 0);
            check_balance(counts[k], 1u << bits);
        }
}

static uint32_t moves(uint32_t partitions)
{
    uint32_t n = 0;
    for (uint32_t p = 0; p < partitions; p++)
        n += owners[p] != after[p];
    return n;
}

// A node that joins takes about its share of partitions, and a node that leaves gives its
// share away. Because of the bound, some other partitions also move.
static void test_few_moves(void **state)
{
    (void)state;
    for (size_t n = 2; n <= 64; n *= 2) {
        const uint32_t partitions = 4096;
        uint32_t share = partitions / (uint32_t)(n + 1);
        first_nodes(n + 1);
        assert_int_equal(ring_place(nodes, n + 1, partitions, after), 0);
        assert_int_equal(ring_place(nodes, n, partitions, owners), 0);
        assert_in_range(moves(partitions), share * 8 / 10, 2 * share);
        assert_int_equal(ring_place(nodes + 1, n, partitions, owners), 0);
        assert_in_range(moves(partitions), share * 8 / 10, 2 * share);
    }
}

static void test_ids_alone_decide(void **state)
{
    (void)state;
    first_nodes(5);
    assert_int_equal(ring_place(nodes, 5, 256, owners), 0);
    assert_int_equal(ring_place(nodes, 5, 256, after), 0);
    assert_int_equal(moves(256), 0);
    nodes[4] += 2; // replaces node 4 by a node with another id
    assert_int_equal(ring_place(nodes, 5, 256, after), 0);
    assert_in_range(moves(256), 1, 256);
}

static void test_ranges(void **state)
{
    (void)state;
    for (size_t n = 1; n <= 20; n++) {
        first_nodes(n);
        ring_place_ranges(nodes, n, 256, owners);
        uint32_t count[20] = {0};
        for (uint32_t p = 0; p < 256; p++) {
            if (p > 0)
                assert_in_range(owners[p], owners[p - 1], owners[p - 1] + 2);
            count[index_of(owners[p], n)]++;
        }
        for (size_t i = 0; i < n; i++)
            assert_in_range(count[i], 256 / n, 256 / n + 1);
    }
}

static void test_no_memory(void **state)
{
    (void)state;
    first_nodes(3);
    for (long k = 0; k < 2; k++) {
        size_t live = mem_live();
        mem_fault_after(k);
        assert_int_equal(ring_place(nodes, 3, 64, owners), TUG_ENOMEM);
        mem_fault_after(-1);
        assert_int_equal(mem_live(), live);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_balance),          cmocka_unit_test(test_few_moves),
        cmocka_unit_test(test_ids_alone_decide), cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
