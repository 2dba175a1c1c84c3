// Makes the configuration of a run from the options of `tug train`: for the command, for
// the roles of a cluster that trains, and for programs (tug/train.h).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_RUN_TRAIN_CONFIG_H
#define TUG_RUN_TRAIN_CONFIG_H

#include "os/file.h"
#include "run/train_options.h"
#include "store/config.h"
#include "train/config.h"
#include "train/history.h"
#include "train/report_data.h"

// The runs of --refit on a cluster (train_refit.h).
enum refit_stage { REFIT_NO, REFIT_SEARCH, REFIT_ALL };

struct train_setup {
    const atomic_bool *interrupted; // set by the caller before train_configure
    // Set by a caller that plans each of its runs. A run then takes passes, patience and
    // saves from the options, even if it resumes.
    bool own_plan;
    struct train_config config;
    struct train_cluster cluster; // config.cluster points here or is NULL
    struct table_config table;    // config.table points here or is NULL
    // The options that the run uses.
    const struct train_options *values;
    const struct options *options;
    struct report_data report_data; // gets the data that a report shows
    bool json, refit;
    uint32_t folds;            // number of folds of --cv; 0: not given
    enum refit_stage stage;    // the stage of --refit on a cluster
    struct history history;    // gets the passes of the run, if the caller wants them
    struct train_result found; // result of the first run of --refit, for the second run
    const char *found_file;    // file to which the first run writes its result
    // The options of a run that begins with a save, completed by those of the save in the
    // directory `taken_from` (train_resumed.h). The pointer is NULL if no option was taken
    // from a save.
    struct options *taken_options;
    struct train_options taken;
    char taken_from[FILE_PATH_MAX];
    // The options as given, if some of the save's options could not be taken
    // (train_config.typed); else NULL.
    const struct options *typed;
    char format[OPTION_NAME_MAX]; // config points to this member and the next two
    const char *valid[1];
    const char **paths;
};

// Configures a run in this process alone (node NULL), or on a cluster that is reached
// through `node`. Texts in *s are owned by the options.
int train_configure(struct train_setup *s, const struct train_options *t,
                    const struct options *o, struct node *node, struct err *e);

// Checks that all files of --data, --test and --valid exist, and names those that do not.
// `again` is the option for which the data is read more than once, or NULL if it is read once.
int train_check_data(const struct train_config *c, const char *again, struct err *e);

// Trains in this process as configured.
int train_setup_run(const struct train_setup *s, struct train_result *ret, struct err *e);

void train_setup_close(struct train_setup *s); // a zeroed struct is fine

// Reads --table, which is a text or a file of settings.
int train_read_table(struct table_config *c, const char *text, struct err *e);

#endif
