// The configuration of a training run, and its results.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_CONFIG_H
#define TUG_TRAIN_CONFIG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "data/reader.h"
#include "model/metrics.h"
#include "model/model.h"
#include "store/config.h"
#include "train/held_out.h"
#include "train/schedule.h"

struct node;
struct course;
struct history;
struct history_pass;
struct train_peer;

struct path_list {
    const char *const *items;
    size_t n;
    const char *command; // what each file goes through; NULL: nothing
};

// AUTO: a run that is there goes on, else one begins.
enum train_resume { TRAIN_NEW, TRAIN_RESUME, TRAIN_RESUME_AUTO };

enum { TRAIN_LABEL_MAX = 64 };

enum data_in { DATA_IN_AUTO, DATA_IN_MEMORY, DATA_IN_STREAM };

// Where update rules are applied on a cluster (remote/exchange.h). AUTO: the server in
// sync mode and for rules whose state does not add up; else the worker.
enum train_rules { TRAIN_RULES_AUTO, TRAIN_RULES_SERVER, TRAIN_RULES_WORKER };

// Batches that a worker pulls, computes and pushes at the same time, at most.
enum { TRAIN_MAX_IN_FLIGHT = 3 };

// Training on a cluster: settings for the scheduler's driver and all workers.
struct train_cluster {
    struct node *node;
    const struct course *course;   // who does the passes (remote/remote.h)
    const struct train_peer *peer; // course_peer's; else NULL
    enum config_mode mode;
    uint32_t staleness; // CONFIG_SSP
    enum train_rules rules;
    bool together; // the threads of a worker compute one batch: half-async, geo, elastic
    uint32_t geo;  // batches that a worker trains on its own copy of the rows; 0: all on
                   // the servers'
    // With geo: the workers' copies stay apart, and go this share, of which each worker
    // has its part, towards the servers' rows; 0: they become their average.
    float elastic;
    uint32_t in_flight; // 1..TRAIN_MAX_IN_FLIGHT; 0: so many
    // Async: layers keep to this bound nevertheless, as in ssp (if `dense_bounded`).
    uint32_t dense_staleness;
    bool dense_bounded;
    bool bf16, pack_keys, cache_keys; // see client_options
    bool workers_score;               // --valid and --test; else the driver does
    // The number that the options ask for, and these options; 0: no option does.
    uint32_t servers, workers;
    const char *servers_by, *workers_by;
    // The examples of all workers are dealt anew, before the first pass; examples with
    // equal texts in `shuffle_by` ("a,b"; NULL: at random) then meet on one worker.
    bool shuffle;
    const char *shuffle_by;
};

// A listener's report about a run: about the pass so far a few times a second, and about
// each finished pass. `metrics`, one after the other for each of the `labels`, are of the
// examples before they were trained on.
struct train_news {
    uint32_t pass, passes; // from 1
    double share;          // of the pass, 0 to 1; negative: not known
    bool done;             // the pass is
    uint32_t labels;
    const struct metrics *metrics;
    const struct metrics *valid; // of a pass that is done; NULL: there is no validation
    const struct metrics_stream *seen; // likewise: what `metrics` are of; else NULL
    const struct history_pass *record; // likewise (train/history.h)
};

// Instead of progress on standard error. Called by the thread that trains.
struct train_listener {
    void (*hear)(void *ctx, const struct train_news *n);
    void *ctx;
};

struct train_config {
    // NULL: this process alone; without a node: this process too, perhaps with a server
    // loop in it (remote/within.h).
    const struct train_cluster *cluster;
    // Features' rows live by these settings (train/lifecycle.h); NULL: they are the
    // model's own and stay for good.
    const struct table_config *table;
    struct path_list data, test, valid; // valid: files, or none
    struct held_out valid_part;         // or this share of the training data
    const char *group;                  // evaluation_options.group of `test` and `valid`
    const char
        *merge; // "COLUMN:N" (train/merge.h) of all of these; NULL: each line stays
    struct reader_options reader;
    struct model_options model;
    const char *dims; // "COLUMN=N,...": fields_dims makes model.dims of it; or NULL
    struct schedule schedule;
    uint32_t epochs;
    uint32_t batch;
    int threads;
    bool deterministic;
    uint64_t
        average; // batches that models are the mean of (averaging.h); 0: they are not
    bool reduce_mean; // synchronous batches: mean of the gradients instead of their sum
    enum data_in data_in;
    uint64_t window_bytes; // streaming: text held and shuffled at a time
    // Passes without a better validation loss before stopping; 0: never.
    uint32_t patience;
    uint64_t max_bad_lines;
    const char *out; // NULL: nothing is saved
    enum train_resume resume;
    const char *init_from;   // NULL: from nothing; with TRAIN_RESUME_AUTO: when it begins
    const char *init_tables; // "sparse,dense" or NULL: all
    uint32_t save_passes;    // save every so many passes; 0: only at the end
    uint64_t save_batches;   // and every so many batches
    uint64_t log_batches;    // a progress line every so many batches; 0: now and then
    uint64_t dot_batches;    // and a dot every so many; 0: none
    // Between batches, every so many (train/look.h): names "a,b" of values that are told, a file
    // of parameters and examples, and the columns "a,b" that stand with these. NULL: none.
    const char *fetch, *dump, *dump_fields;
    uint64_t fetch_batches;
    // A base and its deltas for processes that serve the model meanwhile
    // (remote/driver_publish.c): the seconds between two, the number of deltas behind a
    // base. NULL: none.
    const char *publish;
    double publish_seconds;
    uint32_t publish_deltas;
    uint64_t keep_names;            // words behind keys, at most so many; 0: none
    uint32_t keep;                  // saves kept in `out`
    const atomic_bool *interrupted; // set by a signal; NULL: never
    // For a caller that drives the passes of a model itself, a run for each few of them.
    // The data of a resumed run may be other data than before; and a run that is
    // interrupted saves nothing, so that what was saved before it is what there is.
    bool other_data, all_or_nothing;
    const struct train_listener *listener; // NULL: nobody
    const char *history_file;              // --history; NULL: none
    // The records of the run's passes, including those before a resumption, once it has
    // ended; the caller frees it. NULL: not wanted.
    struct history *history;
};

struct train_result {
    uint64_t examples; // of the data: those of a pass, and those held out
    uint64_t held_out; // of these, by --valid FRACTION
    uint32_t epochs;   // done, those before a resume included
    bool tested;
    uint32_t labels;                         // of an example
    char label[LABELS_MAX][TRAIN_LABEL_MAX]; // their names, "" where they have none
    union {                                  // of the first label, and of each
        struct metrics test, tests[LABELS_MAX];
    };
    bool validated;
    union { // likewise; of the kept model
        struct metrics valid, valids[LABELS_MAX];
    };
    uint32_t best_epoch;
    // The rest of the total is waiting for others, and work between these.
    double read_seconds, train_seconds, valid_seconds, save_seconds, test_seconds,
        total_seconds;
    double wait_seconds; // of train_seconds: the mean of the workers' waiting for servers
    uint64_t trained_examples; // by this process, in train_seconds
    uint64_t keys;
    double bytes_per_key; // of memory: of a row and its place in the index
    uint64_t fixed_bytes; // and what lies there beside the keys
    bool streamed;        // read again in each pass: data_bytes are held at a time
    uint64_t data_bytes;  // of the data set in memory (or of the last window)
    uint64_t skipped_lines;
    char saved[4096]; // directory of the last save; "" when none
    char format[SCHEMA_FORMAT_MAX];
    bool nothing_to_do;        // the run was over before
    uint32_t workers, servers; // of the cluster; 0: one process
};

// Trains. On TUG_EINTERRUPTED a checkpoint was written when there is an
// `out`, and e says where.
int train_run(const struct train_config *c, struct train_result *ret, struct err *e);

#endif
