// Compares the cold tier with a naive map. Also tests restarts, killed processes, locks,
// damage and full disks.
//
// SPDX-License-Identifier: Apache-2.0
#include "cold/tier.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/random.h"
#include "kit/files.h"
#include "kit/test.h"
#include "os/descriptors.h"
#include "os/file.h"

enum { ROW_BYTES = 256, MIB = 1 << 20 };

static const char *program; // path of this program, which is also run as child processes

static void remove_tier(const char *path)
{
    char rows[FILE_PATH_MAX];
    assert_int_equal(file_join(rows, path, "rows", NULL), 0);
    assert_int_equal(file_remove_tree(rows, NULL), 0);
    assert_int_equal(file_remove_tree(path, NULL), 0);
}

static struct tier_options options(const char *path, bool durable)
{
    return (struct tier_options){.dir = path,
                                 .durable = durable,
                                 .about = "table t, 2 floats",
                                 .cache_bytes = MIB,
                                 .row_bytes = ROW_BYTES};
}

static struct tier *open_tier(const char *path, bool durable)
{
    struct tier_options o = options(path, durable);
    struct tier *t;
    struct err e;
    if (tier_open(&t, &o, &e) != 0)
        fail_msg("%s", e.text);
    return t;
}

// Checks that opening fails with `code` and a message that has the directory and `text`.
static void check_refused(const struct tier_options *o, int code, const char *text)
{
    struct tier *t;
    struct err e = {0};
    assert_int_equal(tier_open(&t, o, &e), code);
    assert_null(t);
    assert_int_equal(e.code, code);
    if (strstr(e.text, o->dir) == NULL || strstr(e.text, text) == NULL)
        fail_msg("'%s' should name %s and say '%s'", e.text, o->dir, text);
}

// --- a naive map ---

enum { MAP_PARTITIONS = 4, MAP_KEYS = 200 };

static const uint32_t map_partition[MAP_PARTITIONS] = {0, 1, 65535, (1 << 24) - 1};

struct map_row {
    uint32_t size; // 0 if the key has no row
    unsigned char bytes[ROW_BYTES];
};

struct map {
    struct map_row rows[MAP_PARTITIONS][MAP_KEYS];
};

// Returns key k. The keys ascend, include both ends of the range, and have another order
// as signed numbers.
static uint64_t map_key(uint32_t k)
{
    return k == MAP_KEYS - 1 ? UINT64_MAX : (uint64_t)k * (UINT64_MAX / MAP_KEYS);
}

static void random_row(struct map_row *row, uint64_t seed)
{
    row->size = 1 + (uint32_t)random_below(seed, 1, 0, ROW_BYTES);
    for (uint32_t i = 0; i < row->size; i++)
        row->bytes[i] = (unsigned char)random_u64(seed, 2, i);
}

struct each_check {
    const struct map_row *rows; // the expected rows of the partition
    uint32_t at;
    uint32_t stop; // number of rows after which the walk stops
    uint32_t seen;
};

static int check_next(void *ctx, uint64_t key, const void *row, uint32_t size,
                      struct err *e)
{
    struct each_check *c = ctx;
    if (c->seen == c->stop)
        return err_set(e, TUG_EINTERRUPTED, "enough");
    while (c->at < MAP_KEYS && c->rows[c->at].size == 0)
        c->at++;
    assert_true(c->at < MAP_KEYS);
    assert_int_equal(key, map_key(c->at));
    assert_int_equal(size, c->rows[c->at].size);
    assert_memory_equal(row, c->rows[c->at].bytes, size);
    c->at++;
    c->seen++;
    return 0;
}

static void check_each(struct tier *t, const struct map *m, uint32_t p, uint32_t from)
{
    struct each_check c = {.rows = m->rows[p], .at = from, .stop = UINT32_MAX};
    assert_int_equal(tier_each(t, map_partition[p], map_key(from), check_next, &c, NULL),
                     0);
    for (; c.at < MAP_KEYS; c.at++)
        assert_int_equal(m->rows[p][c.at].size, 0);
}

// `asked`: number of keys that check_get has asked for; `there`: number of these keys
// that had rows.
static size_t asked, there;

// Gets random keys, some of them repeatedly, in random order, and compares their rows
// with the map.
static void check_get(struct tier *t, const struct map *m, uint64_t seed, size_t n)
{
    uint32_t *partitions = mem_array(n, sizeof(*partitions));
    uint64_t *keys = mem_array(n, sizeof(*keys));
    uint8_t *found = mem_array(n, 1);
    const void **rows = mem_array(n, sizeof(*rows));
    uint32_t *sizes = mem_array(n, sizeof(*sizes));
    const struct map_row **expect = mem_array(n, sizeof(*expect));
    for (size_t i = 0; i < n; i++) {
        uint64_t p = random_below(seed, 3, i, MAP_PARTITIONS);
        uint64_t k = random_below(seed, 4, i, MAP_KEYS);
        expect[i] = &m->rows[p][k];
        partitions[i] = map_partition[p];
        keys[i] = map_key((uint32_t)k);
    }
    assert_int_equal(tier_get(t, partitions, keys, n, found, rows, sizes, NULL), 0);
    asked += n;
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(found[i], expect[i]->size > 0);
        there += found[i];
        if (!found[i])
            continue;
        assert_int_equal(sizes[i], expect[i]->size);
        assert_memory_equal(rows[i], expect[i]->bytes, sizes[i]);
    }
    mem_free(partitions);
    mem_free(keys);
    mem_free(found);
    mem_free(rows);
    mem_free(sizes);
    mem_free(expect);
}

static void check_all(struct tier *t, const struct map *m, uint64_t seed)
{
    check_get(t, m, seed, 1000);
    for (uint32_t p = 0; p < MAP_PARTITIONS; p++)
        check_each(t, m, p, (uint32_t)random_below(seed, 5, p, MAP_KEYS));
}

// Makes random puts and deletes, in the tier and in `m`.
static void random_changes(struct tier *t, struct map *m, uint64_t seed)
{
    uint64_t n = random_below(seed, 6, 0, 100);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t p = random_below(seed, 7, i, MAP_PARTITIONS);
        uint32_t k = (uint32_t)random_below(seed, 8, i, MAP_KEYS);
        struct map_row *row = &m->rows[p][k];
        if (random_below(seed, 9, i, 3) == 0) {
            row->size = 0;
            assert_int_equal(tier_delete(t, map_partition[p], map_key(k), NULL), 0);
            continue;
        }
        random_row(row, seed * 1000 + i);
        assert_int_equal(
            tier_put(t, map_partition[p], map_key(k), row->bytes, row->size, NULL), 0);
    }
}

// Makes one step of a random sequence; may close and reopen a durable tier.
static struct tier *random_step(struct tier *t, struct map *m, const char *path,
                                bool durable, uint64_t seed)
{
    struct map *before = mem_alloc(sizeof(*before));
    memcpy(before, m, sizeof(*before));
    random_changes(t, m, seed);
    uint64_t p = random_below(seed, 10, 0, MAP_PARTITIONS);
    switch (random_below(seed, 11, 0, 12)) {
    case 0:
        check_all(t, before, seed); // the tier ignores changes that were not written
        tier_drop(t);
        memcpy(m, before, sizeof(*before));
        break;
    case 1:
        assert_int_equal(tier_clear(t, map_partition[p], NULL), 0);
        memset(m->rows[p], 0, sizeof(m->rows[p]));
        break;
    case 2:
        assert_int_equal(tier_write(t, NULL), 0);
        assert_int_equal(tier_flush(t, NULL), 0);
        break;
    case 3:
        assert_int_equal(tier_write(t, NULL), 0);
        if (durable) {
            tier_close(t);
            t = open_tier(path, durable);
        }
        break;
    default:
        assert_int_equal(tier_write(t, NULL), 0);
    }
    mem_free(before);
    return t;
}

static void random_sequence(bool durable, uint64_t seed)
{
    const char *path = files_in("random");
    struct map *m = mem_zalloc(sizeof(*m));
    struct tier *t = open_tier(path, durable);
    asked = there = 0;
    for (uint64_t i = 0; i < 60; i++) {
        t = random_step(t, m, path, durable, seed + i);
        check_all(t, m, seed + i);
    }
    assert_true(there > 0 && asked > there);
    tier_close(t);
    mem_free(m);
    assert_int_equal(file_exists(path), durable);
    if (durable)
        remove_tier(path);
}

static void test_random_scratch(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 4; seed++)
        random_sequence(false, seed * 1000);
}

static void test_random_durable(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 4; seed++)
        random_sequence(true, seed * 1000);
}

// There are more rows than the write buffers hold, so RocksDB merges files during the
// walk. A walk may change the rows that it visits, and still sees all rows as they were
// at its start.
struct walk {
    struct tier *t;
    uint64_t next;
    uint64_t stop;
};

static int take_row(void *ctx, uint64_t key, const void *row, uint32_t size,
                    struct err *e)
{
    struct walk *w = ctx;
    assert_int_equal(key, w->next++);
    assert_int_equal(size, ROW_BYTES);
    assert_memory_equal(row, &key, sizeof(key));
    if (key % 2 == 0)
        assert_int_equal(tier_delete(w->t, 7, key, e), 0);
    else
        assert_int_equal(tier_put(w->t, 7, key + 1000000, row, size, e), 0);
    return w->next == w->stop ? TUG_EINTERRUPTED : 0;
}

static void test_many_rows(void **state)
{
    (void)state;
    enum { ROWS = 20000 };
    unsigned char row[ROW_BYTES] = {0};
    struct tier *t = open_tier(files_in("many"), false);
    for (uint64_t k = 0; k < ROWS; k++) {
        uint64_t key = (k * 7919) % ROWS;
        memcpy(row, &key, sizeof(key));
        assert_int_equal(tier_put(t, 7, key, row, ROW_BYTES, NULL), 0);
        if (k % 500 == 0)
            assert_int_equal(tier_write(t, NULL), 0);
    }
    assert_int_equal(tier_write(t, NULL), 0);
    assert_int_equal(tier_flush(t, NULL), 0);
    struct walk w = {.t = t, .next = 100, .stop = 200};
    assert_int_equal(tier_each(t, 7, 100, take_row, &w, NULL), TUG_EINTERRUPTED);
    tier_drop(t);
    w = (struct walk){.t = t};
    assert_int_equal(tier_each(t, 7, 0, take_row, &w, NULL), 0);
    assert_int_equal(w.next, ROWS);
    assert_int_equal(tier_write(t, NULL), 0);
    const uint32_t partitions[] = {7, 7, 7, 6};
    const uint64_t keys[] = {2, 1000001, 3, 3};
    uint8_t found[4];
    const void *rows[4];
    uint32_t sizes[4];
    assert_int_equal(tier_get(t, partitions, keys, 4, found, rows, sizes, NULL), 0);
    assert_memory_equal(found, "\0\1\1\0", 4);
    tier_close(t);
}

// A row longer than options.row_bytes is refused, when it is put and when it is read.
static void test_long_rows(void **state)
{
    (void)state;
    static const unsigned char row[ROW_BYTES + 1];
    const char *path = files_in("long");
    struct tier *t = open_tier(path, true);
    assert_int_equal(tier_put(t, 1, 1, row, ROW_BYTES + 1, NULL), TUG_EINTERNAL);
    assert_int_equal(tier_put(t, 1, 1, row, ROW_BYTES, NULL), 0);
    assert_int_equal(tier_put(t, 1, 2, row, 0, NULL), 0);
    assert_int_equal(tier_write(t, NULL), 0);
    tier_close(t);
    struct tier_options o = options(path, true);
    o.row_bytes = ROW_BYTES - 1;
    assert_int_equal(tier_open(&t, &o, NULL), 0);
    const uint32_t partitions[] = {1, 1};
    const uint64_t keys[] = {2, 1};
    uint8_t found[2];
    const void *rows[2];
    uint32_t sizes[2];
    struct err e = {0};
    assert_int_equal(tier_get(t, partitions, keys, 1, found, rows, sizes, &e), 0);
    assert_int_equal(found[0], 1);
    assert_int_equal(sizes[0], 0);
    assert_int_equal(tier_get(t, partitions, keys, 2, found, rows, sizes, &e), TUG_EDATA);
    assert_non_null(strstr(e.text, path));
    tier_close(t);
    remove_tier(path);
}

static void test_no_memory(void **state)
{
    (void)state;
    const char *path = files_in("memory");
    struct tier_options o = options(path, true);
    size_t live = mem_live();
    for (long n = 0;; n++) {
        struct tier *t = NULL;
        struct err e = {0};
        const uint32_t partition = 1;
        const uint64_t key = 1;
        uint8_t found;
        const void *row;
        uint32_t size;
        mem_fault_after(n);
        int rc = tier_open(&t, &o, &e);
        if (rc == 0)
            rc = tier_get(t, &partition, &key, 1, &found, &row, &size, &e);
        bool faulted = mem_faulted();
        mem_fault_after(-1);
        tier_close(t);
        assert_int_equal(mem_live(), live);
        assert_int_equal(rc, faulted ? TUG_ENOMEM : 0);
        if (!faulted)
            break;
    }
    remove_tier(path);
}

// --- directories with other owners ---

// Files that do not belong to a tier stay unchanged.
static void test_foreign_directory(void **state)
{
    (void)state;
    const char *path = files_in("foreign"), *file = files_in("foreign/thesis.txt");
    assert_int_equal(file_make_dir(path, NULL), 0);
    files_write(file, "all of it");
    for (int durable = 0; durable < 2; durable++) {
        struct tier_options o = options(path, durable);
        check_refused(&o, TUG_EUSAGE, "is not empty");
    }
    assert_true(file_exists(file));
    assert_false(file_exists(files_in("foreign/rows")));
    assert_false(file_exists(files_in("foreign/tug-tier")));
    // The directory existed before, so it stays when its tier is removed.
    assert_int_equal(unlink(file), 0);
    tier_close(open_tier(path, false));
    assert_true(file_exists(path) && file_dir_is_empty(path));
    // Paths that are not directories are refused.
    assert_int_equal(rmdir(path), 0);
    files_write(path, "a file");
    struct tier_options o = options(path, false);
    check_refused(&o, TUG_EIO, "Not a directory");
    assert_int_equal(unlink(path), 0);
    o.dir = "";
    assert_int_equal(tier_open(&(struct tier *){NULL}, &o, NULL), TUG_EUSAGE);
}

// No rows are written or removed through a symbolic link.
static void test_links(void **state)
{
    (void)state;
    static const char *const names[] = {"rows", "tug-tier"};
    const char *path = files_in("linked"), *far = files_in("far");
    assert_int_equal(file_make_dir(far, NULL), 0);
    files_write(files_in("far/thesis.txt"), "all of it");
    tier_close(open_tier(path, true));
    for (int i = 0; i < 4; i++) {
        const char *link = files_path("%s/%s", path, names[i / 2]);
        const char *beside = files_path("%s.was", link);
        assert_int_equal(rename(link, beside), 0);
        assert_int_equal(symlink(i % 2 == 0 ? far : beside, link), 0);
        struct tier_options o = options(path, true);
        check_refused(&o, TUG_EUSAGE, "is a link");
        assert_int_equal(remove(link), 0);
        assert_int_equal(rename(beside, link), 0);
    }
    assert_true(file_exists(files_in("far/thesis.txt")));
    tier_close(open_tier(path, true));
    remove_tier(path);
}

static void test_about(void **state)
{
    (void)state;
    const char *path = files_in("about");
    tier_close(open_tier(path, true));
    struct tier_options o = options(path, true);
    o.about = "table u";
    check_refused(&o, TUG_EUSAGE, "table t, 2 floats");
    o.about = "two\nlines";
    check_refused(&o, TUG_EUSAGE, "one line");
    o.about = NULL;
    check_refused(&o, TUG_EUSAGE, "another table");
    // A scratch tier is not opened over rows of a durable tier.
    o = options(path, false);
    check_refused(&o, TUG_EUSAGE, "must be kept");
    tier_close(open_tier(path, true));
    remove_tier(path);
}

static void test_locked_here(void **state)
{
    (void)state;
    const char *path = files_in("locked");
    struct tier *t = open_tier(path, false);
    struct tier_options o = options(path, false);
    check_refused(&o, TUG_EUSAGE, "in use");
    o.durable = true;
    check_refused(&o, TUG_EUSAGE, "in use");
    assert_int_equal(tier_put(t, 1, 1, "x", 1, NULL), 0);
    assert_int_equal(tier_write(t, NULL), 0);
    tier_close(t);
    assert_false(file_exists(path));
}

// --- children ---

struct child {
    pid_t pid;
    int in, out;
};

static struct child start_child(const char *what, const char *path)
{
    struct child c;
    int in[2], out[2];
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    c.pid = fork();
    assert_true(c.pid >= 0);
    if (c.pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        execl("/proc/self/exe", program, what, path, NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    c.in = in[1];
    c.out = out[0];
    return c;
}

// Reads the child's next number; returns false if the child has ended.
static bool next_number(struct child *c, uint64_t *ret)
{
    struct pollfd p = {.fd = c->out, .events = POLLIN};
    assert_int_equal(poll(&p, 1, 60000), 1);
    return read(c->out, ret, sizeof(*ret)) == sizeof(*ret);
}

static int end_child(struct child *c, int sign)
{
    int status;
    if (sign != 0)
        kill(c->pid, sign);
    close(c->in);
    assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
    close(c->out);
    return status;
}

static void say(uint64_t number)
{
    if (write(1, &number, sizeof(number)) != sizeof(number))
        _exit(1);
}

// Each batch writes its number into all KILL_ROWS rows; the tier is flushed after every
// KILL_FLUSH batches.
enum { KILL_ROWS = 40, KILL_FLUSH = 3 };

static int child_write(const char *path)
{
    unsigned char row[ROW_BYTES] = {0};
    struct tier *t = open_tier(path, true);
    for (uint64_t batch = 1;; batch++) {
        memcpy(row, &batch, sizeof(batch));
        for (uint32_t i = 0; i < KILL_ROWS; i++)
            if (tier_put(t, i % 3, i, row, ROW_BYTES, NULL) != 0)
                return 1;
        if (tier_write(t, NULL) != 0)
            return 1;
        if (batch % KILL_FLUSH == 0) {
            if (tier_flush(t, NULL) != 0)
                return 1;
            say(batch);
        }
    }
}

// Returns the number in all rows; fails the test if the rows have different numbers.
static uint64_t kill_rows(const char *path)
{
    uint32_t partitions[KILL_ROWS], sizes[KILL_ROWS];
    uint64_t keys[KILL_ROWS], number = 0;
    uint8_t found[KILL_ROWS];
    const void *rows[KILL_ROWS];
    struct tier *t = open_tier(path, true);
    for (uint32_t i = 0; i < KILL_ROWS; i++) {
        partitions[i] = i % 3;
        keys[i] = i;
    }
    assert_int_equal(tier_get(t, partitions, keys, KILL_ROWS, found, rows, sizes, NULL),
                     0);
    for (uint32_t i = 0; i < KILL_ROWS; i++) {
        assert_int_equal(found[i], found[0]);
        if (!found[i])
            continue;
        if (i == 0)
            memcpy(&number, rows[0], sizeof(number));
        assert_memory_equal(rows[i], &number, sizeof(number));
    }
    tier_close(t);
    return number;
}

static void test_kill(void **state)
{
    (void)state;
    const char *path = files_in("kill");
    uint64_t all = 0;
    for (uint64_t round = 0; round < 6; round++) {
        uint64_t flushed = 0, after = random_below(1, 0, round, 6);
        struct child c = start_child("write", path);
        for (uint64_t i = 0; i < after; i++)
            assert_true(next_number(&c, &flushed));
        // Kills the child at a random moment after the flush.
        struct pollfd p = {.fd = -1};
        poll(&p, 1, (int)random_below(1, 1, round, 8));
        int status = end_child(&c, SIGKILL);
        assert_true(WIFSIGNALED(status));
        if (after == 0 && !file_exists(path))
            continue;
        uint64_t number = kill_rows(path);
        assert_true(number >= flushed);
        all += number;
    }
    assert_true(all > 0);
    remove_tier(path);
}

static int child_hold(const char *path)
{
    char c;
    struct tier *t = open_tier(path, false);
    if (tier_put(t, 1, 1, "x", 1, NULL) != 0 || tier_write(t, NULL) != 0 ||
        tier_flush(t, NULL) != 0)
        return 1;
    say(1);
    if (read(0, &c, 1) != 0)
        return 1;
    tier_close(t);
    return 0;
}

// A tier cannot be opened while another process has locked its directory. After that
// process is killed, the next open removes the tier's rows.
static void test_locked_by_another_process(void **state)
{
    (void)state;
    const char *path = files_in("held");
    struct tier_options o = options(path, false);
    uint64_t number;
    struct child c = start_child("hold", path);
    assert_true(next_number(&c, &number));
    check_refused(&o, TUG_EUSAGE, "in use by another process");
    end_child(&c, SIGKILL);
    assert_true(file_exists(files_in("held/rows")));
    for (int durable = 0; durable < 2; durable++) {
        struct tier *t = open_tier(path, durable);
        const uint32_t partition = 1;
        const uint64_t key = 1;
        uint8_t found = 2;
        const void *row;
        uint32_t size;
        assert_int_equal(tier_get(t, &partition, &key, 1, &found, &row, &size, NULL), 0);
        assert_int_equal(found, 0);
        tier_close(t);
    }
    remove_tier(path);
    c = start_child("hold", path);
    assert_true(next_number(&c, &number));
    assert_int_equal(end_child(&c, 0), 0);
    assert_false(file_exists(path));
}

// The body of a child that can write only a few KiB to a file.
static int child_full(const char *path)
{
    unsigned char row[ROW_BYTES];
    struct tier *t = open_tier(path, true);
    struct err e = {0};
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit = {.rlim_cur = 64 << 10, .rlim_max = RLIM_INFINITY};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    for (uint64_t k = 0; k < 1000; k++) {
        for (uint32_t i = 0; i < ROW_BYTES; i++)
            row[i] = (unsigned char)random_u64(1, k, i);
        assert_int_equal(tier_put(t, 1, k, row, ROW_BYTES, NULL), 0);
    }
    assert_int_equal(tier_write(t, NULL), 0);
    assert_int_equal(tier_flush(t, &e), TUG_EIO);
    if (strstr(e.text, path) == NULL || strstr(e.text, "ulimit -f") == NULL)
        fail_msg("%s", e.text);
    // No row is lost as long as the process runs.
    for (uint64_t k = 0; k < 1000; k++) {
        const uint32_t partition = 1;
        uint8_t found;
        const void *back;
        uint32_t size;
        for (uint32_t i = 0; i < ROW_BYTES; i++)
            row[i] = (unsigned char)random_u64(1, k, i);
        assert_int_equal(tier_get(t, &partition, &k, 1, &found, &back, &size, &e), 0);
        assert_int_equal(found, 1);
        assert_memory_equal(back, row, ROW_BYTES);
    }
    say(1);
    tier_close(t);
    return 0;
}

// On a full disk, rows of earlier flushes stay.
static void test_full_disk(void **state)
{
    (void)state;
    const char *path = files_in("full");
    const uint32_t partition = 9;
    const uint64_t key = 9;
    uint64_t number;
    struct tier *t = open_tier(path, true);
    assert_int_equal(tier_put(t, partition, key, "kept", 4, NULL), 0);
    assert_int_equal(tier_write(t, NULL), 0);
    assert_int_equal(tier_flush(t, NULL), 0);
    tier_close(t);
    struct child c = start_child("full", path);
    assert_true(next_number(&c, &number));
    assert_int_equal(end_child(&c, 0), 0);
    uint8_t found;
    const void *row;
    uint32_t size;
    t = open_tier(path, true);
    assert_int_equal(tier_get(t, &partition, &key, 1, &found, &row, &size, NULL), 0);
    assert_int_equal(found, 1);
    assert_memory_equal(row, "kept", 4);
    tier_close(t);
    remove_tier(path);
}

static int child_nobody(const char *path)
{
    if (geteuid() == 0 && setuid(65534) != 0)
        return 1;
    struct tier_options o = options(path, false);
    check_refused(&o, TUG_EIO, "Permission denied");
    say(1);
    return 0;
}

// Tables on disk leave enough descriptors for links.
static void test_few_descriptors(void **state)
{
    enum { LIMIT = 96, MOST = 64 };
    struct tier *tiers[MOST] = {0};
    struct rlimit was, few;
    struct err e = {0};
    int n = 0, rc = 0;
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    few = was;
    few.rlim_cur = LIMIT;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    while (n < MOST && rc == 0) {
        char name[32];
        snprintf(name, sizeof(name), "few-%d", n);
        struct tier_options o = options(files_in("%s", name), false);
        rc = tier_open(&tiers[n], &o, &e);
        n += rc == 0;
    }
    uint64_t left = descriptors_left();
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
    assert_in_range(n, 1, MOST - 1);
    assert_int_equal(rc, TUG_EIO);
    assert_non_null(strstr(e.text, "ulimit -n"));
    assert_in_range(left, LIMIT / 8, LIMIT / 4);
    for (int i = 0; i < n; i++)
        tier_close(tiers[i]);
}

static void test_read_only(void **state)
{
    (void)state;
    const char *path = files_in("readonly");
    uint64_t number;
    assert_int_equal(chmod(files_dir, 0755), 0);
    assert_int_equal(file_make_dir(path, NULL), 0);
    assert_int_equal(chmod(path, 0555), 0);
    struct child c = start_child("nobody", path);
    assert_true(next_number(&c, &number));
    assert_int_equal(end_child(&c, 0), 0);
    assert_true(file_dir_is_empty(path));
    c = start_child("nobody", files_in("readonly/new"));
    assert_true(next_number(&c, &number));
    assert_int_equal(end_child(&c, 0), 0);
    assert_int_equal(rmdir(path), 0);
}

// --- damage ---

enum { DAMAGE_ROWS = 600 };

static void make_template(const char *path)
{
    unsigned char row[64];
    struct tier *t = open_tier(path, true);
    for (uint64_t k = 0; k < DAMAGE_ROWS; k++) {
        for (uint32_t i = 0; i < sizeof(row); i++)
            row[i] = (unsigned char)random_u64(2, k, i);
        assert_int_equal(tier_put(t, (uint32_t)k % 2, k, row, sizeof(row), NULL), 0);
        if (k % 200 == 199) {
            assert_int_equal(tier_write(t, NULL), 0);
            assert_int_equal(tier_flush(t, NULL), 0);
        }
    }
    tier_close(t);
}

static struct buf read_file(const char *path)
{
    struct buf b = BUF_INIT(16 * MIB);
    assert_int_equal(file_read(path, &b, NULL), 0);
    return b;
}

// Copies the files of a directory, and returns their number and names.
enum { MAX_NAMES = 32 };

static size_t copy_dir(const char *from, const char *to, char ret_names[][64])
{
    char a[FILE_PATH_MAX], b[FILE_PATH_MAX];
    size_t n = 0;
    assert_int_equal(file_make_dir(to, NULL), 0);
    DIR *d = opendir(from);
    assert_non_null(d);
    for (struct dirent *x = readdir(d); x != NULL; x = readdir(d)) {
        if (x->d_type != DT_REG)
            continue;
        assert_true(n < MAX_NAMES);
        snprintf(ret_names[n++], 64, "%.63s", x->d_name);
        assert_int_equal(file_join(a, from, x->d_name, NULL), 0);
        assert_int_equal(file_join(b, to, x->d_name, NULL), 0);
        struct buf bytes = read_file(a);
        files_write_bytes(b, bytes.data, bytes.len);
        buf_free(&bytes);
    }
    closedir(d);
    return n;
}

static size_t copy_template(const char *from, const char *to, char ret_names[][64])
{
    char a[FILE_PATH_MAX], b[FILE_PATH_MAX], marker[1][64];
    assert_int_equal(copy_dir(from, to, marker), 1);
    assert_int_equal(file_join(a, from, "rows", NULL), 0);
    assert_int_equal(file_join(b, to, "rows", NULL), 0);
    return copy_dir(a, b, ret_names);
}

static void damage_file(const char *path, uint64_t seed)
{
    struct buf b = read_file(path);
    uint64_t at = b.len == 0 ? 0 : random_below(seed, 20, 0, b.len);
    switch (random_below(seed, 21, 0, 4)) {
    case 0:
        assert_int_equal(truncate(path, (off_t)at), 0);
        break;
    case 1:
        assert_int_equal(unlink(path), 0);
        break;
    default:
        if (b.len == 0)
            break;
        b.data[at] = (char)(b.data[at] ^ (1 << random_below(seed, 22, 0, 8)));
        files_write_bytes(path, b.data, b.len);
    }
    buf_free(&b);
}

// Returns 0 if all rows are as before, otherwise the error.
static int read_all(struct tier *t, struct err *e)
{
    for (uint64_t k = 0; k < DAMAGE_ROWS; k++) {
        const uint32_t partition = (uint32_t)k % 2;
        uint8_t found;
        const void *row;
        uint32_t size;
        unsigned char expect[64];
        for (uint32_t i = 0; i < sizeof(expect); i++)
            expect[i] = (unsigned char)random_u64(2, k, i);
        TRY(tier_get(t, &partition, &k, 1, &found, &row, &size, e));
        assert_int_equal(found, 1);
        assert_int_equal(size, sizeof(expect));
        assert_memory_equal(row, expect, size);
    }
    return 0;
}

// Changes a byte of a file, cuts the file, or removes it, at random: reading then gives
// the correct rows or an error.
static void test_damage(void **state)
{
    (void)state;
    const char *from = files_in("good"), *path = files_in("bad");
    struct tier_options o = options(path, true);
    char names[MAX_NAMES][64];
    int refused = 0;
    make_template(from);
    for (uint64_t seed = 0; seed < 80; seed++) {
        char rows[FILE_PATH_MAX], file[FILE_PATH_MAX];
        struct tier *t;
        struct err e = {0};
        size_t n = copy_template(from, path, names);
        const char *name = names[random_below(seed, 23, 0, n)];
        assert_int_equal(file_join(rows, path, "rows", NULL), 0);
        assert_int_equal(file_join(file, rows, name, NULL), 0);
        damage_file(file, seed);
        int rc = tier_open(&t, &o, &e);
        if (rc == 0) {
            rc = read_all(t, &e);
            tier_close(t);
        }
        if (rc != 0) {
            refused++;
            if (rc != TUG_EDATA || e.code != rc || strstr(e.text, path) == NULL)
                fail_msg("%s, seed %d: %d: %s", name, (int)seed, rc, e.text);
        }
        remove_tier(path);
    }
    assert_true(refused > 20);
    remove_tier(from);
}

static void test_damaged_marker(void **state)
{
    (void)state;
    const char *path = files_in("marker"), *marker = files_in("marker/tug-tier");
    struct tier_options o = options(path, true);
    tier_close(open_tier(path, true));
    struct buf good = read_file(marker);
    struct tier *t;
    for (size_t at = 0; at < good.len; at++) {
        good.data[at] = (char)(good.data[at] ^ 1);
        files_write_bytes(marker, good.data, good.len);
        good.data[at] = (char)(good.data[at] ^ 1);
        // A change of the newline after the checksum is harmless.
        if (at + 1 < good.len)
            check_refused(&o, TUG_EDATA, "tug-tier");
        files_write_bytes(marker, good.data, at);
        if (at + 1 < good.len)
            check_refused(&o, TUG_EDATA, "tug-tier");
    }
    files_write_bytes(marker, good.data, good.len);
    assert_int_equal(tier_open(&t, &o, NULL), 0);
    tier_close(t);
    buf_free(&good);
    remove_tier(path);
}

static bool have_rocksdb(void)
{
    char path[] = "/tmp/tug-tier-XXXXXX";
    struct tier *t;
    struct err e = {0};
    if (mkdtemp(path) == NULL)
        return false;
    struct tier_options o = options(path, false);
    int rc = tier_open(&t, &o, &e);
    tier_close(t);
    rmdir(path);
    return rc == 0 || strstr(e.text, "librocksdb-dev") == NULL;
}

static int run_child(const char *what, const char *path)
{
    if (strcmp(what, "write") == 0)
        return child_write(path);
    if (strcmp(what, "hold") == 0)
        return child_hold(path);
    if (strcmp(what, "full") == 0)
        return child_full(path);
    return child_nobody(path);
}

int main(int argc, char **argv)
{
#ifdef __SANITIZE_THREAD__
    puts(
        "skipped: RocksDB is not built with ThreadSanitizer, which sees races within it");
    return 0;
#endif
    program = argv[0];
    if (argc == 3)
        return run_child(argv[1], argv[2]);
    if (!have_rocksdb()) {
        puts("skipped: built without RocksDB: librocksdb-dev");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_scratch),
        cmocka_unit_test(test_random_durable),
        cmocka_unit_test(test_many_rows),
        cmocka_unit_test(test_long_rows),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_foreign_directory),
        cmocka_unit_test(test_about),
        cmocka_unit_test(test_locked_here),
        cmocka_unit_test(test_locked_by_another_process),
        cmocka_unit_test(test_kill),
        cmocka_unit_test(test_few_descriptors),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_read_only),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_damaged_marker),
        cmocka_unit_test(test_links),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
