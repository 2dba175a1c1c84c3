// Types that the files of the simulated cluster share: its processes, and a record of
// what each of them has done.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SIM_CLUSTER_H
#define TUG_SIM_CLUSTER_H

#include "cluster/scheduler/scheduler_internal.h"
#include "kit/seeds.h"
#include "kit/stage.h"

enum {
    BITS = 4,
    PARTITIONS = 1 << BITS,
    KEYS = 48,
    WIDTH = 2,
    TABLE = 3,
    MAX_WORKERS = 4,
    MAX_OPS = 24,
    IN_FLIGHT = 4,  // requests of a worker that are under way
    MAX_LOOSE = 20, // most pushes of dead workers that touch one partition
};

struct op {
    bool push, also_pull, arranged;
    client_ts ts; // 0 if the request has not begun, or is over
    bool begun, acknowledged;
    uint32_t group; // group of the push's identity
    uint64_t clock;
    uint32_t counted; // ssp: the workers that counted when it was made, as bits
    size_t n;
    uint32_t which[KEYS]; // numbers of its keys
    uint64_t keys[KEYS];
    float values[KEYS * WIDTH];
    float pulled[KEYS * WIDTH];
    int64_t least[KEYS][WIDTH]; // for a pull: sums of the pushes that were acknowledged
                                // when it was made
};

struct worker {
    struct world *world;
    struct stage_client c;
    bool finished, leaving;
    client_ts making; // the request that makes the table
    bool made;
    uint32_t n_ops, next, open;
    uint64_t pace;
    uint64_t clock;    // ssp: clock of its last tick
    client_ts ticking; // request of its tick; 0: none is under way
    bool told_end;     // it has sent the tick that says it has finished
    bool counts;       // one of its ticks was answered, so that others wait for it
    bool late;         // it begins only after others have made progress
    struct op ops[MAX_OPS * MAX_WORKERS];
    uint64_t dies_after; // time of its death, after it has made the table; VAN_NEVER: it
                         // does not die
};

struct server {
    struct world *world;
    uint32_t number;
    struct van_handler inner;
};

struct world {
    struct stage stage; // must be the first member
    uint32_t n_servers, n_workers;
    // Each of these is called with a message before its server is.
    struct server servers[STAGE_SERVERS];
    struct worker workers[MAX_WORKERS];
    uint64_t keys[KEYS];
    enum wire_mode mode;
    uint32_t staleness;  // used in ssp mode
    uint32_t batches;    // used in sync mode
    bool identities;     // pushes have an identity, and are repeated for dead workers
    bool repeated;       // this repeat has been done
    uint32_t late_share; // ssp: a late worker begins after 1/late_share of the others'
                         // work
    uint64_t restart_at; // time at which the scheduler is killed

    int64_t acknowledged[KEYS][WIDTH], made[KEYS][WIDTH];
    struct {
        bool on, done;
        uint64_t epoch;
        uint32_t partition, from, to;
    } move;
    uint64_t next_move;
};

#define failed(w, ...) stage_failed(&(w)->stage, __VA_ARGS__)

static inline struct shard *shard_of(const struct world *w, uint32_t i)
{
    return w->stage.servers[i].shard;
}

// Checks the rows on the servers. No messages may be under way.
void world_check_rows(struct world *w);

#endif
