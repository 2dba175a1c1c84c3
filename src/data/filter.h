// A file's bytes on the way through a shell command (--pipe-command): `sh -c COMMAND` has
// the file as its standard input, and what it writes is what is read. A compressed file is
// decompressed before, as are pipes, by a thread that feeds the command; a plain one is its
// input itself.
//
// The command is a process group of its own. It has done well when it ended with status 0,
// whatever it read; else the error has the file's name, the status and the end of what it
// wrote to its standard error.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_FILTER_H
#define TUG_DATA_FILTER_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/err.h"

struct filter;

struct filter_options {
    const char *command;
    const char *name;               // of the file; borrowed, as all here
    bool feed;                      // it is compressed, or a pipe
    int wake_fd;                    // readable when waiting must stop; -1: none
    const atomic_bool *interrupted; // the same, looked at now and then; NULL: never
};

// Takes over `fd`, the file, also on failure.
int filter_open(struct filter **ret, const struct filter_options *o, int fd,
                struct err *e);
// Ends the command if it still runs. NULL is fine.
void filter_close(struct filter *f);

// Up to `cap` bytes of what the command wrote. *ret_n = 0: it has ended, and well.
int filter_read(struct filter *f, char *out, size_t cap, size_t *ret_n, struct err *e);

#endif
