// See lone_shard.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/lone_shard.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "cluster/proof.h"
#include "kit/test.h"

uint64_t lone_session(uint32_t i)
{
    return 1000 + i;
}

void parcel_unpin(struct parcel *p)
{
    if (--p->pins > 0)
        return;
    mem_free(p->head);
    mem_free(p->body);
    mem_free(p);
}

// Returns a copy of the message; NULL if memory ran out.
static struct parcel *parcel_make(van_link link, uint16_t type, uint64_t request,
                                  const void *msg)
{
    struct parcel *p = mem_zalloc(sizeof(*p));
    struct wire_out out = WIRE_OUT_INIT;
    if (p == NULL)
        return NULL;
    p->pins = 1;
    p->link = link;
    if (wire_encode(&out, type, request, msg, true) == 0 &&
        wire_frame_read((unsigned char *)out.head.data, &p->frame, NULL) == 0) {
        p->head = mem_alloc(p->frame.head_bytes + 1);
        p->body = mem_aligned(64, (p->frame.body_bytes + 64) & ~(size_t)63);
    }
    if (p->head == NULL || p->body == NULL) {
        buf_free(&out.head);
        parcel_unpin(p);
        return NULL;
    }
    memcpy(p->head, out.head.data + WIRE_FRAME_BYTES, p->frame.head_bytes);
    wire_copy_body(&out, p->body);
    struct err e;
    const unsigned char *header = (unsigned char *)out.head.data;
    assert_int_equal(wire_decode(header, &p->frame, p->head, &p->m, &e), 0);
    assert_int_equal(wire_body(&p->frame, p->body, &p->m, &e), 0);
    buf_free(&out.head);
    return p;
}

// ---------------------------------------------------------------- the van

static int fake_send(struct van *v, van_link link, uint16_t type, uint64_t request,
                     const void *msg, const struct van_release *release)
{
    struct lone *w = (struct lone *)(void *)v;
    if (link == SCHEDULER_LINK && !(type == MSG_OPERATION && w->hears_operations) &&
        !(type == MSG_MOVE_SAYS && w->hears_moves))
        return 0; // the member's own messages, which tests do not read
    struct parcel *p = parcel_make(link, type, request, msg);
    if (p != NULL) {
        *w->sent_end = p;
        w->sent_end = &p->next;
    }
    if (release != NULL)
        release->release(release->ctx);
    return p != NULL ? 0 : TUG_ENOMEM;
}

static van_link fake_connect(struct van *v, const char *address, uint64_t timeout)
{
    (void)v, (void)timeout;
    return strcmp(address, "sim://scheduler") == 0 ? SCHEDULER_LINK : OTHER_LINK;
}

static void fake_close(struct van *v, van_link link)
{
    ((struct lone *)(void *)v)->closed = link;
}

static void *fake_keep(struct van *v, struct van_message *m)
{
    struct lone *w = (struct lone *)(void *)v;
    assert_ptr_equal(m->m, &w->at_hand->m);
    void *token = mem_alloc(1); // a test may make this allocation fail
    if (token == NULL || m->body == NULL) {
        mem_free(token);
        return NULL;
    }
    mem_free(token);
    w->at_hand->pins++;
    w->kept++;
    return w->at_hand;
}

static void fake_unkeep(struct van *v, void *kept)
{
    ((struct lone *)(void *)v)->kept--;
    parcel_unpin(kept);
}

static uint64_t fake_now(const struct van *v)
{
    return ((const struct lone *)(const void *)v)->now;
}

// Does nothing, because the test checks for work in a loop.
static void fake_wake(struct van *v)
{
    (void)v;
}

static uint64_t fake_queued(const struct van *v, van_link link)
{
    const struct lone *w = (const struct lone *)(const void *)v;
    bool worker = link >= WORKER_LINK && link < WORKER_LINK + WORKERS;
    return worker ? w->unread[link - WORKER_LINK] : w->unread_by_others;
}

static const char *fake_peer(const struct van *v, van_link link)
{
    (void)v, (void)link;
    return "tcp://127.0.0.1:4711";
}

static void fake_trust(const struct van *v, van_link link, struct van_trust *ret)
{
    const struct lone *w = (const void *)v;
    (void)link;
    if (w->role != WIRE_NOBODY)
        ret->role = w->role;
}

static const struct van_ops fake_ops = {.peer = fake_peer,
                                        .queued = fake_queued,
                                        .trust = fake_trust,
                                        .wake = fake_wake,
                                        .send = fake_send,
                                        .connect = fake_connect,
                                        .close_link = fake_close,
                                        .keep = fake_keep,
                                        .unkeep = fake_unkeep,
                                        .now = fake_now};

// -------------------------------------------------------- messages to and from the shard

void lone_deliver(struct lone *w, van_link link, uint16_t type, uint64_t request,
                  const void *msg)
{
    struct parcel *p = parcel_make(link, type, request, msg);
    struct van_message m = {.type = type,
                            .request = request,
                            .m = &p->m,
                            .body = p->frame.body_bytes > 0 ? p->body : NULL,
                            .body_bytes = p->frame.body_bytes};
    w->at_hand = p;
    mem_fault_after(w->fault_after);
    w->h.message(w->h.ctx, link, &m, w->now);
    w->faulted = mem_faulted();
    mem_fault_after(-1);
    w->at_hand = NULL;
    // Texts are in the message's head, which cannot be kept.
    mem_free(p->head);
    p->head = NULL;
    parcel_unpin(p);
}

struct parcel *lone_next(struct lone *w)
{
    struct parcel *p = w->sent;
    if (p == NULL)
        return NULL;
    w->sent = p->next;
    if (w->sent == NULL)
        w->sent_end = &w->sent;
    return p;
}

struct parcel *lone_expect(struct lone *w, uint16_t type)
{
    struct parcel *p = lone_next(w);
    if (p == NULL)
        fail_msg("no answer, but %s was expected", wire_name(type));
    else if (p->frame.type == MSG_ERROR && type != MSG_ERROR)
        fail_msg("refused: %.*s", (int)p->m.error.what.n, p->m.error.what.data);
    assert_int_equal(p->frame.type, type);
    return p;
}

void lone_forget(struct lone *w)
{
    for (struct parcel *p; (p = lone_next(w)) != NULL;)
        parcel_unpin(p);
}

void lone_expect_refusal(struct lone *w, int code, const char *says)
{
    struct parcel *p = lone_expect(w, MSG_ERROR);
    char text[ERR_TEXT_MAX + 1];
    snprintf(text, sizeof(text), "%.*s", (int)p->m.error.what.n, p->m.error.what.data);
    assert_int_equal(p->m.error.code, code);
    if (strstr(text, says) == NULL)
        fail_msg("'%s' does not say '%s'", text, says);
    parcel_unpin(p);
}

uint64_t lone_expect_ok(struct lone *w)
{
    struct parcel *p = lone_expect(w, MSG_OK);
    uint64_t value = p->m.ok.value;
    parcel_unpin(p);
    return value;
}

// ---------------------------------------------------------------- the cluster

static void add_node(struct buf *nodes, uint32_t id, enum wire_role role, uint32_t rank,
                     uint64_t session, bool alive)
{
    struct wire_node n = {.id = id,
                          .role = (uint8_t)role,
                          .alive = alive,
                          .rank = rank,
                          .session = session,
                          .process = id,
                          .pid = 100 + id,
                          .host = wire_text("host"),
                          .address = wire_text("sim://x")};
    assert_int_equal(wire_put_node(nodes, &n), 0);
}

void lone_send_roster(struct lone *w)
{
    struct buf nodes = BUF_INIT(16 << 20), moves = BUF_INIT(1 << 14);
    uint32_t partitions = 1u << w->bits;
    uint32_t *owners = mem_array(WIRE_SPACES * partitions, sizeof(*owners));
    add_node(&nodes, 1, WIRE_SCHEDULER, 0, 1, true);
    add_node(&nodes, ME, WIRE_SERVER, 0, 8, true);
    add_node(&nodes, OTHER, WIRE_SERVER, 1, 9, true);
    for (uint32_t i = 0; i < WORKERS; i++)
        add_node(&nodes, WORKER + i, WIRE_WORKER, i, lone_session(i), !w->dead[i]);
    for (uint32_t i = w->crowd_gone; i < w->crowd; i++)
        add_node(&nodes, CROWD + i, WIRE_WORKER, WORKERS + i, CROWD_SESSION + i, true);
    for (uint32_t i = 0; i < WIRE_SPACES * partitions; i++)
        owners[i] = w->mine[i % partitions] ? ME : OTHER;
    if (w->move.move != 0)
        assert_int_equal(wire_put_move(&moves, &w->move), 0);
    for (uint32_t i = 0; i < w->many; i++) {
        struct wire_move one = {
            .move = LONE_MANY + i, .space = WIRE_SPACE_SPARSE, .partition = i, .to = ME};
        assert_int_equal(wire_put_move(&moves, &one), 0);
    }
    struct msg_roster m = {
        .moves = {moves.data, (uint32_t)moves.len},
        .epoch = w->epoch,
        .version = ++w->version,
        .partition_bits = (uint8_t)w->bits,
        .replicas = 1,
        .servers = 2,
        .workers = WORKERS,
        .nodes = {nodes.data, (uint32_t)nodes.len},
        .owners = {owners, w->epoch > 0 ? WIRE_SPACES * partitions * sizeof(*owners) : 0},
    };
    lone_deliver(w, SCHEDULER_LINK, MSG_ROSTER, 0, &m);
    buf_free(&nodes);
    buf_free(&moves);
    mem_free(owners);
}

void lone_prove_hello(struct msg_hello *hello, uint8_t proof[MAC_BYTES])
{
    static const uint8_t zeros[MAC_BYTES];
    const struct proof_of whose = {hello->session, hello->node, hello->role};
    const struct van_trust link = {.role = WIRE_OPERATOR};
    uint8_t secret[MAC_BYTES];
    assert_true(proof_secret(secret, zeros, &whose, zeros));
    assert_true(proof_hello(proof, secret, &link));
    hello->proof = (struct wire_text){(const char *)proof, MAC_BYTES};
}

void lone_open_member(struct lone *w, van_link link, uint32_t node, uint64_t session)
{
    struct msg_hello hello = {.cluster = 77,
                              .role = WIRE_WORKER,
                              .node = node,
                              .session = session,
                              .version = wire_text("0")};
    uint8_t proof[MAC_BYTES];
    lone_prove_hello(&hello, proof);
    w->h.opened(w->h.ctx, link, true, w->now);
    lone_deliver(w, link, MSG_HELLO, 0, &hello);
}

void lone_open_worker(struct lone *w, uint32_t i)
{
    lone_open_member(w, WORKER_LINK + i, WORKER + i, lone_session(i));
}

// Lets the shard join; it owns the partitions of `w->mine`, and the links of all workers
// are open.
static void join_cluster(struct lone *w)
{
    struct msg_welcome welcome = {.role = WIRE_SCHEDULER, .version = wire_text("0")};
    static const char key[MAC_BYTES]; // zeros
    struct msg_joined joined = {
        .node = ME, .session = 8, .secret = {key, MAC_BYTES}, .key = {key, MAC_BYTES}};
    w->h.opened(w->h.ctx, SCHEDULER_LINK, false, w->now);
    lone_deliver(w, SCHEDULER_LINK, MSG_WELCOME, 0, &welcome);
    lone_deliver(w, SCHEDULER_LINK, MSG_JOINED, 1, &joined);
}

struct lone *lone_open_shard(uint32_t bits, const struct shard_options *so)
{
    size_t live = mem_live();
    struct lone *w = mem_zalloc(sizeof(*w));
    struct shard_options o = *so;
    struct err e;
    w->v.ops = &fake_ops;
    w->live = live;
    w->sent_end = &w->sent;
    w->fault_after = -1;
    w->now = SECOND_NS;
    w->bits = bits;
    for (uint32_t p = 0; p < 1u << bits; p++)
        w->mine[p] = p % 4 != 3;
    o.member = (struct member_options){
        .cluster = 77,
        .scheduler = "sim://scheduler",
        .role = WIRE_SERVER,
        .scheduler_timeout_ns = 1000 * SECOND_NS,
        // The scheduler of this test says nothing while time passes, so a member would
        // dial it again; but this van cannot open a second link to it.
        .bugs = 1u << WITHOUT_REDIAL};
    assert_int_equal(shard_open(&w->shard, &o, &e), 0);
    w->h = shard_handler(w->shard);
    shard_serve(w->shard, &w->v, w->now);
    join_cluster(w);
    lone_forget(w);
    return w;
}

struct lone *lone_open(uint32_t bits, const struct shard_options *o)
{
    struct lone *w = lone_open_shard(bits, o);
    w->epoch = 1;
    lone_send_roster(w);
    for (uint32_t i = 0; i < WORKERS; i++)
        lone_open_worker(w, i);
    lone_forget(w);
    return w;
}

void lone_close(struct lone *w)
{
    shard_close(w->shard);
    assert_int_equal(w->kept, 0);
    lone_forget(w);
    size_t live = w->live;
    mem_free(w);
    if (live != SIZE_MAX)
        assert_int_equal(mem_live(), live);
}

void lone_pass_time(struct lone *w, uint64_t ns)
{
    w->now += ns;
    w->h.tick(w->h.ctx, w->now);
}

// ---------------------------------------------------------------- tables and keys

struct table_spec lone_plain_spec(uint32_t id, enum wire_mode mode, uint32_t n)
{
    struct table_config c = table_config_defaults();
    struct table_spec s;
    struct err e;
    snprintf(c.name, sizeof(c.name), "t%u", id);
    c.accessor.dim = n;
    c.accessor.rule = rule_defaults(RULE_SUM);
    c.mode = (enum config_mode)mode;
    if (spec_make(&s, id, &c, &e) != 0)
        fail_msg("%s", e.text);
    return s;
}

enum config_place lone_place_of(enum wire_space space)
{
    static const enum config_place places[] = {[WIRE_SPACE_SPARSE] = CONFIG_HASH,
                                               [WIRE_SPACE_RANGE] = CONFIG_RANGE,
                                               [WIRE_SPACE_DENSE] = CONFIG_DENSE};
    return places[space];
}

void lone_send_table(struct lone *w, const struct table_spec *s)
{
    struct buf config = BUF_INIT(1 << 16);
    struct msg_table m;
    assert_int_equal(spec_encode(s, &config, &m), 0);
    m.epoch = w->epoch;
    lone_deliver(w, WORKER_LINK, MSG_TABLE, ++w->next_request, &m);
    buf_free(&config);
}

void lone_make_table(struct lone *w, const struct table_spec *s)
{
    lone_send_table(w, s);
    lone_expect_ok(w);
}

uint32_t lone_draw_keys(const struct lone *w, enum wire_space space, uint64_t n,
                        uint64_t step, uint64_t *ret)
{
    uint32_t found = 0;
    for (uint32_t p = 0; p < 1u << w->bits; p++)
        for (uint64_t i = 0; i < n && w->mine[p]; i++)
            if (roster_partition(w->bits, space, i * step) == p)
                ret[found++] = i * step;
    return found;
}

struct msg_push lone_push_of(struct lone *w, uint32_t i, uint32_t table,
                             const uint64_t *keys, uint32_t n, const float *values,
                             uint32_t width)
{
    return (struct msg_push){.table = table,
                             .epoch = w->epoch,
                             .session = lone_session(i),
                             .number = ++w->number[i],
                             .low = w->number[i] > 32 ? w->number[i] - 32 : 1,
                             .n = n,
                             .rate = 1,
                             .pass = 1,
                             .examples = 1,
                             .keys = {keys, n * sizeof(*keys)},
                             .values = {values, (uint64_t)n * width * sizeof(*values)}};
}

struct msg_pull lone_pull_of(const struct lone *w, uint32_t i, uint32_t table,
                             const uint64_t *keys, uint32_t n)
{
    return (struct msg_pull){.table = table,
                             .epoch = w->epoch,
                             .session = lone_session(i),
                             .n = n,
                             .keys = {keys, n * sizeof(*keys)}};
}

void lone_send_push(struct lone *w, uint32_t i, const struct msg_push *m)
{
    lone_deliver(w, WORKER_LINK + i, MSG_PUSH, ++w->next_request, m);
}

void lone_send_pull(struct lone *w, uint32_t i, const struct msg_pull *m)
{
    lone_deliver(w, WORKER_LINK + i, MSG_PULL, ++w->next_request, m);
}

struct msg_table_is lone_figures(struct lone *w, uint32_t table)
{
    struct msg_table_wanted m = {.table = table};
    lone_deliver(w, WORKER_LINK, MSG_TABLE_WANTED, ++w->next_request, &m);
    struct parcel *p = lone_expect(w, MSG_TABLE_IS);
    struct msg_table_is is = p->m.table_is;
    parcel_unpin(p);
    return is;
}

void lone_begin(struct lone *w, uint32_t workers)
{
    w->epoch = 1;
    lone_send_roster(w);
    for (uint32_t i = 0; i < workers; i++)
        lone_open_worker(w, i);
    lone_forget(w);
}
