// Columns whose texts are kept beside the examples: they identify the line of a
// prediction, or the group of an example.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_FORMAT_KEPT_H
#define TUG_DATA_FORMAT_KEPT_H

#include "base/buf.h"
#include "data/format/reader.h"

enum { KEPT_COLUMNS = 256, KEPT_BYTES = 1 << 30 };

// The kept columns of one chunk: for each example the texts of the columns, each ended by
// a NUL. Used by one thread.
struct kept {
    const char *names;  // "a,b,c"
    const char *option; // the option that names the columns, for messages
    size_t column[KEPT_COLUMNS], n;
    const struct reader_layout *layout; // the layout that `column` refers to
    struct buf text;
    uint32_t *at; // the offset of each example's texts
    size_t cap;
};

void kept_clear(struct kept *k);
void kept_free(struct kept *k);

// Stores the texts of the columns of example i, from its line; empty texts if `line` is
// NULL. Returns TUG_EDATA if the file has no such column.
int kept_line(struct kept *k, const struct reader *r, const struct reader_layout *layout,
              size_t i, const char *line, size_t len, struct err *e);

#endif
