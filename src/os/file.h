// Files: reads of whole files, and writes after which a file is complete and synced, or
// absent.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_OS_FILE_H
#define TUG_OS_FILE_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"

// Values of the argument `root`. FILE_ANYWHERE: the path is an ordinary path. FILE_OWN,
// for new files: an ordinary path whose name the program has chosen, not the user; a link
// with this name is replaced, and its target stays. Any other value is an open directory:
// the path lies below it, and neither ".." nor a link can lead out of it (os/below.h).
enum { FILE_ANYWHERE = -1, FILE_OWN = -2 };

// Reads a whole regular file of at most b->max bytes.
int file_read(const char *path, struct buf *b, struct err *e);
int file_read_in(int root, const char *path, struct buf *b, struct err *e);
// Reads a text file that people write: as file_read, without the byte order mark that
// some editors put in front.
int file_read_text(const char *path, struct buf *b, struct err *e);
// Reads a file with a secret key: as file_read, with a warning if other accounts can read
// the file.
int file_read_secret(const char *path, struct buf *b, struct err *e);
// Opens a file for reading, which need not be a regular file.
int file_open(int root, const char *path, int *ret_fd, struct err *e);

// A file under construction. It is in the directory of PATH under an unpredictable name
// until file_commit syncs it, renames it to PATH and syncs the directory; file_abort
// removes it. A device or a pipe is written directly (os/new_file.h). Writes are
// buffered. An error, such as a full disk, names the path and the system's reason.
struct file_writer;

int file_create(struct file_writer **ret, const char *path, struct err *e);
int file_create_in(struct file_writer **ret, int root, const char *path, struct err *e);
int file_write(struct file_writer *w, const void *bytes, size_t n, struct err *e);
uint64_t file_written(const struct file_writer *w);    // bytes written so far
int file_commit(struct file_writer *w, struct err *e); // frees w, also on failure
void file_abort(struct file_writer *w);                // frees w; `w` may be NULL

// Returns the bytes of the regular files in a directory and in its directories; 0 if it
// cannot be read. Follows no link.
uint64_t file_dir_bytes(const char *path);

// Opens a file for appending, such as a log, or (`fresh`) empties it first; creates it if missing.
// Refuses a link, a pipe, or a file of another account.
int file_open_append(const char *path, bool fresh, int *ret_fd, struct err *e);
// Opens a pipe or a device, which `option` names, for writing. Returns an error at once
// if no process reads the pipe.
int file_open_stream(const char *path, const char *option, int *ret_fd, struct err *e);

// Opens a text file that the user has named, for appending or (`fresh`) from its
// beginning. Returns NULL and errno on failure.
FILE *file_open_text(const char *path, bool fresh);

// Opens a lock file for reading and writing, and creates it if missing. Returns -1 and
// errno on failure; ELOOP for a link.
int file_open_lock(const char *path);

// Makes a directory, and missing parents of it, as mkdir -p does.
int file_make_dir(const char *path, struct err *e);
int file_make_new_dir(const char *path, struct err *e); // TUG_EIO if the directory exists
int file_sync_dir(const char *path, struct err *e);

// Locks a directory for this process until file_unlock_dir, or until the process ends.
// Returns TUG_EUSAGE if another process has the lock; the error names the process if the
// system knows it. Returns TUG_EIO if the system cannot lock the directory. On a file
// system without locks, sets *ret_lock to -1 and returns 0.
int file_lock_dir(const char *path, int *ret_lock, struct err *e);
// Does the same for one of several processes that have the lock together: `joins` says
// whether another one may have it already. No process has the lock of file_lock_dir then.
int file_share_dir(const char *path, bool joins, int *ret_lock, struct err *e);
void file_unlock_dir(int lock); // -1 is fine

bool file_exists(const char *path);
// Returns whether both paths name the same file. Files that do not exist are compared by
// their directories and names.
bool file_is_same(const char *a, const char *b);
bool file_dir_is_empty(const char *path); // true also if `path` does not exist

// Opens a directory whose entries are to be removed. Returns NULL and errno on failure,
// also for a link to a directory.
DIR *file_open_real_dir(const char *path);

// Removes a file, a link itself, or a directory that contains only files and links.
// Succeeds if nothing is there.
int file_remove_tree(const char *path, struct err *e);
// Removes a directory that this process has made, as file_remove_tree does. The directory
// may contain directories, down to `depth` levels.
int file_remove_deep(const char *path, int depth, struct err *e);

// Sets ret_path to "DIR/NAME"; returns TUG_EUSAGE if that is too long.
enum { FILE_PATH_MAX = 4096 };
int file_join(char ret_path[FILE_PATH_MAX], const char *dir, const char *name,
              struct err *e);

#endif
