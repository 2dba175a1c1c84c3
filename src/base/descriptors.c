// The limit of open descriptors.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/descriptors.h"

#include <sys/resource.h>

enum { UNKNOWN = 1024, ENOUGH = 1 << 20 };

void descriptors_raise(void)
{
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) != 0 || l.rlim_cur >= ENOUGH)
        return;
    l.rlim_cur = l.rlim_max < ENOUGH ? l.rlim_max : ENOUGH;
    // Refused: the limit stays as it was, and links follow it.
    (void)setrlimit(RLIMIT_NOFILE, &l);
}

uint64_t descriptors_limit(void)
{
    struct rlimit l;
    return getrlimit(RLIMIT_NOFILE, &l) == 0 ? (uint64_t)l.rlim_cur : UNKNOWN;
}
