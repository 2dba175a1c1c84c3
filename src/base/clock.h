// Time for people and progress lines. Nothing that decides a result reads it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_CLOCK_H
#define TUG_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

uint64_t clock_ns(void);      // monotonic
uint64_t clock_unix_ns(void); // since 1970, for names and logs

static inline double clock_seconds(void)
{
    return (double)clock_ns() * 1e-9;
}

// That many seconds from now, for waits on conditions. At most a day.
struct timespec clock_deadline(double seconds);

#endif
