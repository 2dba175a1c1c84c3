// tug: the public C interface.
//
// Status codes, and a client of a running cluster: many processes push to and pull from
// tables of rows of floats under 64-bit keys. tug/kvapp.h is for programs that are
// servers, too, as with ps-lite.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TUG_H
#define TUG_TUG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TUG_API __attribute__((visibility("default")))
#else
#define TUG_API
#endif

// Functions return TUG_OK or one of these codes. Their values never change.
enum tug_status {
    TUG_OK = 0,           // done
    TUG_EUSAGE = -1,      // a wrong argument, or a call at the wrong time
    TUG_EDATA = -2,       // input data or a file is missing or damaged
    TUG_EIO = -3,         // the system refused: file, network or permission
    TUG_ENOMEM = -4,      // out of memory; nothing was changed
    TUG_EINTERNAL = -5,   // a bug in tug: please report it
    TUG_EINTERRUPTED = -6 // a signal asked to stop
};

enum {
    TUG_TABLES_MAX = 4096, // table numbers are 0 to TUG_TABLES_MAX - 1
    TUG_PATH_MAX = 4096    // bytes of a buffer for a returned path, including the final 0
};

// Returns the version of the library in use, "MAJOR.MINOR.PATCH".
TUG_API const char *tug_version(void);

// Returns a few words for a status code, "unknown status" for an unknown one. Never NULL;
// must not be freed.
TUG_API const char *tug_status_text(int status);

// Returns the error of this thread's last failed call: one sentence that says what
// failed, where and why. The text is valid until the thread's next call.
TUG_API const char *tug_last_error(void);

// Returns the warnings of this thread's last call that scored data, opened a model or
// trained one (tug/train.h, tug/score.h), one a line, or "" if the call had none. A call
// that opens or trains a model warns about options without effect; a call that trains also
// warns if nothing is left to train. Its warnings about data and progress are only written
// to standard error. A call that scores warns, for example, if the model knows few of the
// data's features or few values of a column, or if a matrix has another width than the
// training matrix. It also warns, once for each difference, if the keys of the data seem
// to count from 0 and those of the training data counted from 1, or the other way round.
// The text is valid until the thread's next such call.
TUG_API const char *tug_last_warning(void);
// If `keep` is true, the warnings that tug_last_warning returns are no longer written to
// standard error. If it is false, the initial state, they are also written there.
TUG_API void tug_keep_warnings(bool keep);

// Sets a function that can interrupt waits, for example after Ctrl-C. Each thread that
// waits in the library (for a request, a barrier, servers, a complete cluster) calls
// `interrupted` ten times a second. When `interrupted` returns true, the thread's call
// returns TUG_EINTERRUPTED. If the call was tug_wait, its request continues and can be
// waited for again. If it was a barrier, this worker counts as having reached it. Any
// other request is given up, and servers may have applied it or not. The function must not
// call the library. The process has at most one such function; NULL, the initial value,
// removes it.
TUG_API void tug_interrupt_by(bool (*interrupted)(void *ctx), void *ctx);

// A client makes this process a worker of a cluster (ps-lite: KVWorker; Paddle: a
// trainer's fleet worker). All functions may be called from any thread. A waiting thread
// does the network work of all threads; if none waits, a thread of the library does it.
struct tug_client;

// The options of tug_client_open. An option that is 0 or NULL is taken from the
// environment or has a default. The variables are TUG_SCHEDULER and TUG_CLUSTER, or
// instead of them DMLC_* or Paddle's names (see tug_kvapp(3)), and TUG_CA, TUG_CERT,
// TUG_KEY, TUG_INSECURE, TUG_SPIN_US, TUG_WAIT_SECONDS. The texts need to be valid only
// during tug_client_open.
struct tug_client_options {
    // "HOST:PORT", or the address that the scheduler prints; with standbys, the addresses
    // of all schedulers, separated by commas.
    const char *scheduler;
    const char *cluster;         // the cluster's name; NULL: "tug"
    const char *ca, *cert, *key; // paths of PEM files; all NULL: links without TLS
    bool insecure;               // allows links to other machines without TLS
    // true: this client is a guest, an extra worker for which the other workers do not
    // wait at barriers or at the end.
    bool guest;
    double wait_seconds; // the time limit of each wait; 0: 600
    // Microseconds that a wait polls before it sleeps; 0: 300.
    double spin_us;
    bool bf16;      // sends values as bfloat16: half the bytes, 8 bits of precision
    bool pack_keys; // sends keys compressed; saves bytes if keys are from a small range
    // Sends a list of keys once; when the list repeats, only its checksum is sent.
    bool cache_keys;
    // If not 0, the client does not join a cluster. Until it closes, this process is a
    // cluster of its own, with this number of threads as its servers. No other process is
    // needed.
    uint32_t local_loops;
};

// Joins the cluster and waits until all servers and workers have joined. `o` may be NULL:
// all options are taken from the environment. TUG_EUSAGE if a required option is missing;
// TUG_EIO if the cluster cannot be reached in time.
TUG_API int tug_client_open(struct tug_client **ret, const struct tug_client_options *o);
// Waits for the requests in flight and their callbacks, leaves the cluster and frees the
// client. NULL is fine. The client is freed even if an error is returned: requests that
// took longer than wait_seconds were given up, their callbacks were called with that
// error, and the caller owns their arrays again. In a callback the function returns
// TUG_EUSAGE and does nothing.
TUG_API int tug_client_close(struct tug_client *c);

// These functions return this client's rank among the workers, from 0 (for a guest, its
// rank among the guests), the number of workers for which the cluster was started, and the
// number of server processes. They do not wait.
TUG_API uint32_t tug_client_rank(struct tug_client *c);
TUG_API uint32_t tug_client_workers(struct tug_client *c);
TUG_API uint32_t tug_client_servers(struct tug_client *c);
// Waits, at most wait_seconds, until every living worker has called tug_barrier as often
// as this client (ps-lite: Postoffice::Barrier). Does not wait for requests in flight.
// TUG_EIO if a worker did not arrive in time (tug_last_error names the worker), or if the
// cluster has ended; TUG_EINTERRUPTED: see tug_interrupt_by; TUG_EUSAGE in a callback, or
// for a guest.
TUG_API int tug_barrier(struct tug_client *c);

// Makes table `number` (below TUG_TABLES_MAX) on all servers, or finds it if another
// worker has made it with the same settings. Each client calls this before it uses a
// table. Settings are text such as "dim = 8; rule = adagrad:lr=0.1", with ';' or newlines
// between them; if `settings` is NULL, all have their defaults. `tug table settings`
// lists all settings. The most used ones are:
//
//   name = NAME          letters, digits, '_', '-', '.'; by default table-NUMBER
//   dim = N              floats of a row in a push or pull, with accessor plain
//                        (tug_table_widths returns them for all accessors)
//   rule = RULE          how gradients change a row: sgd, adagrad, ftrl, ...; sum adds
//   init = X             initial values of a row: uniform in -X..X, a function of seed,
//                        table and key
//   placement = range    by ranges of keys instead of by their hash
//   mode = ssp:S         a pull waits for workers that are more than S clocks behind
//   accessor = NAME      what a row holds besides weights, and when it is removed:
//                        see tug/table.h
//
// Waits for the servers. TUG_EUSAGE if a setting is wrong or differs from that of the
// existing table (tug_last_error names the setting), or in a callback. (Paddle: a table's
// accessor and TableParameter.)
TUG_API int tug_table_create(struct tug_client *c, uint32_t number, const char *settings);

// A function that the library calls once, on any thread, when a request ends. `rc` is 0,
// or an error that tug_last_error explains. The function may send requests but must not
// wait.
typedef void (*tug_done_fn)(void *ctx, uint64_t timestamp, int rc);

// Pushes gradients (amounts for a table with rule "sum") for n keys in any order: n x dim
// values, row after row. The values of a repeated key are added up. Each push is applied
// exactly once, even if links break. Returns at once; the request uses the arrays until
// it has ended. Then `done` is called. If `done` is NULL, the caller must pass
// *ret_timestamp to tug_wait, once. Returns TUG_EUSAGE and sends nothing if the table
// does not exist or a value is not finite; TUG_EIO if the cluster has ended.
//
// Atomicity: a key belongs to one of the table's partitions (256, by hash or by ranges),
// and a partition applies either all of a push's values for it or none. A push is not
// atomic across partitions: pulls of other clients may see the push in some partitions
// and not yet in others (in mode sync pulls see only whole batches). A push that ends
// without an error was applied in all partitions. A push that ends with an error after it
// was sent (a server is out of memory, has died, or did not answer in time) was applied
// once or not at all in each partition. It is not rolled back.
//
// Rows stay finite. If a weight would become infinite or NaN, the partition of its key
// refuses its part of the push and stays unchanged (TUG_EUSAGE; tug_last_error names the
// key); the other partitions apply their parts. If only a rule's state would become
// infinite (such as the square of a gradient of 1e20), the server leaves out the update
// of that key, and logs this once for each table.
TUG_API int tug_push(struct tug_client *c, uint32_t table, const uint64_t *keys, size_t n,
                     const float *values, tug_done_fn done, void *ctx,
                     uint64_t *ret_timestamp);

// Pulls the rows of n keys in any order: n x dim values, which include this client's
// earlier pushes. The arrays, `done`, *ret_timestamp and the errors are as in tug_push;
// the request writes to `values` at any time until it has ended.
TUG_API int tug_pull(struct tug_client *c, uint32_t table, const uint64_t *keys, size_t n,
                     float *values, tug_done_fn done, void *ctx, uint64_t *ret_timestamp);

// Pushes `values`, and pulls the rows as they are after this push into `pulled`. Both
// arrays may be the same memory only if no key repeats. Everything else is as in
// tug_push.
TUG_API int tug_push_pull(struct tug_client *c, uint32_t table, const uint64_t *keys,
                          size_t n, const float *values, float *pulled, tug_done_fn done,
                          void *ctx, uint64_t *ret_timestamp);

// Moves this client to `clock` in a table of mode ssp: waits, at most wait_seconds
// (TUG_EIO), until the servers have acknowledged its pushes of earlier clocks; its later
// pulls belong to this clock. Other workers wait for a client only after its first
// tug_tick, so each client calls tug_tick with clock 0 before its first pull; a client
// that joins late begins at the clock of the other workers. UINT64_MAX says that the
// client has finished, and no worker waits for it any more. TUG_EUSAGE in a callback, or
// if the table has another mode.
TUG_API int tug_tick(struct tug_client *c, uint32_t table, uint64_t clock);

// Waits for a request that was sent with `done` NULL, at most `seconds` (0: the client's
// wait_seconds). Returns 0 or the request's error (a server died or refused it).
// TUG_EUSAGE in a callback, or if there is no such request or an earlier tug_wait has
// returned its result. If the time limit ended the wait (TUG_EIO), the request can be
// waited for again.
TUG_API int tug_wait(struct tug_client *c, uint64_t timestamp, double seconds);

// Returns whether tug_wait would return at once, because the request has ended or does
// not exist. A request with a `done` counts as ended just before `done` is called.
TUG_API bool tug_is_done(struct tug_client *c, uint64_t timestamp);

// Gives up a request that was sent with `done` NULL, whatever its state: tug_wait can no
// longer wait for it, and the caller may use its arrays again. If the request is a push,
// each partition applies it once or not at all. TUG_EUSAGE in a callback.
TUG_API int tug_cancel(struct tug_client *c, uint64_t timestamp);

#ifdef __cplusplus
}
#endif

#endif
