// A team is N - 1 threads and a barrier. A run passes the barrier twice: at the start,
// where the caller meets the waiting threads, and at the end, when all have returned from
// the function.
//
// Phases between barriers are often shorter than a thread needs to wake up (a batch of a
// few hundred examples takes 50 us). So a member first spins for a while and only then
// sleeps. If there are more members than CPUs, a waiting member sleeps at once: spinning
// would take time from the members that still work.
//
// SPDX-License-Identifier: Apache-2.0
#include "os/team.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "os/thread.h"

enum { SPINS = 2000 }; // the spins take 50 to 100 us

struct member {
    struct team *team;
    int rank;
    pthread_t thread;
};

struct team {
    int size;
    int spins;
    bool closing; // written before the barrier that starts a run, and read after it
    team_fn fn;   // written and read like `closing`
    void *arg;
    atomic_int parties; // == size, unless the team could not be opened completely
    atomic_int arrived;
    atomic_uint phase; // number of barriers passed; changes under the lock
    pthread_mutex_t lock;
    pthread_cond_t next_phase;
    struct member member[];
};

static inline void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void open_next_phase(struct team *t, unsigned phase)
{
    atomic_store_explicit(&t->arrived, 0, memory_order_relaxed);
    pthread_mutex_lock(&t->lock);
    // Memory order release: a member that sees the new phase also sees all writes that
    // members made before the barrier, because each member changed `arrived` with memory
    // order acq_rel.
    atomic_store_explicit(&t->phase, phase + 1, memory_order_release);
    pthread_cond_broadcast(&t->next_phase);
    pthread_mutex_unlock(&t->lock);
}

static bool phase_is(struct team *t, unsigned phase)
{
    return atomic_load_explicit(&t->phase, memory_order_acquire) == phase;
}

static void wait_while(struct team *t, unsigned phase)
{
    for (int i = 0; i < t->spins; i++) {
        if (!phase_is(t, phase))
            return;
        relax();
    }
    pthread_mutex_lock(&t->lock);
    while (phase_is(t, phase))
        pthread_cond_wait(&t->next_phase, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

void team_barrier(struct team *t)
{
    // The phase must be read first; it cannot change before this member has arrived.
    unsigned phase = atomic_load_explicit(&t->phase, memory_order_relaxed);
    int before = atomic_fetch_add_explicit(&t->arrived, 1, memory_order_acq_rel);
    if (before + 1 == atomic_load_explicit(&t->parties, memory_order_relaxed))
        open_next_phase(t, phase);
    else
        wait_while(t, phase);
}

static void *member_main(void *arg)
{
    struct member *m = arg;
    struct team *t = m->team;
    for (;;) {
        team_barrier(t);
        if (t->closing)
            return NULL;
        t->fn(t->arg, m->rank);
        team_barrier(t);
    }
}

static int usable_cpus(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

// Starts members 1 .. size - 1. Returns the number of members, the caller included; if it
// is less than `size`, *ret_error has the reason.
static int start_members(struct team *t, int *ret_error)
{
    int n = 1;
    for (*ret_error = 0; n < t->size && *ret_error == 0; n += *ret_error == 0) {
        struct member *m = &t->member[n];
        *m = (struct member){.team = t, .rank = n};
        *ret_error = thread_start(&m->thread, member_main, m);
    }
    return n;
}

static void stop_members(struct team *t, int n)
{
    t->closing = true;
    atomic_store(&t->parties, n);
    team_barrier(t);
    for (int i = 1; i < n; i++)
        pthread_join(t->member[i].thread, NULL);
    pthread_cond_destroy(&t->next_phase);
    pthread_mutex_destroy(&t->lock);
    mem_free(t);
}

int team_open(struct team **ret, int size, struct err *e)
{
    assert(size >= 1);
    struct team *t = mem_zalloc(sizeof(*t) + (size_t)size * sizeof(t->member[0]));
    if (t == NULL)
        return err_nomem(e, "a team of threads");
    t->size = size;
    t->spins = size <= usable_cpus() ? SPINS : 0;
    atomic_init(&t->parties, size);
    pthread_mutex_init(&t->lock, NULL);
    thread_condition(&t->next_phase);
    int error;
    int n = start_members(t, &error);
    if (n < size) {
        stop_members(t, n);
        err_set(e, TUG_EIO, "cannot start thread %d of %d: %s; use fewer threads", n + 1,
                size, strerror(error));
        err_limit(e, error);
        return TUG_EIO;
    }
    *ret = t;
    return 0;
}

void team_close(struct team *t)
{
    if (t != NULL)
        stop_members(t, t->size);
}

int team_size(const struct team *t)
{
    return t->size;
}

void team_run(struct team *t, team_fn fn, void *arg)
{
    t->fn = fn;
    t->arg = arg;
    team_barrier(t);
    fn(arg, 0);
    team_barrier(t);
}
