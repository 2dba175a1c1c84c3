// Compares records of sessions with a plain array that has an entry for each possible
// session.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/sessions.h"

#include "base/alloc.h"
#include "base/err.h"
#include "base/random.h"
#include "kit/test.h"

enum { SESSIONS = 50, ROUNDS = 5000 };

struct known {
    uint64_t session;
    uint32_t count;
};

static void test_sessions(void **state)
{
    (void)state;
    struct sessions a = {0};
    uint32_t counts[SESSIONS] = {0};
    assert_null(sessions_find(&a, 3));
    sessions_remove(&a, NULL);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint64_t who = random_below(1, round, 0, SESSIONS), session = 7 + 3 * who;
        struct known *k = sessions_find(&a, session);
        assert_true((k != NULL) == (counts[who] > 0));
        assert_true(k == NULL || (k->session == session && k->count == counts[who]));
        if (random_below(1, round, 1, 3) == 0) {
            sessions_remove(&a, k);
            counts[who] = 0;
            continue;
        }
        k = sessions_make(&a, sizeof(*k), session);
        assert_non_null(k);
        assert_int_equal(k->count++, counts[who]++);
    }
    size_t n = 0;
    for (uint64_t who = 0; who < SESSIONS; who++)
        if (counts[who] > 0)
            assert_int_equal(sessions_at(&a, n++), 7 + 3 * who);
    assert_int_equal(a.n, n);
    sessions_fini(&a);
    assert_int_equal(mem_live(), 0);
}

static void test_no_memory(void **state)
{
    (void)state;
    struct sessions a = {0};
    mem_fault_after(0);
    assert_null(sessions_make(&a, sizeof(struct known), 1));
    mem_fault_after(-1);
    for (uint64_t i = 0; i < 8; i++)
        assert_non_null(sessions_make(&a, sizeof(struct known), 9 - i));
    mem_fault_after(0);
    assert_null(sessions_make(&a, sizeof(struct known), 1));
    mem_fault_after(0);
    assert_int_equal(sessions_reserve(&a, sizeof(struct known), 1), TUG_ENOMEM);
    mem_fault_after(0);
    // The record exists, so finding it needs no memory.
    assert_non_null(sessions_make(&a, sizeof(struct known), 2));
    mem_fault_after(-1);
    assert_int_equal(a.n, 8);
    assert_int_equal(sessions_reserve(&a, sizeof(struct known), 100), 0);
    mem_fault_after(0);
    for (uint64_t i = 0; i < 100; i++)
        assert_non_null(sessions_make(&a, sizeof(struct known), 100 + i));
    mem_fault_after(-1);
    sessions_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sessions),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
