// Tables on shards: one loop with all partitions and three loops with a third of them
// each have bit-identical rows, for every accessor and whichever workers contribute to
// sync batches. Admin operations are done once, steps add up, and impossible requests are
// refused.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "kit/loops.h"
#include "kit/test.h"
#include "os/file.h"

// One loop, and three loops that together get the same requests.
struct loops {
    struct lone *one, *three[LOOPS];
};

static struct loops loops_open(const char *config)
{
    struct loops x = {.one = loop_open(0, 1, config)};
    for (uint32_t i = 0; i < LOOPS; i++)
        x.three[i] = loop_open(i, LOOPS, config);
    return x;
}

static void loops_close(struct loops *x)
{
    lone_close(x->one);
    for (uint32_t i = 0; i < LOOPS; i++)
        lone_close(x->three[i]);
}

static size_t loops_check(const struct loops *x)
{
    size_t rows = 0;
    for (uint32_t i = 0; i < LOOPS; i++)
        rows += loops_check_same(x->one, x->three[i]);
    return rows;
}

static const char *const configs[] = {
    "name=a;accessor=plain;dim=5;rule=adagrad;init=0.1",
    "name=b;accessor=plain;dim=3;rule=adam;placement=range",
    "name=c;accessor=merge;dim=4",
    "name=d;accessor=sparse;dim=4;embedx-threshold=3",
    "name=e;accessor=ctr;dim=8;embedx-threshold=4;entry=count:2;init=0.01",
    "name=f;accessor=ctr_double;dim=4;embedx-threshold=2;entry=sketch:3;ttl-steps=40",
    "name=g;accessor=ctr;dim=4;budget-rows=200",
};
enum { CONFIGS = sizeof(configs) / sizeof(*configs) };

static void run_async(struct loops *x)
{
    static struct loop_batch b;
    struct lone *all[1 + LOOPS] = {x->one, x->three[0], x->three[1], x->three[2]};
    uint64_t removed[1 + LOOPS] = {0};
    bool lives = store_accessor(loop_table(x->one)->store)->class != NULL;
    for (uint64_t draw = 0; draw < 40; draw++) {
        loop_draw_batch(x->one, draw, &b);
        for (uint32_t i = 0; i < 1 + LOOPS; i++) {
            loop_push_with(all[i], &b, (uint32_t)(draw % WORKERS), 0, 0, 0,
                           draw % 5 == 4 ? WIRE_AGAIN : 0);
            loop_step(all[i], (uint32_t)(draw % WORKERS), draw / WORKERS + 1, draw + 1);
            if (draw % 8 == 7)
                loop_admin(all[i], WIRE_DAY, 0, 0);
            if (draw % 10 == 9)
                removed[i] += loop_admin(all[i], WIRE_SHRINK, lives ? 2 : NAN, 0);
        }
    }
    assert_int_equal(removed[0], removed[1] + removed[2] + removed[3]);
    if (lives)
        assert_true(removed[0] > 0);
}

static void test_one_and_three(void **state)
{
    (void)state;
    for (size_t i = 0; i < CONFIGS; i++) {
        struct loops x = loops_open(configs[i]);
        run_async(&x);
        assert_true(loops_check(&x) > 100);
        assert_int_equal(lone_figures(x.one, T).rows,
                         lone_figures(x.three[0], T).rows +
                             lone_figures(x.three[1], T).rows +
                             lone_figures(x.three[2], T).rows);
        loop_admin(x.one, WIRE_CLEAR, NAN, 0);
        assert_int_equal(lone_figures(x.one, T).rows, 0);
        loops_close(&x);
    }
}

// Computes a worker's contribution for key i of micro-batches [micro, micro + micros):
// sums in the order of the tree, except that slot numbers are not added. Returns whether
// any of these micro-batches has the key.
static bool tree(const struct accessor *a, uint64_t draw, uint64_t i, uint32_t micro,
                 uint32_t micros, float *to)
{
    uint32_t kept = a->class != NULL ? a->class->kept_stats : 0;
    float other[32];
    if (micros == 1) {
        loop_draw_values(a, draw * MICROS + micro, i, to);
        return random_below(12, draw * MICROS + micro, i, 4) == 0;
    }
    bool low = tree(a, draw, i, micro, micros / 2, to);
    bool high = tree(a, draw, i, micro + micros / 2, micros / 2, other);
    for (uint32_t c = 0; c < a->push_width && high; c++)
        to[c] = low && c < a->push_width - kept ? to[c] + other[c] : other[c];
    return low || high;
}

static void contribute(struct lone *w, uint64_t clock, uint32_t worker, uint32_t workers)
{
    static struct loop_batch b;
    const struct accessor *a = store_accessor(loop_table(w)->store);
    uint32_t micros = MICROS / workers;
    b.n = 0;
    b.width = a->push_width;
    for (uint32_t p = 0; p < PARTITIONS; p++)
        for (uint64_t i = 0; i < KEYS; i++)
            if (loop_partition(w, loop_key(i)) == p &&
                tree(a, clock, i, worker * micros, micros, b.values + b.n * b.width))
                b.keys[b.n++] = loop_key(i);
    loop_push(w, &b, worker % WORKERS, clock, worker * micros, micros);
}

static void run_sync(struct lone *w, uint32_t workers)
{
    for (uint64_t clock = 0; clock < 6; clock++) {
        // The workers push in a different order each time.
        for (uint32_t i = 0; i < workers; i++)
            contribute(w, clock, (i + (uint32_t)clock) % workers, workers);
        assert_int_equal(loop_table(w)->sync.clock.next, clock + 1);
        if (clock == 3)
            loop_admin(w, WIRE_SHRINK, NAN, 0);
    }
}

static void test_sync(void **state)
{
    (void)state;
    for (size_t i = 0; i < CONFIGS; i++) {
        char text[256];
        snprintf(text, sizeof(text), "%s;mode=sync;reduce=%s", configs[i],
                 i % 2 ? "mean" : "sum");
        struct loops x = loops_open(text);
        run_sync(x.one, 1);
        for (uint32_t k = 0; k < LOOPS; k++)
            run_sync(x.three[k], 2);
        assert_true(loops_check(&x) > 20);
        struct lone *four = loop_open(0, 1, text);
        run_sync(four, 4);
        loops_check_same(x.one, four);
        lone_close(four);
        loops_close(&x);
    }
}

// Examples that are repeated in a later pass do not count again: keys that the
// entry policy has refused stay refused, and rows keep the shows, clicks and score
// changes of the first pass. But the weights of the rows are trained, and the rows
// count as seen on this day.
static void check_again(const char *settings, bool sync, bool all)
{
    static struct loop_batch b;
    char text[256];
    snprintf(text, sizeof(text), "%s;%s%s", settings, sync ? "mode=sync;" : "",
             all ? "count-passes=all" : "");
    struct lone *w = loop_open(0, 1, text);
    struct store *s = loop_table(w)->store;
    const struct accessor *a = store_accessor(s);
    loop_draw_batch(w, 77, &b);
    float first[2] = {0}, weight = 0;
    for (uint64_t pass = 1; pass <= 4; pass++) { // each pass has one batch
        loop_push_with(w, &b, 0, pass - 1, 0, sync ? MICROS : 0,
                       pass > 1 ? WIRE_AGAIN : 0);
        bool in = strstr(settings, "count:2") == NULL || (all && pass > 1);
        assert_int_equal(store_stats(s).rows, in ? b.n : 0);
        const float *row = store_row(s, b.keys[0], NULL);
        if (in) {
            float stats[2];
            a->class->life.stats(a, row, stats);
            if (first[0] == 0)
                memcpy(first, stats, sizeof(first));
            assert_true(all ? stats[0] >= first[0] * (float)(pass - 1)
                            : stats[0] == first[0] && stats[1] == first[1]);
            assert_true(row[a->stats + LIFE_DAY] == (float)(pass - 1));
            assert_true(row[0] != weight);
            weight = row[0];
        }
        loop_admin(w, WIRE_DAY, 0, sync ? pass : 0);
    }
    lone_close(w);
}

static void test_again(void **state)
{
    (void)state;
    for (int sync = 0; sync < 2; sync++)
        for (int all = 0; all < 2; all++) {
            check_again("name=a;accessor=ctr;dim=4;rule=sgd:lr=0.1", sync, all);
            check_again("name=b;accessor=ctr_double;dim=2;rule=sgd:lr=0.1", sync, all);
            check_again("name=c;accessor=ctr;dim=4;rule=sgd:lr=0.1;entry=count:2", sync,
                        all);
        }
}

// After a day, rows are old enough to be demoted to disk. This needs no push, so a table
// that is only pulled also frees memory.
static void test_days_without_pushes(void **state)
{
    static const char config[] =
        "name=c;accessor=ctr;dim=2;cold=c;cold-after-days=1;base-threshold=0";
    char dir[] = "/tmp/tug-days-XXXXXX";
    static struct loop_batch b;
    struct roots *roots;
    (void)state;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(roots_open(&roots, &(struct roots_options){.cold = dir}, NULL), 0);
    struct lone *w = loop_open(0, 1, "name=t;accessor=ctr;dim=2");
    w->shard->o.roots = roots;
    struct msg_table_do drop = {.table = T, .what = WIRE_DROP, .number = 1, .low = 1};
    w->next_request++;
    lone_deliver(w, WORKER_LINK, MSG_TABLE_DO, 1, &drop);
    lone_expect_ok(w);
    struct msg_table m = {.table = T, .epoch = w->epoch, .config = wire_text(config)};
    lone_deliver(w, WORKER_LINK, MSG_TABLE, ++w->next_request, &m);
    struct parcel *p = lone_next(w);
    if (p->frame.type == MSG_OK) { // otherwise this build has no RocksDB
        loop_draw_batch(w, 1, &b);
        loop_push(w, &b, 0, 0, 0, 0);
        for (int i = 0; i < 100; i++)
            lone_pass_time(w, 1000);
        uint64_t rows = lone_figures(w, T).rows;
        assert_true(rows > 0);
        for (int day = 0; day < 3; day++)
            loop_admin(w, WIRE_DAY, 0, 0);
        for (int i = 0; i < 1000; i++)
            lone_pass_time(w, 1000);
        assert_int_equal(lone_figures(w, T).cold_rows, rows);
    }
    parcel_unpin(p);
    lone_close(w);
    roots_close(roots);
    char inner[64];
    snprintf(inner, sizeof(inner), "%s/c/%u-server0-loop0", dir, T);
    assert_int_equal(file_remove_tree(inner, NULL), 0);
    snprintf(inner, sizeof(inner), "%s/c", dir);
    assert_int_equal(file_remove_tree(inner, NULL), 0);
    assert_int_equal(file_remove_tree(dir, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_and_three),
        cmocka_unit_test(test_sync),
        cmocka_unit_test(test_again),
        cmocka_unit_test(test_days_without_pushes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
