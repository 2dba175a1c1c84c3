// The directory of a cold tier. The directory of a tier has a directory `rows` with
// RocksDB's files, and a marker: a file that identifies the directory as a tier of a
// certain kind. Nothing is removed from a directory without a marker.
//
// There are two kinds of marker. A scratch marker says that no later process can use the
// rows. A durable marker names the owner of the rows, and the sequence number of RocksDB
// up to which the directory must hold them. A durable tier begins as a scratch tier and
// becomes durable when it is complete.
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
    uint64_t sequence; // for a durable tier: the sequence number in its marker
};

// Locks and checks the directory, and makes it if it is missing. Removes the rows of a
// scratch tier that an earlier process left. After success h->scratch tells whether
// RocksDB must make a new database.
int tier_home_open(struct tier_home *h, const char *dir, bool durable, const char *about,
                   struct err *e);

// Writes the marker of a durable tier: all rows up to sequence number `sequence` are on
// disk.
int tier_home_keep(struct tier_home *h, uint64_t sequence, struct err *e);

// Unlocks the directory and, for a scratch tier, removes its rows. tier_home_open may
// have failed for `h`.
void tier_home_close(struct tier_home *h);

#endif
