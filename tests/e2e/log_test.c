// Log files and log lines of commands: files that are rotated under living processes lose no
// line, SIGHUP still ends a process that has no log file or has lost its terminal, and
// --log-format json makes every line valid.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/processes.h"

#include <poll.h>
#include <pty.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "os/clock.h"
#include "os/log_json.h"

enum { ROTATIONS = 12 };

#define TRAIN "train --data day.svm --format libsvm --model lr --threads 1"

static int begin(void **state)
{
    if (cluster_begin(state) != 0)
        return -1;
    setenv("XDG_RUNTIME_DIR", files_dir, 1);
    struct e2e_data d = {.path = "day.svm", .rows = 2000, .seed = 1};
    e2e_write_data(&d);
    return 0;
}

static void await_file(const char *path, bool with_lines)
{
    uint64_t until = clock_ns() + (uint64_t)CLUSTER_PATIENCE * 1000000000;
    struct stat st;
    while (stat(path, &st) != 0 || (with_lines && st.st_size == 0)) {
        if (clock_ns() > until)
            cluster_fail("%s did not come", path);
        poll(NULL, 0, 2);
    }
}

// Renames a log as logrotate does, several times; each time the process makes a new file.
// With `busy`, waits until this file has lines. The files' names are PATH.0, ...
static void rotate(const char *path, pid_t pid, bool busy)
{
    for (int i = 0; i < ROTATIONS; i++) {
        await_file(path, busy);
        assert_int_equal(rename(path, files_path("%s.%d", path, i)), 0);
        assert_int_equal(kill(pid, SIGHUP), 0);
    }
    await_file(path, busy);
}

// Returns the text of all files of a rotated log, in their order.
static struct buf rotated(const char *path)
{
    struct buf all = BUF_INIT(1 << 28);
    for (int i = 0; i <= ROTATIONS; i++) {
        const char *name = i < ROTATIONS ? files_path("%s.%d", path, i) : path;
        char *text = files_read(name, NULL);
        assert_non_null(text);
        assert_int_equal(buf_add(&all, text, strlen(text)), 0);
        mem_free(text);
    }
    return all;
}

// Checks that each line is a log line. Returns the number of lines of the role.
static size_t check_lines(const char *text, const char *role)
{
    char said[8192], mark[64];
    size_t n = 0;
    snprintf(mark, sizeof(mark), "\"role\":\"%s\"", role);
    for (size_t len; *text != '\0'; text += len + 1) {
        len = strcspn(text, "\n");
        if (!log_json_message(text, len, said, sizeof(said)) || text[len] != '\n')
            fail_msg("this is not a log line: %.*s", (int)len, text);
        const char *at = strstr(text, mark);
        n += at != NULL && at < text + len;
    }
    return n;
}

static void training_is_rotated(void **state)
{
    (void)state;
    cluster_start("t", TRAIN " --epochs 1000000 --log-every 1 --log-format json "
                             "--log-dir logs");
    rotate("logs/train.log", cluster_pid("t"), true);
    cluster_signal("t", SIGTERM);
    cluster_ends("t", 130, CLUSTER_PATIENCE);
    struct buf all = rotated("logs/train.log");
    assert_string_equal(buf_str(&all), e2e_err); // the log also has the last error
    assert_true(check_lines(e2e_err, "train") > ROTATIONS);
    assert_non_null(strstr(e2e_err, "\"message\":\"tug train: "));
    buf_free(&all);
}

static void launch_is_rotated(void **state)
{
    (void)state;
    cluster_start("l", "launch --workers 2 --cluster logs --log-dir ll --log-format json "
                       "-- " TRAIN " --epochs 1000000 --log-every 1");
    rotate("ll/scheduler.log", cluster_pid("l"), true);
    await_file("ll/worker-1.log", false);
    cluster_signal("l", SIGTERM);
    cluster_ends("l", 130, CLUSTER_PATIENCE);
    // Waits until the log has the reason why the run ended.
    await_file("ll/launch.log", true);
    struct buf all = rotated("ll/scheduler.log");
    size_t n = check_lines(buf_str(&all), "scheduler");
    size_t shown = check_lines(e2e_err, "scheduler");
    assert_true(n > ROTATIONS);
    // The last line of the scheduler may be missing, because launch prints it only once,
    // as its own error.
    assert_true(shown == n || shown + 1 == n);
    buf_free(&all);
}

// A server that has nothing to log makes the new file at once, too.
static void server_is_rotated(void **state)
{
    (void)state;
    cluster_start("s", "scheduler --servers 1 --workers 1 --log-format json");
    cluster_await("s", "waiting for");
    cluster_start("v", "server --scheduler 127.0.0.1:%u --log-file v.log",
                  cluster_port("s"));
    (void)cluster_node("s", "server 0");
    rotate("v.log", cluster_pid("v"), false);
    cluster_signal("v", SIGTERM);
    cluster_ends("v", 130, CLUSTER_PATIENCE);
    struct buf all = rotated("v.log");
    assert_non_null(strstr(buf_str(&all), " error tug server: "));
    buf_free(&all);
    cluster_signal("s", SIGHUP); // this process has no log file, so the signal ends it
    cluster_ends("s", 130, CLUSTER_PATIENCE);
}

static void hangup_ends_without_a_file(void **state)
{
    (void)state;
    cluster_start("t", TRAIN " --epochs 1000000 --log-every 1");
    cluster_await("t", "pass 1");
    cluster_signal("t", SIGHUP);
    cluster_ends("t", 130, CLUSTER_PATIENCE);
}

// In a run with a log file, SIGHUP reopens this file while the terminal exists, and ends
// the run when the terminal is gone.
static void hangup_of_a_terminal(void **state)
{
    (void)state;
    int fd, status;
    if (!pseudo_terminals_are_there())
        skip_because(NO_PSEUDO_TERMINALS);
    const char *const argv[] = {
        "tug",     "train",     "--data", "day.svm",  "--format",
        "libsvm",  "--model",   "lr",     "--epochs", "1000000",
        "--quiet", "--log-dir", "tty",    NULL}; // no process reads the terminal
    pid_t pid = forkpty(&fd, NULL, NULL, NULL);
    assert_true(pid >= 0);
    if (pid == 0) {
        signal(SIGHUP, SIG_DFL); // nohup, which may run the tests, ignores it
        execv(getenv("TUG_BINARY"), (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    rotate("tty/train.log", pid, false);
    assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
    close(fd);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(e2e_status(status), 130);
}

// Errors about options, names and data are JSON, too.
static void errors_are_json(void **state)
{
    (void)state;
    static const char *const words[] = {
        "train --log-format json --bogus 1",
        "train --log-format=json --data no\xff\"such\\file --format libsvm",
        "eval --from none --data day.svm --log-format json",
        "predict --from none --data day.svm --log-format json",
        "launch --log-format json -- train --data none.svm --format libsvm --model lr",
        "launch -- train --data none.svm --format libsvm --log-format json",
        "worker --scheduler 127.0.0.1:1 --connect-timeout 0.1 --log-format json -- train",
        "train --local=0 --pservers=127.0.0.1 --log-format json --bogus=1",
        "server --scheduler 127.0.0.1:1 --connect-timeout 0.1 --log-format json",
    };
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
        assert_int_not_equal(tug("%s", words[i]), 0);
        char role[16];
        snprintf(role, sizeof(role), "%.*s", (int)strcspn(words[i], " "), words[i]);
        if (check_lines(e2e_err, role) == 0)
            fail_msg("%s: %s", words[i], e2e_err);
    }
    setenv("TUG_LOG_FORMAT", "json", 1);
    assert_int_equal(tug("train --bogus 1"), 2);
    unsetenv("TUG_LOG_FORMAT");
    assert_int_equal(check_lines(e2e_err, "train"), 1);
}

// Lines of programs get the role and rank of the process that printed them.
static void programs_are_wrapped(void **state)
{
    (void)state;
    files_write("say.sh", "echo out; printf 'a\\377\"\\n' >&2\n");
    tug_ends(0, "launch --workers 2 --log-format json -- sh say.sh");
    assert_int_equal(check_lines(e2e_out, "worker"), 2);
    assert_int_equal(check_lines(e2e_err, "worker"), 2);
    assert_int_equal(check_lines(e2e_err, "scheduler"), 1);
    e2e_says("\"role\":\"worker\",\"rank\":1,\"message\":\"a\\\\xff\\\"\"}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_test(training_is_rotated),  cluster_test(launch_is_rotated),
        cluster_test(server_is_rotated),    cluster_test(hangup_ends_without_a_file),
        cluster_test(hangup_of_a_terminal), cluster_test(errors_are_json),
        cluster_test(programs_are_wrapped),
    };
    return cmocka_run_group_tests(tests, begin, cluster_end);
}
