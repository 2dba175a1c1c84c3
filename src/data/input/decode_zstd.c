// Decodes zstd (RFC 8878), with one or more frames and skippable frames, by libzstd.
//
// SPDX-License-Identifier: Apache-2.0
#include <zstd.h>
#include <zstd_errors.h>

#include "base/alloc.h"
#include "data/input/decode.h"

struct zstd {
    ZSTD_DCtx *ctx;
    bool in_frame;
};

static int zstd_open(struct decoder *d, struct err *e)
{
    struct zstd *z = mem_zalloc(sizeof *z);
    if (z == NULL)
        return err_nomem(e, "a zstd decoder");
    d->state = z;
    z->ctx = ZSTD_createDCtx();
    return z->ctx != NULL ? 0 : err_nomem(e, "a zstd decoder");
}

static int zstd_error(const struct decoder *d, size_t rc, struct err *e)
{
    if (ZSTD_getErrorCode(rc) == ZSTD_error_memory_allocation)
        return err_nomem(e, "a zstd decoder");
    return err_set(e, TUG_EDATA, "%s is damaged: its zstd data does not decompress (%s)",
                   d->name, ZSTD_getErrorName(rc));
}

static int zstd_read(struct decoder *d, char *out, size_t cap, size_t *ret_n,
                     struct err *e)
{
    struct zstd *z = d->state;
    ZSTD_outBuffer to = {out, cap, 0};
    while (to.pos == 0) {
        TRY(decoder_fill(d, e));
        bool more = d->in_at < d->in_len;
        if (!more && !z->in_frame)
            break;
        // Without input, the library may still have output.
        ZSTD_inBuffer from = {d->in + d->in_at, d->in_len - d->in_at, 0};
        size_t rc = ZSTD_decompressStream(z->ctx, &to, &from);
        if (ZSTD_isError(rc))
            return zstd_error(d, rc, e);
        d->in_at += from.pos;
        z->in_frame = rc != 0;
        if (!more && to.pos == 0)
            return decoder_truncated(d, e);
    }
    *ret_n = to.pos;
    return 0;
}

static void zstd_close(struct decoder *d)
{
    struct zstd *z = d->state;
    if (z != NULL)
        ZSTD_freeDCtx(z->ctx);
    mem_free(z);
}

const struct decode_ops decode_zstd = {.name = "zstd",
                                       .expansion = 4,
                                       .open = zstd_open,
                                       .read = zstd_read,
                                       .close = zstd_close};
