// A journal whose groups are written by a thread, so that the scheduler's loop answers
// heartbeats and requests for work while a disk is slow.
//
// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "cluster/journal/journal_internal.h"
#include "os/thread.h"

struct threaded {
    struct journal base;
    struct journal *of; // used only by the thread while `busy` is true
    pthread_t thread;
    pthread_mutex_t mutex; // guards the members below
    pthread_cond_t changed;
    bool stop;
    bool busy, replaces;     // the thread has a group; the group replaces all others
    struct buf todo;         // the group that the thread has
    uint64_t bytes;          // size of the journal, with the group in `todo`
    struct err failed;       // the first failure; code 0: none
    void (*wake)(void *ctx); // called when something has changed; may be NULL
    void *wake_ctx;
};

// Writes the group in `todo`. The caller holds the mutex; the function releases it while it
// writes.
static void write_group(struct threaded *t)
{
    struct err why = {0};
    pthread_mutex_unlock(&t->mutex);
    int rc = t->replaces ? journal_replace(t->of, t->todo.data, t->todo.len, &why)
                         : journal_commit(t->of, t->todo.data, t->todo.len, &why);
    pthread_mutex_lock(&t->mutex);
    if (rc != 0) {
        t->failed = why;
        t->failed.code = rc;
    }
    t->busy = false;
    pthread_cond_broadcast(&t->changed);
    if (t->wake != NULL)
        t->wake(t->wake_ctx);
}

static void *thread_main(void *arg)
{
    struct threaded *t = arg;
    pthread_mutex_lock(&t->mutex);
    while (t->busy || !t->stop)
        if (t->busy)
            write_group(t);
        else
            pthread_cond_wait(&t->changed, &t->mutex);
    pthread_mutex_unlock(&t->mutex);
    return NULL;
}

static int begin_write(struct journal *base, const void *bytes, size_t n, bool replaces,
                       struct err *e)
{
    struct threaded *t = (struct threaded *)base;
    TRY(journal_check_size(n, e));
    pthread_mutex_lock(&t->mutex);
    while (t->busy)
        pthread_cond_wait(&t->changed, &t->mutex);
    int rc = t->failed.code != 0 ? err_copy(e, &t->failed) : 0;
    buf_clear(&t->todo);
    if (rc == 0 && buf_add(&t->todo, bytes, n) != 0)
        rc = err_nomem(e, "the journal");
    if (rc == 0) {
        t->busy = true;
        t->replaces = replaces;
        t->bytes = journal_group_bytes(n) +
                   (replaces ? sizeof(struct journal_head) : t->bytes);
        pthread_cond_broadcast(&t->changed);
    }
    pthread_mutex_unlock(&t->mutex);
    return rc;
}

static int threaded_commit(struct journal *j, const void *bytes, size_t n, struct err *e)
{
    return begin_write(j, bytes, n, false, e);
}

static int threaded_replace(struct journal *j, const void *bytes, size_t n, struct err *e)
{
    return begin_write(j, bytes, n, true, e);
}

static int threaded_ready(struct journal *base, struct err *e)
{
    struct threaded *t = (struct threaded *)base;
    pthread_mutex_lock(&t->mutex);
    int rc = t->failed.code != 0 ? err_copy(e, &t->failed) : !t->busy;
    pthread_mutex_unlock(&t->mutex);
    return rc;
}

static int threaded_wait(struct journal *base, struct err *e)
{
    struct threaded *t = (struct threaded *)base;
    pthread_mutex_lock(&t->mutex);
    while (t->busy)
        pthread_cond_wait(&t->changed, &t->mutex);
    int rc = t->failed.code != 0 ? err_copy(e, &t->failed) : 0;
    pthread_mutex_unlock(&t->mutex);
    return rc;
}

static void threaded_wake_by(struct journal *base, void (*wake)(void *ctx), void *ctx)
{
    struct threaded *t = (struct threaded *)base;
    pthread_mutex_lock(&t->mutex);
    t->wake = wake;
    t->wake_ctx = ctx;
    pthread_mutex_unlock(&t->mutex);
}

static int threaded_replay(struct journal *base,
                           int (*each)(void *ctx, const void *bytes, size_t n,
                                       struct err *e),
                           void *ctx, struct err *e)
{
    // The thread does not use t->of before the first commit.
    return journal_replay(((struct threaded *)base)->of, each, ctx, e);
}

static uint64_t threaded_bytes(const struct journal *base)
{
    // Only the scheduler's thread changes t->bytes, and it is the caller.
    return ((const struct threaded *)base)->bytes;
}

static void threaded_free(struct threaded *t)
{
    buf_wipe(&t->todo);
    pthread_mutex_destroy(&t->mutex);
    pthread_cond_destroy(&t->changed);
    mem_free(t);
}

static void threaded_close(struct journal *base)
{
    struct threaded *t = (struct threaded *)base;
    pthread_mutex_lock(&t->mutex);
    t->stop = true;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->mutex);
    pthread_join(t->thread, NULL);
    journal_close(t->of);
    threaded_free(t);
}

int journal_thread(struct journal **j, struct err *e)
{
    static const struct journal_ops ops = {
        .replay = threaded_replay,
        .commit = threaded_commit,
        .replace = threaded_replace,
        .bytes = threaded_bytes,
        .close = threaded_close,
        .ready = threaded_ready,
        .wait = threaded_wait,
        .wake_by = threaded_wake_by,
    };
    struct threaded *t = mem_zalloc(sizeof(*t));
    if (t == NULL)
        return err_nomem(e, "the journal");
    t->base.ops = &ops;
    t->of = *j;
    t->bytes = journal_bytes(*j);
    t->todo = BUF_INIT(JOURNAL_GROUP_MAX);
    pthread_mutex_init(&t->mutex, NULL);
    thread_condition(&t->changed);
    if (thread_start(&t->thread, thread_main, t) != 0) {
        threaded_free(t);
        return err_set(e, TUG_EIO, "cannot start the thread that writes the journal");
    }
    *j = &t->base;
    return 0;
}
