// The directories that a server was started with. Messages name files by paths below
// them, and no path in a message can lead out of them (os/below.h).
//
//   --save-root   saves are written below it, and read
//   --load-root   saves are read below it, too; there may be several
//   --cold-root   cold tiers lie below it
//
// Without an option its operations are refused. The person who starts the server names
// the directories themselves, so symbolic links on the way to them are followed.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_SAVES_ROOTS_H
#define TUG_SERVER_SAVES_ROOTS_H

#include <stddef.h>

#include "base/err.h"
#include "os/file.h"
#include "wire/wire.h"

enum { ROOTS_MAX_LOAD = 16 };

struct roots_options {
    // Values of the options for the save root and the cold root; NULL: not given. The
    // directories are made if they are missing.
    const char *save, *cold;
    const char *const *load; // directories for loading, which must exist
    size_t n_load;
};

struct root {
    int fd;                   // -1: none
    char path[FILE_PATH_MAX]; // absolute path without symbolic links, for error messages
                              // and clients
};

struct roots {
    struct root save, cold;
    struct root load[ROOTS_MAX_LOAD];
    size_t n_load;
};

int roots_open(struct roots **ret, const struct roots_options *o, struct err *e);
void roots_close(struct roots *r); // NULL is fine

// Checks that a save can be written to the directory `path`, which the client has made
// below the save root. *ret_root becomes the descriptor of that root. `r` may be NULL, if
// the server has no directories.
int roots_check_save(const struct roots *r, const char *path, int *ret_root,
                     struct err *e);
// Finds the save whose manifest has this checksum, at `path` below one of the roots from
// which saves are read. *ret_root becomes the descriptor of that root.
int roots_find_save(const struct roots *r, const char *path, uint64_t checksum,
                    int *ret_root, struct err *e);
// Makes a directory below the cold root. `ret` gets its path, without symbolic links.
int roots_make_cold(const struct roots *r, const char *path, char ret[FILE_PATH_MAX],
                    struct err *e);

#endif
