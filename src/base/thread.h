// Threads that signals do not reach: these are for the threads that expect them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_THREAD_H
#define TUG_BASE_THREAD_H

#include <pthread.h>
#include <signal.h>

// pthread_create, and all signals blocked in the new thread. 0, or an errno.
static inline int thread_start(pthread_t *ret, void *(*main)(void *), void *arg)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(ret, NULL, main, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rc;
}

#endif
