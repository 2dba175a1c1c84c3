// Specs of tables: there and back, what can't be, and what differs.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/spec.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/random.h"
#include "rule/rule.h"

enum { BITS = 6 };

// A spec with all fields set; draw 0 is always the same.
static struct table_spec draw_spec(uint64_t draw)
{
    struct table_spec s = {
        .id = (uint32_t)random_below(1, draw, 0, SPEC_MAX_TABLES),
        .space = (enum wire_space)random_below(1, draw, 1, WIRE_SPACES),
        .mode = (enum wire_mode)random_below(1, draw, 2, 3),
        .accessor = ACCESSOR_EMPTY};
    snprintf(s.name, sizeof(s.name), "table %llu", (unsigned long long)draw);
    if (s.mode == WIRE_SSP)
        s.staleness = (uint32_t)draw;
    s.mean = s.mode == WIRE_SYNC;
    enum rule_kind kinds[] = {RULE_ADAGRAD, RULE_FTRL};
    for (uint32_t g = 0; g <= draw % 2; g++) {
        struct rule_params rule = rule_defaults(kinds[g]);
        rule.lr = random_f32(1, draw, 10 + g);
        rule.beta = 1 + random_f32(1, draw, 20 + g);
        accessor_add_group(&s.accessor, &rule, 1 + (uint32_t)random_below(1, draw, 3, 9));
        if (g == 0 && draw % 3 == 0)
            accessor_add_count(&s.accessor);
    }
    s.accessor.groups[0].decays_by_squares = draw % 3 == 0;
    s.options = (struct table_options){.seed = random_u64(1, draw, 4),
                                       .id = (uint32_t)draw,
                                       .width = s.accessor.width,
                                       .align = draw % 4 == 0 ? 64 : 0,
                                       .partition_bits = BITS,
                                       .n_inits = (uint32_t)(draw % TABLE_MAX_INITS)};
    for (uint32_t i = 0; i < s.options.n_inits; i++)
        s.options.inits[i] = (struct table_init){i % s.accessor.width, 1, -1, (float)i};
    return s;
}

struct encoded {
    struct buf groups, inits;
    struct msg_table m;
};

static void encode(const struct table_spec *s, struct encoded *x)
{
    *x = (struct encoded){.groups = BUF_INIT(1 << 16), .inits = BUF_INIT(1 << 16)};
    assert_int_equal(spec_encode(s, &x->groups, &x->inits, &x->m), 0);
}

static void encoded_free(struct encoded *x)
{
    buf_free(&x->groups);
    buf_free(&x->inits);
}

static void test_there_and_back(void **state)
{
    (void)state;
    for (uint64_t draw = 0; draw < 200; draw++) {
        struct table_spec s = draw_spec(draw), back;
        struct encoded x;
        encode(&s, &x);
        assert_int_equal(spec_decode(&back, &x.m, BITS, NULL), 0);
        assert_true(spec_same(&s, &back));
        assert_int_equal(back.options.partition_bits, BITS);
        assert_int_equal(back.accessor.pull_width, s.accessor.pull_width);
        assert_int_equal(back.accessor.push_width, s.accessor.push_width);
        encoded_free(&x);
    }
}

static void test_refusals(void **state)
{
    (void)state;
    struct table_spec s = draw_spec(6), back; // one group and a count
    struct err e;
    struct encoded x;
    char long_name[SPEC_NAME_MAX];
    s.mode = WIRE_SYNC;
    memset(long_name, 'x', sizeof(long_name));
    encode(&s, &x);
    const struct msg_table good = x.m;
    assert_int_equal(spec_decode(&back, &good, BITS, &e), 0);
#define BAD(says, change)                                                                \
    do {                                                                                 \
        struct msg_table m = good;                                                       \
        change;                                                                          \
        assert_int_equal(spec_decode(&back, &m, BITS, &e), TUG_EUSAGE);                  \
        if (strstr(e.text, says) == NULL)                                                \
            fail_msg("'%s' does not say '%s'", e.text, says);                            \
    } while (0)
    BAD("numbers of tables are below 4096", m.table = SPEC_MAX_TABLES);
    BAD("has 64 bytes; 63 are allowed", m.name.data = long_name; m.name.n = 64);
    BAD("is not printable", m.name.data = "a\nb"; m.name.n = 3);
    BAD("asks for space 3", m.space = WIRE_SPACES);
    BAD("and mode 3", m.mode = 3);
    BAD("aligned to 12 bytes", m.align = 12);
    BAD("aligned to 8192 bytes", m.align = 8192);
    BAD("0 groups", m.groups.n = 0);
    BAD("groups of table 'table 6' are cut short", m.groups.n -= 1);
    BAD("too wide", m.width = TABLE_MAX_WIDTH + 1);
    BAD("do not fit", m.width--);
    BAD("do not fit", m.count = m.width);
    BAD("overlap", m.count = 0);
    BAD("cut short", m.inits.n -= 1);
#undef BAD
    encoded_free(&x);
    // Two groups, of which one adds, have no mean; three are too many.
    s = draw_spec(1);
    s.mode = WIRE_SYNC;
    s.mean = true;
    s.accessor = ACCESSOR_EMPTY;
    struct rule_params sum = rule_defaults(RULE_SUM), sgd = rule_defaults(RULE_SGD);
    accessor_add_group(&s.accessor, &sgd, 1);
    accessor_add_group(&s.accessor, &sum, 1);
    s.options = (struct table_options){.width = s.accessor.width};
    encode(&s, &x);
    assert_int_equal(spec_decode(&back, &x.m, BITS, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "put that group into a table of its own"));
    struct buf more = BUF_INIT(1 << 16);
    for (int i = 0; i < 2; i++)
        assert_int_equal(buf_add(&more, x.groups.data, x.groups.len), 0);
    x.m.groups = (struct wire_text){more.data, (uint32_t)more.len};
    assert_int_equal(spec_decode(&back, &x.m, BITS, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "more than 2 groups"));
    buf_free(&more);
    encoded_free(&x);
}

static void test_bad_inits(void **state)
{
    (void)state;
    struct table_init bad[] = {{1, 1000, 0, 1}, {1000, 1, 0, 1}, {UINT32_MAX, 2, 0, 1},
                               {0, 1, 1, 0},    {0, 1, NAN, 0},  {0, 1, 0, INFINITY}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct table_spec s = draw_spec(2), back;
        struct encoded x;
        struct err e;
        s.options.inits[0] = bad[i];
        encode(&s, &x);
        assert_int_equal(spec_decode(&back, &x.m, BITS, &e), TUG_EUSAGE);
        assert_non_null(strstr(e.text, "but its rows have"));
        encoded_free(&x);
    }
}

static void test_differences(void **state)
{
    (void)state;
    const struct table_spec s = draw_spec(6);
#define DIFFERS(what, change)                                                            \
    do {                                                                                 \
        struct table_spec o = s;                                                         \
        change;                                                                          \
        assert_string_equal(spec_difference(&s, &o), what);                              \
        assert_false(spec_same(&s, &o));                                                 \
    } while (0)
    DIFFERS("name", o.name[0] = 'x');
    DIFFERS("placement", o.space = (s.space + 1) % WIRE_SPACES);
    DIFFERS("mode", o.mode = (s.mode + 1) % 3);
    DIFFERS("first values", o.options.seed++);
    DIFFERS("first values", o.options.n_inits--);
    DIFFERS("first values", o.options.inits[1].high++);
    DIFFERS("alignment", o.options.align = 128);
    DIFFERS("width", o.accessor.width++);
    DIFFERS("layout of the row", o.accessor.count = ACCESSOR_NO_COUNT);
    DIFFERS("layout of the row", o.accessor.groups[0].state++);
    DIFFERS("update rule", o.accessor.groups[0].rule.lr++);
#undef DIFFERS
    struct table_spec other = s;
    other.id++;
    assert_null(spec_difference(&s, &other));
    assert_false(spec_same(&s, &other));
    other = s;
    other.options.partition_bits = 0; // the cluster's, whatever stands here
    assert_true(spec_same(&s, &other));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_bad_inits),
        cmocka_unit_test(test_differences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
