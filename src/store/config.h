// The settings of a table as people write them, names and values: one list for the
// command line, configuration files, the wire, manifests and the manual.
//
//   name = users
//   accessor = ctr
//   dim = 8
//   rule = adagrad-shared:lr=0.05,g0=3
//   entry = count:3               # rarer keys cost no row
//
// One setting a line, or separated by ';'. '#' begins a comment. Printing lists the
// settings that differ from their defaults, in a fixed order, so that equal tables have
// equal texts; printed numbers read back to the same bits.
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
    // accessor, dim, rule, embedx-rule, embed, by-squares, embedx-random, and lifecycle
    // settings
    struct accessor_options accessor;
    struct rate rate;            // rate: schedule of both rules' rates by the global step
    struct entry_options entry;  // entry
    bool count_all;              // count-passes: all passes of a run, not the first alone
    float init_low, init_high;   // init: of group 0: "0.01" is -0.01..0.01; default 0
    float extra_low, extra_high; // embedx-init; default 1e-4
    uint64_t seed;               // of initial values and hashes
    enum config_place place;     // placement
    enum config_mode mode;       // mode: async, ssp:S, sync
    uint32_t staleness;
    bool mean; // reduce: sum or mean (sync)
    // Rows of keys from this one on are sums: gradients are added to them, whatever the
    // rule. 0: no row is a sum.
    uint64_t sums_from;
    bool deltas; // notes changed rows, for delta saves; on by default with a lifecycle
    // The most rows of all partitions; 0: no limit. A partition with more rows than its
    // share removes those of the lowest score, until `budget_floor` (0.9) of the share is
    // left.
    uint64_t budget_rows;
    float budget_floor;
    // Cold tier: the most rows in memory, likewise (0: only cold-after-days decides), and
    // its directory ("": no tier), in which each loop has its own.
    uint64_t hot_rows;
    char cold[CONFIG_PATH_MAX];
    bool cold_durable;
};

// Returns whether pushed values are added to the key's row, and so never averaged.
static inline bool table_config_sums(const struct table_config *c, uint64_t key)
{
    return c->sums_from > 0 && key >= c->sums_from;
}

struct table_config table_config_defaults(void);

// Sets one setting. TUG_EUSAGE says that there is no such setting (and the nearest name),
// or what is wrong with the value.
int table_config_set(struct table_config *c, const char *name, const char *value,
                     struct err *e);
// Parses many settings over those in *c, which is unchanged on failure; errors name the
// line. The accessor is read first, wherever it stands: its lifecycle decides the default
// of `deltas`.
int table_config_parse(struct table_config *c, const char *text, struct err *e);
// Checks the settings together, for those that exclude each other.
int table_config_check(const struct table_config *c, struct err *e);
int table_config_print(const struct table_config *c, struct buf *to);

// The list of settings, for help and docs, in the order in which they are printed.
struct setting_kind;
enum setting_of {
    SETTING_OF_ALL,
    SETTING_OF_LIFE,     // accessors with a lifecycle
    SETTING_OF_EMBEDX,   // these, and features
    SETTING_OF_FEATURES, // only the accessor `features`
};
struct table_setting {
    const char *name, *metavar, *fallback; // fallback: the default, as text
    const char *help;   // one line: its meaning and the reason of its default
    enum setting_of of; // the accessors it applies to
    const struct setting_kind *kind; // parses and prints it
    size_t offset;                   // of its field in table_config
};
const struct table_setting *table_settings(size_t *ret_n);

#endif
