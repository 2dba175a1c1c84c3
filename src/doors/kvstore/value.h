// The stored arrays of a kvstore, by id: those of a process without a cluster, or the
// parts of arrays on a server. Decides the effect of a push on an array. Only one thread
// may use them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DOORS_KVSTORE_VALUE_H
#define TUG_DOORS_KVSTORE_VALUE_H

#include "doors/kvstore/array.h"
#include "doors/kvstore/by_key.h"
#include "doors/kvstore/optimizer.h"

struct kvs_value {
    struct kvs_key key;
    // The array. Its data is a block (block.h); a sparse array is stored with all rows.
    struct tug_array a;
    struct kvs_state state;
    uint64_t rounds;         // number of pushes (synchronous: rounds) applied
    struct kvs_round *round; // the open round, on a server of a synchronous store
};

// The effect of a push: the updater gets it; without an updater, the optimizer; without
// both, the pushed array replaces the stored one.
struct kvs_rule {
    tug_updater_fn updater;
    void *ctx;
    bool optimizes;
    struct kvs_optimizer optimizer;
};

struct kvs_values {
    struct kvs_by_key by_key; // list of struct kvs_value
};

// Copies the array under a new key.
int kvs_values_make(struct kvs_values *v, const struct kvs_key *key,
                    const struct tug_array *a, struct kvs_value **ret, struct err *e);
void kvs_values_free(struct kvs_values *v);

int kvs_value_update(struct kvs_value *v, struct kvs_rule *r,
                     const struct tug_array *merged, struct err *e);
// Updates the array by a sum that the caller does not need any more. If there is neither
// an updater nor an optimizer, the array and the sum exchange their memory.
int kvs_value_update_by_sum(struct kvs_value *v, struct kvs_rule *r, struct kvs_rows *sum,
                            struct err *e);
// Sets an optimizer, which replaces the updater or the old optimizer. The rule then owns
// the memory of the new optimizer.
void kvs_rule_optimize(struct kvs_rule *r, const struct kvs_optimizer *o);
// Returns TUG_EUSAGE if no optimizer is set.
int kvs_rule_needs_optimizer(const struct kvs_rule *r, struct err *e);
bool kvs_row_is_zero(const struct tug_array *a, uint64_t row);

// Write the states of all arrays as bytes, and read them back. Reading changes all states
// or none; the optimizer's count of updates then continues from that of the states. If
// `keep` is false, reading only checks the bytes.
int kvs_values_write_states(const struct kvs_values *v, struct buf *to, struct err *e);
int kvs_values_read_states(struct kvs_values *v, struct kvs_rule *r, const char *bytes,
                           size_t n, bool keep, struct err *e);

#endif
