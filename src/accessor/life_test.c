// Compares the lifecycle of rows with the formulas of life.h in doubles. Also tests
// refused settings, and counters as models see them.
//
// SPDX-License-Identifier: Apache-2.0
#include "accessor/life.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "accessor/accessor.h"
#include "base/random.h"
#include "kit/test.h"
#include "rule/rule.h"

enum { MAX_WIDTH = 32, STEPS = 3000 };

static const char *const names[] = {"sparse", "ctr", "ctr_double"};
enum { CLASSES = sizeof(names) / sizeof(*names) };

static struct accessor make(const char *name, const struct life *l)
{
    struct accessor_options o = {.dim = 4,
                                 .rule = rule_defaults(RULE_ADAGRAD),
                                 .extra = rule_defaults(RULE_SGD),
                                 .life = *l};
    struct accessor a;
    struct err e;
    snprintf(o.name, sizeof(o.name), "%s", name);
    if (accessor_make(&a, &o, &e) != 0)
        fail_msg("%s", e.text);
    assert_true(a.width <= MAX_WIDTH);
    return a;
}

// The values of one row by the rules of life.h, in doubles and without columns.
struct naive {
    double show, click, delta, slot;
    uint32_t seen;
    uint64_t step;
};

static double naive_score(const struct life *l, double show, double click)
{
    return (double)l->nonclick * (show - click) + (double)l->click * click;
}

// A row that falls below the publishing threshold is marked as changed, so that it is
// published again later.
static void naive_unpublish(const struct life *l, struct naive *n)
{
    n->delta = fmax(n->delta, (double)l->delta_threshold);
}

static double naive_push(const struct life *l, struct naive *n, const float *stats,
                         bool again, struct life_time t)
{
    if (t.day - n->seen > (uint32_t)l->delta_keep_days)
        naive_unpublish(l, n);
    if (!again) {
        n->show += (double)stats[0];
        n->click += (double)stats[1];
        n->delta += naive_score(l, (double)stats[0], (double)stats[1]);
    }
    n->slot = (double)stats[2];
    n->seen = t.day;
    n->step = t.step;
    return l->show_scale && stats[0] > 0 ? (double)stats[0] : 1;
}

// Returns 1 if x > y, 0 if not, and -1 if the difference is within the rounding errors of
// floats.
static int above(double x, double y)
{
    return fabs(x - y) <= 1e-5 * (fabs(x) + fabs(y)) + 1e-6 ? -1 : x > y;
}

static bool agrees(bool got, int want)
{
    return want < 0 || got == (want == 1);
}

static void near_to(double got, double want, const char *what)
{
    if (!(fabs(got - want) <= 2e-4 * fabs(want) + 1e-4))
        fail_msg("%s: %.9g instead of %.9g", what, got, want);
}

static void check_row(const struct accessor *a, const float *row, const struct naive *n,
                      struct life_time t)
{
    const struct life_class *c = &a->class->life;
    const struct life *l = &a->life;
    double score = naive_score(l, n->show, n->click);
    uint32_t unseen = t.day - n->seen;
    near_to((double)c->score(a, row), score, "score");
    near_to((double)row[a->stats + LIFE_SLOT], n->slot, "slot");
    near_to((double)row[a->stats + LIFE_DELTA], n->delta, "delta_score");
    assert_int_equal(c->unseen(a, row, t), unseen);
    assert_true(
        agrees(c->earned(a, row),
               l->embedx_threshold <= 0 ? 1 : above(score, (double)l->embedx_threshold)));
    assert_true(c->saved(a, row, SAVE_CHECKPOINT, t) && c->saved(a, row, SAVE_DAY, t));
    int base = above(score, (double)l->base_threshold);
    int delta = above(n->delta, (double)l->delta_threshold);
    if (unseen > (uint32_t)l->delta_keep_days)
        base = 0;
    assert_true(agrees(c->saved(a, row, SAVE_BASE, t), base));
    delta = base == 0 || delta == 0 ? 0 : base < 0 || delta < 0 ? -1 : 1;
    assert_true(agrees(c->saved(a, row, SAVE_DELTA, t), delta));
    if (a->pulled_stats > 0) {
        float stats[2];
        c->stats(a, row, stats);
        near_to((double)stats[0], n->show, "show");
        near_to((double)stats[1], n->click, "click");
    }
}

static void check_shrink(const struct accessor *a, float *row, struct naive *n,
                         float threshold, struct life_time t)
{
    const struct life *l = &a->life;
    int before = above(naive_score(l, n->show, n->click), (double)l->base_threshold);
    n->show *= (double)l->decay;
    n->click *= (double)l->decay;
    int after = above(naive_score(l, n->show, n->click), (double)l->base_threshold);
    if (before == 1 && after == 0)
        naive_unpublish(l, n);
    double limit = isnan(threshold) ? (double)l->delete_threshold : (double)threshold;
    int stays = above(naive_score(l, n->show, n->click), limit);
    if (t.day - n->seen > (uint32_t)l->delete_after_days ||
        (l->ttl_steps > 0 && t.step - n->step >= l->ttl_steps))
        stays = 0;
    bool goes = a->class->life.shrink(a, row, threshold, t);
    // Floats and doubles may disagree this close to the threshold.
    if (before < 0 || after < 0)
        n->delta = (double)row[a->stats + LIFE_DELTA];
    assert_true(agrees(!goes, stays));
}

// Runs one row through pushes, days, shrinks and publications in a random order. A row
// that should be removed is kept, so that its numbers stay comparable.
static void live(const struct accessor *a, uint64_t seed)
{
    static float row[MAX_WIDTH];
    struct life_time t = {.day = 7, .step = ((uint64_t)1 << 32) - STEPS};
    struct naive n = {.slot = -1, .seen = t.day, .step = t.step};
    memset(row, 0, sizeof(row));
    a->class->life.begin(a, row, t);
    for (uint64_t i = 0; i < STEPS; i++) {
        uint64_t rng = random_below(seed, 1, i, 100);
        t.step += random_below(seed, 2, i, 3);
        if (rng < 70) {
            float show = (float)random_below(seed, 3, i, 4),
                  click = rng % 3 == 0 ? floorf(show / 2) : 0;
            float stats[] = {show, click, (float)(rng % 9)};
            bool again = random_below(seed, 5, i, 3) == 0;
            double want = naive_push(&a->life, &n, stats, again, t);
            assert_true((double)a->class->life.seen(a, row, stats, again, t) == want);
        } else if (rng < 80) {
            t.day += (uint32_t)random_below(seed, 4, i, rng == 79 ? 40 : 2);
        } else if (rng < 95) {
            check_shrink(a, row, &n, rng < 90 ? NAN : 3.5f, t);
        } else {
            a->class->life.published(a, row);
            n.delta = 0;
        }
        check_row(a, row, &n, t);
    }
}

static void lives(void **state)
{
    (void)state;
    for (size_t i = 0; i < CLASSES; i++)
        for (uint64_t way = 0; way < 8; way++) {
            struct life l = life_defaults();
            l.show_scale = way % 2 == 0;
            l.ttl_steps = way % 4 < 2 ? 0 : 5;
            l.embedx_threshold = way < 4 ? 10 : 0;
            l.delete_after_days = 3;
            l.delta_keep_days = 2;
            struct accessor a = make(names[i], &l);
            live(&a, 100 * i + way);
        }
}

// Shows are counted beyond 2^24, at which floats stop counting.
static void many_shows(void **state)
{
    (void)state;
    struct life l = life_defaults();
    for (size_t i = 0; i < CLASSES; i++) {
        struct accessor a = make(names[i], &l);
        float row[MAX_WIDTH] = {0};
        const float first[] = {0x1p24f, 0x1p24f, 0}, one[] = {1, 1, 0};
        a.class->life.seen(&a, row, first, false, (struct life_time){0});
        float before = a.class->life.score(&a, row);
        for (int k = 0; k < 1000; k++)
            a.class->life.seen(&a, row, one, false, (struct life_time){0});
        bool wide = strcmp(names[i], "ctr_double") == 0;
        assert_true(a.class->life.score(&a, row) == before + (wide ? 1000 : 0));
        if (wide) {
            double show;
            memcpy(&show, row + a.stats + LIFE_SHOW, sizeof(show));
            assert_true(show == 0x1p24 + 1000);
        }
    }
}

// No push can give a row statistics with which no threshold would ever remove it.
static void bad_pushes(void **state)
{
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    struct life l = life_defaults();
    for (size_t i = 0; i < CLASSES; i++)
        for (size_t b = 0; b < 3; b++) {
            struct accessor a = make(names[i], &l);
            float row[MAX_WIDTH] = {0};
            const float good[] = {8, 2, 5}, push[] = {bad[b], bad[b], bad[b]};
            a.class->life.seen(&a, row, good, false, (struct life_time){0});
            float before = a.class->life.score(&a, row);
            assert_true(a.class->life.seen(&a, row, push, false, (struct life_time){0}) ==
                        1);
            assert_true(a.class->life.score(&a, row) == before);
            assert_true(row[a.stats + LIFE_DELTA] == before);
            assert_true(row[a.stats + LIFE_SLOT] == 5);
        }
}

// With 0 or fewer shows, gradients are not divided by the number of shows.
static void no_shows(void **state)
{
    (void)state;
    struct life l = life_defaults();
    for (size_t i = 0; i < CLASSES; i++) {
        struct accessor a = make(names[i], &l);
        float row[MAX_WIDTH] = {0};
        for (int show = 0; show >= -3; show--) {
            const float push[] = {(float)show, 0, 0};
            assert_true(a.class->life.seen(&a, row, push, false, (struct life_time){0}) ==
                        1);
        }
    }
}

// A score that equals a threshold in decimal numbers reaches it, despite rounding.
static void thresholds(void **state)
{
    (void)state;
    struct life l = life_defaults();
    for (size_t i = 0; i < CLASSES; i++)
        for (int shows = 1; shows < 200; shows++) {
            l.embedx_threshold = (float)shows / 10;
            struct accessor a = make(names[i], &l);
            float row[MAX_WIDTH] = {0};
            for (int k = 1; k <= shows; k++) {
                const float push[] = {1, 0, 0};
                a.class->life.seen(&a, row, push, false, (struct life_time){0});
                assert_true(a.class->life.earned(&a, row) == (k == shows));
            }
        }
}

// Rows from saves of a later day or step count as seen just now; ages in steps are
// correct also beyond 2^32.
static void times(void **state)
{
    (void)state;
    struct life l = life_defaults();
    l.ttl_steps = 10;
    l.delete_threshold = 0;
    for (size_t i = 0; i < CLASSES; i++) {
        struct accessor a = make(names[i], &l);
        float row[MAX_WIDTH] = {0};
        const struct life_time t = {.day = 50, .step = 0x1fffffffcull};
        a.class->life.begin(&a, row, t);
        assert_int_equal(a.class->life.unseen(&a, row, (struct life_time){.day = 3}), 0);
        assert_int_equal(a.class->life.unseen(&a, row, (struct life_time){.day = 81}),
                         31);
        for (int age = -20; age < 20; age++) {
            struct life_time now = {.day = 50, .step = t.step + (uint64_t)age};
            assert_true(a.class->life.shrink(&a, row, NAN, now) == (age >= 10));
        }
        assert_true(a.class->life.shrink(&a, row, NAN,
                                         (struct life_time){.day = 81, .step = t.step}));
        row[a.stats + LIFE_DAY] = NAN;
        assert_int_equal(a.class->life.unseen(&a, row, t), 0);
    }
}

static void settings(void **state)
{
    (void)state;
    struct life l = life_defaults();
    assert_int_equal(life_check(&l, NULL), 0);
    float *const numbers[] = {&l.nonclick,
                              &l.click,
                              &l.embedx_threshold,
                              &l.base_threshold,
                              &l.delta_threshold,
                              &l.delta_keep_days,
                              &l.decay,
                              &l.delete_threshold,
                              &l.delete_after_days,
                              &l.cold_after_days};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        float kept = *numbers[i];
        const float bad[] = {NAN, INFINITY, -INFINITY, -1e31f};
        for (size_t b = 0; b < sizeof(bad) / sizeof(*bad); b++) {
            struct err e = {0};
            *numbers[i] = bad[b];
            assert_int_equal(life_check(&l, &e), TUG_EUSAGE);
            assert_true(*e.text != '\0');
        }
        *numbers[i] = kept;
    }
    l.decay = 1.5f;
    assert_int_equal(life_check(&l, NULL), TUG_EUSAGE);
    l.decay = 1;
    l.ttl_steps = (uint64_t)1 << 31;
    assert_int_equal(life_check(&l, NULL), TUG_EUSAGE);
}

static void modes(void **state)
{
    (void)state;
    static const char *const paddle[] = {"0", "2", "1", "3"};
    enum save_mode m;
    struct err e = {0};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(save_mode_find(save_mode_name((enum save_mode)i), &m, &e), 0);
        assert_int_equal(m, i);
        assert_int_equal(save_mode_find(paddle[i], &m, &e), 0);
        assert_int_equal(m, i);
    }
    assert_int_equal(save_mode_find("chekpoint", &m, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "did you mean 'checkpoint'"));
    assert_int_equal(save_mode_find("4", &m, &e), TUG_EUSAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lives),      cmocka_unit_test(many_shows),
        cmocka_unit_test(bad_pushes), cmocka_unit_test(no_shows),
        cmocka_unit_test(thresholds), cmocka_unit_test(times),
        cmocka_unit_test(settings),   cmocka_unit_test(modes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
