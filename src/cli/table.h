// tug table, from the inside: one command, two places where tables are.
//
//   table_saved.c     saves (save/save.h), those of training runs as well
//   table_running.c   a running cluster
//   table_import.c    text files that become a save
//   table_settings.c  what a table can be made of
//   table_keys.c      the keys that get is given
//   table_top.c       the rows that stand out
//   table_output.c    where export writes
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLI_TABLE_H
#define TUG_CLI_TABLE_H

#include "base/buf.h"
#include "base/file.h"
#include "base/options.h"
#include "cli/node_options.h"
#include "store/config.h"

struct table_values {
    struct option_list action; // and what it is about
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

// Each is given an action that it knows; `path` is a directory of saves, or one of them.
int table_saved(const struct table_values *v, const char *path, struct err *e);
int table_running(const struct table_values *v, struct err *e);
int table_import(const struct table_values *v, struct err *e);

// What they share. tug table settings.
int table_print_settings(struct err *e);
// Parses and checks --settings, with the name that --table gives: returns the text, which
// the caller frees, and its values.
int table_read_settings(const struct table_values *v, struct buf *ret_text,
                        struct table_config *ret, struct err *e);
// TUG_EUSAGE "... holds no table 'user', but users and ads; did you mean 'users'?".
// `names` are separated by spaces.
int table_unknown(const char *where, const char *name, const char *names, struct err *e);
// Whether a save of this table alone may go into the directory: not beside saves of
// others, which it would take the place of.
int table_check_place(const char *out, const char *name, struct err *e);
// Finds the newest save under `from`, or `from` itself. For a training run's save
// *ret_name is the name of the features' table, else NULL.
int table_find_saves(const char *from, char ret[FILE_PATH_MAX], const char **ret_name,
                     struct err *e);
// The keys behind "get", and which of them have been found.
struct table_keys {
    const char *const *text; // as it was given
    uint64_t *key;
    bool *found;
    size_t n;
};
// `run`: whose data says what COLUMN=WORD is; NULL: keys only.
struct saved_run;
// Whether the words behind "top" are columns of its features; TUG_EUSAGE.
int table_keys_columns(const struct option_list *words, const struct saved_run *run,
                       struct err *e);
int table_keys_open(struct table_keys *k, const struct table_values *v,
                    const struct saved_run *run, struct err *e);
void table_keys_close(struct table_keys *k);
// TUG_EDATA naming the first that was not found.
int table_keys_check(const struct table_keys *k, const char *where, struct err *e);

#endif
