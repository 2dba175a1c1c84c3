// Time for people, progress lines and deadlines. Nothing that decides a result reads it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_CLOCK_H
#define TUG_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define SECOND_NS ((uint64_t)1000000000)

uint64_t clock_ns(void);      // monotonic
uint64_t clock_unix_ns(void); // since 1970, for names and logs

static inline uint64_t clock_earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline double clock_seconds(void)
{
    return (double)clock_ns() * 1e-9;
}

// That many seconds from now, for waits on thread_condition. At most a day.
struct timespec clock_deadline(double seconds);

#endif
