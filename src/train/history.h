// The record of a run's passes. There is one shape of it: a struct here, and a line of
// JSON in the file of --history, in saves (history.jsonl) and in what --json prints.
//
//   {"pass":2,"examples":9000,"loss":0.41,"auc":0.81,
//    "valid":{"examples":1000,"loss":0.43,"auc":0.79},"seconds":1.5,"best":true}
//
// "valid" is null without validation, numbers that do not exist are null. With several
// labels these are of the first one, and "labels" has each by its name:
// {"click":{"loss":..,"auc":..,"valid":..}}. A save keeps the record, so that a resumed
// run goes on with it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_HISTORY_H
#define TUG_TRAIN_HISTORY_H

#include "base/json.h"
#include "model/metrics.h"
#include "train/config.h"

struct history_score {
    uint64_t examples;
    double loss, auc; // NAN: there is none
};

struct history_pass {
    uint32_t pass;     // from 1
    uint64_t examples; // trained on: without those that validation keeps for itself
    double seconds;    // reading, training and validation, without saves
    bool validated;
    bool best; // validation was better than after all passes before
    // For each label: on examples before they were trained on, and on validation data.
    struct history_score seen[LABELS_MAX], valid[LABELS_MAX];
};

struct history {
    uint32_t labels;
    char label[LABELS_MAX][TRAIN_LABEL_MAX]; // "" where they have no name
    struct history_pass *pass;
    size_t n, cap;
    int stream; // where --history is a pipe or a device, its descriptor; else 0
};

void history_free(struct history *h); // a zeroed one is fine, and is what is left
int history_add(struct history *h, const struct history_pass *p, struct err *e);
// Passes behind `passes` are taken out: a run that goes on does them again.
void history_cut(struct history *h, uint32_t passes);
struct history_score history_score(const struct metrics *m);

// Prints one pass as a line, or all as an array. NULL: no memory.
json_t *history_pass_to_json(const struct history *h, const struct history_pass *p);
json_t *history_to_json(const struct history *h);

// In the directory of a save. One that cannot be read is reported, and *ret is empty then, as where
// there is none: saves of before had no record.
int history_write(const struct history *h, const char *dir, struct err *e);
int history_load(struct history *ret, const char *dir, struct err *e);

// --history FILE: writes the passes so far, replacing an older record; or appends the
// newest pass. A pipe or a device (a terminal) is opened once, and gets line by line.
// TUG_EUSAGE: the file is something else, or one that the run reads.
struct data_files;
int history_check_file(const char *path, const struct data_files *read, struct err *e);
int history_begin_file(struct history *h, const char *path, struct err *e);
int history_append(const struct history *h, const char *path, struct err *e);

#endif
