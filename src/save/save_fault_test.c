// Interrupted saves: the process ends, or the system reports an error, at each call that
// changes the disk. Afterwards either the previous save or the new one exists, never a
// mixture; the saver continues training, and its next save succeeds.
//
// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/hash.h"
#include "kit/files.h"
#include "kit/saves.h"
#include "kit/test.h"
#include "os/disk.h"

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
        const char *a = saves_path(from, x->d_name), *b = saves_path(to, x->d_name);
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

// Returns a hash of the names and bytes of all files in a directory. It does not depend
// on the order of the files.
static uint64_t dir_hash(const char *path)
{
    uint64_t sum = 0;
    DIR *d = opendir(path);
    assert_non_null(d);
    for (struct dirent *x = readdir(d); x != NULL; x = readdir(d)) {
        if (x->d_name[0] == '.')
            continue;
        const char *at = saves_path(path, x->d_name);
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

// A store that was saved, and then got further pushes.
struct scene {
    const char *before; // a copy of the directory before the interrupted save
    const char *dir;
    struct store *s; // the store with the pushes
    struct rows_image now;
    // The rows that a load gives if the interrupted save does not exist, and if it does.
    struct rows_image old, saved;
    enum save_mode mode; // mode of the save that is interrupted
    uint32_t keep;
};

static void restore(const struct scene *x)
{
    files_remove(x->dir);
    copy_dir(x->before, x->dir);
}

static struct rows_image loaded_image(const struct scene *x)
{
    struct store *r = saves_loaded(x->dir, SETTINGS, BITS);
    struct rows_image got = rows_image_of(r);
    store_close(r);
    return got;
}

static bool loads_as(const struct scene *x, struct rows_image *want)
{
    struct rows_image got = loaded_image(x);
    bool same = rows_image_equal(&got, want);
    rows_image_free(&got);
    return same;
}

static int child_status(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

// Saves the store in a child process. The child's n-th call that changes the disk,
// counted from 0, ends the process, or fails with `error` if that is not 0
// (disk_fault_after).
static int save_apart(const struct scene *x, long n, int error)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child > 0)
        return child_status(child);
    struct err e = {0};
    disk_fault_after(n, error);
    int rc = saves_one(x->s, x->dir, x->mode, x->keep, &e);
    disk_fault_after(-1, 0);
    if (rc == 0)
        _exit(0);
    // The error has the reason and the place, and the store has not changed.
    struct rows_image after = rows_image_of(x->s);
    bool well = rc == TUG_EIO && strstr(e.text, strerror(error)) != NULL &&
                strstr(e.text, x->dir) != NULL &&
                rows_image_equal(&after, (struct rows_image *)(uintptr_t)&x->now);
    if (!well)
        print_message("%s\n", e.text);
    // The store is unchanged, so the next save has the contents that the interrupted save
    // should have had.
    rc = saves_one(x->s, x->dir, x->mode, x->keep, &e);
    if (rc == 0)
        files_remove(saves_path(x->dir, "save-000003"));
    _exit(well && rc == 0 ? FAILED_WELL : 1);
}

static struct scene make_scene(enum save_mode mode, uint32_t keep)
{
    struct scene x = {.before = saves_fresh("before"),
                      .dir = saves_fresh("dir"),
                      .s = stores_open(SETTINGS, BITS),
                      .mode = mode,
                      .keep = keep};
    saves_push(x.s, (struct saves_owner){0, 1}, 1, 1, KEYS);
    OK(saves_one(x.s, x.before, SAVE_BASE, 0, &ok_e));
    saves_push(x.s, (struct saves_owner){0, 1}, 2, 1, KEYS);
    OK(saves_one(x.s, x.before, SAVE_DELTA, 0, &ok_e));
    OK(store_finish(x.s, &ok_e));
    saves_push(x.s, (struct saves_owner){0, 1}, 3, 1, KEYS + 50);
    x.now = rows_image_of(x.s);
    restore(&x);
    x.old = loaded_image(&x);
    assert_int_equal(save_apart(&x, -1, 0), 0);
    x.saved = loaded_image(&x);
    assert_true(x.saved.n == x.now.n && x.saved.n > x.old.n);
    return x;
}

static void close_scene(struct scene *x)
{
    rows_image_free(&x->old);
    rows_image_free(&x->now);
    rows_image_free(&x->saved);
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
            // Once the new save exists, the old state is not seen again.
            assert_false(old && seen_new > 0);
            seen_old += old;
            seen_new += now;
            assert_int_equal(save_apart(&x, -1, 0), 0); // the next save succeeds
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
            // The save succeeds even if removing older saves fails.
            assert_int_equal(status, 0);
            assert_true(loads_as(&x, &x.saved));
            if (n > 60)
                break;
        }
        assert_true(failed > 10);
        close_scene(&x);
    }
}

// Runs work(dir) in a child process, in which dir is a file system of 256 KiB. Returns
// the child's exit status, which is SKIPPED if the system refuses to mount one.
static int in_small_disk(int (*work)(const char *dir))
{
    const char *dir = saves_fresh("small");
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
    struct store *s = stores_open(SETTINGS, BITS);
    saves_push(s, (struct saves_owner){0, 1}, 1, 1, KEYS);
    if (saves_one(s, dir, SAVE_BASE, 0, &e) != 0)
        return 1;
    saves_push(s, (struct saves_owner){0, 1}, 1, 40,
               20000); // more rows than the file system has room for
    struct rows_image now = rows_image_of(s);
    uint64_t was = dir_hash(dir);
    if (saves_one(s, dir, SAVE_DELTA, 0, &e) != TUG_EIO ||
        strstr(e.text, "No space left on device; free some space") == NULL)
        return 2;
    struct rows_image after = rows_image_of(s);
    return dir_hash(dir) == was && rows_image_equal(&now, &after) ? 0 : 3;
}

static int read_only_disk(const char *dir)
{
    struct err e = {0};
    struct store *s = stores_open(SETTINGS, BITS);
    saves_push(s, (struct saves_owner){0, 1}, 1, 1, KEYS);
    if (saves_one(s, dir, SAVE_BASE, 0, &e) != 0)
        return 1;
    if (mount("tmpfs", dir, "tmpfs", MS_REMOUNT | MS_RDONLY, "size=256k") != 0)
        return SKIPPED;
    if (saves_one(s, dir, SAVE_DELTA, 0, &e) != TUG_EIO ||
        strstr(e.text, "Read-only file system") == NULL)
        return 2;
    struct store *r = saves_loaded(dir, SETTINGS, BITS);
    return rows_same(r, s) ? 0 : 3;
}

static void run_in_small_disk(int (*work)(const char *dir))
{
    int status = in_small_disk(work);
    if (status == SKIPPED)
        skip_because("no right to mount (root in a container without it)");
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
    return cmocka_run_group_tests(tests, files_begin_in_memory, files_end);
}
