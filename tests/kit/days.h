// Admin operations in a simulated world: a client that does not die ends days of a table, and
// shrinks it, at random moments. Each partition must have had each of these days once.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_DAYS_H
#define TUG_KIT_DAYS_H

#include "kit/stage.h"

struct sim_days {
    struct stage_client *client; // NULL: there are no operations
    uint32_t table, left, ended; // numbers of operations that are left, and of ended days
    bool is_day;                 // the operation under way ends a day
    client_ts waits;
    uint64_t removed, draws, next_at;
};

struct sim_days days_open(struct stage_client *c, uint32_t table);
void days_let(struct sim_days *d); // begins and ends operations, once the table is made
bool days_are_over(const struct sim_days *d);
// Checks the days of a partition on a server that is a member of its chain.
void days_check(const struct sim_days *d, struct shard *server, uint32_t partition);

#endif
