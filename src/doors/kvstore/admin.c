// Workers' requests to a kvstore's server other than pushes and pulls.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "doors/kvstore/server.h"
#include "runtime/last_error.h"

static int check_bytes(const struct kvs_job *j, size_t n, struct err *e)
{
    if (j->n_bytes == n)
        return 0;
    return err_set(e, TUG_EDATA, "request %d has %zu bytes instead of %zu", j->cmd,
                   j->n_bytes, n);
}

static int hello(struct tug_kvstore_server *s, struct kvs_job *j, struct err *e)
{
    struct kvs_hello h;
    TRY(check_bytes(j, sizeof(h), e));
    memcpy(&h, j->bytes, sizeof(h));
    if (s->greeted && s->async != (h.async != 0))
        return err_set(e, TUG_EUSAGE,
                       "another worker opened this store as %s: all must give the same "
                       "type",
                       s->async ? "an asynchronous one" : "a synchronous one");
    s->greeted = true;
    s->async = h.async != 0;
    struct kvs_welcome w = {.recovers = s->known[j->rank]};
    s->known[j->rank] = true;
    kvs_job_answer(s, j, &w, sizeof(w));
    return 0;
}

// Stores a request for a key that was not made yet. Such requests take memory, so a worker
// may wait for at most KVS_WANTED_MAX keys at a time. If a process has taken the rank of a
// dead one, drops the requests of the dead process.
static int want(struct tug_kvstore_server *s, struct kvs_job *j, struct err *e)
{
    struct kvs_job **at = &s->wanted;
    struct err gone;
    int n = 0;
    while (*at != NULL) {
        struct kvs_job *w = *at;
        if (w->rank == j->rank && w->sender != j->sender) {
            *at = w->next;
            err_set(&gone, TUG_EUSAGE, "another process has taken the place of worker %u",
                    w->rank);
            kvs_job_refuse(s, w, &gone);
            continue;
        }
        n += w->rank == j->rank;
        at = &w->next;
    }
    if (n >= KVS_WANTED_MAX)
        return err_set(e, TUG_EUSAGE,
                       "worker %u already waits for %d keys that worker 0 has not made",
                       j->rank, n);
    kvs_job_release(j);
    *at = j;
    return 0;
}

static void answer_meta(struct tug_kvstore_server *s, const struct kvs_value *v,
                        struct kvs_job *j)
{
    struct kvs_meta m = {.dtype = v->a.dtype,
                         .sparse = v->a.sparse,
                         .rows = v->a.rows,
                         .width = v->a.width,
                         .rounds = v->rounds};
    kvs_job_answer(s, j, &m, sizeof(m));
}

// Answers with a key's settings. If the key does not exist yet, stores the request until
// the key is made.
static int meta(struct tug_kvstore_server *s, struct kvs_job *j, struct err *e)
{
    TRY(check_bytes(j, sizeof(j->key), e));
    memcpy(&j->key, j->bytes, sizeof(j->key));
    const struct kvs_value *v = kvs_by_key_find(&s->values.by_key, j->key);
    if (v == NULL)
        return want(s, j, e);
    answer_meta(s, v, j);
    return 0;
}

void kvs_serve_wanted(struct tug_kvstore_server *s, const struct kvs_value *made)
{
    for (struct kvs_job **at = &s->wanted; *at != NULL;) {
        struct kvs_job *j = *at;
        if (j->key != made->key.id) {
            at = &j->next;
            continue;
        }
        *at = j->next;
        answer_meta(s, made, j);
    }
}

static int optimizer(struct tug_kvstore_server *s, struct kvs_job *j, struct err *e)
{
    struct kvs_optimizer o;
    if (s->rule.updater != NULL)
        return err_set(e, TUG_EUSAGE,
                       "the servers have an updater of their own, so an "
                       "optimizer would have no effect");
    char *text = mem_alloc(j->n_bytes + 1);
    if (text == NULL)
        return err_nomem(e, "an optimizer's text");
    if (j->n_bytes > 0) // without bytes the address may be NULL
        memcpy(text, j->bytes, j->n_bytes);
    text[j->n_bytes] = 0;
    int rc = kvs_optimizer_parse(&o, text, e);
    mem_free(text);
    TRY(rc);
    kvs_rule_optimize(&s->rule, &o);
    atomic_store(&s->optimizer_name, kvs_optimizer_name(o.kind));
    kvs_job_answer(s, j, NULL, 0);
    return 0;
}

// Returns the name of the call to use instead of a command of MXNet's own servers.
static const char *of_mxnet(int32_t head)
{
    static const char *const calls[] = {
        ". In MXNet this is kController, with an optimizer: set_optimizer sends that "
        "here",
        ". In MXNet this is kSetMultiPrecision: here it is a field of the optimizer",
        ". In MXNet this is kStopServer: servers end with the last worker here",
        ". In MXNet this is kSyncMode: here the type of the store decides it",
        ". In MXNet this is kSetGradientCompression: set_gradient_compression is the "
        "call",
        ". In MXNet this is kSetProfilerParams: tug profile is the command here",
    };
    bool known = head >= 0 && (size_t)head < sizeof(calls) / sizeof(*calls);
    return known ? calls[head] : "";
}

static int command(struct tug_kvstore_server *s, struct kvs_job *j, struct err *e)
{
    int32_t head;
    if (j->n_bytes < sizeof(head))
        return err_set(e, TUG_EDATA, "the command's request has no head");
    memcpy(&head, j->bytes, sizeof(head));
    if (s->o.controller == NULL)
        return err_set(e, TUG_EUSAGE,
                       "command %d: the servers have no controller; their program "
                       "gives one to tug.kvserver.run (C: tug_kvstore_server_open)%s",
                       head, of_mxnet(head));
    last_error()->text[0] = 0;
    int rc = s->o.controller(s->o.ctx, head, j->bytes + sizeof(head),
                             j->n_bytes - sizeof(head));
    if (rc != 0)
        return err_set(e, rc < 0 ? rc : TUG_EUSAGE,
                       "command %d: the controller failed%s%s", head,
                       last_error()->text[0] != 0 ? ": " : "", last_error()->text);
    kvs_job_answer(s, j, NULL, 0);
    return 0;
}

// Records that a rank has reached the barrier. When all ranks have reached it, answers
// their requests. A process that replaces a dead one has the same rank, so it does not
// count as another one.
static int barrier(struct tug_kvstore_server *s, struct kvs_job *j)
{
    struct kvs_job **at = &s->barrier[j->rank];
    struct err gone;
    if (*at != NULL) { // the request of a dead process; refusing it frees it
        err_set(&gone, TUG_EUSAGE, "worker %u waits at the barrier a second time",
                j->rank);
        kvs_job_refuse(s, *at, &gone);
    }
    *at = j;
    for (uint32_t i = 0; i < s->workers; i++)
        if (s->barrier[i] == NULL)
            return 0;
    for (uint32_t i = 0; i < s->workers; i++) {
        kvs_job_answer(s, s->barrier[i], NULL, 0);
        s->barrier[i] = NULL;
    }
    return 0;
}

static bool has_come(const struct tug_kvstore_server *s, const struct kvs_value *v,
                     uint32_t rank)
{
    if (v == NULL)
        return s->barrier[rank] != NULL;
    return v->round != NULL && v->round->of[rank] != NULL;
}

// Answers with the workers that have not reached the barrier, or have not pushed in the
// open round of a key.
static int who(struct tug_kvstore_server *s, struct kvs_job *j, struct err *e)
{
    struct kvs_who w;
    TRY(check_bytes(j, sizeof(w), e));
    memcpy(&w, j->bytes, sizeof(w));
    const struct kvs_value *v = w.barrier ? NULL
                                          : kvs_by_key_find(&s->values.by_key, w.id);
    struct kvs_missing m = {.made = v != NULL};
    for (uint32_t i = 0; i < s->workers && (v != NULL || w.barrier); i++) {
        if (has_come(s, v, i))
            continue;
        if (m.n < KVS_RANKS_SHOWN)
            m.ranks[m.n] = i;
        m.n++;
    }
    kvs_job_answer(s, j, &m, sizeof(m));
    return 0;
}

static int admin_save(struct tug_kvstore_server *s, struct kvs_job *j, struct err *e)
{
    struct buf b = BUF_INIT(SIZE_MAX / 2);
    TRY(kvs_rule_needs_optimizer(&s->rule, e));
    int rc = kvs_values_write_states(&s->values, &b, e);
    if (rc == 0)
        kvs_job_answer(s, j, b.data, b.len);
    buf_free(&b);
    return rc;
}

static int admin_load(struct tug_kvstore_server *s, struct kvs_job *j, struct err *e)
{
    TRY(kvs_rule_needs_optimizer(&s->rule, e));
    TRY(kvs_values_read_states(&s->values, &s->rule, j->bytes, j->n_bytes,
                               j->cmd == KVS_LOAD, e));
    kvs_job_answer(s, j, NULL, 0);
    return 0;
}

static int admin_serve(struct tug_kvstore_server *s, struct kvs_job *j, struct err *e)
{
    if (j->rank >= s->workers)
        return err_set(e, TUG_EUSAGE,
                       "the request is from worker %u, and there are %u workers", j->rank,
                       s->workers);
    if (j->cmd != KVS_HELLO && !s->known[j->rank])
        return err_set(e, TUG_EUSAGE, "worker %u has not sent hello yet", j->rank);
    switch (j->cmd) {
    case KVS_HELLO:
        return hello(s, j, e);
    case KVS_META:
        return meta(s, j, e);
    case KVS_OPTIMIZER:
        return optimizer(s, j, e);
    case KVS_COMMAND:
        return command(s, j, e);
    case KVS_BARRIER:
        return barrier(s, j);
    case KVS_WHO:
        return who(s, j, e);
    case KVS_SAVE:
        return admin_save(s, j, e);
    case KVS_LOAD:
    case KVS_CHECK:
        return admin_load(s, j, e);
    case KVS_STOP:
        s->stopped = true;
        kvs_job_answer(s, j, NULL, 0);
        return 0;
    default:
        return err_set(e, TUG_EDATA, "there is no request %d", j->cmd);
    }
}

void kvs_serve_admin(struct tug_kvstore_server *s, struct kvs_job *j)
{
    struct err e;
    if (admin_serve(s, j, &e) != 0)
        kvs_job_refuse(s, j, &e);
}
