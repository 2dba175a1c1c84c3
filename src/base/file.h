// Files: whole reads, and writes that are either there complete and synced or not there.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_FILE_H
#define TUG_BASE_FILE_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"

// For `root` below: the path is an ordinary path. Else it is one below the directory that
// is open as `root`, and neither ".." nor a link leads out (base/below.h). FILE_OWN, for
// new files: the program has chosen the name, not its user, so that a link in its place
// is replaced and the link's target stays.
enum { FILE_ANYWHERE = -1, FILE_OWN = -2 };

// Reads a whole regular file of at most b->max bytes.
int file_read(const char *path, struct buf *b, struct err *e);
int file_read_in(int root, const char *path, struct buf *b, struct err *e);
// Text that people write: without the byte order mark that some editors put before it.
int file_read_text(const char *path, struct buf *b, struct err *e);
// A key: warns if others can read it.
int file_read_secret(const char *path, struct buf *b, struct err *e);
// For reading. It need not be a regular file.
int file_open(int root, const char *path, int *ret_fd, struct err *e);

// A file under construction: it lies beside PATH under an unpredictable name until
// file_commit syncs and renames it to PATH and syncs the directory. Without a commit,
// file_abort removes it. A device or a pipe is written straight; base/new_file.h says
// more. Writes are buffered. A full disk is reported with the path and the system's
// reason.
struct file_writer;

int file_create(struct file_writer **ret, const char *path, struct err *e);
int file_create_in(struct file_writer **ret, int root, const char *path, struct err *e);
int file_write(struct file_writer *w, const void *bytes, size_t n, struct err *e);
uint64_t file_written(const struct file_writer *w);    // bytes so far
int file_commit(struct file_writer *w, struct err *e); // frees w, also on failure
void file_abort(struct file_writer *w);                // frees w; NULL is fine

// A log: written as it comes, behind what is there or (`fresh`) from its beginning on.
// Made as file_create's files are; a link, a pipe or another account's file is refused.
int file_open_log(const char *path, bool fresh, int *ret_fd, struct err *e);
// A pipe or a device, which `option` names, to be written to. A pipe that no process reads is an
// error at once, and not a wait.
int file_open_stream(const char *path, const char *option, int *ret_fd, struct err *e);

// A file that its user has named, as text that grows: behind what is there, or from its
// beginning on. NULL and errno on failure.
FILE *file_open_text(const char *path, bool fresh);

// A file to be locked, for reading and writing; made where there is none. -1 and errno on
// failure, ELOOP for a link.
int file_open_lock(const char *path);

int file_make_dir(const char *path, struct err *e);     // as mkdir -p
int file_make_new_dir(const char *path, struct err *e); // TUG_EIO if it is there
int file_sync_dir(const char *path, struct err *e);

// Takes a directory for this process alone, until file_unlock_dir or its end. TUG_EUSAGE
// when another process has it, which is named where the system knows it; on file systems
// without locks it is not taken (-1).
int file_lock_dir(const char *path, int *ret_lock, struct err *e);
void file_unlock_dir(int lock); // -1 is fine

bool file_exists(const char *path);
// Whether both are one file, by whatever names; one that is not there yet goes by its name.
bool file_is_same(const char *a, const char *b);
bool file_dir_is_empty(const char *path); // also when there is nothing at all at `path`

// Opens a directory for removing what lies in it. NULL and errno on failure; a link to a
// directory is none.
DIR *file_open_real_dir(const char *path);

// Removes a file, a link itself, or a directory of files and links. Fine if there is none.
int file_remove_tree(const char *path, struct err *e);
// The same with directories in it, at most `depth` levels: of a directory that this
// process has made.
int file_remove_deep(const char *path, int depth, struct err *e);

// "DIR/NAME" into ret_path; TUG_EUSAGE when it would not fit.
enum { FILE_PATH_MAX = 4096 };
int file_join(char ret_path[FILE_PATH_MAX], const char *dir, const char *name,
              struct err *e);

#endif
