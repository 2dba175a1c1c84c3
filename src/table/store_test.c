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
    {CTR, "", 3},
    {CTR, "entry=count:3; rate=inverse-time:steps=5,factor=0.1", 0},
    {CTR, "entry=count:4:shows; placement=range; deltas=no", 2},
    {CTR, "entry=show-click:2; budget-rows=100; budget-floor=0.5", 3},
    {CTR, "entry=probability:0.5; show-scale=no; decay=1", 6},
    {CTR, "entry=bloom:2:capacity=64:error=0.2; ttl-steps=40", 1},
    {CTR, "entry=sketch:3:error=0.05; embedx-threshold=0", 2},
    {"accessor=ctr_double; dim=2; rule=adagrad-shared; embedx-rule=sgd; " LIFE, "", 3},
    {"accessor=ctr_double; dim=0; rule=momentum; decay=0.5; " LIFE, "", 0},
    {"accessor=sparse; dim=3; rule=ftrl:l1=0,l2=0; embedx-rule=adagrad-shared; " LIFE, "",
     4},
    {"accessor=sparse; dim=1; rule=sum; embedx-rule=sum; budget-rows=64; " LIFE, "", 4},
    {"accessor=plain; dim=3; rule=adagrad; init=0.5", "", 3},
    {"accessor=plain; dim=1; rule=sgd; deltas=yes; seed=9", "", 2, 80},
    {"accessor=plain; dim=8; rule=assign; entry=count:2; deltas=yes", "", 3},
    {"accessor=merge; dim=2; placement=range", "", 4},
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
    const struct key_list *l = &s->parts[store_partition(s, key)].gone;
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
        }
        check_all(s, m);
        naive_close(m);
        store_close(s);
    }
    mem_free(m);
    mem_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_naive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
