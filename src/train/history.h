// The record of a run's passes. It has one form: a struct here, and a line of JSON per
// pass in the file of --history, in saves (history.jsonl) and in the output of --json.
//
//   {"pass":2,"examples":9000,"loss":0.41,"auc":0.81,
//    "valid":{"examples":1000,"loss":0.43,"auc":0.79},"seconds":1.5,"best":true}
//
// "valid" is null without validation, and a number that does not exist is null. With
// several labels, these fields are of the first label, and "labels" has the fields of
// each label by its name: {"click":{"loss":..,"auc":..,"valid":..}}. A save keeps the
// record, so that a resumed run continues it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_HISTORY_H
#define TUG_TRAIN_HISTORY_H

#include "base/buf.h"
#include "model/metrics.h"
#include "os/json.h"
#include "train/config.h"

struct history_score {
    uint64_t examples;
    double loss, auc; // NAN: not computed
};

struct history_pass {
    uint32_t pass;     // the number of the pass, from 1
    uint64_t examples; // examples trained on, without those held out for validation
    double seconds;    // time of reading, training and validation, without saves
    bool validated;
    bool best; // validation was better after this pass than after all earlier ones
    // For each label: scores of the training examples, taken before the run trained on
    // them, and of the validation data.
    struct history_score seen[LABELS_MAX], valid[LABELS_MAX];
};

struct history {
    uint32_t labels;
    // names of the labels; "" if a label has no name
    char label[LABELS_MAX][TRAIN_LABEL_MAX];
    struct history_pass *pass;
    size_t n, cap;
    int stream; // file descriptor of --history if that is a pipe or a device; else 0
};

void history_free(struct history *h); // leaves *h empty; a zeroed struct is fine
int history_add(struct history *h, const struct history_pass *p, struct err *e);
// Removes the passes after pass `passes`: a resumed run repeats them.
void history_cut(struct history *h, uint32_t passes);
struct history_score history_score(const struct metrics *m);

// Return one pass as a JSON object, or all passes as an array; NULL if there is not
// enough memory.
json_t *history_pass_to_json(const struct history *h, const struct history_pass *p);
json_t *history_to_json(const struct history *h);

// Write and read the record in the directory of a save. history_load returns an empty
// record if the save has none, as in saves of early versions. If the file is damaged,
// history_load warns and returns an empty record.
int history_write(const struct history *h, const char *dir, struct err *e);
int history_load(struct history *ret, const char *dir, struct err *e);

// These functions write and read the record as a text. history_print appends to `to`.
// history_parse returns TUG_EDATA, naming `name`, if the text is damaged.
int history_print(const struct history *h, struct buf *to, struct err *e);
int history_parse(struct history *ret, const char *text, size_t n, const char *name,
                  struct err *e);

// The file of --history. history_check_file returns TUG_EUSAGE if the file exists and is
// not such a record, if the run reads it, or if it is the record of another run, unless
// this run continues that one (`continues`). history_begin_file writes all passes so far
// in place of an older record; history_append adds the newest pass. A pipe or a device (a
// terminal) is opened once and gets the record line by line.
struct data_files;
int history_check_file(const char *path, const struct data_files *read, bool continues,
                       struct err *e);
int history_begin_file(struct history *h, const char *path, struct err *e);
int history_append(const struct history *h, const char *path, struct err *e);

#endif
