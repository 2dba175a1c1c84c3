// fm_step and ffm_step of every rule, which call the level's own fm_grad, ffm_grad and
// apply_<rule>. ref.c and vector.inc.h include this file.
//
// SPDX-License-Identifier: Apache-2.0

// Computes the gradient of each row and applies it, row by row.
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
// Calls X(kind, name in functions) for all rules except adagrad-row: for adagrad-row, the
// vector levels may have faster functions.
#define KERNEL_RULES(X)                                                                  \
    X(SGD, sgd)                                                                          \
    X(MOMENTUM, momentum)                                                                \
    X(ADAGRAD, adagrad)                                                                  \
    X(RMSPROP, rmsprop)                                                                  \
    X(ADAM, adam)                                                                        \
    X(FTRL, ftrl)                                                                        \
    X(SUM, sum)                                                                          \
    X(ADAGRAD_SHARED, adagrad_shared)                                                    \
    X(ADAGRAD_STD, adagrad_std)                                                          \
    X(ADAGRAD_V2, adagrad_v2)                                                            \
    X(ADAM_SHARED, adam_shared)                                                          \
    X(ADAMW, adamw)                                                                      \
    X(ADAM_D2SUM, adam_d2sum)                                                            \
    X(FTRL_GROUP, ftrl_group)                                                            \
    X(SUMMARY, summary)                                                                  \
    X(ASSIGN, assign)                                                                    \
    X(AVERAGE, assign)                                                                   \
    X(LAMB, lamb)

#define APPLY_ENTRY(KIND, rule) [RULE_##KIND] = apply_##rule,
#define COLUMN_ENTRY(KIND, rule) [RULE_##KIND] = column_##rule,
#define FM_STEP_ENTRY(KIND, rule) [RULE_##KIND] = fm_step_##rule,
#define FFM_STEP_ENTRY(KIND, rule) [RULE_##KIND] = ffm_step_##rule,

STEP(sgd)
STEP(momentum)
STEP(adagrad)
STEP(adagrad_row)
STEP(rmsprop)
STEP(adam)
STEP(ftrl)
STEP(sum)
STEP(adagrad_shared)
STEP(adagrad_std)
STEP(adagrad_v2)
STEP(adam_shared)
STEP(adamw)
STEP(adam_d2sum)
STEP(ftrl_group)
STEP(summary)
STEP(assign)
STEP(lamb)
