// Pairs of stores that must be equal, bit for bit: one store, and three stores that share
// the same partitions; a saved store, and the loaded one; a store whose allocations
// sometimes fail, and one whose allocations succeed.
//
// SPDX-License-Identifier: Apache-2.0
#include "store/store.h"

#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "kit/naive_store.h"
#include "kit/test.h"

// ---------------------------------------------- images: the whole content of a partition

static int image_row(void *ctx, uint64_t key, const float *row, const float *extra,
                     struct err *e)
{
    struct {
        struct buf *to;
        const struct accessor *a;
    } *x = ctx;
    uint64_t has = extra != NULL;
    (void)e;
    OK(buf_add(x->to, &key, sizeof(key)));
    OK(buf_add(x->to, &has, sizeof(has)));
    OK(buf_add(x->to, row, x->a->width * sizeof(float)));
    if (extra != NULL)
        OK(buf_add(x->to, extra, x->a->extra_width * sizeof(float)));
    return 0;
}

static void image(struct store *s, uint32_t p, struct buf *to)
{
    struct {
        struct buf *to;
        const struct accessor *a;
    } x = {to, store_accessor(s)};
    buf_clear(to);
    OK(store_each(s, p, image_row, &x, &ok_e));
    OK(store_get_partition(s, p, store_time(s, p), to));
}

static void check_same_partition(struct store *a, struct store *b, uint32_t p)
{
    struct buf x = BUF_INIT(1 << 24), y = BUF_INIT(1 << 24);
    image(a, p, &x);
    image(b, p, &y);
    if (x.len != y.len || memcmp(x.data, y.data, x.len) != 0)
        fail_msg("partition %u differs", p);
    buf_free(&x);
    buf_free(&y);
}

// The first store has all partitions. The other stores share them: partition p is in
// store owner[p].
struct stores {
    struct store *of[4];
    uint32_t n;
    uint32_t owner[PARTS_MAX];
};

static void share_partitions(struct stores *x)
{
    for (uint32_t p = 0; p < x->of[0]->n_parts; p++) {
        x->owner[p] = 1 + p % (x->n - 1);
        for (uint32_t i = 1; i < x->n; i++)
            store_set_owned(x->of[i], p, x->owner[p] == i);
    }
}

// Moves a random partition to a random store, even while the stores are
// doing an admin operation.
static void move_one(struct stores *x, struct rng *d)
{
    uint32_t p = rng_below_u32(d, x->of[0]->n_parts);
    uint32_t to = 1 + (x->owner[p] + rng_below_u32(d, x->n - 2)) % (x->n - 1);
    assert_int_not_equal(to, x->owner[p]);
    OK(store_move(x->of[to], x->of[x->owner[p]], p, &ok_e));
    x->owner[p] = to;
}

static void push_to_owners(struct stores *x, const struct store_push *p)
{
    uint32_t width = stores_value_width(x->of[0], p->op);
    uint64_t *keys = mem_array(p->n, sizeof(*keys));
    float *values = mem_array(p->n * width, sizeof(*values));
    OK(store_push(x->of[0], p, NULL, &ok_e));
    for (uint32_t i = 1; i < x->n; i++) {
        struct store_push part = *p;
        part.keys = keys;
        part.values = values;
        part.n = 0;
        for (size_t k = 0; k < p->n; k++) {
            if (x->owner[store_partition(x->of[0], p->keys[k])] != i)
                continue;
            keys[part.n] = p->keys[k];
            memcpy(values + part.n++ * width, p->values + k * width, width * 4);
        }
        if (part.n > 0)
            OK(store_push(x->of[i], &part, NULL, &ok_e));
    }
    mem_free(keys);
    mem_free(values);
}

static void remove_from_all(struct stores *x, const struct naive_batch *b)
{
    for (uint32_t i = 0; i < x->n; i++)
        OK(store_remove(x->of[i], b->keys, b->n, &ok_e));
}

static void order_all(struct stores *x, struct rng *d)
{
    bool clear = rng_below_u32(d, 8) == 0;
    for (uint32_t i = 0; i < x->n; i++) {
        OK(store_finish(x->of[i], &ok_e));
        OK(store_admin(x->of[i], clear ? STORE_CLEAR : STORE_SHRINK, NAN, &ok_e));
    }
}

// Does one random operation on all stores. The stores continue their admin
// operations at different times.
static void do_to_all(struct stores *x, struct rng *d, struct naive_batch *b)
{
    uint32_t kind = rng_below_u32(d, 16);
    if (kind == 0)
        order_all(x, d);
    for (uint32_t i = 0; i < x->n && kind == 1; i++)
        store_day(x->of[i]);
    if (kind == 2) {
        naive_draw_keys(d, x->of[0], b, 10);
        remove_from_all(x, b);
    }
    if (kind == 3 && x->n > 2)
        move_one(x, d);
    for (uint32_t i = 0; i < x->n && kind < 6; i++)
        for (uint32_t k = rng_below_u32(d, 4); k > 0; k--)
            store_work(x->of[i], 0);
    if (kind < 6)
        return;
    struct store_push p = naive_draw_push(d, x->of[0], b);
    push_to_owners(x, &p);
    for (uint32_t i = 0; i < x->n; i++)
        store_set_step(x->of[i], store_step_of(x->of[i]) + 1);
}

static void check_stores(struct stores *x)
{
    struct store_stats sum = {0}, all;
    for (uint32_t i = 0; i < x->n; i++)
        OK(store_finish(x->of[i], &ok_e));
    for (uint32_t p = 0; p < x->of[0]->n_parts; p++)
        check_same_partition(x->of[0], x->of[x->owner[p]], p);
    for (uint32_t i = 1; i < x->n; i++) {
        struct store_stats one = store_stats(x->of[i]);
        sum.rows += one.rows;
        sum.extra_rows += one.extra_rows;
        sum.made += one.made;
        sum.refused += one.refused;
        sum.changed += one.changed;
        sum.evicted_score += one.evicted_score;
        sum.evicted_budget += one.evicted_budget;
    }
    all = store_stats(x->of[0]);
    assert_int_equal(sum.rows, all.rows);
    assert_int_equal(sum.extra_rows, all.extra_rows);
    assert_int_equal(sum.made, all.made);
    assert_int_equal(sum.refused, all.refused);
    assert_int_equal(sum.changed, all.changed);
    assert_int_equal(sum.evicted_score, all.evicted_score);
    assert_int_equal(sum.evicted_budget, all.evicted_budget);
}

static void test_one_and_three(void **state)
{
    (void)state;
    struct naive_batch *b = mem_alloc(sizeof(*b));
    for (uint32_t i = 0; i < NAIVE_SETTINGS; i++) {
        struct table_config c = naive_config(&naive_settings[i]);
        struct stores x = {.n = 4};
        struct rng d = {.seed = 100 + i};
        for (uint32_t k = 0; k < x.n; k++)
            x.of[k] = stores_open_with(&c, naive_settings[i].bits, 0);
        share_partitions(&x);
        for (uint32_t k = 0; k < (SANITIZED ? 200 : 1000); k++) {
            do_to_all(&x, &d, b);
            if (k % 50 == 0)
                check_stores(&x);
        }
        check_stores(&x);
        for (uint32_t k = 0; k < x.n; k++)
            store_close(x.of[k]);
    }
    mem_free(b);
}

// Loads: rows that were read out of one store and put into another one behave the same
// there.

struct copy {
    struct store *to;
    uint32_t width, extra_width;
};

static int copy_row(void *ctx, uint64_t key, const float *row, const float *extra,
                    struct err *e)
{
    const struct copy *x = ctx;
    TRY(store_put_rows(x->to, &key, 1, row, e));
    return extra == NULL ? 0 : store_put_extras(x->to, &key, 1, extra, e);
}

static void copy_store(struct store *from, struct store *to)
{
    struct copy x = {.to = to};
    struct buf state = BUF_INIT(1 << 24);
    for (uint32_t p = 0; p < from->n_parts; p++) {
        buf_clear(&state);
        OK(store_get_partition(from, p, store_time(from, p), &state));
        OK(store_put_partition(to, p, state.data, state.len, &ok_e));
        OK(store_each(from, p, copy_row, &x, &ok_e));
    }
    buf_free(&state);
    store_loaded(to);
}

static void test_loads(void **state)
{
    (void)state;
    struct naive_batch *b = mem_alloc(sizeof(*b));
    for (uint32_t i = 0; i < NAIVE_SETTINGS; i++) {
        struct table_config c = naive_config(&naive_settings[i]);
        struct stores x = {.n = 1}, two = {.n = 2};
        struct rng d = {.seed = 200 + i};
        if (naive_settings[i].budget > 0)
            // Skipped: a budget removes rows without scores in the order in which they
            // were made, and saves do not store this order.
            continue;
        x.of[0] = stores_open_with(&c, naive_settings[i].bits, 0);
        for (uint32_t k = 0; k < 200; k++)
            do_to_all(&x, &d, b);
        OK(store_finish(x.of[0], &ok_e));
        struct store *copy = stores_open_with(&c, naive_settings[i].bits, 0);
        naive_draw_keys(&d, copy, b,
                        60); // the copy has rows of its own, which the load must remove
        naive_draw_values(&d, copy, b, STORE_ASSIGN);
        struct store_push p = {.op = STORE_ASSIGN, .keys = b->keys, .n = b->n};
        p.values = b->values;
        OK(store_push(copy, &p, NULL, &ok_e));
        OK(store_admin(copy, STORE_CLEAR, NAN, &ok_e));
        copy_store(x.of[0], copy);
        copy_store(x.of[0], copy);
        assert_int_equal(store_stats(copy).changed, 0);
        assert_int_equal(store_stats(copy).extra_rows, store_stats(x.of[0]).extra_rows);
        store_loaded(x.of[0]);
        two.of[0] = x.of[0];
        two.of[1] = copy;
        share_partitions(&two);
        for (uint32_t k = 0; k < 200; k++) {
            for (uint32_t q = 0; q < copy->n_parts && k % 50 == 0; q++)
                check_same_partition(two.of[0], two.of[1], q);
            do_to_all(&two, &d, b);
        }
        OK(store_finish(copy, &ok_e));
        OK(store_finish(x.of[0], &ok_e));
        assert_int_equal(store_stats(copy).changed, store_stats(x.of[0]).changed);
        store_close(x.of[0]);
        store_close(copy);
    }
    mem_free(b);
}

// A push or pull of many keys has the same result as one push or pull for each partition.

struct many {
    size_t n;
    uint64_t *keys;
    float *values;
};

static int compare_mixed(const void *a, const void *b)
{
    uint64_t x = mix64(*(const uint64_t *)a), y = mix64(*(const uint64_t *)b);
    return (x > y) - (x < y);
}

static struct many draw_many(const struct store *s, struct rng *d, size_t n)
{
    uint32_t width = stores_value_width(s, STORE_GRADIENT);
    struct many x = {.n = n, .keys = mem_array(n, 8), .values = mem_array(n * width, 4)};
    assert_true(x.keys != NULL && x.values != NULL);
    uint64_t first = rng_below_u32(d, 1000);
    for (size_t i = 0; i < n; i++)
        x.keys[i] = first + i;
    qsort(x.keys, n, sizeof(*x.keys), compare_mixed);
    for (size_t i = 0; i < n * width; i++) // the values include shows and clicks
        x.values[i] = (float)rng_below_u32(d, 4);
    return x;
}

static void pull_and_compare(struct store *a, struct store *b, const struct many *x)
{
    uint32_t width = store_accessor(a)->pull_width;
    float *all = mem_array(x->n * width, sizeof(*all)), one[PUSH_MAX];
    uint8_t *found = mem_alloc(x->n), here;
    assert_true(all != NULL && found != NULL);
    OK(store_pull(a, x->keys, x->n, all, found, &ok_e));
    for (size_t i = 0; i < x->n; i++) {
        OK(store_pull(b, &x->keys[i], 1, one, &here, &ok_e));
        assert_int_equal(here, found[i]);
        assert_memory_equal(one, all + i * width, width * sizeof(float));
    }
    mem_free(all);
    mem_free(found);
}

static void push_one_by_one(struct store *s, const struct store_push *all)
{
    uint32_t width = stores_value_width(s, all->op);
    for (size_t i = 0, end; i < all->n; i = end) {
        struct store_push p = *all;
        p.keys += i;
        p.values += i * width;
        end = i;
        while (end < all->n &&
               store_partition(s, all->keys[end]) == store_partition(s, all->keys[i]))
            end++;
        p.n = end - i;
        OK(store_push(s, &p, NULL, &ok_e));
    }
}

static void test_many_keys(void **state)
{
    static const uint32_t bits[] = {0, 3, 9, 12}, of[] = {0, 3, 1, 0};
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        struct table_config c = naive_config(&naive_settings[of[i]]);
        struct store *a = stores_open_with(&c, bits[i], 0),
                     *b = stores_open_with(&c, bits[i], 0);
        struct rng d = {.seed = 400 + i};
        for (uint32_t k = 0; k < 4; k++) {
            struct many x = draw_many(a, &d, 5000);
            struct store_push p = {.keys = x.keys, .n = x.n, .values = x.values};
            p.rate = p.scale = 1;
            size_t done;
            OK(store_push(a, &p, &done, &ok_e));
            assert_int_equal(done, p.n);
            push_one_by_one(b, &p);
            for (uint32_t q = 0; q < a->n_parts; q++)
                check_same_partition(a, b, q);
            pull_and_compare(a, b, &x);
            mem_free(x.keys);
            mem_free(x.values);
        }
        store_close(a);
        store_close(b);
    }
}

// Repeats a push until it succeeds, while one allocation after the other fails. The
// result must be as if the push had succeeded at once.
static void push_until_done(struct store *s, const struct store_push *p)
{
    struct store_push rest = *p;
    uint32_t width = stores_value_width(s, p->op);
    for (;;) {
        struct err e;
        size_t at = 0;
        int rc = store_push(s, &rest, &at, &e);
        if (rc == 0)
            return;
        assert_int_equal(rc, TUG_ENOMEM);
        assert_true(at == 0 || store_partition(s, rest.keys[at]) !=
                                   store_partition(s, rest.keys[at - 1]));
        assert_true(at < rest.n);
        rest.keys += at;
        rest.values += at * width;
        rest.n -= at;
    }
}

static void again(int rc)
{
    assert_true(rc == 0 || rc == TUG_ENOMEM);
}

static void fail_everywhere(struct store *s, struct rng *d, struct naive_batch *b,
                            bool clear)
{
    uint64_t key = naive_key(1);
    float row[64] = {1};
    for (uint32_t k = 0; k < 12; k++) {
        struct store_push p = naive_draw_push(d, s, b);
        push_until_done(s, &p);
        store_set_step(s, k);
    }
    OK(store_admin(s, STORE_SHRINK, NAN, &ok_e));
    struct store_push p = naive_draw_push(d, s, b);
    push_until_done(s, &p); // also does the shrink in each partition of the push
    again(store_finish(s, NULL));
    OK(store_finish(s, &ok_e));
    again(store_put_rows(s, &key, 1, row, NULL));
    OK(store_put_rows(s, &key, 1, row, &ok_e));
    naive_draw_keys(d, s, b, 30);
    again(store_remove(s, b->keys, b->n, NULL));
    OK(store_remove(s, b->keys, b->n, &ok_e));
    if (clear)
        OK(store_admin(s, STORE_CLEAR, 0, &ok_e));
    store_work(s, 0);
    for (uint32_t k = 0; k < 3; k++) {
        p = naive_draw_push(d, s, b);
        push_until_done(s, &p);
    }
    again(store_finish(s, NULL));
    OK(store_finish(s, &ok_e));
}

static void test_without_memory(void **state)
{
    // These settings have no budgets: rows that cannot be removed for lack of
    // memory are removed later.
    static const uint32_t of[] = {0, 0, 6, 8, 9, 13};
    (void)state;
    struct naive_batch *b = mem_alloc(sizeof(*b));
    for (size_t i = 0; i < sizeof(of) / sizeof(*of); i++) {
        struct table_config c = naive_config(&naive_settings[of[i]]);
        // The store has no entry policy, because a policy would also count pushes that
        // failed.
        snprintf(c.entry.policy, sizeof(c.entry.policy), "none");
        if (c.accessor.life.embedx_threshold > 0)
            // many rows earn an extra row, and few are removed
            c.accessor.life.embedx_threshold = 0.5f;
        c.accessor.life.delete_threshold = 0.05f;
        struct store *good = stores_open_with(&c, naive_settings[of[i]].bits, 0);
        struct rng rng = {.seed = 300 + i};
        fail_everywhere(good, &rng, b, i % 2 == 1);
        bool faulted = true;
        for (long n = 0; faulted; n += SANITIZED ? 7 : 1) {
            struct store *s = stores_open_with(&c, naive_settings[of[i]].bits, 0);
            rng = (struct rng){.seed = 300 + i};
            mem_fault_after(n);
            fail_everywhere(s, &rng, b, i % 2 == 1);
            faulted = mem_faulted();
            mem_fault_after(-1);
            for (uint32_t p = 0; p < s->n_parts; p++)
                check_same_partition(s, good, p);
            store_close(s);
        }
        store_close(good);
    }
    mem_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_and_three),
        cmocka_unit_test(test_loads),
        cmocka_unit_test(test_many_keys),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
