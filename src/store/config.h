// The settings of a table as text: names and values. The command line, configuration
// files, the wire, manifests and the manual use the same list.
//
//   name = users
//   accessor = ctr
//   dim = 8
//   rule = adagrad-shared:lr=0.05,g0=3
//   entry = count:3               # rarer keys cost no row
//
// Each setting has a line of its own, or settings are separated by ';'. '#' begins a
// comment. Printing lists the settings that differ from their defaults, in a fixed order,
// so that equal tables have equal texts; printed numbers read back to the same bits.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_STORE_CONFIG_H
#define TUG_STORE_CONFIG_H

#include "accessor/accessor.h"
#include "accessor/entry.h"
#include "base/buf.h"
#include "rule/rate.h"

enum { CONFIG_NAME_MAX = 64, CONFIG_PATH_MAX = 1024 };
enum config_place { CONFIG_HASH, CONFIG_RANGE, CONFIG_DENSE };
enum config_mode { CONFIG_ASYNC, CONFIG_SSP, CONFIG_SYNC };

struct table_config {
    char name[CONFIG_NAME_MAX];
    // The settings accessor, dim, rule, embedx-rule, embed, by-squares and embedx-random,
    // and those of the lifecycle.
    struct accessor_options accessor;
    struct rate rate; // setting rate: schedule of the learning rates of both rules
                      // (`rule`, `embedx-rule`) by the global step
    struct entry_options entry; // setting entry
    bool count_all; // setting count-passes: whether examples count in all passes of a
                    // run, not only in the first
    float init_low, init_high;   // setting init: range of the initial values of group 0;
                                 // "0.01" means -0.01..0.01; default 0
    float extra_low, extra_high; // setting embedx-init: range of the initial values of
                                 // embedx; default 1e-4
    uint64_t seed;               // seed of initial values and hashes
    enum config_place place;     // setting placement
    enum config_mode mode;       // setting mode: async, ssp:S or sync
    uint32_t staleness;
    bool mean; // setting reduce (mode sync): whether a batch applies the mean of the
               // gradients rather than their sum
    // Rows of keys from this one on are sums: pushed values are added to them, whatever
    // the rule. 0: no row is a sum.
    uint64_t sums_from;
    bool deltas; // whether changed rows are recorded, for delta saves; on by default
                 // with a lifecycle
    // Limit of the rows in all partitions together; 0: none. A partition with more rows
    // than its share of the limit removes the rows with the lowest scores, until its
    // number of rows is budget_floor (default 0.9) times its share.
    uint64_t budget_rows;
    float budget_floor;
    // Cold tier. hot_rows: limit of the rows in memory; 0: only cold-after-days decides.
    // cold: the directory, in which each loop has a directory of its own; "": no tier.
    uint64_t hot_rows;
    char cold[CONFIG_PATH_MAX];
    bool cold_durable;
    // On a cluster with replicas: 1: only the primary of a partition has its rows; 0: as many
    // replicas as the cluster has.
    uint32_t replicas;
};

// Returns whether pushed values are added to the key's row, and so never averaged.
static inline bool table_config_sums(const struct table_config *c, uint64_t key)
{
    return c->sums_from > 0 && key >= c->sums_from;
}

struct table_config table_config_defaults(void);

// Sets one setting. Returns TUG_EUSAGE if no setting has this name (the error then names
// the most similar one), or if the value is wrong.
int table_config_set(struct table_config *c, const char *name, const char *value,
                     struct err *e);
// Parses settings, which replace those in *c. On failure *c is unchanged, and the error
// names the line. The accessor is read first, wherever it is in the text, because the
// default of `deltas` depends on whether the accessor has a lifecycle.
int table_config_parse(struct table_config *c, const char *text, struct err *e);
// Checks that the settings fit together, because some exclude each other.
int table_config_check(const struct table_config *c, struct err *e);
int table_config_print(const struct table_config *c, struct buf *to);

// The list of settings, for help and docs, in the order in which they are printed.
struct setting_kind;
enum setting_of {
    SETTING_OF_ALL,
    SETTING_OF_LIFE, // applies to accessors whose rows have a lifecycle
    // Applies to accessors whose rows have a lifecycle, and to the accessor features.
    SETTING_OF_EMBEDX,
    SETTING_OF_FEATURES, // applies to the accessor features only
};
struct table_setting {
    const char *name, *metavar, *fallback; // `fallback` is the default value as text
    // The meaning of the setting and the reason for its default, in one line.
    const char *help;
    enum setting_of of; // accessors to which the setting applies
    // Whether the setting is read before all others, because its value
    // changes other defaults.
    bool first;
    const struct setting_kind *kind; // parses and prints the setting's value
    size_t offset;                   // offset of the setting's field in table_config
};
const struct table_setting *table_settings(size_t *ret_n);

#endif
