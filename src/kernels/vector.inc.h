// The kernels on vectors, included once by each level's file, which defines
//   LEVEL                  the name of its table
//   SQRT16, SQRT8, SQRT4   element-wise square roots
// and is compiled for its CPU. Nothing here is an intrinsic: the compiler's vector types are lowered
// to what the level has. Same bits as ref.c: see kernels.h.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/relaxed.h"
#include "kernels/levels.h"

typedef float v8 __attribute__((vector_size(32)));
typedef float v4 __attribute__((vector_size(16)));
typedef int32_t v8i __attribute__((vector_size(32)));
typedef int32_t v4i __attribute__((vector_size(16)));

// Rules and loads for 16, 8 and 4 floats at a time, and for one.
#define V v16
#define VI v16i
#define N(name) name##_16
#define VSQRT SQRT16
#include "kernels/vector_rules.inc.h"
#define V v8
#define VI v8i
#define N(name) name##_8
#define VSQRT SQRT8
#include "kernels/vector_rules.inc.h"
#define V v4
#define VI v4i
#define N(name) name##_4
#define VSQRT SQRT4
#include "kernels/vector_rules.inc.h"

static inline float lanes_sum_4(v4 x)
{
    return (x[0] + x[2]) + (x[1] + x[3]);
}

static inline float lanes_sum_8(v8 x)
{
    v4 low, high;
    memcpy(&low, &x, sizeof(low));
    memcpy(&high, (const char *)&x + sizeof(low), sizeof(high));
    return lanes_sum_4(low + high);
}

static inline float lanes_sum_16(v16 x)
{
    v8 low, high;
    memcpy(&low, &x, sizeof(low));
    memcpy(&high, (const char *)&x + sizeof(low), sizeof(high));
    return lanes_sum_8(low + high);
}

// The first n < 16 floats, zeros behind them.
static inline v16 load_some(const float *p, size_t n)
{
    float t[16] = {0};
    for (size_t i = 0; i < n; i++)
        t[i] = p[i];
    return load_16(t);
}

static float dot(const float *a, const float *b, size_t n)
{
    v16 lane = {0};
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        lane += load_16(a + i) * load_16(b + i);
    if (i < n)
        lane += load_some(a + i, n - i) * load_some(b + i, n - i);
    return lanes_sum_16(lane);
}

static inline v16 gather(float *const *rows, size_t col)
{
    float t[16];
    for (int i = 0; i < 16; i++)
        t[i] = rows[i][col];
    return load_16(t);
}

static inline void scatter(float *const *rows, size_t col, v16 x)
{
    for (int i = 0; i < 16; i++)
        rows[i][col] = x[i];
}

static float gather_dot(float *const *rows, size_t col, const float *x, size_t n)
{
    v16 lane = {0};
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        lane += gather(rows + i, col) * load_16(x + i);
    if (i < n) {
        float t[16] = {0};
        for (size_t j = i; j < n; j++)
            t[j - i] = rows[j][col] * x[j];
        lane += load_16(t);
    }
    return lanes_sum_16(lane);
}

static void scale(float *y, float a, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = a * x[i];
}

static void axpy(float *y, float a, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] += a * x[i];
}

static void spread(float *y, size_t stride, float a, const float *x, size_t blocks, size_t k)
{
    for (size_t b = 0; b < blocks; b++, y += stride, x += k) {
        size_t c = 0;
        for (; c + 4 <= k; c += 4)
            store_4(y + c, load_4(y + c) + a * load_4(x + c));
        for (; c < k; c++)
            y[c] += a * x[c];
    }
}

// FM: a strip of columns at a time, its sums in registers.
#define FM_STRIP(W)                                                                            \
    static inline v##W fm_strip_##W(float *const *rows, size_t col, const float *x, size_t n,  \
                                    float *ret_sum)                                            \
    {                                                                                          \
        v##W sum = {0}, squares = {0};                                                         \
        for (size_t i = 0; i < n; i++) {                                                       \
            v##W xv = x[i] * load_##W(rows[i] + col);                                          \
            sum += xv;                                                                         \
            squares += xv * xv;                                                                \
        }                                                                                      \
        store_##W(ret_sum, sum);                                                               \
        return sum * sum - squares;                                                            \
    }
FM_STRIP(16)
FM_STRIP(8)
FM_STRIP(4)

static inline float fm_column(float *const *rows, size_t col, const float *x, size_t n,
                              float *ret_sum)
{
    float sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        float xv = x[i] * rows[i][col];
        sum += xv;
        squares += xv * xv;
    }
    *ret_sum = sum;
    return sum * sum - squares;
}

static float fm_score(float *const *rows, size_t col, const float *x, size_t n, size_t k,
                      float *ret_sum)
{
    if (k == 8)
        return 0.5f * lanes_sum_8(fm_strip_8(rows, col, x, n, ret_sum));
    v16 lane = {0};
    size_t c = 0;
    for (; c + 16 <= k; c += 16)
        lane += fm_strip_16(rows, col + c, x, n, ret_sum + c);
    float rest[16] = {0};
    size_t r = 0;
    if (c + 8 <= k) {
        store_8(rest, fm_strip_8(rows, col + c, x, n, ret_sum + c));
        c += 8, r += 8;
    }
    if (c + 4 <= k) {
        store_4(rest + r, fm_strip_4(rows, col + c, x, n, ret_sum + c));
        c += 4, r += 4;
    }
    for (; c < k; c++, r++)
        rest[r] = fm_column(rows, col + c, x, n, ret_sum + c);
    return 0.5f * lanes_sum_16(lane + load_16(rest));
}

static void fm_grad(float *const *rows, size_t col, const float *x, size_t n, size_t k,
                    const float *sum, float err, float *g)
{
    for (size_t i = 0; i < n; i++, g += k) {
        const float *v = rows[i] + col;
        float xi = x[i], ex = err * xi;
        size_t c = 0;
        for (; c + 16 <= k; c += 16)
            store_16(g + c, ex * (load_16(sum + c) - xi * load_16(v + c)));
        for (; c + 8 <= k; c += 8)
            store_8(g + c, ex * (load_8(sum + c) - xi * load_8(v + c)));
        for (; c < k; c++)
            g[c] = ex * (sum[c] - xi * v[c]);
    }
}

// One update of n weights: strips of 16, 8 and 4, and the reference for the last three.
#define STRIPS(rule, KIND)                                                                     \
    static void apply_##rule(const struct rule_params *p, float l2, float *w, float *s, const float *g,  \
                             size_t n)                                                         \
    {                                                                                          \
        size_t i = 0;                                                                          \
        for (; i + 16 <= n; i += 16)                                                           \
            update_##rule##_16(p, l2, w + i, s + i, n, g + i);                                     \
        if (i + 8 <= n) {                                                                      \
            update_##rule##_8(p, l2, w + i, s + i, n, g + i);                                      \
            i += 8;                                                                            \
        }                                                                                      \
        if (i + 4 <= n) {                                                                      \
            update_##rule##_4(p, l2, w + i, s + i, n, g + i);                                      \
            i += 4;                                                                            \
        }                                                                                      \
        if (i < n)                                                                             \
            kernels_ref.apply[KIND](p, l2, w + i, s + i, g + i, n - i);                            \
    }
STRIPS(sgd, RULE_SGD)
STRIPS(momentum, RULE_MOMENTUM)
STRIPS(adagrad, RULE_ADAGRAD)
STRIPS(rmsprop, RULE_RMSPROP)
STRIPS(sum, RULE_SUM)

// Rules with two states a weight: the second lies n floats behind the first, so a tail cannot be
// handed to the reference by itself. Rows of such sizes are rare: it gets the whole row.
static void apply_ftrl(const struct rule_params *p, float l2, float *w, float *s, const float *g, size_t n)
{
    if (n % 4 != 0) {
        kernels_ref.apply[RULE_FTRL](p, l2, w, s, g, n);
        return;
    }
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        update_ftrl_16(p, l2, w + i, s + i, n, g + i);
    for (; i < n; i += 4)
        update_ftrl_4(p, l2, w + i, s + i, n, g + i);
}

static void apply_adam(const struct rule_params *p, float l2, float *w, float *s, const float *g, size_t n)
{
    if (n % 4 != 0) {
        kernels_ref.apply[RULE_ADAM](p, l2, w, s, g, n);
        return;
    }
    size_t i = 0;
    while (i < n && g[i] == 0)
        i++;
    if (i == n)
        return;
    float *c = s + 2 * n;
    c[0] = p->beta1 * c[0] + (1 - p->beta1);
    c[1] = p->beta2 * c[1] + (1 - p->beta2);
    float rate = p->lr * sqrtf(c[1]) / c[0];
    for (i = 0; i + 16 <= n; i += 16)
        update_adam_16(p, l2, rate, w + i, s + i, n, g + i);
    for (; i < n; i += 4)
        update_adam_4(p, l2, rate, w + i, s + i, n, g + i);
}

// One block of adagrad-row as one vector.
#define ADAGRAD_BLOCK(W)                                                                       \
    static inline void adagrad_block_##W(const struct rule_params *p, float l2, float *w, float *s,      \
                                         const float *g)                                       \
    {                                                                                          \
        v##W wv = load_##W(w), gv = load_##W(g), d = decayed_##W(l2, wv, gv);                   \
        float old = *s, sum = old + lanes_sum_##W(d * d) / (float)W;                                 \
        v##W next = proximal_##W(p, wv - p->lr / (p->beta + sqrtf(sum)) * d);                  \
        store_##W(w, select_##W(gv != 0, next, wv));                                           \
        *s = sum;                                                                              \
    }
ADAGRAD_BLOCK(4)
ADAGRAD_BLOCK(8)
ADAGRAD_BLOCK(16)

// Four blocks of 4: sums within each by shuffles, so that each lane holds its block's.
static inline void adagrad_blocks_of_4(const struct rule_params *p, float l2, float *w, float *s,
                                       const float *g)
{
    v16 wv = load_16(w), gv = load_16(g), d = decayed_16(l2, wv, gv), q = d * d;
    q += __builtin_shufflevector(q, q, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
    q += __builtin_shufflevector(q, q, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
    float four[16] = {s[0], s[1], s[2], s[3]};
    v16 each = load_16(four);
    v16 n = __builtin_shufflevector(each, each, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    n += q / 4.0f;
    v16 next = proximal_16(p, wv - p->lr / (p->beta + SQRT16(n)) * d);
    store_16(w, select_16(gv != 0, next, wv));
    v16 out = __builtin_shufflevector(n, n, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12);
    memcpy(s, &out, 4 * sizeof(float));
}

// adagrad-row in blocks of 4 (four at a time), 8 and 16; other sizes as the reference does.
static void apply_adagrad_row(const struct rule_params *p, float l2, float *w, float *s, const float *g,
                              size_t n)
{
    size_t i = 0;
    if (p->block == 4) {
        for (; i + 16 <= n; i += 16)
            adagrad_blocks_of_4(p, l2, w + i, s + i / 4, g + i);
        for (; i < n; i += 4)
            adagrad_block_4(p, l2, w + i, s + i / 4, g + i);
    } else if (p->block == 8) {
        for (; i < n; i += 8)
            adagrad_block_8(p, l2, w + i, s + i / 8, g + i);
    } else if (p->block == 16) {
        for (; i < n; i += 16)
            adagrad_block_16(p, l2, w + i, s + i / 16, g + i);
    } else {
        kernels_ref.apply[RULE_ADAGRAD_ROW](p, l2, w, s, g, n);
    }
}

static void count(float *const *rows, size_t col, const float *m, float pass, float *ret, size_t n)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        v16 mv = m != NULL ? load_16(m + i) : 1 + (v16){0}, c = gather(rows + i, col) + mv;
        scatter(rows + i, col, c);
        store_16(ret + i, mv * pass / c);
    }
    kernels_ref.count(rows + i, col, m != NULL ? m + i : NULL, pass, ret + i, n - i);
}

// One weight in each of many rows: sixteen rows make one vector.
#define COLUMN0(rule, KIND)                                                                          \
    static void column_##rule(const struct rule_params *p, const float *l2, float *const *rows, size_t w,       \
                              size_t s, const float *g, size_t n)                              \
    {                                                                                          \
        size_t i = 0;                                                                          \
        for (; i + 16 <= n; i += 16) {                                                         \
            v16 wv = gather(rows + i, w), gv = load_16(g + i);                                 \
            scatter(rows + i, w, select_16(gv != 0, rule##_16(p, load_16(l2 + i), wv, gv), wv));                \
        }                                                                                      \
        kernels_ref.apply_column[KIND](p, l2 + i, rows + i, w, s, g + i, n - i);                       \
    }

#define COLUMN1(rule, KIND)                                                                          \
    static void column_##rule(const struct rule_params *p, const float *l2, float *const *rows, size_t w,       \
                              size_t s, const float *g, size_t n)                              \
    {                                                                                          \
        size_t i = 0;                                                                          \
        for (; i + 16 <= n; i += 16) {                                                         \
            v16 wv = gather(rows + i, w), gv = load_16(g + i);                                 \
            v16 old = gather(rows + i, s), sv = old;                                           \
            v16 next = rule##_16(p, load_16(l2 + i), wv, gv, &sv);                                              \
            scatter(rows + i, w, select_16(gv != 0, next, wv));                                \
            scatter(rows + i, s, select_16(gv != 0, sv, old));                                 \
        }                                                                                      \
        kernels_ref.apply_column[KIND](p, l2 + i, rows + i, w, s, g + i, n - i);                       \
    }

COLUMN0(sgd, RULE_SGD)
COLUMN0(sum, RULE_SUM)
COLUMN1(momentum, RULE_MOMENTUM)
COLUMN1(adagrad, RULE_ADAGRAD)
COLUMN1(rmsprop, RULE_RMSPROP)

static void column_ftrl(const struct rule_params *p, const float *l2, float *const *rows, size_t w, size_t s,
                        const float *g, size_t n)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        v16 wv = gather(rows + i, w), gv = load_16(g + i);
        v16 z_old = gather(rows + i, s), n_old = gather(rows + i, s + 1), z = z_old, sum = n_old;
        v16 next = ftrl_16(p, load_16(l2 + i), wv, gv, &z, &sum);
        scatter(rows + i, w, select_16(gv != 0, next, wv));
        scatter(rows + i, s, select_16(gv != 0, z, z_old));
        scatter(rows + i, s + 1, select_16(gv != 0, sum, n_old));
    }
    kernels_ref.apply_column[RULE_FTRL](p, l2 + i, rows + i, w, s, g + i, n - i);
}

static void column_adam(const struct rule_params *p, const float *l2, float *const *rows, size_t w, size_t s,
                        const float *g, size_t n)
{
    kernels_ref.apply_column[RULE_ADAM](p, l2, rows, w, s, g, n);
}

#define TABLE_OF(level) kernels_##level
#define TABLE_NAMED(level) TABLE_OF(level)
#define TEXT_OF(level) #level
#define TEXT_NAMED(level) TEXT_OF(level)

const struct kernels TABLE_NAMED(LEVEL) = {
    .name = TEXT_NAMED(LEVEL),
    .dot = dot,
    .gather_dot = gather_dot,
    .scale = scale,
    .axpy = axpy,
    .spread = spread,
    .fm_score = fm_score,
    .fm_grad = fm_grad,
    .count = count,
    .apply = {apply_sgd, apply_momentum, apply_adagrad, apply_adagrad_row, apply_rmsprop,
              apply_adam, apply_ftrl, apply_sum},
    .apply_column = {column_sgd, column_momentum, column_adagrad, column_adagrad, column_rmsprop,
                     column_adam, column_ftrl, column_sum},
};
