// The functions of moves.h that both ends of a move use.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/moves/moves.h"

#include "base/alloc.h"
#include "os/clock.h"
#include "server/moves/partition_copy.h"
#include "server/shard_internal.h"

// A loop is busy if it has served a request in this time (server/background.c).
#define BUSY_NS (50 * SECOND_NS / 1000)

// The time for which unused buffers are kept after the last move.
#define SPARES_NS SECOND_NS

uint64_t moves_slice_begin(const struct shard *s)
{
    return s->o.slice_ns != 0 ? 0 : clock_ns();
}

bool moves_slice_over(const struct shard *s, uint64_t begun)
{
    return s->o.slice_ns != 0 || clock_ns() - begun >= MOVES_NS;
}

uint64_t moves_slice_end(const struct shard *s, uint64_t begun, uint32_t rest)
{
    uint64_t spent = s->o.slice_ns != 0 ? s->o.slice_ns : clock_ns() - begun;
    bool busy = s->now - s->served_at < BUSY_NS;
    return s->now + (busy ? (1 + rest) * spent : 0);
}

void moves_buffer_take(struct shard *s, struct buf *b)
{
    struct moves *m = &s->moves;
    if (b->cap > 0 || m->n_spares == 0)
        return;
    size_t max = b->max;
    *b = m->spares[--m->n_spares];
    m->spare_bytes -= b->cap;
    b->len = 0;
    b->max = max;
}

void moves_buffer_leave(struct shard *s, struct buf *b)
{
    struct moves *m = &s->moves;
    if (b->cap == 0 || m->n_spares == MOVES_SPARES ||
        b->cap > MOVES_SPARE_BYTES - m->spare_bytes) {
        buf_free(b);
        return;
    }
    m->spare_bytes += b->cap;
    m->spares[m->n_spares++] = *b;
    m->spared_at = s->now;
    *b = BUF_INIT(b->max);
}

static void free_spares(struct moves *m)
{
    while (m->n_spares > 0)
        buf_free(&m->spares[--m->n_spares]);
    m->spare_bytes = 0;
}

// Frees unused buffers when no partition has been on its way for a while.
static uint64_t spares_tick(struct shard *s)
{
    struct moves *m = &s->moves;
    if (m->n_spares == 0 || m->in != NULL || m->out != NULL)
        return VAN_NEVER;
    if (s->now < m->spared_at + SPARES_NS)
        return m->spared_at + SPARES_NS;
    free_spares(m);
    return VAN_NEVER;
}

void moves_close(struct shard *s)
{
    for (struct outgoing *o = s->moves.out, *next; o != NULL; o = next) {
        next = o->next;
        partition_copy_close(o->copy);
        buf_free(&o->bytes);
        mem_free(o);
    }
    for (struct incoming *m = s->moves.in, *next; m != NULL; m = next) {
        next = m->next;
        buf_free(&m->bytes);
        mem_free(m);
    }
    s->moves.out = NULL;
    s->moves.in = NULL;
    free_spares(&s->moves);
    source_links_close(s);
}

void moves_break(struct shard *s, enum wire_space space, const char *what)
{
    struct err why;
    err_set(&why, TUG_EINTERRUPTED, "%s while a partition moved", what);
    for (struct outgoing *o = s->moves.out; o != NULL; o = o->next)
        if (o->move.space == space && !o->handing && !o->gone && o->why.code == 0) {
            o->why = why;
            outgoing_stop(s, o);
        }
    for (struct incoming *m = s->moves.in; m != NULL; m = m->next)
        if (m->move.space == space && m->state <= INCOMING_ENDS && m->n > 0) {
            m->why = why;
            incoming_fail(s, m);
        }
}

void moves_break_copy(struct shard *s, enum wire_space space, uint32_t partition,
                      const char *what)
{
    for (struct outgoing *o = s->moves.out; o != NULL; o = o->next)
        if (o->move.space == space && o->move.partition == partition && !o->handing &&
            !o->gone && o->why.code == 0) {
            err_set(&o->why, TUG_EINTERRUPTED, "%s while a partition moved", what);
            outgoing_stop(s, o);
        }
}

void moves_break_led(struct shard *s, enum wire_space space, const char *what)
{
    const uint32_t *owners = member_roster(s->member)->owners[space];
    if (s->chain == NULL)
        moves_break(s, space, what);
    for (uint32_t p = 0; p >> s->bits == 0 && s->chain != NULL; p++)
        if (owners[p] == member_id(s->member))
            moves_break_copy(s, space, p, what);
}

void moves_follow(struct shard *s, const struct roster *r)
{
    outgoing_follow(s, r);
    incoming_follow(s, r);
}

bool moves_idle(const struct shard *s)
{
    return s->moves.in == NULL && s->moves.out == NULL && s->moves.sources == NULL &&
           s->moves.n_spares == 0;
}

uint64_t moves_tick(struct shard *s, uint64_t now)
{
    s->moves.again = s->moves.asked = false;
    uint64_t next = s->moves.out != NULL ? outgoing_tick(s) : VAN_NEVER;
    for (struct incoming *m = s->moves.in; m != NULL; m = m->next)
        next = clock_earlier(next, incoming_fetch(s, m));
    next = clock_earlier(next, incoming_report(s));
    if (s->moves.sources != NULL)
        next = clock_earlier(next, source_links_tick(s));
    next = clock_earlier(next, spares_tick(s));
    // The van sends requests after this function. So records are applied in the next call,
    // while the sources make the next bytes; they are not put off twice.
    s->moves.put_off = s->moves.asked && !s->moves.put_off;
    if (s->moves.put_off)
        return now;
    for (struct incoming *m = s->moves.in, *behind; m != NULL; m = behind) {
        behind = m->next; // m is freed when the last rows of the partition are dropped
        next = clock_earlier(next, incoming_tick(s, m));
    }
    return next > now && !s->moves.again ? next : now;
}

static struct source_link *link_at(struct shard *s, van_link link)
{
    struct source_link *l = s->moves.sources;
    while (l != NULL && l->s.link != link)
        l = l->next;
    return l;
}

bool moves_opened(struct shard *s, van_link link)
{
    struct source_link *l = link_at(s, link);
    return l != NULL && session_opened(&l->s, link, s->now);
}

bool moves_closed(struct shard *s, van_link link, const struct err *why)
{
    struct source_link *l = link_at(s, link);
    return l != NULL && session_closed(&l->s, link, why, s->now);
}

// Passes an answer of a source to the move that it is about. The request number of the
// answer is the id of the move.
static void take(struct shard *s, const struct source_link *l,
                 const struct van_message *x, bool greeted)
{
    for (struct incoming *m = s->moves.in, *next; m != NULL; m = next) {
        next = m->next;
        if (m->source != l)
            continue;
        if (greeted)
            m->due = s->now;
        else if (x->request == m->move.id) {
            incoming_take(s, m, x);
            return;
        }
    }
}

bool moves_message(struct shard *s, van_link link, const struct van_message *x)
{
    struct source_link *l = link_at(s, link);
    if (l == NULL)
        return false;
    enum session_news news = session_message(&l->s, link, x, s->now);
    bool greeted = news == SESSION_GREETED;
    if (!greeted && news != SESSION_MESSAGE)
        return news != SESSION_NOT_ITS;
    if (s->chain == NULL || !chain_message(s, l, x, greeted))
        take(s, l, x, greeted);
    return news != SESSION_NOT_ITS;
}
