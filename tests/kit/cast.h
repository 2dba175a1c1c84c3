// Parts that all simulated worlds use: options of the processes, faults of the network,
// heartbeats, and checks that no living process is declared dead.
//
// Links fall silent, but never all links of a process: a process whose links are all
// silent looks dead to the others, and is rightly declared dead. So at most one kind of a
// process's links falls silent repeatedly: that of its heartbeats, or all others.
//
// Messages may also be lost although their link stays open, which does not happen with
// TCP. Heartbeats are lost only with their link. Otherwise five heartbeats in a row, or a
// link and the HELLO of the next link, could be lost within five seconds, and in the same
// time three answers on the process's other link. Nothing would then arrive from the
// process, and it would rightly be declared dead.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_CAST_H
#define TUG_KIT_CAST_H

#include "cluster/member.h"
#include "cluster/scheduler/scheduler.h"
#include "kit/sim.h"

#define SIM_SECOND ((uint64_t)1000000000)

struct member_options sim_member(enum wire_role role, uint64_t number,
                                 const char *address);
struct scheduler_options sim_scheduler(uint32_t servers, uint32_t workers,
                                       uint32_t partition_bits);

// sim_network returns the seed's delays and faults. sim_has_silences returns whether the
// seed has links that fall silent.
struct sim_options sim_network(uint64_t seed);
bool sim_has_silences(uint64_t seed);
void sim_print(struct sim *s); // prints every event to standard output

// The part of a process besides its one loop or client: the sender of heartbeats.
struct sim_process;

// `main` is the van of the process's loop or client, which the caller frees. The seed and
// the process's number choose which links of the process fall silent.
int sim_process_open(struct sim_process **ret, struct sim *s,
                     const struct member_options *o, struct van *main, uint64_t seed,
                     struct err *e);
// Crashes the process and its main van.
void sim_process_crash(struct sim_process *p, struct sim *s);
// Stops the process, with its main van, as sim_stop does.
void sim_process_stop(struct sim_process *p, struct sim *s, uint64_t until, uint64_t lag);
// Stops the process as sim_stop_reading does.
void sim_process_stop_reading(struct sim_process *p, struct sim *s, uint64_t until);
void sim_process_close(
    struct sim_process *p); // NULL is fine; call it before its main van is freed

// Returns whether the scheduler has told the process that it counts as dead.
bool sim_process_is_lost(const struct sim_process *p);

// Returns whether the scheduler has declared dead a process that the caller knows to be
// alive.
bool sim_process_is_given_up(const struct sim_process *p, const struct member *m,
                             const struct scheduler *s);

// Returns whether the scheduler has had a heartbeat of the process. Before that, the
// scheduler cannot tell a dead process from one whose links are silent.
bool sim_is_heard(const struct scheduler *s, enum wire_role role, uint64_t number);

// Removes the files that saves have left in the directory.
void sim_remove_saves(const char *dir);

#endif
