// See table_output.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "cli/table_output.h"

#include <stdio.h>

int table_output_open(struct table_output *o, const char *path, struct err *e)
{
    *o = (struct table_output){0};
    return path != NULL ? file_create(&o->file, path, e) : 0;
}

int table_output_put(void *output, const char *bytes, size_t n, struct err *e)
{
    struct table_output *o = output;
    if (o->file != NULL)
        return file_write(o->file, bytes, n, e);
    if (fwrite(bytes, 1, n, stdout) != n)
        return err_sys(e, TUG_EIO, "cannot write to standard output");
    return 0;
}

int table_output_close(struct table_output *o, int rc, struct err *e)
{
    struct file_writer *file = o->file;
    o->file = NULL;
    if (rc == 0 && file != NULL)
        return file_commit(file, e);
    file_abort(file);
    return rc;
}
