// Passing keys: the text that is written is read back, and any other text is refused.
// Also the addresses of this machine.
//
// SPDX-License-Identifier: Apache-2.0
#include "launch/secrets.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "kit/test.h"
#include "os/route.h"
#include "van/tls.h"

static int read_from(const char *text, size_t n, struct buf *ret, struct err *e)
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(write(fds[1], text, n), n);
    close(fds[1]);
    int rc = secrets_read(fds[0], ret, e);
    close(fds[0]);
    return rc;
}

static void keys_arrive(void **state)
{
    (void)state;
    struct secrets s;
    struct err e = {0};
    struct buf sent = BUF_INIT(1 << 20), pem = {0};
    assert_int_equal(secrets_open(&s, NULL, NULL, NULL, &e), 0);
    assert_int_equal(secrets_node(&s, "worker:1", "worker", &sent, &e), 0);
    assert_int_equal(buf_add(&sent, "more", 4), 0); // bytes after the keys stay unread
    assert_int_equal(read_from(sent.data, sent.len, &pem, &e), 0);
    struct tls *t = NULL;
    assert_int_equal(tls_open_text(&t, pem.data, pem.len, &e), 0);
    tls_close(t);
    buf_free(&pem);
    buf_free(&sent);
    secrets_close(&s);
    assert_int_equal(mem_live(), 0);
}

static void wrong_keys_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "hello\n",           "PEM 0\n",      "PEM x\n",
        "PEM 99999999999\n", "PEM 10 \nabc", "a line without an end that is long"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct err e = {0};
        struct buf pem = {0};
        assert_int_equal(read_from(bad[i], strlen(bad[i]), &pem, &e), TUG_EDATA);
        assert_int_equal(pem.len, 0);
    }
    static const char *const cut[] = {"", "PEM", "PEM 10\nabc"};
    for (size_t i = 0; i < sizeof(cut) / sizeof(*cut); i++) {
        struct err e = {0};
        struct buf pem = {0};
        assert_int_equal(read_from(cut[i], strlen(cut[i]), &pem, &e), TUG_EIO);
        buf_free(&pem);
    }
    assert_int_equal(mem_live(), 0);
}

static void all_three_files_are_needed(void **state)
{
    (void)state;
    struct secrets s;
    struct err e = {0};
    assert_int_equal(secrets_open(&s, "/dev/null", NULL, "/dev/null", &e), TUG_EUSAGE);
    secrets_close(&s);
    assert_int_not_equal(secrets_open(&s, "/nosuch", "/nosuch", "/nosuch", &e), 0);
    assert_non_null(strstr(e.text, "/nosuch"));
    secrets_close(&s);
    assert_int_equal(mem_live(), 0);
}

static void addresses_are_split(void **state)
{
    (void)state;
    char host[32];
    uint16_t port;
    struct err e = {0};
    assert_int_equal(route_split("tcp://a.example:91", host, sizeof(host), &port, &e), 0);
    assert_string_equal(host, "a.example");
    assert_int_equal(port, 91);
    assert_int_equal(route_split("[::1]:65535", host, sizeof(host), &port, &e), 0);
    assert_string_equal(host, "::1");
    assert_int_equal(port, 65535);
    static const char *const bad[] = {"",
                                      "a",
                                      ":1",
                                      "a:",
                                      "a:65536",
                                      "a:1x",
                                      "a:-1",
                                      "a: 1",
                                      "[]:1",
                                      "tcp://",
                                      "0123456789012345678901234567890123:1"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        if (route_split(bad[i], host, sizeof(host), &port, &e) != TUG_EUSAGE)
            fail_msg("'%s' was taken", bad[i]);
}

static void this_machine_has_addresses(void **state)
{
    (void)state;
    char address[ROUTE_ADDRESS_MAX];
    struct err e = {0};
    assert_int_equal(route_address("127.0.0.1", address, &e), 0);
    assert_string_equal(address, "127.0.0.1");
    assert_int_equal(route_address("no such host", address, &e), TUG_EIO);
    assert_non_null(strstr(e.text, "no such host"));
}

static int bind_to(uint16_t port, int may_share)
{
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(s >= 0);
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &may_share, sizeof(may_share));
    if (bind(s, (struct sockaddr *)&at, sizeof(at)) == 0 && listen(s, 1) == 0)
        return s;
    close(s);
    return -1;
}

// launch chooses a port before the child listens on it. Until then the port is held, so that
// another run of launch cannot take it.
static void a_held_port_waits_for_its_listener(void **state)
{
    (void)state;
    struct err e = {0};
    uint16_t port, other;
    int held, others;
    assert_int_equal(route_hold_port("127.0.0.1", &port, &held, &e), 0);
    assert_int_equal(route_hold_port("127.0.0.1", &other, &others, &e), 0);
    assert_true(port > 0 && other > 0 && port != other);
    assert_int_equal(bind_to(port, 0), -1);
    int listener = bind_to(port, 1);
    assert_true(listener >= 0);
    assert_int_equal(bind_to(port, 1), -1);
    close(listener);
    close(held);
    close(others);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_arrive),
        cmocka_unit_test(wrong_keys_are_refused),
        cmocka_unit_test(all_three_files_are_needed),
        cmocka_unit_test(addresses_are_split),
        cmocka_unit_test(this_machine_has_addresses),
        cmocka_unit_test(a_held_port_waits_for_its_listener),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
