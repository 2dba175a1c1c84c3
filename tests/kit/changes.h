// Changes of a simulated cluster's servers: some join late, some are drained, some die
// before they own anything, and single partitions move. All moves are real ones, which the
// scheduler decides and the servers carry out.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_CHANGES_H
#define TUG_KIT_CHANGES_H

#include "kit/stage.h"

struct changes {
    struct stage *stage;
    // Opens one more server, as the world's first ones, with `late` in its options.
    int (*open)(void *world, bool late, struct err *e);
    void *world;
    uint64_t next; // time of the next change; VAN_NEVER: none follows
    uint64_t pace; // most time between two changes
    uint32_t most; // number of changes after which none follows
    uint64_t draws;
    uint64_t made, joined, drained, died;
};

// Lets some changes happen if their time has come. The cluster must have been there.
void changes_act(struct changes *c);
// Ends the changes, and lets the moves that are under way come to their end. Returns false
// if they do not; the stage has failed then.
bool changes_end(struct changes *c);
// Returns whether a server has partitions of sparse tables.
bool changes_owns(const struct changes *c, uint32_t server);
// Returns the number of partitions that have moved.
uint64_t changes_moved(const struct changes *c);

#endif
