// Saves: any number of owners save, and any number of owners with other partitions load;
// chains of deltas; which saves are kept and removed; and damaged saves, which are
// refused.
//
// SPDX-License-Identifier: Apache-2.0
#include "save/save.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit/accessors.h"
#include "kit/files.h"
#include "kit/saves.h"
#include "kit/test.h"
#include "os/disk.h"
#include "store/parcel.h"
#include "store/store.h"

// Makes a save into which n owners of partitions write one file each.
static void save_owners(struct store **s, uint32_t n, const char *dir,
                        enum save_mode mode, int level)
{
    struct save_manifest m;
    char path[FILE_PATH_MAX], name[SAVE_FILE_MAX], file[FILE_PATH_MAX];
    OK(save_begin(dir, mode, &m, path, &ok_e));
    struct save_table *t = save_add_table(&m, STORES_ID, store_config(s[0]),
                                          store_partition_bits(s[0]), NULL);
    assert_non_null(t);
    for (uint32_t i = 0; i < n; i++) {
        struct cut_options o = {.mode = mode};
        struct saves_owner x = {i, n};
        struct rows_info info;
        OK(store_finish(s[i], &ok_e));
        OK(cut_begin(s[i], &o, &ok_e));
        save_file_name(name, "users", i);
        OK(file_join(file, path, name, &ok_e));
        OK(save_write_cut(s[i], file, level, saves_owns, &x, &info, &ok_e));
        OK(save_add_file(t, name, &info, &ok_e));
    }
    m.step = store_step_of(s[0]);
    OK(save_commit(dir, &m, 0, &ok_e));
    for (uint32_t i = 0; i < n; i++)
        OK(cut_end(s[i], true, &ok_e));
    save_manifest_free(&m);
}

static void load_owners(struct store **s, uint32_t n, const char *dir,
                        const char *settings, uint32_t bits)
{
    struct save_chain c;
    OK(save_chain_open(&c, dir, &ok_e));
    for (uint32_t i = 0; i < n; i++) {
        struct saves_owner x = {i, n};
        s[i] = stores_open(settings, bits);
        OK(save_load(&c, "users", s[i], saves_owns, &x, &ok_e));
    }
    save_chain_close(&c);
}

static struct rows_image image_of_all(struct store **s, uint32_t n)
{
    struct rows_image x = {0};
    for (uint32_t i = 0; i < n; i++)
        rows_image_add(&x, s[i]);
    return x;
}

static void close_all(struct store **s, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        store_close(s[i]);
}

enum { OWNERS = 5 };

static const struct {
    const char *settings;
    uint32_t bits;
} tables[] = {
    {CTR "entry=count:3", 4},
    {"name=users; accessor=plain; dim=5; rule=adam", 3},
    {"name=users; accessor=features; embed=2; dim=4; rule=adagrad; "
     "embedx-rule=adagrad-row:block=2; embedx-init=0.1",
     2},
    {"name=users; accessor=ctr_double; dim=2; entry=sketch:2; placement=range", 4},
};
enum { N_TABLES = sizeof(tables) / sizeof(*tables) };

// Loads the save of table t with other numbers of owners, and makes more pushes.
static void check_loads(const char *dir, const char *settings, uint32_t bits, uint64_t t,
                        struct rows_image *now, struct rows_image *later)
{
    for (uint32_t m = 1; m <= OWNERS; m++) {
        struct store *r[OWNERS];
        load_owners(r, m, dir, settings, bits);
        struct rows_image x = image_of_all(r, m);
        assert_true(rows_image_equal(&x, now));
        rows_image_free(&x);
        for (uint32_t i = 0; i < m; i++)
            saves_push(r[i], (struct saves_owner){i, m}, t + 50, 3, 900);
        x = image_of_all(r, m);
        assert_true(rows_image_equal(&x, later));
        rows_image_free(&x);
        close_all(r, m);
    }
}

static void check_owners(const char *dir, const char *settings, uint32_t bits, uint64_t t)
{
    struct store *one = stores_open(settings, bits);
    saves_push(one, (struct saves_owner){0, 1}, t, 6, 900);
    struct rows_image now = rows_image_of(one);
    assert_true(now.n > 100);
    saves_push(one, (struct saves_owner){0, 1}, t + 50, 3, 900);
    struct rows_image later = rows_image_of(one);
    for (uint32_t n = 1; n <= OWNERS; n++) {
        struct store *s[OWNERS];
        for (uint32_t i = 0; i < n; i++) {
            s[i] = stores_open(settings, bits);
            saves_push(s[i], (struct saves_owner){i, n}, t, 6, 900);
        }
        save_owners(s, n, dir, SAVE_CHECKPOINT, n == 3);
        check_loads(dir, settings, bits, t, &now, &later);
        close_all(s, n);
    }
    rows_image_free(&now);
    rows_image_free(&later);
    store_close(one);
}

// With any number of owners, the rows and the entry policy's state are the same as with
// one owner, before and after a save.
static void test_owners(void **state)
{
    (void)state;
    char settings[ACCESSORS_SETTINGS], named[ACCESSORS_SETTINGS + 16];
    const char *dir = saves_fresh("owners");
    for (uint32_t t = 0; t < N_TABLES; t++)
        check_owners(dir, tables[t].settings, tables[t].bits, t);
    for (uint32_t i = 0; accessors_settings(i, settings); i++) {
        snprintf(named, sizeof(named), "name=users; %s", settings);
        check_owners(dir, named, 3, N_TABLES + i);
    }
}

// Loads a save into stores that have more partitions, fewer, or one, or ranges instead of
// hashes.
static void test_other_partitions(void **state)
{
    (void)state;
    const char *dir = saves_fresh("partitions");
    static const char *const placements[] = {"placement=hash", "placement=range"};
    for (uint32_t from = 0; from < 2; from++) {
        char settings[256];
        snprintf(settings, sizeof(settings), CTR "%s", placements[from]);
        struct store *s = stores_open(settings, 4);
        saves_push(s, (struct saves_owner){0, 1}, 3, 5, 900);
        store_day(s);
        OK(saves_one(s, dir, SAVE_CHECKPOINT, 1, &ok_e));
        struct rows_image was = rows_image_of(s);
        for (uint32_t to = 0; to < 2; to++) {
            snprintf(settings, sizeof(settings), CTR "%s", placements[to]);
            for (uint32_t bits = 0; bits <= 7; bits++) {
                struct store *r[3];
                load_owners(r, 3, dir, settings, bits);
                struct rows_image x = image_of_all(r, 3);
                assert_true(rows_image_equal(&x, &was));
                assert_int_equal(store_day_of(r[0]), 1);
                rows_image_free(&x);
                close_all(r, 3);
            }
        }
        rows_image_free(&was);
        store_close(s);
    }
}

// Makes random pushes, deltas, ends of days and shrinks, and now and then a base. A load
// gives the store's rows, whatever the mode of the newest save.
static void test_chains(void **state)
{
    (void)state;
    const char *dir = saves_fresh("chains"), *settings = CTR ALL_PUBLISHED "deltas=yes";
    struct store *s = stores_open(settings, 3);
    struct err e;
    assert_int_equal(saves_one(s, dir, SAVE_DELTA, 0, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "no save that a delta could build on"));
    for (uint32_t i = 0; i < 24; i++) {
        saves_push(s, (struct saves_owner){0, 1}, 100 + i, 2, 400 + 50 * (i % 7));
        store_set_step(s, 10 * i);
        if (i % 5 == 1)
            store_day(s);
        if (i % 3 == 2) {
            OK(store_admin(s, STORE_SHRINK, NAN, &ok_e));
            OK(store_finish(s, &ok_e));
        }
        enum save_mode mode = i % 12 == 0   ? SAVE_BASE
                              : i % 12 == 7 ? SAVE_CHECKPOINT
                                            : SAVE_DELTA;
        OK(saves_one(s, dir, mode, i % 2, &ok_e));
        OK(store_finish(s, &ok_e)); // the rows that the save has written now count as
                                    // published
        struct save_chain c;
        OK(save_chain_open(&c, dir, &ok_e));
        assert_int_equal(c.n, i % 12 < 7 ? i % 12 + 1 : i % 12 - 6);
        assert_int_equal(c.saves[c.n - 1].step, 10 * i);
        save_chain_close(&c);
        struct store *r = saves_loaded(dir, settings, i % 4 == 3 ? 5 : 3);
        assert_true(rows_same(s, r));
        assert_int_equal(store_stats(r).day, store_stats(s).day);
        assert_int_equal(store_step_of(r), 10 * i);
        store_close(r);
    }
    store_close(s);
}

// A store that is loaded from the save at a day's end continues as the saved store does:
// their rows age alike.
static void test_day(void **state)
{
    (void)state;
    const char *dir = saves_fresh("day"),
               *settings = CTR "delete-after-days=3; deltas=yes";
    struct store *s = stores_open(settings, 3);
    for (uint32_t day = 0; day < 9; day++) {
        saves_push(s, (struct saves_owner){0, 1}, 9 + day, 1, 900);
        OK(saves_one(s, dir, day % 3 == 2 ? SAVE_BASE : SAVE_DAY, 1, &ok_e));
        if (day % 3 == 2)
            continue;
        struct store *r = saves_loaded(dir, settings, day % 2 == 0 ? 3 : 4);
        assert_int_equal(store_stats(r).day, store_stats(s).day);
        assert_int_equal(store_stats(r).changed, 0);
        OK(store_admin(s, STORE_SHRINK, NAN, &ok_e));
        OK(store_finish(s, &ok_e));
        OK(store_admin(r, STORE_SHRINK, NAN, &ok_e));
        OK(store_finish(r, &ok_e));
        assert_true(rows_same(s, r));
        store_close(r);
    }
    store_close(s);
}

static struct buf bytes_of(struct store *s, uint32_t partition)
{
    struct buf b = BUF_INIT(SIZE_MAX);
    OK(parcel_get(s, partition, &b, &ok_e));
    return b;
}

static bool same_bytes(struct buf a, struct buf b)
{
    bool same = a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
    buf_free(&a);
    buf_free(&b);
    return same;
}

// A load of some partitions changes them as a whole load does, and no others.
static void test_some_partitions(void **state)
{
    (void)state;
    static const enum save_mode modes[] = {SAVE_BASE, SAVE_DAY};
    for (size_t i = 0; i < 2; i++) {
        struct saves_owner mine = {1, 3}, all = {0, 1};
        const char *dir = saves_fresh("some");
        struct store *saved = stores_open(CTR "deltas=yes; ", 3),
                     *part = stores_open(CTR "deltas=yes; ", 3);
        saves_push(saved, all, 1, 20, 300);
        store_day(saved);
        OK(saves_one(saved, dir, modes[i], 0, &ok_e));
        struct store *whole = saves_loaded(dir, CTR "deltas=yes; ", 3);
        saves_push(part, all, 2, 20, 300);
        store_set_published_by(part, 77);
        struct buf before[8];
        for (uint32_t p = 0; p < 8; p++) {
            before[p] = bytes_of(part, p);
            if (saves_owns(&mine, p))
                OK(store_empty(part, p, &ok_e));
        }
        struct save_chain c;
        OK(save_chain_open(&c, dir, &ok_e));
        OK(save_load_some(&c, "users", part, saves_owns, &mine, &ok_e));
        save_chain_close(&c);
        for (uint32_t p = 0; p < 8; p++) {
            bool loaded = same_bytes(bytes_of(part, p), bytes_of(whole, p));
            assert_int_equal(loaded, saves_owns(&mine, p));
            assert_int_equal(same_bytes(bytes_of(part, p), before[p]), !loaded);
        }
        store_close(saved);
        store_close(part);
        store_close(whole);
    }
}

// Several processes save one after the other; each of them first loads the earlier saves.
static void test_restarts(void **state)
{
    (void)state;
    const char *dir = saves_fresh("restarts"), *settings = CTR ALL_PUBLISHED "deltas=yes";
    struct store *s = stores_open(settings, 3);
    for (uint32_t i = 0; i < 12; i++) {
        saves_push(s, (struct saves_owner){0, 1}, 60 + i, 1, 300 + 40 * i);
        if (i % 3 == 1) {
            OK(store_admin(s, STORE_SHRINK, i == 4 ? 2 : NAN, &ok_e));
            OK(store_finish(s, &ok_e));
        }
        enum save_mode mode = i == 0 ? SAVE_BASE : i == 6 ? SAVE_DAY : SAVE_DELTA;
        OK(saves_one(s, dir, mode, 1, &ok_e));
        OK(store_finish(s, &ok_e));
        struct store *next = saves_loaded(dir, settings, 3);
        assert_true(rows_same(s, next));
        store_close(s);
        s = next;
    }
    store_close(s);
}

static void test_manifest(void **state)
{
    (void)state;
    const char *dir = saves_fresh("manifest");
    struct save_manifest m, back;
    char path[FILE_PATH_MAX];
    OK(save_begin(dir, SAVE_DAY, &m, path, &ok_e));
    assert_string_equal(path, saves_path(dir, "save-000001"));
    struct table_config c = table_config_defaults();
    OK(table_config_parse(&c, CTR "rate=exponential:steps=100,factor=0.9; entry=count:4",
                          &ok_e));
    struct rows_info info = {1, 2, 3, 4, 0xfedcba9876543210};
    for (uint32_t t = 0; t < 3; t++) {
        snprintf(c.name, sizeof(c.name), "table-%u", t);
        struct save_table *x = save_add_table(&m, t, &c, t + 3, NULL);
        assert_non_null(x);
        for (uint32_t i = 0; i < 20 * t; i++) {
            char name[SAVE_FILE_MAX];
            save_file_name(name, c.name, i);
            info.rows++;
            info.bytes = 0; // the file that is made below is empty
            OK(save_add_file(x, name, &info, &ok_e));
            FILE *f = fopen(saves_path(path, name), "w");
            assert_non_null(f);
            fclose(f);
        }
    }
    m.step = INT64_MAX;
    m.about = mem_strdup("{\"a\":null,\"b\":[1,2.5,\"x\"]}");
    OK(save_commit(dir, &m, 0, &ok_e));
    OK(save_read(path, &back, &ok_e));
    assert_int_equal(back.mode, SAVE_DAY);
    assert_int_equal(back.number, 1);
    assert_int_equal(back.step, INT64_MAX);
    assert_int_equal(back.checksum, m.checksum);
    assert_string_equal(back.about, m.about);
    assert_int_equal(back.n_tables, 3);
    for (uint32_t t = 0; t < 3; t++) {
        const struct save_table *x = &back.tables[t], *y = &m.tables[t];
        struct buf a = BUF_INIT(10000), b = BUF_INIT(10000);
        OK(table_config_print(&x->config, &a));
        OK(table_config_print(&y->config, &b));
        assert_string_equal(buf_str(&a), buf_str(&b));
        buf_free(&a);
        buf_free(&b);
        assert_int_equal(x->id, t);
        assert_int_equal(x->partition_bits, t + 3);
        assert_int_equal(x->n_files, 20 * t);
        for (uint32_t i = 0; i < x->n_files; i++) {
            assert_string_equal(x->files[i].name, y->files[i].name);
            assert_memory_equal(&x->files[i].info, &y->files[i].info, sizeof(info));
        }
    }
    save_manifest_free(&back);
    save_manifest_free(&m);
}

static void test_refused_manifests(void **state)
{
    (void)state;
    static const char *const names[] = {"a/b.rows", "../a.rows", ".rows",   "a.row",
                                        ".a.rows",  "",          "a b.rows"};
    struct save_manifest m = {0};
    struct table_config c = table_config_defaults();
    struct rows_info info = {0};
    struct err e;
    struct save_table *t = save_add_table(&m, 1, &c, 4, &e);
    assert_non_null(t);
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        assert_int_equal(save_add_file(t, names[i], &info, &e), TUG_EUSAGE);
    assert_null(save_add_table(&m, 2, &c, 4, &e));
    snprintf(c.name, sizeof(c.name), "other");
    assert_null(save_add_table(&m, 1, &c, 4, &e));
    assert_non_null(strstr(e.text, "two with number 1"));
    save_manifest_free(&m);

    const char *dir = saves_fresh("refused");
    char path[FILE_PATH_MAX];
    OK(save_begin(dir, SAVE_BASE, &m, path, &ok_e));
    m.about = mem_strdup("{not json");
    assert_int_equal(save_commit(dir, &m, 0, &e), TUG_EUSAGE);
    assert_false(file_exists(path));
    save_manifest_free(&m);

    // The files of a server that has written them to its own disk are not found.
    OK(save_begin(dir, SAVE_BASE, &m, path, &ok_e));
    t = save_add_table(&m, 1, &c, 4, &e);
    OK(save_add_file(t, "other-0.rows", &info, &ok_e));
    assert_int_equal(save_commit(dir, &m, 0, &e), TUG_EIO);
    assert_non_null(
        strstr(e.text, "other-0.rows' was written, but cannot be found here"));
    save_manifest_free(&m);
    assert_true(file_dir_is_empty(dir));
}

static void test_two_savers(void **state)
{
    (void)state;
    const char *dir = saves_fresh("two");
    struct save_manifest a, b;
    struct err e;
    char path[FILE_PATH_MAX];
    OK(save_begin(dir, SAVE_BASE, &a, path, &ok_e));
    assert_int_equal(save_begin(dir, SAVE_BASE, &b, path, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "in use by another process"));
    save_abort(dir, &a);
    OK(save_begin(dir, SAVE_BASE, &b, path, &ok_e));
    OK(save_commit(dir, &b, 0, &ok_e));
    OK(save_begin(dir, SAVE_BASE, &a, path, &ok_e));
    save_abort(dir, &a);
    save_manifest_free(&a);
    save_manifest_free(&b);
    assert_int_equal(save_begin("/proc/nothing", SAVE_BASE, &a, path, &e), TUG_EIO);
    assert_non_null(strstr(e.text, "/proc/nothing"));
}

static void check_kept(const char *dir, const char *numbers)
{
    char found[64] = "";
    for (uint32_t i = 1; i < 30; i++) {
        char name[32];
        snprintf(name, sizeof(name), "save-%06u", i);
        if (file_exists(saves_path(dir, name)))
            snprintf(found + strlen(found), sizeof(found) - strlen(found), "%u ", i);
    }
    assert_string_equal(found, numbers);
}

// Making a delta removes no saves, because it should not have to read the manifests of
// earlier saves.
static void test_keep(void **state)
{
    (void)state;
    const char *dir = saves_fresh("keep");
    struct store *s = stores_open(CTR "deltas=yes", 2);
    static const struct {
        enum save_mode mode;
        uint32_t keep;
        const char *left;
    } steps[] = {
        {SAVE_BASE, 2, "1 "},           {SAVE_DELTA, 2, "1 2 "},
        {SAVE_CHECKPOINT, 2, "1 2 3 "}, {SAVE_DELTA, 1, "1 2 3 4 "},
        {SAVE_DELTA, 1, "1 2 3 4 5 "},  {SAVE_DAY, 2, "3 4 5 6 "},
        {SAVE_BASE, 2, "6 7 "},         {SAVE_BASE, 0, "6 7 8 "},
        {SAVE_DELTA, 0, "6 7 8 9 "},    {SAVE_CHECKPOINT, 1, "10 "},
    };
    for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
        saves_push(s, (struct saves_owner){0, 1}, i, 1, 100);
        OK(saves_one(s, dir, steps[i].mode, steps[i].keep, &ok_e));
        check_kept(dir, steps[i].left);
    }
    store_close(s);
}

static void touch(const char *path)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs("mine\n", f) >= 0);
    assert_int_equal(fclose(f), 0);
}

// Unfinished saves are removed at the next commit. Other files, and the directories of
// other programs, stay.
static void test_leftovers(void **state)
{
    (void)state;
    const char *dir = saves_fresh("leftovers");
    struct store *s = stores_open(CTR, 2);
    OK(saves_one(s, dir, SAVE_CHECKPOINT, 1, &ok_e));
    static const char *const made[] = {"save-000002", "save-000003", "save-000004"};
    for (size_t i = 0; i < 3; i++)
        OK(file_make_dir(saves_path(dir, made[i]), &ok_e));
    touch(saves_path(dir, "save-000002/users-0.rows"));
    touch(saves_path(dir, "save-000002/users-1.rows.0123456789abcdef.tmp"));
    touch(saves_path(dir, "save-000002/manifest.json.fedcba9876543210.tmp"));
    touch(saves_path(dir, "save-000003/users-0.rows"));
    touch(saves_path(dir, "save-000003/notes.txt"));
    // This manifest belongs to another program, so the directory must be kept.
    touch(saves_path(dir, "save-000004/manifest.json"));
    touch(saves_path(dir, "save-000004/users-0.rows"));
    touch(saves_path(dir, "save-0000005"));
    touch(saves_path(dir, "notes.txt"));
    OK(saves_one(s, dir, SAVE_CHECKPOINT, 1, &ok_e));
    check_kept(dir, "3 4 5 ");
    assert_false(file_exists(saves_path(dir, "save-000003/users-0.rows")));
    assert_true(file_exists(saves_path(dir, "save-000003/notes.txt")));
    assert_true(file_exists(saves_path(dir, "save-000004/users-0.rows")));
    assert_true(file_exists(saves_path(dir, "save-0000005")));
    assert_true(file_exists(saves_path(dir, "notes.txt")));
    store_close(s);
}

// If a save, or a file of a save, is a symbolic link, only the link is removed.
static void test_links(void **state)
{
    (void)state;
    struct store *s = stores_open(CTR, 2);
    char other[FILE_PATH_MAX];
    snprintf(other, sizeof(other), "%s", saves_fresh("other"));
    OK(saves_one(s, other, SAVE_CHECKPOINT, 1, &ok_e));
    OK(file_make_dir(saves_path(other, "half"), &ok_e));
    touch(saves_path(other, "half/users-0.rows"));
    touch(saves_path(other, "users-1.rows"));
    const char *dir = saves_fresh("links");
    OK(file_make_dir(saves_path(dir, "save-000003"), &ok_e));
    assert_int_equal(symlink("../other/save-000001", saves_path(dir, "save-000001")), 0);
    assert_int_equal(symlink("../other/half", saves_path(dir, "save-000002")), 0);
    assert_int_equal(
        symlink("../../other/users-1.rows", saves_path(dir, "save-000003/users-0.rows")),
        0);
    assert_int_equal(symlink("nowhere", saves_path(dir, "save-000004")), 0);
    touch(saves_path(dir, "save-000005"));
    OK(saves_one(s, dir, SAVE_CHECKPOINT, 2, &ok_e));
    // Save 5 was to be removed. Its directory is kept, because it contains a file that
    // does not belong to a save.
    check_kept(dir, "1 5 6 ");
    OK(saves_one(s, dir, SAVE_CHECKPOINT, 2, &ok_e));
    check_kept(dir, "5 6 7 ");
    assert_true(file_exists(saves_path(other, "save-000001/manifest.json")));
    assert_true(file_exists(saves_path(other, "half/users-0.rows")));
    assert_true(file_exists(saves_path(other, "users-1.rows")));
    OK(saves_load(s, other, &ok_e));
    store_close(s);
}

static void refuse(const char *from, const char *settings, int code, const char *what)
{
    struct store *s = stores_open(settings, 3);
    struct err e = {0};
    assert_int_equal(saves_load(s, from, &e), code);
    if (strstr(e.text, what) == NULL)
        fail_msg("'%s' instead of '%s'", e.text, what);
    store_close(s);
}

static void test_find(void **state)
{
    (void)state;
    const char *dir = saves_fresh("find");
    char path[FILE_PATH_MAX], cwd[FILE_PATH_MAX];
    struct err e;
    assert_int_equal(save_find(dir, path, &e), TUG_EDATA);
    assert_non_null(strstr(e.text, "holds no save"));
    struct store *s = stores_open(CTR "deltas=yes", 3);
    saves_push(s, (struct saves_owner){0, 1}, 1, 2, 100);
    OK(saves_one(s, dir, SAVE_BASE, 0, &ok_e));
    OK(saves_one(s, dir, SAVE_DELTA, 0, &ok_e));
    OK(save_find(dir, path, &ok_e));
    assert_string_equal(path, saves_path(dir, "save-000002"));
    // A delta finds its parent, in whatever form its path is given.
    static const char *const ways[] = {"save-000002", "save-000002/", "./save-000002",
                                       ".", "save-000001/../save-000002"};
    assert_non_null(getcwd(cwd, sizeof(cwd)));
    assert_int_equal(chdir(dir), 0);
    for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
        struct save_chain c;
        OK(save_chain_open(&c, ways[i], &ok_e));
        assert_int_equal(c.n, 2);
        save_chain_close(&c);
    }
    assert_int_equal(chdir("save-000002"), 0);
    struct save_chain c;
    OK(save_chain_open(&c, ".", &ok_e));
    assert_int_equal(c.n, 2);
    save_chain_close(&c);
    assert_int_equal(chdir(cwd), 0);
    refuse(dir, "name=items; accessor=plain", TUG_EUSAGE,
           "no table 'items'; there are: users");
    store_close(s);
}

#define RULES "rule=adagrad; embedx-rule=adagrad"

static void test_other_rows(void **state)
{
    (void)state;
    const char *dir = saves_fresh("other");
    struct store *s = stores_open(CTR, 3);
    saves_push(s, (struct saves_owner){0, 1}, 1, 2, 100);
    OK(saves_one(s, dir, SAVE_CHECKPOINT, 0, &ok_e));
    static const struct {
        const char *accessor, *rules, *what;
    } others[] = {
        {"accessor=sparse; dim=3", RULES, "accessor ctr"},
        {"accessor=ctr; dim=4", RULES, "dim 3 and cannot become one with dim 4"},
        {"accessor=ctr; dim=3", "rule=momentum; embedx-rule=adagrad",
         "rule adagrad and cannot become"},
        {"accessor=ctr; dim=3", "rule=adagrad; embedx-rule=adam",
         "embedx-rule adagrad and cannot become"},
    };
    char settings[256];
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        snprintf(settings, sizeof(settings), "name=users; %s; %s", others[i].accessor,
                 others[i].rules);
        refuse(dir, settings, TUG_EUSAGE, others[i].what);
    }
    struct store *r = saves_loaded(
        dir,
        "name=users; accessor=CtrCommonAccessor; dim=3; decay=0.5; "
        "rule=adagrad:lr=3; embedx-rule=adagrad; entry=bloom:3",
        3);
    assert_true(rows_same(s, r));
    store_close(r);
    store_close(s);
}

static void change_byte(const char *path, long at, int by)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    int c = fgetc(f);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    assert_true(fputc(c ^ by, f) != EOF);
    assert_int_equal(fclose(f), 0);
}

static void copy_file(const char *from, const char *to)
{
    struct buf b = BUF_INIT(64 << 20);
    OK(file_read(from, &b, &ok_e));
    FILE *f = fopen(to, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(b.data, 1, b.len, f), b.len);
    assert_int_equal(fclose(f), 0);
    buf_free(&b);
}

static void test_damage(void **state)
{
    (void)state;
    const char *dir = saves_fresh("damage"), *settings = CTR "deltas=yes";
    struct store *s = stores_open(settings, 3);
    for (int i = 0; i < 3; i++) {
        saves_push(s, (struct saves_owner){0, 1}, (uint64_t)i, 2, 200);
        OK(saves_one(s, dir, i == 0 ? SAVE_BASE : SAVE_DELTA, 0, &ok_e));
    }
    const char *file = saves_path(dir, "save-000002/users-0.rows");
    const char *other = saves_path(dir, "save-000001/users-0.rows");
    const char *copy = saves_path(dir, "copy");
    copy_file(file, copy);
    struct stat st;
    assert_int_equal(stat(file, &st), 0);
    for (long i = 0; i < st.st_size; i += 97) {
        change_byte(file, i, 0x10);
        refuse(dir, settings, TUG_EDATA, "save-000002/users-0.rows");
        change_byte(file, i, 0x10);
    }
    for (off_t n = 0; n < st.st_size; n += 501) {
        assert_int_equal(truncate(file, n), 0);
        refuse(dir, settings, TUG_EDATA, "save-000002/users-0.rows");
        copy_file(copy, file);
    }
    copy_file(other, file);
    refuse(dir, settings, TUG_EDATA, "save-000002/users-0.rows' is not the file");
    assert_int_equal(remove(file), 0);
    refuse(dir, settings, TUG_EDATA, "save-000002/users-0.rows': No such file");
    copy_file(copy, file);
    struct store *r = saves_loaded(dir, settings, 3);
    store_close(r);
    store_close(s);
}

static void test_wrong_parents(void **state)
{
    (void)state;
    const char *dir = saves_fresh("parents"), *settings = CTR "deltas=yes";
    const char *elsewhere = saves_fresh("elsewhere");
    struct store *s = stores_open(settings, 3);
    for (int i = 0; i < 3; i++) {
        saves_push(s, (struct saves_owner){0, 1}, (uint64_t)i, 2, 200);
        OK(saves_one(s, dir, i == 0 ? SAVE_BASE : SAVE_DELTA, 0, &ok_e));
    }
    const char *second = saves_path(dir, "save-000002"), *away = saves_path(dir, "away");
    assert_int_equal(rename(second, away), 0);
    refuse(dir, settings, TUG_EDATA, "save-000002', which is missing");
    // Replaces the parent by another complete save with the same number.
    OK(saves_one(s, elsewhere, SAVE_BASE, 0, &ok_e));
    saves_push(s, (struct saves_owner){0, 1}, 9, 1, 200);
    OK(saves_one(s, elsewhere, SAVE_DELTA, 0, &ok_e));
    assert_int_equal(rename(saves_path(elsewhere, "save-000002"), second), 0);
    refuse(dir, settings, TUG_EDATA, "is a delta of an earlier");
    files_remove(second);
    assert_int_equal(rename(away, second), 0);
    change_byte(saves_path(dir, "save-000001/manifest.json"), 100, 1);
    refuse(dir, settings, TUG_EDATA, "save-000001/manifest.json");
    store_close(s);
}

// If any byte of a manifest is changed, the manifest is refused, or has the same content
// as before.
static void test_damaged_manifest(void **state)
{
    (void)state;
    const char *dir = saves_fresh("bytes");
    struct store *s = stores_open(CTR, 3);
    OK(saves_one(s, dir, SAVE_BASE, 0, &ok_e));
    const char *save = saves_path(dir, "save-000001");
    const char *file = saves_path(dir, "save-000001/manifest.json");
    struct save_manifest m;
    OK(save_read(save, &m, &ok_e));
    uint64_t checksum = m.checksum;
    save_manifest_free(&m);
    struct stat st;
    assert_int_equal(stat(file, &st), 0);
    for (long i = 0; i < st.st_size; i++) {
        struct err e = {0};
        change_byte(file, i, 1 << i % 7);
        int rc = save_read(save, &m, &e);
        assert_true(rc == TUG_EDATA || m.checksum == checksum);
        if (rc == 0)
            save_manifest_free(&m);
        else
            assert_non_null(strstr(e.text, file));
        change_byte(file, i, 1 << i % 7);
    }
    store_close(s);
}

static void test_no_memory(void **state)
{
    (void)state;
    const char *dir = saves_fresh("memory"), *settings = CTR "deltas=yes";
    struct store *s = stores_open(settings, 2), *was = stores_open(settings, 2);
    saves_push(s, (struct saves_owner){0, 1}, 1, 1, 100);
    saves_push(was, (struct saves_owner){0, 1}, 1, 1, 100);
    for (long n = 0;; n++) {
        struct err e = {0};
        mem_fault_after(n);
        int rc = saves_one(s, dir, SAVE_CHECKPOINT, 1, &e);
        bool struck = mem_faulted();
        mem_fault_after(-1);
        assert_true(rc == 0 || rc == TUG_ENOMEM);
        assert_true(rc == 0 || file_dir_is_empty(dir));
        assert_true(rows_same(s, was));
        // The save exists even if memory ran out later, while older saves were removed.
        if (rc == 0 && struck)
            files_remove(dir);
        if (!struck)
            break;
    }
    size_t live = mem_live();
    for (long n = 0;; n++) {
        struct err e = {0};
        struct store *r = stores_open(settings, 3);
        mem_fault_after(n);
        int rc = saves_load(r, dir, &e);
        bool struck = mem_faulted();
        mem_fault_after(-1);
        assert_int_equal(rc, struck ? TUG_ENOMEM : 0);
        assert_true(rc != 0 || rows_same(r, s));
        store_close(r);
        assert_int_equal(mem_live(), live);
        if (!struck)
            break;
    }
    store_close(was);
    store_close(s);
}

// A large partition. While cut_next passes many rows that the save leaves out, it returns
// blocks without rows.
static void large_partition(void **state)
{
    (void)state;
    const char *dir = saves_fresh("large");
    struct store *s = stores_open(CTR ALL_PUBLISHED, 0);
    saves_push(s, (struct saves_owner){0, 1}, 3, 100, 60000);
    OK(saves_one(s, dir, SAVE_BASE, 0, &ok_e));
    OK(store_finish(s, &ok_e));
    saves_push(s, (struct saves_owner){0, 1}, 4, 1, 60000);
    OK(saves_one(s, dir, SAVE_DELTA, 0, &ok_e));
    OK(store_finish(s, &ok_e));
    struct store *loaded = saves_loaded(dir, CTR ALL_PUBLISHED, 0);
    assert_true(rows_same(s, loaded));
    store_close(loaded);
    store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_partition),
        cmocka_unit_test(test_owners),
        cmocka_unit_test(test_other_partitions),
        cmocka_unit_test(test_chains),
        cmocka_unit_test(test_day),
        cmocka_unit_test(test_some_partitions),
        cmocka_unit_test(test_restarts),
        cmocka_unit_test(test_manifest),
        cmocka_unit_test(test_refused_manifests),
        cmocka_unit_test(test_two_savers),
        cmocka_unit_test(test_keep),
        cmocka_unit_test(test_leftovers),
        cmocka_unit_test(test_links),
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_other_rows),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_wrong_parents),
        cmocka_unit_test(test_damaged_manifest),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, files_begin_in_memory, files_end);
}
