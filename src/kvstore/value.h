// Arrays that a kvstore keeps, by id: those of a process alone, and a server's parts of a
// cluster's. Decides the effect of a push on an array.
//
// Belongs to one thread.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KVSTORE_VALUE_H
#define TUG_KVSTORE_VALUE_H

#include "kvstore/array.h"
#include "kvstore/by_key.h"
#include "kvstore/optimizer.h"

struct kvs_value {
    struct kvs_key key;
    struct tug_array
        a; // its data are a block (block.h); of sparse ones all rows are there
    struct kvs_state state;
    uint64_t rounds;         // pushes that were applied
    struct kvs_round *round; // a server's
};

// The effect of a push: an updater, else an optimizer, else the push becomes the array.
struct kvs_rule {
    tug_updater_fn updater;
    void *ctx;
    bool optimizes;
    struct kvs_optimizer optimizer;
};

struct kvs_values {
    struct kvs_by_key by_key; // of struct kvs_value
};

// Copies the array under a new key.
int kvs_values_make(struct kvs_values *v, const struct kvs_key *key,
                    const struct tug_array *a, struct kvs_value **ret, struct err *e);
void kvs_values_free(struct kvs_values *v);

int kvs_value_update(struct kvs_value *v, struct kvs_rule *r,
                     const struct tug_array *merged, struct err *e);
// By a sum that is needed no more: without a rule it becomes the array as it is, and *sum
// gets the old memory.
int kvs_value_update_by_sum(struct kvs_value *v, struct kvs_rule *r, struct kvs_rows *sum,
                            struct err *e);
// An optimizer, whose memory is the rule's from here on, in place of all else.
void kvs_rule_optimize(struct kvs_rule *r, const struct kvs_optimizer *o);
int kvs_rule_needs_optimizer(const struct kvs_rule *r, struct err *e); // else TUG_EUSAGE
bool kvs_row_is_zero(const struct tug_array *a, uint64_t row);

// States of all arrays as bytes. Reading changes all of them or none, and the updates are counted
// on from theirs; without `keep` it only looks whether it could.
int kvs_values_write_states(const struct kvs_values *v, struct buf *to, struct err *e);
int kvs_values_read_states(struct kvs_values *v, struct kvs_rule *r, const char *bytes,
                           size_t n, bool keep, struct err *e);

#endif
