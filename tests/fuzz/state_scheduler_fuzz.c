// The scheduler gets messages from strangers, from tools, and from nodes that have joined
// and then send anything, while time passes. The scheduler does not crash or loop for
// ever, frees all memory, and answers an honest tool until its cluster has ended.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "cluster/scheduler/scheduler.h"
#include "kit/peers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct peers w;

// The types of the messages that are sent. HELLO takes the place of STOP, because STOP
// would end the cluster too soon.
static const uint16_t asked[] = {
#define TO_SCHEDULER(NAME, name) MSG_##NAME,
#define TO_DOOR(NAME, name) MSG_##NAME == MSG_STOP ? MSG_HELLO : MSG_##NAME,
#include "wire/messages.def"
};

static void join(struct peer *p, enum wire_role role)
{
    struct draw *d = &w.d;
    uint64_t who = (uint64_t)(p - w.peers) + 1;
    struct msg_join m = {.role = (uint8_t)role,
                         .tables = (uint8_t)draw_below(d, 3),
                         .ticket = who + 8 * (uint64_t)draw_below(d, 2),
                         .process = who,
                         .loops = 1,
                         .pid = 1,
                         .host = wire_text("host"),
                         .address = wire_text("sim://s8")};
    if (p->link == 0 || !p->opened) {
        peer_connect(p, "sim://scheduler");
        peer_hello(p, role);
    }
    peer_send(p, MSG_JOIN, 1, &m);
    peers_run(&w, MILLIS);
}

// Sends the messages of an honest driver and worker: a list of data, the begin of a pass,
// a request for a lease. So other messages have something to disturb.
static void work(struct peer *p)
{
    struct draw *d = &w.d;
    struct buf files = BUF_INIT(1 << 16);
    struct wire_data_file f = {.bytes = 100, .pieces = 1 + draw_below(d, 5)};
    struct msg_lease lease = {.pass = draw_below(d, 3)};
    struct msg_pass pass = {.pass = 1 + draw_below(d, 3),
                            .kind = (uint8_t)draw_below(d, 2)};
    if (draw_below(d, 3) == 0)
        f.pieces = UINT64_MAX;
    f.compressed = f.pieces == UINT64_MAX;
    require(wire_put_data_file(&files, &f) == 0);
    struct msg_data m = {.piece_bytes = 10, .files = {files.data, (uint32_t)files.len}};
    peer_send(p, MSG_DATA, 2, &m);
    peer_send(p, MSG_PASS, 3 + draw_below(d, 4), &pass);
    peer_send(p, MSG_LEASE, 4, &lease);
    buf_free(&files);
    peers_run(&w, MILLIS);
}

static void step(void)
{
    struct draw *d = &w.d;
    uint8_t what = draw_byte(d);
    struct peer *p = peers_any(&w);
    switch (what % 12) {
    case 0:
    case 1:
        join(p, (enum wire_role)(WIRE_SCHEDULER + draw_below(d, 4)));
        break;
    case 2:
        peer_connect(p, "sim://scheduler");
        if (what & 128)
            peer_hello(p, WIRE_TOOL);
        break;
    case 3:
        peers_run(&w, peers_pause(&w));
        break;
    case 4:
        van_close_link(p->van, p->link);
        p->link = 0;
        break;
    case 5:
        work(p);
        break;
    case 6:
        peer_send_drawn(p, NULL, 0);
        break;
    default:
        peer_send_drawn(p, asked, sizeof(asked) / sizeof(*asked));
        peers_run(&w, 100000);
    }
}

// Checks that an honest tool gets an answer.
static void ask_status(const struct scheduler *s)
{
    struct peer *p = &w.peers[0];
    peer_connect(p, "sim://scheduler");
    p->node = 0;
    p->session = 0;
    peer_hello(p, WIRE_TOOL);
    uint64_t before = w.heard[MSG_STATUS_IS];
    peer_send(p, MSG_STATUS, 1, &(struct msg_status){});
    peers_run(&w, 10 * MILLIS);
    require(w.heard[MSG_STATUS_IS] == before + 1 || scheduler_finished(s, NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t live = mem_live();
    struct scheduler *s;
    struct van *v;
    char address[VAN_ADDRESS_MAX];
    peers_open(&w, data, size);
    w.d.bits = 3;
    struct scheduler_options o = {.cluster = 77,
                                  .servers = 1 + draw_below(&w.d, 2),
                                  .workers = draw_below(&w.d, 3),
                                  .partition_bits = 3,
                                  .gather_timeout_ns = 60 * SECOND_NS,
                                  .dead_timeout_ns = 5 * SECOND_NS,
                                  .leave_timeout_ns = 30 * SECOND_NS,
                                  .session_base = 1000,
                                  .host = "here"};
    require(scheduler_open(&s, &o, NULL) == 0);
    struct van_handler h = scheduler_handler(s);
    require(sim_van_open(&v, w.sim, "scheduler", &h, NULL) == 0);
    require(van_listen(v, "sim://scheduler", address, NULL) == 0);
    scheduler_serve(s, v, address);
    static const enum wire_role roles[] = {WIRE_OPERATOR, WIRE_WORKER, WIRE_SERVER,
                                           WIRE_TOOL};
    // Chooses the roles of two peers, which may have fewer rights than operators.
    uint8_t who = draw_byte(&w.d);
    sim_van_role(w.peers[1].van, roles[who % 4]);
    sim_van_role(w.peers[2].van, roles[who / 4 % 4]);
    for (int i = 0; i < 120 && w.d.left > 0; i++)
        step();
    ask_status(s);
    peers_run(&w, 200 * SECOND_NS);
    van_free(v);
    scheduler_close(s);
    peers_close(&w);
    require(mem_live() == live);
    return 0;
}
