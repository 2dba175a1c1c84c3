// Makes one file and gives it its name.
//
//   a regular file, or nothing there:  made beside under an unpredictable name,
//   and
//                                      renamed when it is complete
//   a device, pipe or terminal:        written straight; what goes out has gone out
//
// A link that a user names is followed, and what it leads to is replaced, not the link;
// but in a directory where everybody may write (/tmp), only one that is the user's own or
// the directory's owner's, as Linux does it for open (fs.protected_symlinks). Below a
// root (base/below.h) no link is followed; with a name that the program has chosen itself
// (FILE_OWN) a link is replaced.
//
// The file beside is locked while its process lives. Temporary files of a killed process
// are removed by the next one that makes the same file.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_NEW_FILE_H
#define TUG_BASE_NEW_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

// Less what the umask takes away. A replaced file gives no user a right that the old one
// did not give.
enum { NEW_FILE_SHARED = 0644 };

struct new_file {
    int dir, fd; // -1: not open. The file is written to fd
    bool straight;
    char name[NAME_MAX + 1], beside[NAME_MAX + 1]; // in `dir`
};

// `root`: of the path, or FILE_ANYWHERE or FILE_OWN (base/file.h).
int new_file_open(struct new_file *f, int root, const char *path, mode_t mode,
                  struct err *e);
// Syncs and renames: 0, or -1 and errno; until then, and on failure, new_file_drop
// undoes. TUG_EIO if the directory cannot be synced: the file exists.
int new_file_finish(struct new_file *f);
int new_file_sync_dir(struct new_file *f, const char *path, struct err *e);
void new_file_drop(struct new_file *f); // one that is finished, or not open, is fine

// Returns the length of the name that a temporary file is for; 0 for other files. (A long
// name is cut.)
size_t new_file_target(const char *beside);

// Removes what processes that have ended have left beside `name` in `dir`. (Opening does
// it, too.)
void new_file_sweep(int dir, const char *name);

#endif
