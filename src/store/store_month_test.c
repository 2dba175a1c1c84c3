// A month of a table: 30 days of passes over features that appear, are popular for some
// days, and are seen no more, with a shrink and a base each day and a delta after each
// pass. Memory stays limited, and a base with its deltas equals a checkpoint.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "base/alloc.h"
#include "kit/cuts.h"
#include "kit/test.h"

enum {
    DAYS = 30,
    PASSES = 4,
    BATCHES = 25,
    BATCH = 400,
    SPAN = 4000, // number of features that can occur on a day
    DRIFT = 400, // number of these features that are new on each day
    UNIVERSE = DAYS * DRIFT + SPAN,
    BITS = 4,
};

static const char settings[] =
    "accessor=ctr; dim=4; embedx-threshold=2; entry=count:2; decay=0.8; "
    "delete-threshold=0.5; delete-after-days=5; base-threshold=0; delta-threshold=0; "
    "delta-keep-days=1000; deltas=yes";

// Draws keys of a day. The last DRIFT of the day's SPAN keys are new; the first keys
// are the most popular.
static void draw(struct batch *b, struct rng *d, uint32_t day)
{
    batch_draw(b, d, BATCH);
    for (size_t i = 0; i < b->n; i++)
        b->keys[i] += day * DRIFT;
    batch_sort(b);
}

static uint64_t pass(struct store *s, struct batch *b, struct rng *d, uint32_t day,
                     uint8_t *seen)
{
    uint64_t first = 0;
    for (uint32_t i = 0; i < BATCHES; i++) {
        draw(b, d, day);
        OK(batch_push(s, b, d, &ok_e));
        store_set_step(s, store_step_of(s) + 1);
        for (size_t k = 0; k < b->n; k++) {
            first += seen[b->keys[k]] == 0;
            seen[b->keys[k]] = 1;
        }
    }
    return first;
}

// Returns the number of handles in use plus the lengths of the partitions' lists. The sum
// would grow from day to day if removed rows were not freed.
static uint64_t held(const struct store *s)
{
    uint64_t n = table_handles(s->rows) + slabs_end(&s->extras);
    for (uint32_t p = 0; p < s->n_parts; p++)
        n += s->parts[p].rows.n + s->parts[p].changed.n + s->parts[p].gone.n;
    return n;
}

static void check_chain(struct store *s, struct chain *chain)
{
    struct image *all = cuts_all(s, SAVE_CHECKPOINT, false, NULL);
    struct image *published = chain_image(chain, s);
    for (uint32_t p = 0; p < s->n_parts; p++)
        buf_clear(&all->of[p][ROWS_PARTITION]);
    image_check_equal(published, all);
    image_free(all);
    image_free(published);
}

static void test_month(void **state)
{
    (void)state;
    struct store *s = stores_open(settings, BITS);
    struct batch *b = batch_make(SPAN);
    struct chain *chain = chain_make(s, UNIVERSE);
    struct rng d = {.seed = 30};
    uint8_t *seen = mem_zalloc(UNIVERSE);
    uint64_t keys = 0, rows[DAYS], most[DAYS];
    assert_non_null(seen);
    for (uint32_t day = 0; day < DAYS; day++) {
        image_free(cuts_all(s, SAVE_BASE, true, chain));
        for (uint32_t k = 0; k < PASSES; k++) {
            keys += pass(s, b, &d, day, seen);
            image_free(cuts_all(s, SAVE_DELTA, true, chain));
        }
        OK(store_admin(s, STORE_SHRINK, NAN, &ok_e));
        OK(store_finish(s, &ok_e));
        image_free(cuts_all(s, SAVE_DELTA, true, chain));
        check_chain(s, chain);
        store_day(s);
        rows[day] = store_stats(s).rows;
        most[day] = held(s);
    }
    struct store_stats x = store_stats(s);
    assert_true(x.evicted_score > 0 && x.evicted_age > 0 && x.refused > 0);
    assert_int_equal(x.made, x.rows + x.evicted_score + x.evicted_age);
    assert_true(keys > 2 * rows[DAYS - 1]); // rows were removed
    assert_true(rows[DAYS - 1] > SPAN / 4); // not all rows were removed
    for (uint32_t day = DAYS / 2; day < DAYS; day++) {
        assert_true(rows[day] < rows[DAYS / 2 - 1] * 11 / 10);
        assert_true(most[day] < most[DAYS / 2 - 1] * 11 / 10);
    }
    mem_free(seen);
    chain_free(chain);
    batch_free(b);
    store_close(s);
}

// If no save is ever made, the records for deltas stay limited, and the
// next save must be a base.
static void test_nobody_saves(void **state)
{
    (void)state;
    struct store *s = stores_open(settings, 0);
    struct batch *b = batch_make(SPAN);
    struct rng d = {.seed = 31};
    struct err e;
    struct cut_options delta = {.mode = SAVE_DELTA};
    uint8_t *seen = mem_zalloc(UNIVERSE);
    uint32_t most = 0;
    assert_non_null(seen);
    for (uint32_t day = 0; day < DAYS; day++) {
        pass(s, b, &d, day, seen);
        for (uint32_t i = 0; i < UNIVERSE; i++) { // each day all rows are replaced
            uint64_t key = i;
            OK(store_remove(s, &key, 1, &ok_e));
        }
        most = s->parts[0].gone.cap > most ? s->parts[0].gone.cap : most;
        store_day(s);
    }
    assert_true(store_stats(s).made > 4 * most);
    assert_true(store_stats(s).made > 10 * s->parts[0].rows.n);
    assert_int_equal(cut_begin(s, &delta, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "save a base"));
    // A base that was given up does not count.
    image_free(cuts_all(s, SAVE_BASE, false, NULL));
    assert_int_equal(cut_begin(s, &delta, &e), TUG_EUSAGE);
    image_free(cuts_all(s, SAVE_BASE, true, NULL));
    image_free(cuts_all(s, SAVE_DELTA, true, NULL));
    mem_free(seen);
    batch_free(b);
    store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_month),
                                       cmocka_unit_test(test_nobody_saves)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
