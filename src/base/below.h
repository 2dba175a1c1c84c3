// Files below a directory, by paths from another process: whatever the path and the links
// below it, no file outside is opened.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_BELOW_H
#define TUG_BASE_BELOW_H

#include <stdbool.h>

#include "base/err.h"
#include "base/file.h"

// `root`: a descriptor of a directory. `path` is relative to it; "" and "." are the
// directory itself. Like open, but never makes a file: -1 and errno on failure, EXDEV for
// a path that leads out (absolute, or with a ".."), ELOOP for a link on the way or at its
// end.
int below_open(int root, const char *path, int flags);

// Opens the directory that `path` lies in; its last part goes into *ret_name, and is a
// plain name. -1 and errno as above.
int below_open_parent(int root, const char *path, const char **ret_name);

// Makes the directories of `path` that are missing, and opens the last one.
int below_make_dir(int root, const char *path);

// "cannot open 'PATH': ...": errno of the above in words, TUG_EDATA where nothing is
// there, TUG_EUSAGE where the path leads out.
int below_error(struct err *e, const char *what, const char *path);

// The way back: what `path`, absolute and without links, is below `root`, likewise; ""
// when they are the same. NULL if it is not below it.
const char *below_rest(const char *root, const char *path);

// `path` as absolute and without links, as far as it is there; the rest as it was given.
// TUG_EUSAGE if it is too long, or has a ".." behind its existing part.
int below_absolute(const char *path, char ret[FILE_PATH_MAX], struct err *e);

// For tests: as on kernels without openat2.
void below_without_openat2(bool without);

// The path below the root as people know it, for messages: with the root's own in front. A
// root that is none (negative), or whose path is not known, leaves it as it is. errno stays.
void below_name(int root, const char *path, char ret[FILE_PATH_MAX]);

#endif
