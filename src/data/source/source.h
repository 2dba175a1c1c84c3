// Sources: files, directories, globs and pipes as one stream of text chunks, which are
// cut at line ends and decompressed on the way (gzip, zstd, lz4, detected by the first
// bytes).
//
// A background thread reads and decompresses at most `queue_chunks` chunks ahead. The
// boundaries of chunks depend only on the bytes, never on timing, so that a chunk number
// means the same lines in every run.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_SOURCE_SOURCE_H
#define TUG_DATA_SOURCE_SOURCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct source;
struct reader_layout;
struct data_files;
struct rows;

struct source_options {
    // Files, directories (their plain files at any depth, without hidden ones), globs,
    // pipes, "-". The paths are read in this order; the files of a directory or glob are
    // sorted by name.
    const char *const *paths;
    size_t n_paths;
    // The command that each file passes through (data/input/filter.h); NULL: none.
    const char *command;
    size_t chunk_bytes;    // 0 means 1 MiB; a longer line makes a longer chunk
    size_t max_line_bytes; // 0 means 64 MiB
    size_t queue_chunks;   // chunks that are read ahead; 0 means 16
    bool eager; // returns lines as soon as they arrive: a chunk has the lines that one
                // read returned, so chunks differ from run to run
    // A flag that a signal handler sets; source_next then soon returns TUG_EINTERRUPTED,
    // even if no data arrives. NULL: no flag.
    const atomic_bool *interrupted;
    // If this is not 0, the source goes on after the flag was set, but source_next returns
    // TUG_EIO when it has waited for this many seconds since then without getting a chunk.
    double grace_seconds;
};

// Whole lines of one file. The last line of a file may lack its newline; the byte after
// the text is then NUL. READER_PADDING bytes after the text can be read. If the data is
// rows in memory, the chunk has rows instead of text; `offset` and `line` are both the
// number of the first row.
struct chunk {
    const struct rows *rows; // NULL: text
    uint64_t n_rows;
    const char *text;
    size_t len;
    uint64_t number; // 0, 1, ... within the pass
    uint32_t file;   // index for source_file_name
    uint64_t line;   // number of the first line, from 1
    uint64_t offset; // offset of the first byte in the decompressed file; 0: the chunk
                     // begins the file
    const struct reader_layout *layout; // layout of the file; the code that reads headers
                                        // sets it
};

// Opens a source. Returns TUG_EDATA, naming the path, if a path does not exist, matches
// nothing, is neither a file nor a pipe, or is empty.
int source_open(struct source **ret, const struct source_options *o, struct err *e);
void source_close(struct source *s); // `s` may be NULL

// Sets *ret to the next chunk; NULL at the end of the pass. Any thread may call this
// function. Chunks are returned in the order of their numbers, each to one caller, which
// must return it with source_release. If a file is truncated or corrupt, source_next
// returns TUG_EDATA with the file's name; so a file that was read to its end was complete.
// After an error, all calls return this error.
int source_next(struct source *s, struct chunk **ret, struct err *e);
void source_release(struct source *s, struct chunk *c);

// Begins the next pass at a place: chunk `number` at decompressed `offset` and `line` of
// `file` (SOURCE_START: the beginning). Returns TUG_EUSAGE for pipes. All chunks must
// have been released.
struct source_place {
    uint64_t number;
    uint32_t file;
    uint64_t line;
    uint64_t offset;
};
#define SOURCE_START ((struct source_place){.line = 1})
int source_rewind(struct source *s, struct source_place at, struct err *e);

// Waits for the next chunk and returns its place. At the end of the pass, the place's
// `file` is source_files(); if source_next would fail, it is the file with the error.
struct source_place source_place(struct source *s);

// Appends the first lines of a file to *b, without the last newline: at most `lines`
// lines and `most` bytes. This function makes it possible to read a header before the
// data: the chunks still contain these lines. Allowed for a pipe only if it is the first
// file and none of its chunks was taken (else TUG_EUSAGE).
int source_first_lines(struct source *s, uint32_t file, size_t lines, size_t most,
                       struct buf *b, struct err *e);
// Appends the first line of a file, as source_first_lines does.
int source_first_line(struct source *s, uint32_t file, struct buf *b, struct err *e);

// Appends the beginning of a file that is not a pipe to *b, at most `most` bytes of text.
int source_head(const struct source *s, uint32_t file, size_t most, struct buf *b,
                struct err *e);

// Get and set the layout of a file, which the code that reads headers keeps here;
// initially NULL. Only one thread at a time may use it.
const struct reader_layout *source_layout(const struct source *s, uint32_t file);
void source_set_layout(struct source *s, uint32_t file, const struct reader_layout *l);

bool source_can_rewind(const struct source *s); // false if a file is a pipe
size_t source_files(const struct source *s);
bool source_is_pipe(const struct source *s, uint32_t file);
const struct data_files *source_data_files(const struct source *s);

// Returns the rows in memory that `file` stands for; NULL if it is a real file.
const struct rows *source_rows(const struct source *s, uint32_t file);

// Computes the identity of the data. Reads both ends of each file that is not a pipe.
struct identity;
int source_identity(const struct source *s, struct identity *ret, struct err *e);

// Returns "(standard input)" for "-".
const char *source_file_name(const struct source *s, uint32_t file);

// Returns the bytes of text in all files: exact for plain files, an estimate for
// compressed ones, 0 if unknown.
uint64_t source_text_bytes(const struct source *s);

#endif
