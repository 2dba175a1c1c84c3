// Rows of servers for who scores examples by them: the driver, or workers. A cache of this
// process gets rows as the data asks for them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_REMOTE_REMOTE_ROWS_H
#define TUG_REMOTE_REMOTE_ROWS_H

#include <pthread.h>

#include "client/client.h"
#include "remote/exchange.h"
#include "train/parameters.h"

struct remote_rows {
    struct client *client;
    struct parameters *cache; // opened anew, of the run's model
    uint32_t offset;          // of the tables' numbers: 0, EXCHANGE_BEST or EXCHANGE_MEAN
    pthread_mutex_t *lock;    // of the client, for the threads that ask
    struct err lookup;        // why a row could not be had
};

// Returns the number of one of the run's tables.
static inline uint32_t remote_number(bool dense, bool best)
{
    return (dense ? EXCHANGE_DENSE : EXCHANGE_SPARSE) + (best ? EXCHANGE_BEST : 0U);
}

// Gets the dense parameters.
int remote_rows_begin(struct remote_rows *r, struct err *e);

// For dataset_load, called by the members of a team: one at a time asks the servers. ctx:
// the rows. remote_rows_reason explains its failure: rc, or the reason's own code.
int remote_rows_resolve(void *ctx, const uint64_t *keys, size_t n, uint32_t *ret_ids);
int remote_rows_reason(struct remote_rows *r, int rc, struct err *e);

// Rows that came into the table `t`: those that were found. `living`: what the values are
// pulls of (and `own` the layout of `t`); NULL: they are whole rows. TUG_ENOMEM.
int remote_rows_put(struct table *t, const uint64_t *keys, size_t n, const float *values,
                    const uint8_t *found, const struct accessor *living,
                    const struct accessor *own);

#endif
