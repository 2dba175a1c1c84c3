// The update rules and their parameters. The table below is the only place with the
// formulas; kernels implement them, and rule/rule.h has names, options and documentation.
//
// All rules: g is the gradient of one weight; coordinates with g == 0 are left alone,
// state included, unless the rule is `dense` (assign and average take a 0 as a value like
// any other). With an l2 > 0 (given for each update, see struct rule_params) all use g +
// l2 * w instead of g, and with l1 > 0 all end with the proximal step w = sign(w) *
// max(|w| - lr * l1, 0) (Duchi & Singer 2009). The exceptions are ftrl and ftrl-group,
// whose formulas have terms for l1 and l2, and sum, summary, assign and average, which
// use neither.
//
// sgd          w -= lr g                                         (Paddle: SparseNaiveSGDRule)
// momentum     m = beta1 m + g;  w -= lr m                              state m (Polyak 1964)
// adagrad      n += g^2;  w -= lr g / (beta + sqrt n)                   state n (Duchi et al. 2011,
//              with the beta of McMahan et al. 2013)
// adagrad-row  n += mean of g^2 over a block of weights;  as adagrad    state one n per block
// rmsprop      n = beta2 n + (1 - beta2) g^2;  w -= lr g / (beta + sqrt n)       state n (Hinton)
// adam         m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;
//              c1 = beta1 c1 + (1 - beta1);  c2 likewise  (so c = 1 - beta^t: bias correction)
//              w -= lr sqrt(c2) / c1 * m / (sqrt v + beta)    state m, v, c1, c2 (Kingma & Ba 2015;
//              Paddle: SparseAdamSGDRule)
// ftrl         n' = n + g^2;  s = (sqrt n' - sqrt n) / lr;  z += g - s w;
//              w = 0 if |z| <= l1, else -(z - sign(z) l1) / ((beta + sqrt n') / lr + l2)
//              state z, n (McMahan et al. 2013, algorithm 1). z has the paper's sign. At the first
//              update z starts where the first w comes from, so that a random first value is kept.
// sum          w += g                                                    no state
//
// Rules with a state of a whole vector (a group of weights; where one coordinate has a
// gradient, the sums and means run over all of them):
//
// adagrad-shared  w -= lr g sqrt(g0 / (g0 + n)) with the n before;  n += mean of g^2
//                 state one n (Paddle: SparseAdaGradSGDRule; n is its g2sum)
// adagrad-v2      n += mean of g^2;  w -= lr g / (beta + sqrt n)
//                 state one n (Paddle: SparseAdaGradV2SGDRule)
// adam-shared     as adam, m and v of each weight from those of the vector, which then become
//                 their means        state m, v, c1, c2 (Paddle: SparseSharedAdamSGDRule)
// ftrl-group      n, z as ftrl;  u = z - sign(z) l1, 0 where |z| <= l1;  t = l21 sqrt(weights);
//                 w = 0 if |u| <= t, else -(1 - t / |u|) u / ((beta + sqrt n) / lr + l2): the whole
//                 vector becomes zero together, and all of it is computed anew at each update
//                 state z, n (Yue et al. 2021, "Adaptive optimizers with sparse group lasso"). With
//                 l21 = 0, or for one weight and with it in the place of l1, it is ftrl.
// lamb            r = sqrt(c2) / c1 * m / (sqrt v + beta) + decay w  with m, v, c1, c2 of adam;
//                 w -= lr |w| / |r| r;  |w| / |r| is 1 where either is 0    state as adam
//                 (You et al. 2020)
//
// Further rules with a state of each single weight:
//
// adagrad-std  w -= lr g sqrt(g0 / (g0 + n)) with the n before;  n += g^2
//              state n (Paddle: StdAdaGradSGDRule)
// adamw        as adam, and w -= lr decay w (the w before; Loshchilov & Hutter 2019)  state as adam
// adam-d2sum   d = beta2 d + 1;  n = beta2 n + g^2;  m = beta1 (m + g) - g;
//              w += lr m sqrt((d + d beta) / (n + d beta))       state d, n, m (Paddle: adam_d2sum)
// summary      w = decay w + g                        no state (Paddle: summary, for data_norm)
// assign       w = g                                  no state
// average      w = g: the server divides the sum of a clock's values by their number before
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KERNELS_RULE_KIND_H
#define TUG_KERNELS_RULE_KIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The values of this enum are used in messages and files: add new ones at the end.
enum rule_kind {
    RULE_SGD,
    RULE_MOMENTUM,
    RULE_ADAGRAD,
    RULE_ADAGRAD_ROW,
    RULE_RMSPROP,
    RULE_ADAM,
    RULE_FTRL,
    RULE_SUM,
    RULE_ADAGRAD_SHARED,
    RULE_ADAGRAD_STD,
    RULE_ADAGRAD_V2,
    RULE_ADAM_SHARED,
    RULE_ADAMW,
    RULE_ADAM_D2SUM,
    RULE_FTRL_GROUP,
    RULE_SUMMARY,
    RULE_ASSIGN,
    RULE_AVERAGE,
    RULE_LAMB,
    RULE_KINDS,
    RULE_MAX = 64, // numbers from RULE_KINDS on are rules of programs (rule_register)
};

struct rule_params {
    enum rule_kind kind;
    uint32_t block; // for adagrad-row: number of weights that share a sum of squared
                    // gradients; else 1
    float lr;
    float l1;
    // The l2 of one update of a row is occurrences * (l2 + prior * pass / count), where
    // count is the number of updates of the row so far. The first term is the usual decay
    // at each update, which mostly affects frequent features. The second term is a
    // Gaussian prior on each weight, spread evenly over the updates of a pass: it is L2
    // regularisation of the whole objective, and keeps the weights of features that occur
    // once or twice small.
    float l2;
    float prior;
    float n0;    // for adagrad, adagrad-row, adagrad-v2, rmsprop: the initial value of n
    float beta;  // added to the denominator, which makes the first steps smaller
    float beta1; // for momentum, adam, adamw, adam-shared, adam-d2sum, lamb
    float beta2; // for rmsprop, and for the rules with beta1
    float g0;    // for adagrad-shared, adagrad-std, whose n begins as 0; must be above 0
    float l21;   // for ftrl-group: the penalty on the vector's length
    // For summary: the factor of the old value at each update; for adamw and lamb: weight
    // decay.
    float decay;

    bool dense;    // weights with a gradient of 0 take part in updates, as in layers
    bool unscaled; // gradients are not divided by the shows of a push (accessor/life.h)
    // true: weights stay within [low, high]. If an update would make a weight or its
    // state infinite or NaN, both keep their old values (if the state belongs to the
    // whole vector, all its weights do). rule.h lists the functions that ensure this.
    bool bounded;
    float low, high;
    float clip; // gradients are clipped to [-clip, clip]; 0: not clipped
    // A vector's gradient is scaled to at most this length; 0: not scaled.
    float clip_norm;
};

// Updates n weights w of a row, and the rule's state s; both are shared. State j of weight
// i is s[j * n + i]; the state of the whole vector follows these.
typedef void (*rule_apply_fn)(const struct rule_params *p, float l2, float *w, float *s,
                              const float *g, size_t n);

#endif
