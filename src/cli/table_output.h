// Where tug table export writes: a file that is there when complete, standard output, or
// either of them through a shell command.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLI_TABLE_OUTPUT_H
#define TUG_CLI_TABLE_OUTPUT_H

#include "base/command.h"
#include "base/file.h"
#include "cli/table.h"
#include "train/names.h"

// Passes only the lines "KEY values..." of these keys.
struct table_pick {
    const uint64_t *keys;
    size_t n;
    bool *found;               // of each key; the caller's, all false
    uint64_t key;              // of the line being read
    bool in_key;               // its key is not complete
    bool wanted;               // what follows is written
    const struct names *names; // before a row a line says what its key is called; or NULL
};

static inline struct table_pick table_pick_keys(const struct table_keys *k)
{
    return (struct table_pick){
        .keys = k->key, .n = k->n, .found = k->found, .in_key = true};
}

struct table_output { // one of them; none: standard output
    struct file_writer *file;
    struct command *command; // to standard output
    struct command_file *converted;
    struct table_pick *pick; // set it behind table_output_open; NULL: all lines
};

// `path` NULL or "-": standard output. `converter` NULL: as it is.
int table_output_open(struct table_output *o, const char *path, const char *converter,
                      struct err *e);
int table_output_put(void *output, const char *bytes, size_t n, struct err *e);
// `rc`: of writing it all. Commits or takes back; returns rc, or why it can't be there.
int table_output_close(struct table_output *o, int rc, struct err *e);

#endif
