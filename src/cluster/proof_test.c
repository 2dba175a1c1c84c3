// Tests proofs of sessions: the right proof is accepted, on its own link only. A peer
// that uses another member's session, node, role or certificate, or the proof of
// another link, is refused.
//
// SPDX-License-Identifier: Apache-2.0
#include "cluster/proof.h"

#include <string.h>

#include "cluster/member_internal.h"
#include "kit/actors.h"
#include "kit/test.h"

struct claim {
    uint8_t key[MAC_BYTES], secret[MAC_BYTES], proof[MAC_BYTES];
    struct proof_of whose;
    struct van_trust link;
};

// Makes the proof of a member that got its session from the scheduler over a link with
// this certificate.
static void claim(struct claim *c)
{
    *c = (struct claim){.whose = {77, 9, WIRE_WORKER}, .link = {.role = WIRE_WORKER}};
    memset(c->key, 1, MAC_BYTES);
    memset(c->link.binding, 2, MAC_BYTES);
    memset(c->link.certificate, 3, MAC_BYTES);
    assert_true(proof_secret(c->secret, c->key, &c->whose, c->link.certificate));
    assert_true(proof_hello(c->proof, c->secret, &c->link));
}

static bool is_believed(const struct claim *c, size_t n)
{
    uint8_t secret[MAC_BYTES];
    return proof_check(secret, c->key, &c->whose, &c->link,
                       (struct wire_text){(const char *)c->proof, (uint32_t)n});
}

static void test_any_changed_part_is_refused(void **state)
{
    struct claim c;
    (void)state;
    claim(&c);
    assert_true(is_believed(&c, MAC_BYTES));
    assert_false(is_believed(&c, MAC_BYTES - 1));
    assert_false(is_believed(&c, 0));
    c.whose.session++;
    assert_false(is_believed(&c, MAC_BYTES));
    claim(&c);
    c.whose.node++;
    assert_false(is_believed(&c, MAC_BYTES));
    claim(&c);
    c.whose.role = WIRE_SERVER;
    assert_false(is_believed(&c, MAC_BYTES));
    claim(&c);
    c.link.binding[31]++; // the proof comes from another link, as after eavesdropping or
                          // relaying
    assert_false(is_believed(&c, MAC_BYTES));
    claim(&c);
    c.link.certificate[0]++; // the secret was stolen, but not the certificate
    assert_false(is_believed(&c, MAC_BYTES));
    claim(&c);
    c.key[5]++; // the key of another cluster, or of the scheduler before a restart
    assert_false(is_believed(&c, MAC_BYTES));
    claim(&c);
    c.proof[0] ^= 128;
    assert_false(is_believed(&c, MAC_BYTES));
}

// A server refuses its own proof if a peer sends it back.
static void test_servers_own_proof(void **state)
{
    struct claim c;
    (void)state;
    claim(&c);
    assert_true(proof_welcome(c.proof, c.secret, &c.link));
    assert_false(is_believed(&c, MAC_BYTES));
}

// A member is believed over TLS even if it has reached the scheduler over a Unix socket,
// and so without a certificate.
static void test_without_certificate(void **state)
{
    static const uint8_t none[MAC_BYTES];
    struct claim c;
    (void)state;
    claim(&c);
    assert_true(proof_secret(c.secret, c.key, &c.whose, none));
    assert_true(proof_hello(c.proof, c.secret, &c.link));
    assert_true(is_believed(&c, MAC_BYTES));
}

static void test_roles(void **state)
{
    (void)state;
    assert_true(proof_role_fits(WIRE_WORKER, WIRE_WORKER));
    assert_true(proof_role_fits(WIRE_WORKER, WIRE_OPERATOR));
    // A tool that joins as a guest has the role of a driver.
    assert_true(proof_role_fits(WIRE_DRIVER, WIRE_TOOL));
    assert_false(proof_role_fits(WIRE_SERVER, WIRE_WORKER));
    assert_false(proof_role_fits(WIRE_WORKER, WIRE_TOOL));
    assert_false(proof_role_fits(WIRE_SCHEDULER, WIRE_SERVER));
    assert_false(proof_role_fits(WIRE_OPERATOR, WIRE_SERVER));
    assert_false(proof_role_fits((enum wire_role)99, WIRE_OPERATOR));
    assert_false(proof_role_fits(WIRE_TOOL, WIRE_NOBODY));
}

static struct world w;

struct end {
    struct van *v;
    struct member *m;
    van_link link;
    uint32_t greeted, node;
    uint16_t type;
    struct err e;
};

static void host_message(void *ctx, van_link link, struct van_message *m, uint64_t now)
{
    struct end *h = ctx;
    uint64_t session;
    (void)now;
    h->greeted += member_greeted(h->m, link, m, &h->node, &session, &h->e) == 0;
}

static void guest_message(void *ctx, van_link link, struct van_message *m, uint64_t now)
{
    struct end *g = ctx;
    (void)now;
    g->type = m->type;
    if (m->type == MSG_WELCOME && g->m != NULL &&
        !session_believes(g->v, link, &g->m->who, WIRE_SERVER, &m->m->welcome, &g->e))
        g->type = 0;
}

static uint64_t no_tick(void *ctx, uint64_t now)
{
    (void)ctx, (void)now;
    return VAN_NEVER;
}

static struct end host, guest;

// `role` is the role of the guest's link.
static void open_ends(enum wire_role role)
{
    struct van_handler h = {.ctx = &host, .message = host_message, .tick = no_tick};
    struct van_handler g = {.ctx = &guest, .message = guest_message, .tick = no_tick};
    char address[VAN_ADDRESS_MAX];
    struct scheduler_options o = world_options(1, 2);
    memset(o.session_key, 42, sizeof(o.session_key));
    world_open(&w, 1, &o);
    world_add_all(&w, 1, 2, false);
    world_run(&w, 3 * SECONDS);
    host = (struct end){.m = w.actors[0].m};
    guest = (struct end){0};
    assert_int_equal(sim_van_open(&host.v, w.sim, "host", &h, NULL), 0);
    assert_int_equal(sim_van_open(&guest.v, w.sim, "guest", &g, NULL), 0);
    sim_van_role(guest.v, role);
    assert_int_equal(van_listen(host.v, "sim://host", address, NULL), 0);
    host.m->s.link = host.m->here = 0;
    host.m->s.state = SESSION_CLOSED;
    member_serve(host.m, host.v, sim_now(w.sim));
    guest.link = van_connect(guest.v, address, SECONDS);
    world_run(&w, SECONDS / 10);
}

static void close_ends(void)
{
    van_free(host.v);
    van_free(guest.v);
    world_close(&w);
}

static void say_hello(const struct msg_hello *hello, const char *refusal)
{
    assert_int_equal(van_send(guest.v, guest.link, MSG_HELLO, 0, hello, NULL), 0);
    world_run(&w, SECONDS / 10);
    assert_int_equal(host.greeted, refusal == NULL);
    assert_int_equal(guest.type, refusal == NULL ? MSG_WELCOME : MSG_ERROR);
    if (refusal != NULL && strstr(host.e.text, refusal) == NULL)
        fail_msg("%s", host.e.text);
}

static struct msg_hello hello_of(const struct member *m)
{
    return (struct msg_hello){.cluster = m->o.cluster,
                              .role = (uint8_t)m->o.role,
                              .node = m->who.id,
                              .session = m->who.number};
}

// A member claims to be the other worker: the facts of the roster about that
// worker are not a proof.
static void test_session_of_another(void **state)
{
    uint8_t proof[MAC_BYTES];
    (void)state;
    for (int what = 0; what < 5; what++) {
        open_ends(WIRE_WORKER);
        const struct member *mine = w.actors[1].m, *other = w.actors[2].m;
        struct van_trust link = van_trust(guest.v, guest.link);
        struct msg_hello hello = hello_of(other);
        assert_true(proof_hello(proof, mine->who.secret, &link));
        hello.proof = (struct wire_text){(const char *)proof, MAC_BYTES};
        if (what == 1)
            hello.proof.n = 0;
        if (what == 2) // the peer's own session, with another node's id
            hello.session = mine->who.number;
        if (what == 3)
            hello.node = 12345; // an id that is not in the roster
        if (what == 4)
            hello = (struct msg_hello){
                .cluster = other->o.cluster, .role = WIRE_WORKER, .session = 4711};
        say_hello(&hello, "session");
        close_ends();
    }
}

static void test_own_session(void **state)
{
    (void)state;
    open_ends(WIRE_WORKER);
    guest.m = w.actors[1].m;
    session_greet(guest.v, guest.link, &guest.m->who);
    world_run(&w, SECONDS / 10);
    assert_int_equal(host.greeted, 1);
    assert_int_equal(host.node, guest.m->who.id);
    assert_int_equal(guest.type, MSG_WELCOME); // the server has proven its identity as
                                               // well
    close_ends();
}

// A member that listens in place of a server cannot prove that it is a server, because it
// does not have the key of sessions.
static void test_rogue_server(void **state)
{
    struct msg_welcome w0 = {.role = WIRE_SERVER, .node = 8};
    struct err e;
    (void)state;
    open_ends(WIRE_WORKER);
    guest.m = w.actors[1].m;
    assert_false(
        session_believes(guest.v, guest.link, &guest.m->who, WIRE_SERVER, &w0, &e));
    assert_non_null(strstr(e.text, "cannot prove that it is a server"));
    uint8_t proof[MAC_BYTES];
    struct van_trust link = van_trust(guest.v, guest.link);
    // The member proves its own secret, not the server's.
    assert_true(proof_welcome(proof, w.actors[2].m->who.secret, &link));
    w0.proof = (struct wire_text){(const char *)proof, MAC_BYTES};
    assert_false(
        session_believes(guest.v, guest.link, &guest.m->who, WIRE_SERVER, &w0, &e));
    w0.role = WIRE_WORKER;
    assert_false(
        session_believes(guest.v, guest.link, &guest.m->who, WIRE_SERVER, &w0, &e));
    assert_false(
        session_believes(guest.v, guest.link, &guest.m->who, WIRE_SCHEDULER, &w0, &e));
    close_ends();
}

// A peer with the role `tool` on its link is not accepted as a worker, whatever its HELLO
// claims.
static void test_role_of_the_link(void **state)
{
    (void)state;
    open_ends(WIRE_TOOL);
    struct msg_hello hello = {.cluster = host.m->o.cluster, .role = WIRE_WORKER};
    say_hello(&hello, "its certificate or token is for another role");
    close_ends();
    open_ends(WIRE_TOOL);
    hello.role = WIRE_TOOL;
    say_hello(&hello, NULL);
    close_ends();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_changed_part_is_refused),
        cmocka_unit_test(test_servers_own_proof),
        cmocka_unit_test(test_without_certificate),
        cmocka_unit_test(test_roles),
        cmocka_unit_test(test_session_of_another),
        cmocka_unit_test(test_own_session),
        cmocka_unit_test(test_rogue_server),
        cmocka_unit_test(test_role_of_the_link),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
