// A scheduler that dies and comes back, in a simulated world whose scheduler has a
// journal (seeds_run.keeps). It dies several times, in a write of the journal or at any
// time, also soon after its start, and then is away for a while. Neither the nodes nor
// the world are told of a death.
//
// Now and then the scheduler does not die, but is stopped until another one has taken
// over its address and its journal. Then the old scheduler goes on beside the new one for
// up to a second, in which its writes fail; a real one would know after this time that it
// has lost its lease. In some worlds the old scheduler goes on for up to a minute with a
// copy of the journal, as if on another machine. In such a world one server has lost the
// old scheduler before and joins the new one. This server tells the other members, which
// still wait for the old scheduler. In these worlds no links fall silent: a member that
// does not hear the server would obey the old scheduler.
//
// In half of the worlds the disk is slow: a group becomes durable some time after the
// scheduler has written it, and is lost if the scheduler dies in between.
//
// If the scheduler does not die in a write, the next one must have all its moves, wanted
// owners and pieces to be forgotten: no other check of a world needs these.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_RESTARTS_H
#define TUG_KIT_RESTARTS_H

#include "cluster/scheduler/scheduler.h"
#include "kit/disk.h"

struct stage;

enum { RESTARTS_MOST = 16 }; // more schedulers than a world has

struct restarts {
    bool on;
    // True from a death of the scheduler to the next start. In this time the scheduler of
    // the stage is the dead one: its state may be read, but none of its functions may be
    // called.
    bool down;
    struct sim_disk disk;
    struct disk_user
        users[RESTARTS_MOST]; // the newest one is users[starts % RESTARTS_MOST]
    struct scheduler *old;    // a scheduler that was replaced but still runs; NULL: none
    struct van *old_van;
    uint64_t old_until;
    struct sim_disk copy; // the old scheduler's copy of the disk
    uint32_t seer;        // index of the server that has lost the old scheduler
    uint64_t told_at;     // time at which the other members learn of the next scheduler
    uint64_t replaced;    // number of schedulers that were replaced while they ran
    // The rows that the next scheduler must have; `knows`: whether `rows` has them.
    struct buf rows;
    bool knows;
    struct scheduler_options options;
    uint64_t draws, deaths, starts;
    uint32_t left;      // number of deaths that are still to come
    uint64_t dies_time; // time of the next death; VAN_NEVER: none is planned
    uint64_t start_at;
};

// Opens the first scheduler, with its journal.
int restarts_open(struct stage *s, const struct scheduler_options *o, struct err *e);
void restarts_close(struct stage *s); // call this before the scheduler is closed
// Lets the scheduler die, or start, or makes its last group durable, if the time has come.
void restarts_look(struct stage *s);
uint64_t restarts_next(const struct stage *s); // when to call restarts_look
// Returns whether, in this world, a replaced scheduler goes on with a copy of the
// journal; schedulers of such a world do not die otherwise. They must not decide where
// partitions are, or that a process has died. The world's workers must work for ten
// seconds, because only a worker that works gets messages from a server.
bool restarts_parts(const struct stage *s);
// Lets no scheduler die any more.
void restarts_end(struct stage *s);

#endif
