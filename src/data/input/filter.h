// Passes the bytes of a file through a shell command (--pipe-command): `sh -c COMMAND`
// reads the file from its standard input, and its output is the data. A plain file is the
// command's standard input itself. A thread feeds the command the bytes of compressed
// files, after decompressing them, of pipes, and of remote files.
//
// The command runs in a process group of its own. It has succeeded if it ended with
// status 0, whatever it has read. Else the error has the name of the file, the status,
// and the end of the command's standard error.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_INPUT_FILTER_H
#define TUG_DATA_INPUT_FILTER_H

#include "data/input/input.h"

struct data_file;

// Opens the output of a file's command as an input; `file` must outlive it. `i`
// interrupts waits. A read returns the end only after the command has ended successfully.
// Closing the input earlier ends the command.
int filter_open(struct input **ret, const struct data_file *file,
                const struct interrupt *i, struct err *e);

#endif
