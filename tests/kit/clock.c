// See clock.h. The program's own clock_gettime is used instead of the C library's, so
// libuv's timers see the same time.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/clock.h"

#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "os/clock.h"

static atomic_ullong skipped;

void kit_clock_skip(uint64_t ns)
{
    atomic_fetch_add(&skipped, ns);
}

int clock_gettime(clockid_t id, struct timespec *t)
{
    int rc = (int)syscall(SYS_clock_gettime, id, t);
    if (rc != 0 || (id != CLOCK_MONOTONIC && id != CLOCK_MONOTONIC_COARSE))
        return rc;
    uint64_t ns = (uint64_t)t->tv_nsec + atomic_load(&skipped);
    t->tv_sec += (time_t)(ns / SECOND_NS);
    t->tv_nsec = (long)(ns % SECOND_NS);
    return 0;
}
