// Writes files of rows. The writer checks the order of blocks and keys as the reader
// does, so that each file that it writes can be read back. Each byte is hashed once,
// while it is in the cache, and is written from the caller's memory.
//
// SPDX-License-Identifier: Apache-2.0
#include "save/rows_file.h"

#include <zstd.h>

#include "base/alloc.h"
#include "os/file.h"
#include "save/rows_format.h"

struct rows_writer {
    struct file_writer *file;
    struct rows_shape shape;
    struct rows_header header;
    ZSTD_CCtx *zstd; // NULL if blocks are not compressed
    char *packed;    // scratch for a compressed block
    size_t packed_cap;
    struct rows_entry *directory;
    size_t n_entries, cap_entries;
    struct rows_order order;
};

// Gets the width of a block's rows by its kind. Returns false if the kind does not exist.
static bool kind_width(const struct rows_shape *s, enum rows_kind kind, uint32_t *ret)
{
    *ret = kind == ROWS_ROW ? s->width : kind == ROWS_EXTRA ? s->extra_width : 0;
    return kind >= ROWS_PARTITION && kind <= ROWS_EXTRA;
}

const char *rows_check_block(const struct rows_shape *s, const struct rows_order *o,
                             const struct rows_block *b)
{
    uint32_t width;
    if (!kind_width(s, b->kind, &width))
        return "is of an unknown kind";
    if (b->kind == ROWS_EXTRA && width == 0)
        return "has extra rows, which this table cannot have";
    if (b->width != width)
        return "has rows of another width";
    if (b->n == 0)
        return "is empty";
    if (b->partition >> s->partition_bits != 0)
        return "is of a partition that does not exist";
    if (b->kind < o->kind || (b->kind == ROWS_PARTITION && o->kind != ROWS_END))
        return "is out of order";
    return NULL;
}

bool rows_check_keys(const struct rows_shape *s, struct rows_order *o,
                     const struct rows_block *b, uint64_t *ret_key)
{
    bool first = o->kind != b->kind;
    o->kind = b->kind;
    if (b->kind == ROWS_PARTITION)
        return true;
    size_t stride = rows_row_bytes(b->width);
    const char *row = b->payload;
    for (uint32_t i = 0; i < b->n; i++, row += stride, first = false) {
        memcpy(ret_key, row, sizeof(*ret_key));
        if ((*ret_key <= o->key && !first) || rows_partition(s, *ret_key) != b->partition)
            return false;
        o->key = *ret_key;
    }
    return true;
}

static void writer_free(struct rows_writer *w)
{
    if (w == NULL)
        return;
    ZSTD_freeCCtx(w->zstd);
    mem_free(w->packed);
    mem_free(w->directory);
    mem_free(w);
}

static int set_compression(struct rows_writer *w, int level, struct err *e)
{
    if (level < 0 || level > ZSTD_maxCLevel())
        return err_set(e, TUG_EUSAGE,
                       "zstd has no level %d; give 0 (no compression) to %d", level,
                       ZSTD_maxCLevel());
    if (level == 0)
        return 0;
    w->zstd = ZSTD_createCCtx();
    if (w->zstd == NULL ||
        ZSTD_isError(ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_compressionLevel, level)))
        return err_nomem(e, "a compressor");
    return 0;
}

int rows_create(struct rows_writer **ret, int root, const char *path,
                const struct rows_shape *s, int zstd_level, struct err *e)
{
    struct rows_writer *w = mem_zalloc(sizeof(*w));
    if (w == NULL)
        return err_nomem(e, path);
    w->shape = *s;
    w->header = (struct rows_header){.version = ROWS_VERSION,
                                     .width = s->width,
                                     .extra_width = s->extra_width,
                                     .partition_bits = s->partition_bits,
                                     .by_range = s->by_range,
                                     .mode = s->mode,
                                     .level = (uint32_t)zstd_level,
                                     .day = s->day};
    memcpy(w->header.magic, rows_begin, sizeof(rows_begin));
    w->header.checksum = rows_header_checksum(&w->header);
    int rc = set_compression(w, zstd_level, e);
    if (rc == 0)
        rc = file_create_in(&w->file, root, path, e);
    if (rc == 0)
        rc = file_write(w->file, &w->header, sizeof(w->header), e);
    if (rc != 0) {
        rows_abort(w);
        return rc;
    }
    *ret = w;
    return 0;
}

void rows_abort(struct rows_writer *w)
{
    if (w != NULL)
        file_abort(w->file);
    writer_free(w);
}

// Makes the directory's last entry that of the partition: appends an entry for it, unless
// the last entry is already that of the partition.
static int begin_partition(struct rows_writer *w, uint32_t partition, struct err *e)
{
    if (w->n_entries > 0) {
        uint32_t last = w->directory[w->n_entries - 1].partition;
        if (last == partition)
            return 0;
        if (last > partition)
            return err_set(e, TUG_EINTERNAL, "partition %u is written after %u",
                           partition, last);
    }
    if (mem_room(&w->directory, &w->cap_entries, w->n_entries + 1) != 0)
        return err_nomem(e, "the directory of a file of rows");
    w->order = (struct rows_order){.kind = ROWS_END};
    w->directory[w->n_entries++] = (struct rows_entry){.partition = partition,
                                                       .at = file_written(w->file)};
    return 0;
}

// Compresses a block, unless that would make it larger.
static int compress_block(struct rows_writer *w, struct rows_block_header *h,
                          const void **payload, struct err *e)
{
    h->stored = h->bytes;
    if (w->zstd == NULL)
        return 0;
    if (w->packed_cap < h->bytes) {
        mem_free(w->packed);
        w->packed = mem_alloc(h->bytes);
        w->packed_cap = w->packed != NULL ? h->bytes : 0;
        if (w->packed == NULL)
            return err_nomem(e, "a block of rows");
    }
    // The buffer is smaller than the input, so compression fails unless it saves bytes.
    size_t n = ZSTD_compress2(w->zstd, w->packed, h->bytes - 1, *payload, h->bytes);
    if (ZSTD_isError(n))
        return 0;
    h->stored = n;
    *payload = w->packed;
    return 0;
}

static void count_block(struct rows_writer *w, const struct rows_block_header *h)
{
    struct rows_entry *x = &w->directory[w->n_entries - 1];
    x->blocks++;
    x->checksum = rows_add_checksum(x->checksum, h->checksum);
    x->rows += h->kind == ROWS_ROW ? h->n : 0;
    x->extras += h->kind == ROWS_EXTRA ? h->n : 0;
    x->gone += h->kind == ROWS_GONE ? h->n : 0;
}

static int write_block(struct rows_writer *w, const struct rows_block *b, struct err *e)
{
    static const char zeros[ROWS_ALIGN];
    uint64_t key;
    if (!rows_check_keys(&w->shape, &w->order, b, &key))
        return err_set(e, TUG_EINTERNAL, "key %llu is written out of place",
                       (unsigned long long)key);
    struct rows_block_header h = {
        .kind = b->kind,
        .partition = b->partition,
        .n = b->n,
        .width = b->width,
        .bytes = b->kind == ROWS_PARTITION ? b->n : b->n * rows_row_bytes(b->width)};
    const void *payload = b->payload;
    TRY(compress_block(w, &h, &payload, e));
    h.checksum = rows_block_checksum(&h, payload);
    count_block(w, &h);
    TRY(file_write(w->file, &h, sizeof(h), e));
    TRY(file_write(w->file, payload, h.stored, e));
    return file_write(w->file, zeros, rows_padded(h.stored) - h.stored, e);
}

int rows_write(struct rows_writer *w, const struct rows_block *b, struct err *e)
{
    TRY(begin_partition(w, b->partition, e));
    const char *wrong = rows_check_block(&w->shape, &w->order, b);
    if (wrong == NULL && b->kind == ROWS_PARTITION && b->n > ROWS_STATE_MAX)
        wrong = "is too large";
    if (wrong != NULL)
        return err_set(e, TUG_EINTERNAL, "a block of rows to be written %s", wrong);
    if (b->kind == ROWS_PARTITION)
        return write_block(w, b, e);
    uint32_t most = rows_block_rows(b->width);
    for (uint32_t at = 0; at < b->n; at += most) {
        struct rows_block piece = *b;
        piece.n = b->n - at < most ? b->n - at : most;
        piece.payload = (const char *)b->payload + at * rows_row_bytes(b->width);
        TRY(write_block(w, &piece, e));
    }
    return 0;
}

int rows_commit(struct rows_writer *w, struct rows_info *ret, struct err *e)
{
    struct rows_trailer t = {.at = file_written(w->file),
                             .bytes = w->n_entries * sizeof(*w->directory)};
    struct rows_info info = {0};
    for (size_t i = 0; i < w->n_entries; i++) {
        info.rows += w->directory[i].rows;
        info.extras += w->directory[i].extras;
        info.gone += w->directory[i].gone;
    }
    t.rows = info.rows;
    memcpy(t.magic, rows_end, sizeof(rows_end));
    t.checksum = info.checksum = rows_file_checksum(&w->header, w->directory, &t);
    int rc = file_write(w->file, w->directory, t.bytes, e);
    if (rc == 0)
        rc = file_write(w->file, &t, sizeof(t), e);
    info.bytes = file_written(w->file);
    if (rc == 0)
        rc = file_commit(w->file, e);
    else
        file_abort(w->file);
    writer_free(w);
    if (rc == 0)
        *ret = info;
    return rc;
}
