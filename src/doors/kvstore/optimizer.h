// Optimizers of a kvstore, with the names, fields and formulas of mxnet.optimizer (2.0).
//
//   optimizer_text.c  texts: names, numbers, multipliers by key
//   schedule.c        schedules of the learning rate
//   optimizer.c       updates, states
//   steps.inc.h       the formulas
//
// An optimizer computes in 32-bit floats, for 64-bit arrays in 64-bit floats; states have
// the same type. With multi_precision a 16-bit array also has a 32-bit array (master),
// which is trained and then copied.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DOORS_KVSTORE_OPTIMIZER_H
#define TUG_DOORS_KVSTORE_OPTIMIZER_H

#include "base/buf.h"
#include "base/err.h"
#include "doors/kvstore/by_key.h"
#include "doors/kvstore/schedule.h"
#include "tug/kvstore.h"

// The values of this enum are stored in files of states and must not change.
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

// The multipliers of a key's learning rate and weight decay.
struct kvs_mult {
    struct kvs_key key;
    double lr, wd;
    double layer; // lars: whether norms scale the rate; NAN: the key's name decides
};

struct kvs_optimizer {
    enum kvs_optimizer_kind kind;
    double learning_rate, wd, rescale_grad, clip_gradient; // clip_gradient 0: no clipping
    double momentum, beta1, beta2, epsilon, rho, lamda1, beta, wd_lh, clip_weights;
    double eta, lamda, schedule_decay, lower_bound, upper_bound, seed;
    double begin_num_update;
    double centered, multi_precision, lazy_update, correct_bias; // each is 0 or 1
    struct kvs_schedule schedule;
    struct kvs_by_key mults; // list of struct kvs_mult
    // begin_num_update plus the number of updates of the key with the most updates.
    uint64_t num_update;
    // Number of the stream of random numbers; each server has another one.
    uint64_t stream;
};

// The state of an optimizer for one array.
struct kvs_state {
    bool begun;
    enum kvs_optimizer_kind kind;
    uint32_t n;       // number of state arrays
    size_t real;      // bytes of a number in the state arrays: 4 or 8
    uint64_t updates; // number of updates so far
    double product;   // nadam: product of the momenta of all updates so far
    char *arrays;     // the n state arrays, one after the other
    // With multi_precision: the 32-bit weights of a 16-bit array; else NULL.
    float *master;
};

int kvs_optimizer_parse(struct kvs_optimizer *ret, const char *text, struct err *e);
void kvs_optimizer_free(struct kvs_optimizer *o);
const char *kvs_optimizer_name(enum kvs_optimizer_kind kind);
// Returns whether the optimizer needs norms over all elements of a key, so that its array
// must not be cut.
bool kvs_optimizer_whole(const struct kvs_optimizer *o);
// Replaces and frees *was. If both optimizers have the same name, the count of updates
// continues; else it begins again.
void kvs_optimizer_replace(struct kvs_optimizer *was, const struct kvs_optimizer *o);
// Returns the learning rate of the next update, where num_update is the most updates that
// a key has had.
double kvs_optimizer_rate(const struct kvs_optimizer *o, uint64_t num_update);

// Updates the whole array once, or the rows of a sparse gradient. Returns TUG_EUSAGE if
// the array has integers or a result is not finite.
int kvs_optimizer_apply(struct kvs_optimizer *o, struct kvs_state *s,
                        struct tug_array *weights, const struct tug_array *gradient,
                        const struct kvs_key *key, struct err *e);
void kvs_state_free(struct kvs_state *s);

// Write a state as bytes, and read it back. Reading returns TUG_EDATA if the bytes are not
// a state for this array and optimizer.
int kvs_state_write(const struct kvs_state *s, uint64_t elements, struct buf *to);
int kvs_state_read(struct kvs_state *ret, const struct kvs_optimizer *o,
                   const struct tug_array *of, const char **at, const char *end,
                   struct err *e);

#endif
