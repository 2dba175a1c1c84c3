// One shard under its own van for tests: the test reads the shard's messages, messages to
// it go through the wire's encoder and decoder, and memory that it may not use any more
// is freed at once, so that the sanitizers see who does. The test plays the scheduler,
// the other server and the workers.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_LONE_SHARD_H
#define TUG_KIT_LONE_SHARD_H

#include "cluster/proof.h"
#include "kit/shards.h"
#include "rule/rule.h"
#include "server/shard_internal.h"
#include "server/tables.h"

enum {
    ME = 8,
    OTHER = 9,   // the other server
    WORKERS = 3, // nodes 10, 11, 12
    WORKER = 10, // the first one
    SCHEDULER_LINK = 1,
    WORKER_LINK = 10, // of the first one, and so on
    CROWD = 1000, // numbers of links and nodes of workers besides, and of their sessions
};

#define CROWD_SESSION ((uint64_t)1 << 20)

uint64_t lone_session(uint32_t i);

// A message with all that it points at.
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
    struct van v; // first
    struct shard *shard;
    struct van_handler h;
    uint64_t now;
    struct parcel *sent, **sent_end; // by the shard, in order
    struct parcel *at_hand;          // being handled
    uint64_t next_request, number[WORKERS];
    uint64_t epoch, version;
    uint32_t bits;
    bool mine[1 << 8]; // whose each partition is
    bool dead[WORKERS];
    uint32_t crowd;      // workers besides, nodes CROWD and so on
    uint32_t crowd_gone; // of them the first, which are in no roster any more
    int kept;
    size_t live;              // allocations before it was opened; SIZE_MAX: not looked at
    long fault_after;         // the allocation of the next messages that fails; -1: none
    bool faulted;             // it did
    van_link closed;          // by the shard, the last one
    uint64_t unread[WORKERS]; // bytes that wait to be read by each
    bool hears_orders;        // MSG_ORDERED is looked at
    enum wire_role role;      // as what others are let in; WIRE_NOBODY: operators
};

void parcel_unpin(struct parcel *p);

void lone_deliver(struct lone *w, van_link link, uint16_t type, uint64_t request,
                  const void *msg);
// Returns the oldest unread message, which the caller must unpin.
struct parcel *lone_next(struct lone *w);
struct parcel *lone_expect(struct lone *w, uint16_t type);
void lone_forget(struct lone *w);
// The next message is a refusal that says this.
void lone_expect_refusal(struct lone *w, int code, const char *says);
uint64_t lone_expect_ok(struct lone *w);
// The scheduler tells what is in the world now.
void lone_send_roster(struct lone *w);
// Proves that session, as a member does; the key is zeros.
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
// Keys 0 .. n - 1 times `step`, those of this shard, by ascending partition. Returns how
// many there are.
uint32_t lone_draw_keys(const struct lone *w, enum wire_space space, uint64_t n,
                        uint64_t step, uint64_t *ret);
// A push of worker i with a number of its own; all fields that it does not set are the
// caller's to change.
struct msg_push lone_push_of(struct lone *w, uint32_t i, uint32_t table,
                             const uint64_t *keys, uint32_t n, const float *values,
                             uint32_t width);
struct msg_pull lone_pull_of(const struct lone *w, uint32_t i, uint32_t table,
                             const uint64_t *keys, uint32_t n);
void lone_send_push(struct lone *w, uint32_t i, const struct msg_push *m);
void lone_send_pull(struct lone *w, uint32_t i, const struct msg_pull *m);
struct msg_table_is lone_figures(struct lone *w, uint32_t table);

#endif
