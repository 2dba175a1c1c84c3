// tug: the public C interface.
//
// Status codes, and a client of a running cluster: tables of rows of floats under 64-bit
// keys, pushed to and pulled from by many processes. Programs that also are servers, in
// the way of ps-lite, find that in tug/kvapp.h.
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

// Functions return TUG_OK or a negative code. The values never change.
enum tug_status {
    TUG_OK = 0,           // done
    TUG_EUSAGE = -1,      // a wrong argument, or a call at the wrong time
    TUG_EDATA = -2,       // input data or a file is missing or damaged
    TUG_EIO = -3,         // the system refused: file, network or permission
    TUG_ENOMEM = -4,      // out of memory; what was there before is as it was
    TUG_EINTERNAL = -5,   // a bug in tug: please report it
    TUG_EINTERRUPTED = -6 // a signal asked to stop
};

enum {
    TUG_TABLES_MAX = 4096, // tables of a cluster: their numbers are below it
    TUG_PATH_MAX = 4096    // bytes of a path that is returned, with the 0 at its end
};

// "MAJOR.MINOR.PATCH" of the library in use.
TUG_API const char *tug_version(void);

// A few words for a status code; for an unknown one "unknown status". Never NULL, never
// to be freed.
TUG_API const char *tug_status_text(int status);

// The error of this thread's last failed call: one sentence that says what, where and
// why. Valid until the thread's next call.
TUG_API const char *tug_last_error(void);

// A warning of this thread's last call that scored data by a model or a scorer (tug/train.h,
// tug/score.h): the features of the data seem to be numbered from another number than those that
// the model learnt from, or a matrix has another width. "": there was nothing to warn of, or the
// same was said before. Valid until the thread's next call of that kind.
TUG_API const char *tug_last_warning(void);
// Whether such warnings are for tug_last_warning alone; at first they are written to standard
// error, too.
TUG_API void tug_keep_warnings(bool keep);

// What ends waits before their time, as Ctrl-C does: ten times a second each thread that
// waits in the library (for a request, a barrier, servers, a cluster to be complete)
// calls `interrupted`, and when that says true the thread's call returns
// TUG_EINTERRUPTED. A request that tug_wait waited for goes on, and can be waited for
// again; a barrier counts as reached; other requests are given up, and servers may have
// applied them or not. The function must not call the library. One for the process;
// NULL: none, as at first.
TUG_API void tug_interrupt_by(bool (*interrupted)(void *ctx), void *ctx);

// A client: this process's part in a cluster (ps-lite: KVWorker; Paddle: a trainer's
// fleet worker). All functions may be called from any thread. A thread that waits works
// for all of them; without one, a thread of the library does.
struct tug_client;

// A member that is 0 or NULL has a default, or comes from the environment: TUG_SCHEDULER,
// TUG_CLUSTER, else DMLC_* or Paddle's names (see tug_kvapp(3)); TUG_CA, TUG_CERT,
// TUG_KEY, TUG_INSECURE, TUG_SPIN_US, TUG_WAIT_SECONDS. Texts are read by tug_client_open
// only.
struct tug_client_options {
    const char *scheduler;       // "HOST:PORT", or as the scheduler prints it
    const char *cluster;         // its name; NULL: "tug"
    const char *ca, *cert, *key; // PEM files; none: no TLS
    bool insecure;               // off loopback without TLS
    // A guest is not one of the workers that the cluster was started for: the others do
    // not wait for it at barriers or at the end.
    bool guest;
    double wait_seconds; // the longest wait; 0: 600
    double spin_us;      // look for so long before sleeping; 0: chosen
    bool bf16;           // values travel as bf16: half the bytes, 8 bits of precision
    bool pack_keys;      // keys travel packed: pays for ids of a small range
    bool cache_keys;     // a repeated list of keys is sent once, then its signature
    // Not 0: no cluster is joined; this process is one, with so many server loops as
    // threads, and ends with the client. Nothing has to be started first.
    uint32_t local_loops;
};

// Joins and waits until all servers and workers are there. `o` may be NULL.
// TUG_EUSAGE: the environment lacks something; TUG_EIO: the cluster cannot be
// reached, or not in time.
TUG_API int tug_client_open(struct tug_client **ret, const struct tug_client_options *o);
// Waits for the requests in flight and their callbacks, leaves and frees. NULL is
// fine. The client is gone also when an error is returned: requests that took longer
// than its wait_seconds have been given up then, their callbacks have heard so, and
// their arrays are the caller's. Only in a callback (TUG_EUSAGE) it goes on.
TUG_API int tug_client_close(struct tug_client *c);

// Rank among the workers, from 0 (a guest's is among the guests); how many workers the cluster was
// started for. These three return at once.
TUG_API uint32_t tug_client_rank(struct tug_client *c);
TUG_API uint32_t tug_client_workers(struct tug_client *c);
TUG_API uint32_t tug_client_servers(struct tug_client *c); // processes
// Waits until all living workers are here as often (ps-lite: Postoffice::Barrier), at
// most wait_seconds. Requests in flight are not waited for. TUG_EIO: a node has not come
// in this time, and the sentence names it, or the cluster has ended; TUG_EINTERRUPTED:
// see tug_interrupt_by; TUG_EUSAGE: in a callback, or of a guest.
TUG_API int tug_barrier(struct tug_client *c);

// Makes table `number` (below TUG_TABLES_MAX) on all servers, or finds it as another
// worker has made it: rows of floats under 64-bit keys, all by the same settings. Each
// client does so before it uses a table. Settings are text, "dim = 8; rule =
// adagrad:lr=0.1", with ';' or newlines between them, and NULL: as all are by default
// (`tug table settings` lists them). These are most asked for:
//
//   name = NAME          letters, digits, '_', '-', '.'; by default table-NUMBER
//   dim = N              floats of a row to push and pull, where the accessor is plain (of others
//                        they are as many as tug_table_widths says)
//   rule = RULE          how gradients change a row: sgd, adagrad, ftrl, ...; sum adds
//   init = X             first values of a row: uniform in -X..X, by seed, table and key
//   placement = range    by ranges of keys instead of by their hash
//   mode = ssp:S         a pull waits for workers that are more than S clocks behind
//   accessor = NAME      what else a row holds, and how it lives: see tug/table.h
//
// Waits. TUG_EUSAGE: a setting that cannot be (the sentence names it), or that
// differs from those it was made with; in a callback. (Paddle: a table's
// accessor and TableParameter.)
TUG_API int tug_table_create(struct tug_client *c, uint32_t number, const char *settings);

// Called when a request ends: rc 0, or an error, which tug_last_error explains. Called
// once, on some thread; it may send requests, and must not wait.
typedef void (*tug_done_fn)(void *ctx, uint64_t timestamp, int rc);

// Gradients (rule "sum": amounts) of n keys, in any order: n x dim values, row after
// row; those of a key that repeats are added up. Each push is applied exactly once,
// whatever links do. The arrays belong to the request until it is done: then *ret_timestamp can
// be waited for, once, or, with `done`, it is called instead. `done` may be NULL.
// TUG_EUSAGE: no such table, or a value that is not finite, and nothing was sent;
// TUG_EIO: the cluster has ended.
//
// What is atomic: a key belongs to one of the table's partitions (256, by its hash or by
// ranges), and a partition applies all of a push's values for it, or none of them.
// Between partitions nothing is: others' pulls may see a push in some partitions and not
// yet in others (but in mode sync whole batches only). A push that is done without an
// error is in all of them. One that ends with an error after it was sent (a server has no
// memory left, is gone, or has not answered in time) is in each partition once or not at
// all; what it says in the end is the only sign of it. It is not taken back.
//
// Rows stay finite. A partition in which a weight would become infinite, or no number, refuses its
// part (TUG_EUSAGE, which names the key) and keeps what it had; the others take theirs. Where only
// a rule's state would (the square of a gradient of 1e20), that key's update is left out, and the
// server logs it once a table.
TUG_API int tug_push(struct tug_client *c, uint32_t table, const uint64_t *keys, size_t n,
                     const float *values, tug_done_fn done, void *ctx,
                     uint64_t *ret_timestamp);

// The rows of n keys, in any order, as they are: n x dim values. Own pushes that were
// sent before are in them. Arrays, `done`, *ret_timestamp and errors as in tug_push:
// `values` is written until the request is done.
TUG_API int tug_pull(struct tug_client *c, uint32_t table, const uint64_t *keys, size_t n,
                     float *values, tug_done_fn done, void *ctx, uint64_t *ret_timestamp);

// A push whose answer is the rows after it, into `pulled`, which may be `values`' own
// memory only if no key repeats.
TUG_API int tug_push_pull(struct tug_client *c, uint32_t table, const uint64_t *keys,
                          size_t n, const float *values, float *pulled, tug_done_fn done,
                          void *ctx, uint64_t *ret_timestamp);

// Tables of mode ssp: this client's pushes of clocks below `clock` are acknowledged, and pulls from
// now on are of this clock. A client counts from its first tick on: one that is to be
// waited for from the start says 0 first, one that comes late begins at the others' clock.
// UINT64_MAX: it has finished, and no worker waits for it. Waits for the acknowledgements, at most
// wait_seconds: TUG_EIO then. TUG_EUSAGE: in a callback, or the table is of another mode.
TUG_API int tug_tick(struct tug_client *c, uint32_t table, uint64_t clock);

// Waits for a request without a `done`, at most `seconds` (0: the client's longest wait).
// 0, or how it failed: a server died, or refused. TUG_EUSAGE: in a callback; there is no
// such request, or it was waited for before. After TUG_EIO for the time it can be waited
// for again.
TUG_API int tug_wait(struct tug_client *c, uint64_t timestamp, double seconds);

// Whether tug_wait would return at once: the request has ended, or there is none. One with
// a `done` has ended when that is about to be called.
TUG_API bool tug_is_done(struct tug_client *c, uint64_t timestamp);

// Gives a request without a `done` up, in whatever state; it cannot be waited for any more.
// When this returns its arrays are the caller's. A push that is given up is in each
// partition once or not at all. TUG_EUSAGE: in a callback.
TUG_API int tug_cancel(struct tug_client *c, uint64_t timestamp);

#ifdef __cplusplus
}
#endif

#endif
