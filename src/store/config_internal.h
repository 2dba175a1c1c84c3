// Kinds of settings, which config.c and config_values.c share.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_STORE_CONFIG_INTERNAL_H
#define TUG_STORE_CONFIG_INTERNAL_H

#include "store/config.h"

// Functions that parse and print a kind of setting; `at` is the field. Errors of `set`
// are about the value; the caller puts the setting's name in front.
struct setting_kind {
    int (*set)(struct table_config *c, void *at, const char *value, struct err *e);
    int (*print)(const void *at, struct buf *to);
};

extern const struct setting_kind setting_name, setting_path, setting_number,
    setting_whole32, setting_whole, setting_flag, setting_accessor, setting_rule,
    setting_rate, setting_entry, setting_seed, setting_init, setting_place, setting_mode,
    setting_reduce, setting_passes;

#endif
