// Files of --tfevents when memory or the disk fails. tests/e2e/tfevents_test.sh reads the
// files of whole runs.
//
// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "kit/files.h"
#include "kit/test.h"
#include "os/disk.h"
#include "train/tfevents.h"

enum { LABELS = 2 };

static struct history history(void)
{
    struct history h = {.labels = LABELS, .label = {"click", "buy\xff\n"}};
    struct history_pass p = {.pass = 1, .examples = 100, .validated = true};
    struct err e;
    assert_int_equal(history_add(&h, &p, &e), 0);
    return h;
}

static size_t files_of(const char *dir, char names[][64])
{
    return files_exists(dir) ? files_list(dir, names, 8) : 0;
}

// The path of the only file of a directory.
static const char *file_of(const char *dir)
{
    char names[8][64];
    assert_int_equal(files_of(dir, names), 1);
    return files_path("%s/%s", dir, names[0]);
}

static size_t size_of(const char *path)
{
    struct stat s;
    assert_int_equal(stat(path, &s), 0);
    return (size_t)s.st_size;
}

// Each event is in the file as soon as the call returns.
static void written_at_once(void **state)
{
    (void)state;
    struct history h = history();
    struct metrics_stream *seen = metrics_streams(LABELS);
    struct tfevents *t = NULL;
    struct err e;
    const char *dir = files_in("a/b"), *path;
    assert_int_equal(tfevents_open(&t, dir, &h, LOSS_LOGISTIC, true, 7, &e), 0);
    path = file_of(dir);
    size_t n = size_of(path);
    assert_true(n > 0 && tfevents_failed(t) == NULL);
    metrics_stream_add(&seen[0], LOSS_LOGISTIC, 0.1f, 0.5, 1, 1);
    tfevents_window(t, 50, seen, 0.1);
    assert_true(size_of(path) > n);
    n = size_of(path);
    tfevents_pass(t, seen);
    assert_true(size_of(path) > n);
    char *bytes = files_read(path, &n);
    assert_non_null(memmem(bytes, n, "loss/window/click", 17));
    // The label buy has no example in the window.
    assert_null(memmem(bytes, n, "loss/window/buy", 15));
    assert_non_null(memmem(bytes, n, "loss/valid/buy??", 16));
    mem_free(bytes);
    tfevents_close(t);
    mem_free(seen);
    history_free(&h);
}

// After any failed write, nothing more is written, and the error is kept.
static void full_disk(void **state)
{
    (void)state;
    struct history h = history();
    struct metrics_stream *seen = metrics_streams(LABELS);
    bool reached = true;
    for (long n = 0; reached; n++) {
        struct tfevents *t = NULL;
        struct err e = {0};
        const char *dir = files_in("full-%ld", n);
        assert_int_equal(mkdir(dir, 0777), 0);
        disk_fault_after(n, ENOSPC);
        int rc = tfevents_open(&t, dir, &h, LOSS_LOGISTIC, false, 0, &e);
        for (int i = 0; rc == 0 && i < 3; i++)
            tfevents_pass(t, seen);
        reached = disk_faulted();
        disk_fault_after(-1, 0);
        const struct err *why = rc != 0 ? &e : tfevents_failed(t);
        assert_true((why != NULL) == reached);
        if (why != NULL)
            assert_non_null(strstr(why->text, "--tfevents: cannot"));
        if (rc == 0 && why != NULL) {
            const char *path = file_of(dir);
            size_t size = size_of(path);
            assert_true(tfevents_next_ns(t) == UINT64_MAX);
            tfevents_window(t, 1, seen, 0.1);
            assert_true(size_of(path) == size);
        }
        tfevents_close(rc == 0 ? t : NULL);
    }
    mem_free(seen);
    history_free(&h);
}

static void no_memory(void **state)
{
    (void)state;
    struct history h = history();
    struct metrics_stream *seen = metrics_streams(LABELS);
    bool failed = true;
    for (long n = 0; failed; n++) {
        struct tfevents *t = NULL;
        struct err e = {0};
        mem_fault_after(n);
        int rc = tfevents_open(&t, files_in("memory"), &h, LOSS_LOGISTIC, true, 0, &e);
        if (rc == 0) {
            tfevents_window(t, 1, seen, 0.1);
            tfevents_pass(t, seen);
        }
        mem_fault_after(-1);
        const struct err *why = rc != 0 ? &e : tfevents_failed(t);
        failed = why != NULL;
        assert_true(why == NULL || why->code == TUG_ENOMEM);
        tfevents_close(rc == 0 ? t : NULL);
    }
    mem_free(seen);
    history_free(&h);
}

static void places(void **state)
{
    (void)state;
    struct err e;
    const char *file = files_write(files_in("file"), "x");
    assert_int_equal(tfevents_check(NULL, NULL, &e), 0);
    assert_int_equal(tfevents_check(files_in("new"), files_in("out"), &e), 0);
    assert_int_equal(tfevents_check(files_in("outer"), files_in("out"), &e), 0);
    assert_int_equal(tfevents_check(file, NULL, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "file' is not a directory"));
    assert_int_equal(tfevents_check(files_in("out/x"), files_in("out"), &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "lies in --out"));
    assert_int_equal(tfevents_check(files_in("out"), files_in("out"), &e), TUG_EUSAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_at_once),
        cmocka_unit_test(full_disk),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(places),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
