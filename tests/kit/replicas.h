// A cluster with replicas in the simulated network, for tests of shards: the test plays the
// scheduler, which decides who is dead and fills partitions, and a worker, which repeats
// what is not acknowledged.
//
// The worker checks what it sees: a push that was acknowledged, or shown by a pull, is in
// all later pulls. Each push adds 1 to each of its keys.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_REPLICAS_H
#define TUG_KIT_REPLICAS_H

#include "cluster/session.h"
#include "kit/sim.h"
#include "kit/test.h"
#include "protocol/spec.h"
#include "server/shard.h"

enum {
    REPLICAS_BITS = 3,
    REPLICAS_PARTITIONS = 1 << REPLICAS_BITS,
    REPLICAS_SERVERS = 4,
    REPLICAS_KEYS = 24,
    REPLICAS_PUSH_KEYS = 6, // most keys of a push
    REPLICAS_OPS = 600,     // most pushes and pulls
    REPLICAS_TABLE = 2,
    REPLICAS_SESSION = 500,
};
#define REPLICAS_OTHER ((uint64_t)1 << 40) // the number of requests that are not of an op

// The worker has started this push or pull.
struct replicas_op {
    bool pull;
    uint64_t number; // of a push
    uint32_t n, keys[REPLICAS_PUSH_KEYS];
    bool done[REPLICAS_PUSH_KEYS];      // whether the key's part was answered
    uint32_t least[REPLICAS_PUSH_KEYS]; // pull: the smallest value that is right
    uint64_t send_at;
};

struct replicas_sent {
    uint32_t op;
    uint32_t mask; // the keys of the op in this message
};

struct replicas_server {
    struct shard *shard;
    struct van *v;
    bool crashed, dead; // `dead`: the roster lists it as dead
    van_link link;      // the scheduler's link to it; 0: none
    struct session s;   // the worker's
};

// The world.
struct replicas {
    struct sim *sim;
    uint64_t seed, draws;
    struct van *scheduler, *worker;
    struct replicas_server servers[REPLICAS_SERVERS];
    // The roster, whose chains are the same in all spaces.
    uint64_t epoch, version, replicas;
    uint32_t chains[REPLICAS_PARTITIONS][ROSTER_MAX_CHAIN];
    struct wire_move fill; // number 0: none
    bool arrived;          // the fill's target has reported the end
    bool interrupted;      // the target has reported that the fill was interrupted
    // The unbacked table of the roster, if it exists, and the last message about it. While
    // `keeps_out` is set, the roster stays without it.
    struct wire_unbacked_table unbacked;
    bool unbacked_exists, keeps_out;
    uint32_t unbacked_told; // the number of such messages
    // The last report that a member must leave chains: the member, the number of chains,
    // and the reason; 0: none.
    uint32_t out, out_chains;
    int out_code;
    char out_why[ERR_TEXT_MAX];
    struct session_side side;
    struct session_who who;
    struct table_spec spec;
    uint32_t tables; // answers to TABLE
    struct replicas_op ops[REPLICAS_OPS];
    uint32_t n_ops, first_op; // all ops before first_op are done
    struct replicas_sent sent[REPLICAS_OPS * 200];
    uint32_t n_sent;
    uint64_t numbers;
    uint64_t keys[REPLICAS_KEYS]; // by ascending partition
    // For each key: how often it was pushed, how many of these pushes were acknowledged, and
    // the greatest value that a pull has shown.
    uint32_t invoked[REPLICAS_KEYS], acked[REPLICAS_KEYS], shown[REPLICAS_KEYS];
    char refusal[ERR_TEXT_MAX + 1]; // text of the last error that was not a repeat
    uint32_t others; // the number of OK answers to requests above REPLICAS_OTHER
    uint64_t value;  // the value of the last one
};

// Opens servers and the worker. The chain of partition p is `members` servers from number
// p % spread on.
struct replicas *replicas_open(uint64_t seed, uint32_t replicas, uint32_t members,
                               uint32_t spread, const struct shard_options *o);
// Does the same, and makes an asynchronous table.
struct replicas *replicas_open_with_table(uint64_t seed, uint32_t replicas,
                                          uint32_t members, uint32_t spread);
// Does the same with a table of this mode, and chains of the servers from number 0 on.
struct replicas *replicas_open_with_mode(uint32_t replicas, uint32_t members,
                                         enum config_mode mode);
// A server's store counts a key for the entry policy, as if only this server had got a push.
void replicas_count_once(struct replicas *w, uint32_t server, uint32_t key);
void replicas_close(struct replicas *w);
uint64_t replicas_draw(struct replicas *w, uint64_t n); // a number below n

uint32_t replicas_id(uint32_t server); // node id
// Makes the settings of the next table, which replicas_send_table sends to a server, and
// replicas_make_table to all that own a partition.
void replicas_make_spec(struct replicas *w, enum config_mode mode, uint32_t width);
void replicas_send_table(struct replicas *w, uint32_t server);
// Sends the first or second half (0, 1) of a synchronous batch to a server: n keys, and one
// value for each. `number` is that of the push.
void replicas_send_half(struct replicas *w, uint32_t server, uint64_t number,
                        uint64_t clock, int half, uint32_t n, const uint64_t *keys,
                        const float *values);
// Only primaries are to have the rows of the next table.
void replicas_leave_out_backups(struct replicas *w);
void replicas_make_table(struct replicas *w);
// Returns a push or a pull of these keys, which ascend. It is sent when time passes.
struct replicas_op *replicas_add_op(struct replicas *w, bool pull, const uint32_t *keys,
                                    uint32_t n);
bool replicas_op_is_done(const struct replicas_op *o);
bool replicas_all_done(struct replicas *w);
// Returns the value of a key on a server; 0 if the server has no row, or has crashed.
float replicas_value(struct replicas *w, uint32_t server, uint32_t key);
// Checks that all members of each chain have each push exactly once.
void replicas_check_sums(struct replicas *w);

void replicas_run(struct replicas *w, uint64_t ns); // lets time pass
#define REPLICAS_UNTIL(w, condition)                                                     \
    do {                                                                                 \
        uint64_t until_ = sim_now((w)->sim) + 100 * SECOND_NS;                           \
        while (!(condition)) {                                                           \
            if (sim_now((w)->sim) >= until_)                                             \
                fail_msg("seed %llu: it did not come true: %s (%s)",                     \
                         (unsigned long long)(w)->seed, #condition, (w)->refusal);       \
            replicas_run((w), SECOND_NS / 1000);                                         \
        }                                                                                \
    } while (0)

void replicas_crash(struct replicas *w, uint32_t server);
// Takes a server out of all chains, in a new epoch. If it has crashed, it is dead now.
void replicas_take_out(struct replicas *w, uint32_t server);
void replicas_send_rosters(struct replicas *w);
uint32_t replicas_chain_length(const struct replicas *w, uint32_t partition);
// Fills a server with a partition by hash. replicas_end_fill makes the server a member of
// the chain in a new epoch if `well`; otherwise the fill is given up.
void replicas_begin_fill(struct replicas *w, uint32_t partition, uint32_t server);
void replicas_end_fill(struct replicas *w, bool well);

#endif
