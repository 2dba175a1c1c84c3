// A scheduler with --state is killed twenty times in one run, and started again each
// time: two servers with the default store and two workers, as real processes of a program
// on tug/kvapp.h, go on. The values are exact, with barriers between all pushes and
// without.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "kit/nodes.h"
#include "kit/processes.h"

enum { STORE = 1, KILLS = 20, STEP = 3, FAR = 60 };

static const uint64_t keys[] = {1, 2, UINT64_MAX - 1, UINT64_MAX};
enum { KEYS = sizeof(keys) / sizeof(*keys) };

// The processes and the test share these counts.
struct shared {
    atomic_uint pushes, rounds, kills;
    atomic_bool over; // the workers end after this push or round
};
static struct shared *shared;

static int serve(const char *scheduler)
{
    struct tug_node_options o;
    struct tug_node *n;
    struct tug_app *a;
    struct tug_kv_default *store;
    nodes_options(&o, TUG_GROUP_SERVERS, scheduler);
    expect(tug_node_start(&n, &o) == 0);
    expect(tug_kv_default_open(&store) == 0);
    struct tug_app_handlers h = {.kv = tug_kv_default_handle, .ctx = store};
    expect(tug_app_open(&a, n, STORE, STORE, &h) == 0);
    expect(tug_node_finalize(n, false) == 0);
    tug_kv_default_close(store);
    return 0;
}

static void push(struct tug_app *a)
{
    const float ones[KEYS] = {1, 1, 1, 1};
    struct tug_kv_request q = {.push = true, .data = {keys, KEYS, ones, KEYS, NULL, 0}};
    uint32_t ts;
    expect(tug_kv_send(a, &q, &ts) == 0 && tug_app_wait(a, ts) == 0);
    atomic_fetch_add(&shared->pushes, 1);
}

static void check(struct tug_app *a, float value)
{
    float got[KEYS];
    struct tug_kv_request q = {.pull = true,
                               .data = {.keys = keys, .n_keys = KEYS},
                               .pulled = got,
                               .n_pulled = KEYS};
    uint32_t ts;
    expect(tug_kv_send(a, &q, &ts) == 0 && tug_app_wait(a, ts) == 0);
    for (int i = 0; i < KEYS; i++)
        expect(got[i] == value);
}

static struct tug_node *begin_work(const char *scheduler, struct tug_app **ret)
{
    struct tug_node_options o;
    struct tug_node *n;
    nodes_options(&o, TUG_GROUP_WORKERS, scheduler);
    expect(tug_node_start(&n, &o) == 0);
    expect(tug_app_open(ret, n, STORE, 0, NULL) == 0);
    return n;
}

// Between two pushes all workers meet twice, and see each other's pushes in between.
static int work_in_step(const char *scheduler)
{
    struct tug_app *a;
    struct tug_node *n = begin_work(scheduler, &a);
    struct patience p = {0};
    for (int round = 1; round <= KILLS * STEP + 1; round++) {
        // The scheduler must not be killed at the cluster's end, when its journal is empty.
        while (round > KILLS * STEP && atomic_load(&shared->kills) < KILLS)
            expect(test_moment(&p));
        push(a);
        expect(tug_node_barrier(n, TUG_GROUP_WORKERS) == 0);
        check(a, (float)(round * NODES_WORKERS));
        expect(tug_node_barrier(n, TUG_GROUP_WORKERS) == 0);
        if (tug_node_rank(n) == 0)
            atomic_fetch_add(&shared->rounds, 1);
    }
    return tug_node_finalize(n, false);
}

static int work_alone(const char *scheduler)
{
    struct tug_app *a;
    struct tug_node *n = begin_work(scheduler, &a);
    while (!atomic_load(&shared->over))
        push(a);
    expect(tug_node_barrier(n, TUG_GROUP_WORKERS) == 0);
    check(a, (float)atomic_load(&shared->pushes));
    return tug_node_finalize(n, false);
}

// Waits until the count is above `least`.
static void await(const atomic_uint *count, unsigned least)
{
    assert_soon(atomic_load(count) > least);
}

static void start_scheduler(const char *address)
{
    cluster_start("scheduler",
                  "scheduler --scheduler %s --servers 2 --workers 2 --state state "
                  "--dead-timeout 30 --gather-timeout 60",
                  address);
}

static void kill_scheduler(void)
{
    cluster_signal("scheduler", SIGKILL);
    assert_int_equal(cluster_wait("scheduler", CLUSTER_PATIENCE), 128 + SIGKILL);
    atomic_fetch_add(&shared->kills, 1);
}

static void begin(nodes_main work, char address[NODES_ADDRESS], pid_t pids[4])
{
    nodes_dead_seconds = 30;
    memset(shared, 0, sizeof(*shared));
    files_remove("state");
    nodes_address(address);
    start_scheduler(address);
    for (int i = 0; i < 2; i++) {
        pids[i] = nodes_begin(serve, address);
        pids[2 + i] = nodes_begin(work, address);
    }
}

static void end(const pid_t pids[4])
{
    for (int i = 0; i < 4; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    cluster_ends("scheduler", 0, CLUSTER_PATIENCE);
}

static void test_in_step(void **state)
{
    char address[NODES_ADDRESS];
    pid_t pids[4];
    struct stat st;
    (void)state;
    begin(work_in_step, address, pids);
    for (unsigned i = 0; i < KILLS; i++) {
        await(&shared->rounds, i * STEP);
        kill_scheduler();
        start_scheduler(address);
    }
    assert_int_equal(stat("state/journal", &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    end(pids);
    cluster_said("scheduler", "started again");
}

// Pushes go on while the scheduler is away.
static void test_alone(void **state)
{
    char address[NODES_ADDRESS];
    pid_t pids[4];
    (void)state;
    begin(work_alone, address, pids);
    for (unsigned i = 0; i < KILLS; i++) {
        await(&shared->pushes, atomic_load(&shared->pushes) + FAR);
        kill_scheduler();
        await(&shared->pushes, atomic_load(&shared->pushes) + FAR);
        start_scheduler(address);
    }
    atomic_store(&shared->over, true);
    end(pids);
}

// Returns whether a heartbeat of the server has arrived: only heartbeats tell the clock.
static bool server_beats(const char *list)
{
    tug_ends(0, "status --json --scheduler %s", list);
    const char *server = strstr(e2e_out, "\"role\":\"server\"");
    const char *skew = server != NULL ? strstr(server, "\"clock_skew_seconds\":") : NULL;
    assert_non_null(skew);
    return strtod(strchr(skew, ':') + 1, NULL) != 0;
}

// Another cluster's scheduler at the first of two addresses refuses all processes and
// tools, so all of them try the second address.
static void test_refused_at_the_first_address(void **state)
{
    char list[64];
    unsigned ports[] = {cluster_free_port(), cluster_free_port() + 1};
    (void)state;
    cluster_set_token();
    snprintf(list, sizeof(list), "127.0.0.1:%u,127.0.0.1:%u", ports[0], ports[1]);
    cluster_start("other", "scheduler --cluster other --port %u --servers 1 --workers 0",
                  ports[0]);
    cluster_start("ours", "scheduler --port %u --servers 1 --workers 0", ports[1]);
    cluster_await("other", "waiting for 1 server");
    cluster_await("ours", "waiting for 1 server");
    cluster_start("server", "server --scheduler %s", list);
    cluster_await("ours", "all have joined");
    assert_soon(server_beats(list));
    tug_ends(0, "status --scheduler %s", list);
    assert_null(strstr(e2e_out, "dead"));
    tug_ends(0, "stop --scheduler %s", list);
    (void)cluster_wait("server", CLUSTER_PATIENCE);
    (void)cluster_wait("ours", CLUSTER_PATIENCE);
    // If all schedulers in the list refuse a node, the node ends with their reason.
    tug_ends(2, "server --scheduler 127.0.0.1:%u,127.0.0.1:%u", ports[0], ports[0]);
    e2e_says("this is the scheduler of cluster");
    tug_ends(0, "stop --cluster other --scheduler 127.0.0.1:%u", ports[0]);
    (void)cluster_wait("other", CLUSTER_PATIENCE);
    unsetenv("TUG_TOKEN");
}

static void test_refusals(void **state)
{
    (void)state;
    files_write("x.csv", "1,2\n");
    // The state of these options is in the driver's process only.
    static const char *const refused[] = {"--average 100", "--report r.html",
                                          "--tfevents t", "--fetch bias --fetch-every 9",
                                          "--publish p --table sum"};
    for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
        tug_ends(2,
                 "scheduler --servers 1 --workers 1 --state s -- train --data x.csv "
                 "--format csv %s",
                 refused[i]);
        e2e_says(files_path("--state cannot be used with %.7s", refused[i]));
    }
    // The lines of passes in a pipe cannot be written again.
    cluster_system("mkfifo pipe");
    tug_ends(2, "scheduler --servers 1 --workers 1 --state s -- train --data x.csv "
                "--format csv --history pipe");
    e2e_says("--state cannot be used with a stream as --history");
}

static int begin_all(void **state)
{
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED ? -1 : cluster_begin(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_test(test_in_step),
        cluster_test(test_alone),
        cluster_test(test_refused_at_the_first_address),
        cluster_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, begin_all, cluster_end);
}
