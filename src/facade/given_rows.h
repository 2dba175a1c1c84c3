// Rows that a program hands to its model (tug/train.h), as data that is read beside files:
// checked, and published for as long as the call takes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_FACADE_GIVEN_ROWS_H
#define TUG_FACADE_GIVEN_ROWS_H

#include "data/columns.h"
#include "data/rows.h"
#include "data/schema.h"
#include "tug/train.h"

struct given_rows {
    struct rows rows;
    struct sparse_rows sparse;
    struct dense_rows dense;
    struct columns *columns;
    char *
        label_name; // of columns; a copy, for the model's schema may end before a run does
    float *weights; // of a column of the frame; NULL: there are none, or the program's
    char address[ROWS_ADDRESS_MAX]; // stands for a path; "": they are not open
};

// Whether the data is rows in memory, and the format whose reader takes them.
bool given_rows_are(const struct tug_data *d);
const char *given_rows_format(const struct tug_data *d);

// Facts about the data besides its contents.
struct given_as {
    const char *name;   // in messages
    bool labels;        // each row has to have one
    const char *label;  // what the column of the labels is called; NULL: not said
    const char *weight; // likewise of the weights
    const struct schema *schema; // of the model that learnt before; NULL: none
};

// TUG_EUSAGE where an array cannot be. Columns are taken over.
int given_rows_open(struct given_rows *r, const struct tug_data *d,
                    const struct given_as *as, struct err *e);
// Releases columns that no given_rows_open has taken over. NULL is fine.
void given_rows_forget(const struct tug_data *d);
void given_rows_close(struct given_rows *r); // a zeroed one is fine

#endif
