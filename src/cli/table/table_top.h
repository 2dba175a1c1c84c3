// The largest rows of a table: by weight, by length of the vector, or by shows.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLI_TABLE_TABLE_TOP_H
#define TUG_CLI_TABLE_TABLE_TOP_H

#include "accessor/accessor.h"
#include "base/err.h"
#include "cli/table/table.h"
#include "train/names.h"

#define TABLE_TOP_BY "weight vector shows"
enum table_top_by { TABLE_TOP_WEIGHT, TABLE_TOP_VECTOR, TABLE_TOP_SHOWS };

struct top_row {
    uint64_t key;
    // The weight of the first group, or the Euclidean norm if the group has several
    // weights.
    double weight;
    double vector; // the Euclidean norm of the second group
    double shows;  // the count of shows, or else of updates
};

struct table_top {
    enum table_top_by by;
    struct top_row *row; // the largest first
    size_t max, n;
    bool known;          // the next fields were set from the layout of rows
    bool vectors, shows; // rows have vectors; rows have counts
    uint64_t nameless;   // rows of the table that have no name
};

// Prints the rows that `v` selects among those that `add` adds. *names has the words of
// keys, and may be set by `add`; NULL: the words are unknown.
typedef int (*table_top_add_fn)(void *ctx, struct table_top *t, struct err *e);
int table_top(const struct table_values *v, table_top_add_fn add, void *ctx,
              struct names *const *names, struct err *e);

// Sets which numbers rows of this layout have; must be called before the first row.
// Returns TUG_EUSAGE if rows lack the number to sort by.
int table_top_layout(struct table_top *t, const struct accessor *a, struct err *e);
// Adds a row of layout `a`; `at` has the position of the weights in `row`. `extra` is the
// second group if it is not in the row; NULL: the row has no second group (yet). `stats`
// are the statistics that a pull returns, if the row has no count.
int table_top_add(struct table_top *t, const struct accessor *a,
                  const struct accessor *at, uint64_t key, const float *row,
                  const float *extra, const float *stats, struct err *e);

#endif
