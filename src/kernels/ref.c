// The reference kernels: plain C, one element at a time, in the order that kernels.h
// promises. The vector versions are tested against these bit for bit, and
// ThreadSanitizer builds run on them.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/relaxed.h"
#include "kernels/levels.h"

static float lanes_sum(const float lane[KERNEL_LANES])
{
    float t[KERNEL_LANES];
    memcpy(t, lane, sizeof(t));
    for (int half = KERNEL_LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            t[i] += t[i + half];
    return t[0];
}

static float dot(const float *a, const float *b, size_t n)
{
    float lane[KERNEL_LANES] = {0};
    for (size_t i = 0; i < n; i++)
        lane[i % KERNEL_LANES] += relaxed_load(a + i) * b[i];
    return lanes_sum(lane);
}

static float gather_dot(float *const *rows, size_t col, const float *x, size_t n)
{
    float lane[KERNEL_LANES] = {0};
    for (size_t i = 0; i < n; i++)
        lane[i % KERNEL_LANES] += relaxed_load(rows[i] + col) * x[i];
    return lanes_sum(lane);
}

static void scale(float *y, float a, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = a * x[i];
}

static void axpy(float *y, float a, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] += a * relaxed_load(x + i);
}

// Returns the largest |x[i]|. Absolute values of floats can be compared as integers by
// their bits; NaN is then above infinity.
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

static void multiply(float *y, size_t sy, const float *x, size_t sx, const float *w,
                     size_t m, size_t inner, size_t n)
{
    for (size_t i = 0; i < m; i++)
        for (size_t k = 0; k < inner; k++)
            axpy(y + i * sy, x[i * sx + k], w + k * n, n);
}

static float fm_score(float *const *rows, size_t col, const float *x, size_t n, size_t k,
                      float *ret_sum)
{
    float lane[KERNEL_LANES] = {0};
    for (size_t c = 0; c < k; c++) {
        float sum = 0, squares = 0;
        for (size_t i = 0; i < n; i++) {
            float xv = x[i] * relaxed_load(rows[i] + col + c);
            sum += xv;
            squares += xv * xv;
        }
        ret_sum[c] = sum;
        lane[c % KERNEL_LANES] += sum * sum - squares;
    }
    return 0.5f * lanes_sum(lane);
}

static void fm_grad(float *const *rows, size_t col, const float *x, size_t n, size_t k,
                    const float *sum, float err, float *g)
{
    for (size_t i = 0; i < n; i++) {
        float ex = err * x[i];
        for (size_t c = 0; c < k; c++)
            g[i * k + c] = ex * (sum[c] - x[i] * relaxed_load(rows[i] + col + c));
    }
}

static size_t nth(const uint16_t *list, size_t i)
{
    return list != NULL ? list[i] : i;
}

static void ffm_sums(float *const *rows, size_t col, const uint16_t *slot, const float *u,
                     size_t n, size_t fields, size_t k, const uint16_t *list,
                     size_t present, float *out, float *in)
{
    size_t row = fields * k;
    for (size_t i = 0; i < present; i++) {
        memset(out + nth(list, i) * row, 0, row * sizeof(float));
        memset(in + nth(list, i) * row, 0, row * sizeof(float));
    }
    for (size_t i = 0; i < n; i++)
        axpy(out + slot[i] * row, u[i], rows[i] + col, row);
    for (size_t i = 0; i < present; i++)
        for (size_t j = 0; j < present; j++) {
            size_t f = nth(list, i), h = nth(list, j);
            memcpy(in + f * row + h * k, out + h * row + f * k, k * sizeof(float));
        }
}

static float ffm_score(float *const *rows, size_t col, const uint16_t *slot,
                       const float *u, size_t n, size_t fields, size_t k,
                       const uint16_t *list, size_t present, const float *out,
                       const float *in)
{
    float lane[KERNEL_LANES] = {0}, self[KERNEL_LANES] = {0};
    size_t row = fields * k;
    for (size_t i = 0; i < present; i++) {
        const float *said = out + nth(list, i) * row, *heard = in + nth(list, i) * row;
        for (size_t c = 0; c < row; c++)
            lane[c % KERNEL_LANES] += said[c] * heard[c];
    }
    for (size_t i = 0; i < n; i++) {
        const float *own = rows[i] + col + slot[i] * k;
        for (size_t c = 0; c < k; c++) {
            float uv = u[i] * relaxed_load(own + c);
            self[c % KERNEL_LANES] += uv * uv;
        }
    }
    return 0.5f * (lanes_sum(lane) - lanes_sum(self));
}

static void ffm_grad(float *const *rows, size_t col, const uint16_t *slot, const float *u,
                     size_t n, size_t fields, size_t k, const float *in, float err,
                     float *g)
{
    for (size_t i = 0; i < n; i++, g += fields * k) {
        const float *own = rows[i] + col + slot[i] * k;
        float eu = err * u[i];
        scale(g, eu, in + slot[i] * fields * k, fields * k);
        axpy(g + slot[i] * k, -(eu * u[i]), own, k);
    }
}

static void clip(float *y, const float *x, float most, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] > most ? most : x[i] < -most ? -most : x[i];
}

static float norm2(const float *x, size_t n)
{
    return dot(x, x, n);
}

static void bound(float *w, float low, float high, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float old = relaxed_load(w + i);
        if (old < low || old > high)
            relaxed_store(w + i, old < low ? low : high);
    }
}

static void ref_count(float *const *rows, size_t col, const float *m, float pass,
                      float *ret, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float mi = m != NULL ? m[i] : 1, c = relaxed_load(rows[i] + col) + mi;
        relaxed_store(rows[i] + col, c);
        ret[i] = mi * pass / c;
    }
}

static bool repeats(float *const *rows, size_t n)
{
    (void)rows, (void)n;
    return false; // ref accepts repeated rows: it updates one row after the other
}

#include "kernels/ref_rules.inc.h"
#include "kernels/steps.inc.h"

const struct kernels kernels_ref = {
    .name = "ref",
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
    .count = ref_count,
    .repeats = repeats,
    .clip = clip,
    .norm2 = norm2,
    .bound = bound,
    .apply = {[RULE_ADAGRAD_ROW] = apply_adagrad_row, KERNEL_RULES(APPLY_ENTRY)},
    // With one weight, adagrad-row does the same as adagrad.
    .apply_column = {[RULE_ADAGRAD_ROW] = column_adagrad, KERNEL_RULES(COLUMN_ENTRY)},
    .fm_step = {[RULE_ADAGRAD_ROW] = fm_step_adagrad_row, KERNEL_RULES(FM_STEP_ENTRY)},
    .ffm_step = {[RULE_ADAGRAD_ROW] = ffm_step_adagrad_row, KERNEL_RULES(FFM_STEP_ENTRY)},
};
