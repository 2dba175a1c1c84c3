// A library that `make stress` preloads into tests: the order of threads then depends on
// a seed more than on the machine. A new thread begins after a delay of 0 to 4 ms, and a
// thread that takes a lock or wakes up sometimes yields. TUG_SHUFFLE is the seed.
//
// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

typedef int create_fn(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
typedef int lock_fn(pthread_mutex_t *);
typedef int wait_fn(pthread_cond_t *, pthread_mutex_t *);

struct begin {
    void *(*fn)(void *);
    void *arg;
    long wait_ns;
};

static atomic_ulong drawn;

static uint64_t draw(void)
{
    static atomic_ulong seed;
    unsigned long s = atomic_load(&seed);
    if (s == 0) {
        const char *text = getenv("TUG_SHUFFLE");
        s = (text != NULL ? strtoul(text, NULL, 10) : 0) + 1;
        atomic_store(&seed, s);
    }
    uint64_t x = s * 0x9e3779b97f4a7c15 +
                 atomic_fetch_add(&drawn, 1) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

static void give_way(void)
{
    if (draw() % 16 == 0)
        sched_yield();
}

static void *begin_late(void *arg)
{
    struct begin b = *(struct begin *)arg;
    free(arg);
    nanosleep(&(struct timespec){.tv_nsec = b.wait_ns}, NULL);
    return b.fn(b.arg);
}

int pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*fn)(void *),
                   void *arg)
{
    create_fn *next = (create_fn *)dlsym(RTLD_NEXT, "pthread_create");
    struct begin *b = malloc(sizeof(*b));
    if (b == NULL)
        return next(ret, attr, fn, arg);
    *b = (struct begin){fn, arg, (long)(draw() % 4000000)};
    int rc = next(ret, attr, begin_late, b);
    if (rc != 0)
        free(b);
    return rc;
}

int pthread_mutex_lock(pthread_mutex_t *m)
{
    static _Atomic(lock_fn *) next;
    lock_fn *f = atomic_load(&next);
    if (f == NULL) {
        f = (lock_fn *)dlsym(RTLD_NEXT, "pthread_mutex_lock");
        atomic_store(&next, f);
    }
    give_way();
    return f(m);
}

int pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m)
{
    // On x86-64 the C library also has an older version of this function.
    wait_fn *f = (wait_fn *)dlvsym(RTLD_NEXT, "pthread_cond_wait", "GLIBC_2.3.2");
    if (f == NULL)
        f = (wait_fn *)dlsym(RTLD_NEXT, "pthread_cond_wait");
    int rc = f(c, m);
    give_way();
    return rc;
}
