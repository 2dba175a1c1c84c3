// Stores against a naive one (store_testing.h), over random sequences of all that can be
// done to them; one store against three that share its partitions; memory that fails.
//
// SPDX-License-Identifier: Apache-2.0
#include "table/store.h"

#include "table/store_testing.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { SLOW = 1 };
#else
enum { SLOW = 0 };
#endif

struct setting {
    const char *text, *more;
    uint32_t bits;
    uint64_t budget; // not for texts: of rows without a life
};

#define LIFE                                                                             \
    "delete-threshold=0.3; embedx-threshold=3; delete-after-days=4; embedx-init=0.1; "
#define CTR "accessor=ctr; dim=4; rule=adagrad; embedx-rule=adagrad; " LIFE
static const struct setting settings[] = {
    {CTR, "", 3, 0},
    {CTR, "entry=count:3; rate=inverse-time:steps=5,factor=0.1", 0, 0},
    {CTR, "entry=count:4:shows; placement=range; deltas=no", 2, 0},
    {CTR, "entry=show-click:2; budget-rows=100; budget-floor=0.5", 3, 0},
    {CTR, "entry=probability:0.5; show-scale=no; decay=1", 6, 0},
    {CTR, "entry=bloom:2:capacity=64:error=0.2; ttl-steps=40", 1, 0},
    {CTR, "entry=sketch:3:error=0.05; embedx-threshold=0", 2, 0},
    {"accessor=ctr_double; dim=2; rule=adagrad-shared; embedx-rule=sgd; " LIFE, "", 3, 0},
    {"accessor=ctr_double; dim=0; rule=momentum; decay=0.5; " LIFE, "", 0, 0},
    {"accessor=sparse; dim=3; rule=ftrl:l1=0,l2=0; embedx-rule=adagrad-shared; " LIFE, "",
     4, 0},
    {"accessor=sparse; dim=1; rule=sum; embedx-rule=sum; budget-rows=64; " LIFE, "", 4,
     0},
    {"accessor=plain; dim=3; rule=adagrad; init=0.5", "", 3, 0},
    {"accessor=plain; dim=1; rule=sgd; deltas=yes; seed=9", "", 2, 80},
    {"accessor=plain; dim=8; rule=assign; entry=count:2; deltas=yes", "", 3, 0},
    {"accessor=merge; dim=2; placement=range", "", 4, 0},
};
enum { SETTINGS = sizeof(settings) / sizeof(*settings) };

static struct table_config parse(const struct setting *x)
{
    struct table_config c = table_config_defaults();
    OK(table_config_parse(&c, x->text, &ok_e));
    OK(table_config_parse(&c, x->more, &ok_e));
    OK(table_config_check(&c, &ok_e));
    if (x->budget > 0)
        c.budget_rows = x->budget;
    return c;
}

// Batches: some keys, popular ones more often, by ascending partition.

struct batch {
    uint32_t which[KEYS];
    uint64_t keys[KEYS];
    size_t n;
    float values[KEYS * PUSH_MAX];
};

static const struct store *sorting;

static int by_partition(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    uint32_t p = store_partition(sorting, key_of(*x));
    uint32_t q = store_partition(sorting, key_of(*y));
    return p != q ? (p > q) - (p < q) : (int)(*x * 7 % 11) - (int)(*y * 7 % 11);
}

static void draw_keys(struct dice *d, const struct store *s, struct batch *b, size_t most)
{
    bool taken[KEYS] = {false};
    size_t want = 1 + dice_below(d, (uint32_t)most);
    b->n = 0;
    for (size_t i = 0; i < want; i++) {
        uint32_t x = dice_below(d, KEYS), y = dice_below(d, KEYS), k = x * y / KEYS;
        if (!taken[k])
            b->which[b->n++] = k;
        taken[k] = true;
    }
    sorting = s;
    qsort(b->which, b->n, sizeof(*b->which), by_partition);
    for (size_t i = 0; i < b->n; i++)
        b->keys[i] = key_of(b->which[i]);
}

static void draw_values(struct dice *d, const struct store *s, struct batch *b,
                        enum store_op op)
{
    const struct accessor *a = store_accessor(s);
    uint32_t width = store_value_width(s, op);
    float *at = b->values;
    assert_true(width <= PUSH_MAX);
    for (size_t i = 0; i < b->n; i++, at += width) {
        bool zeros = dice_below(d, 4) == 0;
        for (uint32_t k = 0; k < width; k++)
            at[k] = zeros && k > 0 ? 0 : (float)((int)dice_below(d, 9) - 4) / 4;
        if (op != STORE_GRADIENT || a->pushed_stats == 0)
            continue;
        uint32_t show = dice_below(d, 4);
        at[width - 3] = (float)show;
        at[width - 2] = (float)(show > 0 ? dice_below(d, show) : 0);
        at[width - 1] = (float)dice_below(d, 30);
    }
}

static struct store_push draw_push(struct dice *d, const struct store *s, struct batch *b)
{
    struct store_push p = {.keys = b->keys, .values = b->values, .rate = 1, .scale = 1};
    uint32_t kind = dice_below(d, 16);
    p.op = kind == 0 ? STORE_ASSIGN : kind == 1 ? STORE_ADD : STORE_GRADIENT;
    if (kind == 2)
        p.scale = 0.5f;
    if (kind == 3)
        p.rate = 0.25f;
    draw_keys(d, s, b, 60);
    draw_values(d, s, b, p.op);
    p.n = b->n;
    return p;
}

// What a pull of keys without rows says, said by the naive store.
static void check_first(const struct naive *m, uint32_t i, const float *got)
{
    struct naive *copy = mem_alloc(sizeof(*copy));
    *copy = *m;
    naive_make(copy, i);
    const struct naive_row *x = &copy->rows[i];
    got += m->a->pulled_stats;
    for (uint32_t k = 0; k < embed_width(m); k++)
        assert_near(m->keys[i], "first embed", (double)*got++, x->embed.w[k]);
    for (uint32_t k = 0; m->life && k < m->dim; k++)
        assert_near(m->keys[i], "first embedx", (double)*got++,
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
    for (uint32_t k = 0; k < embed_width(m); k++)
        assert_near(m->keys[i], "pulled embed", (double)*got++, x->embed.w[k]);
    for (uint32_t k = 0; m->life && k < m->dim; k++)
        assert_near(m->keys[i], "pulled embedx", (double)*got++,
                    x->extra ? x->embedx.w[k] : 0);
}

static void pull(struct dice *d, struct store *s, const struct naive *m, struct batch *b)
{
    uint8_t found[KEYS];
    draw_keys(d, s, b, 60);
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

// All of it, once nothing goes on.

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
        check_row(m, s, i);
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

// An order, unless another goes on.
static void order(struct dice *d, struct store *s, struct naive *m)
{
    struct err e;
    bool clear = dice_below(d, 6) == 0;
    float threshold = dice_below(d, 3) == 0 ? 0.8f : NAN;
    bool busy = s->order_at < s->n_parts;
    int rc = store_order(s, clear ? STORE_CLEAR : STORE_SHRINK, threshold, &e);
    assert_int_equal(rc, busy ? TUG_EUSAGE : 0);
    if (rc != 0)
        assert_non_null(strstr(e.text, "another order"));
    else if (clear)
        naive_clear(m);
    else
        naive_shrink(m, threshold);
}

static void remove_some(struct dice *d, struct store *s, struct naive *m, struct batch *b)
{
    draw_keys(d, s, b, 10);
    OK(store_remove(s, b->keys, b->n, &ok_e));
    for (size_t i = 0; i < b->n; i++)
        if (m->rows[b->which[i]].there)
            naive_remove(m, b->which[i]);
}

// Nothing has changed since.
static void forget_changes(struct store *s, struct naive *m)
{
    OK(store_finish(s, &ok_e));
    store_loaded(s);
    for (uint32_t i = 0; i < KEYS; i++)
        m->rows[i].changed = m->gone[i] = false;
}

static void do_something(struct dice *d, struct store *s, struct naive *m,
                         struct batch *b)
{
    struct store_push p;
    size_t done;
    switch (dice_below(d, 16)) {
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
        p = draw_push(d, s, b);
        OK(store_push(s, &p, &done, &ok_e));
        naive_push(m, &p, b->which);
        store_set_step(s, ++m->step);
        break;
    }
}

static void test_against_naive(void **state)
{
    (void)state;
    struct batch *b = mem_alloc(sizeof(*b));
    struct naive *m = mem_alloc(sizeof(*m));
    for (uint32_t i = 0; i < SETTINGS; i++) {
        struct table_config c = parse(&settings[i]);
        struct store *s = open_store(&c, settings[i].bits, 0);
        struct dice d = {.seed = i};
        naive_open(m, s, settings[i].bits);
        for (uint32_t k = 0; k < (SLOW ? 300 : 1500); k++) {
            do_something(&d, s, m, b);
            if (dice_below(&d, 12) == 0)
                check_all(s, m);
            if (dice_below(&d, 60) == 0)
                forget_changes(s, m);
        }
        check_all(s, m);
        naive_close(m);
        store_close(s);
    }
    mem_free(m);
    mem_free(b);
}

// Images: all that a store says of a partition.

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

// The first of `all` stores has all partitions, the others share them: partition p is that
// of store 1 + p % (all - 1).
struct stores {
    struct store *of[4];
    uint32_t n;
};

static void push_to_owners(struct stores *x, const struct store_push *p)
{
    uint32_t width = store_value_width(x->of[0], p->op);
    uint64_t *keys = mem_array(p->n, sizeof(*keys));
    float *values = mem_array(p->n * width, sizeof(*values));
    OK(store_push(x->of[0], p, NULL, &ok_e));
    for (uint32_t i = 1; i < x->n; i++) {
        struct store_push part = *p;
        part.keys = keys;
        part.values = values;
        part.n = 0;
        for (size_t k = 0; k < p->n; k++) {
            if (store_partition(x->of[0], p->keys[k]) % (x->n - 1) != i - 1)
                continue;
            keys[part.n] = p->keys[k];
            memcpy(values + part.n++ * width, p->values + k * width, width * 4);
        }
        OK(store_push(x->of[i], &part, NULL, &ok_e));
    }
    mem_free(keys);
    mem_free(values);
}

static void remove_from_all(struct stores *x, const struct batch *b)
{
    for (uint32_t i = 0; i < x->n; i++)
        OK(store_remove(x->of[i], b->keys, b->n, &ok_e));
}

static void order_all(struct stores *x, struct dice *d)
{
    bool clear = dice_below(d, 8) == 0;
    for (uint32_t i = 0; i < x->n; i++) {
        OK(store_finish(x->of[i], &ok_e));
        OK(store_order(x->of[i], clear ? STORE_CLEAR : STORE_SHRINK, NAN, &ok_e));
    }
}

// The same is done to all, but each does its orders when it likes to.
static void do_to_all(struct stores *x, struct dice *d, struct batch *b)
{
    uint32_t kind = dice_below(d, 16);
    if (kind == 0)
        order_all(x, d);
    for (uint32_t i = 0; i < x->n && kind == 1; i++)
        store_day(x->of[i]);
    if (kind == 2) {
        draw_keys(d, x->of[0], b, 10);
        remove_from_all(x, b);
    }
    for (uint32_t i = 0; i < x->n && kind < 6; i++)
        for (uint32_t k = dice_below(d, 4); k > 0; k--)
            store_work(x->of[i], 0);
    if (kind < 6)
        return;
    struct store_push p = draw_push(d, x->of[0], b);
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
        check_same_partition(x->of[0], x->of[1 + p % (x->n - 1)], p);
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
    struct batch *b = mem_alloc(sizeof(*b));
    for (uint32_t i = 0; i < SETTINGS; i++) {
        struct table_config c = parse(&settings[i]);
        struct stores x = {.n = 4};
        struct dice d = {.seed = 100 + i};
        for (uint32_t k = 0; k < x.n; k++)
            x.of[k] = open_store(&c, settings[i].bits, 0);
        for (uint32_t k = 0; k < (SLOW ? 200 : 1000); k++) {
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

// Loads: what was read out and put into another store goes on as if nothing had been.

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
    struct batch *b = mem_alloc(sizeof(*b));
    for (uint32_t i = 0; i < SETTINGS; i++) {
        struct table_config c = parse(&settings[i]);
        struct stores x = {.n = 1}, two = {.n = 2};
        struct dice d = {.seed = 200 + i};
        if (settings[i].budget > 0)
            continue; // rows without scores go by age, and a save does not tell theirs
        x.of[0] = open_store(&c, settings[i].bits, 0);
        for (uint32_t k = 0; k < 200; k++)
            do_to_all(&x, &d, b);
        OK(store_finish(x.of[0], &ok_e));
        struct store *copy = open_store(&c, settings[i].bits, 0);
        draw_keys(&d, copy, b, 60); // what lies there is replaced
        draw_values(&d, copy, b, STORE_ASSIGN);
        struct store_push p = {.op = STORE_ASSIGN, .keys = b->keys, .n = b->n};
        p.values = b->values;
        OK(store_push(copy, &p, NULL, &ok_e));
        OK(store_order(copy, STORE_CLEAR, NAN, &ok_e));
        copy_store(x.of[0], copy);
        copy_store(x.of[0], copy);
        assert_int_equal(store_stats(copy).changed, 0);
        store_loaded(x.of[0]);
        two.of[0] = x.of[0];
        two.of[1] = copy;
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

// Memory that fails.

// What is done is done once more until it succeeds; it must be as if it had at once.
static void push_until_done(struct store *s, const struct store_push *p)
{
    struct store_push rest = *p;
    uint32_t width = store_value_width(s, p->op);
    for (;;) {
        struct err e;
        size_t done = 0, at = 0;
        int rc = store_push(s, &rest, &done, &e);
        if (rc == 0)
            return;
        assert_int_equal(rc, TUG_ENOMEM);
        for (uint32_t parts = 0; at < rest.n; at++) {
            parts += at == 0 || store_partition(s, rest.keys[at]) !=
                                    store_partition(s, rest.keys[at - 1]);
            if (parts > done)
                break;
        }
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

static void fail_everywhere(struct store *s, struct dice *d, struct batch *b)
{
    uint64_t key = key_of(1);
    float row[64] = {1};
    for (uint32_t k = 0; k < 12; k++) {
        struct store_push p = draw_push(d, s, b);
        push_until_done(s, &p);
        store_set_step(s, k);
    }
    OK(store_order(s, STORE_SHRINK, NAN, &ok_e));
    struct store_push p = draw_push(d, s, b);
    push_until_done(s, &p); // gives turns
    again(store_finish(s, NULL));
    OK(store_finish(s, &ok_e));
    again(store_put_rows(s, &key, 1, row, NULL));
    OK(store_put_rows(s, &key, 1, row, &ok_e));
    draw_keys(d, s, b, 30);
    again(store_remove(s, b->keys, b->n, NULL));
    OK(store_remove(s, b->keys, b->n, &ok_e));
    OK(store_order(s, STORE_CLEAR, 0, &ok_e));
    store_work(s, 0);
    for (uint32_t k = 0; k < 3; k++) {
        p = draw_push(d, s, b);
        push_until_done(s, &p);
    }
    again(store_finish(s, NULL));
    OK(store_finish(s, &ok_e));
}

static void test_without_memory(void **state)
{
    // Without budgets: what can't be removed for lack of memory is removed later.
    static const uint32_t of[] = {0, 8, 9, 13};
    (void)state;
    struct batch *b = mem_alloc(sizeof(*b));
    for (size_t i = 0; i < sizeof(of) / sizeof(*of); i++) {
        struct table_config c = parse(&settings[of[i]]);
        struct store *good = open_store(&c, settings[of[i]].bits, 0);
        struct dice dice = {.seed = 300 + i};
        fail_everywhere(good, &dice, b);
        bool faulted = true;
        for (long n = 0; faulted; n += SLOW ? 7 : 1) {
            struct store *s = open_store(&c, settings[of[i]].bits, 0);
            dice = (struct dice){.seed = 300 + i};
            mem_fault_after(n);
            fail_everywhere(s, &dice, b);
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

static void test_opening(void **state)
{
    (void)state;
    struct table_config c = parse(&settings[0]);
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
        assert_true(rc == TUG_ENOMEM || rc == 0); // an index may do with less
        store_close(s);
        assert_int_equal(mem_live(), before);
    }
    store_close(s);
    store_close(NULL);
    assert_int_equal(mem_live(), before);
    snprintf(c.accessor.name, sizeof(c.accessor.name), "nothing");
    assert_int_equal(store_open(&s, &o, &e), TUG_EUSAGE);
}

// Limits and bad input.

static void test_max_bytes(void **state)
{
    (void)state;
    struct table_config c = parse(&settings[0]);
    struct store *s = open_store(&c, 3, 8 << 10);
    struct batch *b = mem_alloc(sizeof(*b));
    struct dice d = {.seed = 1};
    struct err e;
    int rc = 0;
    draw_keys(&d, s, b, KEYS);
    for (uint32_t i = 0; i < KEYS; i++)
        b->which[i] = i;
    qsort(b->which, KEYS, sizeof(*b->which), by_partition);
    for (uint32_t i = 0; i < KEYS; i++)
        b->keys[i] = key_of(b->which[i]);
    b->n = KEYS;
    draw_values(&d, s, b, STORE_GRADIENT);
    struct store_push p = {.keys = b->keys, .n = KEYS, .values = b->values};
    p.rate = p.scale = 1;
    size_t done;
    for (uint32_t i = 0; i < 20 && rc == 0; i++)
        rc = store_push(s, &p, &done, &e);
    assert_int_equal(rc, TUG_ENOMEM);
    assert_non_null(strstr(e.text, "8192 bytes"));
    assert_true(done < 8);
    uint64_t rows = store_stats(s).rows;
    assert_true(rows > 100 && rows < KEYS);
    assert_true(rows * 48 < 8 << 10);
    OK(store_order(s, STORE_CLEAR, NAN, &ok_e));
    p.n = 30; // there is room again
    OK(store_push(s, &p, &done, &ok_e));
    mem_free(b);
    store_close(s);
}

static void test_bad_input(void **state)
{
    (void)state;
    struct table_config c = parse(&settings[1]); // count
    struct store *s = open_store(&c, 4, 0);
    struct err e;
    float values[2 * PUSH_MAX] = {0};
    uint64_t keys[2] = {key_of(1), key_of(2)};
    if (store_partition(s, keys[0]) < store_partition(s, keys[1])) {
        keys[0] = key_of(2);
        keys[1] = key_of(1);
    }
    assert_true(store_partition(s, keys[0]) > store_partition(s, keys[1]));
    struct store_push p = {.keys = keys, .n = 2, .values = values, .op = STORE_ASSIGN};
    assert_int_equal(store_push(s, &p, NULL, &e), TUG_EUSAGE);
    assert_int_equal(store_pull(s, keys, 2, values, NULL, &e), TUG_EUSAGE);
    assert_int_equal(store_remove(s, keys, 2, &e), TUG_EUSAGE);
    assert_int_equal(store_stats(s).rows, 0);
    p.n = 0;
    OK(store_push(s, &p, NULL, &ok_e));
    assert_int_equal(store_put_extras(s, keys, 1, values, &e), TUG_EDATA);
    struct buf b = BUF_INIT(1 << 20);
    p.op = STORE_GRADIENT;
    p.n = 1;
    OK(store_push(s, &p, NULL, &ok_e)); // counted
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
        cmocka_unit_test(test_against_naive), cmocka_unit_test(test_one_and_three),
        cmocka_unit_test(test_loads),         cmocka_unit_test(test_without_memory),
        cmocka_unit_test(test_opening),       cmocka_unit_test(test_max_bytes),
        cmocka_unit_test(test_bad_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
