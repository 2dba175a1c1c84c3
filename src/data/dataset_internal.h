// The inside of a data set, shared by its loading, from a source or a piece, and its
// reading.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_DATASET_INTERNAL_H
#define TUG_DATA_DATASET_INTERNAL_H

#include "data/block.h"
#include "data/dataset.h"
#include "data/piece.h"

// Memory of blocks: large mappings (with huge pages), filled one behind the other.
struct region {
    char *memory;
    size_t used, size;
};

struct dataset {
    struct block *block;
    size_t blocks;
    uint32_t *finder; // of example i: blocks from finder[i >> finder_shift] on
    uint32_t finder_shift;
    bool has_values, has_weights, at_end;
    bool dealt; // a bucket of a global shuffle: its lines are not lines of the files
    // For a piece whose place is known in bytes only: lines count from its first. NULL:
    // the lines of the blocks are those of the file.
    const struct pieces *pieces;
    uint64_t offset;
    uint32_t slots;
    uint32_t labels; // of an example
    uint64_t size, features, positives;

    struct region *region;
    size_t regions;
};

// While a data set is made: memory of it (NULL: there is none; one caller at a time), a
// block behind the last, for which `block` has room, and at the end what finds them.
void *dataset_room(struct dataset *d, size_t bytes);
void dataset_add_block(struct dataset *d, const struct block *b);
int dataset_make_finder(struct dataset *d);

// Empties the batch, with room for n examples with nnz features of the data set.
int batch_reserve(const struct dataset *d, struct batch *b, size_t n, size_t nnz);

// The source of a load's chunks. The first member of something larger.
struct intake {
    // NULL at the end. The reader has seen the header that the chunk needs. One caller at
    // a time.
    int (*next)(struct intake *in, struct chunk **ret, struct err *e);
    void (*release)(struct intake *in, struct chunk *c); // any thread
    const char *(*name)(const struct intake *in, uint32_t file);
    // Number in its file of the chunk's line `line`, from 0, which may cost a reading of
    // the file.
    int (*line)(struct intake *in, const struct chunk *c, uint32_t line,
                uint64_t *ret_line, struct err *e);
};

// The header of the first file decides the schema; where columns lie in a file its own
// says (*ret, NULL where files have no headers).
int dataset_read_headers(struct reader *r, const struct pieces *p, uint32_t file,
                         const struct reader_layout **ret, struct err *e);

// Like dataset_load, from `in` instead of o->source.
int dataset_load_from(struct dataset **ret, const struct dataset_options *o,
                      struct intake *in, struct err *e);

#endif
