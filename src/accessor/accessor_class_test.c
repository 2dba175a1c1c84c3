// Accessors by name: layouts, initial values, Paddle's names, a program's own accessor,
// and refused settings.
//
// SPDX-License-Identifier: Apache-2.0
#include "accessor/accessor.h"

#include <math.h>
#include <string.h>

#include "kit/accessors.h"
#include "kit/test.h"

static void layouts(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t dim;
        uint64_t ttl;
        // The numbers of floats. In a row, embed under adagrad has a weight and a state.
        uint32_t width, extra_width, pull, push, stats, extra;
    } want[] = {
        {"plain", 3, 0, 6, 0, 3, 3, 0, 0},      {"merge", 3, 9, 3, 0, 3, 3, 0, 0},
        {"sparse", 0, 0, 7, 0, 1, 4, 5, 0},     {"sparse", 4, 0, 8, 14, 5, 8, 5, 7},
        {"ctr", 4, 0, 8, 14, 7, 8, 5, 7},       {"ctr", 4, 9, 9, 14, 7, 8, 6, 8},
        {"ctr_double", 0, 0, 9, 0, 3, 4, 7, 0}, {"ctr_double", 4, 9, 11, 14, 7, 8, 8, 10},
    };
    for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++) {
        struct accessor_options o = accessor_usual(want[i].name, want[i].dim);
        o.life.ttl_steps = want[i].ttl;
        struct accessor a = accessor_made(&o), packed;
        assert_int_equal(a.width, want[i].width);
        assert_int_equal(a.extra_width, want[i].extra_width);
        assert_int_equal(a.pull_width, want[i].pull);
        assert_int_equal(a.push_width, want[i].push);
        assert_int_equal(a.n_stats, want[i].stats);
        assert_int_equal(a.extra, want[i].extra);
        assert_int_equal(a.class != NULL, want[i].stats > 0);
        assert_int_equal(a.stats, want[i].stats > 0 ? 2 : 0);
        accessor_packed(&packed, &a);
        assert_int_equal(accessor_check(&packed, NULL), 0);
        assert_int_equal(packed.width, a.pull_width);
        assert_int_equal(packed.groups[0].weights, a.pulled_stats);
    }
    struct accessor_options o = accessor_usual("ctr", 6);
    // This rule has one state for the whole vector, not one for each weight.
    o.extra = rule_defaults(RULE_ADAGRAD_ROW);
    assert_int_equal(accessor_made(&o).extra_width, 7);
}

// The random weights of an initial row and its extra row are the same as if both were one long
// row.
static void first_rows(void **state)
{
    (void)state;
    struct accessor_options o = accessor_usual("ctr", 6);
    o.extra = rule_defaults(RULE_ADAGRAD);
    o.rule.n0 = 0.5f;
    struct accessor a = accessor_made(&o);
    struct table_options t = {.seed = 3, .id = 9, .width = a.width, .n_inits = 5};
    struct table *table;
    accessor_inits(&a, -0.25f, 0.25f, -2, 1, &t);
    assert_int_equal(t.n_inits, 2);
    assert_int_equal(table_open(&table, &t, NULL), 0);
    struct table_options long_row = t;
    struct table *whole;
    long_row.width = a.width + 6;
    long_row.n_inits = 1;
    long_row.inits[0] = (struct table_init){a.width, 6, -2, 1};
    assert_int_equal(table_open(&whole, &long_row, NULL), 0);
    for (uint64_t key = 0; key < 50; key++) {
        float row[MAX_WIDTH], extra[MAX_WIDTH], pulled[MAX_WIDTH], want[6];
        table_first_values(table, key, row);
        assert_true(row[0] != 0 && row[0] >= -0.25f && row[0] < 0.25f && row[1] == 0.5f);
        accessor_first_extra(&a, table, key, -2, 1, extra);
        table_first_columns(whole, key, a.width, 6, want);
        assert_memory_equal(extra, want, sizeof(want));
        for (int c = 6; c < 12; c++)
            assert_true(extra[c] == 1);
        pulled[a.pull_width] = -1;
        accessor_first(&a, table, key, pulled);
        for (uint32_t c = 0; c < a.pull_width; c++)
            assert_true(pulled[c] == (c == 2 ? row[0] : 0));
        assert_true(pulled[a.pull_width] == -1);
    }
    table_close(whole);
    table_close(table);
}

static void handles(void **state)
{
    (void)state;
    struct accessor_options o = accessor_usual("sparse", 2);
    struct accessor a = accessor_made(&o);
    float row[MAX_WIDTH] = {0};
    assert_true(accessor_extra(&a, row) == TABLE_NONE);
    for (uint32_t handle = 0; handle < TABLE_MAX_ROWS - 1000; handle += 0x00fffff1) {
        accessor_set_extra(&a, row, handle);
        assert_int_equal(accessor_extra(&a, row), handle);
    }
    accessor_set_extra(&a, row, TABLE_NONE);
    assert_true(accessor_extra(&a, row) == TABLE_NONE && row[a.extra] == 0);
}

static void refused_by_name(const struct accessor_options *o, const char *about)
{
    struct err e = {0};
    struct accessor a;
    assert_int_equal(accessor_make(&a, o, &e), TUG_EUSAGE);
    assert_int_equal(accessor_make(&a, o, NULL), TUG_EUSAGE);
    if (strstr(e.text, about) == NULL)
        fail_msg("not about '%s': %s", about, e.text);
}

#define NOT_MADE(accessor_name, change, about)                                           \
    do {                                                                                 \
        struct accessor_options o = accessor_usual(accessor_name, 4);                    \
        change;                                                                          \
        refused_by_name(&o, about);                                                      \
    } while (0)

static void not_made(void **state)
{
    (void)state;
    NOT_MADE("ctr", o.dim = UINT32_MAX, "at most");
    NOT_MADE("ctr", o.dim = TABLE_MAX_WIDTH, "too wide");
    NOT_MADE("plain", o.dim = 0, "0 weights");
    NOT_MADE("ctr", o.life.decay = NAN, "decay");
    NOT_MADE("ctr", o.life.ttl_steps = UINT64_MAX, "ttl-steps");
    NOT_MADE("ctr", o.rule.lr = NAN, "lr");
    NOT_MADE("ctr", o.extra.lr = INFINITY, "lr");
    NOT_MADE("ctr", o.extra.kind = (enum rule_kind)99, "update rule number");
    NOT_MADE("ctr", o.rule.prior = 1, "prior");
    NOT_MADE("ctr", o.extra.block = 3, "block");
    NOT_MADE("ctr", memset(o.name, 'x', sizeof(o.name)), "is too long");
    NOT_MADE("ctrl", (void)0, "did you mean 'ctr'");
    NOT_MADE("CtrComonAccessor", (void)0, "did you mean 'CtrCommonAccessor'");
    NOT_MADE("", (void)0, "choose from plain, merge, sparse, ctr, ctr_double");
}

static void paddle_names(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"CommMergeAccessor", "merge"},
        {"SparseAccessor", "sparse"},
        {"DownpourSparseValueAccessor", "sparse"},
        {"CtrCommonAccessor", "ctr"},
        {"DownpourCtrAccessor", "ctr"},
        {"DownpourUnitAccessor", "ctr"},
        {"CtrDoubleAccessor", "ctr_double"},
        {"DownpourCtrDoubleAccessor", "ctr_double"},
        {"DownpourDoubleUnitAccessor", "ctr_double"},
        {"ctr-double", "ctr_double"},
    };
    for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
        const struct accessor_class *c = accessor_find(pairs[i][0], NULL);
        assert_non_null(c);
        assert_string_equal(c->name, pairs[i][1]);
        struct accessor_options o = accessor_usual(pairs[i][0], 2);
        if (strcmp(c->name, "merge") != 0)
            assert_int_equal(accessor_made(&o).life.show_scale,
                             strstr(pairs[i][0], "Unit") == NULL);
        assert_int_equal(accessor_choose(&o, pairs[i][0], NULL), 0);
        assert_string_equal(o.name, pairs[i][1]);
    }
    for (size_t i = 0; accessors_name(i) != NULL; i++)
        assert_string_equal(accessor_find(accessors_name(i), NULL)->name,
                            accessors_name(i));
}

// The rows of models have a group of one weight, the count, and possibly a group with
// several vectors.
static void test_features(void **state)
{
    (void)state;
    struct accessor_options o = {.name = "features",
                                 .embed = 2,
                                 .dim = 6,
                                 .by_squares = true,
                                 .rule = rule_defaults(RULE_ADAGRAD),
                                 .extra = rule_defaults(RULE_ADAGRAD_ROW),
                                 .life = life_defaults()};
    struct accessor a;
    struct err e;
    o.rule.prior = 2; // the prior needs the count of updates
    o.extra.block = 3;
    assert_int_equal(accessor_make(&a, &o, &e), 0);
    assert_false(accessor_has_lifecycle(&a));
    assert_int_equal(a.n_groups, 2);
    assert_true(a.groups[0].weights == 0 && a.groups[0].n == 2 && a.groups[0].state == 2);
    assert_int_equal(a.count, 4);
    assert_true(a.groups[1].weights == 5 && a.groups[1].n == 6 &&
                a.groups[1].state == 11);
    assert_true(a.groups[1].decays_by_squares && a.groups[1].n_state == 2);
    assert_true(a.width == 13 && a.pull_width == 8 && a.push_width == 10);
    struct table_options t = {.width = a.width};
    accessor_inits(&a, 0, 0, -1, 1, &t);
    // inits[0] belongs to a state.
    assert_true(t.inits[1].begin == 5 && t.inits[1].count == 6);
    o.random = 4;
    assert_int_equal(accessor_make(&a, &o, &e), 0);
    accessor_inits(&a, 0, 0, -1, 1, &t);
    assert_true(t.inits[1].begin == 5 && t.inits[1].count == 4);
    o.random = 7;
    assert_int_equal(accessor_make(&a, &o, &e), TUG_EUSAGE);
    o.random = 0;
    o.extra.block = 1; // each weight of the group has a sum of its own
    assert_int_equal(accessor_make(&a, &o, &e), 0);
    assert_int_equal(a.groups[1].n_state, 6);
    o.dim = 0;
    assert_int_equal(accessor_make(&a, &o, &e), 0);
    assert_true(a.n_groups == 1 && a.width == 5 && a.push_width == 4);
    o.embed = 0;
    assert_int_equal(accessor_make(&a, &o, &e), TUG_EUSAGE);
}

// A program's own accessor, whose rows are one counter in a layout of its own.
static int layout_hits(const struct accessor_options *o, struct accessor *ret,
                       struct err *e)
{
    if (o->dim == 3)
        return err_set(e, TUG_EUSAGE, "three is too much");
    *ret = ACCESSOR_EMPTY;
    ret->stats = ret->width++;
    ret->n_stats = ret->pulled_stats = ret->pushed_stats = 1;
    accessor_add_group(ret, &o->rule, o->dim);
    ret->pull_width++;
    ret->push_width += o->dim != 4;
    return 0;
}

static void hits_stats(const struct accessor *a, const float *row, float *ret)
{
    *ret = row[a->stats] * 2;
}

static void own_accessors(void **state)
{
    (void)state;
    static const struct accessor_class hits = {
        .name = "hits", .layout = layout_hits, .life.stats = hits_stats};
    static const struct accessor_class mute = {.name = "mute", .layout = layout_hits};
    struct accessor_class bad = hits;
    assert_int_equal(accessor_register(&hits, NULL), 0);
    assert_ptr_equal(accessor_find("hits", NULL), &hits);
    struct err none = {0};
    assert_null(accessor_find("nothing", &none));
    assert_non_null(strstr(none.text, ", features, hits"));
    struct accessor_options mine = accessor_usual("hits", 2);
    struct accessor a = accessor_made(&mine);
    float row[] = {5, 1, 2, 0, 0}, ret[3], *rows[] = {row};
    assert_ptr_equal(a.class, &hits);
    assert_int_equal(accessor_register(&mute, NULL), 0);
    NOT_MADE("mute", (void)o, "no function 'stats' for them");
    accessor_gather_life(&a, rows, NULL, 1, ret);
    assert_true(ret[0] == 10 && ret[1] == 1 && ret[2] == 2);
    NOT_MADE("hits", o.dim = 3, "three is too much");
    NOT_MADE("hits", o.dim = 4, "the layout gives a key");
    struct err e = {0};
    assert_int_equal(accessor_register(&hits, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "already"));
    bad.name = "SparseAccessor";
    assert_int_equal(accessor_register(&bad, &e), TUG_EUSAGE);
    static const char *const wrong[] = {
        NULL, "", "a b", "a;b", "a,b", "a=b", "a_name_of_more_than_thirty_letters"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        bad.name = wrong[i];
        assert_int_equal(accessor_register(&bad, &e), TUG_EUSAGE);
    }
    bad.name = "bad";
    bad.layout = NULL;
    assert_int_equal(accessor_register(&bad, &e), TUG_EUSAGE);
    assert_null(accessor_find("bad", &e));
}

#define LIFE_REFUSED(change, about)                                                      \
    do {                                                                                 \
        struct err e = {0};                                                              \
        struct accessor_options o = accessor_usual("ctr", 4);                            \
        struct accessor a = accessor_made(&o);                                           \
        change;                                                                          \
        assert_int_equal(accessor_check(&a, &e), TUG_EDATA);                             \
        if (strstr(e.text, about) == NULL)                                               \
            fail_msg("not about '%s': %s", about, e.text);                               \
    } while (0)

static void wrong_layouts(void **state)
{
    (void)state;
    LIFE_REFUSED(a.class = NULL, "belongs to no accessor");
    LIFE_REFUSED(a.count = 1, "cannot have a count");
    LIFE_REFUSED(a.n_stats = UINT32_MAX, "statistics");
    LIFE_REFUSED(a.pulled_stats = 1 << 20, "statistics");
    LIFE_REFUSED(a.pushed_stats = 1 << 20, "statistics");
    LIFE_REFUSED(a.pushed_stats--, "the layout gives a key");
    LIFE_REFUSED(a.extra_width = UINT32_MAX, "too wide");
    LIFE_REFUSED(a.extra_width--, "extra row");
    LIFE_REFUSED(a.extra_width = 0, "overlap");
    LIFE_REFUSED(a.extra = a.stats, "overlap");
    LIFE_REFUSED(a.extra = UINT32_MAX, "do not fit");
    LIFE_REFUSED(a.stats = UINT32_MAX, "do not fit");
    LIFE_REFUSED(a.stats = 0, "overlap");
    LIFE_REFUSED(a.groups[1].state = 2, "overlap");
    LIFE_REFUSED(a.groups[1].weights = UINT32_MAX, "do not fit");
    LIFE_REFUSED(a.n_groups = 1, "no weights");
    LIFE_REFUSED(a.groups[1].rule.prior = 1, "prior");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_features), cmocka_unit_test(layouts),
        cmocka_unit_test(first_rows),    cmocka_unit_test(handles),
        cmocka_unit_test(not_made),      cmocka_unit_test(paddle_names),
        cmocka_unit_test(own_accessors), cmocka_unit_test(wrong_layouts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
