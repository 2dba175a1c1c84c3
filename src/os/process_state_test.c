// The state of processes: of this one, of a stopped child, of a dead child.
//
// SPDX-License-Identifier: Apache-2.0
#include "os/process_state.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit/test.h"

static void test_states(void **state)
{
    (void)state;
    int status;
    assert_int_equal(process_state(getpid()), 'R');
    pid_t child = fork();
    if (child == 0) {
        // The name of a process may look like the end of its field.
        (void)prctl(PR_SET_NAME, "a) T (b");
        (void)raise(SIGSTOP);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_int_equal(process_state(child), 'T');
    assert_true(process_is_stopped(child));
    assert_false(process_is_stopped(getpid()));
    assert_int_equal(kill(child, SIGKILL), 0);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(process_state(child), 'Z');
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(process_state(child), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_states),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
