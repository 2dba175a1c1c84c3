// SPDX-License-Identifier: Apache-2.0
#include "base/err.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit/test.h"

static void test_set(void **state)
{
    (void)state;
    struct err e = {0};
    assert_int_equal(err_set(&e, TUG_EDATA, "line %d", 7), TUG_EDATA);
    assert_int_equal(e.code, TUG_EDATA);
    assert_string_equal(e.text, "line 7");
    assert_int_equal(err_set(NULL, TUG_EIO, "nobody listens"), TUG_EIO);
}

// The reason belongs to the error that was set last, and is kept when context is put in
// front of the text.
static void test_because(void **state)
{
    (void)state;
    struct err e;
    int rc = err_because(&e, TUG_EUSAGE, REASON_NOT_FINITE, 9, "key %d", 9);
    assert_int_equal(rc, TUG_EUSAGE);
    assert_string_equal(e.text, "key 9");
    assert_int_equal(err_wrap(&e, "server %d", 1), TUG_EUSAGE);
    assert_int_equal(e.reason, REASON_NOT_FINITE);
    assert_int_equal(e.about, 9);
    err_set(&e, TUG_EIO, "another");
    assert_int_equal(e.reason, REASON_NONE);
    assert_int_equal(e.about, 0);
    e.reason = REASON_NO_ROOM;
    err_sys(&e, TUG_EIO, "a third");
    assert_int_equal(e.reason, REASON_NONE);
    assert_int_equal(err_because(NULL, TUG_EIO, REASON_NO_ROOM, 0, "none"), TUG_EIO);
}

static void test_add_and_copy(void **state)
{
    (void)state;
    struct err e, other = {0};
    err_because(&e, TUG_EIO, REASON_NO_ROOM, 3, "full");
    err_add(&e, "; wait %d s", 5);
    assert_string_equal(e.text, "full; wait 5 s");
    assert_int_equal(err_copy(&other, &e), TUG_EIO);
    assert_string_equal(other.text, e.text);
    assert_int_equal(other.reason, REASON_NO_ROOM);
    assert_int_equal(other.about, 3);
    assert_int_equal(err_copy(NULL, &e), TUG_EIO);
    err_add(NULL, "nobody reads it");
    for (int i = 0; i < ERR_TEXT_MAX; i++)
        err_add(&e, "%s", "long");
    assert_int_equal(strlen(e.text), ERR_TEXT_MAX - 1);
}

static void test_sys(void **state)
{
    (void)state;
    struct err e = {0};
    errno = ENOENT;
    assert_int_equal(err_sys(&e, TUG_EDATA, "open '%s'", "x"), TUG_EDATA);
    assert_string_equal(e.text, "open 'x': No such file or directory");
    assert_int_equal(err_sys(NULL, TUG_EIO, "nobody listens"), TUG_EIO);
}

static void test_nomem(void **state)
{
    (void)state;
    struct err e = {0};
    assert_int_equal(err_nomem(&e, "a map"), TUG_ENOMEM);
    assert_string_equal(e.text, "out of memory for a map");
}

static void test_wrap(void **state)
{
    (void)state;
    struct err e = {0};
    err_set(&e, TUG_EIO, "disk full");
    assert_int_equal(err_wrap(&e, "part %d", 3), TUG_EIO);
    assert_int_equal(err_wrap(&e, "save '%s'", "m"), TUG_EIO);
    assert_string_equal(e.text, "save 'm': part 3: disk full");
}

// Wrapping an error that was not set still gives a failure.
static void test_wrap_of_nothing(void **state)
{
    (void)state;
    assert_int_equal(err_wrap(NULL, "part %d", 3), TUG_EINTERNAL);
    struct err e = {0};
    assert_int_equal(err_wrap(&e, "part %d", 3), TUG_EINTERNAL);
    assert_int_equal(e.code, TUG_EINTERNAL);
    assert_memory_equal(e.text, "part 3: ", 8);
}

static void test_long_text_is_cut(void **state)
{
    (void)state;
    char text[2 * ERR_TEXT_MAX];
    memset(text, 'a', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    struct err e = {0};
    err_set(&e, TUG_EIO, "%s", text);
    assert_int_equal(strlen(e.text), ERR_TEXT_MAX - 1);
    errno = EIO;
    err_sys(&e, TUG_EIO, "%s", text);
    assert_int_equal(strlen(e.text), ERR_TEXT_MAX - 1);
    err_wrap(&e, "no room");
    assert_int_equal(strlen(e.text), ERR_TEXT_MAX - 1);
}

// Context of any length leaves the reason complete, and no buffer overflows.
static void test_wrap_keeps_the_reason(void **state)
{
    (void)state;
    char context[ERR_TEXT_MAX];
    memset(context, 'c', sizeof(context));
    context[sizeof(context) - 1] = '\0';
    char reason[ERR_TEXT_MAX];
    for (size_t n = 0; n < ERR_TEXT_MAX; n++) {
        memset(reason, 'r', n);
        reason[n] = '\0';
        struct err e = {0};
        err_set(&e, TUG_EDATA, "%s", reason);
        err_wrap(&e, "%s", context);
        size_t len = strlen(e.text);
        assert_int_equal(len, ERR_TEXT_MAX - 1);
        assert_string_equal(e.text + len - n, reason);
    }
}

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(err_text(TUG_EDATA), "bad input data or file");
    assert_string_equal(err_text(1), "unknown status");
}

// Scripts rely on the values of exit codes.
static void test_exit_codes(void **state)
{
    (void)state;
    assert_int_equal(err_exit_code(TUG_OK), 0);
    assert_int_equal(err_exit_code(TUG_EUSAGE), 2);
    assert_int_equal(err_exit_code(TUG_EDATA), 3);
    assert_int_equal(err_exit_code(TUG_EIO), 4);
    assert_int_equal(err_exit_code(TUG_ENOMEM), 4);
    assert_int_equal(err_exit_code(TUG_EINTERNAL), 5);
    assert_int_equal(err_exit_code(TUG_EINTERRUPTED), 130);
    assert_int_equal(err_exit_code(-99), 5);
}

// Programs rely on these values, so they never change.
static void test_public(void **state)
{
    (void)state;
    assert_int_equal(TUG_EUSAGE, -1);
    assert_int_equal(TUG_EINTERRUPTED, -6);
    assert_string_equal(tug_status_text(TUG_OK), "done");
    assert_string_equal(tug_version(), TUG_VERSION);
}

static int count_and_fail(int *calls, int rc)
{
    TRY((++*calls, rc));
    return 1;
}

static void test_try_evaluates_once(void **state)
{
    (void)state;
    int calls = 0;
    assert_int_equal(count_and_fail(&calls, TUG_EIO), TUG_EIO);
    assert_int_equal(calls, 1);
    assert_int_equal(count_and_fail(&calls, 0), 1);
    assert_int_equal(calls, 2);
}

// A system error names the limit that was reached, if there is one.
static void test_limits(void **state)
{
    (void)state;
    static const struct {
        int resource, error;
        const char *says;
    } cases[] = {
        {RLIMIT_NOFILE, EMFILE, "ulimit -n"},    {RLIMIT_FSIZE, EFBIG, "ulimit -f"},
        {RLIMIT_AS, ENOMEM, "ulimit -v"},        {RLIMIT_NPROC, EAGAIN, "ulimit -u"},
        {RLIMIT_CORE, ENFILE, "fs.file-max"},    {RLIMIT_CORE, ENOSPC, "free some space"},
        {RLIMIT_CORE, EROFS, "write elsewhere"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        pid_t pid = fork(); // the limit applies only to the child
        assert_true(pid >= 0);
        if (pid == 0) {
            struct err e, other;
            struct rlimit limit;
            getrlimit((__rlimit_resource_t)cases[i].resource, &limit);
            if (limit.rlim_cur > 1 << 20)
                limit.rlim_cur = 1 << 20;
            setrlimit((__rlimit_resource_t)cases[i].resource, &limit);
            errno = cases[i].error;
            bool good = err_sys(&e, TUG_EIO, "cannot work") == TUG_EIO &&
                        strstr(e.text, cases[i].says) != NULL;
            err_set(&other, TUG_EDATA, "link broke");
            good = good && err_limit(&other, -cases[i].error) == TUG_EDATA &&
                   strstr(other.text, cases[i].says) != NULL;
            if (cases[i].error == ENOMEM)
                good = good && err_nomem(&e, "rows") == TUG_ENOMEM &&
                       strncmp(e.text, "out of memory for rows; ", 24) == 0 &&
                       strstr(e.text, "1 MiB") != NULL;
            _exit(good ? 0 : 1);
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
    assert_int_equal(err_limit(NULL, EMFILE), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_set),
        cmocka_unit_test(test_because),
        cmocka_unit_test(test_add_and_copy),
        cmocka_unit_test(test_sys),
        cmocka_unit_test(test_nomem),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_wrap),
        cmocka_unit_test(test_wrap_of_nothing),
        cmocka_unit_test(test_long_text_is_cut),
        cmocka_unit_test(test_wrap_keeps_the_reason),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_exit_codes),
        cmocka_unit_test(test_public),
        cmocka_unit_test(test_try_evaluates_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
