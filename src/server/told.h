// Reports admin operations to the scheduler's log.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_TOLD_H
#define TUG_SERVER_TOLD_H

#include "base/err.h"

struct shard_request;
struct shard;

// Reports to the scheduler, for its log, that an admin operation is done, or has
// begun if it takes time.
void told_done(struct shard *s, const struct shard_request *q);
void told_refused(struct shard *s, const struct shard_request *q, const struct err *why);

#endif
