// Directories in $TMPDIR (/tmp) that live as long as their process: the next process removes
// those of a process that was killed. A lock tells whether the owner lives, and not its number,
// which another process may have by now, or which counts in another container.
//
// Such a directory is called tug-KIND-PID-XXXXXX, is this account's, and has the mode 01700, which
// nothing else has: only what has all of these is removed. Python's package makes the same ones
// (python/tug/_disk.py).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_TEMP_HOME_H
#define TUG_BASE_TEMP_HOME_H

#include "base/err.h"
#include "base/file.h"

struct temp_home {
    char path[FILE_PATH_MAX]; // "": not made yet
    int lock;
};

// Makes it, and removes those of that kind whose processes have ended.
int temp_home_make(struct temp_home *h, const char *kind, struct err *e);
// Removes it, with what is in it, `deep` directories deep at most. One that was not made is fine.
void temp_home_remove(struct temp_home *h, int deep);

#endif
