// Files below a directory, by paths that somebody else has named: whatever the path says,
// and whatever links lie there, nothing outside is opened.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_BELOW_H
#define TUG_BASE_BELOW_H

#include <stdbool.h>

#include "base/err.h"
#include "base/file.h"

// `root`: a descriptor of a directory. `path` is relative to it; "" and "." are the
// directory itself. As open, never for making a file: -1 and errno on failure, EXDEV
// for a path that leads out (absolute, or with a ".."), ELOOP where a link lies on
// the way or at its end.
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
// when they are the same. NULL: it isn't below it.
const char *below_rest(const char *root, const char *path);

// `path` as absolute and without links, as far as it is there; the rest as it was given.
// TUG_EUSAGE when it is too long, or has a ".." behind what is there.
int below_absolute(const char *path, char ret[FILE_PATH_MAX], struct err *e);

// For tests: as on kernels without openat2.
void below_without_openat2(bool without);

// The path below the root as people know it, for messages: with the root's own in front. A
// root that is none (negative), or whose path is not known, leaves it as it is. errno stays.
void below_name(int root, const char *path, char ret[FILE_PATH_MAX]);

#endif
