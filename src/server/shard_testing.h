// One shard under a van of its own for tests: what the shard sends is looked at, what it
// is sent goes through the wire's encoder and decoder, and memory that it may not use any
// more is freed at once, so that the sanitizers see who does. The test plays the
// scheduler, the other server and the workers.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_SHARD_TESTING_H
#define TUG_SERVER_SHARD_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/random.h"
#include "cluster/proof.h"
#include "rule/rule.h"
#include "server/shard_internal.h"

enum {
    ME = 8,
    OTHER = 9,   // the other server
    WORKERS = 3, // nodes 10, 11, 12
    WORKER = 10, // the first one
    SCHEDULER_LINK = 1,
    WORKER_LINK = 10, // of the first one, and so on
    CROWD = 1000, // numbers of links and nodes of workers besides, and of their sessions
};

#define CROWD_SESSION ((uint64_t)1 << 20)

static inline uint64_t session_of_worker(uint32_t i)
{
    return 1000 + i;
}

// A message with all that it points at.
struct parcel {
    struct parcel *next;
    van_link link;
    struct wire_out out;
    struct wire_frame frame;
    union wire_any m;
    char *head, *body;
    int pins;
};

struct world {
    struct van v; // first
    struct shard *shard;
    struct van_handler h;
    uint64_t now;
    struct parcel *sent, **sent_end; // by the shard, in order
    struct parcel *at_hand;          // being handled
    uint64_t next_request, number[WORKERS];
    uint64_t epoch, version;
    uint32_t bits;
    bool mine[1 << 8]; // whose each partition is
    bool dead[WORKERS];
    uint32_t crowd;      // workers besides, nodes CROWD and so on
    uint32_t crowd_gone; // of them the first, which are in no roster any more
    int kept;
    size_t live;              // allocations before it was opened; SIZE_MAX: not looked at
    long fault_after;         // the allocation of the next messages that fails; -1: none
    bool faulted;             // it did
    van_link closed;          // by the shard, the last one
    uint64_t unread[WORKERS]; // bytes that wait to be read by each
    bool hears_orders;        // MSG_ORDERED is looked at
    enum wire_role role;      // as what others are let in; WIRE_NOBODY: operators
};

static inline void parcel_unpin(struct parcel *p)
{
    if (--p->pins > 0)
        return;
    mem_free(p->head);
    mem_free(p->body);
    mem_free(p);
}

// NULL: out of memory.
static inline struct parcel *parcel_make(van_link link, uint16_t type, uint64_t request,
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

// The van.

static inline int fake_send(struct van *v, van_link link, uint16_t type, uint64_t request,
                            const void *msg, const struct van_release *release)
{
    struct world *w = (struct world *)(void *)v;
    if (link == SCHEDULER_LINK && (type != MSG_ORDERED || !w->hears_orders))
        return 0; // the member's business
    struct parcel *p = parcel_make(link, type, request, msg);
    if (p != NULL) {
        *w->sent_end = p;
        w->sent_end = &p->next;
    }
    if (release != NULL)
        release->release(release->ctx);
    return p != NULL ? 0 : TUG_ENOMEM;
}

static inline van_link fake_connect(struct van *v, const char *address, uint64_t timeout)
{
    (void)v, (void)address, (void)timeout;
    return SCHEDULER_LINK;
}

static inline void fake_close(struct van *v, van_link link)
{
    ((struct world *)(void *)v)->closed = link;
}

static inline void *fake_keep(struct van *v, struct van_message *m)
{
    struct world *w = (struct world *)(void *)v;
    assert_ptr_equal(m->m, &w->at_hand->m);
    void *token = mem_alloc(1); // fails when the test wants it to
    if (token == NULL || m->body == NULL) {
        mem_free(token);
        return NULL;
    }
    mem_free(token);
    w->at_hand->pins++;
    w->kept++;
    return w->at_hand;
}

static inline void fake_unkeep(struct van *v, void *kept)
{
    ((struct world *)(void *)v)->kept--;
    parcel_unpin(kept);
}

static inline uint64_t fake_now(const struct van *v)
{
    return ((const struct world *)(const void *)v)->now;
}

// Who would be woken looks again anyway.
static inline void fake_wake(struct van *v)
{
    (void)v;
}

static inline uint64_t fake_queued(const struct van *v, van_link link)
{
    const struct world *w = (const struct world *)(const void *)v;
    bool worker = link >= WORKER_LINK && link < WORKER_LINK + WORKERS;
    return worker ? w->unread[link - WORKER_LINK] : 0;
}

static inline const char *fake_peer(const struct van *v, van_link link)
{
    (void)v, (void)link;
    return "tcp://127.0.0.1:4711";
}

static inline void fake_trust(const struct van *v, van_link link, struct van_trust *ret)
{
    const struct world *w = (const void *)v;
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

// Messages to and from the shard.

static inline void deliver(struct world *w, van_link link, uint16_t type,
                           uint64_t request, const void *msg)
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
    // Texts lie in the head, which can't be kept.
    mem_free(p->head);
    p->head = NULL;
    parcel_unpin(p);
}

// The oldest message that nobody has looked at; it is the caller's, to be unpinned.
static inline struct parcel *next_sent(struct world *w)
{
    struct parcel *p = w->sent;
    if (p == NULL)
        return NULL;
    w->sent = p->next;
    if (w->sent == NULL)
        w->sent_end = &w->sent;
    return p;
}

static inline struct parcel *expect_sent(struct world *w, uint16_t type)
{
    struct parcel *p = next_sent(w);
    if (p == NULL)
        fail_msg("no answer, but %s was expected", wire_name(type));
    else if (p->frame.type == MSG_ERROR && type != MSG_ERROR)
        fail_msg("refused: %.*s", (int)p->m.error.what.n, p->m.error.what.data);
    assert_int_equal(p->frame.type, type);
    return p;
}

static inline void forget_sent(struct world *w)
{
    for (struct parcel *p; (p = next_sent(w)) != NULL;)
        parcel_unpin(p);
}

// The next message is a refusal that says this.
static inline void expect_refusal(struct world *w, int code, const char *says)
{
    struct parcel *p = expect_sent(w, MSG_ERROR);
    char text[ERR_TEXT_MAX + 1];
    snprintf(text, sizeof(text), "%.*s", (int)p->m.error.what.n, p->m.error.what.data);
    assert_int_equal(p->m.error.code, code);
    if (strstr(text, says) == NULL)
        fail_msg("'%s' does not say '%s'", text, says);
    parcel_unpin(p);
}

static inline uint64_t expect_ok(struct world *w)
{
    struct parcel *p = expect_sent(w, MSG_OK);
    uint64_t value = p->m.ok.value;
    parcel_unpin(p);
    return value;
}

// The cluster.

static inline void add_node(struct buf *nodes, uint32_t id, enum wire_role role,
                            uint32_t rank, uint64_t session, bool alive)
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

// The scheduler tells what is in the world now.
static inline void send_roster(struct world *w)
{
    struct buf nodes = BUF_INIT(16 << 20);
    uint32_t partitions = 1u << w->bits;
    uint32_t *owners = mem_array(WIRE_SPACES * partitions, sizeof(*owners));
    add_node(&nodes, 1, WIRE_SCHEDULER, 0, 1, true);
    add_node(&nodes, ME, WIRE_SERVER, 0, 8, true);
    add_node(&nodes, OTHER, WIRE_SERVER, 1, 9, true);
    for (uint32_t i = 0; i < WORKERS; i++)
        add_node(&nodes, WORKER + i, WIRE_WORKER, i, session_of_worker(i), !w->dead[i]);
    for (uint32_t i = w->crowd_gone; i < w->crowd; i++)
        add_node(&nodes, CROWD + i, WIRE_WORKER, WORKERS + i, CROWD_SESSION + i, true);
    for (uint32_t i = 0; i < WIRE_SPACES * partitions; i++)
        owners[i] = w->mine[i % partitions] ? ME : OTHER;
    struct msg_roster m = {
        .epoch = w->epoch,
        .version = ++w->version,
        .partition_bits = (uint8_t)w->bits,
        .servers = 2,
        .workers = WORKERS,
        .nodes = {nodes.data, (uint32_t)nodes.len},
        .owners = {owners, w->epoch > 0 ? WIRE_SPACES * partitions * sizeof(*owners) : 0},
    };
    deliver(w, SCHEDULER_LINK, MSG_ROSTER, 0, &m);
    buf_free(&nodes);
    mem_free(owners);
}

// As a member does whom the scheduler gave that session; the key is zeros.
static inline void prove_hello(struct msg_hello *hello, uint8_t proof[MAC_BYTES])
{
    static const uint8_t zeros[MAC_BYTES];
    const struct proof_of whose = {hello->session, hello->node, hello->role};
    const struct van_trust link = {.role = WIRE_OPERATOR};
    uint8_t secret[MAC_BYTES];
    assert_true(proof_secret(secret, zeros, &whose, zeros));
    assert_true(proof_hello(proof, secret, &link));
    hello->proof = (struct wire_text){(const char *)proof, MAC_BYTES};
}

static inline void open_member(struct world *w, van_link link, uint32_t node,
                               uint64_t session)
{
    struct msg_hello hello = {.cluster = 77,
                              .role = WIRE_WORKER,
                              .node = node,
                              .session = session,
                              .version = wire_text("0")};
    uint8_t proof[MAC_BYTES];
    prove_hello(&hello, proof);
    w->h.opened(w->h.ctx, link, true, w->now);
    deliver(w, link, MSG_HELLO, 0, &hello);
}

static inline void open_worker(struct world *w, uint32_t i)
{
    open_member(w, WORKER_LINK + i, WORKER + i, session_of_worker(i));
}

// A shard that has joined and owns what `w->mine` says; links of all workers are open.
static inline void join_cluster(struct world *w)
{
    struct msg_welcome welcome = {.role = WIRE_SCHEDULER, .version = wire_text("0")};
    static const char key[MAC_BYTES]; // zeros
    struct msg_joined joined = {
        .node = ME, .session = 8, .secret = {key, MAC_BYTES}, .key = {key, MAC_BYTES}};
    w->h.opened(w->h.ctx, SCHEDULER_LINK, false, w->now);
    deliver(w, SCHEDULER_LINK, MSG_WELCOME, 0, &welcome);
    deliver(w, SCHEDULER_LINK, MSG_JOINED, 1, &joined);
}

static inline struct world *world_open_shard(uint32_t bits,
                                             const struct shard_options *so)
{
    size_t live = mem_live();
    struct world *w = mem_zalloc(sizeof(*w));
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
    o.member = (struct member_options){.cluster = 77,
                                       .scheduler = "sim://scheduler",
                                       .role = WIRE_SERVER,
                                       .scheduler_timeout_ns = 1000 * SECOND_NS};
    assert_int_equal(shard_open(&w->shard, &o, &e), 0);
    w->h = shard_handler(w->shard);
    shard_serve(w->shard, &w->v, w->now);
    join_cluster(w);
    forget_sent(w);
    return w;
}

static inline struct world *world_open(uint32_t bits, const struct shard_options *o)
{
    struct world *w = world_open_shard(bits, o);
    w->epoch = 1;
    send_roster(w);
    for (uint32_t i = 0; i < WORKERS; i++)
        open_worker(w, i);
    forget_sent(w);
    return w;
}

static inline void world_close(struct world *w)
{
    shard_close(w->shard);
    assert_int_equal(w->kept, 0);
    forget_sent(w);
    size_t live = w->live;
    mem_free(w);
    if (live != SIZE_MAX)
        assert_int_equal(mem_live(), live);
}

static inline void pass_time(struct world *w, uint64_t ns)
{
    w->now += ns;
    w->h.tick(w->h.ctx, w->now);
}

// Tables and keys.

static inline struct table_spec plain_spec(uint32_t id, enum wire_mode mode, uint32_t n)
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

static inline enum config_place place_of(enum wire_space space)
{
    static const enum config_place places[] = {[WIRE_SPACE_SPARSE] = CONFIG_HASH,
                                               [WIRE_SPACE_RANGE] = CONFIG_RANGE,
                                               [WIRE_SPACE_DENSE] = CONFIG_DENSE};
    return places[space];
}

static inline void send_table(struct world *w, const struct table_spec *s)
{
    struct buf config = BUF_INIT(1 << 16);
    struct msg_table m;
    assert_int_equal(spec_encode(s, &config, &m), 0);
    deliver(w, WORKER_LINK, MSG_TABLE, ++w->next_request, &m);
    buf_free(&config);
}

static inline void make_table(struct world *w, const struct table_spec *s)
{
    send_table(w, s);
    expect_ok(w);
}

// Keys 0 .. n - 1 times `step`, those of this shard, by ascending partition. Returns how
// many there are.
static inline uint32_t draw_keys(const struct world *w, enum wire_space space, uint64_t n,
                                 uint64_t step, uint64_t *ret)
{
    uint32_t found = 0;
    for (uint32_t p = 0; p < 1u << w->bits; p++)
        for (uint64_t i = 0; i < n && w->mine[p]; i++)
            if (roster_partition(w->bits, space, i * step) == p)
                ret[found++] = i * step;
    return found;
}

// A push of worker i with a number of its own; all fields that it does not set are the
// caller's to change.
static inline struct msg_push push_of(struct world *w, uint32_t i, uint32_t table,
                                      const uint64_t *keys, uint32_t n,
                                      const float *values, uint32_t width)
{
    return (struct msg_push){.table = table,
                             .epoch = w->epoch,
                             .session = session_of_worker(i),
                             .number = ++w->number[i],
                             .low = w->number[i] > 32 ? w->number[i] - 32 : 1,
                             .n = n,
                             .rate = 1,
                             .pass = 1,
                             .examples = 1,
                             .keys = {keys, n * sizeof(*keys)},
                             .values = {values, (uint64_t)n * width * sizeof(*values)}};
}

static inline struct msg_pull pull_of(const struct world *w, uint32_t i, uint32_t table,
                                      const uint64_t *keys, uint32_t n)
{
    return (struct msg_pull){.table = table,
                             .epoch = w->epoch,
                             .session = session_of_worker(i),
                             .n = n,
                             .keys = {keys, n * sizeof(*keys)}};
}

static inline void send_push(struct world *w, uint32_t i, const struct msg_push *m)
{
    deliver(w, WORKER_LINK + i, MSG_PUSH, ++w->next_request, m);
}

static inline void send_pull(struct world *w, uint32_t i, const struct msg_pull *m)
{
    deliver(w, WORKER_LINK + i, MSG_PULL, ++w->next_request, m);
}

static inline struct msg_table_is figures_of(struct world *w, uint32_t table)
{
    struct msg_table_wanted m = {.table = table};
    deliver(w, WORKER_LINK, MSG_TABLE_WANTED, ++w->next_request, &m);
    struct parcel *p = expect_sent(w, MSG_TABLE_IS);
    struct msg_table_is is = p->m.table_is;
    parcel_unpin(p);
    return is;
}

#endif
