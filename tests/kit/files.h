// Files of tests: a folder that belongs to the test, its contents, and data sets.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_FILES_H
#define TUG_KIT_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "os/file.h"

#define FILES_PRINTF(n) __attribute__((format(printf, n, n + 1)))
enum { FILES_PATH = 256 };

// Group fixtures: make a folder, and remove it with its files at the end.
// files_begin_in_memory puts the folder into memory if possible, for tests that would
// spend long on syncing a disk.
extern char files_dir[FILES_PATH];
int files_begin(void **state);
int files_begin_in_memory(void **state);
int files_end(void **state);

// files_path formats a path; files_in formats a path below the folder. The result is
// valid until sixteen more paths were made.
const char *files_path(const char *format, ...) FILES_PRINTF(1);
const char *files_in(const char *format, ...) FILES_PRINTF(1);

// These functions write a file and return its path.
const char *files_write(const char *path, const char *text);
const char *files_write_bytes(const char *path, const void *bytes, size_t n);

// Returns the contents of a file, which the caller frees with mem_free; NULL if the file
// does not exist.
char *files_read(const char *path, size_t *ret_n);
struct buf files_buf(const char *path); // reads a file that must exist
bool files_exists(const char *path);
void files_remove(const char *path); // removes a file or a whole directory, if it exists
void files_copy_dir(const char *from, const char *to); // copies the whole directory
// Lists the files of a directory, sorted, without hidden files.
size_t files_list(const char *dir, char names[][64], size_t max);
// Returns whether both files exist and have the same bytes.
bool files_same(const char *a, const char *b);

// Returns the number of temporary files in an existing directory: files that were not yet
// renamed to their final names. If ret_path is not NULL, it gets the path of one of them.
int files_beside(const char *dir, char ret_path[FILE_PATH_MAX]);

// Checks that the directory has no temporary file, and no file that is about to be
// removed.
void files_nothing_beside(const char *dir);

// Returns the path of a file in the shared data sets, or skips the test if these are
// missing. The path is valid until four more such paths were returned.
const char *files_shared(const char *name);

#endif
