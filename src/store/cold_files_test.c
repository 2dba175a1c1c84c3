// The files and the memory of a cold tier: tiers that were not closed, damaged files, the
// notes for deltas, the bound of a table's memory.
//
// SPDX-License-Identifier: Apache-2.0
#include "store/cold.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "kit/cuts.h"
#include "kit/files.h"
#include "kit/test.h"
#include "kit/tiers.h"
#include "os/file.h"

enum { UNIVERSE = 1200 };

#define DURABLE "accessor=plain; dim=1; rule=sum; cold-durable=yes"

// Opens a durable tier in a process of its own, which ends without closing the tier.
static int crash(const char *at)
{
    struct store *s;
    uint64_t key = 7;
    float value = 1;
    struct store_push p = {.keys = &key, .n = 1, .values = &value, .rate = 1, .scale = 1};
    snprintf(tiers_dir, sizeof(tiers_dir), "%s", at);
    if (tiers_open(&s, DURABLE, 0, NULL) != 0 || store_push(s, &p, NULL, NULL) != 0)
        return 1;
    _exit(0);
}

static void test_crash(void **state)
{
    (void)state;
    char command[128];
    struct store *s;
    struct err e = {0};
    OK(tiers_open(&s, DURABLE, 0, &ok_e));
    store_close(s);
    snprintf(command, sizeof(command), "/proc/%d/exe %s", (int)getpid(), tiers_dir);
    assert_int_equal(system(command), 0);
    assert_int_equal(tiers_open(&s, DURABLE, 0, &e), TUG_EDATA);
    assert_non_null(strstr(e.text, "without closing"));
    // a second attempt to open the tier is also refused
    assert_int_equal(tiers_open(&s, DURABLE, 0, &e), TUG_EDATA);
    tiers_remove();
}

// Overwrites some bytes of every table file, in its first blocks.
static void damage_blocks(void)
{
    char path[FILE_PATH_MAX];
    snprintf(path, sizeof(path), "%s/rows", tiers_dir);
    DIR *files = opendir(path);
    assert_non_null(files);
    for (struct dirent *x = readdir(files); x != NULL; x = readdir(files)) {
        if (strstr(x->d_name, ".sst") == NULL)
            continue;
        snprintf(path, sizeof(path), "%s/rows/%.64s", tiers_dir, x->d_name);
        int fd = open(path, O_WRONLY);
        for (off_t at = 50; at < 10000; at += 500)
            assert_int_equal(pwrite(fd, "?!", 2, at), 2);
        close(fd);
    }
    closedir(files);
}

// A damaged block is noticed when a row of the block is fetched. The operation that needs
// the row then fails and changes nothing.
static void test_damaged(void **state)
{
    (void)state;
    enum { KEYS = 400 };
    static const char settings[] = "accessor=plain; dim=8; rule=sum; cold-durable=yes";
    static float values[KEYS * 8], back[KEYS * 8];
    uint64_t keys[KEYS];
    struct store *s;
    struct err e = {0};
    OK(tiers_open(&s, settings, 0, &ok_e));
    for (uint64_t k = 0; k < KEYS; k++)
        keys[k] = k;
    for (uint32_t i = 0; i < KEYS * 8; i++)
        values[i] = (float)random_u64(1, 2, i);
    struct store_push p = {
        .keys = keys, .n = KEYS, .values = values, .rate = 1, .scale = 1};
    OK(store_push(s, &p, NULL, &ok_e));
    store_close(s);
    OK(tiers_open(&s, settings, 0, &ok_e));
    damage_blocks();
    assert_int_equal(store_pull(s, keys, KEYS, back, NULL, &e), TUG_EDATA);
    assert_non_null(strstr(e.text, tiers_dir));
    size_t done = 7;
    assert_int_equal(store_push(s, &p, &done, &e), TUG_EDATA);
    assert_int_equal(done, 0);
    assert_int_equal(store_stats(s).rows, 0);
    assert_int_equal(store_stats(s).cold_rows, KEYS);
    store_close(s);
    assert_int_equal(tiers_open(&s, settings, 0, &e), TUG_EDATA);
    assert_non_null(strstr(e.text, tiers_dir));
    tiers_remove();
}

// If no delta is ever made, a table keeps fewer records for the next delta than it has
// keys.
static void test_no_deltas(void **state)
{
    (void)state;
    enum { ROUNDS = 30 };
    struct err e = {0};
    struct store *s;
    struct rng d = {.seed = 3};
    struct batch *b = batch_make(UNIVERSE);
    if (tiers_open(&s,
                   "accessor=ctr; dim=3; rule=adagrad; embedx-rule=adagrad; "
                   "embedx-threshold=2; deltas=yes; hot-rows=10",
                   0, &e) != 0)
        fail_msg("%s", e.text);
    for (int i = 0; i < ROUNDS; i++) {
        batch_draw(b, &d, BATCH_MAX);
        OK(batch_push(s, b, &d, &ok_e));
    }
    assert_true(store_stats(s).demoted > 20 * UNIVERSE / 2);
    assert_true(s->cold->parts[0].out.cap <= 4 * UNIVERSE);
    store_close(s);
    batch_free(b);
}

// RocksDB's memory, which grows with the number of rows on disk, counts as memory of the
// table and against the table's limit.
static void test_memory(void **state)
{
    const uint64_t mib = 1 << 20, limits[] = {0, 4096 * mib, 160 * mib, 1 * mib},
                   tiers[] = {128 * mib, 128 * mib, 20 * mib, 2 * mib};
    enum { ROWS = 2000 };
    uint64_t keys[ROWS];
    float ones[ROWS];
    (void)state;
    for (uint64_t i = 0; i < ROWS; i++) {
        keys[i] = i;
        ones[i] = 1;
    }
    for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++) {
        struct store *s;
        struct err e;
        assert_int_equal(
            tiers_open_with(&s, DURABLE "; hot-rows=1; deltas=no", 0, limits[i], &e), 0);
        uint64_t empty = store_stats(s).bytes;
        assert_in_range(empty, tiers[i] - 8, tiers[i] + 8 * mib);
        struct store_push p = {
            .op = STORE_ASSIGN, .keys = keys, .n = ROWS, .values = ones, .rate = 1};
        assert_int_equal(store_push(s, &p, NULL, &e), 0);
        p.n = 1;
        assert_int_equal(store_push(s, &p, NULL, &e),
                         0); // demotes the rows that are still in memory first
        struct store_stats x = store_stats(s);
        assert_true(x.cold_rows >= ROWS / 2);
        assert_true(x.bytes >= tiers[i] + x.cold_rows * 3 / 2);
        store_close(s);
        tiers_remove();
    }
}

int main(int argc, char **argv)
{
    int rc;
    if (argc > 1)
        return crash(argv[1]);
    if (!tiers_begin(&rc))
        return rc;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crash),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_no_deltas),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, files_end);
}
