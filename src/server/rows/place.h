// Checks whether this shard owns the partitions of a request.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_ROWS_PLACE_H
#define TUG_SERVER_ROWS_PLACE_H

#include "server/request.h"

struct roster;
struct shard;
struct shard_table;

// A `whole` request stands for all partitions of this shard, including those that
// have none of its keys, so it must name the exact epoch. Returns GOES_ON if the
// request is for this shard and can be served. Returns ANSWERED if the request is not
// for this shard and its sender was told so. Otherwise returns the event for which
// the request must wait.
enum outcome place_check(struct shard *s, const struct shard_request *q, uint64_t epoch,
                         const struct shard_table *t, const struct keys *k, bool whole,
                         struct err *e);

// Answers a request with the roster.
void place_send_roster(struct shard *s, van_link link, uint64_t request,
                       const struct roster *r);

// Does what place_check does for a `whole` request about all tables, and for the requests
// TABLE, TICK and STEP.
enum outcome place_check_all(struct shard *s, const struct shard_request *q,
                             uint64_t epoch);

// Does so for admin operations and loads, which also wait while a partition moves, because
// they could change rows that are being copied. Without replicas the epoch may be any.
enum outcome place_check_admin(struct shard *s, const struct shard_request *q,
                               uint64_t epoch);

#endif
