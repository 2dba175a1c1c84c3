// The kernels for AVX2: this file is compiled with that instruction set, so its code may
// run only after kernels.c has checked the CPU.
//
// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#define LEVEL avx2
#define WIDE 8
#define SQRT4(x) ((v4)_mm_sqrt_ps((__m128)(x)))
#define SQRT8(x) ((v8)_mm256_sqrt_ps((__m256)(x)))

#include <stddef.h>

#include "base/relaxed.h"

// With AVX2 a v16 is two registers. Splitting and joining them by shuffles costs nothing;
// through memory, each load would wait for a store.
#define LOW_8(x) ((__m256)__builtin_shufflevector((x), (x), 0, 1, 2, 3, 4, 5, 6, 7))
#define HIGH_8(x)                                                                        \
    ((__m256)__builtin_shufflevector((x), (x), 8, 9, 10, 11, 12, 13, 14, 15))
#define BOTH_8(low, high)                                                                \
    ((v16)__builtin_shufflevector((v8)(low), (v8)(high), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9,   \
                                  10, 11, 12, 13, 14, 15))

#define SQRT16(x) BOTH_8(_mm256_sqrt_ps(LOW_8(x)), _mm256_sqrt_ps(HIGH_8(x)))

#define COMPARE_16(x, op) ((v16i)BOTH_8((v8)LOW_8(x) op 0, (v8)HIGH_8(x) op 0))
#define RANGE_8(from, n)                                                                 \
    (((v8i){0, 1, 2, 3, 4, 5, 6, 7} + (from) >= 0) &                                     \
     ((v8i){0, 1, 2, 3, 4, 5, 6, 7} + (from) < (int32_t)(n)))
#define RANGE_16(from, n) ((v16i)BOTH_8(RANGE_8(from, n), RANGE_8((from) + 8, n)))

// A mask whose first n lanes are set is loaded from this array, n entries before the middle.
static const int first_lanes[32] = {-1, -1, -1, -1, -1, -1, -1, -1,
                                    -1, -1, -1, -1, -1, -1, -1, -1};
#define LANES(n, from)                                                                   \
    _mm256_loadu_si256((const __m256i *)(const void *)(first_lanes + 16 - (n) + (from)))
#define LOAD_SOME(p, n)                                                                  \
    BOTH_8(_mm256_maskload_ps((p), LANES(n, 0)), _mm256_maskload_ps((p) + 8, LANES(n, 8)))

#include "kernels/vector.inc.h"
