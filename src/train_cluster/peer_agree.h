// Where all peers meet: at barriers, and in collective calls, by which they check whether
// all were given the same options and files, and whether each has done its part of a pass.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_CLUSTER_PEER_AGREE_H
#define TUG_TRAIN_CLUSTER_PEER_AGREE_H

#include "cluster/member.h"
#include "train/run.h"

struct client;

// Waits until all living workers have called it as many times.
int peer_meet(struct run *r, struct err *e);
// Meets all workers, and checks that they have this worker's options, its files unless
// they are its own, and that they have done `passes` passes of the call, of which all
// pushes must be acknowledged. Returns TUG_EUSAGE if a worker has other options or files,
// or is in another call; TUG_EIO, with its name, if a worker has died or left and has not
// done these passes.
int peer_agree(struct run *r, uint32_t passes, struct err *e);
// Reduces n values of 8 bytes each of the workers that are alive into `ret`.
int peer_reduce(struct run *r, enum wire_collect op, enum wire_number type,
                const void *values, size_t n, void *ret, struct err *e);
// peer_agree_session returns the session of the worker with this rank; 0 if there is
// none. peer_agree_gone sets the error that the workers of some ranks have not done that
// pass of the call.
uint64_t peer_agree_session(struct client *c, uint32_t rank);
int peer_agree_gone(struct client *c, const uint32_t *ranks, size_t n, uint32_t pass,
                    struct err *e);

#endif
