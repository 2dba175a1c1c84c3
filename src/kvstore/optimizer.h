// Optimizers of a kvstore: names and numbers, with the formulas of mxnet.optimizer (2.0).
//
//   optimizer_text.c  texts: names, numbers, multipliers by key
//   schedule.c        learning rates that change with the updates
//   optimizer.c       updates, states
//   steps.inc.h       the formulas
//
// An optimizer computes in 32-bit floats, of 64-bit arrays in 64-bit ones; states are of
// the same kind. multi_precision: a 16-bit array has a 32-bit one beside it that is trained.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KVSTORE_OPTIMIZER_H
#define TUG_KVSTORE_OPTIMIZER_H

#include "base/buf.h"
#include "base/err.h"
#include "kvstore/by_key.h"
#include "kvstore/schedule.h"
#include "tug/kvstore.h"

// Files of states have these numbers.
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
    KVS_ADAMW,
    KVS_LAMB,
    KVS_LARS,
    KVS_FTML,
    KVS_NADAM,
    KVS_ADAMAX,
    KVS_DCASGD,
    KVS_SGLD,
    KVS_OPTIMIZERS
};

// The state of a key.
struct kvs_mult {
    struct kvs_key key;
    double lr, wd;
    double layer; // of lars: whether its rate is scaled by norms; NAN: by the key's name
};

struct kvs_optimizer {
    enum kvs_optimizer_kind kind;
    double learning_rate, wd, rescale_grad, clip_gradient; // clip_gradient 0: none
    double momentum, beta1, beta2, epsilon, rho, lamda1, beta, wd_lh, clip_weights;
    double eta, lamda, schedule_decay, lower_bound, upper_bound, seed;
    double begin_num_update;
    double centered, multi_precision, lazy_update, correct_bias; // 0 or 1
    struct kvs_schedule schedule;
    struct kvs_by_key mults; // of struct kvs_mult
    uint64_t num_update;     // the most updates that a key has had, from begin_num_update
    uint64_t stream;         // of random numbers: each server has its own
};

// The state of an optimizer for one array.
struct kvs_state {
    bool begun;
    enum kvs_optimizer_kind kind;
    uint32_t n;       // arrays of state
    size_t real;      // bytes of a number: 4 or 8
    uint64_t updates; // so far
    double product;   // of nadam: the momenta of all updates so far
    char *arrays;     // n x elements numbers
    float *master;    // multi_precision, of 16-bit arrays
};

int kvs_optimizer_parse(struct kvs_optimizer *ret, const char *text, struct err *e);
void kvs_optimizer_free(struct kvs_optimizer *o);
const char *kvs_optimizer_name(enum kvs_optimizer_kind kind);
// Whether it needs norms over all elements of a key, so that its array must not be cut.
bool kvs_optimizer_whole(const struct kvs_optimizer *o);
// In place of `was`, which is freed: with the same name the updates are counted on.
void kvs_optimizer_replace(struct kvs_optimizer *was, const struct kvs_optimizer *o);
// The number of the next update if the most updates of a key are num_update.
double kvs_optimizer_rate(const struct kvs_optimizer *o, uint64_t num_update);

// One update of the whole array, or of the gradient's rows. TUG_EUSAGE: integers.
int kvs_optimizer_apply(struct kvs_optimizer *o, struct kvs_state *s,
                        struct tug_array *weights, const struct tug_array *gradient,
                        const struct kvs_key *key, struct err *e);
void kvs_state_free(struct kvs_state *s);

// A state as bytes, and back: TUG_EDATA where the bytes are none of this array and optimizer.
int kvs_state_write(const struct kvs_state *s, uint64_t elements, struct buf *to);
int kvs_state_read(struct kvs_state *ret, const struct kvs_optimizer *o,
                   const struct tug_array *of, const char **at, const char *end,
                   struct err *e);

#endif
