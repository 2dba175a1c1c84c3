// See peers.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/peers.h"

#include <stdio.h>

enum { EVENTS = 200000, SECONDS = 3600 };

const uint8_t peers_key[MAC_BYTES] = {0};

static void peer_opened(void *ctx, van_link link, bool accepted, uint64_t now)
{
    struct peer *p = ctx;
    (void)now;
    if (accepted)
        p->link = link;
    p->opened = p->opened || link == p->link;
}

static void peer_message(void *ctx, van_link link, struct van_message *m, uint64_t now)
{
    struct peer *p = ctx;
    struct draw *d = &p->world->d;
    (void)link, (void)now;
    p->world->heard[m->type & 255]++;
    p->asked = m->request;
    p->asked_type = m->type;
    if (m->type == MSG_JOINED) {
        p->node = m->m->joined.node;
        p->session = m->m->joined.session;
        draw_know(d, p->node, p->session);
    } else if (m->type == MSG_ROSTER) {
        d->epoch = m->m->roster.epoch;
        d->version = m->m->roster.version;
    }
}

static void peer_closed(void *ctx, van_link link, const struct err *why, uint64_t now)
{
    struct peer *p = ctx;
    (void)why, (void)now;
    if (link != p->link)
        return;
    p->link = 0;
    p->opened = false;
}

static uint64_t peer_tick(void *ctx, uint64_t now)
{
    (void)ctx, (void)now;
    return VAN_NEVER;
}

static void print_line(void *ctx, const char *line)
{
    (void)ctx;
    fprintf(stderr, "%s\n", line);
}

void peers_open(struct peers *w, const uint8_t *data, size_t size)
{
    struct sim_options net = {.seed = 1, .delay_min = 1000, .delay_max = 2000};
    *w = (struct peers){.d = {.at = data, .left = size}};
    require(sim_open(&w->sim, &net, NULL) == 0);
    // Prints every event, to examine an input that fails.
    if (getenv("TUG_FUZZ_TRACE") != NULL)
        sim_trace(w->sim, print_line, NULL);
    for (int i = 0; i < PEERS; i++) {
        struct peer *p = &w->peers[i];
        struct van_handler h = {.ctx = p,
                                .opened = peer_opened,
                                .message = peer_message,
                                .closed = peer_closed,
                                .tick = peer_tick};
        char name[16];
        p->world = w;
        snprintf(name, sizeof(name), "peer%d", i);
        require(sim_van_open(&p->van, w->sim, name, &h, NULL) == 0);
    }
}

void peers_close(struct peers *w)
{
    for (int i = 0; i < PEERS; i++)
        van_free(w->peers[i].van);
    sim_close(w->sim);
    draw_free(&w->d);
}

// Lets the time pass. In this time a node may only repeat messages twice a second; if it
// did more, it would never come to rest.
void peers_run(struct peers *w, uint64_t ns)
{
    uint64_t until = sim_now(w->sim) + ns;
    while (sim_step(w->sim, until))
        require(++w->events < EVENTS + sim_now(w->sim) / (SECOND_NS / 50));
}

// Returns the length of a pause. After about an hour of virtual time only short pauses
// are drawn, because the simulator needs real time for each second.
uint64_t peers_pause(struct peers *w)
{
    static const uint64_t times[] = {100000,         MILLIS,         50 * MILLIS,
                                     600 * MILLIS,   SECOND_NS,      6 * SECOND_NS,
                                     61 * SECOND_NS, 700 * SECOND_NS};
    size_t n = sizeof(times) / sizeof(*times);
    n -= sim_now(w->sim) > SECONDS * SECOND_NS ? 3 : 0;
    return times[draw_below(&w->d, (uint32_t)n)];
}

struct peer *peers_any(struct peers *w)
{
    return &w->peers[draw_below(&w->d, PEERS)];
}

void peer_connect(struct peer *p, const char *address)
{
    van_close_link(p->van, p->link);
    p->opened = false;
    p->link = van_connect(p->van, address, SECOND_NS);
    peers_run(p->world, MILLIS);
}

void peer_send(struct peer *p, uint16_t type, uint64_t request, const void *msg)
{
    if (p->link != 0 && p->opened) // messages that cannot be encoded are not sent
        (void)van_send(p->van, p->link, type, request, msg, NULL);
}

void peer_send_drawn(struct peer *p, const uint16_t *types, size_t n)
{
    struct draw *d = &p->world->d;
    union wire_any m;
    uint16_t type = n > 0 ? types[draw_below(d, (uint32_t)n)] : draw_type(d);
    uint64_t request = draw_byte(d);
    request = request < 128 ? request : request < 240 ? p->asked : draw_any(d, 64);
    if (draw_message(d, type, &m))
        peer_send(p, type, request, &m);
}

void peer_hello(struct peer *p, enum wire_role role)
{
    struct msg_hello m = {.cluster = 77,
                          .role = (uint8_t)role,
                          .node = p->node,
                          .session = p->session,
                          .version = wire_text("0")};
    // A node with a session sends a proof of this session; the scheduler's key is zeros.
    const struct van_trust trust = van_trust(p->van, p->link);
    const struct proof_of whose = {p->session, p->node, (uint8_t)role};
    uint8_t secret[MAC_BYTES], proof[MAC_BYTES];
    if (p->session != 0) {
        require(proof_secret(secret, peers_key, &whose, peers_key));
        require(proof_hello(proof, secret, &trust));
        m.proof = (struct wire_text){(const char *)proof, MAC_BYTES};
    }
    peer_send(p, MSG_HELLO, 0, &m);
    peers_run(p->world, MILLIS);
}

void peer_greet(struct peer *p, const char *address, uint32_t node, uint64_t session)
{
    p->node = node;
    p->session = session;
    peer_connect(p, address);
    peer_hello(p, session != 0 ? WIRE_WORKER : WIRE_TOOL);
}

void peers_let_in(struct peers *w, int scheduler, uint32_t node, uint64_t session)
{
    struct peer *s = &w->peers[scheduler];
    peers_run(w, MILLIS); // by then the peer has connected and said hello
    peer_send(s, MSG_WELCOME, 0,
              &(struct msg_welcome){.role = WIRE_SCHEDULER, .version = wire_text("0")});
    peers_run(w, MILLIS);
    struct msg_joined joined = {.node = node,
                                .session = session,
                                .secret = {(const char *)peers_key, MAC_BYTES},
                                .key = {(const char *)peers_key, MAC_BYTES}};
    peer_send(s, MSG_JOINED, s->asked, &joined);
    peers_run(w, MILLIS);
}

void peers_put_node(struct buf *nodes, uint32_t id, enum wire_role role, uint32_t rank,
                    uint64_t session, bool alive)
{
    struct wire_node n = {.id = id,
                          .role = (uint8_t)role,
                          .alive = alive,
                          .rank = rank,
                          .session = session,
                          .process = id,
                          .host = wire_text("host"),
                          .address = wire_text("sim://x")};
    require(wire_put_node(nodes, &n) == 0);
}
