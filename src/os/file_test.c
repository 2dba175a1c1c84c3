// SPDX-License-Identifier: Apache-2.0
#include "os/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/random.h"
#include "kit/files.h"
#include "kit/test.h"

enum { MIB = 1 << 20 };

static void write_file(const char *path, const void *bytes, size_t n)
{
    struct err e;
    struct file_writer *w;
    assert_int_equal(file_create(&w, path, &e), 0);
    assert_int_equal(file_write(w, bytes, n, &e), 0);
    assert_int_equal(file_commit(w, &e), 0);
}

static void fill(unsigned char *bytes, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++)
        bytes[i] = (unsigned char)random_u64(seed, 0, i);
}

static void test_text(void **state)
{
    (void)state;
    static const char *const texts[][2] = {{"", ""},
                                           {"\xef\xbb\xbf", ""},
                                           {"\xef\xbb\xbf"
                                            "a",
                                            "a"},
                                           {"ab", "ab"}};
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        struct buf b = BUF_INIT(100);
        struct err e;
        write_file(files_in("text"), texts[i][0], strlen(texts[i][0]));
        assert_int_equal(buf_add(&b, "x", 1), 0);
        assert_int_equal(file_read_text(files_in("text"), &b, &e), 0);
        assert_string_equal(buf_str(&b) + 1, texts[i][1]);
        buf_free(&b);
    }
}

// Writes pieces of all sizes, smaller and larger than the writer's buffer.
static void test_round_trip(void **state)
{
    (void)state;
    enum { ALL = 3 * MIB };
    unsigned char *bytes = mem_alloc(ALL);
    fill(bytes, ALL, 1);
    struct err e;
    struct file_writer *w;
    const char *path = files_in("round");
    assert_int_equal(file_create(&w, path, &e), 0);
    size_t done = 0;
    for (uint64_t i = 0; done < ALL; i++) {
        size_t n = random_below(2, 0, i, i % 5 == 4 ? MIB : 5000);
        n = n < ALL - done ? n : ALL - done;
        assert_int_equal(file_write(w, bytes + done, n, &e), 0);
        done += n;
        assert_int_equal(file_written(w), done);
    }
    assert_false(file_exists(path));
    assert_int_equal(file_commit(w, &e), 0);
    assert_int_equal(files_beside(files_dir, NULL), 0);

    struct buf b = BUF_INIT(ALL);
    assert_int_equal(file_read(path, &b, &e), 0);
    assert_int_equal(b.len, ALL);
    assert_memory_equal(b.data, bytes, ALL);
    buf_free(&b);
    mem_free(bytes);
}

static void test_empty_file(void **state)
{
    (void)state;
    write_file(files_in("empty"), NULL, 0);
    struct err e;
    struct buf b = BUF_INIT(0);
    assert_int_equal(file_read(files_in("empty"), &b, &e), 0);
    assert_int_equal(b.len, 0);
    buf_free(&b);
}

static void test_commit_replaces_abort_does_not(void **state)
{
    (void)state;
    const char *path = files_in("replaced");
    struct err e;
    struct file_writer *w;
    write_file(path, "old", 3);
    assert_int_equal(file_create(&w, path, &e), 0);
    assert_int_equal(file_write(w, "bad", 3, &e), 0);
    file_abort(w);
    file_abort(NULL);
    assert_int_equal(files_beside(files_dir, NULL), 0);
    struct buf b = BUF_INIT(100);
    assert_int_equal(file_read(path, &b, &e), 0);
    assert_string_equal(buf_str(&b), "old");
    write_file(path, "new!", 4);
    assert_int_equal(file_read(path, &b, &e), 0); // appended to the content of the buffer
    assert_string_equal(buf_str(&b), "oldnew!");
    buf_free(&b);
}

static void test_create_fails(void **state)
{
    (void)state;
    struct err e;
    struct file_writer *w;
    assert_int_equal(file_create(&w, files_in("none/x"), &e), TUG_EIO);
    assert_non_null(strstr(e.text, "none/x': No such file or directory"));
    assert_int_equal(mkdir(files_in("taken"), 0700), 0);
    assert_int_equal(file_create(&w, files_in("taken"), &e), TUG_EIO);
    assert_non_null(strstr(e.text, "taken': Is a directory"));
    assert_int_equal(files_beside(files_dir, NULL), 0);
    assert_int_equal(rmdir(files_in("taken")), 0);
}

// Writes up to `n` MiB, until a write fails, and then commits. Returns the first failure.
static int write_mib(const char *path, int n, struct err *e)
{
    struct file_writer *w;
    TRY(file_create(&w, path, e));
    char *bytes = mem_zalloc(MIB);
    int rc = 0;
    for (int i = 0; i < n && rc == 0; i++)
        rc = file_write(w, bytes, MIB, e);
    if (rc != 0)
        // a writer that has failed keeps failing
        assert_int_equal(file_write(w, bytes, 1, e), rc);
    mem_free(bytes);
    int committed = file_commit(w, e);
    return rc != 0 ? rc : committed;
}

static void test_full_disk(void **state)
{
    (void)state;
    const char *path = files_in("full");
    struct err e;
    size_t before = mem_live();
    assert_int_equal(symlink("/dev/full", path), 0);
    assert_int_equal(write_mib(path, 2, &e), TUG_EIO);
    assert_non_null(strstr(e.text, "full': No space left on device; free some space"));
    assert_int_equal(files_beside(files_dir, NULL), 0);
    // A single byte stays in the buffer until the commit, which then reports the error.
    struct file_writer *w;
    assert_int_equal(file_create(&w, path, &e), 0);
    assert_int_equal(file_write(w, "x", 1, &e), 0);
    assert_int_equal(file_commit(w, &e), TUG_EIO);
    assert_non_null(strstr(e.text, "No space left on device"));
    assert_true(file_exists(path)); // the link to /dev/full was not replaced or removed
    assert_int_equal(mem_live(), before);
}

static void test_file_size_limit(void **state)
{
    (void)state;
    const char *path = files_in("limited");
    struct rlimit old, tight;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    tight = old;
    tight.rlim_cur = 3 * MIB / 2;
    struct err e;
    write_file(path, "before", 6);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    int rc = write_mib(path, 4, &e);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(rc, TUG_EIO);
    assert_non_null(strstr(e.text, "File too large"));
    assert_int_equal(files_beside(files_dir, NULL), 0);
    struct buf b = BUF_INIT(100);
    assert_int_equal(file_read(path, &b, &e), 0);
    assert_string_equal(buf_str(&b), "before");
    buf_free(&b);
}

static void expect_unreadable(const char *path, size_t max, int code, const char *text)
{
    struct err e;
    struct buf b = BUF_INIT(max);
    assert_int_equal(file_read(path, &b, &e), code);
    assert_non_null(strstr(e.text, path));
    assert_non_null(strstr(e.text, text));
    buf_free(&b);
}

static void test_read_fails(void **state)
{
    (void)state;
    expect_unreadable(files_in("missing"), 100, TUG_EDATA, "No such file");
    expect_unreadable(files_dir, 100, TUG_EDATA, "is a directory");
    expect_unreadable("/dev/zero", 100, TUG_EDATA, "is a device");
    assert_int_equal(mkfifo(files_in("fifo"), 0600), 0);
    expect_unreadable(files_in("fifo"), 100, TUG_EDATA, "pipe");
    write_file(files_in("large"), "123456", 6);
    expect_unreadable(files_in("large"), 5, TUG_EDATA, "too large: more than 5 bytes");
}

// Files of /proc report the size 0, but are not empty.
static void test_read_ignores_a_wrong_size(void **state)
{
    (void)state;
    struct err e;
    struct buf b = BUF_INIT(MIB);
    assert_int_equal(file_read("/proc/self/status", &b, &e), 0);
    assert_non_null(strstr(buf_str(&b), "Threads:"));
    size_t whole = b.len;
    buf_free(&b);
    expect_unreadable("/proc/self/status", whole / 2, TUG_EDATA, "too large");
}

static void test_make_dir(void **state)
{
    (void)state;
    struct err e;
    assert_int_equal(file_make_dir(files_in("a//b/c/"), &e), 0);
    assert_int_equal(file_make_dir(files_in("a/b/c"), &e), 0);
    assert_int_equal(file_sync_dir(files_in("a/b/c"), &e), 0);
    write_file(files_in("a/b/c/file"), "x", 1);
    assert_int_equal(file_make_dir(files_in("a/b/c/file"), &e), TUG_EIO);
    assert_non_null(strstr(e.text, "Not a directory"));
    assert_int_equal(file_make_dir(files_in("a/b/c/file/d"), &e), TUG_EIO);
    assert_int_equal(file_make_dir("/", &e), 0);
    assert_int_equal(file_make_dir("", &e), TUG_EUSAGE);
    assert_int_equal(file_sync_dir(files_in("nowhere"), &e), TUG_EIO);
    assert_int_equal(file_remove_tree(files_in("a/b/c"), &e), 0);
    assert_int_equal(file_remove_tree(files_in("a/b"), &e), 0);
    assert_int_equal(file_remove_tree(files_in("a"), &e), 0);
}

static void test_remove_tree(void **state)
{
    (void)state;
    struct err e;
    assert_int_equal(file_make_dir(files_in("tree/sub"), &e), 0);
    write_file(files_in("tree/x"), "x", 1);
    assert_int_equal(file_remove_tree(files_in("tree"), &e),
                     TUG_EIO); // the directory still contains a directory
    assert_non_null(strstr(e.text, "tree/sub"));
    assert_int_equal(file_remove_tree(files_in("tree/sub"), &e), 0);
    assert_int_equal(file_remove_tree(files_in("tree"), &e), 0);
    assert_false(file_exists(files_in("tree")));
    assert_int_equal(file_remove_tree(files_in("tree"), &e), 0);
    // A link is removed, but its target is not.
    write_file(files_in("target"), "x", 1);
    assert_int_equal(symlink(files_in("target"), files_in("link")), 0);
    assert_int_equal(file_remove_tree(files_in("link"), &e), 0);
    assert_false(file_exists(files_in("link")));
    assert_true(file_exists(files_in("target")));
}

// Links are not followed, neither in place of the directory nor inside it.
static void test_remove_deep(void **state)
{
    (void)state;
    struct err e;
    assert_int_equal(file_make_dir(files_in("far"), &e), 0);
    write_file(files_in("far/x"), "x", 1);
    assert_int_equal(file_make_dir(files_in("deep/a/b"), &e), 0);
    write_file(files_in("deep/a/b/x"), "x", 1);
    assert_int_equal(symlink(files_in("far"), files_in("deep/far")), 0);
    assert_int_equal(symlink(files_in("far"), files_in("deep/a/b/far")), 0);
    assert_int_equal(symlink(files_in("deep"), files_in("door")), 0);
    assert_int_equal(file_remove_deep(files_in("door"), 2, &e), 0);
    assert_true(file_exists(files_in("deep/a/b/x")));
    // the tree is deeper than the limit
    assert_int_equal(file_remove_deep(files_in("deep"), 1, &e), TUG_EIO);
    assert_true(file_exists(files_in("deep/a/b")));
    assert_int_equal(file_remove_deep(files_in("deep"), 2, &e), 0);
    assert_false(file_exists(files_in("deep")));
    assert_true(file_exists(files_in("far/x")));
    assert_null(file_open_real_dir(files_in("door")));
}

static void test_lock_file(void **state)
{
    (void)state;
    write_file(files_in("kept"), "x", 1);
    assert_int_equal(symlink(files_in("kept"), files_in("link.lock")), 0);
    assert_int_equal(file_open_lock(files_in("link.lock")), -1);
    assert_int_equal(errno, ELOOP);
    int fd = file_open_lock(files_in("new.lock"));
    assert_true(fd >= 0);
    close(fd);
}

static void test_join(void **state)
{
    (void)state;
    char path[FILE_PATH_MAX], name[FILE_PATH_MAX];
    struct err e;
    assert_int_equal(file_join(path, "a", "b", &e), 0);
    assert_string_equal(path, "a/b");
    assert_int_equal(file_join(path, "a/", "b", &e), 0);
    assert_string_equal(path, "a/b");
    assert_int_equal(file_join(path, "", "b", &e), 0);
    assert_string_equal(path, "b");
    memset(name, 'n', sizeof(name));
    name[FILE_PATH_MAX - 3] = '\0'; // with "a/" before it, the path just fits
    assert_int_equal(file_join(path, "a", name, &e), 0);
    assert_int_equal(file_join(path, "ab", name, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "too long"));
}

static int write_and_read(const char *path, struct err *e)
{
    struct file_writer *w;
    TRY(file_create(&w, path, e));
    int rc = file_write(w, "some text", 9, e);
    if (rc != 0) {
        file_abort(w);
        return rc;
    }
    TRY(file_commit(w, e));
    struct buf b = BUF_INIT(100);
    rc = file_read(path, &b, e);
    buf_free(&b);
    return rc;
}

static void test_out_of_memory(void **state)
{
    (void)state;
    size_t before = mem_live();
    long n = 0;
    for (;; n++) {
        struct err e;
        mem_fault_after(n);
        int rc = write_and_read(files_in("fault"), &e);
        bool struck = mem_faulted();
        mem_fault_after(-1);
        assert_int_equal(mem_live(), before);
        assert_int_equal(rc, struck ? TUG_ENOMEM : 0);
        if (!struck)
            break;
        assert_int_equal(files_beside(files_dir, NULL), 0);
    }
    assert_true(n >= 4);
}

static void test_lock_dir(void **state)
{
    (void)state;
    int first, second;
    struct err e;
    assert_int_equal(file_lock_dir(files_dir, &first, &e), 0);
    assert_int_equal(file_lock_dir(files_dir, &second, &e), TUG_EUSAGE);
    assert_int_equal(second, -1);
    assert_non_null(strstr(e.text, "in use by another process"));
    char who[32];
    snprintf(who, sizeof(who), "process, %d", (int)getpid());
    // The error names the owner only if the system knows it.
    if (strstr(e.text, "process,") != NULL)
        assert_non_null(strstr(e.text, who));
    file_unlock_dir(first);
    assert_int_equal(file_lock_dir(files_dir, &first, &e), 0);
    file_unlock_dir(first);
    assert_int_equal(file_lock_dir(files_in("none"), &first, &e), TUG_EIO);
}

// The errno with which flock, which replaces the C library's function, fails; 0: none.
static int flock_fails;

int flock(int fd, int operation)
{
    if (flock_fails == 0)
        return (int)syscall(SYS_flock, fd, operation);
    errno = flock_fails;
    return -1;
}

static void test_share_dir(void **state)
{
    (void)state;
    int first, second, third;
    struct err e;
    assert_int_equal(file_share_dir(files_dir, false, &first, &e), 0);
    assert_int_equal(file_share_dir(files_dir, true, &second, &e), 0);
    assert_int_equal(file_share_dir(files_dir, false, &third, &e), TUG_EUSAGE);
    assert_int_equal(file_lock_dir(files_dir, &third, &e), TUG_EUSAGE);
    file_unlock_dir(first);
    file_unlock_dir(second);
    assert_int_equal(file_lock_dir(files_dir, &third, &e), 0);
    assert_int_equal(file_share_dir(files_dir, true, &first, &e), TUG_EUSAGE);
    file_unlock_dir(third);
}

// If the file system has no locks, locking a directory succeeds without a lock. Any other
// failure of flock is an error.
static void test_lock_fails(void **state)
{
    (void)state;
    int lock;
    struct err e;
    flock_fails = ENOLCK;
    assert_int_equal(file_lock_dir(files_dir, &lock, &e), TUG_EIO);
    assert_int_equal(lock, -1);
    assert_non_null(strstr(e.text, "cannot lock the directory"));
    flock_fails = EOPNOTSUPP;
    assert_int_equal(file_lock_dir(files_dir, &lock, &e), 0);
    assert_int_equal(lock, -1);
    flock_fails = 0;
}

static void test_logs(void **state)
{
    (void)state;
    struct err e;
    int fd;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(file_open_append(files_in("a.log"), i == 2, &fd, &e), 0);
        assert_int_equal(write(fd, "line\n", 5), 5);
        close(fd);
        struct buf b = BUF_INIT(100);
        assert_int_equal(file_read(files_in("a.log"), &b, &e), 0);
        assert_int_equal(b.len, i == 1 ? 10 : 5);
        buf_free(&b);
    }
    assert_int_equal(symlink(files_in("a.log"), files_in("link.log")), 0);
    assert_int_equal(file_open_append(files_in("link.log"), true, &fd, &e), TUG_EIO);
    assert_int_equal(fd, -1);
    assert_non_null(strstr(e.text, "it is a link"));
    assert_int_equal(mkfifo(files_in("pipe.log"), 0600), 0);
    assert_int_equal(file_open_append(files_in("pipe.log"), true, &fd, &e), TUG_EIO);
    assert_non_null(strstr(e.text, "it is a pipe"));
    assert_int_equal(file_open_append("/dev/null", true, &fd, &e), TUG_EIO);
    assert_int_equal(file_open_append(files_in("none/a.log"), true, &fd, &e), TUG_EIO);
}

static void test_same_files(void **state)
{
    (void)state;
    files_write(files_in("there"), "x");
    assert_int_equal(link(files_in("there"), files_in("linked")), 0);
    assert_true(file_is_same(files_in("there"), files_in("./there")));
    assert_true(file_is_same(files_in("there"), files_in("linked")));
    assert_false(file_is_same(files_in("there"), files_in("new")));
    assert_true(file_is_same(files_in("new"), files_in("./new")));
    assert_true(file_is_same("new", "./new"));
    assert_false(file_is_same("new", "newer"));
    assert_false(file_is_same(files_in("new"), "new"));
    assert_false(file_is_same(files_in("none/new"), files_in("absent/new")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_empty_file),
        cmocka_unit_test(test_commit_replaces_abort_does_not),
        cmocka_unit_test(test_create_fails),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_file_size_limit),
        cmocka_unit_test(test_read_fails),
        cmocka_unit_test(test_read_ignores_a_wrong_size),
        cmocka_unit_test(test_logs),
        cmocka_unit_test(test_make_dir),
        cmocka_unit_test(test_lock_dir),
        cmocka_unit_test(test_share_dir),
        cmocka_unit_test(test_lock_fails),
        cmocka_unit_test(test_remove_tree),
        cmocka_unit_test(test_remove_deep),
        cmocka_unit_test(test_lock_file),
        cmocka_unit_test(test_join),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_same_files),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
