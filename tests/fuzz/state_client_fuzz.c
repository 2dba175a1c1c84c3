// A worker's client, whose scheduler and servers send anything, or nothing. It does not
// crash, answers reach the requests that asked, and every request ends by its deadline.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "client/client.h"
#include "kit/peers.h"
#include "rule/rule.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    BITS = 2,
    SCHEDULER = 0,
    SERVERS = 2,
    FIRST_ID = 8,
    WIDTH = 2,
    KEYS = 8,
    OPEN = 16
};

static struct peers w;
static struct client *c;
static struct van *van;
static struct save_manifest manifest;

// The memory of a request until the request is done.
static struct open {
    client_ts ts;
    uint64_t keys[KEYS], sum;
    float values[KEYS * 16];
    uint8_t found[KEYS];
    struct msg_table_is figures;
    uint32_t number;
    struct client_walk walk;
} all[OPEN];

static const char *const texts[] = {"name=t3;accessor=ctr;dim=2",
                                    "name=users;accessor=merge;dim=3", "users-8.rows",
                                    NULL};

static void on_view(void *ctx, const struct msg_view *v)
{
    (void)ctx, (void)v;
}

// ---------------------------------------------------------------- the cluster

static void send_roster(uint8_t odd)
{
    struct draw *d = &w.d;
    struct buf nodes = BUF_INIT(1 << 16);
    uint8_t shape = odd == 255 ? (uint8_t)draw_below(d, 17) : BITS;
    uint32_t n = WIRE_SPACES << shape, *owners = draw_room(d, n * sizeof(*owners));
    for (uint32_t i = 0; i < SERVERS; i++) {
        char address[32];
        snprintf(address, sizeof(address), "sim://s%u", i);
        struct wire_node x = {.id = FIRST_ID + 2 * i,
                              .role = WIRE_SERVER,
                              .alive = 1,
                              .rank = i,
                              .session = 90 + i,
                              .host = wire_text("host"),
                              .address = wire_text(address)};
        require(wire_put_node(&nodes, &x) == 0);
    }
    for (uint32_t i = 0; i < n; i++)
        owners[i] = FIRST_ID + 2 * ((i + odd / 32) % SERVERS);
    struct msg_roster r = {.epoch = d->epoch + (odd > 200),
                           .version = ++d->version,
                           .partition_bits = shape,
                           .replicas = 1,
                           .servers = SERVERS,
                           .workers = 1,
                           .nodes = {nodes.data, (uint32_t)nodes.len},
                           .owners = {owners, n * sizeof(*owners)}};
    d->epoch = r.epoch;
    peer_send(&w.peers[SCHEDULER], MSG_ROSTER, 0, &r);
    buf_free(&nodes);
    peers_run(&w, MILLIS);
}

static void let_in(void)
{
    struct peer *s = &w.peers[SCHEDULER];
    struct msg_joined joined = {.node = 9, .session = 555};
    peer_send(s, MSG_WELCOME, 0,
              &(struct msg_welcome){.role = WIRE_SCHEDULER, .version = wire_text("0")});
    peers_run(&w, MILLIS);
    peer_send(s, MSG_JOINED, s->asked, &joined);
    peers_run(&w, MILLIS);
    send_roster(0);
}

static void welcome(struct peer *p)
{
    peer_send(p, MSG_WELCOME, 0,
              &(struct msg_welcome){.role = WIRE_SERVER, .version = wire_text("0")});
    peers_run(&w, MILLIS);
}

// Answers the last request correctly, except for what a drawn byte changes.
static void answer(struct peer *p)
{
    struct draw *d = &w.d;
    union wire_any m;
    uint8_t odd = draw_byte(d);
    uint32_t n = draw_below(d, KEYS + 1);
    uint32_t width = odd & 1 ? WIDTH : draw_below(d, 5);
    switch (p->asked_type) {
    case MSG_HELLO:
        welcome(p);
        return;
    case MSG_PULL:
        require(draw_message(d, MSG_PULLED, &m));
        m.pulled.n = n;
        m.pulled.width = width;
        m.pulled.flags &= odd & 2 ? 255 : (uint8_t)~WIRE_BF16;
        m.pulled.values = draw_floats(d, n * width);
        m.pulled.changed.n = odd & 4 ? m.pulled.changed.n : 0;
        peer_send(p, MSG_PULLED, p->asked, &m);
        return;
    case MSG_ROWS:
        require(draw_message(d, MSG_ROWS_ARE, &m));
        m.rows_are.n = n;
        m.rows_are.width = width;
        m.rows_are.keys = draw_keys(d, n, WIRE_SPACE_SPARSE);
        m.rows_are.values = draw_floats(d, n * width);
        peer_send(p, MSG_ROWS_ARE, p->asked, &m);
        return;
    case MSG_SAVE:
        require(draw_message(d, MSG_SAVED, &m));
        m.saved.save = odd & 1 ? 5 : m.saved.save;
        peer_send(p, MSG_SAVED, p->asked, &m);
        return;
    default:
        require(draw_message(d, odd & 1 ? MSG_OK : MSG_ERROR, &m));
        if ((odd & 1) == 0)
            // the largest of these reasons exists in no version
            m.error.reason %= REASONS + 1;
        peer_send(p, odd & 1 ? MSG_OK : MSG_ERROR, p->asked, &m);
    }
}

// -------------------------------------------------------------- the caller of the client

static struct open *free_one(void)
{
    for (int i = 0; i < OPEN; i++)
        if (all[i].ts == 0)
            return &all[i];
    return NULL;
}

static void make_table(struct open *o)
{
    struct table_config t = table_config_defaults();
    uint32_t number = draw_below(&w.d, 2);
    t.mode = (enum config_mode)draw_below(&w.d, 3);
    snprintf(t.name, sizeof(t.name), "t%u", number);
    t.accessor.rule = rule_defaults(RULE_SUM);
    t.accessor.dim = WIDTH;
    o->ts = client_table(c, number, &t, NULL);
}

static void push_or_pull(struct open *o, bool push)
{
    struct draw *d = &w.d;
    size_t n = draw_below(d, KEYS);
    bool odd = draw_byte(d) & 1;
    for (size_t i = 0; i < KEYS; i++)
        o->keys[i] = i * 0x9e3779b97f4a7c15;
    struct client_push p = {.table = draw_below(d, 2),
                            .keys = o->keys,
                            .n = n,
                            .values = o->values,
                            .op = WIRE_GRADIENT,
                            .rate = 1,
                            .micros = 16,
                            .pulled = odd ? o->values + KEYS * WIDTH : NULL};
    struct client_pull q = {.table = p.table,
                            .keys = o->keys,
                            .n = n,
                            .values = o->values,
                            .found = odd ? o->found : NULL};
    o->ts = push ? client_push(c, &p, NULL) : client_pull(c, &q, NULL);
}

static void call(void)
{
    struct draw *d = &w.d;
    struct open *o = free_one();
    uint32_t table = draw_below(d, 2);
    if (o == NULL)
        return;
    switch (draw_below(d, 14)) {
    case 0:
        make_table(o);
        break;
    case 1:
        o->ts = client_info(c, "users", 3, &o->number, NULL);
        break;
    case 2:
        o->ts = client_stat(c, table, &o->figures, NULL);
        break;
    case 3:
        o->walk = client_walk_begin(table);
        client_walk_partition(&o->walk, draw_below(d, 4));
        o->ts = client_walk_next(c, &o->walk, KEYS, o->keys, o->values, NULL);
        break;
    case 4:
        o->ts = client_step(c, 1, &o->sum, NULL);
        break;
    case 5:
        o->ts = client_tick(c, table, 1, NULL);
        break;
    case 6:
        o->ts = client_shrink(c, table, 1, &o->sum, NULL);
        break;
    case 7:
        o->ts = client_save(c, &(struct client_save){.id = 5, .path = "/x"}, &manifest,
                            NULL);
        break;
    case 8:
        o->ts = client_mark(c, 5, 0, NULL);
        break;
    case 9:
        o->ts = client_load(c, table, "x", 7, "t", true, &o->sum, NULL);
        break;
    default:
        push_or_pull(o, draw_byte(d) & 1);
    }
}

static void look(void)
{
    for (int i = 0; i < OPEN; i++) {
        int rc;
        struct err e;
        if (all[i].ts != 0 && client_done(c, all[i].ts, &rc, &e)) {
            require(rc == 0 || e.text[0] != '\0');
            all[i].ts = 0;
        }
    }
}

static void step(void)
{
    static const uint16_t says[] = {
        MSG_OK,       MSG_PULLED,        MSG_ERROR,    MSG_ROSTER,  MSG_SAVED,
        MSG_ROWS_ARE, MSG_TABLE_INFO_IS, MSG_TABLE_IS, MSG_WELCOME, MSG_STOP};
    struct draw *d = &w.d;
    uint8_t what = draw_byte(d);
    struct peer *p = &w.peers[what % (1 + SERVERS)];
    switch (what / 3 % 10) {
    case 0:
        peers_run(&w, peers_pause(&w) / 4);
        break;
    case 1:
        if (p == &w.peers[SCHEDULER])
            send_roster(draw_byte(d));
        else
            welcome(p);
        break;
    case 2:
        van_close_link(p->van, p->link);
        break;
    case 3:
        peer_send_drawn(p, says, sizeof(says) / sizeof(*says));
        break;
    case 4:
        peer_send_drawn(p, NULL, 0);
        break;
    case 5:
        client_cancel(c, all[what % OPEN].ts);
        all[what % OPEN].ts = 0;
        break;
    case 6:
    case 7:
        call();
        break;
    default:
        answer(p);
    }
    peers_run(&w, 100000);
    look();
}

static void open_client(void)
{
    char address[VAN_ADDRESS_MAX], name[32];
    struct client_options o = {.member = {.cluster = 77,
                                          .scheduler = "sim://scheduler",
                                          .role = WIRE_WORKER,
                                          .loops = 1,
                                          .host = "here",
                                          .address = "",
                                          .scheduler_timeout_ns = 5000 * SECOND_NS},
                               .view = on_view,
                               .connect_timeout_ns = 10 * SECOND_NS,
                               .request_timeout_ns = 60 * SECOND_NS,
                               .admin_timeout_ns = 600 * SECOND_NS,
                               .cache_keys = true,
                               .pack_keys = true};
    require(van_listen(w.peers[SCHEDULER].van, "sim://scheduler", address, NULL) == 0);
    for (uint32_t i = 0; i < SERVERS; i++) {
        snprintf(name, sizeof(name), "sim://s%u", i);
        require(van_listen(w.peers[1 + i].van, name, address, NULL) == 0);
        draw_know(&w.d, FIRST_ID + 2 * i, 90 + i);
    }
    require(client_open(&c, &o, NULL) == 0);
    struct van_handler h = client_handler(c);
    require(sim_van_open(&van, w.sim, "client", &h, NULL) == 0);
    client_serve(c, van, sim_now(w.sim));
    peers_run(&w, MILLIS);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t live = mem_live();
    peers_open(&w, data, size);
    w.d.bits = BITS;
    w.d.texts = texts;
    w.d.epoch = 1;
    memset(all, 0, sizeof(all));
    manifest = (struct save_manifest){0};
    open_client();
    let_in();
    make_table(&all[0]);
    peers_run(&w, MILLIS);
    for (uint32_t i = 0; i < SERVERS; i++)
        welcome(&w.peers[1 + i]);
    for (int i = 0; i < 100 && w.d.left > 0; i++)
        step();
    // From now on, no server answers.
    peers_run(&w, 700 * SECOND_NS);
    look();
    require(client_in_flight(c) == 0);
    van_free(van);
    client_close(c);
    save_manifest_free(&manifest);
    peers_close(&w);
    require(mem_live() == live);
    return 0;
}
