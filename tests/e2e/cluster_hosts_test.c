// A cluster on several hosts, which are network namespaces joined by a bridge. Processes
// do not start without certificates; with certificates, training gives the same model as
// on one host; the cluster refuses a peer that has no certificate.
//
// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "cluster/node.h"
#include "kit/processes.h"
#include "wire/wire.h"

enum { ENDS_WITHIN = 20, SCHEDULER_PORT = 9100, SERVER_PORT = 9200 };

// Hosts have the addresses 10.77.0.1 to 10.77.0.4.
enum host { SCHEDULER, SERVER, WORKER, INTRUDER, HOSTS };
static char spaces[HOSTS][32], bridge[32];
// False if this machine has no network namespaces, in which case all tests are skipped.
static bool have_hosts;

#define TLS_OF(name) "--ca keys/ca.pem --cert keys/" name ".pem --key keys/" name ".key"
#define TLS_OF_OTHERS "--ca other/ca.pem --cert other/x.pem --key other/x.key"

// ---------------------------------------------------------------- hosts

static bool ip(const char *words)
{
    return cluster_system("ip %s", words) == 0;
}

static void remove_hosts(void)
{
    for (int i = 0; i < HOSTS; i++)
        ip(files_path("netns del %s", spaces[i]));
    ip(files_path("netns del %s", bridge));
}

static bool make_host(int i)
{
    const char *s = spaces[i];
    return ip(files_path("netns add %s", s)) &&
           ip(files_path("-n %s link set lo up", s)) &&
           ip(files_path("-n %s link add port%d type veth peer name eth0 netns %s",
                         bridge, i, s)) &&
           ip(files_path("-n %s link set port%d master bridge up", bridge, i)) &&
           ip(files_path("-n %s addr add 10.77.0.%d/24 dev eth0", s, i + 1)) &&
           ip(files_path("-n %s link set eth0 up", s));
}

static bool make_hosts(void)
{
    static const char *const places[] = {"/bin/ip", "/sbin/ip", "/usr/bin/ip",
                                         "/usr/sbin/ip"};
    bool found = false;
    for (int i = 0; i < 4; i++)
        found |= access(places[i], X_OK) == 0;
    if (geteuid() != 0 || !found)
        return false;
    bool made = ip(files_path("netns add %s", bridge)) &&
                ip(files_path("-n %s link add bridge type bridge", bridge)) &&
                ip(files_path("-n %s link set bridge up", bridge));
    for (int i = 0; i < HOSTS && made; i++)
        made = make_host(i);
    return made;
}

// ---------------------------------------------------------------- roles

static const char *train(const char *out)
{
    static char words[FILES_PATH];
    files_remove(out);
    snprintf(words, sizeof(words),
             "train --data data.svm --format libsvm --epochs 20 --batch 64 "
             "--data-in memory --mode sync --out %s",
             out);
    return words;
}

static void starts(enum host host, const char *name, const char *words)
{
    cluster_start_in(spaces[host], name, "%s", words);
}

static void fails(enum host host, int code, const char *says, const char *words)
{
    double begin = cluster_now();
    starts(host, "failing", words);
    int ended = cluster_wait("failing", ENDS_WITHIN);
    if (ended != code)
        cluster_fail("%s: exit status %d", words, ended);
    cluster_said("failing", says);
    if (cluster_now() - begin > ENDS_WITHIN / 2)
        cluster_fail("%s: it took %.3g s", words, cluster_now() - begin);
}

// A process that listens on more than loopback needs certificates, unless --insecure
// allows it to go without.
static void certificates_are_wanted(void **state)
{
    (void)state;
    if (!have_hosts)
        skip_because("network namespaces cannot be made: iproute2, and root");
    const char *const roles[] = {
        "scheduler --host 10.77.0.1",
        "server --scheduler 10.77.0.1:9100",
        "worker --scheduler 10.77.0.1:9100 -- train --data data.svm --format libsvm",
    };
    for (int i = 0; i < 3; i++) {
        fails((enum host)i, 2, "tug cert", roles[i]);
        cluster_said("failing", "--insecure");
    }
    fails(SCHEDULER, 2, "--key",
          "scheduler --host 10.77.0.1 --ca keys/ca.pem --cert keys/scheduler.pem");
    fails(SCHEDULER, 3, "nosuch.pem",
          "scheduler --host 10.77.0.1 --ca nosuch.pem --cert keys/scheduler.pem --key "
          "keys/scheduler.key");
}

// Packets to an address are dropped without a reply, as behind a firewall.
static void firewall(void **state)
{
    (void)state;
    if (!have_hosts)
        skip_because("network namespaces cannot be made: iproute2, and root");
    assert_true(ip(files_path(
        "-n %s neigh add 10.77.0.99 lladdr 02:00:00:00:00:99 dev eth0", spaces[SERVER])));
    fails(SERVER, 4, "tcp://10.77.0.99:9100",
          "server --scheduler 10.77.0.99:9100 --connect-timeout 1 --insecure");
    cluster_said("failing", "for 1 s");
}

// A process of the intruder's host sends a hello in plain TCP; the answer must not be
// tug's protocol.
static void say_hello_plainly(const char *address, int port)
{
    struct wire_out o = WIRE_OUT_INIT;
    struct msg_hello h = {.cluster = node_cluster("tug"), .role = WIRE_TOOL};
    assert_int_equal(wire_encode(&o, MSG_HELLO, 1, &h, false), 0);
    const char *space = files_path("/var/run/netns/%s", spaces[INTRUDER]);
    pid_t pid = fork();
    if (pid == 0) {
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
        char got[4096] = "";
        struct timeval limit = {.tv_sec = ENDS_WITHIN};
        inet_pton(AF_INET, address, &a.sin_addr);
        int net = open(space, O_RDONLY | O_CLOEXEC);
        if (net < 0 || setns(net, CLONE_NEWNET) != 0)
            _exit(10);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
        if (connect(fd, (struct sockaddr *)&a, sizeof(a)) != 0)
            _exit(11);
        send(fd, o.head.data, o.head.len, MSG_NOSIGNAL);
        // recv() returns when the peer closes the link.
        ssize_t n = recv(fd, got, sizeof(got), MSG_WAITALL);
        if (n < 0 && errno != ECONNRESET)
            _exit(12); // the link was still open
        _exit(n >= 3 && memcmp(got, "TUG", 3) == 0 ? 13 : 0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    buf_free(&o.head);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        cluster_fail("a plain hello to %s:%d: %d", address, port, WEXITSTATUS(status));
}

// Checks that the intruder's process ends soon, and that the cluster has sent it no
// information.
static void is_shut_out(const char *words)
{
    starts(INTRUDER, "intruder", words);
    int code = cluster_wait("intruder", ENDS_WITHIN);
    if (code < 2 || code > 4)
        cluster_fail("%s: exit status %d", words, code);
    cluster_said("intruder", "10.77.0.");
    assert_int_equal(e2e_out[0], 0);
}

static void intrude(void)
{
    const char *const identities[] = {"--insecure", TLS_OF_OTHERS};
    for (int i = 0; i < 2; i++) {
        const char *who = identities[i];
        is_shut_out(
            files_path("server --scheduler 10.77.0.1:9100 --connect-timeout 1 %s", who));
        is_shut_out(
            files_path("status --scheduler 10.77.0.1:9100 --connect-timeout 1 %s", who));
        is_shut_out(
            files_path("status --scheduler 10.77.0.2:9200 --connect-timeout 1 %s", who));
    }
    say_hello_plainly("10.77.0.1", SCHEDULER_PORT);
    say_hello_plainly("10.77.0.2", SERVER_PORT);
}

static void trains_with_tls(void **state)
{
    (void)state;
    if (!have_hosts)
        skip_because("network namespaces cannot be made: iproute2, and root");
    const char *words = train("many");
    cluster_start_in(spaces[SCHEDULER], "scheduler",
                     "scheduler --workers 2 --host 10.77.0.1 --port %d %s -- %s",
                     SCHEDULER_PORT, TLS_OF("scheduler"), words);
    cluster_await("scheduler", "at tcp://10.77.0.1:9100");
    cluster_start_in(spaces[SERVER], "server",
                     "server --scheduler 10.77.0.1:9100 --port %d %s", SERVER_PORT,
                     TLS_OF("server"));
    cluster_start_in(spaces[WORKER], "worker0",
                     "worker --scheduler 10.77.0.1:9100 %s -- %s", TLS_OF("worker"),
                     words);
    cluster_node("scheduler", "server 0");
    cluster_node("scheduler", "worker 0");
    intrude(); // while the cluster waits for its second worker
    cluster_start_in(spaces[WORKER], "worker1",
                     "worker --scheduler 10.77.0.1:9100 %s -- %s", TLS_OF("worker"),
                     words);
    cluster_await("scheduler", "all have joined");
    // An intruder greets without TLS while the cluster trains.
    say_hello_plainly("10.77.0.1", SCHEDULER_PORT);
    say_hello_plainly("10.77.0.2", SERVER_PORT);
    cluster_ends("scheduler", 0, CLUSTER_PATIENCE);
    cluster_ends("server", 0, CLUSTER_PATIENCE);
    cluster_ends("worker0", 0, CLUSTER_PATIENCE);
    cluster_ends("worker1", 0, CLUSTER_PATIENCE);
    cluster_same_parts("truth", "many");
}

// With --insecure, the cluster trains without certificates and warns the user.
static void trains_insecurely(void **state)
{
    (void)state;
    if (!have_hosts)
        skip_because("network namespaces cannot be made: iproute2, and root");
    const char *words = train("many");
    starts(SCHEDULER, "scheduler",
           files_path("scheduler --host 10.77.0.1 --port 9100 --insecure -- %s", words));
    starts(SERVER, "server", "server --scheduler 10.77.0.1:9100 --insecure");
    starts(WORKER, "worker",
           files_path("worker --scheduler 10.77.0.1:9100 --insecure -- %s", words));
    cluster_ends("scheduler", 0, CLUSTER_PATIENCE);
    cluster_ends("server", 0, CLUSTER_PATIENCE);
    cluster_ends("worker", 0, CLUSTER_PATIENCE);
    cluster_same_parts("truth", "many");
}

static void make_keys(void)
{
    static const char *const names[] = {"scheduler", "server", "worker"};
    tug_ends(0, "cert ca --dir keys");
    for (int i = 0; i < 3; i++)
        tug_ends(0, "cert node --dir keys --name %s", names[i]);
    tug_ends(0, "cert ca --dir other");
    tug_ends(0, "cert node --dir other --name x");
}

static int begin(void **state)
{
    if (cluster_begin(state) != 0)
        return -1;
    for (int i = 0; i < HOSTS; i++)
        snprintf(spaces[i], sizeof(spaces[i]), "tug-%d-%d", (int)getpid(), i);
    snprintf(bridge, sizeof(bridge), "tug-%d-net", (int)getpid());
    have_hosts = make_hosts();
    if (!have_hosts)
        return 0;
    make_keys();
    tug_ends(0, "synth --rows 2000 --format libsvm --out data.svm");
    tug_ends(0, "%s --deterministic", train("truth"));
    return 0;
}

static int end(void **state)
{
    if (have_hosts)
        remove_hosts();
    return cluster_end(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_test(certificates_are_wanted),
        cluster_test(firewall),
        cluster_test(trains_with_tls),
        cluster_test(trains_insecurely),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
