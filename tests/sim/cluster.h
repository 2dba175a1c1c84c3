// Shared by the files of the simulated cluster: its processes, and what each has done.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SIM_CLUSTER_H
#define TUG_SIM_CLUSTER_H

#include "cluster/scheduler_internal.h"
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
    IN_FLIGHT = 4,  // requests of a worker
    MAX_LOOSE = 20, // pushes of dead workers that touch one partition
};

struct op {
    bool push, also_pull, arranged;
    client_ts ts; // 0: not begun, or over
    bool begun, acknowledged;
    uint32_t group; // of its identity
    uint64_t clock;
    uint32_t counted; // ssp: bits of the workers that counted when it was made
    size_t n;
    uint32_t which[KEYS]; // numbers of keys
    uint64_t keys[KEYS];
    float values[KEYS * WIDTH];
    float pulled[KEYS * WIDTH];
    int64_t least[KEYS][WIDTH]; // a pull: what was acknowledged when it was made
};

struct worker {
    struct world *world;
    struct stage_client c;
    bool finished, leaving;
    client_ts making; // the table
    bool made;
    uint32_t n_ops, next, open;
    uint64_t pace;
    uint64_t clock;    // ssp: its tick is on its way, or was answered
    client_ts ticking; // 0: none is on its way
    bool told_end;     // the last tick
    bool counts;       // a tick was answered
    bool late;         // begins when others have done what it waits for
    struct op ops[MAX_OPS * MAX_WORKERS];
    uint64_t dies_after; // it has made the table; VAN_NEVER: it does not
};

struct server {
    struct world *world;
    uint32_t number;
    struct van_handler inner;
};

struct world {
    struct stage stage; // first
    uint32_t n_servers, n_workers;
    struct server servers[STAGE_SERVERS]; // what sees their messages first
    struct worker workers[MAX_WORKERS];
    uint64_t keys[KEYS];
    enum wire_mode mode;
    uint32_t staleness;  // ssp
    uint32_t batches;    // sync
    bool identities;     // pushes carry one, and are repeated for the dead
    bool repeated;       // that has been done
    uint32_t late_share; // ssp: the late one waits for 1/late_share of what others do
    uint64_t restart_at; // the scheduler is killed

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

// Checks the rows on the servers, when the network is quiet.
void world_check_rows(struct world *w);

#endif
