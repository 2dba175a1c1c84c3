// Compares updates of rows, packed and not, with and without a lifecycle, with updates of
// one row at a time by the reference kernels. Also tests packing and refused settings.
//
// SPDX-License-Identifier: Apache-2.0
#include "accessor/accessor.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "kit/accessors.h"
#include "kit/test.h"
#include "rule/rule.h"

enum { ROWS = 200 };

struct rows {
    float data[ROWS][MAX_WIDTH];
    float *at[ROWS];
};

// shape() returns accessors of SHAPES kinds: with one or two groups, of one weight or
// more, with and without a count.
enum { SHAPES = 6 };
static struct accessor shape(int number, enum rule_kind kind)
{
    struct rule_params rule = rule_defaults(kind);
    struct accessor a;
    if (number < 3) {
        accessor_plain(&a, rule, number == 0 ? 1 : number == 1 ? 7 : 19);
        return a;
    }
    a = ACCESSOR_EMPTY;
    rule.l2 = 0.01f;
    rule.prior = 0.5f;
    accessor_add_group(&a, &rule, 1);
    accessor_add_count(&a);
    if (number > 3)
        accessor_add_group(&a, &rule, 9)->decays_by_squares = number == 5;
    assert_true(a.width <= MAX_WIDTH);
    return a;
}

// Fills the rows with values that are not negative, because some are sums of squares.
static void fill(struct rows *r, const struct accessor *a)
{
    for (size_t i = 0; i < ROWS; i++) {
        r->at[i] = r->data[i];
        for (uint32_t c = 0; c < a->width; c++)
            r->data[i][c] = random_f32(3, i, c);
    }
}

static void fill_push(float *values, const struct accessor *a, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (uint32_t c = 0; c < a->push_width; c++)
            values[i * a->push_width + c] = random_f32(4, i, c) +
                                            (c < a->pull_width ? -0.5f : 1);
}

static float clamp(float x, float low, float high)
{
    return x < low ? low : x > high ? high : x;
}

static void naive_group(const struct kernels *k, const struct accessor_group *g,
                        float *row, const float *gradients, float l2, float scale)
{
    float scaled[32], length;
    for (uint32_t c = 0; c < g->n; c++) {
        scaled[c] = scale * gradients[c];
        if (g->rule.clip != 0)
            scaled[c] = clamp(scaled[c], -g->rule.clip, g->rule.clip);
    }
    length = sqrtf(k->norm2(scaled, g->n));
    for (uint32_t c = 0; c < g->n && g->rule.clip_norm != 0; c++)
        if (length > g->rule.clip_norm)
            scaled[c] *= g->rule.clip_norm / length;
    k->apply[g->rule.kind](&g->rule, l2, row + g->weights, row + g->state, scaled, g->n);
    for (uint32_t c = 0; c < g->n && g->rule.bounded; c++)
        row[g->weights + c] = clamp(row[g->weights + c], g->rule.low, g->rule.high);
}

// Updates one row by the definitions of accessor.h and rule_kind.h.
static void naive(const struct accessor *a, float *row, const float *push, float pass,
                  float scale)
{
    const struct kernels *k = kernels_named("ref");
    bool counted = a->count != ACCESSOR_NO_COUNT;
    float occurrences = counted ? push[a->pull_width] : 1;
    float squares = counted ? push[a->pull_width + 1] : 1, share = 1;
    if (counted) {
        row[a->count] += occurrences;
        share = occurrences * pass / row[a->count];
    }
    for (uint32_t g = 0; g < a->n_groups; g++) {
        const struct accessor_group *group = &a->groups[g];
        float l2 = occurrences * group->rule.l2 + group->rule.prior * share;
        if (group->decays_by_squares)
            l2 *= squares / occurrences;
        if (group->rule.kind == RULE_FTRL || group->rule.kind == RULE_FTRL_GROUP)
            l2 /= occurrences; // l2 is added once, not to the gradient of each occurrence
        else if (counted)
            l2 *= scale;
        naive_group(k, group, row, push, l2, scale);
        push += group->n;
    }
}

// Updating several rows together must give each row the same result as updating it alone.
static void check_update(const struct accessor *a, size_t n, float scale, bool packed)
{
    static struct rows got, want;
    static float values[ROWS * MAX_WIDTH], occurrences[ROWS], squares[ROWS];
    static const float *gradients[ACCESSOR_MAX_GROUPS][ROWS];
    struct rule_params rules[ACCESSOR_MAX_GROUPS];
    struct accessor_scratch s;
    accessor_rules(a, 1, rules);
    assert_int_equal(accessor_scratch_init(&s, a, kernels_get(), NULL), 0);
    fill(&got, a);
    fill(&want, a);
    fill_push(values, a, n);
    for (size_t i = 0; i < n; i++) {
        const float *push = values + i * a->push_width;
        naive(a, want.data[i], push, 3, scale);
        gradients[0][i] = push;
        gradients[1][i] = push + a->groups[0].n;
        occurrences[i] = a->count != ACCESSOR_NO_COUNT ? push[a->pull_width] : 0;
        squares[i] = a->count != ACCESSOR_NO_COUNT ? push[a->pull_width + 1] : 0;
    }
    if (packed)
        accessor_apply_packed(&s, &(struct accessor_push){.rules = rules,
                                                          .pass = 3,
                                                          .scale = scale,
                                                          .n = n,
                                                          .rows = got.at,
                                                          .values = values});
    else
        accessor_apply(
            &s, &(struct accessor_update){.rules = rules,
                                          .pass = 3,
                                          .scale = scale,
                                          .n = n,
                                          .rows = got.at,
                                          .gradients = {gradients[0], gradients[1]},
                                          .occurrences = occurrences,
                                          .squares = squares});
    for (size_t i = 0; i < ROWS; i++)
        if (memcmp(got.data[i], want.data[i], a->width * sizeof(float)) != 0)
            fail_msg("%u groups, rule %s, %zu rows, scale %g, packed %d: row %zu differs",
                     a->n_groups, rule_info(a->groups[0].rule.kind)->name, n,
                     (double)scale, packed, i);
    accessor_scratch_fini(&s);
}

// Sets clips and bounds that some gradients and weights reach, or removes them.
static void limit(struct accessor *a, bool on)
{
    for (uint32_t g = 0; g < a->n_groups; g++) {
        struct rule_params *r = &a->groups[g].rule;
        r->clip = on ? 0.2f : 0;
        r->clip_norm = on ? 0.15f : 0;
        r->bounded = on;
        r->low = 0.3f;
        r->high = 0.5f;
    }
}

static void updates(void **state)
{
    (void)state;
    static const size_t lengths[] = {0, 1, 15, 63, 64, 65, 128, ROWS};
    for (int number = 0; number < SHAPES; number++)
        for (int kind = 0; kind < RULE_KINDS; kind++) {
            struct accessor a = shape(number, (enum rule_kind)kind);
            for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++)
                for (int way = 0; way < 8; way++) {
                    limit(&a, way / 4);
                    check_update(&a, lengths[i], way / 2 % 2 ? 0.25f : 1, way % 2);
                }
        }
}

static void rates(void **state)
{
    (void)state;
    struct accessor a = shape(4, RULE_ADAGRAD);
    struct rule_params rules[ACCESSOR_MAX_GROUPS];
    accessor_rules(&a, 0.5f, rules);
    for (uint32_t g = 0; g < 2; g++) {
        assert_true(rules[g].lr == a.groups[g].rule.lr * 0.5f);
        rules[g].lr = a.groups[g].rule.lr;
        assert_same_struct(&rules[g], &a.groups[g].rule);
    }
}

static void pulls(void **state)
{
    (void)state;
    static struct rows rows;
    static float got[ROWS * MAX_WIDTH];
    for (int number = 0; number < SHAPES; number++) {
        struct accessor a = shape(number, RULE_FTRL), packed;
        fill(&rows, &a);
        rows.at[5] = NULL;
        for (size_t i = 0; i < ROWS * MAX_WIDTH; i++)
            got[i] = -1;
        accessor_gather(&a, rows.at, ROWS, got);
        accessor_packed(&packed, &a);
        assert_int_equal(accessor_check(&packed, NULL), 0);
        assert_int_equal(packed.width, a.pull_width);
        for (size_t i = 0; i < ROWS; i++)
            for (uint32_t g = 0; g < a.n_groups; g++)
                for (uint32_t c = 0; c < a.groups[g].n; c++)
                    assert_true(got[i * packed.width + packed.groups[g].weights + c] ==
                                (i == 5 ? -1 : rows.data[i][a.groups[g].weights + c]));
        assert_true(got[ROWS * packed.width] == -1);
    }
}

// A pull of a missing key returns the row that a push would make.
static void first_pulls(void **state)
{
    (void)state;
    struct accessor a = shape(4, RULE_ADAGRAD);
    struct table_options o = {.seed = 5,
                              .width = a.width,
                              .n_inits = 3,
                              .inits = {{a.groups[0].state, 1, 1, 1},
                                        {a.groups[1].weights + 2, 3, -1, 1},
                                        {a.groups[1].weights + 4, 9, 2, 3}}};
    struct table *t;
    assert_int_equal(table_open(&t, &o, NULL), 0);
    for (uint64_t key = 0; key < 100; key++) {
        float first[MAX_WIDTH], accessor_made[MAX_WIDTH], *row;
        uint32_t handle;
        accessor_first(&a, t, key, first);
        assert_int_equal(table_rows(t, &key, 1, &handle), 0);
        row = table_row(table_slabs(t), handle);
        accessor_gather(&a, &row, 1, accessor_made);
        assert_memory_equal(first, accessor_made, a.pull_width * sizeof(float));
        assert_true(first[0] == 0 && first[1] == 0 && first[3] != 0 && first[9] >= 2);
    }
    table_close(t);
}

#define REFUSED(change, about)                                                           \
    do {                                                                                 \
        struct err e = {0};                                                              \
        struct accessor a = shape(4, RULE_ADAGRAD_ROW);                                  \
        assert_int_equal(accessor_check(&a, &e), 0);                                     \
        change;                                                                          \
        assert_int_equal(accessor_check(&a, &e), TUG_EDATA);                             \
        if (strstr(e.text, about) == NULL)                                               \
            fail_msg("not about '%s': %s", about, e.text);                               \
    } while (0)

static void refused(void **state)
{
    (void)state;
    for (int number = 0; number < SHAPES; number++)
        for (int kind = 0; kind < RULE_KINDS; kind++) {
            struct accessor a = shape(number, (enum rule_kind)kind);
            assert_int_equal(accessor_check(&a, NULL), 0);
        }
    REFUSED(a.n_groups = 0, "0 groups");
    REFUSED(a.n_groups = 3, "3 groups");
    REFUSED(a.width = TABLE_MAX_WIDTH + 1, "too wide");
    REFUSED(a.width = UINT32_MAX, "too wide");
    REFUSED(a.groups[1].n = 0, "0 weights");
    REFUSED(a.groups[1].n = UINT32_MAX, "weights");
    REFUSED(a.groups[0].rule.kind = RULE_KINDS, "update rule number");
    REFUSED(a.groups[0].rule.kind = (enum rule_kind) - 1, "update rule number");
    REFUSED(a.groups[1].rule.lr = NAN, "not finite");
    REFUSED(a.groups[1].rule.beta2 = INFINITY, "not finite");
    REFUSED(a.groups[1].rule.block = 0, "block");
    REFUSED(a.groups[1].rule.block = 2, "block");
    REFUSED(a.groups[1].n_state = 0, "state");
    REFUSED(a.groups[1].weights = a.width - 1, "do not fit");
    REFUSED(a.groups[1].weights = UINT32_MAX, "do not fit");
    REFUSED(a.groups[1].weights--, "overlap");
    REFUSED(a.groups[0].state = 0, "overlap");
    REFUSED(a.count = a.groups[1].state, "overlap");
    REFUSED(a.count = a.width, "do not fit");
    REFUSED(a.width--, "do not fit");
    REFUSED(a.count = ACCESSOR_NO_COUNT, "prior");
    REFUSED(a.pull_width++, "the layout gives a key");
    REFUSED(a.push_width--, "the layout gives a key");
}

// ------------------------------------------------------------ accessors with a lifecycle

// Updates one row with a lifecycle.
static void naive_life(const struct accessor *a, float *row, float *extra,
                       const float *push, float factor)
{
    const struct kernels *k = kernels_named("ref");
    naive_group(k, &a->groups[0], row, push, a->groups[0].rule.l2, factor);
    if (extra != NULL)
        naive_group(k, &a->groups[1], extra, push + a->groups[0].n, a->groups[1].rule.l2,
                    factor);
}

struct life_rows {
    struct rows rows, extras;
    float values[ROWS * MAX_WIDTH], divisors[ROWS];
};

static void fill_life(struct life_rows *x, const struct accessor *a)
{
    struct accessor extra = {.width = a->extra_width};
    fill(&x->rows, a);
    fill(&x->extras, &extra);
    for (size_t i = 0; i < ROWS; i++) {
        x->divisors[i] = i % 3 == 0 ? 1 : (float)(i % 7 + 1);
        if (i % 4 == 1)
            x->extras.at[i] = NULL;
        for (uint32_t c = 0; c < a->push_width; c++)
            x->values[i * a->push_width + c] = random_f32(6, i, c) - 0.5f;
    }
}

static void check_life_update(const struct accessor *a, size_t n, float scale, bool bare)
{
    static struct life_rows got, want;
    struct rule_params rules[ACCESSOR_MAX_GROUPS];
    struct accessor_scratch s;
    accessor_rules(a, 1, rules);
    assert_int_equal(accessor_scratch_init(&s, a, kernels_get(), NULL), 0);
    fill_life(&got, a);
    fill_life(&want, a);
    for (size_t i = 0; i < n; i++) {
        float divisor = bare ? 1 : want.divisors[i];
        float *extra = bare || a->extra_width == 0 ? NULL : want.extras.at[i];
        naive_life(a, want.rows.data[i], extra, want.values + i * a->push_width,
                   divisor == 1 ? scale : scale / divisor);
    }
    accessor_apply_life(
        &s, &(struct accessor_life_push){.rules = rules,
                                         .scale = scale,
                                         .n = n,
                                         .rows = got.rows.at,
                                         .extras = bare ? NULL : got.extras.at,
                                         .values = got.values,
                                         .divisors = bare ? NULL : got.divisors});
    if (memcmp(got.rows.data, want.rows.data, sizeof(got.rows.data)) != 0 ||
        memcmp(got.extras.data, want.extras.data, sizeof(got.extras.data)) != 0)
        fail_msg("dim %u, rules %u and %u, %zu rows, scale %g, bare %d", a->extra_width,
                 a->groups[0].rule.kind, a->groups[1].rule.kind, n, (double)scale, bare);
    accessor_scratch_fini(&s);
}

static void life_updates(void **state)
{
    (void)state;
    static const size_t lengths[] = {0, 1, 63, 64, 65, ROWS};
    for (int kind = 0; kind < RULE_KINDS; kind++)
        for (int way = 0; way < 16; way++) {
            struct accessor_options o = accessor_usual("ctr", way % 2 ? 9 : 0);
            o.rule = rule_defaults((enum rule_kind)kind);
            o.extra = rule_defaults((enum rule_kind)(RULE_KINDS - 1 - kind));
            o.rule.l2 = 0.02f;
            struct accessor a = accessor_made(&o);
            limit(&a, way / 2 % 2);
            for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++)
                check_life_update(&a, lengths[i], way / 4 % 2 ? 0.5f : 1, way / 8);
        }
}

// Rows without a lifecycle can be updated by the same function.
static void plain_life_updates(void **state)
{
    (void)state;
    struct accessor_options o = accessor_usual("plain", 5);
    struct accessor a = accessor_made(&o);
    check_life_update(&a, ROWS, 1, true);
}

static void life_pulls(void **state)
{
    (void)state;
    static struct life_rows x;
    static float got[ROWS * MAX_WIDTH];
    for (size_t name = 0; accessors_name(name) != NULL; name++)
        for (int bare = 0; bare < 2; bare++) {
            struct accessor_options o = accessor_usual(accessors_name(name), 5);
            struct accessor a = accessor_made(&o);
            fill_life(&x, &a);
            x.rows.at[7] = NULL;
            for (size_t i = 0; i < ROWS * MAX_WIDTH; i++)
                got[i] = -1;
            accessor_gather_life(&a, x.rows.at, bare ? NULL : x.extras.at, ROWS, got);
            for (size_t i = 0; i < ROWS; i++) {
                float want[MAX_WIDTH] = {0}, *to = want;
                if (a.pulled_stats > 0)
                    a.class->life.stats(&a, x.rows.data[i], want);
                to += a.pulled_stats;
                for (uint32_t g = 0; g < a.n_groups; to += a.groups[g++].n)
                    if (a.extra_width == 0 || g + 1 < a.n_groups)
                        memcpy(to, x.rows.data[i] + a.groups[g].weights,
                               a.groups[g].n * sizeof(float));
                    else if (!bare && x.extras.at[i] != NULL)
                        memcpy(to, x.extras.data[i], a.groups[g].n * sizeof(float));
                for (uint32_t c = 0; c < a.pull_width; c++)
                    assert_true(got[i * a.pull_width + c] == (i == 7 ? -1 : want[c]));
            }
            assert_true(got[ROWS * a.pull_width] == -1);
        }
}

static void no_memory(void **state)
{
    (void)state;
    struct accessor a = shape(4, RULE_SGD);
    struct accessor_scratch s;
    struct err e;
    mem_fault_after(0);
    assert_int_equal(accessor_scratch_init(&s, &a, kernels_get(), &e), TUG_ENOMEM);
    mem_fault_after(-1);
    accessor_scratch_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(updates),
        cmocka_unit_test(rates),
        cmocka_unit_test(pulls),
        cmocka_unit_test(first_pulls),
        cmocka_unit_test(refused),
        cmocka_unit_test(life_updates),
        cmocka_unit_test(plain_life_updates),
        cmocka_unit_test(life_pulls),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
