// The output of tug table export: a file that appears when it is complete, or standard
// output, either of them optionally through a shell command.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLI_TABLE_TABLE_OUTPUT_H
#define TUG_CLI_TABLE_TABLE_OUTPUT_H

#include "cli/table/table.h"
#include "os/command.h"
#include "os/file.h"
#include "train/names.h"

// Selects the lines "KEY values..." of these keys.
struct table_pick {
    const uint64_t *keys;
    size_t n;
    // Whether each key was found; the caller owns the array and sets it to false.
    bool *found;
    uint64_t key; // the key of the current line
    bool in_key;  // the key of the current line is not complete
    bool wanted;  // the rest of the line is written
    // The words of keys, written in a line before each row; NULL: no such line.
    const struct names *names;
};

static inline struct table_pick table_pick_keys(const struct table_keys *k)
{
    return (struct table_pick){
        .keys = k->key, .n = k->n, .found = k->found, .in_key = true};
}

// At most one of file, command and converted is set; none means standard output.
struct table_output {
    struct file_writer *file;
    struct command *command; // a command that writes to standard output
    struct command_file *converted;
    struct table_pick *pick; // set after table_output_open; NULL: all lines
};

// `path` NULL or "-": standard output. `converter` NULL: no command.
int table_output_open(struct table_output *o, const char *path, const char *converter,
                      struct err *e);
int table_output_put(void *output, const char *bytes, size_t n, struct err *e);
// Closes the output. `rc` is the result of writing: if it is 0, the output is committed,
// else undone. Returns rc, or the error of the commit.
int table_output_close(struct table_output *o, int rc, struct err *e);

#endif
