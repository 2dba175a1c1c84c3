// SPDX-License-Identifier: Apache-2.0
#include "os/runtime_dir.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit/test.h"

static char dir[] = "/tmp/tug-runtime-XXXXXX";
static char mine[FILE_PATH_MAX]; // DIR/tug

static int begin(void **state)
{
    (void)state;
    return mkdtemp(dir) == NULL || file_join(mine, dir, "tug", NULL) != 0;
}

static int finish(void **state)
{
    (void)state;
    return rmdir(dir);
}

static int fresh(void **state)
{
    (void)state;
    (void)remove(mine); // a previous test may have left it
    return chmod(dir, 0700) != 0 || setenv("XDG_RUNTIME_DIR", dir, 1) != 0;
}

// Checks that both making and reading the directory is refused with these words.
static void assert_refused(const char *words)
{
    struct err e = {0};
    char path[FILE_PATH_MAX];
    assert_int_equal(runtime_dir_make(path, &e), TUG_EIO);
    if (strstr(e.text, words) == NULL || strstr(e.text, mine) == NULL)
        fail_msg("%s", e.text);
    assert_false(runtime_dir_look(0, path));
}

static void test_is_made_and_found(void **state)
{
    (void)state;
    struct err e = {0};
    struct stat s;
    char path[FILE_PATH_MAX];
    assert_false(runtime_dir_look(0, path));
    mode_t before = umask(0);
    assert_int_equal(runtime_dir_make(path, &e), 0);
    umask(before);
    assert_string_equal(path, mine);
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_mode & 07777, 0700);
    assert_int_equal(runtime_dir_make(path, &e), 0); // the directory exists already
    assert_true(runtime_dir_look(0, path));
    assert_string_equal(path, mine);
}

static void test_wrong_modes_are_refused(void **state)
{
    (void)state;
    static const mode_t modes[] = {0750, 0701, 0777, 01777, 0500};
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        assert_int_equal(fresh(NULL), 0);
        assert_int_equal(mkdir(mine, 0700), 0);
        assert_int_equal(chmod(mine, modes[i]), 0);
        assert_refused("chmod 0700");
    }
}

static void test_links_and_files_are_refused(void **state)
{
    (void)state;
    assert_int_equal(symlink(dir, mine), 0);
    assert_refused("it is a link");
    assert_int_equal(unlink(mine), 0);
    assert_int_equal(symlink("nowhere", mine), 0);
    assert_refused("it is a link");
    assert_int_equal(unlink(mine), 0);
    FILE *f = fopen(mine, "w");
    assert_non_null(f);
    fclose(f);
    assert_refused("it is a file");
}

static void test_a_directory_where_others_write_is_refused(void **state)
{
    (void)state;
    assert_int_equal(mkdir(mine, 0700), 0);
    assert_int_equal(chmod(dir, 0777), 0);
    assert_refused("others may write");
    assert_int_equal(chmod(dir, 01777), 0); // like /tmp
    assert_int_equal(runtime_dir_check(mine, NULL), 0);
}

// The test needs root, because only root can give a directory to another user.
static void test_anothers_directory_is_refused(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip_because("only root can become another user");
    assert_int_equal(mkdir(mine, 0700), 0);
    assert_int_equal(chown(mine, 12345, 12345), 0);
    assert_refused("uid 12345");
    assert_int_equal(rmdir(mine), 0);
    assert_int_equal(mkdir(mine, 0700), 0);
    assert_int_equal(chown(dir, 12345, 12345), 0);
    assert_int_not_equal(runtime_dir_check(mine, NULL), 0);
    assert_int_equal(chown(dir, 0, 0), 0);
}

static void assert_falls_back(void)
{
    char expected[64], path[FILE_PATH_MAX];
    struct err e = {0};
    snprintf(expected, sizeof(expected), "/tmp/tug-%u", (unsigned)geteuid());
    if (runtime_dir_make(path, &e) != 0)
        fail_msg("%s", e.text);
    assert_string_equal(path, expected);
    assert_true(runtime_dir_look(1, path));
    assert_string_equal(path, expected);
    assert_false(runtime_dir_look(0, path));
}

// XDG_RUNTIME_DIR is unset or empty, is a relative path, names a missing directory, or,
// as after sudo, names a directory of another user.
static void test_directory_in_tmp_without_a_usable_variable(void **state)
{
    (void)state;
    unsetenv("XDG_RUNTIME_DIR");
    assert_falls_back();
    setenv("XDG_RUNTIME_DIR", "", 1);
    assert_falls_back();
    setenv("XDG_RUNTIME_DIR", "relative", 1);
    assert_falls_back();
    setenv("XDG_RUNTIME_DIR", "/nowhere/at/all", 1);
    assert_falls_back();
    if (geteuid() == 0) {
        assert_int_equal(fresh(NULL), 0);
        assert_int_equal(chown(dir, 12345, 12345), 0);
        assert_falls_back();
        assert_int_equal(chown(dir, 0, 0), 0);
    }
}

static int open_socket(const char *path, bool listens)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(strlen(path) < sizeof(a.sun_path));
    memcpy(a.sun_path, path, strlen(path));
    assert_int_equal(bind(fd, (const struct sockaddr *)&a, sizeof(a)), 0);
    if (listens)
        assert_int_equal(listen(fd, 1), 0);
    return fd;
}

static void age(const char *path)
{
    assert_int_equal(utimensat(AT_FDCWD, path, (struct timespec[2]){{1, 0}, {1, 0}}, 0),
                     0);
}

static void count_path(void *ctx, const char *path)
{
    assert_non_null(strstr(path, "/tug/a@"));
    ++*(int *)ctx;
}

// Dead sockets are removed, except one that was just made; all other files stay.
static void test_sweep(void **state)
{
    (void)state;
    static const char *const names[] = {"a@1.sock", "a@2.sock", "b@3.sock", "a@4.addr"};
    char paths[4][FILE_PATH_MAX], dir_path[FILE_PATH_MAX];
    struct err e;
    assert_int_equal(runtime_dir_make(dir_path, &e), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(file_join(paths[i], mine, names[i], NULL), 0);
    int alive = open_socket(paths[0], true);
    close(open_socket(paths[1], true));
    close(open_socket(paths[2], true));
    int file = open(paths[3], O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    age(paths[0]);
    age(paths[1]);
    age(paths[3]);
    assert_false(runtime_socket_is_dead(paths[0]));
    assert_true(runtime_socket_is_dead(paths[1]));
    assert_false(runtime_socket_is_dead(paths[3]));
    int n = 0;
    runtime_dir_list("a@", ".sock", count_path, &n);
    assert_int_equal(n, 2);
    runtime_dir_sweep(mine);
    assert_true(file_exists(paths[0]));
    assert_false(file_exists(paths[1]));
    assert_true(file_exists(paths[2])); // the socket is too young to be removed
    assert_true(file_exists(paths[3]));
    close(alive);
    close(file);
    for (int i = 0; i < 4; i++)
        unlink(paths[i]);
}

static void test_paths_that_cannot_be(void **state)
{
    (void)state;
    struct err e = {0};
    char path[2 * FILE_PATH_MAX];
    memset(path, 'x', sizeof(path) - 1);
    path[sizeof(path) - 1] = '\0';
    assert_int_equal(runtime_dir_check(path, &e), TUG_EIO);
    path[0] = '/';
    assert_int_equal(runtime_dir_check(path, &e), TUG_EIO);
    assert_int_equal(runtime_dir_check("", &e), TUG_EIO);
    assert_int_equal(runtime_dir_check("/nowhere/at/all", &e), TUG_EIO);
    assert_non_null(strstr(e.text, "/nowhere/at/all"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_is_made_and_found, fresh),
        cmocka_unit_test_setup(test_wrong_modes_are_refused, fresh),
        cmocka_unit_test_setup(test_links_and_files_are_refused, fresh),
        cmocka_unit_test_setup(test_a_directory_where_others_write_is_refused, fresh),
        cmocka_unit_test_setup(test_anothers_directory_is_refused, fresh),
        cmocka_unit_test_setup_teardown(test_directory_in_tmp_without_a_usable_variable,
                                        fresh, fresh),
        cmocka_unit_test_setup(test_sweep, fresh),
        cmocka_unit_test_setup(test_paths_that_cannot_be, fresh),
    };
    int rc = cmocka_run_group_tests(tests, begin, NULL);
    return fresh(NULL) != 0 || finish(NULL) != 0 ? 1 : rc;
}
