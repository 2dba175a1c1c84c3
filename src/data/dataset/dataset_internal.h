// The inside of a data set, shared by the files that load it (from a source or a piece)
// and the files that read it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_DATASET_DATASET_INTERNAL_H
#define TUG_DATA_DATASET_DATASET_INTERNAL_H

#include "data/dataset/block.h"
#include "data/dataset/dataset.h"
#include "data/source/piece.h"

// Memory for blocks: large mappings (with huge pages), which are filled one after the
// other.
struct region {
    char *memory;
    size_t used, size;
};

struct dataset {
    struct block *block;
    size_t blocks;
    // The search for example i begins at block finder[i >> finder_shift].
    uint32_t *finder;
    uint32_t finder_shift;
    bool has_values, has_weights, at_end;
    bool dealt; // the data set is a bucket of a global shuffle: its lines are not those
                // of a file
    // Set if the line number at which the piece begins is unknown; lines in blocks are
    // then counted from the first line of the piece. If it is NULL, lines are counted from
    // the first line of the file.
    const struct pieces *pieces;
    uint64_t offset;
    uint32_t slots, first_slot;
    uint32_t labels; // labels of an example
    uint64_t size, features, positives;

    struct region *region;
    size_t regions;
};

// These functions are used while a data set is made. dataset_room returns memory of the
// data set (NULL: memory is out); only one thread at a time may call it.
// dataset_add_block adds a block, for which `block` must have room. dataset_make_finder
// is called last.
void *dataset_room(struct dataset *d, size_t bytes);
void dataset_add_block(struct dataset *d, const struct block *b);
int dataset_make_finder(struct dataset *d);

// Empties the batch and makes room for n examples with nnz features of the data set.
int batch_reserve(const struct dataset *d, struct batch *b, size_t n, size_t nnz);

// The source of the chunks of a load; the first member of a larger struct.
struct intake {
    // Returns the next chunk, NULL at the end; the reader has then seen the header of the
    // chunk's file. Only one thread at a time may call it.
    int (*next)(struct intake *in, struct chunk **ret, struct err *e);
    void (*release)(struct intake *in, struct chunk *c); // any thread may call it
    const char *(*name)(const struct intake *in, uint32_t file);
    // Gets the line number in the file of line `line` (from 0) of the chunk. This may
    // require reading the file.
    int (*line)(struct intake *in, const struct chunk *c, uint32_t line,
                uint64_t *ret_line, struct err *e);
};

// Reads the headers of the files. The header of the first file decides the schema; the
// header of `file` gives the layout of its columns, *ret (NULL if files have no headers).
int dataset_read_headers(struct reader *r, const struct pieces *p, uint32_t file,
                         const struct reader_layout **ret, struct err *e);

// Loads a data set like dataset_load, but from `in` instead of o->source.
int dataset_load_from(struct dataset **ret, const struct dataset_options *o,
                      struct intake *in, struct err *e);

#endif
