// tug launch on one machine with Unix sockets: several runs of one name, the files that
// killed processes leave, and connections that fall silent while all processes live.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/processes.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define LONG_TRAINING                                                                    \
    "train --data data.svm --format libsvm --epochs 100000 --batch 64 --data-in memory"

static int begin(void **state)
{
    if (cluster_begin(state) != 0)
        return -1;
    e2e_write_data(&(struct e2e_data){.path = "data.svm", .rows = 2000, .seed = 4});
    return 0;
}

// Counts the files with this ending in the runtime directory.
static int count(const char *end)
{
    DIR *d = opendir("tug");
    int n = 0;
    for (const struct dirent *i = d != NULL ? readdir(d) : NULL; i != NULL;
         i = readdir(d)) {
        size_t len = strlen(i->d_name), m = strlen(end);
        n += len > m && strcmp(i->d_name + len - m, end) == 0;
    }
    if (d != NULL)
        closedir(d);
    return n;
}

static void stop(const char *name)
{
    cluster_signal(name, SIGTERM);
    cluster_ends(name, 130, CLUSTER_PATIENCE);
}

static void launch(const char *name, const char *options)
{
    cluster_start(name, "launch --servers 2 --workers 1 %s -- " LONG_TRAINING, options);
    cluster_await(name, "pass 1/100000 done");
}

static void sockets_and_tcp(void **state)
{
    (void)state;
    launch("run", "--cluster both");
    // The sockets of the scheduler and of two servers.
    assert_int_equal(count(".sock"), 3);
    tug_ends(0, "status --cluster both --json");
    json_t *j = e2e_json(), *nodes = json_object_get(j, "nodes");
    size_t i, servers = 0;
    json_t *node;
    json_array_foreach(nodes, i, node) {
        const char *address = json_string_value(json_object_get(node, "address"));
        if (strcmp(json_string_value(json_object_get(node, "role")), "server") != 0)
            continue;
        servers++;
        if (strncmp(address, "unix:///", 8) != 0 ||
            strstr(address, ",tcp://127.0.0.1:") == NULL)
            cluster_fail("a server is at %s", address);
    }
    json_decref(j);
    assert_int_equal(servers, 2);
    stop("run");
    assert_int_equal(count(".sock"), 0);
    assert_int_equal(count(".addr"), 0);
    cluster_none_left();
}

static void tcp_alone(void **state)
{
    (void)state;
    launch("run", "--cluster plain --transport tcp");
    assert_int_equal(count(".sock"), 0);
    tug_ends(0, "status --cluster plain");
    stop("run");
}

// Two runs of the same cluster name do not disturb each other's files.
static void two_of_one_name(void **state)
{
    (void)state;
    launch("first", "--cluster two");
    tug_ends(0, "status --cluster two");
    // The error names all clusters that run, including those of other tests.
    tug_ends(2, "status --cluster three");
    e2e_says("no run of cluster 'three' was launched on this machine");
    e2e_says("'two'");
    e2e_says("--cluster");
    launch("second", "--cluster two");
    tug_ends(2, "status --cluster two");
    e2e_says("2 runs of cluster 'two' were launched on this machine");
    stop("second");
    tug_ends(0, "status --cluster two");
    stop("first");
    tug_ends(2, "status --cluster two");
    e2e_says("no run of cluster 'two' was launched on this machine");
}

static void too_long_a_path(void **state)
{
    (void)state;
    char old[FILES_PATH], deep[FILES_PATH];
    snprintf(old, sizeof(old), "%s", getenv("XDG_RUNTIME_DIR"));
    int n = snprintf(deep, sizeof(deep), "%s/", old);
    memset(deep + n, 'd', 90);
    deep[n + 90] = 0;
    assert_int_equal(mkdir(deep, 0700), 0);
    setenv("XDG_RUNTIME_DIR", deep, 1);
    launch("run", "--cluster deep");
    cluster_await("run", "is reached by TCP only: the path of a socket in");
    tug_ends(0, "status --cluster deep");
    stop("run");
    setenv("XDG_RUNTIME_DIR", old, 1);
}

// All processes of a killed launcher die without removing their files; the next run
// removes these files.
static void files_of_killed_processes(void **state)
{
    (void)state;
    launch("run", "--cluster left");
    cluster_signal("run", SIGKILL);
    cluster_wait("run", CLUSTER_PATIENCE);
    cluster_none_left();
    assert_int_equal(count(".sock"), 3);
    tug_ends(2, "status --cluster left");
    e2e_says("no run of cluster 'left' was launched on this machine");
    assert_int_equal(count(".addr"), 0);
    // Makes the files old, as if the run had been killed long ago.
    DIR *d = opendir("tug");
    assert_non_null(d);
    for (const struct dirent *i = readdir(d); i != NULL; i = readdir(d))
        if (strstr(i->d_name, ".sock") != NULL)
            assert_int_equal(
                utimensat(dirfd(d), i->d_name, (struct timespec[2]){{1, 0}, {1, 0}}, 0),
                0);
    closedir(d);
    launch("run", "--cluster next");
    assert_int_equal(count(".sock"), 3);
    stop("run");
    assert_int_equal(count(".sock"), 0);
}

// A proxy in a thread of the test. On a signal of the test, its existing connections
// carry no more data but stay open; new connections work.

enum { CONNECTIONS = 64 };

struct proxy {
    unsigned port, target;
    int listens;
    int ends[CONNECTIONS][2];
    bool silent[CONNECTIONS];
    int n;
    atomic_bool silence, stop;
    pthread_t thread;
};

static struct sockaddr_in loopback(unsigned port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr = {htonl(INADDR_LOOPBACK)}};
}

static void take(struct proxy *p)
{
    struct sockaddr_in to = loopback(p->target);
    int here = accept4(p->listens, NULL, NULL, SOCK_CLOEXEC);
    int there = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (here >= 0 && there >= 0 && p->n < CONNECTIONS &&
        connect(there, (struct sockaddr *)&to, sizeof(to)) == 0) {
        p->ends[p->n][0] = here;
        p->ends[p->n++][1] = there;
        return;
    }
    close(here);
    close(there);
}

static void carry(struct proxy *p, int connection, int from)
{
    char bytes[1 << 16];
    int *ends = p->ends[connection];
    ssize_t n = read(ends[from], bytes, sizeof(bytes));
    for (ssize_t at = 0; n > 0 && at < n;) {
        ssize_t m = send(ends[!from], bytes + at, (size_t)(n - at), MSG_NOSIGNAL);
        if (m <= 0)
            n = 0;
        at += m > 0 ? m : 0;
    }
    if (n > 0)
        return;
    for (int i = 0; i < 2; i++) {
        close(ends[i]);
        ends[i] = -1;
    }
}

static void *run_proxy(void *arg)
{
    struct proxy *p = arg;
    while (!atomic_load(&p->stop)) {
        struct pollfd fds[1 + 2 * CONNECTIONS] = {{p->listens, POLLIN, 0}};
        if (atomic_exchange(&p->silence, false))
            for (int i = 0; i < p->n; i++)
                p->silent[i] = true;
        int n = p->n;
        for (int i = 0; i < n; i++)
            for (int k = 0; k < 2; k++)
                fds[1 + 2 * i + k] = (struct pollfd){p->silent[i] ? -1 : p->ends[i][k],
                                                     POLLIN, 0};
        if (poll(fds, (nfds_t)(1 + 2 * n), 20) <= 0)
            continue;
        if (fds[0].revents != 0)
            take(p);
        for (int i = 0; i < n; i++)
            for (int k = 0; k < 2; k++)
                if (fds[1 + 2 * i + k].revents != 0 && p->ends[i][k] >= 0)
                    carry(p, i, k);
    }
    return NULL;
}

// Opens the proxy at a port; returns false if the port is in use.
static bool open_proxy_at(struct proxy *p, unsigned port, unsigned target)
{
    *p = (struct proxy){.target = target, .port = port};
    struct sockaddr_in own = loopback(p->port);
    int on = 1;
    p->listens = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(p->listens, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(p->listens, (struct sockaddr *)&own, sizeof(own)) != 0 ||
        listen(p->listens, 16) != 0) {
        close(p->listens);
        return false;
    }
    assert_int_equal(pthread_create(&p->thread, NULL, run_proxy, p), 0);
    return true;
}

static void open_proxy(struct proxy *p, unsigned target)
{
    assert_true(open_proxy_at(p, cluster_free_port(), target));
}

static void close_proxy(struct proxy *p)
{
    atomic_store(&p->stop, true);
    pthread_join(p->thread, NULL);
    for (int i = 0; i < p->n; i++)
        for (int k = 0; k < 2; k++)
            if (p->ends[i][k] >= 0)
                close(p->ends[i][k]);
    close(p->listens);
}

// The worker reaches the scheduler through one proxy and the server through another,
// whose address the server advertises. All links of the worker fall silent at once, also
// its heartbeats; passes continue, and the run finishes.
static void silent_connections(void **state)
{
    (void)state;
    static struct proxy scheduler, server;
    unsigned port = cluster_free_port(), server_port = cluster_free_port();
    open_proxy(&scheduler, port);
    open_proxy(&server, server_port);
    cluster_start("scheduler",
                  "scheduler --insecure --servers 1 --workers 1 --port %u "
                  "--dead-timeout 6 -- " LONG_TRAINING,
                  port);
    cluster_start("server",
                  "server --insecure --scheduler 127.0.0.1:%u --port %u "
                  "--advertise 127.0.0.1:%u",
                  port, server_port, server.port);
    cluster_start("worker",
                  "worker --insecure --scheduler 127.0.0.1:%u -- " LONG_TRAINING,
                  scheduler.port);
    cluster_await("scheduler", "pass 1/100000 done");
    atomic_store(&scheduler.silence, true);
    atomic_store(&server.silence, true);
    double until = cluster_now() + 2 * CLUSTER_PATIENCE, quiet_since = 0;
    size_t length = 0;
    bool was_quiet = false, goes_on = false;
    while (!goes_on && cluster_now() < until) {
        size_t now = 0;
        mem_free(files_read("scheduler.err", &now));
        if (now != length) {
            goes_on = was_quiet;
            length = now;
            quiet_since = cluster_now();
        }
        was_quiet = was_quiet || cluster_now() - quiet_since > 4;
        poll(NULL, 0, 20);
    }
    if (!goes_on)
        cluster_fail("nothing goes on");
    cluster_signal("scheduler", SIGTERM);
    cluster_ends("scheduler", 130, CLUSTER_PATIENCE);
    cluster_wait("worker", CLUSTER_PATIENCE);
    cluster_wait("server", CLUSTER_PATIENCE);
    close_proxy(&scheduler);
    close_proxy(&server);
}

// Returns the first of two consecutive free ports, for the loops of one server.
static unsigned two_free_ports(void)
{
    static struct proxy both[2];
    for (int tries = 0; tries < 100; tries++) {
        unsigned port = cluster_free_port();
        if (port == UINT16_MAX || !open_proxy_at(&both[0], port, 0))
            continue;
        bool two = open_proxy_at(&both[1], port + 1, 0);
        close_proxy(&both[0]);
        if (!two)
            continue;
        close_proxy(&both[1]);
        return port;
    }
    cluster_fail("there are no two free ports beside each other");
    return 0;
}

// All processes reach the scheduler, and the worker reaches each loop of the server,
// through proxies at the advertised addresses; the token is valid on both sides of the
// proxies.
static void advertised_with_a_token(void **state)
{
    (void)state;
    static struct proxy scheduler, loops[2];
    static const char train[] =
        "train --data data.svm --format libsvm --epochs 2 --out advertised";
    unsigned port = cluster_free_port(), server_port = two_free_ports();
    open_proxy(&scheduler, port);
    unsigned told = two_free_ports();
    for (unsigned i = 0; i < 2; i++)
        assert_true(open_proxy_at(&loops[i], told + i, server_port + i));
    cluster_start("scheduler",
                  "scheduler --servers 1 --workers 1 --port %u --advertise 127.0.0.1:%u "
                  "-- %s",
                  port, scheduler.port, train);
    cluster_start("server",
                  "server --scheduler 127.0.0.1:%u --loops 2 --port %u "
                  "--advertise localhost:%u",
                  scheduler.port, server_port, told);
    cluster_start("worker", "worker --scheduler 127.0.0.1:%u -- %s", scheduler.port,
                  train);
    cluster_ends("worker", 0, CLUSTER_PATIENCE);
    cluster_ends("server", 0, CLUSTER_PATIENCE);
    cluster_ends("scheduler", 0, CLUSTER_PATIENCE);
    // A peer that connects before the scheduler has written its token is refused once for
    // that reason.
    if (strstr(e2e_err, "if a proxy is in between") != NULL)
        cluster_fail("a peer was refused because of the proxy");
    assert_true(scheduler.n > 0 && loops[0].n > 0 && loops[1].n > 0);
    close_proxy(&scheduler);
    close_proxy(&loops[0]);
    close_proxy(&loops[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_test(sockets_and_tcp),           cluster_test(tcp_alone),
        cluster_test(two_of_one_name),           cluster_test(too_long_a_path),
        cluster_test(files_of_killed_processes), cluster_test(silent_connections),
        cluster_test(advertised_with_a_token),
    };
    return cmocka_run_group_tests(tests, begin, cluster_end);
}
