// See guest.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/guest.h"

#include <stdio.h>
#include <string.h>

#include "kit/test.h"

struct world w;
struct guest guest;

void guest_open_world(uint32_t servers, uint32_t workers)
{
    struct scheduler_options o = world_options(servers, workers);
    world_open(&w, 1, &o);
}

struct actor *guest_add(enum wire_role role)
{
    struct actor *a = world_add(&w, role);
    world_run(&w, SECONDS / 2);
    return a;
}

void guest_add_all(uint32_t servers, uint32_t workers, bool driver)
{
    for (uint32_t i = 0; i < servers; i++)
        guest_add(WIRE_SERVER);
    for (uint32_t i = 0; i < workers; i++)
        guest_add(WIRE_WORKER);
    if (driver)
        guest_add(WIRE_DRIVER);
    world_run(&w, SECONDS);
    for (uint32_t i = 0; i < w.n; i++)
        assert_true(member_ready(w.actors[i].m));
}

void guest_open_cut_off(void)
{
    guest_open_world(1, 2);
    guest_add_all(1, 2, false);
    sim_set_faults(w.sim, 0, 0, 0, 1);
    member_want_roster(w.actors[1].m, 2);
    world_run(&w, 20 * MILLIS);
    sim_set_faults(w.sim, 0, 0, 0, 0);
    sim_partition(w.sim, w.v, w.actors[1].v, true);
}

// A peer that sends the messages that a test chooses.

static void guest_message(void *ctx, van_link link, struct van_message *m, uint64_t now)
{
    (void)ctx, (void)link, (void)now;
    struct wire_text t = {NULL, 0};
    guest.type = m->type;
    guest.request = m->request;
    if (m->type == MSG_ERROR)
        t = m->m->error.what;
    else if (m->type == MSG_STATUS_IS)
        t = (struct wire_text){m->m->status_is.json.data,
                               (uint32_t)m->m->status_is.json.n};
    else if (m->type == MSG_JOINED)
        guest.value = m->m->joined.session;
    else if (m->type == MSG_HEARTBEAT_OK)
        guest.value = m->m->heartbeat_ok.known;
    snprintf(guest.text, sizeof(guest.text), "%.*s", (int)t.n, t.n > 0 ? t.data : "");
}

static void guest_closed(void *ctx, van_link link, const struct err *why, uint64_t now)
{
    (void)ctx, (void)link, (void)why, (void)now;
    guest.closed = true;
}

static uint64_t guest_tick(void *ctx, uint64_t now)
{
    (void)ctx, (void)now;
    return VAN_NEVER;
}

void guest_open_as(const char *name)
{
    struct van_handler h = {
        .message = guest_message, .closed = guest_closed, .tick = guest_tick};
    memset(&guest, 0, sizeof(guest));
    assert_int_equal(sim_van_open(&guest.v, w.sim, name, &h, NULL), 0);
    guest.link = van_connect(guest.v, "sim://scheduler", SECONDS);
    world_run(&w, SECONDS);
}

void guest_open(void)
{
    guest_open_as("peer");
}

void guest_say(uint16_t type, const void *msg)
{
    guest.type = 0;
    assert_int_equal(van_send(guest.v, guest.link, type, 5, msg, NULL), 0);
    world_run(&w, SECONDS / 10);
}

void guest_say_hello(uint64_t cluster)
{
    guest_say(MSG_HELLO, &(struct msg_hello){.cluster = cluster, .role = WIRE_TOOL});
}

void guest_close(void)
{
    van_free(guest.v);
    world_close(&w);
}

void guest_join_with(enum wire_role role, uint64_t number)
{
    struct msg_join join = {.role = (uint8_t)role,
                            .ticket = number,
                            .process = number,
                            .loops = 1,
                            .host = wire_text("host"),
                            .address = wire_text("")};
    guest_say_hello(CLUSTER);
    guest_say(MSG_JOIN, &join);
}

void guest_join_as(enum wire_role role)
{
    guest_join_with(role, 4711);
}
