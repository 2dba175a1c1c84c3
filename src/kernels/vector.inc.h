// The kernels on vectors, included once by each level's file, which defines
//   LEVEL                  the name of its table
//   SQRT16, SQRT8, SQRT4   element-wise square roots
//   COMPARE_16(x, op)      mask of the lanes with x op 0
//   RANGE_16(from, n)      mask of the lanes i with 0 <= i + from < n
//   LOAD_SOME(p, n)        the first n < 16 floats, zeros behind them; reads no further
//   SWAP_2(x), SWAP_1(x)   lanes i and i ^ 2, i and i ^ 1 of a v16 change places
//   FIRST_OF_4(x)          lanes 0, 4, 8, 12 of a v16 as a v4
//   EACH_4_TIMES(x)        and back: lane i of a v4 in lanes 4 i to 4 i + 3
//   JOIN_4(a, b, c, d)     four v4 as a v16
// and is compiled for its CPU. All else is written in the compiler's vector types, which it lowers to what
// the level has. Same bits as ref.c: see kernels.h.
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
#define VCOMPARE COMPARE_16
#include "kernels/vector_rules.inc.h"
#define V v8
#define VI v8i
#define N(name) name##_8
#define VSQRT SQRT8
#define VCOMPARE(x, op) ((x) op 0)
#include "kernels/vector_rules.inc.h"
#define V v4
#define VI v4i
#define N(name) name##_4
#define VSQRT SQRT4
#define VCOMPARE(x, op) ((x) op 0)
#include "kernels/vector_rules.inc.h"

// Lanes as a tree. Halves by shuffles: taking addresses would keep sums in memory all the while.
static inline float lanes_sum_4(v4 x)
{
    return (x[0] + x[2]) + (x[1] + x[3]);
}

static inline float lanes_sum_8(v8 x)
{
    return lanes_sum_4(__builtin_shufflevector(x, x, 0, 1, 2, 3) +
                       __builtin_shufflevector(x, x, 4, 5, 6, 7));
}

static inline float lanes_sum_16(v16 x)
{
    return lanes_sum_8(__builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7) +
                       __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15));
}

static float dot(const float *a, const float *b, size_t n)
{
    v16 lane = {0};
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        lane += load_16(a + i) * load_16(b + i);
    if (i < n)
        lane += LOAD_SOME(a + i, n - i) * LOAD_SOME(b + i, n - i);
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

// The first n < 16 lanes only.
static inline void scatter_some(float *const *rows, size_t col, v16 x, size_t n)
{
    float t[16];
    store_16(t, x);
    for (size_t i = 0; i < n; i++)
        rows[i][col] = t[i];
}

// x with zeros behind the first n < 16 lanes: the rest of a strip. Arrays have padding, so rests are
// read whole.
static inline v16 only(v16 x, size_t n)
{
    return select_16(RANGE_16(0, n), x, (v16){0});
}

static float gather_dot(float *const *rows, size_t col, const float *x, size_t n)
{
    v16 lane = {0};
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        lane += gather(rows + i, col) * load_16(x + i);
    if (i < n)
        lane += only(gather(rows + i, col) * load_16(x + i), n - i);
    return lanes_sum_16(lane);
}

static void scale(float *y, float a, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = a * x[i];
}

static void axpy(float *y, float a, const float *x, size_t n)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        store_16(y + i, load_16(y + i) + a * load_16(x + i));
    for (; i + 4 <= n; i += 4)
        store_4(y + i, load_4(y + i) + a * load_4(x + i));
    for (; i < n; i++)
        y[i] += a * x[i];
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

static inline size_t nth(const uint16_t *list, size_t i)
{
    return list != NULL ? list[i] : i;
}

// Vectors of 4, all fields: four of them make one store, so that the loads that follow soon find
// their bytes in one piece. The last store of a row may run into the next, which is written after.
static inline void turn_all_of_4(float *in, const float *out, size_t fields)
{
    size_t row = fields * 4;
    for (size_t f = 0; f < fields; f++, out += 4)
        for (size_t h = 0; h < fields; h += 4) {
            const float *from = out + h * row;
            size_t left = fields - h;
            v4 a = load_4(from), b = {0}, c = {0}, d = {0};
            if (left > 1)
                b = load_4(from + row);
            if (left > 2)
                c = load_4(from + 2 * row);
            if (left > 3)
                d = load_4(from + 3 * row);
            store_16(in + f * row + h * 4, JOIN_4(a, b, c, d));
        }
}

static inline void turn(float *in, const float *out, const uint16_t *list, size_t present,
                        size_t row, size_t k)
{
    for (size_t i = 0; i < present; i++)
        for (size_t j = 0; j < present; j++) {
            size_t f = nth(list, i), h = nth(list, j);
            memcpy(in + f * row + h * k, out + h * row + f * k, k * sizeof(float));
        }
}

static void ffm_sums(float *const *rows, size_t col, const uint16_t *slot, const float *u, size_t n,
                     size_t fields, size_t k, const uint16_t *list, size_t present, float *out,
                     float *in)
{
    size_t row = fields * k;
    for (size_t i = 0; i < present; i++) {
        memset(out + nth(list, i) * row, 0, row * sizeof(float));
        if (present < fields) // else each vector is written below
            memset(in + nth(list, i) * row, 0, row * sizeof(float));
    }
    for (size_t i = 0; i < n; i++)
        axpy(out + slot[i] * row, u[i], rows[i] + col, row);
    if (k == 4 && present == fields)
        turn_all_of_4(in, out, fields);
    else
        turn(in, out, list, present, row, k);
}

// The squares of a feature's own vector, added to its lanes.
static inline v16 own_squares(v16 self, float u, const float *own, size_t k)
{
    size_t c = 0;
    for (; c + 16 <= k; c += 16) {
        v16 uv = u * load_16(own + c);
        self += uv * uv;
    }
    if (c < k) {
        v16 uv = u * LOAD_SOME(own + c, k - c);
        self += uv * uv;
    }
    return self;
}

static float ffm_score(float *const *rows, size_t col, const uint16_t *slot, const float *u, size_t n,
                       size_t fields, size_t k, const uint16_t *list, size_t present,
                       const float *out, const float *in)
{
    v16 lane = {0}, self = {0};
    size_t row = fields * k;
    for (size_t i = 0; i < present; i++) {
        const float *said = out + nth(list, i) * row, *heard = in + nth(list, i) * row;
        size_t c = 0;
        for (; c + 16 <= row; c += 16)
            lane += load_16(said + c) * load_16(heard + c);
        if (c < row)
            lane += LOAD_SOME(said + c, row - c) * LOAD_SOME(heard + c, row - c);
    }
    for (size_t i = 0; i < n; i++)
        self = own_squares(self, u[i], rows[i] + col + slot[i] * k, k);
    return 0.5f * (lanes_sum_16(lane) - lanes_sum_16(self));
}

// Columns c and on of a feature's gradient. Its own vector is part of what its field heard: there it
// is taken away again.
static inline v16 ffm_grad_16(v16 met, v16 v, size_t c, size_t own, size_t k, float eu, float minus)
{
    v16 g = eu * met;
    return select_16(RANGE_16((int32_t)c - (int32_t)own, k), g + minus * v, g);
}

static void ffm_grad(float *const *rows, size_t col, const uint16_t *slot, const float *u, size_t n,
                     size_t fields, size_t k, const float *in, float err, float *g)
{
    size_t row = fields * k;
    for (size_t i = 0; i < n; i++, g += row) {
        const float *v = rows[i] + col, *met = in + slot[i] * row;
        size_t own = slot[i] * k, c = 0;
        float eu = err * u[i], minus = -(eu * u[i]);
        for (; c + 16 <= row; c += 16)
            store_16(g + c, ffm_grad_16(load_16(met + c), load_16(v + c), c, own, k, eu, minus));
        if (c < row) // runs into the next feature's, which is written after, or the padding
            store_16(g + c, ffm_grad_16(LOAD_SOME(met + c, row - c), LOAD_SOME(v + c, row - c), c,
                                        own, k, eu, minus));
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

// The sums of squares of the four blocks of 4 in a vector.
static inline v4 sums_of_4(v16 d)
{
    v16 q = d * d;
    q += SWAP_2(q);
    q += SWAP_1(q);
    return FIRST_OF_4(q);
}

static inline void move_blocks_of_4(const struct rule_params *p, float *w, v16 wv, v16 gv, v16 d,
                                    v4 rate)
{
    v16 next = proximal_16(p, wv - EACH_4_TIMES(rate) * d);
    store_16(w, select_16(COMPARE_16(gv, !=), next, wv));
}

// Four blocks of 4, and eight: roots and quotients are taken once a block, not once a weight.
static inline void adagrad_4_blocks_of_4(const struct rule_params *p, float l2, float *w, float *s,
                                         const float *g)
{
    v16 wv = load_16(w), gv = load_16(g), d = decayed_16(l2, wv, gv);
    v4 n = load_4(s) + sums_of_4(d) / 4.0f;
    store_4(s, n);
    move_blocks_of_4(p, w, wv, gv, d, p->lr / (p->beta + SQRT4(n)));
}

static inline void adagrad_8_blocks_of_4(const struct rule_params *p, float l2, float *w, float *s,
                                         const float *g)
{
    v16 w0 = load_16(w), g0 = load_16(g), d0 = decayed_16(l2, w0, g0);
    v16 w1 = load_16(w + 16), g1 = load_16(g + 16), d1 = decayed_16(l2, w1, g1);
    v8 sums = __builtin_shufflevector(sums_of_4(d0), sums_of_4(d1), 0, 1, 2, 3, 4, 5, 6, 7);
    v8 n = load_8(s) + sums / 4.0f;
    store_8(s, n);
    v8 rate = p->lr / (p->beta + SQRT8(n));
    move_blocks_of_4(p, w, w0, g0, d0, __builtin_shufflevector(rate, rate, 0, 1, 2, 3));
    move_blocks_of_4(p, w + 16, w1, g1, d1, __builtin_shufflevector(rate, rate, 4, 5, 6, 7));
}

static void apply_adagrad_row(const struct rule_params *p, float l2, float *w, float *s, const float *g,
                              size_t n)
{
    size_t i = 0;
    if (p->block == 4) {
        for (; i + 32 <= n; i += 32)
            adagrad_8_blocks_of_4(p, l2, w + i, s + i / 4, g + i);
        if (i + 16 <= n) {
            adagrad_4_blocks_of_4(p, l2, w + i, s + i / 4, g + i);
            i += 16;
        }
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
    for (size_t i = 0; i < n; i += 16) {
        v16 mv = m != NULL ? load_16(m + i) : 1 + (v16){0}, c = gather(rows + i, col) + mv;
        v16 share = mv * pass / c;
        if (i + 16 <= n) {
            scatter(rows + i, col, c);
            store_16(ret + i, share);
        } else {
            scatter_some(rows + i, col, c, n - i);
            for (size_t j = i; j < n; j++)
                ret[j] = share[j - i];
        }
    }
}

// One weight in each of many rows: sixteen rows make one vector; in the rest of a strip the gradients
// are 0. A row that occurs twice in a strip keeps its last update.
#define COLUMN(rule, STATES, CALL)                                                             \
    static void column_##rule(const struct rule_params *p, const float *l2,                    \
                              float *const *rows, size_t w, size_t s, const float *g, size_t n) \
    {                                                                                          \
        (void)s;                                                                               \
        for (size_t i = 0; i < n; i += 16) {                                                   \
            size_t left = n - i;                                                               \
            v16 gv = left >= 16 ? load_16(g + i) : only(load_16(g + i), left);                 \
            v16 l2v = load_16(l2 + i), wv = gather(rows + i, w), old[2], state[2];             \
            for (size_t j = 0; j < STATES; j++)                                                \
                old[j] = state[j] = gather(rows + i, s + j);                                   \
            v16 next = select_16(COMPARE_16(gv, !=), CALL, wv);                                           \
            for (size_t j = 0; j < STATES; j++)                                                \
                scatter_first(rows + i, s + j, select_16(COMPARE_16(gv, !=), state[j], old[j]), left);    \
            scatter_first(rows + i, w, next, left);                                            \
        }                                                                                      \
    }

static inline void scatter_first(float *const *rows, size_t col, v16 x, size_t n)
{
    if (n >= 16)
        scatter(rows, col, x);
    else
        scatter_some(rows, col, x, n);
}

static const size_t none = 0, one = 1, two = 2;
COLUMN(sgd, none, sgd_16(p, l2v, wv, gv))
COLUMN(sum, none, sum_16(p, l2v, wv, gv))
COLUMN(momentum, one, momentum_16(p, l2v, wv, gv, &state[0]))
COLUMN(adagrad, one, adagrad_16(p, l2v, wv, gv, &state[0]))
COLUMN(rmsprop, one, rmsprop_16(p, l2v, wv, gv, &state[0]))
COLUMN(ftrl, two, ftrl_16(p, l2v, wv, gv, &state[0], &state[1]))

static void column_adam(const struct rule_params *p, const float *l2, float *const *rows, size_t w,
                        size_t s, const float *g, size_t n)
{
    kernels_ref.apply_column[RULE_ADAM](p, l2, rows, w, s, g, n);
}

// fm_step of adagrad-row with vectors of 8, the default: roots and quotients of sixteen rows at once.
static void fm_step_16_rows_of_8(const struct rule_params *p, const float *l2, float *const *rows,
                                 size_t w, size_t s, const float *x, size_t n, v8 sum, float err)
{
    v8 v[16], g[16], d[16];
    float mean[16] = {0}, rate[16];
    for (size_t i = 0; i < n; i++) {
        v[i] = load_8(rows[i] + w);
        g[i] = err * x[i] * (sum - x[i] * v[i]);
        d[i] = decayed_8(l2[i], v[i], g[i]);
        mean[i] = lanes_sum_8(d[i] * d[i]) / 8.0f;
    }
    v16 squares = gather(rows, s) + load_16(mean);
    scatter_first(rows, s, squares, n);
    store_16(rate, p->lr / (p->beta + SQRT16(squares)));
    for (size_t i = 0; i < n; i++)
        store_8(rows[i] + w, select_8(g[i] != 0, proximal_8(p, v[i] - rate[i] * d[i]), v[i]));
}

// Gradient and update, row by row.
#define STEP(rule)                                                                             \
    static void fm_step_##rule(const struct rule_params *p, const float *l2,                   \
                               float *const *rows, size_t w, size_t s, const float *x,         \
                               size_t n, size_t k, const float *sum, float err, float *g)      \
    {                                                                                          \
        for (size_t i = 0; i < n; i++) {                                                       \
            fm_grad(rows + i, w, x + i, 1, k, sum, err, g);                                    \
            apply_##rule(p, l2[i], rows[i] + w, rows[i] + s, g, k);                            \
        }                                                                                      \
    }                                                                                          \
    static void ffm_step_##rule(const struct rule_params *p, const float *l2,                  \
                                float *const *rows, size_t w, size_t s, const uint16_t *slot,  \
                                const float *u, size_t n, size_t fields, size_t k,             \
                                const float *in, float err, float *g)                          \
    {                                                                                          \
        for (size_t i = 0; i < n; i++) {                                                       \
            ffm_grad(rows + i, w, slot + i, u + i, 1, fields, k, in, err, g);                  \
            apply_##rule(p, l2[i], rows[i] + w, rows[i] + s, g, fields * k);                   \
        }                                                                                      \
    }
STEP(sgd)
STEP(momentum)
STEP(adagrad)
STEP(adagrad_row)
STEP(rmsprop)
STEP(adam)
STEP(ftrl)
STEP(sum)

// ffm_step of adagrad-row with vectors of 4, the default: a strip of rows at a time, in three walks,
// so that the roots and quotients of all its blocks run one behind the other and nobody waits.
enum { STRIP_FLOATS = 2048 };

// Gradients with decay into d; sums of squares into the rows' state and into n.
static inline void ffm_walk_sums(float l2, const float *w, float *s, float *d, float *n, size_t row)
{
    size_t c = 0;
    for (; c + 16 <= row; c += 16) {
        v16 dv = decayed_16(l2, load_16(w + c), load_16(d + c));
        v4 sums = load_4(s + c / 4) + sums_of_4(dv) / 4.0f;
        store_16(d + c, dv);
        store_4(s + c / 4, sums);
        store_4(n + c / 4, sums);
    }
    for (; c < row; c += 4) {
        v4 dv = decayed_4(l2, load_4(w + c), load_4(d + c));
        float sum = s[c / 4] + lanes_sum_4(dv * dv) / 4.0f;
        store_4(d + c, dv);
        s[c / 4] = n[c / 4] = sum;
    }
}

// Where d is 0 the rate may be infinite: nothing moves there.
static inline void ffm_walk_move(float *w, const float *d, const float *rate, size_t row)
{
    size_t c = 0;
    for (; c + 16 <= row; c += 16) {
        v16 wv = load_16(w + c), dv = load_16(d + c);
        store_16(w + c, select_16(COMPARE_16(dv, !=), wv - EACH_4_TIMES(load_4(rate + c / 4)) * dv, wv));
    }
    for (; c < row; c += 4) {
        v4 wv = load_4(w + c), dv = load_4(d + c);
        store_4(w + c, select_4(dv != 0, wv - rate[c / 4] * dv, wv));
    }
}

static void ffm_step_adagrad_rows(const struct rule_params *p, const float *l2, float *const *rows,
                                  size_t w, size_t s, const uint16_t *slot, const float *u, size_t n,
                                  size_t fields, size_t k, const float *in, float err, float *g)
{
    size_t row = fields * k, blocks = fields, strip = STRIP_FLOATS / row;
    if (k != 4 || p->block != 4 || strip == 0 || p->l1 != 0) {
        ffm_step_adagrad_row(p, l2, rows, w, s, slot, u, n, fields, k, in, err, g);
        return;
    }
    float d[STRIP_FLOATS + KERNEL_PADDING], rate[STRIP_FLOATS / 4 + KERNEL_PADDING];
    for (size_t at = 0; at < n; at += strip) {
        size_t m = n - at < strip ? n - at : strip;
        ffm_grad(rows + at, w, slot + at, u + at, m, fields, k, in, err, d);
        for (size_t i = 0; i < m; i++)
            ffm_walk_sums(l2[at + i], rows[at + i] + w, rows[at + i] + s, d + i * row,
                          rate + i * blocks, row);
        for (size_t b = 0; b < m * blocks; b += 16)
            store_16(rate + b, p->lr / (p->beta + SQRT16(load_16(rate + b))));
        for (size_t i = 0; i < m; i++)
            ffm_walk_move(rows[at + i] + w, d + i * row, rate + i * blocks, row);
    }
}

static void fm_step_adagrad_rows(const struct rule_params *p, const float *l2, float *const *rows,
                                 size_t w, size_t s, const float *x, size_t n, size_t k,
                                 const float *sum, float err, float *g)
{
    if (k != 8 || p->block != 8) {
        fm_step_adagrad_row(p, l2, rows, w, s, x, n, k, sum, err, g);
        return;
    }
    for (size_t i = 0; i < n; i += 16)
        fm_step_16_rows_of_8(p, l2 + i, rows + i, w, s, x + i, n - i < 16 ? n - i : 16, load_8(sum),
                             err);
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
    .fm_score = fm_score,
    .fm_grad = fm_grad,
    .ffm_sums = ffm_sums,
    .ffm_score = ffm_score,
    .ffm_grad = ffm_grad,
    .count = count,
    .apply = {apply_sgd, apply_momentum, apply_adagrad, apply_adagrad_row, apply_rmsprop,
              apply_adam, apply_ftrl, apply_sum},
    .apply_column = {column_sgd, column_momentum, column_adagrad, column_adagrad, column_rmsprop,
                     column_adam, column_ftrl, column_sum},
    .fm_step = {fm_step_sgd, fm_step_momentum, fm_step_adagrad, fm_step_adagrad_rows,
                fm_step_rmsprop, fm_step_adam, fm_step_ftrl, fm_step_sum},
    .ffm_step = {ffm_step_sgd, ffm_step_momentum, ffm_step_adagrad, ffm_step_adagrad_rows,
                 ffm_step_rmsprop, ffm_step_adam, ffm_step_ftrl, ffm_step_sum},
};
