// Compares admin operations with a naive record of all that was done: each is done once,
// even if requests are repeated, late or out of order. Compares the values of partitions
// before and after they were copied.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/admin.h"

#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/random.h"
#include "kit/test.h"
#include "protocol/limits.h"
#include "server/moves/stream.h"

enum { SESSIONS = 5, NUMBERS = 200 };

static void test_once(void **state)
{
    (void)state;
    static uint64_t done[SESSIONS][NUMBERS];
    struct admin o = {0};
    uint64_t low[SESSIONS], calls = 0;
    for (int i = 0; i < SESSIONS; i++)
        low[i] = 1;
    for (uint64_t draw = 0; draw < 20000; draw++) {
        uint64_t s = random_below(1, draw, 0, SESSIONS), session = 7 * s + 3, value;
        uint64_t number = 1 + random_below(1, draw, 1, low[s] + ADMIN_WINDOW - 1);
        if (number >= NUMBERS)
            continue;
        enum admin_state is;
        // an old message has a lower value of `low`
        uint64_t says = number < low[s] ? number : low[s];
        assert_int_equal(admin_begin(&o, session, number, says, &is, &value, NULL), 0);
        if (is == ADMIN_NEW) {
            assert_int_equal(done[s][number]++, 0);
            assert_int_equal(admin_look(&o, session, number), ADMIN_NEW);
            if (draw % 3 == 0) { // an operation that takes time
                admin_going(&o, session, number);
                assert_int_equal(admin_look(&o, session, number), ADMIN_GOING);
            }
            admin_done(&o, session, number, number * 10);
            calls++;
        } else {
            assert_int_equal(is, ADMIN_DONE);
            assert_true(value == number * 10 || number < low[s]);
        }
        while (low[s] < NUMBERS && done[s][low[s]] != 0 && random_below(1, draw, 2, 2))
            low[s]++;
    }
    assert_true(calls > SESSIONS * NUMBERS / 2);
    assert_int_equal(o.sessions.n, SESSIONS);
    for (size_t i = 0; i < o.sessions.n; i++)
        assert_int_equal(sessions_at(&o.sessions, i), 7 * i + 3);
    admin_end_session(&o, 3);
    admin_end_session(&o, 4);
    assert_int_equal(o.sessions.n, SESSIONS - 1);
    admin_done(&o, 3, 1, 1); // the session has ended, so nothing is recorded
    admin_fini(&o);
    assert_int_equal(mem_live(), 0);
}

static void test_refusals(void **state)
{
    (void)state;
    struct admin o = {0};
    enum admin_state is;
    uint64_t value;
    struct err e;
    mem_fault_after(0);
    assert_int_equal(admin_begin(&o, 1, 1, 1, &is, &value, &e), TUG_ENOMEM);
    mem_fault_after(-1);
    assert_int_equal(admin_begin(&o, 1, 0, 0, &is, &value, &e), TUG_EUSAGE);
    assert_int_equal(admin_begin(&o, 1, 4, 5, &is, &value, &e), TUG_EUSAGE);
    assert_int_equal(admin_begin(&o, 1, 1 + ADMIN_WINDOW, 1, &is, &value, &e),
                     TUG_EUSAGE);
    assert_non_null(strstr(e.text, "more than 15 above 1"));
    assert_int_equal(admin_begin(&o, 1, 1, 1, &is, &value, &e), 0);
    assert_int_equal(admin_begin(&o, 1, 1, 1, &is, &value, &e), 0);
    assert_int_equal(is, ADMIN_NEW); // the operation was refused, so that a repeated
                                     // request is new again
    admin_fini(&o);
}

enum { PARTITIONS = 8, ENDED = 99 };

static bool is_over(const void *ctx, uint64_t session)
{
    return session == *(const uint64_t *)ctx;
}

static uint64_t *parts_of(struct admin *o, uint64_t session, uint64_t number,
                          uint64_t low)
{
    uint64_t *parts;
    assert_int_equal(
        admin_parts(o, session, number, low, WIRE_SPACE_SPARSE, PARTITIONS, &parts), 0);
    return parts;
}

// The values of partitions are kept until the operation is answered.
static void test_parts(void **state)
{
    (void)state;
    struct admin o = {0};
    uint64_t *parts = parts_of(&o, 1, 1, 1), *other;
    for (uint32_t p = 0; p < PARTITIONS; p++)
        assert_true(parts[p] == ADMIN_LACKS);
    parts[3] = 30;
    assert_ptr_equal(parts_of(&o, 1, 1, 1), parts);
    assert_ptr_equal(admin_find_parts(&o, 1, 1), parts);
    assert_null(admin_find_parts(&o, 1, 2));
    assert_null(admin_find_parts(&o, 2, 1));
    // The record of another space must be damaged.
    assert_int_equal(admin_parts(&o, 1, 1, 1, WIRE_SPACE_DENSE, PARTITIONS, &other), 0);
    assert_null(other);
    admin_drop(&o, WIRE_SPACE_DENSE, 3);
    assert_true(parts[3] == 30);
    admin_drop(&o, WIRE_SPACE_SPARSE, 3);
    assert_true(parts[3] == ADMIN_LACKS);
    assert_non_null(parts_of(&o, 1, 2, 1));
    assert_non_null(parts_of(&o, 1, 2, 2)); // number 1 is answered
    assert_null(parts_of(&o, 1, 1, 1));
    assert_null(admin_find_parts(&o, 1, 1));
    assert_non_null(parts_of(&o, 1, 2 + ADMIN_WINDOW, 3)); // takes the place of 2
    assert_null(admin_find_parts(&o, 1, 2));
    admin_end_session(&o, 1);
    assert_null(admin_find_parts(&o, 1, 2 + ADMIN_WINDOW));
    mem_fault_after(0);
    assert_int_equal(admin_parts(&o, 1, 1, 1, WIRE_SPACE_SPARSE, PARTITIONS, &other),
                     TUG_ENOMEM);
    mem_fault_after(-1);
    admin_fini(&o);
    assert_int_equal(mem_live(), 0);
}

// Copies the first n bytes of the facts of a partition. Memory is out after `fault`
// allocations of admin_put, whose status it returns; -1: never.
static int copy_facts(const struct admin *from, struct admin *to, uint32_t partition,
                      size_t n, int fault)
{
    static const uint64_t over = ENDED;
    struct buf b = BUF_INIT(1 << 20);
    assert_int_equal(admin_get(from, WIRE_SPACE_SPARSE, partition, &b), 0);
    struct stream x = {b.data, n < b.len ? n : b.len, 0};
    mem_fault_after(fault);
    int rc = admin_put(to, WIRE_SPACE_SPARSE, partition, PARTITIONS, 2, is_over, &over,
                       &x, NULL);
    mem_fault_after(-1);
    assert_true(rc != 0 || x.at == b.len);
    buf_free(&b);
    return rc;
}

static void test_facts(void **state)
{
    (void)state;
    struct admin from = {0}, to = {0}, none = {0};
    for (uint64_t number = 1; number < 4; number++)
        parts_of(&from, 1, number, 1)[number % 2] = number * 10;
    parts_of(&from, ENDED, 1, 1)[1] = 5;
    parts_of(&from, 7, 1, 1)[1] = ADMIN_OPEN;
    assert_int_equal(copy_facts(&from, &to, 1, SIZE_MAX, -1), 0);
    for (uint64_t number = 1; number < 4; number++) {
        const uint64_t *parts = admin_find_parts(&to, 1, number);
        assert_int_equal(parts != NULL, number % 2 == 1);
        assert_true(parts == NULL ||
                    (parts[1] == number * 10 && parts[0] == ADMIN_LACKS));
    }
    assert_null(admin_find_parts(&to, ENDED, 1));
    assert_null(admin_find_parts(&to, 7, 1));
    for (size_t n = 0; n < 3 * 4 * sizeof(uint64_t); n += sizeof(uint64_t))
        assert_int_equal(copy_facts(&from, &none, 1, n, -1), TUG_EDATA);
    admin_fini(&none);
    for (int fault = 0; fault < 2; fault++) {
        assert_int_equal(copy_facts(&from, &none, 1, SIZE_MAX, fault), TUG_ENOMEM);
        admin_fini(&none);
        none = (struct admin){0};
    }
    admin_fini(&from);
    admin_fini(&to);
    admin_fini(&none);
    assert_int_equal(mem_live(), 0);
}

// Numbers that no client can have, and too many sessions, are damage.
static void test_impossible(void **state)
{
    (void)state;
    struct admin o = {0};
    struct err e;
    assert_int_equal(admin_check(&o, 1, 1, 0, 1, NULL), 0);
    assert_int_equal(admin_check(&o, 1, ADMIN_WINDOW + 4, 5, 1, NULL), 0);
    for (uint64_t number = 1; number < 3 * ADMIN_WINDOW; number++)
        assert_int_equal(admin_check(&o, 1, number, admin_record_low(number, 0), 1, NULL),
                         0);
    assert_true(admin_record_low(20, 18) == 18);
    assert_int_equal(admin_check(&o, 0, 1, 1, 1, NULL), TUG_EDATA);
    assert_int_equal(admin_check(&o, 1, 0, 0, 1, NULL), TUG_EDATA);
    assert_int_equal(admin_check(&o, 1, 1, UINT64_MAX, 1, NULL), TUG_EDATA);
    assert_int_equal(admin_check(&o, 1, ADMIN_WINDOW + 5, 5, 1, NULL), TUG_EDATA);
    for (uint64_t session = 1; session < 4; session++)
        parts_of(&o, session, 1, 1);
    assert_int_equal(admin_check(&o, 3, 1, 1, 3, NULL), 0);
    assert_int_equal(admin_check(&o, 4, 1, 1, 3, &e), TUG_EDATA);
    assert_non_null(strstr(e.text, "more than 3 sessions"));
    assert_int_equal(admin_check(&o, 4, 1, 1, 4, NULL), 0);
    struct admin to = {0};
    parts_of(&o, 1, 1, 1)[0] = parts_of(&o, 2, 1, 1)[0] = parts_of(&o, 3, 1, 1)[0] = 1;
    assert_int_equal(copy_facts(&o, &to, 0, SIZE_MAX, -1), TUG_EDATA); // three sessions
    admin_fini(&o);
    admin_fini(&to);
    assert_int_equal(mem_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_once),       cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_parts),      cmocka_unit_test(test_facts),
        cmocka_unit_test(test_impossible),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
