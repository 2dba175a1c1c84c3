// Tests of the command as users run it: real processes in a folder that belongs to the test.
//
// Paths are relative to this folder, which is removed when the test program ends.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_COMMAND_H
#define TUG_KIT_COMMAND_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include <jansson.h>

#include "kit/files.h"
#include "kit/test.h"

#define E2E_PRINTF(n) __attribute__((format(printf, n, n + 1)))

// Group fixtures: make and remove the folder, and remove tug's options from the
// environment.
int e2e_begin(void **state);
int e2e_end(void **state);

// Runs `tug WORDS` (separated by spaces) to its end. Returns the exit status, or 128 +
// the signal that killed it. The output is then in e2e_out and e2e_err. The test fails if
// a sanitizer has reported anything.
int tug(const char *words, ...) E2E_PRINTF(1);
extern char *e2e_out, *e2e_err;

// Runs `tug WORDS` and checks the exit status; prints the output if the status differs.
void tug_ends(int code, const char *words, ...) E2E_PRINTF(2);

// Checks that standard error contains the text.
void e2e_says(const char *text);

// Returns the last line of standard output as JSON, which the caller frees with
// json_decref.
json_t *e2e_json(void);
// Returns a member of the object that e2e_json returns; NaN for null.
double e2e_number(const char *name);

// Functions for any process. e2e_collect reads a process's output from a file,
// e2e_sanitizer_complains returns whether e2e_err has a sanitizer's report, and
// e2e_status returns the exit status, or 128 + the signal, of a status from waitpid.
void e2e_collect(char **text, const char *path);
bool e2e_sanitizer_complains(void);
int e2e_status(int status);

// Settings for the commands that follow; NULL and 0 are the defaults.
extern const char *e2e_stdin; // file for standard input
extern uint64_t
    e2e_file_limit; // bytes; a file that would grow larger fails, as on a full disk

// Starts a command in the background.
pid_t tug_start(const char *words, ...) E2E_PRINTF(1);
int tug_finish(pid_t pid); // waits for the end of the command, and returns as tug() does

// Returns the newest complete save of a model directory, as "OUT/save-000007".
const char *e2e_newest(const char *out);

// e2e_same_model checks that the newest saves of both directories have the same files
// with the same bytes; e2e_models_differ returns whether any file differs.
void e2e_same_model(const char *a, const char *b);
bool e2e_models_differ(const char *a, const char *b);

// Examples that a model can learn from: 12 features out of 90, some pairs of which
// matter. `padding` makes lines longer by a comment, so that few lines are many bytes.
// The labels of rows for which flip(i) is true are inverted.
struct e2e_data {
    const char *path;
    bool fields; // in the format libffm, with fields
    size_t rows, padding;
    uint64_t seed;
    bool (*flip)(size_t i);
};
void e2e_write_data(const struct e2e_data *d);

// Returns the exact AUC of the predictions in e2e_out (one number per line) for the
// labels of a libsvm or libffm file.
double e2e_auc(const char *data);

#endif
