// Whether all peers were given the same, and each has done its part of a pass: each says
// so in a row on the servers. A dead worker's row is not set, however soon the others
// learn of its death.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_REMOTE_PEER_AGREE_H
#define TUG_REMOTE_PEER_AGREE_H

#include "train/run.h"

struct client;

// Says what this worker has: its options, and its files unless they are its own. Before all
// meet.
int peer_agree_say(struct client *c, const struct run *r, struct err *e);
// Says that it has done so many passes of the call; all that it has pushed is acknowledged. Before
// all meet.
int peer_agree_done(struct client *c, const struct run *r, uint32_t passes,
                    struct err *e);
// Once all have met, and before they meet again. TUG_EUSAGE: others have something else. TUG_EIO:
// one has died or left and has not done so many passes; its name is in the sentence.
int peer_agree_check(struct client *c, const struct run *r, uint32_t passes,
                     struct err *e);
// The number of ranks, of workers that have joined since included.
uint32_t peer_agree_ranks(struct client *c);
// The session of the worker of that rank; 0 if there is none. And the error that workers
// of some ranks have not done that pass of the call.
uint64_t peer_agree_session(struct client *c, uint32_t rank);
int peer_agree_gone(struct client *c, const uint32_t *ranks, size_t n, uint32_t pass,
                    struct err *e);

#endif
