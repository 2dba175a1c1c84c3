// The directory of a cold tier: `rows`, which is RocksDB's, and a marker, which says that
// the directory is ours and what is in it. Nothing is removed from one without a marker.
//
// There are two kinds of marker. A scratch one: what lies here is of no use to anybody
// who comes later. A durable one: whose rows they are, and up to which of RocksDB's
// sequence numbers they were promised to be there. Durable tiers begin as scratch ones
// and become durable when they are complete.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_COLD_TIER_HOME_H
#define TUG_COLD_TIER_HOME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/file.h"

enum { TIER_ABOUT_MAX = 512 };

struct tier_home {
    char dir[FILE_PATH_MAX];
    char rows[FILE_PATH_MAX];
    char marker[FILE_PATH_MAX];
    char about[TIER_ABOUT_MAX];
    int lock;
    bool made;         // the directory: it was not there before
    bool scratch;      // what is in it goes when the tier is closed
    uint64_t sequence; // durable: of the last row that was promised
};

// Locks and checks the directory, and makes it, if missing. What a scratch marker covers
// is removed first. Afterwards h->scratch says whether RocksDB has to begin anew.
int tier_home_open(struct tier_home *h, const char *dir, bool durable, const char *about,
                   struct err *e);

// Durable from now on, or still: rows up to `sequence` are on disk.
int tier_home_keep(struct tier_home *h, uint64_t sequence, struct err *e);

// Removes what is scratch. One whose opening failed is fine.
void tier_home_close(struct tier_home *h);

#endif
