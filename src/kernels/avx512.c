// The kernels for AVX-512 (F, VL, DQ, CD): this file is compiled with that instruction
// set, so its code may run only after kernels.c has checked the CPU.
//
// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>

#define LEVEL avx512
#define WIDE 16
#define SQRT4(x) ((v4)_mm_sqrt_ps((__m128)(x)))
#define SQRT8(x) ((v8)_mm256_sqrt_ps((__m256)(x)))
#define SQRT16(x) ((v16)_mm512_sqrt_ps((__m512)(x)))
#define COMPARE_16(x, op) ((x)op 0)
#define RANGE_16(from, n)                                                                \
    ((v16i)(_mm512_movm_epi32(_mm512_cmplt_epu32_mask(                                   \
        _mm512_add_epi32(                                                                \
            _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),     \
            _mm512_set1_epi32(from)),                                                    \
        _mm512_set1_epi32((int)(n))))))
#define LOAD_SOME(p, n) ((v16)_mm512_maskz_loadu_ps((__mmask16)((1u << (n)) - 1), (p)))

// Returns whether two of the first n rows may be the same. Compares only the lower halves
// of the rows' addresses; different rows seldom have the same lower half.
static inline bool repeats_16(float *const *rows, size_t n)
{
    __m512i low = _mm512_inserti64x4(
        _mm512_castsi256_si512(_mm512_cvtepi64_epi32(_mm512_loadu_si512(rows))),
        _mm512_cvtepi64_epi32(_mm512_loadu_si512(rows + 8)), 1);
    __mmask16 some = (__mmask16)(n < 16 ? (1u << n) - 1 : 0xffff);
    __m512i before = _mm512_maskz_conflict_epi32(
        some, low); // for each lane: a bit for each earlier lane with the same value
    before = _mm512_and_epi32(before, _mm512_set1_epi32(some));
    return _mm512_mask_test_epi32_mask(some, before, before) != 0;
}
#define REPEATS_16(rows, n) repeats_16(rows, n)

#include "kernels/vector.inc.h"
