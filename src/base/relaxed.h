// Shared rows: only these functions let threads use the same floats without a lock.
//
// Hogwild training (Recht et al. 2011) lets threads read and update the same rows at the
// same time: an update may be lost, but never torn. In C this is a relaxed atomic access
// to each float. The scalar functions use such accesses. The vector functions use plain
// vector loads and stores, which do not tear a lane on any CPU that tug supports; under
// ThreadSanitizer they are loops of scalar atomics, so that it accepts this sharing and
// reports any other.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_RELAXED_H
#define TUG_BASE_RELAXED_H

#include <stdint.h>
#include <string.h>

#if defined(__SANITIZE_THREAD__)
#define RELAXED_SCALAR 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RELAXED_SCALAR 1
#endif
#endif
#ifndef RELAXED_SCALAR
#define RELAXED_SCALAR 0
#endif

// Sixteen floats: one AVX-512 register, two of AVX2, four of SSE or NEON. The compiler
// chooses one of these; element-wise operations give the same bits with each.
typedef float v16 __attribute__((vector_size(64)));
typedef int32_t v16i __attribute__((vector_size(64)));

static inline float relaxed_load(const float *p)
{
    float x;
    __atomic_load(p, &x, __ATOMIC_RELAXED);
    return x;
}

static inline void relaxed_store(float *p, float x)
{
    __atomic_store(p, &x, __ATOMIC_RELAXED);
}

static inline void relaxed_load_n(float *dst, const float *src, size_t n)
{
#if RELAXED_SCALAR
    for (size_t i = 0; i < n; i++)
        dst[i] = relaxed_load(src + i);
#else
    memcpy(dst, src, n * sizeof(float));
#endif
}

static inline void relaxed_store_n(float *dst, const float *src, size_t n)
{
#if RELAXED_SCALAR
    for (size_t i = 0; i < n; i++)
        relaxed_store(dst + i, src[i]);
#else
    memcpy(dst, src, n * sizeof(float));
#endif
}

#endif
