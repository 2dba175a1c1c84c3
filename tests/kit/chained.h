// For tests of chains of replicas: a scheduler with servers that follow the protocol of a move
// without having any rows. A watcher compares the chains before and after every event, by
// rules of its own. The world is that of kit/guest.h.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_CHAINED_H
#define TUG_KIT_CHAINED_H

#include "kit/guest.h"
#include "kit/journals.h"

enum { CHAINED_BITS = 4, CHAINED_PARTITIONS = 1 << CHAINED_BITS };

struct chained {
    uint32_t replicas;
    bool with_journal;
    struct memory_journal journal;
    const char *const *zones; // the zones of the servers; NULL: they have none
    uint64_t server_timeout;  // struct scheduler_options
    uint32_t out; // a member that was reported, and may leave chains early; 0: none
    // The placement before the last event, and the targets of the moves under way (0: none).
    uint64_t epoch;
    uint32_t chains[WIRE_SPACES][CHAINED_PARTITIONS][ROSTER_MAX_CHAIN];
    uint32_t n[WIRE_SPACES][CHAINED_PARTITIONS];
    uint32_t filled[WIRE_SPACES][CHAINED_PARTITIONS];
};

extern struct chained chained;

struct scheduler_options chained_options(void);
// Opens a world with n servers, each on a host of its own, and a worker that never leaves.
// chained_open uses seed 1 and no journal.
void chained_open_seed(uint64_t seed, uint32_t n, uint32_t r);
void chained_open(uint32_t n, uint32_t r);
struct actor *chained_add_server(bool late);
const struct roster *chained_roster(void);
void chained_run(uint64_t ns); // lets time pass, and watches
// Checks that chains have changed since the last event as they may.
void chained_watch(void);
void chained_look(void);         // the watcher takes the chains as they are
bool chained_drain(uint32_t id); // asks for a drain; returns whether it was accepted

bool chained_lives(uint32_t id);
// Returns the actor of a node.
struct actor *chained_actor(uint32_t id);
// Returns a fill that is under way.
struct move chained_fill(void);
// Returns how many server processes can hold partitions.
uint32_t chained_takers(void);
// Return the number of partitions that a node leads, or of whose chains it is a member.
uint32_t chained_leads(int space, uint32_t id);
uint32_t chained_member_of(int space, uint32_t id);
// Checks that all chains have `members` members, that nothing is under way, and that all
// members of the cluster know the placement.
void chained_check_settled(uint32_t members);
// Checks whether the scheduler's log has these words.
void chained_check_log(const char *words, bool there);

// A server reports that a member must leave all chains in which the member follows the server,
// or, if it reports itself, all that it does not lead; except those in `is_out` (may be
// NULL). Returns their number.
uint32_t chained_tell_out(struct actor *a, uint32_t node, int code,
                          bool (*is_out)[CHAINED_PARTITIONS]);
// A server repeats such a report for 3 s. Returns the number of chains in the first one.
uint32_t chained_report_out(struct actor *a, uint32_t node, int code);

#endif
