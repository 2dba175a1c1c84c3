// See broken.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/broken.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit/test.h"

// After at most this many events every node, piece and slice has been checked.
enum { EVENTS = 500 };

#ifndef NDEBUG
static void broken_child(const struct broken *b, void (*check)(void), int out)
{
    const struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    dup2(out, STDERR_FILENO);
    b->break_it();
    for (int i = 0; i < EVENTS; i++)
        check();
    _exit(0);
}

static void expect_broken(const struct broken *b, void (*check)(void))
{
    char said[4096];
    size_t n = 0;
    ssize_t more;
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        broken_child(b, check, ends[1]);
    close(ends[1]);
    while ((more = read(ends[0], said + n, sizeof(said) - 1 - n)) > 0)
        n += (size_t)more;
    said[n] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFSIGNALED(status) || strstr(said, b->invariant) == NULL)
        fail_msg("%s is broken, and this is all that was said: %s", b->invariant, said);
}

#endif

void expect_all_broken(const struct broken *b, size_t n, void (*check)(void))
{
#ifdef NDEBUG
    (void)b, (void)n, (void)check;
    skip_because("a build without asserts");
#else
    for (int i = 0; i < EVENTS; i++)
        check();
    for (size_t i = 0; i < n; i++)
        expect_broken(&b[i], check);
#endif
}
