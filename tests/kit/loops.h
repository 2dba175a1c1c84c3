// For tests of the tables of shards: loops that share the partitions of a table, batches
// of pushes, and rows as bytes for comparison.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_LOOPS_H
#define TUG_KIT_LOOPS_H

#include "kit/lone_shard.h"

enum {
    BITS = 4,
    PARTITIONS = 1 << BITS,
    KEYS = 400,
    T = 5,
    LOOPS = 3,
    MICROS = SHARD_MICROS
};

// Opens a shard that owns the partitions p with p % n == i.
struct lone *loop_open(uint32_t i, uint32_t n, const char *config);
struct shard_table *loop_table(struct lone *w);
uint32_t loop_partition(const struct lone *w, uint64_t key);

size_t loops_check_same(struct lone *a, struct lone *b);

// The keys and values of a push, sorted by partition.
struct loop_batch {
    uint64_t keys[KEYS];
    float values[KEYS * 32];
    uint32_t n, width;
};

uint64_t loop_key(uint64_t i);
// Makes the values of a key in batch `draw`: the gradients, then show, click and slot.
void loop_draw_values(const struct accessor *a, uint64_t draw, uint64_t key, float *to);
void loop_draw_batch(struct lone *w, uint64_t draw, struct loop_batch *b);
void loop_push_with(struct lone *w, const struct loop_batch *b, uint32_t worker,
                    uint64_t clock, uint32_t micro, uint32_t micros, uint8_t flags);
void loop_push(struct lone *w, const struct loop_batch *b, uint32_t worker,
               uint64_t clock, uint32_t micro, uint32_t micros);
uint64_t loop_admin(struct lone *w, enum wire_admin what, float threshold,
                    uint64_t clock);
void loop_step(struct lone *w, uint32_t worker, uint64_t steps, uint64_t global);

#endif
