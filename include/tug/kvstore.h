// kvstore: arrays under keys, shared by the workers of a program (MXNet's KVStore), in C.
//
// A store holds arrays. Workers push values, such as gradients, to be combined with a
// key's array, and pull the array. from-mxnet.md in the documentation (share/doc/tug)
// maps mxnet.kvstore's names to these and says what differs.
//
// The name of a type selects a kind of store by the words that it contains, in small or
// capital letters. The store is that of a cluster if the name has "dist". If the name also has
// "async", the servers apply each push at once; else the store is synchronous: the
// servers wait for a push of every worker, add the pushes up in the order of ranks and
// apply the sum once. "p3", or any synchronous type under DMLC_PS_VAN_TYPE=p3, is a
// synchronous store of a cluster that sends large arrays in slices, so that a push of
// higher priority overtakes a large one between two slices. Names that begin with "local"
// or "device" are stores of this process alone; "device" also compresses.
//
// A cluster is a scheduler, S servers and W workers, as in tug/kvapp.h and with the same
// environment; tug_kvstore_serve runs the scheduler and the servers. No code is sent over
// the network: an optimizer is sent as a name and numbers, and updaters and controllers
// are linked into the servers' program.
//
// Threads: a store is used by one thread at a time. Ownership: arrays, keys, texts and lists
// are the caller's and are read, or written to, during the call only.
//
// Errors: functions return 0 or a code of tug/tug.h, and tug_last_error() is the
// sentence. Besides the codes listed with a function, each may return TUG_ENOMEM;
// TUG_EUSAGE, which names the key, for a key that has not been made or is of the other
// kind (number or name), or an array with another number of elements; in a cluster that
// has ended, the code that it ended with. If a push fails after it was sent, the next
// call for its key, or tug_kvstore_wait, returns the error. After an error the arrays of
// a pull may have been written to.
//
// Waits: in a cluster most calls wait for servers; a push waits only for the previous
// push to the same keys. After wait_seconds of the node's options (TUG_WAIT_SECONDS, 600)
// a call returns TUG_EIO, and the sentence names the process that it waited for; if the
// program interrupts it (tug_interrupt_by), it returns TUG_EINTERRUPTED. After either
// error the store can only be closed, as answers may still arrive: each later call
// returns the same error.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KVSTORE_H
#define TUG_KVSTORE_H

#include "tug/kvapp.h"

#ifdef __cplusplus
extern "C" {
#endif

// The type of an array's elements. The values are MXNet's and never change.
enum tug_dtype {
    TUG_FLOAT32 = 0,
    TUG_FLOAT64 = 1,
    TUG_FLOAT16 = 2,
    TUG_INT32 = 4,
    TUG_INT64 = 6,
};

// An array (mxnet.nd.NDArray) of `rows` x `width` elements, 1 to 2^40, row after row; an
// array of one dimension has width 1. A sparse array (RowSparseNDArray) holds only the
// n_ids rows whose numbers are in `ids` (ascending, each once), in this order, n_ids x
// width elements; n_ids may be 0.
struct tug_array {
    enum tug_dtype dtype;
    bool sparse;
    uint64_t rows, width;
    void *data;
    int64_t *ids; // row numbers of a sparse array; only pulls into the array write here
    // Number of rows of a sparse array; only pulls into the array write here.
    uint64_t n_ids;
};

// A key: a name of 1 to 255 bytes, or a number if `name` is NULL. All keys of a store are
// of one kind, that of the first key made.
struct tug_kvstore_key {
    const char *name;
    int64_t number;
};

// A key and its array, in the list of a call; a list may have the same key several times.
struct tug_kvstore_item {
    struct tug_kvstore_key key;
    struct tug_array *array;
};

struct tug_kvstore;

struct tug_kvstore_options {
    const char *type; // NULL: "local"
    // How the node of a cluster's store is opened. If it is NULL, the environment says so.
    const struct tug_node_options *node;
    // An array with fewer elements is stored on one server; others are spread over all
    // servers, by rows. 0: MXNET_KVSTORE_BIGARRAY_BOUND, or 1,000,000. All workers must
    // give the same number.
    uint64_t big_array;
    // For type p3: dense arrays with more elements are sent in slices of so many
    // elements, which are placed on all servers in turn. 0:
    // MXNET_KVSTORE_SLICE_THRESHOLD, or 40,000. All workers must give the same number.
    uint64_t slice;
};

// Opens a store (mxnet.kvstore.create). For the store of a cluster it joins the cluster
// as a worker and waits until all nodes have joined. `o` may be NULL. TUG_EUSAGE if there
// is no such type, the environment lacks a variable or says that this process is not a
// worker, or another worker's store has another type; TUG_EIO if the cluster cannot be
// reached in time.
TUG_API int tug_kvstore_open(struct tug_kvstore **ret,
                             const struct tug_kvstore_options *o);
// Waits for pushes and, in a cluster, for all workers (tug_kvstore_barrier_before_exit),
// leaves the cluster and frees the store. The store is freed even if an error is
// returned, which is the first one. NULL is fine.
TUG_API int tug_kvstore_close(struct tug_kvstore *s);
// Sets whether tug_kvstore_close waits for the other workers (initially true). (MXNet:
// barrier_before_exit.)
TUG_API void tug_kvstore_barrier_before_exit(struct tug_kvstore *s, bool barrier);

// Return facts about the store (mxnet.kvstore: type, rank, num_workers).
TUG_API const char *tug_kvstore_type(const struct tug_kvstore *s); // in lower case
TUG_API bool tug_kvstore_is_dist(const struct tug_kvstore *s);
TUG_API uint32_t tug_kvstore_rank(const struct tug_kvstore *s);    // without a cluster 0
TUG_API uint32_t tug_kvstore_workers(const struct tug_kvstore *s); // without a cluster 1
// Returns whether this worker replaces a dead one and has its rank. tug_kvstore_init then
// neither sends arrays nor waits for others (ps::Postoffice::is_recovery).
TUG_API bool tug_kvstore_recovers(const struct tug_kvstore *s);

// Makes keys with these arrays (init), one after the other; if a key fails, the keys
// before it are made. The shapes, dtypes and sparsity are fixed from then on. In a
// cluster every worker calls it: the keys get the arrays of the worker of rank 0, and the
// others wait for it. TUG_EUSAGE if the key exists; in a cluster only if its shape or
// dtype differs, else the call is only a barrier. Floats must be finite, here and in a
// push: TUG_EUSAGE names the key.
TUG_API int tug_kvstore_init(struct tug_kvstore *s, const struct tug_kvstore_item *items,
                             size_t n);

// Adds up the arrays of each key (push), cast to the key's dtype (TUG_EUSAGE if an
// element is beyond its range), and passes the sum to the updater or optimizer. Without
// one, the sum becomes the key's array; in an asynchronous store it is then TUG_EUSAGE. A
// sparse array has gradients for its own rows, and an optimizer updates no other rows.
// All arrays are checked before the first one is pushed; if an updater or optimizer
// fails, the pushes of earlier keys stay. In a cluster the push may still be in flight
// when this returns; if it fails at some servers of a synchronous store, push again:
// servers that have applied their part do not apply it twice. Pushes that wait to be sent
// go in the order of their priority, the highest first.
TUG_API int tug_kvstore_push(struct tug_kvstore *s, const struct tug_kvstore_item *items,
                             size_t n, int priority);
// Pulls the arrays of keys, including this worker's earlier pushes, cast to the dtype of
// each item's array, into its data; values beyond the range of that dtype become its
// nearest integer, or an infinity. A sparse item gets the rows that are not all zero; the
// call sets n_ids and ids, and both ids and data need room for all `rows`.
TUG_API int tug_kvstore_pull(struct tug_kvstore *s, const struct tug_kvstore_item *items,
                             size_t n, int priority);
// Pushes, then pulls the result (pushpull).
TUG_API int tug_kvstore_push_pull(struct tug_kvstore *s,
                                  const struct tug_kvstore_item *items, size_t n,
                                  const struct tug_kvstore_item *out, size_t n_out,
                                  int priority);
// Inits `items`, then pulls into `out` (broadcast).
TUG_API int tug_kvstore_broadcast(struct tug_kvstore *s,
                                  const struct tug_kvstore_item *items, size_t n,
                                  const struct tug_kvstore_item *out, size_t n_out,
                                  int priority);
// Pulls the rows `ids` of sparse keys into the data of sparse arrays (row_sparse_pull).
// TUG_EUSAGE if a key or array is dense, or a row number is not below the key's `rows`.
TUG_API int tug_kvstore_pull_rows(struct tug_kvstore *s,
                                  const struct tug_kvstore_item *items, size_t n,
                                  int priority);
// Waits until all pushes are done; returns the first error among them (mxnet.nd.waitall).
TUG_API int tug_kvstore_wait(struct tug_kvstore *s);

// "NAME" or "NAME:FIELD=NUMBER,..." with the names, fields, defaults and formulas of
// mxnet.optimizer (2.0), which tug_kvstore_optimizer lists. All optimizers have
// learning_rate, wd, rescale_grad (1), clip_gradient (0: none), multi_precision (0; with
// 1 the weights of 16-bit arrays are also kept in 32 bits, and trained there),
// begin_num_update (0), and
//
//   lr_mult(KEY)=NUMBER, wd_mult(KEY)=NUMBER   of a key: 3, or 'fc1_bias' with '' for a '
//   lr_scheduler=factor,step=100,factor=0.5    in place of a learning_rate that stays; also
//       multifactor,step=5|10,factor=0.1   poly,max_update=100   cosine,max_update=100, each
//       with base_lr, warmup_steps, warmup_begin_lr and warmup_mode (linear or constant)
//
// The number of updates that a scheduler uses is begin_num_update plus the number of
// pushes to the key with the most pushes; each server counts its own. lamb and lars
// compute norms over the whole array of a key, which must be on one server: TUG_EUSAGE if
// a key was spread over servers before the optimizer was set. lars does not scale keys
// whose names end in gamma, beta or bias (layer(KEY)=0 or 1 overrides this). sgd, adam
// and lars have lazy_update (1); with 0 a sparse gradient changes all rows, as it always
// does with lamb. test computes w -= learning_rate (rescale_grad g + wd w) with a
// learning_rate of -1 by default, so that it adds. The random numbers of sgld depend on
// its seed (0), the key, the server and the update.
//
// Sets the optimizer (MXNet: set_optimizer). In a cluster the servers run it, and every
// worker sets the same one before it pushes; a server uses the last one that it receives.
// Setting an optimizer of the same name again keeps the states. TUG_EUSAGE if the name, a
// field or a number is invalid, or the servers' program has an updater.
TUG_API int tug_kvstore_set_optimizer(struct tug_kvstore *s, const char *text);
// Gets begin_num_update plus the number of updates of the key that has had the most.
// TUG_EUSAGE in a cluster, where the servers count updates.
TUG_API int tug_kvstore_num_update(struct tug_kvstore *s, uint64_t *ret);
// Returns the i-th optimizer, from 0, as a text for tug_kvstore_set_optimizer with all
// its fields at their defaults, in the order of MXNet's arguments; NULL if there are no
// more.
TUG_API const char *tug_kvstore_optimizer(size_t i);
// Returns the learning rate after `num_update` updates, by the schedule of the learning
// rate (lr_scheduler) in an optimizer's text.
// TUG_EUSAGE if the name, a field or a number is invalid.
TUG_API int tug_kvstore_learning_rate(const char *text, uint64_t num_update, double *ret);

// An updater changes `stored`, the array of a key, in place, by `merged`, the sum of what
// was pushed. For a sparse key, `stored` has all rows (ids is NULL), and `merged` has the
// pushed ones. The arguments are valid until the function returns. If it does not return
// 0, the push fails with this code and tug_last_error's sentence; a push also fails if
// the updater leaves an element that is not finite. In both cases the store restores the
// old array. An updater must not call the store. It runs on the thread that pushes; on
// servers it runs on the thread of tug_kvstore_server_run.
typedef int (*tug_updater_fn)(void *ctx, const struct tug_kvstore_key *key,
                              const struct tug_array *merged, struct tug_array *stored);
// Sets the updater of a store of one process (set_updater), instead of an optimizer.
// NULL: none. TUG_EUSAGE for a store of a cluster, whose servers have the updaters.
TUG_API int tug_kvstore_set_updater(struct tug_kvstore *s, tug_updater_fn fn, void *ctx);

// Sets the compression of pushes (set_gradient_compression): "2bit" or "1bit" with a
// threshold (NAN: 0.5; 2bit needs one above 0), or "none". From then on pushes to keys
// that are dense and 32-bit floats are sent as 2 bits or 1 bit a value, after their
// arrays were added up; the residual is added to the next push (error feedback). With
// compression, pushes of other dtypes return TUG_EUSAGE. In a "device" store each array
// of a list is compressed by itself, as if it were sent to another device; "local" stores
// return TUG_EUSAGE.
TUG_API int tug_kvstore_set_compression(struct tug_kvstore *s, const char *type,
                                        float threshold);

// Save and load the optimizer's states in one file, which appears when it is complete
// (save_optimizer_states, load_optimizer_states); in a cluster the states of all servers.
// One worker calls them, and the file is on its machine; the states can be loaded into
// the same number of servers only. Before a load, keys must be made and the optimizer
// set; if one server cannot take its states, all keep theirs. Both wait for this worker's
// pushes; if others push meanwhile, the states of different servers may be of different
// rounds. TUG_EUSAGE if there is no optimizer, or the file is of another optimizer or
// another number of servers; TUG_EDATA if the file is damaged or of other keys; TUG_EIO
// if it cannot be read or written.
TUG_API int tug_kvstore_save_states(struct tug_kvstore *s, const char *file);
TUG_API int tug_kvstore_load_states(struct tug_kvstore *s, const char *file);

// Waits for this worker's pushes, and until the workers of all ranks have called it
// (_barrier); for the rank of a dead worker its successor must call it. Without a cluster
// it returns at once.
TUG_API int tug_kvstore_barrier(struct tug_kvstore *s);
// Gets the number of nodes of these groups (a sum of enum tug_group) that have died, or
// have left without waiting for the others, and were not replaced (get_num_dead_node).
// Without a cluster it is 0.
TUG_API int tug_kvstore_dead(struct tug_kvstore *s, uint32_t groups, uint32_t *ret);
// Sends a command to the controllers of all servers (_send_command_to_servers), whose
// program defines its meaning. Waits for this worker's pushes, and until each server has
// run the command. TUG_EUSAGE if there are no servers, or their program has no
// controller; else the code that a controller returned.
TUG_API int tug_kvstore_command(struct tug_kvstore *s, int32_t head, const void *body,
                                size_t body_bytes);
// Gets how many pushes to the key all servers have applied, including this worker's: in a
// synchronous store the rounds of all workers. A worker that replaces a dead one reads
// the round of the others here and continues with that round; if the servers have the
// dead worker's push for it, they do not add another.
TUG_API int tug_kvstore_rounds(struct tug_kvstore *s, const struct tug_kvstore_key *key,
                               uint64_t *ret);

// The options of a server or scheduler (mxnet.kvstore_server.KVStoreServer). Updaters and
// controllers run on the thread that calls tug_kvstore_server_run, which may be the main
// thread.
struct tug_kvstore_server_options {
    const struct tug_node_options *node; // NULL: from the environment
    // Handles a worker's command (tug_kvstore_command). If it does not return 0, the
    // command fails with this code and tug_last_error's sentence.
    int (*controller)(void *ctx, int32_t head, const void *body, size_t body_bytes);
    tug_updater_fn updater; // overrides the workers' optimizer; NULL: uses theirs
    void *ctx;
};
struct tug_kvstore_server;
// Joins as a scheduler or a server and waits until all have joined. `o` may be NULL; its
// updater, controller and ctx must live until the server is closed. TUG_EUSAGE if this
// process is a worker, or its environment lacks a variable; TUG_EIO if the cluster cannot
// be reached in time.
TUG_API int tug_kvstore_server_open(struct tug_kvstore_server **ret,
                                    const struct tug_kvstore_server_options *o);
// Serves for `seconds`, or until the workers have ended: then *ret_over is true, and
// tug_kvstore_server_close returns the cluster's result.
TUG_API int tug_kvstore_server_run(struct tug_kvstore_server *s, double seconds,
                                   bool *ret_over);
// Leaves after all workers, without a time limit, and frees the server, even if an error
// is returned. NULL is fine.
TUG_API int tug_kvstore_server_close(struct tug_kvstore_server *s);
// Opens a server or scheduler, runs it until the workers have ended, and closes it. `o`
// may be NULL.
TUG_API int tug_kvstore_serve(const struct tug_kvstore_server_options *o);

#ifdef __cplusplus
}
#endif

#endif
