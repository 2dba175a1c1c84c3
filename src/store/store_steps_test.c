// Threads that update rows in place. One thread gives the same bits as pushes. With
// several threads, the set of rows and their counters agree with a count of the keys that
// were passed. No row is used for another key while a thread is pinned.
//
// SPDX-License-Identifier: Apache-2.0
#include "store/store_steps.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/relaxed.h"
#include "kit/naive_store.h"
#include "kit/test.h"
#include "os/team.h"

enum { BITS = 3, THREADS = 4, BATCHES = 200, BATCH = 40 };

// A caller of store_steps, which keeps a record of each key.
struct keeper {
    struct store *store;
    struct store_steps *steps;
    _Atomic uint32_t handle[KEYS], extra[KEYS];
    uint64_t removed;
    // The naive count of what happened to each key.
    _Atomic uint32_t pushes[KEYS];
    bool again;
    bool count_all;
};

static void forget(void *ctx, const uint64_t *keys, size_t n)
{
    struct keeper *k = ctx;
    for (size_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < KEYS; j++)
            if (naive_key(j) == keys[i])
                k->handle[j] = k->extra[j] = TABLE_NONE;
}

static struct store *store_of(const char *text)
{
    struct table_config c = table_config_defaults();
    OK(table_config_parse(&c, text, &ok_e));
    return stores_open_with(&c, BITS, 0);
}

static void open_keeper(struct keeper *k, const char *text)
{
    memset(k, 0, sizeof(*k));
    for (uint32_t i = 0; i < KEYS; i++)
        k->handle[i] = k->extra[i] = TABLE_NONE;
    k->store = store_of(text);
    OK(store_steps_open(&k->steps, k->store, forget, k, &ok_e));
}

static void close_keeper(struct keeper *k)
{
    store_steps_close(k->steps);
    store_check_rows(k->store);
    store_close(k->store);
}

static int ascending(const void *a, const void *b, void *store)
{
    uint32_t x = store_partition(store, naive_key(((const struct store_arrival *)a)->id)),
             y = store_partition(store, naive_key(((const struct store_arrival *)b)->id));
    return x < y ? -1 : x > y;
}

// Draws a batch of distinct keys. A few keys are in most batches.
static size_t take_batch(struct rng *d, struct store *s, struct store_arrival *a)
{
    bool taken[KEYS] = {0};
    size_t n = 0;
    for (uint32_t i = 0; i < BATCH; i++) {
        uint32_t id = rng_below_u32(d, 1 + rng_below_u32(d, KEYS));
        if (taken[id])
            continue;
        taken[id] = true;
        a[n++] = (struct store_arrival){.id = id,
                                        .key = naive_key(id),
                                        .show = 1,
                                        .click = 1,
                                        .slot = (float)(id % 7)};
    }
    qsort_r(a, n, sizeof(*a), ascending, s);
    return n;
}

// Passes the keys of a batch to their partitions. The thread must be pinned.
static int arrive(struct keeper *k, struct store_stepper *t, struct store_arrival *a,
                  size_t n, uint64_t step, struct err *e)
{
    int rc = 0;
    for (size_t i = 0, end; i < n && rc == 0; i = end) {
        struct store_arriving w = {.partition = store_partition(k->store, a[i].key),
                                   .step = step,
                                   .again = k->again};
        for (end = i; end < n && store_partition(k->store, a[end].key) == w.partition;)
            end++;
        store_steps_lock(k->steps, w.partition);
        for (size_t j = i; j < end; j++) {
            a[j].handle = k->handle[a[j].id];
            a[j].extra = k->extra[a[j].id];
        }
        rc = store_arrive(t, &w, a + i, end - i, e);
        for (size_t j = i; j < end; j++) {
            k->extra[a[j].id] = a[j].extra;
            k->handle[a[j].id] = a[j].handle;
        }
        store_arrived(t, w.partition);
        store_steps_unlock(k->steps, w.partition);
    }
    return rc;
}

// ------------------------------------ one thread, compared with pushes without gradients

static void push(struct store *s, const struct store_arrival *a, size_t n, bool again,
                 uint64_t step)
{
    uint32_t width = store_accessor(s)->push_width;
    uint64_t keys[BATCH];
    float values[BATCH * PUSH_MAX] = {0};
    for (size_t i = 0; i < n; i++) {
        keys[i] = a[i].key;
        float *stats = values + (i + 1) * width - 3;
        stats[0] = a[i].show;
        stats[1] = a[i].click;
        stats[2] = a[i].slot;
    }
    struct store_push p = {.op = STORE_GRADIENT,
                           .keys = keys,
                           .n = n,
                           .values = values,
                           .rate = 1,
                           .scale = 1,
                           .pass = 1,
                           .again = again};
    store_set_step(s, step);
    OK(store_push(s, &p, NULL, &ok_e));
}

static void same_floats(const float *x, const float *y, uint32_t n)
{
    if (n > 0)
        assert_memory_equal(x, y, n * sizeof(float));
}

static void same_rows(const struct store *x, const struct store *y)
{
    const struct accessor *a = store_accessor(x);
    for (uint32_t i = 0; i < KEYS; i++) {
        const float *ex, *ey, *rx = store_row(x, naive_key(i), &ex),
                              *ry = store_row(y, naive_key(i), &ey);
        assert_true((rx == NULL) == (ry == NULL));
        if (rx == NULL)
            continue;
        assert_true((ex == NULL) == (ey == NULL));
        same_floats(rx, ry, a->extra_width > 0 ? a->extra : a->width);
        if (ex != NULL)
            same_floats(ex, ey, a->extra_width);
    }
}

static void same_policies(const struct store *x, const struct store *y)
{
    for (uint32_t p = 0; p < 1 << BITS; p++) {
        struct buf bx = BUF_INIT(1 << 20), by = BUF_INIT(1 << 20);
        assert_true((x->parts[p].entry == NULL) == (y->parts[p].entry == NULL));
        if (x->parts[p].entry != NULL) {
            OK(entry_save(x->parts[p].entry, &bx));
            OK(entry_save(y->parts[p].entry, &by));
            assert_int_equal(bx.len, by.len);
            assert_memory_equal(bx.data, by.data, bx.len);
        }
        buf_free(&bx);
        buf_free(&by);
    }
    struct store_stats sx = store_stats(x), sy = store_stats(y);
    assert_int_equal(sx.rows, sy.rows);
    assert_int_equal(sx.extra_rows, sy.extra_rows);
    assert_int_equal(sx.made, sy.made);
    assert_int_equal(sx.refused, sy.refused);
    assert_int_equal(sx.evicted_budget, sy.evicted_budget);
    assert_int_equal(sx.changed, sy.changed);
}

static void as_pushes_do(const char *text)
{
    struct keeper k;
    struct store_stepper *t;
    struct store_arrival a[BATCH];
    struct rng d = {.seed = 1};
    open_keeper(&k, text);
    struct store *pushed = store_of(text);
    OK(store_stepper_open(&t, k.steps, &ok_e));
    for (uint32_t b = 0; b < BATCHES; b++) {
        size_t n = take_batch(&d, k.store, a);
        k.again = b > BATCHES * 3 / 4;
        for (size_t i = 0; i < n; i++)
            a[i].click = (float)rng_below_u32(&d, 2);
        push(pushed, a, n, k.again, b);
        store_stepper_pin(t);
        // The step changes with each batch, because the values of new rows depend on it.
        store_set_step(k.store, b);
        OK(arrive(&k, t, a, n, b, &ok_e));
        store_stepper_unpin(t);
    }
    same_rows(k.store, pushed);
    same_policies(k.store, pushed);
    store_stepper_close(t);
    close_keeper(&k);
    store_close(pushed);
}

static void test_one_thread_equals_pushes(void **state)
{
    (void)state;
    static const char *const all[] = {
        "accessor=sparse; dim=4; embedx-threshold=3",
        "accessor=ctr; dim=4; embedx-threshold=3; entry=count:3",
        "accessor=ctr_double; dim=2; embedx-threshold=0; entry=show-click:2; ttl-steps=9",
        "accessor=ctr; dim=0; entry=sketch:3; count-passes=all",
        "accessor=ctr; dim=4; entry=probability:0.5; deltas=no",
        "accessor=ctr; dim=4; embedx-threshold=2; entry=count:2; budget-rows=80",
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        as_pushes_do(all[i]);
}

// ---------------------------------------------------------------- several threads

static void step_on(struct keeper *k, const struct store_arrival *a)
{
    struct store_views v = store_steps_views(k->steps);
    if (a->handle == TABLE_NONE)
        return;
    float *row = table_row(v.rows, a->handle);
    relaxed_store(row, relaxed_load(row) + 1);
    if (a->extra == TABLE_NONE)
        return;
    row = table_row(v.extras, a->extra);
    relaxed_store(row, relaxed_load(row) + 1);
}

// Checks that rows and extra rows keep their keys while the thread is pinned.
static void still_there(const struct keeper *k, const struct store_arrival *a)
{
    struct store_views v = store_steps_views(k->steps);
    if (a->handle == TABLE_NONE)
        return;
    assert_int_equal(table_row_key(table_row(v.rows, a->handle)), naive_key(a->id));
    if (a->extra != TABLE_NONE)
        assert_int_equal(table_row_key(table_row(v.extras, a->extra)), naive_key(a->id));
}

static void work(void *arg, int rank)
{
    struct keeper *k = arg;
    struct rng d = {.seed = 100 + (uint64_t)rank};
    struct store_stepper *t;
    struct store_arrival a[BATCH];
    OK(store_stepper_open(&t, k->steps, &ok_e));
    for (uint32_t b = 0; b < BATCHES; b++) {
        size_t n = take_batch(&d, k->store, a);
        store_stepper_pin(t);
        OK(arrive(k, t, a, n, b, &ok_e));
        for (size_t i = 0; i < n; i++) {
            atomic_fetch_add(&k->pushes[a[i].id], 1);
            step_on(k, &a[i]);
        }
        for (size_t i = 0; i < n; i++)
            still_there(k, &a[i]);
        store_stepper_unpin(t);
    }
    store_stepper_close(t);
}

static void run(struct keeper *k, const char *text)
{
    struct team *team;
    open_keeper(k, text);
    OK(team_open(&team, THREADS, &ok_e));
    team_run(team, work, k);
    team_close(team);
}

// Pushes of a key before it is admitted do not count for its row.
static void counted(const char *text, uint32_t threshold, float earns)
{
    static struct keeper k;
    run(&k, text);
    uint32_t rows = 0, extras = 0, refused = 0;
    for (uint32_t i = 0; i < KEYS; i++) {
        const float *extra, *row = store_row(k.store, naive_key(i), &extra);
        uint32_t pushes = k.pushes[i],
                 before = pushes < threshold ? pushes : threshold - 1;
        refused += before;
        assert_true((row != NULL) == (pushes >= threshold));
        if (row == NULL)
            continue;
        float counts[2];
        store_accessor(k.store)->class->life.stats(store_accessor(k.store), row, counts);
        assert_true(counts[0] == (float)(pushes - before));
        assert_true(counts[1] == (float)(pushes - before)); // each push was also a click
        assert_true((extra != NULL) == (counts[1] >= earns));
        rows++;
        extras += extra != NULL;
    }
    struct store_stats s = store_stats(k.store);
    assert_int_equal(s.rows, rows);
    assert_int_equal(s.made, rows);
    assert_int_equal(s.extra_rows, extras);
    assert_int_equal(s.refused, refused);
    assert_true(rows > KEYS / 2 && extras > 10);
    close_keeper(&k);
}

static void test_counters_are_exact(void **state)
{
    (void)state;
    counted("accessor=ctr; dim=4; embedx-threshold=40", 1, 40);
    counted("accessor=ctr; dim=4; embedx-threshold=40; entry=count:30", 30, 40);
    counted("accessor=ctr_double; dim=1; embedx-threshold=20; entry=count:3; deltas=no",
            3, 20);
}

// Threads make and remove rows all the time. At the end the number of rows equals the
// number of rows made minus that of rows removed, and is within the budget.
static void test_rows_are_kept_from_reuse(void **state)
{
    (void)state;
    static struct keeper k;
    run(&k, "accessor=ctr; dim=4; embedx-threshold=1; budget-rows=64");
    struct store_stats s = store_stats(k.store);
    assert_true(s.evicted_budget > 1000);
    assert_int_equal(s.made - s.evicted_budget, s.rows);
    assert_true(s.rows <= 64);
    uint32_t rows = 0;
    for (uint32_t i = 0; i < KEYS; i++) {
        const float *extra, *row = store_row(k.store, naive_key(i), &extra);
        assert_true((row != NULL) == (k.handle[i] != TABLE_NONE));
        assert_true((extra != NULL) == (k.extra[i] != TABLE_NONE));
        rows += row != NULL;
    }
    assert_int_equal(rows, s.rows);
    close_keeper(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_thread_equals_pushes),
        cmocka_unit_test(test_counters_are_exact),
        cmocka_unit_test(test_rows_are_kept_from_reuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
