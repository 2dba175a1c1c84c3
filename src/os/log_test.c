// SPDX-License-Identifier: Apache-2.0
#include "os/log.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "kit/files.h"
#include "kit/test.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/log_json.h"
#include "os/team.h"

static char stderr_path[FILE_PATH_MAX];
static char log_path[FILE_PATH_MAX];

static int make_dir(void **state)
{
    return files_begin(state) != 0 ||
           file_join(stderr_path, files_dir, "stderr", NULL) != 0 ||
           file_join(log_path, files_dir, "log", NULL) != 0;
}

// Redirects standard error to a file for a while, without losing cmocka's own messages.
static int divert_stderr(void)
{
    int saved = dup(STDERR_FILENO);
    int fd = open(stderr_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(fd, STDERR_FILENO);
    close(fd);
    return saved;
}

static void restore_stderr(int saved)
{
    dup2(saved, STDERR_FILENO);
    close(saved);
}

static void read_text(const char *path, struct buf *b)
{
    struct err e;
    assert_int_equal(file_read(path, b, &e), 0);
}

static void test_levels(void **state)
{
    (void)state;
    int saved = divert_stderr();
    log_debug("no %d", 1);
    log_info("pass %d", 2);
    log_warn("slow");
    log_error("bad");
    log_set_level(LOG_DEBUG);
    log_debug("detail");
    log_set_level(LOG_ERROR);
    log_warn("not shown");
    log_set_level(LOG_INFO);
    restore_stderr(saved);
    struct buf b = BUF_INIT(10000);
    read_text(stderr_path, &b);
    assert_string_equal(buf_str(&b),
                        "pass 2\nwarning: slow\nerror: bad\ndebug: detail\n");
    buf_free(&b);
}

// If a line cannot be written to the log file, the error cannot be written there either;
// log_check_file returns the first such error.
static void test_full_file(void **state)
{
    (void)state;
    struct err e = {0};
    struct rlimit was, few;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    few = (struct rlimit){10, was.rlim_max};
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    int saved = divert_stderr();
    assert_int_equal(log_set_file(log_path, &e), 0);
    assert_int_equal(log_check_file(&e), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &few), 0);
    log_warn("one");
    log_warn("two");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    int rc = log_check_file(&e);
    assert_int_equal(log_set_file(NULL, NULL), 0);
    assert_int_equal(log_check_file(NULL), 0);
    restore_stderr(saved);
    signal(SIGXFSZ, handler);
    unlink(log_path);
    assert_int_equal(rc, TUG_EIO);
    assert_non_null(strstr(e.text, "cannot write the log '"));
    assert_non_null(strstr(e.text, "File too large"));
}

// After a call of log_unwant for each call of log_want, in any order, the
// previous level is back.
static void test_wanted(void **state)
{
    (void)state;
    enum log_level before = log_set_level(LOG_INFO);
    log_want(LOG_WARN);
    assert_false(log_shows(LOG_INFO));
    log_want(LOG_DEBUG);
    assert_true(log_shows(LOG_WARN) && !log_shows(LOG_INFO));
    log_want(LOG_ERROR);
    log_unwant(LOG_WARN);
    assert_false(log_shows(LOG_WARN));
    log_unwant(LOG_ERROR);
    assert_true(log_shows(LOG_DEBUG));
    log_unwant(LOG_DEBUG);
    assert_true(log_shows(LOG_INFO) && !log_shows(LOG_DEBUG));
    log_set_level(before);
}

static void test_one_line_an_event(void **state)
{
    (void)state;
    char big[5000];
    memset(big, 'x', sizeof(big));
    big[sizeof(big) - 1] = '\0';
    int saved = divert_stderr();
    log_info("a\nerror: b\x1b[2J\x7f");
    log_info("%s", big);
    restore_stderr(saved);
    struct buf b = BUF_INIT(10000);
    read_text(stderr_path, &b);
    const char *text = buf_str(&b);
    assert_int_equal(strncmp(text, "a\\nerror: b\\x1b[2J\\x7f\nxxx", 26), 0);
    assert_true(b.len < 4000);
    assert_int_equal(text[b.len - 1], '\n');
    buf_free(&b);
}

// Checks for a time such as "2026-01-31T23:59:59.999Z ", followed by `expect`.
static void check_file_line(const char *line, const char *expect)
{
    const char *shape = "dddd-dd-ddTdd:dd:dd.dddZ ";
    for (; *shape != '\0'; shape++, line++)
        assert_true(*shape == 'd' ? *line >= '0' && *line <= '9' : *line == *shape);
    assert_int_equal(strncmp(line, expect, strlen(expect)), 0);
}

static void test_file(void **state)
{
    (void)state;
    struct err e;
    int saved = divert_stderr();
    for (int i = 0; i < 2; i++) { // the second call appends to the file
        assert_int_equal(log_set_file(log_path, &e), 0);
        log_warn("line %d", i);
    }
    assert_int_equal(log_set_file(NULL, &e), 0);
    log_warn("not in the file");
    restore_stderr(saved);
    struct buf b = BUF_INIT(10000);
    read_text(log_path, &b);
    const char *text = buf_str(&b);
    const char *second = strchr(text, '\n') + 1;
    check_file_line(text, "warn line 0\n");
    check_file_line(second, "warn line 1\n");
    assert_int_equal(strchr(second, '\n')[1], '\0');
    buf_free(&b);
}

// A full log file is reported once, and later lines still go to standard error.
static void test_file_that_is_full(void **state)
{
    (void)state;
    enum { FULL = 8192 };
    struct err e;
    struct rlimit before, now;
    FILE *f = fopen(log_path, "w");
    assert_non_null(f);
    for (int i = 0; i < FULL; i++)
        putc('x', f);
    assert_int_equal(fclose(f), 0);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    now = (struct rlimit){FULL, before.rlim_max};
    assert_int_equal(log_set_file(log_path, &e), 0);
    int saved = divert_stderr();
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &now), 0);
    log_warn("one");
    log_warn("two");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    restore_stderr(saved);
    assert_int_equal(log_set_file(NULL, &e), 0);
    struct buf b = BUF_INIT(10000);
    read_text(stderr_path, &b);
    char want[2 * FILE_PATH_MAX];
    snprintf(
        want, sizeof(want),
        "warning: one\nwarning: cannot write the log '%s': File too large; a file may "
        "have at most 8192 bytes here: raise that limit (ulimit -f)\nwarning: two\n",
        log_path);
    assert_string_equal(buf_str(&b), want);
    buf_free(&b);
}

static void test_file_that_cannot_be_opened(void **state)
{
    (void)state;
    struct err e;
    assert_int_equal(log_set_file("/nonexistent/log", &e), TUG_EIO);
    assert_non_null(strstr(e.text, "'/nonexistent/log': No such file"));
}

// In JSON, standard error and the file have the same line.
static void test_json(void **state)
{
    (void)state;
    struct err e;
    const struct log_field field = {"pass", 3};
    unlink(log_path);
    log_set_format(LOG_JSON);
    log_set_role("server", -1);
    log_set_rank(5);
    int saved = divert_stderr();
    assert_int_equal(log_set_file(log_path, &e), 0);
    log_warn("a \"name\" of others: \xff\n");
    log_write_fields(LOG_INFO, &field, 1, "pass %d", 3);
    log_write_fields(LOG_DEBUG, &field, 1, "not shown");
    log_last_words("tug server: no \xe2 way");
    assert_int_equal(log_set_file(NULL, &e), 0);
    restore_stderr(saved);
    log_set_format(LOG_TEXT);
    log_set_role(NULL, -1);
    struct buf b = BUF_INIT(10000), f = BUF_INIT(10000);
    read_text(stderr_path, &b);
    read_text(log_path, &f);
    assert_string_equal(buf_str(&b), buf_str(&f));
    const char *line = buf_str(&b);
    char said[200];
    static const char *const wanted[] = {"a \"name\" of others: \\xff\\n", "pass 3",
                                         "tug server: no \\xe2 way"};
    for (int i = 0; i < 3; i++, line = strchr(line, '\n') + 1) {
        assert_true(log_json_message(line, strcspn(line, "\n"), said, sizeof(said)));
        assert_string_equal(said, wanted[i]);
        assert_non_null(strstr(line, "\"role\":\"server\",\"rank\":5,"));
    }
    assert_string_equal(line, "");
    assert_non_null(strstr(buf_str(&b), "\"pass\":3,"));
    buf_free(&b);
    buf_free(&f);
}

static void file_has(const char *path, const char *text, bool yes)
{
    struct buf b = BUF_INIT(10000);
    read_text(path, &b);
    assert_true((strstr(buf_str(&b), text) != NULL) == yes);
    buf_free(&b);
}

// After a rotation, lines go to the new file. If that cannot be opened, they go to the
// old one.
static void test_reopen(void **state)
{
    (void)state;
    struct err e;
    char old[FILE_PATH_MAX], older[FILE_PATH_MAX];
    assert_int_equal(file_join(old, files_dir, "old", NULL), 0);
    assert_int_equal(file_join(older, files_dir, "older", NULL), 0);
    unlink(log_path);
    log_reopen(); // does nothing, because no file is open
    assert_false(log_has_file());
    int saved = divert_stderr();
    assert_int_equal(log_set_file(log_path, &e), 0);
    assert_true(log_has_file());
    log_warn("one");
    assert_int_equal(rename(log_path, older), 0);
    log_warn("two");
    log_reopen();
    log_warn("three");
    assert_int_equal(rename(log_path, old), 0);
    assert_int_equal(mkdir(log_path, 0700), 0);
    log_reopen();
    log_warn("four");
    assert_int_equal(log_check_file(&e), 0);
    assert_int_equal(log_set_file(NULL, &e), 0);
    restore_stderr(saved);
    assert_int_equal(rmdir(log_path), 0);
    file_has(older, "warn one\n", true);
    file_has(older, "warn two\n", true);
    file_has(older, "three", false);
    file_has(old, "warn three\n", true);
    file_has(old, "warn four\n", true);
    file_has(stderr_path, "; messages still go to the earlier file\n", true);
}

static void write_lines(void *arg, int rank)
{
    (void)arg;
    for (int i = 0; i < 100; i++)
        log_info("member %d says the same words again and again", rank);
}

static void test_lines_of_threads_do_not_mix(void **state)
{
    (void)state;
    struct err e;
    struct team *t = NULL;
    assert_int_equal(team_open(&t, 4, &e), 0);
    int saved = divert_stderr();
    team_run(t, write_lines, NULL);
    restore_stderr(saved);
    team_close(t);
    struct buf b = BUF_INIT(100000);
    read_text(stderr_path, &b);
    const char *line = buf_str(&b);
    for (int i = 0; i < 400; i++, line = strchr(line, '\n') + 1)
        assert_int_equal(strcspn(line, "\n"),
                         strlen("member 0 says the same words again and again"));
    assert_int_equal(*line, '\0');
    buf_free(&b);
}

static void test_clocks(void **state)
{
    (void)state;
    uint64_t a = clock_ns();
    double s = clock_seconds();
    uint64_t b = clock_ns();
    assert_true(a <= b && (double)a * 1e-9 <= s + 1e-6 && s <= (double)b * 1e-9 + 1e-6);
    assert_true(clock_unix_ns() > 1700000000ull * 1000000000ull);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_file),
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_wanted),
        cmocka_unit_test(test_one_line_an_event),
        cmocka_unit_test(test_file),
        cmocka_unit_test(test_file_that_is_full),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_reopen),
        cmocka_unit_test(test_file_that_cannot_be_opened),
        cmocka_unit_test(test_lines_of_threads_do_not_mix),
        cmocka_unit_test(test_clocks),
    };
    return cmocka_run_group_tests(tests, make_dir, files_end);
}
