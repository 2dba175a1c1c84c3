// Rows of floats, one for each example of a batch.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_MODEL_MATRIX_H
#define TUG_MODEL_MATRIX_H

#include <stddef.h>

struct matrix {
    float *at;
    size_t rows, columns, stride;
};

#endif
