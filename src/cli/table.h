// tug table, from the inside: one command, three places where tables are.
//
//   table_model.c     the saved model of a training run whose rows have no life
//   table_saved.c     saves of tables made from settings (table/save.h)
//   table_running.c   a running cluster
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLI_TABLE_H
#define TUG_CLI_TABLE_H

#include "base/options.h"
#include "cli/node_options.h"

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
    struct node_values node;
};

#define TABLE_MODES "checkpoint base delta day"

// Each is given an action that it knows; `path` is a directory of saves, or one of them.
int table_model(const struct table_values *v, const char *path, struct err *e);
int table_saved(const struct table_values *v, const char *path, struct err *e);
int table_running(const struct table_values *v, struct err *e);

#endif
