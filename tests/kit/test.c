// See test.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/test.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct err test_err;

void skip_because(const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    print_message("skipped: %s\n", text);
    skip();
    abort(); // not reached: skip() of cmocka does not return
}

bool test_moment(struct patience *p)
{
    enum { PATIENCE_SECONDS = 60, MOMENT_MS = 1 };
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC,
                  &now); // not of os/clock.h: tests of `base` use this, too
    if (p->until == 0)
        p->until = now.tv_sec + PATIENCE_SECONDS;
    poll(NULL, 0, MOMENT_MS);
    return now.tv_sec < p->until;
}

bool pseudo_terminals_are_there(void)
{
    int fd = posix_openpt(O_RDWR | O_NOCTTY);
    const char *name = fd >= 0 && grantpt(fd) == 0 ? ptsname(fd) : NULL;
    bool there = name != NULL && access(name, R_OK | W_OK) == 0;
    if (fd >= 0)
        close(fd);
    return there;
}
