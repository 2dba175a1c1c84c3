// Two stores with all partitions, of which each leads every second one and has copies
// of the others. Both make cuts of the led partitions and do admin operations in them,
// and tell the other store, also what was published; their rows and notes for deltas
// must stay equal. Then one store leads everything, and its delta completes the base
// and the deltas of both. Two stores with rows on disk have different rows there. Then their
// notes may differ, but the rows and the deltas may not.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "base/alloc.h"
#include "base/compare.h"
#include "kit/cuts.h"
#include "kit/files.h"
#include "kit/test.h"
#include "kit/tiers.h"
#include "store/cut.h"

enum { UNIVERSE = 2000, STORES = 2 };

#define ALL_PUBLISHED "base-threshold=0; delta-threshold=0; delta-keep-days=100000; "

static const char *const settings[] = {
    "accessor=ctr; dim=3; rule=adagrad; embedx-rule=adagrad; embedx-threshold=2; "
    "embedx-init=0.1; deltas=yes; entry=count:2; base-threshold=1; delta-threshold=0.5",
    "accessor=ctr; dim=3; rule=adagrad; deltas=yes; delete-threshold=0.2; " ALL_PUBLISHED
    "budget-rows=900; budget-floor=0.5",
    "accessor=ctr; dim=3; rule=adagrad; deltas=yes; " ALL_PUBLISHED,
    "accessor=plain; dim=5; rule=adam; deltas=yes",
    "accessor=plain; dim=2; rule=sum",
};
enum { SETTINGS = sizeof(settings) / sizeof(settings[0]) };

// Each store keeps another number of rows in memory.
static const char *const cold_settings[] = {
    "accessor=ctr; dim=3; rule=adagrad; embedx-rule=adagrad; embedx-threshold=2; "
    "embedx-init=0.1; deltas=yes; base-threshold=1; delta-threshold=0.5",
    "accessor=ctr; dim=3; rule=adagrad; deltas=yes; entry=count:2; " ALL_PUBLISHED,
    "accessor=ctr; dim=0; deltas=yes; decay=1; cold-after-days=0; " ALL_PUBLISHED,
    "accessor=plain; dim=5; rule=adam; deltas=yes",
    "accessor=plain; dim=2; rule=sum",
};
static const char *const hot_rows[STORES] = {"hot-rows=40", "hot-rows=500"};

struct pair {
    bool cold;
    struct store *of[STORES];
    bool cuts[STORES]; // whether a cut is under way
    uint64_t checksum[STORES];
    struct batch *b;
    struct rng d;
    struct chain *chain; // the files of all saves that were committed
    struct buf said;     // what a committed save has published in a partition
};

static uint32_t leader(uint32_t p)
{
    return p % STORES;
}

static struct store *open_cold(const char *words, uint32_t bits, uint32_t i)
{
    struct store *s;
    char all[512];
    snprintf(all, sizeof(all), "%s; %s", words, hot_rows[i]);
    snprintf(tiers_dir, sizeof(tiers_dir), "%s", files_in(i == 0 ? "tier" : "tier2"));
    OK(tiers_open(&s, all, bits, &ok_e));
    return s;
}

static void pair_open_with(struct pair *x, const char *words, uint32_t bits,
                           uint64_t seed, bool cold)
{
    *x = (struct pair){.cold = cold, .b = batch_make(UNIVERSE), .d = {.seed = seed}};
    x->said = BUF_INIT(1 << 24);
    for (uint32_t i = 0; i < STORES; i++) {
        x->of[i] = cold ? open_cold(words, bits, i) : stores_open(words, bits);
        for (uint32_t p = 0; p < x->of[i]->n_parts; p++)
            store_set_backup(x->of[i], p, leader(p) != i);
    }
    x->chain = chain_make(x->of[0], UNIVERSE);
}

static void pair_open(struct pair *x, const char *words, uint32_t bits, uint64_t seed)
{
    pair_open_with(x, words, bits, seed, false);
}

static void pair_close(struct pair *x)
{
    for (uint32_t i = 0; i < STORES; i++)
        store_close(x->of[i]);
    chain_free(x->chain);
    batch_free(x->b);
    buf_free(&x->said);
}

static void push(struct pair *x)
{
    struct rng same;
    batch_draw(x->b, &x->d, 1 + rng_below(&x->d, 100));
    same = x->d;
    OK(batch_push(x->of[0], x->b, &x->d, &ok_e));
    OK(batch_push(x->of[1], x->b, &same, &ok_e));
}

// One store pulls, which changes the rows that it has in memory.
static void pull(struct pair *x)
{
    struct store *s = x->of[rng_below(&x->d, STORES)];
    batch_draw(x->b, &x->d, 1 + rng_below(&x->d, 100));
    OK(store_pull(s, x->b->keys, x->b->n, x->b->values, NULL, &ok_e));
}

// Tries until it succeeds, while one allocation after the other fails.
static void put(struct store *to, uint32_t p, const struct buf *said)
{
    int rc = TUG_ENOMEM;
    for (long n = 0; rc != 0; n++) {
        assert_true(n < 100);
        mem_fault_after(n);
        rc = cut_put_published(to, p, said->data, said->len, NULL);
        mem_fault_after(-1);
        assert_true(rc == 0 || rc == TUG_ENOMEM);
    }
}

// Store i ends its cut. The other store is told at once what was published.
static void end(struct pair *x, uint32_t i, bool committed, enum save_mode mode)
{
    struct store *s = x->of[i], *other = x->of[1 - i];
    bool tells = committed && mode != SAVE_CHECKPOINT && store_config(s)->deltas;
    size_t most[PARTS_MAX];
    for (uint32_t p = 0; p < s->n_parts; p++)
        most[p] = cut_published_most(s, p);
    OK(cut_end(s, committed, &ok_e));
    x->cuts[i] = false;
    for (uint32_t p = 0; p < s->n_parts && tells; p++) {
        buf_clear(&x->said);
        if (leader(p) != i)
            continue;
        OK(cut_get_published(s, p, &x->said));
        assert_true(x->said.len <= most[p]);
        put(other, p, &x->said);
    }
    if (!committed || mode == SAVE_CHECKPOINT)
        return;
    uint64_t checksum = ++x->checksum[i] * STORES + i;
    store_set_published_by(s, checksum);
    for (uint32_t p = 0; p < s->n_parts; p++)
        if (leader(p) == i)
            store_set_backup_published_by(other, p, checksum);
}

static void take_block(struct pair *x, uint32_t i, const struct rows_block *b, bool keep,
                       bool all)
{
    assert_true(b->n == 0 || all || leader(b->partition) == i);
    if (keep && b->n > 0 && b->kind != ROWS_PARTITION)
        chain_add(x->chain, b);
}

// Store i makes a save while both change, and perhaps while the other one saves.
static void save(struct pair *x, uint32_t i, enum save_mode mode, bool commit, bool all)
{
    struct store *s = x->of[i];
    struct cut_options o = {.mode = mode};
    struct rows_block block = {.kind = ROWS_ROW};
    OK(store_finish(s, &ok_e));
    OK(cut_begin(s, &o, &ok_e));
    x->cuts[i] = true;
    while (block.kind != ROWS_END) {
        if (rng_below(&x->d, 8) == 0)
            push(x);
        else if (rng_below(&x->d, 4) == 0)
            pull(x);
        OK(cut_next(s, 1 + rng_below(&x->d, 4000), &block, &ok_e));
        if (block.kind != ROWS_END)
            take_block(x, i, &block, commit && mode != SAVE_CHECKPOINT, all);
    }
    for (uint64_t n = rng_below(&x->d, 3); n > 0; n--)
        push(x);
    end(x, i, commit, mode);
    if (rng_below(&x->d, 2) == 0)
        store_work(s, 0);
}

// Store i begins an operation in the partitions that it leads, and the other store does it in
// its copies.
static void operate(struct pair *x, uint32_t i)
{
    struct store *s = x->of[i], *other = x->of[1 - i];
    uint64_t kind = rng_below(&x->d, 8);
    enum store_admin o = kind == 0 ? STORE_CLEAR : STORE_SHRINK;
    OK(store_finish(s, &ok_e));
    store_set_step(s, store_step_of(s) + 1);
    if (kind < 4)
        OK(store_admin(s, o, 0.7f, &ok_e));
    else
        store_day(s);
    for (uint32_t p = 0; p < s->n_parts; p++) {
        if (leader(p) != i)
            continue;
        if (kind < 4)
            OK(store_backup_admin(other, p, o, 0.7f, store_step_of(s), &ok_e));
        else
            store_day_in(other, p);
    }
    // The other store learns of the steps later.
    store_set_step(other, store_step_of(s));
    push(x);
}

static void list_notes(struct store *s, uint32_t p, struct key_list *changed,
                       struct key_list *gone)
{
    struct handle_list live = {0};
    OK(store_live_rows(s, p, &live));
    for (uint32_t i = 0; i < live.n; i++)
        if (handle_bit(&s->changed, live.at[i]))
            OK(key_list_add(changed, store_key_at(s, live.at[i])));
    for (uint32_t i = 0; i < s->parts[p].gone.n; i++)
        OK(key_list_add(gone, s->parts[p].gone.at[i]));
    mem_free(live.at);
}

static void check_list(struct key_list *a, struct key_list *b)
{
    assert_int_equal(a->n, b->n);
    if (a->n > 0) {
        qsort(a->at, a->n, sizeof(*a->at), compare_u64);
        qsort(b->at, b->n, sizeof(*b->at), compare_u64);
        assert_memory_equal(a->at, b->at, a->n * sizeof(*a->at));
    }
    mem_free(a->at);
    mem_free(b->at);
    *a = *b = (struct key_list){0};
}

static void check_equal(struct pair *x)
{
    for (uint32_t i = 0; i < STORES; i++)
        OK(store_finish(x->of[i], &ok_e));
    struct image *a = image_of(x->of[0], SAVE_CHECKPOINT),
                 *b = image_of(x->of[1], SAVE_CHECKPOINT);
    image_check_equal(a, b);
    image_free(a);
    image_free(b);
    for (uint32_t p = 0; p < x->of[0]->n_parts && !x->cold; p++) {
        struct key_list changed[STORES] = {0}, gone[STORES] = {0};
        for (uint32_t i = 0; i < STORES; i++)
            list_notes(x->of[i], p, &changed[i], &gone[i]);
        check_list(&changed[0], &changed[1]);
        check_list(&gone[0], &gone[1]);
        const struct store_part *one = &x->of[0]->parts[p], *other = &x->of[1]->parts[p];
        assert_int_equal(one->gone_lost, other->gone_lost);
        assert_int_equal(one->published_by, other->published_by);
    }
}

static void copies_stay_equal(const char *const *words, bool cold)
{
    for (uint32_t k = 0; k < 3 * SETTINGS; k++) {
        struct pair x;
        pair_open_with(&x, words[k % SETTINGS], 1 + k % 3, k, cold);
        for (int i = 0; i < 30; i++)
            push(&x);
        bool deltas = store_config(x.of[0])->deltas;
        for (uint32_t i = 0; i < STORES; i++)
            save(&x, i, SAVE_BASE, true, false);
        for (uint32_t n = 0; n < 12; n++) {
            uint64_t kind = rng_below(&x.d, 4);
            enum save_mode mode = kind == 0              ? SAVE_CHECKPOINT
                                  : kind == 1 || !deltas ? SAVE_BASE
                                                         : SAVE_DELTA;
            save(&x, (uint32_t)rng_below(&x.d, STORES), mode, rng_below(&x.d, 3) > 0,
                 false);
            push(&x);
            operate(&x, (uint32_t)rng_below(&x.d, STORES));
            if (n % 3 == 0)
                check_equal(&x);
        }
        check_equal(&x);
        if (cold)
            assert_true(store_stats(x.of[0]).cold_rows > 0);
        pair_close(&x);
    }
}

static void test_copies_stay_equal(void **state)
{
    (void)state;
    copies_stay_equal(settings, false);
}

static void test_copies_on_disk_stay_equal(void **state)
{
    (void)state;
    copies_stay_equal(cold_settings, true);
}

// The leader of half of the partitions dies. A delta of the other store, which then leads all
// of them, completes the saves of both.
static void a_delta_after_a_death(const char *const *words, bool cold)
{
    for (uint32_t k = 0; k < 9; k++) {
        struct pair x;
        pair_open_with(&x, words[1 + k % 3], 1 + k % 3, 100 + k, cold);
        for (int i = 0; i < 30; i++)
            push(&x);
        chain_clear(x.chain);
        for (uint32_t i = 0; i < STORES; i++)
            save(&x, i, SAVE_BASE, true, false);
        for (uint32_t n = 0; n < k; n++)
            save(&x, n % STORES, SAVE_DELTA, rng_below(&x.d, 3) > 0, false);
        push(&x);
        OK(store_finish(x.of[1], &ok_e));
        for (uint32_t p = 0; p < x.of[1]->n_parts; p++)
            store_set_backup(x.of[1], p, false);
        save(&x, 1, SAVE_DELTA, true, true);
        OK(store_finish(x.of[1], &ok_e));
        image_free(cuts_all(x.of[1], SAVE_DELTA, true, x.chain));
        struct image *all = cuts_all(x.of[1], SAVE_CHECKPOINT, true, NULL),
                     *saved = chain_image(x.chain, x.of[1]);
        for (uint32_t p = 0; p < x.of[1]->n_parts; p++)
            buf_clear(&all->of[p][ROWS_PARTITION]);
        image_check_equal(saved, all);
        image_free(all);
        image_free(saved);
        pair_close(&x);
    }
}

static void test_a_delta_after_a_death(void **state)
{
    (void)state;
    a_delta_after_a_death(settings, false);
}

static void test_a_delta_from_disk_after_a_death(void **state)
{
    (void)state;
    a_delta_after_a_death(cold_settings, true);
}

// A cut has no room for copies, but the copies of partitions that another store leads
// change all the same. Days and counts leave these partitions out.
static void test_what_is_left_out(void **state)
{
    (void)state;
    struct pair x;
    struct cut_options o = {.mode = SAVE_CHECKPOINT, .side_bytes = 1};
    pair_open(&x, settings[3], 1, 7);
    for (int i = 0; i < 10; i++)
        push(&x);
    uint64_t rows = store_rows_of(x.of[0], 1);
    assert_true(rows > 0);
    assert_int_equal(store_stats(x.of[0]).backup_rows, rows);
    OK(cut_begin(x.of[0], &o, &ok_e));
    batch_draw(x.b, &x.d, 100);
    assert_false(cut_has_room(x.of[0], x.b->keys, x.b->n));
    size_t n = 0;
    for (size_t i = 0; i < x.b->n; i++)
        if (store_partition(x.of[0], x.b->keys[i]) == 1)
            x.b->keys[n++] = x.b->keys[i];
    x.b->n = n;
    assert_true(cut_has_room(x.of[0], x.b->keys, x.b->n));
    OK(batch_push(x.of[0], x.b, &x.d, &ok_e));
    OK(cut_end(x.of[0], false, &ok_e));
    store_day(x.of[0]);
    assert_int_equal(x.of[0]->parts[0].day, 1);
    assert_int_equal(x.of[0]->parts[1].day, 0);
    pair_close(&x);
}

// Damaged notes change nothing.
static void test_damaged(void **state)
{
    (void)state;
    struct pair x;
    struct err e = {0};
    pair_open(&x, settings[3], 1, 8);
    push(&x);
    save(&x, 0, SAVE_BASE, true, false);
    OK(store_finish(x.of[0], &ok_e));
    push(&x);
    OK(cut_begin(x.of[0], &(struct cut_options){.mode = SAVE_DELTA}, &ok_e));
    struct rows_block block = {.kind = ROWS_ROW};
    while (block.kind != ROWS_END)
        OK(cut_next(x.of[0], 1000, &block, &ok_e));
    push(&x);
    OK(cut_end(x.of[0], true, &ok_e));
    OK(cut_get_published(x.of[0], 0, &x.said));
    for (size_t n = 0; n < x.said.len; n += sizeof(uint64_t))
        assert_int_equal(cut_put_published(x.of[1], 0, x.said.data, n, &e), TUG_EDATA);
    assert_int_equal(cut_put_published(x.of[1], 1, x.said.data, x.said.len, &e),
                     TUG_EDATA);
    x.said.data[0] ^= 64;
    assert_int_equal(cut_put_published(x.of[1], 0, x.said.data, x.said.len, &e),
                     TUG_EDATA);
    x.said.data[0] ^= 64;
    put(x.of[1], 0, &x.said);
    check_equal(&x);
    pair_close(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies_stay_equal),
        cmocka_unit_test(test_a_delta_after_a_death),
        cmocka_unit_test(test_what_is_left_out),
        cmocka_unit_test(test_damaged),
    };
    const struct CMUnitTest cold_tests[] = {
        cmocka_unit_test(test_copies_on_disk_stay_equal),
        cmocka_unit_test(test_a_delta_from_disk_after_a_death),
    };
    int rc;
    if (cmocka_run_group_tests(tests, NULL, NULL) != 0)
        return 1;
    return tiers_begin(&rc) ? cmocka_run_group_tests(cold_tests, NULL, files_end) : rc;
}
