// kvstore: arrays under keys, shared by the workers of a program (MXNet's KVStore), in C.
//
// A store holds arrays. Workers push values, such as gradients, to be combined with a
// key's array, and pull the array. from-mxnet.md in the documentation (share/doc/tug)
// maps mxnet.kvstore's names to these and says what differs.
//
// The name of a type selects a kind of store by the words that it contains, in small or
// capital letters. A type with "dist" is a store of a cluster. If it also has "async", the
// servers apply each push at once; without it the store is synchronous: the servers wait
// for a push from every worker, add these pushes in the order of ranks and apply the sum
// once. "p3", or any synchronous type under DMLC_PS_VAN_TYPE=p3, is a synchronous store
// of a cluster that sends large arrays in slices, so that a push of higher priority can
// be sent between two slices of an array. Names that begin with "local" or "device" are
// stores of this process alone; "device" also compresses.
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
// TUG_EUSAGE if a key has not been made or is of the other kind (number or name), or an
// array has another number of elements (tug_last_error names the key); and the code with
// which the cluster ended, if it has ended. If a push fails after it was sent, the next
// call for its key, or tug_kvstore_wait, returns the error. After an error a pull may
// have written to its arrays.
//
// Waits: in a cluster most calls wait for servers; a push waits only for the previous push
// to the same keys. After wait_seconds of the node's options (TUG_WAIT_SECONDS, 600) a
// call returns TUG_EIO, and tug_last_error names the awaited process; if the program
// interrupts it (tug_interrupt_by), it returns TUG_EINTERRUPTED. After either error the
// store can only be closed, because answers may still arrive: each later call returns the
// same error.
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

// An array (mxnet.nd.NDArray). A dense array holds `rows` x `width` elements (1 to 2^40),
// row after row; an array of one dimension has width 1. A sparse array (RowSparseNDArray)
// holds n_ids x width elements: only those n_ids rows whose numbers are in `ids`, which
// are ascending and distinct. n_ids may be 0.
struct tug_array {
    enum tug_dtype dtype;
    bool sparse;
    uint64_t rows, width;
    void *data;
    int64_t *ids; // row numbers of a sparse array; only pulls into the array write here
    // Number of rows that a sparse array holds; only pulls into the array write here.
    uint64_t n_ids;
};

// A key: a name of 1 to 255 bytes, or, if `name` is NULL, a number. The first key that is
// made decides whether all keys of a store are names or numbers.
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
    // The options of the node through which a store of a cluster joins. NULL: they are
    // taken from the environment.
    const struct tug_node_options *node;
    // An array with fewer elements than this is stored on one server; the rows of a
    // larger one are spread over all servers. 0: MXNET_KVSTORE_BIGARRAY_BOUND, or
    // 1,000,000. All workers must give the same number.
    uint64_t big_array;
    // For type p3: a dense array with more elements than this is sent in slices of this
    // many elements, which are placed on all servers in turn. 0:
    // MXNET_KVSTORE_SLICE_THRESHOLD, or 40,000. All workers must give the same number.
    uint64_t slice;
};

// Opens a store (mxnet.kvstore.create). For a store of a cluster, the call joins the
// cluster as a worker and waits until all nodes have joined. `o` may be NULL. TUG_EUSAGE
// if there is no such type, the environment lacks a variable or says that this process is
// not a worker, or another worker's store has another type; TUG_EIO if the cluster cannot
// be reached in time.
TUG_API int tug_kvstore_open(struct tug_kvstore **ret,
                             const struct tug_kvstore_options *o);
// Waits for pushes and, in a cluster, for all workers (tug_kvstore_barrier_before_exit),
// leaves the cluster and frees the store. The store is freed even if the call returns an
// error, which is the first that occurred. `s` may be NULL.
TUG_API int tug_kvstore_close(struct tug_kvstore *s);
// Sets whether tug_kvstore_close waits for the other workers (initially true). (MXNet:
// barrier_before_exit.)
TUG_API void tug_kvstore_barrier_before_exit(struct tug_kvstore *s, bool barrier);

// These functions return the store's type in lower case, whether it is a store of a
// cluster, this worker's rank, and the number of workers (mxnet.kvstore: type, rank,
// num_workers). They do not wait.
TUG_API const char *tug_kvstore_type(const struct tug_kvstore *s);
TUG_API bool tug_kvstore_is_dist(const struct tug_kvstore *s);
TUG_API uint32_t tug_kvstore_rank(const struct tug_kvstore *s);    // 0 without a cluster
TUG_API uint32_t tug_kvstore_workers(const struct tug_kvstore *s); // 1 without a cluster
// Returns whether this worker replaces a dead worker and has its rank
// (ps::Postoffice::is_recovery). In that case tug_kvstore_init neither sends arrays nor
// waits for other workers.
TUG_API bool tug_kvstore_recovers(const struct tug_kvstore *s);

// Makes keys with these arrays (init), one after the other; if a key fails, the keys
// before it are made. The shapes, dtypes and sparsity are fixed from then on. In a
// cluster every worker calls it: the keys get the arrays of the worker of rank 0, and the
// other workers wait for that worker. TUG_EUSAGE if a key exists already; in a cluster a
// key may exist with the same shape and dtype, and the call is then only a barrier.
// Floats must be finite, here and in a push: TUG_EUSAGE names the key.
TUG_API int tug_kvstore_init(struct tug_kvstore *s, const struct tug_kvstore_item *items,
                             size_t n);

// Adds up the arrays of each key in the list (push), cast to the key's dtype (TUG_EUSAGE
// if an element is beyond its range), and passes the sum to the updater or optimizer. If
// there is neither, the sum becomes the key's array; an asynchronous store then returns
// TUG_EUSAGE. A sparse array has gradients only of the rows that it holds, and an
// optimizer updates only these rows. All arrays are checked before the first one is
// pushed; if an updater or optimizer fails, the pushes of earlier keys stay. In a cluster
// the push may still be in flight when the call returns. If a push to a synchronous store
// fails at some servers, push again: servers that have applied their part ignore the
// second push. Pushes that wait to be sent go in the order of their priority, the highest
// first.
TUG_API int tug_kvstore_push(struct tug_kvstore *s, const struct tug_kvstore_item *items,
                             size_t n, int priority);
// Pulls the array of each key into the data of its item's array, cast to the dtype of
// that array. The pulled array includes this worker's earlier pushes. A value beyond the
// range of the dtype becomes the nearest integer of that dtype, or an infinity. A sparse
// array gets the rows that are not all zero: the call sets n_ids and ids, and both ids
// and data need room for all `rows`.
TUG_API int tug_kvstore_pull(struct tug_kvstore *s, const struct tug_kvstore_item *items,
                             size_t n, int priority);
// Pushes `items`, then pulls the results into `out` (pushpull).
TUG_API int tug_kvstore_push_pull(struct tug_kvstore *s,
                                  const struct tug_kvstore_item *items, size_t n,
                                  const struct tug_kvstore_item *out, size_t n_out,
                                  int priority);
// Calls tug_kvstore_init for `items`, then pulls into `out` (broadcast).
TUG_API int tug_kvstore_broadcast(struct tug_kvstore *s,
                                  const struct tug_kvstore_item *items, size_t n,
                                  const struct tug_kvstore_item *out, size_t n_out,
                                  int priority);
// Pulls single rows of sparse keys (row_sparse_pull). Each item has a sparse array: `ids`
// has the numbers of the rows, and their values are written to `data`. TUG_EUSAGE if a
// key or array is dense, or a row number is not below the key's `rows`.
TUG_API int tug_kvstore_pull_rows(struct tug_kvstore *s,
                                  const struct tug_kvstore_item *items, size_t n,
                                  int priority);
// Waits until all of this worker's pushes are done, and returns the first error among
// them (mxnet.nd.waitall).
TUG_API int tug_kvstore_wait(struct tug_kvstore *s);

// The text of an optimizer is "NAME" or "NAME:FIELD=NUMBER,...", with the names, fields,
// defaults and formulas of mxnet.optimizer (2.0), which tug_kvstore_optimizer lists. All
// optimizers have learning_rate, wd, rescale_grad (1), clip_gradient (0: none),
// multi_precision (0; with 1 the weights of 16-bit arrays are also kept in 32 bits, and
// trained there), begin_num_update (0), and
//
//   lr_mult(KEY)=NUMBER, wd_mult(KEY)=NUMBER   multipliers for one key, such as lr_mult(3)
//       or lr_mult('fc1_bias'); a quote within the name is doubled
//   lr_scheduler=factor,step=100,factor=0.5    instead of a constant learning_rate; also
//       multifactor,step=5|10,factor=0.1   poly,max_update=100   cosine,max_update=100, each
//       with base_lr, warmup_steps, warmup_begin_lr and warmup_mode (linear or constant)
//
// An lr_scheduler computes the rate from begin_num_update plus the number of pushes to
// the key with the most pushes; each server counts only its own pushes. lamb and lars
// compute norms over the whole array of a key, which must be on one server: TUG_EUSAGE if
// a key was spread over servers before the optimizer was set. lars does not scale keys
// whose names end in gamma, beta or bias (layer(KEY)=0 or 1 overrides this). sgd, adam
// and lars have lazy_update (1); with 0 a sparse gradient changes all rows, as it always
// does with lamb. test computes w -= learning_rate (rescale_grad g + wd w) with a
// learning_rate of -1 by default, so that it adds the gradient. sgld has
// a seed (0); its random numbers depend on the seed, the key, the server and the update.
//
// Sets the optimizer (MXNet: set_optimizer). In a cluster the servers run it, and every
// worker sets the same one before it pushes; a server uses the last one that it receives.
// Setting an optimizer of the same name again keeps the states. TUG_EUSAGE if the name, a
// field or a number is invalid, or the servers' program has an updater.
TUG_API int tug_kvstore_set_optimizer(struct tug_kvstore *s, const char *text);
// Gets the number of updates from which an lr_scheduler computes the rate:
// begin_num_update plus the number of
// updates of the key that was updated most often. TUG_EUSAGE in a cluster, where the
// servers count updates.
TUG_API int tug_kvstore_num_update(struct tug_kvstore *s, uint64_t *ret);
// Returns the i-th optimizer, from 0, as a text for tug_kvstore_set_optimizer with all
// its fields at their defaults, in the order of MXNet's arguments; NULL if there are no
// more.
TUG_API const char *tug_kvstore_optimizer(size_t i);
// Computes the learning rate after `num_update` updates from the learning_rate or
// lr_scheduler in an optimizer's text. TUG_EUSAGE if the name, a field or a number is
// invalid.
TUG_API int tug_kvstore_learning_rate(const char *text, uint64_t num_update, double *ret);

// An updater updates `stored`, the array of a key, in place, with `merged`, the sum of
// the pushed arrays. For a sparse key, `stored` has all rows (its ids is NULL), and
// `merged` has only the pushed rows. The arguments are valid until the function returns.
// If it does not return 0, the push fails with this code and tug_last_error's sentence; a
// push also fails if the updater leaves an element that is not finite. In both cases the
// store restores the old array. An updater must not call the store. It runs on the thread
// that calls tug_kvstore_push; on servers it runs on the thread that calls
// tug_kvstore_server_run.
typedef int (*tug_updater_fn)(void *ctx, const struct tug_kvstore_key *key,
                              const struct tug_array *merged, struct tug_array *stored);
// Sets the updater of a store of one process (set_updater), which replaces its optimizer;
// if `fn` is NULL, the store has no updater. TUG_EUSAGE for a store of a cluster, whose
// updaters are set at the servers (tug_kvstore_server_options).
TUG_API int tug_kvstore_set_updater(struct tug_kvstore *s, tug_updater_fn fn, void *ctx);

// Sets the compression of pushes (set_gradient_compression): "2bit" or "1bit" with a
// threshold (NAN: 0.5; 2bit needs one above 0), or "none". From then on a push to a dense
// key of 32-bit floats is sent as 2 bits or 1 bit for each value, after its arrays were
// added up; the rounding error is added to the next push (error feedback). With
// compression, pushes of other dtypes return TUG_EUSAGE. In a "device" store each array
// of a list is compressed by itself, as if it were sent to another device; "local" stores
// return TUG_EUSAGE.
TUG_API int tug_kvstore_set_compression(struct tug_kvstore *s, const char *type,
                                        float threshold);

// These functions save the optimizer's states to one file and load them
// (save_optimizer_states, load_optimizer_states). In a cluster the file has the states of
// all servers. The file appears when it is complete. One worker makes the call, and the
// file is on its machine. States can be loaded only into as many servers as they were
// saved from, after the keys were made and the optimizer was set; if one server cannot
// load its states, all servers keep their old ones. Both calls wait for this worker's
// pushes; if other workers push meanwhile, the states of different servers may belong to
// different rounds. TUG_EUSAGE if there is no optimizer, or the file has the states of
// another optimizer or of another number of servers; TUG_EDATA if the file is damaged or
// has other keys; TUG_EIO if it cannot be read or written.
TUG_API int tug_kvstore_save_states(struct tug_kvstore *s, const char *file);
TUG_API int tug_kvstore_load_states(struct tug_kvstore *s, const char *file);

// Waits for this worker's pushes, and then until the workers of all ranks have called
// tug_kvstore_barrier (_barrier). If a worker has died, the worker that replaces it must
// make the call. Without a cluster the call returns at once.
TUG_API int tug_kvstore_barrier(struct tug_kvstore *s);
// Gets the number of dead nodes in these groups (a sum of enum tug_group): nodes that
// have died, or have left without waiting for the other nodes, and were not replaced
// (get_num_dead_node). Without a cluster the number is 0.
TUG_API int tug_kvstore_dead(struct tug_kvstore *s, uint32_t groups, uint32_t *ret);
// Sends a command to the controllers of all servers (_send_command_to_servers). The
// servers' program defines the meaning of the command. Waits for this worker's pushes,
// and until each server has run the command. TUG_EUSAGE if there are no servers, or their
// program has no controller; else the code that a controller returned.
TUG_API int tug_kvstore_command(struct tug_kvstore *s, int32_t head, const void *body,
                                size_t body_bytes);
// Gets the number of pushes to the key that all servers have applied; this waits for this
// worker's pushes. In a synchronous store this is the number of rounds, because a round
// has a push from every worker. A worker that replaces a dead one continues with the
// round after this number. If the servers already have the dead worker's push for that
// round, they ignore the repeated push.
TUG_API int tug_kvstore_rounds(struct tug_kvstore *s, const struct tug_kvstore_key *key,
                               uint64_t *ret);

// The options of a server or scheduler (mxnet.kvstore_server.KVStoreServer). Updaters and
// controllers run on the thread that calls tug_kvstore_server_run, which may be the main
// thread.
struct tug_kvstore_server_options {
    // The options of the node; NULL: they are taken from the environment.
    const struct tug_node_options *node;
    // Handles a worker's command (tug_kvstore_command). If it does not return 0, the
    // command fails with this code and tug_last_error's sentence.
    int (*controller)(void *ctx, int32_t head, const void *body, size_t body_bytes);
    // Replaces the workers' optimizer. NULL: the optimizer is used.
    tug_updater_fn updater;
    void *ctx;
};
struct tug_kvstore_server;
// Joins the cluster as its scheduler or as a server and waits until all nodes have
// joined. `o` may be NULL; its updater, controller and ctx must live until the server is
// closed. TUG_EUSAGE if this process is a worker, or its environment lacks a variable;
// TUG_EIO if the cluster cannot be reached in time.
TUG_API int tug_kvstore_server_open(struct tug_kvstore_server **ret,
                                    const struct tug_kvstore_server_options *o);
// Serves for `seconds`, or until the workers have left. *ret_over becomes true if they
// have left; the program then calls tug_kvstore_server_close, which returns the cluster's
// result. TUG_EINTERRUPTED: the program has interrupted the call (tug_interrupt_by).
TUG_API int tug_kvstore_server_run(struct tug_kvstore_server *s, double seconds,
                                   bool *ret_over);
// Waits without a time limit until all workers have left, then leaves the cluster and
// frees the server, even if it returns an error. `s` may be NULL. If the program
// interrupts the wait (tug_interrupt_by), this process leaves at once and ends the
// cluster: all other processes get an error that names this one.
TUG_API int tug_kvstore_server_close(struct tug_kvstore_server *s);
// Opens a server or scheduler, runs it until the workers have left, and closes it. `o`
// may be NULL.
TUG_API int tug_kvstore_serve(const struct tug_kvstore_server_options *o);

#ifdef __cplusplus
}
#endif

#endif
