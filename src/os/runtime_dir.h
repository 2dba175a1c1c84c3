// The user's directory for files by which running clusters are found: addresses, tokens
// and Unix sockets. These files are trusted, so no other user may be able to write there.
//
// There are two places, the better first: $XDG_RUNTIME_DIR/tug and /tmp/tug-UID. A
// process with XDG_RUNTIME_DIR and one without it (from cron, in a container, over ssh)
// search both places for each other's files.
//
// A place is safe if it is a directory (not a link), belongs to the user of this process,
// gives others no right (mode 0700), and lies in a directory where others cannot replace
// it: that directory belongs to the user or to root, and is sticky if others may write
// there.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_OS_RUNTIME_DIR_H
#define TUG_OS_RUNTIME_DIR_H

#include <stdbool.h>

#include "base/err.h"
#include "os/file.h"

enum { RUNTIME_DIR_PLACES = 2 };

// Gets the best usable place and makes it if it is missing. Returns TUG_EIO if the
// directory is not safe (the error has its owner and the remedy) or cannot be made.
int runtime_dir_make(char ret[FILE_PATH_MAX], struct err *e);

// Gets place i, to search for files of other processes; makes nothing. Returns false if
// the place is missing or not safe: `ret` then still names it, or is unchanged if this
// process has no such place.
bool runtime_dir_look(int i, char ret[FILE_PATH_MAX]);

// Checks that `path` is a safe place (see above); returns TUG_EIO if not.
int runtime_dir_check(const char *path, struct err *e);

// Returns whether `path` is a Unix socket on which no process listens, such as a killed
// process leaves.
bool runtime_socket_is_dead(const char *path);

// Removes dead sockets from a directory of this user, except sockets that were just made.
void runtime_dir_sweep(const char *dir);

// Calls `each` with the path of each file whose name has this beginning and end, in all
// safe places, in any order.
void runtime_dir_list(const char *begins, const char *ends,
                      void (*each)(void *ctx, const char *path), void *ctx);
// Does what runtime_dir_list does, for one directory.
void runtime_dir_list_in(const char *dir, const char *begins, const char *ends,
                         void (*each)(void *ctx, const char *path), void *ctx);

// Takes the lock that a process needs to replace a file in the directory or to remove a
// leftover, so that no process removes a file that another one has just put there.
// Returns -1 if another process kept the lock for a second, or if the file system has no
// locks. The caller closes the descriptor to release it.
int runtime_dir_lock(const char *dir);

#endif
