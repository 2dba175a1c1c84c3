// A training run from the inside: the structs that trainer.c, loop.c, the updaters and
// other files share.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_RUN_H
#define TUG_TRAIN_RUN_H

#include <stdatomic.h>
#include <stdint.h>

#include "data/dataset/dataset.h"
#include "data/source/identity.h"
#include "os/team.h"
#include "train/config.h"
#include "train/rows/dense.h"
#include "train/rows/hot.h"
#include "train/rows/parameters.h"
#include "train/rows/view.h"

struct run;
struct course;
struct run_rows;
struct names;
struct history;
struct look;
struct tfevents;
struct driver;
struct averaging;
struct run_start; // defined in checkpoint.c
struct living_rows;
struct living_steps;

enum { RUN_CHUNK_BYTES = 1 << 20 };

// The position of a run. Together with the tables, it is all that resuming needs.
struct position {
    uint32_t epoch;            // passes finished
    uint64_t window;           // number of the current window in the pass
    uint64_t batch;            // batches finished in the window
    uint64_t batches;          // batches finished in the run
    uint64_t seen;             // examples in the finished windows of the pass
    uint64_t bad_lines;        // lines skipped in the pass before the window
    struct source_place place; // when streaming: the place of the window's first chunk
    uint64_t averaged;         // batches of the run that the samples of the mean cover
};

struct worker {
    struct run *run;
    struct view view;
    struct model_work work;
    struct rule_params rules[ACCESSOR_MAX_GROUPS];
    struct dense dense;
    uint64_t examples; // examples whose gradients are in dense.gradient
    struct rule_params dense_rule[ACCESSOR_MAX_GROUPS];
    struct hot_copies hot; // copies of hot rows, with hogwild and several threads
    uint64_t unmerged;     // examples since the last merge of `hot`
    // The block of the pass's order from which this worker takes examples.
    struct order_block hand;
    // For each label: sums over examples, taken before training on them.
    struct metrics_stream *stream;
    struct synchronous *synchronous;
    // With rows_living, during a stretch: the state of its steps.
    struct living_steps *steps;
    int rc; // TUG_ENOMEM; or TUG_EDATA: the score of example `bad` is not finite
    uint64_t bad;
    _Alignas(64) char apart; // padding that keeps workers on separate cache lines
};

// The sizes of rows in this process, for the code that updates the rows.
struct run_row {
    uint32_t bytes;              // bytes that hold a feature's weights and state
    uint32_t copied[HOT_PIECES]; // floats of a hot row that workers copy; 0: rows are not
                                 // copied
};

// Members that are used only if a team trains in this process (course_local).
struct local_run {
    const struct updater *updater;
    struct worker *workers;
    struct metrics_stream *seen; // sums of all threads, for each label
    float **blocks;              // the rows of the model's dense parameters
    struct run_row row;          // the sizes of a feature's row
    struct averaging *averaging; // with rows_own: the mean of the parameters, or NULL
    // With rows_living: the rows, which replace the tables in `parameters`.
    struct living_rows *living;

    // The stretch of batches that the team is working on.
    struct order order;
    struct hot_rows hot; // the hot rows of the data set or window
    atomic_uint_fast64_t next_batch;
    uint64_t last_batch;
    // Set when a worker failed or was interrupted, or a line of progress is due.
    atomic_bool stop;
};

struct run {
    const struct train_config *config; // points to `own`
    // A copy of the caller's configuration, completed by facts of the data.
    struct train_config own;
    struct reader_options given; // the reading options as the user gave them
    // Whether the run continues a save, by --resume or because --out holds a run.
    bool resumes;
    struct run_start *start;        // the save of --resume or --init-from; NULL: none
    struct identity *data_identity; // identity of the files of --data
    // Number of columns of the widest matrix in the data; 0: the data is files.
    uint64_t columns;
    const struct course *course; // the code that does the passes
    const struct run_rows *rows; // holds the rows
    struct local_run local;      // used with course_local; else zeroed
    struct driver *driver; // the driver, with course_cluster (train_cluster/remote.h)
    int out_lock;          // the lock on --out; -1: none
    struct team *team;
    struct parameters parameters;
    // The numbering of the save's features, until the training data was compared with it;
    // used with --init-from.
    struct numbering before;
    // Numbering of which only the fields are used: those of all training data.
    struct numbering fields;
    const struct model *model; // the model on the rows that are trained
    struct reader *reader;
    struct source *source;
    struct dataset *data; // all of the data, or the current window
    bool streaming;
    struct position at;
    bool in_pass;       // a pass has begun and has not ended
    uint64_t bad_lines; // number of lines skipped in the pass so far
    // The reason why a pass is missing in --history; code 0: no pass is missing.
    struct err unrecorded;
    struct metrics last_pass; // metrics of the first label over the last pass, taken
                              // before training on each example
    // The number of examples of a pass in the save that the run resumes from; 0: unknown.
    uint64_t resumed_examples;
    uint32_t resumed_epochs; // finished passes of the save that the run resumes from
    struct {
        uint64_t of, n;
    } held_out; // run_held_out: of the first `of` examples, n are held out

    // The best pass so far, by the validation loss of the first label.
    struct parameters best;
    bool has_best;
    double best_loss;
    uint32_t best_epoch, passes_since_best;
    union { // best_valid is best_valids[0], the metrics of the first label
        struct metrics best_valid, best_valids[LABELS_MAX];
    };

    struct names *names; // words for --keep-names; NULL: none
    struct look *look;   // the state of --fetch and --dump; NULL: neither is given
    struct progress *progress;
    struct tfevents *events; // the file of --tfevents; NULL: none
    struct history *history; // config.history, or the run's own history
};

// The interface between loop.c and the code that trains the team on the current data set,
// a stretch of batches at a time. The first three functions may be NULL.
struct updater {
    int (*open)(struct run *r, struct err *e); // called once, when the workers exist
    void (*close)(struct run *r);
    // Called when another data set or window was loaded.
    int (*begin_data)(struct run *r, struct err *e);
    // A function for all members of the team. Trains on the batches [next_batch,
    // last_batch), or on fewer if `stop` is set, and leaves next_batch at the first batch
    // that was not begun. Batch b holds the shuffled examples from b * config.batch on.
    // Rank 0 reads the clock.
    void (*batches)(void *run, int rank);
};
// hogwild.c: each thread updates rows after every example. synchronous.c: threads add up
// the gradients of a batch, so that any number of threads gives the same bits.
extern const struct updater updater_hogwild, updater_synchronous;

// grace_seconds: see struct source_options.
int run_open_source(struct source **ret, const struct path_list *paths,
                    const atomic_bool *interrupted, double grace_seconds, struct err *e);

// Opens the reader with the known properties of the data; called again when more
// properties are known.
int run_open_reader(struct run *r, struct err *e);

bool run_interrupted(const struct run *r);
// Returns an error if another process may write the results of this run instead.
int run_may_write(const struct run *r, struct err *e);
// Returns whether an interrupted run saves its progress.
bool run_saves_when_interrupted(const struct run *r);
// Returns whether the run was interrupted and leaves its pass unfinished
// (run_rows.whole_passes).
bool run_leaves_pass(const struct run *r);

// Returns whether something that is done every `every` batches is due after
// `batches` batches; 0: never.
bool run_due(uint64_t batches, uint64_t every);

// Returns how many of the first `examples` of the data --valid FRACTION holds out.
uint64_t run_held_out(struct run *r, uint64_t examples);

// Checks that there is an example, and that a resumed run has as many examples as before.
int run_check_examples(const struct run *r, uint64_t examples, struct err *e);

// Lists the examples at positions [first, first + n) of the pass's order, without those
// held out, and returns their number.
size_t run_pick(struct worker *w, uint64_t first, size_t n, uint64_t *ret_order);

#endif
