// The rows of a table that stand out: those of the largest weights or vectors, or
// that were shown most.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLI_TABLE_TOP_H
#define TUG_CLI_TABLE_TOP_H

#include "accessor/accessor.h"
#include "base/err.h"
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
    bool vectors, shows; // whether rows have any
    uint64_t nameless;   // rows of the table that have no name
};

// For the rows that `by` sorts, `max` of them at most.
int table_top_open(struct table_top *t, enum table_top_by by, size_t max, struct err *e);
void table_top_close(struct table_top *t); // a zeroed one is fine
// What rows of this layout have. TUG_EUSAGE: nothing to be sorted by.
int table_top_layout(struct table_top *t, const struct accessor *a, struct err *e);
// `extra`: where the second group is not in the row; NULL: there is none, or not yet.
void table_top_add(struct table_top *t, const struct accessor *a, uint64_t key,
                   const float *row, const float *extra, double shows);
// `names`: what keys are called; NULL: it is not known.
int table_top_print(struct table_top *t, const struct names *names, bool json,
                    struct err *e);

#endif
