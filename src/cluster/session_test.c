// Tests sessions over each kind of van: how they are greeted and refused, become silent,
// break, and connect again.
//
// SPDX-License-Identifier: Apache-2.0
#include "cluster/session.h"

#include <string.h>

#include "kit/broken.h"
#include "kit/vans.h"

enum { CLUSTER = 4711 };

// The end that connects. The far end is the world's second node.
static struct {
    struct session_who who;
    struct session_side side;
    struct session s;
    unsigned news[SESSION_MESSAGE + 1];
} near;

// How the far end behaves, and what it has received.
static struct {
    // The role that the far end claims; WIRE_NOBODY: it never sends WELCOME.
    enum wire_role says;
    unsigned welcomes; // number of times that the far end sends WELCOME
    bool refuses, answers_pings, babbles, repeats;
    unsigned hellos, pings, said;
    uint64_t cluster, unix_ns;
    uint32_t node; // node id of the far end; 0: none
} far;

// Sends a message of every type except WELCOME, each with a request number as if it were
// an answer.
static void babble(struct node *n, van_link link)
{
    static const union wire_any nothing;
    static const uint16_t types[] = {
#define MESSAGE(NAME, name, id, ...) MSG_##NAME,
#include "wire/messages.def"
    };
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
        if (types[i] != MSG_WELCOME)
            far.said += van_send(n->v, link, types[i], 1, &nothing, NULL) == 0;
}

static void far_message(struct node *n, van_link link, struct van_message *m)
{
    struct msg_welcome w = {
        .role = (uint8_t)far.says, .node = far.node, .version = wire_text("test")};
    struct msg_error e = {.code = TUG_EUSAGE, .what = wire_text("not you")};
    if (m->type == MSG_PING) {
        far.pings++;
        if (far.answers_pings)
            (void)van_send(n->v, link, MSG_OK, m->request, &(struct msg_ok){0}, NULL);
        if (far.repeats) { // none of these messages is an answer
            (void)van_send(n->v, link, MSG_PING, 1, &(struct msg_ping){}, NULL);
            (void)van_send(n->v, link, MSG_STOP, 0, &(struct msg_stop){0}, NULL);
        }
    }
    if (m->type != MSG_HELLO)
        return;
    far.hellos++;
    far.cluster = m->m->hello.cluster;
    far.unix_ns = m->m->hello.unix_ns;
    if (far.refuses)
        (void)van_send(n->v, link, MSG_ERROR, 0, &e, NULL);
    if (far.babbles)
        babble(n, link);
    for (unsigned i = 0; i < far.welcomes && far.says != WIRE_NOBODY; i++)
        (void)van_send(n->v, link, MSG_WELCOME, 0, &w, NULL);
}

static void on_opened(void *ctx, van_link link, bool accepted, uint64_t now)
{
    (void)ctx, (void)accepted;
    assert_false(session_opened(&near.s, link + 1, now));
    assert_true(session_opened(&near.s, link, now));
    assert_int_equal(near.s.state, SESSION_GREETING);
}

static void on_message(void *ctx, van_link link, struct van_message *m, uint64_t now)
{
    (void)ctx;
    near.news[session_message(&near.s, link, m, now)]++;
}

static void on_closed(void *ctx, van_link link, const struct err *why, uint64_t now)
{
    (void)ctx;
    assert_true(session_closed(&near.s, link, why, now));
    assert_int_equal(near.s.due, now + near.s.wait);
}

static uint64_t on_tick(void *ctx, uint64_t now)
{
    (void)ctx;
    return near.side.van != NULL ? session_tick(&near.s, now) : VAN_NEVER;
}

static void dial(struct vans *w)
{
    struct van *v = near.side.van;
    assert_int_equal(near.s.state, SESSION_CLOSED);
    assert_true(session_dial(&near.s, w->nodes[1].address, PATIENCE, van_now(v)));
    assert_int_equal(near.s.state, SESSION_DIALLING);
}

// Opens both ends, with time limits so long that none is reached.
static void open_ends(struct vans *w)
{
    const struct van_handler h = {
        .opened = on_opened, .message = on_message, .closed = on_closed, .tick = on_tick};
    memset(&near, 0, sizeof(near));
    memset(&far, 0, sizeof(far));
    far.says = WIRE_SCHEDULER;
    far.welcomes = 1;
    near.who = (struct session_who){.cluster = CLUSTER, .role = WIRE_TOOL};
    near.side = (struct session_side){.who = &near.who,
                                      .greet_ns = PATIENCE,
                                      .ping_ns = PATIENCE,
                                      .silence_ns = 2 * PATIENCE,
                                      .retry_ns = 1 * MS,
                                      .retry_max_ns = 4 * MS};
    near.s = (struct session){.side = &near.side, .role = WIRE_SCHEDULER};
    vans_open(w, 1);
    w->nodes[1].on_message = far_message;
    vans_listen_anywhere(&w->nodes[1]);
    assert_int_equal(w->kind->open_van(w, "a", &h, &near.side.van, NULL), 0);
    w->nodes[0].v = near.side.van;
}

static void test_greeted(struct vans *w)
{
    far.welcomes = 2;
    dial(w);
    PUMP(w, near.news[SESSION_NOTHING] == 1); // the second WELCOME
    assert_int_equal(near.news[SESSION_GREETED], 1);
    assert_int_equal(near.s.state, SESSION_OPEN);
    assert_int_equal(far.cluster, CLUSTER);
    assert_true(far.unix_ns != 0);
    assert_int_equal(far.hellos, 1);
    struct msg_ok ok = {0};
    assert_int_equal(van_send(w->nodes[1].v, w->nodes[1].link, MSG_OK, 9, &ok, NULL), 0);
    PUMP(w, near.news[SESSION_MESSAGE] == 1);
    session_end(&near.s);
    assert_int_equal(near.s.due, VAN_NEVER);
    PUMP(w, w->nodes[1].closed == 1);
}

static void expect_refused(struct vans *w, int code, const char *why)
{
    dial(w);
    PUMP(w, near.news[SESSION_REFUSED] == 1);
    assert_int_equal(near.s.state, SESSION_CLOSED);
    assert_int_equal(near.s.why.code, code);
    if (strstr(near.s.why.text, why) == NULL)
        fail_msg("%s", near.s.why.text);
    PUMP(w, w->nodes[1].closed == 1);
}

static void test_refused(struct vans *w)
{
    far.refuses = true;
    far.says = WIRE_NOBODY;
    expect_refused(w, TUG_EUSAGE, "not you");
}

static void test_another_role(struct vans *w)
{
    far.says = WIRE_WORKER;
    expect_refused(w, TUG_EIO, "cannot prove that it is a scheduler of the cluster");
}

static void test_another_node(struct vans *w)
{
    near.s.node = 8;
    far.node = 12;
    expect_refused(w, TUG_EIO, "where node 8 was");
}

static void test_a_server_without_proof(struct vans *w)
{
    near.who.has_secret = true;
    far.says = near.s.role = WIRE_SERVER;
    expect_refused(w, TUG_EIO, "cannot prove that it is a server of the cluster");
}

static void test_any_role_is_accepted(struct vans *w)
{
    far.says = WIRE_SERVER;
    near.s.role = WIRE_NOBODY;
    dial(w);
    PUMP(w, near.news[SESSION_GREETED] == 1);
}

// Messages that arrive before WELCOME, or from a peer that never sends it, are not passed
// on.
static void test_heard_before_it_greets(struct vans *w)
{
    far.babbles = true;
    far.says = WIRE_NOBODY;
    dial(w);
    PUMP(w, far.said > 0 && near.news[SESSION_NOTHING] == far.said);
    vans_settle(w);
    assert_int_equal(near.news[SESSION_MESSAGE], 0);
    assert_int_equal(near.s.state, SESSION_GREETING);
}

// HELLO is repeated, and after a while the session closes.
static void test_nobody_greets(struct vans *w)
{
    far.says = WIRE_NOBODY;
    near.side.resend_ns = 5 * MS;
    dial(w);
    PUMP(w, far.hellos > 1);
    near.side.greet_ns = 60 * MS;
    PUMP(w, near.s.link == 0);
    assert_string_equal(near.s.why.text, "it does not identify itself");
    // the next attempt may begin at once
    assert_true(near.s.due <= van_now(near.side.van));
    PUMP(w, w->nodes[1].closed == 1);
}

// Waits until the session closes because of silence. Wakes the session first, so that it
// uses the changed times.
static void expect_silence(struct vans *w, unsigned messages)
{
    dial(w);
    PUMP(w, near.news[SESSION_GREETED] == 1);
    near.side.resend_ns = 5 * MS;
    near.side.ping_ns = 20 * MS;
    van_wake(near.side.van);
    PUMP(w, far.pings > 1 && near.news[SESSION_MESSAGE] >= messages);
    near.side.silence_ns = 80 * MS;
    van_wake(near.side.van);
    PUMP(w, near.s.link == 0);
    assert_string_equal(near.s.why.text, "it is silent");
    PUMP(w, w->nodes[1].closed == 1);
    assert_int_equal(far.hellos, 1);
}

static void test_silent(struct vans *w)
{
    expect_silence(w, 0);
}

// The far end repeats its own messages but answers nothing, so its messages are not signs
// of life.
static void test_deaf(struct vans *w)
{
    far.repeats = true;
    expect_silence(w, 2);
}

// Without an interval for repeats, PING is sent once. Its answer is a sign of life.
static void test_asked(struct vans *w)
{
    near.side.ping_ns = 5 * MS;
    dial(w);
    PUMP(w, far.pings == 1);
    assert_true(session_is_asked(&near.s));
    vans_settle(w);
    assert_int_equal(far.pings, 1);
    far.answers_pings = true;
    near.s.heard_at = van_now(near.side.van);
    PUMP(w, far.pings >= 4);
    assert_int_equal(near.s.state, SESSION_OPEN);
}

// The delay before the next attempt doubles each time, and is short again after
// the session was open.
static void test_broken(struct vans *w)
{
    struct err why;
    for (unsigned i = 0; i < 5; i++) {
        uint64_t now = van_now(near.side.van);
        dial(w);
        err_set(&why, TUG_EIO, "no %u", i);
        session_break(&near.s, &why, now);
        assert_int_equal(near.s.wait, (i < 2 ? 1 + i : 4) * MS);
        assert_int_equal(near.s.due, now + near.s.wait);
        assert_string_equal(near.s.why.text, why.text);
    }
    dial(w);
    PUMP(w, near.news[SESSION_GREETED] == 1);
    assert_int_equal(near.s.wait, 0);
    van_close_link(w->nodes[1].v, w->nodes[1].link);
    PUMP(w, near.s.link == 0);
    assert_int_equal(near.s.wait, MS);
}

static struct vans all;

static void run(struct vans *w, void (*test)(struct vans *))
{
    for (size_t i = 0; i < VANS_KINDS; i++) {
        struct sim_options net = {.seed = 1, .delay_min = MS / 8, .delay_max = MS};
        *w = (struct vans){.kind = &vans_kinds[i]};
        if (w->kind->tls)
            vans_open_keys(w);
        if (w->kind->simulated)
            assert_int_equal(sim_open(&w->sim, &net, NULL), 0);
        open_ends(w);
        test(w);
        session_check(&near.s, van_now(near.side.van));
        vans_close(&w->nodes[0]);
        vans_close(&w->nodes[1]);
        sim_close(w->sim);
        vans_close_keys(w);
    }
}

#define TEST(name)                                                                       \
    static void test_##name##_everywhere(void **state)                                   \
    {                                                                                    \
        (void)state;                                                                     \
        run(&all, test_##name);                                                          \
    }

TEST(greeted)
TEST(refused)
TEST(another_role)
TEST(another_node)
TEST(a_server_without_proof)
TEST(any_role_is_accepted)
TEST(heard_before_it_greets)
TEST(nobody_greets)
TEST(silent)
TEST(deaf)
TEST(asked)
TEST(broken)

static void check(void)
{
    session_check(&near.s, 100);
}

static void break_link(void)
{
    near.s.link = 0;
}

static void break_state(void)
{
    near.s.state = SESSION_CLOSED;
}

static void break_van(void)
{
    near.side.van = NULL;
}

static void break_time(void)
{
    near.s.heard_at = 101;
}

static void test_every_invariant_can_fail(void **state)
{
    static const struct broken broken[] = {{"session_check", break_link},
                                           {"session_check", break_state},
                                           {"session_check", break_van},
                                           {"session_check", break_time}};
    struct van v = {0};
    (void)state;
    near.side = (struct session_side){.van = &v};
    near.s = (struct session){.side = &near.side, .state = SESSION_OPEN, .link = 1};
    expect_all_broken(broken, sizeof(broken) / sizeof(*broken), check);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greeted_everywhere),
        cmocka_unit_test(test_refused_everywhere),
        cmocka_unit_test(test_another_role_everywhere),
        cmocka_unit_test(test_another_node_everywhere),
        cmocka_unit_test(test_a_server_without_proof_everywhere),
        cmocka_unit_test(test_any_role_is_accepted_everywhere),
        cmocka_unit_test(test_heard_before_it_greets_everywhere),
        cmocka_unit_test(test_nobody_greets_everywhere),
        cmocka_unit_test(test_silent_everywhere),
        cmocka_unit_test(test_deaf_everywhere),
        cmocka_unit_test(test_asked_everywhere),
        cmocka_unit_test(test_broken_everywhere),
        cmocka_unit_test(test_every_invariant_can_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
