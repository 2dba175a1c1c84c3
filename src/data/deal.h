// Dealing: the lines of every piece are dealt into buckets, so that a bucket, put
// together from its part of every piece (a *cell*), is a random sample of all the data.
// Buckets then take the place of pieces: docs/design/0015-global-shuffle.md.
//
// Lines are dealt unparsed. As many lines as there are buckets go to all of them, in an
// order that is drawn anew for the next ones: of the lines of a piece no bucket has two
// more than another. The bucket of a line depends only on seed, file, piece and its
// number in the piece; or, with `by` columns, on the texts in these: lines with equal
// ones meet in a bucket.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_DEAL_H
#define TUG_DATA_DEAL_H

#include "data/dataset.h"

struct deal;

struct deal_options {
    uint32_t buckets; // at least 1
    uint64_t seed;
    struct reader *reader;
    const char *by;     // "a,b"; NULL: by number
    const char *option; // that asks for them, for messages
};

int deal_open(struct deal **ret, const struct deal_options *o, struct err *e);
void deal_close(struct deal *d); // NULL is fine

// How many buckets there should be, the same for all who see the same files: as many as
// pieces, as far as their number is known, but so few that a cell has 2 KiB on average
// where that leaves 16; at most DEAL_MAX_BUCKETS.
enum { DEAL_MAX_BUCKETS = 1024 };
uint32_t deal_buckets(const struct pieces *p, uint64_t text_bytes);

// Deals one piece. The cell of a bucket is there until the next piece: whole lines, each
// with its newline, without empty ones and headers. *ret_at_end: see struct piece.
int deal_piece(struct deal *d, struct pieces *p, uint32_t file, uint64_t index,
               bool *ret_at_end, struct err *e);
const char *deal_cell(const struct deal *d, uint32_t bucket, size_t *ret_len);

// A bucket's text: cells in order of file and piece, READER_PADDING bytes behind it.
struct dealt_cell {
    uint32_t file;
    uint64_t index;
    size_t at; // where it begins
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

// Like dataset_load_piece, for a bucket. Its examples do not know their lines
// (dataset_where); a line that cannot be read is looked for by dealing its piece once
// more.
int dataset_load_dealt(struct dataset **ret, const struct dataset_options *o,
                       const struct dealt *x, struct err *e);

#endif
