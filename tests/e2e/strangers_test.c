// Untrusted processes on the machine: one without the cluster's token, one with a wrong
// token or that of a lesser role, and another account. Processes of the user find each
// other without options.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/processes.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "cluster/node.h"
#include "os/clock.h"
#include "wire/wire.h"

static unsigned port;

// Starts a scheduler and a server of this user.
static void begin_cluster(void)
{
    unsetenv("TUG_TOKEN"); // a test that failed may have set it
    setenv("XDG_RUNTIME_DIR", files_dir, 1);
    cluster_start("scheduler", "scheduler --workers 0");
    port = cluster_port("scheduler");
    cluster_start("server", "server --scheduler 127.0.0.1:%u", port);
    cluster_await("scheduler", "all have joined");
}

static void end_cluster(void)
{
    tug_ends(0, "stop --scheduler 127.0.0.1:%u", port);
    cluster_ends("scheduler", 130, CLUSTER_PATIENCE);
    cluster_ends("server", 130, CLUSTER_PATIENCE);
}

static void is_refused(const char *words, const char *why)
{
    int code = tug("%s --scheduler 127.0.0.1:%u --connect-timeout 10", words, port);
    if (code != 2 && code != 4)
        cluster_fail("%s: exit status %d", words, code);
    e2e_says(why);
}

// Commands have another runtime directory, like those of another user, so they do not
// find the token.
static void without_token(void **state)
{
    (void)state;
    begin_cluster();
    tug_ends(0, "status --scheduler 127.0.0.1:%u", port);
    assert_int_equal(mkdir("elsewhere", 0700), 0);
    setenv("XDG_RUNTIME_DIR", files_path("%s/elsewhere", files_dir), 1);
    is_refused("status", "requires the cluster's token");
    e2e_says("TUG_TOKEN");
    is_refused("stop", "requires the cluster's token");
    is_refused("status --insecure", "requires the cluster's token");
    setenv("TUG_TOKEN",
           "operator:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
           1);
    is_refused("status", "does not know the cluster's token");
    setenv("TUG_TOKEN", "operator:0011", 1);
    is_refused("status", "ROLE:HEX");
    unsetenv("TUG_TOKEN");
    setenv("XDG_RUNTIME_DIR", files_dir, 1);
    cluster_await("scheduler", "refused: tcp://127.0.0.1");
    cluster_await("scheduler", "requires the cluster's token");
    end_cluster();
}

static void token_of(const char *role, char to[128])
{
    tug_ends(0, "cert token --port %u --role %s", port, role);
    snprintf(to, 128, "%s", e2e_out);
    to[strcspn(to, "\n")] = 0;
}

// Commands with the token of a role may do what this role may do, and nothing more.
static void lesser_tokens(void **state)
{
    char tool[128], worker[128], operator[128];
    (void)state;
    begin_cluster();
    token_of("tool", tool);
    token_of("worker", worker);
    token_of("operator", operator);
    assert_int_equal(strncmp(tool, "tool:", 5), 0);
    setenv("XDG_RUNTIME_DIR", files_path("%s/none", files_dir), 1);
    setenv("TUG_TOKEN", tool, 1);
    tug_ends(0, "status --scheduler 127.0.0.1:%u", port);
    is_refused(
        "stop",
        "stop needs the role 'operator'; the sender's certificate or token has 'tool'");
    setenv("TUG_TOKEN", worker, 1);
    tug_ends(0, "status --scheduler 127.0.0.1:%u", port);
    is_refused(
        "stop",
        "stop needs the role 'operator'; the sender's certificate or token has 'worker'");
    is_refused("profile start", "profile needs the role 'operator'; the sender's "
                                "certificate or token has 'worker'");
    setenv("TUG_TOKEN", operator, 1);
    setenv("XDG_RUNTIME_DIR", files_dir, 1);
    tug_ends(0, "profile start --scheduler 127.0.0.1:%u", port);
    cluster_await("scheduler",
                  "operation: start profiling, by a tool (operator) at tcp://");
    unsetenv("TUG_TOKEN");
    end_cluster();
    cluster_said("scheduler",
                 "operation: stop, by a tool (operator) at tcp://127.0.0.1:");
}

// A worker that starts before the scheduler has made the token waits for the token.
static void any_order(void **state)
{
    (void)state;
    unsetenv("TUG_TOKEN");
    setenv("XDG_RUNTIME_DIR", files_dir, 1);
    port = cluster_free_port();
    cluster_start("server", "server --scheduler 127.0.0.1:%u", port);
    cluster_start("scheduler", "scheduler --workers 0 --port %u", port);
    cluster_await("scheduler", "all have joined");
    struct stat st;
    const char *path = files_path("%s/tug/tug@%u.token", files_dir, port);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    end_cluster();
    // The scheduler removes its token when it ends.
    assert_int_not_equal(stat(path, &st), 0);
}

// A killed scheduler has left its token; the next scheduler at the port replaces it.
static void stale_token(void **state)
{
    (void)state;
    begin_cluster();
    cluster_signal("scheduler", SIGKILL);
    cluster_signal("server", SIGKILL);
    cluster_wait("scheduler", CLUSTER_PATIENCE);
    cluster_wait("server", CLUSTER_PATIENCE);
    cluster_start("server", "server --scheduler 127.0.0.1:%u", port);
    cluster_start("scheduler", "scheduler --workers 0 --port %u", port);
    cluster_await("scheduler", "all have joined");
    end_cluster();
}

// A worker that took the scheduler's port has a certificate of the cluster, but not one
// for a scheduler: every command refuses it.
static void another_role_at_the_port(void **state)
{
    static const char *const words[] = {"status", "stop", "doctor", "profile start",
                                        "table stat"};
    static const char tls[] = "--ca keys/ca.pem --cert keys/%s.pem --key keys/%s.key";
    char thief[256], mine[256];
    (void)state;
    unsetenv("TUG_TOKEN");
    setenv("XDG_RUNTIME_DIR", files_dir, 1);
    tug_ends(0, "cert ca --dir keys");
    tug_ends(0, "cert node --dir keys --name worker --role worker");
    tug_ends(0, "cert node --dir keys --name operator --role operator");
    snprintf(thief, sizeof(thief), tls, "worker", "worker");
    snprintf(mine, sizeof(mine), tls, "operator", "operator");
    cluster_start("scheduler", "scheduler --workers 0 %s", thief);
    port = cluster_port("scheduler");
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
        tug_ends(4, "%s --scheduler 127.0.0.1:%u --connect-timeout 10 %s", words[i], port,
                 mine);
        e2e_says("cannot prove that it is a scheduler of the cluster");
    }
    cluster_signal("scheduler", SIGTERM);
    cluster_wait("scheduler", CLUSTER_PATIENCE);
}

// An impostor: a worker at the scheduler's port, on a thread, that sends an order before
// it greets.
static struct {
    uint16_t orders;
    struct node node;
    struct van *van;
    atomic_bool stop;
    pthread_t thread;
} impostor;

static void impostor_message(void *ctx, van_link link, struct van_message *m,
                             uint64_t now)
{
    union wire_any order = {0};
    struct msg_welcome w = {.role = WIRE_SCHEDULER, .node = 1, .version = wire_text("1")};
    (void)ctx, (void)now;
    if (m->type != MSG_HELLO)
        return;
    if (impostor.orders == MSG_ROSTER)
        order.roster.version = UINT64_MAX;
    (void)van_send(impostor.van, link, impostor.orders, 0, &order, NULL);
    (void)van_send(impostor.van, link, MSG_WELCOME, 0, &w, NULL);
}

static uint64_t impostor_tick(void *ctx, uint64_t now)
{
    (void)ctx, (void)now;
    return VAN_NEVER;
}

static void *impostor_run(void *arg)
{
    (void)arg;
    while (!atomic_load(&impostor.stop) &&
           van_poll(impostor.van, van_now(impostor.van) + SECOND_NS, NULL) == 0)
        ;
    return NULL;
}

static void impostor_open(uint16_t orders)
{
    struct node_options o = {.port = (uint16_t)port,
                             .ca = "certs/ca.pem",
                             .cert = "certs/worker.pem",
                             .key = "certs/worker.key"};
    struct van_handler h = {.message = impostor_message, .tick = impostor_tick};
    char address[VAN_ADDRESS_MAX];
    struct err e;
    memset(&impostor, 0, sizeof(impostor));
    impostor.orders = orders;
    if (node_open(&impostor.node, &o, &e) != 0 ||
        node_van(&impostor.node, &impostor.van, &h, false, &e) != 0 ||
        node_listen(&impostor.node, impostor.van, 0, address, &e) != 0)
        cluster_fail("%s", e.text);
    assert_int_equal(pthread_create(&impostor.thread, NULL, impostor_run, NULL), 0);
}

static void impostor_close(void)
{
    atomic_store(&impostor.stop, true);
    van_wake(impostor.van);
    pthread_join(impostor.thread, NULL);
    van_free(impostor.van);
    node_close(&impostor.node);
}

// The server's scheduler is dead, and an impostor on its port sends STOP, or an
// impossible roster, before it has proven anything: the server does not obey, and ends
// because the proof is missing.
static void orders_before_it_greets(void **state)
{
    static const uint16_t orders[] = {MSG_STOP, MSG_ROSTER};
    static const char tls[] = "--ca certs/ca.pem --cert certs/%s.pem --key certs/%s.key";
    char keys[2][256];
    (void)state;
    unsetenv("TUG_TOKEN");
    setenv("XDG_RUNTIME_DIR", files_dir, 1);
    tug_ends(0, "cert ca --dir certs");
    tug_ends(0, "cert node --dir certs --name scheduler --role scheduler");
    tug_ends(0, "cert node --dir certs --name server --role server");
    tug_ends(0, "cert node --dir certs --name worker --role worker");
    snprintf(keys[0], sizeof(keys[0]), tls, "scheduler", "scheduler");
    snprintf(keys[1], sizeof(keys[1]), tls, "server", "server");
    for (size_t i = 0; i < sizeof(orders) / sizeof(*orders); i++) {
        cluster_start("scheduler", "scheduler --workers 0 %s", keys[0]);
        port = cluster_port("scheduler");
        cluster_start("server", "server --scheduler 127.0.0.1:%u %s", port, keys[1]);
        cluster_await("scheduler", "all have joined");
        cluster_signal("scheduler", SIGKILL);
        cluster_wait("scheduler", CLUSTER_PATIENCE);
        impostor_open(orders[i]);
        cluster_ends("server", 4, CLUSTER_PATIENCE);
        cluster_said("server", "cannot prove that it is a scheduler of the cluster");
        impostor_close();
    }
}

// Copies the command to a place where the other account can run it. Returns false if that
// is impossible, or if this process cannot become that user.
static bool other_account(const char **ret_words)
{
    static char words[2 * FILES_PATH];
    const char *as = "/usr/bin/setpriv --reuid=65534 --regid=65534 --clear-groups";
    if (geteuid() != 0 || access("/usr/bin/setpriv", X_OK) != 0 ||
        cluster_system("cp %s tug-of-all", getenv("TUG_BINARY")) != 0)
        return false;
    chmod("tug-of-all", 0755);
    chmod(files_dir, 0711);
    snprintf(words, sizeof(words), "%s %s/tug-of-all", as, files_dir);
    *ret_words = words;
    return cluster_system("%s version", words) == 0;
}

// Another account of the machine is refused, although it reaches the port and knows all
// paths.
static void another_account(void **state)
{
    const char *other;
    (void)state;
    if (!other_account(&other))
        skip_because("not root with setpriv, who can become another user");
    begin_cluster();
    int code = cluster_system("%s status --scheduler 127.0.0.1:%u --connect-timeout 10",
                              other, port);
    assert_true(code == 2 || code == 4);
    cluster_said("system", "requires the cluster's token");
    chmod(files_dir, 0700);
    end_cluster();
}

// Another account is refused even if it may write to the scheduler's Unix socket.
static void another_account_at_a_socket(void **state)
{
    const char *other;
    (void)state;
    if (!other_account(&other))
        skip_because("not root with setpriv, who can become another user");
    const char *address = files_path("unix://%s/s.sock", files_dir);
    cluster_start("scheduler", "scheduler --workers 0 --host %s", address);
    cluster_await("scheduler", "waiting for");
    tug_ends(0, "status --scheduler %s", address);
    chmod("s.sock", 0666);
    assert_int_not_equal(
        cluster_system("%s status --scheduler %s --connect-timeout 10", other, address),
        0);
    chmod(files_dir, 0700);
    cluster_signal("scheduler", SIGTERM);
    cluster_wait("scheduler", CLUSTER_PATIENCE);
    cluster_said("scheduler", "belongs to another user");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_test(without_token),
        cluster_test(lesser_tokens),
        cluster_test(any_order),
        cluster_test(stale_token),
        cluster_test(another_account),
        cluster_test(another_account_at_a_socket),
        cluster_test(another_role_at_the_port),
        cluster_test(orders_before_it_greets),
    };
    return cmocka_run_group_tests(tests, cluster_begin, cluster_end);
}
