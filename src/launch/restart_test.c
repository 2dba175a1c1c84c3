// Tests which processes are started again, how often, and after which time.
//
// SPDX-License-Identifier: Apache-2.0
#include "launch/restart.h"

#include <signal.h>

#include "kit/test.h"
#include "os/clock.h"

enum { LIMIT = 10 };

static bool wanted(struct restart *r, enum launch_role role, int code, int signal)
{
    const struct launch_exit x = {role, 0, code, signal, "", .pid = 0};
    return restart_plan(r, &x, LIMIT, r->began_ns + SECOND_NS);
}

static void only_the_killed(void **state)
{
    (void)state;
    static const struct {
        enum launch_role role;
        int code, signal;
        bool wanted;
    } ends[] = {
        {LAUNCH_SCHEDULER, 0, SIGKILL, true}, {LAUNCH_SCHEDULER, 0, SIGSEGV, true},
        {LAUNCH_SCHEDULER, 0, 0, false},      {LAUNCH_SCHEDULER, 4, 0, false},
        {LAUNCH_SCHEDULER, 130, 0, false},    {LAUNCH_SCHEDULER, 0, SIGTERM, false},
        {LAUNCH_WORKER, 0, SIGKILL, true},    {LAUNCH_WORKER, 0, SIGABRT, true},
        {LAUNCH_WORKER, 4, 0, false},         {LAUNCH_WORKER, 2, 0, false},
        {LAUNCH_WORKER, 0, SIGINT, false},    {LAUNCH_WORKER, 0, SIGHUP, false},
        {LAUNCH_SERVER, 0, SIGKILL, true},    {LAUNCH_SERVER, 4, 0, false},
    };
    for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
        struct restart r = {0};
        restart_began(&r, 5 * SECOND_NS);
        assert_int_equal(wanted(&r, ends[i].role, ends[i].code, ends[i].signal),
                         ends[i].wanted);
        assert_int_equal(r.due_ns != 0, ends[i].wanted);
        assert_int_equal(r.times, ends[i].wanted);
    }
}

static void not_when_asked_to_end(void **state)
{
    (void)state;
    struct restart r = {0};
    const struct launch_exit x = {LAUNCH_WORKER, 0, 0, SIGKILL, "", .asked = true};
    assert_false(restart_plan(&r, &x, LIMIT, SECOND_NS));
}

static void waits_longer_each_time(void **state)
{
    (void)state;
    struct restart r = {0};
    static const double delays[LIMIT] = {.25, .5, 1, 2, 4, 8, 16, 30, 30, 30};
    for (int i = 0; i < LIMIT; i++) {
        restart_began(&r, 100 * SECOND_NS * (uint64_t)(i + 1));
        assert_true(wanted(&r, LAUNCH_WORKER, 0, SIGKILL));
        assert_true(r.delay == delays[i]);
        assert_int_equal(r.due_ns, r.began_ns + SECOND_NS +
                                       (uint64_t)(delays[i] * (double)SECOND_NS));
    }
    restart_began(&r, 0);
    assert_false(wanted(&r, LAUNCH_WORKER, 0, SIGKILL)); // the limit is reached
    assert_int_equal(r.due_ns, 0);
}

static void begins_anew_after_a_calm_time(void **state)
{
    (void)state;
    struct restart r = {.delay = 16, .times = 3};
    const struct launch_exit x = {LAUNCH_SCHEDULER, 0, 0, SIGKILL, "", .pid = 0};
    restart_began(&r, SECOND_NS);
    assert_true(restart_plan(&r, &x, LIMIT, (RESTART_CALM_SECONDS + 1) * SECOND_NS));
    assert_true(r.delay == RESTART_FIRST_SECONDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_killed),
        cmocka_unit_test(not_when_asked_to_end),
        cmocka_unit_test(waits_longer_each_time),
        cmocka_unit_test(begins_anew_after_a_calm_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
