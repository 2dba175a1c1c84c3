// See naive_store.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/naive_store.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/random.h"
#include "kit/test.h"

uint64_t naive_key(uint32_t i)
{
    return mix64(i * 77 + 1);
}

uint32_t naive_partition(const struct naive *m, uint64_t key)
{
    uint64_t x = m->config->place == CONFIG_RANGE ? key : mix64(key);
    return m->bits == 0 ? 0 : (uint32_t)(x >> (64 - m->bits));
}

void naive_open(struct naive *m, const struct store *s, uint32_t bits)
{
    memset(m, 0, sizeof(*m));
    m->config = store_config(s);
    m->a = store_accessor(s);
    m->bits = bits;
    m->life = m->a->pushed_stats > 0;
    m->wide = strcmp(m->config->accessor.name, "ctr_double") == 0;
    m->dim = m->config->accessor.dim;
    assert_true(m->dim <= DIM_MAX);
    for (uint32_t i = 0; i < KEYS; i++)
        m->keys[i] = naive_key(i);
}

void naive_close(struct naive *m)
{
    for (uint32_t p = 0; p < PARTS_MAX; p++)
        entry_close(m->oracle[p]);
}

// ---------------------------------------------------------------- update rules

static double square_mean(const double *g, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += g[i] * g[i];
    return sum / n;
}

static void naive_rule(const struct rule_params *r, double factor, struct vector *x,
                       const double *g, uint32_t n)
{
    double lr = (double)r->lr * factor, beta = (double)r->beta, g0 = (double)r->g0;
    double mean = square_mean(g, n), before = x->n;
    x->n += mean;
    for (uint32_t i = 0; i < n; i++) {
        if (g[i] == 0 && r->kind != RULE_ASSIGN)
            continue;
        double old = x->v[i];
        switch (r->kind) {
        case RULE_SGD:
            x->w[i] -= lr * g[i];
            break;
        case RULE_SUM:
            x->w[i] += g[i];
            break;
        case RULE_ASSIGN:
            x->w[i] = g[i];
            break;
        case RULE_MOMENTUM:
            x->m[i] = (double)r->beta1 * x->m[i] + g[i];
            x->w[i] -= lr * x->m[i];
            break;
        case RULE_ADAGRAD:
            x->v[i] += g[i] * g[i];
            x->w[i] -= lr * g[i] / (beta + sqrt(x->v[i]));
            break;
        case RULE_ADAGRAD_SHARED:
            x->w[i] -= lr * g[i] * sqrt(g0 / (g0 + before));
            break;
        case RULE_FTRL:
            if (old == 0) // sets the state that gives the initial weight
                x->m[i] = -x->w[i] * beta / lr;
            x->v[i] += g[i] * g[i];
            x->m[i] += g[i] - (sqrt(x->v[i]) - sqrt(old)) / lr * x->w[i];
            x->w[i] = -x->m[i] / ((beta + sqrt(x->v[i])) / lr);
            break;
        default:
            fail_msg("the naive store has no rule %d", (int)r->kind);
        }
    }
}

static void naive_first(const struct naive *m, uint64_t key, uint32_t column, uint32_t n,
                        float low, float high, const struct rule_params *r,
                        struct vector *ret)
{
    *ret = (struct vector){0};
    for (uint32_t i = 0; i < n; i++) {
        uint64_t seed = m->config->seed ^ mix64(STORES_ID);
        float x = low + (high - low) * random_f32(seed, key, column + i);
        ret->w[i] = (double)(x < high ? x : low);
        ret->v[i] = (double)r->n0;
    }
}

// ---------------------------------------------------------------- the lifecycle of rows

static double score_of(const struct naive *m, double show, double click)
{
    const struct life *l = &m->config->accessor.life;
    return (double)(float)((double)l->nonclick * (show - click) +
                           (double)l->click * click);
}

static double naive_score(const struct naive *m, const struct naive_row *x)
{
    return m->wide ? score_of(m, x->wide_show, x->wide_click)
                   : score_of(m, (double)x->show, (double)x->click);
}

static bool naive_earned(const struct naive *m, const struct naive_row *x)
{
    float least = m->config->accessor.life.embedx_threshold;
    return m->a->extra_width > 0 && (least <= 0 || naive_score(m, x) >= (double)least);
}

static void naive_make_extra(struct naive *m, uint32_t i)
{
    const struct table_config *c = m->config;
    struct naive_row *x = &m->rows[i];
    x->extra = true;
    naive_first(m, m->keys[i], m->a->width, m->dim, c->extra_low, c->extra_high,
                &c->accessor.extra, &x->embedx);
}

uint32_t naive_embed_width(const struct naive *m)
{
    return m->life ? 1 : m->dim;
}

static void naive_begin(struct naive *m, uint32_t i, struct naive_row *x)
{
    const struct table_config *c = m->config;
    *x = (struct naive_row){.there = true,
                            .made = m->made,
                            .changed = true,
                            .slot = -1,
                            .day = m->day,
                            .step = m->step,
                            .candidate = x->candidate};
    naive_first(m, m->keys[i], 0, naive_embed_width(m), c->init_low, c->init_high,
                &m->a->groups[0].rule, &x->embed);
}

void naive_make(struct naive *m, uint32_t i)
{
    naive_begin(m, i, &m->rows[i]);
    m->made++;
    if (m->life && m->config->accessor.life.embedx_threshold <= 0 &&
        m->a->extra_width > 0)
        naive_make_extra(m, i);
}

void naive_remove(struct naive *m, uint32_t i)
{
    m->rows[i].there = m->rows[i].changed = m->rows[i].extra = false;
    m->gone[i] = true;
}

// Returns whether the entry policy admits row i. `again` is true if the push repeats
// examples that were counted before.
static bool naive_admit(struct naive *m, uint32_t i, float show, float click, bool again)
{
    const struct entry_options *o = &m->config->entry;
    struct naive_row *x = &m->rows[i];
    if (*o->policy == '\0' || strcmp(o->policy, "none") == 0)
        return true;
    if (strcmp(o->policy, "count") == 0)
        x->candidate += again ? 0 : o->by_shows ? (double)show : 1;
    else if (strcmp(o->policy, "show-click") == 0)
        x->candidate += again ? 0
                              : (double)o->nonclick * ((double)show - (double)click) +
                                    (double)o->click * (double)click;
    else {
        struct entry_options seeded = *o;
        uint32_t p = naive_partition(m, m->keys[i]);
        seeded.seed = m->config->seed ^ mix64(STORES_ID);
        if (m->oracle[p] == NULL)
            OK(entry_open(&m->oracle[p], &seeded, &ok_e));
        return again ? entry_again(m->oracle[p], m->keys[i])
                     : entry_admit(m->oracle[p], m->keys[i], show, click);
    }
    if (x->candidate < (double)o->threshold)
        return false;
    x->candidate = 0;
    return true;
}

static void naive_gradient(struct naive *m, uint32_t i, const float *values, double scale,
                           double rate, bool again)
{
    struct naive_row *x = &m->rows[i];
    const struct life *l = &m->config->accessor.life;
    double g[DIM_MAX];
    uint32_t n = naive_embed_width(m);
    x->changed = true;
    if (m->life) {
        float show = values[1 + m->dim], click = values[2 + m->dim];
        if ((float)(m->day - x->day) > l->delta_keep_days)
            x->delta = fmaxf(x->delta, l->delta_threshold);
        if (!again) {
            x->show += show;
            x->click += click;
            x->wide_show += (double)show;
            x->wide_click += (double)click;
            x->delta += (float)score_of(m, (double)show, (double)click);
        }
        x->slot = values[3 + m->dim];
        x->day = m->day;
        x->step = m->step;
        if (!x->extra && naive_earned(m, x))
            naive_make_extra(m, i);
        if (l->show_scale && show > 0)
            scale /= (double)show;
    }
    for (uint32_t k = 0; k < n; k++)
        g[k] = (double)values[k] * scale;
    naive_rule(&m->a->groups[0].rule, rate, &x->embed, g, n);
    for (uint32_t k = 0; k < m->dim && x->extra; k++)
        g[k] = (double)values[1 + k] * scale;
    if (x->extra)
        naive_rule(&m->config->accessor.extra, rate, &x->embedx, g, m->dim);
}

static void naive_weights(struct naive *m, uint32_t i, const float *values)
{
    struct naive_row *x = &m->rows[i];
    uint32_t n = naive_embed_width(m);
    bool zero = true;
    x->changed = true;
    for (uint32_t k = 0; k < n; k++)
        x->embed.w[k] = (double)values[k];
    for (uint32_t k = 0; m->life && k < m->dim; k++)
        zero = zero && values[n + k] == 0;
    if (!zero && !x->extra)
        naive_make_extra(m, i);
    for (uint32_t k = 0; x->extra && k < m->dim; k++)
        x->embedx.w[k] = (double)values[n + k];
}

// Returns whether row a is removed before row b when a table has too many rows.
static bool naive_before(const struct naive *m, uint32_t a, uint32_t b)
{
    const struct naive_row *x = &m->rows[a], *y = &m->rows[b];
    if (!m->life)
        return x->made < y->made;
    if (naive_score(m, x) != naive_score(m, y))
        return naive_score(m, x) < naive_score(m, y);
    return x->day != y->day ? x->day < y->day : m->keys[a] < m->keys[b];
}

static void naive_budget(struct naive *m, uint32_t p)
{
    uint64_t share = m->config->budget_rows >> m->bits, live = 0;
    share = share > 0 ? share : 1;
    for (uint32_t i = 0; i < KEYS; i++)
        live += m->rows[i].there && naive_partition(m, m->keys[i]) == p;
    if (m->config->budget_rows == 0 || live <= share)
        return;
    uint64_t stay = (uint64_t)((double)m->config->budget_floor * (double)share);
    for (stay = stay > 0 ? stay : 1; live > stay; live--) {
        uint32_t worst = KEYS;
        for (uint32_t i = 0; i < KEYS; i++)
            if (m->rows[i].there && naive_partition(m, m->keys[i]) == p &&
                (worst == KEYS || naive_before(m, i, worst)))
                worst = i;
        naive_remove(m, worst);
        m->by_budget++;
    }
}

void naive_push(struct naive *m, const struct store_push *p, const uint32_t *which)
{
    uint32_t width = m->life ? 1 + m->dim : m->dim;
    const struct rate *r = &m->config->rate;
    double rate = (double)p->rate;
    bool again = p->again && !m->config->count_all;
    if (r->kind == RATE_INVERSE_TIME)
        rate /= 1 + (double)r->factor * (double)m->step / (double)r->steps;
    if (p->op == STORE_GRADIENT)
        width = m->a->push_width;
    for (size_t k = 0; k < p->n; k++) {
        uint32_t i = which[k];
        const float *values = p->values + k * width;
        float show = m->life ? values[1 + m->dim] : 1;
        float click = m->life ? values[2 + m->dim] : 0;
        bool wanted = m->rows[i].there || p->op != STORE_GRADIENT ||
                      naive_admit(m, i, show, click, again);
        m->refused += !wanted;
        if (wanted && !m->rows[i].there)
            naive_make(m, i);
        if (wanted && p->op == STORE_GRADIENT)
            naive_gradient(m, i, values, (double)p->scale, rate, again);
        else if (wanted)
            naive_weights(m, i, values);
        uint32_t here = naive_partition(m, m->keys[i]);
        if (k + 1 == p->n || naive_partition(m, m->keys[which[k + 1]]) != here)
            naive_budget(m, here);
    }
}

// Marks a row that no longer reaches the publishing threshold as changed enough to be
// published again.
static void naive_unpublish(const struct naive *m, struct naive_row *x)
{
    x->delta = fmaxf(x->delta, m->config->accessor.life.delta_threshold);
}

void naive_shrink(struct naive *m, float threshold)
{
    const struct life *l = &m->config->accessor.life;
    double least = (double)(isnan(threshold) ? l->delete_threshold : threshold);
    for (uint32_t i = 0; i < KEYS; i++) {
        struct naive_row *x = &m->rows[i];
        if (!x->there || !m->life)
            continue;
        bool worth = naive_score(m, x) >= (double)l->base_threshold;
        x->show *= l->decay;
        x->click *= l->decay;
        x->wide_show *= (double)l->decay;
        x->wide_click *= (double)l->decay;
        bool low = naive_score(m, x) < least;
        if (worth && naive_score(m, x) < (double)l->base_threshold)
            naive_unpublish(m, x);
        bool old = (float)(m->day - x->day) > l->delete_after_days;
        bool late = l->ttl_steps > 0 && m->step - x->step >= l->ttl_steps;
        m->by_score += low;
        m->by_age += !low && old;
        m->by_ttl += !low && !old && late;
        if (low || old || late)
            naive_remove(m, i);
        else
            x->changed = x->changed || l->decay != 1;
    }
}

void naive_clear(struct naive *m)
{
    for (uint32_t i = 0; i < KEYS; i++) {
        if (m->rows[i].there)
            naive_remove(m, i);
        m->rows[i].candidate = 0;
    }
    for (uint32_t p = 0; p < PARTS_MAX; p++) {
        entry_close(m->oracle[p]);
        m->oracle[p] = NULL;
    }
}

// ------------------------------------------- comparing the naive store with the real one

void naive_assert_near(uint64_t key, const char *what, double x, double y)
{
    if (!(fabs(x - y) <= 2e-5 * (1 + fabs(y))))
        fail_msg("key %llx: %s is %.9g, not %.9g", (unsigned long long)key, what, x, y);
}

static void check_stats(const struct naive *m, uint64_t key, const float *row,
                        const struct naive_row *x)
{
    const float *at = row + m->a->stats;
    double show = (double)at[LIFE_SHOW], click = (double)at[LIFE_CLICK];
    if (m->wide) {
        memcpy(&show, at + LIFE_SHOW, sizeof(show));
        memcpy(&click, at + LIFE_SHOW + 2, sizeof(click));
    }
    if (show != (m->wide ? x->wide_show : (double)x->show) ||
        click != (m->wide ? x->wide_click : (double)x->click))
        fail_msg("key %llx: %.17g shows, %.17g clicks", (unsigned long long)key, show,
                 click);
    assert_true(at[LIFE_SLOT] == x->slot);
    assert_true(at[LIFE_DAY] == (float)x->day);
    assert_true(at[LIFE_DELTA] == x->delta);
}

void naive_check_row(const struct naive *m, const struct store *s, uint32_t i)
{
    const struct naive_row *x = &m->rows[i];
    const float *extra, *row = store_row(s, m->keys[i], &extra);
    if (x->there != (row != NULL))
        fail_msg("key %u: row %d, not %d", i, row != NULL, x->there);
    if (row == NULL)
        return;
    if (m->life)
        check_stats(m, m->keys[i], row, x);
    for (uint32_t k = 0; k < naive_embed_width(m); k++)
        naive_assert_near(m->keys[i], "embed", (double)row[k], x->embed.w[k]);
    assert_int_equal(x->extra, extra != NULL);
    for (uint32_t k = 0; k < m->dim && extra != NULL; k++)
        naive_assert_near(m->keys[i], "embedx", (double)extra[k], x->embedx.w[k]);
}

// ---------------------------------------------------------------- settings and batches

#define LIFE                                                                             \
    "delete-threshold=0.3; embedx-threshold=3; delete-after-days=4; embedx-init=0.1; "
#define CTR "accessor=ctr; dim=4; rule=adagrad; embedx-rule=adagrad; " LIFE
const struct naive_setting naive_settings[NAIVE_SETTINGS] = {
    {CTR, "", 3, 0},
    {CTR, "entry=count:3; rate=inverse-time:steps=5,factor=0.1", 0, 0},
    {CTR, "entry=count:4:shows; placement=range; deltas=no; count-passes=all", 2, 0},
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

struct table_config naive_config(const struct naive_setting *x)
{
    struct table_config c = table_config_defaults();
    OK(table_config_parse(&c, x->text, &ok_e));
    OK(table_config_parse(&c, x->more, &ok_e));
    OK(table_config_check(&c, &ok_e));
    if (x->budget > 0)
        c.budget_rows = x->budget;
    return c;
}

// Batches of random keys, sorted by partition. Popular keys occur more often.

static const struct store *sorting_by; // for by_partition: qsort passes no context

static int by_partition(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    uint32_t p = store_partition(sorting_by, naive_key(*x));
    uint32_t q = store_partition(sorting_by, naive_key(*y));
    return p != q ? (p > q) - (p < q) : (int)(*x * 7 % 11) - (int)(*y * 7 % 11);
}

void naive_sort(const struct store *s, struct naive_batch *b)
{
    sorting_by = s;
    qsort(b->which, b->n, sizeof(*b->which), by_partition);
    for (size_t i = 0; i < b->n; i++)
        b->keys[i] = naive_key(b->which[i]);
}

void naive_draw_keys(struct rng *d, const struct store *s, struct naive_batch *b,
                     size_t most)
{
    bool taken[KEYS] = {false};
    size_t want = 1 + rng_below_u32(d, (uint32_t)most);
    b->n = 0;
    for (size_t i = 0; i < want; i++) {
        uint32_t x = rng_below_u32(d, KEYS), y = rng_below_u32(d, KEYS), k = x * y / KEYS;
        if (!taken[k])
            b->which[b->n++] = k;
        taken[k] = true;
    }
    naive_sort(s, b);
}

void naive_draw_values(struct rng *d, const struct store *s, struct naive_batch *b,
                       enum store_op op)
{
    const struct accessor *a = store_accessor(s);
    uint32_t width = stores_value_width(s, op);
    float *at = b->values;
    assert_true(width <= PUSH_MAX);
    for (size_t i = 0; i < b->n; i++, at += width) {
        bool zeros = rng_below_u32(d, 4) == 0;
        for (uint32_t k = 0; k < width; k++)
            at[k] = zeros && k > 0 ? 0 : (float)((int)rng_below_u32(d, 9) - 4) / 4;
        if (op != STORE_GRADIENT || a->pushed_stats == 0)
            continue;
        uint32_t show = rng_below_u32(d, 4);
        at[width - 3] = (float)show;
        at[width - 2] = (float)(show > 0 ? rng_below_u32(d, show) : 0);
        at[width - 1] = (float)rng_below_u32(d, 30);
    }
}

struct store_push naive_draw_push(struct rng *d, const struct store *s,
                                  struct naive_batch *b)
{
    struct store_push p = {.keys = b->keys, .values = b->values, .rate = 1, .scale = 1};
    uint32_t kind = rng_below_u32(d, 16);
    p.op = kind <= 1 ? STORE_ASSIGN : STORE_GRADIENT;
    if (kind == 2)
        p.scale = 0.5f;
    if (kind == 3)
        p.rate = 0.25f;
    p.again = rng_below_u32(d, 3) == 0;
    naive_draw_keys(d, s, b, 60);
    naive_draw_values(d, s, b, p.op);
    p.n = b->n;
    return p;
}
