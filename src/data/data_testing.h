// Help for this part's tests: a folder for files, seeded randomness, padded lines,
// compression.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_DATA_TESTING_H
#define TUG_DATA_DATA_TESTING_H

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <lz4frame.h>
#include <zlib.h>
#include <zstd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/random.h"
#include "data/reader.h"

#define UNUSED __attribute__((unused))

// ---------------------------------------------------------------- randomness

static uint64_t test_seed = 1, test_counter;

static UNUSED uint64_t any(uint64_t below)
{
    return random_below(test_seed, 77, test_counter++, below);
}

static UNUSED bool chance(uint64_t percent)
{
    return any(100) < percent;
}

// ---------------------------------------------------------------- files

static char test_dir[64];

static UNUSED int make_test_dir(void **state)
{
    (void)state;
    snprintf(test_dir, sizeof test_dir, "/tmp/tug-data-XXXXXX");
    return mkdtemp(test_dir) != NULL ? 0 : -1;
}

static UNUSED int remove_one(const char *path, const struct stat *st, int kind,
                             struct FTW *ftw)
{
    (void)st, (void)kind, (void)ftw;
    return remove(path);
}

static UNUSED int remove_test_dir(void **state)
{
    (void)state;
    return nftw(test_dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

// The path of a file in the test's folder; valid until eight more were asked for.
static UNUSED const char *path_of(const char *name)
{
    static char paths[8][128];
    static unsigned turn;
    char *p = paths[turn++ % 8];
    snprintf(p, sizeof paths[0], "%s/%s", test_dir, name);
    return p;
}

static UNUSED const char *write_file(const char *name, const void *bytes, size_t n)
{
    const char *path = path_of(name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    return path;
}

static UNUSED const char *write_text(const char *name, const char *text)
{
    return write_file(name, text, strlen(text));
}

// A file of the shared data sets; NULL where they are not at hand.
static UNUSED const char *shared_file(const char *name)
{
    static char path[512];
    const char *dir = getenv("TUG_SHARED");
    snprintf(path, sizeof path, "%s/data/%s", dir != NULL ? dir : "../shared", name);
    return access(path, R_OK) == 0 ? path : NULL;
}

// ---------------------------------------------------------------- lines

// A line as a reader gets it; what lies behind it is made to be mistaken for more of it.
struct line {
    char *text;
    size_t len;
};

static UNUSED struct line line_make(const char *text, size_t len)
{
    static const char behind[] = "\n1:1 23:4\t5,6\"7:8:9\t1\t2\t3\t4\t5\t6\t7";
    struct line l = {.text = mem_alloc(len + READER_PADDING), .len = len};
    assert_non_null(l.text);
    memcpy(l.text, text, len);
    memcpy(l.text + len, behind, READER_PADDING);
    return l;
}

static const struct reader_layout *test_layout; // of csv: by the last header

static UNUSED int parse(const struct reader *r, const char *text, struct examples *x,
                        struct err *e)
{
    struct line l = line_make(text, strlen(text));
    int rc = reader_line(r, test_layout, l.text, l.len, x, e);
    mem_free(l.text);
    return rc;
}

// A line that must be refused, with a reason that holds `reason`.
static UNUSED void assert_refused(const struct reader *r, const char *text,
                                  const char *reason)
{
    struct examples x = {0};
    struct err e = {0};
    assert_int_equal(parse(r, text, &x, &e), TUG_EDATA);
    if (strstr(e.text, reason) == NULL)
        fail_msg("'%.60s': '%s' does not say '%s'", text, e.text, reason);
    assert_int_equal(x.n, 0);
    assert_int_equal(x.nnz, 0);
    examples_free(&x);
}

// ---------------------------------------------------------------- compression

enum compression { GZIP, ZSTD, LZ4, COMPRESSIONS };

static UNUSED size_t gzip_bytes(const void *in, size_t n, unsigned char *out, size_t cap)
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

// Appends one member or frame to *b. All have checksums.
static UNUSED void compress_to(struct buf *b, enum compression how, const void *in,
                               size_t n)
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

#endif
