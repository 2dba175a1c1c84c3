// A partition that is copied in slices between pushes is the same at its new store as at
// the old one: rows, extra rows, entry policy, and the notes for deltas. Also with rows on
// disk, of which both stores have different ones.
//
// SPDX-License-Identifier: Apache-2.0
#include "store/parcel.h"

#include <string.h>

#include "base/alloc.h"
#include "kit/cuts.h"
#include "kit/files.h"
#include "kit/test.h"
#include "kit/tiers.h"

enum { UNIVERSE = 3000, BITS = 1, P = 1, DRAWS = 300, MOST = 2000 };

static const char *const settings[] = {
    "accessor=plain; dim=100",
    "accessor=plain; dim=101; deltas=yes",
    "accessor=ctr; dim=70; embedx-threshold=2; entry=count:2; deltas=yes",
    "accessor=ctr; dim=150; embedx-threshold=2; entry=count:2; budget-rows=700",
    "accessor=sparse; dim=100; embedx-threshold=1; entry=count:2",
};

static const char *const cold_settings[] = {
    "accessor=plain; dim=100",
    "accessor=ctr; dim=70; embedx-threshold=2; entry=count:2; deltas=yes",
    "accessor=ctr; dim=70; embedx-threshold=0; deltas=yes",
};
enum { N_COLD = sizeof(cold_settings) / sizeof(*cold_settings) };

static bool on_disk;         // whether the stores have tiers
static const char *hot_rows; // of the source; the target has another number

static struct store *open_on_disk(const char *words, bool source)
{
    struct store *s;
    char all[256];
    snprintf(all, sizeof(all), "%s; hot-rows=%s", words, source ? hot_rows : "300");
    snprintf(tiers_dir, sizeof(tiers_dir), "%s", files_in(source ? "tier" : "tier2"));
    OK(tiers_open(&s, all, BITS, &ok_e));
    store_set_owned(s, P, source);
    return s;
}

static struct store *open_store(const char *words, bool owns)
{
    if (on_disk)
        return open_on_disk(words, owns);
    struct table_config c = table_config_defaults();
    struct store *s;
    OK(table_config_parse(&c, words, &ok_e));
    OK(table_config_check(&c, &ok_e));
    struct store_options o = {.config = &c, .id = STORES_ID, .partition_bits = BITS};
    OK(store_open(&s, &o, &ok_e));
    store_set_owned(s, P, owns);
    return s;
}

// Both stores, and the copy between them.
struct both {
    struct store *from, *to;
    struct parcel_copy *copy; // NULL: all rows were copied
    struct batch *b;
    struct rng d;
    uint64_t gone; // number of removed rows whose keys the target got
};

static void take_slice(struct both *x)
{
    struct buf slice = BUF_INIT(1 << 24);
    bool last, put_last;
    OK(parcel_copy_next(x->copy, &slice, &last, &ok_e));
    OK(parcel_slice_put(x->to, P, slice.data, slice.len, &put_last, &ok_e));
    assert_int_equal(last, put_last);
    buf_free(&slice);
    if (!last)
        return;
    assert_int_equal(parcel_copy_left(x->copy), 0);
    parcel_copy_close(x->copy);
    x->copy = NULL;
}

// Applies the last push to the source also to the target, for rows that were copied.
static void follow(struct both *x)
{
    uint32_t width = store_accessor(x->from)->push_width, n = 0;
    static uint64_t keys[MOST];
    static float values[MOST * 256];
    static bool copied[MOST];
    size_t removed = 0;
    const uint64_t *go = x->copy != NULL ? parcel_copy_removed(x->copy, &removed) : NULL;
    if (removed > 0)
        OK(store_remove(x->to, go, removed, &ok_e));
    if (x->copy != NULL)
        parcel_copy_told(x->copy);
    x->gone += removed;
    memset(copied, 1, sizeof(copied));
    if (x->copy != NULL)
        parcel_copy_find(x->copy, x->b->keys, x->b->n, copied);
    for (size_t i = 0; i < x->b->n; i++) {
        if (store_partition(x->from, x->b->keys[i]) != P || !copied[i])
            continue;
        keys[n] = x->b->keys[i];
        memcpy(values + n++ * width, x->b->values + i * width, width * sizeof(float));
    }
    struct store_push p = {.op = STORE_GRADIENT,
                           .keys = keys,
                           .n = n,
                           .values = values,
                           .rate = 1,
                           .pass = 1,
                           .scale = 1};
    OK(n > 0 ? store_push(x->to, &p, NULL, &ok_e) : 0);
}

static void push(struct both *x, bool moving)
{
    batch_draw(x->b, &x->d, DRAWS);
    OK(batch_push(x->from, x->b, &x->d, &ok_e));
    if (moving)
        follow(x);
}

// Checks that both stores have the same rows. Their order may differ where a row got the
// handle of a removed row.
static void check_same(struct both *x)
{
    struct buf a = BUF_INIT(1 << 26), b = BUF_INIT(1 << 26);
    OK(parcel_get(x->from, P, &a, &ok_e));
    OK(parcel_get(x->to, P, &b, &ok_e));
    // Both parcels have the same numbers of changed and of removed keys. The notes about
    // rows that go to disk and come back may differ.
    assert_true(a.len == b.len || on_disk);
    OK(store_drop(x->from, 1 - P, &ok_e));
    struct image *i = cuts_all(x->from, SAVE_DAY, false, NULL);
    struct image *k = cuts_all(x->to, SAVE_DAY, false, NULL);
    image_check_equal(i, k);
    image_free(i);
    image_free(k);
    buf_free(&a);
    buf_free(&b);
    store_check_rows(x->from);
    store_check_rows(x->to);
}

static void begin(struct both *x, const char *words, uint64_t seed)
{
    struct buf empty = BUF_INIT(1 << 24);
    *x = (struct both){.from = open_store(words, true),
                       .to = open_store(words, false),
                       .b = batch_make(UNIVERSE),
                       .d = {.seed = seed}};
    for (int i = 0; i < 20; i++)
        push(x, false);
    OK(parcel_get_empty(x->from, P, &empty, &ok_e));
    OK(parcel_put(x->to, P, empty.data, empty.len, &ok_e));
    OK(parcel_copy_open(&x->copy, x->from, P, &ok_e));
    buf_free(&empty);
}

static void end(struct both *x)
{
    parcel_copy_close(x->copy);
    batch_free(x->b);
    store_close(x->to);
    store_close(x->from);
}

static void test_pushes_between_slices(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++) {
        struct both x;
        uint32_t slices = 0;
        begin(&x, settings[i], 7 + i);
        for (; x.copy != NULL; slices++) {
            for (int k = 0; k < 8; k++)
                push(&x, true);
            take_slice(&x);
        }
        assert_in_range(slices, 2, 100);
        assert_int_equal(x.gone > 0, strstr(settings[i], "budget") != NULL);
        for (int k = 0; k < 5; k++)
            push(&x, true);
        check_same(&x);
        end(&x);
    }
}

// Each allocation for a slice fails once. The copy ends, and another copy then succeeds.
static void check_without_memory(const char *words)
{
    struct both x;
    begin(&x, words, 6);
    struct buf slice = BUF_INIT(1 << 24);
    bool last = false, put_last;
    for (long n = 0; !last; n++) {
        int rc = 0;
        parcel_copy_close(x.copy);
        OK(parcel_copy_open(&x.copy, x.from, P, &ok_e));
        while (rc == 0 && !last) {
            buf_free(&slice);
            slice = BUF_INIT(1 << 24);
            mem_fault_after(n);
            rc = parcel_copy_next(x.copy, &slice, &last, NULL);
            mem_fault_after(-1);
            assert_true(rc == 0 || (rc == TUG_ENOMEM && slice.len == 0));
            if (rc == 0) // rows that the failed copy has put are replaced
                OK(parcel_slice_put(x.to, P, slice.data, slice.len, &put_last, &ok_e));
        }
        if (rc != 0)
            assert_int_equal(parcel_copy_next(x.copy, &slice, &last, NULL), TUG_ENOMEM);
    }
    check_same(&x);
    buf_free(&slice);
    end(&x);
}

static void test_without_memory(void **state)
{
    (void)state;
    check_without_memory(settings[2]);
}

// Rows go to disk and come back, are made and removed between slices.
static void test_disk_between_slices(void **state)
{
    (void)state;
    uint64_t gone = 0, changed = 0;
    on_disk = true;
    for (uint32_t i = 0; i < 4 * N_COLD; i++) {
        struct both x;
        uint32_t slices = 0;
        hot_rows = i % 3 == 0 ? "1" : i % 3 == 1 ? "900" : "100";
        begin(&x, cold_settings[i / 2 % N_COLD], 17 + i);
        uint64_t rows = store_rows_of(x.from, P);
        assert_true(store_stats(x.from).cold_rows > 0);
        for (; x.copy != NULL; slices++) {
            for (uint32_t k = 0; k < i / N_COLD * 3; k++)
                push(&x, true);
            uint64_t key = x.b->keys[x.b->n - 1];
            if (i >= N_COLD && store_partition(x.from, key) == P) {
                OK(store_remove(x.from, &key, 1, &ok_e));
                size_t n = x.b->n;
                x.b->n = 0;
                follow(&x);
                x.b->n = n;
            }
            take_slice(&x);
        }
        assert_in_range(slices, 2, 100);
        gone += x.gone;
        changed += store_rows_of(x.from, P) != rows;
        for (int k = 0; k < 5; k++)
            push(&x, true);
        check_same(&x);
        end(&x);
    }
    assert_true(gone > 0 && changed >= 2 * N_COLD);
    on_disk = false;
}

// Each allocation for a slice fails once.
static void test_disk_without_memory(void **state)
{
    (void)state;
    on_disk = true;
    hot_rows = "100";
    check_without_memory(cold_settings[1]);
    on_disk = false;
}

// Rows are removed a few at a time, until none is left.
static void test_drop_in_slices(void **state)
{
    (void)state;
    struct both x;
    begin(&x, settings[2], 3);
    uint64_t rows = store_rows_of(x.from, P), other = store_rows_of(x.from, 1 - P);
    bool left = true;
    parcel_copy_close(x.copy);
    x.copy = NULL;
    for (uint64_t done = 100; left; done += 100) {
        OK(store_drop_some(x.from, P, 100, &left, &ok_e));
        assert_int_equal(store_rows_of(x.from, P), done < rows ? rows - done : 0);
        assert_int_equal(store_owns(x.from, P), left);
    }
    assert_int_equal(store_rows_of(x.from, 1 - P), other);
    store_check_rows(x.from);
    end(&x);
}

// A store that closes ends its copies.
static void test_closed_store(void **state)
{
    (void)state;
    struct both x;
    struct buf slice = BUF_INIT(1 << 24);
    bool last;
    struct err e;
    begin(&x, settings[0], 4);
    store_close(x.from);
    assert_int_equal(parcel_copy_next(x.copy, &slice, &last, &e), TUG_EINTERRUPTED);
    x.from = NULL;
    end(&x);
}

// A copy of a copy stamps rows with the steps of the store that leads the partition, also if
// the copy knew of more steps.
static void test_steps(void **state)
{
    (void)state;
    struct both x;
    begin(&x, "accessor=ctr; dim=70; ttl-steps=5; embedx-threshold=0", 8);
    parcel_copy_close(x.copy);
    store_set_backup(x.from, P, true);
    store_set_step(x.from, 15);
    OK(parcel_copy_open(&x.copy, x.from, P, &ok_e));
    while (x.copy != NULL)
        take_slice(&x);
    store_set_step(x.from, 13);
    store_set_step(x.to, 13);
    push(&x, true);
    store_set_backup(x.from, P, false);
    check_same(&x);
    end(&x);
}

// A damaged slice is refused, or put whole if the damage cannot be noticed. All rows that
// were put can be dropped.
static void test_damage(void **state)
{
    (void)state;
    struct both x;
    struct buf slice = BUF_INIT(1 << 24), copy = BUF_INIT(1 << 24);
    struct rng d = {.seed = 5};
    bool last = false;
    struct err e;
    begin(&x, settings[2], 5);
    for (int i = 0; !last; i++) {
        buf_clear(&slice);
        OK(parcel_copy_next(x.copy, &slice, &last, &ok_e));
        for (int k = 0; k < 200; k++) {
            bool put_last;
            buf_clear(&copy);
            OK(buf_add(&copy, slice.data, slice.len));
            uint32_t most = (uint32_t)(k % 2 == 0 ? 64 : slice.len);
            copy.data[rng_below_u32(&d, most)] ^= (char)(1 << rng_below_u32(&d, 8));
            int rc = parcel_slice_put(x.to, P, copy.data,
                                      k % 7 == 0 ? copy.len / 16 * 8 : copy.len,
                                      &put_last, &e);
            assert_true(rc == 0 || rc == TUG_EDATA);
            store_check_rows(x.to);
        }
    }
    OK(store_drop(x.to, P, &ok_e));
    assert_int_equal(store_stats(x.to).rows + store_stats(x.to).extra_rows, 0);
    buf_free(&slice);
    buf_free(&copy);
    end(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pushes_between_slices),
        cmocka_unit_test(test_drop_in_slices),
        cmocka_unit_test(test_closed_store),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_without_memory),
    };
    const struct CMUnitTest disk_tests[] = {
        cmocka_unit_test(test_disk_between_slices),
        cmocka_unit_test(test_disk_without_memory),
    };
    int rc;
    if (cmocka_run_group_tests(tests, NULL, NULL) != 0)
        return 1;
    return tiers_begin(&rc) ? cmocka_run_group_tests(disk_tests, NULL, files_end) : rc;
}
