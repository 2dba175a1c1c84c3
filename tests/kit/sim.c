// The simulated world: chooses the next event and passes it to its node. Its vans are in
// sim_van.c.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/sim.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "kit/sim_internal.h"
#include "os/clock.h"

enum { STREAM = 0x51u, ROUNDS }; // streams of the seed's random numbers

static const uint64_t backoff_first = 10000000, backoff_most = 1000000000; // ns

int sim_open(struct sim **ret, const struct sim_options *o, struct err *e)
{
    if (o->delay_min > o->delay_max || o->delay_max >= UINT64_MAX / 8)
        return err_set(e, TUG_EUSAGE,
                       "delays of a simulation cannot go from %llu to %llu ns: give the "
                       "lesser one first",
                       (unsigned long long)o->delay_min,
                       (unsigned long long)o->delay_max);
    struct sim *s = mem_zalloc(sizeof(*s));
    if (s == NULL)
        return err_nomem(e, "a simulated world");
    s->o = *o;
    *ret = s;
    return 0;
}

static void free_done(struct sim *s)
{
    while (s->done != NULL) {
        struct sim_conn *c = s->done;
        s->done = c->next;
        mem_free(c);
    }
}

void sim_close(struct sim *s)
{
    if (s == NULL)
        return;
    free_done(s);
    sim_queue_free(&s->queue);
    mem_free(s);
}

uint64_t sim_now(const struct sim *s)
{
    return s->now;
}

void sim_set_faults(struct sim *s, double loss, double duplicate, double reorder,
                    double breaks)
{
    s->o.loss = loss;
    s->o.duplicate = duplicate;
    s->o.reorder = reorder;
    s->o.breaks = breaks;
    s->o.silences = 0;
    for (struct sim_van *v = s->vans; v != NULL; v = v->next)
        v->silences = 0;
}

void sim_trace(struct sim *s, void (*line)(void *ctx, const char *text), void *ctx)
{
    s->line = line;
    s->line_ctx = ctx;
}

// ---------------------------------------------------------------- random numbers

static bool happens(struct sim *s, double probability)
{
    return random_f64(s->o.seed, STREAM, s->draws++) < probability;
}

static uint64_t below(struct sim *s, uint64_t n)
{
    return random_below(s->o.seed, STREAM, s->draws++, n);
}

static uint64_t delay(struct sim *s)
{
    return s->o.delay_min + below(s, s->o.delay_max - s->o.delay_min + 1);
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

__attribute__((format(printf, 2, 3))) static void trace(struct sim *s, const char *fmt,
                                                        ...)
{
    if (s->line == NULL)
        return;
    char text[1024];
    int n = snprintf(text, sizeof(text), "%14.6f ms  ", (double)s->now * 1e-6);
    va_list args;
    va_start(args, fmt);
    vsnprintf(text + n, sizeof(text) - (size_t)n, fmt, args);
    va_end(args);
    s->line(s->line_ctx, text);
}

// ---------------------------------------------------------------- connections

static struct sim_end *other_end(struct sim_end *end)
{
    return end == &end->conn->ends[0] ? &end->conn->ends[1] : &end->conn->ends[0];
}

// Makes room in the queue for `more` events, and for the events that will end the
// existing connections.
static int reserve(struct sim *s, uint32_t more)
{
    return sim_queue_reserve(&s->queue, 2 * s->n_conns + more);
}

struct sim_conn *sim_dial(struct sim *s, struct sim_van *v, const char *address,
                          uint64_t timeout_ns)
{
    // Events of this connection: the attempt or its success, and the ends of both sides.
    enum { EVENTS = 4 };
    struct sim_conn *c = mem_zalloc(sizeof(*c));
    if (c == NULL || reserve(s, EVENTS) != 0)
        goto fail;
    c->began = s->now;
    c->deadline = timeout_ns < VAN_NEVER - s->now ? s->now + timeout_ns : VAN_NEVER;
    c->backoff = backoff_first;
    snprintf(c->address, sizeof(c->address), "%s", address);
    snprintf(c->from, sizeof(c->from), "sim://%.200s", v->name);
    c->ends[0] = (struct sim_end){.conn = c, .van = v};
    c->ends[1] = (struct sim_end){.conn = c, .role = WIRE_OPERATOR};
    c->ends[0].number = links_add(&v->links, &c->ends[0]);
    if (c->ends[0].number == 0)
        goto fail;
    s->n_conns++;
    sim_queue_put(&s->queue, (struct sim_event){.time = s->now + delay(s),
                                                .kind = SIM_ATTEMPT,
                                                .to = v,
                                                .link = c->ends[0].number});
    return c;
fail:
    mem_free(c);
    return NULL;
}

// Closes an end: its van gets no more calls for it.
static void close_end(struct sim *s, struct sim_end *end)
{
    struct sim_conn *c = end->conn;
    links_remove(&end->van->links, end->number);
    // Keeps the role, because messages that this end has sent are still under way.
    end->role = end->van->role;
    end->van = NULL;
    end->open = false;
    if (other_end(end)->van != NULL)
        return;
    s->n_conns--;
    c->next = s->done;
    s->done = c;
}

static void tell(struct sim *s, struct sim_end *end, struct sim_van *from,
                 enum sim_why why)
{
    // A close arrives after the last message; a break overtakes messages in flight.
    uint64_t at = s->now + delay(s);
    if (why == SIM_BY_PEER)
        at = later(at, end->arrival);
    sim_queue_put(&s->queue, (struct sim_event){.time = at,
                                                .kind = SIM_CLOSED,
                                                .why = why,
                                                .to = end->van,
                                                .from = from,
                                                .link = end->number});
}

void sim_hang_up(struct sim *s, struct sim_end *end, enum sim_why why)
{
    struct sim_end *other = other_end(end);
    if (other->van != NULL && !end->conn->broken && !end->mute)
        tell(s, other, end->van, why);
    end->conn->broken = true;
    close_end(s, end);
}

static void break_conn(struct sim *s, struct sim_conn *c)
{
    c->broken = true;
    for (int i = 0; i < 2; i++)
        if (c->ends[i].van != NULL)
            tell(s, &c->ends[i], NULL, SIM_BROKEN);
}

void sim_break(struct sim *s, struct van *a, struct van *b)
{
    const struct links *links = &((struct sim_van *)a)->links;
    for (uint32_t i = 0; i < links->n; i++) {
        struct sim_end *end = links->list[i].link;
        if (other_end(end)->van == (struct sim_van *)b && !end->conn->broken &&
            reserve(s, 2) == 0)
            break_conn(s, end->conn);
    }
}

void sim_break_link(struct sim *s, struct van *v, van_link link)
{
    struct sim_end *end = links_find(&((struct sim_van *)v)->links, link);
    if (end != NULL && !end->conn->broken && reserve(s, 2) == 0)
        break_conn(s, end->conn);
}

static void put_message(struct sim *s, struct sim_end *from, struct parcel *p,
                        uint64_t time)
{
    struct sim_end *to = other_end(from);
    from->in_flight += parcel_bytes(p);
    sim_queue_put(&s->queue, (struct sim_event){.time = later(time, to->opened),
                                                .kind = SIM_MESSAGE,
                                                .to = to->van,
                                                .from = from->van,
                                                .link = to->number,
                                                .parcel = p});
}

static void fall_silent(struct sim *s, struct sim_end *end, bool both)
{
    const struct sim_conn *c = end->conn;
    end->mute = true;
    other_end(end)->mute |= both;
    trace(s, "the link of %s to %s falls silent%s", c->from, c->address,
          both                 ? ""
          : end == &c->ends[0] ? " in this direction"
                               : " in the other direction");
}

int sim_transmit(struct sim *s, struct sim_end *end, struct parcel *p)
{
    struct sim_end *to = other_end(end);
    struct parcel *twin = NULL;
    if (reserve(s, 2) != 0)
        goto fail;
    bool gone = end->conn->broken || to->van == NULL;
    if (gone ||
        (happens(s, s->o.loss) && !end->van->loses_none && !to->van->loses_none)) {
        parcel_free(p);
        return 0;
    }
    double silences = s->o.silences + end->van->silences + to->van->silences;
    if (!end->mute && silences > 0 && happens(s, silences))
        fall_silent(s, end, happens(s, 0.5));
    if (end->mute) {
        end->in_flight += parcel_bytes(p); // so these bytes stay in flight for ever
        parcel_free(p);
        return 0;
    }
    if (!end->van->breaks_none && !to->van->breaks_none && happens(s, s->o.breaks)) {
        break_conn(s, end->conn);
        parcel_free(p);
        return 0;
    }
    if (happens(s, s->o.duplicate)) {
        twin = parcel_copy(p);
        if (twin == NULL)
            goto fail;
        put_message(s, end, twin, s->now + delay(s) + below(s, 4 * s->o.delay_max + 1));
    }
    uint64_t time = s->now + delay(s);
    if (happens(s, s->o.reorder)) { // later messages may overtake this one
        time += below(s, 4 * s->o.delay_max + 1);
    } else {
        time = later(time, to->arrival);
        to->arrival = time;
    }
    put_message(s, end, p, time);
    return 0;
fail:
    parcel_free(p);
    return TUG_ENOMEM;
}

// ---------------------------------------------------------------- listeners

static struct sim_van *find_listener(const struct sim *s, const char *address)
{
    for (const struct sim_listener *l = s->listeners; l != NULL; l = l->next)
        if (strcmp(l->address, address) == 0)
            return l->van;
    return NULL;
}

int sim_listen(struct sim *s, struct sim_van *v, const char *address, struct err *e)
{
    if (find_listener(s, address) != NULL)
        return err_set(e, TUG_EIO,
                       "cannot listen on '%s': it is in use; choose another name",
                       address);
    struct sim_listener *l = mem_zalloc(sizeof(*l));
    if (l == NULL)
        return err_nomem(e, "a simulated listener");
    snprintf(l->address, sizeof(l->address), "%s", address);
    l->van = v;
    l->next = s->listeners;
    s->listeners = l;
    return 0;
}

void sim_unlisten(struct sim *s, const struct sim_van *v)
{
    struct sim_listener **at = &s->listeners;
    while (*at != NULL) {
        struct sim_listener *l = *at;
        if (l->van != v) {
            at = &l->next;
            continue;
        }
        *at = l->next;
        mem_free(l);
    }
}

// Functions that execute an event. Each returns the van whose handler was called, or
// NULL.

static struct sim_van *call_closed(struct sim *s, struct sim_end *end,
                                   const struct err *why)
{
    struct sim_van *v = end->van;
    trace(s, "%s: link %u is closed: %s", v->name, end->number, why->text);
    van_link number = end->number;
    end->conn->broken = true;
    close_end(s, end);
    if (v->h.closed != NULL)
        v->h.closed(v->h.ctx, number, why, s->now);
    return v;
}

static struct sim_van *do_opened(struct sim *s, struct sim_end *end)
{
    struct sim_van *v = end->van;
    end->open = true;
    trace(s, "%s: link %u is open", v->name, end->number);
    if (v->h.opened != NULL)
        v->h.opened(v->h.ctx, end->number, end == &end->conn->ends[1], s->now);
    return v;
}

static struct sim_van *do_attempt(struct sim *s, struct sim_end *end)
{
    struct sim_conn *c = end->conn;
    struct sim_end *peer = &c->ends[1];
    struct sim_van *v = find_listener(s, c->address);
    if (v != NULL && v->deaf_until <= s->now && !sim_are_apart(v, end->van) &&
        !sim_are_apart(end->van, v) && !end->mute && !peer->mute)
        peer->number = links_add(&v->links, peer);
    if (peer->number != 0) {
        peer->van = v;
        peer->opened = s->now;
        end->opened = end->arrival = s->now + delay(s);
        sim_queue_put(&s->queue, (struct sim_event){.time = end->opened,
                                                    .kind = SIM_OPENED,
                                                    .to = end->van,
                                                    .from = v,
                                                    .link = end->number});
        return do_opened(s, peer);
    }
    if (s->now >= c->deadline) {
        struct err e;
        err_set(&e, TUG_EIO,
                "cannot connect to %s: nobody answers there (tried for %.1f s)",
                c->address, (double)(s->now - c->began) * 1e-9);
        return call_closed(s, end, &e);
    }
    uint64_t next = s->now + c->backoff;
    // A stopped process accepts the link, but does not read HELLO.
    if (v != NULL && v->deaf_until > next)
        next = v->deaf_until;
    c->backoff = c->backoff * 2 < backoff_most ? c->backoff * 2 : backoff_most;
    sim_queue_put(&s->queue,
                  (struct sim_event){.time = next < c->deadline ? next : c->deadline,
                                     .kind = SIM_ATTEMPT,
                                     .to = end->van,
                                     .link = end->number});
    return NULL;
}

// Returns whether the process still uses the time that it has read before it was stopped.
static bool has_old_clock(const struct sim_van *v)
{
    return v->deaf_until <= v->s->now && v->s->now < v->still_until;
}

static uint64_t clock_of(const struct sim_van *v)
{
    return has_old_clock(v) ? v->clock : v->s->now;
}

static struct sim_van *do_message(struct sim *s, struct sim_end *end, struct parcel *p)
{
    struct sim_van *v = end->van;
    struct err e = {0};
    other_end(end)->in_flight -= parcel_bytes(p);
    end->heard = clock_of(v);
    trace(s, "%s: link %u brings %s, %llu bytes", v->name, end->number, parcel_name(p),
          (unsigned long long)parcel_bytes(p));
    if (parcel_deliver(p, &v->h, end->number, clock_of(v), &e) != 0)
        return call_closed(s, end, &e);
    return v;
}

static struct sim_van *do_closed(struct sim *s, struct sim_end *end, enum sim_why why)
{
    struct err e = {0};
    const char *peer = end == &end->conn->ends[0] ? end->conn->address : end->conn->from;
    if (why == SIM_BY_PEER)
        snprintf(e.text, sizeof(e.text), "%s closed the link", peer);
    else
        err_set(&e, TUG_EIO, why == SIM_BROKEN ? "the link to %s broke" : "%s is gone",
                peer);
    return call_closed(s, end, &e);
}

static struct sim_van *happen(struct sim *s, const struct sim_event *e)
{
    struct sim_end *end = links_find(&e->to->links, e->link);
    if (end == NULL) // the link has been closed, or its node has crashed
        return NULL;
    switch (e->kind) {
    case SIM_ATTEMPT:
        return do_attempt(s, end);
    case SIM_OPENED:
        return do_opened(s, end);
    case SIM_MESSAGE:
        return do_message(s, end, e->parcel);
    default:
        return do_closed(s, end, e->why);
    }
}

static void tick(struct sim *s, struct sim_van *v)
{
    uint64_t next = v->h.tick(v->h.ctx, s->now);
    v->ticked = s->now;
    // At least 1 ns later, so that time advances whatever the handler returns.
    s->tick_at[v->slot] = later(next, s->now + later(v->round, 1));
}

// Lets a van tick after a call of its handler: at once, or at the end of the round. Rounds have
// the length that sim_van_rounds gave the van, or take up to o.round_max.
static void tick_after(struct sim *s, struct sim_van *v)
{
    uint64_t at = v->ticked + v->round;
    if (v->round == 0 && s->o.round_max > 0)
        at = s->now + 1 + random_below(s->o.seed, ROUNDS, s->rounds++, s->o.round_max);
    if (at <= s->now)
        tick(s, v);
    else
        s->tick_at[v->slot] = clock_earlier(s->tick_at[v->slot], at);
}

// Takes the next event and passes it on. Returns whether a handler was called.
static bool do_event(struct sim *s)
{
    struct sim_event e = sim_queue_take(&s->queue);
    s->now = e.time;
    if (e.to == NULL)
        return false;
    if (e.from != NULL && sim_are_apart(e.from, e.to)) {
        sim_queue_hold(&s->queue, &e);
        return false;
    }
    // The node reads the message when it continues, after the messages that arrived
    // before.
    if (e.to->deaf_until > s->now) {
        e.time = e.to->deaf_until;
        sim_queue_put(&s->queue, e);
        return false;
    }
    struct sim_van *called = happen(s, &e);
    parcel_free(e.parcel);
    if (called != NULL && !called->crashed && !has_old_clock(called))
        tick_after(s, called);
    return called != NULL;
}

// Returns the slot of the van that ticks first; UINT32_MAX if none has asked for a tick.
static uint32_t next_tick(const struct sim *s)
{
    uint32_t first = UINT32_MAX;
    uint64_t at = VAN_NEVER;
    for (uint32_t i = 0; i < s->n_slots; i++)
        if (s->tick_at[i] < at) {
            at = s->tick_at[i];
            first = i;
        }
    return first;
}

bool sim_step(struct sim *s, uint64_t until)
{
    for (;;) {
        free_done(s);
        uint32_t slot = next_tick(s);
        uint64_t due = slot != UINT32_MAX ? s->tick_at[slot] : VAN_NEVER;
        bool event = s->queue.n_heap > 0 && s->queue.heap[0].time <= due;
        if (event)
            due = s->queue.heap[0].time;
        if (due > until || due == VAN_NEVER) {
            if (until != VAN_NEVER)
                s->now = later(s->now, until);
            return false;
        }
        if (!event) {
            s->now = later(s->now, due);
            tick(s, s->slots[slot]);
            return true;
        }
        if (do_event(s))
            return true;
    }
}

// ------------------------------------------------------ faults that a test makes by hand

void sim_crash(struct sim *s, struct van *van)
{
    struct sim_van *v = (struct sim_van *)van;
    trace(s, "%s crashes", v->name);
    v->crashed = true;
    s->tick_at[v->slot] = VAN_NEVER;
    sim_unlisten(s, v);
    while (v->links.n > 0)
        sim_hang_up(s, v->links.list[v->links.n - 1].link, SIM_CRASHED);
}

void sim_stop(struct sim *s, struct van *van, uint64_t until, uint64_t lag)
{
    struct sim_van *v = (struct sim_van *)van;
    trace(s, "%s is stopped until %.6f ms", v->name, (double)until * 1e-6);
    until = later(until, v->deaf_until); // if two stops overlap, the later end counts
    v->still_until = until;
    v->deaf_until = until + lag;
    s->tick_at[v->slot] = until; // the van ticks when it continues
}

void sim_stop_reading(struct sim *s, struct van *van, uint64_t until)
{
    struct sim_van *v = (struct sim_van *)van;
    if (v->deaf_until > s->now || v->still_until > s->now)
        return; // it has not continued after the last stop
    sim_stop(s, van, until, 0);
    v->clock = s->now;
    s->tick_at[v->slot] = v->still_until = until + 1; // after the messages of this time
}

bool sim_is_stopped(const struct van *van)
{
    const struct sim_van *v = (const struct sim_van *)van;
    return v->still_until > v->s->now;
}

void sim_silence(struct sim *s, struct van *v, van_link link)
{
    struct sim_end *end = links_find(&((struct sim_van *)v)->links, link);
    if (end != NULL)
        fall_silent(s, end, true);
}

void sim_mute(struct sim *s, struct van *v, van_link link)
{
    struct sim_end *end = links_find(&((struct sim_van *)v)->links, link);
    if (end != NULL)
        fall_silent(s, end, false);
}

// Lets the messages that were held back between the two vans arrive now, in order and
// before later ones.
static void let_through(struct sim *s, const struct sim_van *a, const struct sim_van *b)
{
    struct sim_queue *q = &s->queue;
    uint64_t at = s->now + delay(s);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < q->n_held; i++) {
        struct sim_event e = q->held[i];
        bool theirs = (e.from == a && e.to == b) || (e.from == b && e.to == a);
        if (!theirs && e.to != NULL && e.from != NULL) {
            q->held[kept++] = e;
            continue;
        }
        struct sim_end *end = e.to != NULL ? links_find(&e.to->links, e.link) : NULL;
        e.time = at;
        if (end != NULL)
            end->arrival = later(end->arrival, at);
        sim_queue_put(q, e);
    }
    q->n_held = kept;
}

bool sim_are_apart(const struct sim_van *from, const struct sim_van *to)
{
    return from->apart[to->slot / 8] >> (to->slot % 8) & 1;
}

void sim_put_apart(struct sim_van *a, const struct sim_van *b, bool apart)
{
    uint8_t bit = (uint8_t)(1 << (b->slot % 8));
    a->apart[b->slot / 8] = (uint8_t)(apart ? a->apart[b->slot / 8] | bit
                                            : a->apart[b->slot / 8] & ~bit);
}

void sim_partition(struct sim *s, struct van *van_a, struct van *van_b, bool apart)
{
    struct sim_van *a = (struct sim_van *)van_a, *b = (struct sim_van *)van_b;
    trace(s, "%s and %s are %s", a->name, b->name, apart ? "apart" : "together again");
    sim_put_apart(a, b, apart);
    sim_put_apart(b, a, apart);
    if (!apart)
        let_through(s, a, b);
}

void sim_part_one_way(struct sim *s, struct van *from, struct van *to)
{
    const struct sim_van *b = (const struct sim_van *)to;
    trace(s, "nothing gets from %s to %s", ((struct sim_van *)from)->name, b->name);
    sim_put_apart((struct sim_van *)from, b, true);
}
