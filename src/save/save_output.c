// Refuses outputs of commands that would damage a save.
//
// SPDX-License-Identifier: Apache-2.0
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "os/file.h"
#include "save/save.h"

static bool is_save(const char *dir)
{
    struct save_manifest m = {0};
    bool is = save_read(dir, &m, NULL) == 0;
    save_manifest_free(&m);
    return is;
}

// Gets the real path of the directory that contains `path`. Returns false if that
// directory does not exist.
static bool directory_of(const char *path, char ret[FILE_PATH_MAX])
{
    char parent[FILE_PATH_MAX], real[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t n = slash == NULL ? 1 : slash == path ? 1 : (size_t)(slash - path);
    if (n >= sizeof(parent))
        return false;
    memcpy(parent, slash == NULL ? "." : path, n);
    parent[n] = '\0';
    if (realpath(parent, real) == NULL || strlen(real) >= FILE_PATH_MAX)
        return false;
    memcpy(ret, real, strlen(real) + 1);
    return true;
}

int save_check_output(const char *option, const char *path, struct err *e)
{
    char dir[FILE_PATH_MAX], real[PATH_MAX];
    // Writing to a symbolic link writes to its target.
    if ((directory_of(path, dir) && is_save(dir)) ||
        (realpath(path, real) != NULL && directory_of(real, dir) && is_save(dir)))
        return err_set(e, TUG_EUSAGE,
                       "%s: '%s' lies in the saved model %s, which consists of its "
                       "files: give a file elsewhere",
                       option, path, dir);
    if (is_save(path) || save_find(path, dir, NULL) == 0)
        return err_set(e, TUG_EUSAGE,
                       "%s: '%s' is the directory of a saved model: give a file", option,
                       path);
    return 0;
}
