// Decodes gzip (RFC 1952), with one or more members, by zlib.
//
// SPDX-License-Identifier: Apache-2.0
#include <limits.h>
#include <zlib.h>

#include "base/alloc.h"
#include "data/input/decode.h"

// inflateInit2's windowBits: 15 is the largest window; adding 16 makes zlib accept only
// gzip's headers and trailers.
enum { GZIP_WINDOW = 15 + 16 };

struct gzip {
    z_stream z;
    bool open;
    bool in_member;
};

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

static int gzip_open(struct decoder *d, struct err *e)
{
    struct gzip *g = mem_zalloc(sizeof *g);
    if (g == NULL)
        return err_nomem(e, "a gzip decoder");
    d->state = g;
    g->z.zalloc = gzip_alloc;
    g->z.zfree = gzip_free;
    if (inflateInit2(&g->z, GZIP_WINDOW) != Z_OK)
        return err_nomem(e, "a gzip decoder");
    g->open = true;
    g->in_member = true;
    return 0;
}

static int gzip_corrupt(const struct decoder *d, const struct gzip *g, struct err *e)
{
    return err_set(e, TUG_EDATA, "%s is damaged: its gzip data does not decompress (%s)",
                   d->name, g->z.msg != NULL ? g->z.msg : "bad data");
}

// Calls inflate once, which may produce no output.
static int gzip_step(struct decoder *d, struct gzip *g, struct err *e)
{
    size_t have = d->in_len - d->in_at;
    g->z.next_in = (Bytef *)d->in + d->in_at;
    g->z.avail_in = (uInt)have;
    int rc = inflate(&g->z, Z_NO_FLUSH);
    d->in_at += have - g->z.avail_in;
    if (rc == Z_STREAM_END)
        g->in_member = false;
    else if (rc == Z_MEM_ERROR)
        return err_nomem(e, "a gzip decoder");
    else if (rc != Z_OK && rc != Z_BUF_ERROR)
        return gzip_corrupt(d, g, e);
    return 0;
}

static int gzip_read(struct decoder *d, char *out, size_t cap, size_t *ret_n,
                     struct err *e)
{
    struct gzip *g = d->state;
    uInt room = cap < UINT_MAX ? (uInt)cap : UINT_MAX;
    g->z.next_out = (Bytef *)out;
    g->z.avail_out = room;
    while (g->z.avail_out == room) {
        TRY(decoder_fill(d, e));
        bool more = d->in_at < d->in_len;
        if (!more && !g->in_member)
            break;
        if (!more)
            return decoder_truncated(d, e);
        if (!g->in_member) {
            inflateReset(&g->z);
            g->in_member = true;
        }
        TRY(gzip_step(d, g, e));
    }
    *ret_n = room - g->z.avail_out;
    return 0;
}

static void gzip_close(struct decoder *d)
{
    struct gzip *g = d->state;
    if (g != NULL && g->open)
        inflateEnd(&g->z);
    mem_free(g);
}

const struct decode_ops decode_gzip = {.name = "gzip",
                                       .expansion = 3,
                                       .open = gzip_open,
                                       .read = gzip_read,
                                       .close = gzip_close};
