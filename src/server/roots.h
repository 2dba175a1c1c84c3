// The directories that a server was started with: messages name files by paths below
// them, and nothing that a message says leads out of them (base/below.h).
//
//   --save-root   saves are written below it, and read
//   --load-root   saves are read below it, too; there may be several
//   --cold-root   cold tiers lie below it
//
// What is not given is refused. The directories themselves are named by who starts the
// server: links on the way to them are followed.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_ROOTS_H
#define TUG_SERVER_ROOTS_H

#include <stddef.h>

#include "base/err.h"
#include "base/file.h"
#include "wire/wire.h"

enum { ROOTS_MAX_LOAD = 16 };

struct roots_options {
    const char *save, *cold; // NULL: none. Made if they are missing
    const char *const *load; // must be there
    size_t n_load;
};

struct root {
    int fd;                   // -1: none
    char path[FILE_PATH_MAX]; // absolute, without links: for messages, and for clients
};

struct roots {
    struct root save, cold;
    struct root load[ROOTS_MAX_LOAD];
    size_t n_load;
};

int roots_open(struct roots **ret, const struct roots_options *o, struct err *e);
void roots_close(struct roots *r); // NULL is fine

// A save is written to the directory `path`, which its asker has made below the save
// root. *ret_root: that root. `r` may be NULL: there is none.
int roots_check_save(const struct roots *r, const char *path, int *ret_root,
                     struct err *e);
// The save whose manifest has that checksum, below any root that is read.
int roots_find_save(const struct roots *r, const char *path, uint64_t checksum,
                    int *ret_root, struct err *e);
// Makes a directory below the cold root. ret: its path, which has no links.
int roots_make_cold(const struct roots *r, const char *path, char ret[FILE_PATH_MAX],
                    struct err *e);

#endif
