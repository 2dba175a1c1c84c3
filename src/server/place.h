// Whether the partitions that a request asks for are the shard's.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_PLACE_H
#define TUG_SERVER_PLACE_H

#include "server/request.h"

struct shard;
struct shard_table;

// ANSWERED: it is not for this shard, and the asker was told so; *ret_mine: go on.
enum outcome place_check(struct shard *s, const struct request *q, uint64_t epoch,
                         const struct shard_table *t, const struct keys *k,
                         bool *ret_mine, struct err *e);

#endif
