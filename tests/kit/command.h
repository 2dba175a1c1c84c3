// Tests of the command as people run it: real processes in a folder of the test's own.
//
// Paths are relative to the folder, which is removed when the program ends.
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

// Group fixtures: the folder, and an environment without options of tug.
int e2e_begin(void **state);
int e2e_end(void **state);

// Runs `tug WORDS` (separated by spaces) to its end; gives the exit status, or 128 + the
// signal that killed it. Its output is then in e2e_out and e2e_err. The test fails when a
// sanitizer complained.
int tug(const char *words, ...) E2E_PRINTF(1);
extern char *e2e_out, *e2e_err;

// Likewise with a required exit status: prints its output if it is another.
void tug_ends(int code, const char *words, ...) E2E_PRINTF(2);

// Its standard error must contain the text.
void e2e_says(const char *text);

// The last line of standard output as JSON; the caller gives it back with json_decref.
json_t *e2e_json(void);
double e2e_number(const char *name); // of that object; NaN for null

// For any process: its output in a file; whether e2e_err has a sanitizer's report; the
// exit status, or 128 + the signal, from the status that waitpid gave.
void e2e_collect(char **text, const char *path);
bool e2e_sanitizer_complains(void);
int e2e_status(int status);

// For the commands that follow; NULL and 0: as usual.
extern const char *e2e_stdin;   // a file for standard input
extern uint64_t e2e_file_limit; // bytes that a file can have: a full disk

// A command in the background.
pid_t tug_start(const char *words, ...) E2E_PRINTF(1);
int tug_finish(pid_t pid); // as tug()

// Returns the newest complete save of a model directory, as "OUT/save-000007".
const char *e2e_newest(const char *out);

// Their newest saves must be the same files with the same bytes.
void e2e_same_model(const char *a, const char *b);
bool e2e_models_differ(const char *a, const char *b);

// Examples with something to learn: 12 features out of 90, of which some come in pairs
// that matter. `padding` makes lines longer (with a comment), so that few rows are many
// bytes. Labels of rows for which flip(i) holds are turned around.
struct e2e_data {
    const char *path;
    bool fields; // libffm
    size_t rows, padding;
    uint64_t seed;
    bool (*flip)(size_t i);
};
void e2e_write_data(const struct e2e_data *d);

// Exact AUC of predictions (a number a line in e2e_out) by the labels of a
// libsvm or libffm file.
double e2e_auc(const char *data);

#endif
