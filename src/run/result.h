// The result of a run as one JSON object (docs/reports.md). `tug train` and `tug eval`
// print it with --json, and a report shows it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_RUN_RESULT_H
#define TUG_RUN_RESULT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "model/metrics.h"
#include "run/eval_tables.h"
#include "train/config.h"
#include "train/history.h"

struct result {
    const char *command, *model, *format;
    uint64_t examples;      // train: examples of a pass; eval: examples scored
    uint64_t held_out;      // train: examples held out for validation
    uint32_t epochs;        // finished passes of the run
    uint32_t epochs_before; // passes before the run was resumed, which `epochs` includes
    bool tested;
    // The number of labels of an example, and their names.
    uint32_t labels;
    char label[LABELS_MAX][TRAIN_LABEL_MAX];
    union { // metrics of the first label, and of each label
        struct metrics test, tests[LABELS_MAX];
    };
    bool validated;
    union {
        struct metrics valid, valids[LABELS_MAX];
    };
    uint32_t best_epoch;
    double read_seconds, train_seconds, valid_seconds, save_seconds, test_seconds,
        total_seconds;
    // On a cluster: the part of train_seconds spent waiting for servers.
    double wait_seconds;
    double examples_per_second;
    uint64_t keys;
    double bytes_per_key;
    uint64_t fixed_bytes;
    bool streamed;
    uint64_t data_bytes;
    int threads;
    uint32_t servers, workers; // 0: one process
    uint64_t seed;
    const char *out; // "" if nothing was saved
    uint64_t skipped_lines;
    const struct eval_tables *tables; // tables that `tug eval` prints; NULL: none
    const struct history *history;    // the passes of `tug train`; NULL: none
};

void result_name_labels(struct result *r, const struct schema *s);

// Returns the seconds of the total that belong to none of the other times.
double result_other_seconds(const struct result *r);

static inline bool result_has_groups(const struct metrics *m)
{
    return m->groups > 0 || m->one_class > 0 || m->without_group > 0;
}

// Adds the metrics; if `m` is NULL, all of these members are null.
void result_add_metrics(json_t *o, const struct metrics *m);

// Returns the result; NULL if there is not enough memory. Needs json_begin.
json_t *result_to_json(const struct result *r);

#endif
