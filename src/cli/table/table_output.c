// See table_output.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "cli/table/table_output.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/plural.h"
#include "base/printable.h"
#include "data/input/encode.h"
#include "save/save.h"

int table_output_open(struct table_output *o, const char *path, const char *converter,
                      struct err *e)
{
    *o = (struct table_output){0};
    if (path != NULL && strcmp(path, "-") == 0)
        path = NULL;
    if (path != NULL)
        TRY(save_check_output("--out", path, e));
    if (path != NULL && converter == NULL)
        TRY(encoder_check_name("--out", path, true, e));
    if (converter == NULL)
        return path != NULL ? file_create(&o->file, path, e) : 0;
    if (path != NULL)
        return command_file_create(&o->converted, converter, path, e);
    return command_begin(&o->command, converter, COMMAND_WRITE, STDOUT_FILENO, e);
}

static int table_output_put_bytes(struct table_output *o, const char *bytes, size_t n,
                                  struct err *e)
{
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

static bool is_picked(struct table_pick *p)
{
    bool any = false;
    for (size_t i = 0; i < p->n; i++)
        if (p->keys[i] == p->key)
            any = p->found[i] = true;
    return any;
}

static int put_name(struct table_output *o, const struct table_pick *p, struct err *e)
{
    uint64_t examples;
    const char *name = names_find(p->names, p->key, &examples);
    if (name == NULL)
        return 0;
    struct buf b = BUF_INIT(1 << 16);
    int rc = buf_add(&b, "# ", 2);
    if (rc == 0)
        rc = printable_add(&b, name, strlen(name)); // a word may contain a line end
    if (rc == 0)
        rc = buf_printf(&b, " in %" PRIu64 " example%s\n", examples, PLURAL_S(examples));
    rc = rc == 0 ? table_output_put_bytes(o, b.data, b.len, e) : err_nomem(e, "a name");
    buf_free(&b);
    return rc;
}

// Writes the lines with the wanted keys. Text arrives in parts of any size; a key is
// looked up when all its digits have arrived.
static int put_picked(struct table_output *o, const char *bytes, size_t n, struct err *e)
{
    struct table_pick *p = o->pick;
    for (size_t i = 0; i < n; i++) {
        if (p->in_key && isdigit((unsigned char)bytes[i])) {
            p->key = p->key * 10 + (uint64_t)(bytes[i] - '0');
            continue;
        }
        if (p->in_key) {
            char key[24];
            int len = snprintf(key, sizeof(key), "%" PRIu64, p->key);
            p->wanted = is_picked(p);
            p->in_key = false;
            if (p->wanted) {
                TRY(put_name(o, p, e));
                TRY(table_output_put_bytes(o, key, (size_t)len, e));
            }
        }
        if (p->wanted)
            TRY(table_output_put_bytes(o, bytes + i, 1, e));
        if (bytes[i] == '\n')
            *p = (struct table_pick){p->keys, p->n, p->found, 0, true, false, p->names};
    }
    return 0;
}

int table_output_put(void *output, const char *bytes, size_t n, struct err *e)
{
    struct table_output *o = output;
    return o->pick != NULL ? put_picked(o, bytes, n, e)
                           : table_output_put_bytes(o, bytes, n, e);
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
