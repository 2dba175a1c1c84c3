// Saves that are interrupted: the process ends, or the system refuses, at every single
// call that changes the disk. What is left is the save before or the new one, never a
// mixture; who saves goes on training, and its next save succeeds.
//
// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/disk.h"
#include "save/save_testing.h"

static int make_dir(void **state)
{
    (void)state;
    return *test_dir() == '\0';
}

static int remove_dir(void **state)
{
    (void)state;
    remove_all(test_dir());
    return 0;
}

#define SETTINGS CTR ALL_PUBLISHED "deltas=yes"
enum { BITS = 2, KEYS = 150, SKIPPED = 77, FAILED_WELL = 10 };

static void copy_dir(const char *from, const char *to)
{
    OK(file_make_dir(to, &ok_e));
    DIR *d = opendir(from);
    assert_non_null(d);
    for (struct dirent *x = readdir(d); x != NULL; x = readdir(d)) {
        if (x->d_name[0] == '.')
            continue;
        const char *a = path_of(from, x->d_name), *b = path_of(to, x->d_name);
        struct stat st;
        assert_int_equal(stat(a, &st), 0);
        if (S_ISDIR(st.st_mode)) {
            copy_dir(a, b);
            continue;
        }
        struct buf bytes = BUF_INIT(64 << 20);
        OK(file_read(a, &bytes, &ok_e));
        FILE *f = fopen(b, "wb");
        assert_non_null(f);
        assert_int_equal(fwrite(buf_str(&bytes), 1, bytes.len, f), bytes.len);
        assert_int_equal(fclose(f), 0);
        buf_free(&bytes);
    }
    closedir(d);
}

// Names and bytes of all files in a directory, by whatever order they come in.
static uint64_t dir_hash(const char *path)
{
    uint64_t sum = 0;
    DIR *d = opendir(path);
    assert_non_null(d);
    for (struct dirent *x = readdir(d); x != NULL; x = readdir(d)) {
        if (x->d_name[0] == '.')
            continue;
        const char *at = path_of(path, x->d_name);
        uint64_t name = hash_bytes(x->d_name, strlen(x->d_name), 1);
        struct stat st;
        assert_int_equal(stat(at, &st), 0);
        if (S_ISDIR(st.st_mode)) {
            sum += mix64(name + dir_hash(at));
            continue;
        }
        struct buf bytes = BUF_INIT(64 << 20);
        OK(file_read(at, &bytes, &ok_e));
        sum += hash_bytes(buf_str(&bytes), bytes.len, name);
        buf_free(&bytes);
    }
    closedir(d);
    return sum;
}

// A store with a save of its state before, and traffic since.
struct scene {
    const char *before; // a copy of the directory as it was
    const char *dir;
    struct store *s; // as it is now
    struct image now;
    struct image old, saved; // what loads before and after a save that succeeds
    enum save_mode mode;     // of the save that is interrupted
    uint32_t keep;
};

static void restore(const struct scene *x)
{
    remove_all(x->dir);
    copy_dir(x->before, x->dir);
}

static struct image loaded_image(const struct scene *x)
{
    struct store *r = loaded(x->dir, SETTINGS, BITS);
    struct image got = image_of(r);
    store_close(r);
    return got;
}

static bool loads_as(const struct scene *x, struct image *want)
{
    struct image got = loaded_image(x);
    bool same = image_equal(&got, want);
    image_free(&got);
    return same;
}

static int child_status(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

// A save by a process of its own, which has the store as it is now.
static int save_apart(const struct scene *x, long n, int error)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child > 0)
        return child_status(child);
    struct err e = {0};
    disk_fault_after(n, error);
    int rc = save_one(x->s, x->dir, x->mode, x->keep, &e);
    disk_fault_after(-1, 0);
    if (rc == 0)
        _exit(0);
    // It says why, where, and the store is as it was.
    struct image after = image_of(x->s);
    bool well = rc == TUG_EIO && strstr(e.text, strerror(error)) != NULL &&
                strstr(e.text, x->dir) != NULL &&
                image_equal(&after, (struct image *)(uintptr_t)&x->now);
    if (!well)
        print_message("%s\n", e.text);
    // So the next one is what this one was to be.
    rc = save_one(x->s, x->dir, x->mode, x->keep, &e);
    if (rc == 0)
        remove_all(path_of(x->dir, "save-000003"));
    _exit(well && rc == 0 ? FAILED_WELL : 1);
}

static struct scene make_scene(enum save_mode mode, uint32_t keep)
{
    struct scene x = {.before = fresh_dir("before"),
                      .dir = fresh_dir("dir"),
                      .s = open_store(SETTINGS, BITS),
                      .mode = mode,
                      .keep = keep};
    push_many(x.s, (struct owner){0, 1}, 1, 1, KEYS);
    OK(save_one(x.s, x.before, SAVE_BASE, 0, &ok_e));
    push_many(x.s, (struct owner){0, 1}, 2, 1, KEYS);
    OK(save_one(x.s, x.before, SAVE_DELTA, 0, &ok_e));
    OK(store_finish(x.s, &ok_e));
    push_many(x.s, (struct owner){0, 1}, 3, 1, KEYS + 50);
    x.now = image_of(x.s);
    restore(&x);
    x.old = loaded_image(&x);
    assert_int_equal(save_apart(&x, -1, 0), 0);
    x.saved = loaded_image(&x);
    assert_true(x.saved.n == x.now.n && x.saved.n > x.old.n);
    return x;
}

static void close_scene(struct scene *x)
{
    image_free(&x->old);
    image_free(&x->now);
    image_free(&x->saved);
    store_close(x->s);
}

static const struct {
    enum save_mode mode;
    uint32_t keep;
} saves[] = {{SAVE_DELTA, 0}, {SAVE_BASE, 1}, {SAVE_CHECKPOINT, 1}, {SAVE_DAY, 0}};
enum { N_SAVES = sizeof(saves) / sizeof(*saves) };

static void test_killed(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_SAVES; i++) {
        struct scene x = make_scene(saves[i].mode, saves[i].keep);
        int seen_old = 0, seen_new = 0;
        for (long n = 0;; n++) {
            restore(&x);
            int status = save_apart(&x, n, 0);
            assert_true(status == 0 || status == DISK_FAULT_EXIT);
            bool old = loads_as(&x, &x.old), now = loads_as(&x, &x.saved);
            assert_true(old || now);
            assert_false(old && seen_new > 0); // once it is there, it is there
            seen_old += old;
            seen_new += now;
            assert_int_equal(save_apart(&x, -1, 0), 0); // the next one
            assert_true(loads_as(&x, &x.saved));
            if (status == 0)
                break;
        }
        assert_true(seen_old > 10 && seen_new > 1);
        close_scene(&x);
    }
}

static void test_refused(void **state)
{
    (void)state;
    static const int errors[] = {ENOSPC, EROFS, EIO, EACCES};
    for (size_t i = 0; i < N_SAVES; i++) {
        struct scene x = make_scene(saves[i].mode, saves[i].keep);
        int failed = 0;
        for (long n = 0;; n++) {
            restore(&x);
            uint64_t was = dir_hash(x.dir);
            int status = save_apart(&x, n, errors[(size_t)n % 4]);
            if (status == FAILED_WELL) {
                failed++;
                if (x.keep == 0)
                    assert_int_equal(dir_hash(x.dir), was);
                continue;
            }
            assert_int_equal(status, 0); // in cleaning up, or not at all
            assert_true(loads_as(&x, &x.saved));
            if (n > 60)
                break;
        }
        assert_true(failed > 10);
        close_scene(&x);
    }
}

// In a file system of our own, where that is allowed. Returns its exit status.
static int in_small_disk(int (*work)(const char *dir))
{
    const char *dir = fresh_dir("small");
    OK(file_make_dir(dir, &ok_e));
    pid_t child = fork();
    assert_true(child >= 0);
    if (child > 0)
        return child_status(child);
    int spaces = CLONE_NEWNS | (geteuid() == 0 ? 0 : CLONE_NEWUSER);
    if (unshare(spaces) != 0 ||
        mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", dir, "tmpfs", 0, "size=256k") != 0)
        _exit(SKIPPED);
    _exit(work(dir));
}

static int fill_disk(const char *dir)
{
    struct err e = {0};
    struct store *s = open_store(SETTINGS, BITS);
    push_many(s, (struct owner){0, 1}, 1, 1, KEYS);
    if (save_one(s, dir, SAVE_BASE, 0, &e) != 0)
        return 1;
    push_many(s, (struct owner){0, 1}, 1, 40, 20000); // more than there is room for
    struct image now = image_of(s);
    uint64_t was = dir_hash(dir);
    if (save_one(s, dir, SAVE_DELTA, 0, &e) != TUG_EIO ||
        strstr(e.text, "No space left on device; free some space") == NULL)
        return 2;
    struct image after = image_of(s);
    return dir_hash(dir) == was && image_equal(&now, &after) ? 0 : 3;
}

static int read_only_disk(const char *dir)
{
    struct err e = {0};
    struct store *s = open_store(SETTINGS, BITS);
    push_many(s, (struct owner){0, 1}, 1, 1, KEYS);
    if (save_one(s, dir, SAVE_BASE, 0, &e) != 0)
        return 1;
    if (mount("tmpfs", dir, "tmpfs", MS_REMOUNT | MS_RDONLY, "size=256k") != 0)
        return SKIPPED;
    if (save_one(s, dir, SAVE_DELTA, 0, &e) != TUG_EIO ||
        strstr(e.text, "Read-only file system") == NULL)
        return 2;
    struct store *r = loaded(dir, SETTINGS, BITS);
    return same_rows(r, s) ? 0 : 3;
}

static void run_in_small_disk(int (*work)(const char *dir))
{
    int status = in_small_disk(work);
    if (status == SKIPPED)
        skip();
    assert_int_equal(status, 0);
}

static void test_disk_full(void **state)
{
    (void)state;
    run_in_small_disk(fill_disk);
}

static void test_read_only_disk(void **state)
{
    (void)state;
    run_in_small_disk(read_only_disk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_disk_full),
        cmocka_unit_test(test_read_only_disk),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
