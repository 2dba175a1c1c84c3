// The new owner's sessions with sources: one for each node, because a link and a greeting
// for each move cost more than the bytes of a small partition.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>

#include "base/alloc.h"
#include "os/clock.h"
#include "server/moves/moves.h"
#include "server/shard_internal.h"

#define MS (SECOND_NS / 1000)
#define RESEND_NS (2 * SECOND_NS)
#define DIAL_NS (10 * SECOND_NS)
#define SILENCE_NS (5 * SECOND_NS)
#define ABSENT_NS (10 * MS) // pause if the roster does not have the source
// A session without moves is closed after this time.
#define IDLE_NS (2 * SECOND_NS)

static struct source_link *make(struct shard *s, uint32_t node)
{
    struct source_link *l = mem_zalloc(sizeof(*l));
    if (l == NULL)
        return NULL;
    s->moves.side = (struct session_side){.van = s->van,
                                          .who = member_who(s->member),
                                          .resend_ns = RESEND_NS,
                                          .greet_ns = DIAL_NS,
                                          .ping_ns = SILENCE_NS,
                                          .silence_ns = 2 * SILENCE_NS,
                                          .retry_ns = 10 * MS,
                                          .retry_max_ns = SECOND_NS};
    l->s = (struct session){.side = &s->moves.side, .role = WIRE_SERVER, .node = node};
    l->node = node;
    l->next = s->moves.sources;
    s->moves.sources = l;
    return l;
}

struct source_link *source_link_take(struct shard *s, uint32_t node)
{
    struct source_link *l = s->moves.sources;
    while (l != NULL && l->node != node)
        l = l->next;
    if (l == NULL)
        l = make(s, node);
    if (l != NULL)
        l->users++;
    return l;
}

void source_link_release(struct shard *s, struct source_link *l)
{
    assert(l->users > 0);
    if (--l->users == 0)
        l->idle_at = s->now;
}

void source_link_leave(struct shard *s, struct incoming *m)
{
    struct source_link *l = m->source;
    m->source = NULL;
    if (l != NULL)
        source_link_release(s, l);
}

static uint64_t connect(struct shard *s, struct source_link *l)
{
    const struct roster_node *n = roster_find(member_roster(s->member), l->node);
    if (l->s.state == SESSION_CLOSED && l->s.due <= s->now && n != NULL)
        (void)session_dial(&l->s, n->address, DIAL_NS, s->now);
    uint64_t next = session_tick(&l->s, s->now);
    // Either the session waits before it dials again, or the roster does not have the
    // source.
    if (l->s.state == SESSION_CLOSED)
        return l->s.due > s->now ? l->s.due : s->now + ABSENT_NS;
    return next;
}

static bool source_link_is_over(const struct shard *s, const struct source_link *l)
{
    return l->users == 0 &&
           (l->s.state != SESSION_OPEN || s->now >= l->idle_at + IDLE_NS);
}

uint64_t source_links_tick(struct shard *s)
{
    uint64_t next = VAN_NEVER;
    for (struct source_link **at = &s->moves.sources; *at != NULL;) {
        struct source_link *l = *at;
        if (!source_link_is_over(s, l))
            next = clock_earlier(next, connect(s, l));
        if (source_link_is_over(s, l)) { // now, or already before connect()
            *at = l->next;
            session_end(&l->s);
            mem_free(l);
            continue;
        }
        if (l->users == 0)
            next = clock_earlier(next, l->idle_at + IDLE_NS);
        at = &l->next;
    }
    return next;
}

void source_links_close(struct shard *s)
{
    for (struct source_link *l = s->moves.sources, *next; l != NULL; l = next) {
        next = l->next;
        mem_free(l);
    }
    s->moves.sources = NULL;
}
