// SPDX-License-Identifier: Apache-2.0
#include "cluster/journal/journal.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cluster/journal/journal_internal.h"
#include "kit/files.h"
#include "kit/test.h"
#include "os/clock.h"
#include "os/disk.h"

// The texts of the groups that were read, with a "|" after each.
struct seen {
    char text[4096];
};

static int note(void *ctx, const void *bytes, size_t n, struct err *e)
{
    struct seen *s = ctx;
    size_t at = strlen(s->text);
    (void)e;
    assert_true(at + n + 2 < sizeof(s->text));
    memcpy(s->text + at, bytes, n);
    memcpy(s->text + at + n, "|", 2);
    return 0;
}

static struct journal *open_in(const char *dir)
{
    struct err e = {0};
    struct journal *j = NULL;
    if (journal_open(&j, dir, &e) != 0)
        fail_msg("%s", e.text);
    return j;
}

static void add(struct journal *j, const char *text)
{
    struct err e = {0};
    if (journal_commit(j, text, strlen(text), &e) != 0)
        fail_msg("%s", e.text);
}

static void assert_groups(const char *dir, const char *expected)
{
    struct seen s = {{0}};
    struct err e = {0};
    struct journal *j = open_in(dir);
    assert_int_equal(journal_replay(j, note, &s, &e), 0);
    assert_string_equal(s.text, expected);
    journal_close(j);
}

static void test_groups_come_back_in_order(void **state)
{
    (void)state;
    const char *dir = files_in("order/deeper");
    assert_groups(dir, "");
    struct journal *j = open_in(dir);
    uint64_t empty = journal_bytes(j);
    add(j, "one");
    add(j, "twelve bytes");
    add(j, "sixteen bytes...");
    assert_true(journal_bytes(j) > empty);
    journal_close(j);
    assert_groups(dir, "one|twelve bytes|sixteen bytes...|");
    j = open_in(dir);
    add(j, "four");
    journal_close(j);
    assert_groups(dir, "one|twelve bytes|sixteen bytes...|four|");
}

static void test_replace_keeps_only_the_new_group(void **state)
{
    (void)state;
    const char *dir = files_in("replace");
    struct err e = {0};
    struct journal *j = open_in(dir);
    for (int i = 0; i < 100; i++)
        add(j, "a rather long group, of which there are many");
    uint64_t before = journal_bytes(j);
    assert_int_equal(journal_replace(j, "all", 3, &e), 0);
    assert_true(journal_bytes(j) < before);
    add(j, "more");
    journal_close(j);
    assert_groups(dir, "all|more|");
}

static void test_only_the_owner_can_read_it(void **state)
{
    (void)state;
    const char *dir = files_in("mode"), *path = files_in("mode/journal");
    struct stat st;
    struct err e = {0};
    struct journal *j = open_in(dir);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    add(j, "x");
    assert_int_equal(journal_replace(j, "y", 1, &e), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    journal_close(j);
    assert_int_equal(chmod(path, 0644), 0);
    assert_groups(dir, "y|");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
}

static void test_directory_of_others_is_refused(void **state)
{
    (void)state;
    const char *dir = files_in("others");
    struct stat st;
    struct err e = {0};
    struct journal *j = open_in(dir);
    journal_close(j);
    assert_int_equal(stat(dir, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(chmod(dir, 0755), 0);
    assert_groups(dir, "");
    assert_int_equal(chmod(dir, 0775), 0);
    assert_int_equal(journal_open(&j, dir, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "other users may write in"));
    assert_int_equal(chmod(dir, 0700), 0);
    if (geteuid() != 0)
        return;
    assert_int_equal(chown(dir, 12345, 12345), 0);
    assert_int_equal(journal_open(&j, dir, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "belongs to another user"));
}

// The journal searches for an intact group behind a torn one. The search takes time in
// proportion to the file's size, even if a member has chosen the bytes of the torn group.
static void test_long_torn_tail(void **state)
{
    (void)state;
    enum { BYTES = 8 << 20 };
    const char *dir = files_in("tail"), *path = files_in("tail/journal");
    struct journal *j = open_in(dir);
    uint64_t begin = journal_bytes(j);
    char *bytes = mem_zalloc(BYTES);
    assert_non_null(bytes);
    for (size_t i = 0; i + 8 <= BYTES; i += 8) {
        uint32_t n = (uint32_t)(BYTES - i) / 2;
        memcpy(bytes + i, "tgrp", 4);
        memcpy(bytes + i + 4, &n, sizeof(n));
    }
    struct err e = {0};
    assert_int_equal(journal_commit(j, bytes, BYTES, &e), 0);
    journal_close(j);
    assert_int_equal(truncate(path, (off_t)(begin + BYTES)), 0);
    uint64_t from = clock_ns();
    assert_groups(dir, "");
    assert_true(clock_ns() - from < 10 * SECOND_NS);
    mem_free(bytes);
}

static void test_a_second_process_is_refused(void **state)
{
    (void)state;
    const char *dir = files_in("lock");
    struct journal *j = open_in(dir), *other = NULL;
    struct err e = {0};
    assert_int_equal(journal_open(&other, dir, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "is in use by another process"));
    assert_null(other);
    journal_close(j);
    assert_groups(dir, "");
}

// The file is cut at every byte. If the cut is in the last group, only that group is
// lost. If the cut is before the last group, the reader finds fewer groups or reports an
// error.
static void test_torn_tails(void **state)
{
    (void)state;
    const char *dir = files_in("torn"), *path = files_in("torn/journal");
    struct journal *j = open_in(dir);
    uint64_t ends[4] = {journal_bytes(j)};
    add(j, "first");
    ends[1] = journal_bytes(j);
    add(j, "the second");
    ends[2] = journal_bytes(j);
    add(j, "the third group");
    ends[3] = journal_bytes(j);
    journal_close(j);
    static const char *const expected[] = {"", "first|", "first|the second|",
                                           "first|the second|the third group|"};
    struct buf all = files_buf(path);
    assert_int_equal(all.len, ends[3]);
    for (size_t n = 0; n <= all.len; n++) {
        struct err e = {0};
        int whole = -1;
        for (int i = 0; i < 4; i++)
            whole = n >= ends[i] ? i : whole;
        files_write_bytes(path, all.data, n);
        if (whole < 0) {
            assert_int_equal(journal_open(&j, dir, &e), TUG_EDATA);
            continue;
        }
        assert_groups(dir, expected[whole]);
        j = open_in(dir); // the next group is written after the last sound one
        assert_int_equal(journal_bytes(j), ends[whole]);
        add(j, "later");
        journal_close(j);
        struct seen s = {{0}};
        j = open_in(dir);
        assert_int_equal(journal_replay(j, note, &s, &e), 0);
        assert_memory_equal(s.text, expected[whole], strlen(expected[whole]));
        assert_string_equal(s.text + strlen(expected[whole]), "later|");
        journal_close(j);
    }
    buf_free(&all);
}

// Each bit of the file is flipped in turn. Damage before the last group is an error; a
// damaged last group is lost. The reader never returns a group with changed bytes.
static void test_flipped_bits(void **state)
{
    (void)state;
    const char *dir = files_in("bits"), *path = files_in("bits/journal");
    struct journal *j = open_in(dir);
    add(j, "first");
    add(j, "the second");
    uint64_t last = journal_bytes(j);
    add(j, "12345678"); // this group ends at a multiple of 8, so no zeros follow it
    journal_close(j);
    struct buf all = files_buf(path);
    for (size_t bit = 0; bit < 8 * all.len; bit++) {
        struct err e = {0};
        struct seen s = {{0}};
        uint64_t end = 0;
        all.data[bit / 8] ^= (char)(1 << bit % 8);
        int rc = journal_read(all.data, all.len, path, &end, note, &s, &e);
        all.data[bit / 8] ^= (char)(1 << bit % 8);
        if (rc == 0 && bit / 8 >= last) {
            assert_string_equal(s.text, "first|the second|");
            assert_int_equal(end, last);
            // The bit was in the zeros at a group's end, which have no checksum.
        } else if (rc == 0) {
            assert_string_equal(s.text, "first|the second|12345678|");
        } else {
            assert_int_equal(rc, TUG_EDATA);
            assert_non_null(strstr(e.text, path));
            assert_true(bit / 8 < last);
        }
    }
    buf_free(&all);
}

// The reader refuses a group that was copied from another file, or from
// another place in the file.
static void test_groups_belong_to_their_place(void **state)
{
    (void)state;
    const char *dir = files_in("place"), *path = files_in("place/journal");
    struct journal *j = open_in(dir);
    uint64_t begin = journal_bytes(j);
    add(j, "the one");
    uint64_t end = journal_bytes(j);
    journal_close(j);
    struct buf all = files_buf(path), twice = BUF_INIT(1 << 20);
    assert_int_equal(buf_add(&twice, all.data, all.len), 0);
    assert_int_equal(buf_add(&twice, all.data + begin, end - begin), 0);
    files_write_bytes(path, twice.data, twice.len);
    assert_groups(dir, "the one|");
    buf_free(&all);
    buf_free(&twice);
}

static void test_other_files_are_refused(void **state)
{
    (void)state;
    struct err e = {0};
    struct journal *j = NULL;
    assert_int_equal(mkdir(files_in("other"), 0700), 0);
    files_write(files_in("other/journal"), "this is a longer text of another kind\n");
    assert_int_equal(journal_open(&j, files_in("other"), &e), TUG_EDATA);
    assert_non_null(strstr(e.text, "is not a journal"));
    files_remove(files_in("other/journal"));
    assert_int_equal(symlink("/dev/null", files_in("other/journal")), 0);
    assert_int_not_equal(journal_open(&j, files_in("other"), &e), 0);
    assert_null(j);
}

// The disk is full at one of the calls that write: the error names the file, the group
// counts as not written, all later commits fail, and the next start has all groups
// that were committed without an error.
static void test_full_disk(void **state)
{
    (void)state;
    const char *dir = files_in("full");
    struct err e = {0};
    struct journal *j = open_in(dir);
    add(j, "kept");
    journal_close(j);
    for (long n = 0; n < 2; n++) {
        j = open_in(dir);
        disk_fault_after(n, ENOSPC);
        assert_int_equal(journal_commit(j, "lost", 4, &e), TUG_EIO);
        assert_true(disk_faulted());
        disk_fault_after(-1, 0);
        assert_non_null(strstr(e.text, "full/journal': No space left on device"));
        assert_int_equal(journal_commit(j, "again", 5, &e), TUG_EIO);
        assert_non_null(strstr(e.text, "No space left on device"));
        assert_int_equal(journal_replace(j, "again", 5, &e), TUG_EIO);
        journal_close(j);
        assert_groups(dir, "kept|");
    }
}

// The process ends in the middle of one of its calls, as in a power cut; a write then
// writes half of its bytes. The next start reads only whole groups.
static void test_killed_at_each_call(void **state)
{
    (void)state;
    const char *dir = files_in("killed");
    journal_close(open_in(dir));
    for (long n = 0; n < 8; n++) {
        struct err e = {0};
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            struct journal *j = NULL;
            disk_fault_after(n, 0);
            if (journal_open(&j, dir, &e) != 0 || journal_replace(j, "a", 1, &e) != 0 ||
                journal_commit(j, "bcd", 3, &e) != 0)
                _exit(1);
            _exit(0);
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) != 1);
        struct seen s = {{0}};
        struct journal *j = open_in(dir);
        assert_int_equal(journal_replay(j, note, &s, &e), 0);
        journal_close(j);
        assert_true(strcmp(s.text, "") == 0 || strcmp(s.text, "a|") == 0 ||
                    strcmp(s.text, "a|bcd|") == 0);
        if (WEXITSTATUS(status) == 0)
            assert_string_equal(s.text, "a|bcd|");
    }
}

static void count(void *ctx)
{
    ++*(int *)ctx;
}

// A thread writes the groups: each is durable when journal_wait returns, the owner is
// woken, and closing the journal first writes the last group.
static void test_thread(void **state)
{
    (void)state;
    const char *dir = files_in("thread");
    struct err e = {0};
    int woken = 0;
    struct journal *j = open_in(dir), *alone;
    assert_int_equal(journal_thread(&j, &e), 0);
    journal_wake_by(j, count, &woken);
    assert_int_equal(journal_ready(j, &e), 1);
    add(j, "lost");
    assert_int_equal(journal_wait(j, &e), 0);
    assert_int_equal(journal_ready(j, &e), 1);
    assert_int_equal(woken, 1);
    assert_int_equal(journal_replace(j, "all", 3, &e), 0);
    add(j, "more");
    assert_int_equal(journal_wait(j, &e), 0);
    assert_int_equal(woken, 3);
    uint64_t bytes = journal_bytes(j);
    add(j, "the last");
    journal_close(j);
    assert_groups(dir, "all|more|the last|");
    alone = open_in(dir);
    assert_int_equal(journal_bytes(alone),
                     bytes + sizeof(struct journal_group) + strlen("the last"));
    journal_close(alone);
}

static void test_thread_on_a_full_disk(void **state)
{
    (void)state;
    const char *dir = files_in("full thread");
    struct err e = {0};
    struct journal *j = open_in(dir);
    add(j, "kept");
    assert_int_equal(journal_thread(&j, &e), 0);
    disk_fault_after(0, ENOSPC);
    add(j, "lost");
    assert_int_equal(journal_wait(j, &e), TUG_EIO);
    disk_fault_after(-1, 0);
    assert_non_null(strstr(e.text, "full thread/journal': No space left on device"));
    assert_int_equal(journal_ready(j, &e), TUG_EIO);
    assert_int_equal(journal_commit(j, "again", 5, &e), TUG_EIO);
    assert_int_equal(journal_replace(j, "again", 5, &e), TUG_EIO);
    journal_close(j);
    assert_groups(dir, "kept|");
}

static void test_each_allocation_fails(void **state)
{
    (void)state;
    const char *dir = files_in("memory");
    journal_close(open_in(dir));
    for (long n = 0; n < 20; n++) {
        struct err e = {0};
        struct journal *j = NULL;
        struct seen s = {{0}};
        mem_fault_after(n);
        int rc = journal_open(&j, dir, &e);
        if (rc == 0)
            rc = journal_thread(&j, &e);
        if (rc == 0)
            rc = journal_replay(j, note, &s, &e);
        mem_fault_after(-1);
        assert_true(rc == 0 || rc == TUG_ENOMEM);
        if (j != NULL)
            journal_close(j);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups_come_back_in_order),
        cmocka_unit_test(test_replace_keeps_only_the_new_group),
        cmocka_unit_test(test_only_the_owner_can_read_it),
        cmocka_unit_test(test_directory_of_others_is_refused),
        cmocka_unit_test(test_long_torn_tail),
        cmocka_unit_test(test_a_second_process_is_refused),
        cmocka_unit_test(test_torn_tails),
        cmocka_unit_test(test_flipped_bits),
        cmocka_unit_test(test_groups_belong_to_their_place),
        cmocka_unit_test(test_other_files_are_refused),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_killed_at_each_call),
        cmocka_unit_test(test_thread),
        cmocka_unit_test(test_thread_on_a_full_disk),
        cmocka_unit_test(test_each_allocation_fails),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
