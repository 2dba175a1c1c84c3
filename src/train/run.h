// A training run from the inside: what trainer.c, loop.c, the updaters and the rest
// share.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_RUN_H
#define TUG_TRAIN_RUN_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/team.h"
#include "data/dataset.h"
#include "data/identity.h"
#include "train/config.h"
#include "train/dense.h"
#include "train/hot.h"
#include "train/parameters.h"
#include "train/view.h"

struct run;
struct course;
struct run_rows;
struct names;
struct history;
struct look;
struct driver;
struct averaging;
struct run_start; // the save that a run begins with
struct living_rows;
struct living_steps;

enum { RUN_CHUNK_BYTES = 1 << 20 };

// The position of a run: all that resuming needs besides the tables.
struct position {
    uint32_t epoch;            // passes done
    uint64_t window;           // within the pass
    uint64_t batch;            // within the window: batches done
    uint64_t batches;          // of the run, in all
    uint64_t seen;             // examples of the pass in windows done
    uint64_t bad_lines;        // skipped in the pass before the window
    struct source_place place; // of the window's first chunk (streaming)
    uint64_t averaged;         // batches of the run that the mean's samples stand for
};

struct worker {
    struct run *run;
    struct view view;
    struct model_work work;
    struct rule_params rules[ACCESSOR_MAX_GROUPS];
    struct dense dense;
    uint64_t examples; // in its gradient
    struct rule_params dense_rule[ACCESSOR_MAX_GROUPS];
    struct hot_copies hot;   // hogwild with several threads
    uint64_t unmerged;       // examples since its last merge
    struct order_block hand; // of the order, that this worker deals from
    struct metrics_stream
        *stream; // of each label: of examples before they were trained on
    struct synchronous *synchronous;
    struct living_steps *steps; // rows_living's, during a stretch
    int rc; // TUG_ENOMEM, or TUG_EDATA: `bad` had a score that is not finite
    uint64_t bad;
    _Alignas(64) char apart; // workers do not share lines
};

// Rows in this process, for the code that steps on them.
struct run_row {
    uint32_t bytes;              // of memory, that a feature's weights and state lie in
    uint32_t copied[HOT_PIECES]; // floats that workers copy of a hot one; 0: they do not
};

struct run {
    const struct train_config *config; // `own`
    struct train_config own;           // with how the data is read
    struct reader_options given;       // of that, what the options say
    bool resumes;                      // --resume, or a run to go on with was there
    struct run_start *start;           // of --resume and --init-from; NULL: nothing
    struct identity *data_identity;    // of --data
    uint64_t columns; // of the widest matrix that the model learns from; 0: it is files
    const struct course *course; // who does the passes
    const struct run_rows *rows; // who has the rows
    struct driver *driver;       // course_cluster's (remote)
    int out_lock;                // --out belongs to this run; -1: there is none
    struct team *team;
    const struct updater *updater; // of course_local
    struct parameters parameters;
    struct averaging *averaging; // of rows_own; NULL: there is none
    struct living_rows *living;  // of rows_living, in place of parameters' tables
    const struct model *model;   // on the rows that are trained
    float **blocks;              // those of the dense parameters among them
    struct run_row row;          // of features
    struct reader *reader;
    struct source *source;
    struct dataset *data; // all of it, or the window
    bool streaming;
    struct position at;
    struct worker *workers;
    struct metrics_stream *seen; // by all workers, of each label; of course_local
    uint64_t bad_lines;          // skipped in the pass
    struct err unrecorded;       // why a pass is not in --history; "": all are
    struct metrics last_pass; // of the examples before they were trained on, first label
    // The batches of a pass, by the save that the run resumes from; 0: not known.
    uint64_t resumed_examples;
    struct {
        uint64_t of, n;
    } held_out; // of so many examples so many: run_held_out

    // The stretch of batches that the team is working on.
    struct order order;
    struct hot_rows hot; // of the data set or window
    atomic_uint_fast64_t next_batch;
    uint64_t last_batch;
    atomic_bool stop; // somebody failed, was interrupted, or the clock asks for a line

    // Best pass so far, by the first label's validation loss.
    struct parameters best;
    bool has_best;
    double best_loss;
    uint32_t best_epoch, passes_since_best;
    union { // of the first label, and of each
        struct metrics best_valid, best_valids[LABELS_MAX];
    };

    struct names *names; // of --keep-names; NULL: none
    struct look *look;   // of --fetch and --dump; NULL: none
    struct progress *progress;
    struct history *history; // config.history, or one that nobody asks for
};

// Trains the team on the current data set, a stretch of batches at a time: the whole
// interface to loop.c. The first three may be NULL.
struct updater {
    int (*open)(struct run *r, struct err *e); // once the workers are there
    void (*close)(struct run *r);
    int (*begin_data)(struct run *r, struct err *e); // another data set is at hand
    // A team function. Does the batches [next_batch, last_batch), or fewer when `stop` is
    // set, and leaves next_batch at the first that was not begun. Batch b holds the
    // shuffled examples b * config.batch and on. Rank 0 looks at the clock.
    void (*batches)(void *run, int rank);
};
// Threads step rows as they come to them (hogwild.c), or add up the gradients of a batch,
// so that any number of threads gives the same bits (synchronous.c).
extern const struct updater updater_hogwild, updater_synchronous;

// By what is known of the data: again when more of it is.
int run_open_reader(struct run *r, struct err *e);

bool run_interrupted(const struct run *r);
// Whether what is done until then is saved.
bool run_saves_when_interrupted(const struct run *r);
// And whether the pass is left for it now (run_rows.whole_passes).
bool run_leaves_pass(const struct run *r);

// Whether something that is done every so many batches is due after so many.
bool run_due(uint64_t batches, uint64_t every);

// Returns how many of the first `examples` of the data --valid FRACTION holds out.
uint64_t run_held_out(struct run *r, uint64_t examples);

// There must be something to train on, and a run that goes on must find the data that it
// had.
int run_check_examples(const struct run *r, uint64_t examples, struct err *e);

// The examples at positions [first, first + n) of the pass's order, held-out ones left
// out; gives their number.
size_t run_pick(struct worker *w, uint64_t first, size_t n, uint64_t *ret_order);

#endif
