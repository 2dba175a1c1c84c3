// Pulls all rows of a running table, for tools that read a whole table.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DOORS_TABLES_DUMP_H
#define TUG_DOORS_TABLES_DUMP_H

#include "accessor/accessor.h"
#include "tug/tug.h"

// Takes one row. `a` is the table's accessor; `at` is the accessor that describes `row`.
// If `a` has a lifecycle, `row` has the floats of a pull (pulled statistics, then weights);
// else it is a whole row.
typedef int (*dump_row_fn)(void *ctx, const struct accessor *a, const struct accessor *at,
                           uint64_t key, const float *row);
// Calls `each` for every row, in no particular order. Returns a code of tug/tug.h;
// tug_last_error() returns the error's text.
int dump_rows(struct tug_client *c, uint32_t table, dump_row_fn each, void *ctx);

#endif
