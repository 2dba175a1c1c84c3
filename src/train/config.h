// The configuration of a training run, and its results.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_CONFIG_H
#define TUG_TRAIN_CONFIG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "data/format/reader.h"
#include "model/metrics.h"
#include "model/model.h"
#include "store/config.h"
#include "train/held_out.h"
#include "train/schedule.h"

struct node;
struct options;
struct course;
struct history;
struct history_pass;
struct report_data;
struct train_facts;
struct train_peer;

struct path_list {
    const char *const *items;
    size_t n;
    const char *command; // the command through which each file is piped; NULL: none
};

// TRAIN_RESUME_AUTO resumes the run in --out, and begins a new run if --out has none.
enum train_resume { TRAIN_NEW, TRAIN_RESUME, TRAIN_RESUME_AUTO };

enum { TRAIN_LABEL_MAX = 64 };

enum data_in { DATA_IN_AUTO, DATA_IN_MEMORY, DATA_IN_STREAM };

// Where update rules are applied on a cluster (train_cluster/exchange.h).
// TRAIN_RULES_AUTO: on servers in sync mode, and for rules whose states cannot be added
// up; otherwise in workers.
enum train_rules { TRAIN_RULES_AUTO, TRAIN_RULES_SERVER, TRAIN_RULES_WORKER };

// The greatest number of batches that a worker pulls, computes and pushes at the same
// time.
enum { TRAIN_MAX_IN_FLIGHT = 3 };

// Settings of training on a cluster, for the scheduler's driver and for all workers.
struct train_cluster {
    struct node *node;
    // Whether the scheduler and the server also run in this process
    // (train_cluster/within.h).
    bool within;
    const struct course *course; // the code that does the passes (train_cluster/remote.h)
    const struct train_peer *peer; // set with course_peer; else NULL
    enum config_mode mode;
    uint32_t staleness; // the staleness bound in batches, with CONFIG_SSP
    enum train_rules rules;
    bool together; // the threads of a worker compute one batch: half-async, geo, elastic
    uint32_t geo;  // batches that a worker trains on its own copy of the rows between two
                   // synchronizations; 0: it trains on the servers' rows
    // Used with geo. If not 0, each worker keeps its own copy of the rows. After every
    // stretch of batches, each copy and the servers' rows move towards each other by this
    // fraction, divided by the number of workers. 0: after a stretch the average of the
    // copies replaces them.
    float elastic;
    uint32_t in_flight; // 1 to TRAIN_MAX_IN_FLIGHT batches; 0: the program chooses
    // In async mode, with dense_bounded: the staleness bound of layers, as in ssp.
    uint32_t dense_staleness;
    bool dense_bounded;
    bool bf16, pack_keys, cache_keys; // options of the client (client_options)
    // Workers without other work also train on pieces that other workers have not
    // finished.
    bool backups;
    bool workers_score; // workers score --valid and --test; else the driver does
    // If true, the examples of all workers are distributed again before the first pass:
    // at random (`shuffle_by` NULL), or so that examples with equal texts in the columns
    // `shuffle_by` ("a,b") come to the same worker.
    bool shuffle;
    const char *shuffle_by;
    // For the driver. keeps: whether the scheduler keeps notes about open
    // passes in a journal (--state). kept: the note about the pass with which
    // the run goes on, or NULL.
    bool keeps;
    const struct kept_run *kept; // train/saved/kept_run.h
    // For the driver of a scheduler with a lease in etcd, which may lose the lease to
    // another scheduler. shares_out: the drivers of both share the lock of `out`, because
    // a scheduler that is stopped would keep the lock. took_over: this scheduler has
    // taken the lease over.
    bool shares_out, took_over;
    // Waits until this process may write its results. Returns an error if another process
    // may write them instead. NULL: this process always may.
    int (*may_write)(void *ctx, struct err *e);
    void *may_write_ctx;
};

// A report to a listener, sent a few times a second about the pass so far, and once about
// each finished pass. `metrics` has an element for each of the `labels` labels. They are
// computed from predictions that were made before the run trained on the example.
struct train_news {
    uint32_t pass, passes; // the number of this pass, from 1, and of all passes
    double share; // the fraction of the pass that is done, 0 to 1; negative: unknown
    bool done;    // the pass is finished
    uint32_t labels;
    const struct metrics *metrics;
    const struct metrics *valid; // set when `done` and the run has validation data; else
                                 // NULL
    const struct metrics_stream *seen; // the sums from which `metrics` were computed; set
                                       // when `done`, else NULL
    const struct history_pass *record; // the pass's entry in the history; set when
                                       // `done`, else NULL
};

// Receives reports instead of the progress on standard error. The thread that trains
// calls `hear`.
struct train_listener {
    void (*hear)(void *ctx, const struct train_news *n);
    void *ctx;
};

// Settings of training (model/setting.h). `reduce_mean`: synchronous batches take the
// mean of the gradients instead of their sum. `average`: number of batches over which the
// mean of the parameters is taken (rows/averaging.h); 0: no mean.
#define TRAINING_SETTINGS(SETTING, BY_HAND)                                              \
    SETTING(u32, batch, "batch", INT32_MAX, ALWAYS)                                      \
    SETTING(flag, deterministic, "deterministic", , ALWAYS)                              \
    SETTING(word, reduce_mean, "reduce", "sum mean", ALWAYS)                             \
    BY_HAND(data)                                                                        \
    SETTING(u64, average, "average", INT64_MAX, 0)

// Settings that decide when a run ends and saves. A resumed run may change them.
// `patience`: the run stops after this many passes in a row without a better validation
// loss; 0: never. `keep`: number of saves that are kept in `out`.
#define PLAN_SETTINGS(SETTING, OWN, BY_HAND)                                             \
    SETTING(u32, epochs, "epochs", INT32_MAX, ALWAYS)                                    \
    OWN(u32, patience, "patience", INT32_MAX, ALWAYS)                                    \
    OWN(u32, keep, "keep", INT32_MAX, ALWAYS)                                            \
    BY_HAND(save_every)                                                                  \
    SETTING(u64, max_bad_lines, "max-bad-lines", INT64_MAX, ALWAYS)

struct run_settings {
#include "train/settings.inc.h"
};

struct train_config {
    // The cluster on which the run trains. NULL: one process trains, on rows of its own.
    // If cluster->node is NULL, one process trains, and its rows may be in a server loop
    // of the same process (train_cluster/within.h).
    const struct train_cluster *cluster;
    // Settings of a table with a feature lifecycle (train/rows/lifecycle.h). NULL: the rows
    // are the model's own and are never removed.
    const struct table_config *table;
    // `valid` names files or is empty; then valid_part may be used instead.
    struct path_list data, test, valid;
    const char *group; // evaluation_options.group for `test` and `valid`
    // "COLUMN:N" (train/merge.h), for training and test data; NULL: merges no lines.
    const char *merge;
    struct reader_options reader;
    union {
        struct run_settings settings;
        struct {
#include "train/settings.inc.h"
        };
    };
    // "COLUMN=N,...": fields_dims sets model.dims from it; NULL: not given.
    const char *dims;
    PLAN_SETTINGS(SETTING_MEMBER, SETTING_MEMBER, SETTING_NOTHING)
    // Number of passes between two saves; 0: saves only after the last pass.
    uint32_t save_passes;
    // Number of batches between two saves; 0: saves only after passes.
    uint64_t save_batches;
    int threads;
    enum data_in data_in;
    uint64_t window_bytes; // when streaming: bytes of text that are held in memory and
                           // shuffled together
    const char *out;       // directory of the saves; NULL: the run saves nothing
    enum train_resume resume;
    // Errors about options that differ from the save name only these options; NULL: all.
    // If the user chose another model or optimizer than the save's, `typed` has the
    // options that the user gave, because the save lacks some options of the new choice.
    const struct options *typed;
    const char *init_from;   // directory of the model with which the run begins; NULL:
                             // none. Not used if TRAIN_RESUME_AUTO resumes a run
    const char *init_tables; // "sparse", "dense" or both, separated by ','; NULL: both
    // Number of batches between two progress lines; 0: lines by time.
    uint64_t log_batches;
    uint64_t dot_batches; // number of batches between two dots; 0: no dots
    // Reports between batches, every fetch_batches batches (train/look.h): `fetch` lists
    // values to print ("a,b"), `dump` is a file for parameters and examples,
    // `dump_fields` lists columns to write beside these. NULL: none.
    const char *fetch, *dump, *dump_fields;
    uint64_t fetch_batches;
    // Directory of bases and deltas for processes that serve the model during training
    // (train_cluster/driver_publish.c); NULL: none. publish_seconds: time between two
    // bases or deltas. publish_deltas: number of deltas that follow each base.
    const char *publish;
    double publish_seconds;
    uint32_t publish_deltas;
    uint64_t keep_names; // the greatest number of keys whose words are kept; 0: none
    const atomic_bool *interrupted; // set by a signal to end the run; NULL: never set
    // For a caller that trains a model in several runs of a few passes each. other_data:
    // a resumed run may have different data. all_or_nothing: an interrupted run saves
    // nothing, so that the save before it stays the newest.
    bool other_data, all_or_nothing;
    const struct train_listener *listener; // NULL: progress goes to standard error
    const char *history_file;              // the file of --history; NULL: none
    const char *tfevents;                  // the directory of --tfevents; NULL: none
    // The file of --report, which the caller writes and the run only checks; NULL: none.
    const char *report_file;
    struct report_data *report_data; // receives what a report shows; NULL: not wanted
    // Gets the state of the run for STATUS and --http; NULL: not wanted.
    struct train_facts *facts;
    // Receives the records of all passes when the run ends, including passes before the
    // run was resumed. The caller frees the records. NULL: not wanted.
    struct history *history;
};

struct train_result {
    uint64_t examples;      // examples in the data, including those held out
    uint64_t held_out;      // examples that --valid FRACTION has held out
    uint32_t epochs;        // finished passes, including those before the run was resumed
    uint32_t epochs_before; // finished passes before this run was resumed
    bool tested;
    uint32_t labels; // number of labels of an example
    // The names of the labels; "" for a label without a name.
    char label[LABELS_MAX][TRAIN_LABEL_MAX];
    union { // metrics of the first label, and of every label
        struct metrics test, tests[LABELS_MAX];
    };
    bool validated;
    // Metrics of the first label, and of every label, by the model that the run keeps.
    union {
        struct metrics valid, valids[LABELS_MAX];
    };
    uint32_t best_epoch;
    // total_seconds also contains the time of waiting for other processes and of work
    // between the five phases.
    double read_seconds, train_seconds, valid_seconds, save_seconds, test_seconds,
        total_seconds;
    // The part of train_seconds in which a worker waited for servers; the
    // average over workers.
    double wait_seconds;
    uint64_t trained_examples; // examples that this process trained on in train_seconds
    uint64_t keys;
    double bytes_per_key; // bytes of memory for a row and its index entry
    uint64_t fixed_bytes; // bytes of memory that do not depend on the number of keys
    bool streamed; // the data was read again in each pass, one window after the other
    uint64_t data_bytes; // bytes of the data set in memory; if `streamed`, of the largest
                         // window
    uint64_t skipped_lines;
    char saved[4096]; // directory of the last save; "" if there is none
    char format[SCHEMA_FORMAT_MAX];
    bool nothing_to_do;        // the resumed run had done all requested passes
    bool within_pass;          // the resumed run's save was made in the middle of a pass
    uint32_t workers, servers; // nodes of the cluster; 0: one process trained alone
};

// Trains a model. On TUG_EINTERRUPTED the run has written a checkpoint if `out` is set,
// and e names it.
int train_run(const struct train_config *c, struct train_result *ret, struct err *e);

#endif
