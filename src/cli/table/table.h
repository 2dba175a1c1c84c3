// The inside of tug table, which works on tables in two places.
//
//   table_saved.c     saves (save/save.h), also of training runs
//   table_running.c   a running cluster
//   table_import.c    text files that become a save
//   table_settings.c  the settings of tables
//   table_keys.c      the keys of get
//   table_top.c       the largest rows
//   table_output.c    the output of export
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLI_TABLE_TABLE_H
#define TUG_CLI_TABLE_TABLE_H

#include "base/buf.h"
#include "cli/nodes/node_options.h"
#include "options/options.h"
#include "os/file.h"
#include "store/config.h"

struct table_values {
    struct option_list action; // the action and the words after it
    const char *from, *table, *out;
    bool state;
    const char *settings;
    double number, threshold; // -1: not given
    int mode;                 // enum save_mode
    uint64_t zstd, keep;
    const char *converter;
    bool paddle, json;
    int by; // enum table_top_by
    uint64_t top;
    struct node_values node;
};

#define TABLE_MODES "checkpoint base delta day"

// Each function does some of the actions; the caller chooses the right one. `path` is a
// directory of saves, or a save.
int table_saved(const struct table_values *v, const char *path, struct err *e);
int table_running(const struct table_values *v, struct err *e);
int table_import(const struct table_values *v, struct err *e);

// These functions are shared by the functions above. table_print_settings prints `tug
// table settings`.
int table_print_settings(struct err *e);
// Reads and checks --settings, with the name from --table. Returns the text, which the
// caller frees, and its values.
int table_read_settings(const struct table_values *v, struct buf *ret_text,
                        struct table_config *ret, struct err *e);
// Returns TUG_EUSAGE "... holds no table 'user'; did you mean 'users'?". `names` are
// separated by spaces.
int table_unknown(const char *where, const char *name, const char *names, struct err *e);
// Checks that a save of this table alone may go into the directory: it must not replace
// saves of other tables there.
int table_check_place(const char *out, const char *name, struct err *e);
// Finds the newest save under `from`, or `from` itself. For a save of a training run,
// *ret_name is the name of the features' table, else NULL.
int table_find_saves(const char *from, char ret[FILE_PATH_MAX], const char **ret_name,
                     struct err *e);
// The keys after "get", with a flag for each key that was found.
struct table_keys {
    const char *const *text; // the words as the user typed them
    uint64_t *key;
    bool *found;
    size_t n;
};
// `run` is the run whose data decides the key of COLUMN=WORD; NULL: only keys are
// allowed.
struct saved_run;
// Checks that the words after "top" are columns of the run's features; returns TUG_EUSAGE
// if not.
int table_keys_columns(const struct option_list *words, const struct saved_run *run,
                       struct err *e);
int table_keys_open(struct table_keys *k, const struct table_values *v,
                    const struct saved_run *run, struct err *e);
void table_keys_close(struct table_keys *k);
// Returns TUG_EDATA about the first key that was not found.
int table_keys_check(const struct table_keys *k, const char *where, struct err *e);

#endif
