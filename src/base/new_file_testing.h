// For tests of all parts: files that were to get another name.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_NEW_FILE_TESTING_H
#define TUG_BASE_NEW_FILE_TESTING_H

#include <dirent.h>
#include <stdio.h>

#include "base/file.h"
#include "base/new_file.h"

// How many there are in a directory; the path of one goes into ret_path, if it isn't
// NULL.
static inline int files_beside(const char *dir, char ret_path[FILE_PATH_MAX])
{
    int n = 0;
    DIR *d = opendir(dir);
    for (struct dirent *x = d != NULL ? readdir(d) : NULL; x != NULL; x = readdir(d)) {
        if (new_file_target(x->d_name) == 0)
            continue;
        n++;
        if (ret_path != NULL)
            (void)file_join(ret_path, dir, x->d_name, NULL);
    }
    if (d != NULL)
        closedir(d);
    return n;
}

#endif
