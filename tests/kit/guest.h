// For tests of the scheduler: a cluster whose members join one after the other, and a
// peer that sends the messages that the test chooses.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_GUEST_H
#define TUG_KIT_GUEST_H

#include "cluster/scheduler/scheduler.h"
#include "cluster/scheduler/scheduler_internal.h"
#include "kit/actors.h"

extern struct world w;

void guest_open_world(uint32_t servers, uint32_t workers);
// Adds members one after the other, so that their ids are known.
struct actor *guest_add(enum wire_role role);
void guest_add_all(uint32_t servers, uint32_t workers, bool driver);
// Opens a world with a server and two workers. The link of the first worker, actor 1, to the
// scheduler has broken, and it cannot connect again until sim_partition lets it.
void guest_open_cut_off(void);

struct guest {
    struct van *v;
    van_link link;
    uint16_t type;
    uint64_t request, value;
    char text[WIRE_BYTES_MAX];
    bool closed;
};

extern struct guest guest;

void guest_open_as(const char *name);
void guest_open(void);
void guest_say(uint16_t type, const void *msg);
void guest_say_hello(uint64_t cluster);
void guest_close(void);
// The guest joins as a node, without a `struct member`: the test makes the guest's
// messages itself.
void guest_join_with(enum wire_role role, uint64_t number);
void guest_join_as(enum wire_role role);

#endif
