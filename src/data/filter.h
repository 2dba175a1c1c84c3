// Passes a file's bytes through a shell command (--pipe-command): `sh -c COMMAND` has the
// file as its standard input, and its output is what is read. A compressed file is
// decompressed before, as are pipes, by a thread that feeds the command, which brings
// files that lie elsewhere, too; a plain one is its input itself.
//
// The command is a process group of its own. It has done well when it ended with status
// 0, whatever it read; else the error has the file's name, the status and the end of what
// it wrote to its standard error.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_FILTER_H
#define TUG_DATA_FILTER_H

#include "data/input.h"

struct data_file;

// Opens the output of a file's command; the file is borrowed. `i` interrupts waiting for
// the command. The end is seen only when the command has ended, and well; closing before
// ends it.
int filter_open(struct input **ret, const struct data_file *file,
                const struct interrupt *i, struct err *e);

#endif
