// Compares optimizers with MXNet's formulas, written a second time here in doubles. Also
// tests schedules of the learning rate, multipliers of keys, and states in files.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "doors/kvstore/array.h"
#include "kit/kvstores.h"
#include "kit/rng.h"
#include "runtime/last_error.h"

// -------------------------------------------------------- the formulas of the optimizers

#define LR 0.05
#define WD 0.01

struct naive {
    double w[N], s[3][N], product;
    int t;
};

static double sign(double x)
{
    return (x > 0) - (x < 0);
}

static double norm(const double *x)
{
    double sum = 0;
    for (int i = 0; i < N; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

// Returns the new value of one weight. g is the scaled and clipped gradient; d is g plus
// the weight decay.
static double naive_new(const char *name, struct naive *n, int i, double g, double d)
{
    double w = n->w[i], *a = &n->s[0][i], *b = &n->s[1][i], *c = &n->s[2][i];
    double b1 = 1 - pow(0.9, n->t), b2 = 1 - pow(0.999, n->t), was;
    if (strcmp(name, "ftrl") == 0) {
        was = sqrt(*b);
        *b += g * g;
        *a += g - (sqrt(*b) - was) / LR * w;
        return fabs(*a) <= 0.01
                   ? 0
                   : -sign(*a) * (fabs(*a) - 0.01) / ((1 + sqrt(*b)) / LR + WD);
    }
    if (strcmp(name, "adamw") == 0) {
        *a = 0.9 * *a + 0.1 * g;
        *b = 0.999 * *b + 0.001 * g * g;
        return w - LR * sqrt(b2) / b1 * (*a / (sqrt(*b) + 1e-6) + WD * w);
    }
    if (strcmp(name, "adadelta") == 0) {
        *a = 0.9 * *a + 0.1 * d * d;
        double step = sqrt(*b + 1e-6) / sqrt(*a + 1e-6) * d;
        *b = 0.9 * *b + 0.1 * step * step;
        return w - LR * step;
    }
    if (strcmp(name, "ftml") == 0) { // with its default beta1, 0.6
        *b = 0.999 * *b + 0.001 * d * d;
        double now = (1 - pow(0.6, n->t)) / LR * (sqrt(*b / b2) + 1e-8);
        *c = 0.6 * *c + 0.4 * d - (now - 0.6 * *a) * w;
        *a = now;
        return -*c / now;
    }
    if (strcmp(name, "nadam") == 0) {
        double m = 0.9 * (1 - 0.5 * pow(0.96, n->t * 0.004));
        double next = 0.9 * (1 - 0.5 * pow(0.96, (n->t + 1) * 0.004));
        *a = 0.9 * *a + 0.1 * d;
        *b = 0.999 * *b + 0.001 * d * d;
        double bar = next * (*a / (1 - n->product * next)) +
                     (1 - m) * (d / (1 - n->product));
        return w - LR * bar / (sqrt(*b / b2) + 1e-8);
    }
    if (strcmp(name, "adamax") == 0) {
        *a = 0.9 * *a + 0.1 * d;
        *b = fmax(0.999 * *b, fabs(d));
        return w - LR / b1 * *a / (*b + 1e-8);
    }
    if (strcmp(name, "dcasgd") == 0) {
        *a = 0.9 * *a - LR * (d + 0.04 * d * d * (w - *b));
        *b = w;
        return w + *a;
    }
    if (strcmp(name, "adam") == 0) {
        *a = 0.9 * *a + 0.1 * d;
        *b = 0.999 * *b + 0.001 * d * d;
        return w - LR * sqrt(b2) / b1 * *a / (sqrt(*b) + 1e-8);
    }
    if (strcmp(name, "adagrad") == 0) {
        *a += d * d;
        return w - LR * d / (sqrt(*a) + 1e-6);
    }
    if (strcmp(name, "rmsprop") == 0) {
        *a = 0.9 * *a + 0.1 * d * d;
        return w - LR * d / (sqrt(*a) + 1e-8);
    }
    if (strcmp(name, "signum") == 0) {
        *a = 0.9 * *a - 0.1 * d;
        return w + LR * sign(*a);
    }
    *a = 0.9 * *a - LR * d; // sgd, nag, and lars (the caller has scaled its rate)
    return strcmp(name, "nag") == 0 ? w + 0.9 * *a - LR * d : w + *a;
}

// Makes a step of lamb, which needs norms over all weights first.
static void naive_lamb(struct naive *n, const double *g)
{
    double d[N], b1 = 1 - pow(0.9, n->t), b2 = 1 - pow(0.999, n->t);
    for (int i = 0; i < N; i++) {
        n->s[0][i] = 0.9 * n->s[0][i] + 0.1 * g[i];
        n->s[1][i] = 0.999 * n->s[1][i] + 0.001 * g[i] * g[i];
        d[i] = n->s[0][i] / b1 / (sqrt(n->s[1][i] / b2) + 1e-6) + WD * n->w[i];
    }
    double rate = LR * fmin(norm(n->w), 2) / norm(d);
    for (int i = 0; i < N; i++)
        n->w[i] -= rate * d[i];
}

static void naive_lars(struct naive *n, const double *raw, const bool *changes)
{
    double weights = norm(n->w), gradient = 0.5 * norm(raw);
    double rate = LR * weights == 0 || gradient == 0
                      ? LR
                      : LR * 0.001 * weights / (gradient + WD * weights + 1e-8);
    for (int i = 0; i < N; i++) {
        double g = fmax(-1.5, fmin(1.5, raw[i] * 0.5));
        if (!changes[i])
            continue;
        n->s[0][i] = 0.9 * n->s[0][i] - rate * (g + WD * n->w[i]);
        n->w[i] += n->s[0][i];
    }
}

// Makes a step of the naive model. raw[] has the unscaled gradients, 0 for weights without
// one; changes[] says which weights change.
static void naive_step(const char *name, struct naive *n, const double *raw,
                       const bool *changes)
{
    double g[N];
    n->t++;
    n->product *= 0.9 * (1 - 0.5 * pow(0.96, n->t * 0.004));
    for (int i = 0; i < N; i++)
        g[i] = fmax(-1.5, fmin(1.5, raw[i] * 0.5));
    if (strcmp(name, "lamb") == 0) {
        naive_lamb(n, g);
        return;
    }
    if (strcmp(name, "lars") == 0) {
        naive_lars(n, raw, changes);
        return;
    }
    for (int i = 0; i < N; i++)
        if (changes[i])
            n->w[i] = naive_new(name, n, i, g[i], g[i] + WD * n->w[i]);
}

static void naive_begin(const char *name, struct naive *n)
{
    *n = (struct naive){.product = 1};
    for (int i = 0; i < N; i++) {
        n->w[i] = (i - 10) * 0.125;
        n->s[1][i] = strcmp(name, "dcasgd") == 0 ? n->w[i] : 0;
    }
}

static void compare(struct tug_kvstore *s, const char *name, enum tug_dtype dtype,
                    const struct naive *n)
{
    double got[N], most = dtype == TUG_FLOAT64   ? 1e-9
                          : dtype == TUG_FLOAT32 ? 2e-4
                                                 : 4e-3;
    struct tug_array to = {TUG_FLOAT64, false, ROWS, WIDTH, got, NULL, 0};
    check(pull(s, "w", &to));
    for (int i = 0; i < N; i++)
        if (fabs(got[i] - n->w[i]) > most)
            fail_msg("%s, dtype %d, weight %d: %.9g, not %.9g", name, dtype, i, got[i],
                     n->w[i]);
}

// Draws random gradients for a step: for all rows, or, if `some`, for the rows of `ids`.
static void draw(struct rng *rng, bool some, const int64_t *ids, double g[N],
                 double raw[N], bool changes[N])
{
    memset(raw, 0, N * sizeof(*raw));
    memset(changes, 0, N * sizeof(*changes));
    for (int i = 0; i < (some ? 3 : ROWS) * WIDTH; i++) {
        int at = (some ? (int)ids[i / WIDTH] : i / WIDTH) * WIDTH + i % WIDTH;
        g[i] = raw[at] = ((double)rng_below(rng, 81) - 40) * 0.0625 + 0.03125;
        changes[at] = true;
    }
}

// Compares an optimizer with the naive model. `lazy`: a sparse gradient changes only its
// own rows.
static void run_optimizer(const char *name, const char *more, bool lazy,
                          enum tug_dtype dtype)
{
    char text[200];
    double bytes[N], g[N], raw[N];
    bool changes[N];
    struct naive n;
    struct rng rng = {.seed = 5};
    struct tug_kvstore *s = open_type("local");
    struct tug_array w = {dtype, false, ROWS, WIDTH, bytes, NULL, 0};
    int64_t ids[] = {0, 2, 6};
    naive_begin(name, &n);
    kvs_cast(dtype, bytes, TUG_FLOAT64, n.w, N);
    check(init(s, "w", &w));
    snprintf(text, sizeof(text),
             "%s:learning_rate=0.05,wd=0.01,rescale_grad=0.5,clip_gradient=1.5%s", name,
             more);
    check(tug_kvstore_set_optimizer(s, text));
    for (int step = 0; step < 60; step++) {
        bool some = step % 3 == 2;
        struct tug_array a = {TUG_FLOAT64, some, ROWS, WIDTH, g, ids, some ? 3 : 0};
        draw(&rng, some, ids, g, raw, changes);
        for (int i = 0; i < N; i++)
            changes[i] |= !lazy;
        naive_step(name, &n, raw, changes);
        check(push(s, "w", &a));
    }
    compare(s, name, dtype, &n);
    check(tug_kvstore_close(s));
}

static void optimizers(void **state)
{
    static const struct {
        const char *name, *more;
        bool all; // whether rows without a gradient change
    } of[] = {{"sgd", ",momentum=0.9", false},
              {"sgd", ",momentum=0.9,lazy_update=0", true},
              {"nag", "", false},
              {"adam", "", false},
              {"adam", ",lazy_update=0", true},
              {"adagrad", "", false},
              {"adadelta", "", false},
              {"rmsprop", "", false},
              {"ftrl", "", false},
              {"signum", "", false},
              {"adamw", "", false},
              {"lamb", ",upper_bound=2", true},
              {"lars", ",momentum=0.9", false},
              {"lars", ",momentum=0.9,lazy_update=0", true},
              {"ftml", "", false},
              {"nadam", "", false},
              {"adamax", "", false},
              {"dcasgd", ",momentum=0.9", false}};
    (void)state;
    for (size_t i = 0; i < sizeof(of) / sizeof(*of); i++) {
        char mixed[64];
        run_optimizer(of[i].name, of[i].more, !of[i].all, TUG_FLOAT64);
        run_optimizer(of[i].name, of[i].more, !of[i].all, TUG_FLOAT32);
        snprintf(mixed, sizeof(mixed), "%s,multi_precision=1", of[i].more);
        run_optimizer(of[i].name, mixed, !of[i].all, TUG_FLOAT16);
    }
}

// The noise of sgld has the standard deviation of the formula, differs between keys and
// updates, and is the same in each run.
static void noise_of_sgld(void **state)
{
    enum { MANY = 40000 };
    static float w[3][MANY], zero[MANY];
    double sum = 0, squares = 0;
    (void)state;
    for (int run = 0; run < 3; run++) {
        struct tug_kvstore *s = open_type("local");
        const char *key = run == 2 ? "v" : "w";
        struct tug_array to = {TUG_FLOAT32, false, MANY, 1, w[run], NULL, 0}, a = to;
        a.data = zero;
        check(init(s, key, &a));
        check(tug_kvstore_set_optimizer(s, "sgld:learning_rate=0.04"));
        check(push(s, key, &a));
        check(push(s, key, &a));
        check(pull(s, key, &to));
        check(tug_kvstore_close(s));
    }
    assert_memory_equal(w[0], w[1], sizeof(w[0]));
    for (int i = 0; i < MANY; i++) {
        sum += (double)w[0][i];
        squares += (double)w[0][i] * (double)w[0][i];
        assert_true(w[0][i] != w[2][i]);
        assert_true(i == 0 || w[0][i] != w[0][i - 1]);
    }
    assert_true(fabs(sum / MANY) < 5 * 0.2828 / 200);
    assert_true(fabs(squares / MANY - 0.08) <
                5 * 0.08 * 0.00708); // 0.08: two steps, each of variance 0.04
}

// ------------------------------------------------ names, numbers and texts of optimizers

static void wrong_optimizers(void **state)
{
    static const struct {
        const char *text, *why;
    } wrong[] = {
        {"", "not an optimizer"},
        {"adam:momentum=0.5", "momentum"},
        {"sgd:learning_rate", "NAME:FIELD"},
        {"sgd:learning_rate=x", "number"},
        {"sgd:learning_rate=nan", "nan"},
        {"sgd:learning_rate=-1", "-1"},
        {"sgd:begin_num_update=0.5", "begin_num_update cannot be 0.5"},
        {"test:clip_gradient=1", "cannot clip"},
        {"ftml:learning_rate=0", "learning_rate cannot be 0"},
        {"adam:nosuch=1", "it takes learning_rate beta1 beta2 epsilon lazy_update wd"},
        {"lars:layer=1", "does not take 'layer'"},
        {"sgd:layer(1)=1", "does not take 'layer'"},
        {"sgd:lr_mult=1", "does not take 'lr_mult'"},
        {"sgd:lr_mult(w)=1", "write lr_mult(3)=2, or lr_mult('name')=2"},
        {"sgd:lr_mult('w=1", "write lr_mult(3)=2"},
        {"sgd:lr_mult('w'=1", "write lr_mult(3)=2"},
        {"sgd:lr_mult(99999999999999999999)=1", "write lr_mult(3)=2"},
        {"sgd:wd_mult('w')=x", "'x' is not a number for wd_mult"},
        {"sgd:wd_mult('w')", "NAME:FIELD"},
        {"sgd:wd_mult('')=1", "1 to 255 bytes"},
        {"sgd:lr_scheduler=step", "there are factor, multifactor, poly and cosine"},
        {"sgd:step=5", "does not take 'step'"},
        {"sgd:lr_scheduler=factor", "needs a step"},
        {"sgd:lr_scheduler=factor,step=0", "from 1 on"},
        {"sgd:lr_scheduler=factor,step=5|6", "at most 1"},
        {"sgd:lr_scheduler=factor,step=5,factor=1.5", "factor cannot be '1.5'"},
        {"sgd:lr_scheduler=factor,step=5,pwr=1", "does not take 'pwr'"},
        {"sgd:lr_scheduler=multifactor,step=5|5", "5 follows 5"},
        {"sgd:lr_scheduler=multifactor,step=5|", "from 1 on, not ''"},
        {"sgd:lr_scheduler=poly", "needs max_update"},
        {"sgd:lr_scheduler=poly,max_update=5,warmup_steps=5", "more than warmup_steps"},
        {"sgd:learning_rate=1,lr_scheduler=poly,max_update=5", "has no effect"},
        {"sgd:lr_scheduler=cosine,max_update=5,warmup_begin_lr=1", "not be more than"},
        {"sgd:lr_scheduler=cosine,max_update=5,warmup_mode=slow", "linear or constant"},
    };
    struct tug_kvstore *s = open_type("local");
    int32_t whole[N] = {0};
    float g[N] = {1};
    struct tug_array w = {TUG_INT32, false, ROWS, WIDTH, whole, NULL, 0}, a = dense(g);
    (void)state;
    refused(tug_kvstore_set_optimizer(s, NULL), "not an optimizer");
    refused(tug_kvstore_set_optimizer(s, "lbsgd"),
            "there is no optimizer 'lbsgd'; there are sgd, nag, adam, adagrad, adadelta, "
            "rmsprop, ftrl, signum, adamw, lamb, lars, ftml, nadam, adamax, dcasgd, sgld "
            "and test");
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        refused(tug_kvstore_set_optimizer(s, wrong[i].text), wrong[i].why);
    check(tug_kvstore_set_optimizer(s, "test:rescale_grad=2"));
    check(init(s, "w", &w));
    refused(push(s, "w", &a), "int32");
    check(tug_kvstore_close(s));
}

// Each text in the list of optimizers can be set, and gives the same optimizer as its name
// alone.
static void lists(void **state)
{
    const char *text;
    (void)state;
    for (size_t i = 0; (text = tug_kvstore_optimizer(i)) != NULL; i++) {
        float w[2][N];
        for (int k = 0; k < 2; k++) {
            char name[400];
            struct tug_kvstore *s = open_type("local");
            struct tug_array a = dense(w[k]);
            for (int j = 0; j < N; j++)
                w[k][j] = (float)(j - 10);
            snprintf(name, sizeof(name), "%.*s", k == 0 ? 400 : (int)strcspn(text, ":"),
                     text);
            check(init(s, "w", &a));
            check(tug_kvstore_set_optimizer(s, name));
            check(push(s, "w", &a));
            check(pull(s, "w", &a));
            check(tug_kvstore_close(s));
        }
        assert_memory_equal(w[0], w[1], sizeof(w[0]));
    }
}

// ---------------------------------------------------------------- learning rates

static void near(double expected, double got, double most)
{
    if (!(fabs(got - expected) <= most))
        fail_msg("%.17g, not %.17g", got, expected);
}

static double rate(const char *text, uint64_t n)
{
    double ret;
    check(tug_kvstore_learning_rate(text, n, &ret));
    return ret;
}

// Returns the rate after n updates as MXNet's scheduler computes it: it changes its state
// at each update.
static double naive_factor(int n, int step, double factor, double stop, double base)
{
    int count = 0;
    while (n > count + step) {
        count += step;
        base *= factor;
        base = base < stop ? stop : base;
    }
    return base;
}

static void schedules(void **state)
{
    const char *const factor = "sgd:lr_scheduler=factor,step=3,factor=0.5,base_lr=0.8,"
                               "stop_factor_lr=0.09,warmup_steps=4,warmup_begin_lr=0.2";
    const char *const poly = "sgd:lr_scheduler=poly,max_update=12,base_lr=0.8,pwr=3,"
                             "final_lr=0.1,warmup_steps=2,warmup_mode=constant";
    const char *const cosine = "sgd:lr_scheduler=cosine,max_update=12,base_lr=0.8,"
                               "final_lr=0.1,warmup_steps=2";
    const char *const multi = "sgd:lr_scheduler=multifactor,step=2|5|6,factor=0.1";
    (void)state;
    for (int n = 0; n < 30; n++) {
        double part = (fmin(n, 12) - 2) / 10;
        uint64_t u = (uint64_t)n;
        near(n < 4 ? 0.2 + 0.6 * n / 4 : naive_factor(n, 3, 0.5, 0.09, 0.8),
             rate(factor, u), 1e-12);
        near(n < 2 ? 0 : 0.1 + 0.7 * pow(1 - part, 3), rate(poly, u), 1e-12);
        near(n < 2 ? 0.4 * n : 0.1 + 0.7 * (1 + cos(3.14159265358979 * part)) / 2,
             rate(cosine, u), 1e-12);
        near(0.01 * pow(0.1, (n > 2) + (n > 5) + (n > 6)), rate(multi, u), 1e-12);
        near(0.25, rate("sgd:learning_rate=0.25", u), 0);
    }
    // In MXNet an optimizer's learning_rate replaces base_lr, but not the rate at which a
    // warmup ends.
    near(0.5, rate("sgd:learning_rate=0.5,lr_scheduler=factor,step=9,warmup_steps=2", 2),
         0);
    near(0.005,
         rate("sgd:learning_rate=0.5,lr_scheduler=factor,step=9,warmup_steps=2", 1),
         1e-15);
}

// Each key has its own multipliers; the number of updates in a schedule is that of the key
// with the most updates.
static void keys(void **state)
{
    float w[N] = {0}, g[N], got[N];
    uint64_t most;
    struct tug_array a = dense(w), b = dense(g), to = dense(got);
    struct tug_kvstore *s = open_type("local");
    (void)state;
    for (int i = 0; i < N; i++)
        g[i] = 1;
    check(init(s, "w", &b));
    check(init(s, "it's=2,", &b));
    check(init(s, "v", &a));
    check(tug_kvstore_set_optimizer(
        s, "sgd:learning_rate=1,wd=0.5,lr_mult('it''s=2,')=0.25,wd_mult('w')=0,"
           "lr_mult('v')=0,lr_scheduler=factor,step=2,factor=0.5,begin_num_update=1"));
    check(push(s, "w", &b)); // the key's second update, at rate 1
    check(push(s, "w", &b)); // the key's third update, at rate 0.5
    check(pull(s, "w", &to));
    near(1 - 1 - 0.5, got[0], 1e-6);
    check(tug_kvstore_num_update(s, &most));
    assert_int_equal(3, most);
    check(push(s, "it's=2,", &b)); // the key's first update, but another key has had 3
    check(pull(s, "it's=2,", &to));
    near(1 - 0.25 * 0.5 * (1 + 0.5), got[0], 1e-6);
    check(push(s, "v", &b));
    check(pull(s, "v", &to));
    near(0, got[0], 0);
    // Setting an optimizer of the same name continues the count of updates, with the new
    // multipliers.
    check(tug_kvstore_set_optimizer(
        s, "sgd:learning_rate=1,lr_scheduler=factor,step=2,factor=0.5"));
    check(push(s, "v", &b));
    check(pull(s, "v", &to));
    near(-0.5, got[0], 1e-6);
    check(tug_kvstore_close(s));
}

// lars does not scale the rate of keys with certain names. With a multiplier of 0, ftrl
// and ftml change nothing.
static void kinds_of_keys(void **state)
{
    static const char *const names[] = {"fc1_bias", "bn_gamma", "bn_beta", "mine"};
    float g[N], got[N];
    struct tug_array a = dense(g), to = dense(got);
    struct tug_kvstore *s = open_type("local");
    (void)state;
    for (int i = 0; i < N; i++)
        g[i] = 1;
    check(tug_kvstore_set_optimizer(s, "lars:learning_rate=0.5,layer('mine')=0"));
    for (size_t i = 0; i < 4; i++) {
        check(init(s, names[i], &a));
        check(push(s, names[i], &a));
        check(pull(s, names[i], &to));
        near(0.5, got[0], 1e-6);
    }
    check(tug_kvstore_set_optimizer(s, "lars:learning_rate=0.5,layer('bn_beta')=1"));
    check(push(s, "bn_beta", &a));
    check(pull(s, "bn_beta", &to));
    near(0.5 - 0.5 * 0.001 * 0.5, got[0], 1e-6);
    for (int i = 0; i < 2; i++) {
        check(tug_kvstore_set_optimizer(s, i == 0 ? "ftrl:lr_mult('mine')=0"
                                                  : "ftml:lr_mult('mine')=0"));
        check(push(s, "mine", &a));
        check(pull(s, "mine", &to));
        near(0.5, got[0], 1e-6);
    }
    check(tug_kvstore_close(s));
}

// A push that makes weights infinite in lamb's second pass leaves weights and states
// unchanged.
static void overflow_is_undone(void **state)
{
    float w[N], g[N], got[N];
    struct tug_array a = dense(w), b = dense(g), to = dense(got);
    struct tug_kvstore *s = open_type("local");
    (void)state;
    for (int i = 0; i < N; i++)
        w[i] = 3e18f, g[i] = 1;
    check(init(s, "w", &a));
    check(tug_kvstore_set_optimizer(s, "lamb:learning_rate=1e30"));
    refused(push(s, "w", &b), "not finite, so none of it is applied");
    check(tug_kvstore_set_optimizer(s, "lamb:learning_rate=0"));
    check(push(s, "w", &b));
    check(pull(s, "w", &to));
    assert_memory_equal(w, got, sizeof(w));
    check(tug_kvstore_close(s));
}

// Saves states in the middle of a run and resumes from them: the weights at the end are
// those of an uninterrupted run.
static void states(void **state)
{
    const char *const optimizer = "adam:learning_rate=0.1";
    char path[] = "/tmp/tug_kvstore_states_XXXXXX";
    float g[N], w[N] = {0}, one[N], other[N];
    struct tug_array a = dense(g), to = dense(one), from = dense(w), also = dense(other);
    struct tug_kvstore *s = open_type("local"), *t = open_type("local");
    int fd = mkstemp(path);
    (void)state;
    assert_true(fd >= 0);
    for (int i = 0; i < N; i++)
        g[i] = (float)i - 10;
    check(init(s, "w", &from));
    refused(tug_kvstore_save_states(s, path), "no optimizer");
    check(tug_kvstore_set_optimizer(s, optimizer));
    for (int i = 0; i < 5; i++)
        check(push(s, "w", &a));
    check(tug_kvstore_save_states(s, path));
    check(pull(s, "w", &to));
    check(init(t, "w", &to));
    check(tug_kvstore_set_optimizer(t, "sgd:momentum=0.5"));
    refused(tug_kvstore_load_states(t, path), "adam");
    check(tug_kvstore_set_optimizer(t, optimizer));
    check(tug_kvstore_load_states(t, path));
    for (int i = 0; i < 5; i++) {
        check(push(s, "w", &a));
        check(push(t, "w", &a));
    }
    check(pull(s, "w", &to));
    check(pull(t, "w", &also));
    assert_memory_equal(one, other, sizeof(one));
    // A file with any changed byte, or a truncated one, is refused.
    close(fd); // the path names another file now
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(0, fseek(f, 0, SEEK_END));
    long n = ftell(f);
    assert_true(n > 2 * N * 4);
    for (long at = 0; at < n; at += 3) {
        assert_int_equal(0, fseek(f, at, SEEK_SET));
        int c = fgetc(f);
        fseek(f, at, SEEK_SET);
        fputc(c ^ 4, f);
        fflush(f);
        assert_int_equal(TUG_EDATA, tug_kvstore_load_states(t, path));
        fseek(f, at, SEEK_SET);
        fputc(c, f);
        fflush(f);
    }
    assert_int_equal(0, ftruncate(fileno(f), n - 9));
    assert_int_equal(TUG_EDATA, tug_kvstore_load_states(t, path));
    fclose(f);
    unlink(path);
    check(tug_kvstore_close(s));
    check(tug_kvstore_close(t));
}

// Resumes runs from saved states with each optimizer, and with a schedule that continues.
static void all_states(void **state)
{
    char path[] = "/tmp/tug_kvstore_states_XXXXXX";
    int fd = mkstemp(path);
    const char *list;
    (void)state;
    assert_true(fd >= 0);
    close(fd);
    for (size_t i = 0; (list = tug_kvstore_optimizer(i)) != NULL; i++) {
        float g[N], one[N], other[N];
        char text[200];
        struct tug_array a = dense(g), to = dense(one), also = dense(other);
        struct tug_kvstore *s = open_type("local"), *t = open_type("local");
        for (int k = 0; k < N; k++)
            g[k] = (float)k - 10;
        snprintf(text, sizeof(text), "%.*s:lr_scheduler=factor,step=2,factor=0.5",
                 (int)strcspn(list, ":"), list);
        check(init(s, "w", &a));
        check(tug_kvstore_set_optimizer(s, text));
        for (int k = 0; k < 3; k++)
            check(push(s, "w", &a));
        check(tug_kvstore_save_states(s, path));
        check(pull(s, "w", &to));
        check(init(t, "w", &to));
        check(tug_kvstore_set_optimizer(t, text));
        check(tug_kvstore_load_states(t, path));
        for (int k = 0; k < 3; k++) {
            check(push(s, "w", &a));
            check(push(t, "w", &a));
        }
        check(pull(s, "w", &to));
        check(pull(t, "w", &also));
        assert_memory_equal(one, other, sizeof(one));
        check(tug_kvstore_close(s));
        check(tug_kvstore_close(t));
    }
    unlink(path);
}

static int all_calls(void)
{
    float w[N] = {0}, g[N] = {1};
    int64_t ids[] = {1, 2};
    struct tug_kvstore *s;
    struct tug_array a = dense(w), b = {TUG_FLOAT32, true, ROWS, WIDTH, g, ids, 2};
    int rc = tug_kvstore_open(&s, NULL);
    if (rc == 0) {
        rc = init(s, "w", &a);
        if (rc == 0)
            rc = tug_kvstore_set_optimizer(s, "lamb:lr_mult('w')=2,wd_mult(3)=2");
        if (rc == 0)
            rc = push(s, "w", &b);
        test_err = *last_error();
        (void)tug_kvstore_close(s);
    } else {
        test_err = *last_error();
    }
    return rc;
}

static void out_of_memory(void **state)
{
    (void)state;
    FAIL_EACH_ALLOCATION(all_calls(), (void)0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optimizers),       cmocka_unit_test(noise_of_sgld),
        cmocka_unit_test(wrong_optimizers), cmocka_unit_test(lists),
        cmocka_unit_test(schedules),        cmocka_unit_test(keys),
        cmocka_unit_test(kinds_of_keys),    cmocka_unit_test(overflow_is_undone),
        cmocka_unit_test(states),           cmocka_unit_test(all_states),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
