// Files of a table's rows. Each owner of partitions writes one file. A file has blocks,
// each with a checksum, in ascending order of partition and key, compressed if wanted. A
// directory of partitions at the end of the file lets a process read only the partitions
// that it loads.
//
// Layout, little-endian:
//
//   header     "TUGROWS\1", version, widths, partition bits, placement, mode, level, day, XXH3
//   block      kind, partition, n, width, bytes, stored bytes, XXH3 of these fields and of
//              the stored bytes; then the stored bytes: n x (key u64, width floats), or n
//              bytes (ROWS_PARTITION), compressed with zstd if that saves bytes; zeros
//              up to a multiple of 8 bytes
//   ...
//   directory  for each partition: its number, number of blocks, position of the first
//              block, numbers of rows, extra rows and removed keys, and a checksum of the
//              checksums of its blocks
//   trailer    position and length of the directory, number of all rows, XXH3 of header,
//              directory and these fields, "TUGROWS\2"
//
// So the trailer's checksum covers every byte of the file, as the root of a hash tree
// does. A file of another save is therefore refused when it is opened, even if only some
// of its partitions will be read.
//
// Blocks of a partition: at most one ROWS_PARTITION, then ROWS_GONE, ROWS_ROW,
// ROWS_EXTRA. For any damage the reader returns TUG_EDATA with the name of the file.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SAVE_ROWS_FILE_H
#define TUG_SAVE_ROWS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "accessor/life.h"
#include "base/err.h"
#include "store/rows_block.h"

enum { ROWS_VERSION = 1 };

struct rows_shape {
    uint32_t width, extra_width, partition_bits;
    bool by_range;
    enum save_mode mode;
    uint32_t day; // day of the table: the latest day of its partitions
};

struct rows_info { // the facts about a file of rows that a manifest records
    uint64_t rows, extras, gone, bytes;
    uint64_t checksum; // the checksum in the file's trailer
};

struct rows_writer;
// Creates a file. `root` is FILE_ANYWHERE, or the descriptor of a directory that contains
// `path` (os/file.h).
int rows_create(struct rows_writer **ret, int root, const char *path,
                const struct rows_shape *s, int zstd_level,
                struct err *e); // zstd_level 0 writes uncompressed blocks
// Writes a block. About 1 MiB is the best size; a block of more than ROWS_BLOCK_MAX bytes
// is split.
enum { ROWS_BLOCK_MAX = 4 << 20 };
int rows_write(struct rows_writer *w, const struct rows_block *b, struct err *e);
// Writes the directory and the trailer, and gives the file its name. Frees w, also on
// failure.
int rows_commit(struct rows_writer *w, struct rows_info *ret, struct err *e);
void rows_abort(struct rows_writer *w); // frees w; NULL is fine

struct rows_reader;
// Opens a file. `expect` NULL accepts any file of rows; otherwise returns TUG_EDATA if
// the file is not the one that *expect describes.
int rows_open(struct rows_reader **ret, int root, const char *path,
              const struct rows_info *expect, struct err *e);
void rows_close(struct rows_reader *r); // NULL is fine
const struct rows_shape *rows_shape(const struct rows_reader *r);
struct rows_info rows_info(const struct rows_reader *r);
bool rows_has(const struct rows_reader *r, uint32_t partition);
// Passes the blocks of the file (ROWS_ALL), or of one partition, to `fn`, each after
// checking it. If `fn` returns a value other than 0, the walk stops and returns that
// value.
#define ROWS_ALL UINT32_MAX
typedef int (*rows_block_fn)(void *ctx, const struct rows_block *b, struct err *e);
int rows_each(struct rows_reader *r, uint32_t partition, rows_block_fn fn, void *ctx,
              struct err *e);

#endif
