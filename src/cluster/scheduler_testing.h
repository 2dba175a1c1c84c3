// What tests of the scheduler share: a cluster whose members join one after the other,
// and a peer that says what the test wants.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLUSTER_SCHEDULER_TESTING_H
#define TUG_CLUSTER_SCHEDULER_TESTING_H

#include "cluster/cluster_testing.h"
#include "cluster/scheduler.h"
#include "cluster/scheduler_internal.h"

static struct world w;

static inline void open_world(uint32_t servers, uint32_t workers)
{
    struct scheduler_options o = world_options(servers, workers);
    world_open(&w, 1, &o);
}

// One after the other, so that ids are known.
static inline struct actor *add(enum wire_role role)
{
    struct actor *a = world_add(&w, role);
    world_run(&w, SECONDS / 2);
    return a;
}

static inline void add_all(uint32_t servers, uint32_t workers, bool driver)
{
    for (uint32_t i = 0; i < servers; i++)
        add(WIRE_SERVER);
    for (uint32_t i = 0; i < workers; i++)
        add(WIRE_WORKER);
    if (driver)
        add(WIRE_DRIVER);
    world_run(&w, SECONDS);
    for (uint32_t i = 0; i < w.n; i++)
        assert_true(member_ready(w.actors[i].m));
}

// Anyone: a peer that says what the test wants.

struct peer {
    struct van *v;
    van_link link;
    uint16_t type;
    uint64_t request, value;
    char text[WIRE_BYTES_MAX];
    bool closed;
};

static struct peer peer;

static inline void peer_message(void *ctx, van_link link, struct van_message *m,
                                uint64_t now)
{
    (void)ctx, (void)link, (void)now;
    struct wire_text t = {NULL, 0};
    peer.type = m->type;
    peer.request = m->request;
    if (m->type == MSG_ERROR)
        t = m->m->error.what;
    else if (m->type == MSG_STATUS_IS)
        t = (struct wire_text){m->m->status_is.json.data,
                               (uint32_t)m->m->status_is.json.n};
    else if (m->type == MSG_JOINED)
        peer.value = m->m->joined.session;
    else if (m->type == MSG_HEARTBEAT_OK)
        peer.value = m->m->heartbeat_ok.known;
    snprintf(peer.text, sizeof(peer.text), "%.*s", (int)t.n, t.n > 0 ? t.data : "");
}

static inline void peer_closed(void *ctx, van_link link, const struct err *why,
                               uint64_t now)
{
    (void)ctx, (void)link, (void)why, (void)now;
    peer.closed = true;
}

static inline uint64_t peer_tick(void *ctx, uint64_t now)
{
    (void)ctx, (void)now;
    return VAN_NEVER;
}

static inline void open_peer_as(const char *name)
{
    struct van_handler h = {
        .message = peer_message, .closed = peer_closed, .tick = peer_tick};
    memset(&peer, 0, sizeof(peer));
    assert_int_equal(sim_van_open(&peer.v, w.sim, name, &h, NULL), 0);
    peer.link = van_connect(peer.v, "sim://scheduler", SECONDS);
    world_run(&w, SECONDS);
}

static inline void open_peer(void)
{
    open_peer_as("peer");
}

static inline void say(uint16_t type, const void *msg)
{
    peer.type = 0;
    assert_int_equal(van_send(peer.v, peer.link, type, 5, msg, NULL), 0);
    world_run(&w, SECONDS / 10);
}

static inline void say_hello(uint64_t cluster)
{
    say(MSG_HELLO, &(struct msg_hello){.cluster = cluster, .role = WIRE_TOOL});
}

static inline void close_peer(void)
{
    van_free(peer.v);
    world_close(&w);
}

// A node that speaks for itself, without a member that sees to it that this makes sense.
static inline void join_with(enum wire_role role, uint64_t number)
{
    struct msg_join join = {.role = (uint8_t)role,
                            .ticket = number,
                            .process = number,
                            .loops = 1,
                            .host = wire_text("host"),
                            .address = wire_text("")};
    say_hello(CLUSTER);
    say(MSG_JOIN, &join);
}

static inline void join_as(enum wire_role role)
{
    join_with(role, 4711);
}

#endif
