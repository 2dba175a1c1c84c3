// Checks whether all peers were given the same options and files, and whether each has
// done its part of a pass: each puts that into a row on the servers. A dead worker's row
// is not set, whenever the others learn of its death.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_CLUSTER_PEER_AGREE_H
#define TUG_TRAIN_CLUSTER_PEER_AGREE_H

#include "train/run.h"

struct client;

// Writes this worker's row: its options, and its files unless they are its own. Call it
// before all meet at a barrier.
int peer_agree_say(struct client *c, const struct run *r, struct err *e);
// Writes to the row that this worker has done `passes` passes of the call; all its pushes
// must be acknowledged. Call it before all meet at a barrier.
int peer_agree_done(struct client *c, const struct run *r, uint32_t passes,
                    struct err *e);
// Checks the rows of all workers, after they have met at a barrier and before they meet
// again. Returns TUG_EUSAGE if a worker has other options or files; TUG_EIO, with its
// name, if a worker has died or left and has not done `passes` passes.
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
