// Origins of lines. A program that writes lines of other files into a file (a shuffle, or
// a pipe command whose output is stored) can write `.NAME.origins` beside it, so that
// messages name the file and line that the user knows. Such a file has lines "F PATH",
// files numbered from 0, and lines "FIRST LINE FILE": the lines from FIRST on, up to the
// next FIRST, came from that FILE, from LINE on. FIRST ascends.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_SOURCE_ORIGINS_H
#define TUG_DATA_SOURCE_ORIGINS_H

#include <stdint.h>

#include "os/file.h"

enum { ORIGIN_TEXT_MAX = FILE_PATH_MAX + 24 };

// Returns "FILE:LINE" of the origin of a line in `file`; that line itself if there is no
// origins file, or it is damaged.
void origins_text(const char *file, uint64_t line, char ret[ORIGIN_TEXT_MAX]);

#endif
