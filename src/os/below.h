// Opens files below a directory by paths that another process sent. No path, and no link
// below the directory, can lead to a file outside it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_OS_BELOW_H
#define TUG_OS_BELOW_H

#include <stdbool.h>

#include "base/err.h"
#include "os/file.h"

// Opens a path below the directory open as `root`, like open, but never creates a file.
// The path is relative; "" and "." are the directory itself. Returns -1 and errno on
// failure: EXDEV if the path leads out of the directory (it is absolute or has a ".."),
// ELOOP if the path contains a link.
int below_open(int root, const char *path, int flags);

// Opens the directory that contains `path`, and sets *ret_name to the last part of the
// path, a plain name. Returns -1 and errno as below_open does.
int below_open_parent(int root, const char *path, const char **ret_name);

// Makes the missing directories of `path` and opens the last one. Returns -1 and errno as
// below_open does.
int below_make_dir(int root, const char *path);

// Sets *e to "WHAT 'PATH': ..." for the errno of these functions: TUG_EDATA if the file
// does not exist, TUG_EUSAGE if the path leads out or contains a link, else TUG_EIO.
int below_error(struct err *e, const char *what, const char *path);

// Returns the part of `path` below `root`; "" if they are equal, NULL if `path` is not
// below `root`. Both are absolute and contain no links.
const char *below_rest(const char *root, const char *path);

// Makes `path` absolute and resolves the links in the part of the path that exists; the
// rest of the path is not changed. Returns TUG_EUSAGE if the path is too long, or has a
// ".." after the existing part.
int below_absolute(const char *path, char ret[FILE_PATH_MAX], struct err *e);

// Makes these functions behave as on kernels without openat2, for tests.
void below_without_openat2(bool without);

// Writes the path below the root as users know it, for messages: preceded by the path of
// the root itself. Leaves it unchanged if `root` is negative or its path is unknown.
// Keeps errno.
void below_name(int root, const char *path, char ret[FILE_PATH_MAX]);

#endif
