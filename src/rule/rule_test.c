// Compares update rules with the formulas of kernels/rule_kind.h in double precision,
// over long random sequences of updates.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "base/random.h"
#include "kit/test.h"
#include "rule/rule.h"

enum { MAX_N = 19, MAX_STATE = 3 * MAX_N + 4, STEPS = 1000 };
static const uint64_t SEED = 77;

// A row in double precision, as the formulas define it.
struct book {
    struct rule_params p;
    size_t n;
    double w[MAX_N];
    double a[MAX_N], b[MAX_N], c[MAX_N]; // states of the weights
    double x, y;                         // states of the whole vector
    unsigned times;                      // number of updates of the vector
};

static double sign(double x)
{
    return x > 0 ? 1 : x < 0 ? -1 : 0;
}

static double proximal(const struct book *r, double w)
{
    double left = fabs(w) - (double)r->p.lr * (double)r->p.l1;
    return sign(w) * (left > 0 ? left : 0);
}

static bool takes_part(const struct book *r, double g)
{
    return g != 0 || r->p.dense;
}

static double mean_square(const struct book *r, const double *d)
{
    double sum = 0;
    for (size_t i = 0; i < r->n; i++)
        sum += d[i] * d[i];
    return sum / (double)r->n;
}

// Returns 1 - beta^t.
static double correction(double beta, unsigned t)
{
    return 1 - pow(beta, t);
}

// Applies the rules that update each weight by itself. In the formulas, d is the gradient
// plus the l2 term.
static void one_weight(struct book *r, size_t i, double l2, double g)
{
    double lr = r->p.lr, beta = r->p.beta, beta1 = r->p.beta1, beta2 = r->p.beta2;
    double d = g + l2 * r->w[i], w = r->w[i], *a = &r->a[i], *b = &r->b[i], *c = &r->c[i],
           g0 = r->p.g0;
    double adam_lr = lr * sqrt(correction(beta2, r->times)) / correction(beta1, r->times);
    switch (r->p.kind) {
    case RULE_SGD:
        w -= lr * d;
        break;
    case RULE_MOMENTUM:
        *a = beta1 * *a + d;
        w -= lr * *a;
        break;
    case RULE_ADAGRAD:
        *a += d * d;
        w -= lr * d / (beta + sqrt(*a));
        break;
    case RULE_RMSPROP:
        *a = beta2 * *a + (1 - beta2) * d * d;
        w -= lr * d / (beta + sqrt(*a));
        break;
    case RULE_ADAGRAD_STD:
        w -= lr * d * sqrt(g0 / (g0 + *a));
        *a += d * d;
        break;
    case RULE_ADAM:
    case RULE_ADAMW:
        *a = beta1 * *a + (1 - beta1) * d;
        *b = beta2 * *b + (1 - beta2) * d * d;
        if (r->p.kind == RULE_ADAMW)
            w -= lr * (double)r->p.decay * w;
        w -= adam_lr * *a / (sqrt(*b) + beta);
        break;
    case RULE_ADAM_D2SUM:
        *a = *a * beta2 + 1;
        *b = *b * beta2 + d * d;
        *c = (*c + d) * beta1 - d;
        w += lr * *c * sqrt((*a + *a * beta) / (*b + *a * beta));
        break;
    case RULE_SUM:
        r->w[i] += g;
        return;
    case RULE_SUMMARY:
        r->w[i] = r->w[i] * (double)r->p.decay + g;
        return;
    default:
        fail_msg("rule %d is of no single weights", (int)r->p.kind);
    }
    r->w[i] = proximal(r, w);
}

// Applies ftrl and ftrl-group.
static void ftrl(struct book *r, double l2, const double *g)
{
    double lr = r->p.lr, beta = r->p.beta, l1 = r->p.l1, length = 0;
    double t = (double)r->p.l21 * sqrt((double)r->n);
    bool group = r->p.kind == RULE_FTRL_GROUP;
    double u[MAX_N];
    for (size_t i = 0; i < r->n; i++)
        length += r->w[i] * r->w[i];
    for (size_t i = 0; i < r->n; i++) {
        double first = group ? t / sqrt(length) : 0;
        if (group ? r->times == 1 : takes_part(r, g[i]) && r->b[i] == 0)
            r->a[i] = -r->w[i] * (beta / lr + l2 + first) - sign(r->w[i]) * l1;
        double old = sqrt(r->b[i]);
        r->b[i] += g[i] * g[i];
        r->a[i] += g[i] - (sqrt(r->b[i]) - old) / lr * r->w[i];
    }
    length = 0;
    for (size_t i = 0; i < r->n; i++) {
        u[i] = fabs(r->a[i]) <= l1 ? 0 : r->a[i] - sign(r->a[i]) * l1;
        length += u[i] * u[i];
    }
    length = sqrt(length);
    for (size_t i = 0; i < r->n; i++) {
        double rest = !group ? 1 : length <= t ? 0 : 1 - t / length;
        if (group || takes_part(r, g[i]))
            r->w[i] = -rest * u[i] / ((beta + sqrt(r->b[i])) / lr + l2);
    }
}

static void lamb(struct book *r, double l2, const double *g)
{
    double beta1 = r->p.beta1, beta2 = r->p.beta2, step[MAX_N], of_w = 0, of_step = 0;
    for (size_t i = 0; i < r->n; i++) {
        double d = g[i] + l2 * r->w[i];
        step[i] = 0;
        of_w += r->w[i] * r->w[i];
        if (!takes_part(r, g[i]))
            continue;
        r->a[i] = beta1 * r->a[i] + (1 - beta1) * d;
        r->b[i] = beta2 * r->b[i] + (1 - beta2) * d * d;
        double m = r->a[i] / correction(beta1, r->times) *
                   sqrt(correction(beta2, r->times));
        step[i] = m / (sqrt(r->b[i]) + (double)r->p.beta) + (double)r->p.decay * r->w[i];
        of_step += step[i] * step[i];
    }
    double trust = of_w > 0 && of_step > 0 ? sqrt(of_w) / sqrt(of_step) : 1;
    for (size_t i = 0; i < r->n; i++)
        if (takes_part(r, g[i]))
            r->w[i] = proximal(r, r->w[i] - (double)r->p.lr * trust * step[i]);
}

static void adam_shared(struct book *r, const double *g, const double *d)
{
    double beta1 = r->p.beta1, beta2 = r->p.beta2, m_sum = 0, v_sum = 0;
    double lr = (double)r->p.lr * sqrt(correction(beta2, r->times)) /
                correction(beta1, r->times);
    for (size_t i = 0; i < r->n; i++) {
        double m = beta1 * r->x + (1 - beta1) * d[i];
        double v = beta2 * r->y + (1 - beta2) * d[i] * d[i];
        m_sum += m;
        v_sum += v;
        if (takes_part(r, g[i]))
            r->w[i] = proximal(r, r->w[i] - lr * m / (sqrt(v) + (double)r->p.beta));
    }
    r->x = m_sum / (double)r->n;
    r->y = v_sum / (double)r->n;
}

// Applies the rules that have a state for the whole vector.
static void whole_vector(struct book *r, double l2, const double *g)
{
    double d[MAX_N], rate = 0;
    for (size_t i = 0; i < r->n; i++)
        d[i] = takes_part(r, g[i]) ? g[i] + l2 * r->w[i] : 0;
    switch (r->p.kind) {
    case RULE_FTRL:
    case RULE_FTRL_GROUP:
        ftrl(r, l2, g);
        return;
    case RULE_LAMB:
        lamb(r, l2, g);
        return;
    case RULE_ADAM_SHARED:
        adam_shared(r, g, d);
        return;
    case RULE_ADAGRAD_SHARED:
        rate = (double)r->p.lr * sqrt((double)r->p.g0 / ((double)r->p.g0 + r->x));
        r->x += mean_square(r, d);
        break;
    default: // adagrad-v2, adagrad-row with one block
        r->x += mean_square(r, d);
        rate = (double)r->p.lr / ((double)r->p.beta + sqrt(r->x));
    }
    for (size_t i = 0; i < r->n; i++)
        if (takes_part(r, g[i]))
            r->w[i] = proximal(r, r->w[i] - rate * d[i]);
}

static bool is_of_vectors(enum rule_kind kind)
{
    static const enum rule_kind kinds[] = {
        RULE_ADAGRAD_ROW, RULE_ADAGRAD_SHARED, RULE_ADAGRAD_V2, RULE_ADAM_SHARED,
        RULE_FTRL,        RULE_FTRL_GROUP,     RULE_LAMB,
    };
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
        if (kinds[i] == kind)
            return true;
    return false;
}

static void book_update(struct book *r, double l2, const float *gradient)
{
    double g[MAX_N], length = 0;
    bool any = r->p.dense;
    for (size_t i = 0; i < r->n; i++) {
        g[i] = gradient[i];
        if (r->p.clip != 0)
            g[i] = fmin(fmax(g[i], -(double)r->p.clip), (double)r->p.clip);
        length += g[i] * g[i];
        any |= g[i] != 0;
    }
    length = sqrt(length);
    for (size_t i = 0; i < r->n; i++)
        if (r->p.clip_norm != 0 && length > (double)r->p.clip_norm)
            g[i] *= (double)r->p.clip_norm / length;
    r->times += any;
    bool values = r->p.kind == RULE_ASSIGN || r->p.kind == RULE_AVERAGE;
    if (is_of_vectors(r->p.kind) && any)
        whole_vector(r, l2, g);
    for (size_t i = 0; i < r->n; i++) {
        if (values)
            r->w[i] = g[i];
        else if (!is_of_vectors(r->p.kind) && takes_part(r, g[i]))
            one_weight(r, i, l2, g[i]);
        if (r->p.bounded)
            r->w[i] = fmin(fmax(r->w[i], (double)r->p.low), (double)r->p.high);
    }
}

// Updates a row as tables do: see rule.h.
static void update(const struct kernels *k, const struct rule_params *p, float l2,
                   float *w, float *s, const float *g, size_t n)
{
    float room[MAX_N];
    rule_apply(k, p->kind)(p, l2, w, s, rule_clip(k, p, g, n, room), n);
    if (p->bounded)
        k->bound(w, p->low, p->high, n);
}

// Fills with gradients of both signs, from hundredths to about 1. A third of them are 0,
// and every fifth vector is 0 altogether.
static void fill_gradient(float *g, size_t n, uint64_t step)
{
    bool none = random_below(SEED, 1, step, 5) == 0;
    for (size_t i = 0; i < n; i++) {
        float x = 2 * random_f32(SEED, 2 + step, i) - 1;
        bool zero = none || random_below(SEED, 5000 + step, i, 3) == 0;
        g[i] = zero ? 0 : x * x * x * 3;
    }
}

enum { PLAIN, DECAYS, DENSE, BOUNDED, CLIPPED, SHORT, ALL, VARIANTS };

static struct rule_params variant_of(enum rule_kind kind, int variant, size_t n)
{
    struct rule_params p = rule_defaults(kind);
    p.block = kind == RULE_ADAGRAD_ROW ? (uint32_t)n : 1;
    p.lr = p.lr > 0.02f ? p.lr : 0.02f;
    p.dense = variant == DENSE || variant == ALL;
    if (variant == DECAYS || variant == ALL) {
        p.l1 = 0.02f;
        p.l21 = 0.3f;
    }
    if (variant == BOUNDED || variant == ALL) {
        p.bounded = true;
        p.low = -0.25f;
        p.high = 0.125f;
    }
    p.clip = variant == CLIPPED || variant == ALL ? 0.3f : 0;
    p.clip_norm = variant == SHORT || variant == ALL ? 0.7f : 0;
    return p;
}

// Checks that over 1,000 updates each weight stays near the formula's. The allowed
// difference is 5e-5 times the largest value that the weight has had, and at least 5e-6.
// Each step rounds by about 1e-7, and these errors add up.
static void check_rule(const struct kernels *k, enum rule_kind kind, int variant,
                       size_t n)
{
    struct rule_params p = variant_of(kind, variant, n);
    struct book book = {.p = p, .n = n};
    float w[MAX_N], s[MAX_STATE], g[MAX_N];
    double most[MAX_N];
    float l2 = variant == DECAYS || variant == ALL ? 0.01f : 0;
    uint32_t n_state = rule_state(&p, (uint32_t)n);
    assert_true(n_state <= MAX_STATE);
    for (size_t i = 0; i < n; i++) {
        book.w[i] = w[i] = 0.2f * (random_f32(SEED, 9, i) - 0.5f);
        most[i] = 0.1;
        book.a[i] = kind == RULE_ADAGRAD || kind == RULE_RMSPROP ? (double)p.n0 : 0;
    }
    book.x = p.n0;
    for (size_t i = 0; i < MAX_STATE; i++)
        s[i] = i < n_state ? p.n0 : 12345;
    for (uint64_t step = 0; step < STEPS; step++) {
        fill_gradient(g, n, step);
        update(k, &p, l2, w, s, g, n);
        book_update(&book, (double)l2, g);
        for (size_t i = 0; i < n; i++) {
            most[i] = fmax(most[i], fabs(book.w[i]));
            if (!(fabs((double)w[i] - book.w[i]) <= 5e-5 * most[i]))
                fail_msg("%s, %s, variant %d, weight %zu of %zu after %llu updates: %g, "
                         "not %g",
                         rule_info(kind)->name, k->name, variant, i, n,
                         (unsigned long long)step + 1, (double)w[i], book.w[i]);
        }
    }
    for (size_t i = n_state; i < MAX_STATE; i++)
        assert_true(s[i] == 12345);
}

static void formulas(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 3, 8, 19};
    const struct kernels *levels[] = {kernels_named("ref"), kernels_get()};
    for (int level = 0; level < 2; level++)
        for (int kind = 0; kind < RULE_KINDS; kind++)
            for (int variant = 0; variant < VARIANTS; variant++)
                for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
                    check_rule(levels[level], (enum rule_kind)kind, variant, sizes[i]);
}

// After gradients that are infinite, very large or not a number, all weights are finite,
// and the rule continues to learn.
static void wild_gradients(void **state)
{
    (void)state;
    static const float wild[] = {NAN, INFINITY, -INFINITY, 3e38f};
    enum { N = 11 };
    for (int kind = 0; kind < RULE_KINDS; kind++)
        for (size_t which = 0; which < 4; which++) {
            struct rule_params p = variant_of((enum rule_kind)kind, BOUNDED, N);
            float w[N], s[MAX_STATE], g[N], before[N];
            for (size_t i = 0; i < N; i++)
                w[i] = 0.01f * (float)(i + 1);
            for (size_t i = 0; i < MAX_STATE; i++)
                s[i] = p.n0;
            for (uint64_t step = 0; step < 20; step++) {
                fill_gradient(g, N, step);
                g[0] = 0.5f;
                g[5] = step == 3 ? wild[which] : 0.25f;
                memcpy(before, w, sizeof(w));
                update(kernels_get(), &p, 0, w, s, g, N);
                for (size_t i = 0; i < N; i++)
                    assert_true(w[i] >= p.low && w[i] <= p.high);
                if (step == 3 && !isfinite(wild[which]) && kind != RULE_FTRL_GROUP)
                    assert_true(w[5] == before[5]);
            }
            for (uint32_t i = 0; i < rule_state(&p, N); i++)
                assert_true(isfinite(s[i]));
            assert_true(memcmp(before, w, sizeof(w)) != 0 || kind == RULE_ASSIGN ||
                        kind == RULE_AVERAGE || w[0] == p.low || w[0] == p.high);
        }
}

// All weights of a vector become zero at once, and can become non-zero again; with l21 = 0
// the rule equals ftrl.
static void group_lasso(void **state)
{
    (void)state;
    enum { N = 8 };
    const struct kernels *k = kernels_get();
    struct rule_params p = rule_defaults(RULE_FTRL_GROUP);
    float w[2][N] = {{0}}, s[2][2 * N] = {{0}}, g[N];
    bool back = false;
    p.l21 = 0.35f;
    for (int step = 1; step < 40; step++) {
        for (size_t i = 0; i < N; i++)
            g[i] = step < 10 ? 0.1f : -0.1f;
        k->apply[RULE_FTRL_GROUP](&p, 0, w[0], s[0], g, N);
        // z is 0.1 times the step while w is 0.
        for (size_t i = 0; i < N && step < 10; i++)
            assert_true((w[0][i] == 0) == (step <= 3));
        for (size_t i = 0; i < N; i++)
            assert_true((w[0][i] == 0) == (w[0][0] == 0));
        back |= step >= 10 && w[0][0] == 0;
    }
    assert_true(back && w[0][0] > 0);
    memset(w, 0, sizeof(w));
    memset(s, 0, sizeof(s));
    p.l21 = 0;
    p.l1 = 0.05f;
    for (int side = 0; side < 2; side++)
        for (uint64_t step = 0; step < 200; step++) {
            for (size_t i = 0; i < N; i++) {
                w[side][i] = step == 0 ? 0.1f * random_f32(SEED, 8, i) : w[side][i];
                g[i] = random_f32(SEED, 10 + step, i) - 0.3f;
            }
            k->apply[side ? RULE_FTRL : RULE_FTRL_GROUP](&p, 0.01f, w[side], s[side], g,
                                                         N);
        }
    assert_memory_equal(w[0], w[1], sizeof(w[0]));
    assert_memory_equal(s[0], s[1], sizeof(s[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formulas),
        cmocka_unit_test(wild_gradients),
        cmocka_unit_test(group_lasso),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
