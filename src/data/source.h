// Sources: files, directories, globs and pipes as one stream of text chunks cut
// at line ends, decompressed on the way (gzip, zstd, lz4, told by their first bytes).
//
// One background thread reads and decompresses ahead, at most `queue_chunks` chunks.
// Chunk boundaries depend on the bytes only, never on timing, so that a chunk number
// names the same lines in every run.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_SOURCE_H
#define TUG_DATA_SOURCE_H

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
    // Files, directories (their plain files at any depth, not hidden), globs, pipes, "-".
    // Each is expanded and sorted by itself; their order is kept.
    const char *const *paths;
    size_t n_paths;
    const char *command;   // what each goes through (data/filter.h); NULL: nothing
    size_t chunk_bytes;    // 0 means 1 MiB; a longer line makes a longer chunk
    size_t max_line_bytes; // 0 means 64 MiB
    size_t queue_chunks;   // read ahead; 0 means 16
    bool eager;            // lines are handed out as soon as they come: chunks are what a
                           // read brought, and differ from run to run
    // Set by a signal: chunks end with TUG_EINTERRUPTED, within a moment even where
    // nothing comes in. NULL: never.
    const atomic_bool *interrupted;
};

// Whole lines of one file. The last line of a file may lack its newline; the byte behind
// the text is then NUL. READER_PADDING bytes behind the text can be read. For rows in
// memory: the rows from number `offset` on instead of text; `line` is that number, too.
struct chunk {
    const struct rows *rows; // NULL: it is text
    uint64_t n_rows;
    const char *text;
    size_t len;
    uint64_t number; // 0, 1, ... within the pass
    uint32_t file;   // source_file_name
    uint64_t line;   // number of the first line, from 1
    uint64_t offset; // of the first byte in the decompressed file; 0: it begins the file
    const struct reader_layout *layout; // of the file; set by who reads headers
};

// Fails with TUG_EDATA, naming the path, when something is missing, matches nothing, is
// neither file nor pipe, or is empty.
int source_open(struct source **ret, const struct source_options *o, struct err *e);
void source_close(struct source *s); // NULL is fine

// The next chunk, NULL at the end of the pass. Any thread; chunks come in order of their
// numbers, each to one caller. Give it back with source_release. Every file seen to its
// end was complete: a truncated or corrupt one is TUG_EDATA naming it; after an error all
// calls return it.
int source_next(struct source *s, struct chunk **ret, struct err *e);
void source_release(struct source *s, struct chunk *c);

// Begins the next pass, at chunk `number` of `file` at decompressed `offset`, `line` (all
// 0 and 1: at the start). TUG_EUSAGE for pipes. No chunk may be out.
struct source_place {
    uint64_t number;
    uint32_t file;
    uint64_t line;
    uint64_t offset;
};
#define SOURCE_START ((struct source_place){.line = 1})
int source_rewind(struct source *s, struct source_place at, struct err *e);

// Returns the start of the next chunk to be handed out; waits for it. At the end of the
// pass `file` is source_files(); before an error it is the file that is at fault.
struct source_place source_place(struct source *s);

// The first lines of a file, at most `lines` of them and `most` bytes, appended to *b
// without the last one's newline: a header can so be read before the data. For a pipe
// only if it is the first file, and before its first chunk was taken (else TUG_EUSAGE);
// these bytes are handed out later all the same, and is kept until then.
int source_first_lines(struct source *s, uint32_t file, size_t lines, size_t most,
                       struct buf *b, struct err *e);
// The first one.
int source_first_line(struct source *s, uint32_t file, struct buf *b, struct err *e);

// Appends the beginning of a file that is not a pipe to *b, at most `most` bytes of text.
int source_head(const struct source *s, uint32_t file, size_t most, struct buf *b,
                struct err *e);

// Data that the reader of headers keeps for a file; initially NULL. One thread at a time.
const struct reader_layout *source_layout(const struct source *s, uint32_t file);
void source_set_layout(struct source *s, uint32_t file, const struct reader_layout *l);

bool source_can_rewind(const struct source *s); // false with a pipe
size_t source_files(const struct source *s);
bool source_is_pipe(const struct source *s, uint32_t file);
const struct data_files *source_data_files(const struct source *s);

// The rows in memory behind a name; NULL if it is a file.
const struct rows *source_rows(const struct source *s, uint32_t file);

// The identity of the data. Reads both ends of each file that is not a pipe.
struct identity;
int source_identity(const struct source *s, struct identity *ret, struct err *e);

// "(standard input)" for "-".
const char *source_file_name(const struct source *s, uint32_t file);

// Bytes of text in all files: exact for plain ones, an estimate for compressed ones, 0
// unknown.
uint64_t source_text_bytes(const struct source *s);

#endif
