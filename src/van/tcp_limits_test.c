// Tests the limits on the memory and links that peers may use, on every van with sockets:
// for announced or endless bodies, for unread answers, and for countless strangers.
//
// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "kit/clock.h"
#include "kit/vans.h"
#include "os/budget.h"
#include "van/handshake.h"
#include "van/tcp_address.h"

#define MIB ((uint64_t)1 << 20)

// The answers and the last error that a node has received.
struct told {
    int ok, code, reason;
    uint64_t request;
    char text[ERR_TEXT_MAX];
};

static void listen_to_answers(struct node *n, van_link link, struct van_message *m)
{
    struct told *t = n->data;
    (void)link;
    if (m->type == MSG_OK)
        t->ok++;
    if (m->type != MSG_ERROR)
        return;
    t->code = m->m->error.code;
    t->reason = m->m->error.reason;
    t->request = m->request;
    snprintf(t->text, sizeof(t->text), "%.*s", (int)m->m->error.what.n,
             m->m->error.what.data);
}

static void answer_ok(struct node *n, van_link link, struct van_message *m)
{
    if (m->request != 0)
        van_send(n->v, link, MSG_OK, m->request, &(struct msg_ok){0}, NULL);
}

// Opens node a's link to b, whose memory is counted in the budget w->tcp.budget.
static void open_counted(struct vans *w, struct told *t)
{
    vans_open_pair(w);
    w->nodes[0].data = t;
    w->nodes[0].on_message = listen_to_answers;
    w->nodes[1].on_message = answer_ok;
}

static void send_roster(struct node *n, uint64_t request, const void *data,
                        uint64_t bytes)
{
    struct msg_roster m = {.owners = {data, bytes}};
    assert_int_equal(van_send(n->v, n->links[0], MSG_ROSTER, request, &m, NULL), 0);
}

// A body that never fits, and one that does not fit now, are both refused with the number
// of their request, and the messages after them are read.
static void bodies(struct vans *w)
{
    struct told t = {0};
    w->tcp.slow_timeout_ns = 600 * SECOND; // on a busy machine a body takes seconds
    struct budget *b = w->tcp.budget;
    // A body of n bytes takes half of the room, and arrives in several reads.
    uint64_t most = budget_most(b, BUDGET_BODIES), n = most / 2;
    char *data = mem_zalloc(most + 8);
    assert_non_null(data);
    open_counted(w, &t);
    struct node *a = &w->nodes[0];
    send_roster(a, 5, data, most + 8);
    PUMP(w, t.code != 0);
    assert_int_equal(t.code, TUG_EUSAGE);
    assert_int_equal(t.request, 5);
    assert_non_null(strstr(t.text, "--memory"));
    assert_int_equal(budget_used(b, BUDGET_BODIES), 0);
    t.code = 0;
    send_roster(a, 6, data, n);
    PUMP(w, t.ok == 1);
    // Takes all room, to simulate its use by other links.
    assert_true(budget_take(b, BUDGET_BODIES, most));
    send_roster(a, 7, data, n);
    PUMP(w, t.code != 0);
    assert_int_equal(t.code, TUG_EIO);
    assert_int_equal(t.request, 7);
    assert_int_equal(t.reason, REASON_NO_ROOM);
    budget_give(b, BUDGET_BODIES, most);
    send_roster(a, 8, data, n);
    PUMP(w, t.ok == 2);
    assert_int_equal(w->nodes[1].closed, 0);
    assert_int_equal(budget_used(b, BUDGET_BODIES), 0);
    mem_free(data);
}

// Node a reads none of its answers until there is no room: its link is closed, and the
// link of node c, which reads its answers, is not.
static void unread(struct vans *w)
{
    struct told t = {0}, u = {0};
    struct budget *b = w->tcp.budget;
    static char data[256 << 10];
    open_counted(w, &t);
    struct node *server = &w->nodes[1], *c = vans_open(w, 2);
    c->data = &u;
    c->on_message = listen_to_answers;
    van_link deaf = server->link;
    assert_int_not_equal(van_connect(c->v, server->address, PATIENCE), 0);
    PUMP(w, c->opened == 1);
    vans_greet(c, c->link, server);
    struct van *a = w->nodes[0].v;
    w->nodes[0].v = NULL; // node a is not polled from now on, so it reads nothing
    struct msg_roster m = {.owners = {data, sizeof(data)}};
    uint64_t most = 0;
    for (int i = 0; server->closed == 0 && i < 10000; i++) {
        van_send(server->v, deaf, MSG_ROSTER, 1, &m, NULL);
        uint64_t used = budget_used(b, BUDGET_QUEUED);
        most = used > most ? used : most;
        if (i % 16 == 0)
            vans_step(w);
    }
    assert_int_equal(server->closed, 1);
    assert_int_equal(server->closed_link, deaf);
    assert_non_null(strstr(server->why.text, "has not read"));
    assert_true(most <= budget_most(b, BUDGET_QUEUED) + 40 * sizeof(data));
    assert_int_equal(budget_used(b, BUDGET_QUEUED), 0);
    assert_int_equal(atomic_load(&b->closed), 1);
    assert_int_equal(van_send(c->v, c->link, MSG_STATUS, 9, &(struct msg_status){}, NULL),
                     0);
    PUMP(w, u.ok == 1);
    w->nodes[0].v = a;
}

// The link of a peer that reads nothing is closed after the stall time.
static void deaf(struct vans *w)
{
    struct told t = {0};
    static char data[256 << 10];
    w->tcp.stall_timeout_ns = 100 * MS;
    open_counted(w, &t);
    struct node *server = &w->nodes[1];
    struct van *a = w->nodes[0].v;
    w->nodes[0].v = NULL;
    struct msg_roster m = {.owners = {data, sizeof(data)}};
    while (van_queued(server->v, server->link) == 0) {
        assert_int_equal(van_send(server->v, server->link, MSG_ROSTER, 1, &m, NULL), 0);
        vans_step(w);
    }
    PUMP(w, server->closed == 1);
    assert_non_null(strstr(server->why.text, "has read none of its answers"));
    assert_int_equal(budget_used(w->tcp.budget, BUDGET_QUEUED), 0);
    w->nodes[0].v = a;
}

// Links that send or read very slowly are closed only if other peers are refused for lack
// of room.
static void crawling(struct vans *w)
{
    struct budget *b = w->tcp.budget;
    static char data[16 << 20];
    w->tcp.slow_timeout_ns = 100 * MS;
    struct told t = {0};
    open_counted(w, &t);
    struct node *server = &w->nodes[1], *c = vans_open(w, 2);
    assert_int_not_equal(van_connect(c->v, server->address, PATIENCE), 0);
    PUMP(w, c->opened == 1);
    vans_greet(c, c->link, server);
    struct van *a = w->nodes[0].v, *deaf = c->v;
    struct msg_roster m = {.owners = {data, sizeof(data)}};
    // At most half of the roster arrives.
    send_roster(&w->nodes[0], 1, data, sizeof(data));
    PUMP(w, budget_used(b, BUDGET_BODIES) > 0);
    w->nodes[0].v = c->v = NULL;
    assert_int_equal(van_send(server->v, server->link, MSG_ROSTER, 1, &m, NULL), 0);
    for (uint64_t until = clock_ns() + 300 * MS; clock_ns() < until;)
        vans_step(w);
    assert_true(van_queued(server->v, server->link) > 0);
    assert_int_equal(server->closed, 0);
    budget_refused(b);
    PUMP(w, server->closed == 2);
    assert_non_null(strstr(server->why.text, "while there was no room for other links"));
    assert_int_equal(atomic_load(&b->closed), 2);
    assert_int_equal(budget_used(b, BUDGET_BODIES), 0);
    w->nodes[0].v = a;
    c->v = deaf;
}

// If many peers connect and stay silent, only a few links are held, and a peer that says
// hello gets a link.
static void strangers(struct vans *w)
{
    enum { COUNT = 60, MOST = 5 };
    w->tcp.max_strangers = MOST;
    // In this test, no link is closed for a missing HELLO.
    w->tcp.hello_timeout_ns = 10 * PATIENCE;
    struct node *a = vans_open(w, 0), *b = vans_open(w, 1);
    vans_listen_anywhere(b);
    for (unsigned i = 1; i <= COUNT; i++) {
        assert_int_not_equal(van_connect(a->v, b->address, PATIENCE), 0);
        PUMP(w, b->opened == i && a->opened == i);
        assert_true(b->opened - b->closed <= MOST);
    }
    PUMP(w, b->closed == COUNT - MOST);
    assert_non_null(strstr(b->why.text, "it has sent nothing"));
    vans_greet(a, a->link, b); // the last of these links sends HELLO
    assert_true(budget_used(w->tcp.budget, BUDGET_LINKS) > 0);
    for (unsigned i = 1; i <= COUNT; i++) {
        assert_int_not_equal(van_connect(a->v, b->address, PATIENCE), 0);
        PUMP(w, b->opened == COUNT + i && a->opened == COUNT + i);
    }
    PUMP(w, b->closed == 2 * COUNT - MOST - 1); // the link that sent HELLO stays open
}

static int connect_raw(const char *address)
{
    struct tcp_address a;
    struct sockaddr_storage s;
    if (tcp_address_read(&a, address, NULL) != 0 || !tcp_address_number(&a, &s))
        return -1;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&s, sizeof(struct sockaddr_in)) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

// A link that has shown its role and stays idle is closed to make room for other links.

static int token(void *ctx, enum wire_role *role, uint8_t ret[MAC_BYTES], struct err *e)
{
    (void)ctx, (void)e;
    memset(ret, *role, MAC_BYTES);
    return 0;
}

static bool numbers(void *ctx, uint8_t ret[MAC_BYTES])
{
    (void)ctx;
    return mac_random(ret);
}

enum { FULL = 6, SILENT = 30 };
static struct prover provers[NODES]; // one for each node

static void open_prover(struct vans *w, int i, enum wire_role role)
{
    provers[i] = (struct prover){.role = role, .token = token, .random = numbers};
    w->tcp.prover = &provers[i];
    vans_open(w, i);
}

// Fills the listener with links of `tools` tools and then of operators, all of which have
// said hello.
static void fill_with(struct vans *w, unsigned tools)
{
    w->tcp.max_links = FULL;
    open_prover(w, 0, WIRE_TOOL);
    open_prover(w, 1, WIRE_OPERATOR);
    open_prover(w, 2, WIRE_OPERATOR);
    struct node *a = &w->nodes[0], *b = &w->nodes[1];
    vans_listen_anywhere(b);
    for (unsigned i = 1; i <= FULL; i++) {
        provers[0].role = i <= tools ? WIRE_TOOL : WIRE_OPERATOR;
        assert_int_not_equal(van_connect(a->v, b->address, PATIENCE), 0);
        PUMP(w, a->opened == i && b->opened == i);
        vans_greet(a, a->link, b);
    }
    assert_int_equal(b->closed, 0);
}

static void fill(struct vans *w)
{
    fill_with(w, FULL);
}

// Returns whether one more peer with this role is accepted within the time; a refused
// peer tries again.
static bool comes_within(struct vans *w, enum wire_role role, uint64_t timeout_ns)
{
    struct node *b = &w->nodes[1], *c = &w->nodes[2];
    unsigned opened = b->opened, refused = c->closed;
    provers[2].role = role;
    assert_int_not_equal(van_connect(c->v, b->address, timeout_ns), 0);
    PUMP(w, c->closed > refused || (b->opened > opened && c->opened == b->opened - FULL));
    if (b->opened > opened)
        vans_greet(c, c->link, b);
    return b->opened > opened;
}

// Tries once more if neither a link nor a refusal came in time. Over TLS a refused
// peer gets no refusal.
static bool comes(struct vans *w, enum wire_role role)
{
    const struct err *why = &w->nodes[2].why;
    uint64_t until = clock_ns() + PATIENCE;
    do {
        if (comes_within(w, role, 300 * MS))
            return true;
    } while (!w->kind->tls && strstr(why->text, "as many as its limits allow") == NULL &&
             clock_ns() < until);
    assert_true(w->kind->tls || clock_ns() < until);
    return false;
}

static void comes_for(struct vans *w, enum wire_role role, van_link other)
{
    struct node *b = &w->nodes[1];
    assert_true(comes_within(w, role, PATIENCE));
    PUMP(w, b->closed_link == other);
    assert_non_null(strstr(b->why.text, "its place is needed for a link"));
}

static void roles(struct vans *w)
{
    w->tcp.slow_timeout_ns = 600 * SECOND;
    fill(w);
    struct node *b = &w->nodes[1];
    // No link has been silent for long, so none is closed for the tool.
    assert_false(comes(w, WIRE_TOOL));
    assert_int_equal(b->closed, 0);
    comes_for(w, WIRE_OPERATOR,
              // The link that has been silent for longest is closed for the new peer.
              b->links[0]);
    comes_for(w, WIRE_SERVER, b->links[1]);
    comes_for(w, WIRE_WORKER, b->links[2]);
    van_link worker = b->link;
    for (int i = 3; i < FULL; i++)
        comes_for(w, WIRE_OPERATOR, b->links[i]);
    assert_false(comes(w, WIRE_TOOL));
    comes_for(w, WIRE_WORKER,
              // The link of a worker that has not joined in time is closed for the new
              // peer.
              worker);
    van_joined(b->v, b->link);
    assert_false(comes(w, WIRE_WORKER));
    assert_false(comes(w, WIRE_OPERATOR));
    assert_int_equal(b->closed, FULL + 1);
}

// The link of a silent tool is closed to make room for another peer. Countless silent
// strangers cannot prevent a peer from proving its role.
static void silent(struct vans *w)
{
    int fds[SILENT];
    w->tcp.slow_timeout_ns = MS;
    fill(w);
    struct node *b = &w->nodes[1];
    vans_settle(w);
    comes_for(w, WIRE_TOOL, b->links[0]);
    for (int i = 0; i < SILENT; i++)
        fds[i] = connect_raw(b->address);
    vans_settle(w);
    // The strangers' links are in the reserve, so they are not closed for this peer.
    comes_for(w, WIRE_OPERATOR, b->links[1]);
    for (int i = 0; i < SILENT; i++)
        if (fds[i] >= 0) // connecting to a Unix socket may fail
            close(fds[i]);
}

static void count_errors(struct node *n, van_link link, struct van_message *m)
{
    (void)link;
    *(int *)n->data += m->type == MSG_ERROR;
}

// Two peers connect while there is room for one. When a peer has shown its role, its link
// is open; if there is no room by then, the link is closed, and the peer dials again. An
// error message on an open link would end a member.
static void two_at_once(struct vans *w)
{
    int errors = 0;
    fill_with(w, 1);
    struct node *b = &w->nodes[1], *c = &w->nodes[2];
    c->data = &errors;
    c->on_message = count_errors;
    for (int i = 0; i < 2; i++)
        assert_int_not_equal(van_connect(c->v, b->address, PATIENCE), 0);
    PUMP(w, b->opened == FULL + 1 && c->opened > 0);
    vans_settle(w);
    assert_int_equal(errors, 0);
    assert_int_equal(b->opened, FULL + 1);
    // The second peer's link was never open and is dialled again, or it was open and was
    // closed.
    assert_true(c->closed <= 1);
}

// If a link ends while a new peer shows its role, no other link is closed for that peer.
static void room_meanwhile(struct vans *w)
{
    fill(w);
    struct node *a = &w->nodes[0], *b = &w->nodes[1], *c = &w->nodes[2];
    provers[2].role = WIRE_OPERATOR;
    uint64_t used = budget_used(w->tcp.budget, BUDGET_LINKS);
    assert_int_not_equal(van_connect(c->v, b->address, PATIENCE), 0);
    PUMP(w, budget_used(w->tcp.budget, BUDGET_LINKS) > used);
    van_close_link(a->v, a->links[0]);
    PUMP(w, c->opened == 1 && b->opened == FULL + 1);
    vans_settle(w);
    assert_int_equal(b->closed, 1); // only the link that has ended by itself is closed
    assert_int_equal(b->closed_link, b->links[0]);
}

// A node dials a full node for as long as it would dial an address without a listener, so
// that a member that dials again does not give up at once.
static void full_for_long(struct vans *w)
{
    fill_with(w, 0);
    struct node *a = &w->nodes[0], *b = &w->nodes[1], *c = &w->nodes[2];
    assert_int_not_equal(van_connect(c->v, b->address, PATIENCE), 0);
    for (int i = 0; i < 8; i++) { // the peer dials again each second
        kit_clock_skip(SECOND);
        vans_settle(w);
    }
    assert_int_equal(c->closed, 0);
    assert_int_equal(c->opened, 0);
    van_close_link(a->v, a->links[0]);
    PUMP(w, c->opened == 1 && b->opened == FULL + 1);
}

typedef void (*check)(struct vans *w);

static void with_account(const struct vans_kind *k, check c)
{
    struct budget b;
    size_t live = mem_live();
    struct vans *w = mem_zalloc(sizeof(*w));
    budget_open(&b, 64 * MIB);
    w->kind = k;
    w->tcp.budget = &b;
    if (k->tls)
        vans_open_keys(w);
    c(w);
    for (int i = 0; i < NODES; i++)
        vans_close(&w->nodes[i]);
    for (int i = 0; i < BUDGET_KINDS; i++)
        if (budget_used(&b, (enum budget_kind)i) != 0)
            fail_msg("%s: %s are still counted", k->name,
                     budget_name((enum budget_kind)i));
    assert_int_equal(atomic_load(&b.used), 0);
    vans_close_keys(w);
    mem_free(w);
    assert_int_equal(mem_live(), live);
}

static void with_sockets(check c)
{
    for (size_t i = 0; i < sizeof(vans_kinds) / sizeof(*vans_kinds); i++)
        if (!vans_kinds[i].simulated && vans_kinds[i].open_van == vans_open_tcp)
            with_account(&vans_kinds[i], c);
}

static void test_bodies(void **state)
{
    (void)state;
    with_sockets(bodies);
}

static void test_unread(void **state)
{
    (void)state;
    with_sockets(unread);
}

static void test_deaf(void **state)
{
    (void)state;
    with_sockets(deaf);
}

static void test_crawling(void **state)
{
    (void)state;
    with_sockets(crawling);
}

static void test_strangers(void **state)
{
    (void)state;
    with_sockets(strangers);
}

static void test_roles(void **state)
{
    (void)state;
    with_sockets(roles);
}

static void test_silent(void **state)
{
    (void)state;
    with_sockets(silent);
}

static void test_two_at_once(void **state)
{
    (void)state;
    with_sockets(two_at_once);
}

static void test_room_meanwhile(void **state)
{
    (void)state;
    with_sockets(room_meanwhile);
}

static void test_full_for_long(void **state)
{
    (void)state;
    assert_string_equal(vans_kinds[2].name, "tcp");
    with_account(&vans_kinds[2], full_for_long);
}

// ---------------------------------------------------------------- descriptors

enum { LIMIT = 100, IDLE = 3 * LIMIT };

// Receives an answer. If a stopped process continues, its recv with a time limit is
// interrupted, so it is repeated.
static bool hears(int fd, char *answer, size_t n)
{
    struct timeval patience = {60, 0};
    size_t have = 0;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    while (have < n) {
        ssize_t got = recv(fd, answer + have, n - have, 0);
        if (got == 0 || (got < 0 && errno != EINTR))
            return false;
        have += got > 0 ? (size_t)got : 0;
    }
    return true;
}

// Runs in another process: opens many silent links, and then one that asks and gets an
// answer.
static int flood(const char *address)
{
    struct wire_out o = WIRE_OUT_INIT;
    char answer[WIRE_FRAME_BYTES];
    for (int i = 0; i < IDLE; i++)
        if (connect_raw(address) < 0)
            return 1;
    int fd = connect_raw(address);
    if (fd < 0 || wire_encode(&o, MSG_STATUS, 1, &(struct msg_status){}, false) != 0)
        return 2;
    if (send(fd, o.head.data, o.head.len, MSG_NOSIGNAL) != (ssize_t)o.head.len)
        return 3;
    return hears(fd, answer, sizeof(answer)) ? 0 : 4;
}

static void test_descriptors(void **state)
{
    (void)state;
    struct rlimit was, few;
    struct vans w = {.kind = &vans_kinds[2]};
    assert_string_equal(w.kind->name, "tcp");
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    struct node *server = vans_open(&w, 1);
    server->on_message = answer_ok;
    vans_listen_anywhere(server);
    pid_t child = fork();
    assert_int_not_equal(child, -1);
    if (child == 0)
        _exit(flood(server->address));
    few = was;
    few.rlim_cur = LIMIT;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    int status = -1;
    unsigned most = 0;
    PUMP(&w,
         (most = server->opened - server->closed > most ? server->opened - server->closed
                                                        : most,
          waitpid(child, &status, WNOHANG) == child));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    // Libuv itself has closed no link for lack of descriptors.
    assert_int_equal(server->opened, IDLE + 1);
    assert_true(most < LIMIT);
    vans_close(server);
}

// Runs in another process: opens as many links of members as fit, and then some that are
// refused, get the reason, and are not closed by the peer.

enum { REFUSED = 40 };

static int stay(const char *address)
{
    struct wire_out o = WIRE_OUT_INIT;
    char head[WIRE_FRAME_BYTES];
    int refused = 0;
    if (wire_encode(&o, MSG_STATUS, 1, &(struct msg_status){}, false) != 0)
        return 1;
    for (int i = 0; i < LIMIT + 10 * REFUSED && refused < REFUSED; i++) {
        struct wire_frame f;
        int fd = connect_raw(address);
        if (fd < 0)
            return 2;
        // A refused peer may get the reason before it has sent anything. Bytes that it
        // sends after the link is closed reset the link, and the reason is lost: then the
        // peer tries again.
        (void)send(fd, o.head.data, o.head.len, MSG_NOSIGNAL);
        if (!hears(fd, head, sizeof(head))) {
            if (errno != ECONNRESET)
                return 3;
            continue;
        }
        if (wire_frame_read((const unsigned char *)head, &f, NULL) != 0)
            return 3;
        refused += f.type == MSG_ERROR;
    }
    return refused == REFUSED ? 0 : 4;
}

static void join_and_answer(struct node *n, van_link link, struct van_message *m)
{
    van_joined(n->v, link);
    answer_ok(n, link, m);
}

// A refused peer that does not close its link keeps a descriptor until other refused
// peers need it; these also get the reason.
static void test_refused_peer_stays(void **state)
{
    (void)state;
    struct rlimit was, few;
    struct vans w = {.kind = &vans_kinds[2]};
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    struct node *server = vans_open(&w, 1);
    server->on_message = join_and_answer;
    vans_listen_anywhere(server);
    pid_t child = fork();
    assert_int_not_equal(child, -1);
    if (child == 0)
        _exit(stay(server->address));
    few = was;
    few.rlim_cur = LIMIT;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    int status = -1;
    PUMP(&w, waitpid(child, &status, WNOHANG) == child);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    vans_close(server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bodies),         cmocka_unit_test(test_unread),
        cmocka_unit_test(test_deaf),           cmocka_unit_test(test_strangers),
        cmocka_unit_test(test_descriptors),    cmocka_unit_test(test_crawling),
        cmocka_unit_test(test_roles),          cmocka_unit_test(test_silent),
        cmocka_unit_test(test_two_at_once),    cmocka_unit_test(test_full_for_long),
        cmocka_unit_test(test_room_meanwhile), cmocka_unit_test(test_refused_peer_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
