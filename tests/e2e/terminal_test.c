// The output on a terminal (a pty) of 60 columns that becomes narrower during a run; and the
// output of an interrupted run.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>

enum { WIDTH = 60, NARROW = 30, SECONDS = 60, SEEN_BYTES = 1 << 22 };

static char seen[SEEN_BYTES]; // everything that the terminal has received
static size_t n_seen;

static pid_t start_at_terminal(int *ret_fd, const char *const *argv)
{
    struct winsize size = {.ws_row = 24, .ws_col = WIDTH};
    if (!pseudo_terminals_are_there())
        skip_because(NO_PSEUDO_TERMINALS);
    pid_t pid = forkpty(ret_fd, NULL, NULL, &size);
    assert_true(pid >= 0);
    if (pid == 0) {
        setenv("TERM", "xterm", 1);
        execv(getenv("TUG_BINARY"), (char *const *)argv);
        _exit(127);
    }
    n_seen = 0;
    return pid;
}

// Reads the next output; returns false when the other end is closed.
static bool read_some(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (poll(&p, 1, 1000) <= 0)
        return true;
    assert_true(n_seen < SEEN_BYTES - 1);
    ssize_t n = read(fd, seen + n_seen, SEEN_BYTES - 1 - n_seen);
    if (n <= 0)
        return false;
    n_seen += (size_t)n;
    seen[n_seen] = '\0';
    return true;
}

// Counts the progress lines that were redrawn, from `at` on; sets *ret_longest to the
// longest length.
static size_t drawn_lines(const char *at, size_t *ret_longest)
{
    size_t n = 0;
    *ret_longest = 0;
    while ((at = strstr(at, "pass ")) != NULL) {
        size_t len = strcspn(at, "\r\n");
        bool complete = at[len] == '\r' && at[len + 1] == '\033';
        n += complete;
        if (complete && len > *ret_longest)
            *ret_longest = len;
        at += len;
    }
    return n;
}

static void wait_for_drawn(int fd, size_t from, size_t want)
{
    time_t end = time(NULL) + SECONDS;
    size_t longest;
    while (drawn_lines(seen + from, &longest) < want) {
        if (time(NULL) > end || !read_some(fd))
            fail_msg("only this was drawn: %s", seen + from);
    }
}

// Checks the final screen: the text between line ends, without the erased parts.
static void check_screen(void)
{
    char row[4096];
    size_t n = 0;
    for (const char *c = seen; *c != '\0'; c++) {
        if (*c == '\r' || *c == '\n') {
            row[n] = '\0';
            if (*c == '\n' && strstr(row, "examples/s") != NULL &&
                strstr(row, " at ") == NULL)
                fail_msg("a rest of the progress line stays: '%s'", row);
            n = *c == '\n' ? 0 : n;
        } else if (strncmp(c, "\033[K", 3) == 0 || strncmp(c, "\033[J", 3) == 0) {
            n = 0;
            c += 2;
        } else if (*c == '\033') {
            c += strcspn(c, "A");
        } else if (n < sizeof(row) - 1) {
            row[n++] = *c;
        }
    }
}

static void progress(void **state)
{
    (void)state;
    int fd, status;
    const char *const argv[] = {"tug",       "train",   "--data", "data.svm", "--format",
                                "libsvm",    "--model", "fm",     "--epochs", "100000",
                                "--threads", "1",       NULL};
    pid_t pid = start_at_terminal(&fd, argv);
    size_t longest;
    wait_for_drawn(fd, 0, 3);
    drawn_lines(seen, &longest);
    assert_in_range(longest, 10, WIDTH - 1);

    struct winsize size = {.ws_row = 24, .ws_col = NARROW};
    assert_int_equal(ioctl(fd, TIOCSWINSZ, &size), 0);
    // The first of these two lines may have been drawn before the width changed.
    wait_for_drawn(fd, n_seen, 2);
    size_t narrow = n_seen;
    wait_for_drawn(fd, narrow, 3);
    drawn_lines(seen + narrow, &longest);
    assert_in_range(longest, 5, NARROW - 1);

    assert_int_equal(kill(pid, SIGINT), 0);
    while (read_some(fd))
        ;
    close(fd);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 130);
    check_screen();
}

static void quiet(void **state)
{
    (void)state;
    int fd, status;
    const char *const argv[] = {"tug",      "train",  "--data",  "data.svm",
                                "--format", "libsvm", "--model", "lr",
                                "--epochs", "3",      "--quiet", NULL};
    pid_t pid = start_at_terminal(&fd, argv);
    while (read_some(fd))
        ;
    close(fd);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_null(strstr(seen, "pass 1/3"));
    assert_non_null(strstr(seen, "3 passes over"));
}

// Help fits the width of the terminal; only examples keep their lines, because users copy
// them.
static void help(void **state)
{
    (void)state;
    int fd, status;
    const char *const argv[] = {"tug", "train", "--help", NULL};
    pid_t pid = start_at_terminal(&fd, argv);
    while (read_some(fd))
        ;
    close(fd);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    char *examples = strstr(seen, "\nExamples");
    assert_non_null(examples);
    for (const char *line = seen; line < examples; line += strcspn(line, "\n") + 1)
        assert_in_range(strcspn(line, "\r\n"), 0, WIDTH - 1);
}

static int begin(void **state)
{
    if (e2e_begin(state) != 0)
        return -1;
    e2e_write_data(&(struct e2e_data){.path = "data.svm", .rows = 60000, .seed = 1});
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(progress),
        cmocka_unit_test(quiet),
        cmocka_unit_test(help),
    };
    return cmocka_run_group_tests(tests, begin, e2e_end);
}
