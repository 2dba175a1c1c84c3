// Internals that the files of saves share: save.c (directories), save_manifest.c (JSON),
// save_load.c and save_write.c.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SAVE_SAVE_INTERNAL_H
#define TUG_SAVE_SAVE_INTERNAL_H

#include "save/save.h"

#define SAVE_ROWS_SUFFIX ".rows"

enum { SAVE_MAX_NUMBER = 999999999 };

// Writes the manifest, and sets m->checksum.
int save_write_manifest(struct save_manifest *m, const char *path, struct err *e);
// Reads the manifest of a save. `root` is FILE_ANYWHERE, or a directory that contains
// `path` (os/file.h).
int save_read_manifest(int root, const char *path, struct save_manifest *ret,
                       struct err *e);

// Returns the table with this name, or NULL.
const struct save_table *save_find_table(const struct save_manifest *m, const char *name);

// Checks that the rows of the saved table `then` can be loaded into the table `now`.
int save_same_rows(const struct table_config *then, const struct table_config *now,
                   const char *path, struct err *e);

#endif
