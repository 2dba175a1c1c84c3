// Dealing: the lines of every piece are dealt into buckets. A bucket consists of a part
// of every piece (a *cell*), so that it is a random sample of all the data. Buckets then
// replace pieces (docs/design/0015-global-shuffle.md).
//
// Lines are dealt without parsing them. As many consecutive lines as there are buckets
// are dealt at a time, one to each bucket, in an order that is drawn anew each time; so
// within a piece, the buckets' numbers of lines differ by at most one. The bucket of a
// line depends only on the seed, the file, the piece and the line's number in the piece.
// With `by`, it depends only on the texts in these columns, so that lines with equal
// texts come to the same bucket.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_DATASET_DEAL_H
#define TUG_DATA_DATASET_DEAL_H

#include "data/dataset/dataset.h"

struct deal;

struct deal_options {
    uint32_t buckets; // number of buckets, at least 1
    uint64_t seed;
    struct reader *reader;
    const char *by;     // columns "a,b"; NULL: deals by line number
    const char *option; // the option that asks for the columns, for messages
};

int deal_open(struct deal **ret, const struct deal_options *o, struct err *e);
void deal_close(struct deal *d); // `d` may be NULL

// Returns the number of buckets to use, which is the same in all processes with the same
// files. The number is the known or estimated number of pieces, at most DEAL_MAX_BUCKETS.
// It is reduced, though not below 16, so that a cell has at least 2 KiB on average.
enum { DEAL_MAX_BUCKETS = 1024 };
uint32_t deal_buckets(const struct pieces *p, uint64_t text_bytes);

// Deals one piece. deal_cell then returns the cell of a bucket, which is valid until the
// next piece: whole lines with their newlines, without empty lines and headers.
// *ret_at_end is as in struct piece_text.
int deal_piece(struct deal *d, struct pieces *p, uint32_t file, uint64_t index,
               bool *ret_at_end, struct err *e);
const char *deal_cell(const struct deal *d, uint32_t bucket, size_t *ret_len);

// The text of a bucket: its cells in order of file and piece, followed by READER_PADDING
// bytes.
struct dealt_cell {
    uint32_t file;
    uint64_t index;
    size_t at; // offset of the cell in the text
};
struct dealt {
    struct deal *deal;
    struct pieces *pieces;
    uint32_t bucket;
    const char *text;
    size_t len;
    const struct dealt_cell *cells;
    size_t n;
};

// Loads a bucket, like dataset_load_piece. The lines of its examples are not known to
// dataset_where. If a line cannot be read, its piece is dealt again to find the line's
// number for the error.
int dataset_load_dealt(struct dataset **ret, const struct dataset_options *o,
                       const struct dealt *x, struct err *e);

#endif
