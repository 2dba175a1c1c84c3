// tug: tables of sparse models that live for months, for C programs.
//
// tug_table_create of tug/tug.h makes a table from settings (`tug table settings` lists them):
// what a row holds and how it lives (accessor), which keys may have a row (entry), how gradients
// change it (rule), how it is placed, how large it may become. Its rows are pushed to and pulled
// from with tug_push, tug_pull and tug_push_pull:
//
//   accessor     a push of a key carries                       a pull returns
//   plain, merge dim gradients (amounts)                       dim weights
//   sparse       embed gradient, dim embedx gradients,         embed, dim of embedx
//                show, click, slot
//   ctr          the same                                      show, click, embed, dim of embedx
//   ctr_double   the same                                      the same
//   counter      dim amounts                                   2 x dim: see tug_count
//
// A key that repeats in a push counts once for each time: its gradients, shows and clicks
// are added up (of slots the last stays). Later passes over the same examples: tug_again.
//
// Threads: a client's functions may be called from any thread, those of one struct tug_dense by
// one thread at a time. Ownership: texts and arrays are the caller's, and are read or written to
// during the call only, but for what tug_assign is given and what is registered.
//
// Errors: functions return 0 or a code of tug/tug.h, and tug_last_error() is the sentence. Those
// that are not said to return at once wait for servers, at most the client's wait_seconds: TUG_EIO
// then, and TUG_EINTERRUPTED where the program interrupts them (tug_interrupt_by); what the
// servers were asked is done or not. In a callback these are TUG_EUSAGE, and nothing is asked.
// TUG_EUSAGE, too: the client has neither made nor found the table.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TABLE_H
#define TUG_TABLE_H

#include "tug/tug.h"

#ifdef __cplusplus
extern "C" {
#endif

// Finds a table that others have made, by its name. TUG_EUSAGE: there is none.
TUG_API int tug_table_find(struct tug_client *c, const char *name, uint32_t *ret_number);

// Floats of a key in a pull, a push, and tug_assign. Returns at once.
struct tug_table_widths {
    uint32_t pull, push, assign;
};
TUG_API int tug_table_widths(struct tug_client *c, uint32_t table,
                             struct tug_table_widths *ret);

// Sets weights instead of pushing gradients; rows are made. State and statistics stay.
// Arrays, `done` and errors as in tug_push, and it returns at once as that does. TUG_EUSAGE, too:
// a key repeats. (Paddle: push_sparse_param, push_dense_param.)
TUG_API int tug_assign(struct tug_client *c, uint32_t table, const uint64_t *keys,
                       size_t n, const float *values, tug_done_fn done, void *ctx,
                       uint64_t *ret_timestamp);

// From now on this client pushes examples that were pushed before in the run, in a second
// pass over the data: shows, clicks, the change of score and the entry policy count an
// example once (unless the table says count-passes = all). Gradients are applied as ever,
// and rows count as seen today. false: new examples again. Returns at once.
TUG_API void tug_again(struct tug_client *c, bool again);

// How a table learns. Returns at once.
struct tug_table_learning {
    // The rate (lr) of its rule, or of embed's; NAN: a push has values, not gradients (rules
    // sum, summary, assign, average).
    float rate;
    bool sync; // in batches: see tug_batch
};
TUG_API int tug_table_learning(struct tug_client *c, uint32_t table,
                               struct tug_table_learning *ret);

// From now on this client's pushes to the table learn at `factor` times its rules' rates,
// besides its schedule: for programs that have a schedule of their own. 1 at first.
// TUG_EUSAGE: it is not finite, or negative. Returns at once.
TUG_API int tug_rate_factor(struct tug_client *c, uint32_t table, float factor);

// Tables of mode sync: from now on this client's pushes are part `part` (from 0) of the
// `parts` (16 at most) of batch `batch`, and pulls see all batches before it. A batch is
// applied when all its parts are in, each by one push, of no keys where it has none;
// gradients are added up, or, with reduce = mean, averaged over the parts. The first
// batch of a table, and the one to go on with, is the `clock` of tug_table_stat. Pulls
// wait for the others' parts, at most the client's wait_seconds. TUG_EUSAGE: the table is
// not of mode sync, or there is no such part. Returns at once.
TUG_API int tug_batch(struct tug_client *c, uint32_t table, uint64_t batch, uint32_t part,
                      uint32_t parts);

// Keys [first, first + n) of a table that is placed by ranges (any table will do; one by
// ranges asks few servers): n times the floats of a pull or push, row after row. Of a push that
// fails a part may have been taken. TUG_EUSAGE: they go beyond the last key.
TUG_API int tug_pull_range(struct tug_client *c, uint32_t table, uint64_t first, size_t n,
                           float *values);
TUG_API int tug_push_range(struct tug_client *c, uint32_t table, uint64_t first, size_t n,
                           const float *values);

// The life of a table. Each is done once, in all partitions, between pushes.
// Decays shows and clicks and removes rows that have faded; `threshold` in place of the
// table's delete-threshold unless it is NAN. *ret_removed (may be NULL): rows.
TUG_API int tug_shrink(struct tug_client *c, uint32_t table, float threshold,
                       uint64_t *ret_removed);
// A day has ended: rows are unseen for one day more. (tug_save with TUG_DAY does it,
// too.)
TUG_API int tug_day(struct tug_client *c, uint32_t table);
// Removes all rows.
TUG_API int tug_clear(struct tug_client *c, uint32_t table);
// Removes the table itself from all servers; its number and name are free again. What other clients
// have in flight for it is refused, and so is what dense variables and communicators that were
// opened on it send, also where another table has the number, of other widths.
TUG_API int tug_table_drop(struct tug_client *c, uint32_t table);

// The contents of a table on all servers, and the counts of requests to it.
struct tug_table_stats {
    uint64_t rows, extra_rows, cold_rows, bytes; // extra rows: embedx that were earned
    uint64_t made, refused; // rows; pushes that the entry policy kept out
    uint64_t evicted_score, evicted_age, evicted_ttl, evicted_budget;
    uint64_t hot_hits, promoted, demoted; // with a cold tier
    uint64_t pushes, pulls, pushed_keys, pulled_keys;
    uint64_t step;
    uint32_t day;
    uint64_t clock; // mode sync: the next batch; ssp: the slowest worker's
};
TUG_API int tug_table_stat(struct tug_client *c, uint32_t table,
                           struct tug_table_stats *ret);

// Returns how many pushes of this client had an update that a server left out, since a state of
// the rule would have become infinite (as the square of a gradient does); of the first one
// *ret_table and *ret_key (may be NULL). The first one is also warned of on standard error, unless
// tug_keep_warnings. Waits for nothing.
TUG_API uint64_t tug_left_out(const struct tug_client *c, uint32_t *ret_table,
                              uint64_t *ret_key);

// This worker has done so many more steps, 2^48 in all at most. *ret_global (may be NULL):
// those of all workers: the global step that drives rates and ttl-steps. (Paddle:
// GlobalStepTable.)
TUG_API int tug_step(struct tug_client *c, uint64_t steps, uint64_t *ret_global);

// Saves. The servers write in parallel, each its own partitions, into DIR/save-000001 and
// so on: `directory` must lie below the --save-root of all of them, on a file system that
// they and this process share under one name. (A cluster of one's own, local_loops,
// writes anywhere.) Of two that save at once one waits for the other. When tug_save
// returns 0, the save is complete; until then nothing of it is visible, whatever dies.
// (Paddle: save modes 0 to 3.)
enum tug_save_mode {
    TUG_CHECKPOINT, // every row, all state
    TUG_BASE,       // rows worth publishing
    TUG_DELTA,      // of those, what has changed since the last base or delta
    TUG_DAY,        // a checkpoint; then the day ends
};
struct tug_save_options {
    const char *directory;
    enum tug_save_mode mode;
    const uint32_t *tables; // their numbers
    size_t n_tables;        // 0: all
    int zstd;               // level; 0: not compressed
    uint32_t keep;     // bases and checkpoints kept in `directory`; 0, or a delta: all
    const char *about; // JSON that is found again by who loads; NULL: none
    // A cut of a run that goes on: not 0, the same number at every worker, another
    // for each save. Each worker calls tug_save_mark(number) between two of its
    // batches; the save holds exactly what was pushed before the marks. 0: as the
    // servers are when they are asked. Below 2^63.
    uint64_t mark;
};
// One worker (or guest) calls it. TUG_EUSAGE: a directory, mode or mark that cannot be;
// TUG_EIO, TUG_EDATA: a file cannot be written, or one that a delta builds on be read.
// `ret_path` (may be NULL): where it is.
TUG_API int tug_save(struct tug_client *c, const struct tug_save_options *o,
                     char ret_path[TUG_PATH_MAX]);
// Earlier pushes of this worker belong to that save, later ones do not.
TUG_API int tug_save_mark(struct tug_client *c, uint64_t mark);

// The rows of table `name` of a save (or of the newest in a directory, with all deltas it
// builds on) into a table, which is cleared first. It must lie below the --save-root of all
// servers, or below a --load-root. `name` NULL: the table's own. *ret_rows (may be NULL): how many.
// TUG_EDATA: there is no save, or it is damaged; TUG_EUSAGE: it lies elsewhere.
TUG_API int tug_load(struct tug_client *c, uint32_t table, const char *path,
                     const char *name, uint64_t *ret_rows);

// Pulls the whole table and writes it as text, in this process: a row a line, sorted by key, floats
// that read back as the same bits. The file is there when it is complete. All rows are in memory
// meanwhile. TUG_EIO: it cannot be written.
TUG_API int tug_dump(struct tug_client *c, uint32_t table, const char *file);

// Dense variables: arrays of floats in a table, cut into blocks of `dim` floats, a row
// each, that spread over the servers by themselves. All variables of a table are pulled
// by one request per server, and in mode sync a pull never sees half of an update.
struct tug_variable {
    const char *name;
    uint64_t n; // floats
    // "constant:0.1", "uniform:-1,1", "gaussian:0,0.01", "truncated-gaussian:0,0.01",
    // "xavier:FAN_IN,FAN_OUT"; or Paddle's "gaussian_random&0&0.0&0.01" and so on. First
    // values depend on the table's number and the variable's name only. NULL: zeros.
    const char *init;
};
struct tug_dense;
// All workers call it, and name the same variables in the same order. The worker of
// rank 0 sets first values, if the table has no rows; others wait for it. A guest sets
// none, and does not wait. It belongs to the program, and is closed before its client.
// TUG_EUSAGE: no variables, two of a name, an `init` that cannot be, or the table is
// not of accessor plain.
TUG_API int tug_dense_open(struct tug_dense **ret, struct tug_client *c, uint32_t table,
                           const struct tug_variable *variables, size_t n);
TUG_API void tug_dense_close(struct tug_dense *d); // NULL is fine
// All variables, one behind the other: as many floats as they have together.
// tug_dense_push takes gradients (tug_push), tug_dense_assign sets values (tug_assign);
// tug_dense_floats returns at once.
TUG_API uint64_t tug_dense_floats(const struct tug_dense *d);
TUG_API int tug_dense_pull(struct tug_dense *d, float *values);
TUG_API int tug_dense_push(struct tug_dense *d, const float *gradients);
TUG_API int tug_dense_assign(struct tug_dense *d, const float *values);
// Floats [begin, begin + n) of one of them, by its place in the list. TUG_EUSAGE: it lacks some.
TUG_API int tug_dense_pull_range(struct tug_dense *d, size_t variable, uint64_t begin,
                                 uint64_t n, float *values);

// A batch whose gradients are sent one variable after the other, as a program's own
// backward comes to them, so that they are under way while it computes the next ones.
// Between the first and the last call nothing else is asked of `d`. (Paddle's first
// version: ParameterUpdater's startBatch, update and finishBatch.) TUG_EUSAGE: the table
// is of mode sync, where a worker's part of a batch is one push.
TUG_API int tug_dense_start_batch(struct tug_dense *d);
// Sends the gradient of a variable, by its place in the list, once in a batch, and
// returns at once; the array is copied.
TUG_API int tug_dense_update(struct tug_dense *d, size_t variable, const float *gradient);
// Waits until all that was sent is applied. `values` (may be NULL): all variables as they are then.
TUG_API int tug_dense_finish_batch(struct tug_dense *d, float *values);

// Operations on vectors of parameters, as Paddle's first version had them
// (doOperation, PSERVER_OP_...): u, v and w are dense variables of the same lengths,
// each of a table of its own.
enum tug_vector_op {
    TUG_VECTOR_UTU,       // the sum of u u
    TUG_VECTOR_UTV,       // the sum of u v
    TUG_VECTOR_AU,        // u = a u
    TUG_VECTOR_AU_BV,     // v = a u + b v
    TUG_VECTOR_AU_BV_CW,  // w = a u + b v + c w
    TUG_VECTOR_AAX_BU,    // columns of a matrix A, u; a, b, x: u = a A x + b u
    TUG_VECTOR_RESET,     // u = a, everywhere
    TUG_VECTOR_COPY,      // u, v: v = u
    TUG_VECTOR_RANDOMIZE, // u; a seed: what variables begin with
    TUG_VECTOR_STEEPEST, // direction, gradient, x; l1: where the loss and l1 |x| fall most
    TUG_VECTOR_FIX_DIR_SIGNS, // direction, steepest one: what points elsewhere is 0
    TUG_VECTOR_DIR_DERIV, // direction, gradient, x; l1: the derivative along the direction
    TUG_VECTOR_FIX_OMEGA_SIGNS, // new x, x: what has changed its sign is 0
};
// n vectors and n_numbers numbers, in the order above; *ret (may be NULL) is the sum.
// One worker calls it while no other one pushes: it pulls the vectors, computes in
// doubles, and assigns the one that changes. TUG_EUSAGE: another count of vectors or
// numbers, or other lengths.
TUG_API int tug_dense_operate(enum tug_vector_op op, struct tug_dense *const *vectors,
                              size_t n, const double *numbers, size_t n_numbers,
                              double *ret);

// Exact counters: tables of accessor "counter" count to 2^48. A pull returns for each
// counter two floats; this is their value.
static inline double tug_count(const float pulled[2])
{
    return (double)pulled[0] * 16777216.0 + (double)pulled[1];
}

// The AUC of all workers' predictions together: a histogram of scores in a table of
// accessor "counter" and dim 2 (negatives and positives), a row for each of 4,096 buckets
// of probability. The sum of any number of workers' counts is exact, so the AUC is that
// of one machine, to the bit. (Paddle: the distributed AUC of fleet metrics.) It is a
// table as others are: tug_clear begins anew, and a save of all tables has it, too.
// Counts that no save has, and other metrics: tug/metric.h. Labels above 0 are positives.
// *ret_auc is NAN without both classes; ret_examples may be NULL. TUG_EUSAGE: the table
// is another one, or a prediction is not a probability: nothing of a call of up to 2^24
// predictions is counted then.
TUG_API int tug_auc_add(struct tug_client *c, uint32_t table, const float *probabilities,
                        const float *labels, size_t n);
TUG_API int tug_auc(struct tug_client *c, uint32_t table, double *ret_auc,
                    uint64_t *ret_examples);

// Times of the requests on all servers, by kind, between the two calls; `file`: a trace that
// Chrome and Perfetto open, written in this process. Servers are waited for ten seconds.
TUG_API int tug_profile_start(struct tug_client *c);
TUG_API int tug_profile_stop(struct tug_client *c, const char *file);

// Ends the cluster in order (Paddle: stop_server): what its processes wait for ends with
// TUG_EINTERRUPTED and this sentence; NULL: one that says that a program did it.
TUG_API int tug_stop(struct tug_client *c, const char *why);

// A program's own accessors, rules and entry policies, up to 16 of each: named in settings like
// others. Registered by one thread before the first client or node of the process opens; where
// rows are (in the servers' processes, tug/kvapp.h) and where tables are made. Structs are copied;
// what they point at (name, about, ctx) is there as long as the process. Functions are called on
// servers' threads, several at a time, must be quick, must not fail, and depend on nothing but
// their arguments. Registering returns at once. TUG_EUSAGE: a name that cannot be or that there is
// already, no function, or one too many.
struct tug_rule {
    const char *name, *about;
    uint32_t state_per_weight, state_per_row; // floats, beginning with 0
    // n weights of a row by their gradients; rate: after schedules.
    void (*apply)(void *ctx, float rate, float *weights, float *state,
                  const float *gradients, size_t n);
    void *ctx;
    float rate; // the default
};
TUG_API int tug_register_rule(const struct tug_rule *r);

struct tug_entry_policy {
    const char *name, *about;
    // Whether a key without a row is to have one, by its hash's 64 bits, the push's show
    // and click (both 0 where it comes again), and the settings' threshold.
    bool (*admit)(void *ctx, uint64_t key, float show, float click, float threshold);
    void *ctx;
};
TUG_API int tug_register_entry(const struct tug_entry_policy *p);

struct tug_accessor {
    const char *name, *about;
    uint32_t stats;  // floats of statistics in a row
    uint32_t pushed; // floats that a push carries behind the gradients
    uint32_t
        pulled; // of the statistics, the first so many are pulled, before the weights
    // The statistics of a push, unless it comes again (tug_again). NULL: nothing.
    void (*seen)(void *ctx, float *stats, const float *pushed);
    float (*score)(void *ctx, const float *stats); // for budgets; NULL: 0
    bool (*shrink)(void *ctx, float *stats,
                   float threshold); // true: the row goes; NULL: none
    bool (*saved)(void *ctx, const float *stats, enum tug_save_mode mode); // NULL: all
    void *ctx;
};
TUG_API int tug_register_accessor(const struct tug_accessor *a);

#ifdef __cplusplus
}
#endif

#endif
