// The kernels for AVX-512 (F, VL, DQ): this file is compiled with that instruction set, so nothing in it may run
// before kernels.c has asked the CPU.
//
// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#define LEVEL avx512
#define SQRT4(x) ((v4)_mm_sqrt_ps((__m128)(x)))
#define SQRT8(x) ((v8)_mm256_sqrt_ps((__m256)(x)))
#define SQRT16(x) ((v16)_mm512_sqrt_ps((__m512)(x)))
#include "kernels/vector.inc.h"
