// The manifest of a saved model: a JSON file that says what the model is, which
// files hold its rows, and where its training stood. Its rename is the moment
// at which a save exists.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_MANIFEST_H
#define TUG_TRAIN_MANIFEST_H

#include "base/err.h"
#include "data/identity.h"
#include "data/schema.h"
#include "save/part.h"
#include "train/run.h"

// Version 1 had no schema: keys of csv went by the place of a column.
enum {
    MANIFEST_VERSION = 2,
    MANIFEST_OLDEST = 1,
    MANIFEST_MAX_PARTS = 256,
    MANIFEST_TEXT_MAX = 16384
};

#define MANIFEST_NAME "manifest.json"

// Which tables a part belongs to. MODEL is what eval and predict use (the best pass when
// there was validation); TRAINING is where the run goes on, when that differs.
enum part_role { PART_MODEL, PART_TRAINING };

struct manifest_part {
    char file[64];
    enum part_role role;
    bool dense; // the table of dense parameters, else of sparse features
    uint32_t first_partition, n_partitions;
    struct part_info info;
};

// All that a run's result depends on. A resumed run must agree in it.
struct manifest_options {
    struct model_options model;
    // Training.
    struct schedule schedule;
    uint32_t batch;
    bool deterministic, reduce_mean, streaming;
    uint64_t window_bytes;
    double valid_fraction;
    char
        table[MANIFEST_TEXT_MAX]; // settings of features that live (train/lives.h), or ""
};

// Large: not for the stack.
struct manifest {
    struct manifest_options options;
    struct schema schema; // of the data
    struct identity data; // files: 0: not known (version 1)
    uint64_t rows, examples;
    bool finished;
    struct position at;
    uint64_t bad_lines;
    bool has_best;
    double best_loss;
    uint32_t best_epoch, passes_since_best;
    struct metrics best_valid;
    uint32_t n_parts;
    struct manifest_part parts[MANIFEST_MAX_PARTS];
};

// Writes DIR/manifest.json beside and renames it.
int manifest_write(const struct manifest *m, const char *dir, struct err *e);

// Reads and checks it. TUG_EDATA naming the file for anything that is not as it was
// written, for another format version, and for files that would lie outside DIR.
int manifest_read(struct manifest *ret, const char *dir, struct err *e);

// TUG_EDATA when no data can be read for the model in `dir` any more: one of csv, saved
// without a schema.
int manifest_knows_data(const struct manifest *m, const char *dir, struct err *e);

// 0 when `now` would go on exactly as `then`; TUG_EUSAGE naming the options that
// differ.
int manifest_same_options(const struct manifest_options *then,
                          const struct manifest_options *now, struct err *e);

// Whether its features live: then their rows are a table's save, not parts.
static inline bool manifest_lives(const struct manifest *m)
{
    return m->options.table[0] != 0;
}

#endif
