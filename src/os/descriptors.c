// The limit of open descriptors.
//
// SPDX-License-Identifier: Apache-2.0
#include "os/descriptors.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

enum { UNKNOWN = 1024, ENOUGH = 1 << 20 };

void descriptors_raise(void)
{
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) != 0 || l.rlim_cur >= ENOUGH)
        return;
    l.rlim_cur = l.rlim_max < ENOUGH ? l.rlim_max : ENOUGH;
    // If the system refuses, the limit stays, and the process can open no more links than
    // before.
    (void)setrlimit(RLIMIT_NOFILE, &l);
}

// Opens `fd`, one of 0 to 2, if it is closed. The system gives a new descriptor the
// lowest free number, which is `fd`, because the lower ones are open.
static void hold(int fd)
{
    if (fcntl(fd, F_GETFD) >= 0)
        return;
    int held = open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    if (held < 0) // a directory serves as well, since reading or writing it fails, too
        held = open("/", O_RDONLY | O_DIRECTORY);
    if (held > STDERR_FILENO) // another thread has opened `fd` first
        close(held);
}

void descriptors_hold_standard(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        hold(fd);
}

uint64_t descriptors_limit(void)
{
    struct rlimit l;
    return getrlimit(RLIMIT_NOFILE, &l) == 0 ? (uint64_t)l.rlim_cur : UNKNOWN;
}

// Estimates the number of free descriptors. The system returns the lowest free number, so
// a high number means that few are free.
uint64_t descriptors_left(void)
{
    uint64_t limit = descriptors_limit();
    int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (next < 0)
        return 0;
    close(next);
    return (uint64_t)next < limit ? limit - (uint64_t)next : 0;
}
