// A matrix whose rows are the floats of a batch's examples.
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
