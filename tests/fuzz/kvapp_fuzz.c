// A server of programs on tug/kvapp.h and tug/kvstore.h gets requests, answers and any
// bytes from workers, from a worker whose session has ended, from a tool and from a
// stranger. It does not crash, gives all memory back, keeps no more than its budget, and
// answers valid requests.
//
// Its customers are the default store, one that answers, one that handles whole messages,
// one that never answers, and a kvstore's server.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "doors/kvstore/server.h"
#include "kit/lone_pump.inc.h"
#include "os/thread.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HELD_MAX = 64 };
enum { STORE = 1, ECHO, BY_HAND, SILENT };

static struct lone_node lone;
static struct tug_kvstore_server kvs;
static struct tug_kv_default *store;
static uint64_t numbers[PEERS];
static void *held[HELD_MAX]; // messages kept by the customer that never answers
static uint32_t n_held;

static void work(void)
{
    lone_node_work();
    while (!kvs.stopped && kvs_serve_next(&kvs, 0))
        ;
}

static void run_for(uint64_t ns)
{
    peers_run(&lone.w, ns);
    work();
    peers_run(&lone.w, MILLIS);
}

// ---------------------------------------------------------------- customers

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
        (void)tug_app_refuse(a, m->ticket, TUG_EUSAGE, "no");
}

static void keep(void *ctx, struct tug_app *a, const struct tug_kv_meta *m,
                 const struct tug_kv_data *d)
{
    (void)ctx, (void)d;
    if (n_held < HELD_MAX)
        held[n_held++] = tug_app_keep(a, m->ticket);
}

static int control(void *ctx, int32_t head, const void *body, size_t bytes)
{
    (void)ctx, (void)body;
    return bytes % 2 != 0 ? head : 0;
}

static void open_customer(uint32_t app, const struct tug_app_handlers *h)
{
    struct tug_app *a;
    require(tug_app_open(&a, &lone.n, app, app, h) == 0);
}

static void open_customers(void)
{
    require(tug_kv_default_open(&store) == 0);
    open_customer(STORE,
                  &(struct tug_app_handlers){.kv = tug_kv_default_handle, .ctx = store});
    open_customer(ECHO, &(struct tug_app_handlers){.request = echo});
    open_customer(BY_HAND, &(struct tug_app_handlers){.message = by_hand});
    open_customer(SILENT, &(struct tug_app_handlers){.kv = keep});
    kvs = (struct tug_kvstore_server){
        .node = &lone.n, .workers = 2, .o = {.controller = control}};
    pthread_mutex_init(&kvs.lock, NULL);
    thread_condition(&kvs.more);
    require(kvs_server_attach(&kvs) == 0);
}

static void close_customers(void)
{
    kvs_server_detach(&kvs);
    while (lone.n.apps != NULL)
        (void)tug_app_close(lone.n.apps);
    for (uint32_t i = 0; i < n_held; i++)
        tug_app_release(held[i]);
    n_held = 0;
}

static void greet(int peer, uint32_t node, uint64_t session)
{
    lone_node_greet(&lone, peer, node, session);
    work();
}

// ---------------------------------------------------------------- the messages to send

static uint64_t store_key(int64_t number)
{
    return hash_bytes(&number, sizeof(number), 0) >> 16;
}

// Returns a head as workers send it, and elements that fit it, unless the drawn bytes
// change something.
static struct wire_span kvs_words(uint8_t odd)
{
    struct draw *d = &lone.w.d;
    static const uint32_t dtypes[] = {0, 0, 0, 1, 2, 4, 6, 3};
    struct kvs_head h = {.dtype = dtypes[odd & 1 ? draw_below(d, 8) : 0],
                         .coding = draw_below(d, 4),
                         // The number of rows that the keys have.
                         .rows = odd & 2 ? draw_below(d, 200) : 3,
                         .width = odd & 2 ? draw_below(d, 200) : 2,
                         .n = draw_below(d, 4),
                         .number = draw_below(d, 4),
                         .sparse = draw_below(d, 2),
                         .threshold = 0.5f,
                         .round = odd >> 6};
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

// Returns the body of a request that is neither a push nor a pull.
static struct wire_span kvs_body(int32_t head, uint8_t odd)
{
    static const char *const texts[] = {"sgd",
                                        "adam:learning_rate=1",
                                        "test:x=1",
                                        "signum:momentum=0.9,wd_lh=nan",
                                        "lamb:lr_mult(1)=2,lr_mult('w')=0",
                                        "lars:lr_scheduler=factor,step=2",
                                        "nadam:lr_scheduler=multifactor,step=1|2"};
    struct draw *d = &lone.w.d;
    size_t bytes = odd & 1 ? draw_below(d, 200) : sizeof(uint64_t);
    char *p = draw_room(d, bytes + 1);
    for (size_t i = 0; i < bytes; i++)
        p[i] = (char)draw_byte(d);
    if (head == KVS_OPTIMIZER && !(odd & 1)) {
        const char *text = texts[draw_below(d, sizeof(texts) / sizeof(*texts))];
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
    struct draw *d = &lone.w.d;
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
    struct draw *d = &lone.w.d;
    uint32_t keys = draw_below(d, 20), each = 1 + draw_below(d, 3);
    m->keys = draw_keys(d, keys, WIRE_SPACE_RANGE);
    m->values = draw_floats(d, odd & 64 ? draw_below(d, 100) : (uint64_t)keys * each);
    m->value_bytes = odd & 32 ? m->value_bytes : 0;
    if (!(odd & 16))
        m->lengths = m->body = (struct wire_span){0};
}

// Draws a message. A message with many random fields would need many bytes of the input,
// so most fields get valid values.
static void draw_app(struct msg_app *m, uint8_t odd)
{
    struct draw *d = &lone.w.d;
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
    struct draw *d = &lone.w.d;
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
    peer_send(&lone.w.peers[peer], MSG_APP, draw_byte(d), &m);
}

static void step(void)
{
    struct draw *d = &lone.w.d;
    uint8_t what = draw_byte(d);
    int peer = what % 5;
    struct peer *p = &lone.w.peers[peer];
    switch (what / 5 % 16) {
    case 0:
        run_for(peers_pause(&lone.w) / 4);
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
            tug_app_release(held[--n_held]);
        break;
    case 5:
        if (what > 200)
            lone_node_roster(&lone, true, what % 2 == 0);
        break;
    default: // mostly requests of nodes that may send them
        send_app(what % 16 != 0 ? what / 16 % 2 : peer);
    }
    run_for(100000);
}

// Both workers say hello to the kvstore; the first byte chooses its mode.
static void open_stores(void)
{
    struct kvs_hello hello = {.async = draw_byte(&lone.w.d) & 1, .workers = 2};
    for (int peer = LONE_FIRST; peer <= LONE_SECOND; peer++) {
        struct msg_app m = {.app = KVS_APP,
                            .head = KVS_HELLO,
                            .flags = WIRE_APP_REQUEST | WIRE_APP_SIMPLE,
                            .number = ++numbers[peer],
                            .acked = 1,
                            .body = {&hello, sizeof(hello)}};
        peer_send(&lone.w.peers[peer], MSG_APP, 1, &m);
        run_for(MILLIS);
    }
    for (int64_t i = 0; i < 3; i++) { // keys 0 to 2; key 2 is not made
        float words[sizeof(struct kvs_head) / sizeof(float) + 6] = {0};
        struct kvs_head h = {.rows = 3, .width = 2, .number = i, .sparse = i == 2};
        uint64_t key = store_key(i);
        struct msg_app m = {.app = KVS_APP,
                            .head = KVS_INIT,
                            .flags = WIRE_APP_REQUEST | WIRE_APP_PUSH,
                            .number = ++numbers[LONE_FIRST],
                            .acked = 1,
                            .keys = {&key, sizeof(key)},
                            .values = {words, sizeof(words)}};
        memcpy(words, &h, sizeof(h));
        peer_send(&lone.w.peers[LONE_FIRST], MSG_APP, 1, &m);
        run_for(MILLIS);
    }
    require(kvs.values.by_key.n == 3);
}

// Checks that a valid request is answered. A server that has ended is not asked.
static void ask_well(void)
{
    uint64_t before = lone.w.heard[MSG_APP];
    struct msg_app m = {.app = ECHO, .flags = WIRE_APP_REQUEST | WIRE_APP_SIMPLE};
    greet(LONE_FIRST, LONE_WORKER, 101);
    peer_send(&lone.w.peers[LONE_FIRST], MSG_APP, 1, &m);
    run_for(10 * MILLIS);
    require(lone.w.heard[MSG_APP] > before || shard_finished(lone.n.shard, NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t live = mem_live();
    memset(numbers, 0, sizeof(numbers));
    peers_open(&lone.w, data, size);
    lone_node_open(&lone);
    open_customers();
    lone_node_join(&lone);
    work();
    open_stores();
    for (int i = 0; i < 100 && lone.w.d.left > 0; i++)
        step();
    require(budget_used(&lone.n.process.budget, BUDGET_PENDING) <= LONE_BYTES);
    ask_well();
    close_customers();
    lone_node_close(&lone);
    kvs_server_free_memory(&kvs);
    tug_kv_default_close(store);
    peers_close(&lone.w);
    require(mem_live() == live);
    return 0;
}
