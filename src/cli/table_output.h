// Where tug table export writes: a file that is there when complete, standard output, or
// either of them through a shell command.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLI_TABLE_OUTPUT_H
#define TUG_CLI_TABLE_OUTPUT_H

#include "base/command.h"
#include "base/file.h"

struct table_output { // one of them; none: standard output
    struct file_writer *file;
    struct command *command; // to standard output
    struct command_file *converted;
};

// `path` NULL: standard output. `converter` NULL: as it is.
int table_output_open(struct table_output *o, const char *path, const char *converter,
                      struct err *e);
int table_output_put(void *output, const char *bytes, size_t n, struct err *e);
// `rc`: of writing it all. Commits or takes back; returns rc, or why it can't be there.
int table_output_close(struct table_output *o, int rc, struct err *e);

#endif
