// tug: tables of sparse models that live for months, for C programs.
//
// tug_table_create of tug/tug.h makes a table from settings (`tug table settings` lists
// them). They say what a row holds and when it is removed (accessor), which keys get a
// row (entry), how gradients change a row (rule), where rows are placed, and how large
// the table may become. tug_push, tug_pull and tug_push_pull use its rows:
//
//   accessor     a push of a key carries                       a pull returns
//   plain, merge dim gradients (amounts)                       dim weights
//   sparse       embed gradient, dim embedx gradients,         embed, dim embedx weights
//                show, click, slot
//   ctr          as sparse                                     show, click, embed, dim
//                                                              embedx weights
//   ctr_double   as sparse                                     as ctr
//   counter      dim amounts                                   2 x dim: see tug_count
//
// If a key repeats in a push, its gradients, shows and clicks are added up, and its last
// slot is kept. A program that makes several passes over the same examples calls
// tug_again.
//
// Threads: a client's functions may be called from any thread. The functions of one
// struct tug_dense may be called by only one thread at a time. Ownership: texts and
// arrays belong to the caller and are read or written during the call only. Exceptions
// are the arrays of tug_assign, and everything that a program registers.
//
// Errors: functions return 0 or a code of tug/tug.h, and tug_last_error() is the
// sentence. Functions that do not say "returns at once" wait for servers. They return
// TUG_EIO after the client's wait_seconds, and TUG_EINTERRUPTED if the program interrupts
// them (tug_interrupt_by); in both cases the servers may have done the request or not. In
// a callback they return TUG_EUSAGE and send nothing. They also return TUG_EUSAGE if the
// client has neither made nor found the table.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TABLE_H
#define TUG_TABLE_H

#include "tug/tug.h"

#ifdef __cplusplus
extern "C" {
#endif

// Finds a table that another client has made, by its name, and gets its number.
// TUG_EUSAGE if there is no such table.
TUG_API int tug_table_find(struct tug_client *c, const char *name, uint32_t *ret_number);

// The numbers of floats of one key in a pull, in a push and in tug_assign.
struct tug_table_widths {
    uint32_t pull, push, assign;
};
// Gets these numbers for a table. Does not wait.
TUG_API int tug_table_widths(struct tug_client *c, uint32_t table,
                             struct tug_table_widths *ret);

// Sets the weights of n keys to `values`, instead of pushing gradients, and makes missing
// rows. The rules' state and the statistics of the rows stay as they are. The arrays,
// `done` and the errors are as in tug_push. Also returns TUG_EUSAGE if a key repeats.
// Returns at once. (Paddle: push_sparse_param, push_dense_param.)
TUG_API int tug_assign(struct tug_client *c, uint32_t table, const uint64_t *keys,
                       size_t n, const float *values, tug_done_fn done, void *ctx,
                       uint64_t *ret_timestamp);

// Declares that this client's next pushes are of new examples (`again` is false, the
// initial value), or of examples that it has already pushed in an earlier pass of the run
// (true). Unless the table has count-passes = all, examples that are pushed again do not
// change shows, clicks and scores, and do not count for the entry policy. Their gradients
// are applied as always, and their rows count as seen today. Returns at once.
TUG_API void tug_again(struct tug_client *c, bool again);

// The learning rate and mode of a table.
struct tug_table_learning {
    // The learning rate (lr) of the table's rule, or of embed's rule if embedx has a rule
    // of its own. NAN if pushes carry values instead of gradients (rules sum, summary,
    // assign, average).
    float rate;
    bool sync; // the table has mode sync, where pushes belong to batches (tug_batch)
};
// Gets the learning rate and mode of a table. Returns at once.
TUG_API int tug_table_learning(struct tug_client *c, uint32_t table,
                               struct tug_table_learning *ret);

// Sets the factor, initially 1, by which the rules' learning rates are multiplied in this
// client's later pushes to the table, in addition to the table's own schedule. It is for
// programs that compute a schedule themselves. TUG_EUSAGE if `factor` is negative or not
// finite. Returns at once.
TUG_API int tug_rate_factor(struct tug_client *c, uint32_t table, float factor);

// For a table of mode sync: sets the batch, and the part of the batch, that this client
// computes next. Its next push is part `part` (from 0) of the `parts` parts (at most 16)
// of batch `batch`, and its pulls see all earlier batches. The servers apply a batch when
// each of its parts was pushed; a part without keys needs an empty push. Gradients are
// added up or, with reduce = mean, averaged over the parts. A client begins, or
// continues, with the batch `clock` of tug_table_stat. Pulls wait for the parts of other
// clients. A push that is more than 3 batches ahead of the slowest part waits for that
// part. Both wait at most the client's wait_seconds. TUG_EUSAGE if the table is not of
// mode sync or there is no such part. Returns at once.
TUG_API int tug_batch(struct tug_client *c, uint32_t table, uint64_t batch, uint32_t part,
                      uint32_t parts);

// These functions pull and push the rows of the keys first, first + 1, ... first + n - 1;
// `values` has these rows one after the other (tug_table_widths returns the number of
// floats of each). If the table has placement = range, only servers with some of these
// keys are asked. If a push fails, a part of it may have been applied. TUG_EUSAGE if the
// range goes beyond the last key.
TUG_API int tug_pull_range(struct tug_client *c, uint32_t table, uint64_t first, size_t n,
                           float *values);
TUG_API int tug_push_range(struct tug_client *c, uint32_t table, uint64_t first, size_t n,
                           const float *values);

// Decays shows and clicks, and removes rows whose score is below `threshold`; NAN stands
// for the table's delete-threshold. Also removes rows that were not pushed for more than
// delete-after-days or for ttl-steps (settings of the table). *ret_removed (may be NULL)
// becomes the number of rows removed. A partition shrinks all its rows between two
// pushes. tug_day and tug_clear also change all rows of a partition between two pushes.
TUG_API int tug_shrink(struct tug_client *c, uint32_t table, float threshold,
                       uint64_t *ret_removed);
// Ends a day: for each row, the number of days since its last push grows by one.
// (tug_save with TUG_DAY also ends the day.)
TUG_API int tug_day(struct tug_client *c, uint32_t table);
// Removes all rows of a table.
TUG_API int tug_clear(struct tug_client *c, uint32_t table);
// Removes the table itself from all servers; its number and name are free again. If another
// client makes a table with this number before the call has returned, the call may also
// remove that table, from all servers or from some only. Servers
// refuse requests of other clients that are in flight, and later requests of dense
// variables and communicators of this table, even if another table with other widths has
// its number by then.
TUG_API int tug_table_drop(struct tug_client *c, uint32_t table);

// The contents of a table on all servers, and the counts of requests to it.
struct tug_table_stats {
    // Numbers of rows, of rows that have earned an embedx part, and of rows in the cold
    // tier; bytes of memory.
    uint64_t rows, extra_rows, cold_rows, bytes;
    uint64_t made, refused; // rows made; keys in pushes that the entry policy refused
    // Numbers of rows removed because of their score, their unseen days, their ttl, or
    // the table's budget.
    uint64_t evicted_score, evicted_age, evicted_ttl, evicted_budget;
    // Numbers of accesses that found the row in memory, of rows moved into memory, and of
    // rows moved out of memory. They are 0 in a table without a cold tier.
    uint64_t hot_hits, promoted, demoted;
    uint64_t pushes, pulls, pushed_keys, pulled_keys;
    uint64_t step; // the global step that the servers know (tug_step)
    uint32_t day;  // number of days that have ended (tug_day)
    // In mode sync the number of the next batch, in mode ssp the clock of the slowest
    // worker.
    uint64_t clock;
};
// Gets the counts of a table, summed over all servers.
TUG_API int tug_table_stat(struct tug_client *c, uint32_t table,
                           struct tug_table_stats *ret);

// Returns how many of this client's pushes contained an update that a server left out. A
// server leaves out an update if it would make the rule's state infinite (such as the
// square of a large gradient). *ret_table and *ret_key (may be NULL) are the table and
// key of the first such update. A warning on standard error also names them, unless
// tug_keep_warnings has turned warnings off. Returns at once.
TUG_API uint64_t tug_left_out(const struct tug_client *c, uint32_t *ret_table,
                              uint64_t *ret_key);

// Adds `steps` to this worker's count of steps (at most 2^48 in all). *ret_global (may be
// NULL) becomes the global step, the sum of the counts of all workers, on which schedules
// of rates and ttl-steps depend. (Paddle: GlobalStepTable.)
TUG_API int tug_step(struct tug_client *c, uint64_t steps, uint64_t *ret_global);

// Saves of tables (tug_save). The servers write in parallel, each its own partitions, into
// DIRECTORY/save-000001 and so on. `directory` must lie below the --save-root of all
// servers, on a file system that the servers and this process share under one name. (A
// cluster in this process, local_loops, writes anywhere.) If two clients save at once, one
// waits for the other. When tug_save returns 0, the save is complete. A save that is not
// complete is not visible, even if a process dies. (Paddle: save modes 0 to 3.)
enum tug_save_mode {
    // Saves every row with all its state.
    TUG_CHECKPOINT,
    // Saves rows with a score of at least base-threshold that were seen in the last
    // delta-keep-days (settings of the table).
    TUG_BASE,
    // Saves those rows of a base whose score has changed by at least delta-threshold
    // since the last base or delta.
    TUG_DELTA,
    // Saves every row with all its state, as a checkpoint does; then ends the day
    // (tug_day).
    TUG_DAY,
};
struct tug_save_options {
    const char *directory;
    enum tug_save_mode mode;
    const uint32_t *tables; // the numbers of the tables to save
    size_t n_tables;        // 0: all tables of the cluster
    int zstd;               // the level of zstd compression; 0: not compressed
    // The number of bases and checkpoints to keep in `directory`, including the new save;
    // older ones are removed. 0, or mode TUG_DELTA: all are kept.
    uint32_t keep;
    // JSON that is stored for the programs that read the save; NULL: none
    const char *about;
    // The mark of a save in the middle of a run, a number from 1 to 2^63 - 1 that no
    // other save of the run has. Each worker calls tug_save_mark with this number between
    // two of its batches, and the save holds exactly the pushes before these calls. 0:
    // each server saves its rows as they are when the request arrives.
    uint64_t mark;
};
// Saves tables. One worker (or guest) calls it. `ret_path` (may be NULL) becomes the path
// of the save. TUG_EUSAGE if directory, mode or mark is wrong; TUG_EIO if a file cannot
// be written; TUG_EIO or TUG_EDATA if a save that a delta builds on cannot be read.
// TUG_EIO also if, with replicas, a server dies during a save with a mark. Its day (TUG_DAY)
// may then have ended in some partitions only: save with TUG_BASE. A save without a mark is
// made again in this case; with replicas its day ends just after the save is complete.
TUG_API int tug_save(struct tug_client *c, const struct tug_save_options *o,
                     char ret_path[TUG_PATH_MAX]);
// Sends this worker's mark for the save whose options have this number: the save holds the
// pushes that the worker made before this call, and none of its later pushes.
TUG_API int tug_save_mark(struct tug_client *c, uint64_t mark);

// Clears a table and loads into it the rows of the table `name` (NULL: the table's own
// name) of a save. `path` is a save, or a directory; in a directory the newest save is
// used. A delta is loaded with all saves that it builds on. TUG_EUSAGE if the path does
// not lie below the --save-root or a --load-root of all servers. TUG_EDATA if there is no
// save or it is damaged. *ret_rows (may be NULL) becomes the number of rows loaded.
TUG_API int tug_load(struct tug_client *c, uint32_t table, const char *path,
                     const char *name, uint64_t *ret_rows);

// Pulls the whole table and writes it as text to `file`, in this process: one row in a
// line, sorted by key, with floats that read back to the same bits. The file appears when
// it is complete. This process holds all rows in memory until the file is complete.
// TUG_EIO if the file cannot be written.
TUG_API int tug_dump(struct tug_client *c, uint32_t table, const char *file);

// Dense variables are arrays of floats in a table. They are cut into rows of `dim`
// floats, which are spread over the servers automatically. One request per server pulls
// all variables of a table, and in mode sync a pull never sees half of an update.
struct tug_variable {
    const char *name;
    uint64_t n; // number of floats
    // "constant:0.1", "uniform:-1,1", "gaussian:0,0.01", "truncated-gaussian:0,0.01",
    // "xavier:FAN_IN,FAN_OUT"; or Paddle's "gaussian_random&0&0.0&0.01" and so on.
    // Initial values depend only on the table's number and the variable's name. NULL:
    // zeros.
    const char *init;
};
struct tug_dense;
// Opens variables. All workers call it, with the same variables in the same order. The
// worker of rank 0 sets initial values if the table does not have rows yet; the other
// workers wait for it. A guest sets none and does not wait. The caller closes *ret before
// the client. TUG_EUSAGE if there are no variables, two have the same name, an `init` is
// wrong, or the table's accessor is not plain.
TUG_API int tug_dense_open(struct tug_dense **ret, struct tug_client *c, uint32_t table,
                           const struct tug_variable *variables, size_t n);
TUG_API void tug_dense_close(struct tug_dense *d); // NULL is fine
// These functions pull, push and assign all variables, which lie one after the other in
// one array. tug_dense_floats returns the number of floats in this array.
// tug_dense_push takes gradients (as tug_push), tug_dense_assign sets values (as
// tug_assign).
TUG_API uint64_t tug_dense_floats(const struct tug_dense *d);
TUG_API int tug_dense_pull(struct tug_dense *d, float *values);
TUG_API int tug_dense_push(struct tug_dense *d, const float *gradients);
TUG_API int tug_dense_assign(struct tug_dense *d, const float *values);
// Pulls n floats of one variable, from float `begin` on. `variable` is the variable's
// position in the list of tug_dense_open, from 0. TUG_EUSAGE if the variable has fewer
// floats.
TUG_API int tug_dense_pull_range(struct tug_dense *d, size_t variable, uint64_t begin,
                                 uint64_t n, float *values);

// Begins a batch whose gradients are sent one variable at a time (tug_dense_update). So a
// program's backward pass can compute the next gradient while earlier gradients are sent.
// Until tug_dense_finish_batch the program may call only tug_dense_update for `d`.
// (Paddle's first version: ParameterUpdater's startBatch, update and finishBatch.)
// TUG_EUSAGE if the table has mode sync, where a worker's part of a batch is one push.
TUG_API int tug_dense_start_batch(struct tug_dense *d);
// Sends the gradient of a variable, at most once in a batch. `variable` is the variable's
// position in the list of tug_dense_open, from 0. Returns at once; the array is copied.
TUG_API int tug_dense_update(struct tug_dense *d, size_t variable, const float *gradient);
// Ends the batch: waits until the servers have applied all its gradients, then pulls all
// variables into `values`, unless `values` is NULL.
TUG_API int tug_dense_finish_batch(struct tug_dense *d, float *values);

// Operations on vectors of parameters, as in Paddle's first version (doOperation,
// PSERVER_OP_...). A vector is all dense variables of one table (struct tug_dense). u, v
// and w are the first, second and third vector of a call; a, b and c are its first,
// second and third number. All vectors have the same lengths.
enum tug_vector_op {
    TUG_VECTOR_UTU,      // the sum of u u
    TUG_VECTOR_UTV,      // the sum of u v
    TUG_VECTOR_AU,       // u = a u
    TUG_VECTOR_AU_BV,    // v = a u + b v
    TUG_VECTOR_AU_BV_CW, // w = a u + b v + c w
    // u = a A x + b u; vectors: columns of A, then u; numbers: a, b, x[].
    TUG_VECTOR_AAX_BU,
    TUG_VECTOR_RESET,     // u = a in all elements
    TUG_VECTOR_COPY,      // v = u
    TUG_VECTOR_RANDOMIZE, // u = its initial values, drawn anew; number: the seed
    // Sets the direction to the steepest descent of loss + l1 |x|; vectors: direction,
    // gradient, x; number: l1.
    TUG_VECTOR_STEEPEST,
    // Zeroes elements of the direction whose sign differs from that in the steepest
    // direction; vectors: direction, steepest direction.
    TUG_VECTOR_FIX_DIR_SIGNS,
    // Returns the derivative of loss + l1 |x| along the direction; vectors: direction,
    // gradient, x; number: l1.
    TUG_VECTOR_DIR_DERIV,
    // Zeroes elements of the new x whose sign differs from that in x; vectors: new x, x.
    TUG_VECTOR_FIX_OMEGA_SIGNS,
};
// Applies an operation to n vectors and n_numbers numbers, in the order that enum
// tug_vector_op gives. *ret (may be NULL) becomes the result of an operation that returns
// a number. One worker calls it while no other worker pushes: it pulls the vectors,
// computes in doubles, and assigns the vector that changes. TUG_EUSAGE if the operation
// takes another number of vectors or numbers, or the vectors have different lengths.
TUG_API int tug_dense_operate(enum tug_vector_op op, struct tug_dense *const *vectors,
                              size_t n, const double *numbers, size_t n_numbers,
                              double *ret);

// Returns the value of an exact counter from the two floats that a pull returns for each
// value of a table with accessor "counter". A counter counts to 2^48.
static inline double tug_count(const float pulled[2])
{
    return (double)pulled[0] * 16777216.0 + (double)pulled[1];
}

// tug_auc_add counts predictions, and tug_auc computes the AUC over the predictions of all
// workers. The counts are a histogram in a table with accessor "counter" and dim 2
// (negatives and positives), which has a row for each of 4,096 buckets of probability.
// Counts are exact, so the AUC has the same bits as on one machine. (Paddle: the
// distributed AUC of fleet metrics.) The table is an ordinary one: tug_clear begins a new
// count, and a save of all tables includes it. tug/metric.h has metrics that no save
// includes. Labels above 0 are positives. *ret_auc is NAN if the predictions are all of
// one class; ret_examples may be NULL. TUG_EUSAGE if the table has other settings, or a
// prediction is not a probability; a call with up to 2^24 predictions then counts none of
// them.
TUG_API int tug_auc_add(struct tug_client *c, uint32_t table, const float *probabilities,
                        const float *labels, size_t n);
TUG_API int tug_auc(struct tug_client *c, uint32_t table, double *ret_auc,
                    uint64_t *ret_examples);

// These functions begin and end a recording of how long requests take on all servers, by
// kind of request. tug_profile_stop writes the recording to `file`, in this process, as a
// trace for Chrome and Perfetto. Both calls wait at most ten seconds for each server.
TUG_API int tug_profile_start(struct tug_client *c);
TUG_API int tug_profile_stop(struct tug_client *c, const char *file);

// Ends the cluster in an orderly way (Paddle: stop_server). In all its processes, calls
// that wait return TUG_EINTERRUPTED, and tug_last_error() is the sentence `why`. If `why`
// is NULL, the sentence says that a program ended the cluster.
TUG_API int tug_stop(struct tug_client *c, const char *why);

// A program can register rules, entry policies and accessors of its own, up to 16 of each.
// Settings can then name them like built-in ones. Every process that holds rows (a server,
// tug/kvapp.h) or makes tables must register them, from one thread, before it opens its
// first client or node. The library copies a struct; `name`, `about` and `ctx` must stay
// valid until the process ends. Threads of servers call the functions, several at a time.
// The functions must be quick, must not fail, and may depend only on their arguments.
// Registering returns at once. TUG_EUSAGE if the name is invalid or taken, a function is
// missing, or 16 are registered already.
//
// An update rule. `name` is its name in settings, `about` is its line in lists of rules.
struct tug_rule {
    const char *name, *about;
    // Floats of state for each weight, and for each row. The state of a new row is 0.
    uint32_t state_per_weight, state_per_row;
    // Updates n weights of a row and their state in place. `state` has n x
    // state_per_weight floats, then state_per_row; `rate` is the learning rate of this
    // push, after schedules.
    void (*apply)(void *ctx, float rate, float *weights, float *state,
                  const float *gradients, size_t n);
    void *ctx;
    float rate; // the learning rate of a table whose settings give no rate
};
TUG_API int tug_register_rule(const struct tug_rule *r);

// An entry policy: decides which keys get a row.
struct tug_entry_policy {
    const char *name, *about;
    // Returns whether a key without a row gets a row. `key` is the 64-bit hash of the
    // key; `show` and `click` are those of the push (both 0 for examples that are pushed
    // again, tug_again); `threshold` is that of the settings.
    bool (*admit)(void *ctx, uint64_t key, float show, float click, float threshold);
    void *ctx;
};
TUG_API int tug_register_entry(const struct tug_entry_policy *p);

// An accessor: defines statistics that each row has besides its weights and their state.
struct tug_accessor {
    const char *name, *about;
    uint32_t stats;  // number of floats of statistics in a row
    uint32_t pushed; // number of floats that follow the gradients in a push
    // A pull returns, before the weights, the first `pulled` floats of the statistics.
    uint32_t pulled;
    // Adds the `pushed` floats of a push to the statistics. It is not called for examples
    // that are pushed again (tug_again). NULL: adds nothing.
    void (*seen)(void *ctx, float *stats, const float *pushed);
    // Returns the score of a row. A table over its budget removes rows with the lowest
    // scores first. If the function is NULL, all scores are 0.
    float (*score)(void *ctx, const float *stats);
    // Decays the statistics in tug_shrink, and returns true to remove the row. NULL: does
    // neither.
    bool (*shrink)(void *ctx, float *stats, float threshold);
    // Returns whether a save of this mode includes the row. If the function is NULL, a
    // save includes all rows.
    bool (*saved)(void *ctx, const float *stats, enum tug_save_mode mode);
    void *ctx;
};
TUG_API int tug_register_accessor(const struct tug_accessor *a);

#ifdef __cplusplus
}
#endif

#endif
