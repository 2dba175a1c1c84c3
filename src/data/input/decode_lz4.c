// Decodes lz4, with one or more frames and skippable frames, by liblz4.
//
// SPDX-License-Identifier: Apache-2.0
#include <lz4frame.h>

#include "base/alloc.h"
#include "data/input/decode.h"

struct lz4 {
    LZ4F_dctx *ctx;
    bool in_frame;
};

static int lz4_open(struct decoder *d, struct err *e)
{
    struct lz4 *l = mem_zalloc(sizeof *l);
    if (l == NULL)
        return err_nomem(e, "an lz4 decoder");
    d->state = l;
    if (LZ4F_isError(LZ4F_createDecompressionContext(&l->ctx, LZ4F_VERSION)))
        return err_nomem(e, "an lz4 decoder");
    return 0;
}

static int lz4_read(struct decoder *d, char *out, size_t cap, size_t *ret_n,
                    struct err *e)
{
    struct lz4 *l = d->state;
    size_t got = 0;
    while (got == 0) {
        TRY(decoder_fill(d, e));
        bool more = d->in_at < d->in_len;
        if (!more && !l->in_frame)
            break;
        // Without input, the library may still have output.
        size_t used = d->in_len - d->in_at;
        got = cap;
        size_t rc = LZ4F_decompress(l->ctx, out, &got, d->in + d->in_at, &used, NULL);
        if (LZ4F_isError(rc))
            return err_set(e, TUG_EDATA,
                           "%s is damaged: its lz4 data does not decompress (%s)",
                           d->name, LZ4F_getErrorName(rc));
        d->in_at += used;
        l->in_frame = rc != 0;
        if (!more && got == 0)
            return decoder_truncated(d, e);
    }
    *ret_n = got;
    return 0;
}

static void lz4_close(struct decoder *d)
{
    struct lz4 *l = d->state;
    if (l != NULL)
        LZ4F_freeDecompressionContext(l->ctx);
    mem_free(l);
}

const struct decode_ops decode_lz4 = {.name = "lz4",
                                      .expansion = 2,
                                      .open = lz4_open,
                                      .read = lz4_read,
                                      .close = lz4_close};
