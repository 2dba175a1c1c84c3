// Origins of lines. A program that writes lines of other files into a file (a shuffle, or
// a pipe command whose output is stored) can write `.NAME.origins` beside it, so that
// messages name the file and line that the user knows. Such a file has a line "F PATH"
// for each original file (the files are numbered from 0), and entries of three numbers: a
// line of NAME, a line of an original file, and the number of that file. From this line
// of NAME on, up to the line of the next entry, the lines of NAME are consecutive lines
// of the original file. The lines of NAME in the entries ascend. A line "P" says that
// NAME is, or is made of, the output of a pipe command.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_SOURCE_ORIGINS_H
#define TUG_DATA_SOURCE_ORIGINS_H

#include <stdbool.h>
#include <stdint.h>

#include "os/file.h"

enum { ORIGIN_TEXT_MAX = FILE_PATH_MAX + 24 };

// Returns the origin of a line of `file` as "FILE:LINE"; `file` and `line` themselves if
// the origins file is missing or damaged.
void origins_text(const char *file, uint64_t line, char ret[ORIGIN_TEXT_MAX]);

// Returns whether the origins file of `file` has the line "P".
bool origins_piped(const char *file);

#endif
