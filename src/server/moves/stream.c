// See stream.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/moves/stream.h"

#include <assert.h>
#include <string.h>

static size_t padded(size_t n)
{
    return (n + STREAM_ALIGN - 1) / STREAM_ALIGN * STREAM_ALIGN;
}

int stream_add(struct buf *to, const void *bytes, size_t n)
{
    static const char zeros[STREAM_ALIGN];
    assert(to->len % STREAM_ALIGN == 0);
    TRY(buf_reserve(to, padded(n)));
    if (n > 0)
        (void)buf_add(to, bytes, n); // cannot fail, because the room was reserved
    return buf_add(to, zeros, padded(n) - n);
}

int stream_add_u64s(struct buf *to, const uint64_t *x, size_t n)
{
    return stream_add(to, x, n * sizeof(*x));
}

const void *stream_take(struct stream *x, uint64_t n, size_t size)
{
    const char *bytes = x->bytes + x->at;
    if (size == 0 || n > (x->n - x->at) / size || padded(n * size) > x->n - x->at)
        return NULL;
    x->at += padded(n * size);
    return bytes;
}

bool stream_u64s(struct stream *x, uint64_t *ret, size_t n)
{
    const void *from = stream_take(x, n, sizeof(*ret));
    if (from != NULL)
        memcpy(ret, from, n * sizeof(*ret));
    return from != NULL;
}

int stream_damaged(struct err *e)
{
    return err_set(
        e, TUG_EDATA,
        "the bytes of a partition that arrived from another server are damaged, "
        "or of another version of tug");
}
