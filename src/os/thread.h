// Threads that block all signals, so that signals reach only the threads that handle
// them; and conditions whose timed waits do not depend on the wall clock.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_OS_THREAD_H
#define TUG_OS_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

// Starts a thread with all signals blocked. Returns 0 or an errno.
static inline int thread_start(pthread_t *ret, void *(*main)(void *), void *arg)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(ret, NULL, main, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rc;
}

// Names the calling thread, for top -H, and lets the other threads of the process go first.
static inline void thread_background(const char *name)
{
    enum { NICE = 10 };
    (void)pthread_setname_np(pthread_self(), name);
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);
}

// Initializes a condition that uses the monotonic clock, as clock_deadline does.
static inline void thread_condition(pthread_cond_t *ret)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(ret, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

#endif
