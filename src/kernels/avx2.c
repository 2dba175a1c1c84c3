// The kernels for AVX2: this file is compiled with that instruction set, so nothing in it may run
// before kernels.c has asked the CPU.
//
// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#define LEVEL avx2
#define SQRT4(x) ((v4)_mm_sqrt_ps((__m128)(x)))
#define SQRT8(x) ((v8)_mm256_sqrt_ps((__m256)(x)))
#define SQRT16(x)                                                                        \
    ({                                                                                   \
        union {                                                                          \
            v16 all;                                                                     \
            __m256 half[2];                                                              \
        } u = {.all = (x)};                                                              \
        u.half[0] = _mm256_sqrt_ps(u.half[0]);                                           \
        u.half[1] = _mm256_sqrt_ps(u.half[1]);                                           \
        u.all;                                                                           \
    })
#include "kernels/vector.inc.h"
