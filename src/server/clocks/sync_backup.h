// Batches at a backup. The owner of a partition decides which parts of batches it accepts,
// and when a batch is applied; a backup keeps the same parts and applies the same batches,
// each in a group of the partition alone.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_CLOCKS_SYNC_BACKUP_H
#define TUG_SERVER_CLOCKS_SYNC_BACKUP_H

#include <stdbool.h>
#include <stdint.h>

struct err;
struct shard;
struct shard_table;
struct sync_decided;

// A part of a batch, with the keys and values of one partition.
struct sync_backup_part {
    uint64_t clock, examples;
    uint8_t micro, micros;
    bool again, fixed_keys; // the flags WIRE_AGAIN and WIRE_KEYS_ONLY of the push
    float rate, pass;
    const uint64_t *keys;
    const float *values;
    uint32_t n;
};

// Keeps a part in which nothing has been checked. Returns 0, TUG_EDATA or TUG_ENOMEM.
int sync_backup_keep(struct shard *s, struct shard_table *t, uint32_t partition,
                     const struct sync_backup_part *p, struct err *e);
// Drops the parts that are kept, and makes *next the number of the next batch unless it is
// NULL. Returns 0, TUG_EDATA or TUG_ENOMEM.
int sync_backup_restart(struct shard *s, struct shard_table *t, uint32_t partition,
                        const uint64_t *next, struct err *e);
// Applies the partition's batch with this number, with the owner's decisions; `step` is
// the owner's step, which determines the learning rate. Returns 0, TUG_EDATA, or the
// store's error, after which nothing has changed.
int sync_backup_apply(struct shard *s, struct shard_table *t, uint32_t partition,
                      uint64_t clock, uint64_t step, const struct sync_decided *decided,
                      struct err *e);

#endif
