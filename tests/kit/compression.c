// See compression.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/compression.h"

#include <lz4frame.h>
#include <zlib.h>
#include <zstd.h>

#include "kit/test.h"

static size_t gzip_bytes(const void *in, size_t n, unsigned char *out, size_t cap)
{
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY),
                     Z_OK);
    z.next_in = (Bytef *)in;
    z.avail_in = (uInt)n;
    z.next_out = out;
    z.avail_out = (uInt)cap;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    size_t len = cap - z.avail_out;
    deflateEnd(&z);
    return len;
}

void compress_to(struct buf *b, enum compression how, const void *in, size_t n)
{
    size_t cap = n + n / 8 + 1024;
    assert_int_equal(buf_reserve(b, cap), 0);
    unsigned char *out = (unsigned char *)b->data + b->len;
    size_t len = 0;
    if (how == GZIP) {
        len = gzip_bytes(in, n, out, cap);
    } else if (how == ZSTD) {
        ZSTD_CCtx *c = ZSTD_createCCtx();
        ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1);
        len = ZSTD_compress2(c, out, cap, in, n);
        assert_false(ZSTD_isError(len));
        ZSTD_freeCCtx(c);
    } else {
        LZ4F_preferences_t p = {
            .frameInfo = {.contentChecksumFlag = LZ4F_contentChecksumEnabled}};
        len = LZ4F_compressFrame(out, cap, in, n, &p);
        assert_false(LZ4F_isError(len));
    }
    b->len += len;
}
