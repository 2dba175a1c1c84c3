// A node's member, whose scheduler sends anything, while other nodes greet it. It does
// not crash, keeps a valid roster, answers each question of its node at most once, and in
// the end has either left or ended.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "cluster/member.h"
#include "kit/peers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BITS = 3, SCHEDULER = 0, ASKED = 4 };

static struct peers w;
static struct member *m;
static struct van *van;
static bool asking[ASKED];
static uint32_t bits;

static const char *const texts[] = {"host", "sim://x", NULL};

static void changed(void *ctx, const struct roster *r, uint64_t now)
{
    (void)ctx, (void)now;
    require(bits == 0 || r->epoch == 0 || r->partition_bits == bits);
    bits = r->epoch != 0 ? r->partition_bits : bits;
    for (int space = 0; space < WIRE_SPACES && r->epoch != 0; space++)
        for (uint32_t p = 0; p < 1u << r->partition_bits; p++)
            require(roster_find(r, r->owners[space][p]) != NULL);
    for (uint32_t i = 0; i < r->n_nodes; i++) {
        char name[ROSTER_NAME_MAX];
        require(roster_name(&r->nodes[i], name)[0] != '\0');
    }
}

static void forget(void *ctx, const struct msg_forget *f)
{
    (void)ctx, (void)f;
}

static void view(void *ctx, const struct msg_view *v)
{
    (void)ctx, (void)v;
}

// The van's handlers, which pass everything to the member.

static void opened(void *ctx, van_link link, bool accepted, uint64_t now)
{
    (void)ctx;
    (void)member_opened(m, link, accepted, now);
}

static void message(void *ctx, van_link link, struct van_message *msg, uint64_t now)
{
    uint32_t node;
    uint64_t session;
    struct err e;
    (void)ctx;
    if (!member_message(m, link, msg, now))
        (void)member_greeted(m, link, msg, &node, &session, &e);
}

static void closed(void *ctx, van_link link, const struct err *why, uint64_t now)
{
    (void)ctx;
    (void)member_closed(m, link, why, now);
}

static uint64_t tick(void *ctx, uint64_t now)
{
    (void)ctx;
    return member_tick(m, now);
}

// ----------------------------------------------------- the requests of the member's node

static const uint16_t questions[ASKED] = {MSG_LEASE, MSG_PASS_WANTED, MSG_CUT, MSG_DATA};

static void answered(void *ctx, const struct van_message *a)
{
    bool *one = ctx;
    uint16_t asked = questions[one - asking];
    require(*one);
    require(a == NULL || a->type == MSG_ERROR || a->type == wire_answer(asked));
    *one = false;
}

static void come_to_barrier(uint32_t group)
{
    static const struct member_collect call = {.call = "sum", .op = WIRE_SUM};
    struct wire_text result;
    if (group < 9)
        member_barrier(m, (uint8_t)group);
    else if (member_collect(m, &call, NULL) != 0)
        (void)member_collected(m, &result, NULL);
}

static void ask(uint32_t which)
{
    union wire_any q;
    draw_message(&w.d, questions[which], &q);
    bool was = asking[which];
    asking[which] = true;
    if (member_ask(m, questions[which], &q, answered, &asking[which]) != 0)
        asking[which] = was;
}

// -------------------------------------------------------------- the scheduler's messages

static void send_roster(void)
{
    struct draw *d = &w.d;
    struct buf nodes = BUF_INIT(1 << 16);
    uint8_t odd = draw_byte(d), shape = odd == 255 ? (uint8_t)draw_below(d, 18) : BITS;
    uint32_t n = WIRE_SPACES << shape, *owners = draw_room(d, n * sizeof(*owners));
    for (uint32_t id = 8; id < 8 + 4; id++) {
        struct wire_node x;
        draw_record_node(d, &x);
        x = (struct wire_node){.id = id,
                               .role = odd < 200 ? WIRE_SERVER : x.role,
                               .alive = odd < 220 ? 1 : x.alive,
                               .rank = x.rank,
                               .session = 90 + id,
                               .process = x.process,
                               .host = x.host,
                               .address = x.address};
        require(wire_put_node(&nodes, &x) == 0);
    }
    for (uint32_t i = 0; i < n; i++)
        owners[i] = 8 + i % 4;
    d->version += draw_below(d, 8) != 0;
    struct msg_roster r = {.epoch = draw_below(d, 8) / 2,
                           .version = d->version,
                           .partition_bits = shape,
                           .replicas = 1,
                           .servers = 4,
                           .nodes = {nodes.data, (uint32_t)nodes.len},
                           .owners = {owners, r.epoch == 0 ? 0 : n * sizeof(*owners)}};
    peer_send(&w.peers[SCHEDULER], MSG_ROSTER, draw_below(d, 6), &r);
    buf_free(&nodes);
}

static void let_in(void)
{
    struct peer *s = &w.peers[SCHEDULER];
    struct draw *d = &w.d;
    union wire_any joined;
    peer_send(s, MSG_WELCOME, 0,
              &(struct msg_welcome){.role = WIRE_SCHEDULER, .version = wire_text("0")});
    peers_run(&w, MILLIS);
    draw_message(d, MSG_JOINED, &joined);
    if (draw_below(d, 8) != 0)
        joined.joined = (struct msg_joined){
            .node = 8,
            .session = 98,
            .secret = {(const char *)peers_key, MAC_BYTES},
            .key = {(const char *)peers_key, MAC_BYTES},
        };
    peer_send(s, MSG_JOINED, s->asked, &joined);
    peers_run(&w, MILLIS);
}

static void step(void)
{
    static const uint16_t says[] = {
        MSG_LEASED, MSG_PASS_STATE, MSG_CUT_STATE,     MSG_OK,       MSG_ERROR, MSG_STOP,
        MSG_FORGET, MSG_VIEW,       MSG_BARRIER_STATE, MSG_COLLECTED};
    struct draw *d = &w.d;
    uint8_t what = draw_byte(d);
    struct peer *s = &w.peers[SCHEDULER], *p = peers_any(&w);
    switch (what % 12) {
    case 0:
        peers_run(&w, peers_pause(&w) / 2);
        break;
    case 1:
        let_in();
        break;
    case 2:
        send_roster();
        break;
    case 3:
        ask(draw_below(d, ASKED));
        break;
    case 4:
        come_to_barrier(draw_below(d, 10));
        break;
    case 5:
        if (what == 5)
            member_leave(m, &(struct err){.code = TUG_EIO, .text = "enough"});
        member_want_roster(m, draw_byte(d));
        break;
    case 6:
        van_close_link(s->van, s->link);
        break;
    case 7:
        if (p != s) {
            peer_connect(p, "sim://node");
            p->node = draw_below(d, 4) != 0 ? 10 : 0;
            p->session = p->node != 0 ? 100 : 0;
            peer_hello(p, WIRE_WORKER);
            peer_send_drawn(p, (const uint16_t[]){MSG_HELLO, MSG_PING}, 2);
        }
        break;
    case 8:
        peer_send_drawn(p, NULL, 0);
        break;
    case 9: // an answer of a random type to the pending request
        for (uint64_t request = s->asked > 1 ? s->asked - 1 : 0; request < s->asked + 2;
             request++) {
            union wire_any a;
            uint16_t type = says[draw_below(d, sizeof(says) / sizeof(*says))];
            draw_message(d, type, &a);
            peer_send(s, type, request, &a);
        }
        break;
    default:
        peer_send_drawn(s, says, sizeof(says) / sizeof(*says));
    }
    peers_run(&w, 100000);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t live = mem_live();
    char address[VAN_ADDRESS_MAX];
    peers_open(&w, data, size);
    w.d.bits = BITS;
    w.d.texts = texts;
    bits = 0;
    memset(asking, 0, sizeof(asking));
    for (uint32_t i = 0; i < 4; i++)
        draw_know(&w.d, 8 + i, 98 + i);
    require(van_listen(w.peers[SCHEDULER].van, "sim://scheduler", address, NULL) == 0);
    struct member_options o = {.cluster = 77,
                               .scheduler = "sim://scheduler",
                               .role = WIRE_SERVER,
                               .loops = 1,
                               .host = "here",
                               .address = "sim://node",
                               .scheduler_timeout_ns = 60 * SECOND_NS,
                               .resend_ns = SECOND_NS,
                               .changed = changed,
                               .forget = forget,
                               .view = view};
    struct van_handler h = {
        .opened = opened, .message = message, .closed = closed, .tick = tick};
    require(member_open(&m, &o, NULL) == 0);
    require(sim_van_open(&van, w.sim, "node", &h, NULL) == 0);
    require(van_listen(van, "sim://node", address, NULL) == 0);
    member_serve(m, van, sim_now(w.sim));
    peers_run(&w, MILLIS);
    if (size % 8 != 0)
        let_in();
    for (int i = 0; i < 120 && w.d.left > 0; i++)
        step();
    // From now on, no node sends anything: the member must end, and all its requests must
    // end.
    peers_run(&w, 200 * SECOND_NS);
    require(member_ended(m, NULL) || member_left(m));
    for (int i = 0; i < ASKED; i++)
        require(!asking[i]);
    van_free(van);
    member_close(m);
    peers_close(&w);
    require(mem_live() == live);
    return 0;
}
