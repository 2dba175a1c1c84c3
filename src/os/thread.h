// Threads that block all signals, so that signals reach only the threads that handle
// them; and conditions whose timed waits do not depend on the wall clock.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_OS_THREAD_H
#define TUG_OS_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <time.h>

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

// Names the calling thread, for top -H, and lets other threads go first: a thread that
// wakes on the same core waits at most 0.1 ms for the calling thread. Older kernels
// ignore this limit (see thread.c).
void thread_background(const char *name);

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
