// Gradients and values into rows.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_PUSH_H
#define TUG_SERVER_PUSH_H

#include "protocol/keys.h"

struct shard;
struct shard_table;

// Returns the value of the answer to a push: 1 + the first key whose update was left out
// since the last answer (store_undo.c); 0 if none was.
uint64_t push_left_out(struct shard_table *t);

// Gradients or values of some keys, as they lie in a message.
struct push_values {
    enum wire_op op;
    bool bf16;
    const void *data;
    uint32_t width; // floats of a key
    float rate, pass;
    bool again; // WIRE_AGAIN
};
// Whether keys and values of a push can be applied.
int push_check(struct shard *s, const struct shard_table *t, const struct keys *k,
               const struct push_values *v, struct err *e);

#endif
