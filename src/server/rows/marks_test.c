// Compares marks with a plain list, for as many sessions as a cluster can have nodes.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/rows/marks.h"

#include "base/alloc.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/random.h"
#include "cluster/roster.h"
#include "kit/test.h"

enum { SESSIONS = 40, SAVES = 5, STEPS = 20000, FEW = 6 };

static uint64_t sessions[SESSIONS];

static bool is_of(void *ctx, const struct save_mark *mark)
{
    return mark->save == *(const uint64_t *)ctx;
}

static void check(const struct marks *m, size_t n_sessions, bool list[SESSIONS][SAVES])
{
    size_t n = 0;
    for (size_t i = 0; i < n_sessions; i++) {
        size_t cursor = 0, of = 0, expected = 0;
        const struct save_mark *mark;
        while ((mark = marks_next(m, sessions[i], &cursor)) != NULL) {
            assert_int_equal(mark->session, sessions[i]);
            assert_int_equal(mark->since, 100 * i + mark->save);
            of++;
        }
        for (uint64_t save = 0; save < SAVES; save++) {
            assert_int_equal(marks_has(m, save, sessions[i]), list[i][save]);
            expected += list[i][save];
        }
        assert_int_equal(of, expected);
        n += of;
    }
    assert_int_equal(m->n, n);
}

static void check_same_as_a_list(size_t n_sessions)
{
    bool list[SESSIONS][SAVES] = {0};
    struct marks m = {0};
    for (uint64_t step = 0; step < STEPS; step++) {
        size_t i = (size_t)random_below(1, 0, step, n_sessions);
        uint64_t save = random_below(1, 1, step, SAVES);
        if (random_below(1, 2, step, 30) == 0) {
            marks_remove(&m, is_of, &save);
            for (size_t k = 0; k < n_sessions; k++)
                list[k][save] = false;
        } else if (!list[i][save]) {
            struct save_mark mark = {save, sessions[i], 0, 100 * i + save};
            assert_int_equal(marks_add(&m, &mark), 0);
            list[i][save] = true;
        }
        if (step % 16 == 0 || n_sessions == FEW)
            check(&m, n_sessions, list);
    }
    marks_fini(&m);
}

static void test_same_as_a_list(void **state)
{
    (void)state;
    for (size_t i = 0; i < SESSIONS; i++)
        sessions[i] = 1 + i;
    check_same_as_a_list(SESSIONS);
}

// The marks of these sessions belong at the end of the smallest hash table, so that some
// of them wrap around to its start.
static void test_marks_at_the_end_of_the_table(void **state)
{
    enum { PLACES = 64 };
    (void)state;
    uint64_t session = 0;
    for (size_t i = 0; i < FEW; i++) {
        do
            session++;
        while ((mix64(session) + 4) % PLACES >= 8);
        sessions[i] = session;
    }
    check_same_as_a_list(FEW);
}

// Every node of the largest cluster can mark two saves; the memory is counted.
static void test_all_nodes(void **state)
{
    struct budget budget;
    struct marks m = {.budget = &budget};
    size_t live = mem_live();
    (void)state;
    budget_open(&budget, (uint64_t)256 << 20);
    for (uint64_t save = 1; save <= 2; save++)
        for (uint64_t session = 1; session <= ROSTER_MAX_NODES; session++)
            assert_int_equal(
                marks_add(&m, &(struct save_mark){save, session << 20, 0, session}), 0);
    assert_int_equal(m.n, 2 * ROSTER_MAX_NODES);
    assert_true(budget_used(&budget, BUDGET_CLOCKS) >= m.n * sizeof(struct save_mark));
    size_t looks = 0; // probes until a free entry, summed over all sessions
    for (uint64_t session = 1; session <= ROSTER_MAX_NODES; session++) {
        assert_true(marks_has(&m, 2, session << 20) && !marks_has(&m, 3, session << 20));
        size_t at = 0;
        while (marks_next(&m, session << 20, &at) != NULL)
            ;
        looks += at;
    }
    assert_true(looks < 16 * m.n);
    marks_remove(&m, is_of, &(uint64_t){1});
    assert_int_equal(m.n, ROSTER_MAX_NODES);
    marks_fini(&m);
    assert_int_equal(budget_used(&budget, BUDGET_CLOCKS), 0);
    assert_int_equal(mem_live(), live);
}

static void test_no_room(void **state)
{
    struct budget budget;
    struct marks m = {.budget = &budget};
    struct save_mark mark = {1, 1, 0, 1};
    (void)state;
    budget_open(&budget, 0);
    assert_int_equal(marks_add(&m, &mark), TUG_EIO);
    budget_open(&budget, (uint64_t)1 << 20);
    mem_fault_after(0);
    assert_int_equal(marks_add(&m, &mark), TUG_ENOMEM);
    mem_fault_after(-1);
    assert_int_equal(budget_used(&budget, BUDGET_CLOCKS), 0);
    assert_false(marks_has(&m, 1, 1));
    marks_remove(&m, is_of, &(uint64_t){1});
    assert_int_equal(marks_add(&m, &mark), 0);
    assert_true(marks_has(&m, 1, 1));
    marks_fini(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_as_a_list),
        cmocka_unit_test(test_marks_at_the_end_of_the_table),
        cmocka_unit_test(test_all_nodes),
        cmocka_unit_test(test_no_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
