// One shard with a van of its own, for tests. The test reads the shard's messages;
// messages to it go through the wire's encoder and decoder, and memory that the shard may
// not use any more is freed at once, so that sanitizers notice any use. The test plays
// the scheduler, the other server and the workers.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_LONE_SHARD_H
#define TUG_KIT_LONE_SHARD_H

#include "cluster/proof.h"
#include "kit/shards.h"
#include "rule/rule.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"

enum {
    ME = 8,
    OTHER = 9,   // id of the other server
    WORKERS = 3, // nodes 10, 11, 12
    WORKER = 10, // id of the first worker
    SCHEDULER_LINK = 1,
    OTHER_LINK = 2,   // link that the shard opens to the other server
    WORKER_LINK = 10, // link of the first worker; the links of other workers follow
    LONE_MANY = 500,  // id of the first of many moves
    CROWD = 1000,     // first number of the further workers' links, nodes and sessions
};

#define CROWD_SESSION ((uint64_t)1 << 20)

uint64_t lone_session(uint32_t i);

// A message together with all memory that it refers to.
struct parcel {
    struct parcel *next;
    van_link link;
    struct wire_out out;
    struct wire_frame frame;
    union wire_any m;
    char *head, *body;
    int pins;
};

struct lone {
    struct van v; // must be the first member
    struct shard *shard;
    struct van_handler h;
    uint64_t now;
    struct parcel *sent, **sent_end; // messages that the shard has sent, in order
    struct parcel *at_hand;          // the message that is being read
    uint64_t next_request, number[WORKERS];
    uint64_t epoch, version;
    uint32_t bits;
    bool mine[1 << 8]; // whether the shard owns each partition
    bool dead[WORKERS];
    uint32_t crowd; // number of further workers; their nodes begin at CROWD
    // Number of these further workers, from the first on, that are no longer in rosters.
    uint32_t crowd_gone;
    int kept;
    // Number of allocations before the shard was opened; SIZE_MAX: they are not compared
    // at the end.
    size_t live;
    // Index of the allocation that fails while the next messages are handled; -1: none
    // fails.
    long fault_after;
    bool faulted;              // the allocation that `fault_after` chose has failed
    van_link closed;           // the last link that the shard has closed
    uint64_t unread[WORKERS];  // bytes that each worker has not read yet
    uint64_t unread_by_others; // bytes that each other peer has not read yet
    bool hears_operations;     // whether MSG_OPERATION is kept for the test
    bool hears_moves;          // whether MSG_MOVE_SAYS is kept
    struct wire_move move;     // the move in rosters; number 0: none
    // Number of further moves to this shard in rosters: partition i has the move
    // LONE_MANY + i.
    uint32_t many;
    // The role with which other peers are accepted; WIRE_NOBODY: as operators.
    enum wire_role role;
};

void parcel_unpin(struct parcel *p);

void lone_deliver(struct lone *w, van_link link, uint16_t type, uint64_t request,
                  const void *msg);
// Returns the oldest message that the test has not read; the caller must unpin it.
struct parcel *lone_next(struct lone *w);
struct parcel *lone_expect(struct lone *w, uint16_t type);
void lone_forget(struct lone *w);
// Sends the first roster with a placement, and opens the sessions of n workers.
void lone_begin(struct lone *w, uint32_t workers);
// Checks that the next message is a refusal with this text.
void lone_expect_refusal(struct lone *w, int code, const char *says);
uint64_t lone_expect_ok(struct lone *w);
// Sends a roster with the current state of the world.
void lone_send_roster(struct lone *w);
// Adds the proof for this session, as a member does; the key is zeros.
void lone_prove_hello(struct msg_hello *hello, uint8_t proof[MAC_BYTES]);
void lone_open_member(struct lone *w, van_link link, uint32_t node, uint64_t session);
void lone_open_worker(struct lone *w, uint32_t i);
struct lone *lone_open_shard(uint32_t bits, const struct shard_options *so);
struct lone *lone_open(uint32_t bits, const struct shard_options *o);
void lone_close(struct lone *w);
void lone_pass_time(struct lone *w, uint64_t ns);
struct table_spec lone_plain_spec(uint32_t id, enum wire_mode mode, uint32_t n);
enum config_place lone_place_of(enum wire_space space);
void lone_send_table(struct lone *w, const struct table_spec *s);
void lone_make_table(struct lone *w, const struct table_spec *s);
// Gets those of the keys 0, step, ..., (n - 1) step that this shard owns, sorted by
// partition. Returns their number.
uint32_t lone_draw_keys(const struct lone *w, enum wire_space space, uint64_t n,
                        uint64_t step, uint64_t *ret);
// Makes a push of worker i with a new number. The caller may change the other fields.
struct msg_push lone_push_of(struct lone *w, uint32_t i, uint32_t table,
                             const uint64_t *keys, uint32_t n, const float *values,
                             uint32_t width);
struct msg_pull lone_pull_of(const struct lone *w, uint32_t i, uint32_t table,
                             const uint64_t *keys, uint32_t n);
void lone_send_push(struct lone *w, uint32_t i, const struct msg_push *m);
void lone_send_pull(struct lone *w, uint32_t i, const struct msg_pull *m);
struct msg_table_is lone_figures(struct lone *w, uint32_t table);

#endif
