// A process removes directories that killed processes have left; those of living
// processes, and other users' paths with similar names, stay.
//
// SPDX-License-Identifier: Apache-2.0
#include "doors/models/temp_home.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit/test.h"

static char tmp[] = "/tmp/tug-homes-XXXXXX";

static int begin(void **state)
{
    (void)state;
    return mkdtemp(tmp) == NULL || setenv("TMPDIR", tmp, 1) != 0;
}

static int finish(void **state)
{
    (void)state;
    return rmdir(tmp);
}

static void in_tmp(char path[FILE_PATH_MAX], const char *name)
{
    OK(file_join(path, tmp, name, &ok_e));
}

// Starts a process that makes a directory with a link in it, reports the directory's
// path, and sleeps until it is killed.
static pid_t start(const char *link_to, char ret[FILE_PATH_MAX])
{
    int said[2];
    assert_int_equal(pipe(said), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct temp_home h;
        struct err e;
        char path[FILE_PATH_MAX], link[FILE_PATH_MAX];
        if (temp_home_make(&h, "model", &e) != 0 ||
            file_join(path, h.path, "model", NULL) != 0 || mkdir(path, 0700) != 0 ||
            file_join(link, path, "link", NULL) != 0 || symlink(link_to, link) != 0 ||
            write(said[1], h.path, sizeof(h.path)) != sizeof(h.path))
            _exit(1);
        alarm(60); // ends this process in case the test fails
        for (;;)
            pause();
    }
    close(said[1]);
    size_t got = 0;
    while (got < FILE_PATH_MAX) {
        ssize_t n = read(said[0], ret + got, FILE_PATH_MAX - got);
        assert_true(n > 0);
        got += (size_t)n;
    }
    close(said[0]);
    return pid;
}

static void end(pid_t pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void test_killed(void **state)
{
    (void)state;
    char dead[FILE_PATH_MAX], alive[FILE_PATH_MAX], far[FILE_PATH_MAX],
        file[FILE_PATH_MAX];
    struct temp_home h, other;
    in_tmp(far, "far");
    assert_int_equal(mkdir(far, 0700), 0);
    OK(file_join(file, far, "mine", &ok_e));
    int fd = open(file, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    close(fd);
    pid_t one = start(far, dead), two = start(far, alive);
    end(one);
    assert_true(file_exists(dead));
    OK(temp_home_make(&h, "model", &ok_e));
    // The link in the directory is removed, too, but not its target.
    assert_false(file_exists(dead));
    assert_true(file_exists(alive) && file_exists(file) && file_exists(h.path));
    // An existing directory of this process is not removed.
    OK(temp_home_make(&other, "model", &ok_e));
    assert_true(file_exists(alive) && file_exists(h.path));
    end(two);
    temp_home_remove(&other, 0);
    temp_home_remove(&h, 0);
    temp_home_remove(&h, 0);
    OK(temp_home_make(&h, "model", &ok_e));
    assert_false(file_exists(alive));
    temp_home_remove(&h, 0);
    OK(file_remove_tree(far, &ok_e));
}

// A path that has only the right name or only the right mode, a link, or another kind of file is
// not ours.
static void test_foreign_paths(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        mode_t mode;
    } others[] = {{"tug-model-2024-latest", 0755},  {"tug-model-2025-latest", 0700},
                  {"tug-model-mine-latest", 01700}, {"tug-model-7-abc", 01700},
                  {"tug-model-7-../abc", 0},        {"tug-new-abcdef", 0700},
                  {"tug-copy-7-abcdef", 01700}};
    char path[FILE_PATH_MAX], link[FILE_PATH_MAX];
    struct temp_home h;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        in_tmp(path, others[i].name);
        if (others[i].mode != 0)
            assert_true(mkdir(path, 0700) == 0 && chmod(path, others[i].mode) == 0);
    }
    in_tmp(path, "tug-copy-7-abcdef");
    in_tmp(link, "tug-model-8-abcdef");
    assert_int_equal(symlink(path, link), 0);
    OK(temp_home_make(&h, "model", &ok_e));
    temp_home_remove(&h, 0);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        in_tmp(path, others[i].name);
        if (others[i].mode != 0)
            assert_int_equal(rmdir(path), 0);
    }
    assert_int_equal(unlink(link), 0);
}

static void test_errors(void **state)
{
    (void)state;
    struct temp_home h;
    struct err e;
    assert_int_equal(setenv("TMPDIR", "/nowhere", 1), 0);
    assert_int_equal(temp_home_make(&h, "model", &e), TUG_EIO);
    assert_non_null(strstr(e.text, "cannot make /nowhere/tug-new-"));
    temp_home_remove(&h, 0);
    assert_int_equal(setenv("TMPDIR", tmp, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed),
        cmocka_unit_test(test_foreign_paths),
        cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, begin, finish);
}
