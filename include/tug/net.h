// tug: the built-in models over a program's own tables.
//
// A net is a model without rows: a program pulls the rows of a batch from a table, hands
// them over with the batch, gets gradients, and pushes those. So any program that has a
// client (tug/tug.h) trains lr, fm, ffm, mlp, wide_deep, deepfm or dcn on a cluster, as it
// would a model of its own; batches, order and consistency are the program's. (`tug train`
// is the same models with data, passes and saves around them; tug.fleet in Python stands
// on this header.)
//
// A net has two tables: features, a row for each key (accessor features), and dense
// parameters, rows of `block` floats under the keys 0, 1, ...: an array of tug_net_dense
// floats that every example uses.
//
// Functions return a status of tug/tug.h. A net is one thread's at a time; threads that
// compute side by side open one each, with the same options.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_NET_H
#define TUG_NET_H

#include "tug/tug.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tug_net;

enum { TUG_NET_SETTINGS_MAX = 2048 };

// 0 and NULL: the model's default (models.md of the documentation).
struct tug_net_options {
    const char *model;      // "deepfm"
    uint32_t slots;         // fields of an example, at least 1
    uint32_t dim;           // floats of a feature's vector
    const char *hidden;     // units of the layers, "400,400"
    const char *rule;       // of features, "adagrad:lr=0.1"
    const char *dense_rule; // of the layers; models without have that of features
    float init;             // vectors begin in (-init, init)
    uint64_t seed;          // of first values
};

// TUG_EUSAGE: no such model or rule, or options that it cannot work with.
TUG_API int tug_net_open(struct tug_net **ret, const struct tug_net_options *o);
TUG_API void tug_net_close(struct tug_net *n); // NULL is fine

// The settings of its tables, for tug_table_make; a name may be added.
TUG_API void tug_net_settings(const struct tug_net *n,
                              char ret_features[TUG_NET_SETTINGS_MAX],
                              char ret_dense[TUG_NET_SETTINGS_MAX]);

// Floats that are pulled and pushed of a key of features, and of a row of dense parameters.
struct tug_net_widths {
    uint32_t pull, push, block;
};
TUG_API void tug_net_widths(const struct tug_net *n, struct tug_net_widths *ret);

// Floats of the dense parameters, whole blocks; and what they begin with, which one worker
// assigns (tug_assign) to a table that is new.
TUG_API size_t tug_net_dense(const struct tug_net *n);
TUG_API void tug_net_first(const struct tug_net *n, float *ret_dense);

// A batch. Features of example i are start[i] to start[i + 1] - 1 of `row`, `slot` and
// `value`. start[0] is 0.
struct tug_net_batch {
    size_t examples, rows;
    const uint32_t *start; // examples + 1
    const uint32_t *row;   // which of the rows below each feature has
    const uint16_t *slot;  // below options.slots
    const float *value;    // NULL: all are 1
    const float *label;    // 0 or 1; NULL where only scores are asked for
    const float *pulled;   // rows x pull floats, as tug_pull gave them
    const float *dense;    // tug_net_dense floats
};

// The probability of each example. TUG_EUSAGE: a batch that contradicts itself.
TUG_API int tug_net_predict(struct tug_net *n, const struct tug_net_batch *b,
                            float *ret_probability);

// Likewise, as they are before the batch is learnt, with what to push: rows x push floats
// for the features, tug_net_dense for the dense parameters: sums over the examples. Every
// row must be some feature's. *ret_loss (may be NULL): the mean logarithmic loss.
// TUG_EDATA: a score is not finite, training has diverged.
TUG_API int tug_net_gradients(struct tug_net *n, const struct tug_net_batch *b,
                              float *ret_rows, float *ret_dense, float *ret_probability,
                              double *ret_loss);

#ifdef __cplusplus
}
#endif

#endif
