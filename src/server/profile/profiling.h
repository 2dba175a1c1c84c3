// Records requests, if the shard is profiling.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_PROFILE_PROFILING_H
#define TUG_SERVER_PROFILE_PROFILING_H

#include "wire/wire.h"

struct pending;
struct shard_request;
struct shard;

void profiling_begin(const struct shard *s, const struct shard_request *q,
                     struct wire_event *ret);
void profiling_end(struct shard *s, struct wire_event *event);
void profiling_waited(struct shard *s, const struct pending *h);

#endif
