// The owner's side of a move: gives the bytes of a partition to the loop that is to have
// it.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/shard_internal.h"

enum outcome move_wanted_serve(struct shard *s, struct request *q)
{
    struct err e;
    err_set(&e, TUG_EUSAGE, "partitions of node %u don't move", member_id(s->member));
    shard_refuse(s, q, &e);
    return ANSWERED;
}
