// Changes of a simulated cluster's servers: some join late, some are drained, some die
// before they own anything (with replicas: while each of their partitions has another
// living replica), and single partitions move. All moves are real ones, which the
// scheduler decides and the servers carry out.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_CHANGES_H
#define TUG_KIT_CHANGES_H

#include "kit/stage.h"

struct changes {
    struct stage *stage;
    // Opens one more server like the world's first servers, with `late` in its options.
    int (*open)(void *world, bool late, struct err *e);
    void *world;
    uint64_t next; // time of the next change; VAN_NEVER: no change follows
    uint64_t pace; // longest time between two changes
    uint32_t most; // largest number of changes
    bool spares;   // no server dies while a replica may have to leave its chain
    // Returns whether a server that the cluster does not need may die. NULL if each may die.
    bool (*may_die)(void *world, uint32_t server);
    uint64_t draws;
    uint64_t made, joined, drained, died;
};

// Makes the changes whose time has come, and compares the rows of partitions at both ends
// of a hand-over, or with replicas the numbers of records that the members of a chain
// have. The cluster must have been complete before.
void changes_act(struct changes *c);
// Ends the changes, and waits until the moves in progress have ended. Returns false if
// they do not end; the stage has then failed.
bool changes_end(struct changes *c);
// Returns whether a server has partitions of sparse tables.
bool changes_owns(const struct changes *c, uint32_t server);
// Returns the number of partitions that have moved.
uint64_t changes_moved(const struct changes *c);

#endif
