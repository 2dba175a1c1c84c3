// The options of `tug train` made into the configuration of a run: for the command, the roles
// of a cluster that trains, and programs (tug/train.h).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_RUN_TRAIN_CONFIG_H
#define TUG_RUN_TRAIN_CONFIG_H

#include "run/train_options.h"
#include "store/config.h"
#include "train/config.h"
#include "train/history.h"

// On a cluster, the runs of --refit: see train_refit.h.
enum refit_stage { REFIT_NO, REFIT_SEARCH, REFIT_ALL };

struct train_setup {
    const atomic_bool *interrupted; // by the caller, before: train_config's
    struct train_config config;
    struct train_cluster cluster; // config.cluster points here, or nowhere
    struct table_config table;    // config.table likewise
    bool json, refit;
    uint32_t folds;               // of --cv; 0: not asked for
    enum refit_stage stage;       // of a cluster
    struct history history;       // of the run; the caller asks for it, or not
    struct train_result found;    // by the first run of --refit, for the second one
    const char *found_file;       // where that one says so
    char format[OPTION_NAME_MAX]; // these three are what config points to
    const char *valid[1];
    const char **paths;
};

// For this process alone (node NULL), or for a cluster that is reached through `node`.
// The texts stay the options'.
int train_configure(struct train_setup *s, const struct train_options *t,
                    const struct options *o, struct node *node, struct err *e);

// Whether all files of --data, --test and --valid are there; all that are not are named.
// `again`: the option that has them read again; NULL: none.
int train_check_data(const struct train_config *c, const char *again, struct err *e);

// Trains in this process, as it was configured.
int train_setup_run(const struct train_setup *s, struct train_result *ret, struct err *e);

void train_setup_close(struct train_setup *s); // a zeroed one is fine

// --table: a text, or a file of settings.
int train_read_table(struct table_config *c, const char *text, struct err *e);

#endif
