// The kernels of this architecture, from which kernels.c chooses.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KERNELS_LEVELS_H
#define TUG_KERNELS_LEVELS_H

#include "kernels/kernels.h"

// Initializes the state of ftrl-group: for weights without a z, sets z to the value that
// gives the current weight, so that random initial weights are kept. t is the vector's
// l21 penalty.
void kernels_ftrl_group_begin(const struct rule_params *p, float l2, float t,
                              const float *w, float *s, size_t n);

#if defined(__x86_64__)
extern const struct kernels kernels_avx2;
extern const struct kernels kernels_avx512;
#endif

#endif
