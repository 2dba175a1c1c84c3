// See replicas.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/replicas.h"

#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "cluster/proof.h"
#include "kit/shards.h"
#include "rule/rule.h"
#include "server/shard_internal.h"

#define MS (SECOND_NS / 1000)
#define REPEAT_NS (3 * SECOND_NS)
enum { WORKER = 9, CLUSTER = 77 };

static const uint8_t zeros[MAC_BYTES];

uint32_t replicas_id(uint32_t server)
{
    return 10 + 2 * server;
}

uint64_t replicas_draw(struct replicas *w, uint64_t n)
{
    return random_below(w->seed, 1, w->draws++, n);
}

static uint32_t partition_of(const struct replicas *w, uint32_t key)
{
    return roster_partition(REPLICAS_BITS, WIRE_SPACE_SPARSE, w->keys[key]);
}

// ---------------------------------------------------------------- the scheduler

static void secret_of(uint8_t ret[MAC_BYTES], uint32_t node, uint64_t session,
                      enum wire_role role)
{
    const struct proof_of whose = {session, node, (uint8_t)role};
    assert_true(proof_secret(ret, zeros, &whose, zeros));
}

static void add_node(struct buf *nodes, uint32_t id, enum wire_role role, uint32_t rank,
                     uint64_t session, bool alive)
{
    char address[32];
    snprintf(address, sizeof(address), "sim://server%u", rank);
    struct wire_node n = {.id = id,
                          .role = (uint8_t)role,
                          .alive = alive,
                          .rank = rank,
                          .session = session,
                          .process = id,
                          .host = wire_text("host"),
                          .address = wire_text(address)};
    assert_int_equal(wire_put_node(nodes, &n), 0);
}

static void send_roster_to(struct replicas *w, van_link link)
{
    struct buf nodes = BUF_INIT(16 << 20), moves = BUF_INIT(1 << 14),
               unbacked = BUF_INIT(1 << 14);
    uint32_t owners[WIRE_SPACES * REPLICAS_PARTITIONS];
    uint32_t backups[WIRE_SPACES * REPLICAS_PARTITIONS * CHAINS_MAX_REPLICAS] = {0};
    add_node(&nodes, 1, WIRE_SCHEDULER, 99, 1, true);
    add_node(&nodes, WORKER, WIRE_WORKER, 0, REPLICAS_SESSION, true);
    for (uint32_t i = 0; i < REPLICAS_SERVERS; i++)
        add_node(&nodes, replicas_id(i), WIRE_SERVER, i, 100 + i, !w->servers[i].dead);
    for (uint32_t i = 0; i < WIRE_SPACES * REPLICAS_PARTITIONS; i++) {
        owners[i] = w->chains[i % REPLICAS_PARTITIONS][0];
        for (uint32_t k = 0; k < w->replicas; k++)
            backups[i * w->replicas + k] = w->chains[i % REPLICAS_PARTITIONS][k + 1];
    }
    if (w->fill.move != 0)
        assert_int_equal(wire_put_move(&moves, &w->fill), 0);
    if (w->unbacked_exists)
        assert_int_equal(wire_put_unbacked_table(&unbacked, &w->unbacked), 0);
    struct msg_roster m = {.moves = {moves.data, (uint32_t)moves.len},
                           .unbacked = {unbacked.data, (uint32_t)unbacked.len},
                           .epoch = w->epoch,
                           .version = w->version,
                           .partition_bits = REPLICAS_BITS,
                           .replicas = (uint8_t)w->replicas,
                           .servers = REPLICAS_SERVERS,
                           .workers = 1,
                           .newest = 1000,
                           .nodes = {nodes.data, (uint32_t)nodes.len},
                           .owners = {owners, sizeof(owners)},
                           .backups = {backups, w->replicas > 1
                                                    ? WIRE_SPACES * REPLICAS_PARTITIONS *
                                                          w->replicas * sizeof(uint32_t)
                                                    : 0}};
    van_send(w->scheduler, link, MSG_ROSTER, 0, &m, NULL);
    buf_free(&nodes);
    buf_free(&moves);
    buf_free(&unbacked);
}

void replicas_send_rosters(struct replicas *w)
{
    w->version++;
    for (uint32_t i = 0; i < REPLICAS_SERVERS; i++)
        if (w->servers[i].link != 0)
            send_roster_to(w, w->servers[i].link);
}

static void take_unbacked(struct replicas *w, const struct msg_unbacked *m)
{
    w->unbacked_told++;
    if (w->keeps_out)
        return;
    w->unbacked = (struct wire_unbacked_table){m->table, m->space, m->drops};
    w->unbacked_exists = m->exists != 0;
    replicas_send_rosters(w);
}

static void join(struct replicas *w, van_link link, const struct van_message *m)
{
    uint32_t i = (uint32_t)m->m->join.process - 1;
    uint8_t secret[MAC_BYTES];
    secret_of(secret, replicas_id(i), 100 + i, WIRE_SERVER);
    struct msg_joined x = {.node = replicas_id(i),
                           .session = 100 + i,
                           .rank = i,
                           .secret = {(const char *)secret, MAC_BYTES},
                           .key = {(const char *)zeros, MAC_BYTES}};
    van_send(w->scheduler, link, MSG_JOINED, m->request, &x, NULL);
    w->servers[i].link = link;
    send_roster_to(w, link);
}

static void scheduler_message(void *ctx, van_link link, struct van_message *m,
                              uint64_t now)
{
    struct replicas *w = ctx;
    struct msg_welcome welcome = {.role = WIRE_SCHEDULER, .version = wire_text("0")};
    (void)now;
    if (m->type == MSG_HELLO) {
        van_send(w->scheduler, link, MSG_WELCOME, m->request, &welcome, NULL);
    } else if (m->type == MSG_JOIN) {
        join(w, link, m);
    } else if (m->type == MSG_ROSTER_WANTED) {
        send_roster_to(w, link);
    } else if (m->type == MSG_MEMBER_OUT) {
        w->out = m->m->member_out.node;
        w->out_chains = (uint32_t)(m->m->member_out.places.n / sizeof(uint64_t));
        w->out_code = m->m->member_out.code;
        wire_words(m->m->member_out.why, w->out_why, sizeof(w->out_why));
    } else if (m->type == MSG_UNBACKED) {
        take_unbacked(w, &m->m->unbacked);
    } else if (m->type == MSG_MOVE_SAYS) {
        struct msg_ok ok = {.value = WIRE_MOVE_GO_ON};
        if (m->m->move_says.move != w->fill.move)
            ok.value = WIRE_MOVE_OVER;
        else if (m->m->move_says.state == WIRE_MOVE_ARRIVED)
            w->arrived = true;
        else if (m->m->move_says.state == WIRE_MOVE_FAILED &&
                 m->m->move_says.code == TUG_EINTERRUPTED)
            w->interrupted = true;
        else if (m->m->move_says.state == WIRE_MOVE_FAILED)
            fail_msg("the fill failed: %.*s", (int)m->m->move_says.why.n,
                     m->m->move_says.why.data);
        van_send(w->scheduler, link, MSG_OK, m->request, &ok, NULL);
    } else if (m->type == MSG_PING) {
        van_send(w->scheduler, link, MSG_OK, m->request, &(struct msg_ok){0}, NULL);
    }
}

static void scheduler_opened(void *ctx, van_link link, bool accepted, uint64_t now)
{
    (void)ctx, (void)link, (void)accepted, (void)now;
}

static uint64_t scheduler_tick(void *ctx, uint64_t now)
{
    (void)ctx, (void)now;
    return VAN_NEVER;
}

static void scheduler_closed(void *ctx, van_link link, const struct err *why,
                             uint64_t now)
{
    struct replicas *w = ctx;
    (void)why, (void)now;
    for (uint32_t i = 0; i < REPLICAS_SERVERS; i++)
        if (w->servers[i].link == link)
            w->servers[i].link = 0;
}

// ---------------------------------------------------------------- the worker

bool replicas_op_is_done(const struct replicas_op *o)
{
    for (uint32_t i = 0; i < o->n; i++)
        if (!o->done[i])
            return false;
    return true;
}

static uint64_t lowest(const struct replicas *w)
{
    for (uint32_t i = w->first_op; i < w->n_ops; i++)
        if (!w->ops[i].pull && !replicas_op_is_done(&w->ops[i]))
            return w->ops[i].number;
    return w->numbers;
}

// Keys are sorted by partition when an op is made.
static void send_part(struct replicas *w, uint32_t at, uint32_t server)
{
    struct replicas_op *o = &w->ops[at];
    uint64_t keys[REPLICAS_PUSH_KEYS];
    float values[REPLICAS_PUSH_KEYS];
    uint32_t n = 0, mask = 0;
    for (uint32_t i = 0; i < o->n; i++) {
        if (o->done[i] ||
            w->chains[partition_of(w, o->keys[i])][0] != replicas_id(server))
            continue;
        values[n] = 1;
        keys[n++] = w->keys[o->keys[i]];
        mask |= 1u << i;
    }
    if (n == 0 || w->servers[server].s.state != SESSION_OPEN)
        return;
    assert_true(w->n_sent < sizeof(w->sent) / sizeof(*w->sent));
    w->sent[w->n_sent++] = (struct replicas_sent){at, mask};
    struct msg_push push = {.table = REPLICAS_TABLE,
                            .epoch = w->epoch,
                            .session = REPLICAS_SESSION,
                            .number = o->number,
                            .low = lowest(w),
                            .n = n,
                            .rate = 1,
                            .pass = 1,
                            .keys = {keys, n * sizeof(*keys)},
                            .values = {values, n * sizeof(*values)}};
    struct msg_pull pull = {.table = REPLICAS_TABLE,
                            .epoch = w->epoch,
                            .session = REPLICAS_SESSION,
                            .n = n,
                            .keys = {keys, n * sizeof(*keys)}};
    if (o->pull)
        van_send(w->worker, w->servers[server].s.link, MSG_PULL, w->n_sent, &pull, NULL);
    else
        van_send(w->worker, w->servers[server].s.link, MSG_PUSH, w->n_sent, &push, NULL);
}

static void send_op(struct replicas *w, uint32_t at, uint64_t now)
{
    w->ops[at].send_at = now + REPEAT_NS;
    for (uint32_t i = 0; i < REPLICAS_SERVERS; i++)
        send_part(w, at, i);
}

void replicas_send_table(struct replicas *w, uint32_t server)
{
    struct buf config = BUF_INIT(1 << 16);
    struct msg_table m;
    assert_int_equal(spec_encode(&w->spec, &config, &m), 0);
    m.epoch = w->epoch;
    van_send(w->worker, w->servers[server].s.link, MSG_TABLE, REPLICAS_OTHER, &m, NULL);
    buf_free(&config);
}

void replicas_send_half(struct replicas *w, uint32_t server, uint64_t number,
                        uint64_t clock, int half, uint32_t n, const uint64_t *keys,
                        const float *values)
{
    struct msg_push m = {.table = REPLICAS_TABLE,
                         .epoch = w->epoch,
                         .session = REPLICAS_SESSION,
                         .number = number,
                         .n = n,
                         .rate = 1,
                         .pass = 1,
                         .clock = clock,
                         .micro = half == 0 ? 0 : SHARD_MICROS / 2,
                         .micros = SHARD_MICROS / 2,
                         .examples = 1,
                         .keys = {keys, n * sizeof(*keys)},
                         .values = {values, n * sizeof(*values)}};
    van_send(w->worker, w->servers[server].s.link, MSG_PUSH, REPLICAS_OTHER, &m, NULL);
}

static void take_pulled(struct replicas *w, struct replicas_op *o, uint32_t mask,
                        const struct msg_pulled *m)
{
    const float *values = m->values.data;
    uint32_t at = 0;
    for (uint32_t i = 0; i < o->n; i++) {
        if ((mask >> i & 1) == 0)
            continue;
        uint32_t key = o->keys[i], x = (uint32_t)values[at++];
        if (x < o->least[i])
            fail_msg("seed %llu: key %u was at least %u, and is now %u",
                     (unsigned long long)w->seed, key, o->least[i], x);
        assert_true(x <= w->invoked[key]);
        w->shown[key] = x > w->shown[key] ? x : w->shown[key];
        o->done[i] = true;
    }
}

static void take_ok(struct replicas *w, struct replicas_op *o, uint32_t mask)
{
    for (uint32_t i = 0; i < o->n; i++)
        if ((mask >> i & 1) != 0 && !o->done[i]) {
            o->done[i] = true;
            w->acked[o->keys[i]]++;
        }
}

static void worker_message(void *ctx, van_link link, struct van_message *m, uint64_t now)
{
    struct replicas *w = ctx;
    struct replicas_server *x = w->servers;
    while (x < w->servers + REPLICAS_SERVERS && x->s.link != link)
        x++;
    if (x == w->servers + REPLICAS_SERVERS ||
        session_message(&x->s, link, m, now) != SESSION_MESSAGE)
        return;
    if (m->type == MSG_ERROR && m->m->error.reason != REASON_NO_ROOM)
        snprintf(w->refusal, sizeof(w->refusal), "%.*s", (int)m->m->error.what.n,
                 m->m->error.what.data);
    w->tables += m->request == REPLICAS_OTHER && m->type == MSG_OK;
    if (m->request > REPLICAS_OTHER && m->type == MSG_OK) {
        w->others++;
        w->value = m->m->ok.value;
    }
    if (m->request == 0 || m->request > w->n_sent)
        return;
    const struct replicas_sent *sent = &w->sent[m->request - 1];
    struct replicas_op *o = &w->ops[sent->op];
    if (m->type == MSG_OK && !o->pull)
        take_ok(w, o, sent->mask);
    else if (m->type == MSG_PULLED && o->pull)
        take_pulled(w, o, sent->mask, &m->m->pulled);
    else if (m->type == MSG_ROSTER || m->type == MSG_ERROR)
        o->send_at = now + MS;
}

static void worker_opened(void *ctx, van_link link, bool accepted, uint64_t now)
{
    struct replicas *w = ctx;
    (void)accepted;
    for (uint32_t i = 0; i < REPLICAS_SERVERS; i++)
        session_opened(&w->servers[i].s, link, now);
}

static void worker_closed(void *ctx, van_link link, const struct err *why, uint64_t now)
{
    struct replicas *w = ctx;
    for (uint32_t i = 0; i < REPLICAS_SERVERS; i++)
        session_closed(&w->servers[i].s, link, why, now);
}

static uint64_t tick_session(struct replicas *w, uint32_t i, uint64_t now)
{
    struct session *s = &w->servers[i].s;
    char address[32];
    snprintf(address, sizeof(address), "sim://server%u", i);
    if (w->servers[i].crashed || w->servers[i].dead)
        return VAN_NEVER;
    if (s->state == SESSION_CLOSED && s->due <= now)
        session_dial(s, address, 10 * SECOND_NS, now);
    uint64_t next = session_tick(s, now);
    return next > now ? next : now + MS;
}

static uint64_t worker_tick(void *ctx, uint64_t now)
{
    struct replicas *w = ctx;
    uint64_t next = now + 10 * MS;
    for (uint32_t i = 0; i < REPLICAS_SERVERS; i++)
        next = clock_earlier(next, tick_session(w, i, now));
    while (w->first_op < w->n_ops && replicas_op_is_done(&w->ops[w->first_op]))
        w->first_op++;
    for (uint32_t i = w->first_op; i < w->n_ops; i++)
        if (!replicas_op_is_done(&w->ops[i]) && w->ops[i].send_at <= now)
            send_op(w, i, now);
    return next;
}

struct replicas_op *replicas_add_op(struct replicas *w, bool pull, const uint32_t *keys,
                                    uint32_t n)
{
    assert_true(w->n_ops < REPLICAS_OPS);
    struct replicas_op *o = &w->ops[w->n_ops++];
    *o = (struct replicas_op){.pull = pull, .n = n, .number = pull ? 0 : w->numbers++};
    for (uint32_t i = 0; i < n; i++) {
        uint32_t key = o->keys[i] = keys[i];
        w->invoked[key] += !pull;
        o->least[i] = w->acked[key] > w->shown[key] ? w->acked[key] : w->shown[key];
    }
    van_wake(w->worker);
    return o;
}

// ---------------------------------------------------------------- the world

void replicas_run(struct replicas *w, uint64_t ns)
{
    uint64_t until = sim_now(w->sim) + ns;
    while (sim_now(w->sim) < until && sim_step(w->sim, until))
        ;
}

static void open_server(struct replicas *w, uint32_t i,
                        const struct shard_options *options)
{
    struct replicas_server *x = &w->servers[i];
    struct shard_options o = *options;
    char address[VAN_ADDRESS_MAX], name[32];
    snprintf(name, sizeof(name), "server%u", i);
    snprintf(address, sizeof(address), "sim://%s", name);
    o.slice_ns = MS / 10;
    o.member = (struct member_options){.cluster = CLUSTER,
                                       .scheduler = "sim://scheduler",
                                       .role = WIRE_SERVER,
                                       .ticket = 1 + i,
                                       .process = 1 + i,
                                       .loops = 1,
                                       .host = "host",
                                       .address = address,
                                       .scheduler_timeout_ns = 1000 * SECOND_NS};
    OK(shard_open(&x->shard, &o, &ok_e));
    struct van_handler h = shard_handler(x->shard);
    OK(sim_van_open(&x->v, w->sim, name, &h, &ok_e));
    OK(van_listen(x->v, address, address, &ok_e));
    shard_serve(x->shard, x->v, sim_now(w->sim));
    x->s = (struct session){.side = &w->side, .role = WIRE_SERVER};
}

void replicas_make_spec(struct replicas *w, enum config_mode mode, uint32_t width)
{
    struct table_config c = table_config_defaults();
    snprintf(c.name, sizeof(c.name), "t");
    c.accessor.dim = width;
    c.accessor.rule = rule_defaults(RULE_SUM);
    c.mode = mode;
    OK(spec_make(&w->spec, REPLICAS_TABLE, &c, &ok_e));
}

void replicas_leave_out_backups(struct replicas *w)
{
    struct table_config c = w->spec.config;
    c.replicas = 1;
    OK(spec_make(&w->spec, REPLICAS_TABLE, &c, &ok_e));
}

static void open_worker(struct replicas *w)
{
    struct van_handler h = {.ctx = w,
                            .opened = worker_opened,
                            .message = worker_message,
                            .closed = worker_closed,
                            .tick = worker_tick};
    w->who = (struct session_who){.cluster = CLUSTER,
                                  .role = WIRE_WORKER,
                                  .id = WORKER,
                                  .number = REPLICAS_SESSION,
                                  .has_secret = true};
    secret_of(w->who.secret, WORKER, REPLICAS_SESSION, WIRE_WORKER);
    OK(sim_van_open(&w->worker, w->sim, "worker", &h, &ok_e));
    w->side = (struct session_side){.van = w->worker,
                                    .who = &w->who,
                                    .resend_ns = 2 * SECOND_NS,
                                    .greet_ns = 10 * SECOND_NS,
                                    .ping_ns = 5 * SECOND_NS,
                                    .silence_ns = 10 * SECOND_NS,
                                    .retry_ns = 10 * MS,
                                    .retry_max_ns = SECOND_NS};
}

// Keys that ascend by partition.
static void draw_keys(struct replicas *w)
{
    uint32_t n = 0;
    for (uint64_t p = 0; p < REPLICAS_PARTITIONS; p++)
        for (uint64_t key = 0, of = 0; of < REPLICAS_KEYS / REPLICAS_PARTITIONS; key++)
            if (roster_partition(REPLICAS_BITS, WIRE_SPACE_SPARSE, key) == p) {
                w->keys[n++] = key;
                of++;
            }
    assert_int_equal(n, REPLICAS_KEYS);
}

struct replicas *replicas_open(uint64_t seed, uint32_t replicas, uint32_t members,
                               uint32_t spread, const struct shard_options *o)
{
    struct replicas *w = mem_zalloc(sizeof(*w));
    struct sim_options so = {.seed = seed, .delay_min = MS / 20, .delay_max = 2 * MS};
    struct van_handler h = {.ctx = w,
                            .opened = scheduler_opened,
                            .message = scheduler_message,
                            .closed = scheduler_closed,
                            .tick = scheduler_tick};
    char address[VAN_ADDRESS_MAX];
    w->seed = seed;
    w->replicas = replicas;
    w->epoch = w->version = 1;
    draw_keys(w);
    for (uint32_t p = 0; p < REPLICAS_PARTITIONS; p++)
        for (uint32_t i = 0; i < members; i++)
            w->chains[p][i] = replicas_id((p % spread + i) % REPLICAS_SERVERS);
    OK(sim_open(&w->sim, &so, &ok_e));
    OK(sim_van_open(&w->scheduler, w->sim, "scheduler", &h, &ok_e));
    OK(van_listen(w->scheduler, "sim://scheduler", address, &ok_e));
    open_worker(w);
    for (uint32_t i = 0; i < REPLICAS_SERVERS; i++)
        open_server(w, i, o);
    replicas_make_spec(w, CONFIG_ASYNC, 1);
    for (uint32_t i = 0; i < REPLICAS_SERVERS; i++)
        REPLICAS_UNTIL(w, w->servers[i].s.state == SESSION_OPEN &&
                              w->servers[i].shard->ready);
    return w;
}

static bool owns(const struct replicas *w, uint32_t server)
{
    for (uint32_t p = 0; p < REPLICAS_PARTITIONS; p++)
        if (w->chains[p][0] == replicas_id(server))
            return true;
    return false;
}

void replicas_make_table(struct replicas *w)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < REPLICAS_SERVERS; i++)
        if (owns(w, i)) {
            replicas_send_table(w, i);
            n++;
        }
    REPLICAS_UNTIL(w, w->tables == n);
}

struct replicas *replicas_open_with_table(uint64_t seed, uint32_t replicas,
                                          uint32_t members, uint32_t spread)
{
    static const struct shard_options plain;
    struct replicas *w = replicas_open(seed, replicas, members, spread, &plain);
    replicas_make_table(w);
    return w;
}

struct replicas *replicas_open_with_mode(uint32_t replicas, uint32_t members,
                                         enum config_mode mode)
{
    static const struct shard_options plain;
    struct replicas *w = replicas_open(1, replicas, members, 1, &plain);
    replicas_make_spec(w, mode, 1);
    replicas_make_table(w);
    w->tables = 0;
    return w;
}

void replicas_count_once(struct replicas *w, uint32_t server, uint32_t key)
{
    const float value = 1;
    const struct store_push p = {.op = STORE_GRADIENT,
                                 .keys = &w->keys[key],
                                 .n = 1,
                                 .values = &value,
                                 .rate = 1,
                                 .pass = 1,
                                 .scale = 1};
    struct store *store = shards_store(w->servers[server].shard, REPLICAS_TABLE);
    OK(store_push(store, &p, NULL, &ok_e));
    assert_true(replicas_value(w, server, key) == 0);
}

void replicas_close(struct replicas *w)
{
    for (uint32_t i = 0; i < REPLICAS_SERVERS; i++) {
        shard_close(w->servers[i].shard);
        van_free(w->servers[i].v);
    }
    van_free(w->worker);
    van_free(w->scheduler);
    sim_close(w->sim);
    mem_free(w);
}

void replicas_crash(struct replicas *w, uint32_t server)
{
    sim_crash(w->sim, w->servers[server].v);
    w->servers[server].crashed = true;
}

void replicas_take_out(struct replicas *w, uint32_t server)
{
    w->servers[server].dead |= w->servers[server].crashed;
    for (uint32_t p = 0; p < REPLICAS_PARTITIONS; p++) {
        uint32_t *c = w->chains[p], n = 0;
        for (uint32_t i = 0; i < ROSTER_MAX_CHAIN; i++)
            if (c[i] != replicas_id(server))
                c[n++] = c[i];
        while (n < ROSTER_MAX_CHAIN)
            c[n++] = 0;
        assert_int_not_equal(c[0], 0);
    }
    w->epoch++;
    replicas_send_rosters(w);
    for (uint32_t i = w->first_op; i < w->n_ops; i++)
        w->ops[i].send_at = 0; // the worker's links to it have broken
}

float replicas_value(struct replicas *w, uint32_t server, uint32_t key)
{
    const float *row = w->servers[server].crashed
                           ? NULL
                           : shards_row(w->servers[server].shard, REPLICAS_TABLE,
                                        w->keys[key]);
    return row != NULL ? *row : 0;
}

bool replicas_all_done(struct replicas *w)
{
    for (uint32_t i = w->first_op; i < w->n_ops; i++)
        if (!replicas_op_is_done(&w->ops[i]))
            return false;
    return true;
}

void replicas_check_sums(struct replicas *w)
{
    replicas_run(w, 2 * SECOND_NS); // the last records arrive
    for (uint32_t k = 0; k < REPLICAS_KEYS; k++)
        for (uint32_t i = 0; i < ROSTER_MAX_CHAIN; i++) {
            uint32_t node = w->chains[partition_of(w, k)][i];
            if (node == 0)
                continue;
            float is = replicas_value(w, (node - replicas_id(0)) / 2, k);
            if (is != (float)w->invoked[k]) // NOLINT: exact
                fail_msg("seed %llu: key %u is %g on node %u, not %u",
                         (unsigned long long)w->seed, k, is, node, w->invoked[k]);
        }
}

uint32_t replicas_chain_length(const struct replicas *w, uint32_t p)
{
    uint32_t n = 0;
    while (n < ROSTER_MAX_CHAIN && w->chains[p][n] != 0)
        n++;
    return n;
}

void replicas_begin_fill(struct replicas *w, uint32_t p, uint32_t server)
{
    static uint64_t number = 700;
    w->arrived = false;
    w->fill = (struct wire_move){.move = number++,
                                 .space = WIRE_SPACE_SPARSE,
                                 .partition = p,
                                 .to = replicas_id(server),
                                 .fills = 1};
    replicas_send_rosters(w);
}

// Ends the fill: its target becomes a member in all spaces, of which only one has rows.
void replicas_end_fill(struct replicas *w, bool well)
{
    uint32_t p = w->fill.partition;
    if (well) {
        w->chains[p][replicas_chain_length(w, p)] = w->fill.to;
        w->epoch++;
    }
    w->fill.move = 0;
    replicas_send_rosters(w);
}
