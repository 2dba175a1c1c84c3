// A save's description of its run: the model and all options that its result depends on,
// the schema and identity of its data, and the position of training. A save's manifest
// has this description as its field `about` (save/save.h); tables without it are not a
// model.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_SAVED_SAVED_RUN_H
#define TUG_TRAIN_SAVED_SAVED_RUN_H

#include "base/err.h"
#include "data/format/schema.h"
#include "data/source/identity.h"
#include "data/source/numbering.h"
#include "os/json.h"
#include "train/run.h"

enum {
    SAVED_TEXT_MAX = 16384,
    SAVED_SHUFFLE_MAX = 1024,
    SAVED_MERGE_MAX = 320,
    SAVED_WORD_MAX = 64
};

struct names;
struct history;

// The options that change the result of a run. A resumed run must have the same ones.
struct saved_options {
    union {
        struct run_settings settings;
        struct {
#include "train/settings.inc.h"
        };
    };
    char dims[SAVED_TEXT_MAX]; // model.dims as COLUMN=N,... (train/fields.h), or ""
    bool streaming;
    uint64_t window_bytes;
    char shuffle[SAVED_SHUFFLE_MAX]; // "pieces", "global" or "global by a,b"; "": unknown
    // Settings of a table with a feature lifecycle (train/rows/lifecycle.h), or "".
    char table[SAVED_TEXT_MAX];
    char merge[SAVED_MERGE_MAX]; // "COLUMN:N" (train/merge.h), or ""
};

// The options about the length of a run and the intervals of its saves and reports, as
// the user gave them. If the user does not give such an option again, a resumed run
// takes it from the save.
struct saved_plan {
    // If epochs is 0, the save is of an older version and has no plan.
    PLAN_SETTINGS(SETTING_MEMBER, SETTING_MEMBER, SETTING_NOTHING)
    uint32_t save_passes;
    uint64_t save_batches;
    // Only clusters use these: --mode and --rules as typed, and the options that depend
    // on them; "" if one process trained.
    char mode[SAVED_WORD_MAX], rules[SAVED_WORD_MAX];
    bool bf16, dense_bounded;
    uint32_t in_flight, dense_staleness;
};

// A run's description. The struct is too large for the stack.
struct saved_run {
    struct saved_options options;
    struct saved_plan plan;
    struct schema schema;
    struct identity data;
    // The range of the feature numbers that the model knows; zeros if it is unknown, or if
    // the features' keys are not numbers.
    struct numbering_range numbers;
    uint64_t columns; // columns of the widest matrix in the data; 0: the data was files
    uint64_t first_field, fields_end; // the fields of libffm data; 0, 0: unknown
    // Whether --pipe-command wrote the lines of the data; a save never has the command.
    bool piped;
    uint64_t examples;
    bool finished;
    struct position at;
    uint64_t bad_lines;
    bool has_best;
    double best_loss;
    uint32_t best_epoch, passes_since_best;
    union { // best_valid is best_valids[0], the metrics of the first label
        struct metrics best_valid, best_valids[LABELS_MAX];
    };
    // For a save in the middle of a cluster's pass: the positions of the readers as JSON
    // (train_cluster/driver_cut.c); else NULL.
    char *readers;
    const struct names *names;     // words to write beside the rows; NULL: none
    const struct history *history; // record to write beside the rows; NULL: none
};
void saved_run_free(struct saved_run *x); // a zeroed struct is fine

// Prints the description as JSON, which the caller frees. May return TUG_ENOMEM.
int saved_run_print(const struct saved_run *x, char **ret, struct err *e);

// Reads and checks a text that saved_run_print has written. Returns TUG_EDATA, naming
// `path`, the manifest with the text, if a field is not as saved_run_print writes it.
int saved_run_parse(struct saved_run *ret, const char *text, const char *path,
                    struct err *e);

// Returns the options by their names on the command line, with an object for each rule.
// Needs json_begin. Returns NULL if there is not enough memory.
json_t *saved_options_to_json(const struct saved_options *s);

// Reads the options from JSON. `tasks` of ret->model must be set before.
void saved_options_from_json(struct saved_options *ret, json_t *o, struct json_fields *f);

// Returns the plan as JSON; NULL if there is not enough memory.
json_t *saved_plan_to_json(const struct saved_plan *p);
// Adds the settings of the plan that all processes of a run share.
void saved_plan_put_shared(json_t *o, const struct saved_plan *from);
// Reads the plan; `o` is NULL in saves of older versions.
void saved_plan_from_json(struct saved_plan *ret, const json_t *o, struct json_fields *f);

// Returns whether the save was made in the middle of a pass.
static inline bool saved_run_within_pass(const struct saved_run *x)
{
    return x->at.batch > 0 || x->at.window > 0 || x->at.seen > 0 || x->readers != NULL;
}

// Returns whether the run's features have a lifecycle.
static inline bool saved_run_has_lifecycle(const struct saved_run *x)
{
    return x->options.table[0] != 0;
}

#endif
