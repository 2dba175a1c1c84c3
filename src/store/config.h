// What a table is to be, as people write it: names and values, one table of settings for
// the command line, configuration files, the wire, manifests and the manual.
//
//   name = users
//   accessor = ctr
//   dim = 8
//   rule = adagrad-shared:lr=0.05,g0=3
//   entry = count:3               # rarer keys cost no row
//
// One setting a line, or separated by ';'. '#' begins a comment. Printing gives all
// settings that are not the defaults, in one order, so that equal tables have equal
// texts; numbers read back as the same bits.
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
    // accessor, dim, rule, embedx-rule, embed, by-squares, embedx-random, life's settings
    struct accessor_options accessor;
    struct rate rate;            // rate: schedule of both rules' rates by the global step
    struct entry_options entry;  // entry
    bool count_all;              // count-passes: all passes of a run, not the first alone
    float init_low, init_high;   // init: of group 0: "0.01" is -0.01..0.01; default 0
    float extra_low, extra_high; // embedx-init; default 1e-4
    uint64_t seed;               // of first values and hashes
    enum config_place place;     // placement
    enum config_mode mode;       // mode: async, ssp:S, sync
    uint32_t staleness;
    bool mean; // reduce: sum or mean (sync)
    // Rows of keys from this one on are sums: gradients are added to them, whatever the
    // rule. 0: none.
    uint64_t sums_from;
    bool deltas; // what changes is noted, for delta saves; default on with a life
    // Rows in all partitions together; 0: no limit. A partition may have its
    // share: beyond it the rows of least score go, until `budget_floor` (0.9)
    // of the share is left.
    uint64_t budget_rows;
    float budget_floor;
    // Cold tier: rows in memory, likewise (0: by cold-after-days alone), and the
    // directory ("": none), in which each loop has its own.
    uint64_t hot_rows;
    char cold[CONFIG_PATH_MAX];
    bool cold_durable;
};

// Whether what is pushed to the key's row is added to it, and so never averaged.
static inline bool table_config_sums(const struct table_config *c, uint64_t key)
{
    return c->sums_from > 0 && key >= c->sums_from;
}

struct table_config table_config_defaults(void);

// One setting. TUG_EUSAGE: no such setting (the nearest is named), or what is wrong with
// the value.
int table_config_set(struct table_config *c, const char *name, const char *value,
                     struct err *e);
// Many; errors name the line. On top of what *c holds, which stays as it was on failure.
// The accessor is looked at first, wherever it stands: its life decides what `deltas` is.
int table_config_parse(struct table_config *c, const char *text, struct err *e);
// As a whole: what cannot be together.
int table_config_check(const struct table_config *c, struct err *e);
int table_config_print(const struct table_config *c, struct buf *to);

// The settings, for help and docs, in the order in which they are printed.
struct setting_kind;
enum setting_of {
    SETTING_OF_ALL,
    SETTING_OF_LIFE,     // accessors with a life
    SETTING_OF_EMBEDX,   // these, and features
    SETTING_OF_FEATURES, // features alone
};
struct table_setting {
    const char *name, *metavar, *fallback; // fallback: the default, as text
    const char *help;                      // one line: what, and why this default
    enum setting_of of;                    // what it means something to
    const struct setting_kind *kind;       // how it is read and printed,
    size_t offset;                         // and where it lies in a table_config
};
const struct table_setting *table_settings(size_t *ret_n);

#endif
