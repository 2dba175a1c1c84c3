// Files of tests: a folder of the test's own, what lies in it, and data sets.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_FILES_H
#define TUG_KIT_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/file.h"

#define FILES_PRINTF(n) __attribute__((format(printf, n, n + 1)))
enum { FILES_PATH = 256 };

// Group fixtures: makes a folder, and removes it with its files at the end. In memory
// where that is possible: where syncing would take its time.
extern char files_dir[FILES_PATH];
int files_begin(void **state);
int files_begin_in_memory(void **state);
int files_end(void **state);

// A path put together, and one in the folder; valid until sixteen more were asked for.
const char *files_path(const char *format, ...) FILES_PRINTF(1);
const char *files_in(const char *format, ...) FILES_PRINTF(1);

// Each gives the path.
const char *files_write(const char *path, const char *text);
const char *files_write_bytes(const char *path, const void *bytes, size_t n);

char *files_read(const char *path, size_t *ret_n); // mem_free it; NULL: not there
struct buf files_buf(const char *path);            // the same; it must be there
bool files_exists(const char *path);
void files_remove(const char *path); // a file or a whole directory; fine if there is none
void files_copy_dir(const char *from, const char *to); // whole
size_t files_list(const char *dir, char names[][64],
                  size_t max);                 // sorted, no hidden ones
bool files_same(const char *a, const char *b); // both are there, with the same bytes

// How many in a directory, which is there, were to get another name; the path of one goes
// into ret_path, if it isn't NULL.
int files_beside(const char *dir, char ret_path[FILE_PATH_MAX]);

void files_nothing_beside(const char *dir); // nor any other that is to go

// A file of the shared data sets; where they are not at hand the test is skipped. Valid until
// four more were asked for.
const char *files_shared(const char *name);

#endif
