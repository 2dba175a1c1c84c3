// Rows of servers for scoring examples, by the driver or by workers: a cache in this
// process gets rows as the data needs them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_CLUSTER_REMOTE_ROWS_H
#define TUG_TRAIN_CLUSTER_REMOTE_ROWS_H

#include <pthread.h>

#include "client/client.h"
#include "train/rows/parameters.h"
#include "train_cluster/exchange.h"

struct remote_rows {
    struct client *client;
    struct parameters *cache; // opened by the caller, for the run's model; empty at first
    uint32_t offset; // offset of the tables' numbers: 0, EXCHANGE_BEST or EXCHANGE_MEAN
    pthread_mutex_t *lock; // protects the client, which several threads use
    struct err lookup;     // why a row could not be pulled
};

// Returns the number of one of the run's tables.
static inline uint32_t remote_number(bool dense, bool best)
{
    return (dense ? EXCHANGE_DENSE : EXCHANGE_SPARSE) + (best ? EXCHANGE_BEST : 0U);
}

// Pulls the dense parameters.
int remote_rows_begin(struct remote_rows *r, struct err *e);

// Gets the ids of keys for dataset_load. Several threads call it; only one at a time asks
// the servers. `ctx` is a struct remote_rows. After a failure, remote_rows_reason sets
// the error to the reason why a row could not be pulled, if that was the failure.
// remote_rows_reason returns the error's code.
int remote_rows_resolve(void *ctx, const uint64_t *keys, size_t n, uint32_t *ret_ids);
int remote_rows_reason(struct remote_rows *r, int rc, struct err *e);

// Puts those pulled rows that were found into the table `t`. `living` is the accessor by
// whose layout the values were pulled (NULL: the values are whole rows), and `own` is the
// accessor of `t`. Returns 0 or TUG_ENOMEM.
int remote_rows_put(struct table *t, const uint64_t *keys, size_t n, const float *values,
                    const uint8_t *found, const struct accessor *living,
                    const struct accessor *own);

#endif
