// Rows into answers.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_PULL_H
#define TUG_SERVER_PULL_H

#include "protocol/keys.h"

struct request;
struct shard;
struct shard_table;

// The most bytes of an answer with n keys.
uint64_t pull_bytes(const struct shard *s, const struct shard_table *t, uint32_t n,
                    uint8_t flags);
// Answers with the rows of keys as they are now: of all, or (version != 0) of partitions
// that changed since.
void pull_answer(struct shard *s, struct request *q, struct shard_table *t,
                 const struct keys *k, uint8_t flags, uint64_t version, bool before);

#endif
