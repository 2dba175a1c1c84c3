// --memory bounds the memory of a server and of a scheduler, whatever their peers do.
// Clients flood real processes with pulls, whose answers they do not read, with large
// bodies, and with links.
//
// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "cluster/node.h"
#include "kit/processes.h"
#include "os/clock.h"
#include "tug/tug.h"
#include "van/tcp_address.h"

enum { TABLE = 7, WIDTH = 256, KEYS = 10000, PULLS = 60, LINKS = 10000 };
#define MIB ((uint64_t)1 << 20)
#define ALLOWED (256 * MIB)
#define BASE (128 * MIB) // a generous bound for code, libraries and the kernel's pages

static char scheduler[64];
static pid_t server_pid, scheduler_pid;

static uint64_t resident(pid_t pid)
{
    char line[256];
    unsigned long long kib = 0;
    FILE *f = fopen(files_path("/proc/%d/status", (int)pid), "re");
    assert_non_null(f);
    while (fgets(line, sizeof(line), f) != NULL && kib == 0)
        if (strncmp(line, "VmRSS:", 6) == 0)
            kib = strtoull(line + 6, NULL, 10);
    fclose(f);
    assert_true(kib > 0);
    return kib * 1024;
}

// Checks that neither process uses more than its limit. A build with sanitizers is not
// checked, because the shadow memory and the quarantines of sanitizers also count. The
// scheduler has no --memory here: its buffers have the default limit.
static void check_memory(void)
{
    uint64_t server = resident(server_pid), other = resident(scheduler_pid);
    if (!SANITIZED && (server > ALLOWED + BASE || other > budget_of(0, NULL) + BASE))
        cluster_fail("the server holds %llu MiB, the scheduler %llu",
                     (unsigned long long)(server / MIB),
                     (unsigned long long)(other / MIB));
}

static void start(void)
{
    cluster_start("scheduler", "scheduler --servers 1 --workers 0");
    unsigned port = cluster_port("scheduler");
    snprintf(scheduler, sizeof(scheduler), "127.0.0.1:%u", port);
    cluster_start("server", "server --scheduler %s --memory 256M", scheduler);
    cluster_await("scheduler", "all have joined");
    server_pid = cluster_pid("server");
    scheduler_pid = cluster_pid("scheduler");
}

static void stop(void)
{
    tug_ends(0, "stop --scheduler %s", scheduler);
    cluster_none_left();
}

static struct tug_client *join(void)
{
    struct tug_client *c;
    struct tug_client_options o = {
        .scheduler = scheduler, .guest = true, .wait_seconds = CLUSTER_PATIENCE};
    if (tug_client_open(&c, &o) != 0 ||
        tug_table_create(c, TABLE, "name = wide; dim = 256; rule = sum") != 0) {
        fprintf(stderr, "%s\n", tug_last_error());
        return NULL;
    }
    return c;
}

// A client process sends pulls whose answers take some gigabytes, and stops itself before
// it reads any answer. When it is continued, it checks that all answers come. Returns the
// exit status of the process.
static int ask_and_sleep(void)
{
    static uint64_t keys[KEYS], ts[PULLS];
    static float rows[KEYS * WIDTH];
    struct tug_client *c = join();
    for (uint64_t i = 0; i < KEYS; i++)
        keys[i] = i;
    if (c == NULL || tug_pull(c, TABLE, keys, 8, rows, NULL, NULL, &ts[0]) != 0 ||
        tug_wait(c, ts[0], 0) != 0)
        return 2;
    for (int i = 0; i < PULLS; i++)
        if (tug_pull(c, TABLE, keys, KEYS, rows, NULL, NULL, &ts[i]) != 0)
            return 3;
    // Ends this process if the test fails while the process is stopped.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    raise(SIGSTOP);
    for (int i = 0; i < PULLS; i++)
        if (tug_wait(c, ts[i], 0) != 0) {
            fprintf(stderr, "%s\n", tug_last_error());
            return 4;
        }
    return tug_client_close(c) == 0 ? 0 : 5;
}

// Returns whether the server's buffers are full: `tug status` shows queued answers,
// waiting requests and refused bytes.
static bool is_full(void)
{
    tug_ends(0, "status --json --scheduler %s", scheduler);
    json_t *answer = e2e_json();
    const json_t *loop = json_array_get(json_object_get(answer, "servers"), 0);
    const json_t *memory = json_object_get(loop, "memory");
    assert_int_equal(json_integer_value(json_object_get(memory, "buffers_max")),
                     ALLOWED / 4);
    assert_int_equal(json_integer_value(json_object_get(memory, "rows_max")),
                     ALLOWED - ALLOWED / 4);
    bool full = json_integer_value(json_object_get(memory, "queued")) > 0 &&
                json_integer_value(json_object_get(memory, "held")) > 0 &&
                json_integer_value(json_object_get(memory, "refused")) > 0;
    json_decref(answer);
    return full;
}

// Pushes and pulls a row through another client, and checks that the memory of both
// processes stays within its limit.
static void push_and_pull(struct tug_client *c, float row[WIDTH])
{
    float ones[WIDTH];
    uint64_t key = 1, ts;
    for (int i = 0; i < WIDTH; i++)
        ones[i] = 1;
    for (int n = 0; n < 10; n++) {
        assert_int_equal(tug_push(c, TABLE, &key, 1, ones, NULL, NULL, &ts), 0);
        assert_int_equal(tug_wait(c, ts, 0), 0);
        assert_int_equal(tug_pull(c, TABLE, &key, 1, row, NULL, NULL, &ts), 0);
        assert_int_equal(tug_wait(c, ts, 0), 0);
        check_memory();
    }
}

static void unread_answers(void **state)
{
    (void)state;
    start();
    pid_t child = fork();
    assert_int_not_equal(child, -1);
    if (child == 0)
        _exit(ask_and_sleep());
    int status;
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));
    // While the child is stopped, other clients are served, and the memory stays within
    // its limit.
    struct tug_client *c = join();
    assert_non_null(c);
    float row[WIDTH];
    uint64_t until = clock_ns() + CLUSTER_PATIENCE * SECOND_NS;
    do {
        assert_true(clock_ns() < until);
        push_and_pull(c, row);
    } while (!is_full());
    push_and_pull(c, row);
    assert_true(row[0] != 0);
    assert_int_equal(tug_client_close(c), 0);
    kill(child, SIGCONT);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    check_memory();
    stop();
}

static void server_address(char ret[VAN_ADDRESS_MAX])
{
    tug_ends(0, "status --json --scheduler %s", scheduler);
    json_t *answer = e2e_json(), *node;
    size_t i;
    ret[0] = '\0';
    json_array_foreach(json_object_get(answer, "nodes"), i, node) {
        const char *role = json_string_value(json_object_get(node, "role"));
        const char *address = json_string_value(json_object_get(node, "address"));
        if (strcmp(role, "server") == 0)
            snprintf(ret, VAN_ADDRESS_MAX, "%s", address);
    }
    json_decref(answer);
}

// A member of the cluster opens several links and sends a body on each without finishing
// it.

enum { BODIES = 4 };
#define BODY (160 * MIB)

struct sender {
    struct van *van;
    unsigned opened, answered, closed;
    int code;
};

static void opened(void *ctx, van_link link, bool accepted, uint64_t now)
{
    struct sender *s = ctx;
    struct msg_hello hello = {
        .cluster = node_cluster("tug"), .role = WIRE_TOOL, .version = wire_text("test")};
    (void)accepted, (void)now;
    s->opened++;
    van_send(s->van, link, MSG_HELLO, 0, &hello, NULL);
}

static void answered(void *ctx, van_link link, struct van_message *m, uint64_t now)
{
    struct sender *s = ctx;
    (void)link, (void)now;
    if (m->type != MSG_ERROR || m->request != 5)
        return;
    s->answered++;
    s->code = m->m->error.code;
}

static void nothing(void *ctx)
{
    (void)ctx;
}

static void endless_bodies(void **state)
{
    (void)state;
    start();
    struct err e = {0};
    struct node n;
    struct sender s = {0};
    struct van_handler h = {.ctx = &s, .opened = opened, .message = answered};
    char address[VAN_ADDRESS_MAX];
    server_address(address);
    assert_int_equal(node_open(&n, &(struct node_options){.scheduler = scheduler}, &e),
                     0);
    assert_int_equal(node_van(&n, &s.van, &h, false, &e), 0);
    // The mapping consists of zero pages, which take no memory until they are written.
    void *body = mem_map(BODY);
    assert_non_null(body);
    van_link links[BODIES];
    uint64_t until = clock_ns() + CLUSTER_PATIENCE * SECOND_NS;
    for (int i = 0; i < BODIES; i++)
        links[i] = van_connect(s.van, address, CLUSTER_PATIENCE * SECOND_NS);
    while (s.opened < BODIES && clock_ns() < until)
        assert_int_equal(van_poll(s.van, clock_ns() + SECOND_NS / 10, NULL), 0);
    assert_int_equal(s.opened, BODIES);
    struct msg_push m = {.values = {body, BODY}};
    struct van_release release = {nothing, NULL};
    for (int i = 0; i < BODIES; i++)
        assert_int_equal(van_send(s.van, links[i], MSG_PUSH, 5, &m, &release), 0);
    while (clock_ns() < until) {
        uint64_t left = 0;
        assert_int_equal(van_poll(s.van, clock_ns() + SECOND_NS / 10, NULL), 0);
        check_memory();
        for (int i = 0; i < BODIES; i++)
            left += van_queued(s.van, links[i]);
        if (left == 0 && s.answered == BODIES)
            break;
    }
    assert_int_equal(s.answered, BODIES);
    assert_int_not_equal(s.code, 0);
    van_free(s.van);
    node_close(&n);
    mem_unmap(body, BODY);
    stop();
}

// ------------------------------------------------------------- ten thousand silent peers

static int connect_raw(const char *address)
{
    struct tcp_address a;
    struct sockaddr_storage s;
    if (tcp_address_read(&a, address, NULL) != 0 || !tcp_address_number(&a, &s))
        return -1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&s, sizeof(struct sockaddr_in)) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static void idle_links(void **state)
{
    (void)state;
    struct rlimit was, many;
    char addresses[2][VAN_ADDRESS_MAX];
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    many = was;
    many.rlim_cur = LINKS + 200;
    if (setrlimit(RLIMIT_NOFILE, &many) != 0)
        skip_because("%d descriptors are not allowed here", LINKS + 200);
    start();
    snprintf(addresses[0], VAN_ADDRESS_MAX, "tcp://%s", scheduler);
    server_address(addresses[1]);
    int *fds = mem_array(LINKS, sizeof(*fds));
    assert_non_null(fds);
    for (int i = 0; i < LINKS; i++) {
        fds[i] = connect_raw(addresses[i % 2]);
        assert_true(fds[i] >= 0);
    }
    uint64_t key = 1, ts, began = clock_ns();
    float row[WIDTH];
    struct tug_client *c = join(); // all silent peers are still connected
    assert_non_null(c);
    assert_int_equal(tug_pull(c, TABLE, &key, 1, row, NULL, NULL, &ts), 0);
    assert_int_equal(tug_wait(c, ts, 0), 0);
    print_message("joined and pulled in %.1f s\n",
                  (double)(clock_ns() - began) / (double)SECOND_NS);
    check_memory();
    assert_int_equal(tug_client_close(c), 0);
    tug_ends(0, "status --scheduler %s", scheduler);
    for (int i = 0; i < LINKS; i++)
        close(fds[i]);
    mem_free(fds);
    stop();
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
}

// Peers with a token of a lesser role say hello and then nothing, on as many links as the
// server accepts. A process keeps some descriptors free for later links.

enum { FEW = 64, SITTERS = 200, ROOM = 32 };

static int descriptors(pid_t pid)
{
    static char names[2 * FEW][64];
    return (int)files_list(files_path("/proc/%d/fd", (int)pid), names, 2 * FEW);
}

static void sitter_closed(void *ctx, van_link link, const struct err *why, uint64_t now)
{
    (void)link, (void)why, (void)now;
    ((struct sender *)ctx)->closed++;
}

static void sit(struct node *n, struct sender *s, enum wire_role role, const char *server)
{
    struct err e = {0};
    struct van_handler h = {
        .ctx = s, .opened = opened, .message = answered, .closed = sitter_closed};
    struct node_options o = {.scheduler = scheduler, .role = role};
    assert_int_equal(node_open(n, &o, &e), 0);
    assert_int_equal(node_van(n, &s->van, &h, false, &e), 0);
    for (int i = 0; i < SITTERS; i++) {
        van_connect(s->van, files_path("tcp://%s", scheduler),
                    CLUSTER_PATIENCE * SECOND_NS);
        van_connect(s->van, server, CLUSTER_PATIENCE * SECOND_NS);
    }
    uint64_t until = clock_ns() + CLUSTER_PATIENCE * SECOND_NS;
    while ((s->opened < FEW / 2 || descriptors(scheduler_pid) < FEW - ROOM ||
            descriptors(server_pid) < FEW - ROOM) &&
           clock_ns() < until)
        assert_int_equal(van_poll(s->van, clock_ns() + SECOND_NS / 10, NULL), 0);
    if (clock_ns() >= until)
        cluster_fail("%u links are open; descriptors: %d and %d", s->opened,
                     descriptors(scheduler_pid), descriptors(server_pid));
}

static void kept_out_by(enum wire_role role)
{
    const struct rlimit few = {FEW, FEW};
    char server[VAN_ADDRESS_MAX];
    struct node n;
    struct sender s = {0};
    uint64_t key = 1, ts;
    float row[WIDTH];
    start();
    server_address(server);
    assert_int_equal(prlimit(scheduler_pid, RLIMIT_NOFILE, &few, NULL), 0);
    assert_int_equal(prlimit(server_pid, RLIMIT_NOFILE, &few, NULL), 0);
    sit(&n, &s, role, server);
    tug_ends(0, "status --scheduler %s", scheduler);
    tug_ends(0,
             "table create --table small --settings name=small;accessor=ctr;dim=8 "
             "--scheduler %s",
             scheduler);
    struct tug_client *c = join();
    assert_non_null(c);
    assert_int_equal(tug_pull(c, TABLE, &key, 1, row, NULL, NULL, &ts), 0);
    assert_int_equal(tug_wait(c, ts, 0), 0);
    tug_ends(0, "status --scheduler %s", scheduler);
    assert_int_equal(tug_client_close(c), 0);
    stop();
    van_free(s.van);
    node_close(&n);
}

static void sitting_tools(void **state)
{
    (void)state;
    kept_out_by(WIRE_TOOL);
}

static void sitting_workers(void **state)
{
    (void)state;
    kept_out_by(WIRE_WORKER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_test(unread_answers),  cluster_test(endless_bodies),
        cluster_test(idle_links),      cluster_test(sitting_tools),
        cluster_test(sitting_workers),
    };
    return cmocka_run_group_tests(tests, cluster_begin, cluster_end);
}
