// Stores with a cold tier on disk, in one directory of the test.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_TIERS_H
#define TUG_KIT_TIERS_H

#include "kit/stores.h"

extern char tiers_dir[64]; // the directory of all tiers

// Makes the test's folder (files_end removes it) and returns true. If that is not
// possible, returns false with the exit status of the test in *ret; without RocksDB,
// prints that the test is skipped.
bool tiers_begin(int *ret);

// Opens a store with these settings and with max_bytes (0: no limit).
int tiers_open_with(struct store **ret, const char *settings, uint32_t bits,
                    uint64_t max_bytes, struct err *e);
int tiers_open(struct store **ret, const char *settings, uint32_t bits, struct err *e);
void tiers_remove(void); // removes the files; no store may be open

#endif
