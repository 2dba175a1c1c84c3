// Types that the files of the simulated cluster with replicas share, and the life of its
// unbacked table, of which only primaries have rows.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SIM_REPLICAS_H
#define TUG_SIM_REPLICAS_H

#include "cluster/scheduler/scheduler_internal.h"
#include "kit/changes.h"
#include "kit/days.h"
#include "kit/partings.h"
#include "kit/saver.h"

enum {
    BITS = 3,
    PARTITIONS = 1 << BITS,
    KEYS = 24,
    TABLE = 3, // number of the first table
    MAX_WORKERS = 3,
    MAX_OPS = 40,
    IN_FLIGHT = 3,
    MAX_LOOSE = MAX_WORKERS * IN_FLIGHT,
    MAX_CHANGES = 24,
};
enum { SUMS, UNBACKED, TABLES };

struct op {
    uint32_t table; // SUMS or UNBACKED
    bool push, also_pull, acknowledged;
    client_ts ts; // 0 if the request is over
    size_t n;
    uint32_t which[KEYS]; // numbers of the request's keys
    uint64_t keys[KEYS];
    float values[KEYS], pulled[KEYS];
    int64_t least[KEYS]; // sums of the pushes that were acknowledged before
    bool was_dropped;    // its table was dropped since
};

struct worker {
    struct world *world;
    struct stage_client c;
    client_ts making[TABLES]; // the requests that make the tables
    bool made;
    uint32_t knows; // the unbacked table that the worker has made (life.number)
    uint32_t n_ops, next, open;
    uint64_t pace, next_at; // longest time between two operations; time of the next one
    struct op ops[MAX_OPS];
};

// The life of the unbacked table. Workers use it in the state MADE. In the state GOING it is
// being dropped, or was dropped and the scheduler does not know it yet.
struct unbacked_life {
    enum { ABSENT, MAKING, MADE, GOING } state;
    uint64_t draws, next;        // next: time of the next drop, or when it is made again
    uint32_t drops_left, number; // number: how often it was made
    client_ts drop;
    bool watched;      // it existed when the owners were compared last
    uint64_t kills_at; // time from which on a primary is killed; VAN_NEVER: none is
    bool killed, ended;
};

struct world {
    struct stage stage; // must be the first member
    uint32_t n_workers;
    struct worker workers[MAX_WORKERS];
    uint64_t keys[KEYS];
    int64_t acknowledged[TABLES][KEYS], made[TABLES][KEYS];
    struct changes changes;
    uint64_t epoch; // the owners are those of this epoch
    uint32_t owners[PARTITIONS];
    uint64_t promoted; // number of partitions whose owner has changed
    // A server and a worker that are cut off from the scheduler until this time; NULL: none.
    struct van *cut_server, *cut_worker;
    uint32_t cut_partition; // a partition that the server does not lead any more
    uint64_t cut_until, next_cut, cuts;
    struct partings partings;
    struct roots *roots;
    struct sim_saver *saver;
    struct sim_days days;
    uint32_t saves_of; // the table that is saved
    int64_t
        saved[KEYS]; // sums of the pushes that were acknowledged before the save began
    struct unbacked_life life;
};

void world_make_table(struct worker *k, uint32_t table);
void world_end_op(struct worker *k, struct op *op); // a push or a pull was answered
// Returns whether the scheduler has declared all dead servers dead.
bool world_deaths_are_known(const struct world *w);

// Draws what happens to the unbacked table, if this world has one.
void life_open(struct world *w);
// Lets worker 0 make and drop the table.
void life_let(struct world *w);
// Lets another worker make the table after worker 0.
void life_let_know(struct worker *k);
// Returns whether workers may begin requests about the table.
bool life_in_use(const struct world *w);
// For struct changes: returns whether a server may die although it leads partitions.
bool life_may_die(void *world, uint32_t server);
// In some worlds, kills a server that leads partitions while the table exists.
void life_kill_primary(struct world *w);
// Returns whether the run has ended because of that, and ends the requests that were
// answered before.
bool life_has_lost_rows(struct world *w);

#endif
