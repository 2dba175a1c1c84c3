// Writes rows of tables without a store to files of a save. A model that is trained in
// one process has such tables.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "base/relaxed.h"
#include "save/rows_format.h"
#include "save/save_internal.h"
#include "table/table.h"

enum { BLOCK_BYTES = 64 << 10 };

struct writing {
    struct rows_shape shape;
    struct table_slabs slabs;
    struct rows_writer *to;
    char *block; // scratch for `most` rows
    size_t most;
};

static void pack_rows(const struct writing *w, const struct table_entry *rows, size_t n)
{
    size_t width = w->shape.width;
    char *to = w->block;
    for (size_t i = 0; i < n; i++, to += rows_row_bytes(w->shape.width)) {
        memcpy(to, &rows[i].key, sizeof(uint64_t));
        relaxed_load_n((float *)(void *)(to + sizeof(uint64_t)),
                       table_row(w->slabs, rows[i].handle), width);
    }
}

// Returns the number of rows of the next block: of the sorted rows it takes the first, and
// the rows behind it as long as they have the same partition and fit.
static size_t block_rows(const struct writing *w, const struct table_entry *rows,
                         size_t n)
{
    uint32_t partition = rows_partition(&w->shape, rows[0].key);
    size_t taken = 1;
    while (taken < n && taken < w->most &&
           rows_partition(&w->shape, rows[taken].key) == partition)
        taken++;
    return taken;
}

static int save_table_write_rows(struct writing *w, const struct table_entry *rows,
                                 size_t n, struct err *e)
{
    for (size_t taken; n > 0; rows += taken, n -= taken) {
        taken = block_rows(w, rows, n);
        pack_rows(w, rows, taken);
        struct rows_block b = {.kind = ROWS_ROW,
                               .partition = rows_partition(&w->shape, rows[0].key),
                               .n = (uint32_t)taken,
                               .width = w->shape.width,
                               .payload = w->block};
        TRY(rows_write(w->to, &b, e));
    }
    return 0;
}

static int save_table_write_file(struct writing *w, const char *path,
                                 const struct table_entry *rows, size_t n,
                                 struct rows_info *ret, struct err *e)
{
    w->most = BLOCK_BYTES / rows_row_bytes(w->shape.width) + 1;
    w->block = mem_array(w->most, rows_row_bytes(w->shape.width));
    if (w->block == NULL)
        return err_nomem(e, "a block of rows");
    int rc = rows_create(&w->to, FILE_OWN, path, &w->shape, 0, e);
    if (rc == 0) {
        rc = save_table_write_rows(w, rows, n, e);
        if (rc == 0)
            rc = rows_commit(w->to, ret, e);
        else
            rows_abort(w->to);
    }
    mem_free(w->block);
    return rc;
}

// Removes from the list the rows whose float in this column is 0. Returns the number of
// rows that remain.
static size_t updated(const struct table *t, uint32_t column, struct table_entry *rows,
                      size_t n)
{
    struct table_slabs slabs = table_slabs(t);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (relaxed_load(table_row(slabs, rows[i].handle) + column) != 0)
            rows[kept++] = rows[i];
    return kept;
}

int save_write_table(const struct table *t, uint32_t first, uint32_t n, uint32_t counted,
                     const char *path, struct rows_info *ret, struct err *e)
{
    const struct table_options *o = table_options(t);
    struct writing w = {.shape = {.width = o->width,
                                  .partition_bits = o->partition_bits,
                                  .mode = SAVE_CHECKPOINT},
                        .slabs = table_slabs(t)};
    struct table_entry *rows;
    size_t n_rows;
    TRY(table_sorted(t, first, n, &rows, &n_rows, e));
    if (counted < o->width)
        n_rows = updated(t, counted, rows, n_rows);
    int rc = save_table_write_file(&w, path, rows, n_rows, ret, e);
    mem_free(rows);
    return rc;
}
