// SPDX-License-Identifier: Apache-2.0
#include "os/below.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit/test.h"

static char base[] = "/tmp/tug-below-XXXXXX";
static int root;

static const char *in_base(const char *name)
{
    static char path[2][FILE_PATH_MAX];
    static int next;
    next = (next + 1) % 2;
    assert_int_equal(file_join(path[next], base, name, NULL), 0);
    return path[next];
}

static void touch(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    close(fd);
}

// Makes root/ with a/, b/ and a file, and links to a directory, to a file, to the
// outside, and out and back in.
static int make_tree(void **state)
{
    (void)state;
    if (mkdtemp(base) == NULL)
        return 1;
    assert_int_equal(mkdir(in_base("root"), 0755), 0);
    assert_int_equal(mkdir(in_base("root/a"), 0755), 0);
    assert_int_equal(mkdir(in_base("root/a/b"), 0755), 0);
    assert_int_equal(mkdir(in_base("outside"), 0755), 0);
    touch(in_base("root/a/b/file"));
    touch(in_base("outside/file"));
    assert_int_equal(symlink("a", in_base("root/near")), 0);
    assert_int_equal(symlink("a/b/file", in_base("root/link")), 0);
    assert_int_equal(symlink("../outside", in_base("root/far")), 0);
    assert_int_equal(symlink("/", in_base("root/a/top")), 0);
    root = open(in_base("root"), O_RDONLY | O_DIRECTORY);
    return root < 0;
}

static const struct {
    const char *path;
    int error; // expected error; 0: the path can be opened
} cases[] = {
    {"a/b/file", 0},
    {"a", 0},
    {"a/", 0},
    {"", 0},
    {".", 0},
    {"./a/./b//file", 0},
    {"..", EXDEV},
    {"../outside/file", EXDEV},
    {"a/../a/b/file", EXDEV},
    {"/etc/passwd", EXDEV},
    {"/", EXDEV},
    {"near", ELOOP},
    {"near/b/file", ELOOP},
    {"link", ELOOP},
    {"far/file", ELOOP},
    {"a/top/etc/passwd", ELOOP},
    {"a/none", ENOENT},
    {"a/b/file/more", ENOTDIR},
};

static void check_cases(void)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        errno = 0;
        int fd = below_open(root, cases[i].path, O_RDONLY);
        if ((fd < 0 ? errno : 0) != cases[i].error)
            fail_msg("'%s' gave %s, not %s", cases[i].path,
                     fd < 0 ? strerror(errno) : "a file", strerror(cases[i].error));
        if (fd >= 0)
            close(fd);
    }
}

static void test_open(void **state)
{
    (void)state;
    check_cases();
    below_without_openat2(true);
    check_cases();
    below_without_openat2(false);
}

static void test_parent(void **state)
{
    (void)state;
    const char *name;
    struct stat is, want;
    int fd = below_open_parent(root, "a/b/new", &name);
    assert_true(fd >= 0);
    assert_string_equal(name, "new");
    assert_int_equal(fstat(fd, &is), 0);
    assert_int_equal(stat(in_base("root/a/b"), &want), 0);
    assert_int_equal(is.st_ino, want.st_ino);
    close(fd);
    fd = below_open_parent(root, "new", &name);
    assert_true(fd >= 0);
    close(fd);
    static const char *const wrong[] = {"",       ".",       "a/",    "..",
                                        "../new", "far/new", "none/x"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        assert_int_equal(below_open_parent(root, wrong[i], &name), -1);
}

static void test_make_dir(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        int fd = below_make_dir(root, "new//one/two/");
        assert_true(fd >= 0);
        close(fd);
    }
    assert_true(file_exists(in_base("root/new/one/two")));
    int same = below_make_dir(root, "");
    assert_true(same >= 0);
    close(same);
    assert_int_equal(below_make_dir(root, "far/dir"), -1);
    assert_int_equal(errno, ELOOP);
    assert_int_equal(below_make_dir(root, "../dir"), -1);
    assert_int_equal(below_make_dir(root, "a/b/file/dir"), -1);
    assert_false(file_exists(in_base("outside/dir")));
    assert_false(file_exists(in_base("dir")));
}

static void test_path_below_root(void **state)
{
    (void)state;
    assert_string_equal(below_rest("/a/b", "/a/b/c/d"), "c/d");
    assert_string_equal(below_rest("/a/b/", "/a/b"), "");
    assert_string_equal(below_rest("/", "/a/b"), "a/b");
    assert_null(below_rest("/a/b", "/a/bc"));
    assert_null(below_rest("/a/b", "/a"));
}

// Messages show the path of the root before a path below it.
static void test_name(void **state)
{
    (void)state;
    char name[FILE_PATH_MAX];
    errno = ENOSPC;
    below_name(root, "save/rows", name);
    assert_int_equal(errno, ENOSPC);
    assert_string_equal(name, in_base("root/save/rows"));
    below_name(-1, "save/rows", name);
    assert_string_equal(name, "save/rows");
    int top = open("/", O_RDONLY | O_DIRECTORY);
    below_name(top, "save/rows", name);
    assert_string_equal(name, "/save/rows");
    close(top);
}

static void test_absolute(void **state)
{
    (void)state;
    char real[FILE_PATH_MAX], got[FILE_PATH_MAX], want[FILE_PATH_MAX];
    struct err e;
    assert_non_null(realpath(base, real));
    assert_int_equal(below_absolute(in_base("root/near/b"), got, &e), 0);
    assert_int_equal(file_join(want, real, "root/a/b", &e), 0);
    assert_string_equal(got, want);
    assert_int_equal(below_absolute(in_base("root/far/new/er"), got, &e), 0);
    assert_int_equal(file_join(want, real, "outside/new/er", &e), 0);
    assert_string_equal(got, want);
    assert_int_equal(below_absolute(in_base("root/new/x/../../y"), got, &e), TUG_EUSAGE);
    assert_int_equal(below_absolute("", got, &e), TUG_EUSAGE);
    char here[FILE_PATH_MAX];
    assert_non_null(getcwd(here, sizeof(here)));
    assert_int_equal(below_absolute("not-there", got, &e), 0);
    assert_int_equal(file_join(want, here, "not-there", &e), 0);
    assert_string_equal(got, want);
    assert_int_equal(below_absolute("/", got, &e), 0);
    assert_string_equal(got, "/");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open),     cmocka_unit_test(test_parent),
        cmocka_unit_test(test_make_dir), cmocka_unit_test(test_path_below_root),
        cmocka_unit_test(test_absolute), cmocka_unit_test(test_name),
    };
    return cmocka_run_group_tests(tests, make_tree, NULL);
}
