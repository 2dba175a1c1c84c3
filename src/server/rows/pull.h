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
// Answers a request with the rows of its keys: of all its keys, or if `version` is not 0,
// of those in partitions that have changed since this version. The rows are the current
// ones, or if `before` is true, those from before the last batch.
enum outcome pull_answer(struct shard *s, struct shard_request *q, struct shard_table *t,
                         const struct keys *k, uint8_t flags, uint64_t version,
                         bool before);

#endif
