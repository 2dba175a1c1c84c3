// Records a shard's requests while profiling is on, and serves the message PROFILE.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/profile/profiling.h"

#include "server/clocks/pending.h"
#include "server/request_fields.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"
#include "server/told.h"

// Sets the table, the number of keys and the number of bytes in *ev from a request; a
// field that the request does not have becomes 0.
static void profiling_describe(const struct shard *s, uint16_t type,
                               const union wire_any *m, struct wire_event *ev)
{
    struct request_fields f = {.table = UINT32_MAX};
    request_fields(type, m, &f);
    ev->type = type;
    ev->table = f.table;
    ev->keys = f.keys;
    ev->bytes = f.bytes;
    const struct shard_table *t = tables_find(s, ev->table, NULL);
    ev->space = t != NULL ? (uint8_t)t->spec.space : 0;
}

void profiling_begin(const struct shard *s, const struct shard_request *q,
                     struct wire_event *ret)
{
    *ret = (struct wire_event){.node = q->peer->node};
    profiling_describe(s, q->type, q->m, ret);
    ret->begin_ns = clock_ns();
    ret->arrived_ns = q->fresh != NULL ? s->now : ret->begin_ns;
}

void profiling_end(struct shard *s, struct wire_event *event)
{
    event->took_ns = clock_ns() - event->begin_ns;
    profile_note(&s->profile, event);
}

void profiling_waited(struct shard *s, const struct pending *h)
{
    struct wire_event event = {.waited = 1, .node = h->peer->node};
    profiling_describe(s, h->type, &h->m, &event);
    event.arrived_ns = event.begin_ns = h->since;
    event.took_ns = clock_ns() - h->since;
    profile_note(&s->profile, &event);
}

static void answer_page(struct shard *s, const struct shard_request *q)
{
    struct buf events = BUF_INIT(WIRE_BYTES_MAX);
    struct msg_trace m = {.end = s->profile.end,
                          .dropped = profile_dropped(&s->profile),
                          .unix_ns = clock_ns() + s->profile.epoch};
    struct err e;
    if (profile_page(&s->profile, q->m->profile.from, &events, &m.from) == 0) {
        m.events = (struct wire_text){events.data, (uint32_t)events.len};
        van_send(s->van, q->peer->link, MSG_TRACE, q->id, &m, NULL);
    } else {
        err_nomem(&e, "a page of a profile");
        shard_refuse(s, q, &e);
    }
    buf_free(&events);
}

static void obey(struct shard *s, const struct msg_profile *m, struct err *e)
{
    if (m->what > WIRE_PROFILE_FORGET) {
        err_set(e, TUG_EUSAGE, "profile: operation %u is not known", m->what);
    } else if (m->what == WIRE_PROFILE_START) {
        if (s->o.budget != NULL && m->bytes > s->o.budget->bytes)
            err_set(e, TUG_EUSAGE,
                    "profile: %llu bytes are more than the %llu bytes that this "
                    "server may use for buffers",
                    (unsigned long long)m->bytes, (unsigned long long)s->o.budget->bytes);
        else if (profile_start(&s->profile, m->bytes, e) == 0)
            s->profiling = true;
    } else if (s->profile.ring == NULL) {
        err_set(e, TUG_EUSAGE,
                "no profile has been started here: run 'tug profile start' first");
    } else if (m->what != WIRE_PROFILE_READ) {
        s->profiling = false;
    }
}

enum outcome profile_serve(struct shard *s, struct shard_request *q)
{
    const struct msg_profile *m = &q->m->profile;
    struct err e = {0};
    obey(s, m, &e);
    uint64_t end = s->profile.end;
    if (e.code == 0 && m->what == WIRE_PROFILE_FORGET)
        profile_free(&s->profile);
    if (e.code == 0)
        told_done(s, q);
    if (e.code != 0)
        shard_refuse(s, q, &e);
    else if (m->what == WIRE_PROFILE_READ)
        answer_page(s, q);
    else
        shard_ok(s, q, end);
    return ANSWERED;
}
