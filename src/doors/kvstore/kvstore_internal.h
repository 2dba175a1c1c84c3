// Shared by the files of a kvstore.
//
//   kvstore.c    opening and closing, keys, the public calls
//   type.c       names of types
//   states.c     optimizers, updaters, compression, files of states
//   dist.c       joining a cluster; requests other than pushes and pulls
//   who.c        names the workers that a wait is for
//   parts.c      pushes and pulls in a cluster, with arrays cut among servers
//   array.c      arrays and their sums
//   value.c      stored arrays, in a process alone or on a server
//   optimizer.c  optimizers: see optimizer.h
//   coding.c     compression
//   block.c      reference-counted memory of arrays
//   by_key.c     keys, and lists by key
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DOORS_KVSTORE_KVSTORE_INTERNAL_H
#define TUG_DOORS_KVSTORE_KVSTORE_INTERNAL_H

#include "doors/kvstore/coding.h"
#include "doors/kvstore/value.h"
#include "doors/kvstore/wire.h"
#include "runtime/last_error.h"

#define KVS_NONE ((size_t)-1)

// The part of an array that one server stores.
struct kvs_piece {
    uint32_t server;
    // First row and number of rows. struct kvs_entry says what a row of an array is.
    uint64_t first, rows;
    uint32_t slice; // number of the slice in the slice's key; 0 if the key is not sliced
    uint64_t id;    // id of the key, or of the slice
    char *send;     // the key and words of a push, until it is answered
    size_t cap_send, send_bytes;
    enum kvs_cmd cmd; // the kind of request in `send`
    bool pending;
    uint32_t timestamp;
};

// A key, as a worker's store records it.
struct kvs_entry {
    struct kvs_key key;
    struct tug_array shape;  // dtype and shape, without data
    struct kvs_value *value; // the array, in a process without a cluster; else NULL
    // Number and size of the rows by which the array is cut into pieces. If there are
    // fewer rows than servers, each element counts as a row.
    uint64_t rows, width;
    // In a synchronous store: the number of rounds in which this rank has pushed.
    uint64_t rounds;
    // Number of the key's push in flight, among all pushes of the store; 0: none.
    uint64_t sent;
    struct err late; // error of an earlier push, which the key's next call returns
    uint32_t n_pieces;
    struct kvs_piece *pieces;
    float **left; // residuals of compression, one array for each array of a push
    size_t n_left;
    uint64_t call;      // number of the last call that has this key among its items
    size_t first, last; // the key's first and last item in that call
};

// A copy of a server's id and range, which never change. (The node's own list of servers is
// replaced with every roster, and can be read only with the van.)
struct kvs_place {
    uint32_t id;
    uint64_t first_key; // first key of the server's range
};

// An answer to a request other than a push or pull.
struct kvs_reply {
    struct kvs_reply *next;
    uint32_t timestamp, sender;
    size_t n;
    char bytes[];
};

// For what a request waits at a server.
enum kvs_await { KVS_AWAIT_INIT, KVS_AWAIT_ROUND, KVS_AWAIT_BARRIER };
struct kvs_awaited {
    // The awaited event: a key is made, all workers have pushed to it, or all workers have
    // reached a barrier.
    enum kvs_await what;
    uint32_t server;
    uint64_t id;     // id of the key, or of one of its slices
    const char *key; // the key as errors name it
};

struct tug_kvstore {
    char type[64];
    bool dist, async, device;
    uint64_t big_array;
    uint64_t slice;   // number of elements of a slice; 0: arrays are not sliced
    bool keeps_whole; // the optimizer needs new arrays to be stored whole on one server
    bool barrier_before_exit;
    // `keys_known`: a key was made; `keys_named`: keys are names, not numbers.
    bool keys_known, keys_named;
    struct kvs_by_key entries; // list of struct kvs_entry
    uint64_t calls;
    struct kvs_rows sum;   // sum of a push's arrays for a key
    struct kvs_rows coded; // an array decoded after compression
    uint32_t *words;
    size_t cap_words;

    struct kvs_values values; // the arrays, in a process without a cluster
    struct kvs_rule rule;

    enum kvs_coding coding;
    float threshold;

    struct tug_node *node;
    struct tug_app *app;
    uint32_t rank, workers, servers;
    struct kvs_place *places; // the servers by rank
    uint64_t pushes;          // number of pushes sent
    size_t under_way; // number of pieces of pushes whose end was not waited for yet
    uint32_t warned;  // number of warnings about long waits; each doubles the time to the
                      // next warning
    bool recovers;
    struct kvs_reply *replies;
    // Error of a wait that was given up, after which the store has ended.
    struct err failed;
};

// The items of a call, linked by key: the items of entry x have the indices x->first,
// next[x->first] and so on.
struct kvs_items {
    const struct tug_kvstore_item *items;
    size_t n;
    struct kvs_entry **of;
    size_t *next;
};
// Adds up the call's items of one key. The data of *ret is the caller's array or that of
// s->sum.
int kvs_sum(struct tug_kvstore *s, const struct kvs_items *t, struct kvs_entry *x,
            struct tug_array *ret, struct err *e);
// Copies the dense array `a` into an item's array.
void kvs_give(const struct tug_array *a, struct tug_array *to);
// Returns the residual of the i-th array of a push; NULL if there is not enough memory.
float *kvs_left(struct kvs_entry *x, size_t i);
// Makes room for n words in s->words.
int kvs_words(struct tug_kvstore *s, size_t n, struct err *e);

int kvs_type_read(struct tug_kvstore *s, const struct tug_kvstore_options *o,
                  struct err *e);

// Defined in dist.c:
// Gets the role of this process from its options and its environment, before it joins.
int kvs_role(const struct tug_node_options *o, int *ret, struct err *e);
int kvs_dist_open(struct tug_kvstore *s, const struct tug_node_options *o);
int kvs_dist_close(struct tug_kvstore *s);
int kvs_dist_usable(const struct tug_kvstore *s);
// Waits for a request. A wait that times out or is interrupted ends the store. If `w`, the
// awaited event, is not NULL, warnings and the error name the missing workers.
int kvs_dist_wait(struct tug_kvstore *s, uint32_t timestamp, const struct kvs_awaited *w);
enum { KVS_ALL_SERVERS = -1 };
int kvs_dist_ask(struct tug_kvstore *s, enum kvs_ask what, int server, const void *body,
                 size_t n, uint32_t *ret_timestamp);
// Returns a server's answer to a request, which the caller frees with mem_free; NULL if
// there is none.
struct kvs_reply *kvs_dist_reply(struct tug_kvstore *s, uint32_t timestamp,
                                 uint32_t server);
// Sends a request and waits until it is done. The contents of answers are dropped.
int kvs_dist_tell(struct tug_kvstore *s, enum kvs_ask what, int server, const void *body,
                  size_t n);

// Waits until a server has a piece of a key, and gets its settings of the piece.
int kvs_dist_meta(struct tug_kvstore *s, const struct kvs_entry *x,
                  const struct kvs_piece *p, struct kvs_meta *ret);

// Defined in who.c:
// Waits for a request as tug_app_wait does. A warning after a part of the time limit, and
// the error after all of it, name the missing workers.
int kvs_who_wait(struct tug_kvstore *s, uint32_t timestamp, const struct kvs_awaited *w);

// Defined in parts.c:
int kvs_parts_cut(struct tug_kvstore *s, struct kvs_entry *x, struct err *e);
void kvs_parts_free(struct kvs_entry *x);
int kvs_parts_init(struct tug_kvstore *s, struct kvs_entry *x, const struct tug_array *a);
// Waits for the key's push in flight, if any, and returns its error.
int kvs_parts_settle(struct tug_kvstore *s, struct kvs_entry *x);
// Gets the number of pushes to the key that all servers have applied.
int kvs_parts_rounds(struct tug_kvstore *s, struct kvs_entry *x, uint64_t *ret);
// Push an array: kvs_parts_write settles the key's previous push, checks the array and
// writes the requests, which kvs_parts_send sends.
int kvs_parts_write(struct tug_kvstore *s, struct kvs_entry *x,
                    const struct tug_array *a);
int kvs_parts_send(struct tug_kvstore *s, struct kvs_entry *x, int priority);
int kvs_parts_pull(struct tug_kvstore *s, const struct kvs_items *t, int priority);
int kvs_parts_pull_rows(struct tug_kvstore *s, struct kvs_entry *x, struct tug_array *to,
                        int priority);

#endif
