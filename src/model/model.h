// Models: what a row holds, how an example is scored, what the gradient of its features
// is.
//
// A model sees an array of row pointers, one per feature of an example, and arrays of
// gradients; who stands behind the rows (this process, servers) is the trainer's
// business. A row (its accessor knows the columns) is one or two groups of weights, each
// followed by its rule's state, and the count of the row's updates:
//
//   lr   [w | state][count]                            f(x) = b + sum w_i x_i
//   fm   [w | state][count][v: dim | state]            + sum over pairs <v_i, v_j> u_i u_j
//                                                      (Rendle 2010)
//   ffm  [w | state][count][v: fields x dim | state]   + sum over pairs u_i u_j
//                                                      <v_i[field j], v_j[field i]>
//                                                      (Juan et al. 2016)
//
// u is x, or with `normalize` x scaled to unit length (as libffm does): then the pairs of
// a long example weigh no more than those of a short one. It applies to the pairs only.
//
// The bias b is a row of its own, without a count, in the table of dense parameters.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_MODEL_MODEL_H
#define TUG_MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "accessor/accessor.h"
#include "base/err.h"
#include "kernels/kernels.h"
#include "table/table.h"

enum model_kind { MODEL_LR, MODEL_FM, MODEL_FFM, MODEL_KINDS };

enum { MODEL_MAX_DIM = 1024 };
enum { MODEL_LINEAR, MODEL_LATENT }; // groups of the accessor

struct model_options {
    enum model_kind kind;
    uint32_t dim;    // of latent vectors: fm, ffm
    uint32_t fields; // ffm: slots are below
    uint64_t seed;
    bool normalize;
    float init;                // latent weights begin uniform in (-init, init)
    struct rule_params linear; // of w and b
    struct rule_params latent; // of v; its block is set to dim here
};

struct model {
    struct model_options options;
    const struct kernels *kernels;
    struct accessor accessor; // of a feature's row
    struct accessor bias;     // of the bias'; neither decays nor has a prior
};

const char *model_name(enum model_kind kind); // "lr"
int model_find(const char *name, enum model_kind *ret_kind, struct err *e);

int model_init(struct model *m, const struct model_options *o, struct err *e);

// The same model on rows as a pull returns them, weights and nothing else: for scores and
// gradients, not for steps.
void model_packed(struct model *ret, const struct model *m);

// The tables that the model's rows lie in: sparse features (id 0) and dense parameters
// (id 1).
struct table_options model_table(const struct model *m);
struct table_options model_bias_table(const struct model *m);

// Weights of a feature's row beside w; 0 in lr.
static inline size_t model_latent(const struct model *m)
{
    return m->accessor.n_groups > MODEL_LATENT ? m->accessor.groups[MODEL_LATENT].n : 0;
}

// One example as a model sees it. Arrays are padded as kernels.h asks.
struct model_example {
    size_t n;
    float *const *rows;
    const float *x;
    const float *u;       // fm, ffm: of the pairs
    const uint16_t *slot; // ffm only
};

// The defaults of a model's options with `rule` on w and v (adagrad-row on w is adagrad).
void model_defaults(struct model_options *o, enum model_kind kind, enum rule_kind rule);

// What one thread needs between a score and its gradient. Grows to the longest example.
struct model_scratch {
    const struct model *model;
    size_t cap;          // features
    float *sums;         // fm: dim; ffm: twice fields x fields x dim
    float *linear;       // cap gradients of w
    float *latent;       // cap x latent gradients of v
    float *share, *l2;   // cap
    uint8_t *field_seen; // ffm: which fields the example has, and their list
    uint16_t *fields;
};
int model_scratch_init(struct model_scratch *s, const struct model *m, struct err *e);
int model_scratch_reserve(struct model_scratch *s, size_t n);
void model_scratch_fini(struct model_scratch *s);

// f(x) without the bias. Room for x->n features must be reserved.
float model_score(struct model_scratch *s, const struct model_example *x);

// After model_score of the same example: the gradients of the loss by each feature's
// weights, for d loss / d f = err, into linear[i] and latent[i * model_latent(m) ...]
// (usually the scratch's own).
void model_grad(struct model_scratch *s, const struct model_example *x, float err,
                float *linear, float *latent);

// The same, and the update of every row at once (Hogwild): `rules` at the current rate,
// `pass` as in rule_params.prior.
void model_step(struct model_scratch *s, const struct model_example *x, float err,
                const struct rule_params *rules, float pass);

#endif
