// Reads files of rows. Lengths in the file are checked against its size when it is
// opened, and each block is checked before its rows are used. So damaged bytes never
// cause an allocation or reach the caller.
//
// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zstd.h>

#include "base/alloc.h"
#include "base/search.h"
#include "os/file.h"
#include "save/rows_format.h"

// READ_BYTES: bytes that are read at a time. AHEAD_BYTES: bytes behind these that the
// system is asked to read ahead.
enum { READ_BYTES = 2 << 20, AHEAD_BYTES = 8 << 20 };

struct rows_reader {
    char *path;
    int fd;
    uint64_t size;
    struct rows_header header;
    struct rows_shape shape;
    struct rows_trailer trailer;
    struct rows_entry *directory;
    size_t n_entries;
    struct rows_info info;
    ZSTD_DCtx *zstd;
    char *unpacked;
    size_t unpacked_cap;
    // The part of the file that is in memory.
    char *window;
    size_t window_cap, window_len;
    uint64_t window_at;
    uint64_t advised; // the system was asked to read everything before this position
};

static int rows_read_damaged(const struct rows_reader *r, const char *what, struct err *e)
{
    return err_set(e, TUG_EDATA, "'%s' is damaged: %s; use another save", r->path, what);
}

static int cut_short(const struct rows_reader *r, struct err *e)
{
    return err_set(e, TUG_EDATA,
                   "'%s' is cut short: its end is missing; restore it or use another "
                   "save",
                   r->path);
}

static int read_at(const struct rows_reader *r, void *to, size_t n, uint64_t at,
                   struct err *e)
{
    while (n > 0) {
        ssize_t more = pread(r->fd, to, n, (off_t)at);
        if (more < 0 && errno == EINTR)
            continue;
        if (more < 0)
            return err_sys(e, TUG_EIO, "cannot read '%s'", r->path);
        if (more == 0)
            return cut_short(r, e);
        to = (char *)to + more;
        at += (uint64_t)more;
        n -= (size_t)more;
    }
    return 0;
}

static int open_file(struct rows_reader *r, int root, struct err *e)
{
    struct stat st;
    TRY(file_open(root, r->path, &r->fd, e));
    if (fstat(r->fd, &st) != 0)
        return err_sys(e, TUG_EIO, "cannot read '%s'", r->path);
    if (!S_ISREG(st.st_mode))
        return err_set(e, TUG_EDATA, "'%s' is not a file", r->path);
    r->size = (uint64_t)st.st_size;
    return 0;
}

static int read_header(struct rows_reader *r, struct err *e)
{
    struct rows_header *h = &r->header;
    if (r->size < sizeof(*h))
        return r->size == 0
                   ? cut_short(r, e)
                   : err_set(e, TUG_EDATA, "'%s' is not a file of rows", r->path);
    TRY(read_at(r, h, sizeof(*h), 0, e));
    if (memcmp(h->magic, rows_begin, sizeof(rows_begin)) != 0)
        return err_set(e, TUG_EDATA, "'%s' is not a file of rows", r->path);
    if (h->version != ROWS_VERSION)
        return err_set(e, TUG_EDATA,
                       "'%s' has format version %u; this program reads version %d",
                       r->path, h->version, ROWS_VERSION);
    if (h->checksum != rows_header_checksum(h) || h->width > TABLE_MAX_WIDTH ||
        h->extra_width > TABLE_MAX_WIDTH || h->partition_bits > 16 || h->by_range > 1 ||
        h->mode > SAVE_DAY)
        return rows_read_damaged(r, "its header is wrong", e);
    r->shape = (struct rows_shape){.width = h->width,
                                   .extra_width = h->extra_width,
                                   .partition_bits = h->partition_bits,
                                   .by_range = h->by_range,
                                   .mode = (enum save_mode)h->mode,
                                   .day = h->day};
    return 0;
}

static int read_trailer(struct rows_reader *r, struct err *e)
{
    struct rows_trailer *t = &r->trailer;
    uint64_t least = sizeof(r->header) + sizeof(*t);
    if (r->size < least)
        return cut_short(r, e);
    TRY(read_at(r, t, sizeof(*t), r->size - sizeof(*t), e));
    if (memcmp(t->magic, rows_end, sizeof(rows_end)) != 0)
        return cut_short(r, e);
    uint64_t most = ((uint64_t)1 << r->shape.partition_bits) * sizeof(struct rows_entry);
    if (t->bytes > r->size - least || t->bytes > most ||
        t->bytes % sizeof(struct rows_entry) != 0 ||
        t->at != r->size - sizeof(*t) - t->bytes)
        return rows_read_damaged(r, "its size differs from the size that it states", e);
    return 0;
}

// Checks that partitions and the positions of their first blocks ascend, that the first
// block follows the header, and that each partition has room for the headers of its
// blocks.
static int check_directory(struct rows_reader *r, struct err *e)
{
    uint64_t at = sizeof(r->header);
    for (size_t i = 0; i < r->n_entries; i++) {
        const struct rows_entry *x = &r->directory[i];
        bool follows = i == 0 ? x->at == at
                              : x->at > at && x->partition > x[-1].partition;
        uint64_t least = (uint64_t)x->blocks * sizeof(struct rows_block_header);
        if (!follows || x->partition >> r->shape.partition_bits != 0 || x->blocks == 0 ||
            x->at > r->trailer.at || least > r->trailer.at - x->at)
            return rows_read_damaged(r, "its directory is wrong", e);
        at = x->at;
        r->info.rows += x->rows;
        r->info.extras += x->extras;
        r->info.gone += x->gone;
    }
    if (r->info.rows != r->trailer.rows || (r->n_entries == 0 && r->trailer.at != at))
        return rows_read_damaged(r, "its directory is wrong", e);
    return 0;
}

static int read_directory(struct rows_reader *r, struct err *e)
{
    r->n_entries = r->trailer.bytes / sizeof(*r->directory);
    r->directory = mem_array(r->n_entries + 1, sizeof(*r->directory));
    if (r->directory == NULL)
        return err_nomem(e, r->path);
    TRY(read_at(r, r->directory, r->trailer.bytes, r->trailer.at, e));
    r->info.checksum = rows_file_checksum(&r->header, r->directory, &r->trailer);
    r->info.bytes = r->size;
    if (r->info.checksum != r->trailer.checksum)
        return rows_read_damaged(r, "the checksum of its directory does not match", e);
    return check_directory(r, e);
}

static int check_expected(const struct rows_reader *r, const struct rows_info *x,
                          struct err *e)
{
    const struct rows_info *i = &r->info;
    if (i->bytes == x->bytes && i->checksum == x->checksum && i->rows == x->rows &&
        i->extras == x->extras && i->gone == x->gone)
        return 0;
    return err_set(e, TUG_EDATA,
                   "'%s' is not the file that was saved: it has %llu rows in %llu bytes "
                   "with checksum %016llx, instead of %llu in %llu with %016llx",
                   r->path, (unsigned long long)i->rows, (unsigned long long)i->bytes,
                   (unsigned long long)i->checksum, (unsigned long long)x->rows,
                   (unsigned long long)x->bytes, (unsigned long long)x->checksum);
}

int rows_open(struct rows_reader **ret, int root, const char *path,
              const struct rows_info *expect, struct err *e)
{
    struct rows_reader *r = mem_zalloc(sizeof(*r));
    if (r == NULL)
        return err_nomem(e, path);
    r->fd = -1;
    r->path = mem_strdup(path);
    int rc = r->path == NULL ? err_nomem(e, path) : open_file(r, root, e);
    if (rc == 0)
        rc = read_header(r, e);
    if (rc == 0)
        rc = read_trailer(r, e);
    if (rc == 0)
        rc = read_directory(r, e);
    if (rc == 0 && expect != NULL)
        rc = check_expected(r, expect, e);
    if (rc != 0) {
        rows_close(r);
        return rc;
    }
    *ret = r;
    return 0;
}

void rows_close(struct rows_reader *r)
{
    if (r == NULL)
        return;
    if (r->fd >= 0)
        close(r->fd);
    ZSTD_freeDCtx(r->zstd);
    mem_free(r->unpacked);
    mem_free(r->window);
    mem_free(r->directory);
    mem_free(r->path);
    mem_free(r);
}

const struct rows_shape *rows_shape(const struct rows_reader *r)
{
    return &r->shape;
}

struct rows_info rows_info(const struct rows_reader *r)
{
    return r->info;
}

// Returns the index of the partition's entry; n_entries if it has none.
static size_t find_entry(const struct rows_reader *r, uint32_t partition)
{
    size_t at = search_first(0, r->n_entries, i, r->directory[i].partition >= partition);
    return at < r->n_entries && r->directory[at].partition == partition ? at
                                                                        : r->n_entries;
}

bool rows_has(const struct rows_reader *r, uint32_t partition)
{
    return find_entry(r, partition) < r->n_entries;
}

static uint64_t partition_end(const struct rows_reader *r, size_t entry)
{
    return entry + 1 < r->n_entries ? r->directory[entry + 1].at : r->trailer.at;
}

static int grow_window(struct rows_reader *r, size_t n, struct err *e)
{
    if (n <= r->window_cap)
        return 0;
    char *more = mem_aligned(64, n);
    if (more == NULL)
        return err_nomem(e, "a block of rows");
    if (r->window_len > 0)
        memcpy(more, r->window, r->window_len);
    mem_free(r->window);
    r->window = more;
    r->window_cap = n;
    return 0;
}

// Gets bytes [at, at + n) of the file. If they are not in the window, reads them together
// with the bytes that follow, which the caller will need later: up to `end`, or as many
// as fit into the window.
static int view(struct rows_reader *r, uint64_t at, size_t n, uint64_t end,
                const char **ret, struct err *e)
{
    bool here = at >= r->window_at && at - r->window_at <= r->window_len;
    size_t from = here ? (size_t)(at - r->window_at) : r->window_len;
    if (r->window_len - from < n) {
        r->window_len -= from;
        if (r->window_len > 0)
            memmove(r->window, r->window + from, r->window_len);
        r->window_at = at;
        from = 0;
        TRY(grow_window(r, n > READ_BYTES ? n : READ_BYTES, e));
        size_t want = end - at < r->window_cap ? (size_t)(end - at) : r->window_cap;
        TRY(read_at(r, r->window + r->window_len, want - r->window_len,
                    at + r->window_len, e));
        r->window_len = want;
        uint64_t ahead = at + want > r->advised ? at + want : r->advised;
        if (ahead < end && ahead < at + want + AHEAD_BYTES / 2) {
            uint64_t more = end - ahead < AHEAD_BYTES ? end - ahead : AHEAD_BYTES;
            (void)posix_fadvise(r->fd, (off_t)ahead, (off_t)more, POSIX_FADV_WILLNEED);
            r->advised = ahead + more;
        }
    }
    *ret = r->window + from;
    return 0;
}

// The state of reading a partition.
struct progress {
    const struct rows_entry *entry;
    uint64_t at, end; // range of the partition's bytes that are left
    // End of the bytes that will be read in one sequence. It can be the end of a later
    // partition.
    uint64_t wanted;
    uint32_t blocks;
    uint64_t rows, extras, gone;
    uint64_t checksum;
    struct rows_order order;
};

// Checks the lengths of a block before they are used.
static int check_lengths(const struct rows_reader *r, const struct rows_block_header *h,
                         const struct rows_block *b, uint64_t room, struct err *e)
{
    bool state = b->kind == ROWS_PARTITION;
    uint64_t bytes = state ? b->n : b->n * rows_row_bytes(b->width);
    uint32_t most = state ? ROWS_STATE_MAX : rows_block_rows(b->width);
    if (b->n > most || h->bytes != bytes || h->stored > bytes || h->stored == 0 ||
        rows_padded(h->stored) > room)
        return rows_read_damaged(r, "the length of a block is wrong", e);
    return 0;
}

static int unpack(struct rows_reader *r, const struct rows_block_header *h,
                  const char *stored, struct rows_block *b, struct err *e)
{
    b->payload = stored;
    if (h->stored == h->bytes)
        return 0;
    if (r->zstd == NULL && (r->zstd = ZSTD_createDCtx()) == NULL)
        return err_nomem(e, "a decompressor");
    if (ZSTD_getFrameContentSize(stored, h->stored) != h->bytes)
        return rows_read_damaged(r, "a block does not decompress", e);
    if (r->unpacked_cap < h->bytes) {
        mem_free(r->unpacked);
        r->unpacked = mem_aligned(64, h->bytes);
        r->unpacked_cap = r->unpacked != NULL ? h->bytes : 0;
        if (r->unpacked == NULL)
            return err_nomem(e, "a block of rows");
    }
    size_t n = ZSTD_decompressDCtx(r->zstd, r->unpacked, h->bytes, stored, h->stored);
    if (ZSTD_isError(n) || n != h->bytes)
        return rows_read_damaged(r, "a block does not decompress", e);
    b->payload = r->unpacked;
    return 0;
}

static void count_block(struct progress *p, const struct rows_block_header *h)
{
    p->blocks++;
    p->checksum = rows_add_checksum(p->checksum, h->checksum);
    p->rows += h->kind == ROWS_ROW ? h->n : 0;
    p->extras += h->kind == ROWS_EXTRA ? h->n : 0;
    p->gone += h->kind == ROWS_GONE ? h->n : 0;
    p->at += sizeof(*h) + rows_padded(h->stored);
}

static int next_block(struct rows_reader *r, struct progress *p, struct rows_block *b,
                      struct err *e)
{
    struct rows_block_header h;
    const char *bytes;
    uint64_t room = p->end - p->at;
    if (room < sizeof(h))
        return rows_read_damaged(r, "a block is missing", e);
    TRY(view(r, p->at, sizeof(h), p->wanted, &bytes, e));
    memcpy(&h, bytes, sizeof(h));
    *b = (struct rows_block){.kind = (enum rows_kind)h.kind,
                             .partition = h.partition,
                             .n = h.n,
                             .width = h.width};
    const char *wrong = rows_check_block(&r->shape, &p->order, b);
    if (wrong != NULL || h.partition != p->entry->partition)
        return err_set(e, TUG_EDATA,
                       "'%s' is damaged: a block of partition %u %s; use another save",
                       r->path, p->entry->partition,
                       wrong != NULL ? wrong : "is of another partition");
    TRY(check_lengths(r, &h, b, room - sizeof(h), e));
    size_t all = sizeof(h) + (size_t)rows_padded(h.stored);
    TRY(view(r, p->at, all, p->wanted, &bytes, e));
    if (h.checksum != rows_block_checksum(&h, bytes + sizeof(h)))
        return err_set(e, TUG_EDATA,
                       "'%s' is damaged: the checksum of a block of partition %u does "
                       "not match; use another save",
                       r->path, p->entry->partition);
    for (size_t i = sizeof(h) + h.stored; i < all; i++)
        if (bytes[i] != 0)
            return rows_read_damaged(r, "there are bytes between its blocks", e);
    TRY(unpack(r, &h, bytes + sizeof(h), b, e));
    uint64_t key;
    if (!rows_check_keys(&r->shape, &p->order, b, &key))
        return err_set(e, TUG_EDATA,
                       "'%s' is damaged: key %llu is out of place; use another save",
                       r->path, (unsigned long long)key);
    count_block(p, &h);
    return 0;
}

// Passes the blocks of a partition to `fn`. `wanted` is the end of all bytes that the
// caller will read in one sequence.
static int each_block(struct rows_reader *r, size_t entry, uint64_t wanted,
                      rows_block_fn fn, void *ctx, struct err *e)
{
    const struct rows_entry *x = &r->directory[entry];
    struct progress p = {
        .entry = x, .at = x->at, .end = partition_end(r, entry), .wanted = wanted};
    while (p.blocks < x->blocks) {
        struct rows_block b;
        TRY(next_block(r, &p, &b, e));
        TRY(fn(ctx, &b, e));
    }
    if (p.at == p.end && p.checksum == x->checksum && p.rows == x->rows &&
        p.extras == x->extras && p.gone == x->gone)
        return 0;
    return err_set(e, TUG_EDATA,
                   "'%s' is damaged: partition %u does not match the file's directory; "
                   "use another save",
                   r->path, x->partition);
}

int rows_each(struct rows_reader *r, uint32_t partition, rows_block_fn fn, void *ctx,
              struct err *e)
{
    if (partition != ROWS_ALL) {
        size_t entry = find_entry(r, partition);
        return entry == r->n_entries
                   ? 0
                   : each_block(r, entry, partition_end(r, entry), fn, ctx, e);
    }
    for (size_t i = 0; i < r->n_entries; i++)
        TRY(each_block(r, i, r->trailer.at, fn, ctx, e));
    return 0;
}
