// Room for answers.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_ROOM_H
#define TUG_SERVER_ROOM_H

#include "server/request.h"

struct shard;

// Returns GOES_ON if an answer of `bytes` bytes can be sent now, or WANTS_DRAIN if it
// must wait. Sets *e, and returns GOES_ON, if the answer is too large to be ever sent.
enum outcome room_for(struct shard *s, struct shard_request *q, uint64_t bytes,
                      struct err *e);
// Returns the most bytes of an answer that can ever be sent.
uint64_t room_most(const struct shard *s);
bool room_now(const struct shard *s, const struct shard_peer *p, uint64_t bytes);
uint64_t room_look(struct shard *s); // returns the time of the next call

#endif
