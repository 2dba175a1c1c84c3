// Tests which ends of processes end a run, and the status of the run.
//
// SPDX-License-Identifier: Apache-2.0
#include "launch/exit_policy.h"

#include <signal.h>
#include <string.h>

#include "kit/test.h"

static struct exit_policy v;

static enum exit_policy_next ended(enum launch_role role, uint32_t rank, int code,
                                   int signal, const char *said)
{
    struct launch_exit x = {role, rank, code, signal, said, .pid = 0};
    return exit_policy_exit(&v, &x);
}

static void all_is_well(void **state)
{
    (void)state;
    exit_policy_open(&v, false, 2, false);
    assert_int_equal(ended(LAUNCH_WORKER, 0, 0, 0, ""), EXIT_POLICY_GO_ON);
    assert_int_equal(ended(LAUNCH_WORKER, 1, 0, 0, ""), EXIT_POLICY_GO_ON);
    assert_int_equal(ended(LAUNCH_SERVER, 0, 0, 0, ""), EXIT_POLICY_GO_ON);
    assert_int_equal(ended(LAUNCH_SCHEDULER, 0, 0, 0, ""), EXIT_POLICY_LEAVE);
    assert_int_equal(v.end.code, 0);
}

static void a_worker_can_be_lost_but_not_all(void **state)
{
    (void)state;
    exit_policy_open(&v, false, 3, false);
    assert_int_equal(ended(LAUNCH_WORKER, 0, 0, 9, ""), EXIT_POLICY_GO_ON);
    assert_int_equal(ended(LAUNCH_WORKER, 2, 4, 0, "network"), EXIT_POLICY_GO_ON);
    assert_int_equal(v.end.code, 0);
    assert_int_equal(ended(LAUNCH_WORKER, 1, 0, 9, ""), EXIT_POLICY_SETTLE);
    assert_int_equal(v.end.code, TUG_EIO);
    assert_string_equal(v.end.text, "worker 1 was killed by signal 9 (Killed)");
    exit_policy_open(&v, false, 2, false);
    assert_int_equal(ended(LAUNCH_WORKER, 1, 0, 0, ""), EXIT_POLICY_GO_ON);
    // Worker 0 is killed after worker 1 has finished, so the run can end without worker 0.
    assert_int_equal(ended(LAUNCH_WORKER, 0, 0, 9, ""), EXIT_POLICY_GO_ON);
    char text[EXIT_POLICY_TEXT_MAX];
    struct launch_exit x = {LAUNCH_SERVER, 3, 0, 9, "", .pid = 77};
    assert_string_equal(exit_policy_describe(&x, text),
                        "server 3 (process 77) was killed by signal 9 (Killed)");
}

static void some_exit_codes_end_all(void **state)
{
    (void)state;
    static const int codes[][2] = {{2, TUG_EUSAGE}, {3, TUG_EDATA}, {5, TUG_EINTERNAL}};
    for (size_t i = 0; i < 3; i++) {
        exit_policy_open(&v, false, 2, false);
        assert_int_equal(ended(LAUNCH_WORKER, 1, codes[i][0], 0, "tug worker: x:1: bad"),
                         EXIT_POLICY_TOLD);
        assert_int_equal(v.end.code, codes[i][1]);
        assert_non_null(strstr(v.end.text, "worker 1 ended with exit code"));
        assert_non_null(strstr(v.end.text, ": x:1: bad"));
        assert_null(strstr(v.end.text, "tug worker"));
    }
    exit_policy_open(&v, false, 2, false);
    assert_int_equal(ended(LAUNCH_WORKER, 1, 1, 0, ""), EXIT_POLICY_GO_ON);
}

// With replicas the scheduler decides: it ends the run if it has lost partitions.
static void a_server_with_replicas_can_be_lost(void **state)
{
    (void)state;
    exit_policy_open(&v, false, 2, true);
    assert_int_equal(ended(LAUNCH_SERVER, 1, 0, 9, ""), EXIT_POLICY_GO_ON);
    assert_int_equal(v.end.code, 0);
    assert_int_equal(ended(LAUNCH_SERVER, 0, 4, 0, ""), EXIT_POLICY_GO_ON);
    assert_int_equal(ended(LAUNCH_SCHEDULER, 0, 4, 0, "tug scheduler: 7 is lost"),
                     EXIT_POLICY_LEAVE);
    assert_string_equal(v.end.text, "7 is lost");
    // Wrong usage would end every other server, too.
    exit_policy_open(&v, false, 2, true);
    assert_int_equal(ended(LAUNCH_SERVER, 1, 2, 0, "tug server: no"), EXIT_POLICY_TOLD);
}

static void a_server_cannot_be_lost(void **state)
{
    (void)state;
    exit_policy_open(&v, false, 2, false);
    assert_int_equal(ended(LAUNCH_SERVER, 1, 0, 9, ""), EXIT_POLICY_SETTLE);
    assert_int_equal(ended(LAUNCH_SCHEDULER, 0, 4, 0, "tug scheduler: 7 is lost"),
                     EXIT_POLICY_LEAVE);
    assert_int_equal(v.end.code, TUG_EIO);
    assert_string_equal(v.end.text,
                        "server 1 was killed by signal 9 (Killed): 7 is lost");
    // Processes that end later do not change the result.
    assert_int_equal(ended(LAUNCH_WORKER, 1, 3, 0, ""), EXIT_POLICY_GO_ON);
    assert_int_equal(v.end.code, TUG_EIO);
}

static void the_scheduler_knows_best(void **state)
{
    (void)state;
    exit_policy_open(&v, false, 2, false);
    assert_int_equal(ended(LAUNCH_WORKER, 1, 3, 0, "tug worker: asked"),
                     EXIT_POLICY_TOLD);
    assert_int_equal(ended(LAUNCH_SCHEDULER, 0, 3, 0, "tug scheduler: worker 0: bad.txt"),
                     EXIT_POLICY_LEAVE);
    assert_string_equal(v.end.text, "worker 0: bad.txt");
    exit_policy_open(&v, false, 2, false);
    assert_int_equal(ended(LAUNCH_SCHEDULER, 0, 0, 11, "tug scheduler: x"),
                     EXIT_POLICY_END);
    assert_non_null(strstr(v.end.text, "the scheduler was killed by signal 11"));
    exit_policy_open(&v, false, 2, false);
    assert_int_equal(ended(LAUNCH_SCHEDULER, 0, 1, 0, "a library's words"),
                     EXIT_POLICY_LEAVE);
    assert_string_equal(v.end.text,
                        "the scheduler ended with exit code 1: a library's words");
}

static void ended_for_what_is_known(void **state)
{
    (void)state;
    exit_policy_open(&v, false, 1, false);
    assert_int_equal(ended(LAUNCH_SERVER, 0, 255, 0, "ssh: no route"), EXIT_POLICY_TOLD);
    assert_int_equal(ended(LAUNCH_SCHEDULER, 0, 130, 0, "tug scheduler: interrupted"),
                     EXIT_POLICY_LEAVE);
    assert_int_equal(v.end.code, TUG_EIO);
    assert_string_equal(v.end.text, "server 0 ended with exit code 255: ssh: no route");
}

static void interrupted_runs(void **state)
{
    (void)state;
    exit_policy_open(&v, false, 2, false);
    exit_policy_interrupted(&v);
    assert_int_equal(ended(LAUNCH_SCHEDULER, 0, 130, 0, "tug scheduler: saved to m"),
                     EXIT_POLICY_LEAVE);
    assert_int_equal(v.end.code, TUG_EINTERRUPTED);
    assert_string_equal(v.end.text, "saved to m");
    exit_policy_open(&v, false, 2, false);
    exit_policy_interrupted(&v);
    // the scheduler ends with exit code 0, so the run had finished before the interruption
    assert_int_equal(ended(LAUNCH_SCHEDULER, 0, 0, 0, ""), EXIT_POLICY_LEAVE);
    assert_int_equal(v.end.code, 0);
}

// If a signal asks a server to end, the run counts as interrupted, even if the server's
// program does not handle the signal. If a worker was asked to end, the run continues
// without it.
static void interrupted_processes(void **state)
{
    (void)state;
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP};
    for (int program = 0; program < 2; program++)
        for (size_t i = 0; i < 3; i++) {
            exit_policy_open(&v, program != 0, 2, false);
            assert_int_equal(ended(LAUNCH_WORKER, 1, 0, signals[i], ""),
                             EXIT_POLICY_GO_ON);
            assert_int_equal(v.end.code, 0);
            (void)ended(LAUNCH_SERVER, 0, 0, signals[i], "");
            assert_int_equal(v.end.code, TUG_EINTERRUPTED);
            assert_non_null(strstr(v.end.text, "server 0 was interrupted by signal"));
        }
    exit_policy_open(&v, true, 1, false);
    (void)ended(LAUNCH_SERVER, 0, 130, 0, "server: interrupted");
    assert_int_equal(v.end.code, TUG_EINTERRUPTED);
}

static void programs(void **state)
{
    (void)state;
    exit_policy_open(&v, true, 2, false);
    assert_int_equal(ended(LAUNCH_SCHEDULER, 0, 0, 0, ""), EXIT_POLICY_GO_ON);
    assert_int_equal(ended(LAUNCH_WORKER, 0, 0, 9, ""), EXIT_POLICY_GO_ON);
    assert_int_equal(ended(LAUNCH_WORKER, 1, 7, 0, "oh"), EXIT_POLICY_END);
    assert_int_equal(v.end.code, TUG_EIO);
    assert_string_equal(v.end.text, "worker 1 ended with exit code 7: oh");
    exit_policy_open(&v, true, 1, false);
    assert_int_equal(ended(LAUNCH_SERVER, 0, 3, 0, ""), EXIT_POLICY_END);
    assert_int_equal(v.end.code, TUG_EDATA);
    exit_policy_open(&v, true, 1, false);
    assert_int_equal(ended(LAUNCH_SCHEDULER, 0, 1, 0, ""), EXIT_POLICY_END);
}

static void end_is(const char *text)
{
    assert_int_equal(v.end.code, TUG_EIO);
    assert_string_equal(v.end.text, text);
}

// The error names the process whose end made the other processes fail, whichever process
// ends first.
static void the_cause_is_named(void **state)
{
    (void)state;
    exit_policy_open(&v, true, 12, false);
    assert_int_equal(ended(LAUNCH_WORKER, 1, 0, 9, ""), EXIT_POLICY_GO_ON);
    assert_int_equal(ended(LAUNCH_WORKER, 11, 0, 9, ""), EXIT_POLICY_GO_ON);
    assert_int_equal(ended(LAUNCH_SERVER, 0, 1, 0, "worker 11 (a:2) has disconnected"),
                     EXIT_POLICY_END);
    end_is("worker 11 was killed by signal 9 (Killed)");

    exit_policy_open(&v, true, 2, false);
    assert_int_equal(ended(LAUNCH_WORKER, 0, 1, 0, "worker 1 has left"), EXIT_POLICY_END);
    end_is("worker 0 ended with exit code 1: worker 1 has left");
    assert_int_equal(ended(LAUNCH_SERVER, 0, 1, 0, "worker 0 has left"), EXIT_POLICY_END);
    end_is("worker 0 ended with exit code 1: worker 1 has left");
    assert_int_equal(ended(LAUNCH_WORKER, 1, 7, 0, "worker 0 waits"), EXIT_POLICY_END);
    end_is("worker 1 ended with exit code 7: worker 0 waits");

    // A process that was asked to end is not the cause.
    exit_policy_open(&v, true, 2, false);
    assert_int_equal(ended(LAUNCH_WORKER, 0, 1, 0, "worker 1 has left"), EXIT_POLICY_END);
    struct launch_exit asked = {LAUNCH_WORKER, 1, 0, 15, "", .asked = true};
    (void)exit_policy_exit(&v, &asked);
    end_is("worker 0 ended with exit code 1: worker 1 has left");

    exit_policy_open(&v, true, 100, false);
    for (uint32_t i = 0; i < 100; i++)
        (void)ended(LAUNCH_WORKER, i, 1, 0, "worker 0 worker 1 worker 2 worker 99");
    end_is("worker 99 ended with exit code 1: worker 0 worker 1 worker 2 worker 99");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cause_is_named),
        cmocka_unit_test(all_is_well),
        cmocka_unit_test(a_worker_can_be_lost_but_not_all),
        cmocka_unit_test(some_exit_codes_end_all),
        cmocka_unit_test(a_server_cannot_be_lost),
        cmocka_unit_test(a_server_with_replicas_can_be_lost),
        cmocka_unit_test(the_scheduler_knows_best),
        cmocka_unit_test(ended_for_what_is_known),
        cmocka_unit_test(interrupted_runs),
        cmocka_unit_test(interrupted_processes),
        cmocka_unit_test(programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
