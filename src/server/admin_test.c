// Compares admin operations with a naive record of all that was done: each is done once,
// even if requests are repeated, late or out of order.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/admin.h"

#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "kit/test.h"
#include "protocol/limits.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_once),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
