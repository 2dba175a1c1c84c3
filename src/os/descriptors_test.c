// SPDX-License-Identifier: Apache-2.0
#include "os/descriptors.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit/test.h"

static void raised_to_the_hard_limit(void **state)
{
    (void)state;
    struct rlimit was, now;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    now = was;
    now.rlim_cur = 64;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
    assert_int_equal(descriptors_limit(), 64);
    descriptors_raise();
    uint64_t most = was.rlim_max < 1 << 20 ? was.rlim_max : 1 << 20;
    assert_int_equal(descriptors_limit(), most);
    descriptors_raise(); // a second call changes nothing
    assert_int_equal(descriptors_limit(), most);
}

static void open_descriptors_are_counted(void **state)
{
    int ends[2];
    (void)state;
    uint64_t before = descriptors_left();
    assert_in_range(before, 3, descriptors_limit());
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(descriptors_left(), before - 2);
    close(ends[0]);
    close(ends[1]);
}

// A child process closes some of the descriptors 0 to 2 and then calls
// descriptors_hold_standard. A new file gets none of these numbers, and reading or
// writing them still fails.
static void standard_descriptors_are_held(void **state)
{
    (void)state;
    for (int closed = 0; closed < 8; closed++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            for (int fd = 0; fd < 3; fd++)
                if ((closed >> fd & 1) != 0)
                    close(fd);
            descriptors_hold_standard();
            int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
            bool good = next > 2;
            for (int fd = 0; fd < 3; fd++) {
                char c = 0;
                // F_GETFD returns 0: child processes inherit the descriptor.
                if ((closed >> fd & 1) != 0)
                    good = good && fcntl(fd, F_GETFD) == 0 &&
                           (fd == 0 ? read(fd, &c, 1) : write(fd, &c, 1)) < 0;
            }
            _exit(good ? 0 : 1);
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(raised_to_the_hard_limit),
                                       cmocka_unit_test(open_descriptors_are_counted),
                                       cmocka_unit_test(standard_descriptors_are_held)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
