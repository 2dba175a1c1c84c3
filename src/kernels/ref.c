// The reference kernels: plain C, one element at a time, in the order that kernels.h
// promises. The vector versions are tested against these bit for bit, and
// ThreadSanitizer builds run on them.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdbool.h>
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

// One weight by each rule: returns the new w; the state is updated in place.

static float proximal(const struct rule_params *p, float w)
{
    float t = p->lr * p->l1;
    float a = fabsf(w) - t;
    return p->l1 == 0 ? w : copysignf(a > 0 ? a : 0, w);
}

static float sgd(const struct rule_params *p, float l2, float w, float g)
{
    g += l2 * w;
    return proximal(p, w - p->lr * g);
}

static float momentum(const struct rule_params *p, float l2, float w, float g, float *m)
{
    g += l2 * w;
    *m = p->beta1 * *m + g;
    return proximal(p, w - p->lr * *m);
}

static float adagrad(const struct rule_params *p, float l2, float w, float g, float *n)
{
    g += l2 * w;
    *n += g * g;
    return proximal(p, w - p->lr * g / (p->beta + sqrtf(*n)));
}

static float rmsprop(const struct rule_params *p, float l2, float w, float g, float *n)
{
    g += l2 * w;
    *n = p->beta2 * *n + (1 - p->beta2) * (g * g);
    return proximal(p, w - p->lr * g / (p->beta + sqrtf(*n)));
}

static float adam(const struct rule_params *p, float l2, float rate, float w, float g,
                  float *m, float *v)
{
    g += l2 * w;
    *m = p->beta1 * *m + (1 - p->beta1) * g;
    *v = p->beta2 * *v + (1 - p->beta2) * (g * g);
    return proximal(p, w - rate * *m / (sqrtf(*v) + p->beta));
}

static float ftrl(const struct rule_params *p, float l2, float w, float g, float *z,
                  float *n)
{
    float old = sqrtf(*n);
    if (*n == 0) // where the first w comes from
        *z = w == 0 ? 0 : -(w * (p->beta / p->lr + l2)) - copysignf(p->l1, w);
    *n += g * g;
    float root = sqrtf(*n);
    *z += g - (root - old) / p->lr * w;
    float a = fabsf(*z) - p->l1;
    return a > 0 ? -copysignf(a, *z) / ((p->beta + root) / p->lr + l2) : 0;
}

static void apply_sgd(const struct rule_params *p, float l2, float *w, float *s,
                      const float *g, size_t n)
{
    (void)s;
    for (size_t i = 0; i < n; i++)
        if (g[i] != 0)
            relaxed_store(w + i, sgd(p, l2, relaxed_load(w + i), g[i]));
}

static void apply_sum(const struct rule_params *p, float l2, float *w, float *s,
                      const float *g, size_t n)
{
    (void)p, (void)l2, (void)s;
    for (size_t i = 0; i < n; i++)
        if (g[i] != 0)
            relaxed_store(w + i, relaxed_load(w + i) + g[i]);
}

// Rules with one state float a weight.
typedef float (*rule1_fn)(const struct rule_params *p, float l2, float w, float g,
                          float *s);

static inline void apply1(rule1_fn rule, const struct rule_params *p, float l2, float *w,
                          float *s, const float *g, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (g[i] == 0)
            continue;
        float state = relaxed_load(s + i);
        relaxed_store(w + i, rule(p, l2, relaxed_load(w + i), g[i], &state));
        relaxed_store(s + i, state);
    }
}

static void apply_momentum(const struct rule_params *p, float l2, float *w, float *s,
                           const float *g, size_t n)
{
    apply1(momentum, p, l2, w, s, g, n);
}

static void apply_adagrad(const struct rule_params *p, float l2, float *w, float *s,
                          const float *g, size_t n)
{
    apply1(adagrad, p, l2, w, s, g, n);
}

static void apply_rmsprop(const struct rule_params *p, float l2, float *w, float *s,
                          const float *g, size_t n)
{
    apply1(rmsprop, p, l2, w, s, g, n);
}

// One block of adagrad-row. A gradient that is 0 takes no part, nor does its weight.
static void adagrad_block(const struct rule_params *p, float l2, float *w, float *s,
                          const float *g, size_t k)
{
    float lane[KERNEL_LANES] = {0};
    bool any = false;
    for (size_t i = 0; i < k; i++) {
        float gi = g[i] == 0 ? 0 : g[i] + l2 * relaxed_load(w + i);
        lane[i % KERNEL_LANES] += gi * gi;
        any |= g[i] != 0;
    }
    if (!any)
        return;
    float n = relaxed_load(s) + lanes_sum(lane) / (float)k;
    float rate = p->lr / (p->beta + sqrtf(n));
    for (size_t i = 0; i < k; i++) {
        float old = relaxed_load(w + i);
        if (g[i] != 0)
            relaxed_store(w + i, proximal(p, old - rate * (g[i] + l2 * old)));
    }
    relaxed_store(s, n);
}

static void apply_adagrad_row(const struct rule_params *p, float l2, float *w, float *s,
                              const float *g, size_t n)
{
    for (size_t b = 0; b * p->block < n; b++)
        adagrad_block(p, l2, w + b * p->block, s + b, g + b * p->block, p->block);
}

static void apply_adam(const struct rule_params *p, float l2, float *w, float *s,
                       const float *g, size_t n)
{
    size_t i = 0;
    while (i < n && g[i] == 0)
        i++;
    if (i == n)
        return;
    float *c = s + 2 * n;
    float c1 = p->beta1 * relaxed_load(c) + (1 - p->beta1);
    float c2 = p->beta2 * relaxed_load(c + 1) + (1 - p->beta2);
    relaxed_store(c, c1);
    relaxed_store(c + 1, c2);
    float rate = p->lr * sqrtf(c2) / c1;
    for (; i < n; i++) {
        if (g[i] == 0)
            continue;
        float m = relaxed_load(s + i), v = relaxed_load(s + n + i);
        relaxed_store(w + i, adam(p, l2, rate, relaxed_load(w + i), g[i], &m, &v));
        relaxed_store(s + i, m);
        relaxed_store(s + n + i, v);
    }
}

static void apply_ftrl(const struct rule_params *p, float l2, float *w, float *s,
                       const float *g, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (g[i] == 0)
            continue;
        float z = relaxed_load(s + i), sum = relaxed_load(s + n + i);
        relaxed_store(w + i, ftrl(p, l2, relaxed_load(w + i), g[i], &z, &sum));
        relaxed_store(s + i, z);
        relaxed_store(s + n + i, sum);
    }
}

static void count(float *const *rows, size_t col, const float *m, float pass, float *ret,
                  size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float mi = m != NULL ? m[i] : 1, c = relaxed_load(rows[i] + col) + mi;
        relaxed_store(rows[i] + col, c);
        ret[i] = mi * pass / c;
    }
}

// One weight per row: the same rules, row by row.
#define COLUMN(rule)                                                                     \
    static void column_##rule(const struct rule_params *p, const float *l2,              \
                              float *const *rows, size_t w, size_t s, const float *g,    \
                              size_t n)                                                  \
    {                                                                                    \
        for (size_t i = 0; i < n; i++)                                                   \
            apply_##rule(p, l2[i], rows[i] + w, rows[i] + s, g + i, 1);                  \
    }
COLUMN(sgd)
COLUMN(momentum)
COLUMN(adagrad)
COLUMN(rmsprop)
COLUMN(adam)
COLUMN(ftrl)
COLUMN(sum)

#include "kernels/steps.inc.h"

const struct kernels kernels_ref = {
    .name = "ref",
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
    // A block of one weight is what adagrad does.
    .apply_column = {column_sgd, column_momentum, column_adagrad, column_adagrad,
                     column_rmsprop, column_adam, column_ftrl, column_sum},
    .fm_step = {fm_step_sgd, fm_step_momentum, fm_step_adagrad, fm_step_adagrad_row,
                fm_step_rmsprop, fm_step_adam, fm_step_ftrl, fm_step_sum},
    .ffm_step = {ffm_step_sgd, ffm_step_momentum, ffm_step_adagrad, ffm_step_adagrad_row,
                 ffm_step_rmsprop, ffm_step_adam, ffm_step_ftrl, ffm_step_sum},
};
