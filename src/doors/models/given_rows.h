// Rows in memory that a program passes to its model (tug/train.h): they are checked and,
// during the call, registered under an address that the readers take in place of a file's
// path.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DOORS_MODELS_GIVEN_ROWS_H
#define TUG_DOORS_MODELS_GIVEN_ROWS_H

#include "data/format/schema.h"
#include "data/frame/columns.h"
#include "data/frame/rows.h"
#include "tug/train.h"

struct given_rows {
    struct rows rows;
    struct sparse_rows sparse;
    struct dense_rows dense;
    struct columns *columns;
    // A copy of the name of the label's column: the model's schema, which has the name,
    // may be freed before the run ends.
    char *label_name;
    // Weights copied from a column of the frame; NULL: no weights, or the program's own array.
    float *weights;
    char address[ROWS_ADDRESS_MAX]; // used in place of a path; "": the rows are not open
};

// Return whether the data is in memory, and the name of the format whose reader takes it.
bool given_rows_are(const struct tug_data *d);
const char *given_rows_format(const struct tug_data *d);

// The requirements that a call has on its data, and the names of columns that the call
// gives.
struct given_as {
    const char *name;            // the name of the data in messages
    bool labels;                 // whether each row must have a label
    const char *label;           // name of the label's column; NULL: not given
    const char *weight;          // name of the weights' column; NULL: not given
    const struct schema *schema; // schema of the model's earlier training; NULL: none
};

// Opens rows in memory. Returns TUG_EUSAGE if an array is missing or its indices are
// invalid. *r owns the Arrow structs of columns, even after an error.
int given_rows_open(struct given_rows *r, const struct tug_data *d,
                    const struct given_as *as, struct err *e);
// Releases the columns of a call's data unless given_rows_open has taken them over. `d` may
// be NULL.
void given_rows_forget(const struct tug_data *d);
void given_rows_close(struct given_rows *r); // a zeroed one is fine

#endif
