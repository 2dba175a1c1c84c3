// See strangers.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/strangers.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/random.h"
#include "cluster/session.h"
#include "kit/draw.h"

enum { STREAM = 0x400, BYTES = 2048, NUMBER = 9, MAX_TARGETS = 8 };
// After this many frames strangers speak seldom: in long runs, most events would be theirs.
enum { MANY_FRAMES = 400 };

struct stranger {
    struct sim_strangers *all;
    struct van *van;
    // The member of a stranger that joins and leaves; NULL for a stranger that never
    // joins.
    struct member *m;
    struct target {
        van_link link;
        bool open;
    } targets[MAX_TARGETS]; // the scheduler, and servers
};

struct sim_strangers {
    uint64_t seed, draws, frames;
    struct sim_seen seen;
    struct draw d;
    uint8_t bytes[BYTES];
    struct stranger never, departed;
};

static uint64_t draw(struct sim_strangers *x, uint64_t n)
{
    return random_below(x->seed, STREAM, x->draws++, n);
}

static void more_bytes(struct sim_strangers *x)
{
    for (size_t i = 0; i < BYTES; i++)
        x->bytes[i] = (uint8_t)draw(x, 256);
    x->d.at = x->bytes;
    x->d.left = BYTES;
}

// Sends no HELLO, an honest HELLO of a tool, or the HELLO of another node without a
// proof.
static void say_hello(struct stranger *k, van_link link)
{
    struct sim_strangers *x = k->all;
    uint64_t how = draw(x, 4);
    struct msg_hello hello = {
        .cluster = 1, .role = WIRE_TOOL, .version = wire_text(tug_version())};
    if (k->m != NULL) {
        session_greet(k->van, link, member_who(k->m));
        return;
    }
    if (how == 0)
        return;
    if (how == 1 && x->d.n_sessions > 0) {
        uint32_t i = (uint32_t)draw(x, x->d.n_sessions);
        hello.role = WIRE_WORKER;
        hello.node = x->d.nodes[i];
        hello.session = x->d.sessions[i];
    }
    (void)van_send(k->van, link, MSG_HELLO, 0, &hello, NULL);
}

static struct target *target_of(struct stranger *k, van_link link)
{
    for (uint32_t i = 0; i < MAX_TARGETS; i++)
        if (k->targets[i].link == link && link != 0)
            return &k->targets[i];
    return NULL;
}

static void on_opened(void *ctx, van_link link, bool accepted, uint64_t now)
{
    struct stranger *k = ctx;
    struct target *t = target_of(k, link);
    if (t != NULL) {
        t->open = true;
        say_hello(k, link);
    } else if (k->m != NULL) {
        member_opened(k->m, link, accepted, now);
    }
}

static void on_message(void *ctx, van_link link, struct van_message *m, uint64_t now)
{
    struct stranger *k = ctx;
    if (target_of(k, link) == NULL && k->m != NULL)
        member_message(k->m, link, m, now);
}

static void on_closed(void *ctx, van_link link, const struct err *why, uint64_t now)
{
    struct stranger *k = ctx;
    struct target *t = target_of(k, link);
    if (t != NULL)
        *t = (struct target){.link = 0};
    else if (k->m != NULL)
        member_closed(k->m, link, why, now);
}

static uint64_t on_tick(void *ctx, uint64_t now)
{
    struct stranger *k = ctx;
    return k->m != NULL ? member_tick(k->m, now) : VAN_NEVER;
}

static int open_stranger(struct stranger *k, struct sim_strangers *x, struct sim *s,
                         const char *name, enum wire_role role, struct err *e)
{
    struct van_handler h = {.ctx = k,
                            .opened = on_opened,
                            .message = on_message,
                            .closed = on_closed,
                            .tick = on_tick};
    k->all = x;
    TRY(sim_van_open(&k->van, s, name, &h, e));
    sim_van_role(k->van, role);
    return 0;
}

int sim_strangers_open(struct sim_strangers **ret, struct sim *s, uint64_t seed,
                       const struct sim_seen *seen, struct err *e)
{
    struct sim_strangers *x = *ret = mem_zalloc(sizeof(*x));
    if (x == NULL)
        return err_nomem(e, "strangers");
    x->seed = seed;
    x->seen = *seen;
    x->d.bits = 3;
    struct member_options o = sim_member(WIRE_DRIVER, NUMBER, "");
    TRY(member_open(&x->departed.m, &o, e));
    TRY(open_stranger(&x->never, x, s, "stranger", WIRE_TOOL, e));
    TRY(open_stranger(&x->departed, x, s, "departed", WIRE_WORKER, e));
    member_serve(x->departed.m, x->departed.van, sim_now(s));
    return 0;
}

void sim_strangers_close(struct sim_strangers *x)
{
    if (x == NULL)
        return;
    van_free(x->never.van);
    van_free(x->departed.van);
    member_close(x->departed.m);
    draw_free(&x->d);
    mem_free(x);
}

uint64_t sim_strangers_frames(const struct sim_strangers *x)
{
    return x->frames;
}

// Records numbers from the roster, so that the receiver does not refuse drawn messages at
// once.
static void know(struct sim_strangers *x, const struct roster *r)
{
    x->d.epoch = r->epoch;
    x->d.version = r->version;
    for (uint32_t i = 0; i < r->n_nodes; i++)
        if (r->nodes[i].session != 0)
            draw_know(&x->d, r->nodes[i].id, r->nodes[i].session);
}

// Sends a push that would change a row if it were accepted.
static void send_push(struct stranger *k, van_link link)
{
    struct sim_strangers *x = k->all;
    float values[16] = {1, 1};
    uint64_t session = k->m != NULL && draw(x, 2) == 0 ? member_session(k->m)
                                                       : draw_sense(&x->d, "session");
    struct msg_push m = {.table = x->seen.table,
                         .epoch = x->d.epoch,
                         .session = session,
                         .number = 1 + x->frames++,
                         .n = 1,
                         .op = WIRE_GRADIENT,
                         .rate = 1,
                         .pass = 1,
                         .keys = {&x->seen.key, sizeof(x->seen.key)},
                         .values = {values, x->seen.width * sizeof(*values)}};
    (void)van_send(k->van, link, MSG_PUSH, 1 + draw(x, 1000), &m, NULL);
}

// Sends a random frame, but neither JOIN nor HELLO: a process that has left still knows a
// worker's token, and could join again with it.
static void send_frame(struct stranger *k, van_link link)
{
    struct sim_strangers *x = k->all;
    union wire_any m;
    more_bytes(x);
    if (draw(x, 3) == 0) {
        send_push(k, link);
        return;
    }
    uint16_t type = draw_type(&x->d);
    bool joins = type == MSG_JOIN || type == MSG_HELLO;
    if (!joins && draw_message(&x->d, type, &m) &&
        van_send(k->van, link, type, 1 + draw(x, 1000), &m, NULL) == 0)
        x->frames++;
    draw_free(&x->d);
}

static void speak(struct stranger *k, uint32_t n_servers)
{
    struct sim_strangers *x = k->all;
    uint32_t which = (uint32_t)draw(x, n_servers + 1);
    struct target *t = &k->targets[which];
    char address[32];
    snprintf(address, sizeof(address), "sim://server%u", which - 1);
    if (t->link == 0)
        t->link = van_connect(k->van, which == 0 ? "sim://scheduler" : address,
                              5 * SIM_SECOND);
    else if (draw(x, 30) == 0)
        van_close_link(k->van, t->link), *t = (struct target){.link = 0};
    else if (t->open)
        send_frame(k, t->link);
}

// Returns whether all servers know that the member's session has ended; until then they
// rightly accept its messages.
static bool is_over(const struct member *m, struct shard *const *shards, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!roster_session_over(member_roster(shard_member(shards[i])),
                                 member_session(m)))
            return false;
    return member_session(m) != 0 && n > 0;
}

// Lets the stranger join, connect to all servers, and leave.
static void come_and_go(struct stranger *k, uint32_t n_servers)
{
    uint32_t which = 1 + (uint32_t)draw(k->all, n_servers);
    char address[32];
    if (!member_ready(k->m) || member_left(k->m))
        return;
    snprintf(address, sizeof(address), "sim://server%u", which - 1);
    if (draw(k->all, 20) == 0) {
        member_leave(k->m, NULL);
        van_wake(k->van);
    } else if (k->targets[which].link == 0) {
        k->targets[which].link = van_connect(k->van, address, 5 * SIM_SECOND);
    }
}

void sim_strangers_step(struct sim_strangers *x, const struct scheduler *s,
                        struct shard *const *shards, uint32_t n)
{
    if (draw(x, x->frames < MANY_FRAMES ? 6 : 100) != 0)
        return;
    know(x, scheduler_roster(s));
    speak(&x->never, n);
    if (member_left(x->departed.m) && is_over(x->departed.m, shards, n))
        speak(&x->departed, n);
    else
        come_and_go(&x->departed, n);
}
