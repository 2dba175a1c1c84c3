// Compares cuts with images of the store that are taken when they begin, under random
// traffic, and compares a base with its deltas with the store itself. Further tests: cuts
// that are given up, the limit of copies, and failing allocations.
//
// SPDX-License-Identifier: Apache-2.0
#include "store/cut.h"

#include <math.h>

#include "base/alloc.h"
#include "kit/accessors.h"
#include "kit/cuts.h"
#include "kit/test.h"

enum { UNIVERSE = 3000 };

#define CTR                                                                              \
    "accessor=ctr; dim=3; rule=adagrad; embedx-rule=adagrad; embedx-threshold=2; "       \
    "embedx-init=0.1; deltas=yes; "
#define ALL_PUBLISHED                                                                    \
    "base-threshold=0; delta-threshold=0; delta-keep-days=100000; "                      \
    "delete-threshold=0.2; "

struct config {
    const char *settings;
    uint32_t bits;
};
static const struct config configs[] = {
    {CTR "entry=none", 3},
    {CTR "entry=count:2; base-threshold=1; delta-threshold=0.5", 0},
    {CTR "entry=sketch:2; budget-rows=900; budget-floor=0.5", 3},
    {"accessor=plain; dim=5; rule=adam; deltas=yes", 4},
    {"accessor=features; embed=2; dim=4; rule=adagrad; embedx-rule=adagrad-row:block=2; "
     "embedx-init=0.1; deltas=yes",
     4},
    {"accessor=ctr_double; dim=0; deltas=yes; entry=bloom:2", 2},
    {"accessor=merge; dim=1; rule=sum", 2},
};
enum { N_CONFIGS = sizeof(configs) / sizeof(configs[0]) };

static void remove_some(struct store *s, struct batch *b, struct rng *d)
{
    batch_draw(b, d, 20);
    OK(store_remove(s, b->keys, b->n, &ok_e));
}

static void pull_some(struct store *s, struct batch *b, struct rng *d)
{
    batch_draw(b, d, 50);
    OK(store_pull(s, b->keys, b->n, b->values, NULL, &ok_e));
}

// Does a random operation that may happen between two calls of cut_next. A push is
// left out if the cut has no room for its copies.
static void do_something(struct store *s, struct batch *b, struct rng *d)
{
    switch (rng_below(d, 8)) {
    case 0:
        remove_some(s, b, d);
        break;
    case 1:
        pull_some(s, b, d);
        break;
    case 2:
        store_set_step(s, store_step_of(s) + 1);
        break;
    case 3:
        if (rng_below(d, 8) == 0)
            store_day(s);
        break;
    default:
        batch_draw(b, d, 1 + rng_below(d, 200));
        if (cut_has_room(s, b->keys, b->n))
            OK(batch_push(s, b, d, &ok_e));
        break;
    }
}

static void do_many(struct store *s, struct batch *b, struct rng *d, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        do_something(s, b, d);
}

// Begins a cut and reads it out, with random operations between its blocks.
static void cut_with_traffic(struct store *s, const struct cut_options *o, bool commit,
                             struct batch *b, struct rng *d, struct image *image,
                             struct chain *chain)
{
    struct rows_block block;
    uint32_t day = s->parts[0].day;
    OK(cut_begin(s, o, &ok_e));
    assert_true(cut_going(s));
    assert_int_equal(s->parts[0].day, day + (o->mode == SAVE_DAY && !o->keeps_day));
    if (chain != NULL && o->mode != SAVE_DELTA)
        chain_clear(chain);
    for (;;) {
        do_many(s, b, d, (uint32_t)rng_below(d, 4));
        OK(cut_next(s, 1 + rng_below(d, 4000), &block, &ok_e));
        if (block.kind == ROWS_END)
            break;
        if (image != NULL)
            image_add(image, &block);
        if (chain != NULL && block.kind != ROWS_PARTITION)
            chain_add(chain, &block);
    }
    OK(cut_end(s, commit, &ok_e));
    assert_false(cut_going(s));
    if (rng_below(d, 2) == 0)
        do_many(s, b, d, 5); // operations while STORE_PUBLISHED, which follows the cut,
                             // is under way
    OK(store_finish(s, &ok_e));
}

// Compares cuts of a store that changes meanwhile with images of the store from
// the begin of each cut.
static void check_cuts(const char *settings, uint32_t bits, uint64_t seed)
{
    static const enum save_mode modes[] = {SAVE_CHECKPOINT, SAVE_BASE, SAVE_DAY};
    struct store *s = stores_open(settings, bits);
    struct batch *b = batch_make(UNIVERSE);
    struct rng d = {.seed = seed};
    do_many(s, b, &d, 60);
    for (uint32_t k = 0; k < 12; k++) {
        struct cut_options o = {.mode = modes[k % 3], .keeps_day = k >= 9};
        struct image *cut = image_make(), *expect = image_of(s, o.mode);
        cut_with_traffic(s, &o, k % 2 == 0, b, &d, cut, NULL);
        image_check_equal(cut, expect);
        image_free(cut);
        image_free(expect);
        do_many(s, b, &d, 10);
    }
    batch_free(b);
    store_close(s);
}

static void test_cut_is_the_state_at_its_begin(void **state)
{
    (void)state;
    char settings[ACCESSORS_SETTINGS];
    for (uint32_t i = 0; i < N_CONFIGS * 2; i++)
        check_cuts(configs[i % N_CONFIGS].settings, configs[i % N_CONFIGS].bits, i);
    for (uint32_t i = 0; accessors_settings(i, settings); i++)
        check_cuts(settings, 2, N_CONFIGS * 2 + i);
}

// With thresholds that publish every row, the chain (base and deltas
// together) equals a checkpoint.
static void check_chain_is_all(struct store *s, struct chain *chain)
{
    struct image *all = cuts_all(s, SAVE_CHECKPOINT, true, NULL);
    struct image *published = chain_image(chain, s);
    for (uint32_t p = 0; p < s->n_parts; p++)
        buf_clear(&all->of[p][ROWS_PARTITION]);
    // The image of the chain has the keys in ascending order, as the image of a cut has
    // them.
    image_check_equal(published, all);
    image_free(all);
    image_free(published);
}

static void test_deltas_publish_all(void **state)
{
    static const char *settings[] = {
        CTR ALL_PUBLISHED "entry=count:2",
        CTR ALL_PUBLISHED "budget-rows=900; budget-floor=0.5",
        "accessor=plain; dim=5; rule=adam; deltas=yes",
    };
    (void)state;
    for (uint32_t i = 0; i < 6; i++) {
        struct store *s = stores_open(settings[i % 3], i);
        struct batch *b = batch_make(UNIVERSE);
        struct chain *chain = chain_make(s, UNIVERSE);
        struct rng d = {.seed = 100 + i};
        do_many(s, b, &d, 40);
        cut_with_traffic(s, &(struct cut_options){.mode = SAVE_BASE}, true, b, &d, NULL,
                         chain);
        for (uint32_t k = 0; k < 12; k++) {
            bool commit = rng_below(&d, 3) != 0;
            struct cut_options o = {.mode = SAVE_DELTA};
            cut_with_traffic(s, &o, commit, b, &d, NULL, commit ? chain : NULL);
            if (k % 4 == 3) { // makes a second delta, although nothing has changed since
                              // the first
                image_free(cuts_all(s, SAVE_DELTA, true, chain));
                check_chain_is_all(s, chain);
            }
        }
        chain_free(chain);
        batch_free(b);
        store_close(s);
    }
}

static bool is_noted(const struct store *s, uint64_t key)
{
    uint32_t handle;
    table_find(s->rows, &key, 1, &handle);
    return handle_bit(&s->changed, handle);
}

// With usual thresholds, the base and its deltas together have the same keys as a
// new base. The rows are also equal, except rows whose score has changed too little
// since they were written.
static void check_chain_is_base(struct store *s, struct chain *chain)
{
    struct chain *base = chain_make(s, chain->universe);
    uint64_t kept = 0;
    image_free(cuts_all(s, SAVE_BASE, false, base));
    assert_memory_equal(chain->has, base->has, chain->universe);
    for (uint64_t key = 0; key < chain->universe; key++) {
        size_t at = key * chain->width;
        if (!base->has[key])
            continue;
        struct life_time t = store_time(s, store_partition(s, key));
        const float *row = store_row(s, key, NULL);
        assert_false(s->life->saved(&s->accessor, row, SAVE_DELTA, t));
        kept += is_noted(s, key);
        if (!is_noted(s, key))
            assert_memory_equal(chain->rows + at, base->rows + at, chain->width * 4);
    }
    assert_true(kept > 0);
    chain_free(base);
}

static void test_deltas_by_threshold(void **state)
{
    (void)state;
    struct store *s = stores_open(
        CTR "delta-keep-days=100000; base-threshold=1.5; delta-threshold=0.75", 3);
    struct batch *b = batch_make(UNIVERSE);
    struct chain *chain = chain_make(s, UNIVERSE);
    struct rng d = {.seed = 7};
    uint64_t bytes = 0;
    do_many(s, b, &d, 100);
    image_free(cuts_all(s, SAVE_BASE, true, chain));
    for (uint32_t k = 0; k < 20; k++) {
        struct image *delta = image_make();
        do_many(s, b, &d, 5);
        cut_with_traffic(s, &(struct cut_options){.mode = SAVE_DELTA}, true, b, &d, delta,
                         chain);
        bytes += image_bytes(delta);
        image_free(delta);
        image_free(cuts_all(s, SAVE_DELTA, true, chain));
        check_chain_is_base(s, chain);
    }
    assert_true(bytes > 0);
    chain_free(chain);
    batch_free(b);
    store_close(s);
}

// If a delta, base or checkpoint is given up, the next delta has the same contents as if
// the save given up had not been begun.
static void test_abort(void **state)
{
    (void)state;
    struct store *s = stores_open(CTR "entry=count:2", 3),
                 *same = stores_open(CTR "entry=count:2", 3);
    struct batch *b = batch_make(UNIVERSE);
    struct store *stores[] = {s, same};
    struct image *deltas[2];
    for (uint32_t i = 0; i < 2; i++) {
        struct rng d = {.seed = 5};
        do_many(stores[i], b, &d, 60);
        image_free(cuts_all(stores[i], SAVE_BASE, true, NULL));
        do_many(stores[i], b, &d, 10);
        for (uint32_t mode = SAVE_CHECKPOINT; i == 0 && mode <= SAVE_DELTA; mode++)
            image_free(cuts_all(s, mode, false, NULL));
        do_many(stores[i], b, &d, 10);
        if (i == 0) { // gives the cut up before its first block was read out
            OK(cut_begin(s, &(struct cut_options){.mode = SAVE_DELTA}, &ok_e));
            OK(cut_end(s, false, &ok_e));
        }
        deltas[i] = cuts_all(stores[i], SAVE_DELTA, true, NULL);
    }
    assert_true(image_bytes(deltas[0]) > 0);
    image_check_equal(deltas[0], deltas[1]);
    for (uint32_t i = 0; i < 2; i++) {
        image_free(deltas[i]);
        store_close(stores[i]);
    }
    batch_free(b);
}

// If there is little room for copies, pushes wait until partitions are read out. No row
// is lost. The copies stay within their limit, which also covers the states of entry
// policies and the copies of evicted rows.
static void check_cap(const char *settings, uint64_t cap)
{
    struct store *s = stores_open(settings, 4);
    struct batch *b = batch_make(UNIVERSE);
    struct rng d = {.seed = 11};
    struct rows_block block = {.kind = ROWS_ROW};
    struct err e;
    uint32_t waits = 0, refused = 0, pushes = 0, quiet = 0;
    bool read = false;
    do_many(s, b, &d, 100);
    struct image *expect = image_of(s, SAVE_CHECKPOINT), *cut = image_make();
    OK(cut_begin(s, &(struct cut_options){.side_bytes = cap}, &ok_e));
    while (block.kind != ROWS_END) {
        batch_draw(b, &d, 30);
        bool room = cut_has_room(s, b->keys, b->n), crowded = cut_crowded(s);
        // No copy has been freed before the first partition is read out.
        assert_true(read || crowded == (cut_stats(s).side_peak > cap / 2));
        quiet += !crowded;
        // A push without enough room is applied in some partitions only, or in none.
        int rc = batch_push(s, b, &d, &e);
        assert_true(rc == 0 || (!room && rc == TUG_EUSAGE));
        pushes += room;
        waits += !room;
        refused += rc != 0;
        if (room && rng_below(&d, 10) > 0)
            continue;
        OK(cut_next(s, 500, &block, &ok_e));
        read = true;
        if (block.n > 0)
            image_add(cut, &block);
    }
    assert_false(cut_crowded(s));
    assert_true(cut_stats(s).side_peak <= cap && cut_stats(s).side_peak > cap / 2);
    assert_true(waits > 10 && pushes > 50 && refused > 5 && quiet > 10);
    image_check_equal(cut, expect);
    OK(cut_end(s, true, &ok_e));
    image_free(cut);
    image_free(expect);
    batch_free(b);
    store_close(s);
}

static void test_cap(void **state)
{
    (void)state;
    check_cap(CTR, 6000);
    check_cap(CTR "entry=count:2; budget-rows=600; budget-floor=0.5", 20000);
}

// The size of a delta depends on the number of rows that have changed.
static void test_delta_is_small(void **state)
{
    (void)state;
    enum { ROWS = 20000 };
    struct store *s = stores_open(CTR ALL_PUBLISHED, 5);
    struct batch *b = batch_make(ROWS);
    struct rng d = {.seed = 3};
    while (store_stats(s).rows < ROWS * 9 / 10) {
        batch_draw(b, &d, BATCH_MAX);
        OK(batch_push(s, b, &d, &ok_e));
    }
    struct image *full = cuts_all(s, SAVE_BASE, true, NULL);
    batch_draw(b, &d, ROWS / 100);
    OK(batch_push(s, b, &d, &ok_e));
    struct image *delta = cuts_all(s, SAVE_DELTA, true, NULL);
    assert_true(image_bytes(delta) > 0);
    assert_true(image_bytes(delta) * 100 < image_bytes(full) * 3);
    image_free(full);
    image_free(delta);
    batch_free(b);
    store_close(s);
}

static void test_usage(void **state)
{
    (void)state;
    struct store *s = stores_open("accessor=plain; dim=1", 1);
    struct rows_block block;
    struct err e;
    assert_int_equal(cut_begin(s, &(struct cut_options){.mode = SAVE_DELTA}, &e),
                     TUG_EUSAGE);
    assert_int_equal(cut_next(s, 100, &block, &e), TUG_EUSAGE);
    assert_int_equal(cut_end(s, false, &e), TUG_EUSAGE);
    assert_true(cut_has_room(s, NULL, 0));
    OK(cut_begin(s, &(struct cut_options){.mode = SAVE_BASE}, &ok_e));
    assert_int_equal(cut_begin(s, &(struct cut_options){.mode = SAVE_BASE}, &e),
                     TUG_EUSAGE);
    assert_int_equal(store_admin(s, STORE_SHRINK, NAN, &e), TUG_EUSAGE);
    // Fails, because the cut is not read out yet.
    assert_int_equal(cut_end(s, true, &e), TUG_EUSAGE);
    assert_true(cut_going(s));
    store_close(s); // closes the store while a cut is under way
}

// Every allocation of a cut, and of operations during the cut, fails once. Failed
// operations are repeated, and the next cut is right.

static int try_cut(struct store *s, enum save_mode mode, struct batch *b, struct rng *d,
                   bool *ret_committed)
{
    *ret_committed = false;
    struct cut_options o = {.mode = mode};
    struct rows_block block = {.kind = ROWS_ROW};
    TRY(cut_begin(s, &o, NULL));
    while (block.kind != ROWS_END) {
        batch_draw(b, d, 40);
        if (rng_below(d, 4) == 0)
            TRY(store_remove(s, b->keys, b->n, NULL));
        else if (cut_has_room(s, b->keys, b->n))
            TRY(batch_push(s, b, d, NULL));
        TRY(cut_next(s, 2000, &block, NULL));
    }
    TRY(cut_end(s, true, NULL));
    *ret_committed = true;
    return store_finish(s, NULL);
}

static void check_usable(struct store *s, struct batch *b, struct rng *d)
{
    static const enum save_mode modes[] = {SAVE_CHECKPOINT, SAVE_BASE};
    for (uint32_t i = 0; i < 2; i++) {
        struct image *cut = image_make(), *expect = image_of(s, modes[i]);
        cut_with_traffic(s, &(struct cut_options){.mode = modes[i]}, false, b, d, cut,
                         NULL);
        image_check_equal(cut, expect);
        image_free(cut);
        image_free(expect);
    }
}

static void test_no_memory(void **state)
{
    static const enum save_mode modes[] = {SAVE_CHECKPOINT, SAVE_BASE, SAVE_DELTA};
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t failures = 0;
        for (long n = 0, faulted = 1; faulted; n++) {
            struct store *s = stores_open(CTR "entry=count:2", 2);
            struct batch *b = batch_make(500);
            struct rng d = {.seed = 21};
            do_many(s, b, &d, 20);
            bool committed;
            mem_fault_after(n);
            int rc = try_cut(s, modes[i], b, &d, &committed);
            faulted = mem_faulted();
            mem_fault_after(-1);
            assert_true(rc == 0 || rc == TUG_ENOMEM);
            failures += rc != 0;
            if (cut_going(s)) {
                cuts_read_rest(s, 1000, NULL, NULL);
                OK(cut_end(s, n % 2 == 0, &ok_e));
            }
            OK(store_finish(s, &ok_e));
            check_usable(s, b, &d);
            batch_free(b);
            store_close(s);
        }
        assert_true(failures > 10);
    }
}

// A delta that fails at any point loses nothing: the next delta has all changes.
static void test_no_memory_loses_nothing(void **state)
{
    (void)state;
    for (long n = 0, faulted = 1; faulted; n++) {
        struct store *s = stores_open(CTR ALL_PUBLISHED, 2);
        struct batch *b = batch_make(500);
        struct chain *chain = chain_make(s, 500);
        struct rng d = {.seed = 22};
        do_many(s, b, &d, 20);
        image_free(cuts_all(s, SAVE_BASE, true, chain));
        do_many(s, b, &d, 3);
        bool committed;
        mem_fault_after(n);
        int rc = try_cut(s, SAVE_DELTA, b, &d, &committed);
        faulted = mem_faulted();
        mem_fault_after(-1);
        if (cut_going(s))
            OK(cut_end(s, false, &ok_e));
        if (!committed) {
            assert_int_equal(rc, TUG_ENOMEM);
            OK(store_finish(s, &ok_e));
            image_free(cuts_all(s, SAVE_DELTA, true, chain));
            check_chain_is_all(s, chain);
        }
        chain_free(chain);
        batch_free(b);
        store_close(s);
    }
}

// After a shrink, or after a row was unseen for long, a delta lists the row's key as
// removed. Once the row is worth publishing again, the next delta contains it, however
// little it has changed.
static void test_removed_rows_come_back(void **state)
{
    (void)state;
    enum { KEY = 7, SHOWS = 15 }; // SHOWS shows give a score of 1.5
    for (uint32_t unseen = 0; unseen < 20; unseen += 19) {
        struct store *s = stores_open("accessor=ctr; dim=2; base-threshold=1.5; "
                                      "delta-threshold=0.25; decay=0.99",
                                      0);
        struct chain *chain = chain_make(s, KEY + 1);
        const uint64_t key = KEY;
        float values[6] = {0, 0, 0, SHOWS};
        struct store_push p = {
            .keys = &key, .n = 1, .values = values, .rate = 1, .scale = 1};
        OK(store_push(s, &p, NULL, &ok_e));
        image_free(cuts_all(s, SAVE_BASE, true, chain));
        assert_true(chain->has[KEY]);
        for (uint32_t day = 0; day < unseen; day++)
            store_day(s);
        OK(store_admin(s, STORE_SHRINK, NAN, &ok_e));
        OK(store_finish(s, &ok_e));
        image_free(cuts_all(s, SAVE_DELTA, true, chain));
        assert_false(chain->has[KEY]);
        values[3] = 2;
        OK(store_push(s, &p, NULL, &ok_e));
        image_free(cuts_all(s, SAVE_DELTA, true, chain));
        assert_true(chain->has[KEY]);
        chain_free(chain);
        store_close(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_removed_rows_come_back),
        cmocka_unit_test(test_cut_is_the_state_at_its_begin),
        cmocka_unit_test(test_deltas_publish_all),
        cmocka_unit_test(test_deltas_by_threshold),
        cmocka_unit_test(test_abort),
        cmocka_unit_test(test_cap),
        cmocka_unit_test(test_delta_is_small),
        cmocka_unit_test(test_usage),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_no_memory_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
