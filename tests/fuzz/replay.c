// Runs a fuzz target with saved inputs, for builds without libFuzzer: inputs that a fuzzer once
// found are thus tested in every build. Arguments are files and directories of files.
//
// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "os/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUT_MAX = 64 << 20 };

static int replay_file(const char *path, struct err *e)
{
    struct buf b = BUF_INIT(INPUT_MAX);
    int rc = file_read(path, &b, e);
    if (rc == 0 && LLVMFuzzerTestOneInput((const uint8_t *)buf_str(&b), b.len) != 0)
        rc = err_set(e, TUG_EINTERNAL, "the target refused '%s'", path);
    buf_free(&b);
    return rc;
}

static int replay_dir(const char *path, unsigned *count, struct err *e)
{
    DIR *dir = opendir(path);
    if (dir == NULL)
        return err_sys(e, TUG_EIO, "cannot open directory '%s'", path);
    int rc = 0;
    for (struct dirent *d = readdir(dir); d != NULL && rc == 0; d = readdir(dir)) {
        char file[FILE_PATH_MAX];
        if (d->d_name[0] == '.')
            continue;
        rc = file_join(file, path, d->d_name, e);
        if (rc == 0)
            rc = replay_file(file, e);
        *count += rc == 0;
    }
    closedir(dir);
    return rc;
}

int main(int argc, char **argv)
{
    struct err e = {0};
    unsigned count = 0;
    int rc = 0;
    for (int i = 1; i < argc && rc == 0; i++) {
        struct stat st;
        if (stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode)) {
            rc = replay_dir(argv[i], &count, &e);
        } else {
            rc = replay_file(argv[i], &e);
            count += rc == 0;
        }
    }
    if (rc == 0 && count == 0)
        rc = err_set(&e, TUG_EDATA, "no inputs to replay");
    if (rc != 0)
        fprintf(stderr, "%s\n", e.text);
    else
        printf("%u inputs replayed\n", count);
    return err_exit_code(rc);
}
