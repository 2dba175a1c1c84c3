// Tests the handshake over real sockets: loopback, Unix sockets, TLS. handshake_test.c tests the
// decisions; this file tests how the van acts on them.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "kit/clock.h"
#include "kit/test.h"
#include "os/clock.h"
#include "van/handshake.h"
#include "van/tcp.h"
#include "van/tls.h"

#define TOKEN_TIMEOUT (600 * SECOND_NS) // longer than any test waits
#define DIAL_TIMEOUT (10 * TOKEN_TIMEOUT)

struct end {
    struct van *v;
    struct prover prover;
    bool knows; // the node has the token
    uint8_t secret;
    van_link link;
    int opened, closed, refused, asked;
    struct err why;
    char address[VAN_ADDRESS_MAX];
};

static int token(void *ctx, enum wire_role *role, uint8_t ret[MAC_BYTES], struct err *e)
{
    struct end *end = ctx;
    end->asked++;
    if (!end->knows)
        return err_set(e, TUG_EIO, "no token here");
    memset(ret, end->secret, MAC_BYTES);
    ret[0] = (uint8_t)*role;
    return 0;
}

static bool numbers(void *ctx, uint8_t ret[MAC_BYTES])
{
    (void)ctx;
    return mac_random(ret);
}

static void on_opened(void *ctx, van_link link, bool accepted, uint64_t now)
{
    struct end *end = ctx;
    (void)accepted, (void)now;
    end->link = link;
    end->opened++;
}

static void on_message(void *ctx, van_link link, struct van_message *m, uint64_t now)
{
    (void)ctx, (void)link, (void)m, (void)now;
}

static void on_closed(void *ctx, van_link link, const struct err *why, uint64_t now)
{
    struct end *end = ctx;
    (void)link, (void)now;
    end->closed++;
    end->why = *why;
}

static void on_refused(void *ctx, const struct err *why, uint64_t now)
{
    struct end *end = ctx;
    (void)now;
    end->refused++;
    end->why = *why;
}

static void end_open(struct end *end, enum wire_role role, struct tls *tls,
                     const char *address)
{
    struct van_handler h = {.ctx = end,
                            .opened = on_opened,
                            .message = on_message,
                            .closed = on_closed,
                            .refused = on_refused};
    struct tcp_options o = {
        .tls = tls, .prover = &end->prover, .token_timeout_ns = TOKEN_TIMEOUT};
    struct err e;
    *end = (struct end){.knows = true, .secret = 9};
    end->prover = (struct prover){
        .role = role, .token = token, .random = numbers, .ctx = end};
    assert_int_equal(tcp_van_open(&end->v, &o, &h, &e), 0);
    if (address != NULL && van_listen(end->v, address, end->address, &e) != 0)
        fail_msg("%s", e.text);
}

static void until(struct end *a, struct end *b, const int *counter)
{
    uint64_t deadline = clock_ns() + 60 * SECOND_NS;
    while (*counter == 0) {
        if (clock_ns() > deadline)
            fail_msg("waited in vain: %s", a->why.text);
        assert_int_equal(van_poll(a->v, van_now(a->v) + 1000000, NULL), 0);
        assert_int_equal(van_poll(b->v, van_now(b->v) + 1000000, NULL), 0);
    }
}

static struct end listener, dialler;

static void open_ends(enum wire_role role, const char *address)
{
    end_open(&listener, WIRE_OPERATOR, NULL, address);
    end_open(&dialler, role, NULL, NULL);
}

static void close_ends(void)
{
    van_free(dialler.v);
    van_free(listener.v);
}

static void dial(void)
{
    assert_int_not_equal(van_connect(dialler.v, listener.address, DIAL_TIMEOUT), 0);
}

static void check_trust(enum wire_role role)
{
    until(&dialler, &listener, &dialler.opened);
    until(&dialler, &listener, &listener.opened);
    struct van_trust here = van_trust(listener.v, listener.link);
    struct van_trust there = van_trust(dialler.v, dialler.link);
    assert_int_equal(here.role, role);
    assert_memory_equal(here.binding, there.binding, MAC_BYTES);
}

static void test_token(void **state)
{
    (void)state;
    open_ends(WIRE_WORKER, "tcp://127.0.0.1:0");
    dial();
    check_trust(WIRE_WORKER);
    assert_true(dialler.asked > 0 && listener.asked > 0);
    close_ends();
    assert_int_equal(mem_live(), 0);
}

static void test_name_of_loopback(void **state)
{
    char name[VAN_ADDRESS_MAX];
    (void)state;
    open_ends(WIRE_TOOL, "tcp://127.0.0.1:0");
    snprintf(name, sizeof(name), "tcp://localhost%.100s", strrchr(listener.address, ':'));
    assert_int_not_equal(van_connect(dialler.v, name, DIAL_TIMEOUT), 0);
    check_trust(WIRE_TOOL);
    close_ends();
}

// The token is read again at each attempt, so that a node which starts before its token
// exists waits for the token.
static void test_token_comes_later(void **state)
{
    (void)state;
    open_ends(WIRE_WORKER, "tcp://127.0.0.1:0");
    dialler.knows = false;
    dial();
    until(&dialler, &listener, &listener.refused);
    assert_non_null(strstr(listener.why.text, "requires the cluster's token"));
    assert_int_equal(dialler.closed, 0);
    dialler.knows = true;
    check_trust(WIRE_WORKER);
    close_ends();
}

// Lets more time than TOKEN_TIMEOUT pass, in steps. After each step the
// dialler tries once more.
static void poll_for_long(void)
{
    for (int i = 0; i < 20; i++) {
        kit_clock_skip(TOKEN_TIMEOUT / 10);
        for (int k = 0; k < 5; k++)
            assert_int_equal(van_poll(dialler.v, van_now(dialler.v) + 1000000, NULL), 0);
    }
}

// The listener that refused the token has ended, and for a while no process listens. The
// next listener gets the full time to write its token.
static void test_token_of_the_next_listener(void **state)
{
    char address[VAN_ADDRESS_MAX];
    (void)state;
    open_ends(WIRE_WORKER, "tcp://127.0.0.1:0");
    snprintf(address, sizeof(address), "%s", listener.address);
    dialler.knows = false;
    dial();
    until(&dialler, &listener, &listener.refused);
    van_free(listener.v);
    listener.v = NULL;
    poll_for_long();
    end_open(&listener, WIRE_OPERATOR, NULL, address);
    until(&dialler, &listener, &listener.refused);
    listener.refused = 0;
    until(&dialler, &listener, &listener.refused);
    assert_int_equal(dialler.closed, 0);
    dialler.knows = true;
    check_trust(WIRE_WORKER);
    close_ends();
}

static void test_wrong_token(void **state)
{
    (void)state;
    open_ends(WIRE_WORKER, "tcp://127.0.0.1:0");
    dialler.secret++;
    dial();
    until(&dialler, &listener, &listener.refused);
    listener.refused = 0;
    until(&dialler, &listener, &listener.refused); // the dialler has tried again
    kit_clock_skip(TOKEN_TIMEOUT);
    // The link closes although the time for connecting is not over.
    until(&dialler, &listener, &dialler.closed);
    assert_int_equal(dialler.why.code, TUG_EUSAGE);
    assert_non_null(strstr(dialler.why.text, "does not know the cluster's token"));
    assert_int_equal(dialler.opened + listener.opened, 0);
    assert_true(listener.refused > 0);
    close_ends();
    assert_int_equal(mem_live(), 0);
}

static void test_unix_socket(void **state)
{
    char address[VAN_ADDRESS_MAX];
    (void)state;
    snprintf(address, sizeof(address), "unix:///tmp/tug-prove-%d", (int)getpid());
    open_ends(WIRE_SERVER, address);
    // No token is needed, because both ends belong to the same user.
    dialler.knows = listener.knows = false;
    dial();
    check_trust(WIRE_SERVER);
    assert_int_equal(listener.asked, 0);
    close_ends();
    unlink(address + 7);
}

// A peer has claimed a role in KNOCK, and its certificate names a role. It gets the one with
// fewer rights.
static void test_certificates(void **state)
{
    static const struct {
        const char *role;
        enum wire_role knocks, is;
    } cases[] = {
        {"worker", WIRE_OPERATOR, WIRE_WORKER},  {"operator", WIRE_WORKER, WIRE_WORKER},
        {NULL, WIRE_OPERATOR, WIRE_OPERATOR},    {"tool", WIRE_SERVER, WIRE_TOOL},
        {"scheduler", WIRE_SERVER, WIRE_SERVER},
    };
    struct buf ca_key, ca_cert;
    struct err e;
    (void)state;
    assert_int_equal(tls_make_ca(&ca_key, &ca_cert, 1, &e), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct tls *tls[2];
        for (int k = 0; k < 2; k++) {
            struct buf key, cert, pem = BUF_INIT(1 << 16);
            assert_int_equal(tls_make_node(ca_key.data, ca_cert.data,
                                           &(struct tls_node){
                                               .name = "n",
                                               .role = k == 0 ? "server" : cases[i].role,
                                               .days = 1},
                                           &key, &cert, &e),
                             0);
            assert_int_equal(
                buf_printf(&pem, "%s%s%s", ca_cert.data, cert.data, key.data), 0);
            assert_int_equal(tls_open_text(&tls[k], pem.data, pem.len, &e), 0);
            buf_free(&key);
            buf_free(&cert);
            buf_free(&pem);
        }
        end_open(&listener, WIRE_SERVER, tls[0], "tcp://127.0.0.1:0");
        end_open(&dialler, cases[i].knocks, tls[1], NULL);
        listener.knows = dialler.knows = false;
        dial();
        check_trust(cases[i].is);
        static const uint8_t none[MAC_BYTES];
        struct van_trust there = van_trust(dialler.v, dialler.link);
        assert_int_equal(there.role,
                         WIRE_SERVER); // the role in the listener's certificate
        assert_memory_not_equal(there.certificate, none, MAC_BYTES);
        close_ends();
        tls_close(tls[0]);
        tls_close(tls[1]);
    }
    buf_free(&ca_key);
    buf_free(&ca_cert);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_token),
        cmocka_unit_test(test_name_of_loopback),
        cmocka_unit_test(test_token_comes_later),
        cmocka_unit_test(test_token_of_the_next_listener),
        cmocka_unit_test(test_wrong_token),
        cmocka_unit_test(test_unix_socket),
        cmocka_unit_test(test_certificates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
