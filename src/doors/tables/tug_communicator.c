// Communicators (tug/communicator.h): a bounded queue of pushes for each table, and a
// thread that merges queued pushes into one and sends it by tug_push.
//
// One mutex guards the queues. The thread holds it while it takes pushes out of them,
// not while it sends. In each round it sends one merged push for every table that has
// queued pushes, and waits until all of these have ended. Pushes that are queued
// meanwhile go into the next round.
//
// SPDX-License-Identifier: Apache-2.0
#include "tug/communicator.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/finite.h"
#include "doors/tables/tug_client.h"
#include "os/clock.h"
#include "os/thread.h"
#include "rule/rule.h"
#include "runtime/interrupt.h"

enum { QUEUE = 16, MERGED_BYTES = 8 << 20 };

// A push that the program has queued. The keys, and then the values, follow this struct in
// the same block of memory.
struct parcel {
    struct parcel *next;
    size_t n;
    uint64_t keys[];
};

struct queue {
    struct tug_communicator_table o;
    uint32_t width;
    // For each group: whether its gradients are divided by the number of merged pushes.
    bool averaged[ACCESSOR_MAX_GROUPS];
    uint32_t columns[ACCESSOR_MAX_GROUPS];
    struct parcel *first, **end;
    uint64_t ended; // number of queued pushes whose merged push has ended
    struct tug_communicator_stats stats;

    // Used only by the communicator's thread: the pushes that it has taken from the queue,
    // and the keys and values of the merged push.
    struct parcel *taken;
    uint32_t n_taken;
    uint64_t *keys;
    float *values;
    size_t cap; // number of keys for which `keys` and `values` have memory
    uint64_t ts;
    int rc;
    struct err why;
};

struct tug_communicator {
    struct tug_client *client;
    struct queue *queues;
    size_t n;
    pthread_mutex_t mutex;
    // `work` is signalled when a push was queued; `room`, when a push was taken from a
    // queue; `done`, when a push has ended.
    pthread_cond_t work, room, done;
    pthread_t thread;
    bool running, stopping;
    struct err why; // error of the first failed push; code 0 after it was returned
};

static float *values_of(struct parcel *p)
{
    return (float *)(void *)(p->keys + p->n);
}

// ---------------------------------------------------------------- merging

static size_t communicator_bytes_of(const struct queue *q, size_t keys)
{
    return keys * (sizeof(uint64_t) + q->width * sizeof(float));
}

static int communicator_reserve(struct queue *q, size_t keys)
{
    if (keys <= q->cap)
        return 0;
    mem_free(q->keys);
    mem_free(q->values);
    q->keys = mem_array(keys + keys / 2, sizeof(*q->keys));
    q->values = mem_array((keys + keys / 2) * q->width, sizeof(*q->values));
    bool good = q->keys != NULL && q->values != NULL;
    q->cap = good ? keys + keys / 2 : 0;
    return good ? 0 : err_nomem(last_error(), "pushes that are put into one");
}

// Divides the gradients of all keys by the number of merged pushes.
static void average(const struct queue *q, size_t keys)
{
    float by = 1 / (float)q->n_taken;
    for (size_t i = 0; i < keys; i++) {
        float *at = q->values + i * q->width;
        for (size_t g = 0; g < ACCESSOR_MAX_GROUPS; at += q->columns[g++])
            for (uint32_t c = 0; q->averaged[g] && c < q->columns[g]; c++)
                at[c] *= by;
    }
}

// Sends all pushes that were taken from the queue as one. tug_push adds up the values of
// keys that repeat.
static int send_merged(struct tug_client *c, struct queue *q)
{
    size_t keys = 0, at = 0;
    for (const struct parcel *p = q->taken; p != NULL; p = p->next)
        keys += p->n;
    TRY(communicator_reserve(q, keys));
    for (struct parcel *p = q->taken; p != NULL; at += p->n, p = p->next) {
        memcpy(q->keys + at, p->keys, p->n * sizeof(*p->keys));
        memcpy(q->values + at * q->width, values_of(p),
               p->n * q->width * sizeof(*q->values));
    }
    if (q->o.grad_reduce == TUG_GRAD_MEAN)
        average(q, keys);
    return tug_push(c, q->o.table, q->keys, keys, q->values, NULL, NULL, &q->ts);
}

static int send_taken(struct tug_client *c, struct queue *q)
{
    struct parcel *p = q->taken;
    TRY(calls_check_push(c, q->o.table, q->width));
    if (p->next != NULL)
        return send_merged(c, q);
    return tug_push(c, q->o.table, p->keys, p->n, values_of(p), NULL, NULL, &q->ts);
}

static void free_parcels(struct parcel *p)
{
    for (struct parcel *next; p != NULL; p = next) {
        next = p->next;
        mem_free(p);
    }
}

// ---------------------------------------------------------------- the thread

// Takes pushes from the queue, as many as may be merged into one.
static void communicator_take(struct queue *q)
{
    struct parcel **at = &q->first;
    size_t keys = 0;
    q->n_taken = 0;
    while (
        *at != NULL && q->n_taken < q->o.merge &&
        (q->n_taken == 0 || communicator_bytes_of(q, keys + (*at)->n) <= MERGED_BYTES)) {
        keys += (*at)->n;
        at = &(*at)->next;
        q->n_taken++;
    }
    struct parcel *rest = *at;
    *at = NULL;
    q->taken = q->first;
    q->first = rest;
    if (rest == NULL)
        q->end = &q->first;
    q->stats.queued -= q->n_taken;
}

static bool take_all(struct tug_communicator *m)
{
    bool any = false;
    for (size_t i = 0; i < m->n; i++) {
        communicator_take(&m->queues[i]);
        any |= m->queues[i].n_taken > 0;
    }
    pthread_cond_broadcast(&m->room);
    return any;
}

static void send_all(struct tug_communicator *m)
{
    for (size_t i = 0; i < m->n; i++) {
        struct queue *q = &m->queues[i];
        q->rc = q->n_taken > 0 ? send_taken(m->client, q) : 0;
        if (q->rc != 0)
            q->why = *last_error();
    }
    for (size_t i = 0; i < m->n; i++) {
        struct queue *q = &m->queues[i];
        if (q->n_taken > 0 && q->rc == 0) {
            q->rc = calls_wait_or_cancel(m->client, q->ts);
            if (q->rc != 0)
                q->why = *last_error();
        }
        free_parcels(q->taken);
        q->taken = NULL;
    }
}

static void note_all(struct tug_communicator *m)
{
    for (size_t i = 0; i < m->n; i++) {
        struct queue *q = &m->queues[i];
        q->ended += q->n_taken;
        q->stats.sent += q->n_taken > 0;
        q->stats.failed += q->rc != 0;
        if (q->rc != 0 && m->why.code == 0)
            m->why = q->why;
    }
    pthread_cond_broadcast(&m->done);
}

static void *communicator_run(void *arg)
{
    struct tug_communicator *m = arg;
    pthread_mutex_lock(&m->mutex);
    while (!m->stopping) {
        if (!take_all(m)) {
            pthread_cond_wait(&m->work, &m->mutex);
            continue;
        }
        pthread_mutex_unlock(&m->mutex);
        send_all(m);
        pthread_mutex_lock(&m->mutex);
        note_all(m);
    }
    pthread_mutex_unlock(&m->mutex);
    return NULL;
}

// ---------------------------------------------------------------- opening

// Checks that pushes to the table may be merged: those of rules assign and average cannot
// be added up.
static int check_rules(const struct queue *q, const struct accessor *a, struct err *e)
{
    for (uint32_t g = 0; g < a->n_groups && q->o.merge > 1; g++) {
        const struct rule_info *rule = rule_info(a->groups[g].rule.kind);
        if (rule->reduce == RULE_LAST || rule->reduce == RULE_MEAN)
            return err_set(e, TUG_EUSAGE,
                           "pushes of table %u cannot be merged, because its rule is %s: "
                           "set 'merge' to 1",
                           q->o.table, rule->name);
    }
    return 0;
}

static int open_queue(struct tug_communicator *m, size_t i,
                      const struct tug_communicator_table *o)
{
    struct queue *q = &m->queues[i];
    struct table_spec s;
    struct err *e = last_error();
    for (size_t k = 0; k < i; k++)
        if (m->queues[k].o.table == o->table)
            return err_set(e, TUG_EUSAGE, "table %u is listed twice", o->table);
    if (o->grad_reduce != TUG_GRAD_SUM && o->grad_reduce != TUG_GRAD_MEAN)
        return err_set(e, TUG_EUSAGE, "table %u: grad_reduce %d is neither sum nor mean",
                       o->table, (int)o->grad_reduce);
    TRY(calls_spec(m->client, o->table, &s));
    q->o = *o;
    q->o.queue = o->queue > 0 ? o->queue : QUEUE;
    q->o.merge = o->merge > 0 ? o->merge : q->o.queue;
    q->width = s.accessor.push_width;
    q->end = &q->first;
    for (uint32_t g = 0; g < s.accessor.n_groups; g++) {
        const struct accessor_group *group = &s.accessor.groups[g];
        q->columns[g] = group->n;
        q->averaged[g] = rule_info(group->rule.kind)->reduce == RULE_STEP;
    }
    return check_rules(q, &s.accessor, e);
}

int tug_communicator_open(struct tug_communicator **ret, struct tug_client *c,
                          const struct tug_communicator_table *tables, size_t n)
{
    if (n == 0)
        return err_set(last_error(), TUG_EUSAGE,
                       "a communicator needs at least one table");
    struct tug_communicator *m = mem_zalloc(sizeof(*m));
    if (m == NULL)
        return err_nomem(last_error(), "a communicator");
    pthread_mutex_init(&m->mutex, NULL);
    thread_condition(&m->work);
    thread_condition(&m->room);
    thread_condition(&m->done);
    m->client = c;
    m->n = n;
    m->queues = mem_zalloc(n * sizeof(*m->queues));
    int rc = m->queues != NULL ? 0
                               : err_nomem(last_error(), "the queues of a communicator");
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = open_queue(m, i, &tables[i]);
    if (rc != 0)
        (void)tug_communicator_close(m);
    else
        *ret = m;
    return rc;
}

int tug_communicator_start(struct tug_communicator *m)
{
    int rc = 0;
    pthread_mutex_lock(&m->mutex);
    if (m->running) { // the thread runs, or tug_communicator_stop waits for its end
        rc = err_set(last_error(), TUG_EUSAGE, "the communicator runs already");
    } else {
        m->stopping = false;
        m->running = thread_start(&m->thread, communicator_run, m) == 0;
        if (!m->running)
            rc = err_set(last_error(), TUG_EIO,
                         "cannot start the thread of a communicator");
    }
    pthread_mutex_unlock(&m->mutex);
    return rc;
}

// Ends the thread. The first caller joins the thread; other callers wait until the first
// caller has done so.
static void end_thread(struct tug_communicator *m)
{
    pthread_mutex_lock(&m->mutex);
    bool joins = m->running && !m->stopping;
    m->stopping = true;
    pthread_cond_signal(&m->work);
    while (!joins && m->running)
        pthread_cond_wait(&m->done, &m->mutex);
    pthread_mutex_unlock(&m->mutex);
    if (!joins)
        return;
    pthread_join(m->thread, NULL);
    pthread_mutex_lock(&m->mutex);
    m->running = false;
    pthread_cond_broadcast(&m->done);
    pthread_mutex_unlock(&m->mutex);
}

int tug_communicator_close(struct tug_communicator *m)
{
    if (m == NULL)
        return 0;
    TRY(calls_may_wait(m->client));
    end_thread(m);
    for (size_t i = 0; m->queues != NULL && i < m->n; i++) {
        free_parcels(m->queues[i].first);
        mem_free(m->queues[i].keys);
        mem_free(m->queues[i].values);
    }
    mem_free(m->queues);
    pthread_cond_destroy(&m->done);
    pthread_cond_destroy(&m->room);
    pthread_cond_destroy(&m->work);
    pthread_mutex_destroy(&m->mutex);
    mem_free(m);
    return 0;
}

// ---------------------------------------------------------------- use

static struct queue *communicator_find(struct tug_communicator *m, uint32_t table)
{
    for (size_t i = 0; i < m->n; i++)
        if (m->queues[i].o.table == table)
            return &m->queues[i];
    err_set(last_error(), TUG_EUSAGE, "the communicator has no table %u", table);
    return NULL;
}

static struct parcel *pack(const struct queue *q, const uint64_t *keys, size_t n,
                           const float *values)
{
    struct parcel *p = mem_alloc(sizeof(*p) + communicator_bytes_of(q, n));
    if (p == NULL) {
        err_nomem(last_error(), "a push that waits to be sent");
        return NULL;
    }
    p->next = NULL;
    p->n = n;
    memcpy(p->keys, keys, n * sizeof(*keys));
    memcpy(values_of(p), values, n * q->width * sizeof(*values));
    return p;
}

static double seconds_of(const struct tug_communicator *m, double seconds)
{
    return seconds > 0 ? seconds : m->client->o.wait_seconds;
}

// Waits on a condition until `end` (clock_seconds). Returns 0, ETIMEDOUT, or EINTR if the
// program interrupts the wait. The caller holds the mutex, which is released while the
// program's interrupt function runs.
static int wait_on(struct tug_communicator *m, pthread_cond_t *condition, double end)
{
    double left = end - clock_seconds(), ask = (double)INTERRUPT_ASK_NS * 1e-9;
    if (left <= 0)
        return ETIMEDOUT;
    bool asks = interrupt_is_set();
    struct timespec until = clock_deadline(asks && left > ask ? ask : left);
    if (pthread_cond_timedwait(condition, &m->mutex, &until) != ETIMEDOUT || !asks)
        return 0;
    pthread_mutex_unlock(&m->mutex);
    bool came = interrupt_ask();
    pthread_mutex_lock(&m->mutex);
    return came ? EINTR : 0;
}

// Waits until the queue has room, or an earlier push has failed. The caller holds the
// mutex.
static int wait_for_room(struct tug_communicator *m, struct queue *q, double seconds)
{
    if (m->why.code == 0 && q->stats.queued < q->o.queue)
        return 0;
    if (m->why.code == 0 && pump_working(m->client->pump))
        return err_set(last_error(), TUG_EUSAGE,
                       "a callback must not wait: the queue of table %u is full",
                       q->o.table);
    double begin = clock_seconds();
    int rc = 0;
    while (m->why.code == 0 && q->stats.queued >= q->o.queue && rc == 0)
        rc = wait_on(m, &m->room, begin + seconds);
    q->stats.waits++;
    q->stats.waited_seconds += clock_seconds() - begin;
    if (m->why.code != 0)
        return last_error_is(&m->why);
    if (q->stats.queued < q->o.queue)
        return 0;
    if (rc == EINTR)
        return err_set(last_error(), TUG_EINTERRUPTED,
                       "interrupted while the queue of table %u was full", q->o.table);
    return err_set(last_error(), TUG_EIO,
                   "the queue of table %u has been full for %.3g s with %u pushes%s",
                   q->o.table, seconds, q->o.queue,
                   m->running ? "" : ": the communicator was not started");
}

bool tug_communicator_is_running(struct tug_communicator *m)
{
    pthread_mutex_lock(&m->mutex);
    bool running = m->running;
    pthread_mutex_unlock(&m->mutex);
    return running;
}

int tug_communicator_send(struct tug_communicator *m, uint32_t table,
                          const uint64_t *keys, size_t n, const float *values,
                          double seconds)
{
    struct queue *q = communicator_find(m, table);
    if (q == NULL)
        return TUG_EUSAGE;
    bool bf16 = m->client->o.bf16;
    if (!(bf16 ? finite_when_bf16 : finite_floats)(values, n * q->width))
        return err_set(last_error(), TUG_EUSAGE,
                       "a push of %zu keys to table %u has a value that is %s", n, table,
                       bf16 ? "not finite, or not as bf16" : "not finite");
    if (n == 0)
        return 0;
    struct parcel *p = pack(q, keys, n, values);
    if (p == NULL)
        return TUG_ENOMEM;
    pthread_mutex_lock(&m->mutex);
    int rc = wait_for_room(m, q, seconds_of(m, seconds));
    if (rc == 0) {
        *q->end = p;
        q->end = &p->next;
        q->stats.queued++;
        q->stats.taken++;
        pthread_cond_signal(&m->work);
    }
    pthread_mutex_unlock(&m->mutex);
    if (rc != 0)
        mem_free(p);
    return rc;
}

// Waits until the queued pushes of all tables have ended, table after table. If other
// threads queue pushes during the wait, it may take longer. The caller holds the mutex.
static int wait_until_ended(struct tug_communicator *m, double seconds)
{
    double end = clock_seconds() + seconds;
    for (size_t i = 0; i < m->n; i++) {
        const struct queue *q = &m->queues[i];
        uint64_t all = q->stats.taken;
        int rc = 0;
        if (q->ended < all && !m->running)
            return err_set(last_error(), TUG_EUSAGE,
                           "the queued pushes to table %u are not sent: the communicator "
                           "was not started",
                           q->o.table);
        while (q->ended < all && rc == 0)
            rc = wait_on(m, &m->done, end);
        if (q->ended < all && rc == EINTR)
            return err_set(last_error(), TUG_EINTERRUPTED,
                           "interrupted: %llu pushes to table %u are not done",
                           (unsigned long long)(all - q->ended), q->o.table);
        if (q->ended < all)
            return err_set(last_error(), TUG_EIO,
                           "%llu pushes to table %u are not done after %.3g s",
                           (unsigned long long)(all - q->ended), q->o.table, seconds);
    }
    return 0;
}

// Returns the error of a failed push if it was not returned before, else `rc`.
static int communicator_tell(struct tug_communicator *m, int rc)
{
    struct err why = m->why;
    m->why = (struct err){0};
    return why.code != 0 ? last_error_is(&why) : rc;
}

int tug_communicator_flush(struct tug_communicator *m, double seconds)
{
    TRY(calls_may_wait(m->client));
    pthread_mutex_lock(&m->mutex);
    int rc = communicator_tell(m, wait_until_ended(m, seconds_of(m, seconds)));
    pthread_mutex_unlock(&m->mutex);
    return rc;
}

int tug_communicator_stop(struct tug_communicator *m, double seconds)
{
    int rc = tug_communicator_flush(m, seconds);
    if (!pump_working(m->client->pump))
        end_thread(m);
    return rc;
}

int tug_communicator_stat(struct tug_communicator *m, uint32_t table,
                          struct tug_communicator_stats *ret)
{
    const struct queue *q = communicator_find(m, table);
    if (q == NULL)
        return TUG_EUSAGE;
    pthread_mutex_lock(&m->mutex);
    *ret = q->stats;
    pthread_mutex_unlock(&m->mutex);
    return 0;
}
