// The kernels on vectors, included once by each level's file, which defines
//   LEVEL                  the name of its table
//   WIDE                   floats in a register, 8 or 16, and in the vectors of updates
//   SQRT16, SQRT8, SQRT4   element-wise square roots
//   COMPARE_16(x, op)      mask of the lanes with x op 0
//   RANGE_16(from, n)      mask of the lanes i with 0 <= i + from < n
//   REPEATS_16(rows, n)    whether a row occurs twice among the first min(16, n) rows;
//                          optional
//   LOAD_SOME(p, n)        the first n < 16 floats, zeros behind them; reads no further
// and is compiled for its CPU. Nearly all other code uses the compiler's vector types,
// which it translates to the level's instructions. Results have the same bits as those of
// ref.c (kernels.h).
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

// Loads one to three floats into a vector of four, followed by zeros.
static inline v4 load_part(const float *p, size_t n)
{
    if (n == 1)
        return (v4)_mm_load_ss(p);
    __m128 x = _mm_loadl_pi(_mm_setzero_ps(), (const __m64 *)(const void *)p);
    return (v4)(n == 2 ? x : _mm_insert_ps(x, _mm_load_ss(p + 2), 0x20));
}

static inline void store_part(float *p, v4 x, size_t n)
{
    if (n == 1) {
        _mm_store_ss(p, (__m128)x);
        return;
    }
    _mm_storel_pi((__m64 *)(void *)p, (__m128)x);
    if (n == 3)
        _mm_store_ss(p + 2, _mm_movehl_ps((__m128)x, (__m128)x));
}

// The rules for vectors of 16, 8 and 4 floats. Those of 4 also take the last one to three
// floats.
#define V v16
#define VI v16i
#define N(name) name##_16
#define VSQRT SQRT16
#define VCOMPARE COMPARE_16
#define VLOAD(p) load_16(p)
#define VSTORE(p, x) store_16(p, x)
#include "kernels/vector_rules.inc.h"
#define V v8
#define VI v8i
#define N(name) name##_8
#define VSQRT SQRT8
#define VCOMPARE(x, op) ((x)op 0)
#define VLOAD(p) load_8(p)
#define VSTORE(p, x) store_8(p, x)
#include "kernels/vector_rules.inc.h"
#define V v4
#define VI v4i
#define N(name) name##_4
#define VSQRT SQRT4
#define VCOMPARE(x, op) ((x)op 0)
#define VLOAD(p) load_4(p)
#define VSTORE(p, x) store_4(p, x)
#include "kernels/vector_rules.inc.h"
#define V v4
#define VI v4i
#define N(name) name##_end
#define VSQRT SQRT4
#define VCOMPARE(x, op) ((x)op 0)
#define VLOAD(p) load_part(p, n % 4)
#define VSTORE(p, x) store_part(p, x, n % 4)
#include "kernels/vector_rules.inc.h"

// Adds the lanes as a tree. Selects halves by shuffles: if it took addresses, the compiler
// would keep the sums in memory.
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

// Stores the first n lanes (n < 16) into rows.
static inline void scatter_some(float *const *rows, size_t col, v16 x, size_t n)
{
    float t[16];
    store_16(t, x);
    for (size_t i = 0; i < n; i++)
        rows[i][col] = t[i];
}

// Returns x with zeros after the first n lanes (n < 16). Used at the end of an array, which
// is loaded as a whole vector because arrays have padding.
static inline v16 only(v16 x, size_t n)
{
    return select_16(RANGE_16(0, n), x, (v16){0});
}

#ifndef REPEATS_16
// Returns the lower halves of the addresses of eight rows; different rows seldom have the
// same lower half. Lanes after the first n get odd numbers, which no address is.
static inline v8i addresses_8(float *const *rows, size_t n)
{
    const v8i place = {0, 1, 4, 5,
                       2, 3, 6, 7}; // the place of each lane after the shuffle
    const float *p = (const float *)(const void *)rows;
    v8i low = (v8i)_mm256_shuffle_ps(_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8), 0x88);
    v8i some = place < (int32_t)n;
    return n >= 8 ? low : (low & some) | (~some & (2 * place + 1));
}

#define TURNED_8(x, by)                                                                  \
    __builtin_shufflevector(x, x, by, (by + 1) % 8, (by + 2) % 8, (by + 3) % 8,          \
                            (by + 4) % 8, (by + 5) % 8, (by + 6) % 8, (by + 7) % 8)

static inline v8i equal_within_8(v8i a)
{
    return (a == TURNED_8(a, 1)) | (a == TURNED_8(a, 2)) | (a == TURNED_8(a, 3)) |
           (a == TURNED_8(a, 4));
}

static inline bool repeats_16(float *const *rows, size_t n)
{
    v8i a = addresses_8(rows, n), equal = equal_within_8(a);
    if (n > 8) {
        v8i b = addresses_8(rows + 8, n - 8);
        equal |= equal_within_8(b) | (a == b) | (a == TURNED_8(b, 1)) |
                 (a == TURNED_8(b, 2)) | (a == TURNED_8(b, 3)) | (a == TURNED_8(b, 4)) |
                 (a == TURNED_8(b, 5)) | (a == TURNED_8(b, 6)) | (a == TURNED_8(b, 7));
    }
    return !_mm256_testz_si256((__m256i)equal, (__m256i)equal);
}
#define REPEATS_16(rows, n) repeats_16(rows, n)
#endif

static bool repeats(float *const *rows, size_t n)
{
    for (size_t i = 0; i < n; i += 16)
        if (REPEATS_16(rows + i, n - i))
            return true;
    return false;
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

// Returns the largest |x[i]|; the compiler vectorizes the loop.
static float largest(const float *x, size_t n)
{
    int32_t most = 0;
    float ret;
    for (size_t i = 0; i < n; i++) {
        int32_t bits;
        memcpy(&bits, x + i, sizeof(bits));
        bits &= 0x7fffffff;
        most = bits > most ? bits : most;
    }
    memcpy(&ret, &most, sizeof(ret));
    return ret;
}

// TILE_ROWS: the number of rows of y whose sums are in registers at the same time.
// TILE_DEPTH: the number of rows of w that are used for all rows of y before the next rows
// of w; sixteen columns of so many rows fit into the first-level cache.
enum { TILE_ROWS = WIDE == 16 ? 8 : 4, TILE_DEPTH = 256, TILE_PARTS = 16 / WIDE };
#if WIDE == 16
typedef v16 tile_part;
#define LOAD_PART load_16
#define STORE_PART store_16
#else
typedef v8 tile_part;
#define LOAD_PART load_8
#define STORE_PART store_8
#endif

// Multiplies sixteen columns. Callers pass a constant as `rows`, so that the compiler
// unrolls the loops.
static inline __attribute__((always_inline)) void multiply_tile(float *y, size_t sy,
                                                                const float *x, size_t sx,
                                                                const float *w,
                                                                size_t rows, size_t inner,
                                                                size_t n)
{
    tile_part sum[TILE_ROWS][TILE_PARTS];
#pragma GCC unroll 8
    for (size_t r = 0; r < rows; r++)
        for (size_t p = 0; p < TILE_PARTS; p++)
            sum[r][p] = LOAD_PART(y + r * sy + p * WIDE);
    for (size_t k = 0; k < inner; k++) {
        tile_part b[TILE_PARTS];
#pragma GCC unroll 2
        for (size_t p = 0; p < TILE_PARTS; p++)
            b[p] = LOAD_PART(w + k * n + p * WIDE);
#pragma GCC unroll 8
        for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 2
            for (size_t p = 0; p < TILE_PARTS; p++)
                sum[r][p] += x[r * sx + k] * b[p];
    }
#pragma GCC unroll 8
    for (size_t r = 0; r < rows; r++)
        for (size_t p = 0; p < TILE_PARTS; p++)
            STORE_PART(y + r * sy + p * WIDE, sum[r][p]);
}

// Multiplies fewer than 16 columns.
static void multiply_some(float *y, const float *x, const float *w, size_t inner,
                          size_t n, size_t columns)
{
    float t[16];
    v16 sum = LOAD_SOME(y, columns);
    for (size_t k = 0; k < inner; k++)
        sum += x[k] * LOAD_SOME(w + k * n, columns);
    store_16(t, sum);
    memcpy(y, t, columns * sizeof(*y));
}

static void multiply(float *y, size_t sy, const float *x, size_t sx, const float *w,
                     size_t m, size_t inner, size_t n)
{
    for (size_t c = 0; c < n; c += 16)
        for (size_t k = 0; k < inner; k += TILE_DEPTH) {
            size_t depth = inner - k < TILE_DEPTH ? inner - k : TILE_DEPTH, i = 0;
            const float *from = w + k * n + c;
            for (; n - c >= 16 && i + TILE_ROWS <= m; i += TILE_ROWS)
                multiply_tile(y + i * sy + c, sy, x + i * sx + k, sx, from, TILE_ROWS,
                              depth, n);
            for (; n - c >= 16 && i < m; i++)
                multiply_tile(y + i * sy + c, sy, x + i * sx + k, sx, from, 1, depth, n);
            for (; i < m; i++)
                multiply_some(y + i * sy + c, x + i * sx + k, from, depth, n, n - c);
        }
}

static inline v16 clipped(v16 x, float most)
{
    x = select_16(COMPARE_16(x - most, >), most + (v16){0}, x);
    return select_16(COMPARE_16(x + most, <), -most + (v16){0}, x);
}

static void clip(float *y, const float *x, float most, size_t n)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        store_16(y + i, clipped(load_16(x + i), most));
    if (i < n) {
        v16 rest = clipped(LOAD_SOME(x + i, n - i), most);
        memcpy(y + i, &rest, (n - i) * sizeof(float));
    }
}

static float norm2(const float *x, size_t n)
{
    return dot(x, x, n);
}

static void bound(float *w, float low, float high, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        v8 x = load_8(w + i);
        v8i below = x<low, above = x> high;
        if (!_mm256_testz_si256((__m256i)(below | above), (__m256i)(below | above)))
            store_8(w + i,
                    select_8(below, low + (v8){0}, select_8(above, high + (v8){0}, x)));
    }
    if (i < n)
        kernels_ref.bound(w + i, low, high, n - i);
}

// Computes FM for one strip of columns, with the sums in registers.
#define FM_STRIP(W)                                                                      \
    static inline v##W fm_strip_##W(float *const *rows, size_t col, const float *x,      \
                                    size_t n, float *ret_sum)                            \
    {                                                                                    \
        v##W sum = {0}, squares = {0};                                                   \
        for (size_t i = 0; i < n; i++) {                                                 \
            v##W xv = x[i] * load_##W(rows[i] + col);                                    \
            sum += xv;                                                                   \
            squares += xv * xv;                                                          \
        }                                                                                \
        store_##W(ret_sum, sum);                                                         \
        return sum * sum - squares;                                                      \
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

#include "kernels/vector_ffm.inc.h"

static void count(float *const *rows, size_t col, const float *m, float pass, float *ret,
                  size_t n)
{
    for (size_t i = 0; i < n; i += 16) {
        v16 mv = m != NULL ? load_16(m + i) : 1 + (v16){0},
            c = gather(rows + i, col) + mv;
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

#include "kernels/vector_apply.inc.h"

// fm_step of adagrad-row with vectors of 8 floats, the default. Computes the roots and
// quotients of sixteen rows at once. Takes the sums by address: gcc does not clear the
// upper halves of registers at the end of a function that is not inlined and gets a vector
// by value.
static void fm_step_16_rows_of_8(const struct rule_params *p, const float *l2,
                                 float *const *rows, size_t w, size_t s, const float *x,
                                 size_t n, const float *sums, float err)
{
    v8 v[16], g[16], d[16], sum = load_8(sums);
    float mean[16] = {0}, rate[16];
    for (size_t i = 0; i < n; i++) {
        v[i] = load_8(rows[i] + w);
        g[i] = err * x[i] * (sum - x[i] * v[i]);
        d[i] = decayed_8(p, l2[i] + (v8){0}, v[i], g[i]);
        mean[i] = lanes_sum_8(d[i] * d[i]) / 8.0f;
    }
    v16 squares = gather(rows, s) + load_16(mean);
    scatter_first(rows, s, squares, n);
    store_16(rate, p->lr / (p->beta + SQRT16(squares)));
    for (size_t i = 0; i < n; i++)
        store_8(rows[i] + w,
                select_8(g[i] != 0, proximal_8(p, v[i] - rate[i] * d[i]), v[i]));
}

#include "kernels/steps.inc.h"

static void fm_step_adagrad_rows(const struct rule_params *p, const float *l2,
                                 float *const *rows, size_t w, size_t s, const float *x,
                                 size_t n, size_t k, const float *sum, float err,
                                 float *g)
{
    if (k != 8 || p->block != 8 || p->dense || p->bounded) {
        fm_step_adagrad_row(p, l2, rows, w, s, x, n, k, sum, err, g);
        return;
    }
    for (size_t i = 0; i < n; i += 16)
        fm_step_16_rows_of_8(p, l2 + i, rows + i, w, s, x + i, n - i < 16 ? n - i : 16,
                             sum, err);
}

static void ffm_step_adagrad_rows(const struct rule_params *p, const float *l2,
                                  float *const *rows, size_t w, size_t s,
                                  const uint16_t *slot, const float *u, size_t n,
                                  size_t fields, size_t k, const float *in, float err,
                                  float *g)
{
    if (k == 4 && p->block == 4 && p->l1 == 0 && fields <= STRIP_FLOATS / 4 &&
        !p->dense && !p->bounded)
        ffm_step_of_4(p, l2, rows, w, s, slot, u, n, fields, in, err);
    else
        ffm_step_adagrad_row(p, l2, rows, w, s, slot, u, n, fields, k, in, err, g);
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
    .largest = largest,
    .multiply = multiply,
    .fm_score = fm_score,
    .fm_grad = fm_grad,
    .ffm_sums = ffm_sums,
    .ffm_score = ffm_score,
    .ffm_grad = ffm_grad,
    .count = count,
    .repeats = repeats,
    .clip = clip,
    .norm2 = norm2,
    .bound = bound,
    .apply = {[RULE_ADAGRAD_ROW] = apply_adagrad_row, KERNEL_RULES(APPLY_ENTRY)},
    .apply_column = {[RULE_ADAGRAD_ROW] = column_adagrad, KERNEL_RULES(COLUMN_ENTRY)},
    .fm_step = {[RULE_ADAGRAD_ROW] = fm_step_adagrad_rows, KERNEL_RULES(FM_STEP_ENTRY)},
    .ffm_step = {[RULE_ADAGRAD_ROW] = ffm_step_adagrad_rows,
                 KERNEL_RULES(FFM_STEP_ENTRY)},
};
