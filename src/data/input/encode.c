// Encoders. A compression is three functions on a half-filled output block; all are in
// this file, since each is a dozen lines.
//
// SPDX-License-Identifier: Apache-2.0
#include "data/input/encode.h"

#include <lz4frame.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>
#include <zstd.h>

#include "base/alloc.h"
#include "os/file.h"

enum {
    BLOCK = 256 << 10, // bytes of input that a compression gets at a time
    ROOM = 512 << 10,  // bytes of output: more than any compression makes of a block
    GZIP_LEVEL = 1, // the fastest level: a higher one compresses random words little more
    ZSTD_LEVEL = 1,
};

struct encode_ops {
    const char *suffix;
    int (*open)(struct encoder *c);                              // may return TUG_ENOMEM
    int (*write)(struct encoder *c, const char *bytes, size_t n, // n <= BLOCK
                 bool last, struct err *e);
    // Frees the encoder's state, also after a failed open.
    void (*close)(struct encoder *c);
};

struct encoder {
    const struct encode_ops *ops;
    struct file_writer *file;
    char *room; // ROOM bytes for the output of compressions
    z_stream gzip;
    bool gzip_open;
    ZSTD_CCtx *zstd;
    LZ4F_cctx *lz4;
    bool lz4_begun;
};

// ---------------------------------------------------------------- none

static int plain_open(struct encoder *c)
{
    (void)c;
    return 0;
}

static int plain_write(struct encoder *c, const char *bytes, size_t n, bool last,
                       struct err *e)
{
    (void)last;
    return file_write(c->file, bytes, n, e);
}

static void plain_close(struct encoder *c)
{
    (void)c;
}

// ---------------------------------------------------------------- gzip

static voidpf gzip_alloc(voidpf opaque, uInt items, uInt size)
{
    (void)opaque;
    return mem_array(items, size);
}

static void gzip_free(voidpf opaque, voidpf p)
{
    (void)opaque;
    mem_free(p);
}

static int gzip_open(struct encoder *c)
{
    c->gzip.zalloc = gzip_alloc;
    c->gzip.zfree = gzip_free;
    int rc = deflateInit2(&c->gzip, GZIP_LEVEL, Z_DEFLATED, 15 + 16, 9,
                          Z_DEFAULT_STRATEGY);
    c->gzip_open = rc == Z_OK;
    return c->gzip_open ? 0 : TUG_ENOMEM;
}

static int gzip_write(struct encoder *c, const char *bytes, size_t n, bool last,
                      struct err *e)
{
    c->gzip.next_in = (Bytef *)(uintptr_t)bytes; // zlib does not write to its input
    c->gzip.avail_in = (uInt)n;
    do {
        c->gzip.next_out = (Bytef *)c->room;
        c->gzip.avail_out = ROOM;
        if (deflate(&c->gzip, last ? Z_FINISH : Z_NO_FLUSH) == Z_STREAM_ERROR)
            return err_set(e, TUG_EINTERNAL, "deflate refused its stream");
        TRY(file_write(c->file, c->room, ROOM - c->gzip.avail_out, e));
    } while (c->gzip.avail_out == 0);
    return 0;
}

static void gzip_close(struct encoder *c)
{
    if (c->gzip_open)
        deflateEnd(&c->gzip);
}

// ---------------------------------------------------------------- zstd

static int zstd_open(struct encoder *c)
{
    c->zstd = ZSTD_createCCtx();
    if (!c->zstd)
        return TUG_ENOMEM;
    ZSTD_CCtx_setParameter(c->zstd, ZSTD_c_compressionLevel, ZSTD_LEVEL);
    ZSTD_CCtx_setParameter(c->zstd, ZSTD_c_checksumFlag, 1);
    return 0;
}

static int zstd_write(struct encoder *c, const char *bytes, size_t n, bool last,
                      struct err *e)
{
    ZSTD_inBuffer in = {bytes, n, 0};
    for (;;) {
        ZSTD_outBuffer out = {c->room, ROOM, 0};
        size_t left = ZSTD_compressStream2(c->zstd, &out, &in,
                                           last ? ZSTD_e_end : ZSTD_e_continue);
        if (ZSTD_isError(left))
            return err_set(e, TUG_ENOMEM, "zstd: %s", ZSTD_getErrorName(left));
        TRY(file_write(c->file, c->room, out.pos, e));
        if (last ? left == 0 : in.pos == in.size)
            return 0;
    }
}

static void zstd_close(struct encoder *c)
{
    ZSTD_freeCCtx(c->zstd);
}

// ---------------------------------------------------------------- lz4

static int lz4_open(struct encoder *c)
{
    return LZ4F_isError(LZ4F_createCompressionContext(&c->lz4, LZ4F_VERSION)) ? TUG_ENOMEM
                                                                              : 0;
}

static int lz4_put(struct encoder *c, size_t n, struct err *e)
{
    if (LZ4F_isError(n))
        return err_set(e, TUG_ENOMEM, "lz4: %s", LZ4F_getErrorName(n));
    return file_write(c->file, c->room, n, e);
}

static int lz4_write(struct encoder *c, const char *bytes, size_t n, bool last,
                     struct err *e)
{
    static const LZ4F_preferences_t wanted = {
        .frameInfo = {.contentChecksumFlag = LZ4F_contentChecksumEnabled}};
    if (!c->lz4_begun)
        TRY(lz4_put(c, LZ4F_compressBegin(c->lz4, c->room, ROOM, &wanted), e));
    c->lz4_begun = true;
    if (n)
        TRY(lz4_put(c, LZ4F_compressUpdate(c->lz4, c->room, ROOM, bytes, n, NULL), e));
    return last ? lz4_put(c, LZ4F_compressEnd(c->lz4, c->room, ROOM, NULL), e) : 0;
}

static void lz4_close(struct encoder *c)
{
    LZ4F_freeCompressionContext(c->lz4);
}

// ---------------------------------------------------------------- all

static const struct encode_ops kinds[] = {
    {".gz", gzip_open, gzip_write, gzip_close},
    {".zst", zstd_open, zstd_write, zstd_close},
    {".lz4", lz4_open, lz4_write, lz4_close},
    {"", plain_open, plain_write, plain_close},
};

static const struct encode_ops *ops_of(const char *path)
{
    const struct encode_ops *k = kinds;
    for (size_t len = strlen(path);; k++) {
        size_t n = strlen(k->suffix);
        if (n == 0 || (len > n && strcmp(path + len - n, k->suffix) == 0))
            return k;
    }
}

// Returns the suffix in `list` with which the name ends, in upper or lower case; NULL if
// there is none.
static const char *ending(const char *path, const char *const *list, size_t n)
{
    size_t len = strlen(path);
    for (size_t i = 0; i < n; i++) {
        size_t most = strlen(list[i]);
        if (len > most && strcasecmp(path + len - most, list[i]) == 0)
            return path + len - most;
    }
    return NULL;
}

int encoder_check_name(const char *option, const char *path, bool plain, struct err *e)
{
    static const char *const others[] = {".xz",   ".bz2", ".zip", ".lzma", ".7z",
                                         ".Z",    ".br",  ".lzo", ".sz",   ".snappy",
                                         ".bz",   ".tar", ".tgz", ".rar",  ".gzip",
                                         ".zstd", ".gz",  ".zst", ".lz4"},
                             *const tables[] = {".parquet", ".feather", ".arrow",
                                                ".orc",     ".avro",    ".xlsx",
                                                ".xls",     ".npy",     ".npz",
                                                ".pkl",     ".h5",      ".hdf5"};
    const char *ours = ops_of(path)->suffix; // "" if the name ends in none
    const char *table = ending(path, tables, sizeof(tables) / sizeof(*tables));
    const char *says = *ours != '\0'
                           ? (plain ? ours : NULL)
                           : ending(path, others, sizeof(others) / sizeof(*others));
    if (table != NULL)
        return err_set(e, TUG_EUSAGE,
                       "%s: '%s' ends in %s, which tug does not write: the output is "
                       "plain text; end the name in .txt, for example",
                       option, path, table);
    if (says == NULL)
        return 0;
    return plain ? err_set(e, TUG_EUSAGE,
                           "%s: '%s' ends in %s, but tug does not compress this file: "
                           "give a name without this ending",
                           option, path, says)
                 : err_set(e, TUG_EUSAGE,
                           "%s: '%s' ends in %s, which tug does not write: end the name "
                           "in .gz, .zst or .lz4, or write text and compress it yourself",
                           option, path, says);
}

static void encoder_free(struct encoder *c)
{
    c->ops->close(c);
    mem_free(c->room);
    mem_free(c);
}

int encoder_open(struct encoder **ret, const char *path, struct err *e)
{
    struct encoder *c = mem_zalloc(sizeof(*c));
    if (!c)
        return err_nomem(e, path);
    c->ops = ops_of(path);
    int rc = TUG_ENOMEM;
    c->room = mem_alloc(ROOM);
    if (!c->room || c->ops->open(c) != 0) {
        err_nomem(e, path);
        goto fail;
    }
    rc = file_create(&c->file, path, e);
    if (rc)
        goto fail;
    *ret = c;
    return 0;
fail:
    encoder_free(c);
    return rc;
}

int encoder_write(struct encoder *c, const void *bytes, size_t n, struct err *e)
{
    const char *from = bytes;
    while (n) {
        size_t part = n < BLOCK ? n : BLOCK;
        TRY(c->ops->write(c, from, part, false, e));
        from += part;
        n -= part;
    }
    return 0;
}

int encoder_commit(struct encoder *c, uint64_t *ret_bytes, struct err *e)
{
    int rc = c->ops->write(c, "", 0, true, e);
    uint64_t bytes = file_written(c->file);
    if (rc)
        file_abort(c->file);
    else
        rc = file_commit(c->file, e);
    encoder_free(c);
    if (rc == 0 && ret_bytes)
        *ret_bytes = bytes;
    return rc;
}

void encoder_abort(struct encoder *c)
{
    if (!c)
        return;
    file_abort(c->file);
    encoder_free(c);
}
