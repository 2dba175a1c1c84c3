// Compares stores with a naive one (kit/naive_store.h), over random sequences of all
// operations. Further tests: limits and bad input.
//
// SPDX-License-Identifier: Apache-2.0
#include "store/store.h"

#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "kit/naive_store.h"
#include "kit/test.h"
#include "rule/rule.h"

// Checks the pulled values of a key without a row against those of the naive store.
static void check_first(const struct naive *m, uint32_t i, const float *got)
{
    struct naive *copy = mem_alloc(sizeof(*copy));
    *copy = *m;
    naive_make(copy, i);
    const struct naive_row *x = &copy->rows[i];
    got += m->a->pulled_stats;
    for (uint32_t k = 0; k < naive_embed_width(m); k++)
        naive_assert_near(m->keys[i], "first embed", (double)*got++, x->embed.w[k]);
    for (uint32_t k = 0; m->life && k < m->dim; k++)
        naive_assert_near(m->keys[i], "first embedx", (double)*got++,
                          x->extra ? x->embedx.w[k] : 0);
    mem_free(copy);
}

static void check_pulled(const struct naive *m, uint32_t i, const float *got)
{
    const struct naive_row *x = &m->rows[i];
    if (m->a->pulled_stats == 2) {
        assert_true(got[0] == (m->wide ? (float)x->wide_show : x->show));
        assert_true(got[1] == (m->wide ? (float)x->wide_click : x->click));
    }
    got += m->a->pulled_stats;
    for (uint32_t k = 0; k < naive_embed_width(m); k++)
        naive_assert_near(m->keys[i], "pulled embed", (double)*got++, x->embed.w[k]);
    for (uint32_t k = 0; m->life && k < m->dim; k++)
        naive_assert_near(m->keys[i], "pulled embedx", (double)*got++,
                          x->extra ? x->embedx.w[k] : 0);
}

static void pull(struct rng *d, struct store *s, const struct naive *m,
                 struct naive_batch *b)
{
    uint8_t found[KEYS];
    naive_draw_keys(d, s, b, 60);
    OK(store_pull(s, b->keys, b->n, b->values, found, &ok_e));
    for (size_t i = 0; i < b->n; i++) {
        const float *got = b->values + i * m->a->pull_width;
        assert_int_equal(found[i], m->rows[b->which[i]].there);
        if (found[i])
            check_pulled(m, b->which[i], got);
        else
            check_first(m, b->which[i], got);
    }
}

// The following functions compare the whole store with the naive store. No
// operation may be in progress.

static bool is_gone(const struct store *s, uint64_t key)
{
    const struct store_part *part = &s->parts[store_partition(s, key)];
    const struct key_list *l = &part->gone;
    if (part->gone_lost)
        return true;
    for (uint32_t i = 0; i < l->n; i++)
        if (l->at[i] == key)
            return true;
    return false;
}

static bool is_changed(const struct store *s, uint64_t key)
{
    const struct handle_list *l = &s->parts[store_partition(s, key)].changed;
    for (uint32_t i = 0; i < l->n; i++)
        if (store_is_live(s, store_partition(s, key), l->at[i]) &&
            store_key_at(s, l->at[i]) == key)
            return handle_bit(&s->changed, l->at[i]);
    return false;
}

struct walk {
    const struct naive *m;
    uint64_t last;
    uint32_t partition, n;
};

static int walk_row(void *ctx, uint64_t key, const float *row, const float *extra,
                    struct err *e)
{
    struct walk *w = ctx;
    const struct naive *m = w->m;
    (void)row, (void)e;
    assert_true(w->n == 0 || key > w->last);
    assert_int_equal(naive_partition(m, key), w->partition);
    w->last = key;
    for (uint32_t i = 0; i < KEYS; i++)
        if (m->keys[i] == key) {
            assert_true(m->rows[i].there);
            assert_int_equal(m->rows[i].extra, extra != NULL);
            w->n++;
        }
    return 0;
}

static void check_all(struct store *s, const struct naive *m)
{
    uint64_t rows = 0, extras = 0, changed = 0, walked = 0;
    OK(store_finish(s, &ok_e));
    for (uint32_t i = 0; i < KEYS; i++) {
        const struct naive_row *x = &m->rows[i];
        naive_check_row(m, s, i);
        rows += x->there;
        extras += x->there && x->extra;
        changed += x->there && x->changed && m->config->deltas;
        assert_int_equal(is_changed(s, m->keys[i]),
                         x->there && x->changed && m->config->deltas);
        if (m->config->deltas && m->gone[i])
            assert_true(is_gone(s, m->keys[i]));
    }
    for (uint32_t p = 0; p < 1u << m->bits; p++) {
        struct walk w = {.m = m, .partition = p};
        OK(store_each(s, p, walk_row, &w, &ok_e));
        walked += w.n;
    }
    struct store_stats x = store_stats(s);
    assert_int_equal(x.rows, rows);
    assert_int_equal(walked, rows);
    assert_int_equal(x.extra_rows, extras);
    assert_int_equal(x.changed, changed);
    assert_int_equal(x.made, m->made);
    assert_int_equal(x.refused, m->refused);
    assert_int_equal(x.evicted_score, m->by_score);
    assert_int_equal(x.evicted_age, m->by_age);
    assert_int_equal(x.evicted_ttl, m->by_ttl);
    assert_int_equal(x.evicted_budget, m->by_budget);
    assert_int_equal(x.day, m->day);
    assert_int_equal(x.step, m->step);
}

// Begins an admin operation, unless another is under way.
static void order(struct rng *d, struct store *s, struct naive *m)
{
    struct err e;
    bool clear = rng_below_u32(d, 6) == 0;
    float threshold = rng_below_u32(d, 3) == 0 ? 0.8f : NAN;
    bool busy = s->admin_at < s->n_parts;
    int rc = store_admin(s, clear ? STORE_CLEAR : STORE_SHRINK, threshold, &e);
    assert_int_equal(rc, busy ? TUG_EUSAGE : 0);
    if (rc != 0)
        assert_non_null(strstr(e.text, "another admin operation"));
    else if (clear)
        naive_clear(m);
    else
        naive_shrink(m, threshold);
}

static void remove_some(struct rng *d, struct store *s, struct naive *m,
                        struct naive_batch *b)
{
    naive_draw_keys(d, s, b, 10);
    OK(store_remove(s, b->keys, b->n, &ok_e));
    for (size_t i = 0; i < b->n; i++)
        if (m->rows[b->which[i]].there)
            naive_remove(m, b->which[i]);
}

// Makes the current rows count as unchanged.
static void forget_changes(struct store *s, struct naive *m)
{
    OK(store_finish(s, &ok_e));
    store_loaded(s);
    for (uint32_t i = 0; i < KEYS; i++)
        m->rows[i].changed = m->gone[i] = false;
}

static void do_something(struct rng *d, struct store *s, struct naive *m,
                         struct naive_batch *b)
{
    struct store_push p;
    size_t done;
    switch (rng_below_u32(d, 16)) {
    case 0:
        order(d, s, m);
        break;
    case 1:
        remove_some(d, s, m, b);
        break;
    case 2:
        store_day(s);
        m->day++;
        break;
    case 3:
    case 4:
        pull(d, s, m, b);
        break;
    case 5:
    case 6:
        store_work(s, 0);
        break;
    default:
        p = naive_draw_push(d, s, b);
        OK(store_push(s, &p, &done, &ok_e));
        naive_push(m, &p, b->which);
        store_set_step(s, ++m->step);
        break;
    }
}

static void test_against_naive(void **state)
{
    (void)state;
    struct naive_batch *b = mem_alloc(sizeof(*b));
    struct naive *m = mem_alloc(sizeof(*m));
    for (uint32_t i = 0; i < NAIVE_SETTINGS; i++) {
        struct table_config c = naive_config(&naive_settings[i]);
        struct store *s = stores_open_with(&c, naive_settings[i].bits, 0);
        struct rng d = {.seed = i};
        naive_open(m, s, naive_settings[i].bits);
        for (uint32_t k = 0; k < (SANITIZED ? 300 : 1500); k++) {
            do_something(&d, s, m, b);
            if (rng_below_u32(&d, 12) == 0)
                check_all(s, m);
            if (rng_below_u32(&d, 60) == 0)
                forget_changes(s, m);
        }
        check_all(s, m);
        naive_close(m);
        store_close(s);
    }
    mem_free(m);
    mem_free(b);
}

static void test_opening(void **state)
{
    (void)state;
    struct table_config c = naive_config(&naive_settings[0]);
    struct store_options o = {.config = &c, .partition_bits = 17};
    struct store *s;
    struct err e;
    size_t before = mem_live();
    assert_int_equal(store_open(&s, &o, &e), TUG_EUSAGE);
    o.partition_bits = 4;
    for (long n = 0;; n++) {
        mem_fault_after(n);
        int rc = store_open(&s, &o, &e);
        bool faulted = mem_faulted();
        mem_fault_after(-1);
        if (!faulted)
            break;
        // Opening may succeed even though an allocation has failed, because an index
        // can do with less memory.
        assert_true(rc == TUG_ENOMEM || rc == 0);
        store_close(s);
        assert_int_equal(mem_live(), before);
    }
    store_close(s);
    store_close(NULL);
    assert_int_equal(mem_live(), before);
    snprintf(c.accessor.name, sizeof(c.accessor.name), "nothing");
    assert_int_equal(store_open(&s, &o, &e), TUG_EUSAGE);
}

// The accessor counter: rows have counts instead of weights, and counts beyond 2^24 are
// exact.
static void test_counters(void **state)
{
    (void)state;
    struct table_config c = table_config_defaults();
    OK(table_config_parse(&c, "accessor=counter; dim=2", &ok_e));
    struct store *s = stores_open_with(&c, 4, 0);
    const uint64_t key = 7;
    const float amounts[] = {0x1p24f, 1};
    float got[4];
    struct store_push p = {.keys = &key, .n = 1, .values = amounts, .scale = 1};
    for (uint32_t i = 0; i < 3; i++)
        OK(store_push(s, &p, NULL, &ok_e));
    p.values = (const float[]){1, -4};
    OK(store_push(s, &p, NULL, &ok_e));
    OK(store_pull(s, &key, 1, got, NULL, &ok_e));
    assert_true(got[0] == 3 && got[1] == 1);
    assert_true(got[2] * 0x1p24f + got[3] == -1);
    // A shrink does not change these rows, because they have no lifecycle.
    OK(store_admin(s, STORE_SHRINK, NAN, &ok_e));
    OK(store_finish(s, &ok_e));
    assert_int_equal(store_stats(s).rows, 1);
    store_close(s);
}

// Pushed values of keys from sums-from on are multiplied by the scale and added, whatever
// the rule of other keys; states do not change.
static void test_sums_from(void **state)
{
    (void)state;
    enum { N = 4, DIM = 2, WIDTH = 2 * DIM };
    static const uint64_t keys[N] = {0, 1, 2, 3};
    struct table_config c = table_config_defaults();
    OK(table_config_parse(&c, "placement=dense; dim=2; rule=adagrad:lr=0.5; sums-from=2",
                          &ok_e));
    struct store *s = stores_open_with(&c, 0, 0);
    float values[N * DIM], got[N * DIM], rows[N * WIDTH];
    for (size_t i = 0; i < N * DIM; i++)
        values[i] = (float)i + 1;
    struct store_push p = {
        .keys = keys, .n = N, .values = values, .scale = 0.25f, .rate = 1};
    OK(store_push(s, &p, NULL, &ok_e));
    OK(store_push(s, &p, NULL, &ok_e));
    OK(store_pull(s, keys, N, got, NULL, &ok_e));
    OK(store_pull_rows(s, keys, N, rows, NULL, &ok_e));
    for (size_t i = 0; i < N * DIM; i++) {
        float state_then = rows[i / DIM * WIDTH + DIM + i % DIM];
        if (keys[i / DIM] < 2)
            assert_true(got[i] < 0 && state_then > 1);
        else
            assert_true(got[i] == values[i] / 2 && state_then == 1);
    }
    store_close(s);
}

// store_mean moves weights of rows without a lifecycle towards the rows of `from`, and
// copies their counts and states.
static void test_mean(void **state)
{
    (void)state;
    enum { WIDTH = 7, N = 3 }; // a row: [w | state][count][v: 2 | state]
    struct table_config c = table_config_defaults();
    OK(table_config_parse(
        &c, "accessor=features; dim=2; rule=adagrad; embedx-rule=adagrad", &ok_e));
    struct store_options o = {.config = &c, .id = 3, .partition_bits = 2};
    struct store *from, *to;
    OK(store_open(&from, &o, &ok_e));
    OK(store_open(&to, &o, &ok_e));
    uint64_t keys[N] = {1, 2, 3};
    float rows[N * WIDTH], got[N * WIDTH];
    uint8_t found[N];
    for (size_t i = 0; i + 1 < N; i++) // the keys are sorted by partition
        for (size_t k = i + 1; k < N; k++)
            if (store_partition(from, keys[k]) < store_partition(from, keys[i])) {
                uint64_t key = keys[i];
                keys[i] = keys[k];
                keys[k] = key;
            }
    for (uint32_t i = 0; i < N * WIDTH; i++)
        rows[i] = (float)i;
    struct store_push p = {.op = STORE_ROW, .keys = keys, .n = N - 1, .values = rows};
    OK(store_push(from, &p, NULL, &ok_e));
    OK(store_mean(to, from, 0.25f, &ok_e)); // `to` has no rows yet
    p.n = N;
    for (uint32_t i = 0; i < N * WIDTH; i++)
        rows[i] = (float)(i + 8);
    OK(store_push(from, &p, NULL, &ok_e));
    OK(store_mean(to, from, 0.25f, &ok_e));
    OK(store_pull_rows(to, keys, N, got, found, &ok_e));
    for (uint32_t i = 0; i < N * WIDTH; i++) {
        uint32_t k = i % WIDTH;
        bool weight = k == 0 || k == 3 || k == 4;
        assert_true(found[i / WIDTH] == 1);
        assert_true(got[i] ==
                    (weight && i < (N - 1) * WIDTH ? (float)(i + 2) : (float)(i + 8)));
    }
    store_close(from);
    store_close(to);
}

static void test_whole_rows(void **state)
{
    (void)state;
    enum { WIDTH = 7, N = 3 }; // a row: [w | state][count][v: 2 | state]
    struct table_config c = table_config_defaults();
    OK(table_config_parse(&c,
                          "accessor=features; dim=2; rule=adagrad; embedx-rule=adagrad; "
                          "embedx-init=0.5; seed=5",
                          &ok_e));
    struct store_options o = {.config = &c, .id = 3, .partition_bits = 0};
    struct store *s;
    OK(store_open(&s, &o, &ok_e));
    assert_int_equal(store_accessor(s)->width, WIDTH);
    assert_true(store_has_whole_rows(s));
    const uint64_t keys[N] = {4, 9, 2};
    float whole[N * WIDTH], got[N * WIDTH], first[N * WIDTH];
    uint8_t found[N];
    OK(store_pull_rows(s, keys, N, first, found, &ok_e));
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(found[i], 0);
        assert_true(first[i * WIDTH] == 0 && first[i * WIDTH + 3] != 0);
    }
    for (uint32_t i = 0; i < N * WIDTH; i++)
        whole[i] = (float)i;
    struct store_push p = {.op = STORE_ROW, .keys = keys, .n = 2, .values = whole};
    assert_int_equal(stores_value_width(s, STORE_ROW), WIDTH);
    OK(store_push(s, &p, NULL, &ok_e));
    // In a push of STORE_DELTA, the third key has no row, which the push makes.
    p.op = STORE_DELTA;
    p.n = N;
    OK(store_push(s, &p, NULL, &ok_e));
    OK(store_pull_rows(s, keys, N, got, found, &ok_e));
    for (uint32_t i = 0; i < N * WIDTH; i++)
        assert_true(got[i] == (i < 2 * WIDTH ? 2 * whole[i] : first[i] + whole[i]));
    assert_true(found[0] && found[1] && found[2]);
    // In rows with a count, the number of the pass decides the share of the prior that is
    // applied.
    const float gradients[N * 5] = {
        [3] = 1, [4] = 1, [8] = 1, [9] = 1, [13] = 1, [14] = 1};
    p = (struct store_push){.keys = keys, .n = N, .values = gradients, .pass = 1};
    OK(store_push(s, &p, NULL, &ok_e));
    assert_true(store_row(s, keys[1], NULL)[2] == 2 * whole[WIDTH + 2] + 1);
    store_close(s);

    struct table_config lives = naive_config(&naive_settings[0]);
    s = stores_open_with(&lives, 0, 0);
    struct err e;
    p = (struct store_push){.op = STORE_ROW, .keys = keys, .n = 1, .values = whole};
    assert_int_equal(store_push(s, &p, NULL, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "have a life"));
    assert_int_equal(store_pull_rows(s, keys, 1, got, NULL, &e), TUG_EUSAGE);
    store_close(s);
}

static void check_max_bytes(uint64_t most, bool extras)
{
    struct table_config c = naive_config(&naive_settings[0]);
    struct store *s = stores_open_with(&c, 3, most);
    struct naive_batch *b = mem_alloc(sizeof(*b));
    struct rng d = {.seed = 1};
    struct err e;
    int rc = 0;
    size_t done;
    naive_draw_keys(&d, s, b, KEYS);
    for (uint32_t i = 0; i < KEYS; i++)
        b->which[i] = i;
    b->n = KEYS;
    naive_sort(s, b);
    naive_draw_values(&d, s, b, STORE_GRADIENT);
    struct store_push p = {.keys = b->keys, .n = KEYS, .values = b->values};
    p.rate = p.scale = 1;
    for (uint32_t i = 0; i < 20 && rc == 0; i++)
        rc = store_push(s, &p, &done, &e);
    assert_int_equal(rc, TUG_ENOMEM);
    assert_non_null(strstr(e.text, "raise the limit"));
    assert_true(done < KEYS);
    struct store_stats x = store_stats(s);
    assert_int_equal(x.rows == KEYS, extras);
    assert_int_equal(x.extra_rows > 0, extras);
    assert_true(x.rows > 100 && x.extra_rows < KEYS);
    assert_true(x.rows * 40 + x.extra_rows * 40 < most);
    OK(store_admin(s, STORE_CLEAR, NAN, &ok_e));
    p.n = 30; // pushes only the first 30 keys, whose rows fit
    OK(store_push(s, &p, &done, &ok_e));
    mem_free(b);
    store_close(s);
}

static void test_max_bytes(void **state)
{
    (void)state;
    check_max_bytes(8 << 10, false); // the limit is too small for the rows
    // The limit is enough for the rows, but not for their extra rows.
    check_max_bytes(16 << 10, true);
}

static void test_bad_input(void **state)
{
    (void)state;
    struct table_config c = naive_config(&naive_settings[1]); // the entry policy is count
    struct store *s = stores_open_with(&c, 4, 0);
    struct err e;
    float values[2 * PUSH_MAX] = {0};
    uint64_t keys[2] = {naive_key(1), naive_key(2)};
    if (store_partition(s, keys[0]) < store_partition(s, keys[1])) {
        keys[0] = naive_key(2);
        keys[1] = naive_key(1);
    }
    assert_true(store_partition(s, keys[0]) > store_partition(s, keys[1]));
    struct store_push p = {.keys = keys, .n = 2, .values = values, .op = STORE_ASSIGN};
    assert_int_equal(store_push(s, &p, NULL, &e), TUG_EUSAGE);
    assert_int_equal(store_pull(s, keys, 2, values, NULL, &e), TUG_EUSAGE);
    assert_int_equal(store_remove(s, keys, 2, &e), TUG_EUSAGE);
    keys[1] = keys[0];
    assert_int_equal(store_push(s, &p, NULL, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "twice"));
    assert_int_equal(store_stats(s).rows, 0);
    p.n = 0;
    OK(store_push(s, &p, NULL, &ok_e));
    assert_int_equal(store_put_extras(s, keys, 1, values, &e), TUG_EDATA);
    struct buf b = BUF_INIT(1 << 20);
    p.op = STORE_GRADIENT;
    p.n = 1;
    // The push makes no row, because the entry policy `count` only counts it.
    OK(store_push(s, &p, NULL, &ok_e));
    uint32_t part = store_partition(s, keys[0]);
    OK(store_get_partition(s, part, store_time(s, part), &b));
    assert_int_equal(store_put_partition(s, 16, b.data, b.len, &e), TUG_EDATA);
    for (size_t n = 0; n < b.len; n++)
        assert_int_equal(store_put_partition(s, part, b.data, n, &e), TUG_EDATA);
    b.data[0] ^= 2;
    assert_int_equal(store_put_partition(s, part, b.data, b.len, &e), TUG_EDATA);
    b.data[0] ^= 2;
    OK(store_put_partition(s, part, b.data, b.len, &ok_e));
    buf_free(&b);
    store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_naive), cmocka_unit_test(test_counters),
        cmocka_unit_test(test_whole_rows),    cmocka_unit_test(test_mean),
        cmocka_unit_test(test_sums_from),     cmocka_unit_test(test_opening),
        cmocka_unit_test(test_max_bytes),     cmocka_unit_test(test_bad_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
