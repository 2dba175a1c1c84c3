// The state of a running training, for STATUS and --http; docs/cluster.md describes the
// fields ("The run"). The run updates it at each line of progress and about once a
// second; any thread may print it.
//
// All functions do nothing if the facts are NULL, which means that no process can ask for
// them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_FACTS_H
#define TUG_TRAIN_FACTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json_out.h"
#include "model/metrics.h"

struct train_facts;
struct history;

enum train_state {
    TRAIN_LOADING,
    TRAIN_TRAINING,
    TRAIN_VALIDATING,
    TRAIN_SAVING,
    TRAIN_DONE,
    TRAIN_INTERRUPTED,
    TRAIN_FAILED,
};

int train_facts_open(struct train_facts **ret, struct err *e);
void train_facts_close(struct train_facts *f);

void train_facts_begin(struct train_facts *f, const char *model, uint32_t passes);
// The run goes on with a pass that another process began (--state): the examples of that
// process do not count for the speed.
void train_facts_goes_on(struct train_facts *f);
// Sets the state of the run, and returns the previous one.
enum train_state train_facts_state(struct train_facts *f, enum train_state state);

// Records that the work of the present state goes on: examples were scored. Any thread may
// call it, as often as it likes.
void train_facts_alive(struct train_facts *f);

// Returns whether at least a second has passed since the number of examples last
// increased.
bool train_facts_due(const struct train_facts *f);
// The progress of a pass. `share` is the part of the pass that is done, -1 if unknown;
// `m` has the metrics of the first label over the pass so far.
struct train_now {
    uint32_t pass;
    double share;
    uint64_t batches;
    const struct metrics *m;
};
void train_facts_progress(struct train_facts *f, const struct train_now *now);

// The tables of a run in this process, with their figures at this moment.
enum { TRAIN_TABLES = 2 };
struct train_table {
    const char *name; // never freed
    uint64_t rows, bytes;
    bool cold; // some rows are on disk; else the following numbers mean nothing
    uint64_t cold_rows, hits, reads, writes;
};
void train_facts_tables(struct train_facts *f, const struct train_table *t, size_t n);

// Adds all passes of the history, which were finished before this process began (--resume,
// --state); `best` is the number of the best one, 0 without validation.
void train_facts_past(struct train_facts *f, const struct history *h, uint32_t best);
// Adds the last pass of the history; `best` is the number of the best pass, `base` the loss
// if the mean label of the pass were predicted for all examples (NaN if unknown).
void train_facts_pass(struct train_facts *f, const struct history *h, uint32_t best,
                      double base);
// Records a save of pass `pass` that took `seconds`. `path` NULL: the save failed, for the
// reason `why` (may be NULL).
void train_facts_saved(struct train_facts *f, const char *path, double seconds,
                       uint32_t pass, const char *why);
// Records the end of the run. If why->code is 0, the run has succeeded.
void train_facts_end(struct train_facts *f, const struct err *why);

// Writes the member `name` into an open object; `facts` is a struct train_facts.
void train_facts_put(void *facts, const char *name, struct json_out *to);
// Writes the tables as the member "tables", a list.
void train_facts_put_tables(struct train_facts *f, struct json_out *to);

#endif
