// The products of matrices that layers are trained by: OpenBLAS, loaded when the first model
// with layers is made. Linked, it would be loaded by every process: it makes threads and takes
// address space at once, and where there is little of that never gets to the end.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_MODEL_BLAS_H
#define TUG_MODEL_BLAS_H

#include <cblas.h>

#include "base/err.h"

struct blas {
    __typeof__(cblas_sgemm) *sgemm;
    __typeof__(cblas_sgemv) *sgemv;
    __typeof__(openblas_set_num_threads) *set_num_threads;
    __typeof__(openblas_get_corename) *get_corename;
};

// Any thread; once it has succeeded it costs next to nothing. TUG_EUSAGE if it is not
// installed; TUG_ENOMEM if there is too little address space for it.
int blas_load(struct err *e);
// Valid after a successful blas_load.
const struct blas *blas(void);

#endif
