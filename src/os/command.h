// Shell commands that convert bytes on the way to a file or from one.
//
//   text → COMMAND → a file        command_write writes to its standard input
//   a file → COMMAND → text        command_read reads from its standard output
//
// A command has succeeded when command_end returns 0: it read all its input (or its
// output was read to the end), and it ended with status 0. Else the error has its status
// or signal and the end of its standard error.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_OS_COMMAND_H
#define TUG_OS_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum command_way { COMMAND_WRITE, COMMAND_READ };

struct command;

// Runs `text` by /bin/sh. If this process is killed, the command and all processes that
// it started are killed, too. `fd`, which stays the caller's, becomes the command's
// standard output (COMMAND_WRITE) or standard input (COMMAND_READ).
int command_begin(struct command **ret, const char *text, enum command_way way, int fd,
                  struct err *e);
int command_write(struct command *c, const void *bytes, size_t n, struct err *e);
// Reads a part of the command's output. *ret_n is 0 only at the end of the output. After
// that, command_end returns an error if the command has failed.
int command_read(struct command *c, void *bytes, size_t cap, size_t *ret_n,
                 struct err *e);
int command_fd(
    const struct command *c); // returns this process's end of the pipe, for poll
bool command_ended(
    const struct command *c); // returns whether command_end would return without waiting
int command_end(struct command *c, struct err *e); // waits; frees c, also on failure
// Ends the command and the processes it started, at any time; frees c. `c` may be NULL.
void command_abort(struct command *c);

// A file at `path` with the output of the command `text`. The bytes that the caller
// writes are the command's input. The file appears only if it is complete and the command
// has succeeded.
struct command_file;
int command_file_create(struct command_file **ret, const char *text, const char *path,
                        struct err *e);
int command_file_write(struct command_file *f, const void *bytes, size_t n,
                       struct err *e);
// Frees f, also on failure.
int command_file_commit(struct command_file *f, struct err *e);
void command_file_abort(struct command_file *f); // frees f; `f` may be NULL

#endif
