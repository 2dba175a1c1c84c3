// The kernels for AVX2: this file is compiled with that instruction set, so nothing in it may run
// before kernels.c has asked the CPU.
//
// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#define LEVEL avx2
#define SQRT4(x) ((v4)_mm_sqrt_ps((__m128)(x)))
#define SQRT8(x) ((v8)_mm256_sqrt_ps((__m256)(x)))

#include <stddef.h>

#include "base/relaxed.h"

// A v16 as two registers.
union halves {
    v16 all;
    __m256 half[2];
};

#define SQRT16(x)                                                                              \
    ({                                                                                         \
        union halves h_ = {.all = (x)};                                                        \
        h_.half[0] = _mm256_sqrt_ps(h_.half[0]);                                               \
        h_.half[1] = _mm256_sqrt_ps(h_.half[1]);                                               \
        h_.all;                                                                                \
    })

static const int first_lanes[32] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
#define LANES(n, from) _mm256_loadu_si256((const __m256i *)(const void *)(first_lanes + 16 - (n) + (from)))
#define LOAD_SOME(p, n)                                                                        \
    ({                                                                                         \
        const float *p_ = (p);                                                                 \
        size_t n_ = (n);                                                                       \
        union halves h_ = {.half = {_mm256_maskload_ps(p_, LANES(n_, 0)),                      \
                                    _mm256_maskload_ps(p_ + 8, LANES(n_, 8))}};                \
        h_.all;                                                                                \
    })

#define FIRST_OF_4(x)                                                                          \
    ({                                                                                         \
        union halves h_ = {.all = (x)};                                                        \
        __m128 low_ = _mm_unpacklo_ps(_mm256_castps256_ps128(h_.half[0]),                      \
                                      _mm256_extractf128_ps(h_.half[0], 1));                   \
        __m128 high_ = _mm_unpacklo_ps(_mm256_castps256_ps128(h_.half[1]),                     \
                                       _mm256_extractf128_ps(h_.half[1], 1));                  \
        (v4) _mm_movelh_ps(low_, high_);                                                       \
    })
#define EACH_4_TIMES(x)                                                                        \
    ({                                                                                         \
        __m256 x_ = _mm256_castps128_ps256((__m128)(x));                                       \
        union halves h_ = {                                                                    \
            .half = {                                                                          \
                _mm256_permutevar8x32_ps(x_, _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1)),       \
                _mm256_permutevar8x32_ps(x_, _mm256_setr_epi32(2, 2, 2, 2, 3, 3, 3, 3))}};     \
        h_.all;                                                                                \
    })
#define JOIN_4(a, b, c, d)                                                                     \
    ({                                                                                         \
        union halves h_ = {.half = {_mm256_set_m128((__m128)(b), (__m128)(a)),                 \
                                    _mm256_set_m128((__m128)(d), (__m128)(c))}};               \
        h_.all;                                                                                \
    })
#include "kernels/vector.inc.h"
