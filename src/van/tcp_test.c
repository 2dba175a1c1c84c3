// SPDX-License-Identifier: Apache-2.0
#include "van/tcp.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "kit/tcp_node.h"
#include "kit/test.h"
#include "os/clock.h"
#include "van/tcp_address.h"

enum { MS = 1000000, LINKS = 64 };
#define SECOND ((uint64_t)1000000000)

struct pair {
    struct tcp_node server, client;
};

static void open_pair(struct pair *p, const struct tcp_options *o, const char *address)
{
    *p = (struct pair){0};
    tcp_node_open(&p->server, o, address);
    tcp_node_open(&p->client, o, NULL);
    assert_int_not_equal(van_connect(p->client.van, p->server.address, 5 * SECOND), 0);
    tcp_node_until(&p->client, &p->server, &p->client.opened, 1);
    tcp_node_until(&p->client, &p->server, &p->server.opened, 1);
}

static void close_pair(struct pair *p)
{
    van_free(p->client.van);
    van_free(p->server.van);
}

static const struct tcp_options plain = {0};

static void exchange(const char *address)
{
    size_t before = mem_live();
    struct pair p;
    open_pair(&p, &plain, address);
    p.server.echo = true;
    for (uint64_t i = 1; i <= 1000; i++)
        tcp_node_hello(&p.client, i);
    tcp_node_until(&p.client, &p.server, &p.client.messages, 1000);
    assert_int_equal(p.server.messages, 1000);
    assert_true(p.server.ordered && p.client.ordered);
    van_close_link(p.client.van, p.client.link);
    tcp_node_until(&p.client, &p.server, &p.server.closed, 1);
    assert_int_equal(p.server.why.code, 0);
    assert_int_equal(p.client.closed, 0);
    close_pair(&p);
    assert_int_equal(mem_live(), before);
}

static void test_tcp(void **state)
{
    (void)state;
    exchange("tcp://127.0.0.1:0");
    exchange("tcp://localhost:0");
    exchange("tcp://[::1]:0");
}

static void test_unix(void **state)
{
    (void)state;
    char address[64];
    snprintf(address, sizeof(address), "unix:///tmp/tug-test-%d.sock", getpid());
    exchange(address);
    assert_int_not_equal(access(address + 7, F_OK), 0);
}

static void count_release(void *ctx)
{
    ++*(int *)ctx;
}

// A dial uses the first address of its list that works, whatever fails for the other addresses.
static void test_lists_of_addresses(void **state)
{
    (void)state;
    static const char *const forms[] = {
        "unix:///tmp/tug-nobody-there,%s", "%s,tcp://127.0.0.1:1",
        "tcp://127.0.0.1:1,unix:///tmp/tug-nobody-there,%s",
        "tcp://192.0.2.1:1,%s"}; // this address is not allowed without keys
    for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
        struct pair p = {0};
        char list[2 * VAN_ADDRESS_MAX];
        const char *at = strstr(forms[i], "%s");
        tcp_node_open(&p.server, &plain, "tcp://127.0.0.1:0");
        tcp_node_open(&p.client, &plain, NULL);
        snprintf(list, sizeof(list), "%.*s%s%s", (int)(at - forms[i]), forms[i],
                 p.server.address, at + 2);
        van_link link = van_connect(p.client.van, list, 60 * SECOND);
        tcp_node_until(&p.client, &p.server, &p.client.opened, 1);
        assert_string_equal(van_peer(p.client.van, link), p.server.address);
        close_pair(&p);
    }
    struct tcp_node n = {0};
    tcp_node_open(&n, &plain, NULL);
    van_connect(n.van, "unix:///tmp/tug-nobody-there,tcp://127.0.0.1:1", 30 * MS);
    tcp_node_until(&n, NULL, &n.closed, 1);
    assert_non_null(strstr(n.why.text, "unix:///tmp/tug-nobody-there,tcp://127.0.0.1:1"));
    van_connect(n.van, "tcp://127.0.0.1:1,nonsense", 60 * SECOND);
    tcp_node_until(&n, NULL, &n.closed, 2);
    assert_non_null(strstr(n.why.text, "nonsense"));
    van_free(n.van);
}

// How both ends of a Unix socket treat another user's account; only root
// can act as two users.
static void test_unix_socket_of_another_user(void **state)
{
    (void)state;
    enum { OTHER = 12345 };
    if (geteuid() != 0)
        skip_because("only root can become another user");
    for (int insecure = 0; insecure < 2; insecure++) {
        struct tcp_node server = {0}, client = {0};
        const struct tcp_options o = {.insecure = insecure};
        char address[VAN_ADDRESS_MAX];
        snprintf(address, sizeof(address), "unix:///tmp/tug-tcp-test-%d", (int)getpid());
        tcp_node_open(&server, &o, address);
        tcp_node_open(&client, &o, NULL);
        assert_int_equal(chmod(address + strlen("unix://"), 0666), 0);
        van_link link = van_connect(client.van, address, 60 * SECOND);
        assert_int_equal(seteuid(OTHER), 0);
        for (int i = 0; i < 3; i++) // connects, and checks the user of the listener
            assert_int_equal(van_poll(client.van, van_now(client.van) + MS, NULL), 0);
        assert_int_equal(seteuid(0), 0);
        if (insecure) {
            tcp_node_until(&server, NULL, &server.opened, 1);
            assert_int_equal(van_kind(server.van, server.link), VAN_OPEN);
            assert_int_equal(van_kind(client.van, link), VAN_OPEN);
        } else {
            assert_int_equal(client.closed, 1);
            assert_non_null(strstr(client.why.text, "belongs to another user (uid 0"));
            for (int i = 0; i < 20; i++)
                assert_int_equal(van_poll(server.van, van_now(server.van) + MS, NULL), 0);
            assert_int_equal(server.opened, 0);
        }
        van_free(client.van);
        van_free(server.van);
    }
}

static void test_bodies(void **state)
{
    (void)state;
    struct pair p;
    open_pair(&p, &plain, "tcp://127.0.0.1:0");
    enum { MAX = 40 << 20 };
    char *data = mem_alloc(MAX), *place = mem_alloc(MAX + 8);
    uint64_t size = 1;
    int released = 0, n = 1;
    for (int i = 0; i < MAX; i++)
        data[i] = (char)(i * 7 + (i >> 8));
    tcp_node_hello(&p.client, 1);
    for (; size < MAX; size = size * 5 / 2 + 3, n++) {
        struct msg_roster m = {.owners = {data, size}};
        struct van_release r = {count_release, &released};
        p.server.place = n % 3 == 0 ? place : NULL;
        assert_int_equal(van_send(p.client.van, p.client.link, MSG_ROSTER,
                                  (uint64_t)n + 1, &m, n % 2 ? &r : NULL),
                         0);
        tcp_node_until(&p.client, &p.server, &p.server.messages, n + 1);
        assert_int_equal(p.server.sum, tcp_node_sum(data, size));
        assert_int_equal(released, (n + 1) / 2);
    }
    assert_true(p.server.placed > 0 && p.server.ordered);
    assert_int_equal(van_queued(p.client.van, p.client.link), 0);
    close_pair(&p);
    mem_free(data);
    mem_free(place);
}

// -------------------------------------------------------- raw sockets that are not peers

static int raw_connect(const char *address)
{
    struct tcp_address a;
    struct sockaddr_storage s;
    assert_int_equal(tcp_address_read(&a, address, NULL), 0);
    assert_true(tcp_address_number(&a, &s));
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&s, sizeof(struct sockaddr_in)), 0);
    return fd;
}

static size_t hello_bytes(char to[256], uint64_t request)
{
    struct wire_out o = WIRE_OUT_INIT;
    struct msg_hello m = {.version = wire_text("x")};
    assert_int_equal(wire_encode(&o, MSG_HELLO, request, &m, false), 0);
    size_t n = o.head.len;
    assert_true(n <= 256);
    memcpy(to, o.head.data, n);
    buf_free(&o.head);
    return n;
}

// Sends bytes to a node and expects that it closes the link with this code and reason.
// `o` has the node's time limits.
static void expect_closed_within(const struct tcp_options *o, const void *bytes, size_t n,
                                 bool end, int code, const char *why)
{
    struct tcp_node server = {0};
    tcp_node_open(&server, o, "tcp://127.0.0.1:0");
    int fd = raw_connect(server.address);
    assert_int_equal(send(fd, bytes, n, MSG_NOSIGNAL), (ssize_t)n);
    if (end)
        shutdown(fd, SHUT_WR);
    tcp_node_until(&server, NULL, &server.closed, 1);
    if (server.why.code != code || strstr(server.why.text, why) == NULL)
        fail_msg("%d %s", server.why.code, server.why.text);
    char byte;
    while (recv(fd, &byte, 1, 0) > 0) // ends when the node has closed the link
        ;
    close(fd);
    van_free(server.van);
}

static void expect_closed(const void *bytes, size_t n, bool end, int code,
                          const char *why)
{
    const struct tcp_options patient = {.hello_timeout_ns = 60 * SECOND,
                                        .stall_timeout_ns = 60 * SECOND};
    expect_closed_within(&patient, bytes, n, end, code, why);
}

static void test_bad_peers(void **state)
{
    const struct tcp_options no_hello = {.hello_timeout_ns = 100 * MS,
                                         .stall_timeout_ns = 60 * SECOND},
                             no_more = {.hello_timeout_ns = 60 * SECOND,
                                        .stall_timeout_ns = 50 * MS};
    (void)state;
    size_t before = mem_live();
    char hello[256], two[512] = {0};
    size_t n = hello_bytes(hello, 1);
    memset(two, 'x', sizeof(two));
    expect_closed(two, sizeof(two), false, TUG_EDATA, "does not speak tug's protocol");
    expect_closed(two, 10, true, TUG_EIO, "in the middle of a message");
    expect_closed(hello, n - 1, true, TUG_EIO, "in the middle of a message");
    expect_closed(hello, n, true, 0, "closed the link");
    // An incomplete first message, and an incomplete second one.
    expect_closed_within(&no_hello, hello, n - 1, false, TUG_EIO,
                         "no complete first message");
    memcpy(two, hello, n);
    memcpy(two + n, hello, n - 1);
    expect_closed_within(&no_more, two, 2 * n - 1, false, TUG_EIO,
                         "has made no progress");
    two[n + 4]++;
    expect_closed(two, 2 * n, false, TUG_EDATA, "version");
    two[n + 4]--;
    two[2 * n - 2] ^= 1;
    expect_closed(two, 2 * n, false, TUG_EDATA, "checksum");
    assert_int_equal(mem_live(), before);
}

// A stranger's link is closed in time, although a byte arrives now and then.
static void test_trickle(void **state)
{
    (void)state;
    const struct tcp_options o = {.hello_timeout_ns = 50 * MS};
    struct tcp_node server = {0};
    char hello[256];
    size_t n = hello_bytes(hello, 1);
    tcp_node_open(&server, &o, "tcp://127.0.0.1:0");
    int fd = raw_connect(server.address);
    uint64_t began = clock_ns();
    for (size_t i = 0; i < n - 1 && server.closed == 0; i++) {
        send(fd, hello + i, 1, MSG_NOSIGNAL);
        uint64_t next = van_now(server.van) + 2 * MS;
        while (server.closed == 0 && van_now(server.van) < next)
            van_poll(server.van, next, NULL);
    }
    tcp_node_until(&server, NULL, &server.closed, 1);
    assert_true(clock_ns() - began >= 50 * MS);
    assert_non_null(strstr(server.why.text, "no complete first message"));
    close(fd);
    van_free(server.van);
}

// A stranger's first message may not be long; later ones may.
static void test_stranger_is_brief(void **state)
{
    (void)state;
    struct pair p;
    static char data[100000];
    struct msg_roster m = {.owners = {data, sizeof(data)}};
    open_pair(&p, &plain, "tcp://127.0.0.1:0");
    assert_int_equal(van_send(p.client.van, p.client.link, MSG_ROSTER, 1, &m, NULL), 0);
    tcp_node_until(&p.client, &p.server, &p.server.closed, 1);
    assert_int_equal(p.server.why.code, TUG_EDATA);
    assert_non_null(strstr(p.server.why.text, "first message"));
    tcp_node_until(&p.client, &p.server, &p.client.closed, 1);
    assert_int_equal(van_send(p.client.van, p.client.link, MSG_ROSTER, 1, &m, NULL),
                     TUG_EIO);
    close_pair(&p);
}

static void test_max_links(void **state)
{
    (void)state;
    const struct tcp_options o = {.max_links = 2};
    struct pair p;
    open_pair(&p, &o, "tcp://127.0.0.1:0");
    tcp_node_hello(&p.client, 1);
    van_connect(p.client.van, p.server.address, SECOND);
    tcp_node_until(&p.client, &p.server, &p.client.opened, 2);
    tcp_node_hello(&p.client, 2);
    tcp_node_until(&p.client, &p.server, &p.server.messages, 2);
    van_connect(p.client.van, p.server.address, SECOND);
    tcp_node_until(&p.client, &p.server, &p.client.closed, 1);
    // The refused client gets one message: an error with the reason.
    assert_int_equal(p.client.messages, 1);
    assert_int_equal(p.server.opened, 2);
    assert_int_equal(p.server.closed, 0);
    close_pair(&p);
}

// Silent strangers' links are closed to make room for new peers, the oldest first.
static void test_strangers_make_room(void **state)
{
    (void)state;
    enum { STRANGERS = 10 };
    const struct tcp_options o = {.max_links = 3};
    struct pair p;
    open_pair(&p, &o, "tcp://127.0.0.1:0");
    tcp_node_hello(&p.client, 1);
    tcp_node_until(&p.client, &p.server, &p.server.messages, 1);
    for (int i = 1; i <= STRANGERS; i++) {
        van_connect(p.client.van, p.server.address, 60 * SECOND);
        tcp_node_until(&p.client, &p.server, &p.server.opened, 1 + i);
        tcp_node_until(&p.client, &p.server, &p.client.opened, 1 + i);
    }
    tcp_node_until(&p.client, &p.server, &p.server.closed, STRANGERS - 2);
    assert_non_null(strstr(p.server.why.text, "it has sent nothing while others wait"));
    tcp_node_until(&p.client, &p.server, &p.client.closed, STRANGERS - 2);
    tcp_node_hello(&p.client, 2); // the newest stranger says hello
    tcp_node_until(&p.client, &p.server, &p.server.messages, 2);
    assert_int_equal(p.server.closed, STRANGERS - 2);
    assert_int_equal(p.client.messages, 0); // no peer was refused
    close_pair(&p);
}

// ---------------------------------------------------------------- connecting

// Expects that connecting fails with this reason. On a busy machine the time may end
// before the first attempt does, which gives another reason; then connecting is tried
// again with more time.
static void expect_no_connection(const char *address, uint64_t timeout, int code,
                                 const char *why)
{
    for (bool said = false; !said; timeout *= 4) {
        struct tcp_node n = {0};
        tcp_node_open(&n, &plain, NULL);
        assert_int_not_equal(van_connect(n.van, address, timeout), 0);
        assert_int_equal(n.closed, 0);
        tcp_node_until(&n, NULL, &n.closed, 1);
        said = n.why.code == code && strstr(n.why.text, why) != NULL &&
               strstr(n.why.text, address) != NULL;
        if (!said && timeout > 10 * SECOND)
            fail_msg("%d %s", n.why.code, n.why.text);
        assert_int_equal(n.opened, 0);
        van_free(n.van);
    }
}

static void test_no_connection(void **state)
{
    (void)state;
    size_t before = mem_live();
    struct tcp_node n = {0};
    tcp_node_open(&n, &plain, "tcp://127.0.0.1:0");
    char address[VAN_ADDRESS_MAX];
    memcpy(address, n.address, sizeof(address));
    van_free(n.van);
    expect_no_connection(address, 50 * MS, TUG_EIO, "refused");
    expect_no_connection(address, 50 * MS, TUG_EIO, "in the last");
    expect_no_connection("unix:///nowhere/x.sock", 20 * MS, TUG_EIO, "no such");
    expect_no_connection("tcp://name.invalid:1", 20 * MS, TUG_EIO, "is not known");
    expect_no_connection(
        "tcp://192.0.2.1:1", 20 * MS, TUG_EUSAGE,
        "cannot connect: tcp://192.0.2.1:1 is not a loopback address: give "
        "certificates (tug cert makes them), or --insecure (to a program: "
        "TUG_INSECURE=1)");
    expect_no_connection("tcp://127.0.0.1", 20 * MS, TUG_EIO, "port is missing");
    expect_no_connection("http://x", 20 * MS, TUG_EIO, "tcp://HOST:PORT");
    assert_int_equal(mem_live(), before);
}

// Connecting hangs if the listener's queue of connections is full.
static void test_hanging_connect(void **state)
{
    (void)state;
    int fd = socket(AF_INET, SOCK_STREAM, 0), waiting[4];
    struct sockaddr_in s = {.sin_family = AF_INET,
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(s);
    assert_int_equal(bind(fd, (struct sockaddr *)&s, n), 0);
    assert_int_equal(listen(fd, 0), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&s, &n), 0);
    for (int i = 0; i < 4; i++) {
        waiting[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        connect(waiting[i], (struct sockaddr *)&s, sizeof(s));
    }
    char address[64];
    snprintf(address, sizeof(address), "tcp://127.0.0.1:%d", ntohs(s.sin_port));
    expect_no_connection(address, 100 * MS, TUG_EIO, "no answer");
    for (int i = 0; i < 4; i++)
        close(waiting[i]);
    close(fd);
}

// A listener may start after the first attempt to connect.
static void test_connects_at_last(void **state)
{
    (void)state;
    struct tcp_node server = {0}, client = {0};
    tcp_node_open(&server, &plain, "tcp://127.0.0.1:0");
    char address[VAN_ADDRESS_MAX];
    memcpy(address, server.address, sizeof(address));
    van_free(server.van);
    tcp_node_open(&client, &plain, NULL);
    van_connect(client.van, address, 20 * SECOND);
    for (int i = 0; i < 20; i++)
        van_poll(client.van, van_now(client.van) + MS, NULL);
    assert_int_equal(client.opened + client.closed, 0);
    tcp_node_open(&server, &plain, address);
    tcp_node_until(&client, &server, &client.opened, 1);
    van_free(client.van);
    van_free(server.van);
}

// ---------------------------------------------------------------- listening

static void expect_no_listening(struct van *v, const char *address, int code,
                                const char *why)
{
    char got[VAN_ADDRESS_MAX];
    struct err e;
    int rc = van_listen(v, address, got, &e);
    if (rc != code || strstr(e.text, why) == NULL)
        fail_msg("%d %s", rc, rc != 0 ? e.text : got);
}

// The next attempt is made when it is due, even if the van could sleep longer: a failed
// attempt is not an event that would end its sleep.
static void test_attempts_while_asleep(void **state)
{
    (void)state;
    struct tcp_node listener = {0}, n = {0};
    char unix_address[VAN_ADDRESS_MAX];
    // Opened only to find a free port.
    tcp_node_open(&listener, &plain, "tcp://127.0.0.1:0");
    van_free(listener.van);
    snprintf(unix_address, sizeof(unix_address), "unix:///tmp/tug-nobody-%d",
             (int)getpid());
    tcp_node_open(&n, &plain, NULL);
    const char *addresses[] = {listener.address, unix_address};
    for (int i = 0; i < 2; i++)
        // Tries longer times, for busy machines.
        for (unsigned tries = 0, wait = 400; tries < 5; wait *= 4) {
            assert_int_not_equal(van_connect(n.van, addresses[i], wait * MS), 0);
            for (int closed = n.closed; n.closed == closed;)
                assert_int_equal(van_poll(n.van, van_now(n.van) + 60 * SECOND, NULL), 0);
            double seconds = 0; // the number of seconds in the reason, which is not
                                // checked
            const char *tried = strrchr(n.why.text, ';');
            assert_non_null(tried);
            (void)sscanf(tried, "; %u tr%*[a-z] in the last %lf s", &tries, &seconds);
            if (tries < 5 && wait > 60000)
                fail_msg("%s", n.why.text);
        }
    van_free(n.van);
}

static void test_no_listening(void **state)
{
    (void)state;
    size_t before = mem_live();
    struct tcp_node n = {0};
    tcp_node_open(&n, &plain, "tcp://127.0.0.1:0");
    expect_no_listening(n.van, n.address, TUG_EIO, "another process has it");
    expect_no_listening(n.van, "tcp://0.0.0.0:0", TUG_EUSAGE, "tug cert");
    expect_no_listening(n.van, "tcp://127.0.0.1:99999", TUG_EUSAGE, "65535");
    expect_no_listening(n.van, "tcp://::1:5", TUG_EUSAGE, "[ ]");
    expect_no_listening(n.van, "tcp://:5", TUG_EUSAGE, "host is missing");
    expect_no_listening(n.van, "tcp://name.invalid:5", TUG_EIO, "is not known");
    expect_no_listening(n.van, "unix://x", TUG_EUSAGE, "must begin with /");
    expect_no_listening(n.van, "unix:///nowhere/x", TUG_EIO, "directory does not exist");
    expect_no_listening(n.van, "nonsense", TUG_EUSAGE, "tcp://HOST:PORT");
    van_free(n.van);
    const struct tcp_options open = {.insecure = true};
    n = (struct tcp_node){0};
    tcp_node_open(&n, &open, "tcp://0.0.0.0:0");
    assert_null(strstr(n.address, "0.0.0.0"));
    van_free(n.van);
    assert_int_equal(mem_live(), before);
}

// A listener replaces the socket file of a killed process, but not that of a living one.
static void test_left_over_socket(void **state)
{
    (void)state;
    struct sockaddr_un s = {.sun_family = AF_UNIX};
    snprintf(s.sun_path, sizeof(s.sun_path), "/tmp/tug-left-%d.sock", getpid());
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&s, sizeof(s)), 0);
    close(fd);
    char address[VAN_ADDRESS_MAX];
    snprintf(address, sizeof(address), "unix://%s", s.sun_path);
    struct tcp_node n = {0}, other = {0};
    tcp_node_open(&n, &plain, address);
    tcp_node_open(&other, &plain, NULL);
    expect_no_listening(other.van, address, TUG_EIO, "another process");
    van_free(other.van);
    van_free(n.van);
}

// ---------------------------------------------------------------- sending

static void test_free_releases(void **state)
{
    (void)state;
    size_t before = mem_live();
    struct pair p;
    enum { MANY = 20, BYTES = 8 << 20 };
    char *data = mem_zalloc(BYTES);
    int released = 0;
    open_pair(&p, &plain, "tcp://127.0.0.1:0");
    struct msg_roster m = {.owners = {data, BYTES}};
    struct van_release r = {count_release, &released};
    for (int i = 0; i < MANY; i++)
        assert_int_equal(van_send(p.client.van, p.client.link, MSG_ROSTER, 1, &m, &r), 0);
    assert_true(van_queued(p.client.van, p.client.link) > 0);
    assert_true(released < MANY);
    van_free(p.client.van);
    assert_int_equal(released, MANY);
    van_free(p.server.van);
    mem_free(data);
    assert_int_equal(mem_live(), before);
}

// Every allocation fails once. Then a call returns TUG_ENOMEM or a link closes, and no
// memory leaks.
static void test_out_of_memory(void **state)
{
    (void)state;
    static char data[200000];
    for (long i = 0;; i++) {
        size_t before = mem_live();
        struct tcp_node server = {.echo = false}, client = {0};
        tcp_node_open(&server, &plain, "tcp://127.0.0.1:0");
        tcp_node_open(&client, &plain, NULL);
        mem_fault_after(i);
        van_connect(client.van, server.address, 60 * SECOND);
        uint64_t deadline = clock_ns() + 60 * SECOND;
        for (int sent = 0; server.messages < 4; sent++) {
            struct msg_roster m = {.owners = {data, sizeof(data)}};
            van_poll(client.van, van_now(client.van) + MS / 10, NULL);
            van_poll(server.van, van_now(server.van) + MS / 10, NULL);
            if (client.closed > 0 || server.closed > 0 || mem_faulted())
                break;
            if (client.opened > 0 && sent < 100)
                van_send(client.van, client.link, sent < 1 ? MSG_HELLO : MSG_ROSTER, 1,
                         sent < 1 ? (void *)&(struct msg_hello){0} : (void *)&m, NULL);
            assert_true(clock_ns() < deadline);
        }
        bool over = !mem_faulted();
        mem_fault_after(-1);
        van_free(client.van);
        van_free(server.van);
        assert_int_equal(mem_live(), before);
        if (over)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tcp),
        cmocka_unit_test(test_unix),
        cmocka_unit_test(test_lists_of_addresses),
        cmocka_unit_test(test_unix_socket_of_another_user),
        cmocka_unit_test(test_bodies),
        cmocka_unit_test(test_bad_peers),
        cmocka_unit_test(test_trickle),
        cmocka_unit_test(test_stranger_is_brief),
        cmocka_unit_test(test_max_links),
        cmocka_unit_test(test_strangers_make_room),
        cmocka_unit_test(test_no_connection),
        cmocka_unit_test(test_hanging_connect),
        cmocka_unit_test(test_connects_at_last),
        cmocka_unit_test(test_attempts_while_asleep),
        cmocka_unit_test(test_no_listening),
        cmocka_unit_test(test_left_over_socket),
        cmocka_unit_test(test_free_releases),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
