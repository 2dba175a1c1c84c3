// A driver opens each pass with a note, which has the facts about the run that the driver
// needs to go on. If the scheduler and the driver in its process are killed, the next
// driver reads the note and goes on with the pass. The scheduler keeps the note in its
// journal. The rows are on the servers, which keep running.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_SAVED_KEPT_RUN_H
#define TUG_TRAIN_SAVED_KEPT_RUN_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct kept_run {
    char *run;              // the description of the run, as saved_run_print writes it
    char *history;          // the record of passes as in a save: a line for each pass
    uint64_t examples;      // examples of the previous pass; 0: there was none
    uint64_t trained;       // examples in all passes so far
    uint64_t saved_batches; // batches of the run at its last save
    // The place of a save in the pass is chosen this many batches ahead.
    uint64_t ahead;
    uint64_t steps;         // number of batches that the servers had counted
    uint64_t epochs_before; // passes before the run was resumed
    double read_seconds, train_seconds, valid_seconds, save_seconds, wait_seconds;
};

void kept_run_free(struct kept_run *k); // a zeroed struct is fine

// Writes *k as JSON, which the caller frees.
int kept_run_print(const struct kept_run *k, char **ret, struct err *e);
// Reads a text of kept_run_print. Returns TUG_EDATA if it is damaged.
int kept_run_parse(struct kept_run *ret, const char *text, size_t n, struct err *e);

#endif
