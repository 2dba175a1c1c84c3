// A server of programs on tug/kvapp.h and tug/kvstore.h among workers, one whose session is
// over, a tool and a stranger, who send it requests, answers and bytes of any kind: it lives,
// gives all memory back, holds no more than it may, and answers whoever asks well.
//
// Its customers are the default store, one that answers, one that takes messages by hand,
// one that answers nobody, and a kvstore's server. In the simulated network one thread does
// everything: the pump here is one that lends the van to it.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/thread.h"
#include "kit/peers.h"
#include "kvapp/node.h"
#include "kvstore/server.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BITS = 3, ME = 8, WORKER = 9, MAX_BYTES = 16 << 20, HELD_MAX = 64 };
enum { FIRST, OTHER, DEAD, TOOL, STRANGER, SCHEDULER };
enum { STORE = 1, ECHO, BY_HAND, SILENT };

static struct peers w;
static struct tug_node n;
static struct tug_kvstore_server kvs;
static struct tug_kv_store *store;
static uint64_t numbers[PEERS];
static void *held[HELD_MAX]; // kept by the silent customer
static uint32_t n_held;

// A pump of one thread: work is done when the van's handlers have returned.

struct pump {
    struct pump_work *first, **last;
    bool working;
};
static struct pump the_pump;

int pump_open(struct pump **ret, struct van *v, struct err *e)
{
    (void)v, (void)e;
    *ret = &the_pump;
    return 0;
}
void pump_close(struct pump *p)
{
    (void)p;
}
void pump_set_spin(struct pump *p, uint64_t spin_ns)
{
    (void)p, (void)spin_ns;
}
void pump_enter(struct pump *p)
{
    (void)p;
}
void pump_leave(struct pump *p)
{
    (void)p;
}
void pump_queue(struct pump *p, struct pump_work *work)
{
    work->next = NULL;
    *p->last = work;
    p->last = &work->next;
}
bool pump_wait(struct pump *p, bool (*over)(void *ctx), void *ctx, uint64_t deadline)
{
    (void)p, (void)deadline;
    return over(ctx);
}
bool pump_working(const struct pump *p)
{
    return p->working;
}
bool pump_broken(const struct pump *p, struct err *ret_why)
{
    (void)p, (void)ret_why;
    return false;
}

static void work(void)
{
    the_pump.working = true;
    for (struct pump_work *x; (x = the_pump.first) != NULL;) {
        the_pump.first = x->next;
        if (the_pump.first == NULL)
            the_pump.last = &the_pump.first;
        x->run(x);
    }
    the_pump.working = false;
    while (!kvs.stopped && kvs_serve_next(&kvs, 0))
        ;
}

static void run_for(uint64_t ns)
{
    peers_run(&w, ns);
    work();
    peers_run(&w, MILLIS);
}

// Customers.

static void echo(void *ctx, struct tug_app *a, const struct tug_simple *q)
{
    (void)ctx;
    (void)tug_app_answer(a, q->ticket, q->body, q->body_bytes);
}

static void by_hand(void *ctx, struct tug_app *a, const struct tug_message *m)
{
    struct tug_message answer = *m;
    (void)ctx;
    answer.request = false;
    answer.receiver = m->sender;
    if (tug_message_send(tug_app_node(a), &answer) != 0)
        (void)tug_kv_refuse(a, m->ticket, TUG_EUSAGE, "no");
}

static void keep(void *ctx, struct tug_app *a, const struct tug_kv_meta *m,
                 const struct tug_kv_data *d)
{
    (void)ctx, (void)d;
    if (n_held < HELD_MAX)
        held[n_held++] = tug_kv_keep(a, m->ticket);
}

static int control(void *ctx, int32_t head, const void *body, size_t bytes)
{
    (void)ctx, (void)body;
    return bytes % 2 != 0 ? head : 0;
}

static void open_customer(uint32_t app, const struct tug_app_handlers *h)
{
    struct tug_app *a;
    require(tug_app_open(&a, &n, app, app, h) == 0);
}

static void open_customers(void)
{
    require(tug_kv_store_open(&store) == 0);
    open_customer(STORE,
                  &(struct tug_app_handlers){.kv = tug_kv_store_handle, .ctx = store});
    open_customer(ECHO, &(struct tug_app_handlers){.request = echo});
    open_customer(BY_HAND, &(struct tug_app_handlers){.message = by_hand});
    open_customer(SILENT, &(struct tug_app_handlers){.kv = keep});
    kvs = (struct tug_kvstore_server){
        .node = &n, .workers = 2, .o = {.controller = control}};
    pthread_mutex_init(&kvs.lock, NULL);
    thread_condition(&kvs.more);
    require(kvs_server_attach(&kvs) == 0);
}

// The node, as start.c makes it.

static void app_message(void *ctx, van_link link, uint32_t from, struct van_message *m)
{
    kv_received_app(ctx, link, from, m);
}

static void open_node(void)
{
    char address[VAN_ADDRESS_MAX];
    struct err e;
    n = (struct tug_node){
        .role = WIRE_SERVER,
        .pump = &the_pump,
        .o = {.role = TUG_GROUP_SERVERS, .servers = 1, .workers = 3, .wait_seconds = 60}};
    the_pump = (struct pump){.last = &the_pump.first};
    budget_open(&n.process.budget, MAX_BYTES);
    struct shard_options o = {.member = {.cluster = 77,
                                         .scheduler = "sim://scheduler",
                                         .role = WIRE_SERVER,
                                         .loops = 1,
                                         .host = "here",
                                         .address = "sim://shard",
                                         .scheduler_timeout_ns = 1000 * SECOND_NS},
                              .max_bytes = MAX_BYTES,
                              .slice_ns = MILLIS,
                              .app = app_message,
                              .app_ctx = &n,
                              .without_threads = true};
    require(kv_kept_init(&n, &e) == 0 && kv_barriers_open(&n, &e) == 0);
    require(shard_open(&n.shard, &o, &e) == 0);
    n.beneath = shard_handler(n.shard);
    n.member = shard_member(n.shard);
    struct van_handler h = kv_node_handler(&n);
    require(sim_van_open(&n.van, w.sim, "shard", &h, NULL) == 0);
    require(van_listen(n.van, "sim://shard", address, NULL) == 0);
    n.side = (struct session_side){.van = n.van, .who = member_who(n.member)};
    shard_serve(n.shard, n.van, sim_now(w.sim));
}

static void close_node(void)
{
    kvs_server_detach(&kvs);
    while (n.apps != NULL)
        tug_app_close(n.apps);
    for (uint32_t i = 0; i < n_held; i++)
        tug_kv_release(held[i]);
    n_held = 0;
    kv_numbers_forget(&n, true);
    kv_received_free(&n);
    require(budget_used(&n.process.budget, BUDGET_PENDING) == 0);
    require(budget_used(&n.process.budget, BUDGET_CLOCKS) == 0);
    shard_close(n.shard);
    van_free(n.van);
    mem_free(n.barriers->open);
    mem_free(n.barriers);
    kv_requests_free(&n);
    kv_peers_free(&n);
    mem_free(n.servers);
    mem_free(n.last_keys);
    kvs_server_free_memory(&kvs);
    tug_kv_store_close(store);
}

// The cluster: this server, two workers, and one that is dead.

static void put_node(struct buf *nodes, uint32_t id, enum wire_role role, uint32_t rank,
                     uint64_t session, bool alive)
{
    struct wire_node x = {.id = id,
                          .role = (uint8_t)role,
                          .alive = alive,
                          .rank = rank,
                          .session = session,
                          .process = id,
                          .host = wire_text("host"),
                          .address = wire_text("sim://x")};
    require(wire_put_node(nodes, &x) == 0);
}

static void send_roster(bool second_lives)
{
    struct buf nodes = BUF_INIT(WIRE_BYTES_MAX);
    uint32_t owners[WIRE_SPACES << BITS];
    put_node(&nodes, 1, WIRE_SCHEDULER, 0, 1, true);
    put_node(&nodes, ME, WIRE_SERVER, 0, 100, true);
    put_node(&nodes, WORKER, WIRE_WORKER, 0, 101, true);
    put_node(&nodes, WORKER + 2, WIRE_WORKER, 1, 103, second_lives);
    put_node(&nodes, WORKER + 4, WIRE_WORKER, 2, 104, false);
    for (uint32_t i = 0; i < WIRE_SPACES << BITS; i++)
        owners[i] = ME;
    struct msg_roster m = {.epoch = 1,
                           .version = ++w.d.version,
                           .partition_bits = BITS,
                           .servers = 1,
                           .workers = 3,
                           .nodes = {nodes.data, (uint32_t)nodes.len},
                           .owners = {owners, sizeof(owners)}};
    peer_send(&w.peers[SCHEDULER], MSG_ROSTER, 0, &m);
    buf_free(&nodes);
    run_for(MILLIS);
}

static void greet(int peer, uint32_t node, uint64_t session)
{
    struct peer *p = &w.peers[peer];
    p->node = node;
    p->session = session;
    peer_connect(p, "sim://shard");
    peer_hello(p, session != 0 ? WIRE_WORKER : WIRE_TOOL);
    work();
}

static void join(void)
{
    struct peer *s = &w.peers[SCHEDULER];
    peers_run(&w, MILLIS); // it has connected and said hello
    peer_send(s, MSG_WELCOME, 0,
              &(struct msg_welcome){.role = WIRE_SCHEDULER, .version = wire_text("0")});
    peers_run(&w, MILLIS);
    struct msg_joined joined = {.node = ME,
                                .session = 100,
                                .secret = {(const char *)peers_key, MAC_BYTES},
                                .key = {(const char *)peers_key, MAC_BYTES}};
    peer_send(s, MSG_JOINED, s->asked, &joined);
    peers_run(&w, MILLIS);
    send_roster(true);
    w.d.epoch = 1;
    greet(FIRST, WORKER, 101);
    greet(OTHER, WORKER + 2, 103);
    greet(DEAD, WORKER + 4, 104);
    greet(TOOL, 0, 0);
    peer_connect(&w.peers[STRANGER], "sim://shard");
}

// What is sent.

static uint64_t store_key(int64_t number)
{
    return hash_bytes(&number, sizeof(number), 0) >> 16;
}

// A head as workers send it, and elements that fit, as far as the bytes let them.
static struct wire_span kvs_words(uint8_t odd)
{
    struct draw *d = &w.d;
    static const uint32_t dtypes[] = {0, 0, 0, 1, 2, 4, 6, 3};
    struct kvs_head h = {.dtype = dtypes[odd & 1 ? draw_below(d, 8) : 0],
                         .coding = draw_below(d, 4),
                         .rows = odd & 2 ? draw_below(d, 200) : 3, // as of the keys
                         .width = odd & 2 ? draw_below(d, 200) : 2,
                         .n = draw_below(d, 4),
                         .number = draw_below(d, 4),
                         .sparse = draw_below(d, 2),
                         .threshold = 0.5f};
    if (odd & 4)
        h.rows = draw_any(d, 64);
    if (odd & 8)
        h.n = draw_any(d, 64);
    size_t bytes = sizeof(h) + 4 * (odd & 16 ? draw_below(d, 256) : 6);
    char *p = draw_room(d, bytes);
    memcpy(p, &h, sizeof(h));
    for (size_t i = sizeof(h); i < bytes; i++)
        p[i] = odd & 32 ? (char)draw_byte(d) : 0;
    return (struct wire_span){p, bytes};
}

// The body of a request that is no push or pull.
static struct wire_span kvs_body(int32_t head, uint8_t odd)
{
    static const char *const texts[] = {"sgd", "adam:learning_rate=1", "test:x=1",
                                        "signum:momentum=0.9,wd_lh=nan"};
    struct draw *d = &w.d;
    size_t bytes = odd & 1 ? draw_below(d, 200) : sizeof(uint64_t);
    char *p = draw_room(d, bytes + 1);
    for (size_t i = 0; i < bytes; i++)
        p[i] = (char)draw_byte(d);
    if (head == KVS_OPTIMIZER && !(odd & 1)) {
        const char *text = texts[draw_below(d, 4)];
        return (struct wire_span){text, strlen(text)};
    }
    uint64_t id = store_key(draw_below(d, 4));
    struct kvs_hello hello = {.async = draw_below(d, 2), .workers = 2};
    if (!(odd & 1))
        memcpy(p, head == KVS_HELLO ? (void *)&hello : (void *)&id, sizeof(id));
    return (struct wire_span){p, bytes};
}

static void to_kvstore(struct msg_app *m, uint8_t odd)
{
    struct draw *d = &w.d;
    static const uint8_t flags[] = {WIRE_APP_PUSH, WIRE_APP_PUSH | WIRE_APP_PULL,
                                    WIRE_APP_PULL, 0};
    uint64_t *key = draw_room(d, sizeof(*key));
    *key = store_key(draw_below(d, 4));
    m->head = (int32_t)draw_below(d, 9);
    m->value_bytes = 0;
    if (odd & 64) {
        m->flags = WIRE_APP_REQUEST | WIRE_APP_SIMPLE;
        m->body = kvs_body(m->head, odd);
        m->keys = m->values = m->lengths = (struct wire_span){0};
        return;
    }
    m->flags = (uint8_t)(WIRE_APP_REQUEST | flags[draw_below(d, 4)]);
    m->body = m->lengths = (struct wire_span){0};
    m->keys = (struct wire_span){key, sizeof(*key)};
    m->values = kvs_words(draw_byte(d));
}

static void to_store(struct msg_app *m, uint8_t odd)
{
    struct draw *d = &w.d;
    uint32_t keys = draw_below(d, 20), each = 1 + draw_below(d, 3);
    m->keys = draw_keys(d, keys, WIRE_SPACE_RANGE);
    m->values = draw_floats(d, odd & 64 ? draw_below(d, 100) : (uint64_t)keys * each);
    m->value_bytes = odd & 32 ? m->value_bytes : 0;
    if (!(odd & 16))
        m->lengths = m->body = (struct wire_span){0};
}

// A message of many fields costs many bytes: most have those that say something.
static void draw_app(struct msg_app *m, uint8_t odd)
{
    struct draw *d = &w.d;
    union wire_any any;
    *m = (struct msg_app){.customer = draw_below(d, 2),
                          .timestamp = draw_below(d, 9),
                          .head = (int32_t)draw_below(d, 9),
                          .flags = (draw_byte(d) & 15) | WIRE_APP_REQUEST,
                          .priority = (int32_t)draw_below(d, 3) - 1};
    if (odd < 240)
        return;
    require(draw_message(d, MSG_APP, &any));
    *m = any.app;
}

static void send_app(int peer)
{
    static const uint32_t apps[] = {STORE,   STORE,   ECHO,        BY_HAND, SILENT,
                                    KVS_APP, KVS_APP, KV_BARRIERS, 12345};
    struct draw *d = &w.d;
    union wire_any m;
    uint8_t odd = draw_byte(d);
    draw_app(&m.app, odd);
    m.app.app = apps[draw_below(d, sizeof(apps) / sizeof(*apps))];
    if (m.app.app == KVS_APP)
        to_kvstore(&m.app, odd);
    else if (!(odd & 8)) {
        to_store(&m.app, odd);
        m.app.flags |= WIRE_APP_REQUEST;
    }
    if (odd % 16 != 2)
        m.app.number = ++numbers[peer] - draw_below(d, 2);
    if (odd % 16 != 4)
        m.app.acked = numbers[peer] > 20 ? numbers[peer] - 20 : 1;
    peer_send(&w.peers[peer], MSG_APP, draw_byte(d), &m);
}

static void step(void)
{
    struct draw *d = &w.d;
    uint8_t what = draw_byte(d);
    int peer = what % 5;
    struct peer *p = &w.peers[peer];
    switch (what / 5 % 16) {
    case 0:
        run_for(peers_pause(&w) / 4);
        break;
    case 1:
        greet(peer, p->node, p->session);
        break;
    case 2:
        van_close_link(p->van, p->link);
        if (what % 4 != 0)
            greet(peer, p->node, p->session);
        break;
    case 3:
        peer_send_drawn(p, NULL, 0);
        break;
    case 4:
        if (n_held > 0)
            tug_kv_release(held[--n_held]);
        break;
    case 5:
        if (what > 200)
            send_roster(what % 2 == 0);
        break;
    default: // mostly of who may
        send_app(what % 16 != 0 ? what / 16 % 2 : peer);
    }
    run_for(100000);
}

// Both workers have said hello to the kvstore; its mode is the first byte's.
static void open_stores(void)
{
    struct kvs_hello hello = {.async = draw_byte(&w.d) & 1, .workers = 2};
    for (int peer = FIRST; peer <= OTHER; peer++) {
        struct msg_app m = {.app = KVS_APP,
                            .head = KVS_HELLO,
                            .flags = WIRE_APP_REQUEST | WIRE_APP_SIMPLE,
                            .number = ++numbers[peer],
                            .acked = 1,
                            .body = {&hello, sizeof(hello)}};
        peer_send(&w.peers[peer], MSG_APP, 1, &m);
        run_for(MILLIS);
    }
    for (int64_t i = 0; i < 3; i++) { // keys 0 to 2; the last one is not made
        float words[sizeof(struct kvs_head) / sizeof(float) + 6] = {0};
        struct kvs_head h = {.rows = 3, .width = 2, .number = i, .sparse = i == 2};
        uint64_t key = store_key(i);
        struct msg_app m = {.app = KVS_APP,
                            .head = KVS_INIT,
                            .flags = WIRE_APP_REQUEST | WIRE_APP_PUSH,
                            .number = ++numbers[FIRST],
                            .acked = 1,
                            .keys = {&key, sizeof(key)},
                            .values = {words, sizeof(words)}};
        memcpy(words, &h, sizeof(h));
        peer_send(&w.peers[FIRST], MSG_APP, 1, &m);
        run_for(MILLIS);
    }
    require(kvs.values.by_key.n == 3);
}

// Whoever asks well is answered; a server that has ended is not asked.
static void ask_well(void)
{
    uint64_t before = w.heard[MSG_APP];
    struct msg_app m = {.app = ECHO, .flags = WIRE_APP_REQUEST | WIRE_APP_SIMPLE};
    greet(FIRST, WORKER, 101);
    peer_send(&w.peers[FIRST], MSG_APP, 1, &m);
    run_for(10 * MILLIS);
    require(w.heard[MSG_APP] > before || shard_finished(n.shard, NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t live = mem_live();
    char address[VAN_ADDRESS_MAX];
    memset(numbers, 0, sizeof(numbers));
    peers_open(&w, data, size);
    w.d.bits = BITS;
    require(van_listen(w.peers[SCHEDULER].van, "sim://scheduler", address, NULL) == 0);
    sim_van_role(w.peers[FIRST].van, WIRE_WORKER); // others are operators
    sim_van_role(w.peers[TOOL].van, WIRE_TOOL);
    sim_van_role(w.peers[STRANGER].van, WIRE_TOOL);
    open_node();
    open_customers();
    join();
    open_stores();
    for (int i = 0; i < 100 && w.d.left > 0; i++)
        step();
    require(budget_used(&n.process.budget, BUDGET_PENDING) <= MAX_BYTES);
    ask_well();
    close_node();
    peers_close(&w);
    require(mem_live() == live);
    return 0;
}
