// The tables of a shard, and what is asked of a whole one.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_TABLES_H
#define TUG_SERVER_TABLES_H

#include "protocol/spec.h"
#include "server/previous.h"
#include "server/ssp_clock.h"
#include "server/sync_clock.h"
#include "store/store.h"

struct shard;

// An admin operation that goes on in a store.
struct turn {
    bool on;
    uint64_t session, number; // whose; 0: nobody asks
    uint64_t before;          // rows gone when it began
    uint64_t rows;            // that a clear removes
};

struct shard_table {
    struct table_spec spec;
    struct store *store;
    struct turn turn;       // an admin operation
    bool work;              // store_work has something to do
    struct err stuck;       // why the next batch could not be applied; code 0: nothing
    uint32_t n_applied;     // partitions below were, of that batch
    bool again;             // batches are to be tried again
    uint64_t version;       // counts applied pushes and admin operations
    uint64_t *changed_at;   // the version at which each partition changed last
    uint64_t bytes;         // of rows and index, when last looked at
    struct ssp_clock ssp;   // WIRE_SSP
    struct sync_clock sync; // WIRE_SYNC
    struct previous before; // likewise
    struct msg_table_is figures; // those that are counted
};

int tables_obey(struct shard *s, const struct msg_table_do *m, struct err *e);
// Returns the table of that number, or NULL with a sentence.
struct shard_table *tables_find(const struct shard *s, uint32_t id, struct err *e);
void tables_close(struct shard *s);
void tables_living(struct shard *s);                         // workers have come or gone
void tables_measure(struct shard *s, struct shard_table *t); // the memory it takes
// The table's rows may have what other tables leave of max_bytes.
void tables_limit(struct shard *s, struct shard_table *t);
struct msg_table_is tables_count(const struct shard *s, const struct shard_table *t);
// Everything in it has changed.
void tables_touch_all(struct shard *s, struct shard_table *t);

void tables_set_step(struct shard *s); // stores are told

#endif
