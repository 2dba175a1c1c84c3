// A parcel gives another store the same partition, also where rows are on disk; damaged
// bytes, lack of memory and foreign keys are refused and leave nothing behind.
//
// SPDX-License-Identifier: Apache-2.0
#include "store/parcel.h"

#include <stdio.h>

#include "base/alloc.h"
#include "kit/cuts.h"
#include "kit/files.h"
#include "kit/test.h"

enum { UNIVERSE = 1500, BITS = 2, HOT = 80 };

#define LIVES                                                                            \
    "accessor=ctr; dim=3; embedx-threshold=2; delete-threshold=0.6; decay=0.7; "         \
    "entry=count:2; deltas=yes"

// Opens a store; if `dir` is given, most of its rows are on disk in that directory.
static struct store *open_store(const char *settings, const char *dir, uint64_t max_bytes)
{
    struct table_config c = table_config_defaults();
    struct store *s;
    if (dir != NULL)
        OK(table_config_parse(&c, "cold=here; hot-rows=80", &ok_e));
    OK(table_config_parse(&c, settings, &ok_e));
    OK(table_config_check(&c, &ok_e));
    struct store_options o = {.config = &c,
                              .id = STORES_ID,
                              .partition_bits = BITS,
                              .max_bytes = max_bytes,
                              .cold_dir = dir};
    OK(store_open(&s, &o, &ok_e));
    return s;
}

static void traffic(struct store *s, struct batch *b, struct rng *d)
{
    for (uint32_t i = 0; i < 12; i++) {
        batch_draw(b, d, 200);
        if (i % 4 == 3)
            OK(store_remove(s, b->keys, b->n < 40 ? b->n : 40, &ok_e));
        else
            OK(batch_push(s, b, d, &ok_e));
    }
}

static struct store *fill(const char *settings, const char *dir, uint64_t seed)
{
    struct store *s = open_store(settings, dir, 0);
    struct batch *b = batch_make(UNIVERSE);
    struct rng d = {.seed = seed};
    traffic(s, b, &d);
    store_day(s);
    OK(store_admin(s, STORE_SHRINK, 0.3f, &ok_e));
    traffic(s, b, &d);
    OK(store_finish(s, &ok_e));
    batch_free(b);
    return s;
}

static struct buf parcel_of(struct store *s, uint32_t p)
{
    struct buf b = BUF_INIT(1 << 24);
    OK(parcel_get(s, p, &b, &ok_e));
    assert_int_equal(b.len % 8, 0);
    return b;
}

static struct image *all_of(struct store *s)
{
    return cuts_all(s, SAVE_DAY, false, NULL);
}

// Moves a partition from a store without a cold tier to a store with most
// rows on disk, and back.
static void test_through_a_tier(void **state)
{
    static const char *const settings[] = {LIVES, "accessor=plain; dim=2; deltas=yes",
                                           "accessor=sparse; dim=2; embedx-threshold=1"};
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        struct store *a = fill(settings[i], NULL, 70 + i);
        struct store *alone = fill(settings[i], NULL, 70 + i);
        struct store *b = open_store(settings[i], files_in("tier"), 0);
        struct store *c = open_store(settings[i], NULL, 0);
        uint64_t changed = store_stats(a).changed;
        for (uint32_t p = 0; p < 1u << BITS; p++)
            OK(store_move(b, a, p, &ok_e));
        assert_int_equal(store_stats(a).rows, 0);
        assert_true(store_stats(b).cold_rows > 0);
        store_check_rows(a);
        store_check_rows(b);
        for (uint32_t p = 0; p < 1u << BITS; p++)
            OK(store_move(c, b, p, &ok_e));
        assert_int_equal(store_stats(b).rows + store_stats(b).cold_rows, 0);
        assert_int_equal(store_stats(c).changed, changed);
        assert_int_equal(store_stats(c).made, 0);
        struct image *x = all_of(alone), *y = all_of(c);
        image_check_equal(x, y);
        image_free(x);
        image_free(y);
        store_close(a);
        store_close(alone);
        store_close(b);
        store_close(c);
        files_remove(files_in("tier"));
    }
}

static void check_empty(struct store *s)
{
    assert_int_equal(store_stats(s).rows + store_stats(s).cold_rows, 0);
    assert_int_equal(store_stats(s).extra_rows, 0);
    assert_int_equal(store_stats(s).changed, 0);
    assert_false(store_owns(s, 1));
    store_check_rows(s);
}

// Puts a changed parcel after correcting its hash, as a hostile server could do.
static int put_forged(struct store *s, struct buf *b, struct err *e)
{
    uint64_t hash = hash_bytes(b->data, b->len - 16, 0);
    memcpy(b->data + b->len - 8, &hash, sizeof(hash));
    return parcel_put(s, 1, b->data, b->len, e);
}

static void test_damage(void **state)
{
    (void)state;
    struct store *a = fill(LIVES, NULL, 3), *b = open_store(LIVES, NULL, 0);
    struct buf whole = parcel_of(a, 1), copy = BUF_INIT(1 << 24);
    struct rng d = {.seed = 4};
    struct err e;
    uint32_t taken = 0;
    store_set_owned(b, 1, false);
    for (size_t n = 0; n < whole.len; n += n < 200 ? 8 : 1000)
        assert_int_equal(parcel_put(b, 1, whole.data, n, &e), TUG_EDATA);
    check_empty(b);
    for (uint32_t i = 0; i < (SANITIZED ? 300 : 2000); i++) {
        buf_clear(&copy);
        OK(buf_add(&copy, whole.data, whole.len));
        size_t most = i % 2 == 0 ? 200 : whole.len;
        copy.data[rng_below_u32(&d, (uint32_t)most)] ^= (char)(1 << rng_below_u32(&d, 8));
        assert_int_equal(parcel_put(b, 1, copy.data, copy.len, &e), TUG_EDATA);
        check_empty(b);
        int rc = put_forged(b, &copy, &e);
        if (rc == 0) { // the damage could not be noticed: it changed a value, a record of
                       // a change or a day
            store_check_rows(b);
            OK(store_drop(b, 1, &ok_e));
            taken++;
        } else if (rc != TUG_EDATA) {
            fail_msg("%d: %s", rc, e.text);
        }
        check_empty(b);
    }
    assert_in_range(taken, 1, SANITIZED ? 300 : 2000);
    // Another partition's parcel is refused.
    buf_free(&copy);
    copy = parcel_of(a, 2);
    assert_int_equal(put_forged(b, &copy, &e), TUG_EDATA);
    OK(parcel_put(b, 1, whole.data, whole.len, &ok_e));
    assert_true(store_owns(b, 1));
    buf_free(&copy);
    buf_free(&whole);
    store_close(a);
    store_close(b);
}

static void test_room(void **state)
{
    (void)state;
    struct store *a = fill(LIVES, NULL, 5);
    struct buf b = parcel_of(a, 1);
    struct store *small = open_store(LIVES, NULL, 5000);
    struct err e;
    store_set_owned(small, 1, false);
    assert_int_equal(parcel_put(small, 1, b.data, b.len, &e), TUG_ENOMEM);
    assert_non_null(strstr(e.text, "--memory"));
    check_empty(small);
    buf_free(&b);
    store_close(a);
    store_close(small);
}

// Moves a partition while each allocation fails once.
static void test_without_memory(void **state)
{
    (void)state;
    struct store *a = fill(LIVES, NULL, 6), *b = open_store(LIVES, NULL, 0);
    bool faulted = true;
    store_set_owned(b, 1, false);
    for (long n = 0; faulted; n++) {
        mem_fault_after(n);
        int rc = store_move(b, a, 1, NULL);
        faulted = mem_faulted();
        mem_fault_after(-1);
        if (rc != 0) {
            assert_int_equal(rc, TUG_ENOMEM);
            // Either the move has not happened, or the source could not forget its rows.
            if (!store_owns(b, 1))
                check_empty(b);
            assert_true(store_owns(a, 1));
        }
        if (store_owns(b, 1)) {
            if (store_owns(a, 1))
                OK(store_drop(a, 1, &ok_e));
            OK(store_move(a, b, 1, &ok_e));
        }
    }
    store_check_rows(a);
    store_close(a);
    store_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_through_a_tier),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_room),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
