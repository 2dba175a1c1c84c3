// Pieces: parts of files that can be read in any order, so that many workers share the
// files. The scheduler of a cluster leases pieces; it need not have read the files.
//
// Piece `index` of a file has the lines whose first byte is one of the decompressed bytes
// [index * piece_bytes, (index + 1) * piece_bytes). So all pieces of a file together have
// each line once. A piece that lies inside a long line is empty.
//
// In a plain file, only the bytes of the wanted piece are read. A compressed file is a
// stream: for the next piece, only its own bytes are read; for a later one, the bytes
// before it, too; and for an earlier one, the file from its beginning. Only one stream is
// kept, so pieces are best read file by file and in ascending order.
//
// A `struct pieces` may be used by one thread at a time.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_SOURCE_PIECE_H
#define TUG_DATA_SOURCE_PIECE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct pieces;
struct rows;

enum { PIECE_BYTES_MAX = 1 << 30 }; // limited, because memory holds a piece's whole text

struct pieces_options {
    // The same paths, in the same order, as for source_open. A pipe gives TUG_EUSAGE.
    const char *const *paths;
    size_t n_paths;
    const char *command;   // the command through which files are read, as for source_open
    uint64_t piece_bytes;  // 1 .. PIECE_BYTES_MAX
    size_t max_line_bytes; // 0 means 64 MiB
    // When this flag becomes true, reading fails with TUG_EINTERRUPTED. May be NULL.
    const atomic_bool *interrupted;
};

// Lists the files and checks them without reading their contents. Returns the same errors
// as source_open.
int pieces_open(struct pieces **ret, const struct pieces_options *o, struct err *e);
void pieces_close(struct pieces *p); // `p` may be NULL

size_t pieces_files(const struct pieces *p);
const char *pieces_file_name(const struct pieces *p, uint32_t file);

// Returns the rows in memory that `file` stands for; NULL if it is a real file.
const struct rows *pieces_rows(const struct pieces *p, uint32_t file);

// Returns the number of pieces of a file, empty pieces included. The number is exact for
// plain files, and for compressed files whose end was read. Else it is an estimate, at
// least 1.
uint64_t pieces_count(const struct pieces *p, uint32_t file, bool *ret_exact);

// Facts about a file. The scheduler compares them to check that all workers see the same
// data.
struct piece_file {
    const char *name; // valid as long as the pieces
    uint64_t bytes;   // bytes on disk
    bool compressed;
    uint64_t hash; // XXH3 of the size, the first 64 KiB and the last 64 KiB
};
// Fills ret[0 .. pieces_files). Reads both ends of each file.
int pieces_describe(const struct pieces *p, struct piece_file *ret, struct err *e);

// The text of one piece: whole lines. The last line of a file may lack its newline; the
// byte after the text is then NUL. READER_PADDING bytes after the text can be read.
struct piece_text {
    char *text;
    size_t len;      // 0: no line begins in the piece
    uint64_t offset; // offset of the first byte in the decompressed file
    uint64_t line;   // number of the first line, from 1; 0: unknown (plain files), see
                     // pieces_line
    bool at_end;     // no later piece has a line
    // For rows in memory: the rows, which are read from row `offset` on instead of text.
    // NULL: the piece is text.
    const struct rows *rows;
    uint64_t n_rows;
    char *memory; // contains the text
    size_t cap;
};

// Reads a piece into *ret, which begins as {0} and is reused from piece to piece. A piece
// after the end of the file has no text, and at_end is set. at_end is also set for the
// piece in which the file's last line begins; for later pieces inside that line it may not
// be set. Returns TUG_EDATA, naming the file, if the file is truncated or corrupt, has
// changed since pieces_open, has no text at all, or has a line longer than the limit.
int piece_read(struct pieces *p, uint32_t file, uint64_t index, struct piece_text *ret,
               struct err *e);
void piece_free(struct piece_text *c);

// Finds the number of the line that begins at `offset`, for messages; reads the file up to
// that line. Any thread may call this function.
int pieces_line(const struct pieces *p, uint32_t file, uint64_t offset,
                uint64_t *ret_line, struct err *e);

// Appends the first lines of a file to *b, without the last newline: at most `lines`
// lines and `most` bytes. Used to read a header.
int pieces_first_lines(const struct pieces *p, uint32_t file, size_t lines, size_t most,
                       struct buf *b, struct err *e);

#endif
