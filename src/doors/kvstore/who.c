// Names the workers for which a server makes this worker wait: those that have not come to
// a barrier or pushed to a synchronous key, or worker 0, which has not made a key.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "doors/kvapp/above.h"
#include "doors/kvstore/kvstore_internal.h"
#include "os/log.h"

// A server that does not answer in this time may itself be the cause of the wait.
#define ANSWER_SECONDS 2.0
// A warning names the missing workers after a twentieth of the longest wait, but not
// before 20 s.
#define SOON 20
#define SOON_SECONDS 20.0

// Writes "worker 1" or "workers 1, 2 and 3 others".
static void list(const struct kvs_missing *m, char *to, size_t cap)
{
    size_t at = (size_t)snprintf(to, cap, "worker%s", m->n > 1 ? "s" : "");
    for (uint32_t i = 0; i < m->n && i < KVS_RANKS_SHOWN && at < cap; i++)
        at += (size_t)snprintf(to + at, cap - at, "%s %u", i > 0 ? "," : "", m->ranks[i]);
    if (m->n > KVS_RANKS_SHOWN && at < cap)
        (void)snprintf(to + at, cap - at, " and %u others", m->n - KVS_RANKS_SHOWN);
}

static int ask(struct tug_kvstore *s, const struct kvs_awaited *w,
               struct kvs_missing *ret)
{
    struct kvs_who body = {.barrier = w->what == KVS_AWAIT_BARRIER, .id = w->id};
    uint32_t ts;
    TRY(tug_app_request(s->app, KVS_WHO, &body, sizeof(body), s->places[w->server].id,
                        &ts));
    TRY(kv_wait_for(s->app, ts, ANSWER_SECONDS));
    struct kvs_reply *r = kvs_dist_reply(s, ts, w->server);
    bool good = r != NULL && r->n == sizeof(*ret);
    if (good)
        memcpy(ret, r->bytes, sizeof(*ret));
    mem_free(r);
    return good ? 0 : TUG_EDATA;
}

// Describes the workers for which the request waits. Returns false if the server names
// none.
static bool who_describe(struct tug_kvstore *s, const struct kvs_awaited *w,
                         double seconds, char *to, size_t cap)
{
    struct kvs_missing m;
    char workers[160];
    if (ask(s, w, &m) != 0)
        return false;
    if (w->what != KVS_AWAIT_BARRIER && !m.made) {
        snprintf(
            to, cap,
            "worker 0 has not called init for it in %.3g s; every worker calls init, "
            "and the values of worker 0 count",
            seconds);
        return true;
    }
    if (w->what == KVS_AWAIT_INIT || m.n == 0)
        return false;
    list(&m, workers, sizeof(workers));
    snprintf(to, cap, "%s %s not %s in %.3g s", workers, m.n > 1 ? "have" : "has",
             w->what == KVS_AWAIT_BARRIER ? "come to it" : "pushed", seconds);
    return true;
}

static const char *beginning(const struct tug_kvstore *s, const struct kvs_awaited *w,
                             char *to, size_t cap)
{
    if (w->what == KVS_AWAIT_BARRIER)
        snprintf(to, cap, "the barrier of %u workers", s->workers);
    else
        snprintf(to, cap, "%s", w->key);
    return to;
}

int kvs_who_wait(struct tug_kvstore *s, uint32_t timestamp, const struct kvs_awaited *w)
{
    char what[KVS_NAME_MAX + 64], why[ERR_TEXT_MAX];
    double most = kv_wait_seconds(s->node), first = most / SOON;
    if (w == NULL)
        return tug_app_wait(s->app, timestamp);
    first = (first > SOON_SECONDS ? first : SOON_SECONDS) * (1 << s->warned);
    if (first < most) {
        int rc = kv_wait_for(s->app, timestamp, first);
        if (rc != TUG_EIO || !kv_is_under_way(s->app, timestamp))
            return rc;
        if (who_describe(s, w, first, why, sizeof(why))) {
            log_warn("%s: this worker waits: %s", beginning(s, w, what, sizeof(what)),
                     why);
            s->warned++;
        }
    } else {
        first = 0;
    }
    int rc = kv_wait_for(s->app, timestamp, most - first);
    if (rc != TUG_EIO || !kv_is_under_way(s->app, timestamp))
        return rc;
    struct err e = *last_error();
    if (who_describe(s, w, most, why, sizeof(why)))
        return err_set(last_error(), TUG_EIO, "%s", why);
    return last_error_is(&e);
}
