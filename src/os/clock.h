// Time for output, progress lines and deadlines. No code that decides a result may read
// it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_OS_CLOCK_H
#define TUG_OS_CLOCK_H

#include <stdint.h>
#include <time.h>

#define SECOND_NS ((uint64_t)1000000000)

uint64_t clock_ns(void);      // monotonic time
uint64_t clock_unix_ns(void); // time since 1970, for names and logs

static inline uint64_t clock_earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline double clock_seconds(void)
{
    return (double)clock_ns() * 1e-9;
}

// Converts any number of seconds from a program: 0 or less gives 0; more than a hundred
// years (INFINITY, too) gives a hundred years.
static inline uint64_t clock_ns_of(double seconds)
{
    const double most = 3.2e9;
    return seconds > 0 ? (uint64_t)((seconds < most ? seconds : most) * 1e9) : 0;
}

// Returns the time `seconds` from now, at most a day, for waits on a condition made by
// thread_condition.
struct timespec clock_deadline(double seconds);

#endif
