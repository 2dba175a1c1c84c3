// Starts clusters when something is wrong: the error is one sentence, the exit status
// fits, and no process waits for ever.
//
// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <sys/socket.h>

#include "kit/processes.h"

enum { ENDS_WITHIN = 20 }; // seconds; the processes get deadlines of 1 or 2 seconds

static const char *words(const char *more)
{
    return files_path("train --data data.svm --format libsvm --epochs 2 --batch 64 "
                      "--data-in memory %s",
                      more);
}

// Opens a listening socket on a port of loopback. If `backlog` leaves no room, a
// connection to it hangs, as behind a firewall.
static int occupy(unsigned *ret_port, int backlog)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001)};
    socklen_t n = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, n), 0);
    assert_int_equal(listen(fd, backlog), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &n), 0);
    *ret_port = ntohs(a.sin_port);
    return fd;
}

static void fails(int code, const char *role_words, const char *says, const char *also)
{
    double begin = cluster_now();
    cluster_start("role", "%s", role_words);
    cluster_ends("role", code, ENDS_WITHIN);
    cluster_said("role", says);
    if (also != NULL)
        cluster_said("role", also);
    if (cluster_now() - begin > ENDS_WITHIN / 2)
        cluster_fail("it took %.3g s", cluster_now() - begin);
}

// ---------------------------------------------------------------- reaching the scheduler

static void scheduler_last(void **state)
{
    (void)state;
    unsigned port = cluster_free_port();
    cluster_start("server", "server --scheduler 127.0.0.1:%u", port);
    cluster_start("worker", "worker --scheduler 127.0.0.1:%u -- %s", port, words(""));
    cluster_start("late", "scheduler --port %u -- %s", port, words("--json"));
    cluster_ends("late", 0, CLUSTER_PATIENCE);
    assert_true(e2e_number("examples") == 2000);
    cluster_ends("server", 0, ENDS_WITHIN);
    cluster_ends("worker", 0, ENDS_WITHIN);
}

// A process that cannot reach the scheduler logs, soon and only once, that it waits for
// the scheduler.
static void waiting_is_told(void **state)
{
    (void)state;
    unsigned port = cluster_free_port();
    const char *says = "waiting up to 50 s for ";
    const struct {
        const char *name, *words;
    } cases[] = {
        {"server",
         files_path("server --loops 3 --connect-timeout 50 --scheduler 127.0.0.1:%u",
                    port)},
        {"worker",
         files_path("worker --connect-timeout 50 --scheduler 127.0.0.1:%u -- %s "
                    "--threads 3",
                    port, words(""))},
        {"status",
         files_path("status --connect-timeout 50 --scheduler 127.0.0.1:%u", port)},
        {"trainer",
         files_path("train --data data.svm --format libsvm --local=0 --trainer_id=0 "
                    "--connect-timeout 50 --num_gradient_servers=1 --port=%u "
                    "--pservers=127.0.0.1",
                    port)},
    };
    enum { CASES = sizeof(cases) / sizeof(*cases) };
    for (size_t i = 0; i < CASES; i++)
        cluster_start(cases[i].name, "%s", cases[i].words);
    for (size_t i = 0; i < CASES; i++) {
        cluster_await(cases[i].name, says);
        cluster_signal(cases[i].name, SIGINT);
        (void)cluster_wait(cases[i].name, CLUSTER_PATIENCE);
        const char *first = strstr(e2e_err, says);
        assert_non_null(first);
        assert_null(strstr(first + 1, says));
    }
}

// A worker that has reached the scheduler logs that the cluster is not complete.
static void others_are_awaited(void **state)
{
    (void)state;
    unsigned port = cluster_free_port();
    cluster_start("scheduler", "scheduler --port %u --servers 1 --workers 1 -- %s", port,
                  words(""));
    cluster_start("worker", "worker --scheduler 127.0.0.1:%u -- %s --threads 3", port,
                  words(""));
    const char *says = "still waits for servers or workers";
    cluster_await("worker", says);
    cluster_start("server", "server --scheduler 127.0.0.1:%u", port);
    cluster_ends("worker", 0, CLUSTER_PATIENCE);
    const char *first = strstr(e2e_err, says);
    assert_non_null(first);
    assert_null(strstr(first + 1, says));
    cluster_ends("server", 0, CLUSTER_PATIENCE);
    cluster_ends("scheduler", 0, CLUSTER_PATIENCE);
}

static void scheduler_never(void **state)
{
    (void)state;
    unsigned port = cluster_free_port();
    const char *address = files_path("tcp://127.0.0.1:%u", port);
    fails(4, files_path("server --connect-timeout 1 --scheduler 127.0.0.1:%u", port),
          address, "for 1 s");
    fails(4,
          files_path("worker --connect-timeout 1 --scheduler 127.0.0.1:%u -- %s", port,
                     words("")),
          address, "connection refused");
}

static void scheduler_unknown(void **state)
{
    (void)state;
    fails(4, "server --connect-timeout 1 --scheduler nosuch.invalid:9100",
          "'nosuch.invalid' cannot be found", NULL);
    fails(2, "server --scheduler 127.0.0.1", "'127.0.0.1'", "HOST:PORT");
    fails(2, "server --scheduler 127.0.0.1:99999", "127.0.0.1:99999", NULL);
    fails(2, "server", "--scheduler HOST:PORT", NULL);
}

// A process listens at the scheduler's port, and sends nothing or does not even accept
// the connection.
static void scheduler_silent(void **state)
{
    (void)state;
    unsigned port;
    int fd = occupy(&port, 8);
    fails(4, files_path("server --connect-timeout 1 --scheduler 127.0.0.1:%u", port),
          files_path("tcp://127.0.0.1:%u", port), "does not answer");
    close(fd);

    fd = occupy(&port, 0);
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)port),
                            .sin_addr.s_addr = htonl(0x7f000001)};
    int fill = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fill, (struct sockaddr *)&a, sizeof(a)), 0);
    fails(4, files_path("server --connect-timeout 1 --scheduler 127.0.0.1:%u", port),
          files_path("tcp://127.0.0.1:%u", port), NULL);
    close(fill);
    close(fd);
}

static void port_taken(void **state)
{
    (void)state;
    unsigned port;
    int fd = occupy(&port, 8);
    const char *address = files_path("tcp://127.0.0.1:%u", port);
    fails(4, files_path("scheduler --port %u", port), address, "choose another port");
    fails(4, files_path("launch --port %u -- %s", port, words("")), address,
          "choose another port");
    cluster_none_left();
    close(fd);
}

// ---------------------------------------------------------------- nodes that are refused

static void too_few(void **state)
{
    (void)state;
    cluster_start("scheduler", "scheduler --servers 2 --workers 2 --gather-timeout 2");
    unsigned port = cluster_port("scheduler");
    cluster_start("server", "server --scheduler 127.0.0.1:%u", port);
    cluster_start("worker", "worker --scheduler 127.0.0.1:%u -- %s", port, words(""));
    cluster_node("scheduler", "server 0");
    cluster_node("scheduler", "worker 0");
    cluster_ends("scheduler", 4, ENDS_WITHIN);
    cluster_said("scheduler", "missing server 1, worker 1");
    cluster_ends("server", 4, ENDS_WITHIN);
    cluster_said("server", "missing server 1, worker 1");
    cluster_ends("worker", 4, ENDS_WITHIN);
}

// Two clusters were given the same port: the server of the second cluster gets an error.
static void other_cluster(void **state)
{
    (void)state;
    cluster_start("scheduler", "scheduler --cluster blue --gather-timeout 4 -- %s",
                  words(""));
    unsigned port = cluster_port("scheduler");
    cluster_start("worker",
                  "worker --cluster red --connect-timeout 2 --scheduler 127.0.0.1:%u "
                  "-- %s",
                  port, words(""));
    int code = cluster_wait("worker", ENDS_WITHIN);
    assert_in_range(code, 2, 4);
    cluster_said("worker", "cluster");
    cluster_start("server", "server --cluster blue --scheduler 127.0.0.1:%u", port);
    cluster_start("own", "worker --cluster blue --scheduler 127.0.0.1:%u -- %s", port,
                  words(""));
    cluster_ends("scheduler", 0, CLUSTER_PATIENCE); // the first cluster was not disturbed
    cluster_ends("own", 0, ENDS_WITHIN);
    cluster_ends("server", 0, ENDS_WITHIN);
}

static void different_worker(const char *other_words, const char *says)
{
    cluster_start("scheduler", "scheduler --workers 2 -- %s", words(""));
    unsigned port = cluster_port("scheduler");
    cluster_start("server", "server --scheduler 127.0.0.1:%u", port);
    cluster_start("worker", "worker --scheduler 127.0.0.1:%u -- %s", port, words(""));
    cluster_start("other", "worker --scheduler 127.0.0.1:%u -- %s", port, other_words);
    int code = cluster_wait("scheduler", ENDS_WITHIN);
    if (code != 2 && code != 3)
        cluster_fail("exit status %d", code);
    cluster_said("scheduler", says);
    cluster_wait("other", ENDS_WITHIN);
    cluster_wait("worker", ENDS_WITHIN);
    cluster_wait("server", ENDS_WITHIN);
}

static void workers_that_differ(void **state)
{
    (void)state;
    different_worker(words("--data short.svm"), "must read the same data");
    different_worker("train --data short.svm --format libsvm --epochs 2 --batch 64 "
                     "--data-in memory",
                     "short.svm");
    different_worker(words("--lr 0.5"), "the run was started with --lr 0.1, this process "
                                        "0.5");
    different_worker(words("--batch 32"), "--batch 64, this process 32: give all of its "
                                          "processes the same options");
}

// A worker whose --slots differ would read other features: it is refused.
static void slots_that_differ(void **state)
{
    (void)state;
#define SLOTS(slots)                                                                     \
    "train --data slots.txt --format multislot --model lr --epochs 1 --slots " slots
    files_write("slots.txt", "1 1 1 7 1 8\n1 0 1 9 1 8\n");
    cluster_start("scheduler", "scheduler --workers 1 -- " SLOTS("y:label,a:ids,b:ids"));
    unsigned port = cluster_port("scheduler");
    cluster_start("server", "server --scheduler 127.0.0.1:%u", port);
    cluster_start("worker",
                  "worker --scheduler 127.0.0.1:%u -- " SLOTS("y:label,b:ids,a:ids"),
                  port);
    cluster_ends("worker", 2, ENDS_WITHIN);
    cluster_said("worker", "the run was started with --slots 'y:label,a:ids,b:ids', this "
                           "process 'y:label,b:ids,a:ids'");
    cluster_ends("scheduler", 2, ENDS_WITHIN);
    cluster_wait("server", ENDS_WITHIN);
}

// All workers have the same options, and the driver has different ones.
static void driver_that_differs(void **state)
{
    (void)state;
    cluster_start("scheduler", "scheduler --workers 1 -- %s", words("--epochs 7"));
    unsigned port = cluster_port("scheduler");
    cluster_start("server", "server --scheduler 127.0.0.1:%u", port);
    cluster_start("worker", "worker --scheduler 127.0.0.1:%u -- %s", port, words(""));
    cluster_ends("worker", 2, ENDS_WITHIN);
    cluster_said("worker", "the run was started with --epochs 7, this process ");
    cluster_ends("scheduler", 2, ENDS_WITHIN);
    cluster_wait("server", ENDS_WITHIN);
}

// ---------------------------------------------------------------- wrong options and data

static void bad_words(void **state)
{
    (void)state;
    static const char *const bad[] = {"--epochs x", "--mode ssp", "--nosuch 1",
                                      "--mode geo:0 --epochs 0"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        cluster_start("run", "launch --workers 2 -- %s", words(bad[i]));
        cluster_ends("run", 2, 5);
        cluster_none_left();
    }
    fails(2, "launch --workers 2 --nosuch 1 -- train", "--nosuch", NULL);
    fails(2, "launch --servers 0 -- train", "--servers", NULL);
    fails(2, "launch --workers 2 -- eval --from x",
          "'tug eval' cannot be launched on a cluster", NULL);
    fails(2, "launch --workers 2", "tug launch", "--");
    fails(2, "launch --workers 2 -- train --data - --format libsvm", "standard input",
          NULL);
    fails(2, files_path("launch --workers 2 -- %s", words("--average 9 --table dim=2")),
          "--average", "whose rows come and go");
    fails(2, files_path("launch -- %s", words("--mode sync --in-flight 2")),
          "--in-flight", "in sync mode");
    fails(2, files_path("launch -- %s", words("--mode half-async --reduce mean")),
          "--reduce mean", "needs --deterministic");
    fails(2, files_path("launch -- %s", words("--dense-staleness 0")),
          "--dense-staleness", "a model with layers");
    fails(2, files_path("launch --workers 17 -- %s", words("--mode sync")),
          "16 workers cannot share", NULL);
    fails(2, files_path("worker --scheduler 127.0.0.1:1 -- %s", words("--nosuch 1")),
          "--nosuch", NULL);
    cluster_none_left();
}

static void bad_data(void **state)
{
    (void)state;
    fails(3, "launch --workers 2 -- train --data nosuch.svm --format libsvm",
          "nosuch.svm", "no such file");
    fails(3, "launch --workers 2 -- train --data bad.svm --format libsvm",
          "bad.svm:2001: index 'xx'", NULL);
    fails(3, "launch --workers 2 -- train --data bad.svm --format libsvm --mode sync",
          "bad.svm:2001: index 'xx'", NULL);
    fails(3, "launch -- train --data empty.svm --format libsvm", "empty.svm", NULL);
    cluster_none_left();
    cluster_start("run", "launch --workers 2 -- train --data bad.svm --format libsvm "
                         "--max-bad-lines 1 --epochs 1 --json");
    cluster_ends("run", 0, ENDS_WITHIN);
    assert_true(e2e_number("skipped_lines") == 1);
    assert_true(e2e_number("examples") == 2000);
}

static void write_files(void)
{
    tug_ends(0, "synth --rows 2000 --format libsvm --out data.svm");
    tug_ends(0, "synth --rows 1000 --format libsvm --out short.svm");
    size_t n;
    char *text = files_read("data.svm", &n);
    char *bad = mem_alloc(n + 16);
    assert_non_null(text);
    assert_non_null(bad);
    memcpy(bad, text, n);
    memcpy(bad + n, "1 xx:1\n", 7);
    files_write_bytes("bad.svm", bad, n + 7);
    files_write("empty.svm", "");
    mem_free(bad);
    mem_free(text);
}

static int begin(void **state)
{
    if (cluster_begin(state) != 0)
        return -1;
    write_files();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_test(waiting_is_told),     cluster_test(others_are_awaited),
        cluster_test(scheduler_last),      cluster_test(scheduler_never),
        cluster_test(scheduler_unknown),   cluster_test(scheduler_silent),
        cluster_test(port_taken),          cluster_test(too_few),
        cluster_test(other_cluster),       cluster_test(bad_words),
        cluster_test(workers_that_differ), cluster_test(slots_that_differ),
        cluster_test(driver_that_differs), cluster_test(bad_data),
    };
    return cmocka_run_group_tests(tests, begin, cluster_end);
}
