// Compares the kernels of every level with the reference, bit for bit: for all lengths,
// for unaligned data, and for gradients that are partly zero. Guards check that nothing
// is written past the ends.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "base/relaxed.h"
#include "kernels/kernels.h"
#include "kit/test.h"
#include "kit/uppers.h"

enum { MAX_N = 67, ROOM = 4 * MAX_N + 32 };
static const uint64_t SEED = 20240607;
static const struct kernels *ref;
static const struct kernels *levels[2];
static int n_levels;
static bool can_tell; // whether this CPU reports which registers are in use

// Calls a kernel, and checks that it leaves the registers clean for SSE code.
#define RUN(call)                                                                        \
    do {                                                                                 \
        if (can_tell)                                                                    \
            uppers_clear();                                                              \
        call;                                                                            \
        if (can_tell && uppers_dirty())                                                  \
            fail_msg("upper halves of vectors are dirty behind %s", #call);              \
    } while (0)

// Returns a number in (-1, 1); one in eight is 0.
static float number(uint64_t stream, uint64_t i)
{
    float x = 2 * random_f32(SEED, stream, i) - 1;
    return random_below(SEED, stream + 1000, i, 8) == 0 ? 0 : x;
}

static void fill(float *p, size_t n, uint64_t stream)
{
    for (size_t i = 0; i < n; i++)
        p[i] = number(stream, i);
}

static void assert_same(const char *what, const float *a, const float *b, size_t n,
                        size_t length)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(a + i, b + i, sizeof(float)) != 0)
            fail_msg("%s, length %zu: element %zu is %a, the reference has %a", what,
                     length, i, (double)b[i], (double)a[i]);
}

// Variants of a rule's parameters, as bits.
enum { L1 = 1, DENSE = 2, BOUNDED = 4, VARIANTS = 8 };

static struct rule_params params(enum rule_kind kind, int variant)
{
    return (struct rule_params){
        .kind = kind,
        .block = 1,
        .lr = 0.07f,
        .l1 = (variant & L1) != 0 ? 0.03f : 0,
        .l21 = (variant & L1) != 0 ? 0.2f : 0,
        .beta = 0.5f,
        .beta1 = 0.9f,
        .beta2 = 0.99f,
        .g0 = 3,
        .decay = 0.1f,
        .dense = (variant & DENSE) != 0,
        .bounded = (variant & BOUNDED) != 0,
        .low = -1,
        .high = 1,
    };
}

// Fills g with random gradients, some of them 0. If the rule has bounds, some gradients are
// infinite, NaN or huge.
static void fill_gradients(float *g, size_t n, uint64_t stream,
                           const struct rule_params *p)
{
    static const float wild[] = {INFINITY, -INFINITY, NAN, 1e30f, -3e38f};
    fill(g, n, stream);
    for (size_t i = 0; i < n && p->bounded; i++)
        if (random_below(SEED, stream + 2000, i, 40) == 0)
            g[i] = wild[random_below(SEED, stream + 3000, i, 5)];
}

// Fills s with random states. They are not negative, because some are sums of squares.
static void fill_state(float *s, size_t n, uint64_t stream)
{
    for (size_t i = 0; i < n; i++)
        s[i] = fabsf(number(stream, i));
}

static void assert_finite(const struct rule_params *p, const float *x, size_t n)
{
    for (size_t i = 0; i < n && p->bounded; i++)
        if (!isfinite(x[i]))
            fail_msg("rule %d let element %zu become %g", (int)p->kind, i, (double)x[i]);
}

// Returns the row at position i. If `repeats`, a quarter of the positions have the row of
// one of the 15 positions before, so that a row occurs twice among sixteen rows.
static size_t pick_row(size_t i, bool repeats)
{
    uint64_t back = random_below(SEED, 30, i, 24);
    return repeats && back < 16 && back <= i && random_below(SEED, 31, i, 4) == 0
               ? i - (size_t)back
               : i;
}

// Returns the kernels to use for these rows, chosen as models choose them: ref if a row
// repeats.
static const struct kernels *taker(const struct kernels *k, float *const *rows, size_t n)
{
    bool repeats;
    RUN(repeats = k->repeats(rows, n));
    return repeats ? ref : k;
}

static void check_apply(const struct kernels *k, const struct rule_params *p, size_t n)
{
    float w[2][ROOM], s[2][ROOM], g[ROOM];
    for (int side = 0; side < 2; side++) {
        fill(w[side], ROOM, 1);
        fill_state(s[side], ROOM, 2);
    }
    fill_gradients(g, ROOM, 3 + n, p);
    ref->apply[p->kind](p, 0.01f, w[0] + 1, s[0] + 1, g + 1, n);
    RUN(k->apply[p->kind](p, 0.01f, w[1] + 1, s[1] + 1, g + 1, n));
    assert_same("weights", w[0], w[1], ROOM, n);
    assert_same("state", s[0], s[1], ROOM, n);
    assert_finite(p, w[0], ROOM);
    assert_finite(p, s[0], ROOM);
}

static void check_apply_column(const struct kernels *k, const struct rule_params *p,
                               size_t n, bool repeats)
{
    float w[3][8 * MAX_N], g[ROOM], l2[ROOM];
    float *rows[3][MAX_N + KERNEL_PADDING];
    for (int side = 0; side < 3; side++) {
        fill_state(w[side], 8 * MAX_N, 4);
        for (size_t i = 0; i < MAX_N + KERNEL_PADDING; i++)
            rows[side][i] = w[side] + 8 * ((pick_row(i, repeats) * 7) % MAX_N);
    }
    fill_gradients(g, ROOM, 5, p);
    fill_state(l2, ROOM, 15);
    ref->apply_column[p->kind](p, l2 + 1, rows[0], 1, 2, g + 1, n);
    k = taker(k, rows[1], n);
    RUN(k->apply_column[p->kind](p, l2 + 1, rows[1], 1, 2, g + 1, n));
    assert_same("rows", w[0], w[1], sizeof(w[0]) / sizeof(float), n);
    assert_finite(p, w[0], sizeof(w[0]) / sizeof(float));
    enum rule_kind kind = p->kind == RULE_ADAGRAD_ROW ? RULE_ADAGRAD : p->kind;
    for (size_t i = 0; i < n; i++)
        ref->apply[kind](p, l2[i + 1], rows[2][i] + 1, rows[2][i] + 2, g + i + 1, 1);
    assert_same("row by row", w[2], w[0], sizeof(w[0]) / sizeof(float), n);
}

static void test_rules(void **state)
{
    (void)state;
    for (int level = 0; level < n_levels; level++)
        for (int kind = 0; kind < RULE_KINDS; kind++)
            for (int variant = 0; variant < VARIANTS; variant++)
                for (size_t n = 0; n <= MAX_N; n++) {
                    struct rule_params p = params((enum rule_kind)kind, variant);
                    check_apply(levels[level], &p, n);
                    check_apply_column(levels[level], &p, n, false);
                    check_apply_column(levels[level], &p, n, true);
                }
}

// Tests vectors that have initial values but no state yet, and a vector without a gradient.
static void test_new_vectors(void **state)
{
    (void)state;
    static const float gradients[] = {0.3f, -0.1f, 0};
    for (int level = 0; level < n_levels; level++)
        for (int kind = 0; kind < RULE_KINDS; kind++)
            for (size_t n = 1; n <= MAX_N; n++)
                for (int zero = 0; zero < 2; zero++) {
                    struct rule_params p = params((enum rule_kind)kind, L1);
                    float w[2][MAX_N], s[2][3 * MAX_N + 4] = {{0}}, g[MAX_N];
                    for (size_t i = 0; i < n; i++)
                        g[i] = zero != 0 ? 0 : gradients[i % 3];
                    for (int side = 0; side < 2; side++) {
                        fill(w[side], n, 31);
                        for (int step = 0; step < 3; step++)
                            (side ? levels[level] : ref)
                                ->apply[kind](&p, 0.01f, w[side], s[side], g, n);
                    }
                    assert_same("weights", w[0], w[1], n, n);
                    assert_same("state", s[0], s[1], 3 * MAX_N + 4, n);
                }
}

static void test_clip(void **state)
{
    (void)state;
    static const float special[] = {NAN, INFINITY, -INFINITY, 3e38f, 0.25f, -0.25f};
    float x[ROOM], y[2][ROOM];
    for (int level = 0; level < n_levels; level++)
        for (size_t n = 0; n <= MAX_N; n++) {
            fill(x, ROOM, 32);
            for (size_t i = 0; i < 6 && n > 0; i++)
                x[1 + random_below(SEED, 33, i, n)] = special[i];
            for (int side = 0; side < 2; side++) {
                const struct kernels *k = side ? levels[level] : ref;
                fill(y[side], ROOM, 34);
                RUN(k->clip(y[side] + 1, x + 1, 0.25f, n));
                for (size_t i = 1; i <= n; i++)
                    assert_true(isnan(x[i]) ? isnan(y[side][i])
                                            : fabsf(y[side][i]) <= 0.25f);
                memcpy(y[side] + n + 2, x + 1, n * sizeof(float));
                RUN(k->bound(y[side] + n + 2, -0.25f, 0.5f, n));
                for (size_t i = 0; i < n; i++) {
                    float was = x[1 + i], is = y[side][n + 2 + i];
                    assert_true(isnan(was) ? isnan(is)
                                           : is == fminf(fmaxf(was, -0.25f), 0.5f));
                }
            }
            assert_same("clip, bound", y[0], y[1], 2 * n + 8, n);
            fill(x, ROOM, 35);
            float want = ref->norm2(x + 1, n), got;
            RUN(got = levels[level]->norm2(x + 1, n));
            assert_same("norm2", &want, &got, 1, n);
            assert_same("norm2 as dot", &want, (float[]){ref->dot(x + 1, x + 1, n)}, 1,
                        n);
            levels[level]->clip(x + 1, x + 1, 0.25f, n);
            for (size_t i = 1; i <= n; i++)
                assert_true(fabsf(x[i]) <= 0.25f);
        }
}

static void test_adagrad_row_blocks(void **state)
{
    (void)state;
    static const uint32_t blocks[] = {2, 3, 4, 5, 8, 10, 16, 17, 32};
    for (int level = 0; level < n_levels; level++)
        for (size_t b = 0; b < sizeof(blocks) / sizeof(*blocks); b++)
            for (size_t n = 0; n <= MAX_N; n += blocks[b])
                for (int variant = 0; variant < VARIANTS; variant++) {
                    struct rule_params p = params(RULE_ADAGRAD_ROW, variant);
                    p.block = blocks[b];
                    check_apply(levels[level], &p, n);
                }
}

static void test_sums(void **state)
{
    (void)state;
    float a[ROOM], b[ROOM], y[2][ROOM];
    float *rows[MAX_N + KERNEL_PADDING];
    fill(a, ROOM, 6);
    fill(b, ROOM, 7);
    for (size_t i = 0; i < MAX_N + KERNEL_PADDING; i++)
        rows[i] = a + 3 * i;
    for (int level = 0; level < n_levels; level++) {
        const struct kernels *k = levels[level];
        for (size_t n = 0; n <= MAX_N; n++) {
            float want = ref->dot(a + 1, b + 1, n), got;
            RUN(got = k->dot(a + 1, b + 1, n));
            assert_same("dot", &want, &got, 1, n);
            want = ref->gather_dot(rows, 1, b, n);
            RUN(got = k->gather_dot(rows, 1, b, n));
            assert_same("gather_dot", &want, &got, 1, n);
            want = ref->largest(b + 1, n);
            RUN(got = k->largest(b + 1, n));
            assert_same("largest", &want, &got, 1, n);
            for (int side = 0; side < 2; side++) {
                const struct kernels *which = side ? k : ref;
                fill(y[side], ROOM, 8);
                RUN(which->scale(y[side] + 1, 0.3f, a, n));
                RUN(which->axpy(y[side] + 3, -0.7f, b + 1, n));
            }
            assert_same("scale, axpy", y[0], y[1], ROOM, n);
        }
    }
}

static void check_largest(const struct kernels *k)
{
    float x[70] = {0};
    for (size_t n = 0; n <= 70; n++) {
        for (size_t i = 0; i < n; i++)
            x[i] = -(float)i;
        assert_true(k->largest(x, n) == (n > 0 ? (float)(n - 1) : 0));
        for (size_t i = 0; i < n; i++) {
            x[i] = -INFINITY;
            assert_true(isinf(k->largest(x, n)));
            x[n - 1 - i] = NAN;
            assert_true(isnan(k->largest(x, n)));
            x[i] = -(float)i;
            x[n - 1 - i] = -(float)(n - 1 - i);
        }
    }
}

static void test_largest(void **state)
{
    (void)state;
    check_largest(ref);
    for (int level = 0; level < n_levels; level++)
        check_largest(levels[level]);
}

// Tests all small shapes, and an `inner` so large that the kernel takes the rows of w in
// several parts.
static void test_multiply(void **state)
{
    (void)state;
    enum { ROWS = 11, DEEP = 600, COLUMNS = 37 };
    static float x[ROWS * (DEEP + 1)], w[DEEP * COLUMNS],
        y[2][(ROWS + 1) * (COLUMNS + 2)];
    fill(x, sizeof(x) / sizeof(*x), 40);
    fill(w, sizeof(w) / sizeof(*w), 41);
    for (int level = 0; level < n_levels; level++)
        for (size_t n = 0; n <= COLUMNS; n++)
            for (size_t m = 0; m <= ROWS; m++)
                for (size_t deep = 0; deep <= DEEP;
                     deep = deep < 4 ? deep + 1 : deep * 5) {
                    for (int side = 0; side < 2; side++) {
                        const struct kernels *which = side ? levels[level] : ref;
                        fill(y[side], sizeof(y[side]) / sizeof(float), 42);
                        RUN(which->multiply(y[side] + 1, n + 2, x + 1, deep + 1, w, m,
                                            deep, n));
                    }
                    assert_same("multiply", y[0], y[1], sizeof(y[0]) / sizeof(float), n);
                }
}

static void test_count(void **state)
{
    (void)state;
    float m[ROOM], data[2][8 * MAX_N], ret[2][ROOM];
    float *rows[2][MAX_N + KERNEL_PADDING];
    for (size_t i = 0; i < ROOM; i++)
        m[i] = 1 + (float)random_below(SEED, 16, i, 5);
    for (int level = 0; level < n_levels; level++)
        for (size_t n = 0; n <= MAX_N; n++)
            for (int with_m = 0; with_m < 4; with_m++) {
                bool repeats = with_m / 2 > 0;
                for (int side = 0; side < 2; side++) {
                    fill_state(data[side], 8 * MAX_N, 17);
                    fill(ret[side], ROOM, 18);
                    for (size_t i = 0; i < MAX_N + KERNEL_PADDING; i++)
                        rows[side][i] = data[side] + 8 * (pick_row(i, repeats) % MAX_N);
                    const struct kernels *which = taker(side ? levels[level] : ref,
                                                        rows[side], n);
                    RUN(which->count(rows[side], 3, with_m % 2 > 0 ? m : NULL, 2,
                                     ret[side] + 1, n));
                }
                assert_same("counts", data[0], data[1], 8 * MAX_N, n);
                assert_same("shares", ret[0], ret[1], ROOM, n);
            }
}

// The sizes of one FFM example, and memory for the reference and for the tested kernels.
enum {
    FFM_N = 19,
    FIELDS = 11,
    K = 20,
    FFM_ROW = 4 * FIELDS * K + 12,
    SUMS = FIELDS * FIELDS * K
};
static float ffm_data[2][(FFM_N + KERNEL_PADDING) * FFM_ROW];
static float out[2][SUMS + KERNEL_PADDING], in[2][SUMS + KERNEL_PADDING];
static float ffm_g[2][FFM_N * FIELDS * K + KERNEL_PADDING];
static float *ffm_rows[2][FFM_N + KERNEL_PADDING];

static void fill_ffm(bool repeats)
{
    for (int side = 0; side < 2; side++) {
        fill_state(ffm_data[side], sizeof(ffm_data[0]) / sizeof(float), 19);
        fill(out[side], SUMS, 22);
        fill(in[side], SUMS, 24);
        fill(ffm_g[side], FFM_N * FIELDS * K + KERNEL_PADDING, 23);
        for (size_t i = 0; i < FFM_N + KERNEL_PADDING; i++)
            ffm_rows[side][i] = ffm_data[side] + pick_row(i, repeats) * FFM_ROW;
    }
}

static void check_ffm(const struct kernels *k_new, const struct rule_params *p,
                      size_t fields, size_t k, size_t n, bool all, bool repeats)
{
    float u[FFM_N + KERNEL_PADDING], l2[FFM_N + KERNEL_PADDING], score[2];
    uint16_t slot[FFM_N + KERNEL_PADDING], list[FIELDS];
    size_t present = 0;
    fill(u, FFM_N + KERNEL_PADDING, 20);
    fill_state(l2, FFM_N + KERNEL_PADDING, 25);
    for (size_t f = 0; f < fields; f++)
        if (all || f % 3 != 1)
            list[present++] = (uint16_t)f;
    for (size_t i = 0; i < FFM_N; i++)
        slot[i] = list[random_below(SEED, 21, i, present)];
    fill_ffm(repeats);
    for (int side = 0; side < 2; side++) {
        const struct kernels *which = side ? k_new : ref;
        const uint16_t *some = all ? NULL : list;
        RUN(which->ffm_sums(ffm_rows[side], 3, slot, u, n, fields, k, some, present,
                            out[side], in[side]));
        RUN(score[side] = which->ffm_score(ffm_rows[side], 3, slot, u, n, fields, k, some,
                                           present, out[side], in[side]));
        RUN(which->ffm_grad(ffm_rows[side], 3, slot, u, n, fields, k, in[side], 0.3f,
                            ffm_g[side]));
    }
    assert_same("out", out[0], out[1], fields * fields * k, k);
    assert_same("in", in[0], in[1], fields * fields * k, k);
    assert_same("score", score, score + 1, 1, k);
    assert_same("gradient", ffm_g[0], ffm_g[1], n * fields * k, k);
    // Compares the step with the reference's separate functions, one row after the other.
    for (size_t i = 0; i < n; i++) {
        ref->ffm_grad(ffm_rows[0] + i, 3, slot + i, u + i, 1, fields, k, in[0], 0.3f,
                      ffm_g[0]);
        ref->apply[p->kind](p, l2[i], ffm_rows[0][i] + 3, ffm_rows[0][i] + 3 + fields * k,
                            ffm_g[0], fields * k);
    }
    k_new = taker(k_new, ffm_rows[1], n);
    RUN(k_new->ffm_step[p->kind](p, l2, ffm_rows[1], 3, 3 + fields * k, slot, u, n,
                                 fields, k, in[1], 0.3f, ffm_g[1]));
    assert_same("rows", ffm_data[0], ffm_data[1], sizeof(ffm_data[0]) / sizeof(float), k);
}

// Returns the rule of test i. If i is even, it is adagrad-row, which has kernels of its
// own; odd tests go through all rules.
static struct rule_params step_rule(size_t i, size_t block)
{
    enum rule_kind kind = i % 2 == 0 ? RULE_ADAGRAD_ROW
                                     : (enum rule_kind)(i / 2 % RULE_KINDS);
    struct rule_params p = params(kind, i % 4 == 0 ? 0 : (int)(i / 4 % VARIANTS));
    p.block = (uint32_t)block;
    return p;
}

static void test_ffm(void **state)
{
    (void)state;
    for (int level = -1; level < n_levels; level++)
        for (size_t fields = 1; fields <= FIELDS; fields++)
            for (size_t k = 1; k <= K; k++)
                for (int all = 0; all < 4; all++) {
                    struct rule_params p = step_rule(fields + k + (size_t)all % 2, k);
                    check_ffm(level < 0 ? ref : levels[level], &p, fields, k,
                              (fields * 5 + k) % (FFM_N + 1), all % 2 > 0, all / 2 > 0);
                }
}

static void test_fm(void **state)
{
    (void)state;
    enum { N = 41 };
    static float data[(N + KERNEL_PADDING) * (MAX_N + 3)], g[2][N * MAX_N + 1];
    float x[N + KERNEL_PADDING], sum[2][MAX_N + 1];
    float *rows[N + KERNEL_PADDING];
    fill(data, sizeof(data) / sizeof(*data), 11);
    fill(x, N + KERNEL_PADDING, 12);
    for (size_t i = 0; i < N + KERNEL_PADDING; i++)
        rows[i] = data + i * (MAX_N + 3);
    for (int level = 0; level < n_levels; level++)
        for (size_t k = 1; k <= MAX_N; k++)
            for (size_t n = 0; n <= N; n += 8) {
                float score[2];
                for (int side = 0; side < 2; side++) {
                    const struct kernels *which = side ? levels[level] : ref;
                    fill(sum[side], MAX_N + 1, 13);
                    fill(g[side], N * MAX_N + 1, 14);
                    RUN(score[side] = which->fm_score(rows, 2, x, n, k, sum[side]));
                    RUN(which->fm_grad(rows, 2, x, n, k, sum[side], 0.6f, g[side]));
                }
                assert_same("score", score, score + 1, 1, k);
                assert_same("sums", sum[0], sum[1], MAX_N + 1, k);
                assert_same("gradient", g[0], g[1], N * MAX_N + 1, k);
            }
}

static void test_fm_step(void **state)
{
    (void)state;
    enum { N = 25, ROW = 4 * MAX_N + 8 };
    static float data[2][(N + KERNEL_PADDING) * ROW], g[2][MAX_N + KERNEL_PADDING];
    float x[N + KERNEL_PADDING], l2[N + KERNEL_PADDING], sum[MAX_N];
    float *rows[2][N + KERNEL_PADDING];
    fill(x, N + KERNEL_PADDING, 26);
    fill_state(l2, N + KERNEL_PADDING, 27);
    for (int level = -1; level < n_levels; level++)
        for (size_t i_rule = 0; i_rule < 32 * MAX_N; i_rule++) {
            const struct kernels *k_new = level < 0 ? ref : levels[level];
            size_t k = 1 + i_rule % MAX_N;
            bool repeats = i_rule / MAX_N % 2 > 0;
            struct rule_params p = step_rule(i_rule, k);
            for (int side = 0; side < 2; side++) {
                fill_state(data[side], sizeof(data[0]) / sizeof(float), 28);
                for (size_t i = 0; i < N + KERNEL_PADDING; i++)
                    rows[side][i] = data[side] + pick_row(i, repeats) * ROW;
            }
            ref->fm_score(rows[0], 2, x, N, k, sum);
            for (size_t i = 0; i < N; i++) {
                ref->fm_grad(rows[0] + i, 2, x + i, 1, k, sum, 0.6f, g[0]);
                ref->apply[p.kind](&p, l2[i], rows[0][i] + 2, rows[0][i] + 2 + k, g[0],
                                   k);
            }
            k_new = taker(k_new, rows[1], N);
            RUN(k_new->fm_step[p.kind](&p, l2, rows[1], 2, 2 + k, x, N, k, sum, 0.6f,
                                       g[1]));
            assert_same("rows", data[0], data[1], sizeof(data[0]) / sizeof(float), k);
        }
}

// Compares rules with results that were computed by hand, for one weight and one or two
// steps.
static void test_formulas(void **state)
{
    (void)state;
    struct rule_params p = params(RULE_ADAGRAD, 0);
    float w = 0.5f, s[4] = {0}, g = 0.25f;
    ref->apply[RULE_ADAGRAD](&p, 0, &w, s, &g, 1);
    assert_float_equal(w, 0.5f - 0.07f * 0.25f / (0.5f + 0.25f), 1e-6f);
    assert_float_equal(s[0], 0.0625f, 1e-7f);

    // FTRL keeps an initial value: with a tiny gradient, w stays near this value.
    p = params(RULE_FTRL, 0);
    float tiny = 1e-6f, w2 = 0.5f, s2[4] = {0};
    ref->apply[RULE_FTRL](&p, 0, &w2, s2, &tiny, 1);
    assert_float_equal(w2, 0.5f, 1e-5f);
    // From 0, w moves against the gradient; z has the sign that it has in the paper.
    float w3 = 0, s3[4] = {0};
    ref->apply[RULE_FTRL](&p, 0, &w3, s3, &g, 1);
    assert_float_equal(s3[0], 0.25f, 1e-6f);
    assert_float_equal(w3, -0.25f / ((0.5f + 0.25f) / 0.07f), 1e-6f);

    p = params(RULE_ADAM, 0);
    p.beta = 1e-8f;
    float w4 = 0, s4[4] = {0};
    ref->apply[RULE_ADAM](&p, 0, &w4, s4, &g, 1);
    assert_float_equal(w4, -0.07f, 1e-5f); // the first step of Adam has the size lr
}

static void test_names(void **state)
{
    (void)state;
    assert_ptr_equal(kernels_named("ref"), ref);
    assert_null(kernels_named("sse9"));
    assert_non_null(kernels_get());
}

int main(void)
{
    ref = kernels_named("ref");
#ifdef NDEBUG // only optimized builds: gcc clears the registers from -O2 on
    can_tell = uppers_can_tell();
#endif
    if (!can_tell)
        printf("skipped: this is not as released, or this CPU does not say which vector "
               "registers are in use\n");
    static const char *const names[] = {"avx2", "avx512"};
    for (int i = 0; i < 2; i++) {
        const struct kernels *k = kernels_named(names[i]);
        if (k != NULL)
            levels[n_levels++] = k;
        else
            printf("skipped: no %s on this CPU or in this build\n", names[i]);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules),    cmocka_unit_test(test_adagrad_row_blocks),
        cmocka_unit_test(test_sums),     cmocka_unit_test(test_ffm),
        cmocka_unit_test(test_fm_step),  cmocka_unit_test(test_largest),
        cmocka_unit_test(test_multiply), cmocka_unit_test(test_count),
        cmocka_unit_test(test_fm),       cmocka_unit_test(test_formulas),
        cmocka_unit_test(test_names),    cmocka_unit_test(test_new_vectors),
        cmocka_unit_test(test_clip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
