// Pushes: applies gradients and values to rows.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_ROWS_PUSH_H
#define TUG_SERVER_ROWS_PUSH_H

#include "protocol/keys.h"

struct shard;
struct shard_table;

// Returns the value in the answer to a push: 1 + the first key whose update was left out
// since the last answer because its row would not have stayed finite (store_undo.c); 0 if
// no update was left out.
uint64_t push_left_out(struct shard_table *t);

// The gradients or values of the keys of a push, in the format of the message.
struct push_values {
    enum wire_op op;
    bool bf16;
    const void *data;
    uint32_t width; // floats per key
    float rate, pass;
    bool again; // the flag WIRE_AGAIN
};
// Checks whether the keys and values of a push can be applied.
int push_check(struct shard *s, const struct shard_table *t, const struct keys *k,
               const struct push_values *v, struct err *e);

#endif
