// SPDX-License-Identifier: Apache-2.0
#include "base/alloc.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "kit/test.h"

enum { MIB = 1 << 20 };

static void test_live_count(void **state)
{
    (void)state;
    size_t before = mem_live();
    void *p[6] = {
        mem_alloc(10),        mem_zalloc(10),  mem_array(3, 4),
        mem_aligned(64, 100), mem_strdup("x"), mem_map(100),
    };
    for (int i = 0; i < 6; i++)
        assert_non_null(p[i]);
    assert_int_equal(mem_live(), before + 6);
    for (int i = 0; i < 5; i++)
        mem_free(p[i]);
    mem_unmap(p[5], 100);
    mem_free(NULL);
    mem_unmap(NULL, 100);
    assert_int_equal(mem_live(), before);
}

static void test_empty_is_not_null(void **state)
{
    (void)state;
    void *p = mem_alloc(0);
    void *q = mem_realloc(p, 0);
    assert_non_null(p);
    assert_non_null(q);
    mem_free(q);
}

static void test_zeroed(void **state)
{
    (void)state;
    unsigned char *p = mem_zalloc(1000);
    unsigned char *m = mem_map(3 * MIB);
    for (size_t i = 0; i < 1000; i++)
        assert_int_equal(p[i], 0);
    for (size_t i = 0; i < 3 * MIB; i += 4096)
        assert_int_equal(m[i], 0);
    mem_free(p);
    mem_unmap(m, 3 * MIB);
}

static void test_realloc_keeps_bytes(void **state)
{
    (void)state;
    size_t before = mem_live();
    char *p = mem_realloc(NULL, 4);
    memcpy(p, "abc", 4);
    p = mem_realloc_array(p, 1000, 100);
    assert_string_equal(p, "abc");
    mem_fault_after(0);
    assert_null(mem_realloc(p, 200000));
    assert_string_equal(p, "abc");
    mem_free(p);
    mem_fault_after(-1);
    assert_int_equal(mem_live(), before);
}

static void test_room_doubles_and_keeps_elements(void **state)
{
    (void)state;
    uint16_t *list = NULL;
    uint32_t cap = 0, grown = 0;
    for (uint16_t n = 0; n < 5000; n++) {
        uint32_t before = cap;
        assert_int_equal(mem_room(&list, &cap, n + 1u), 0);
        assert_true(cap > n && (cap == before || cap >= 2 * before));
        grown += cap != before;
        list[n] = n;
    }
    assert_true(grown < 12);
    for (uint16_t n = 0; n < 5000; n++)
        assert_int_equal(list[n], n);
    uint16_t *kept = list;
    mem_fault_after(0);
    assert_int_equal(mem_room(&list, &cap, cap + 1u), TUG_ENOMEM);
    mem_fault_after(-1);
    assert_true(list == kept && cap >= 5000);
    mem_free(list);
    uint64_t *few = NULL; // the capacity `most` has only 8 bits
    uint8_t most = 0;
    assert_int_equal(mem_room(&few, &most, 200), 0);
    assert_int_equal(mem_room(&few, &most, 255), 0);
    assert_int_equal(most, 255);
    assert_int_equal(mem_room(&few, &most, 256), TUG_ENOMEM);
    mem_free(few);
}

static void test_overflow_is_refused(void **state)
{
    (void)state;
    size_t before = mem_live();
    assert_null(mem_array(SIZE_MAX / 2, 3));
    assert_null(mem_realloc_array(NULL, SIZE_MAX, SIZE_MAX));
    assert_null(mem_alloc(SIZE_MAX));
    assert_null(mem_zalloc((size_t)PTRDIFF_MAX + 1));
    assert_null(mem_aligned(64, SIZE_MAX));
    assert_null(mem_map(SIZE_MAX));
    assert_null(mem_map(PTRDIFF_MAX));
    assert_int_equal(mem_live(), before);
}

static void test_alignment(void **state)
{
    (void)state;
    for (size_t align = 8; align <= 4096; align *= 2) {
        void *p = mem_aligned(align, 24);
        assert_int_equal((uintptr_t)p % align, 0);
        mem_free(p);
    }
    // Maps several blocks at once, so that not all are aligned by chance. Some sizes are
    // not whole pages; the last byte is written, too.
    size_t bytes[] = {2 * MIB, 2 * MIB + 1, 5 * MIB - 7, 2 * MIB};
    char *p[4];
    for (int i = 0; i < 4; i++) {
        p[i] = mem_map(bytes[i]);
        assert_int_equal((uintptr_t)p[i] % (2 * MIB), 0);
        p[i][0] = 1;
        p[i][bytes[i] - 1] = 1;
    }
    for (int i = 0; i < 4; i++)
        mem_unmap(p[i], bytes[i]);
}

// Memory grows in place: for steps of any size, old bytes stay and new ones are zero.
static void test_reserved_space_grows_in_place(void **state)
{
    (void)state;
    enum { ALL = 9 * MIB };
    const size_t steps[] = {1, 4096, 4097, MIB, 2 * MIB, 2 * MIB, 5 * MIB + 3, ALL};
    size_t before = mem_live();
    char *p = mem_reserve(ALL);
    assert_non_null(p);
    assert_int_equal((uintptr_t)p % (2 * MIB), 0);
    assert_int_equal(mem_live(), before + 1);
    size_t old = 0;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        assert_true(mem_commit(p, old, steps[i]));
        for (size_t at = 0; at < steps[i]; at++)
            assert_true(p[at] == (at < old ? 7 : 0));
        memset(p + old, 7, steps[i] - old);
        old = steps[i];
    }
    mem_unmap(p, ALL);
    assert_int_equal(mem_live(), before);
}

static void test_reserve_and_commit_can_fail(void **state)
{
    (void)state;
    assert_null(mem_reserve(SIZE_MAX));
    mem_fault_after(0);
    assert_null(mem_reserve(100));
    char *p = mem_reserve(MIB);
    mem_fault_after(0);
    assert_false(mem_commit(p, 0, 10));
    assert_true(mem_commit(p, 0, 10)); // the second try succeeds
    p[9] = 1;
    mem_fault_after(0);
    // The bytes are in the same page, so no memory is asked for.
    assert_true(mem_commit(p, 10, 4000));
    mem_fault_after(-1);
    mem_unmap(p, MIB);
}

static void *allocate(int kind)
{
    switch (kind) {
    case 0:
        return mem_alloc(8);
    case 1:
        return mem_zalloc(8);
    case 2:
        return mem_array(2, 4);
    case 3:
        return mem_realloc(NULL, 8);
    case 4:
        return mem_aligned(16, 8);
    default:
        return mem_strdup("string");
    }
}

static void test_fault_strikes_the_nth_and_only_it(void **state)
{
    (void)state;
    for (int n = 0; n < 6; n++) {
        mem_fault_after(n);
        assert_false(mem_faulted());
        for (int i = 0; i < 6; i++) {
            void *p = allocate(i);
            assert_int_equal(p == NULL, i == n);
            assert_int_equal(mem_faulted(), i >= n);
            mem_free(p);
        }
    }
    mem_fault_after(0);
    assert_null(mem_map(100));
    mem_fault_after(-1);
    assert_false(mem_faulted());
}

static void *count_failures(void *failures)
{
    for (int i = 0; i < 10000; i++) {
        void *p = mem_alloc(8);
        if (p == NULL)
            atomic_fetch_add((atomic_int *)failures, 1);
        mem_free(p);
    }
    return NULL;
}

static void test_fault_strikes_once_among_threads(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    atomic_int failures = 0;
    pthread_t thread[THREADS];
    size_t before = mem_live();
    mem_fault_after(7777);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, count_failures, &failures), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    assert_true(mem_faulted());
    assert_int_equal(failures, 1);
    assert_int_equal(mem_live(), before);
    mem_fault_after(-1);
}

static void test_available(void **state)
{
    (void)state;
    uint64_t there = mem_available();
    assert_true(there > 1 << 20 && there < UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_live_count),
        cmocka_unit_test(test_empty_is_not_null),
        cmocka_unit_test(test_zeroed),
        cmocka_unit_test(test_realloc_keeps_bytes),
        cmocka_unit_test(test_room_doubles_and_keeps_elements),
        cmocka_unit_test(test_overflow_is_refused),
        cmocka_unit_test(test_alignment),
        cmocka_unit_test(test_reserved_space_grows_in_place),
        cmocka_unit_test(test_reserve_and_commit_can_fail),
        cmocka_unit_test(test_fault_strikes_the_nth_and_only_it),
        cmocka_unit_test(test_fault_strikes_once_among_threads),
        cmocka_unit_test(test_available),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
