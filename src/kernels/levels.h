// The tables that exist on this architecture: what kernels.c chooses from.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KERNELS_LEVELS_H
#define TUG_KERNELS_LEVELS_H

#include <stdbool.h>

#include "kernels/kernels.h"

extern const struct kernels kernels_ref;
#if defined(__x86_64__)
extern const struct kernels kernels_avx2;
extern const struct kernels kernels_avx512;
#endif

#endif
