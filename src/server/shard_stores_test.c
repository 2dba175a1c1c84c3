// Tables by configuration on shards: one loop with all partitions and three with a third
// of them each hold the same bits, whatever the accessor and whoever contributed to sync
// batches; orders happen once; steps add up; what can't be is refused.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "server/shard_testing.h"

enum {
    BITS = 4,
    PARTITIONS = 1 << BITS,
    KEYS = 400,
    T = 5,
    LOOPS = 3,
    MICROS = SHARD_MICROS
};

static const struct shard_options plain;

// A shard that owns the partitions that are `i` modulo n.
static struct world *open_loop(uint32_t i, uint32_t n, const char *config)
{
    struct world *w = world_open_shard(BITS, &plain);
    for (uint32_t p = 0; p < PARTITIONS; p++)
        w->mine[p] = p % n == i;
    w->epoch = 1;
    send_roster(w);
    for (uint32_t k = 0; k < WORKERS; k++)
        open_worker(w, k);
    forget_sent(w);
    struct msg_table m = {.table = T, .config = wire_text(config)};
    deliver(w, WORKER_LINK, MSG_TABLE, ++w->next_request, &m);
    expect_ok(w);
    w->live = SIZE_MAX; // several are open
    return w;
}

static struct shard_table *table_of(struct world *w)
{
    return w->shard->tables[T];
}

static uint32_t partition_of(const struct world *w, uint64_t key)
{
    return tables_partition(w->shard, w->shard->tables[T], key);
}

// One loop, and three that have the same together.
struct loops {
    struct world *one, *three[LOOPS];
};

static struct loops loops_open(const char *config)
{
    struct loops x = {.one = open_loop(0, 1, config)};
    for (uint32_t i = 0; i < LOOPS; i++)
        x.three[i] = open_loop(i, LOOPS, config);
    return x;
}

static void loops_close(struct loops *x)
{
    world_close(x->one);
    for (uint32_t i = 0; i < LOOPS; i++)
        world_close(x->three[i]);
}

// Rows of a partition as bytes: keys, rows without the handles of their extra rows, and
// these.
struct dump {
    struct buf bytes;
    const struct accessor *accessor;
    size_t rows;
};

static int dump_row(void *ctx, uint64_t key, const float *row, const float *extra,
                    struct err *e)
{
    struct dump *d = ctx;
    const struct accessor *a = d->accessor;
    (void)e;
    d->rows++;
    buf_add(&d->bytes, &key, sizeof(key));
    for (uint32_t c = 0; c < a->width; c++) {
        float x = a->extra_width > 0 && c == a->extra ? (float)(extra != NULL) : row[c];
        buf_add(&d->bytes, &x, sizeof(x));
    }
    if (extra != NULL)
        buf_add(&d->bytes, extra, a->extra_width * sizeof(float));
    return 0;
}

static struct dump dump(struct world *w, uint32_t partition)
{
    struct store *s = table_of(w)->store;
    struct dump d = {.bytes = BUF_INIT(1 << 24), .accessor = store_accessor(s)};
    assert_int_equal(store_each(s, partition, dump_row, &d, NULL), 0);
    return d;
}

static size_t check_same(struct world *a, struct world *b)
{
    size_t rows = 0;
    for (uint32_t p = 0; p < PARTITIONS; p++) {
        if (!b->mine[p])
            continue;
        struct dump x = dump(a, p), y = dump(b, p);
        assert_int_equal(x.rows, y.rows);
        assert_int_equal(x.bytes.len, y.bytes.len);
        if (x.bytes.len > 0)
            assert_memory_equal(x.bytes.data, y.bytes.data, x.bytes.len);
        rows += x.rows;
        buf_free(&x.bytes);
        buf_free(&y.bytes);
    }
    return rows;
}

static size_t loops_check(const struct loops *x)
{
    size_t rows = 0;
    for (uint32_t i = 0; i < LOOPS; i++)
        rows += check_same(x->one, x->three[i]);
    return rows;
}

// Keys and values of a push, by ascending partition.
struct batch {
    uint64_t keys[KEYS];
    float values[KEYS * 32];
    uint32_t n, width;
};

static uint64_t key_of(uint64_t i)
{
    return random_u64(7, 0, i) ^ (i % 3 == 0 ? i : 0);
}

static float gradient(uint64_t draw, uint64_t key, uint32_t column)
{
    return (float)random_below(8, draw, key * 64 + column, 2001) / 1000 - 1;
}

// Values of a key of the batch of that number: gradients, then show, click and slot.
static void draw_values(const struct accessor *a, uint64_t draw, uint64_t key, float *to)
{
    uint32_t stats = a->pushed_stats;
    for (uint32_t c = 0; c < a->push_width - stats; c++)
        to[c] = gradient(draw, key, c);
    float *s = to + a->push_width - stats;
    for (uint32_t c = 0; c < stats; c++)
        s[c] = c == 0   ? (float)(1 + random_below(9, draw, key, 3))
               : c == 1 ? (float)random_below(10, draw, key, 2)
                        : (float)(key % 5);
}

static void draw_batch(struct world *w, uint64_t draw, struct batch *b)
{
    const struct accessor *a = store_accessor(table_of(w)->store);
    *b = (struct batch){.width = a->push_width};
    assert_true(b->width <= 32);
    for (uint32_t p = 0; p < PARTITIONS; p++)
        for (uint64_t i = 0; i < KEYS; i++) {
            if (partition_of(w, key_of(i)) != p || random_below(11, draw, i, 3) != 0)
                continue;
            b->keys[b->n] = key_of(i);
            draw_values(a, draw, i, b->values + (size_t)b->n++ * b->width);
        }
}

// The part of a batch that is a loop's.
static void part_of(struct world *w, const struct batch *b, struct batch *ret)
{
    ret->width = b->width;
    ret->n = 0;
    for (uint32_t i = 0; i < b->n; i++) {
        if (!w->mine[partition_of(w, b->keys[i])])
            continue;
        ret->keys[ret->n] = b->keys[i];
        memcpy(ret->values + (size_t)ret->n++ * b->width,
               b->values + (size_t)i * b->width, b->width * sizeof(float));
    }
}

static void push_to(struct world *w, const struct batch *b, uint32_t worker,
                    uint64_t clock, uint32_t micro, uint32_t micros)
{
    static struct batch part;
    part_of(w, b, &part);
    struct msg_push m = push_of(w, worker, T, part.keys, part.n, part.values, part.width);
    m.clock = clock;
    m.micro = (uint8_t)micro;
    m.micros = (uint8_t)micros;
    m.examples = 3 * micros;
    send_push(w, worker, &m);
    expect_ok(w);
    send_push(w, worker, &m); // once more: nothing happens
    expect_ok(w);
}

static uint64_t order(struct world *w, enum wire_order what, float threshold,
                      uint64_t clock)
{
    uint64_t number = ++w->next_request;
    struct msg_table_do m = {.table = T,
                             .what = (uint8_t)what,
                             .clock = clock,
                             .threshold = threshold,
                             .number = number,
                             .low = number > 8 ? number - 8 : 1};
    deliver(w, WORKER_LINK, MSG_TABLE_DO, number, &m);
    for (int i = 0; i < 1000 && w->sent == NULL; i++)
        pass_time(w, 1);
    uint64_t value = expect_ok(w);
    deliver(w, WORKER_LINK, MSG_TABLE_DO, number, &m); // once more: it is not obeyed
    assert_int_equal(expect_ok(w), value);
    return value;
}

static void step(struct world *w, uint32_t worker, uint64_t steps, uint64_t global)
{
    struct msg_step m = {.session = session_of_worker(worker), .steps = steps};
    deliver(w, WORKER_LINK + worker, MSG_STEP, ++w->next_request, &m);
    assert_int_equal(expect_ok(w), global);
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
    static struct batch b;
    struct world *all[1 + LOOPS] = {x->one, x->three[0], x->three[1], x->three[2]};
    uint64_t removed[1 + LOOPS] = {0};
    bool lives = store_accessor(table_of(x->one)->store)->class != NULL;
    for (uint64_t draw = 0; draw < 40; draw++) {
        draw_batch(x->one, draw, &b);
        for (uint32_t i = 0; i < 1 + LOOPS; i++) {
            push_to(all[i], &b, (uint32_t)(draw % WORKERS), 0, 0, 0);
            step(all[i], (uint32_t)(draw % WORKERS), draw / WORKERS + 1, draw + 1);
            if (draw % 8 == 7)
                order(all[i], WIRE_DAY, 0, 0);
            if (draw % 10 == 9)
                removed[i] += order(all[i], WIRE_SHRINK, lives ? 2 : NAN, 0);
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
        assert_int_equal(figures_of(x.one, T).rows, figures_of(x.three[0], T).rows +
                                                        figures_of(x.three[1], T).rows +
                                                        figures_of(x.three[2], T).rows);
        order(x.one, WIRE_CLEAR, NAN, 0);
        assert_int_equal(figures_of(x.one, T).rows, 0);
        loops_close(&x);
    }
}

// Sync batches.

// What a worker sends for [micro, micro + micros): the tree's sums of what its
// micro-batches have of each key; slots are not added.
static bool tree(const struct accessor *a, uint64_t draw, uint64_t i, uint32_t micro,
                 uint32_t micros, float *to)
{
    uint32_t kept = a->class != NULL ? a->class->kept_stats : 0;
    float other[32];
    if (micros == 1) {
        draw_values(a, draw * MICROS + micro, i, to);
        return random_below(12, draw * MICROS + micro, i, 4) == 0;
    }
    bool low = tree(a, draw, i, micro, micros / 2, to);
    bool high = tree(a, draw, i, micro + micros / 2, micros / 2, other);
    for (uint32_t c = 0; c < a->push_width && high; c++)
        to[c] = low && c < a->push_width - kept ? to[c] + other[c] : other[c];
    return low || high;
}

static void contribute(struct world *w, uint64_t clock, uint32_t worker, uint32_t workers)
{
    static struct batch b;
    const struct accessor *a = store_accessor(table_of(w)->store);
    uint32_t micros = MICROS / workers;
    b.n = 0;
    b.width = a->push_width;
    for (uint32_t p = 0; p < PARTITIONS; p++)
        for (uint64_t i = 0; i < KEYS; i++)
            if (partition_of(w, key_of(i)) == p &&
                tree(a, clock, i, worker * micros, micros, b.values + b.n * b.width))
                b.keys[b.n++] = key_of(i);
    push_to(w, &b, worker % WORKERS, clock, worker * micros, micros);
}

static void run_sync(struct world *w, uint32_t workers)
{
    for (uint64_t clock = 0; clock < 6; clock++) {
        for (uint32_t i = 0; i < workers; i++) // in another order each time
            contribute(w, clock, (i + (uint32_t)clock) % workers, workers);
        assert_int_equal(table_of(w)->sync.next, clock + 1);
        if (clock == 3)
            order(w, WIRE_SHRINK, NAN, 0);
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
        struct world *four = open_loop(0, 1, text);
        run_sync(four, 4);
        check_same(x.one, four);
        world_close(four);
        loops_close(&x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_and_three),
        cmocka_unit_test(test_sync),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
