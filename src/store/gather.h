// Gathers rows, and extra rows, up to 1024 of them, and hands them on together: to
// another store, or as bytes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_STORE_GATHER_H
#define TUG_STORE_GATHER_H

#include "store/store_internal.h"

enum { GATHER_ROWS = 1024 };

struct gather {
    const struct accessor *accessor;
    // Receives the gathered rows: n rows and n_extras extra rows, both of which may be 0.
    int (*take)(struct gather *g, struct err *e);
    void *ctx;
    size_t n, n_extras;
    uint64_t keys[GATHER_ROWS], extra_keys[GATHER_ROWS];
    float *rows, *extras; // n rows, and the n_extras extra rows of extra_keys
};

int gather_open(struct gather **ret, const struct accessor *a,
                int (*take)(struct gather *g, struct err *e), void *ctx, struct err *e);
void gather_close(struct gather *g); // NULL is fine

// A store_row_fn, whose ctx is the gather. Calls `take` when GATHER_ROWS rows are
// gathered.
int gather_row(void *ctx, uint64_t key, const float *row, const float *extra,
               struct err *e);
int gather_flush(struct gather *g, struct err *e); // calls `take` with the rest

#endif
