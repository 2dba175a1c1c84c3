// What others may know of a run while it goes on: docs/cluster.md describes the fields
// ("The run"). The run writes it at its lines of progress and about once a second; any
// thread prints it.
//
// All functions do nothing if the facts are NULL: nobody asks.
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
// Returns the state before.
enum train_state train_facts_state(struct train_facts *f, enum train_state state);

// Returns whether the last progress is a second old.
bool train_facts_due(const struct train_facts *f);
// `m`: of the pass so far, of the first label; `share` of the pass, -1: unknown.
struct train_now {
    uint32_t pass;
    double share;
    uint64_t batches;
    const struct metrics *m;
};
void train_facts_progress(struct train_facts *f, const struct train_now *now);

// Adds the last pass of the history.
void train_facts_pass(struct train_facts *f, const struct history *h, uint32_t best);
// A save took so long; `path` NULL: it has failed.
void train_facts_saved(struct train_facts *f, const char *path, double seconds,
                       uint32_t pass);
void train_facts_end(struct train_facts *f, int rc, const char *error);

// Writes the member `name` into an open object; `facts` is a struct train_facts.
void train_facts_put(void *facts, const char *name, struct json_out *to);

#endif
