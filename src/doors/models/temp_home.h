// Directories in $TMPDIR (or /tmp) that exist as long as their process: the next process
// removes those of a killed process. A lock shows whether the owner is alive; its process
// id does not, since another process may have it by now, or it may belong to another
// container.
//
// Such a directory is called tug-KIND-PID-XXXXXX, belongs to this account, and has the
// unusual mode 01700. Only a directory with all three properties is removed. The Python
// package makes the same directories (python/tug/_disk.py).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DOORS_MODELS_TEMP_HOME_H
#define TUG_DOORS_MODELS_TEMP_HOME_H

#include "base/err.h"
#include "os/file.h"

struct temp_home {
    char path[FILE_PATH_MAX]; // "": not made yet
    int lock;
};

// Makes the directory, and removes directories of the same kind whose processes have
// ended.
int temp_home_make(struct temp_home *h, const char *kind, struct err *e);
// Removes the directory and its contents, down to `deep` levels of directories. Does
// nothing if the directory was not made.
void temp_home_remove(struct temp_home *h, int deep);

#endif
