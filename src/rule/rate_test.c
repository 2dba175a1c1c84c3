// Compares schedules with their formulas; also tests their texts, and which texts are
// refused.
//
// SPDX-License-Identifier: Apache-2.0
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "kit/test.h"
#include "rule/rate.h"

static const uint64_t SEED = 5;

static struct rate parsed(const char *text)
{
    struct rate r;
    struct err e;
    if (rate_parse(text, &r, &e) != 0)
        fail_msg("%s: %s", text, e.text);
    return r;
}

// Returns the factor by the formula, computed with libm. t is the number of steps since
// the warm-up.
static double by_the_book(const struct rate *r, double t)
{
    double steps = (double)r->steps, factor = (double)r->factor, end = (double)r->end;
    double x = r->stairs ? floor(t / steps) : t / steps, done = fmin(x, 1), value = 1;
    switch (r->kind) {
    case RATE_EXPONENTIAL:
        return pow(factor, x);
    case RATE_NATURAL_EXPONENTIAL:
        return exp(-factor * x);
    case RATE_INVERSE_TIME:
        return 1 / (1 + factor * x);
    case RATE_POLYNOMIAL:
        return (1 - end) * pow(1 - done, (double)r->power) + end;
    case RATE_COSINE:
        return end + (1 - end) * 0.5 * (1 + cos(3.14159265358979323846 * done));
    case RATE_PIECEWISE:
        for (uint32_t i = 0; i < r->n_pieces; i++)
            if (t >= (double)r->from[i])
                value = (double)r->to[i];
        return value;
    default:
        return 1;
    }
}

// All steps up to 3,000, and some much later ones, agree with the formula to the last
// bits of a float.
static void formulas(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "constant",
        "constant:warmup=50",
        "exponential:steps=1000",
        "exponential:steps=100,factor=0.5,stairs,warmup=77",
        "natural-exponential:steps=300,factor=0.7",
        "natural-exponential:steps=300,factor=0.7,stairs",
        "inverse-time:steps=10,factor=0.1",
        "inverse-time:steps=7,factor=2,stairs,warmup=1",
        "polynomial:steps=1000",
        "polynomial:steps=1000,power=0.5,end=0.25,warmup=10",
        "polynomial:steps=333,power=2.5",
        "cosine:steps=1234",
        "cosine:steps=500,end=0.1,warmup=300",
        "piecewise:1000=0.5,2000=0.1",
        "piecewise:0=2,5=0,6=1,warmup=4",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        struct rate r = parsed(texts[i]);
        for (uint64_t k = 0; k < 3040; k++) {
            uint64_t step = k < 3000 ? k : (uint64_t)1 << (k - 3000 + 12);
            double w = (double)r.warmup;
            double want = step >= r.warmup
                              ? by_the_book(&r, (double)(step - r.warmup))
                              : (double)(step + 1) / (w + 1) * by_the_book(&r, 0);
            double got = (double)rate_factor(&r, step);
            if (!(fabs(got - want) <= 1.2e-7 * want + 1e-16))
                fail_msg("%s at step %llu is %.9g, not %.9g", texts[i],
                         (unsigned long long)step, got, want);
        }
    }
}

static void noam(void **state)
{
    (void)state;
    struct rate r = parsed("noam:dim=64,warmup=100");
    for (uint64_t step = 0; step < 2000; step++) {
        double s = (double)step + 1;
        double want = fmin(pow(s, -0.5), s * pow(100, -1.5)) / 8;
        assert_true(fabs((double)rate_factor(&r, step) - want) <= 1.2e-7 * want);
    }
    r = parsed("noam");
    assert_true(r.dim == 512 && r.warmup == 4000);
}

// The rate is a number at every step, even at the largest one.
static void far_steps(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "constant",
        "exponential:steps=1,factor=1e-30",
        "natural-exponential:steps=1,factor=3e38",
        "inverse-time:steps=1,factor=3e38",
        "polynomial:steps=18446744073709551615,power=1e-30",
        "cosine:steps=18446744073709551615",
        "piecewise:18446744073709551615=3e38",
        "noam:dim=4294967295,warmup=18446744073709551615",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        struct rate r = parsed(texts[i]);
        for (uint64_t k = 0; k < 130; k++) {
            uint64_t step = k < 2 ? UINT64_MAX - k : random_u64(SEED, i, k) >> (k % 64);
            float x = rate_factor(&r, step);
            assert_true(isfinite(x) && x >= 0);
        }
    }
    assert_true(rate_factor(&(struct rate){0}, 12345) == 1);
}

static void check_text(const struct rate *r)
{
    struct buf b = BUF_INIT(1 << 12);
    struct rate again;
    assert_int_equal(rate_print(r, &b), 0);
    again = parsed(buf_str(&b));
    assert_true(again.kind == r->kind && again.dim == r->dim &&
                again.warmup == r->warmup && again.steps == r->steps &&
                again.factor == r->factor && again.end == r->end &&
                again.power == r->power && again.stairs == r->stairs &&
                again.n_pieces == r->n_pieces);
    assert_memory_equal(again.from, r->from, sizeof(r->from));
    assert_memory_equal(again.to, r->to, sizeof(r->to));
    buf_free(&b);
}

static void texts_round_trip(void **state)
{
    (void)state;
    static const char *const forms[] = {
        "exponential:steps=%llu,factor=%.9g,stairs,warmup=%llu",
        "natural-exponential:steps=%llu,factor=%.9g,warmup=%llu",
        "inverse-time:steps=%llu,factor=%.9g,stairs,warmup=%llu",
        "polynomial:steps=%llu,end=%.9g,power=%.9g,warmup=3",
        "cosine:steps=%llu,end=%.9g",
        "piecewise:%llu=%.9g",
    };
    for (uint64_t i = 0; i < 300; i++) {
        char text[256];
        double x = (double)random_f32(SEED, 1, i) + 1e-6;
        unsigned long long n = 1 + (random_u64(SEED, 2, i) >> (i % 64));
        if (i % 6 == 3)
            snprintf(text, sizeof(text), forms[3], n, x, 2 * x);
        else
            snprintf(text, sizeof(text), forms[i % 6], n, x, n / 3);
        struct rate r = parsed(text);
        check_text(&r);
    }
    struct rate r = parsed("constant");
    check_text(&r);
    r = parsed("noam:dim=9");
    check_text(&r);
    r = parsed("piecewise:1=1,2=0.1,3=1e-30,18446744073709551615=0,warmup=9");
    check_text(&r);
}

static void refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
    } bad[] = {
        {"exponentail:steps=1", "did you mean 'exponential'?"},
        {"", "choose from constant, exponential"},
        {"cosine", "needs steps=N"},
        {"cosine:steps=0", "needs steps=N"},
        {"cosine:steps=-1", "not a whole number"},
        {"cosine:steps=1.5", "not a whole number"},
        {"cosine:steps=99999999999999999999", "not a whole number"},
        {"cosine:steps=10,power=2",
         "has no parameter 'power'; it has warmup, steps, end"},
        {"cosine:steps=10,end=2", "must be 0 to 1"},
        {"cosine:steps=10,stairs", "no parameter 'stairs'"},
        {"cosine:steps=10,", "no parameter ''"},
        {"exponential:steps=10,factor=0", "factor"},
        {"exponential:steps=10,factor=1.5", "to 1"},
        {"exponential:steps=10,factor=x", "is 'x', which is not a number"},
        {"inverse-time:steps=10,factor=-1", "from 0 on"},
        {"polynomial:steps=10,power=0", "power"},
        {"piecewise", "has 0 pieces"},
        {"piecewise:5=1,5=2", "do not rise"},
        {"piecewise:x=1", "not of the form step=value"},
        {"piecewise:1=-1", "a value"},
        {"piecewise:1=1,2=1,3=1,4=1,5=1,6=1,7=1,8=1,9=1,10=1,11=1,12=1,13=1,14=1,15=1,"
         "16=1,17=1",
         "at most 16"},
        {"noam:dim=0", "dim of the noam schedule is 0"},
        {"noam:warmup=0", "warmup of the noam schedule is 0"},
        {"noam:dim=4294967296", "not a whole number"},
        {"constant:steps=1", "no parameter 'steps'"},
    };
    struct rate r;
    struct err e;
    char big[2048] = "cosine:";
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        assert_int_equal(rate_parse(bad[i].text, &r, &e), TUG_EUSAGE);
        if (strstr(e.text, bad[i].why) == NULL)
            fail_msg("%s: \"%s\" does not say \"%s\"", bad[i].text, e.text, bad[i].why);
    }
    memset(big + 7, 's', sizeof(big) - 8);
    assert_int_equal(rate_parse(big, &r, &e), TUG_EUSAGE);
    r = (struct rate){.kind = RATE_KINDS};
    assert_int_equal(rate_check(&r, &e), TUG_EUSAGE);
    r = (struct rate){.kind = RATE_INVERSE_TIME, .steps = 1, .factor = NAN};
    assert_int_equal(rate_check(&r, &e), TUG_EUSAGE);
    r = (struct rate){.kind = RATE_PIECEWISE, .n_pieces = RATE_PIECES + 1};
    assert_int_equal(rate_check(&r, &e), TUG_EUSAGE);
}

static void no_memory(void **state)
{
    (void)state;
    struct rate r = parsed("exponential:steps=1000,warmup=3,stairs");
    struct buf b = BUF_INIT(1 << 12);
    mem_fault_after(0);
    assert_int_equal(rate_print(&r, &b), TUG_ENOMEM);
    mem_fault_after(-1);
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formulas),  cmocka_unit_test(noam),
        cmocka_unit_test(far_steps), cmocka_unit_test(texts_round_trip),
        cmocka_unit_test(refused),   cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
