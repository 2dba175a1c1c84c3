// OpenBLAS, which multiplies matrices in the training of layers. It is loaded when the
// first model with layers is made. If it were linked, every process would load it,
// although it creates threads and takes address space at once, and never finishes loading
// if there is little address space.
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

// Loads OpenBLAS, once. Any thread may call it; later calls cost almost nothing. Returns
// TUG_EUSAGE if OpenBLAS is not installed, TUG_ENOMEM if there is too little address space.
int blas_load(struct err *e);
// Returns the functions of the BLAS library, after a successful blas_load.
const struct blas *blas(void);

#endif
