// Update rules: which there are, and the numbers that each takes. The formulas are
// in the table below, once; kernels implement them, table/rule.h gives names,
// options and documentation.
//
// All rules: g is the gradient of one weight; coordinates with g == 0 are left alone.
// With an l2 > 0 (given for each update, see struct rule_params) all but ftrl and sum use
// g + l2 * w instead of g. With l1 > 0 all but ftrl and sum end with the proximal step w
// = sign(w) * max(|w| - lr * l1, 0) (Duchi & Singer 2009).
//
// sgd          w -= lr g
// momentum     m = beta1 m + g;  w -= lr m                              state m (Polyak 1964)
// adagrad      n += g^2;  w -= lr g / (beta + sqrt n)                   state n (Duchi et al. 2011,
//              with the beta of McMahan et al. 2013)
// adagrad-row  n += mean of g^2 over a block of weights;  as adagrad    state one n per block
// rmsprop      n = beta2 n + (1 - beta2) g^2;  w -= lr g / (beta + sqrt n)       state n (Hinton)
// adam         m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;
//              c1 = beta1 c1 + (1 - beta1);  c2 likewise  (so c = 1 - beta^t: bias correction)
//              w -= lr sqrt(c2) / c1 * m / (sqrt v + beta)    state m, v, c1, c2 (Kingma & Ba 2015)
// ftrl         n' = n + g^2;  s = (sqrt n' - sqrt n) / lr;  z += g - s w;
//              w = 0 if |z| <= l1, else -(z - sign(z) l1) / ((beta + sqrt n') / lr + l2)
//              state z, n (McMahan et al. 2013, algorithm 1). z has the paper's sign. At the first
//              update z starts where the first w comes from, so that a random first value is kept.
// sum          w += g                                                    no state
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KERNELS_RULE_KIND_H
#define TUG_KERNELS_RULE_KIND_H

#include <stdint.h>

enum rule_kind {
    RULE_SGD,
    RULE_MOMENTUM,
    RULE_ADAGRAD,
    RULE_ADAGRAD_ROW,
    RULE_RMSPROP,
    RULE_ADAM,
    RULE_FTRL,
    RULE_SUM,
    RULE_KINDS,
};

struct rule_params {
    enum rule_kind kind;
    uint32_t block; // adagrad-row: weights that share one n; 1 otherwise
    float lr;
    float l1;
    // The l2 of one update of a row is occurrences * (l2 + prior * pass / count), where
    // count is how often the row was updated so far. The first part is the usual decay
    // at each update; it weighs on frequent features. The second is a Gaussian prior on
    // each weight, spread evenly over the updates of a pass: it is what L2
    // regularisation of the whole objective means, and it holds back the weights of
    // features seen once or twice.
    float l2;
    float prior;
    float n0;    // adagrad, adagrad-row, rmsprop: what n begins with
    float beta;  // keeps the first steps small
    float beta1; // momentum, adam
    float beta2; // rmsprop, adam
};

#endif
