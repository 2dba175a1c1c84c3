// Shared by the files of a kvstore.
//
//   kvstore.c    its life, its keys, the calls
//   type.c       names of types
//   states.c     optimizers, updaters, compression, files of states
//   dist.c       a worker's place in the cluster; requests that are no pushes
//   parts.c      pushes and pulls of a cluster: arrays cut among servers
//   array.c      arrays and their sums
//   value.c      arrays that are kept, in a process alone or on a server
//   optimizer.c  optimizers: see optimizer.h
//   coding.c     compression
//   block.c      memory that answers are sent from
//   by_key.c     keys, and lists in their order
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KVSTORE_KVSTORE_INTERNAL_H
#define TUG_KVSTORE_KVSTORE_INTERNAL_H

#include "facade/last_error.h"
#include "kvstore/coding.h"
#include "kvstore/value.h"
#include "kvstore/wire.h"

#define KVS_NONE ((size_t)-1)

// A piece of an array on one server.
struct kvs_piece {
    uint32_t server;
    uint64_t first, rows; // rows of the cut
    uint32_t slice;       // its number among the slices of a key; else 0
    uint64_t id;          // of the key, or of the slice
    char *send;           // a push that is written, or under way: its key and words
    size_t cap_send, send_bytes;
    enum kvs_cmd cmd; // what it is
    bool pending;
    uint32_t timestamp;
};

// A key of this store.
struct kvs_entry {
    struct kvs_key key;
    struct tug_array shape;  // without data
    struct kvs_value *value; // of a process alone
    // The array as it is cut: its rows or, where these are fewer than servers, elements.
    uint64_t rows, width;
    uint64_t rounds; // of a synchronous store: those that have a push of this rank
    uint64_t sent;   // when its push was: the number of that push; 0: none is under way
    struct err late; // of a push that made room; the key's next call returns it
    uint32_t n_pieces;
    struct kvs_piece *pieces;
    float **left; // of compression: an array for each that a push has
    size_t n_left;
    uint64_t call;      // that it was last seen in
    size_t first, last; // items of that call
};

// The address of a server. The node's own list changes with every roster, also while a
// thread without the van reads it; for an existing server these two never change.
struct kvs_place {
    uint32_t id;
    uint64_t first_key; // of its range
};

// An answer to a request other than a push or pull.
struct kvs_reply {
    struct kvs_reply *next;
    uint32_t timestamp, sender;
    size_t n;
    char bytes[];
};

struct tug_kvstore {
    char type[64];
    bool dist, async, device;
    uint64_t big_array;
    uint64_t slice;   // elements of a slice; 0: arrays are not sliced
    bool keeps_whole; // the optimizer wants arrays uncut that are made from now on
    bool barrier_before_exit;
    bool keys_known, keys_named; // of which kind
    struct kvs_by_key entries;   // of struct kvs_entry
    uint64_t calls;
    struct kvs_rows sum;   // of what a push has for a key
    struct kvs_rows coded; // an array on its way through a compression
    uint32_t *words;
    size_t cap_words;

    struct kvs_values values; // of a process alone
    struct kvs_rule rule;

    enum kvs_coding coding;
    float threshold;

    struct tug_node *node;
    struct tug_app *app;
    uint32_t rank, workers, servers;
    struct kvs_place *places; // by rank of the server
    uint64_t pushes;          // that were sent
    size_t under_way;         // pieces of pushes whose answers were not waited for
    bool recovers;
    struct kvs_reply *replies;
    struct err failed; // a wait took too long: the store cannot continue
};

// The items of a call, by key: of entry x items x->first, next[x->first] and so on.
struct kvs_items {
    const struct tug_kvstore_item *items;
    size_t n;
    struct kvs_entry **of;
    size_t *next;
};
// Items of one key, added up: what `ret` points at is the caller's or s->sum.
int kvs_sum(struct tug_kvstore *s, const struct kvs_items *t, struct kvs_entry *x,
            struct tug_array *ret, struct err *e);
// Copies the dense array `a` into an item's array.
void kvs_give(const struct tug_array *a, struct tug_array *to);
// Returns the residual of the i-th array of a push; NULL if memory is out.
float *kvs_left(struct kvs_entry *x, size_t i);
int kvs_words(struct tug_kvstore *s, size_t n, struct err *e); // room in s->words

int kvs_type_read(struct tug_kvstore *s, const struct tug_kvstore_options *o,
                  struct err *e);

// dist.c
// The role that a process has, by its options and its environment, before it joins.
int kvs_role(const struct tug_node_options *o, int *ret, struct err *e);
int kvs_dist_open(struct tug_kvstore *s, const struct tug_node_options *o);
int kvs_dist_close(struct tug_kvstore *s);
int kvs_dist_usable(const struct tug_kvstore *s);
// Waits for a request; one that takes too long ends the store.
int kvs_dist_wait(struct tug_kvstore *s, uint32_t timestamp);
enum { KVS_ALL_SERVERS = -1 };
int kvs_dist_ask(struct tug_kvstore *s, enum kvs_ask what, int server, const void *body,
                 size_t n, uint32_t *ret_timestamp);
// Takes an answer of a server; NULL if there is none. Freed by mem_free.
struct kvs_reply *kvs_dist_reply(struct tug_kvstore *s, uint32_t timestamp,
                                 uint32_t server);
// Asks and waits; answers are dropped.
int kvs_dist_tell(struct tug_kvstore *s, enum kvs_ask what, int server, const void *body,
                  size_t n);

// A server's settings of its part of a key, once it was made there.
int kvs_dist_meta(struct tug_kvstore *s, uint64_t id, uint32_t server,
                  struct kvs_meta *ret);

// parts.c
int kvs_parts_cut(struct tug_kvstore *s, struct kvs_entry *x, struct err *e);
void kvs_parts_free(struct kvs_entry *x);
int kvs_parts_init(struct tug_kvstore *s, struct kvs_entry *x, const struct tug_array *a);
int kvs_parts_settle(struct tug_kvstore *s, struct kvs_entry *x); // its push
// The number of pushes that all servers have applied.
int kvs_parts_rounds(struct tug_kvstore *s, struct kvs_entry *x, uint64_t *ret);
// A push is written, which looks at what is pushed, and then sent. The one before is settled.
int kvs_parts_write(struct tug_kvstore *s, struct kvs_entry *x,
                    const struct tug_array *a);
int kvs_parts_send(struct tug_kvstore *s, struct kvs_entry *x, int priority);
int kvs_parts_pull(struct tug_kvstore *s, const struct kvs_items *t, int priority);
int kvs_parts_pull_rows(struct tug_kvstore *s, struct kvs_entry *x, struct tug_array *to,
                        int priority);

#endif
