// See job.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/job.h"

#include <errno.h>
#include <string.h>

#include "os/clock.h"
#include "os/thread.h"
#include "runtime/interrupt.h"

struct job {
    int (*work)(void *ctx, struct err *e);
    void *ctx;
    struct err error;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int rc;    // the work's result; guarded by the mutex
    bool over; // whether the work has ended; guarded by the mutex
};

static void *job_run_thread(void *arg)
{
    struct job *j = arg;
    int rc = j->work(j->ctx, &j->error);
    pthread_mutex_lock(&j->mutex);
    j->rc = rc;
    j->over = true;
    pthread_cond_signal(&j->changed);
    pthread_mutex_unlock(&j->mutex);
    return NULL;
}

static bool is_over_soon(struct job *j)
{
    struct timespec until = clock_deadline((double)INTERRUPT_ASK_NS / SECOND_NS);
    pthread_mutex_lock(&j->mutex);
    int rc = 0;
    while (!j->over && rc == 0)
        rc = pthread_cond_timedwait(&j->changed, &j->mutex, &until);
    bool over = j->over;
    pthread_mutex_unlock(&j->mutex);
    return over;
}

int job_run(int (*work)(void *ctx, struct err *e), void (*look)(void *ctx), void *ctx,
            atomic_bool *stop, struct err *e)
{
    struct job j = {.work = work, .ctx = ctx};
    pthread_t thread;
    pthread_mutex_init(&j.mutex, NULL);
    thread_condition(&j.changed);
    int rc = thread_start(&thread, job_run_thread, &j);
    if (rc != 0) {
        errno = rc;
        rc = err_sys(e, TUG_EIO, "cannot start a thread");
    } else {
        while (!is_over_soon(&j)) {
            if (look != NULL)
                look(ctx);
            if (interrupt_ask())
                atomic_store(stop, true);
        }
        pthread_join(thread, NULL);
        if (look != NULL)
            look(ctx);
        rc = j.rc;
        if (rc != 0)
            *e = j.error;
    }
    pthread_cond_destroy(&j.changed);
    pthread_mutex_destroy(&j.mutex);
    return rc;
}
