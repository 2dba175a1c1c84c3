// Update rules as text, their names, and rules of a program.
//
// SPDX-License-Identifier: Apache-2.0
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "kit/test.h"
#include "rule/rule.h"

static const uint64_t SEED = 78;

static void names(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum rule_kind kind;
    } known[] = {
        {"naive", RULE_SGD},
        {"SparseNaiveSGDRule", RULE_SGD},
        {"SparseAdaGradSGDRule", RULE_ADAGRAD_SHARED},
        {"StdAdaGradSGDRule", RULE_ADAGRAD_STD},
        {"std_adagrad", RULE_ADAGRAD_STD},
        {"SparseAdaGradV2SGDRule", RULE_ADAGRAD_V2},
        {"adagrad_v2", RULE_ADAGRAD_V2},
        {"SparseAdamSGDRule", RULE_ADAM},
        {"SparseSharedAdamSGDRule", RULE_ADAM_SHARED},
        {"shared_adam", RULE_ADAM_SHARED},
        {"adam_d2sum", RULE_ADAM_D2SUM},
        {"set", RULE_ASSIGN},
        {"mean", RULE_AVERAGE},
    };
    enum rule_kind kind;
    struct err e;
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
        assert_int_equal(rule_find(known[i].name, &kind, NULL), 0);
        assert_int_equal(kind, known[i].kind);
    }
    assert_int_equal(rule_find("none", &kind, &e), TUG_EUSAGE);
    const char *rest = strstr(e.text, "sgd");
    for (int i = 0; i < RULE_KINDS; i++) {
        const char *name = rule_info((enum rule_kind)i)->name;
        assert_int_equal(rule_find(name, &kind, NULL), 0);
        assert_int_equal(kind, i);
        assert_true(rest != NULL && strncmp(rest, name, strlen(name)) == 0);
        rest += strlen(name);
        rest += strspn(rest, ", ");
    }
    assert_string_equal(rest, "");
    assert_int_equal(rule_find("adgrad", &kind, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "did you mean 'adagrad'?"));
    assert_int_equal(rule_find("", &kind, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "choose from sgd, momentum"));
    assert_null(rule_info(RULE_KINDS));
    assert_null(rule_info((enum rule_kind) - 1));
}

static void texts(void **state)
{
    (void)state;
    struct rule_params p;
    char text[RULE_TEXT_MAX];
    assert_int_equal(rule_parse("adagrad:lr=0.05,n0=3,clip=10,low=-10,high=10", &p, NULL),
                     0);
    assert_true(p.kind == RULE_ADAGRAD && p.lr == 0.05f && p.n0 == 3 && p.clip == 10 &&
                p.bounded && p.low == -10 && p.high == 10 && !p.dense && p.block == 1);
    rule_print(&p, text);
    assert_string_equal(text, "adagrad:lr=0.05,n0=3,low=-10,high=10,clip=10");
    assert_int_equal(rule_parse("SparseAdamSGDRule:dense", &p, NULL), 0);
    rule_print(&p, text);
    assert_string_equal(text, "adam:dense,unscaled");
    assert_int_equal(rule_parse("SparseNaiveSGDRule:lr=0.5", &p, NULL), 0);
    rule_print(&p, text);
    assert_string_equal(text, "sgd:lr=0.5,unscaled");
    assert_int_equal(rule_parse("shared_adam", &p, NULL), 0);
    rule_print(&p, text);
    assert_string_equal(text, "adam-shared:dense,unscaled");
    assert_int_equal(rule_parse("sum:low=0", &p, NULL), 0);
    assert_true(p.bounded && p.low == 0 && p.high == FLT_MAX);
    assert_int_equal(rule_parse("adagrad-row:block=8", &p, NULL), 0);
    assert_int_equal(p.block, 8);
    rule_print(&p, text);
    assert_string_equal(text, "adagrad-row:block=8");
    assert_int_equal(rule_adjust("n0=0,beta=0.5", &p, NULL), 0);
    rule_print(&p, text);
    assert_string_equal(text, "adagrad-row:block=8,n0=0,beta=0.5");
    assert_int_equal(rule_adjust("n0=2,beta1=0", &p, NULL), TUG_EUSAGE);
    assert_true(p.n0 == 0 && p.beta == 0.5f && p.block == 8);
}

// A rule with any numbers is the same after it was printed and parsed.
static void texts_round_trip(void **state)
{
    (void)state;
    for (int kind = 0; kind < RULE_KINDS; kind++)
        for (uint64_t i = 0; i < 50; i++) {
            struct rule_params usual = rule_defaults((enum rule_kind)kind), p, again;
            char text[RULE_TEXT_MAX], twice[RULE_TEXT_MAX];
            rule_print(&usual, text);
            assert_string_equal(text, rule_info((enum rule_kind)kind)->name);
            snprintf(
                text, sizeof(text), "%s:low=%.9g,high=%.9g,clip=%.9g,clip_norm=%.9g%s",
                rule_info((enum rule_kind)kind)->name, -(double)random_f32(SEED, 20, i),
                (double)random_f32(SEED, 21, i), (double)random_f32(SEED, 22, i),
                1e30 * (double)random_f32(SEED, 23, i), i % 2 ? ",dense" : "");
            assert_int_equal(rule_parse(text, &p, NULL), 0);
            rule_print(&p, twice);
            assert_int_equal(rule_parse(twice, &again, NULL), 0);
            assert_true(rule_same(&p, &again));
            again.high = nextafterf(again.high, 2);
            assert_false(rule_same(&p, &again));
        }
}

static void refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
    } bad[] = {
        {"adagrat:lr=1", "did you mean 'adagrad'?"},
        {"adam:lr", "neither name=number nor dense"},
        {"adam:", "neither name=number nor dense"},
        {"adam:lr=1,,l1=0", "neither name=number nor dense"},
        {"adam:lr=", "not a number"},
        {"adam:lr=0x1", "not a number"},
        {"adam:lr= 1", "not a number"},
        {"adam:lr=1e99", "not a number"},
        {"adam:lr=nan", "not a number"},
        {"adam:lr=0", "learns nothing"},
        {"adam:lr=-1", "less than 0"},
        {"adam:beta1=1", "more than 0.99999994"},
        {"adam:beta3=0.9", "did you mean 'beta"},
        {"sum:lr=1", "has no parameter 'lr'"},
        {"adam:block=2", "no parameter 'block'"},
        {"adagrad-row:block=0", "not a whole number"},
        {"adagrad-row:block=-3", "not a whole number"},
        {"adagrad-shared:g0=0", "must be above 0"},
        {"summary:decay=1.5", "more than 1"},
        {"sgd:low=1,high=0", "above 'high'"},
        {"sgd:clip=-1", "less than 0"},
    };
    char big[2 * RULE_TEXT_MAX] = "sgd:";
    struct rule_params p;
    struct err e;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        assert_int_equal(rule_parse(bad[i].text, &p, &e), TUG_EUSAGE);
        if (strstr(e.text, bad[i].why) == NULL)
            fail_msg("%s: \"%s\" does not say \"%s\"", bad[i].text, e.text, bad[i].why);
    }
    memset(big + 4, 'l', sizeof(big) - 5);
    assert_int_equal(rule_parse(big, &p, &e), TUG_EUSAGE);
    p = rule_defaults(RULE_SGD);
    p.lr = NAN;
    assert_int_equal(rule_check(&p, &e), TUG_EUSAGE);
    p = rule_defaults(RULE_SGD);
    p.kind = (enum rule_kind)(RULE_MAX + 1);
    assert_int_equal(rule_check(&p, &e), TUG_EUSAGE);
    p = rule_defaults(RULE_SGD);
    p.block = 0;
    assert_int_equal(rule_check(&p, &e), TUG_EUSAGE);
}

static void halve(const struct rule_params *p, float l2, float *w, float *s,
                  const float *g, size_t n)
{
    (void)p, (void)l2, (void)g;
    for (size_t i = 0; i < n; i++) {
        w[i] /= 2;
        s[i] += 1;
    }
}

// Registers rules until there is no more room; this test runs last.
static void own_rules(void **state)
{
    (void)state;
    static char many[RULE_MAX][16];
    struct rule_info info = {.name = "halve",
                             .aliases = "half bisect",
                             .about = "half of it",
                             .per_weight = 1,
                             .per_row = 2,
                             .defaults = {.lr = 2}};
    struct rule_params p;
    struct err e;
    assert_int_equal(rule_register(&info, halve, &e), 0);
    assert_int_equal(rule_parse("bisect:lr=0.5,beta1=0.25,low=-1", &p, &e), 0);
    assert_true(p.kind == RULE_KINDS && p.lr == 0.5f && p.beta1 == 0.25f && p.bounded);
    assert_int_equal(rule_state(&p, 5), 7);
    assert_int_equal(rule_check(&p, NULL), 0);
    assert_string_equal(rule_info(p.kind)->about, "half of it");
    float w[2] = {1, 2}, s[2] = {0};
    rule_apply(kernels_get(), p.kind)(&p, 0, w, s, w, 2);
    assert_true(w[0] == 0.5f && w[1] == 1 && s[1] == 1);
    assert_int_equal(rule_register(&info, halve, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "already"));
    static const char *const bad[] = {
        "",     "adam", "SparseAdamSGDRule",
        "half", "a:b",  "a,b",
        "a b",  "a=b",  "a-name-that-is-far-too-long-to-be-one"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        info.name = bad[i];
        assert_int_equal(rule_register(&info, halve, &e), TUG_EUSAGE);
    }
    info.aliases = NULL;
    info.name = NULL;
    assert_int_equal(rule_register(&info, halve, &e), TUG_EUSAGE);
    info.name = "nothing";
    info.defaults.dense = true;
    assert_int_equal(rule_register(&info, halve, &e), TUG_EUSAGE);
    info.defaults.dense = false;
    assert_int_equal(rule_register(&info, NULL, &e), TUG_EUSAGE);
    for (int i = RULE_KINDS + 1; i < RULE_MAX; i++) {
        snprintf(many[i], sizeof(many[i]), "own-%d", i);
        info.name = many[i];
        assert_int_equal(rule_register(&info, halve, &e), 0);
    }
    info.name = "one-more";
    assert_int_equal(rule_register(&info, halve, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "cannot be added"));
    assert_string_equal(rule_info((enum rule_kind)(RULE_MAX - 1))->name, "own-63");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(texts),
        cmocka_unit_test(texts_round_trip),
        cmocka_unit_test(refused),
        cmocka_unit_test(own_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
