// Checks whether all peers were given the same options and files, and whether each has
// done its part of a pass: they tell each other in a collective call.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_CLUSTER_PEER_AGREE_H
#define TUG_TRAIN_CLUSTER_PEER_AGREE_H

#include "train/run.h"

struct client;

// Enters the next barrier of the workers, and tells the others this worker's options, its
// files unless they are its own, and that it has done `passes` passes of the call, of
// which all pushes must be acknowledged.
int peer_agree_say(struct client *c, const struct run *r, uint32_t passes, struct err *e);
// Checks what all workers said, after this barrier. Returns TUG_EUSAGE if a worker has
// other options or files, or is in another call; TUG_EIO, with its name, if a worker has
// died or left and has not done `passes` passes.
int peer_agree_check(struct client *c, const struct run *r, uint32_t passes,
                     struct err *e);
// Returns the number of ranks, including those of workers that have joined since.
uint32_t peer_agree_ranks(struct client *c);
// peer_agree_session returns the session of the worker with this rank; 0 if there is
// none. peer_agree_gone sets the error that the workers of some ranks have not done that
// pass of the call.
uint64_t peer_agree_session(struct client *c, uint32_t rank);
int peer_agree_gone(struct client *c, const uint32_t *ranks, size_t n, uint32_t pass,
                    struct err *e);

#endif
