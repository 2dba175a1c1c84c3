// The whole process has one interrupt function (tug_interrupt_by), as it has one handler
// of a signal. Each thread keeps the answer to its own last call of the function.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/interrupt.h"

#include <pthread.h>
#include <stdatomic.h>

#include "tug/tug.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static bool (*interrupted)(void *ctx);
static void *interrupted_ctx;
static atomic_bool is_set; // whether a function is set; waits read it without the mutex

static _Thread_local bool came;

void tug_interrupt_by(bool (*fn)(void *ctx), void *ctx)
{
    pthread_mutex_lock(&mutex);
    interrupted = fn;
    interrupted_ctx = ctx;
    atomic_store(&is_set, fn != NULL);
    pthread_mutex_unlock(&mutex);
}

bool interrupt_is_set(void)
{
    return atomic_load_explicit(&is_set, memory_order_relaxed);
}

bool interrupt_ask(void)
{
    pthread_mutex_lock(&mutex);
    bool (*fn)(void *) = interrupted;
    void *ctx = interrupted_ctx;
    pthread_mutex_unlock(&mutex);
    came = fn != NULL && fn(ctx);
    return came;
}

void interrupt_begin(void)
{
    came = false;
}

bool interrupt_came(void)
{
    return came;
}
