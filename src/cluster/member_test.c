// A member without a cluster: greetings between nodes; requests, of which only one of
// each type may be under way; and the end of the member while requests are under way.
//
// SPDX-License-Identifier: Apache-2.0
#include "cluster/member.h"

#include <string.h>

#include "cluster/member_internal.h"
#include "kit/actors.h"
#include "kit/test.h"

static struct world w;

static void open_world(uint32_t servers, uint32_t workers)
{
    struct scheduler_options o = world_options(servers, workers);
    world_open(&w, 1, &o);
    world_add_all(&w, servers, workers, false);
    world_run(&w, 3 * SECONDS);
    for (uint32_t i = 0; i < w.n; i++)
        assert_true(member_ready(w.actors[i].m));
}

// A node that accepts links and lets its member check the peers.
struct host {
    struct van *v;
    struct member *m;
    van_link link; // the accepted link
    int rc;
    uint32_t node;
    uint64_t session;
    struct err e;
};

// A node that opens a link to the host.
struct guest {
    struct van *v;
    van_link link;
    uint16_t type;
    bool opened, closed;
    int code;
};

static void host_message(void *ctx, van_link link, struct van_message *m, uint64_t now)
{
    struct host *h = ctx;
    (void)now;
    h->rc = member_greeted(h->m, link, m, &h->node, &h->session, &h->e);
}

static void guest_opened(void *ctx, van_link link, bool accepted, uint64_t now)
{
    (void)link, (void)accepted, (void)now;
    ((struct guest *)ctx)->opened = true;
}

static void guest_message(void *ctx, van_link link, struct van_message *m, uint64_t now)
{
    struct guest *g = ctx;
    (void)link, (void)now;
    g->type = m->type;
    g->code = m->type == MSG_ERROR ? m->m->error.code : 0;
}

static void guest_closed(void *ctx, van_link link, const struct err *why, uint64_t now)
{
    (void)link, (void)why, (void)now;
    ((struct guest *)ctx)->closed = true;
}

static uint64_t no_tick(void *ctx, uint64_t now)
{
    (void)ctx, (void)now;
    return VAN_NEVER;
}

// `host` accepts links in place of a server's van, and passes their messages to the
// server's member, so that the test sees the links.
static struct host host;
static struct guest guest;

static void open_pair(void)
{
    struct van_handler h = {.ctx = &host, .message = host_message, .tick = no_tick};
    struct van_handler g = {.ctx = &guest,
                            .opened = guest_opened,
                            .message = guest_message,
                            .closed = guest_closed,
                            .tick = no_tick};
    char address[VAN_ADDRESS_MAX];
    host = (struct host){.m = w.actors[0].m, .rc = 1};
    guest = (struct guest){0};
    assert_int_equal(sim_van_open(&host.v, w.sim, "host", &h, NULL), 0);
    assert_int_equal(sim_van_open(&guest.v, w.sim, "guest", &g, NULL), 0);
    assert_int_equal(van_listen(host.v, "sim://host", address, NULL), 0);
    guest.link = van_connect(guest.v, address, SECONDS);
    world_run(&w, SECONDS);
    assert_true(guest.opened);
}

static void close_pair(void)
{
    van_free(host.v);
    van_free(guest.v);
}

// member_greeted sends on the van that its member serves, so the member gets the test's
// van.
static void borrow(struct member *m, struct van *v)
{
    m->s.link = m->here = 0;
    m->s.state = SESSION_CLOSED;
    member_serve(m, v, sim_now(w.sim));
}

static void check_greeting(struct member *from, int rc)
{
    open_pair();
    borrow(w.actors[0].m, host.v);
    if (from != NULL) {
        session_greet(guest.v, guest.link, member_who(from));
    } else {
        struct msg_hello hello = {.cluster = CLUSTER + 1, .role = WIRE_WORKER};
        assert_int_equal(van_send(guest.v, guest.link, MSG_HELLO, 0, &hello, NULL), 0);
    }
    world_run(&w, SECONDS / 10);
    assert_int_equal(host.rc, rc);
    assert_int_equal(guest.type, rc == 0 ? MSG_WELCOME : MSG_ERROR);
    assert_int_equal(guest.code, rc);
    assert_int_equal(guest.closed, rc != 0);
    if (rc == 0 && from != NULL) {
        assert_int_equal(host.node, member_id(from));
        assert_int_equal(host.session, member_session(from));
    }
    close_pair();
}

static void test_greeting(void **state)
{
    (void)state;
    open_world(1, 1);
    check_greeting(w.actors[1].m, 0);
    world_close(&w);
}

static void test_greeting_of_another_cluster(void **state)
{
    (void)state;
    open_world(1, 1);
    check_greeting(NULL, TUG_EUSAGE);
    world_close(&w);
}

static void test_greeting_of_the_dead(void **state)
{
    (void)state;
    open_world(1, 2);
    world_crash(&w.actors[1]);
    world_run(&w, 7 * SECONDS);
    check_greeting(w.actors[1].m, TUG_EIO);
    assert_non_null(strstr(host.e.text, "is over"));
    world_close(&w);
}

static uint32_t answers, ends;

static void on_answer(void *ctx, const struct van_message *m)
{
    assert_ptr_equal(ctx, &answers);
    if (m == NULL)
        ends++;
    else
        answers++;
}

static void test_one_request_of_a_type_at_a_time(void **state)
{
    (void)state;
    open_world(1, 1);
    struct member *m = w.actors[1].m;
    struct msg_lease lease = {0};
    struct msg_status status = {};
    answers = ends = 0;
    assert_int_equal(member_ask(m, MSG_LEASE, &lease, on_answer, &answers), 0);
    assert_int_equal(member_ask(m, MSG_LEASE, &lease, on_answer, &answers), TUG_EUSAGE);
    assert_int_equal(member_ask(m, MSG_STATUS, &status, on_answer, &answers), 0);
    world_run(&w, SECONDS);
    assert_int_equal(answers, 2);
    assert_int_equal(member_ask(m, MSG_LEASE, &lease, on_answer, &answers), 0);
    world_run(&w, SECONDS);
    assert_int_equal(answers, 3);
    assert_int_equal(ends, 0);
    world_close(&w);
}

// Requests are repeated until they are answered: the link is not open yet, and the
// network loses half of all messages.
static void test_asked_until_answered(void **state)
{
    (void)state;
    struct scheduler_options o = world_options(1, 1);
    world_open(&w, 3, &o);
    struct actor *a = world_add(&w, WIRE_WORKER);
    answers = ends = 0;
    sim_set_faults(w.sim, 0.5, 0.2, 0.2, 0);
    for (int i = 0; i < 20; i++) {
        struct msg_lease lease = {0};
        assert_int_equal(member_ask(a->m, MSG_LEASE, &lease, on_answer, &answers), 0);
        world_run(&w, 2 * SECONDS);
        while (answers <= (uint32_t)i && ends == 0)
            assert_true(sim_step(w.sim, sim_now(w.sim) + 100 * SECONDS));
        if (ends > 0)
            break; // the time for gathering nodes is over
    }
    assert_in_range(answers, 2, 20);
    world_close(&w);
}

static void test_end_answers_all(void **state)
{
    (void)state;
    open_world(1, 1);
    struct member *m = w.actors[1].m;
    struct msg_lease lease = {0};
    answers = ends = 0;
    sim_crash(w.sim, w.v);
    world_run(&w, SECONDS);
    assert_int_equal(member_ask(m, MSG_LEASE, &lease, on_answer, &answers), 0);
    world_run(&w, 130 * SECONDS);
    assert_int_equal(ends, 1);
    assert_int_equal(answers, 0);
    assert_int_equal(member_ask(m, MSG_LEASE, &lease, on_answer, &answers), TUG_EUSAGE);
    world_close(&w);
}

// A scheduler that answers each node as if it were another node.
struct impostor {
    struct van *v;
    struct msg_joined joined;
};

static void impostor_message(void *ctx, van_link link, struct van_message *m,
                             uint64_t now)
{
    struct impostor *x = ctx;
    (void)now;
    if (m->type == MSG_HELLO)
        van_send(
            x->v, link, MSG_WELCOME, 0,
            &(struct msg_welcome){.role = WIRE_SCHEDULER, .node = 1, .generation = 1},
            NULL);
    else if (m->type == MSG_JOIN)
        van_send(x->v, link, MSG_JOINED, m->request, &x->joined, NULL);
}

static void test_rejoins_as_the_same_node_only(void **state)
{
    (void)state;
    for (int what = 0; what < 4; what++) {
        struct impostor x = {0};
        struct van_handler h = {.ctx = &x, .message = impostor_message, .tick = no_tick};
        char address[VAN_ADDRESS_MAX];
        struct err why = {0};
        open_world(1, 1);
        struct member *m = w.actors[0].m;
        sim_crash(w.sim, w.v);
        assert_int_equal(sim_van_open(&x.v, w.sim, "impostor", &h, NULL), 0);
        assert_int_equal(van_listen(x.v, "sim://scheduler", address, NULL), 0);
        x.joined = (struct msg_joined){.generation = 1,
                                       .node = member_id(m) + 2 * (what == 1),
                                       .session = member_session(m) + (what == 2),
                                       .rank = member_rank(m) + (what == 3)};
        world_run(&w, 5 * SECONDS);
        assert_int_equal(member_ended(m, &why), what != 0);
        if (what != 0) {
            assert_int_equal(why.code, TUG_EIO);
            assert_non_null(
                strstr(why.text, "it is not the scheduler that the node joined"));
        }
        van_free(x.v);
        world_close(&w);
    }
}

// A member does not end because its process was stopped for longer than the time limit:
// in that time the process received nothing, although the scheduler has answered.
static void test_was_stopped_itself(void **state)
{
    (void)state;
    open_world(1, 1);
    struct member *m = w.actors[1].m;
    world_run(&w, 3 * m->o.scheduler_timeout_ns);
    uint64_t now = sim_now(w.sim), before = now - 2 * m->o.scheduler_timeout_ns;
    assert_true(m->due != 0 && m->due <= now + m->o.scheduler_timeout_ns / 8);
    // The last answer is old, because the process has not run since then.
    m->s.heard_at = before;
    m->due = before + 1;
    (void)member_tick(m, now);
    assert_false(m->ended);
    m->s.heard_at = before; // the last answer is old, although the process has run
    (void)member_tick(m, now);
    assert_true(m->ended);
    assert_non_null(strstr(m->why.text, "it does not answer"));
    world_close(&w);
}

static void test_too_long(void **state)
{
    (void)state;
    struct member *m;
    struct err e;
    char address[VAN_ADDRESS_MAX + 1];
    memset(address, 'a', VAN_ADDRESS_MAX);
    address[VAN_ADDRESS_MAX] = 0;
    struct member_options o = world_member(&w, WIRE_WORKER, 0);
    o.address = address;
    assert_int_equal(member_open(&m, &o, &e), TUG_EUSAGE);
    o.address = "";
    o.scheduler = address;
    assert_int_equal(member_open(&m, &o, &e), TUG_EUSAGE);
}

// A scheduler that sends any answer the test wants.
struct rogue {
    struct van *v;
    van_link link;
    uint16_t answer; // type of the answer to LEASE
    uint8_t bits;
    uint64_t epoch, version, request;
};
static struct rogue rogue;

static void send_rogue_roster(void)
{
    struct buf nodes = BUF_INIT(1 << 16);
    uint32_t owners[WIRE_SPACES << 8];
    struct wire_node n = {.id = 8,
                          .role = WIRE_SERVER,
                          .alive = 1,
                          .host = wire_text("h"),
                          .address = wire_text("sim://s")};
    assert_int_equal(wire_put_node(&nodes, &n), 0);
    for (size_t i = 0; i < sizeof(owners) / sizeof(*owners); i++)
        owners[i] = 8;
    struct msg_roster m = {
        .epoch = rogue.epoch,
        .version = ++rogue.version,
        .partition_bits = rogue.bits,
        .replicas = 1,
        .servers = 1,
        .nodes = {nodes.data, (uint32_t)nodes.len},
        .owners = {owners, rogue.epoch == 0 ? 0 : (WIRE_SPACES * 4u) << rogue.bits},
    };
    assert_int_equal(van_send(rogue.v, rogue.link, MSG_ROSTER, 0, &m, NULL), 0);
    buf_free(&nodes);
}

static void rogue_message(void *ctx, van_link link, struct van_message *m, uint64_t now)
{
    (void)ctx, (void)now;
    struct msg_data data = {.piece_bytes = 0x4242424242};
    rogue.link = link;
    if (m->type == MSG_HELLO)
        van_send(rogue.v, link, MSG_WELCOME, 0, &(struct msg_welcome){.role = 1}, NULL);
    else if (m->type == MSG_JOIN)
        van_send(rogue.v, link, MSG_JOINED, m->request,
                 &(struct msg_joined){.node = 9, .session = 5}, NULL);
    else if (m->type == MSG_LEASE && rogue.answer == MSG_DATA)
        van_send(rogue.v, link, MSG_DATA, m->request, &data, NULL);
    else if (m->type == MSG_LEASE)
        van_send(rogue.v, link, rogue.answer, m->request,
                 &(struct msg_error){.code = 0, .what = wire_text("\x1b[2Jno")}, NULL);
}

static struct member *open_rogue(void)
{
    struct sim_options net = {.seed = 1, .delay_min = MILLIS, .delay_max = 2 * MILLIS};
    struct van_handler h = {.message = rogue_message, .tick = no_tick};
    char address[VAN_ADDRESS_MAX];
    w = (struct world){.seed = 1};
    rogue = (struct rogue){.bits = 6, .epoch = 3};
    assert_int_equal(sim_open(&w.sim, &net, NULL), 0);
    assert_int_equal(sim_van_open(&rogue.v, w.sim, "rogue", &h, NULL), 0);
    assert_int_equal(van_listen(rogue.v, "sim://scheduler", address, NULL), 0);
    struct member *m = world_add(&w, WIRE_WORKER)->m;
    world_run(&w, SECONDS);
    assert_int_equal(member_id(m), 9);
    send_rogue_roster();
    world_run(&w, SECONDS);
    assert_true(member_ready(m));
    return m;
}

static void close_rogue(void)
{
    van_free(w.actors[0].v);
    member_close(w.actors[0].m);
    van_free(rogue.v);
    sim_close(w.sim);
}

// A node may have computed results from the number of partitions, so a roster with
// another number ends the node's member.
static void test_roster_that_changes_its_shape(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct err why = {0};
        struct member *m = open_rogue();
        rogue.bits = i == 0 ? 2 : i == 1 ? 8 : 6;
        rogue.epoch = i < 2 ? 4 : 0;
        send_rogue_roster();
        world_run(&w, SECONDS);
        assert_int_equal(member_roster(m)->partition_bits, 6);
        assert_int_equal(member_roster(m)->epoch, 3);
        assert_true(member_ended(m, &why));
        assert_int_equal(why.code, TUG_EDATA);
        assert_non_null(strstr(why.text, "arrived after one"));
        close_rogue();
    }
}

static uint16_t came;
static int came_code;

static void take_answer(void *ctx, const struct van_message *m)
{
    (void)ctx;
    came = m != NULL ? m->type : 0;
    came_code = m != NULL && m->type == MSG_ERROR ? m->m->error.code : 0;
}

// An answer of another type than expected has other fields, so the caller must not read
// it.
static void test_answer_of_another_kind(void **state)
{
    (void)state;
    struct msg_lease lease = {0};
    struct member *m = open_rogue();
    rogue.answer = MSG_DATA;
    assert_int_equal(member_ask(m, MSG_LEASE, &lease, take_answer, NULL), 0);
    world_run(&w, SECONDS);
    assert_int_equal(came, MSG_ERROR);
    assert_int_equal(came_code, TUG_EDATA);
    rogue.answer = MSG_ERROR;
    assert_int_equal(member_ask(m, MSG_LEASE, &lease, take_answer, NULL), 0);
    world_run(&w, SECONDS);
    assert_int_equal(came, MSG_ERROR);
    close_rogue();
}

static void test_answer_to_a_withdrawn_request(void **state)
{
    (void)state;
    struct msg_lease lease = {0};
    int ctx;
    struct member *m = open_rogue();
    rogue.answer = MSG_ERROR;
    came = 0;
    assert_int_equal(member_ask(m, MSG_LEASE, &lease, take_answer, &ctx), 0);
    member_unask(m, &ctx);
    world_run(&w, SECONDS);
    assert_int_equal(came, 0);
    assert_int_equal(member_ask(m, MSG_LEASE, &lease, take_answer, &ctx), 0);
    world_run(&w, SECONDS);
    assert_int_equal(came, MSG_ERROR);
    close_rogue();
}

// A member that has left has no requests under way.
static void test_requests_after_leaving(void **state)
{
    (void)state;
    open_world(1, 1);
    struct member *m = w.actors[1].m;
    struct msg_lease lease = {0};
    answers = ends = 0;
    sim_partition(w.sim, w.actors[1].v, w.v, true);
    assert_int_equal(member_ask(m, MSG_LEASE, &lease, on_answer, &answers), 0);
    member_leave(m, NULL);
    world_run(&w, 200 * SECONDS);
    assert_int_equal(answers + ends, 1);
    assert_true(member_left(m));
    assert_int_equal(member_ask(m, MSG_LEASE, &lease, on_answer, &answers), TUG_EUSAGE);
    sim_partition(w.sim, w.actors[1].v, w.v, false);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greeting),
        cmocka_unit_test(test_greeting_of_another_cluster),
        cmocka_unit_test(test_greeting_of_the_dead),
        cmocka_unit_test(test_one_request_of_a_type_at_a_time),
        cmocka_unit_test(test_asked_until_answered),
        cmocka_unit_test(test_end_answers_all),
        cmocka_unit_test(test_rejoins_as_the_same_node_only),
        cmocka_unit_test(test_was_stopped_itself),
        cmocka_unit_test(test_too_long),
        cmocka_unit_test(test_roster_that_changes_its_shape),
        cmocka_unit_test(test_answer_of_another_kind),
        cmocka_unit_test(test_answer_to_a_withdrawn_request),
        cmocka_unit_test(test_requests_after_leaving),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
