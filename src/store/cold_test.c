// Compares a store that has a cold tier with a store that has none: after the same
// pushes, pulls, admin operations, days and saves, both have the same bits.
//
// SPDX-License-Identifier: Apache-2.0
#include "store/cold.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/random.h"
#include "kit/accessors.h"
#include "kit/cuts.h"
#include "kit/files.h"
#include "kit/test.h"
#include "kit/tiers.h"
#include "os/file.h"

enum { UNIVERSE = 1200, STEPS = 100 };

struct config {
    // `settings`: for both stores; `cold`: for the store with a tier only.
    const char *settings, *cold;
    uint32_t bits;
};

#define CTR                                                                              \
    "accessor=ctr; dim=3; rule=adagrad; embedx-rule=adagrad; embedx-init=0.1; "          \
    "delete-threshold=0.2; "
#define EARNED "embedx-threshold=2; "
static const struct config configs[] = {
    {CTR EARNED "deltas=no", "hot-rows=200", 3},
    {CTR "deltas=no; entry=count:2; ttl-steps=40", "hot-rows=100", 0},
    {CTR "deltas=no; embedx-threshold=0; entry=sketch:2", "cold-after-days=1", 2},
    {CTR "deltas=no; decay=1", "hot-rows=400; cold-after-days=0", 2},
    {"accessor=plain; dim=5; rule=adam; init=0.1", "hot-rows=64", 4},
    {"accessor=features; embed=2; dim=4; rule=adagrad; embedx-rule=adagrad-row:block=2; "
     "embedx-init=0.1",
     "hot-rows=80", 2},
    {"accessor=ctr_double; dim=0; deltas=no; delete-after-days=3", "hot-rows=1", 2},
    {"accessor=merge; dim=1; rule=sum", "hot-rows=300", 1},
    {CTR EARNED "deltas=yes", "hot-rows=200", 3},
    {CTR EARNED "deltas=yes; delta-threshold=2; base-threshold=2; delta-keep-days=2",
     "hot-rows=50", 1},
};
enum { N_CONFIGS = sizeof(configs) / sizeof(configs[0]) };

// Two stores, of which the second has a tier.
struct pair {
    struct store *s[2];
    struct chain *chains[2]; // for each store, the table that results from its base and
                             // deltas
    bool based;
    struct batch *b;
    const struct config *config;
};

static void open_pair(struct pair *x, const struct config *c)
{
    char settings[512];
    struct err e = {0};
    snprintf(settings, sizeof(settings), "%s; %s", c->settings, c->cold);
    x->config = c;
    x->s[0] = stores_open(c->settings, c->bits);
    if (tiers_open(&x->s[1], settings, c->bits, &e) != 0)
        fail_msg("%s", e.text);
    x->b = batch_make(UNIVERSE);
    x->based = false;
    for (int i = 0; i < 2; i++)
        x->chains[i] = chain_make(x->s[i], UNIVERSE);
}

static void close_pair(struct pair *x)
{
    store_close(x->s[0]);
    store_close(x->s[1]);
    chain_free(x->chains[0]);
    chain_free(x->chains[1]);
    batch_free(x->b);
}

static void check_same(struct pair *x)
{
    struct image *a = image_of(x->s[0], SAVE_CHECKPOINT);
    struct image *b = image_of(x->s[1], SAVE_CHECKPOINT);
    image_check_equal(a, b);
    image_free(a);
    image_free(b);
    struct store_stats p = store_stats(x->s[0]), q = store_stats(x->s[1]);
    assert_int_equal(p.rows, q.rows + q.cold_rows);
    assert_int_equal(p.made, q.made);
    assert_int_equal(p.refused, q.refused);
    assert_int_equal(p.evicted_score, q.evicted_score);
    assert_int_equal(p.evicted_age, q.evicted_age);
    assert_int_equal(p.evicted_ttl, q.evicted_ttl);
}

static void pull_both(struct pair *x, struct rng *d)
{
    uint32_t width = store_accessor(x->s[0])->pull_width;
    float *values = x->b->values, *others = values + BATCH_MAX * ROW_MAX;
    uint8_t found[2][BATCH_MAX];
    batch_draw(x->b, d, 1 + rng_below(d, 300));
    size_t n = x->b->n;
    OK(store_pull(x->s[0], x->b->keys, n, values, found[0], &ok_e));
    OK(store_pull(x->s[1], x->b->keys, n, others, found[1], &ok_e));
    assert_memory_equal(values, others, n * width * sizeof(float));
    assert_memory_equal(found[0], found[1], n);
}

static void order_both(struct pair *x, enum store_admin o, float threshold, bool finish)
{
    for (int i = 0; i < 2; i++) {
        OK(store_finish(x->s[i], &ok_e)); // finishes the previous operation, if there is
                                          // one
        OK(store_admin(x->s[i], o, threshold, &ok_e));
        if (finish)
            OK(store_finish(x->s[i], &ok_e));
    }
}

// Pushes the same random values for some keys to both stores, as `op` says.
static void assign_both(struct pair *x, struct rng *d, enum store_op op)
{
    uint32_t width = stores_value_width(x->s[0], op);
    batch_draw(x->b, d, 100);
    for (size_t i = 0; i < x->b->n * width; i++)
        x->b->values[i] = (float)rng_below(d, 3);
    struct store_push p = {.op = op,
                           .keys = x->b->keys,
                           .n = x->b->n,
                           .values = x->b->values,
                           .rate = 1,
                           .scale = 1};
    for (int i = 0; i < 2; i++)
        OK(store_push(x->s[i], &p, NULL, &ok_e));
}

static void put_both(struct pair *x, struct rng *d)
{
    const struct accessor *a = store_accessor(x->s[0]);
    batch_draw(x->b, d, 100);
    for (size_t i = 0; i < x->b->n * a->width; i++)
        x->b->values[i] = (float)rng_below(d, 3);
    for (int i = 0; i < 2; i++)
        OK(store_put_rows(x->s[i], x->b->keys, x->b->n, x->b->values, &ok_e));
    for (size_t i = 0; i < x->b->n * a->extra_width; i++)
        x->b->values[i] = (float)rng_below(d, 3);
    for (int i = 0; i < 2 && a->extra_width > 0; i++)
        OK(store_put_extras(x->s[i], x->b->keys, x->b->n, x->b->values, &ok_e));
}

// Loads a base or delta into the chain, as a reader of saves does.
static void add_to_chain(struct pair *x, int i, enum save_mode mode,
                         const struct image *image)
{
    static const enum rows_kind kinds[] = {ROWS_GONE, ROWS_ROW, ROWS_EXTRA};
    const struct accessor *a = store_accessor(x->s[i]);
    const uint32_t widths[] = {0, a->width, a->extra_width};
    if (mode == SAVE_BASE)
        chain_clear(x->chains[i]);
    for (uint32_t k = 0; k < 3; k++)
        for (uint32_t p = 0; p < x->s[i]->n_parts; p++) {
            const struct buf *of = &image->of[p][kinds[k]];
            uint32_t n = (uint32_t)(of->len / (8 + 4 * widths[k]));
            struct rows_block b = {kinds[k], p, n, widths[k], of->data};
            chain_add(x->chains[i], &b);
        }
}

static void check_chains(struct pair *x)
{
    struct image *a = chain_image(x->chains[0], x->s[0]);
    struct image *b = chain_image(x->chains[1], x->s[1]);
    image_check_equal(a, b);
    image_free(a);
    image_free(b);
}

// Removes the rows of a delta that equal the rows in the chain.
static void drop_unchanged(struct image *image, const struct chain *c, uint32_t n_parts)
{
    size_t row = c->width * sizeof(float), bytes = sizeof(uint64_t) + row;
    for (uint32_t p = 0; p < n_parts; p++) {
        struct buf *of = &image->of[p][ROWS_ROW];
        size_t n = 0;
        for (size_t at = 0; at < of->len; at += bytes) {
            uint64_t key;
            memcpy(&key, of->data + at, sizeof(key));
            if (c->has[key] &&
                memcmp(c->rows + key * c->width, of->data + at + sizeof(key), row) == 0)
                continue;
            memmove(of->data + n, of->data + at, bytes);
            n += bytes;
        }
        of->len = n;
    }
}

// Compares the saves of both stores. Their deltas may differ in two ways. The store with
// a tier need not name keys of rows that were not worth publishing before and still are
// not. And it may publish promoted rows again that have not changed, because a promoted
// row counts as changed if any row was demoted after a change; only rows with shows and
// clicks show that this is not needed.
static void check_saved(struct pair *x, enum save_mode mode, bool commit,
                        struct image *const *images)
{
    bool publishes = mode == SAVE_BASE || mode == SAVE_DELTA;
    bool all = !accessor_has_clicks(store_accessor(x->s[0]));
    for (int i = 0; i < 2 && mode == SAVE_DELTA && all; i++)
        drop_unchanged(images[i], x->chains[i], x->s[i]->n_parts);
    if (publishes && commit)
        for (int i = 0; i < 2; i++)
            add_to_chain(x, i, mode, images[i]);
    check_chains(x);
    for (uint32_t p = 0; p < x->s[0]->n_parts && mode == SAVE_DELTA; p++)
        for (int i = 0; i < 2; i++)
            images[i]->of[p][ROWS_GONE].len = 0;
    image_check_equal(images[0], images[1]);
    x->based = x->based || (mode == SAVE_BASE && commit);
}

// Returns whether more rows were removed than a delta can list.
static bool needs_base(const struct store *s)
{
    for (uint32_t p = 0; p < s->n_parts; p++)
        if (s->parts[p].gone_lost)
            return true;
    return !s->config.deltas;
}

static void push_both(struct pair *x, struct rng *d)
{
    struct rng again = *d;
    for (int i = 0; i < 2; i++) {
        *d = again;
        batch_draw(x->b, d, 1 + rng_below(d, 400));
        OK(batch_push(x->s[i], x->b, d, &ok_e));
    }
}

// Saves both stores. Pushes while rows are read out, and pulls before the saves are
// committed.
static void save_both(struct pair *x, struct rng *d)
{
    enum save_mode mode = (enum save_mode)rng_below(d, 4);
    bool commit = rng_below(d, 3) > 0;
    if (mode == SAVE_DELTA && (!x->based || needs_base(x->s[0]) || needs_base(x->s[1])))
        mode = SAVE_BASE;
    struct image *images[2];
    for (int i = 0; i < 2; i++) {
        OK(store_finish(x->s[i], &ok_e));
        images[i] = image_make();
        OK(cut_begin(x->s[i], &(struct cut_options){.mode = mode}, &ok_e));
    }
    for (uint64_t k = 0; k < 6; k++) {
        struct rng again = *d;
        for (int i = 0; i < 2; i++) {
            *d = again;
            batch_draw(x->b, d, 200);
            OK(batch_push(x->s[i], x->b, d, &ok_e));
            struct rows_block b;
            OK(cut_next(x->s[i], 1 << 12, &b, &ok_e));
            store_check(x->s[i]);
            if (b.kind != ROWS_END)
                image_add(images[i], &b);
        }
    }
    for (int i = 0; i < 2; i++)
        cuts_read_rest(x->s[i], 1 << 12, images[i], NULL);
    for (uint64_t k = 0; k < 4; k++) {
        push_both(x, d);
        pull_both(x, d);
    }
    for (int i = 0; i < 2; i++)
        OK(cut_end(x->s[i], commit, &ok_e));
    check_saved(x, mode, commit, images);
    image_free(images[0]);
    image_free(images[1]);
}

static void remove_both(struct pair *x, struct rng *d)
{
    batch_draw(x->b, d, 100);
    for (int i = 0; i < 2; i++)
        OK(store_remove(x->s[i], x->b->keys, x->b->n, &ok_e));
}

static void do_something(struct pair *x, struct rng *d)
{
    uint64_t what = rng_below(d, 40);
    bool finish = rng_below(d, 2) == 0;
    if (what < 12) {
        pull_both(x, d);
    } else if (what < 14) {
        remove_both(x, d);
    } else if (what < 16) {
        for (int i = 0; i < 2; i++)
            store_day(x->s[i]);
    } else if (what < 18) {
        order_both(x, STORE_SHRINK, rng_below(d, 3) == 0 ? 1 : NAN, finish);
    } else if (what < 19) {
        order_both(x, STORE_CLEAR, NAN, finish);
    } else if (what < 20) {
        put_both(x, d);
    } else if (what < 21) {
        assign_both(x, d, STORE_ASSIGN);
    } else if (what < 22) {
        assign_both(x, d, store_has_whole_rows(x->s[0]) ? STORE_DELTA : STORE_ASSIGN);
    } else if (what < 24) {
        save_both(x, d);
    } else if (what < 26) {
        store_work(x->s[1], 1000);
    } else {
        push_both(x, d);
        for (int i = 0; i < 2; i++)
            store_set_step(x->s[i], store_step_of(x->s[i]) + 1);
    }
}

// Runs a random sequence of operations on both stores. Returns the number of rows that
// were promoted from disk.
static uint64_t random_sequence(const struct config *c, uint64_t seed)
{
    struct pair x;
    struct rng d = {.seed = seed};
    open_pair(&x, c);
    for (uint64_t i = 0; i < STEPS; i++) {
        do_something(&x, &d);
        if (i % 4 == 3)
            check_same(&x);
    }
    uint64_t promoted = store_stats(x.s[1]).promoted;
    close_pair(&x);
    assert_false(file_exists(tiers_dir));
    return promoted;
}

static void test_same_rows(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < N_CONFIGS; i++)
        assert_true(random_sequence(&configs[i], 1 + i) > 50);
    char settings[ACCESSORS_SETTINGS];
    for (uint32_t i = 0; accessors_settings(i, settings); i++) {
        struct config c = {settings, "hot-rows=100", 2};
        assert_true(random_sequence(&c, 1 + N_CONFIGS + i) > 50);
    }
}

// A durable tier that is opened again has the rows of the last close, with the day and
// the state of the entry policy.
static void test_durable(void **state)
{
    (void)state;
    static const struct config c = {CTR EARNED "deltas=no; entry=count:3",
                                    "hot-rows=100; cold-durable=yes", 2};
    struct pair x;
    struct rng d = {.seed = 5};
    struct err e = {0};
    open_pair(&x, &c);
    for (uint64_t round = 0; round < 4; round++) {
        for (uint64_t i = 0; i < 30; i++)
            do_something(&x, &d);
        for (int i = 0; i < 2; i++)
            OK(store_finish(x.s[i], &ok_e));
        struct store_stats before = store_stats(x.s[0]);
        store_close(x.s[1]);
        if (tiers_open(&x.s[1],
                       CTR EARNED
                       "deltas=no; entry=count:3; hot-rows=100; cold-durable=yes",
                       2, &e) != 0)
            fail_msg("%s", e.text);
        assert_int_equal(store_stats(x.s[1]).rows, 0);
        assert_int_equal(store_stats(x.s[1]).cold_rows, before.rows);
        store_set_step(x.s[1], store_step_of(x.s[0]));
        struct image *a = image_of(x.s[0], SAVE_CHECKPOINT);
        struct image *b = image_of(x.s[1], SAVE_CHECKPOINT);
        image_check_equal(a, b);
        image_free(a);
        image_free(b);
    }
    close_pair(&x);
    // The tier of a table with other settings is refused.
    assert_int_equal(
        tiers_open(&x.s[1], "accessor=plain; dim=3; cold-durable=yes", 2, &e),
        TUG_EUSAGE);
    assert_non_null(strstr(e.text, tiers_dir));
    tiers_remove();
}

// Pushes to the store with a tier while allocations fail, and pushes the partitions again
// that were not applied. In the end the rows of both stores must be the same.
static void push_in_pieces(struct pair *x, long fault)
{
    uint32_t width = store_accessor(x->s[1])->push_width;
    struct store_push p = {
        .keys = x->b->keys, .n = x->b->n, .values = x->b->values, .rate = 1, .scale = 1};
    size_t at = 0;
    struct err e = {0};
    mem_fault_after(fault);
    int rc = store_push(x->s[1], &p, &at, &e);
    mem_fault_after(-1);
    if (rc == 0)
        return;
    assert_int_equal(rc, TUG_ENOMEM);
    p.keys += at;
    p.values += at * width;
    p.n -= at;
    OK(store_push(x->s[1], &p, NULL, &ok_e));
}

static void push_without_memory(const struct config *c)
{
    struct pair x;
    struct rng d = {.seed = 77};
    open_pair(&x, c);
    for (long fault = 0; fault < 40; fault++) {
        batch_draw(x.b, &d, 300);
        // The push to the first store also draws the values of x->b.
        OK(batch_push(x.s[0], x.b, &d, &ok_e));
        push_in_pieces(&x, fault % 20);
    }
    check_same(&x);
    close_pair(&x);
}

static void test_no_memory(void **state)
{
    (void)state;
    char settings[ACCESSORS_SETTINGS];
    for (uint32_t i = 0; i < N_CONFIGS; i++)
        // Entry policies are left out, because they also count failed pushes.
        if (strstr(configs[i].settings, "entry") == NULL)
            push_without_memory(&configs[i]);
    for (uint32_t i = 0; accessors_settings(i, settings); i++)
        push_without_memory(&(struct config){settings, "hot-rows=100", 2});
}

int main(void)
{
    int rc;
    if (!tiers_begin(&rc))
        return rc;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_rows),
        cmocka_unit_test(test_durable),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, files_end);
}
