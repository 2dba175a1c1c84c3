// The two clocks of the system.
//
// SPDX-License-Identifier: Apache-2.0
#include "os/clock.h"

#include <time.h>

static uint64_t read_clock(clockid_t id)
{
    struct timespec t = {0};
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t clock_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t clock_unix_ns(void)
{
    return read_clock(CLOCK_REALTIME);
}

struct timespec clock_deadline(double seconds)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    const double day = 86400;
    int64_t ns = t.tv_nsec + (int64_t)clock_ns_of(seconds < day ? seconds : day),
            second = (int64_t)SECOND_NS;
    t.tv_sec += ns / second;
    t.tv_nsec = ns % second;
    return t;
}
