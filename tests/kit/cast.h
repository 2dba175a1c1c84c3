// Common to the simulated worlds: options of the processes, faults of the network,
// heartbeats, and checks of the living.
//
// Links that fall silent. "One of several" is dead, never all: a process whose links are
// all dead is dead to the others, and rightly given up. So a process has at most one kind
// of link that falls silent, time and again: that of its heartbeats, or all others.
//
// Messages that get lost alone, which TCP does not do. Heartbeats go only with their link:
// else five of them in a row, or one that breaks and then the HELLO of the next, get lost
// within the five seconds in which three answers on the other link may be lost, too; and
// of whom nothing comes is rightly taken for dead.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_CAST_H
#define TUG_KIT_CAST_H

#include "cluster/member.h"
#include "cluster/scheduler.h"
#include "kit/sim.h"

#define SIM_SECOND ((uint64_t)1000000000)

struct member_options sim_member(enum wire_role role, uint64_t number,
                                 const char *address);
struct scheduler_options sim_scheduler(uint32_t servers, uint32_t workers,
                                       uint32_t partition_bits);

// Delays and faults of the seed; and whether it has links that fall silent.
struct sim_options sim_network(uint64_t seed);
bool sim_has_silences(uint64_t seed);
void sim_print(struct sim *s); // every event, to standard output

// A process besides its one loop or client: heartbeats.
struct sim_process;

// `main`: the van of its loop or client, which is freed by who opened it. The seed and
// the process's number choose which of its links fall silent.
int sim_process_open(struct sim_process **ret, struct sim *s,
                     const struct member_options *o, struct van *main, uint64_t seed,
                     struct err *e);
void sim_process_crash(struct sim_process *p, struct sim *s); // with its main van
// Stands still, with its main van, as long as sim_stop says.
void sim_process_stop(struct sim_process *p, struct sim *s, uint64_t until, uint64_t lag);
void sim_process_close(
    struct sim_process *p); // NULL is fine; before its main van is freed

// Whether it was taken for dead: to be asked of one that lives.
bool sim_process_is_given_up(const struct sim_process *p, const struct member *m,
                             const struct scheduler *s);

// Whether the scheduler has had a heartbeat of it: before, it can't tell the dead whose
// links are silent from the living.
bool sim_is_heard(const struct scheduler *s, enum wire_role role, uint64_t number);

// The files that saves have left in the directory.
void sim_remove_saves(const char *dir);

#endif
