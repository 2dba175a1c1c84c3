// A small cluster in a simulated network for tests of the client. Its scheduler sends the
// messages that the test wants. Its servers have all rows in one place, so partitions
// move at once. A server applies each push once in each partition, as shards do.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_FAKE_SERVERS_H
#define TUG_KIT_FAKE_SERVERS_H

#include "client/private.h"
#include "kit/sim.h"

enum {
    BITS = 4,
    PARTITIONS = 1 << BITS,
    WIDTH = 3,
    KEYS = 300,
    MAX_SERVERS = 3,
    MAX_NUMBER = 4096,
    FIRST_NODE = 8,
    TABLE = 7,
    LISTS = 512,
};

struct cluster;

struct server {
    struct cluster *cluster;
    struct van *van;
    uint32_t node;
    uint64_t lists[LISTS]; // signatures of the key lists that the server knows
    uint64_t *list_keys[LISTS];
    uint32_t list_n[LISTS], n_lists;
    bool mute; // the server answers nothing
    bool dead; // rosters say that the server is dead
    // Number of pushes and pulls that the server still refuses for lack of room.
    uint32_t full;
    bool forgetful;    // the server forgets all key lists
    uint8_t flags;     // flags that the server sets by mistake in answers with rows
    const char *error; // error with which the server answers pushes and pulls
    // Lets a test answer a message; returns true if the test has answered.
    bool (*answers)(struct server *s, van_link link, const struct van_message *m);
    uint64_t pushes, examples, list_hits, packed;
};

struct cluster {
    struct sim *sim;
    struct van *scheduler;
    van_link member; // the client's link to the scheduler
    uint32_t n_servers;
    struct server servers[MAX_SERVERS];
    uint32_t owners[PARTITIONS];
    uint64_t epoch;
    uint64_t deaths;   // servers that died or left without a new epoch
    bool handing_over; // the scheduler does not keep the placement yet
    bool held;         // the client has asked the scheduler to hold the placement
    uint32_t holds;    // number of times that the client has asked to hold the placement
    struct client *client;
    struct van *van;

    uint64_t keys[KEYS];
    float rows[KEYS][WIDTH];
    uint8_t applied[MAX_NUMBER][PARTITIONS];
    uint64_t low;
    uint64_t out_of_window; // number of pushes above low + SHARD_WINDOW
    uint64_t highest;       // the largest number of a push that was applied
};

uint32_t fake_partition(uint64_t key);
size_t fake_key(const struct cluster *c, uint64_t key);
uint64_t fake_never(void *ctx, uint64_t now);
// Moves a partition to another server; if `tell`, the client gets the new roster.
void fake_move(struct cluster *c, uint32_t partition, uint32_t server, bool tell);
// Tells the client that a server has died or left, in a roster of the same epoch.
void fake_die(struct cluster *c, uint32_t server);
void fake_refuse(struct server *s, van_link link, uint64_t request, int code,
                 const char *what);
bool fake_run_until(struct cluster *c, bool (*over)(struct cluster *c), uint64_t ns);
bool fake_is_idle(struct cluster *c);
bool fake_step(struct cluster *c, uint64_t ns);
int fake_wait(struct cluster *c, client_ts ts, struct err *e);
struct table_config fake_sums(void);
struct client_options fake_usual(void);
// Opens a client that has joined and made the table. `o` is NULL for the usual options.
struct cluster *fake_open(uint32_t servers, uint64_t seed,
                          const struct client_options *o);
void fake_close(struct cluster *c);
// Draws a random set of distinct keys, unsorted. Returns their number.
size_t fake_draw_keys(const struct cluster *c, uint64_t seed, uint64_t draw,
                      uint64_t *ret);

#endif
