// Decoders: the bytes of one file, decompressed on the way. The first bytes of a file
// tell its compression, never its name.
//
// A new compression is one file with a `decode_ops` and a line in decode.c. Streams that
// were put one behind the other (gzip members, zstd and lz4 frames) are read through; a
// stream that stops before its end, a wrong checksum and bytes behind the last stream are
// errors.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_DECODE_H
#define TUG_DATA_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

struct decoder;
struct input;

struct decode_ops {
    const char *name;   // "gzip"
    unsigned expansion; // bytes of text for a byte of file, as a rule: an estimate for
                        // progress
    // All may be called on a decoder whose open failed half-way.
    int (*open)(struct decoder *d, struct err *e);
    int (*read)(struct decoder *d, char *out, size_t cap, size_t *ret_n, struct err *e);
    void (*close)(struct decoder *d);
};

extern const struct decode_ops decode_plain, decode_gzip, decode_zstd, decode_lz4;

// One open file. The compressions use in[] through decoder_fill.
struct decoder {
    const struct decode_ops *ops;
    const char *name; // for messages; borrowed
    struct input *input;
    bool at_end; // the file has no more bytes than those in in[]
    char *in;
    size_t in_at, in_len; // bytes not used yet: in[in_at .. in_len)
    void *state;          // of the compression
};

// Takes over `fd`, also on failure. `name` must outlive the decoder. `wake_fd` >= 0: a
// read that waits for bytes of a pipe gives TUG_EINTERRUPTED once that descriptor is
// readable.
int decoder_open(struct decoder **ret, int fd, const char *name, int wake_fd,
                 struct err *e);
// Likewise for a file anywhere; takes over `in`.
int decoder_open_input(struct decoder **ret, struct input *in, const char *name,
                       struct err *e);
void decoder_close(struct decoder *d); // NULL is fine

// Up to `cap` > 0 bytes of text; *ret_n = 0 only at the end of a complete file.
int decoder_read(struct decoder *d, char *out, size_t cap, size_t *ret_n, struct err *e);

// Reads until `cap` bytes are there or the file ends.
int decoder_read_full(struct decoder *d, char *out, size_t cap, size_t *ret_n,
                      struct err *e);

// Passes over `n` bytes of text; TUG_EDATA when the file has fewer. Before the first read
// only.
int decoder_skip(struct decoder *d, uint64_t n, struct err *e);

// The first lines, at most `lines` of them and, but for the first one, `most` bytes,
// appended to *b without the last one's newline. Before the first read only.
int decoder_first_lines(struct decoder *d, size_t lines, size_t most, struct buf *b,
                        struct err *e);

const struct decode_ops *decoder_detect(const char *bytes, size_t n);

// TUG_EDATA, naming `name`, when a file that begins with these bytes is of a kind that is
// known and cannot be read: Parquet, bzip2, xz and others.
int decoder_refuse(const char *bytes, size_t n, const char *name, struct err *e);

// For the compressions: makes in[] non-empty unless the file is at its end.
int decoder_fill(struct decoder *d, struct err *e);
// For the compressions: the error of a file that stops before its stream does.
int decoder_truncated(const struct decoder *d, struct err *e);
// For the compressions: straight from the file.
int decoder_read_input(struct decoder *d, char *out, size_t cap, size_t *ret_n,
                       struct err *e);

#endif
