// SPDX-License-Identifier: Apache-2.0
#include "os/command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "kit/files.h"
#include "kit/test.h"
#include "os/disk.h"
#include "os/file.h"

static char path[FILE_PATH_MAX];

static int make_dir(void **state)
{
    return files_begin(state) != 0 || file_join(path, files_dir, "out", NULL) != 0;
}

static int write_lines(const char *text, size_t lines, struct err *e)
{
    struct command_file *f;
    TRY(command_file_create(&f, text, path, e));
    int rc = 0;
    for (size_t i = 0; i < lines && rc == 0; i++)
        rc = command_file_write(f, "a line\n", 7, e);
    if (rc != 0 && lines < 1000) {
        command_file_abort(f);
        return rc;
    }
    // The error of the commit, unlike that of a write, says why the command failed.
    return command_file_commit(f, e);
}

static void test_writes(void **state)
{
    (void)state;
    struct err e = {0};
    assert_int_equal(write_lines("tr a-z A-Z | uniq -c", 3000, &e), 0);
    struct buf b = BUF_INIT(100);
    assert_int_equal(file_read(path, &b, NULL), 0);
    assert_non_null(strstr(buf_str(&b), "3000 A LINE\n"));
    buf_free(&b);
    assert_int_equal(files_beside(files_dir, NULL), 0);
    assert_int_equal(unlink(path), 0);
}

// A command that fails leaves no file, and the error names the command, its status and
// its output.
static void test_fails(void **state)
{
    (void)state;
    static const struct {
        const char *text, *what;
    } commands[] = {
        {"cat > /dev/null; echo no such thing >&2; exit 3",
         "ended with status 3: no such thing"},
        {"kill -TERM $$", "ended by signal 15 (Terminated)"},
        {"no-such-command-at-all", "status 127"},
        {"exec 0<&-; exit 1", "ended with status 1"},
        {"head -n 1; true", "did not read all of its input"},
    };
    for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
        struct err e = {0};
        assert_int_equal(write_lines(commands[i].text, 100000, &e), TUG_EIO);
        if (strstr(e.text, commands[i].what) == NULL)
            fail_msg("'%s' instead of '%s'", e.text, commands[i].what);
        assert_non_null(strstr(e.text, commands[i].text));
        assert_false(file_exists(path));
        assert_int_equal(files_beside(files_dir, NULL), 0);
    }
}

// An aborted command is ended together with the processes that it started.
static void test_abort(void **state)
{
    (void)state;
    struct command_file *f;
    struct err e = {0};
    assert_int_equal(
        command_file_create(&f, "cat | cat | cat; cat /dev/zero > /dev/null", path, &e),
        0);
    assert_int_equal(command_file_write(f, "x", 1, &e), 0);
    command_file_abort(f);
    command_file_abort(NULL);
    command_abort(NULL);
    assert_false(file_exists(path));
    assert_int_equal(files_beside(files_dir, NULL), 0);
}

static void test_reads(void **state)
{
    (void)state;
    struct err e = {0};
    struct command *c;
    char bytes[100];
    size_t n, all = 0;
    FILE *in = tmpfile();
    assert_non_null(in);
    assert_true(fputs("one\ntwo\n", in) >= 0 && fflush(in) == 0);
    rewind(in);
    assert_int_equal(command_begin(&c, "rev", COMMAND_READ, fileno(in), &e), 0);
    do {
        assert_int_equal(command_read(c, bytes + all, sizeof(bytes) - all, &n, &e), 0);
        all += n;
    } while (n > 0);
    assert_int_equal(command_end(c, &e), 0);
    assert_int_equal(all, 8);
    assert_memory_equal(bytes, "eno\nowt\n", 8);
    rewind(in);
    assert_int_equal(command_begin(&c, "cat; exit 9", COMMAND_READ, fileno(in), &e), 0);
    while (command_read(c, bytes, sizeof(bytes), &n, &e) == 0 && n > 0)
        ;
    assert_int_equal(command_end(c, &e), TUG_EIO);
    assert_non_null(strstr(e.text, "status 9"));
    fclose(in);
}

// Returns the memory of all files that exist only in memory, such as a command's standard
// error.
static size_t complaints_held(const struct command *c)
{
    size_t held = 0;
    (void)command_fd(c); // checks on the command and frees old blocks
    for (int fd = 3; fd < 64; fd++) {
        char link[64], to[64] = "";
        struct stat s;
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        if (readlink(link, to, sizeof to - 1) > 0 && strstr(to, "complaints") != NULL &&
            fstat(fd, &s) == 0)
            held += (size_t)s.st_blocks * 512;
    }
    return held;
}

// A command writes much to standard error: the end is reported, and the rest is not kept.
static void test_complains_much(void **state)
{
    (void)state;
    struct err e = {0};
    struct command *c;
    char byte;
    size_t n;
    FILE *in = tmpfile();
    assert_non_null(in);
    assert_int_equal(command_begin(&c,
                                   "head -c 8000000 /dev/zero | tr '\\0' x >&2; echo; "
                                   "read -r line; echo the end >&2; exit 4",
                                   COMMAND_READ, fileno(in), &e),
                     0);
    assert_int_equal(command_read(c, &byte, 1, &n, &e), 0);
    size_t held = complaints_held(c);
    if (held == 0 || held > 200 << 10)
        fail_msg("%zu bytes of complaints are held", held);
    assert_int_equal(command_end(c, &e), TUG_EIO);
    assert_non_null(strstr(e.text, "status 4: "));
    assert_non_null(strstr(e.text, "xxthe end"));
    fclose(in);
}

static void test_faults(void **state)
{
    (void)state;
    struct err e = {0};
    size_t live = mem_live();
    for (long n = 0;; n++) {
        mem_fault_after(n);
        int rc = write_lines("cat", 3, &e);
        if (!mem_faulted())
            break;
        assert_int_equal(rc, TUG_ENOMEM);
        assert_int_equal(mem_live(), live);
        assert_int_equal(files_beside(files_dir, NULL), 0);
    }
    mem_fault_after(-1);
    for (long n = 0;; n++) {
        (void)unlink(path);
        disk_fault_after(n, ENOSPC);
        int rc = write_lines("cat", 3, &e);
        if (!disk_faulted())
            break;
        assert_int_equal(rc, TUG_EIO);
        // the file exists only if the call that failed is the directory's fsync
        assert_int_equal(file_exists(path), n == 3);
        assert_int_equal(files_beside(files_dir, NULL), 0);
    }
    disk_fault_after(-1, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_writes),         cmocka_unit_test(test_fails),
        cmocka_unit_test(test_abort),          cmocka_unit_test(test_reads),
        cmocka_unit_test(test_complains_much), cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests(tests, make_dir, files_end);
}
