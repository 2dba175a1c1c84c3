// The directory of a cold tier: `rows`, which is RocksDB's, and a marker, which says that
// the directory is a tier's and of which kind. Nothing is removed from a directory
// without a marker.
//
// There are two kinds of marker. A scratch marker says that the rows are of no use to a
// later process. A durable one says whose rows they are, and up to which of RocksDB's
// sequence numbers they are promised. Durable tiers begin as scratch ones and become
// durable when they are complete.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_COLD_TIER_HOME_H
#define TUG_COLD_TIER_HOME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "os/file.h"

enum { TIER_ABOUT_MAX = 512 };

struct tier_home {
    char dir[FILE_PATH_MAX];
    char rows[FILE_PATH_MAX];
    char marker[FILE_PATH_MAX];
    char about[TIER_ABOUT_MAX];
    int lock;
    bool made;         // the directory was made by this process
    bool scratch;      // the rows are removed when the tier is closed
    uint64_t sequence; // durable: the last one that was promised
};

// Locks and checks the directory, and makes it if missing. Rows under a scratch marker
// are removed first. Afterwards h->scratch says whether RocksDB has to begin anew.
int tier_home_open(struct tier_home *h, const char *dir, bool durable, const char *about,
                   struct err *e);

// Makes or keeps the tier durable: rows up to `sequence` are on disk.
int tier_home_keep(struct tier_home *h, uint64_t sequence, struct err *e);

// Removes a scratch tier's rows. `h` may be one whose opening failed.
void tier_home_close(struct tier_home *h);

#endif
