// Rows that a program hands to its model (tug/train.h), as data that is read beside files:
// checked, and published for as long as the call takes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_FACADE_GIVEN_ROWS_H
#define TUG_FACADE_GIVEN_ROWS_H

#include "data/rows.h"
#include "tug/train.h"

struct given_rows {
    struct rows rows;
    struct sparse_rows sparse;
    struct dense_rows dense;
    char address[ROWS_ADDRESS_MAX]; // stands for a path; "": they are not open
};

// Whether the data is rows in memory, and the format whose reader takes them.
bool given_rows_are(const struct tug_data *d);
const char *given_rows_format(const struct tug_data *d);

// `name` is the data's in messages. `labels`: each row has to have one. TUG_EUSAGE where
// an array cannot be.
int given_rows_open(struct given_rows *r, const struct tug_data *d, bool labels,
                    const char *name, struct err *e);
void given_rows_close(struct given_rows *r); // a zeroed one is fine

#endif
