// Connections that send arbitrary data to the ports of a cluster do not change the
// training.
//
// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/hash.h"
#include "base/random.h"
#include "cluster/node.h"
#include "kit/processes.h"
#include "wire/wire.h"

enum { AT_VERSION = 4, AT_TYPE = 6, AT_HEAD_BYTES = 8, AT_BODY_BYTES = 16, AT_SUM = 40 };
enum { MESSAGE_MAX = 4096, SILENT = 64, CLOSED_WITHIN = 20 };

struct message {
    unsigned char bytes[MESSAGE_MAX];
    size_t n;
};

// ---------------------------------------------------------------- the messages that are sent

static void encode(struct message *m, uint16_t type, const void *msg)
{
    struct wire_out o = WIRE_OUT_INIT;
    assert_int_equal(wire_encode(&o, type, 1, msg, false), 0);
    assert_true(o.head.len + o.body_bytes <= MESSAGE_MAX);
    memcpy(m->bytes, o.head.data, o.head.len);
    wire_copy_body(&o, m->bytes + o.head.len);
    m->n = o.head.len + o.body_bytes;
    buf_free(&o.head);
}

static void hello(struct message *m, const char *cluster)
{
    struct msg_hello h = {.cluster = node_cluster(cluster),
                          .role = WIRE_WORKER,
                          .node = 9,
                          .version = wire_text("0")};
    encode(m, MSG_HELLO, &h);
}

// Recomputes the header's checksum after a change.
static void sign(struct message *m)
{
    uint64_t seed = hash_bytes(m->bytes, AT_SUM, 0);
    uint64_t sum = hash_bytes(m->bytes + WIRE_FRAME_BYTES, m->n - WIRE_FRAME_BYTES, seed);
    memcpy(m->bytes + AT_SUM, &sum, sizeof(sum));
}

static void change(struct message *m, size_t at, const void *bytes, size_t n)
{
    memcpy(m->bytes + at, bytes, n);
    sign(m);
}

static void wrong_magic(struct message *m)
{
    hello(m, "tug");
    change(m, 0, "HTTP", 4);
}

static void wrong_version(struct message *m)
{
    hello(m, "tug");
    change(m, AT_VERSION, "\x63", 1);
}

static void unknown_type(struct message *m)
{
    hello(m, "tug");
    change(m, AT_TYPE, "\xff\xff", 2);
}

static void long_head(struct message *m)
{
    hello(m, "tug");
    change(m, AT_HEAD_BYTES, "\xff\xff\xff\xff", 4);
}

static void long_body(struct message *m)
{
    hello(m, "tug");
    uint64_t n = (uint64_t)1 << 63;
    change(m, AT_BODY_BYTES, &n, sizeof(n));
}

static void wrong_checksum(struct message *m)
{
    hello(m, "tug");
    m->bytes[m->n - 1] ^= 1;
}

static void other_cluster(struct message *m)
{
    hello(m, "another");
}

static void garbage(struct message *m)
{
    m->n = MESSAGE_MAX;
    for (size_t i = 0; i < m->n; i++)
        m->bytes[i] = (unsigned char)random_u64(1, 0, i);
}

static void web_browser(struct message *m)
{
    m->n = (size_t)snprintf((char *)m->bytes, MESSAGE_MAX,
                            "GET / HTTP/1.1\r\nHost: example.org\r\nAccept: */*\r\n\r\n");
}

// The first message on a link is a status request, where a hello is required.
static void no_greeting(struct message *m)
{
    struct msg_status status;
    encode(m, MSG_STATUS, &status);
}

// Messages after which the receiver must close the link.
static void (*const refused[])(struct message *m) = {
    wrong_magic,    wrong_version, unknown_type, long_head,   long_body,
    wrong_checksum, other_cluster, garbage,      web_browser, no_greeting,
};
enum { REFUSED = sizeof(refused) / sizeof(*refused) };

// ---------------------------------------------------------------- sockets

static int dial(unsigned port)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)port),
                            .sin_addr.s_addr = htonl(0x7f000001)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    assert_true(fd >= 0);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    return fd;
}

static void say(int fd, const void *bytes, size_t n)
{
    if (send(fd, bytes, n, MSG_NOSIGNAL) < 0) // the peer may have closed the link already
        assert_true(errno == EPIPE || errno == ECONNRESET);
}

// Reads and ignores data until the peer closes the link; fails the test if the peer does
// not.
static void expect_close(int fd, const char *what)
{
    char bytes[4096];
    double until = cluster_now() + CLOSED_WITHIN;
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        poll(&p, 1, 1000);
        ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno == ECONNRESET))
            break;
        if (cluster_now() > until)
            cluster_fail("a link is not closed: %s", what);
    }
    close(fd);
}

static void send_what_is_refused(unsigned port)
{
    struct message m;
    for (size_t i = 0; i < REFUSED; i++) {
        refused[i](&m);
        int fd = dial(port);
        say(fd, m.bytes, m.n);
        char what[64];
        snprintf(what, sizeof(what), "number %zu of what is refused", i);
        expect_close(fd, what);
    }
}

// Greets correctly, and then sends nothing, or messages that only members may send.
static void greet_and_lie(unsigned port)
{
    struct message m;
    uint64_t key = 1;
    float value = 1e9f;
    struct msg_push push = {.session = 1, .number = 1, .n = 1, .rate = 1, .pass = 1};
    push.keys = (struct wire_span){&key, sizeof(key)};
    push.values = (struct wire_span){&value, sizeof(value)};
    struct msg_tick tick = {.session = 1, .clock = UINT64_MAX};
    for (int i = 0; i < 3; i++) {
        int fd = dial(port);
        hello(&m, "tug");
        say(fd, m.bytes, m.n);
        encode(&m, i == 0 ? MSG_PUSH : MSG_TICK,
               i == 0 ? (const void *)&push : (const void *)&tick);
        say(fd, m.bytes, m.n);
        garbage(&m);
        say(fd, m.bytes, m.n);
        expect_close(fd, "garbage behind a greeting");
    }
}

// ---------------------------------------------------------------- the training

static const char *words_of(const char *out, const char *more)
{
    // Static, because the caller uses this text after files_path() has reused its memory.
    static char words[FILES_PATH];
    files_remove(out);
    snprintf(words, sizeof(words),
             "train --data data.svm --format libsvm --epochs 60 --batch 64 "
             "--data-in memory --out %s %s",
             out, more);
    return words;
}

// Links that stay open for the whole run: silent links, a link on which half of a message
// was sent, and a link on which each call of one_byte() sends one byte.
struct lingering {
    int silent[SILENT], half, slow;
    size_t sent;
};

static void linger(struct lingering *l, unsigned port)
{
    struct message m;
    hello(&m, "tug");
    *l = (struct lingering){.half = dial(port), .slow = dial(port)};
    say(l->half, m.bytes, m.n / 2);
    for (size_t i = 0; i < SILENT; i++)
        l->silent[i] = dial(port);
}

static void one_byte(struct lingering *l)
{
    struct message m;
    hello(&m, "tug");
    say(l->slow, m.bytes + l->sent, 1);
    l->sent = (l->sent + 1) % (m.n - 1); // a whole message is never sent
}

static void leave(struct lingering *l)
{
    close(l->half);
    close(l->slow);
    for (size_t i = 0; i < SILENT; i++)
        close(l->silent[i]);
}

static void strangers_change_nothing(void **state)
{
    (void)state;
    const char *words = words_of("many", "--mode sync");
    unsigned ports[3];
    cluster_start("scheduler", "scheduler -- %s", words);
    ports[0] = cluster_port("scheduler");
    ports[1] = cluster_free_port();
    cluster_start("server", "server --port %u --scheduler 127.0.0.1:%u", ports[1],
                  ports[0]);
    cluster_node("scheduler", "server 0");
    struct lingering l[2];
    for (int i = 0; i < 2; i++)
        linger(&l[i], ports[i]);
    cluster_start("worker", "worker --scheduler 127.0.0.1:%u -- %s", ports[0], words);
    cluster_await("scheduler", "all have joined");
    for (int i = 0; i < 2; i++) {
        send_what_is_refused(ports[i]);
        one_byte(&l[i]);
        greet_and_lie(ports[i]);
    }
    char *said = files_read("scheduler.err", NULL);
    if (strstr(said, "the cluster ends") != NULL)
        cluster_fail("the training was over before it was disturbed");
    mem_free(said);
    cluster_ends("scheduler", 0, CLUSTER_PATIENCE);
    cluster_ends("server", 0, CLUSTER_PATIENCE);
    cluster_ends("worker", 0, CLUSTER_PATIENCE);
    for (int i = 0; i < 2; i++)
        leave(&l[i]);
    cluster_same_parts("truth", "many");
}

// A peer that does not finish its message in time is disconnected.
static void slow_peers_are_closed(void **state)
{
    (void)state;
    cluster_start("scheduler", "scheduler");
    unsigned port = cluster_port("scheduler");
    struct message m;
    hello(&m, "tug");
    int silent = dial(port), slow = dial(port);
    double until = cluster_now() + CLOSED_WITHIN;
    for (size_t i = 0;; i++) {
        struct pollfd p = {.fd = slow, .events = POLLIN | POLLRDHUP};
        if (poll(&p, 1, 1000) > 0)
            break;
        if (cluster_now() > until)
            cluster_fail("a peer that sends a byte a second is still served");
        say(slow, m.bytes + i, 1);
    }
    expect_close(slow, "one byte a second");
    expect_close(silent, "one that says nothing");
    cluster_signal("scheduler", SIGTERM);
    cluster_ends("scheduler", 130, CLUSTER_PATIENCE);
    char *said = files_read("scheduler.err", NULL);
    const char *why = strstr(said, "interrupted");
    if (why == NULL || strstr(why + 1, "interrupted") != NULL)
        cluster_fail("an interrupted scheduler does not say so once");
    mem_free(said);
}

static int begin(void **state)
{
    if (cluster_begin(state) != 0)
        return -1;
    tug_ends(0, "synth --rows 4000 --format libsvm --out data.svm");
    tug_ends(0, "%s", words_of("truth", "--deterministic"));
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_test(strangers_change_nothing),
        cluster_test(slow_peers_are_closed),
    };
    return cmocka_run_group_tests(tests, begin, cluster_end);
}
