// Settings of tables: texts are parsed and printed, and bad ones are refused with the
// right message.
//
// SPDX-License-Identifier: Apache-2.0
#include "store/config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "kit/accessors.h"
#include "kit/test.h"
#include "rule/rule.h"

enum { TEXT_MAX = 1 << 16 };

static void print(const struct table_config *c, char ret[TEXT_MAX])
{
    struct buf b = BUF_INIT(TEXT_MAX - 1);
    assert_int_equal(table_config_print(c, &b), 0);
    snprintf(ret, TEXT_MAX, "%s", buf_str(&b));
    buf_free(&b);
}

static struct table_config parsed(const char *text)
{
    struct table_config c = table_config_defaults();
    struct err e = {0};
    if (table_config_parse(&c, text, &e) != 0)
        fail_msg("%s", e.text);
    return c;
}

static void refused(const char *text, const char *about)
{
    static char before[TEXT_MAX], after[TEXT_MAX];
    struct table_config c = parsed("name = kept\ndim = 3");
    struct err e = {0};
    print(&c, before);
    assert_int_equal(table_config_parse(&c, text, &e), TUG_EUSAGE);
    if (strstr(e.text, about) == NULL)
        fail_msg("not about '%s': %s", about, e.text);
    print(&c, after);
    assert_string_equal(before, after);
}

static void defaults(void **state)
{
    (void)state;
    static char text[TEXT_MAX];
    struct table_config c = table_config_defaults();
    const struct life l = life_defaults();
    assert_int_equal(table_config_check(&c, NULL), 0);
    print(&c, text);
    assert_string_equal(text, "");
    assert_true(c.accessor.life.nonclick == l.nonclick &&
                c.accessor.life.click == l.click &&
                c.accessor.life.embedx_threshold == l.embedx_threshold &&
                c.accessor.life.base_threshold == l.base_threshold &&
                c.accessor.life.delta_threshold == l.delta_threshold &&
                c.accessor.life.delta_keep_days == l.delta_keep_days &&
                c.accessor.life.decay == l.decay &&
                c.accessor.life.delete_threshold == l.delete_threshold &&
                c.accessor.life.delete_after_days == l.delete_after_days &&
                c.accessor.life.cold_after_days == l.cold_after_days &&
                c.accessor.life.show_scale == l.show_scale &&
                c.accessor.life.ttl_steps == l.ttl_steps);
    assert_int_equal(c.accessor.rule.kind, RULE_ADAGRAD_SHARED);
    assert_true(c.accessor.rule.lr == 0.05f && c.accessor.rule.g0 == 3);
    assert_true(c.accessor.rule.bounded && c.accessor.rule.low == -10 &&
                c.accessor.rule.high == 10);
    assert_true(c.extra_low == -1e-4f && c.extra_high == 1e-4f && c.init_high == 0);
    assert_true(c.budget_floor == 0.9f && !c.mean && c.mode == CONFIG_ASYNC);
}

static void example(void **state)
{
    (void)state;
    struct table_config c = parsed("# users and what they see\n"
                                   "name = users; dim = 4   # embedx\n"
                                   "\n"
                                   "  embedx_rule = adam:lr=0.01 ;; \r\n"
                                   "deltas = no\n"
                                   "rate=exponential:steps=10\n"
                                   "entry = count:3\n"
                                   "init = 0.01\n"
                                   "embedx-init = -0.5..0.25\n"
                                   "mode = ssp:7\n"
                                   "placement = range\n"
                                   "ttl-steps = 1e6\n"
                                   "cold = /tmp/a b = c\n"
                                   "seed = 18446744073709551615\n"
                                   "accessor = DownpourUnitAccessor");
    assert_string_equal(c.name, "users");
    assert_string_equal(c.accessor.name, "ctr");
    assert_false(c.accessor.life.show_scale);
    assert_true(c.accessor.life.embedx_late);
    assert_int_equal(c.accessor.dim, 4);
    assert_int_equal(c.accessor.extra.kind, RULE_ADAM);
    assert_int_equal(c.rate.kind, RATE_EXPONENTIAL);
    assert_string_equal(c.entry.policy, "count");
    assert_true(c.entry.threshold == 3 && c.entry.seed == UINT64_MAX);
    assert_true(c.init_low == -0.01f && c.init_high == 0.01f);
    assert_true(c.extra_low == -0.5f && c.extra_high == 0.25f);
    assert_true(c.mode == CONFIG_SSP && c.staleness == 7 && c.place == CONFIG_RANGE);
    assert_int_equal(c.accessor.life.ttl_steps, 1000000);
    assert_string_equal(c.cold, "/tmp/a b = c");
    assert_true(c.seed == UINT64_MAX && !c.deltas);
    assert_int_equal(table_config_check(&c, NULL), 0);
}

// Paddle's names of accessors are accepted as values of `accessor`.
static void names_of_paddle(void **state)
{
    (void)state;
    static const char *const settings[] = {
        "accessor = CommMergeAccessor",           "accessor = SparseAccessor",
        "accessor = DownpourSparseValueAccessor", "accessor = CtrCommonAccessor",
        "accessor = DownpourCtrAccessor",         "accessor = DownpourUnitAccessor",
        "accessor = CtrDoubleAccessor",           "accessor = DownpourCtrDoubleAccessor",
        "accessor = DownpourDoubleUnitAccessor"};
    for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++) {
        struct table_config c = parsed(settings[i]);
        assert_int_equal(table_config_check(&c, NULL), 0);
    }
}

// Without the setting `deltas`, the accessor decides whether changes are recorded for
// deltas.
static void deltas(void **state)
{
    (void)state;
    static char text[TEXT_MAX];
    assert_false(parsed("accessor = plain").deltas);
    assert_true(parsed("accessor = ctr").deltas);
    assert_false(parsed("deltas = no\naccessor = ctr").deltas);
    struct table_config c = parsed("accessor = ctr");
    print(&c, text);
    assert_string_equal(text, "accessor = ctr\n");
    c.deltas = false;
    print(&c, text);
    assert_string_equal(text, "accessor = ctr\ndeltas = no\n");
}

// -0 is read as 0, so that equal settings have equal texts.
static void zeros(void **state)
{
    (void)state;
    static char text[TEXT_MAX];
    struct table_config c = parsed("decay = -0; delta-keep-days = 0; init = -0..1");
    print(&c, text);
    assert_string_equal(text, "init = 0..1\ndelta-keep-days = 0\ndecay = 0\n");
    c = parsed("init = -0.0");
    print(&c, text);
    assert_string_equal(text, "");
}

static float any_float(uint64_t seed, uint64_t i, float low, float high)
{
    uint64_t rng = random_below(seed, 5, i, 4);
    float x = random_f32(seed, 6, i);
    return rng == 0 ? low : rng == 1 ? high : low + (high - low) * x * x * x;
}

static void randomise(struct table_config *c, uint64_t seed)
{
    static const char *const entries[] = {"none",
                                          "count:7",
                                          "probability:0.3333333",
                                          "bloom:5:shows",
                                          "sketch:3:error=0.001",
                                          "show-click:2.5"};
    static const char *const rates[] = {"constant", "exponential:steps=77,factor=0.3",
                                        "noam", "piecewise:5=0.5,9=0.1"};
    static const char *const modes[] = {"async", "ssp:3", "sync"};
    static const char *const places[] = {"hash", "range", "dense"};
    struct life *l = &c->accessor.life;
    float *const numbers[] = {
        &l->nonclick,
        &l->click,
        &l->embedx_threshold,
        &l->base_threshold,
        &l->delta_threshold,
        &l->delta_keep_days,
        &l->decay,
        &l->delete_threshold,
        &l->delete_after_days,
        &l->cold_after_days,
        &c->budget_floor,
    };
#define RNG(n) random_below(seed, 1, at++, n)
    uint64_t at = 0;
    uint64_t accessors = 0;
    while (accessors_name(accessors) != NULL)
        accessors++;
    assert_int_equal(
        table_config_set(c, "accessor", accessors_name(RNG(accessors)), NULL), 0);
    assert_int_equal(table_config_set(c, "entry", entries[RNG(6)], NULL), 0);
    assert_int_equal(table_config_set(c, "rate", rates[RNG(4)], NULL), 0);
    assert_int_equal(table_config_set(c, "mode", modes[RNG(3)], NULL), 0);
    assert_int_equal(table_config_set(c, "placement", places[RNG(3)], NULL), 0);
    for (uint64_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
        if (RNG(2))
            *numbers[i] = any_float(seed, i, 0, i % 2 ? 1 : 1e-7f);
    c->accessor.dim = (uint32_t)RNG(99);
    c->accessor.embed = (uint32_t)RNG(9);
    c->accessor.by_squares = RNG(2);
    c->accessor.random = (uint32_t)RNG(9);
    c->accessor.rule = rule_defaults((enum rule_kind)RNG(RULE_KINDS));
    if (*rule_info(c->accessor.rule.kind)->takes == 'l')
        c->accessor.rule.lr = random_f32(seed, 2, 0) + 1e-6f;
    c->accessor.extra.l2 = any_float(seed, 90, 0, 1);
    c->init_low = any_float(seed, 91, -1, 0);
    c->init_high = RNG(2) ? 0 - c->init_low : any_float(seed, 92, 0, 3);
    c->extra_low = c->extra_high = any_float(seed, 93, -2, 2);
    c->seed = c->entry.seed = random_u64(seed, 3, 0);
    c->mean = RNG(2);
    c->deltas = RNG(2);
    c->count_all = RNG(2);
    c->cold_durable = RNG(2);
    l->show_scale = RNG(2);
    l->embedx_late = RNG(2);
    l->ttl_steps = RNG(1000);
    c->budget_rows = random_u64(seed, 4, 0) >> RNG(64);
    c->hot_rows = random_u64(seed, 4, 1) >> RNG(64);
    snprintf(c->name, sizeof(c->name), "t%llu", (unsigned long long)RNG(9));
    snprintf(c->cold, sizeof(c->cold), "%s", RNG(2) ? "/a = b/c d" : "");
#undef RNG
}

static bool same_bits(float x, float y)
{
    return memcmp(&x, &y, sizeof(x)) == 0;
}

static void check_same(const struct table_config *x, const struct table_config *y)
{
    const struct life *a = &x->accessor.life, *b = &y->accessor.life;
    assert_string_equal(x->name, y->name);
    assert_string_equal(x->accessor.name, y->accessor.name);
    assert_int_equal(x->accessor.dim, y->accessor.dim);
    assert_int_equal(x->accessor.embed, y->accessor.embed);
    assert_int_equal(x->accessor.by_squares, y->accessor.by_squares);
    assert_int_equal(x->accessor.random, y->accessor.random);
    assert_true(rule_same(&x->accessor.rule, &y->accessor.rule));
    assert_true(rule_same(&x->accessor.extra, &y->accessor.extra));
    assert_true(same_bits(a->nonclick, b->nonclick) && same_bits(a->click, b->click) &&
                same_bits(a->embedx_threshold, b->embedx_threshold) &&
                same_bits(a->base_threshold, b->base_threshold) &&
                same_bits(a->delta_threshold, b->delta_threshold) &&
                same_bits(a->delta_keep_days, b->delta_keep_days) &&
                same_bits(a->decay, b->decay) &&
                same_bits(a->delete_threshold, b->delete_threshold) &&
                same_bits(a->delete_after_days, b->delete_after_days) &&
                same_bits(a->cold_after_days, b->cold_after_days));
    assert_true(a->embedx_late == b->embedx_late);
    assert_true(a->show_scale == b->show_scale && a->ttl_steps == b->ttl_steps);
    assert_memory_equal(&x->rate, &y->rate, sizeof(x->rate));
    assert_memory_equal(&x->entry, &y->entry, sizeof(x->entry));
    assert_true(
        same_bits(x->init_low, y->init_low) && same_bits(x->init_high, y->init_high) &&
        same_bits(x->extra_low, y->extra_low) && same_bits(x->extra_high, y->extra_high));
    assert_true(x->seed == y->seed && x->place == y->place && x->mode == y->mode);
    assert_true(x->staleness == y->staleness && x->mean == y->mean);
    assert_true(x->deltas == y->deltas && x->count_all == y->count_all);
    assert_true(x->budget_rows == y->budget_rows);
    assert_true(same_bits(x->budget_floor, y->budget_floor));
    assert_true(x->hot_rows == y->hot_rows && x->cold_durable == y->cold_durable);
    assert_string_equal(x->cold, y->cold);
    assert_int_equal(x->replicas, y->replicas);
}

static void round_trips(void **state)
{
    (void)state;
    static char text[TEXT_MAX], again[TEXT_MAX];
    for (uint64_t seed = 0; seed < 500; seed++) {
        struct table_config c = table_config_defaults();
        randomise(&c, seed);
        print(&c, text);
        struct table_config d = parsed(text);
        check_same(&c, &d);
        print(&d, again);
        assert_string_equal(text, again);
        // Puts all settings on one line, separated by ';'.
        for (char *at = text; *at != '\0'; at++)
            if (*at == '\n')
                *at = ';';
        d = parsed(text);
        check_same(&c, &d);
    }
}

// For each setting, the default that help shows can be set and equals the default of the
// field, and the help text is not empty.
static void all_settings(void **state)
{
    (void)state;
    static char text[TEXT_MAX];
    size_t n;
    const struct table_setting *s = table_settings(&n);
    struct table_config c = table_config_defaults();
    assert_int_equal(n, 38);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(table_config_set(&c, s[i].name, s[i].fallback, NULL), 0);
        assert_true(strlen(s[i].help) > 10 && strlen(s[i].metavar) > 0);
        assert_true(s[i].help[strlen(s[i].help) - 1] != '.');
    }
    print(&c, text);
    assert_string_equal(text, "");
}

static void refusals(void **state)
{
    (void)state;
    refused("dim = 8\n\ndmi = 7",
            "line 3: a table has no setting 'dmi'; did you mean 'dim'");
    refused("delete_after_day = 1", "did you mean 'delete-after-days'");
    refused("embedx_dim = 8", "a table has no setting 'embedx-dim'; use 'dim'");
    refused("sparse_learning_rate = 1", "'rule = adagrad-shared:lr=0.05'");
    refused("table_class = MemorySparseTable", "there is one kind of table: 'accessor'");
    refused("shard_num = 10", "spread over all servers");
    refused("foo = 1; dim = x\nbar = 2; accessor = none",
            "4 problems: (1) line 2: accessor");
    refused("foo = 1; dim = x\nbar = 2", "(2) line 1: dim: 'x'");
    refused("foo = 1; dim = x\nbar = 2",
            "3 problems: (1) line 1: a table has no setting");
    refused("what = 1", "its settings are name accessor dim");
    refused("dim", "line 1: 'dim' is not NAME = VALUE");
    refused("dim = 8\ndim = 8", "line 2: dim is already set in line 1");
    refused("dim = -1", "dim: '-1' is not a whole number");
    refused("dim = 5000000000", "at most 4294967295");
    refused("dim = 1.5", "not a whole number");
    refused("dim = 8x", "not a whole number");
    refused("seed = 18446744073709551616", "not a whole number");
    refused("decay = x", "decay: 'x' is not a number");
    refused("decay = nan", "is not a number");
    refused("decay = 1e99", "is not a number");
    refused("decay = 1.5", "decay is 1.5; it must be a number from 0 to 1");
    refused("decay =", "is not a number");
    refused("ttl-steps = 3e9", "ttl-steps");
    refused("accessor = crt", "did you mean 'ctr'");
    refused("rule = adagard",
            "rule: there is no optimizer 'adagard'; did you mean 'adagrad'");
    refused("embedx-rule = adam:lr=-1", "embedx-rule: lr");
    refused("entry = cont:3", "did you mean 'count'");
    refused("rate = cosine", "rate: ");
    refused("init = 1..0", "LOW..HIGH");
    refused("init = -1", "LOW..HIGH");
    refused("init = 0..1..2", "LOW..HIGH");
    refused("init = 1..", "LOW..HIGH");
    refused("placement = hsah", "did you mean 'hash'");
    refused("mode = ssp", "as in ssp:2");
    refused("mode = ssp:x", "not a whole number");
    refused("mode = assync", "did you mean 'async'");
    refused("reduce = average", "not one of: sum mean");
    refused("count-passes = last", "not one of: first all");
    refused("deltas = maybe", "not yes or no");
    refused("name = a/b", "cannot be the name of a table");
    refused("name =", "cannot be the name of a table");
    refused("name = .hidden", "cannot be the name of a table");
    refused("cold = a\tb", "control characters");
    char text[3000];
    memset(text, 'x', sizeof(text));
    memcpy(text, "cold = ", 7);
    text[1500] = '\0';
    refused(text, "too long");
    text[1500] = 'x';
    text[sizeof(text) - 1] = '\0';
    refused(text, "line 1: a setting of 2999 characters is too long");
    struct table_config c = table_config_defaults();
    assert_int_equal(table_config_set(&c, "cold", text, NULL), TUG_EUSAGE);
    assert_int_equal(table_config_set(&c, "no", "no", NULL), TUG_EUSAGE);
}

static void not_together(const char *text, const char *about)
{
    struct table_config c = parsed(text);
    struct err e = {0};
    assert_int_equal(table_config_check(&c, &e), TUG_EUSAGE);
    assert_int_equal(table_config_check(&c, NULL), TUG_EUSAGE);
    if (strstr(e.text, about) == NULL)
        fail_msg("not about '%s': %s", about, e.text);
}

static void checks(void **state)
{
    (void)state;
    static const char *const good[] = {
        "accessor = merge; rule = sum",
        "accessor = ctr; dim = 0; budget-rows = 1e6; budget-floor = 1",
        "placement = dense; rule = adam:dense",
        "cold = /tmp; hot-rows = 5",
        "mode = sync; reduce = mean",
        "placement = dense; sums-from = 3",
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        struct table_config c = parsed(good[i]);
        struct err e = {0};
        if (table_config_check(&c, &e) != 0)
            fail_msg("%s", e.text);
    }
    not_together("accessor = plain; dim = 0", "0 weights");
    not_together("accessor = plain; decay = 0.5", "decay has no effect");
    not_together("accessor = plain; embedx-rule = sgd", "embedx-rule has no effect");
    not_together("budget-rows = 5", "budget-rows has no effect");
    not_together("accessor = ctr; cold = here; budget-rows = 5", "exclude each other");
    not_together("accessor = merge; rule = sgd", "accessor merge adds");
    not_together("accessor = counter; rule = sgd", "accessor counter adds");
    not_together("accessor = counter; budget-rows = 5", "budget-rows has no effect");
    not_together("accessor = ctr; budget-floor = 0", "budget-floor");
    not_together("accessor = ctr; budget-floor = 1.1", "budget-floor");
    not_together("reduce = mean", "'mode = sync'");
    not_together("sums-from = 3", "sums-from needs placement dense");
    not_together("hot-rows = 5", "'hot-rows' needs a cold tier");
    not_together("cold-durable = yes", "'cold-durable' needs a cold tier");
    not_together("placement = dense; accessor = ctr", "come and go");
    not_together("placement = dense; entry = count:2", "an entry policy");
    not_together("placement = dense; cold = /tmp", "a cold tier");
    struct table_config c = table_config_defaults();
    c.place = (enum config_place)77;
    assert_int_equal(table_config_check(&c, NULL), TUG_EUSAGE);
    struct buf b = BUF_INIT(TEXT_MAX);
    assert_int_equal(table_config_print(&c, &b), TUG_EUSAGE);
    buf_free(&b);
    c = table_config_defaults();
    memset(c.name, 'x', sizeof(c.name));
    assert_int_equal(table_config_check(&c, NULL), TUG_EUSAGE);
    c = table_config_defaults();
    c.init_high = NAN;
    assert_int_equal(table_config_check(&c, NULL), TUG_EUSAGE);
}

static void no_memory(void **state)
{
    (void)state;
    struct table_config c = parsed("name = a; accessor = ctr; dim = 3; decay = 0.5"),
                        plain = parsed("name = b");
    size_t live = mem_live();
    int failures = 0;
    for (long after = 0;; after++) {
        struct buf b = BUF_INIT(TEXT_MAX);
        struct err e;
        mem_fault_after(after);
        int rc = table_config_print(&c, &b);
        if (rc == 0)
            rc = table_config_check(&plain, &e);
        mem_fault_after(-1);
        bool struck = rc != 0;
        if (struck)
            assert_int_equal(rc, TUG_ENOMEM);
        failures += struck;
        buf_free(&b);
        assert_int_equal(mem_live(), live);
        if (!struck)
            break;
    }
    assert_true(failures > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),        cmocka_unit_test(example),
        cmocka_unit_test(names_of_paddle), cmocka_unit_test(deltas),
        cmocka_unit_test(round_trips),     cmocka_unit_test(zeros),
        cmocka_unit_test(all_settings),    cmocka_unit_test(refusals),
        cmocka_unit_test(checks),          cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
