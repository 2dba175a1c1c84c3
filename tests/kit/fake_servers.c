// See fake_servers.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/fake_servers.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "kit/test.h"
#include "protocol/bf16.h"
#include "rule/rule.h"
#include "wire/pack.h"

uint32_t fake_partition(uint64_t key)
{
    return roster_partition(BITS, WIRE_SPACE_SPARSE, key);
}

size_t fake_key(const struct cluster *c, uint64_t key)
{
    for (size_t i = 0; i < KEYS; i++)
        if (c->keys[i] == key)
            return i;
    fail_msg("a key that no request has: %llx", (unsigned long long)key);
    return 0;
}

// ---------------------------------------------------------------- the scheduler

static void make_roster(struct cluster *c, struct buf *nodes, struct buf *owners,
                        struct msg_roster *ret)
{
    for (uint32_t i = 0; i < c->n_servers; i++) {
        char address[32];
        snprintf(address, sizeof(address), "sim://server%u", i);
        struct wire_node n = {
            .id = FIRST_NODE + 2 * i,
            .role = WIRE_SERVER,
            .alive = !c->servers[i].dead,
            .rank = i,
            .session = 100 + i,
            .process = 1000 + i,
            .host = wire_text("host"),
            .address = wire_text(address),
        };
        assert_int_equal(wire_put_node(nodes, &n), 0);
    }
    for (int space = 0; space < WIRE_SPACES; space++)
        assert_int_equal(buf_add(owners, c->owners, sizeof(c->owners)), 0);
    *ret = (struct msg_roster){
        .epoch = c->epoch,
        .version = c->epoch + c->deaths,
        .partition_bits = BITS,
        .replicas = 1,
        .servers = c->n_servers,
        .workers = 1,
        .nodes = {nodes->data, (uint32_t)nodes->len},
        .owners = {owners->data, owners->len},
    };
}

static void send_roster(struct cluster *c, struct van *v, van_link link, uint64_t request)
{
    struct buf nodes = BUF_INIT(1 << 16), owners = BUF_INIT(1 << 16);
    struct msg_roster m;
    make_roster(c, &nodes, &owners, &m);
    van_send(v, link, MSG_ROSTER, request, &m, NULL);
    buf_free(&nodes);
    buf_free(&owners);
}

static void scheduler_on_message(void *ctx, van_link link, struct van_message *m,
                                 uint64_t now)
{
    struct cluster *c = ctx;
    (void)now;
    if (m->type == MSG_HELLO) {
        struct msg_welcome w = {.role = WIRE_SCHEDULER, .node = 1};
        van_send(c->scheduler, link, MSG_WELCOME, m->request, &w, NULL);
    } else if (m->type == MSG_JOIN) {
        struct msg_joined j = {.node = 9, .session = 555, .rank = 0};
        van_send(c->scheduler, link, MSG_JOINED, m->request, &j, NULL);
        c->member = link;
        send_roster(c, c->scheduler, link, 0);
    } else if (m->type == MSG_ROSTER_WANTED &&
               m->m->roster_wanted.version < c->epoch + c->deaths) {
        send_roster(c, c->scheduler, link, m->request);
    } else if (m->type == MSG_HOLD) {
        const bool on = m->m->hold.on != 0 && !c->handing_over;
        // As the real scheduler does, holds the placement even before it can grant the
        // request.
        c->held = m->m->hold.on != 0;
        c->holds += m->m->hold.on;
        van_send(c->scheduler, link, MSG_OK, m->request,
                 &(struct msg_ok){on ? c->epoch : 0}, NULL);
    } else if (m->type == MSG_PING) {
        van_send(c->scheduler, link, MSG_OK, m->request, &(struct msg_ok){0}, NULL);
    }
}

uint64_t fake_never(void *ctx, uint64_t now)
{
    (void)ctx, (void)now;
    return VAN_NEVER;
}

void fake_move(struct cluster *c, uint32_t partition, uint32_t server, bool tell)
{
    c->owners[partition] = FIRST_NODE + 2 * server;
    c->epoch++;
    if (tell)
        send_roster(c, c->scheduler, c->member, 0);
}

void fake_die(struct cluster *c, uint32_t server)
{
    c->servers[server].dead = true;
    c->deaths++;
    send_roster(c, c->scheduler, c->member, 0);
}

// ---------------------------------------------------------------- servers

void fake_refuse(struct server *s, van_link link, uint64_t request, int code,
                 const char *what)
{
    struct msg_error m = {.code = code, .what = wire_text(what)};
    van_send(s->van, link, MSG_ERROR, request, &m, NULL);
}

static void refuse_because(struct server *s, van_link link, uint64_t request,
                           enum reason reason)
{
    struct msg_error m = {
        .code = TUG_EIO, .reason = (uint16_t)reason, .what = wire_text("so it is")};
    van_send(s->van, link, MSG_ERROR, request, &m, NULL);
}

// Returns the keys of a message, and records a new key list. Returns NULL if the message
// was refused.
static const uint64_t *keys_here(struct server *s, van_link link, uint64_t request,
                                 uint64_t list, uint32_t n, struct wire_span keys)
{
    uint32_t i = 0;
    while (i < s->n_lists && s->lists[i] != list)
        i++;
    if (keys.n != 0 || n == 0) {
        assert_int_equal(keys.n, n * sizeof(uint64_t));
        if (list != 0 && i == s->n_lists && i < LISTS) {
            s->list_keys[i] = mem_alloc(keys.n);
            assert_non_null(s->list_keys[i]);
            memcpy(s->list_keys[i], keys.data, keys.n);
            s->list_n[i] = n;
            s->lists[s->n_lists++] = list;
        }
        return keys.data;
    }
    if (i == s->n_lists || s->forgetful) {
        refuse_because(s, link, request, REASON_KEYS_UNKNOWN);
        return NULL;
    }
    assert_int_equal(s->list_n[i], n);
    s->list_hits++;
    return s->list_keys[i];
}

static bool mine(const struct server *s, const uint64_t *keys, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        assert_true(i == 0 || fake_partition(keys[i - 1]) <= fake_partition(keys[i]));
        if (s->cluster->owners[fake_partition(keys[i])] != s->node)
            return false;
    }
    return true;
}

static void answer_rows_of(struct server *s, van_link link, uint64_t request,
                           const uint64_t *keys, uint32_t n)
{
    float *values = mem_array(n * WIDTH + 1, sizeof(*values));
    assert_non_null(values);
    for (uint32_t i = 0; i < n; i++)
        memcpy(values + i * WIDTH, s->cluster->rows[fake_key(s->cluster, keys[i])],
               WIDTH * sizeof(float));
    struct msg_pulled p = {.n = n,
                           .width = WIDTH,
                           .flags = s->flags,
                           .values = {values, n * WIDTH * sizeof(float)}};
    van_send(s->van, link, MSG_PULLED, request, &p, NULL);
    mem_free(values);
}

static void apply(struct server *s, const struct msg_push *p, const uint64_t *keys)
{
    struct cluster *c = s->cluster;
    static float floats[KEYS * WIDTH];
    const float *values = p->values.data;
    if (p->flags & WIRE_BF16) {
        assert_int_equal(p->values.n, p->n * WIDTH * sizeof(uint16_t));
        bf16_to_n(floats, p->values.data, p->n * WIDTH);
        values = floats;
    }
    uint8_t fresh[PARTITIONS] = {0};
    assert_in_range(p->number, 1, MAX_NUMBER - 1);
    if (p->low > c->low)
        c->low = p->low;
    c->out_of_window += p->number >= p->low + SHARD_WINDOW;
    c->highest = p->number > c->highest ? p->number : c->highest;
    s->pushes++;
    s->examples += p->examples;
    for (uint32_t i = 0; i < p->n; i++) {
        uint32_t k = fake_partition(keys[i]);
        if (!c->applied[p->number][k] && p->number >= c->low)
            fresh[k] = 1;
    }
    for (uint32_t i = 0; i < p->n; i++)
        for (int j = 0; j < WIDTH && fresh[fake_partition(keys[i])]; j++)
            c->rows[fake_key(c, keys[i])][j] += values[i * WIDTH + j];
    for (int k = 0; k < PARTITIONS; k++)
        c->applied[p->number][k] |= fresh[k];
}

static void serve(struct server *s, van_link link, const struct van_message *m)
{
    const struct msg_push *p = &m->m->push;
    const struct msg_pull *q = &m->m->pull;
    bool push = m->type == MSG_PUSH;
    if (s->error != NULL) {
        fake_refuse(s, link, m->request, TUG_EDATA, s->error);
        return;
    }
    static uint64_t unpacked[KEYS];
    uint32_t n = push ? p->n : q->n;
    struct wire_span span = push ? p->keys : q->keys;
    if (span.n != 0 && (push ? p->flags : q->flags) & WIRE_KEYS_PACKED) {
        struct err e;
        assert_in_range(n, 1, KEYS);
        assert_int_equal(unpack_keys(span.data, span.n, n, unpacked, &e), 0);
        span = (struct wire_span){unpacked, n * sizeof(*unpacked)};
        s->packed++;
    }
    const uint64_t *keys = keys_here(s, link, m->request, push ? p->list : q->list, n,
                                     span);
    if (keys == NULL && n != 0)
        return;
    if (!mine(s, keys, n)) {
        send_roster(s->cluster, s->van, link, m->request);
        return;
    }
    if (push)
        apply(s, p, keys);
    struct msg_ok ok = {0};
    if (push && !(p->flags & WIRE_ALSO_PULL))
        van_send(s->van, link, MSG_OK, m->request, &ok, NULL);
    else
        answer_rows_of(s, link, m->request, keys, n);
}

static void server_on_message(void *ctx, van_link link, struct van_message *m,
                              uint64_t now)
{
    struct server *s = ctx;
    (void)now;
    struct msg_welcome w = {.role = WIRE_SERVER, .node = s->node};
    struct msg_ok ok = {.value = 3};
    struct msg_table_is is = {.rows = 10, .pushes = s->pushes, .clock = s->node};
    if (s->mute || (s->answers != NULL && s->answers(s, link, m)))
        return;
    if ((m->type == MSG_PUSH || m->type == MSG_PULL) && s->full > 0) {
        s->full--;
        refuse_because(s, link, m->request, REASON_NO_ROOM);
        return;
    }
    switch (m->type) {
    case MSG_HELLO:
        van_send(s->van, link, MSG_WELCOME, 0, &w, NULL);
        break;
    case MSG_PUSH:
    case MSG_PULL:
        serve(s, link, m);
        break;
    case MSG_TABLE_WANTED:
        van_send(s->van, link, MSG_TABLE_IS, m->request, &is, NULL);
        break;
    default:
        van_send(s->van, link, MSG_OK, m->request, &ok, NULL);
    }
}

// ---------------------------------------------- opening, running and closing the cluster

bool fake_run_until(struct cluster *c, bool (*over)(struct cluster *c), uint64_t ns)
{
    uint64_t until = sim_now(c->sim) + ns;
    while (!over(c))
        if (!sim_step(c->sim, until))
            return over(c);
    return true;
}

static bool is_ready(struct cluster *c)
{
    return member_ready(c->client->member);
}

bool fake_is_idle(struct cluster *c)
{
    return client_in_flight(c->client) == 0 && c->client->ended == NULL;
}

bool fake_step(struct cluster *c, uint64_t ns)
{
    return sim_step(c->sim, sim_now(c->sim) + ns);
}

int fake_wait(struct cluster *c, client_ts ts, struct err *e)
{
    int rc = 0;
    uint64_t until = sim_now(c->sim) + 200000 * MS;
    while (!client_done(c->client, ts, &rc, e))
        assert_true(sim_step(c->sim, until));
    return rc;
}

struct table_config fake_sums(void)
{
    struct table_config t = table_config_defaults();
    snprintf(t.name, sizeof(t.name), "sums");
    t.accessor.rule = rule_defaults(RULE_SUM);
    t.accessor.dim = WIDTH;
    return t;
}

static void cluster_serve(struct cluster *c, uint32_t servers)
{
    char name[32], address[VAN_ADDRESS_MAX];
    struct van_handler h = {
        .ctx = c, .message = scheduler_on_message, .tick = fake_never};
    assert_int_equal(sim_van_open(&c->scheduler, c->sim, "scheduler", &h, NULL), 0);
    assert_int_equal(van_listen(c->scheduler, "sim://scheduler", address, NULL), 0);
    c->n_servers = servers;
    for (uint32_t i = 0; i < servers; i++) {
        struct server *s = &c->servers[i];
        s->cluster = c;
        s->node = FIRST_NODE + 2 * i;
        h = (struct van_handler){
            .ctx = s, .message = server_on_message, .tick = fake_never};
        snprintf(name, sizeof(name), "server%u", i);
        assert_int_equal(sim_van_open(&s->van, c->sim, name, &h, NULL), 0);
        snprintf(name, sizeof(name), "sim://server%u", i);
        assert_int_equal(van_listen(s->van, name, address, NULL), 0);
    }
    for (uint32_t k = 0; k < PARTITIONS; k++)
        c->owners[k] = FIRST_NODE + 2 * (uint32_t)random_below(1, 2, k, servers);
    for (uint64_t k = 0; k < KEYS; k++)
        c->keys[k] = random_u64(3, 4, k);
    c->epoch = 1;
}

struct client_options fake_usual(void)
{
    return (struct client_options){
        .member = {.cluster = 77,
                   .scheduler = "sim://scheduler",
                   .role = WIRE_WORKER,
                   .ticket = 5,
                   .process = 6,
                   .loops = 1,
                   .host = "here",
                   .address = "",
                   .scheduler_timeout_ns = 60000 * MS,
                   .resend_ns = 50 * MS},
        .resend_ns = 50 * MS,
    };
}

struct cluster *fake_open(uint32_t servers, uint64_t seed, const struct client_options *o)
{
    struct cluster *c = mem_zalloc(sizeof(*c));
    struct err e = {0};
    assert_non_null(c);
    struct sim_options so = {.seed = seed, .delay_min = MS / 10, .delay_max = 3 * MS};
    assert_int_equal(sim_open(&c->sim, &so, &e), 0);
    cluster_serve(c, servers);
    struct client_options usual = fake_usual();
    assert_int_equal(client_open(&c->client, o != NULL ? o : &usual, &e), 0);
    struct van_handler h = client_handler(c->client);
    assert_int_equal(sim_van_open(&c->van, c->sim, "client", &h, &e), 0);
    client_serve(c->client, c->van, sim_now(c->sim));
    assert_true(fake_run_until(c, is_ready, 10000 * MS));
    struct table_config t = fake_sums();
    client_ts ts = client_table(c->client, TABLE, &t, &e);
    assert_int_not_equal(ts, 0);
    assert_int_equal(fake_wait(c, ts, &e), 0);
    return c;
}

void fake_close(struct cluster *c)
{
    van_free(c->van);
    client_close(c->client);
    for (uint32_t i = 0; i < c->n_servers; i++) {
        van_free(c->servers[i].van);
        for (uint32_t k = 0; k < c->servers[i].n_lists; k++)
            mem_free(c->servers[i].list_keys[k]);
    }
    van_free(c->scheduler);
    sim_close(c->sim);
    mem_free(c);
}

size_t fake_draw_keys(const struct cluster *c, uint64_t seed, uint64_t draw,
                      uint64_t *ret)
{
    uint64_t rate = 1 + random_below(seed, 20, draw, 8);
    size_t n = 0;
    for (size_t i = 0; i < KEYS; i++)
        if (random_below(seed, 21 + draw, i, 8) < rate)
            ret[n++] = c->keys[(i * 7 + draw) % KEYS];
    return n;
}
