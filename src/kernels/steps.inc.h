// fm_step and ffm_step of every rule, made of the level's own fm_grad, ffm_grad and
// apply_<rule>; included by ref.c and vector.inc.h.
//
// SPDX-License-Identifier: Apache-2.0

// Gradient and update, row by row.
#define STEP(rule)                                                                       \
    static void fm_step_##rule(const struct rule_params *p, const float *l2,             \
                               float *const *rows, size_t w, size_t s, const float *x,   \
                               size_t n, size_t k, const float *sum, float err,          \
                               float *g)                                                 \
    {                                                                                    \
        for (size_t i = 0; i < n; i++) {                                                 \
            fm_grad(rows + i, w, x + i, 1, k, sum, err, g);                              \
            apply_##rule(p, l2[i], rows[i] + w, rows[i] + s, g, k);                      \
        }                                                                                \
    }                                                                                    \
    static void ffm_step_##rule(                                                         \
        const struct rule_params *p, const float *l2, float *const *rows, size_t w,      \
        size_t s, const uint16_t *slot, const float *u, size_t n, size_t fields,         \
        size_t k, const float *in, float err, float *g)                                  \
    {                                                                                    \
        for (size_t i = 0; i < n; i++) {                                                 \
            ffm_grad(rows + i, w, slot + i, u + i, 1, fields, k, in, err, g);            \
            apply_##rule(p, l2[i], rows[i] + w, rows[i] + s, g, fields * k);             \
        }                                                                                \
    }
STEP(sgd)
STEP(momentum)
STEP(adagrad)
STEP(adagrad_row)
STEP(rmsprop)
STEP(adam)
STEP(ftrl)
STEP(sum)
