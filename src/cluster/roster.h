// The roster: the list of the cluster's members, and the owner of each partition. The
// scheduler makes it, and all nodes have a copy. Its epoch numbers the placement, its
// version the node table.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLUSTER_ROSTER_H
#define TUG_CLUSTER_ROSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "cluster/chains.h"
#include "van/van.h"
#include "wire/wire.h"

enum {
    ROSTER_MAX_NODES = 65535,
    ROSTER_MAX_PARTITION_BITS = 16,
    ROSTER_PARTITION_BITS =
        8, // the default: 256 partitions, as in the tables of a single process
    // The most members of a chain. A chain has one more than there are replicas while a
    // member is replaced: the new one is there, and the old one has not left yet.
    ROSTER_MAX_CHAIN = CHAINS_MAX_REPLICAS + 1,
};

struct roster_node {
    // The node's id, as in ps-lite: the scheduler has 1, servers 8 + 2 * rank and workers
    // 9 + 2 * rank; further loops of a server and replacements of dead workers have
    // higher ids.
    uint32_t id;
    enum wire_role role;
    enum wire_tables tables;
    bool alive;
    uint32_t rank; // rank of the process among the processes of its role
    uint64_t session, process;
    uint16_t loop;
    uint32_t pid;
    char host[64];
    char address[VAN_ADDRESS_MAX];
};

// The move of a partition from its owner to another loop. The move ends with a new owner
// and a new epoch, or it is given up and disappears from the roster.
//
// A move that fills copies the partition from the last member of its chain. The owner
// stays, and in the new epoch the target is the last member.
struct roster_move {
    uint64_t id;
    enum wire_space space;
    uint32_t partition;
    uint32_t to; // node id of the loop that is to be the owner, or the last member
    bool fills;
};

// A table of which only primaries have rows (MSG_UNBACKED).
struct roster_unbacked {
    uint32_t table;
    enum wire_space space;
    uint64_t drops;
};
enum { ROSTER_TABLES = 4096 }; // numbers of tables are smaller

struct roster {
    // The version of the placement; 0 until all servers and workers for which the cluster
    // was made have joined.
    uint64_t epoch;
    uint64_t version; // increased by every change of the roster
    // Generation of the scheduler that made the roster; compared before the version.
    uint64_t generation;
    // The newest session number so far. A session is over if its number is not above this
    // one and no node has the session.
    uint64_t newest;
    uint32_t servers, workers; // number of processes for which the cluster was made
    uint32_t partition_bits;
    uint32_t replicas; // the number of members that chains should have; 1: no backups
    uint32_t n_nodes;
    struct roster_node *nodes;     // sorted by id
    uint32_t *owners[WIRE_SPACES]; // node id of each partition's owner; NULL while epoch
                                   // is 0
    // The backups of each partition in the order in which they become the owner:
    // `replicas` node ids, 0 after the last one. NULL if `replicas` is 1 or epoch is 0.
    uint32_t *backups[WIRE_SPACES];
    struct roster_move *moves; // sorted by space and partition
    uint32_t n_moves;
    struct roster_unbacked *unbacked; // sorted by table
    uint32_t n_unbacked;
};

static inline uint32_t roster_partitions(const struct roster *r)
{
    return (uint32_t)1 << r->partition_bits;
}

void roster_free(struct roster *r);

// Encode and decode a roster. The decoder checks everything: ids must ascend, owners,
// backups and targets of moves must be living servers, and a chain must not have the same
// member twice.
struct buf;
int roster_encode(const struct roster *r, struct buf *nodes, struct buf *owners,
                  struct msg_roster *ret); // *ret points into the two buffers
int roster_decode(struct roster *ret, const struct msg_roster *m, struct err *e);

// Checks that r may follow `before`, whose placement nodes have used already: the numbers
// of partitions and replicas must be the same, and the epoch may not be smaller.
int roster_check_next(const struct roster *before, const struct roster *r, struct err *e);

// Returns the node with this id; NULL if there is none.
const struct roster_node *roster_find(const struct roster *r, uint32_t id);

// Returns the move of a partition; NULL if it stays where it is.
const struct roster_move *roster_move_of(const struct roster *r, enum wire_space space,
                                         uint32_t partition);

// Returns the unbacked table with this number, or NULL.
const struct roster_unbacked *roster_unbacked_find(const struct roster *r,
                                                   uint32_t table);
// Returns whether the space has an unbacked table, so that no primary of it may change.
bool roster_keeps_primaries(const struct roster *r, enum wire_space space);

// Returns a checksum of the owners of all partitions, which is not 0. The epoch must not be
// 0.
uint64_t roster_owners_sum(const struct roster *r);

// The members of a partition's chain are its owner and then its backups; the epoch must
// not be 0. Without replicas the owner is the only member.
//
// roster_chain writes the members' ids to `ret` and returns their number. roster_tail
// returns the last member. roster_next and roster_previous return the member after and
// before the node `id`; 0 if no member is there, or the node is not a member.
uint32_t roster_chain(const struct roster *r, enum wire_space space, uint32_t partition,
                      uint32_t ret[ROSTER_MAX_CHAIN]);
uint32_t roster_tail(const struct roster *r, enum wire_space space, uint32_t partition);
bool roster_is_member(const struct roster *r, enum wire_space space, uint32_t partition,
                      uint32_t id);
uint32_t roster_next(const struct roster *r, enum wire_space space, uint32_t partition,
                     uint32_t id);
uint32_t roster_previous(const struct roster *r, enum wire_space space,
                         uint32_t partition, uint32_t id);

// Returns whether the session is over. A session that is newer than the roster does not
// count as over, because it may have begun after the roster was made.
bool roster_session_over(const struct roster *r, uint64_t session);

// Writes "worker 1 (host:pid)" for messages. Returns `to`.
enum { ROSTER_NAME_MAX = 128 };
const char *roster_name(const struct roster_node *n, char to[ROSTER_NAME_MAX]);
// Writes the name of the node with this id, or "node 12" if the roster does not have it.
// Returns `to`.
const char *roster_name_of(const struct roster *r, uint32_t id, char to[ROSTER_NAME_MAX]);

// Returns the partition of a key: the upper bits of the key itself in WIRE_SPACE_RANGE,
// and of its hash in other spaces.
static inline uint32_t roster_partition(uint32_t bits, enum wire_space space,
                                        uint64_t key)
{
    uint64_t h = space == WIRE_SPACE_RANGE ? key : mix64(key);
    return bits == 0 ? 0 : (uint32_t)(h >> (64 - bits));
}

#endif
