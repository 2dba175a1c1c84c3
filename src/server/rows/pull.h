// Pulls: writes rows into answers.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_ROWS_PULL_H
#define TUG_SERVER_ROWS_PULL_H

#include "protocol/keys.h"

struct shard_request;
struct shard;
struct shard_table;

// Returns the most bytes that an answer with n keys can have.
uint64_t pull_bytes(const struct shard *s, const struct shard_table *t, uint32_t n,
                    uint8_t flags);
// Answers a request with the current rows of its keys: of all keys, or (version != 0) of
// keys in partitions that have changed since that version. If `before` is true, answers
// with the rows as they were before the last batch.
void pull_answer(struct shard *s, struct shard_request *q, struct shard_table *t,
                 const struct keys *k, uint8_t flags, uint64_t version, bool before);

#endif
