// Shell commands that bytes go through: converters on the way to a file or from one.
//
//   text → COMMAND → a file        what is written to it goes to its standard input
//   a file → COMMAND → text        what is read from it is its standard output
//
// It has succeeded when command_end says so: it read all or nothing was left to read, and
// it ended with status 0. Else the error has its status or signal and the end of what it
// wrote to its standard error.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_COMMAND_H
#define TUG_BASE_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum command_way { COMMAND_WRITE, COMMAND_READ };

struct command;

// Runs `text` by /bin/sh. Should this process be killed, it is, with all that it has
// started. `fd` is its other end, borrowed: its standard output
// (COMMAND_WRITE) or input (COMMAND_READ).
int command_begin(struct command **ret, const char *text, enum command_way way, int fd,
                  struct err *e);
int command_write(struct command *c, const void *bytes, size_t n, struct err *e);
// *ret_n = 0 only at its end, which is not yet its success.
int command_read(struct command *c, void *bytes, size_t cap, size_t *ret_n,
                 struct err *e);
int command_fd(const struct command *c);     // our end, for who waits for several things
bool command_ended(const struct command *c); // command_end would not wait
int command_end(struct command *c, struct err *e); // waits; frees c, also on failure
// Ends the command and the processes it has started, at any point; frees c. NULL is fine.
void command_abort(struct command *c);

// A file at `path` that is what `text` makes of the bytes that are written: there when it
// is complete and the command has succeeded, else not.
struct command_file;
int command_file_create(struct command_file **ret, const char *text, const char *path,
                        struct err *e);
int command_file_write(struct command_file *f, const void *bytes, size_t n,
                       struct err *e);
int command_file_commit(struct command_file *f, struct err *e); // frees, also on failure
void command_file_abort(struct command_file *f);                // frees; NULL is fine

#endif
