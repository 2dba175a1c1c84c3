// SPDX-License-Identifier: Apache-2.0
#include "os/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit/files.h"
#include "kit/test.h"
#include "os/below.h"
#include "os/file.h"

static char base[] = "/tmp/tug-new-file-XXXXXX";
static char dir[FILE_PATH_MAX];

// Makes a directory of its own for each test.
static int make_dir(void **state)
{
    static int n;
    char name[16];
    (void)state;
    snprintf(name, sizeof(name), "t%d", n++);
    umask(022);
    return file_join(dir, base, name, NULL) != 0 || mkdir(dir, 0755) != 0;
}

static int make_base(void **state)
{
    (void)state;
    return mkdtemp(base) == NULL;
}

// Returns a path in the directory; up to six are valid at the same time.
static const char *in_dir(const char *name)
{
    static char path[6][FILE_PATH_MAX];
    static int next;
    next = (next + 1) % 6;
    assert_int_equal(file_join(path[next], dir, name, NULL), 0);
    return path[next];
}

static int put(int root, const char *path, const char *text, struct err *e)
{
    struct file_writer *w;
    TRY(file_create_in(&w, root, path, e));
    int rc = file_write(w, text, strlen(text), e);
    if (rc == 0)
        return file_commit(w, e);
    file_abort(w);
    return rc;
}

static void put_well(const char *path, const char *text)
{
    struct err e = {0};
    if (put(FILE_ANYWHERE, path, text, &e) != 0)
        fail_msg("%s", e.text);
}

static void assert_text(const char *path, const char *text)
{
    struct buf b = BUF_INIT(1000);
    struct err e = {0};
    if (file_read(path, &b, &e) != 0)
        fail_msg("%s", e.text);
    assert_string_equal(buf_str(&b), text);
    buf_free(&b);
}

static mode_t mode_of(const char *path)
{
    struct stat st;
    assert_int_equal(lstat(path, &st), 0);
    return st.st_mode & 07777;
}

static bool is_link(const char *path)
{
    struct stat st;
    assert_int_equal(lstat(path, &st), 0);
    return S_ISLNK(st.st_mode);
}

// An attacker has put a link to a file of ours at "NAME.tmp", which older versions used
// as a temporary name. This link is not followed, and neither is a link with a temporary
// name of today.
static void test_planted_links(void **state)
{
    (void)state;
    put_well(in_dir("victim"), "mine");
    assert_int_equal(symlink(in_dir("victim"), in_dir("out.tmp")), 0);
    assert_int_equal(symlink(in_dir("victim"), in_dir("out.0123456789abcdef.tmp")), 0);
    put_well(in_dir("out"), "text");
    assert_text(in_dir("victim"), "mine");
    assert_text(in_dir("out"), "text");
    assert_false(is_link(in_dir("out")));
    assert_true(is_link(in_dir("out.tmp")));
    // This file was not made by a process of ours, so it stays.
    assert_true(is_link(in_dir("out.0123456789abcdef.tmp")));
}

// Temporary names are unpredictable and never repeat.
static void test_names(void **state)
{
    (void)state;
    struct new_file a, b;
    struct err e;
    assert_int_equal(new_file_open(&a, FILE_ANYWHERE, in_dir("x"), 0644, &e), 0);
    assert_int_equal(new_file_open(&b, FILE_ANYWHERE, in_dir("x"), 0644, &e), 0);
    assert_string_not_equal(a.beside, b.beside);
    assert_int_equal(new_file_target(a.beside), 1);
    assert_int_equal(files_beside(dir, NULL), 2);
    new_file_drop(&a);
    new_file_drop(&b);
    new_file_drop(&b);
    assert_int_equal(files_beside(dir, NULL), 0);
    assert_int_equal(new_file_target("x.tmp"), 0);
    assert_int_equal(new_file_target("x.0123456789abcdeF.tmp"), 0);
    assert_int_equal(new_file_target(".0123456789abcdef.tmp"), 0);
    assert_int_equal(new_file_target("ab.0123456789abcdef.tmp"), 2);
    char longest[NAME_MAX + 1];
    memset(longest, 'n', NAME_MAX);
    longest[NAME_MAX] = '\0';
    put_well(in_dir(longest), "fits");
    assert_text(in_dir(longest), "fits");
}

// A link that the user names is followed: the link stays, and its target is replaced.
static void test_users_links(void **state)
{
    (void)state;
    assert_int_equal(mkdir(in_dir("far"), 0755), 0);
    put_well(in_dir("far/file"), "old");
    assert_int_equal(symlink("far/file", in_dir("near")), 0);
    assert_int_equal(symlink("near", in_dir("nearer")), 0);
    put_well(in_dir("nearer"), "new");
    assert_true(is_link(in_dir("near")) && is_link(in_dir("nearer")));
    assert_text(in_dir("far/file"), "new");
    assert_int_equal(files_beside(in_dir("far"), NULL), 0);
    // Links are also followed if the target does not exist yet, or if the directory is a
    // link.
    assert_int_equal(symlink("far/later", in_dir("soon")), 0);
    put_well(in_dir("soon"), "there");
    assert_text(in_dir("far/later"), "there");
    assert_int_equal(symlink("far", in_dir("door")), 0);
    put_well(in_dir("door/inside"), "in");
    assert_text(in_dir("far/inside"), "in");
    // Two links that point at each other are refused.
    struct err e;
    assert_int_equal(symlink("b", in_dir("a")), 0);
    assert_int_equal(symlink("a", in_dir("b")), 0);
    assert_int_equal(put(FILE_ANYWHERE, in_dir("a"), "x", &e), TUG_EIO);
    assert_non_null(strstr(e.text, "symbolic links"));
}

// In a directory where all may write, links of other users are not followed. Only root
// can make another user's files here.
static void test_links_of_others(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip_because("only root can become another user");
    struct err e;
    assert_int_equal(mkdir(in_dir("shared"), 0755), 0);
    assert_int_equal(chmod(in_dir("shared"), 01777), 0);
    put_well(in_dir("victim"), "mine");
    assert_int_equal(symlink(in_dir("victim"), in_dir("shared/out")), 0);
    assert_int_equal(lchown(in_dir("shared/out"), 12345, 12345), 0);
    assert_int_equal(put(FILE_ANYWHERE, in_dir("shared/out"), "theirs", &e), TUG_EIO);
    assert_non_null(strstr(e.text, "Permission denied"));
    assert_text(in_dir("victim"), "mine");
    assert_int_equal(lchown(in_dir("shared/out"), 0, 0), 0);
    put_well(in_dir("shared/out"), "ours");
    assert_text(in_dir("victim"), "ours");
}

static void *read_pipe(void *arg)
{
    static char text[100];
    int fd = open(arg, O_RDONLY);
    size_t n = 0;
    for (ssize_t more; fd >= 0 && (more = read(fd, text + n, sizeof(text) - 1 - n)) > 0;)
        n += (size_t)more;
    close(fd);
    text[n] = '\0';
    return text;
}

// Pipes and devices are written to directly, and are not replaced by a file.
static void test_straight(void **state)
{
    (void)state;
    char path[FILE_PATH_MAX];
    pthread_t reader;
    void *text;
    struct stat st;
    memcpy(path, in_dir("pipe"), sizeof(path));
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(pthread_create(&reader, NULL, read_pipe, path), 0);
    put_well(path, "through the pipe");
    assert_int_equal(pthread_join(reader, &text), 0);
    assert_string_equal(text, "through the pipe");
    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISFIFO(st.st_mode));
    put_well("/dev/null", "nothing");
    assert_int_equal(stat("/dev/null", &st), 0);
    assert_true(S_ISCHR(st.st_mode));
    assert_int_equal(symlink("/dev/null", in_dir("null")), 0);
    put_well(in_dir("null"), "nothing");
    assert_true(is_link(in_dir("null")));
    assert_int_equal(files_beside(dir, NULL), 0);
}

// If the reader of a pipe closes it, writing returns an error and does not end the
// process.
static void test_reader_goes(void **state)
{
    (void)state;
    char path[FILE_PATH_MAX], text[1 << 10];
    struct file_writer *w;
    struct err e = {0};
    memcpy(path, in_dir("pipe"), sizeof(path));
    memset(text, 'x', sizeof(text));
    assert_int_equal(mkfifo(path, 0600), 0);
    int reader = open(path, O_RDONLY | O_NONBLOCK);
    assert_true(reader >= 0);
    assert_int_equal(file_create(&w, path, &e), 0);
    assert_int_equal(file_write(w, text, sizeof(text), &e), 0);
    close(reader);
    assert_int_equal(file_commit(w, &e), TUG_EIO);
    assert_non_null(strstr(e.text, "Broken pipe"));
}

// An open file that has lost its name cannot be replaced by a rename.
static void test_file_without_a_name(void **state)
{
    (void)state;
    char path[64], text[100] = "";
    int fd = open(in_dir("gone"), O_RDWR | O_CREAT | O_EXCL, 0600);
    assert_int_equal(write(fd, "something longer", 16), 16);
    assert_int_equal(unlink(in_dir("gone")), 0);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    put_well(path, "short");
    assert_int_equal(pread(fd, text, sizeof(text), 0), 5);
    assert_string_equal(text, "short");
    close(fd);
    assert_int_equal(files_beside(dir, NULL), 0);
}

// A new file has at most the mode 0644 without the bits of the umask. The new file does
// not grant any account more rights than the file that it replaces.
static void test_modes(void **state)
{
    (void)state;
    put_well(in_dir("usual"), "x");
    assert_int_equal(mode_of(in_dir("usual")), 0644);
    umask(0);
    put_well(in_dir("open"), "x");
    assert_int_equal(mode_of(in_dir("open")), 0644);
    umask(077);
    put_well(in_dir("closed"), "x");
    assert_int_equal(mode_of(in_dir("closed")), 0600);
    umask(022);
    put_well(in_dir("closed"), "y");
    assert_int_equal(mode_of(in_dir("closed")), 0600);
    assert_int_equal(chmod(in_dir("usual"), 04777), 0);
    put_well(in_dir("usual"), "y");
    assert_int_equal(mode_of(in_dir("usual")), 0644);
}

// A killed process leaves a temporary file. The next process that makes the same file
// removes it, but neither the temporary file of a living process nor a temporary file of
// another name.
static void test_leftovers(void **state)
{
    (void)state;
    struct new_file f;
    struct err e;
    int ready[2], status;
    char byte, other[] = "out2.0123456789abcdef.tmp";
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        byte = (char)new_file_open(&f, FILE_ANYWHERE, in_dir("out"), 0644, &e);
        if (write(ready[1], &byte, 1) == 1)
            pause();
        _exit(1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(byte, 0);
    put_well(in_dir("live"), "x");
    assert_int_equal(rename(in_dir("live"), in_dir(other)), 0);
    put_well(in_dir("out"), "while it lives");
    assert_int_equal(files_beside(dir, NULL), 2);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    put_well(in_dir("out"), "afterwards");
    assert_int_equal(files_beside(dir, NULL), 1);
    assert_true(file_exists(in_dir(other)));
    close(ready[0]);
    close(ready[1]);
}

struct often {
    char path[FILE_PATH_MAX];
    pthread_t thread;
    struct err e;
};

static void *put_often(void *arg)
{
    struct often *o = arg;
    char text[32];
    for (int i = 0; i < 200 && o->e.code == 0; i++) {
        snprintf(text, sizeof(text), "%d\n", i);
        (void)put(FILE_ANYWHERE, o->path, text, &o->e);
    }
    return NULL;
}

// Many processes make the same file and sweep while others have just begun: every file is
// complete.
static void test_races(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    struct often o[THREADS] = {0};
    for (int i = 0; i < THREADS; i++) {
        memcpy(o[i].path, in_dir("same"), FILE_PATH_MAX);
        assert_int_equal(pthread_create(&o[i].thread, NULL, put_often, &o[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(o[i].thread, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        if (o[i].e.code != 0)
            fail_msg("%s", o[i].e.text);
    assert_text(o[0].path, "199\n");
    assert_int_equal(files_beside(dir, NULL), 0);
}

// Below a root, no path leads out and no link is followed.
static void test_below(void **state)
{
    (void)state;
    static const char *const out[] = {"../x", "a/../../x", "/etc/x", "a/../x", ".."};
    struct err e = {0};
    char absolute[FILE_PATH_MAX];
    assert_int_equal(mkdir(in_dir("root"), 0755), 0);
    assert_int_equal(mkdir(in_dir("root/a"), 0755), 0);
    assert_int_equal(mkdir(in_dir("outside"), 0755), 0);
    put_well(in_dir("outside/victim"), "mine");
    assert_int_equal(symlink("../outside", in_dir("root/door")), 0);
    assert_int_equal(symlink("../outside/victim", in_dir("root/link")), 0);
    memcpy(absolute, in_dir("outside/x"), sizeof(absolute));
    int root = open(in_dir("root"), O_RDONLY | O_DIRECTORY);
    assert_int_equal(put(root, "a/file", "in", &e), 0);
    assert_text(in_dir("root/a/file"), "in");
    for (size_t i = 0; i < sizeof(out) / sizeof(*out); i++) {
        assert_int_equal(put(root, out[i], "out", &e), TUG_EUSAGE);
        assert_non_null(strstr(e.text, "leads out"));
    }
    assert_int_equal(put(root, absolute, "out", &e), TUG_EUSAGE);
    assert_int_equal(put(root, "door/x", "out", &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "link"));
    assert_int_equal(put(root, "link", "out", &e), TUG_EIO);
    assert_int_equal(put(root, "a/", "out", &e), TUG_EIO);
    assert_int_equal(put(root, "", "out", &e), TUG_EIO);
    assert_text(in_dir("outside/victim"), "mine");
    assert_false(file_exists(in_dir("outside/x")));
    assert_false(file_exists(in_dir("x")));
    assert_int_equal(mkfifo(in_dir("root/pipe"), 0600), 0);
    // Opening the pipe does not wait for a reader.
    assert_int_equal(put(root, "pipe", "x", &e), TUG_EIO);
    close(root);
}

// At a name that the program has chosen (FILE_OWN), a link is replaced, and its target
// stays.
static void test_links_at_own_names(void **state)
{
    (void)state;
    struct err e = {0};
    struct stat st;
    put_well(in_dir("victim"), "mine");
    assert_int_equal(symlink("victim", in_dir("manifest")), 0);
    assert_int_equal(symlink("nowhere", in_dir("dangling")), 0);
    assert_int_equal(put(FILE_OWN, in_dir("manifest"), "new", &e), 0);
    assert_int_equal(put(FILE_OWN, in_dir("dangling"), "new", &e), 0);
    assert_int_equal(put(FILE_OWN, in_dir("fresh"), "new", &e), 0);
    assert_int_equal(put(FILE_OWN, in_dir("fresh"), "newer", &e), 0);
    assert_text(in_dir("victim"), "mine");
    assert_text(in_dir("manifest"), "new");
    assert_text(in_dir("dangling"), "new");
    assert_text(in_dir("fresh"), "newer");
    assert_int_equal(lstat(in_dir("manifest"), &st), 0);
    assert_true(S_ISREG(st.st_mode));
    assert_false(file_exists(in_dir("nowhere")));
    assert_int_equal(mkfifo(in_dir("pipe"), 0600), 0);
    assert_int_equal(put(FILE_OWN, in_dir("pipe"), "x", &e), TUG_EIO);
    assert_int_equal(put(FILE_OWN, in_dir("none/x"), "x", &e), TUG_EIO);
}

int main(void)
{
#define TEST(x) cmocka_unit_test_setup(x, make_dir)
    const struct CMUnitTest tests[] = {
        TEST(test_planted_links), TEST(test_names),
        TEST(test_users_links),   TEST(test_links_of_others),
        TEST(test_straight),      TEST(test_reader_goes),
        TEST(test_modes),         TEST(test_file_without_a_name),
        TEST(test_leftovers),     TEST(test_races),
        TEST(test_below),         TEST(test_links_at_own_names),
    };
    return cmocka_run_group_tests(tests, make_base, NULL);
}
