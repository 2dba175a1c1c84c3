// See table_output.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "cli/table_output.h"

#include <stdio.h>
#include <unistd.h>

int table_output_open(struct table_output *o, const char *path, const char *converter,
                      struct err *e)
{
    *o = (struct table_output){0};
    if (converter == NULL)
        return path != NULL ? file_create(&o->file, path, e) : 0;
    if (path != NULL)
        return command_file_create(&o->converted, converter, path, e);
    return command_begin(&o->command, converter, COMMAND_WRITE, STDOUT_FILENO, e);
}

int table_output_put(void *output, const char *bytes, size_t n, struct err *e)
{
    struct table_output *o = output;
    if (o->file != NULL)
        return file_write(o->file, bytes, n, e);
    if (o->converted != NULL)
        return command_file_write(o->converted, bytes, n, e);
    if (o->command != NULL)
        return command_write(o->command, bytes, n, e);
    if (fwrite(bytes, 1, n, stdout) != n)
        return err_sys(e, TUG_EIO, "cannot write to standard output");
    return 0;
}

static void abort_all(struct table_output *o)
{
    file_abort(o->file);
    command_file_abort(o->converted);
    command_abort(o->command);
}

int table_output_close(struct table_output *o, int rc, struct err *e)
{
    if (rc != 0)
        abort_all(o);
    else if (o->file != NULL)
        rc = file_commit(o->file, e);
    else if (o->converted != NULL)
        rc = command_file_commit(o->converted, e);
    else if (o->command != NULL)
        rc = command_end(o->command, e);
    *o = (struct table_output){0};
    return rc;
}
