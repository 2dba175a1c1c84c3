// Makes a file and gives it its name when it is complete.
//
//   a regular file or none     is made under an unpredictable temporary name beside it, and
//                              renamed when it is complete
//   a device, pipe, terminal   is written directly, so that output cannot be taken back
//
// A link that a user names is followed: its target is replaced, and the link stays. But
// in a directory where everybody may write (/tmp), only a link of the user or of the
// directory's owner is followed, as Linux does for open (fs.protected_symlinks). Below a
// root (os/below.h) no link is followed. With a name that the program chose (FILE_OWN),
// a link is replaced.
//
// The temporary file is locked while its process lives. Temporary files of a killed
// process are removed by the next process that makes the same file.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_OS_NEW_FILE_H
#define TUG_OS_NEW_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

// The mode of a new file, reduced by the umask. A new file does not grant any account
// more rights than the file that it replaces.
enum { NEW_FILE_SHARED = 0644 };

struct new_file {
    // Descriptors of the directory and of the file, to which the caller writes; -1: not open.
    int dir, fd;
    bool straight; // true: written directly; false: under a temporary name
    char name[NAME_MAX + 1], beside[NAME_MAX + 1]; // names in `dir`
};

// Opens the file. `root` is FILE_ANYWHERE, FILE_OWN, or the directory that the path is
// below (os/file.h).
int new_file_open(struct new_file *f, int root, const char *path, mode_t mode,
                  struct err *e);
// new_file_finish syncs and renames the file; it returns 0, or -1 and errno. If
// new_file_finish was not called or has failed, new_file_drop removes the file. After
// success, new_file_sync_dir syncs the directory; if it returns TUG_EIO, the file exists
// all the same.
int new_file_finish(struct new_file *f);
int new_file_sync_dir(struct new_file *f, const char *path, struct err *e);
// May also be called after new_file_finish, or if no file is open.
void new_file_drop(struct new_file *f);

// Returns how many bytes at the beginning of a temporary file's name are the final name,
// which is cut if it is long. Returns 0 if `beside` is not the name of a temporary file.
size_t new_file_target(const char *beside);

// Removes temporary files of `name` in `dir` that ended processes have left.
// new_file_open calls it before it makes a temporary file.
void new_file_sweep(int dir, const char *name);

#endif
