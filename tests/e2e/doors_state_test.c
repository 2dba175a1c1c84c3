// A scheduler with --state is killed and started again in the middle of programs on
// tug/kvstore.h and tug/fleet.h: two servers and two workers, as real processes, meet in
// each round, and end with the right numbers. scheduler_state_test does the same with a
// program on tug/kvapp.h.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "kit/nodes.h"
#include "kit/processes.h"
#include "tug/fleet.h"
#include "tug/kvstore.h"

enum { KILLS = 8, STEP = 3, ROUNDS = KILLS * STEP + 1, N = 1200, BIG = 1000, DIM = 2 };
enum { SPARSE = 0, PUSH = 1 + DIM + 3, PULL = 3 + DIM, KEYS = 20 };

// Memory that the processes share.
static struct shared {
    atomic_uint rounds;           // rounds that worker 0 has finished
    atomic_uint servers, workers; // processes of a fleet that have taken an index
    atomic_uint kills;            // times that the scheduler was killed
} * shared;

static void count_round(bool first)
{
    if (first)
        atomic_fetch_add(&shared->rounds, 1);
}

// Before the last round, waits until the scheduler was killed for the last time: if it were
// killed at the end of the cluster, when its journal is empty, the next one would begin
// another cluster.
static void begin_round(int round)
{
    struct patience p = {0};
    while (round == ROUNDS && atomic_load(&shared->kills) < KILLS)
        expect(test_moment(&p));
}

// ------------------------------------------------------------------------- the programs

static int work_store(const char *scheduler)
{
    static float w[N], g[N];
    struct tug_array a = {TUG_FLOAT32, false, N, 1, w, NULL, 0}, b = a;
    struct tug_kvstore_item item = {{.name = "w"}, &a}, pushed = {{.name = "w"}, &b};
    struct tug_node_options node;
    struct tug_kvstore_options o = {.type = "dist_sync", .node = &node, .big_array = BIG};
    struct tug_kvstore *s;
    b.data = g;
    nodes_options(&node, TUG_GROUP_WORKERS, scheduler);
    expect(tug_kvstore_open(&s, &o) == 0);
    expect(tug_kvstore_init(s, &item, 1) == 0);
    expect(tug_kvstore_set_optimizer(s, "test") == 0);
    for (int round = 1; round <= ROUNDS; round++) {
        begin_round(round);
        for (int i = 0; i < N; i++)
            g[i] = (float)(i % 7 + (int)tug_kvstore_rank(s));
        expect(tug_kvstore_push(s, &pushed, 1, 0) == 0);
        expect(tug_kvstore_pull(s, &item, 1, 0) == 0);
        for (int i = 0; i < N; i++)
            expect(w[i] == (float)(round * (2 * (i % 7) + 1)));
        expect(tug_kvstore_barrier(s) == 0);
        count_round(tug_kvstore_rank(s) == 0);
    }
    expect(tug_kvstore_close(s) == 0);
    return 0;
}

static struct tug_fleet *open_fleet(bool server, const char *scheduler)
{
    unsigned index = atomic_fetch_add(server ? &shared->servers : &shared->workers, 1);
    static const struct tug_fleet_table table = {
        .number = SPARSE,
        .name = "emb",
        .settings = "accessor=ctr;dim=2;embedx-threshold=0;rule=sgd:lr=0.5;"
                    "embedx-rule=sgd:lr=0.5;base-threshold=0;delta-threshold=0"};
    char id[32], port[64];
    const char *environment[] = {server ? "DMLC_ROLE=server" : "DMLC_ROLE=worker",
                                 id,
                                 port,
                                 "DMLC_PS_ROOT_URI=127.0.0.1",
                                 "DMLC_NUM_SERVER=2",
                                 "DMLC_NUM_WORKER=2",
                                 NULL};
    struct tug_role_maker *m;
    struct tug_fleet *f;
    snprintf(id, sizeof(id), "DMLC_%s_ID=%u", server ? "SERVER" : "WORKER", index);
    snprintf(port, sizeof(port), "DMLC_PS_ROOT_PORT=%s", strrchr(scheduler, ':') + 1);
    expect(tug_role_maker_cloud(&m, environment) == 0);
    struct tug_fleet_options o = {
        .roles = m, .tables = &table, .n_tables = 1, .wait_seconds = 60};
    expect(tug_fleet_init(&f, &o) == 0);
    tug_role_maker_close(m);
    return f;
}

static int serve_fleet(const char *scheduler)
{
    struct tug_fleet *f = open_fleet(true, scheduler);
    expect(tug_fleet_init_server(f, NULL, NULL, 0) == 0);
    expect(tug_fleet_run_server(f, NULL, 0) == 0);
    tug_fleet_close(f);
    return 0;
}

// Pushes one show for each key, and checks that the rows contain all pushes so far.
static void push_and_check(struct tug_fleet *f, int round)
{
    uint64_t keys[KEYS], ts;
    float rows[KEYS * PUSH], got[KEYS * PULL];
    struct tug_client *c = tug_fleet_client(f);
    memset(rows, 0, sizeof(rows));
    for (uint64_t k = 0; k < KEYS; k++) {
        keys[k] = k;
        rows[k * PUSH + 1 + DIM] = 1;
    }
    expect(tug_push(c, SPARSE, keys, KEYS, rows, NULL, NULL, &ts) == 0);
    expect(tug_wait(c, ts, 0) == 0);
    expect(tug_fleet_barrier_worker(f) == 0);
    expect(tug_pull(c, SPARSE, keys, KEYS, got, NULL, NULL, &ts) == 0);
    expect(tug_wait(c, ts, 0) == 0);
    for (uint64_t k = 0; k < KEYS; k++)
        expect(got[k * PULL] == (float)(2 * round));
}

static int work_fleet(const char *scheduler)
{
    struct tug_fleet *f = open_fleet(false, scheduler);
    expect(tug_fleet_init_worker(f) == 0);
    for (int round = 1; round <= ROUNDS; round++) {
        begin_round(round);
        double x = round + tug_fleet_worker_index(f);
        push_and_check(f, round);
        expect(tug_fleet_all_reduce(f, &x, 1, TUG_FLEET_SUM) == 0);
        expect(x == 2 * round + 1);
        count_round(tug_fleet_is_first_worker(f));
    }
    expect(tug_fleet_stop_worker(f) == 0);
    tug_fleet_close(f);
    return 0;
}

// ------------------------------------------------------------------------------ the test

static void start_scheduler(const char *address)
{
    cluster_start("scheduler",
                  "scheduler --scheduler %s --servers 2 --workers 2 --state state "
                  "--dead-timeout 30 --gather-timeout 60",
                  address);
}

static void await_round(unsigned least)
{
    assert_soon(atomic_load(&shared->rounds) > least);
}

static void goes_on(nodes_main serve, nodes_main work)
{
    char address[NODES_ADDRESS];
    pid_t pids[4];
    nodes_dead_seconds = 30;
    *shared = (struct shared){0};
    files_remove("state");
    nodes_address(address);
    start_scheduler(address);
    for (int i = 0; i < 2; i++) {
        pids[i] = nodes_begin(serve, address);
        pids[2 + i] = nodes_begin(work, address);
    }
    for (unsigned i = 0; i < KILLS; i++) {
        await_round(i * STEP);
        cluster_signal("scheduler", SIGKILL);
        assert_int_equal(cluster_wait("scheduler", CLUSTER_PATIENCE), 128 + SIGKILL);
        atomic_fetch_add(&shared->kills, 1);
        start_scheduler(address);
    }
    for (int i = 0, status; i < 4; i++) {
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    cluster_ends("scheduler", 0, CLUSTER_PATIENCE);
    cluster_said("scheduler", "started again");
    assert_int_equal(atomic_load(&shared->rounds), ROUNDS);
}

static void test_store(void **state)
{
    (void)state;
    goes_on(nodes_kvstore_serve, work_store);
}

static void test_fleet(void **state)
{
    (void)state;
    goes_on(serve_fleet, work_fleet);
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
        cluster_test(test_store),
        cluster_test(test_fleet),
    };
    return cmocka_run_group_tests(tests, begin_all, cluster_end);
}
