// Types that the files of the simulated cluster share: its processes, and a record of
// each process's actions.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SIM_CLUSTER_H
#define TUG_SIM_CLUSTER_H

#include "cluster/scheduler/scheduler_internal.h"
#include "kit/changes.h"
#include "kit/partings.h"
#include "kit/saver.h"
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
    IN_FLIGHT = 4, // requests of a worker that are under way
    MAX_CHANGES = 30,
    MAX_SYNC_CHANGES = 8,
    MAX_LOOSE = 20, // largest number of pushes of dead workers that touch one partition
};

#define SUMS_CONFIG "name=sums;accessor=plain;dim=2;rule=sum"

// A worker's requests about the table with policies, one at a time.
struct policy_line {
    client_ts ts;
    bool made;
    uint64_t draws, keys[KEYS];
    float values[KEYS * 8];
};

struct op {
    bool push, also_pull, arranged;
    client_ts ts; // 0 if the request has not begun, or is over
    bool begun, acknowledged;
    uint32_t group; // the number in the push's identity
    uint64_t clock;
    // Ssp: a bit for each worker that had sent a tick when the request was made.
    uint32_t counted;
    size_t n;
    uint32_t which[KEYS]; // numbers of the request's keys
    uint64_t keys[KEYS];
    float values[KEYS * WIDTH];
    float pulled[KEYS * WIDTH];
    // For a pull: sums of the pushes that were acknowledged before the pull was made.
    int64_t least[KEYS][WIDTH];
};

struct worker {
    struct world *world;
    struct stage_client c;
    bool finished, leaving;
    client_ts making; // the request that makes the table
    bool made;
    uint32_t n_ops, next, open;
    uint64_t pace, not_before;
    uint64_t clock;    // ssp: clock of the worker's last tick
    client_ts ticking; // request of the worker's tick; 0: no tick is under way
    bool told_end;     // the worker has sent its last tick, UINT64_MAX
    // One of the worker's ticks was answered, so other workers now wait for this worker.
    bool counts;
    bool late; // the worker begins only after other workers have made progress
    struct op ops[MAX_OPS * MAX_WORKERS];
    // The number of messages sent to the programs of servers, and the number of random
    // numbers drawn for these messages.
    uint64_t said, draws;
    struct policy_line policies;
    // The time at which the worker dies, which is after it has made the table; VAN_NEVER:
    // it does not die.
    uint64_t dies_after;
};

struct server {
    struct world *world;
    uint32_t number;
};

struct world {
    struct stage stage; // must be the first member
    uint32_t n_servers, n_workers;
    uint32_t replicas; // members of a chain; 0: partitions have no replicas
    struct server servers[STAGE_PLACES];
    struct worker workers[MAX_WORKERS];
    uint64_t keys[KEYS];
    enum wire_mode mode;
    uint32_t staleness; // ssp: most clocks that a worker may be ahead of the slowest
    uint32_t batches;   // sync: number of batches
    // Pushes have identities, so that a living worker can repeat the pushes of dead
    // workers.
    bool identities;
    bool repeated; // the pushes of dead workers have been repeated
    // ssp: a late worker begins when the other workers have done 1/late_share of their
    // work.
    uint32_t late_share;
    uint64_t restart_at; // time at which the scheduler is killed

    int64_t acknowledged[KEYS][WIDTH], made[KEYS][WIDTH];
    struct changes changes;
    uint64_t n_moves; // number of moves that earlier schedulers have made
    uint64_t heard;   // number of messages that programs of servers have received

    // With replicas:
    struct partings partings;
    struct roots *roots;
    struct sim_saver *saver;
    int64_t saved[KEYS][WIDTH]; // the least sums that the save under way may have
    uint64_t n_policies;        // number of requests about the table with policies
};

#define failed(w, ...) stage_failed(&(w)->stage, __VA_ARGS__)

static inline struct shard *shard_of(const struct world *w, uint32_t i)
{
    return w->stage.servers[i].shard;
}

// Sends, now and then, a message from a worker to the program of a server, which receives
// it in world_hears.
void world_let_say(struct worker *k);
void world_hears(void *ctx, van_link link, uint32_t node, struct van_message *m);

// Returns whether a request failed. Requests may fail after a restart of the scheduler, and
// requests of a ghost may always fail; any other failure fails the test.
bool world_went_wrong(struct worker *k, int rc, const char *what, const struct err *e);

// Makes and ends requests about the table with policies. At the end, the rows of all
// members of a chain are compared.
void world_let_policies(struct worker *k);
void world_check_policies(struct world *w);

int world_open_saver(struct world *w, struct err *e);
// Does the saver's next step; `made`: the table exists.
void world_let_save(struct world *w, bool made);
bool world_saves(const struct world *w); // the saver has not finished

// Checks the rows on the servers. No messages may be under way.
void world_check_rows(struct world *w);

#endif
