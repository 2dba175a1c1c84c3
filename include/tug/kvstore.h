// kvstore: arrays under keys, shared by the workers of a program (MXNet's KVStore), in C.
//
// A store holds arrays. Workers push values, such as gradients, to be combined with a
// key's array, and pull the array. from-mxnet.md in the documentation (share/doc/tug)
// maps mxnet.kvstore's names to these and says what differs.
//
// Types, by substrings of the name in small letters: "dist" is a store of a cluster, with
// "async" one whose servers apply each push at once, else one whose servers wait for a push
// of every worker, add them up in the order of ranks and apply the sum once. Others
// ("local", "device" and names that begin so) are of this process; "device" also compresses.
// "p3" is a synchronous store of a cluster that slices arrays, as others do under
// DMLC_PS_VAN_TYPE=p3: a push of higher priority then overtakes a large one between two slices.
//
// A cluster is a scheduler, S servers and W workers, as in tug/kvapp.h and with the same
// environment; tug_kvstore_serve runs the first two. Nothing that is executed crosses the
// wire: an optimizer is a name and numbers, and what else servers run is linked with them.
//
// Threads: a store is used by one thread at a time. Ownership: arrays, keys, texts and lists
// are the caller's and are read, or written to, during the call only.
//
// Errors: functions return 0 or a code of tug/tug.h, and tug_last_error() is the
// sentence. Beside what is said of a function: TUG_ENOMEM; TUG_EUSAGE for a key that has
// not been made, of the other kind, or an array of another number of elements, which
// names the key; in a cluster the code that it ended with. The error of a push after it
// was sent is returned by the next call for its key, or by tug_kvstore_wait. After an
// error the arrays of a pull may have been written to.
//
// Waits: in a cluster most calls wait for servers, a push only for the push before to the same
// keys; at most wait_seconds of the node's options (TUG_WAIT_SECONDS, 600): TUG_EIO, which names
// who was waited for; or until the program interrupts them (tug_interrupt_by): TUG_EINTERRUPTED.
// Both end the store, as answers may still be on their way: each later call returns that error,
// and what is left to do is to close it.
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

// An array (mxnet.nd.NDArray): `rows` x `width` elements, row after row (one of one
// dimension: n x 1), 1 to 2^40 of them. A sparse one (RowSparseNDArray) holds only the rows
// `ids` (ascending, each once), in this order: n_ids x width elements; it may have none.
struct tug_array {
    enum tug_dtype dtype;
    bool sparse;
    uint64_t rows, width;
    void *data;
    int64_t *ids;   // for a sparse array; only pulls into it write here
    uint64_t n_ids; // likewise
};

// A number, or a name of 1 to 255 bytes if `name` is not NULL. A store's keys are all of
// one kind, which the first one made decides.
struct tug_kvstore_key {
    const char *name;
    int64_t number;
};

// One key of a call; the same key may come several times.
struct tug_kvstore_item {
    struct tug_kvstore_key key;
    struct tug_array *array;
};

struct tug_kvstore;

struct tug_kvstore_options {
    const char *type;                    // NULL: "local"
    const struct tug_node_options *node; // for a cluster; NULL: from the environment
    // Arrays of fewer elements are on one server; others are spread over all of them, by
    // rows. 0: MXNET_KVSTORE_BIGARRAY_BOUND, else 1,000,000. The same at all workers.
    uint64_t big_array;
    // p3: dense arrays of more elements are sent in slices of so many, which lie on all servers
    // in turn. 0: MXNET_KVSTORE_SLICE_THRESHOLD, else 40,000. The same at all workers.
    uint64_t slice;
};

// Opens a store (mxnet.kvstore.create); for a cluster it joins, as a worker, and waits
// until all have joined. `o` may be NULL. TUG_EUSAGE if there is no such type, the
// environment lacks a variable or says that this process is not a worker, or another
// worker's store has another type; TUG_EIO.
TUG_API int tug_kvstore_open(struct tug_kvstore **ret,
                             const struct tug_kvstore_options *o);
// Waits for pushes and, in a cluster, for all workers (tug_kvstore_barrier_before_exit),
// leaves and frees the store. The store is freed even if an error, the first one, is
// returned. NULL is fine.
TUG_API int tug_kvstore_close(struct tug_kvstore *s);
// Sets whether closing waits for the other workers (initially true), as servers end with
// the last (MXNet: barrier_before_exit).
TUG_API void tug_kvstore_barrier_before_exit(struct tug_kvstore *s, bool barrier);

// Facts about the store (mxnet.kvstore: type, rank, num_workers).
TUG_API const char *tug_kvstore_type(const struct tug_kvstore *s); // in lower case
TUG_API bool tug_kvstore_is_dist(const struct tug_kvstore *s);
TUG_API uint32_t tug_kvstore_rank(const struct tug_kvstore *s);    // 0 without a cluster
TUG_API uint32_t tug_kvstore_workers(const struct tug_kvstore *s); // then 1
// Returns whether this worker replaces a dead one and has its rank. tug_kvstore_init then
// neither sends arrays nor waits for others (ps::Postoffice::is_recovery).
TUG_API bool tug_kvstore_recovers(const struct tug_kvstore *s);

// Makes keys with these arrays (init), one after the other: those before a failed one are
// made. Their shapes, dtypes and sparsity are fixed. In a cluster every worker calls it:
// the array of rank 0 counts, and the others wait for it. TUG_EUSAGE if the key exists;
// in a cluster only if its shape or dtype differs, else it is a barrier. Floats must be
// finite, here and in a push: TUG_EUSAGE names the key.
TUG_API int tug_kvstore_init(struct tug_kvstore *s, const struct tug_kvstore_item *items,
                             size_t n);

// Adds up the arrays of each key (push), cast to its dtype (TUG_EUSAGE: an element is
// beyond its range), and gives the sum to the updater or optimizer; without one the sum
// is the new array, and in an asynchronous store that is TUG_EUSAGE. Sparse arrays are
// gradients of their rows only: an optimizer updates no others. All arrays are checked
// before any is taken; if an updater or optimizer fails, earlier keys stay pushed. In a
// cluster the push may still be in flight when this returns; if it fails at some servers
// of a synchronous store, push again: servers that took their part do not take it twice.
// Waiting pushes of higher priority go first.
TUG_API int tug_kvstore_push(struct tug_kvstore *s, const struct tug_kvstore_item *items,
                             size_t n, int priority);
// Pulls the arrays of keys, including this worker's earlier pushes, cast to the dtype of
// each item's array, into its data; values beyond it become the nearest integer, or an
// infinity. A sparse item gets the rows that are not all zero: n_ids and ids are set, and
// both ids and data need room for all `rows`.
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
// TUG_EUSAGE if one of them is dense, or there is no such row.
TUG_API int tug_kvstore_pull_rows(struct tug_kvstore *s,
                                  const struct tug_kvstore_item *items, size_t n,
                                  int priority);
// Waits until all pushes are done; returns the first error among them (mxnet.nd.waitall).
TUG_API int tug_kvstore_wait(struct tug_kvstore *s);

// "NAME" or "NAME:FIELD=NUMBER,..." with the names, fields, defaults and formulas of
// mxnet.optimizer (2.0), which tug_kvstore_optimizer lists. For all: learning_rate, wd,
// rescale_grad (1), clip_gradient (0: none), multi_precision (0; 1: 16-bit arrays are trained as
// 32-bit ones beside them), begin_num_update (0), and
//
//   lr_mult(KEY)=NUMBER, wd_mult(KEY)=NUMBER   of a key: 3, or 'fc1_bias' with '' for a '
//   lr_scheduler=factor,step=100,factor=0.5    in place of a learning_rate that stays; also
//       multifactor,step=5|10,factor=0.1   poly,max_update=100   cosine,max_update=100, each
//       with base_lr, warmup_steps, warmup_begin_lr and warmup_mode (linear or constant)
//
// A scheduler gets begin_num_update + the pushes of the key that has had most, on each server by
// itself. lamb and lars take norms over a key's whole array, which lies on one server then:
// TUG_EUSAGE where a key has been cut before. lars does not scale keys whose names end in gamma,
// beta or bias (layer(KEY)=0 or 1 says otherwise). sgd, adam and lars take lazy_update (1): with
// 0 a sparse gradient changes all rows, as with lamb it always does. test is
// w -= learning_rate (rescale_grad g + wd w) with a learning_rate of -1, which adds. The random
// numbers of sgld depend on its seed (0), the key, the server and the update.
//
// In a cluster the optimizer is the servers', and every worker sets it, all the same one, before
// it pushes: the last that comes to a server is the one. Again with the same name: states stay.
// (MXNet: set_optimizer.) TUG_EUSAGE: no such optimizer, field or number; the servers' program
// has an updater.
TUG_API int tug_kvstore_set_optimizer(struct tug_kvstore *s, const char *text);
// The most updates that the optimizer has given a key, from begin_num_update on. Only in
// a process without a cluster: in a cluster the servers count them (TUG_EUSAGE).
TUG_API int tug_kvstore_num_update(struct tug_kvstore *s, uint64_t *ret);
// The i-th optimizer, from 0, as the text of all its numbers at their defaults, in the order of
// MXNet's arguments; NULL behind the last.
TUG_API const char *tug_kvstore_optimizer(size_t i);
// Returns the learning rate that the scheduler of an optimizer's text gives at an update.
// TUG_EUSAGE as tug_kvstore_set_optimizer.
TUG_API int tug_kvstore_learning_rate(const char *text, uint64_t num_update, double *ret);

// Changes `stored`, in place, by what was pushed to a key. A sparse key is given with all
// its rows (ids NULL), `merged` with the pushed ones. The arguments are valid until the
// function returns. Not 0: the push fails with this code and tug_last_error's sentence.
// So does a push whose updater leaves an element that is not finite. In both cases
// `stored` is put back to what it was. It must not call the store. It runs on the thread
// that pushes, of servers on that of tug_kvstore_server_run.
typedef int (*tug_updater_fn)(void *ctx, const struct tug_kvstore_key *key,
                              const struct tug_array *merged, struct tug_array *stored);
// Sets the updater of a store of one process (set_updater), instead of an optimizer.
// NULL: none. TUG_EUSAGE for a store of a cluster, whose servers have the updaters.
TUG_API int tug_kvstore_set_updater(struct tug_kvstore *s, tug_updater_fn fn, void *ctx);

// "2bit" or "1bit" with a threshold (NAN: 0.5; of 2bit above 0); "none" ends it
// (set_gradient_compression). From now on pushes to keys that are dense and 32-bit floats
// are sent as 2 bits or 1 bit a value, after their arrays were added up; the residual is
// added to the next push (error feedback). With compression, pushes of other dtypes
// return TUG_EUSAGE. In a "device" store each array of a list is compressed by itself, as
// if sent to the others; "local" stores return TUG_EUSAGE.
TUG_API int tug_kvstore_set_compression(struct tug_kvstore *s, const char *type,
                                        float threshold);

// Save and load the optimizer's states in one file, which appears when it is complete
// (save_optimizer_states, load_optimizer_states); in a cluster those of all servers,
// written by the one worker that calls, and loaded into the same number of servers.
// Before a load, keys must be made and the optimizer set; if one server cannot take its
// states, all keep theirs. Both wait for this worker's pushes; while others push, servers
// may be in different rounds. TUG_EUSAGE if there is no optimizer, or another one, or
// another number of servers; TUG_EDATA if the file is damaged or of other keys; TUG_EIO.
TUG_API int tug_kvstore_save_states(struct tug_kvstore *s, const char *file);
TUG_API int tug_kvstore_load_states(struct tug_kvstore *s, const char *file);

// Waits for pushes, and until all workers, of all ranks, have called it (_barrier),
// including the ranks of dead ones. Without a cluster it returns at once.
TUG_API int tug_kvstore_barrier(struct tug_kvstore *s);
// Gets how many nodes of these groups (a sum of enum tug_group) have died, or have left
// without waiting for the others, and have no successor (get_num_dead_node). Without a
// cluster 0.
TUG_API int tug_kvstore_dead(struct tug_kvstore *s, uint32_t groups, uint32_t *ret);
// Sends a command to the controllers of all servers (_send_command_to_servers), whose
// program defines its meaning. Waits for pushes, and until each server has done it.
// TUG_EUSAGE if there are no servers, or their program has no controller; or the
// controller's code.
TUG_API int tug_kvstore_command(struct tug_kvstore *s, int32_t head, const void *body,
                                size_t body_bytes);
// Gets how many pushes to the key all servers have applied, including this worker's: in a
// synchronous store the rounds of all workers. A worker that recovers learns from it the
// round of the others and continues with it: if the dead worker's push to that round was
// taken, its own is not added.
TUG_API int tug_kvstore_rounds(struct tug_kvstore *s, const struct tug_kvstore_key *key,
                               uint64_t *ret);

// Servers and schedulers (mxnet.kvstore_server.KVStoreServer). The thread that calls
// tug_kvstore_server_run, which may be the program's main one, calls updaters and
// controllers.
struct tug_kvstore_server_options {
    const struct tug_node_options *node; // NULL: from the environment
    // A worker's command. Not 0: refused with this code and tug_last_error's sentence.
    int (*controller)(void *ctx, int32_t head, const void *body, size_t body_bytes);
    tug_updater_fn updater; // overrides the workers' optimizer; NULL: uses theirs
    void *ctx;
};
struct tug_kvstore_server;
// Joins as a scheduler or a server and waits until all have joined. `o` may be NULL; its
// updater, controller and ctx must live until the server is closed. TUG_EUSAGE if this
// process is a worker, or its environment lacks a variable; TUG_EIO.
TUG_API int tug_kvstore_server_open(struct tug_kvstore_server **ret,
                                    const struct tug_kvstore_server_options *o);
// Serves for `seconds`, or until the workers have ended: then *ret_over is true, and
// tug_kvstore_server_close returns the cluster's result.
TUG_API int tug_kvstore_server_run(struct tug_kvstore_server *s, double seconds,
                                   bool *ret_over);
// Leaves after all workers, without a time limit, and frees the server, even if an error
// is returned. NULL is fine.
TUG_API int tug_kvstore_server_close(struct tug_kvstore_server *s);
// Calls all three, from the beginning to the end. `o` may be NULL.
TUG_API int tug_kvstore_serve(const struct tug_kvstore_server_options *o);

#ifdef __cplusplus
}
#endif

#endif
