// The rows of a table that stand out: those of the largest weights or vectors, or
// that were shown most.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLI_TABLE_TOP_H
#define TUG_CLI_TABLE_TOP_H

#include "accessor/accessor.h"
#include "base/err.h"
#include "cli/table.h"
#include "train/names.h"

#define TABLE_TOP_BY "weight vector shows"
enum table_top_by { TABLE_TOP_WEIGHT, TABLE_TOP_VECTOR, TABLE_TOP_SHOWS };

struct top_row {
    uint64_t key;
    double weight; // of the first group: itself, or, of several, their length
    double vector; // the length of the second group's
    double shows;  // of rows that count shows, else their updates
};

struct table_top {
    enum table_top_by by;
    struct top_row *row; // the largest first
    size_t max, n;
    bool known;          // what rows of the layout have:
    bool vectors, shows; // whether there are any
    uint64_t nameless;   // rows of the table that have no name
};

// Prints the rows that `v` asks for, out of those that `add` adds. `names`: what keys are
// called; NULL: it is not known, or `add` finds it out (then it is what *names becomes).
typedef int (*table_top_add_fn)(void *ctx, struct table_top *t, struct err *e);
int table_top(const struct table_values *v, table_top_add_fn add, void *ctx,
              struct names *const *names, struct err *e);

// The numbers that rows of this layout have; call before the first row. TUG_EUSAGE if
// there is no number to sort by.
int table_top_layout(struct table_top *t, const struct accessor *a, struct err *e);
// A row of layout `a` whose weights lie in `row` as `at` says. `extra`: where the second
// group is not in the row; NULL: there is none, or not yet. `stats`: what a pull returns of its
// statistics, where it has no count.
int table_top_add(struct table_top *t, const struct accessor *a,
                  const struct accessor *at, uint64_t key, const float *row,
                  const float *extra, const float *stats, struct err *e);

#endif
