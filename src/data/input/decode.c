// Shared by all decoders: reads the file, detects its compression, skips bytes.
//
// SPDX-License-Identifier: Apache-2.0
#include "data/input/decode.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "data/input/first_lines.h"
#include "data/input/input.h"

enum { IN_BYTES = 256 << 10, MAGIC_BYTES = 4, FOREIGN_BYTES = 8 };

static const struct {
    const struct decode_ops *ops;
    unsigned len;
    unsigned char magic[MAGIC_BYTES];
} MAGICS[] = {
    {&decode_gzip, 2, {0x1f, 0x8b}},
    {&decode_zstd, 4, {0x28, 0xb5, 0x2f, 0xfd}},
    {&decode_lz4, 4, {0x04, 0x22, 0x4d, 0x18}},
};

// Returns the size of a skippable frame: the magic number 0x184D2A5x, the length, the
// bytes; 0 if `bytes` does not begin with one. Files of zstd and lz4 may have such frames
// (files of pzstd begin with one).
static size_t skippable_frame(const char *bytes, size_t n)
{
    static const unsigned char rest[] = {0x2a, 0x4d, 0x18};
    if (n < 8 || ((unsigned char)bytes[0] & 0xf0) != 0x50 ||
        memcmp(bytes + 1, rest, 3) != 0)
        return 0;
    uint32_t len;
    memcpy(&len, bytes + 4, sizeof len);
    return (size_t)len + 8;
}

const struct decode_ops *decoder_detect(const char *bytes, size_t n)
{
    size_t skip = skippable_frame(bytes, n);
    if (skip > 0)
        return skip < n && decoder_detect(bytes + skip, n - skip) == &decode_lz4
                   ? &decode_lz4
                   : &decode_zstd;
    for (size_t i = 0; i < sizeof MAGICS / sizeof MAGICS[0]; i++) {
        // Two bytes are enough if the file has no more: the file is truncated, and the
        // decoder of its compression reports this.
        size_t len = n < MAGICS[i].len ? n : MAGICS[i].len;
        if (len >= 2 && memcmp(bytes, MAGICS[i].magic, len) == 0)
            return MAGICS[i].ops;
    }
    return &decode_plain;
}

// Kinds of files that cannot be read but are common. If the first bytes of a kind are
// letters with which a text could begin, a later byte that no text has is checked, too.
static const struct {
    const char *what, *advice;
    unsigned len;
    char magic[FOREIGN_BYTES];
    bool binary_behind;
} FOREIGN[] = {
    {"a Parquet file", "write it as csv first", 4, "PAR1", true},
    {"an encrypted Parquet file", "write it as csv first", 4, "PARE", true},
    {"an ORC file", "write it as csv first", 3, "ORC", true},
    {"an Avro file", "write it as csv first", 4, "Obj\x01", false},
    {"an Arrow file", "write it as csv first", 6, "ARROW1", true},
    {"an HDF5 file", "write it as csv first", 4, "\x89HDF", false},
    {"compressed with bzip2", "bzip2 -dc FILE | tug ... --data -", 3, "BZh", false},
    {"compressed with xz", "xz -dc FILE | tug ... --data -", 6,
     "\xfd"
     "7zXZ\0",
     false},
    {"text in UTF-16", "iconv -f UTF-16 -t UTF-8 FILE | tug ... --data -", 2, "\xff\xfe",
     false},
    {"text in UTF-16", "iconv -f UTF-16 -t UTF-8 FILE | tug ... --data -", 2, "\xfe\xff",
     false},
    {"a part of a saved model or table",
     "give tug eval and tug predict a saved model by --from, tug train by --init-from, "
     "and "
     "keep it outside of folders of data",
     7, "TUGROWS", true},
    {"a zip archive", "unzip -p FILE | tug ... --data -", 4, "PK\x03\x04", false},
};

static bool is_text_byte(unsigned char c)
{
    return c == '\t' || c == '\n' || c == '\r' || (c >= ' ' && c != 0x7f);
}

static bool begins_as(const char *bytes, size_t n, size_t kind)
{
    size_t len = FOREIGN[kind].len;
    if (n < len || memcmp(bytes, FOREIGN[kind].magic, len) != 0)
        return false;
    // In bzip2, the digits of pi follow the block size.
    if (strcmp(FOREIGN[kind].magic, "BZh") == 0)
        return n >= 8 && memcmp(bytes + 4, "1AY&", 4) == 0;
    return !FOREIGN[kind].binary_behind ||
           (n > len && !is_text_byte((unsigned char)bytes[len]));
}

int decoder_refuse(const char *bytes, size_t n, const char *name, struct err *e)
{
    for (size_t i = 0; i < sizeof FOREIGN / sizeof FOREIGN[0]; i++)
        if (begins_as(bytes, n, i))
            return err_set(e, TUG_EDATA,
                           "%s is %s; tug reads text in UTF-8, plain or compressed with "
                           "gzip, zstd or lz4: %s",
                           name, FOREIGN[i].what, FOREIGN[i].advice);
    return 0;
}

int decoder_read_input(struct decoder *d, char *out, size_t cap, size_t *ret_n,
                       struct err *e)
{
    TRY(d->input->ops->read(d->input, out, cap, ret_n, e));
    d->at_end = *ret_n == 0;
    return 0;
}

int decoder_fill(struct decoder *d, struct err *e)
{
    if (d->in_at < d->in_len || d->at_end)
        return 0;
    d->in_at = d->in_len = 0;
    return decoder_read_input(d, d->in, IN_BYTES, &d->in_len, e);
}

// Returns whether the input is a short whole line. No compressed file begins with one.
static bool is_short_line(const struct decoder *d)
{
    for (size_t i = 0; i < d->in_len; i++)
        if (d->in[i] == '\n')
            return true;
        else if (d->in[i] < ' ' || d->in[i] > '~')
            return false;
    return false;
}

// Reads enough bytes to detect the compression; a pipe may deliver them in pieces. A
// short line is enough, because a writer that sends one line and waits for the result
// would otherwise wait for ever.
static int fill_magic(struct decoder *d, struct err *e)
{
    while (d->in_len < MAGIC_BYTES && !d->at_end && !is_short_line(d)) {
        size_t n = 0;
        TRY(decoder_read_input(d, d->in + d->in_len, IN_BYTES - d->in_len, &n, e));
        d->in_len += n;
    }
    return 0;
}

// Detects the compression from the first bytes.
static int decode_begin(struct decoder *d, struct err *e)
{
    d->in = mem_alloc(IN_BYTES);
    if (d->in == NULL)
        return err_nomem(e, "a read buffer");
    TRY(fill_magic(d, e));
    TRY(decoder_refuse(d->in, d->in_len, d->name, e));
    d->ops = decoder_detect(d->in, d->in_len);
    return d->ops->open(d, e);
}

int decoder_open_input(struct decoder **ret, struct input *in, const char *name,
                       struct err *e)
{
    struct decoder *d = mem_zalloc(sizeof *d);
    if (d == NULL) {
        input_close(in);
        return err_nomem(e, "a decoder");
    }
    d->input = in;
    d->name = name;
    int rc = decode_begin(d, e);
    if (rc == 0)
        *ret = d;
    else
        decoder_close(d);
    return rc;
}

int decoder_open(struct decoder **ret, int fd, const char *name, int wake_fd,
                 struct err *e)
{
    struct input *in = NULL;
    TRY(input_open_fd(&in, fd, name, wake_fd, e));
    return decoder_open_input(ret, in, name, e);
}

void decoder_close(struct decoder *d)
{
    if (d == NULL)
        return;
    if (d->ops != NULL)
        d->ops->close(d);
    input_close(d->input);
    mem_free(d->in);
    mem_free(d);
}

int decoder_read(struct decoder *d, char *out, size_t cap, size_t *ret_n, struct err *e)
{
    assert(cap > 0);
    return d->ops->read(d, out, cap, ret_n, e);
}

int decoder_read_full(struct decoder *d, char *out, size_t cap, size_t *ret_n,
                      struct err *e)
{
    size_t have = 0;
    while (have < cap) {
        size_t n = 0;
        TRY(decoder_read(d, out + have, cap - have, &n, e));
        if (n == 0)
            break;
        have += n;
    }
    *ret_n = have;
    return 0;
}

static int too_short(const struct decoder *d, uint64_t n, struct err *e)
{
    return err_set(e, TUG_EDATA,
                   "%s ends before byte %llu: it changed since the run began", d->name,
                   (unsigned long long)n);
}

static int skip_plain(struct decoder *d, uint64_t n, struct err *e)
{
    TRY(d->input->ops->seek(d->input, n, e));
    d->in_at = d->in_len = 0;
    d->at_end = false;
    return 0;
}

int decoder_skip(struct decoder *d, uint64_t n, struct err *e)
{
    if (n == 0)
        return 0;
    if (d->ops == &decode_plain && d->input->ops->seek != NULL)
        return skip_plain(d, n, e);
    char *waste = mem_alloc(IN_BYTES);
    if (waste == NULL)
        return err_nomem(e, "a read buffer");
    int rc = 0;
    for (uint64_t left = n; left > 0 && rc == 0;) {
        size_t got = 0;
        rc = decoder_read(d, waste, left < IN_BYTES ? (size_t)left : IN_BYTES, &got, e);
        if (rc == 0 && got == 0)
            rc = too_short(d, n, e);
        left -= got;
    }
    mem_free(waste);
    return rc;
}

int decoder_first_lines(struct decoder *d, size_t lines, size_t most, struct buf *b,
                        struct err *e)
{
    char part[4096];
    struct first_lines f = {.lines = lines, .most = most, .to = b};
    for (bool more = true; more;) {
        size_t n = 0;
        TRY(decoder_read(d, part, sizeof part, &n, e));
        int rc = first_lines_add(&f, part, n, &more);
        if (rc != 0)
            return err_set(e, rc, "%s:1: the line is too long", d->name);
    }
    return 0;
}

int decoder_truncated(const struct decoder *d, struct err *e)
{
    return err_set(e, TUG_EDATA, "%s is truncated: its %s data stops in the middle",
                   d->name, d->ops->name);
}
