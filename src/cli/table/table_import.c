// tug table import: makes a new save from rows in text files.
//
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/plural.h"
#include "cli/cli.h"
#include "cli/table/table.h"
#include "cluster/roster.h"
#include "data/input/decode.h"
#include "os/command.h"
#include "save/save.h"
#include "save/text.h"

enum { PIECE = 1 << 18, FIRST_NUMBER = 16 };

struct import {
    const struct table_values *v;
    struct store *store;
    struct text_import *text;
    char *piece;
};

// Adds a file. It is decompressed if its first bytes show a compression.
static int add_file(struct import *x, int fd, const char *name, struct err *e)
{
    struct decoder *d;
    size_t n = 1;
    TRY(decoder_open(&d, fd, name, -1, e));
    int rc = 0;
    while (rc == 0 && n > 0) {
        rc = decoder_read(d, x->piece, PIECE, &n, e);
        if (rc == 0 && n > 0)
            rc = text_import_add(x->text, x->piece, n, e);
    }
    decoder_close(d);
    return rc;
}

// Adds the output of the converter for a file.
static int add_converted(struct import *x, int fd, const char *name, struct err *e)
{
    struct command *c;
    size_t n = 1;
    int rc = command_begin(&c, x->v->converter, COMMAND_READ, fd, e);
    while (rc == 0 && n > 0) {
        rc = command_read(c, x->piece, PIECE, &n, e);
        if (rc == 0 && n > 0)
            rc = text_import_add(x->text, x->piece, n, e);
        if (rc != 0)
            command_abort(c);
    }
    if (rc == 0 && command_end(c, e) != 0)
        rc = err_wrap(e, "'%s'", name);
    close(fd);
    return rc;
}

static int read_file(struct import *x, const char *name, struct err *e)
{
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(e, TUG_EDATA, "cannot read '%s'", name);
    int rc = text_import_file(x->text, name, e);
    if (rc != 0)
        close(fd);
    else
        rc = (x->v->converter != NULL ? add_converted : add_file)(x, fd, name, e);
    return rc;
}

static int read_all(struct import *x, uint64_t *ret_lines, struct err *e)
{
    const struct option_list *files = &x->v->action; // the first word is the action
    TRY(text_import_open(&x->text, x->store, x->v->paddle, e));
    int rc = 0;
    for (size_t i = 1; i < files->n && rc == 0; i++)
        rc = read_file(x, files->items[i], e);
    if (rc == 0)
        return text_import_end(x->text, ret_lines, e);
    text_import_abort(x->text);
    return rc;
}

static int write_save(const struct import *x, uint64_t lines, struct err *e)
{
    char path[FILE_PATH_MAX];
    const struct table_values *v = x->v;
    TRY(save_stores(v->out, (enum save_mode)v->mode, &x->store, 1, NULL, (int)v->zstd,
                    (uint32_t)v->keep, path, e));
    uint64_t rows = store_stats(x->store).rows;
    size_t files = v->action.n - 1;
    cli_printf("%" PRIu64 " row%s from %" PRIu64 " line%s of %zu file%s; saved to %s\n",
               rows, PLURAL_S(rows), lines, PLURAL_S(lines), files, PLURAL_S(files),
               path);
    return 0;
}

static int import(struct import *x, const struct table_config *c, struct err *e)
{
    uint64_t lines = 0;
    struct store_options o = {
        .config = c,
        .id = x->v->number < 0 ? FIRST_NUMBER : (uint32_t)x->v->number,
        .partition_bits = ROSTER_PARTITION_BITS,
    };
    TRY(table_check_place(x->v->out, c->name, e));
    TRY(store_open(&x->store, &o, e));
    x->piece = mem_alloc(PIECE);
    if (x->piece == NULL)
        return err_nomem(e, "a piece of a file");
    TRY(read_all(x, &lines, e));
    return write_save(x, lines, e);
}

int table_import(const struct table_values *v, struct err *e)
{
    struct import x = {.v = v};
    struct table_config c;
    struct buf text;
    if (v->mode == SAVE_DELTA)
        return err_set(e, TUG_EUSAGE, "--mode: an import makes a checkpoint or a base");
    TRY(table_read_settings(v, &text, &c, e));
    buf_free(&text);
    int rc = import(&x, &c, e);
    store_close(x.store);
    mem_free(x.piece);
    return rc;
}
