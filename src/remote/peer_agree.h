// Whether all peers were given the same: a few numbers of each are added up by the servers.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_REMOTE_PEER_AGREE_H
#define TUG_REMOTE_PEER_AGREE_H

#include "train/run.h"

struct client;

// Says what this worker has: its options, and its files unless they are its own. Before all
// meet.
int peer_agree_say(struct client *c, const struct run *r, struct err *e);
// Once all have: TUG_EUSAGE, others have something else.
int peer_agree_check(struct client *c, const struct run *r, struct err *e);
// Once all have looked, by one of them: for the next call.
int peer_agree_clear(struct client *c, struct err *e);

#endif
