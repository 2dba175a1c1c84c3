// Sends random valid frames to real processes, a scheduler and a server, from strangers
// and from peers with the cluster's token. The processes must not crash, no sanitizer may
// report anything, and an honest client and an honest tool must still get answers.
//
// Usage: fuzz_network [--seconds N] [--seed N]: runs for N seconds (default 4), with the
// frames of this seed (default 1).
//
// Messages that end a cluster when an authorised peer sends them are left out: STOP,
// RUN_OVER, LEAVE, and a driver's PASS. So are files outside of the test's folder. In the
// second test, in which servers join and are drained meanwhile, DRAIN and HOLD are left
// out, too: a DRAIN could drain the only server, and a HOLD would keep partitions from
// moving.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/servers.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/random.h"
#include "cluster/node.h"
#include "cluster/proof.h"
#include "kit/draw.h"
#include "runtime/tool.h"

enum {
    BYTES = 4096,
    LINKS = 4,
    HONEST_TABLE = 3210,
    HONEST_WIDTH = 2,
    MAX_JOINED = 16 // most servers that join: the kit limits the processes of a test
};

static double seconds = 4;
static uint64_t seed = 1, round_number, sent, heard;
static char scheduler[64], server[VAN_ADDRESS_MAX];
static struct tug_client *honest;
static uint64_t pushes;
static bool moving; // servers join and leave
static unsigned last_rank;

static const char *const texts[] = {"name=t1",
                                    "name=t1;accessor=ctr;dim=4",
                                    "name=t2;accessor=sparse;mode=sync",
                                    "name=t2;accessor=counter;mode=ssp:1;placement=range",
                                    "name=t3;accessor=merge;deltas=yes;budget-rows=10",
                                    "name=t3;accessor=plain;dim=3;rule=adam",
                                    "saved",
                                    "t1",
                                    NULL};

// The random bytes of this round.
static uint8_t bytes[BYTES];

static struct draw draw_round(void)
{
    round_number++;
    for (size_t i = 0; i < BYTES; i += 8) {
        uint64_t x = random_u64(seed, round_number, i);
        memcpy(bytes + i, &x, 8);
    }
    struct draw d = {.at = bytes, .left = BYTES, .bits = 8, .texts = texts, .epoch = 1};
    return d;
}

// ---------------------------------------------------------------- peers with a token

struct attacker {
    struct van *van;
    van_link links[LINKS];
    struct draw *d;
    bool open[LINKS];
    uint64_t asked;
    // The role in which the attacker has joined the cluster; WIRE_NOBODY before.
    enum wire_role joined;
    uint8_t secret[MAC_BYTES];
};

static void on_opened(void *ctx, van_link link, bool accepted, uint64_t now)
{
    struct attacker *a = ctx;
    (void)accepted, (void)now;
    for (int i = 0; i < LINKS; i++)
        a->open[i] |= a->links[i] == link;
}

static void on_message(void *ctx, van_link link, struct van_message *m, uint64_t now)
{
    struct attacker *a = ctx;
    (void)link, (void)now;
    heard++;
    a->asked = m->request;
    if (m->type == MSG_JOINED) {
        draw_know(a->d, m->m->joined.node, m->m->joined.session);
        if (m->m->joined.secret.n == MAC_BYTES)
            memcpy(a->secret, m->m->joined.secret.data, MAC_BYTES);
    }
    if (m->type == MSG_ROSTER)
        a->d->epoch = m->m->roster.epoch;
}

static void on_closed(void *ctx, van_link link, const struct err *why, uint64_t now)
{
    struct attacker *a = ctx;
    (void)why, (void)now;
    for (int i = 0; i < LINKS; i++)
        if (a->links[i] == link)
            a->open[i] = false;
}

static uint64_t on_tick(void *ctx, uint64_t now)
{
    (void)ctx, (void)now;
    return VAN_NEVER;
}

static void pump(struct attacker *a, uint64_t ms)
{
    struct err e;
    uint64_t until = van_now(a->van) + ms * 1000000;
    do {
        require(van_poll(a->van, until, &e) == 0);
    } while (van_now(a->van) < until);
}

static bool ends_the_cluster(const union wire_any *m, uint16_t type, enum wire_role role)
{
    bool joins = type == MSG_JOIN && m->join.role == WIRE_SERVER;
    bool cold = type == MSG_TABLE && m->table.config.n > 3 &&
                memmem(m->table.config.data, m->table.config.n, "cold", 4) != NULL;
    (void)role;
    return type == MSG_STOP || type == MSG_RUN_OVER || type == MSG_LEAVE ||
           type == MSG_PASS || joins || cold ||
           (moving && (type == MSG_DRAIN || type == MSG_HOLD));
}

static void say(struct attacker *a, int i, uint16_t type, enum wire_role role)
{
    union wire_any m;
    uint64_t request = draw_below(a->d, 4) != 0 ? ++sent : a->asked;
    if (!a->open[i] || !draw_message(a->d, type, &m) || ends_the_cluster(&m, type, role))
        return;
    (void)van_send(a->van, a->links[i], type, request, &m, NULL);
    sent++;
}

static void greet(struct attacker *a, int i, enum wire_role role)
{
    struct draw *d = a->d;
    bool known = d->n_sessions > 0 && draw_below(d, 4) != 0;
    struct msg_hello hello = {.cluster = node_cluster("tug"),
                              .role = (uint8_t)role,
                              .node = known ? d->nodes[d->n_sessions - 1] : 0,
                              .session = known ? d->sessions[d->n_sessions - 1] : 0,
                              .version = wire_text("0")};
    const struct van_trust trust = van_trust(a->van, a->links[i]);
    uint8_t proof[MAC_BYTES];
    if (known && a->joined != WIRE_NOBODY && proof_hello(proof, a->secret, &trust)) {
        hello.role = (uint8_t)a->joined;
        hello.proof = (struct wire_text){(const char *)proof, MAC_BYTES};
    }
    if (a->open[i])
        (void)van_send(a->van, a->links[i], MSG_HELLO, 0, &hello, NULL);
}

static void join(struct attacker *a, int i, enum wire_role role)
{
    struct msg_join m = {.role = (uint8_t)(role == WIRE_WORKER ? role : WIRE_DRIVER),
                         .ticket = random_u64(seed, round_number, BYTES),
                         .process = random_u64(seed, round_number, BYTES + 1),
                         .loops = 1,
                         .host = wire_text("host"),
                         .address = wire_text("")};
    a->joined = (enum wire_role)m.role;
    if (a->open[i])
        (void)van_send(a->van, a->links[i], MSG_JOIN, 1, &m, NULL);
}

// Plays a process of this role: it connects to the scheduler and the server, says hello,
// may join the cluster, and then sends random frames.
static void attack_as(enum wire_role role)
{
    struct node n;
    struct err e;
    struct draw d = draw_round();
    struct attacker a = {.d = &d};
    struct van_handler h = {.ctx = &a,
                            .opened = on_opened,
                            .message = on_message,
                            .closed = on_closed,
                            .tick = on_tick};
    struct node_options o = {.scheduler = scheduler, .role = role};
    require(node_open(&n, &o, &e) == 0);
    require(node_van(&n, &a.van, &h, false, &e) == 0);
    for (int i = 0; i < LINKS; i++)
        a.links[i] = van_connect(a.van, i < 1 ? n.scheduler : server, 2000000000);
    pump(&a, 20);
    greet(&a, 0, role);
    pump(&a, 5);
    if (role != WIRE_TOOL && draw_below(&d, 4) != 0)
        join(&a, 0, role);
    pump(&a, 10);
    for (int i = 1; i < LINKS; i++)
        greet(&a, i, role);
    pump(&a, 5);
    for (int k = 0; d.left > 0; k++) {
        say(&a, (int)draw_below(&d, LINKS), draw_type(&d), role);
        if (k % 16 == 15)
            pump(&a, 1);
    }
    pump(&a, 5);
    van_free(a.van);
    node_close(&n);
    draw_free(&d);
}

// ---------------------------------------------------------------- strangers

static int dial(const char *address)
{
    const char *colon = strrchr(address, ':');
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    require(fd >= 0);
    if (connect(fd, (const struct sockaddr *)&to, sizeof(to)) == 0)
        return fd;
    close(fd);
    return -1;
}

static void write_frame(int fd, struct draw *d, uint16_t type)
{
    struct wire_out o = WIRE_OUT_INIT;
    union wire_any m;
    if (draw_message(d, type, &m) && wire_encode(&o, type, draw_byte(d), &m, true) == 0) {
        char *body = mem_alloc(o.body_bytes + 1);
        require(body != NULL);
        wire_copy_body(&o, body);
        if (draw_below(d, 16) == 0) // flips one bit of the frame
            o.head.data[draw_byte(d) % o.head.len] ^= (char)(1 << draw_below(d, 8));
        (void)send(fd, o.head.data, o.head.len, MSG_NOSIGNAL | MSG_DONTWAIT);
        (void)send(fd, body, o.body_bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        mem_free(body);
        sent++;
    }
    buf_free(&o.head);
}

// Sends frames without a handshake, or in the middle of one.
static void attack_as_stranger(const char *address)
{
    struct draw d = draw_round();
    char answer[4096];
    int fd = dial(address);
    for (int k = 0; fd >= 0 && k < 8; k++) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        write_frame(fd, &d, draw_type(&d));
        if (poll(&p, 1, 2) == 1 && recv(fd, answer, sizeof(answer), MSG_DONTWAIT) <= 0)
            break;
    }
    if (fd >= 0)
        close(fd);
    draw_free(&d);
}

// ---------------------------------------------------------------- honest peers

static void check_tool(const char *address)
{
    struct node n;
    struct err e;
    struct tool t = {0};
    json_t *status = NULL;
    struct node_options o = {.scheduler = scheduler, .role = WIRE_TOOL};
    if (node_open(&n, &o, &e) != 0 ||
        tool_open(&t, &n, address, CLUSTER_PATIENCE, &e) != 0 ||
        tool_status(&t, CLUSTER_PATIENCE, &status, &e) != 0)
        cluster_fail("an honest tool: %s (round %llu)", e.text,
                     (unsigned long long)round_number);
    json_decref(status);
    tool_close(&t);
    node_close(&n);
}

static void check_client(void)
{
    const uint64_t key = 5;
    const float values[HONEST_WIDTH] = {1, 2};
    float pulled[HONEST_WIDTH];
    uint64_t ts;
    tables_check(tug_push(honest, HONEST_TABLE, &key, 1, values, NULL, NULL, &ts));
    tables_check(tug_wait(honest, ts, CLUSTER_PATIENCE));
    tables_check(tug_pull(honest, HONEST_TABLE, &key, 1, pulled, NULL, NULL, &ts));
    tables_check(tug_wait(honest, ts, CLUSTER_PATIENCE));
    pushes++;
    if (pulled[0] != (float)pushes || pulled[1] != (float)(2 * pushes))
        cluster_fail("an honest client's row is %g, %g after %llu pushes",
                     (double)pulled[0], (double)pulled[1], (unsigned long long)pushes);
}

static void find_server(void)
{
    tug_ends(0, "status --json --scheduler 127.0.0.1:%u", tables_port);
    json_t *status = e2e_json(), *node;
    size_t i;
    json_array_foreach(json_object_get(status, "nodes"), i, node)
        if (strcmp(tool_text(node, "role"), "server") == 0)
            snprintf(server, sizeof(server), "%s", tool_text(node, "address"));
    json_decref(status);
    assert_true(server[0] != 0);
}

// Adds a server, or drains the server that joined last.
static void grow(void)
{
    last_rank++;
    cluster_start(files_path("extra%u", last_rank),
                  "server --scheduler %s --join --save-root .", scheduler);
    cluster_await("scheduler", files_path("because server %u has joined", last_rank));
}

static void shrink(void)
{
    tug_ends(0, "drain %u --wait --timeout %d --scheduler %s", last_rank,
             CLUSTER_PATIENCE, scheduler);
    cluster_ends(files_path("extra%u", last_rank), 0, CLUSTER_PATIENCE);
}

static void attack(void)
{
    static const enum wire_role roles[] = {WIRE_WORKER, WIRE_SERVER, WIRE_TOOL,
                                           WIRE_OPERATOR};
    double end = cluster_now() + seconds, look = 0;
    bool grown = false;
    tables_start(1);
    snprintf(scheduler, sizeof(scheduler), "127.0.0.1:%u", tables_port);
    find_server();
    honest = tables_client();
    tables_check(tug_table_create(honest, HONEST_TABLE, "dim = 2; rule = sum"));
    while (cluster_now() < end) {
        attack_as(roles[round_number % (sizeof(roles) / sizeof(*roles))]);
        attack_as_stranger(scheduler);
        attack_as_stranger(server);
        if (cluster_now() < look)
            continue;
        look = cluster_now() + (seconds > 60 ? 5 : 1);
        check_tool(scheduler);
        check_tool(server);
        check_client();
        if (grown)
            shrink();
        else if (moving && last_rank < MAX_JOINED)
            grow();
        else
            continue;
        grown = !grown;
    }
    if (grown)
        shrink();
    check_tool(server);
    check_client();
    tables_check(tug_client_close(honest));
    tables_stop();
    printf("%llu rounds, %llu frames, %llu answers, %llu honest pushes\n",
           (unsigned long long)round_number, (unsigned long long)sent,
           (unsigned long long)heard, (unsigned long long)pushes);
}

static void they_live(void **state)
{
    (void)state;
    attack();
}

static void they_live_while_servers_come_and_go(void **state)
{
    (void)state;
    moving = true;
    pushes = 0;
    attack();
}

int main(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seconds") == 0)
            seconds = strtod(argv[i + 1], NULL);
        else if (strcmp(argv[i], "--seed") == 0)
            seed = strtoull(argv[i + 1], NULL, 10);
    }
    const struct CMUnitTest tests[] = {
        cluster_test(they_live),
        cluster_test(they_live_while_servers_come_and_go),
    };
    return cmocka_run_group_tests(tests, cluster_begin, cluster_end);
}
