// Origins of lines. A program that makes a file of other files' lines (a shuffle, a pipe
// command whose output is kept) can leave `.NAME.origins` beside it, and messages name
// the place that the user knows. Its lines are files, "F PATH", numbered from 0, and
// places, "FIRST LINE FILE": the file's lines from FIRST on, to the next place, were
// those of that file from LINE on. FIRST ascends.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_ORIGINS_H
#define TUG_DATA_ORIGINS_H

#include <stdint.h>

#include "base/file.h"

enum { ORIGIN_TEXT_MAX = FILE_PATH_MAX + 24 };

// Returns "FILE:LINE" for a line of this file; its own place if there is no origins file,
// or it is damaged.
void origins_text(const char *file, uint64_t line, char ret[ORIGIN_TEXT_MAX]);

#endif
