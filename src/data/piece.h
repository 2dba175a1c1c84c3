// Pieces: files cut into parts that can be read in any order, so that many workers share
// them. A cluster's scheduler leases pieces; it need not have read the files.
//
// Piece `index` of a file holds the lines whose first byte is one of the decompressed
// bytes [index * piece_bytes, (index + 1) * piece_bytes): all pieces of a file together
// are its lines, each once. A piece inside a long line is empty.
//
// A plain file is read where the piece lies and nowhere else. A compressed one is
// a stream: the next piece costs its own bytes, a later one those between as well,
// an earlier one begins anew. One stream is kept, so pieces are best asked for
// file by file, ascending.
//
// One thread at a time uses a `struct pieces`.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_PIECE_H
#define TUG_DATA_PIECE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct pieces;
struct rows;

enum { PIECE_BYTES_MAX = 1 << 30 }; // a piece is held in memory while it is parsed

struct pieces_options {
    const char *const *paths; // as of source_open, in its order; no pipes: TUG_EUSAGE
    size_t n_paths;
    const char *command;            // as of source_open
    uint64_t piece_bytes;           // 1 .. PIECE_BYTES_MAX
    size_t max_line_bytes;          // 0 means 64 MiB
    const atomic_bool *interrupted; // ends reading with TUG_EINTERRUPTED; NULL: never
};

// Fails as source_open does: all files are looked at, none is read.
int pieces_open(struct pieces **ret, const struct pieces_options *o, struct err *e);
void pieces_close(struct pieces *p); // NULL is fine

size_t pieces_files(const struct pieces *p);
const char *pieces_file_name(const struct pieces *p, uint32_t file);

// The rows in memory behind this name; NULL if it is a file.
const struct rows *pieces_rows(const struct pieces *p, uint32_t file);

// Number of pieces of a file, empty ones included. Exact for plain files, and for
// compressed ones once their end was read; an estimate, at least 1, before that.
uint64_t pieces_count(const struct pieces *p, uint32_t file, bool *ret_exact);

// The facts that the scheduler compares to check that all workers see the same data.
struct piece_file {
    const char *name; // of the pieces; lives as long as they do
    uint64_t bytes;   // on disk
    bool compressed;
    uint64_t hash; // XXH3 of the size, the first 64 KiB and the last 64 KiB
};
// Fills ret[0 .. pieces_files). Reads both ends of each file.
int pieces_describe(const struct pieces *p, struct piece_file *ret, struct err *e);

// One piece's text: whole lines; the last line of a file may lack its newline, the byte
// behind the text is then NUL. READER_PADDING bytes behind the text can be read.
struct piece {
    char *text;
    size_t len;      // 0: no line begins in the piece
    uint64_t offset; // of the first byte in the decompressed file
    uint64_t line;   // its number, from 1; 0: not known (plain files), see pieces_line
    bool at_end;     // no piece behind this one has a line
    // The rows in memory, from row `offset` on, instead of text. NULL if it is text.
    const struct rows *rows;
    uint64_t n_rows;
    char *memory; // what the text lies in
    size_t cap;
};

// Reads into *ret, which begins as {0} and is used again from piece to piece. A piece
// behind the end of the file has no text, and at_end. A piece with the file's last line
// always says at_end; one inside that line need not. TUG_EDATA, naming the file: it is
// cut short, corrupt, changed since pieces_open, has no text at all, or has a line longer
// than the limit.
int piece_read(struct pieces *p, uint32_t file, uint64_t index, struct piece *ret,
               struct err *e);
void piece_free(struct piece *c);

// The number of the line that begins at `offset`. Reads all the file before it: for
// messages. Any thread.
int pieces_line(const struct pieces *p, uint32_t file, uint64_t offset,
                uint64_t *ret_line, struct err *e);

// The first lines of a file, at most `lines` of them and `most` bytes, appended to *b
// without the last one's newline: a header, and what is behind it.
int pieces_first_lines(const struct pieces *p, uint32_t file, size_t lines, size_t most,
                       struct buf *b, struct err *e);

#endif
