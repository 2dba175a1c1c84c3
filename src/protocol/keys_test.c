// Tests the keys of requests: their division into runs is compared with a naive model;
// lists are found by their signature; bad keys are refused.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "cluster/roster.h"
#include "kit/test.h"
#include "protocol/bf16.h"
#include "protocol/keys.h"
#include "wire/pack.h"

enum { MAX = 5000 };

// Draws distinct keys, sorted by partition.
static uint32_t draw_keys(uint32_t bits, enum wire_space space, uint32_t n, uint64_t draw,
                          uint64_t *ret)
{
    uint32_t found = 0;
    for (uint32_t p = 0; p < 1u << bits; p++)
        for (uint32_t i = 0; i < n; i++) {
            uint64_t key = random_u64(draw, 0, i);
            if (space == WIRE_SPACE_SPARSE && draw % 2 == 0)
                key = i * 3;
            if (roster_partition(bits, space, key) == p)
                ret[found++] = key;
        }
    return found;
}

static struct keys_wire wire_of(const uint64_t *keys, uint32_t n)
{
    return (struct keys_wire){.n = n, .span = {keys, n * sizeof(*keys)}};
}

static void test_runs(void **state)
{
    (void)state;
    static uint64_t keys[MAX];
    uint32_t lengths[] = {0, 1, 2, 15, 300, MAX};
    for (uint32_t bits = 0; bits <= 8; bits += 4)
        for (size_t l = 0; l < sizeof(lengths) / sizeof(*lengths); l++) {
            enum wire_space space = l % 2 ? WIRE_SPACE_RANGE : WIRE_SPACE_SPARSE;
            uint32_t n = draw_keys(bits, space, lengths[l], l, keys);
            struct keys_scratch s;
            struct key_lists lists = {0};
            struct keys k;
            struct err e;
            assert_int_equal(keys_scratch_init(&s, bits), 0);
            struct keys_wire w = wire_of(keys, n);
            assert_int_equal(keys_read(&s, &lists, &w, space, &k, &e), 0);
            assert_int_equal(k.n, n);
            assert_int_equal(k.runs[k.n_runs].begin, n);
            uint32_t longest = 0;
            for (uint32_t r = 0; r < k.n_runs; r++) {
                uint32_t begin = k.runs[r].begin, end = k.runs[r + 1].begin;
                assert_true(end > begin);
                longest = end - begin > longest ? end - begin : longest;
                for (uint32_t i = begin; i < end; i++)
                    assert_int_equal(roster_partition(bits, space, keys[i]),
                                     k.runs[r].partition);
                assert_true(r == 0 || k.runs[r - 1].partition < k.runs[r].partition);
            }
            assert_int_equal(k.longest, longest);
            assert_int_equal(keys_check_distinct(&s, &k, &e), 0);
            keys_scratch_fini(&s);
        }
}

static void test_refusals(void **state)
{
    (void)state;
    static uint64_t keys[MAX];
    struct keys_scratch s;
    struct key_lists lists = {0};
    struct keys k;
    struct err e;
    uint32_t n = draw_keys(4, WIRE_SPACE_SPARSE, 100, 1, keys);
    assert_int_equal(keys_scratch_init(&s, 4), 0);
    struct keys_wire w = wire_of(keys, n);
    w.span.n -= 8;
    assert_int_equal(keys_read(&s, &lists, &w, WIRE_SPACE_SPARSE, &k, &e), TUG_EUSAGE);
    assert_string_equal(e.text, "it announces 100 keys, but has 792 bytes of keys");
    w = wire_of(keys, KEYS_MAX + 1);
    assert_int_equal(keys_read(&s, &lists, &w, WIRE_SPACE_SPARSE, &k, &e), TUG_EUSAGE);
    w = wire_of(keys, n);
    w.list = 5;
    w.span.n = 0;
    assert_int_equal(keys_read(&s, &lists, &w, WIRE_SPACE_SPARSE, &k, &e), TUG_EUSAGE);
    assert_int_equal(e.reason, REASON_KEYS_UNKNOWN);
    // A number of keys that cannot fit the bytes is refused before memory is allocated.
    w = (struct keys_wire){WIRE_KEYS_PACKED, KEYS_MAX, 0, {keys, 64}};
    assert_int_equal(keys_read(&s, &lists, &w, WIRE_SPACE_SPARSE, &k, &e), TUG_EUSAGE);
    assert_null(s.unpacked);
    w = (struct keys_wire){WIRE_KEYS_PACKED, n, 0, {keys, 64}};
    assert_int_equal(keys_read(&s, &lists, &w, WIRE_SPACE_SPARSE, &k, &e), TUG_EUSAGE);
    // A key that occurs twice is found anywhere in its run.
    w = wire_of(keys, n);
    for (uint32_t i = 1; i < n; i++) {
        uint64_t was = keys[i];
        keys[i] = keys[i - 1];
        assert_int_equal(keys_read(&s, &lists, &w, WIRE_SPACE_SPARSE, &k, &e), 0);
        assert_int_equal(keys_check_distinct(&s, &k, &e), TUG_EUSAGE);
        char says[64];
        snprintf(says, sizeof(says), "key %llu occurs twice",
                 (unsigned long long)keys[i]);
        assert_string_equal(e.text, says);
        keys[i] = was;
    }
    // If the last key comes first, the keys are not sorted by partition, so they are
    // refused.
    uint64_t last = keys[n - 1];
    memmove(keys + 1, keys, (n - 1) * sizeof(*keys));
    keys[0] = last;
    assert_int_equal(keys_read(&s, &lists, &w, WIRE_SPACE_SPARSE, &k, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "keys must be sent by ascending partition"));
    keys_scratch_fini(&s);
}

// As many lists as fit are remembered: those that were used last.
static void test_lists(void **state)
{
    (void)state;
    uint64_t keys[3] = {1, 2, 3};
    struct keys_scratch s;
    struct key_lists lists = {0};
    struct keys k;
    size_t live = mem_live();
    assert_int_equal(keys_scratch_init(&s, 0), 0);
    for (uint64_t i = 1; i <= KEYS_LISTS + 1; i++) {
        struct keys_wire w = wire_of(keys, 3), first = {.n = 3, .list = 1};
        keys[0] = i;
        w.list = i;
        assert_int_equal(keys_read(&s, &lists, &w, WIRE_SPACE_SPARSE, &k, NULL), 0);
        // The first list is used each time, so it is kept. In the end the second list is
        // dropped, because it was not used for the longest time.
        assert_int_equal(keys_read(&s, &lists, &first, WIRE_SPACE_SPARSE, &k, NULL), 0);
        assert_int_equal(k.key[0], 1);
    }
    for (uint64_t i = 1; i <= KEYS_LISTS + 1; i++) {
        struct keys_wire w = {.n = 3, .list = i};
        int rc = keys_read(&s, &lists, &w, WIRE_SPACE_SPARSE, &k, NULL);
        assert_int_equal(rc, i == 2 ? TUG_EUSAGE : 0);
        assert_true(rc != 0 || k.key[0] == i);
    }
    // If keys are sent with a known signature, they replace the list of that signature.
    struct keys_wire w = wire_of(keys, 2), again = {.n = 2, .list = 3};
    w.list = 3;
    assert_int_equal(keys_read(&s, &lists, &w, WIRE_SPACE_SPARSE, &k, NULL), 0);
    assert_int_equal(keys_read(&s, &lists, &again, WIRE_SPACE_SPARSE, &k, NULL), 0);
    assert_int_equal(lists.bytes, (KEYS_LISTS * 3 - 1) * sizeof(uint64_t));
    key_lists_free(&lists);
    keys_scratch_fini(&s);
    assert_int_equal(mem_live(), live);
}

static void test_list_memory(void **state)
{
    (void)state;
    enum { N = 3 << 20 }; // keys of one list, 24 MiB; two such lists fit the limit
    uint64_t *keys = mem_zalloc(N * sizeof(*keys));
    struct keys_scratch s;
    struct key_lists lists = {0};
    struct keys k;
    assert_int_equal(keys_scratch_init(&s, 0), 0);
    for (uint64_t i = 1; i <= 3; i++) {
        struct keys_wire w = wire_of(keys, N);
        w.list = i;
        assert_int_equal(keys_read(&s, &lists, &w, WIRE_SPACE_SPARSE, &k, NULL), 0);
        assert_true(lists.bytes <= KEYS_LISTS_BYTES);
    }
    for (uint64_t i = 1; i <= 3; i++) {
        struct keys_wire w = {.n = N, .list = i};
        assert_int_equal(keys_read(&s, &lists, &w, WIRE_SPACE_SPARSE, &k, NULL),
                         i == 1 ? TUG_EUSAGE : 0);
    }
    key_lists_free(&lists);
    keys_scratch_fini(&s);
    mem_free(keys);
}

static void test_packed(void **state)
{
    (void)state;
    static uint64_t keys[MAX];
    struct keys_scratch s;
    struct key_lists lists = {0};
    struct keys k;
    struct buf packed = BUF_INIT(1 << 20);
    uint32_t n = draw_keys(4, WIRE_SPACE_SPARSE, 3000, 2, keys);
    assert_int_equal(keys_scratch_init(&s, 4), 0);
    assert_int_equal(pack_keys(keys, n, &packed), 0);
    struct keys_wire w = {WIRE_KEYS_PACKED, n, 9, {packed.data, packed.len}};
    assert_int_equal(keys_read(&s, &lists, &w, WIRE_SPACE_SPARSE, &k, NULL), 0);
    assert_memory_equal(k.key, keys, n * sizeof(*keys));
    w.span.n = 0;
    assert_int_equal(keys_read(&s, &lists, &w, WIRE_SPACE_SPARSE, &k, NULL), 0);
    assert_memory_equal(k.key, keys, n * sizeof(*keys));
    w.span.n = packed.len - 1;
    assert_int_equal(keys_read(&s, &lists, &w, WIRE_SPACE_SPARSE, &k, NULL), TUG_EUSAGE);
    buf_free(&packed);
    key_lists_free(&lists);
    keys_scratch_fini(&s);
}

// Floats that bf16 can hold survive a round trip; other floats are rounded to the nearest
// of these.
static void test_bf16(void **state)
{
    (void)state;
    for (uint32_t i = 0; i <= UINT16_MAX; i++) {
        float x = bf16_to((uint16_t)i);
        if (x == x) {
            assert_int_equal(bf16_from(x), i);
        } else {
            float back = bf16_to(bf16_from(x));
            assert_true(back != back);
        }
    }
    uint32_t payload = 0x7f800001; // a NaN whose upper half is the pattern of an infinity
    float nan;
    memcpy(&nan, &payload, sizeof(nan));
    float back = bf16_to(bf16_from(nan));
    assert_true(back != back);
    assert_true(bf16_to(bf16_from(1 + 0x1p-8f)) == 1); // a tie is rounded to even
    // A tie is rounded to even.
    assert_true(bf16_to(bf16_from(1 + 3 * 0x1p-8f)) == 1 + 0x1p-6f);
    assert_true(bf16_to(bf16_from(1 + 0x1p-8f + 0x1p-20f)) ==
                1 + 0x1p-7f); // rounded to the nearest
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs),   cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_lists),  cmocka_unit_test(test_list_memory),
        cmocka_unit_test(test_packed), cmocka_unit_test(test_bf16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
