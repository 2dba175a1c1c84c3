// SPDX-License-Identifier: Apache-2.0
#include "os/disk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "kit/files.h"
#include "kit/test.h"
#include "os/file.h"

static int write_file(const char *path, const char *text, struct err *e)
{
    struct file_writer *w;
    TRY(file_create(&w, path, e));
    int rc = file_write(w, text, strlen(text), e);
    if (rc == 0)
        return file_commit(w, e);
    file_abort(w);
    return rc;
}

static void assert_text(const char *path, const char *text)
{
    struct buf b = BUF_INIT(1000);
    assert_int_equal(file_read(path, &b, NULL), 0);
    assert_string_equal(buf_str(&b), text);
    buf_free(&b);
}

// The calls are create, write, fsync, rename, and fsync of the directory. Each fails with
// its own message, and none leaves a temporary file.
static void test_each_call_fails(void **state)
{
    (void)state;
    const char *path = files_in("fails");
    assert_int_equal(write_file(path, "old", NULL), 0);
    for (long n = 0; n < 5; n++) {
        struct err e = {0};
        disk_fault_after(n, ENOSPC);
        assert_int_equal(write_file(path, "new", &e), TUG_EIO);
        assert_true(disk_faulted());
        assert_non_null(strstr(e.text, "No space left on device"));
        assert_int_equal(files_beside(files_dir, NULL), 0);
        assert_text(path, n < 4 ? "old" : "new");
    }
    disk_fault_after(5, ENOSPC);
    assert_int_equal(write_file(path, "newer", NULL), 0);
    assert_false(disk_faulted());
    disk_fault_after(-1, 0);
}

// The process ends in each of these calls in turn. The file is then either the old one or
// the new one.
static void test_each_call_ends_the_process(void **state)
{
    (void)state;
    char path[FILE_PATH_MAX], beside[FILE_PATH_MAX];
    assert_int_equal(file_join(path, files_dir, "ends", NULL), 0);
    for (long n = 0;; n++) {
        assert_int_equal(write_file(path, "old", NULL), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            disk_fault_after(n, 0);
            _exit(write_file(path, "new", NULL) == 0 ? 0 : 1);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_text(path, n < 4 ? "old" : "new");
        if (WEXITSTATUS(status) == 0) {
            assert_int_equal(n, 5);
            return;
        }
        assert_int_equal(WEXITSTATUS(status), DISK_FAULT_EXIT);
        // A temporary file may be left. The next process that makes the file removes it.
        assert_int_equal(files_beside(files_dir, beside), n >= 1 && n < 4);
        if (n == 1) // the process ended in the write, of which half was done
            assert_text(beside, "n");
    }
}

static void test_directories(void **state)
{
    (void)state;
    struct err e;
    const char *path = files_in("made");
    disk_fault_after(0, EROFS);
    assert_int_equal(file_make_dir(path, &e), TUG_EIO);
    assert_non_null(strstr(e.text, "Read-only file system"));
    assert_int_equal(file_make_new_dir(path, &e), 0);
    assert_int_equal(file_make_new_dir(path, &e), TUG_EIO);
    assert_non_null(strstr(e.text, "File exists"));
    disk_fault_after(0, EACCES);
    assert_int_equal(file_remove_tree(path, &e), TUG_EIO);
    assert_int_equal(file_remove_tree(path, &e), 0);
    disk_fault_after(-1, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_call_fails),
        cmocka_unit_test(test_each_call_ends_the_process),
        cmocka_unit_test(test_directories),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
