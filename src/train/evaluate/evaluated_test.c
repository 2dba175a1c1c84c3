// Parts of an evaluation give the bits of the whole when added in any order, and damaged
// bytes are refused.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/evaluate/evaluated.h"

#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "kit/test.h"

enum { N = 4000, PARTS = 13, GROUPS = 17 };

// Adds example i. Scores have few different values, so that many are equal. The sums of
// the weights are rounded.
static void put(struct evaluated *x, size_t i, bool grouped)
{
    float score = (float)random_below(1, 1, i, 50) / 10 - 2;
    float weight = 0.1f + random_f32(1, 2, i) * (float)(1 << random_below(1, 3, i, 20));
    float label = random_f32(1, 4, i) < 0.3f;
    struct evaluated_sums *s = &x->sums;
    x->users.columns = grouped;
    assert_int_equal(evaluated_reserve(x, 1, NULL), 0);
    exact_add(&s->weight, weight);
    exact_add(&s->loss, weight * random_f64(1, 5, i));
    exact_add(&s->predicted, weight * random_f64(1, 6, i));
    exact_add(&s->observed, weight * label);
    exact_add(&s->squares, weight * label);
    exact_add(&s->off, random_f64(1, 7, i));
    exact_add(&s->off_squares, random_f64(1, 8, i));
    s->examples++;
    x->places++;
    x->scored[x->n] = (struct scored){score, label > 0 ? weight : -weight};
    if (grouped)
        x->users.graded[x->n] = (struct graded){random_below(1, 9, i, GROUPS),
                                                x->scored[x->n]};
    x->n++;
}

static struct metrics metrics_of(struct evaluated *x)
{
    struct metrics m;
    assert_int_equal(evaluated_metrics(x, LOSS_LOGISTIC, true, &m, NULL), 0);
    evaluated_free(x);
    return m;
}

static void add_parts(struct evaluated *all, bool grouped)
{
    struct buf b = BUF_INIT(1 << 22);
    for (size_t p = PARTS; p-- > 0;) {
        struct evaluated part = {0};
        for (size_t i = N; i-- > 0;)
            if (i * 7919 % PARTS == p)
                put(&part, i, grouped);
        assert_int_equal(evaluated_write(&part, &b), 0);
        evaluated_free(&part);
    }
    const char *bytes = b.data;
    size_t n = b.len;
    all->users.columns = grouped;
    for (int p = 0; p < PARTS; p++)
        assert_int_equal(evaluated_next(all, &bytes, &n), 1);
    assert_int_equal(evaluated_next(all, &bytes, &n), 0);
    buf_free(&b);
}

static void test_parts(void **state)
{
    (void)state;
    for (int grouped = 0; grouped < 2; grouped++) {
        struct evaluated whole = {0}, parts = {0};
        for (size_t i = 0; i < N; i++)
            put(&whole, i, grouped);
        add_parts(&parts, grouped);
        assert_int_equal(parts.places, N);
        struct metrics a = metrics_of(&whole), b = metrics_of(&parts);
        assert_true(a.auc > 0 && a.pr_auc > 0 && (grouped ? a.gauc > 0 : isnan(a.gauc)));
        assert_memory_equal(&a, &b, sizeof(a));
    }
}

static void test_damaged(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(1 << 22);
    struct evaluated part = {0}, all = {0};
    for (size_t i = 0; i < 10; i++)
        put(&part, i, true);
    assert_int_equal(evaluated_write(&part, &b), 0);
    for (size_t len = 1; len < b.len; len++) {
        const char *bytes = b.data;
        size_t n = len;
        all.users.columns = 1;
        assert_int_equal(evaluated_next(&all, &bytes, &n), TUG_EDATA);
        assert_int_equal(all.n, 0);
    }
    const char *bytes = b.data;
    size_t n = b.len;
    all.users.columns = 0; // no groups are sent to a receiver that did not ask for them
    assert_int_equal(evaluated_next(&all, &bytes, &n), TUG_EDATA);
    struct buf small = BUF_INIT(100);
    assert_int_equal(evaluated_write(&part, &small), TUG_EDATA);
    buf_free(&small);
    buf_free(&b);
    evaluated_free(&part);
    evaluated_free(&all);
}

// Sums that no evaluation can produce are refused before they are added to other sums:
// with limbs that would overflow, with carries not yet taken, or with a last limb that is
// too large.
static void test_forged_sums(void **state)
{
    (void)state;
    static const int64_t forged[] = {INT64_MAX, INT64_MIN, -1, (int64_t)1 << 32};
    struct buf b = BUF_INIT(1 << 22);
    struct evaluated part = {0}, all = {0};
    for (size_t i = 0; i < 10; i++)
        put(&part, i, false);
    assert_int_equal(evaluated_write(&part, &b), 0);
    const size_t limbs = 7 * sizeof(struct exact) / sizeof(int64_t);
    for (size_t at = 0; at < limbs; at++) {
        size_t in = at % (sizeof(struct exact) / sizeof(int64_t));
        int64_t was;
        char *place = b.data + at * sizeof(was);
        if (in == EXACT_LIMBS) // any double is valid for `special`
            continue;
        memcpy(&was, place, sizeof(was));
        for (size_t k = 0; k < sizeof(forged) / sizeof(*forged); k++) {
            const char *bytes = b.data;
            size_t n = b.len;
            if (in == EXACT_LIMBS - 1 && forged[k] == -1)
                continue; // a valid negative sum
            memcpy(place, &forged[k], sizeof(was));
            assert_int_equal(evaluated_next(&all, &bytes, &n), TUG_EDATA);
            assert_int_equal(all.n, 0);
        }
        memcpy(place, &was, sizeof(was));
    }
    const char *bytes = b.data;
    size_t n = b.len;
    assert_int_equal(evaluated_next(&all, &bytes, &n), 1);
    buf_free(&b);
    evaluated_free(&part);
    evaluated_free(&all);
}

// Wrong counts from other processes give an error, not an assertion failure.
static void test_forged_counts(void **state)
{
    (void)state;
    struct evaluated x = {.places = 12};
    struct err e;
    assert_int_equal(evaluated_check(&x, 12, "--test", &e), 0);
    assert_int_equal(evaluated_check(&x, 13, "--test", &e), TUG_EDATA);
    assert_non_null(strstr(e.text, "13 scored examples of --test"));
    assert_non_null(strstr(e.text, "of 12"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_forged_sums),
        cmocka_unit_test(test_forged_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
