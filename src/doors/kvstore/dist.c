// A kvstore's worker in a cluster: joining, requests other than pushes and pulls,
// barriers, leaving.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "doors/kvapp/above.h"
#include "doors/kvstore/kvstore_internal.h"
#include "os/clock.h"
#include "runtime/environment.h"

// Stores an answer until kvs_dist_reply takes it. kvapp ends the wait for a request only
// after this handler has run.
static void on_response(void *ctx, struct tug_app *a, const struct tug_simple *q)
{
    struct tug_kvstore *s = ctx;
    (void)a;
    struct kvs_reply *r = mem_alloc(sizeof(*r) + q->body_bytes);
    if (r == NULL)
        return; // memory is short: kvs_dist_reply will find no answer
    r->timestamp = q->timestamp;
    r->sender = q->sender;
    r->n = q->body_bytes;
    if (r->n > 0)
        memcpy(r->bytes, q->body, r->n);
    r->next = s->replies;
    s->replies = r;
}

struct kvs_reply *kvs_dist_reply(struct tug_kvstore *s, uint32_t timestamp,
                                 uint32_t server)
{
    uint32_t id = s->places[server].id;
    for (struct kvs_reply **at = &s->replies; *at != NULL; at = &(*at)->next) {
        struct kvs_reply *r = *at;
        if (r->timestamp != timestamp || r->sender != id)
            continue;
        *at = r->next;
        return r;
    }
    return NULL;
}

// Copies a server's reply into *ret, which has n bytes; the reply must have the same size.
static int take_reply(struct tug_kvstore *s, uint32_t timestamp, uint32_t server,
                      void *ret, size_t n)
{
    struct kvs_reply *r = kvs_dist_reply(s, timestamp, server);
    int rc = r != NULL && r->n == n
                 ? 0
                 : err_set(last_error(), TUG_EDATA,
                           "server %u does not answer as a server of a kvstore does",
                           server);
    if (rc == 0)
        memcpy(ret, r->bytes, n);
    mem_free(r);
    return rc;
}

int kvs_dist_usable(const struct tug_kvstore *s)
{
    return s->failed.code != 0 ? last_error_is(&s->failed) : 0;
}

// Adds the name of the first dead worker, if there is one, to the error: probably the
// servers waited for this worker.
static void name_lost(struct tug_kvstore *s, struct err *e)
{
    char name[ROSTER_NAME_MAX];
    if (kv_lost(s->node, TUG_GROUP_WORKERS, name) > 0)
        (void)err_wrap(e, "%s has died or left, and no other process has taken its rank",
                       name);
}

// Ends the store after a wait was given up: the caller may now reuse the memory of the
// request, so no answer may be written to it any more.
static void fail(struct tug_kvstore *s)
{
    name_lost(s, last_error());
    s->failed = *last_error();
    (void)err_wrap(&s->failed, "this store cannot be used any more, because one of its "
                               "waits was interrupted or timed out");
    kv_give_up(s->app);
    (void)tug_app_close(s->app);
    s->app = NULL;
    s->under_way = 0;
    for (size_t i = 0; i < s->entries.n; i++) {
        struct kvs_entry *x = s->entries.list[i];
        x->sent = 0;
        for (uint32_t k = 0; k < x->n_pieces; k++)
            x->pieces[k].pending = false;
    }
}

int kvs_dist_wait(struct tug_kvstore *s, uint32_t timestamp, const struct kvs_awaited *w)
{
    TRY(kvs_dist_usable(s));
    int rc = kvs_who_wait(s, timestamp, w);
    if (rc != 0 && kv_is_under_way(s->app, timestamp))
        fail(s);
    return rc;
}

int kvs_dist_ask(struct tug_kvstore *s, enum kvs_ask what, int server, const void *body,
                 size_t n, uint32_t *ret_timestamp)
{
    TRY(kvs_dist_usable(s));
    uint32_t to = server == KVS_ALL_SERVERS ? TUG_GROUP_SERVERS : s->places[server].id;
    return tug_app_request(s->app, (int32_t)what, body, n, to, ret_timestamp);
}

int kvs_dist_tell(struct tug_kvstore *s, enum kvs_ask what, int server, const void *body,
                  size_t n)
{
    uint32_t ts;
    TRY(kvs_dist_ask(s, what, server, body, n, &ts));
    const struct kvs_awaited w = {.what = KVS_AWAIT_BARRIER};
    int rc = kvs_dist_wait(s, ts, what == KVS_BARRIER ? &w : NULL);
    for (uint32_t i = 0; i < s->servers; i++)
        mem_free(kvs_dist_reply(s, ts, i));
    return rc;
}

int kvs_dist_meta(struct tug_kvstore *s, const struct kvs_entry *x,
                  const struct kvs_piece *p, struct kvs_meta *ret)
{
    const struct kvs_awaited w = {KVS_AWAIT_INIT, p->server, p->id, x->key.text};
    uint32_t ts;
    TRY(kvs_dist_ask(s, KVS_META, (int)p->server, &p->id, sizeof(p->id), &ts));
    TRY(kvs_dist_wait(s, ts, &w));
    return take_reply(s, ts, p->server, ret, sizeof(*ret));
}

// ---------------------------------------------------------------- joining

int kvs_role(const struct tug_node_options *o, int *ret, struct err *e)
{
    struct tug_node_options all = o != NULL ? *o : (struct tug_node_options){0};
    struct role r;
    TRY(environment_fill(&all, &r, e));
    *ret = all.role;
    return 0;
}

static int check_role(const struct tug_node_options *o, struct err *e)
{
    int role;
    TRY(kvs_role(o, &role, e));
    if (role == TUG_GROUP_WORKERS)
        return 0;
    return err_set(e, TUG_EUSAGE,
                   "this process is %s: only workers open stores; servers and the "
                   "scheduler call tug_kvstore_serve",
                   role == TUG_GROUP_SERVERS ? "a server" : "the scheduler");
}

static int find_servers(struct tug_kvstore *s)
{
    uint32_t n = tug_node_servers(s->node);
    uint64_t last;
    s->places = mem_zalloc(n * sizeof(*s->places));
    uint32_t *ids = mem_array(n, sizeof(*ids));
    int rc = s->places == NULL || ids == NULL
                 ? err_nomem(last_error(), "a list of servers")
                 : 0;
    if (rc == 0 && tug_node_ids(s->node, TUG_GROUP_SERVERS, ids, n) != n)
        rc = err_set(last_error(), TUG_EIO,
                     "a server left or died before the store was open");
    for (uint32_t i = 0; i < n && rc == 0; i++) {
        s->places[i].id = ids[i];
        rc = tug_node_range(s->node, i, &s->places[i].first_key, &last);
    }
    mem_free(ids);
    s->servers = n;
    return rc;
}

static int greet(struct tug_kvstore *s)
{
    struct kvs_hello h = {.async = s->async, .workers = s->workers};
    struct kvs_welcome w;
    uint32_t ts;
    TRY(kvs_dist_ask(s, KVS_HELLO, KVS_ALL_SERVERS, &h, sizeof(h), &ts));
    TRY(kvs_dist_wait(s, ts, NULL));
    for (uint32_t i = 0; i < s->servers; i++) {
        TRY(take_reply(s, ts, i, &w, sizeof(w)));
        s->recovers |= w.recovers != 0;
    }
    return 0;
}

static int open_dist(struct tug_kvstore *s, const struct tug_node_options *o)
{
    const struct tug_app_handlers h = {.response = on_response, .ctx = s};
    TRY(check_role(o, last_error()));
    TRY(environment_needs_servers(last_error()));
    TRY(tug_node_start(&s->node, o));
    s->rank = tug_node_rank(s->node);
    s->workers = tug_node_workers(s->node);
    TRY(find_servers(s));
    TRY(tug_app_open(&s->app, s->node, KVS_APP, KVS_APP, &h));
    return greet(s);
}

int kvs_dist_open(struct tug_kvstore *s, const struct tug_node_options *o)
{
    int rc = open_dist(s, o);
    if (rc != 0 && s->node != NULL) {
        struct err e = *last_error();
        (void)tug_node_finalize(s->node, false);
        return last_error_is(&e);
    }
    return rc;
}

// Leaves the cluster. Returns the first error.
int kvs_dist_close(struct tug_kvstore *s)
{
    struct err e = {0};
    if (s->failed.code == 0 && tug_kvstore_wait(s) != 0)
        e = *last_error();
    if (s->failed.code == 0 && s->barrier_before_exit) {
        int rc = tug_kvstore_barrier(s);
        if (rc == 0 && s->rank == 0)
            rc = kvs_dist_tell(s, KVS_STOP, KVS_ALL_SERVERS, NULL, 0);
        if (rc != 0 && e.code == 0)
            e = *last_error();
    }
    (void)tug_app_close(s->app);
    if (tug_node_finalize(s->node, false) != 0 && e.code == 0)
        e = *last_error();
    return e.code != 0 ? last_error_is(&e) : 0;
}

// ---------------------------------------------------------------- public calls

int tug_kvstore_barrier(struct tug_kvstore *s)
{
    if (!s->dist)
        return 0;
    TRY(tug_kvstore_wait(s));
    int rc = kvs_dist_tell(s, KVS_BARRIER, 0, NULL, 0);
    if (rc != 0)
        (void)err_wrap(last_error(), "the barrier of %u workers", s->workers);
    return rc;
}

int tug_kvstore_dead(struct tug_kvstore *s, uint32_t groups, uint32_t *ret)
{
    *ret = s->dist ? kv_lost(s->node, groups, NULL) : 0;
    return 0;
}

int tug_kvstore_command(struct tug_kvstore *s, int32_t head, const void *body,
                        size_t body_bytes)
{
    if (!s->dist)
        return err_set(last_error(), TUG_EUSAGE,
                       "a store of type %s has no servers to send a command to", s->type);
    char *bytes = mem_alloc(sizeof(head) + body_bytes);
    if (bytes == NULL)
        return err_nomem(last_error(), "a command");
    memcpy(bytes, &head, sizeof(head));
    if (body_bytes > 0)
        memcpy(bytes + sizeof(head), body, body_bytes);
    int rc = tug_kvstore_wait(s);
    if (rc == 0)
        rc = kvs_dist_tell(s, KVS_COMMAND, KVS_ALL_SERVERS, bytes,
                           sizeof(head) + body_bytes);
    mem_free(bytes);
    return rc;
}
