// Tests the handshake with two ends and a stranger between them: correct messages pass,
// and each single fault is detected.
//
// SPDX-License-Identifier: Apache-2.0
#include "van/handshake.h"

#include <stdio.h>
#include <string.h>

#include "kit/test.h"

static const char here[] = "tcp://127.0.0.1:9100";

// One end: its token and its random numbers.
struct end {
    struct prover prover;
    enum wire_role role; // the role of the token; WIRE_NOBODY: the end has no token
    uint8_t secret;
    uint8_t next; // the value of all bytes of the next nonce
    struct handshake h;
    struct van_trust trust;
};

static int token(void *ctx, enum wire_role *role, uint8_t ret[MAC_BYTES], struct err *e)
{
    const struct end *end = ctx;
    if (end->role == WIRE_NOBODY)
        return err_set(e, TUG_EIO, "no token");
    if (wire_right(end->role) < wire_right(*role))
        *role = end->role;
    memset(ret, end->secret, MAC_BYTES);
    ret[0] = (uint8_t)*role; // each role has its own token
    return 0;
}

static bool fill(void *ctx, uint8_t ret[MAC_BYTES])
{
    struct end *end = ctx;
    memset(ret, end->next++, MAC_BYTES);
    return true;
}

static bool fail_random(void *ctx, uint8_t ret[MAC_BYTES])
{
    (void)ctx, (void)ret;
    return false;
}

// Dialler, listener and the messages between them.
struct world {
    struct end dialler, listener;
    struct handshake_link dialled, accepted;
    struct msg_knock knock;
    struct msg_challenge challenge;
    struct msg_proof proof;
    struct err e;
    // Each function changes a message on its way; NULL: the message is not changed.
    void (*on_knock)(struct world *w);
    void (*on_challenge)(struct world *w);
    void (*on_proof)(struct world *w);
};

static void end_open(struct end *end, enum wire_role role, uint8_t nonce)
{
    *end = (struct end){.role = WIRE_OPERATOR, .secret = 7, .next = nonce};
    end->prover = (struct prover){
        .role = role, .token = token, .random = fill, .ctx = end};
}

static void begin(struct world *w)
{
    *w = (struct world){0};
    end_open(&w->dialler, WIRE_WORKER, 1);
    end_open(&w->listener, WIRE_OPERATOR, 101);
    w->dialled.role = w->accepted.role = WIRE_OPERATOR;
    snprintf(w->dialled.address, sizeof(w->dialled.address), "%s", here);
    snprintf(w->accepted.address, sizeof(w->accepted.address), "%s", here);
    snprintf(w->dialled.name, sizeof(w->dialled.name), "tcp://localhost:9100");
}

enum stage { KNOCKING, KNOCKED, CHALLENGED, PROVEN, DONE };

// Runs the handshake; returns the stage that it reached.
static enum stage run(struct world *w)
{
    struct end *d = &w->dialler, *l = &w->listener;
    if (handshake_knock(&d->h, &d->prover, &w->dialled, &w->knock, &w->e) != 0)
        return KNOCKING;
    if (w->on_knock != NULL)
        w->on_knock(w);
    if (handshake_knocked(&l->h, &l->prover, &w->accepted, &w->knock, &w->challenge,
                          &w->e) != 0)
        return KNOCKED;
    if (w->on_challenge != NULL)
        w->on_challenge(w);
    if (handshake_challenged(&d->h, &w->challenge, &w->proof, &w->e) != 0)
        return CHALLENGED;
    if (w->on_proof != NULL)
        w->on_proof(w);
    if (handshake_proven(&l->h, &w->proof, &w->e) != 0)
        return PROVEN;
    handshake_end(&d->h, false, &d->trust);
    handshake_end(&l->h, true, &l->trust);
    return DONE;
}

static void expect(struct world *w, enum stage stage, const char *why)
{
    enum stage reached = run(w);
    if (reached != stage || (why != NULL && strstr(w->e.text, why) == NULL))
        fail_msg("stage %d: %s", reached, w->e.text);
}

static void test_both_prove(void **state)
{
    struct world w;
    (void)state;
    begin(&w);
    expect(&w, DONE, NULL);
    assert_int_equal(w.listener.trust.role, WIRE_WORKER);
    assert_memory_equal(w.dialler.trust.binding, w.listener.trust.binding, MAC_BYTES);
    static const uint8_t zeros[MAC_BYTES];
    assert_memory_equal(w.listener.h.key, zeros, MAC_BYTES); // the key was wiped
    // Another link between the same two ends has another binding.
    uint8_t first[MAC_BYTES];
    memcpy(first, w.dialler.trust.binding, MAC_BYTES);
    assert_int_equal(run(&w), DONE);
    assert_memory_not_equal(first, w.dialler.trust.binding, MAC_BYTES);
}

// The token is in none of the messages.
static void test_token_is_not_sent(void **state)
{
    struct world w;
    uint8_t key[MAC_BYTES];
    enum wire_role role = WIRE_WORKER;
    (void)state;
    begin(&w);
    expect(&w, DONE, NULL);
    token(&w.dialler, &role, key, NULL);
    assert_memory_not_equal(w.challenge.proof.data, key, MAC_BYTES);
    assert_memory_not_equal(w.proof.proof.data, key, MAC_BYTES);
    assert_memory_not_equal(w.proof.proof.data, w.challenge.proof.data, MAC_BYTES);
}

static void test_no_token(void **state)
{
    struct world w;
    (void)state;
    begin(&w);
    w.dialler.role = WIRE_NOBODY;
    expect(&w, KNOCKED, "requires the cluster's token");
    struct msg_error answer = {.what = wire_text(w.e.text)};
    struct err e;
    handshake_refused(&w.dialler.h, &answer, &e);
    assert_non_null(strstr(e.text, "no token")); // the dialler gets the same reason
    w.dialler.prover.insecure = true;
    expect(&w, KNOCKED, NULL);
    w.listener.prover.insecure = true;
    expect(&w, DONE, NULL);
    // A dialler that insists on a proof refuses a listener that asks for no
    // proof and gives none.
    w.dialler.prover.insecure = false;
    expect(&w, CHALLENGED, "does not prove");
    begin(&w);
    w.listener.role = WIRE_NOBODY;
    expect(&w, KNOCKED, "no token");
    // The listener asks for no proof: a dialler that insists on a proof refuses the
    // listener.
    w.listener.prover.insecure = true;
    expect(&w, CHALLENGED, "--insecure");
    w.dialler.prover.insecure = true;
    expect(&w, DONE, NULL);
}

static void test_wrong_token(void **state)
{
    struct world w;
    (void)state;
    begin(&w);
    w.dialler.secret++;
    expect(&w, CHALLENGED, "does not know");
    w.dialler.prover.insecure = true; // accepts a missing proof, but not a wrong one
    expect(&w, CHALLENGED, "does not know");
}

static void change_proof(struct world *w)
{
    static char proof[MAC_BYTES];
    memcpy(proof, w->proof.proof.data, MAC_BYTES);
    proof[31] ^= 1;
    w->proof.proof.data = proof;
}

static void shorten_proof(struct world *w)
{
    w->proof.proof.n--;
}

static void drop_proof(struct world *w)
{
    w->proof.proof = (struct wire_text){NULL, 0};
}

// Sends the listener's own message back to it.
static void reflect(struct world *w)
{
    w->proof.proof = w->challenge.proof;
}

static void test_wrong_proofs(void **state)
{
    void (*const changes[])(struct world *) = {change_proof, shorten_proof, drop_proof,
                                               reflect};
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct world w;
        begin(&w);
        w.on_proof = changes[i];
        expect(&w, PROVEN, "does not know");
    }
}

static void listener_change(struct world *w)
{
    static char proof[MAC_BYTES];
    memcpy(proof, w->challenge.proof.data, MAC_BYTES);
    proof[0] ^= 1;
    w->challenge.proof.data = proof;
}

static void listener_drop(struct world *w)
{
    w->challenge.proof = (struct wire_text){NULL, 0};
}

static void listener_asks_nothing(struct world *w)
{
    w->challenge.token = 0;
}

// Lets the listener send the dialler's nonce as its own.
static void listener_mirrors(struct world *w)
{
    w->challenge.nonce = w->knock.nonce;
}

static void listener_short_nonce(struct world *w)
{
    w->challenge.nonce.n--;
}

static void test_rogue_listener(void **state)
{
    void (*const changes[])(struct world *) = {listener_change, listener_drop,
                                               listener_asks_nothing, listener_mirrors,
                                               listener_short_nonce};
    (void)state;
    for (size_t i = 0; i < 5; i++) {
        struct world w;
        begin(&w);
        w.on_challenge = changes[i];
        expect(&w, CHALLENGED, NULL);
    }
}

// ---------------------------------------------------------------- replays

static struct world before; // an earlier handshake that a stranger has recorded

static void replay_proof(struct world *w)
{
    w->proof = before.proof;
}

static void replay_challenge(struct world *w)
{
    w->challenge = before.challenge;
}

static void test_replays(void **state)
{
    struct world w;
    (void)state;
    begin(&before);
    expect(&before, DONE, NULL);
    begin(&w);
    w.listener.next = 55; // a new nonce, as in each handshake
    w.on_proof = replay_proof;
    expect(&w, PROVEN, "does not know");
    begin(&w);
    w.dialler.next = 66;
    w.on_challenge = replay_challenge;
    expect(&w, CHALLENGED, "does not know");
    // A stranger that knocks with the recorded nonce also gets another challenge.
    begin(&w);
    w.listener.next = 77;
    w.on_proof = replay_proof;
    expect(&w, PROVEN, NULL);
}

// ---------------------------------------------------------------- relayed handshakes

static void ask_more(struct world *w)
{
    w->knock.role = WIRE_OPERATOR;
}

static void change_name(struct world *w)
{
    w->knock.name = wire_text("tcp://other:1");
}

static void change_nonce(struct world *w)
{
    static char nonce[MAC_BYTES];
    w->knock.nonce = (struct wire_text){nonce, MAC_BYTES};
}

static void test_changed_knocks(void **state)
{
    void (*const changes[])(struct world *) = {ask_more, change_name, change_nonce};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct world w;
        begin(&w);
        w.on_knock = changes[i];
        expect(&w, CHALLENGED, "does not know");
    }
}

// A stranger has taken the port that the dialler knows and relays all messages to the
// cluster.
static void test_relayed(void **state)
{
    struct world w;
    (void)state;
    begin(&w);
    snprintf(w.dialled.address, sizeof(w.dialled.address), "tcp://127.0.0.1:6666");
    expect(&w, KNOCKED, "tcp://127.0.0.1:6666");
    // The proof is accepted if the listener has the name that was dialled, although it
    // listens at another address, as behind the cluster's own proxy.
    snprintf(w.accepted.name, sizeof(w.accepted.name), "tcp://localhost:9100");
    expect(&w, DONE, NULL);
    snprintf(w.accepted.name, sizeof(w.accepted.name), "tcp://localhost:9101");
    expect(&w, KNOCKED, "if a proxy is in between");
    // The numeric address of that name is also accepted.
    snprintf(w.accepted.name, sizeof(w.accepted.name), "tcp://127.0.0.1:6666");
    expect(&w, DONE, NULL);
    snprintf(w.accepted.name, sizeof(w.accepted.name), "tcp://127.0.0.1:666");
    expect(&w, KNOCKED, "if a proxy is in between");
}

static void stranger_address(struct world *w)
{
    w->knock.address = wire_text(here);
}

static void test_relayed_with_a_changed_address(void **state)
{
    struct world w;
    (void)state;
    begin(&w);
    snprintf(w.dialled.address, sizeof(w.dialled.address), "tcp://127.0.0.1:6666");
    w.on_knock = stranger_address;
    expect(&w, CHALLENGED, "does not know");
}

// ---------------------------------------------------------------- roles

static void test_roles(void **state)
{
    static const enum wire_role roles[] = {WIRE_TOOL, WIRE_WORKER, WIRE_SERVER,
                                           WIRE_OPERATOR};
    (void)state;
    for (int has = 0; has < 4; has++)
        for (int asks = 0; asks < 4; asks++) {
            struct world w;
            begin(&w);
            w.dialler.role = roles[has];
            w.dialler.prover.role = roles[asks];
            expect(&w, DONE, NULL);
            assert_int_equal(w.listener.trust.role, roles[has < asks ? has : asks]);
            // A listener knows the tokens of its own role and of roles with fewer rights.
            w.listener.role = roles[has];
            w.dialler.role = WIRE_OPERATOR;
            expect(&w, asks <= has ? DONE : KNOCKED, NULL);
        }
}

static void ask_nonsense(struct world *w)
{
    w->knock.role = 200;
}

static void ask_driver(struct world *w)
{
    w->knock.role = WIRE_DRIVER;
}

static void test_no_role(void **state)
{
    struct world w;
    (void)state;
    begin(&w);
    w.on_knock = ask_nonsense;
    expect(&w, KNOCKED, "which does not exist");
    w.on_knock = ask_driver;
    expect(&w, KNOCKED, "which does not exist");
}

// ---------------------------------------------------------------- ends that need no token

static void test_believed(void **state)
{
    struct world w;
    (void)state;
    begin(&w);
    w.dialler.role = w.listener.role = WIRE_NOBODY;
    w.dialled.believed = w.accepted.believed = true;
    w.accepted.role = WIRE_TOOL; // the role in the peer's certificate
    memset(w.accepted.certificate, 5, MAC_BYTES);
    memset(w.dialled.channel, 9, MAC_BYTES);
    memset(w.accepted.channel, 9, MAC_BYTES);
    expect(&w, DONE, NULL);
    assert_int_equal(w.listener.trust.role,
                     WIRE_TOOL); // although the peer asked for a role with more rights
    assert_int_equal(w.listener.trust.certificate[3], 5);
    assert_memory_equal(w.dialler.trust.binding, w.listener.trust.binding, MAC_BYTES);
    // A member of the cluster in the middle has two TLS sessions and relays the nonces
    // between them: the two ends get different bindings.
    begin(&w);
    w.dialled.believed = w.accepted.believed = true;
    memset(w.dialled.channel, 1, MAC_BYTES);
    memset(w.accepted.channel, 2, MAC_BYTES);
    expect(&w, DONE, NULL);
    assert_memory_not_equal(w.dialler.trust.binding, w.listener.trust.binding, MAC_BYTES);
}

static void long_address(struct world *w)
{
    static char text[VAN_ADDRESS_MAX + 1];
    memset(text, 'x', sizeof(text));
    w->knock.address = (struct wire_text){text, VAN_ADDRESS_MAX};
}

static void no_nonce(struct world *w)
{
    w->knock.nonce = (struct wire_text){NULL, 0};
}

static void test_malformed(void **state)
{
    struct world w;
    (void)state;
    begin(&w);
    w.on_knock = long_address;
    expect(&w, KNOCKED, "not from tug");
    w.on_knock = no_nonce;
    expect(&w, KNOCKED, "not from tug");
    w.on_knock = NULL;
    w.listener.prover.random = fail_random;
    expect(&w, KNOCKED, "random");
    w.dialler.prover.random = fail_random;
    expect(&w, KNOCKING, "random");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_prove),
        cmocka_unit_test(test_token_is_not_sent),
        cmocka_unit_test(test_no_token),
        cmocka_unit_test(test_wrong_token),
        cmocka_unit_test(test_wrong_proofs),
        cmocka_unit_test(test_rogue_listener),
        cmocka_unit_test(test_replays),
        cmocka_unit_test(test_changed_knocks),
        cmocka_unit_test(test_relayed),
        cmocka_unit_test(test_relayed_with_a_changed_address),
        cmocka_unit_test(test_roles),
        cmocka_unit_test(test_no_role),
        cmocka_unit_test(test_believed),
        cmocka_unit_test(test_malformed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
