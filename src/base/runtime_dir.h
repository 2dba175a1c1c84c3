// The user's directory for what running clusters leave to find them by: addresses, tokens
// and Unix sockets. Its files are trusted, so that no other user may be able to write
// there.
//
// The places, best first: $XDG_RUNTIME_DIR/tug, and /tmp/tug-UID. A process with
// XDG_RUNTIME_DIR and one without it (from cron, in a container, over ssh) look for each
// other's files in both.
//
// A place is safe when it is a directory, no link, belongs to the user of this process,
// gives others no right (mode 0700), and lies in a directory where others cannot replace
// it: that belongs to the user or root, and is sticky if others may write there.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_RUNTIME_DIR_H
#define TUG_BASE_RUNTIME_DIR_H

#include <stdbool.h>

#include "base/err.h"
#include "base/file.h"

enum { RUNTIME_DIR_PLACES = 2 };

// The best place that can be had, made if it is missing. TUG_EIO names a directory that
// is not safe (its owner, the remedy) or cannot be made.
int runtime_dir_make(char ret[FILE_PATH_MAX], struct err *e);

// Place i, to look for what another process has left: false when it is missing or not
// safe (`ret` names it all the same, or stays as it is where there is no such place).
// Nothing is made.
bool runtime_dir_look(int i, char ret[FILE_PATH_MAX]);

// Whether `path` is such a directory (see above); else TUG_EIO in a sentence.
int runtime_dir_check(const char *path, struct err *e);

// Whether `path` is a Unix socket on which nobody listens any more, as a process that was
// killed leaves it.
bool runtime_socket_is_dead(const char *path);

// Removes such sockets from a directory of ours. One that is being made is left alone.
void runtime_dir_sweep(const char *dir);

// Calls `each` with the path of each file whose name begins and ends like this, in all
// places that are safe, in no order.
void runtime_dir_list(const char *begins, const char *ends,
                      void (*each)(void *ctx, const char *path), void *ctx);
// Likewise in one directory.
void runtime_dir_list_in(const char *dir, const char *begins, const char *ends,
                         void (*each)(void *ctx, const char *path), void *ctx);

// A process that replaces a file here, or removes a leftover, holds this lock meanwhile,
// so that no process removes a file that was put there just now. -1: it could not be had
// for a second, or this file system has none. Closed to give it back.
int runtime_dir_lock(const char *dir);

#endif
