// Optimizers of a kvstore: names and numbers, with the formulas of mxnet.optimizer (2.0).
//
// An optimizer computes in 32-bit floats, of 64-bit arrays in 64-bit ones; states are of
// the same kind. multi_precision: a 16-bit array has a 32-bit one beside it that is trained.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KVSTORE_OPTIMIZER_H
#define TUG_KVSTORE_OPTIMIZER_H

#include "base/buf.h"
#include "base/err.h"
#include "tug/kvstore.h"

enum kvs_optimizer_kind {
    KVS_SGD,
    KVS_NAG,
    KVS_ADAM,
    KVS_ADAGRAD,
    KVS_ADADELTA,
    KVS_RMSPROP,
    KVS_FTRL,
    KVS_SIGNUM,
    KVS_TEST,
    KVS_OPTIMIZERS
};

struct kvs_optimizer {
    enum kvs_optimizer_kind kind;
    double learning_rate, wd, rescale_grad, clip_gradient; // clip_gradient 0: none
    double momentum, beta1, beta2, epsilon, rho, lamda1, beta, wd_lh, clip_weights;
    double centered, multi_precision; // 0 or 1
};

// What an optimizer keeps of one array.
struct kvs_state {
    bool begun;
    enum kvs_optimizer_kind kind;
    uint32_t n;       // arrays of state
    size_t real;      // bytes of a number: 4 or 8
    uint64_t updates; // so far
    char *arrays;     // n x elements numbers
    float *master;    // multi_precision, of 16-bit arrays
};

int kvs_optimizer_parse(struct kvs_optimizer *ret, const char *text, struct err *e);

// One update of the whole array, or of the gradient's rows. TUG_EUSAGE: integers.
int kvs_optimizer_apply(const struct kvs_optimizer *o, struct kvs_state *s,
                        struct tug_array *weights, const struct tug_array *gradient,
                        const char *key, struct err *e);
void kvs_state_free(struct kvs_state *s);

// A state as bytes, and back: TUG_EDATA where the bytes are none of this array and optimizer.
int kvs_state_write(const struct kvs_state *s, uint64_t elements, struct buf *to);
int kvs_state_read(struct kvs_state *ret, const struct kvs_optimizer *o,
                   const struct tug_array *of, const char **at, const char *end,
                   struct err *e);

#endif
