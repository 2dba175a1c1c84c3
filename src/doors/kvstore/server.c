// Opens, runs and closes a kvstore's server or scheduler. Handlers of kvapp run on a
// thread of the library. They only queue requests, which the program's own thread serves,
// so that updaters and controllers need no locks and may belong to an interpreter that
// must run on the main thread.
//
// SPDX-License-Identifier: Apache-2.0
#include "doors/kvstore/server.h"

#include <string.h>

#include "base/alloc.h"
#include "base/json_out.h"
#include "doors/kvapp/above.h"
#include "doors/kvstore/block.h"
#include "doors/kvstore/kvstore_internal.h"
#include "os/clock.h"
#include "os/thread.h"
#include "runtime/interrupt.h"

#define LOOK_SECONDS 0.2 // time between checks whether the cluster has ended

// ---------------------------------------------------------------- jobs

void kvs_job_release(struct kvs_job *j)
{
    if (j->kept != NULL)
        tug_app_release(j->kept);
    j->kept = NULL;
}

void kvs_job_free(struct kvs_job *j)
{
    kvs_job_release(j);
    mem_free(j);
}

// Answers and frees a job. Ignores errors, because the worker may have left.
void kvs_job_answer(struct tug_kvstore_server *s, struct kvs_job *j, const void *bytes,
                    size_t n)
{
    struct tug_kv_data d = {.n_keys = 1, .values = bytes, .n_values = n / sizeof(float)};
    if (j->simple)
        (void)tug_app_answer(s->app, j->ticket, bytes, n);
    else
        (void)tug_kv_answer(s->app, j->ticket, &d, NULL, NULL);
    kvs_job_free(j);
}

void kvs_job_answer_block(struct tug_kvstore_server *s, struct kvs_job *j, void *block,
                          size_t n)
{
    struct tug_kv_data d = {.n_keys = 1, .values = block, .n_values = n / sizeof(float)};
    (void)tug_kv_answer(s->app, j->ticket, &d, kvs_block_release, block);
    kvs_job_free(j);
}

void kvs_job_refuse(struct tug_kvstore_server *s, struct kvs_job *j, const struct err *e)
{
    (void)tug_app_refuse(s->app, j->ticket, e->code, e->text);
    kvs_job_free(j);
}

// Queues a job. `a` is the customer, because requests may arrive before tug_app_open has set
// s->app.
static void queue(struct tug_kvstore_server *s, struct tug_app *a,
                  const struct kvs_job *of)
{
    struct kvs_job *j = mem_alloc(sizeof(*j));
    if (j == NULL) {
        (void)tug_app_refuse(a, of->ticket, TUG_ENOMEM,
                             "the server has no memory for a request");
        return;
    }
    *j = *of;
    // A late message of a dead worker gets no rank, because another worker may have taken
    // the rank.
    j->rank = kv_worker_rank(s->node, j->sender);
    j->kept = tug_app_keep(a, j->ticket);
    pthread_mutex_lock(&s->lock);
    if (s->last != NULL)
        s->last->next = j;
    else
        s->first = j;
    s->last = j;
    pthread_cond_signal(&s->more);
    pthread_mutex_unlock(&s->lock);
}

static void on_request(void *ctx, struct tug_app *a, const struct tug_simple *q)
{
    queue(ctx, a,
          &(struct kvs_job){.simple = true,
                            .sender = q->sender,
                            .ticket = q->ticket,
                            .cmd = q->head,
                            .bytes = q->body,
                            .n_bytes = q->body_bytes});
}

static void on_kv(void *ctx, struct tug_app *a, const struct tug_kv_meta *m,
                  const struct tug_kv_data *d)
{
    if (d->n_keys != 1) {
        (void)tug_app_refuse(a, m->ticket, TUG_EDATA,
                             "a request must have exactly one key");
        return;
    }
    if (d->value_bytes != 0) {
        (void)tug_app_refuse(a, m->ticket, TUG_EDATA,
                             "a request must consist of 4-byte words");
        return;
    }
    queue(ctx, a,
          &(struct kvs_job){.sender = m->sender,
                            .ticket = m->ticket,
                            .cmd = m->cmd,
                            .push = m->push,
                            .pull = m->pull,
                            .key = d->keys[0],
                            .bytes = (const char *)d->values,
                            .n_bytes = d->n_values * sizeof(float)});
}

// ---------------------------------------------------------------- opening and closing

static void put_facts(void *ctx, struct json_out *o)
{
    struct tug_kvstore_server *s = ctx;
    json_out_u64(o, "stored_keys", atomic_load(&s->n_keys));
    json_out_u64(o, "merged_pushes", atomic_load(&s->merged));
    json_out_text(o, "optimizer", atomic_load(&s->optimizer_name));
}

int kvs_server_attach(struct tug_kvstore_server *s)
{
    const struct tug_app_handlers h = {.request = on_request, .kv = on_kv, .ctx = s};
    s->known = mem_zalloc(s->workers * sizeof(*s->known));
    s->barrier = mem_zalloc(s->workers * sizeof(struct kvs_job *));
    if (s->known == NULL || s->barrier == NULL)
        return err_nomem(last_error(), "a server");
    s->rule = (struct kvs_rule){.updater = s->o.updater, .ctx = s->o.ctx};
    s->rule.optimizer.stream = tug_node_rank(s->node);
    if (s->schedules)
        return 0;
    kv_facts_of(s->node, &(struct kv_above){"kvstore", put_facts, s});
    return tug_app_open(&s->app, s->node, KVS_APP, KVS_APP, &h);
}

static int open_server(struct tug_kvstore_server *s,
                       const struct tug_kvstore_server_options *o)
{
    int role;
    if (o != NULL)
        s->o = *o;
    TRY(kvs_role(s->o.node, &role, last_error()));
    if (role == TUG_GROUP_WORKERS)
        return err_set(last_error(), TUG_EUSAGE,
                       "this process is a worker: only servers and schedulers serve");
    TRY(tug_node_start(&s->node, s->o.node));
    s->schedules = role == TUG_GROUP_SCHEDULER;
    s->workers = tug_node_workers(s->node);
    return kvs_server_attach(s);
}

int tug_kvstore_server_open(struct tug_kvstore_server **ret,
                            const struct tug_kvstore_server_options *o)
{
    struct tug_kvstore_server *s = mem_zalloc(sizeof(*s));
    if (s == NULL)
        return err_nomem(last_error(), "a server");
    pthread_mutex_init(&s->lock, NULL);
    thread_condition(&s->more);
    int rc = open_server(s, o);
    if (rc != 0) {
        struct err e = *last_error();
        s->stopped = true;
        (void)tug_kvstore_server_close(s);
        return last_error_is(&e);
    }
    *ret = s;
    return 0;
}

// Takes the next job; NULL if none arrived within `seconds`.
static struct kvs_job *next_job(struct tug_kvstore_server *s, double seconds)
{
    struct timespec until = clock_deadline(seconds);
    pthread_mutex_lock(&s->lock);
    while (s->first == NULL && pthread_cond_timedwait(&s->more, &s->lock, &until) == 0)
        ;
    struct kvs_job *j = s->first;
    if (j != NULL) {
        s->first = j->next;
        if (s->first == NULL)
            s->last = NULL;
        j->next = NULL;
    }
    pthread_mutex_unlock(&s->lock);
    return j;
}

bool kvs_serve_next(struct tug_kvstore_server *s, double seconds)
{
    struct kvs_job *j = next_job(s, seconds);
    if (j == NULL)
        return false;
    if (j->simple)
        kvs_serve_admin(s, j);
    else
        kvs_serve_data(s, j);
    return true;
}

// Returns TUG_EINTERRUPTED if the program interrupts this thread, or has interrupted an
// earlier call.
static int look_for_interrupt(struct tug_kvstore_server *s, struct err *e)
{
    s->interrupted = s->interrupted || (interrupt_is_set() && interrupt_ask());
    return s->interrupted
               ? err_set(e, TUG_EINTERRUPTED, "interrupted while the cluster was running")
               : 0;
}

int tug_kvstore_server_run(struct tug_kvstore_server *s, double seconds, bool *ret_over)
{
    uint64_t until = clock_ns() + clock_ns_of(seconds), now = clock_ns();
    while (!s->stopped && now < until) {
        double left = (double)(until - now) / 1e9;
        if (now >=
            s->ask_at) { // not for each request, because the check calls the program
            s->ask_at = now + INTERRUPT_ASK_NS;
            TRY(look_for_interrupt(s, last_error()));
        }
        if (!kvs_serve_next(s, left < LOOK_SECONDS ? left : LOOK_SECONDS))
            s->stopped = kv_is_over(s->node);
        now = clock_ns();
    }
    *ret_over = s->stopped;
    return 0;
}

static void free_jobs(struct tug_kvstore_server *s)
{
    for (struct kvs_job *j; (j = next_job(s, 0)) != NULL;)
        kvs_job_free(j);
    for (uint32_t i = 0; s->barrier != NULL && i < s->workers; i++)
        if (s->barrier[i] != NULL)
            kvs_job_free(s->barrier[i]);
    for (struct kvs_job *j; (j = s->wanted) != NULL; kvs_job_free(j))
        s->wanted = j->next;
    for (size_t i = 0; i < s->values.by_key.n; i++)
        kvs_round_free(s, s->values.by_key.list[i]);
}

void kvs_server_free_memory(struct tug_kvstore_server *s)
{
    kvs_values_free(&s->values);
    kvs_optimizer_free(&s->rule.optimizer);
    kvs_rows_free(&s->decoded);
    mem_free(s->known);
    mem_free(s->barrier);
}

void kvs_server_detach(struct tug_kvstore_server *s)
{
    kv_facts_of(s->node, &(struct kv_above){NULL, NULL, NULL});
    (void)tug_app_close(s->app); // after this, no request arrives
    free_jobs(s);
}

int tug_kvstore_server_close(struct tug_kvstore_server *s)
{
    int rc = 0;
    if (s == NULL)
        return 0;
    if (s->node != NULL) {
        struct err why;
        // Before their requests are refused, the workers must get the interruption as the
        // error.
        if (!s->stopped && look_for_interrupt(s, &why) != 0)
            kv_break_off(s->node, &why);
        kvs_server_detach(s);
        rc = tug_node_finalize(s->node, false);
    }
    kvs_server_free_memory(s);
    pthread_cond_destroy(&s->more);
    pthread_mutex_destroy(&s->lock);
    mem_free(s);
    return rc;
}

int tug_kvstore_serve(const struct tug_kvstore_server_options *o)
{
    struct tug_kvstore_server *s;
    bool over = false;
    TRY(tug_kvstore_server_open(&s, o));
    int rc = 0;
    while (!over && rc == 0)
        rc = tug_kvstore_server_run(s, 3600, &over);
    struct err e = *last_error();
    // Closing also asks whether the program interrupts, so it may return another error.
    int closed = tug_kvstore_server_close(s);
    return rc != 0 ? last_error_is(&e) : closed;
}
