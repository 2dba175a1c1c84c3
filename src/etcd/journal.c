// The journal in etcd: a group that the scheduler gives is written by a thread, while
// the scheduler's loop goes on.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "etcd/etcd_internal.h"
#include "os/clock.h"
#include "os/thread.h"

// This scheduler stops relying on the lease when a tenth of its time (1 / MARGIN) is left,
// because the clocks of two machines do not run equally fast.
enum { MARGIN = 10 };

static const struct interrupt never = {.wake_fd = -1};

void etcd_key(char ret[ETCD_KEY_MAX], const struct etcd_journal *j, const char *name)
{
    snprintf(ret, ETCD_KEY_MAX, "%s%s", j->place.prefix, name);
}

void etcd_journal_tell(struct etcd_journal *j)
{
    pthread_cond_broadcast(&j->changed);
    if (j->wake != NULL)
        j->wake(j->wake_ctx);
}

void etcd_journal_fail(struct etcd_journal *j, const struct err *why)
{
    pthread_mutex_lock(&j->mutex);
    if (j->failed.code == 0)
        j->failed = *why;
    etcd_journal_tell(j);
    pthread_mutex_unlock(&j->mutex);
}

static void *writer_main(void *arg)
{
    struct etcd_journal *j = arg;
    pthread_mutex_lock(&j->mutex);
    while (!atomic_load(&j->stop)) {
        if (!j->busy || j->failed.code != 0) {
            pthread_cond_wait(&j->changed, &j->mutex);
            continue;
        }
        struct err why = {0};
        bool replaces = j->replaces;
        pthread_mutex_unlock(&j->mutex);
        // j->todo is used only by this thread until `busy` is false.
        int rc = etcd_group_write(j, j->todo.data, j->todo.len, replaces, &why);
        if (rc != 0 && !atomic_load(&j->stop))
            etcd_journal_fail(j, &why);
        pthread_mutex_lock(&j->mutex);
        j->busy = rc != 0;
        etcd_journal_tell(j);
    }
    pthread_mutex_unlock(&j->mutex);
    return NULL;
}

// ---------------------------------------------------------------- the scheduler's side

static int begin_write(struct journal *base, const void *bytes, size_t n, bool replaces,
                       struct err *e)
{
    struct etcd_journal *j = (struct etcd_journal *)base;
    TRY(journal_check_size(n, e));
    pthread_mutex_lock(&j->mutex);
    while (j->busy && j->failed.code == 0) // ends: the writer has a time limit
        pthread_cond_wait(&j->changed, &j->mutex);
    int rc = j->failed.code != 0 ? err_copy(e, &j->failed) : 0;
    if (rc == 0) {
        buf_clear(&j->todo);
        rc = buf_add(&j->todo, bytes, n) == 0 ? 0 : err_nomem(e, "the journal");
    }
    if (rc == 0) {
        j->busy = true;
        j->replaces = replaces;
        j->bytes = n + (replaces ? 0 : j->bytes);
        pthread_cond_broadcast(&j->changed);
    }
    pthread_mutex_unlock(&j->mutex);
    return rc;
}

static int etcd_commit(struct journal *j, const void *bytes, size_t n, struct err *e)
{
    return begin_write(j, bytes, n, false, e);
}

static int etcd_replace(struct journal *j, const void *bytes, size_t n, struct err *e)
{
    return begin_write(j, bytes, n, true, e);
}

static bool lease_holds(const struct etcd_journal *j)
{
    return etcd_now() + j->ttl_ns / MARGIN < j->valid_until;
}

// Returns what the journal's function `ready` returns: 1, 0 or an error. The mutex must be
// held.
static int state_of(struct etcd_journal *j, struct err *e)
{
    if (j->failed.code == 0 && etcd_now() > j->valid_until + clock_ns_of(j->o.patience))
        j->failed.code = err_set(
            &j->failed, TUG_EIO,
            "etcd has not renewed the lease of this scheduler for %.0f s: is etcd "
            "running, with a majority of its members?",
            j->o.patience);
    if (j->failed.code != 0)
        return err_copy(e, &j->failed);
    return !j->busy && lease_holds(j);
}

static int etcd_ready(struct journal *base, struct err *e)
{
    struct etcd_journal *j = (struct etcd_journal *)base;
    pthread_mutex_lock(&j->mutex);
    int rc = state_of(j, e);
    pthread_mutex_unlock(&j->mutex);
    return rc;
}

static int etcd_wait(struct journal *base, struct err *e)
{
    struct etcd_journal *j = (struct etcd_journal *)base;
    int rc;
    pthread_mutex_lock(&j->mutex);
    while ((rc = state_of(j, e)) == 0) {
        struct timespec t = clock_deadline(1);
        pthread_cond_timedwait(&j->changed, &j->mutex, &t);
    }
    pthread_mutex_unlock(&j->mutex);
    return rc == 1 ? 0 : rc;
}

static bool etcd_speaks(struct journal *base)
{
    struct etcd_journal *j = (struct etcd_journal *)base;
    pthread_mutex_lock(&j->mutex);
    bool speaks = j->failed.code == 0 && lease_holds(j);
    pthread_mutex_unlock(&j->mutex);
    return speaks;
}

// Returns for how long etcd has been silent: the lease is renewed once a second, so an older
// renewal shows silence.
static uint64_t etcd_silent_ns(struct journal *base)
{
    struct etcd_journal *j = (struct etcd_journal *)base;
    pthread_mutex_lock(&j->mutex);
    uint64_t renewed = j->valid_until - j->ttl_ns, now = etcd_now();
    pthread_mutex_unlock(&j->mutex);
    return now > renewed + 2 * SECOND_NS ? now - renewed : 0;
}

static void etcd_wake_by(struct journal *base, void (*wake)(void *ctx), void *ctx)
{
    struct etcd_journal *j = (struct etcd_journal *)base;
    pthread_mutex_lock(&j->mutex);
    j->wake = wake;
    j->wake_ctx = ctx;
    pthread_mutex_unlock(&j->mutex);
}

static int etcd_replay(struct journal *base,
                       int (*each)(void *ctx, const void *bytes, size_t n, struct err *e),
                       void *ctx, struct err *e)
{
    // The writer does not use j->asks before the first commit.
    return etcd_groups_read((struct etcd_journal *)base, each, ctx, e);
}

static uint64_t etcd_bytes(const struct journal *base)
{
    return ((const struct etcd_journal *)base)->bytes;
}

static void end_threads(struct etcd_journal *j)
{
    pthread_mutex_lock(&j->mutex);
    atomic_store(&j->stop, true);
    pthread_cond_broadcast(&j->changed);
    pthread_mutex_unlock(&j->mutex);
    if (j->threaded)
        pthread_join(j->writer, NULL);
    if (j->beating)
        pthread_join(j->beater, NULL);
}

static void etcd_close(struct journal *base)
{
    struct etcd_journal *j = (struct etcd_journal *)base;
    end_threads(j);
    if (j->asks.post != NULL)
        etcd_lease_give_up(j);
    etcd_client_close(&j->asks);
    etcd_client_close(&j->beats);
    buf_wipe(&j->body);
    buf_wipe(&j->todo);
    pthread_mutex_destroy(&j->mutex);
    pthread_cond_destroy(&j->changed);
    explicit_bzero(&j->place, sizeof(j->place));
    mem_free(j);
}

static const struct journal_ops etcd_ops = {
    .replay = etcd_replay,
    .commit = etcd_commit,
    .replace = etcd_replace,
    .bytes = etcd_bytes,
    .close = etcd_close,
    .ready = etcd_ready,
    .wait = etcd_wait,
    .speaks = etcd_speaks,
    .wake_by = etcd_wake_by,
    .silent_ns = etcd_silent_ns,
};

static int begin_threads(struct etcd_journal *j, struct err *e)
{
    j->threaded = thread_start(&j->writer, writer_main, j) == 0;
    j->beating = thread_start(&j->beater, etcd_lease_keep, j) == 0;
    return j->threaded && j->beating
               ? 0
               : err_set(e, TUG_EIO, "cannot start the threads that write to etcd");
}

static int ignore(void *ctx, const void *bytes, size_t n, struct err *e)
{
    (void)ctx, (void)bytes, (void)n, (void)e;
    return 0;
}

// Sets *ret to whether the cluster has ended since this scheduler began to wait: a
// scheduler leaves an empty log at its cluster's end. The log must be empty, and not the
// log that was there when the wait began.
static int cluster_is_over(struct etcd_journal *j, bool *ret, struct err *e)
{
    TRY(etcd_groups_read(j, ignore, NULL, e));
    *ret = j->log[0] != '\0' && j->bytes == 0 && j->head != j->waited_head;
    return 0;
}

static int take(struct etcd_journal *j, bool *ret_over, struct err *e)
{
    bool waited;
    TRY(etcd_lease_take(j, &waited, e));
    j->asks.interrupt = &never; // from now on, interrupts do not end waits
    TRY(begin_threads(j, e));
    return waited ? cluster_is_over(j, ret_over, e) : 0;
}

int etcd_open(struct journal **ret, const struct etcd_options *o, struct err *e)
{
    bool over = false;
    struct etcd_journal *j = mem_zalloc(sizeof(*j));
    if (j == NULL)
        return err_nomem(e, "the journal");
    j->base.ops = &etcd_ops;
    j->o = *o;
    snprintf(j->about, sizeof(j->about), "%s", o->about);
    pthread_mutex_init(&j->mutex, NULL);
    thread_condition(&j->changed);
    j->body = BUF_INIT((size_t)4 * ETCD_PART_MAX);
    j->todo = BUF_INIT(JOURNAL_GROUP_MAX);
    int rc = etcd_place_read(&j->place, o, e);
    if (rc == 0)
        rc = etcd_client_open(&j->asks, &j->place, &j->o.interrupt, &j->stop, e);
    if (rc == 0)
        rc = etcd_client_open(&j->beats, &j->place, &never, &j->stop, e);
    if (rc == 0)
        rc = take(j, &over, e);
    *ret = rc == 0 && !over ? &j->base : NULL;
    if (*ret == NULL)
        etcd_close(&j->base);
    return rc;
}
