// Barriers and collective calls of all peers. By these calls peers check that all have
// the same options and files, and that each has done its part of a pass.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_CLUSTER_PEER_AGREE_H
#define TUG_TRAIN_CLUSTER_PEER_AGREE_H

#include "cluster/member.h"
#include "train/run.h"

struct client;

// Waits at a barrier until all living workers have called this function as
// often as this worker has.
int peer_meet(struct run *r, struct err *e);
// Waits for all workers, and checks that they have this worker's options and files (unless
// each worker has files of its own), and have done `passes` passes of the call. All pushes
// of these passes must be acknowledged. Returns TUG_EUSAGE if a worker has other options or
// files, or is in another call; TUG_EIO, with the worker's name, if a worker has died or
// left and has not done these passes.
int peer_agree(struct run *r, uint32_t passes, struct err *e);
// Reduces n values of 8 bytes each of the workers that are alive into `ret`.
int peer_reduce(struct run *r, enum wire_collect op, enum wire_number type,
                const void *values, size_t n, void *ret, struct err *e);
// peer_agree_session returns the session of the worker with this rank; 0 if the rank is
// empty. peer_agree_gone sets the error with the names of the workers that have not done
// the given pass of the call.
uint64_t peer_agree_session(struct client *c, uint32_t rank);
int peer_agree_gone(struct client *c, const uint32_t *ranks, size_t n, uint32_t pass,
                    struct err *e);

#endif
