// A block of rows of one partition and one kind. Cuts return blocks, and files of rows
// consist of them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_STORE_ROWS_BLOCK_H
#define TUG_STORE_ROWS_BLOCK_H

#include <stdint.h>

enum rows_kind {
    ROWS_END,
    // The partition's day, step and state of the entry policy: n bytes in the store's
    // format.
    ROWS_PARTITION,
    ROWS_GONE, // keys of removed rows; width 0
    ROWS_ROW,
    ROWS_EXTRA, // extra rows, with the keys of their rows
};

struct rows_block {
    enum rows_kind kind;
    uint32_t partition;
    uint32_t n;
    uint32_t width;      // floats of a row
    const void *payload; // n x (8 + 4 * width) bytes; ROWS_PARTITION: n bytes; 8-aligned
};

#endif
