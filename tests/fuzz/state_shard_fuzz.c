// A server's loop gets messages from workers, tools, sessions that have ended and
// strangers, and its scheduler sends anything, while time passes. The loop does not crash
// or loop for ever, frees all memory, and answers an honest tool.
//
// Its tables have every mode and several accessors, so that messages find tables that
// fit. Saves go to a directory that does not exist.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "kit/peers.h"
#include "protocol/spec.h"
#include "rule/rule.h"
#include "server/shard.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BITS = 3, ME = 8, OTHER = 10, WORKER = 9, WIDTH = 2, NUMBERS = 6 };
// The fuzzer's nodes: two workers, a worker whose session has ended, a tool, a stranger,
// and the scheduler.
enum { FIRST, SECOND, DEAD, TOOL, STRANGER, SCHEDULER };

static struct peers w;
static struct shard *shard;
static uint64_t push_number, order_number;

static const char *const texts[] = {
    "name=t4",
    "name=t4;accessor=ctr;dim=4;embedx-threshold=1",
    "name=t5;accessor=sparse;mode=sync",
    "name=t5;accessor=counter;mode=ssp:1;placement=range",
    "name=t5;accessor=merge;deltas=yes;budget-rows=10",
    "name=t4;accessor=ctr_double;dim=3;entry=count:2;ttl-steps=3",
    "name=t4;accessor=plain;dim=3;rule=adam;rate=poly:1,2",
    "dim=4294967295",
    "accessor=plain;dim=1000000",
    "/nowhere/at/all",
    "t4",
    NULL};

static const uint16_t asked[] = {
#define TO_SERVER(NAME, name) MSG_##NAME,
#include "wire/messages.def"
};

// Sends a valid roster, except for what the byte `odd` changes.
static void send_roster(uint64_t epoch, uint8_t odd)
{
    struct buf nodes = BUF_INIT(WIRE_BYTES_MAX), moves = BUF_INIT(WIRE_BYTES_MAX);
    uint32_t owners[WIRE_SPACES << BITS], partition = odd % (1 << BITS);
    peers_put_node(&nodes, 1, WIRE_SCHEDULER, 0, 1, true);
    peers_put_node(&nodes, ME, WIRE_SERVER, 0, 100, true);
    peers_put_node(&nodes, WORKER, WIRE_WORKER, 0, 101, odd % 5 != 1);
    peers_put_node(&nodes, OTHER, WIRE_SERVER, 1, 102, true);
    peers_put_node(&nodes, WORKER + 2, WIRE_WORKER, 1, 103, odd % 7 != 1);
    peers_put_node(&nodes, WORKER + 4, WIRE_WORKER, 2, 104, false);
    for (uint32_t i = 0; i < WIRE_SPACES << BITS; i++)
        owners[i] = (i + odd / 16) % 4 == 3 ? OTHER : ME;
    // The roster may also have a move of one partition, with a drawn number, to this loop
    // or from it.
    struct wire_move move = {.move = 1 + odd / 64, .partition = partition};
    move.to = owners[partition] == ME ? OTHER : ME;
    if (odd % 3 == 2)
        require(wire_put_move(&moves, &move) == 0);
    struct msg_roster m = {.epoch = epoch,
                           .moves = {moves.data, (uint32_t)moves.len},
                           .version = ++w.d.version,
                           .partition_bits = (uint8_t)(odd == 255 ? BITS + 1 : BITS),
                           .replicas = 1,
                           .servers = 2,
                           .workers = 3,
                           .nodes = {nodes.data, (uint32_t)nodes.len},
                           .owners = {owners, sizeof(owners)}};
    peer_send(&w.peers[SCHEDULER], MSG_ROSTER, 0, &m);
    buf_free(&nodes);
    buf_free(&moves);
    peers_run(&w, MILLIS);
}

// Makes the first three tables, and the others if a drawn byte asks for them.
static void make_tables(void)
{
    static const char *const settings[] = {"name=t0;dim=2;rule=sum",
                                           "name=t1;dim=2;rule=sum;mode=ssp:1",
                                           "name=t2;dim=2;rule=sum;mode=sync",
                                           "name=t3;accessor=ctr;dim=2;entry=count:2",
                                           "name=t4;accessor=features;dim=2;mode=ssp:1",
                                           "name=t5;accessor=plain;dim=2;mode=sync"};
    enum { TABLES = sizeof(settings) / sizeof(*settings), ALWAYS = 3 };
    uint8_t wanted = draw_byte(&w.d);
    for (uint32_t i = 0; i < TABLES; i++) {
        struct msg_table m = {
            .table = i, .epoch = w.d.epoch, .config = wire_text(settings[i])};
        if (i < ALWAYS || (wanted >> (i - ALWAYS) & 1))
            peer_send(&w.peers[FIRST], MSG_TABLE, i + 1, &m);
    }
    peers_run(&w, MILLIS);
}

static void greet(int peer, uint32_t node, uint64_t session)
{
    peer_greet(&w.peers[peer], "sim://shard", node, session);
}

// Sends pushes and pulls that fit the table, unless the drawn bytes change something.
static void push_or_pull(struct peer *p)
{
    struct draw *d = &w.d;
    uint8_t odd = draw_byte(d);
    uint32_t table = draw_below(d, NUMBERS), n = draw_below(d, 20);
    static const uint32_t widths[NUMBERS] = {2, 2, 2, 5, 2, 2};
    union wire_any m;
    bool push = odd & 1;
    require(draw_message(d, push ? MSG_PUSH : MSG_PULL, &m));
    if (push) {
        m.push.table = table;
        m.push.number = odd & 2 ? m.push.number : ++push_number;
        m.push.low = odd & 4 ? m.push.low : push_number > 20 ? push_number - 20 : 0;
        m.push.keys = draw_keys(d, n, WIRE_SPACE_SPARSE);
        m.push.n = n;
        m.push.flags &= odd & 8 ? 255 : (uint8_t) ~(WIRE_KEYS_PACKED | WIRE_BF16);
        m.push.op = odd & 16 ? m.push.op : WIRE_GRADIENT;
        m.push.values = draw_floats(
            d, n * widths[table] + (odd & 32 && table == 3 ? draw_below(d, 4) : 0));
        m.push.micros = odd & 64 ? 16 : m.push.micros;
    } else {
        m.pull.table = table;
        m.pull.keys = draw_keys(d, n, WIRE_SPACE_SPARSE);
        m.pull.n = n;
        m.pull.flags &= odd & 8 ? 255 : (uint8_t)~WIRE_KEYS_PACKED;
    }
    peer_send(p, push ? MSG_PUSH : MSG_PULL, draw_byte(d), &m);
}

// Sends admin operations and saves with new numbers.
static void operate(struct peer *p)
{
    struct draw *d = &w.d;
    union wire_any m;
    uint8_t odd = draw_byte(d);
    require(draw_message(d, MSG_TABLE_DO, &m));
    m.table_do.number = ++order_number;
    m.table_do.low = order_number > 8 ? order_number - 8 : 1;
    if (odd & 1)
        m.table_do.clock = 0;
    peer_send(p, MSG_TABLE_DO, draw_byte(d), &m);
}

static void by_scheduler(void)
{
    static const uint16_t says[] = {MSG_ROSTER, MSG_FORGET, MSG_VIEW,    MSG_STOP,
                                    MSG_ERROR,  MSG_JOINED, MSG_WELCOME, MSG_OK};
    struct draw *d = &w.d;
    uint8_t odd = draw_byte(d);
    if (odd < 200)
        send_roster(1 + odd / 40, draw_byte(d));
    else
        peer_send_drawn(&w.peers[SCHEDULER], says, sizeof(says) / sizeof(*says));
}

static void step(void)
{
    struct draw *d = &w.d;
    uint8_t what = draw_byte(d);
    struct peer *p = &w.peers[what % 5];
    switch (what / 5 % 12) {
    case 0:
        peers_run(&w, peers_pause(&w) / 4);
        break;
    case 1:
        by_scheduler();
        break;
    case 2:
        operate(p);
        break;
    case 3:
        if (what > 128)
            greet(what % 5, p->node, p->session);
        else
            van_close_link(p->van, p->link);
        break;
    case 4:
        peer_send_drawn(p, NULL, 0);
        break;
    case 5:
    case 6:
    case 7:
        peer_send_drawn(p, asked, sizeof(asked) / sizeof(*asked));
        break;
    default:
        push_or_pull(p);
    }
    peers_run(&w, 100000);
}

static void join_shard(void)
{
    peers_let_in(&w, SCHEDULER, ME, 100);
    send_roster(1, 0);
    w.d.epoch = 1;
    greet(FIRST, WORKER, 101);
    greet(SECOND, WORKER + 2, 103);
    greet(DEAD, WORKER + 4, 104);
    greet(TOOL, 0, 0);
    peer_connect(&w.peers[STRANGER], "sim://shard");
    draw_know(&w.d, WORKER, 101);
    draw_know(&w.d, WORKER + 2, 103);
    draw_know(&w.d, WORKER + 4, 104);
    make_tables();
}

static void ask_status(void)
{
    uint64_t before = w.heard[MSG_STATUS_IS];
    greet(TOOL, 0, 0);
    peer_send(&w.peers[TOOL], MSG_STATUS, 1, &(struct msg_status){});
    peers_run(&w, 10 * MILLIS);
    require(w.heard[MSG_STATUS_IS] > before || shard_finished(shard, NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t live = mem_live();
    struct van *v;
    char address[VAN_ADDRESS_MAX];
    push_number = order_number = 0;
    peers_open(&w, data, size);
    w.d.bits = BITS;
    w.d.texts = texts;
    require(van_listen(w.peers[SCHEDULER].van, "sim://scheduler", address, NULL) == 0);
    sim_van_role(w.peers[FIRST].van, WIRE_WORKER); // the other peers are operators
    sim_van_role(w.peers[TOOL].van, WIRE_TOOL);
    sim_van_role(w.peers[STRANGER].van, WIRE_TOOL);
    struct shard_options o = {.member = {.cluster = 77,
                                         .scheduler = "sim://scheduler",
                                         .role = WIRE_SERVER,
                                         .loops = 1,
                                         .host = "here",
                                         .address = "sim://shard",
                                         .scheduler_timeout_ns = 1000 * SECOND_NS},
                              .max_bytes = 16 << 20,
                              .slice_ns = MILLIS,
                              .without_threads = true};
    require(shard_open(&shard, &o, NULL) == 0);
    struct van_handler h = shard_handler(shard);
    require(sim_van_open(&v, w.sim, "shard", &h, NULL) == 0);
    require(van_listen(v, "sim://shard", address, NULL) == 0);
    shard_serve(shard, v, sim_now(w.sim));
    join_shard();
    for (int i = 0; i < 100 && w.d.left > 0; i++)
        step();
    ask_status();
    shard_close(shard);
    van_free(v);
    peers_close(&w);
    require(mem_live() == live);
    return 0;
}
