// The rows of a running table, for a tool that looks at all of them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_FACADE_DUMP_H
#define TUG_FACADE_DUMP_H

#include "accessor/accessor.h"
#include "tug/tug.h"

// `a` is the table's; `row` has the layout `at`: that of whole rows, or, of rows with a
// life, what a pull returns, with the pulled statistics before the weights.
typedef int (*dump_row_fn)(void *ctx, const struct accessor *a, const struct accessor *at,
                           uint64_t key, const float *row);
// In no order. Returns a code like the calls of tug/tug.h; tug_last_error() is the
// sentence.
int dump_rows(struct tug_client *c, uint32_t table, dump_row_fn each, void *ctx);

#endif
