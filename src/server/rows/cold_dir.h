// The directories in which the loops of a server keep rows of tables on disk.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_ROWS_COLD_DIR_H
#define TUG_SERVER_ROWS_COLD_DIR_H

#include "base/err.h"
#include "os/file.h"

struct shard;
struct shard_table;

// Makes the directory of this loop's cold rows of the table, which is not in use. With
// replicas, a process that counts as dead but is only stopped may still use the directory of
// its number, which this process has now.
int cold_dir_find(const struct shard *s, const struct shard_table *t,
                  char ret[FILE_PATH_MAX], struct err *e);

#endif
