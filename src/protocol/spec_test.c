// Tests specs of tables: encoding and decoding, invalid specs, and differences between
// specs.
//
// SPDX-License-Identifier: Apache-2.0
#include "protocol/spec.h"

#include <string.h>

#include "base/alloc.h"
#include "kit/test.h"

static const char *const settings[] = {
    "name=a",
    "name=b; dim=3; rule=sum; placement=range; mode=ssp:2; seed=77",
    "name=c; accessor=features; embed=2; dim=6; by-squares=yes; mode=sync; reduce=mean; "
    "rule=ftrl:lr=0.1,l1=2,prior=3; embedx-rule=adagrad-row:block=3,lr=0.123456789; "
    "embedx-init=0.05",
    "name=d; accessor=ctr; dim=8; entry=count:3; embedx-init=-2..1; placement=hash",
    "name=e; dim=1; placement=dense; init=0.25; rule=adagrad-row:beta=0.1",
};
enum { SPECS = sizeof(settings) / sizeof(*settings) };

static struct table_spec spec_of(uint32_t id, const char *text)
{
    struct table_config c = table_config_defaults();
    struct table_spec s;
    struct err e;
    if (table_config_parse(&c, text, &e) != 0 || spec_make(&s, id, &c, &e) != 0)
        fail_msg("%s: %s", text, e.text);
    return s;
}

static void test_encode_and_decode(void **state)
{
    (void)state;
    const enum wire_space spaces[SPECS] = {WIRE_SPACE_SPARSE, WIRE_SPACE_RANGE,
                                           WIRE_SPACE_SPARSE, WIRE_SPACE_SPARSE,
                                           WIRE_SPACE_DENSE};
    const enum wire_mode modes[SPECS] = {WIRE_ASYNC, WIRE_SSP, WIRE_SYNC, WIRE_ASYNC,
                                         WIRE_ASYNC};
    for (uint32_t i = 0; i < SPECS; i++) {
        struct table_spec s = spec_of(i * 1000, settings[i]), back;
        struct buf config = BUF_INIT(WIRE_TEXT_MAX);
        struct msg_table m;
        assert_int_equal(spec_encode(&s, &config, &m), 0);
        assert_int_equal(spec_decode(&back, &m, NULL), 0);
        assert_true(spec_same(&s, &back));
        assert_int_equal(back.id, i * 1000);
        assert_true(back.space == spaces[i] && back.mode == modes[i]);
        assert_int_equal(back.accessor.width, s.accessor.width);
        assert_int_equal(back.accessor.pull_width, s.accessor.pull_width);
        assert_int_equal(back.accessor.push_width, s.accessor.push_width);
        buf_free(&config);
    }
}

// A push contains gradients and the examples' statistics, or weights, or whole rows.
static void test_widths(void **state)
{
    (void)state;
    struct table_spec s = spec_of(1, settings[2]);
    assert_int_equal(spec_value_width(&s, WIRE_GRADIENT), 2 + 6 + 2);
    assert_int_equal(spec_value_width(&s, WIRE_ASSIGN), 2 + 6);
    assert_int_equal(spec_value_width(&s, WIRE_ROW), s.accessor.width);
    assert_int_equal(spec_page_width(&s), s.accessor.width);
    s = spec_of(1, settings[3]);
    assert_int_equal(spec_page_width(&s), s.accessor.pull_width);
    assert_int_equal(spec_page_rows(&s, 10), 10);
    assert_true(spec_page_rows(&s, UINT32_MAX) <= SPEC_PAGE_BYTES / (8 + 4));
}

static void refuses(uint32_t id, const char *text, const char *says)
{
    struct msg_table m = {.table = id, .config = wire_text(text)};
    struct table_spec back;
    struct err e;
    assert_int_equal(spec_decode(&back, &m, &e), TUG_EUSAGE);
    if (strstr(e.text, says) == NULL)
        fail_msg("'%s' does not say '%s'", e.text, says);
}

static void test_refusals(void **state)
{
    (void)state;
    refuses(SPEC_MAX_TABLES, "name=a", "a table's number must be below 4096");
    refuses(3, "name=a b", "cannot be the name of a table");
    refuses(3, "name=\x1b[31m", "cannot be the name of a table");
    refuses(3, "dims=2", "did you mean 'dim'?");
    refuses(3, "name=x; dim=2000000", "table 3 (x): ");
    refuses(3, "mode=bsp", "mode");
    refuses(3, "accessor=features; dim=9; embedx-rule=adagrad-row:block=2", "block of 2");
    refuses(3, "accessor=features; embed=0", "embed must be at least 1");
    refuses(3, "accessor=features; embed=4000000000; dim=8", "would have");
    refuses(3, "embed=2", "embed has no effect on accessor plain");
    refuses(3, "accessor=ctr; by-squares=yes", "by-squares has no effect");
    refuses(3, "accessor=ctr; embedx-random=2", "embedx-random has no effect");
    refuses(3, "accessor=features; dim=4; embedx-random=5",
            "more than the 4 floats of embedx");
    refuses(3, "rule=sgd:prior=1", "needs a column that counts");
    // A table in which one group adds up values cannot be averaged.
    refuses(3,
            "accessor=features; dim=1; rule=sum; embedx-rule=sgd; mode=sync; reduce=mean",
            "put that group into a table of its own");
    struct msg_table m = {.config = {"name=a\0b", 8}};
    struct table_spec back;
    struct err e;
    assert_int_equal(spec_decode(&back, &m, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "are not a text"));
}

static void test_differences(void **state)
{
    (void)state;
    const struct table_spec s = spec_of(1, settings[2]);
#define DIFFERS(what, change)                                                            \
    do {                                                                                 \
        struct table_spec o = s;                                                         \
        change;                                                                          \
        assert_string_equal(spec_difference(&s, &o), what);                              \
        assert_string_equal(spec_difference(&o, &s), what);                              \
        assert_false(spec_same(&s, &o));                                                 \
    } while (0)
    DIFFERS("name", o.config.name[0] = 'x');
    DIFFERS("placement", o.config.place = CONFIG_RANGE);
    DIFFERS("mode", o.config.mode = CONFIG_ASYNC);
    DIFFERS("seed", o.config.seed++);
    DIFFERS("dim", o.config.accessor.dim++);
    DIFFERS("embed", o.config.accessor.embed++);
    DIFFERS("rule", o.config.accessor.rule.lr *= 2);
    DIFFERS("embedx-rule", o.config.accessor.extra.block = 1);
    DIFFERS("embedx-init", o.config.extra_high = 1);
    DIFFERS("by-squares", o.config.accessor.by_squares = false);
    DIFFERS("embedx-random", o.config.accessor.random = 2);
#undef DIFFERS
    struct table_spec other = s;
    other.id++;
    assert_null(spec_difference(&s, &other));
    assert_false(spec_same(&s, &other));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_encode_and_decode),
        cmocka_unit_test(test_widths),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_differences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
