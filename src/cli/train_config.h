// Training as the command line asks for it: the configuration made of the options, and
// the result printed. Shared by `tug train` and by the roles of a cluster that trains.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLI_TRAIN_CONFIG_H
#define TUG_CLI_TRAIN_CONFIG_H

#include "cli/train_options.h"
#include "store/config.h"
#include "train/config.h"

struct train_setup {
    struct train_config config;
    struct train_cluster cluster; // config.cluster points here, or nowhere
    struct table_config table;    // config.table likewise
    bool json, refit;
    char format[OPTION_NAME_MAX]; // these two are what config points to
    const char *valid[1];
};

// For this process alone (node NULL), or for a cluster that is reached through `node`.
// The texts stay the options'. Opens the log, too.
int train_configure(struct train_setup *s, const struct train_options *t,
                    const struct options *o, struct node *node, struct err *e);

// --table: a text, or a file of settings.
int train_read_table(struct table_config *c, const char *text, struct err *e);

// Prints what came of it, as text or JSON.
int train_print(const struct train_setup *s, const struct train_result *t,
                uint32_t servers, uint32_t workers, struct err *e);

#endif
