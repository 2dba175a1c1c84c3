// Servers of a simulated cluster that cannot reach each other, or the scheduler, for a
// while; in half of the cases in one direction only.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_PARTINGS_H
#define TUG_KIT_PARTINGS_H

#include "kit/stage.h"

struct partings {
    struct stage *stage;
    struct van *from, *to; // the two that are parted now; NULL: none
    uint64_t until, next;
    uint64_t draws, made;
};

// Begins and ends partings; begins no more if `over`, or if nothing new goes wrong. Half of the
// partings of two servers last longer than the time after which one of them asks the scheduler
// to take the other one out of its chains; those of a server and the scheduler are shorter
// than the lease of heartbeats.
void partings_act(struct partings *p, bool over);
bool partings_done(const struct partings *p); // no two processes are parted

#endif
