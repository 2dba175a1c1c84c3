// Decoders: the bytes of one file, decompressed while reading. The first bytes of a file
// decide its compression, never its name.
//
// To add a compression, write a file with a `decode_ops` and add a line in decode.c.
// Concatenated streams (gzip members, zstd and lz4 frames) are read one after the other.
// A stream that stops before its end, a wrong checksum, and bytes after the last stream
// are errors.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_INPUT_DECODE_H
#define TUG_DATA_INPUT_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

struct decoder;
struct input;

struct decode_ops {
    const char *name; // "gzip"
    // The usual number of bytes of text for each byte of the file, to estimate progress.
    unsigned expansion;
    // read and close may be called even after open has failed.
    int (*open)(struct decoder *d, struct err *e);
    int (*read)(struct decoder *d, char *out, size_t cap, size_t *ret_n, struct err *e);
    void (*close)(struct decoder *d);
};

extern const struct decode_ops decode_plain, decode_gzip, decode_zstd, decode_lz4;

// One open file. Compressions read in[] through decoder_fill.
struct decoder {
    const struct decode_ops *ops;
    const char *name; // name of the file in messages; the caller owns it
    struct input *input;
    bool at_end; // the file has no more bytes than those in in[]
    char *in;
    size_t in_at, in_len; // the unused bytes are in[in_at .. in_len)
    void *state;          // owned by the compression
};

// Takes ownership of `fd`, even on failure. `name` must outlive the decoder. If `wake_fd`
// >= 0, a read that waits for a pipe returns TUG_EINTERRUPTED once that descriptor is
// readable.
int decoder_open(struct decoder **ret, int fd, const char *name, int wake_fd,
                 struct err *e);
// Like decoder_open, but for any input. Takes ownership of `in`.
int decoder_open_input(struct decoder **ret, struct input *in, const char *name,
                       struct err *e);
void decoder_close(struct decoder *d); // `d` may be NULL

// Reads up to `cap` > 0 bytes of text; *ret_n is 0 only at the end of a complete file.
int decoder_read(struct decoder *d, char *out, size_t cap, size_t *ret_n, struct err *e);

// Reads until it has `cap` bytes or the file ends.
int decoder_read_full(struct decoder *d, char *out, size_t cap, size_t *ret_n,
                      struct err *e);

// Skips `n` bytes of text; returns TUG_EDATA if the file has fewer. Only allowed before
// the first read.
int decoder_skip(struct decoder *d, uint64_t n, struct err *e);

// Appends the first lines to *b, without the last newline: at most `lines` lines and,
// after the first line, `most` bytes. Only allowed before the first read.
int decoder_first_lines(struct decoder *d, size_t lines, size_t most, struct buf *b,
                        struct err *e);

const struct decode_ops *decoder_detect(const char *bytes, size_t n);

// Returns TUG_EDATA about the file `name` if its first bytes show a known kind that
// cannot be read: Parquet, bzip2, xz and others.
int decoder_refuse(const char *bytes, size_t n, const char *name, struct err *e);

// Makes in[] non-empty unless the file is at its end. Only compressions call it.
int decoder_fill(struct decoder *d, struct err *e);
// Returns the error for a file that ends before its stream. Only compressions call it.
int decoder_truncated(const struct decoder *d, struct err *e);
// Reads directly from the file. Only compressions call it.
int decoder_read_input(struct decoder *d, char *out, size_t cap, size_t *ret_n,
                       struct err *e);

#endif
