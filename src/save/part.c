// Part files. A part is read in blocks, each checked before a row of it is believed; what
// the header says is checked against the size of the file before anything is allocated
// for it.
//
//     0        8         12      16      20      24     28    32      40       48
//     +--------+---------+-------+-------+-------+------+-----+-------+--------+
//     | magic  | version | width | p.bits| first |  n   |  0  | rows  | XXH3   |
//     +--------+---------+-------+-------+-------+------+-----+-------+--------+
//     block: rows, each key (8 bytes) and width floats; then the XXH3 of them
//
// All blocks but the last have as many rows as fit BLOCK_BYTES, one at least. Sizes
// follow from width and rows alone, so a file has exactly one right length.
//
// SPDX-License-Identifier: Apache-2.0
#include "save/part.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_STATIC_LINKING_ONLY // lets the hash state be a member of the reader
#include <xxhash.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/relaxed.h"
#include "table/table_internal.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "parts are written as memory is");

enum {
    BLOCK_BYTES = 64 << 10,
    SUM_BYTES = 8,
    LOAD_ROWS = 512, // rows for which the table is asked at once
};

static const char magic[8] = {'T', 'U', 'G', 'P', 'A', 'R', 'T', 1};

struct header {
    char magic[8];
    uint32_t version, width, partition_bits, first, n, zero;
    uint64_t rows;
    uint64_t checksum; // of what is before it
};

static_assert(sizeof(struct header) == 48, "the header has no padding");

static size_t row_bytes(const struct header *h)
{
    return sizeof(uint64_t) + h->width * sizeof(float);
}

static uint64_t block_rows(const struct header *h)
{
    size_t rows = BLOCK_BYTES / row_bytes(h);
    return rows > 0 ? rows : 1;
}

static uint64_t file_bytes(const struct header *h)
{
    uint64_t blocks = (h->rows + block_rows(h) - 1) / block_rows(h);
    return sizeof(*h) + h->rows * row_bytes(h) + blocks * SUM_BYTES;
}

static uint64_t header_checksum(const struct header *h)
{
    return hash_bytes(h, offsetof(struct header, checksum), 0);
}

static void pack_rows(const struct table *t, const struct table_entry *rows, size_t n,
                      char *to)
{
    size_t width = t->options.width;
    for (size_t i = 0; i < n; i++) {
        memcpy(to, &rows[i].key, sizeof(uint64_t));
        to += sizeof(uint64_t);
        relaxed_load_n((float *)(void *)to, table_row(t->view, rows[i].handle), width);
        to += width * sizeof(float);
    }
}

static int write_blocks(struct file_writer *w, const struct table *t,
                        const struct header *h, const struct table_entry *rows,
                        struct err *e)
{
    size_t most = block_rows(h);
    char *block = mem_array(most, row_bytes(h));
    int rc = block == NULL ? err_nomem(e, "a block of a part") : 0;
    for (size_t at = 0; at < h->rows && rc == 0; at += most) {
        size_t n = h->rows - at < most ? h->rows - at : most;
        pack_rows(t, rows + at, n, block);
        uint64_t sum = hash_bytes(block, n * row_bytes(h), 0);
        rc = file_write(w, block, n * row_bytes(h), e);
        if (rc == 0)
            rc = file_write(w, &sum, sizeof(sum), e);
    }
    mem_free(block);
    return rc;
}

static int write_part(const struct table *t, const struct header *h,
                      const struct table_entry *rows, const char *path,
                      struct part_info *ret_info, struct err *e)
{
    struct file_writer *w;
    TRY(file_create(&w, path, e));
    int rc = file_write(w, h, sizeof(*h), e);
    if (rc == 0)
        rc = write_blocks(w, t, h, rows, e);
    if (rc != 0) {
        file_abort(w);
        return rc;
    }
    *ret_info = (struct part_info){h->rows, file_written(w), file_checksum(w)};
    return file_commit(w, e);
}

static size_t without_zeros(const struct table *t, uint32_t column,
                            struct table_entry *rows, size_t n)
{
    struct table_slabs slabs = table_slabs(t);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (relaxed_load(table_row(slabs, rows[i].handle) + column) != 0)
            rows[kept++] = rows[i];
    return kept;
}

int part_save(const struct table *t, uint32_t first, uint32_t n, uint32_t counted,
              const char *path, struct part_info *ret_info, struct err *e)
{
    struct table_entry *rows;
    size_t n_rows;
    TRY(table_sorted(t, first, n, &rows, &n_rows, e));
    if (counted < t->options.width)
        n_rows = without_zeros(t, counted, rows, n_rows);
    struct header h = {
        .version = PART_VERSION,
        .width = t->options.width,
        .partition_bits = t->options.partition_bits,
        .first = first,
        .n = n,
        .rows = n_rows,
    };
    memcpy(h.magic, magic, sizeof(magic));
    h.checksum = header_checksum(&h);
    int rc = write_part(t, &h, rows, path, ret_info, e);
    mem_free(rows);
    return rc;
}

// A part being read.
struct part {
    XXH3_state_t hash; // of the whole file; first: wants 64-byte alignment
    const char *path;
    int fd;
    struct header h;
    uint64_t read; // rows so far
    char *block;   // with its checksum
    uint32_t partition;
    uint64_t key; // of the last row
};

static void part_close(struct part *p)
{
    if (p->fd >= 0)
        close(p->fd);
    mem_free(p->block);
}

static int read_bytes(struct part *p, void *to, size_t n, struct err *e)
{
    for (size_t done = 0; done < n;) {
        ssize_t more = read(p->fd, (char *)to + done, n - done);
        if (more < 0 && errno == EINTR)
            continue;
        if (more < 0)
            return err_sys(e, TUG_EIO, "cannot read '%s'", p->path);
        if (more == 0)
            return err_set(e, TUG_EDATA,
                           "part '%s' is cut short; restore it or use another save",
                           p->path);
        done += (size_t)more;
    }
    XXH3_64bits_update(&p->hash, to, n);
    return 0;
}

static int check_header(const struct part *p, struct err *e)
{
    const struct header *h = &p->h;
    if (memcmp(h->magic, magic, sizeof(magic)) != 0)
        return err_set(e, TUG_EDATA, "'%s' is not a part of a table", p->path);
    if (h->version != PART_VERSION)
        return err_set(e, TUG_EDATA,
                       "part '%s' has format version %u; this program reads version %d",
                       p->path, h->version, PART_VERSION);
    if (h->checksum != header_checksum(h) || h->zero != 0 || h->width > TABLE_MAX_WIDTH ||
        h->rows > TABLE_MAX_ROWS || h->partition_bits > 16 ||
        h->first > 1u << h->partition_bits || h->n > (1u << h->partition_bits) - h->first)
        return err_set(e, TUG_EDATA,
                       "part '%s' is damaged: its header is wrong; use another save",
                       p->path);
    return 0;
}

static int check_size(const struct part *p, const struct part_info *expect, uint64_t size,
                      struct err *e)
{
    if (size != file_bytes(&p->h))
        return err_set(e, TUG_EDATA,
                       "part '%s' is damaged: it has %llu bytes instead of %llu", p->path,
                       (unsigned long long)size, (unsigned long long)file_bytes(&p->h));
    if (expect != NULL && (size != expect->bytes || p->h.rows != expect->rows))
        return err_set(
            e, TUG_EDATA,
            "part '%s' is not the one that was saved: %llu rows instead of %llu", p->path,
            (unsigned long long)p->h.rows, (unsigned long long)expect->rows);
    return 0;
}

static int part_open(struct part *p, const char *path, const struct part_info *expect,
                     struct err *e)
{
    struct stat st;
    *p = (struct part){.path = path};
    XXH3_64bits_reset(&p->hash);
    // Without O_NONBLOCK opening a pipe that nobody writes would wait for ever.
    p->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (p->fd < 0)
        return err_sys(e, errno == ENOENT || errno == ENOTDIR ? TUG_EDATA : TUG_EIO,
                       "cannot open part '%s'", path);
    if (fstat(p->fd, &st) != 0)
        return err_sys(e, TUG_EIO, "cannot read '%s'", path);
    if (!S_ISREG(st.st_mode))
        return err_set(e, TUG_EDATA, "'%s' is not a file", path);
    TRY(read_bytes(p, &p->h, sizeof(p->h), e));
    TRY(check_header(p, e));
    TRY(check_size(p, expect, (uint64_t)st.st_size, e));
    p->block = mem_alloc(block_rows(&p->h) * row_bytes(&p->h) + SUM_BYTES);
    return p->block == NULL ? err_nomem(e, "a block of a part") : 0;
}

// The next block of rows, 0 at the end.
static int part_next(struct part *p, size_t *ret_rows, struct err *e)
{
    uint64_t rows = p->h.rows - p->read;
    if (rows > block_rows(&p->h))
        rows = block_rows(&p->h);
    *ret_rows = rows;
    if (rows == 0)
        return 0;
    size_t bytes = rows * row_bytes(&p->h);
    uint64_t sum;
    TRY(read_bytes(p, p->block, bytes + SUM_BYTES, e));
    memcpy(&sum, p->block + bytes, sizeof(sum));
    if (sum != hash_bytes(p->block, bytes, 0))
        return err_set(e, TUG_EDATA,
                       "part '%s' is damaged after row %llu; use another save", p->path,
                       (unsigned long long)p->read);
    p->read += rows;
    return 0;
}

static uint64_t part_key(const struct part *p, size_t row)
{
    uint64_t key;
    memcpy(&key, p->block + row * row_bytes(&p->h), sizeof(key));
    return key;
}

// Rows start at multiples of 4 bytes, so the floats are aligned.
static const float *part_values(const struct part *p, size_t row)
{
    return (const float *)(const void *)(p->block + row * row_bytes(&p->h) +
                                         sizeof(uint64_t));
}

// Rows come by partition and key, each once, and belong to the part: else the checksums
// are right but the writer was wrong.
static int check_order(struct part *p, size_t rows, struct err *e)
{
    for (size_t i = 0; i < rows; i++) {
        uint64_t key = part_key(p, i);
        uint32_t partition = table_partition(mix64(key), p->h.partition_bits);
        bool first = p->read == rows && i == 0;
        bool after = partition > p->partition ||
                     (partition == p->partition && key > p->key);
        if (partition - p->h.first >= p->h.n || !(first || after))
            return err_set(
                e, TUG_EDATA,
                "part '%s' is damaged: key %llu is out of place; use another save",
                p->path, (unsigned long long)key);
        p->partition = partition;
        p->key = key;
    }
    return 0;
}

typedef int (*block_fn)(void *ctx, const struct part *p, size_t rows, struct err *e);

static int each_block(struct part *p, const struct part_info *expect, block_fn fn,
                      void *ctx, struct err *e)
{
    for (size_t rows;;) {
        TRY(part_next(p, &rows, e));
        if (rows == 0)
            break;
        TRY(check_order(p, rows, e));
        TRY(fn(ctx, p, rows, e));
    }
    if (expect != NULL && XXH3_64bits_digest(&p->hash) != expect->checksum)
        return err_set(
            e, TUG_EDATA,
            "part '%s' is not the one that was saved: its checksum differs; use "
            "another save",
            p->path);
    return 0;
}

struct each {
    part_row_fn row;
    void *ctx;
};

static int each_row(void *ctx, const struct part *p, size_t rows, struct err *e)
{
    struct each *x = ctx;
    for (size_t i = 0; i < rows; i++)
        TRY(x->row(x->ctx, part_key(p, i), part_values(p, i), p->h.width, e));
    return 0;
}

int part_each(const char *path, const struct part_info *expect, part_row_fn row,
              void *ctx, struct err *e)
{
    struct part p;
    struct each x = {row, ctx};
    int rc = part_open(&p, path, expect, e);
    if (rc == 0)
        rc = each_block(&p, expect, each_row, &x, e);
    part_close(&p);
    return rc;
}

static int load_rows(void *ctx, const struct part *p, size_t rows, struct err *e)
{
    struct table *t = ctx;
    uint64_t keys[LOAD_ROWS];
    uint32_t handles[LOAD_ROWS];
    for (size_t at = 0; at < rows; at += LOAD_ROWS) {
        size_t n = rows - at < LOAD_ROWS ? rows - at : LOAD_ROWS;
        for (size_t i = 0; i < n; i++)
            keys[i] = part_key(p, at + i);
        if (table_rows(t, keys, n, handles) != 0)
            return err_nomem(e, "the rows of a part");
        for (size_t i = 0; i < n; i++)
            relaxed_store_n(table_row(t->view, handles[i]), part_values(p, at + i),
                            p->h.width);
    }
    return 0;
}

static int check_shape(const struct part *p, const struct table *t, struct err *e)
{
    const struct table_options *o = &t->options;
    if (p->h.width == o->width && p->h.partition_bits == o->partition_bits)
        return 0;
    return err_set(e, TUG_EDATA,
                   "part '%s' has rows of %u floats in 2^%u partitions, but the table "
                   "has rows of %u in 2^%u",
                   p->path, p->h.width, p->h.partition_bits, o->width, o->partition_bits);
}

int part_load(struct table *t, const char *path, const struct part_info *expect,
              struct err *e)
{
    struct part p;
    int rc = part_open(&p, path, expect, e);
    if (rc == 0)
        rc = check_shape(&p, t, e);
    if (rc == 0)
        rc = each_block(&p, expect, load_rows, t, e);
    part_close(&p);
    return rc;
}
