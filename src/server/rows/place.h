// Checks whether this shard owns the partitions of a request.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_ROWS_PLACE_H
#define TUG_SERVER_ROWS_PLACE_H

#include "server/request.h"

struct shard;
struct shard_table;

// A `whole` request stands for all partitions of this shard, also those without its keys,
// so it must name the exact epoch. Returns GOES_ON if the request is for this shard and
// can be served. Otherwise returns ANSWERED if it has answered that the request is not
// for this shard, or else the event for which the request waits.
enum outcome place_check(struct shard *s, const struct shard_request *q, uint64_t epoch,
                         const struct shard_table *t, const struct keys *k, bool whole,
                         struct err *e);

// Does what place_check does, for a whole request that concerns all tables, or is one of
// TABLE, TICK and STEP.
enum outcome place_check_all(struct shard *s, const struct shard_request *q,
                             uint64_t epoch);

#endif
