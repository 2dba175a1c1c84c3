// The thread polls its van until the shard has finished, or it is told to stop.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/shard_thread.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "kit/inproc.h"
#include "kit/test.h"
#include "server/shard.h"

struct shard_thread {
    pthread_t thread;
    atomic_bool stop;
    struct van *van;
    struct shard *shard;
};

static void *run(void *arg)
{
    struct shard_thread *t = arg;
    struct err e;
    while (!atomic_load(&t->stop) && !shard_finished(t->shard, &e))
        if (van_poll(t->van, van_now(t->van) + 50000000, &e) != 0)
            break;
    return NULL;
}

struct shard_thread *shard_thread_open(const struct member_options *member)
{
    struct shard_thread *t = mem_zalloc(sizeof(*t));
    struct shard_options o = {.member = *member};
    char address[VAN_ADDRESS_MAX];
    struct err e = {0};
    assert_non_null(t);
    assert_int_equal(shard_open(&t->shard, &o, &e), 0);
    struct van_handler h = shard_handler(t->shard);
    assert_int_equal(inproc_van_open(&t->van, &h, &e), 0);
    assert_int_equal(van_listen(t->van, member->address, address, &e), 0);
    shard_serve(t->shard, t->van, van_now(t->van));
    assert_int_equal(pthread_create(&t->thread, NULL, run, t), 0);
    return t;
}

void shard_thread_close(struct shard_thread *t)
{
    atomic_store(&t->stop, true);
    van_wake(t->van);
    pthread_join(t->thread, NULL);
    shard_close(t->shard);
    van_free(t->van);
    mem_free(t);
}
