// A loop that cannot wait for its disk abandons the writer in the middle of a save: the
// writer frees its memory and leaves no file behind.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/saves/save_writer.h"

#include <dirent.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "kit/files.h"
#include "kit/test.h"
#include "os/file.h"

enum {
    PARTITION_BITS = 4,
    ROWS = 8192,
    WIDTH = 3,
    ROW_BYTES = 8 + WIDTH * sizeof(float)
};

static char path[FILES_PATH];
static atomic_int woken;

static int make_dir(void **state)
{
    if (files_begin(state) != 0)
        return -1;
    snprintf(path, sizeof(path), "%s", files_in("a.rows"));
    return 0;
}

static size_t files_there(void)
{
    size_t n = 0;
    DIR *d = opendir(files_dir);
    assert_non_null(d);
    for (const struct dirent *x = readdir(d); x != NULL; x = readdir(d))
        n += x->d_type != DT_DIR;
    closedir(d);
    return n;
}

static void wake(void *ctx)
{
    (void)ctx;
    atomic_fetch_add(&woken, 1);
}

// Starts a writer, and queues the begin of a file and more bytes than the
// writer writes at once.
static struct save_writer *begin(void)
{
    static _Alignas(8) char rows[ROWS * ROW_BYTES];
    struct save_writer_options o = {.threaded = true, .wake = wake};
    struct rows_shape shape = {.width = WIDTH, .partition_bits = PARTITION_BITS};
    struct rows_block block = {
        .kind = ROWS_ROW, .n = ROWS, .width = WIDTH, .payload = rows};
    struct save_writer *w;
    struct err e = {0};
    assert_int_equal(save_writer_open(&w, &o, &e), 0);
    assert_int_equal(save_writer_begin(w, FILE_ANYWHERE, path, &shape, &e), 0);
    for (; block.partition < 1 << PARTITION_BITS; block.partition++)
        assert_int_equal(save_writer_add(w, &block, &e), 0);
    return w;
}

// Waits until an abandoned thread has freed its memory. The test cannot join the thread.
static void await_its_end(size_t live)
{
    while (mem_live() != live)
        sched_yield();
}

static void test_leaves_no_file(void **state)
{
    (void)state;
    size_t live = mem_live();
    struct save_writer *w = begin();
    while (files_there() == 0)
        sched_yield();
    save_writer_abandon(w);
    await_its_end(live);
    assert_int_equal(files_there(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_leaves_no_file),
    };
    return cmocka_run_group_tests(tests, make_dir, files_end);
}
