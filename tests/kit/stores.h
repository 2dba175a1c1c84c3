// Opens stores by their settings.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_STORES_H
#define TUG_KIT_STORES_H

#include "store/store.h"

enum { STORES_ID = 5 }; // the id of the table of every store that stores_open makes

struct store *stores_open(const char *settings, uint32_t bits);
struct store *stores_open_with(const struct table_config *c, uint32_t bits,
                               uint64_t max_bytes);

// Returns the number of floats per key in a push.
uint32_t stores_value_width(const struct store *s, enum store_op op);

#endif
