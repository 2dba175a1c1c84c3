// The smallest cluster, one server and one worker, through each interface of the program:
// code must not expect a second server or worker. The main check is that sanitizers
// report nothing.
//
// SPDX-License-Identifier: Apache-2.0
#include <float.h>
#include <string.h>
#include <sys/wait.h>

#include "kit/command.h"
#include "kit/nodes.h"
#include "tug/fleet.h"
#include "tug/kvstore.h"
#include "tug/table.h"

enum { ROWS = 4, WIDTH = 3, N = ROWS * WIDTH };

static void one_of_each(struct tug_node_options *o, int role, const char *scheduler)
{
    nodes_options(o, role, scheduler);
    o->servers = o->workers = 1;
    o->dead_seconds = 30;
}

// Runs each function in a process of its own, and waits until all processes have ended.
static void run(nodes_main scheduler, nodes_main server, nodes_main worker)
{
    char address[NODES_ADDRESS];
    const nodes_main mains[] = {scheduler, server, worker};
    pid_t pids[3];
    nodes_address(address);
    for (int i = 0; i < 3; i++)
        pids[i] = mains[i] != NULL ? nodes_begin(mains[i], address) : 0;
    for (int i = 0, status; i < 3; i++)
        if (pids[i] != 0) {
            assert_int_equal(pids[i], waitpid(pids[i], &status, 0));
            assert_int_equal(0, status);
        }
}

// -------------------------------------------------- kvapp: the default store, and tables

static int kvapp_schedules(const char *scheduler)
{
    struct tug_node_options o;
    struct tug_node *n;
    one_of_each(&o, TUG_GROUP_SCHEDULER, scheduler);
    expect(tug_node_start(&n, &o) == 0);
    return tug_node_finalize(n, false);
}

static int kvapp_serves(const char *scheduler)
{
    struct tug_node_options o;
    struct tug_kv_default *store;
    struct tug_node *n;
    struct tug_app *a;
    one_of_each(&o, TUG_GROUP_SERVERS, scheduler);
    expect(tug_node_start(&n, &o) == 0 && tug_kv_default_open(&store) == 0);
    struct tug_app_handlers h = {.kv = tug_kv_default_handle, .ctx = store};
    expect(tug_app_open(&a, n, 0, 0, &h) == 0);
    int rc = tug_node_finalize(n, false);
    tug_kv_default_close(store);
    return rc;
}

static int kvapp_works(const char *scheduler)
{
    const uint64_t keys[] = {0, 7, UINT64_MAX};
    const int32_t lengths[] = {1, 0, 4}, lone[] = {1, 1, 1};
    const float values[6] = {1, 2, 3, 4, 5, 6};
    float got[6];
    struct tug_node_options o;
    struct tug_node *n;
    struct tug_app *a;
    uint32_t ts;
    one_of_each(&o, TUG_GROUP_WORKERS, scheduler);
    expect(tug_node_start(&n, &o) == 0 && tug_app_open(&a, n, 0, 0, NULL) == 0);
    struct tug_kv_request q = {.push = true,
                               .pull = true,
                               .data = {keys, 3, values, 6, NULL, 0},
                               .pulled = got,
                               .n_pulled = 6};
    for (int i = 1; i <= 3; i++) {
        expect(tug_kv_send(a, &q, &ts) == 0 && tug_app_wait(a, ts) == 0);
        expect(got[5] == 6 * (float)i);
    }
    q = (struct tug_kv_request){.push = true, .data = {keys, 3, values, 5, lengths, 0}};
    expect(tug_kv_send(a, &q, &ts) == 0 && tug_app_wait(a, ts) == TUG_EUSAGE);
    // One sum would exceed a float, so the server applies no part of the push.
    const float large[3] = {1, FLT_MAX / 1.5f, 1}, larger[3] = {1, FLT_MAX, 1};
    const uint64_t others[] = {3, 4, 5};
    float one_each[3];
    q = (struct tug_kv_request){.push = true,
                                .pull = true,
                                .data = {others, 3, large, 3, lone, 0},
                                .pulled = one_each,
                                .n_pulled = 3};
    expect(tug_kv_send(a, &q, &ts) == 0 && tug_app_wait(a, ts) == 0);
    for (int i = 0; i < 2; i++) {
        q.data.values = i == 0 ? large : larger;
        expect(tug_kv_send(a, &q, &ts) == 0 && tug_app_wait(a, ts) == TUG_EUSAGE);
        expect(strstr(tug_last_error(), "key 4") != NULL);
    }
    q.push = false;
    q.data = (struct tug_kv_data){.keys = others, .n_keys = 3};
    expect(tug_kv_send(a, &q, &ts) == 0 && tug_app_wait(a, ts) == 0);
    expect(memcmp(one_each, large, sizeof(large)) == 0);
    expect(tug_node_barrier(n, TUG_GROUP_WORKERS) == 0);
    return tug_node_finalize(n, false);
}

static void push_and_pull(struct tug_client *c, uint32_t table)
{
    const uint64_t keys[] = {9, 1, 9};
    const float values[6] = {1, 2, 3, 4, 5, 6};
    float got[6];
    uint64_t ts;
    expect(tug_push(c, table, keys, 3, values, NULL, NULL, &ts) == 0);
    expect(tug_wait(c, ts, 0) == 0);
    expect(tug_push_pull(c, table, keys, 3, values, got, NULL, NULL, &ts) == 0);
    expect(tug_wait(c, ts, 0) == 0);
    expect(got[0] == got[4] && got[0] != 0);
    expect(tug_pull(c, table, keys, 3, got, NULL, NULL, &ts) == 0);
    expect(tug_wait(c, ts, 0) == 0);
}

static int tables_work(const char *scheduler)
{
    static const char *const settings[] = {
        "dim = 2; rule = sum", "dim = 2; rule = adagrad:lr=1; placement = range",
        "dim = 2; rule = sgd:lr=1; mode = ssp:0"};
    struct tug_client_options o = {.scheduler = scheduler, .wait_seconds = 60};
    struct tug_client *c;
    expect(tug_client_open(&c, &o) == 0);
    expect(tug_client_workers(c) == 1 && tug_client_servers(c) == 1);
    for (uint32_t t = 0; t < 3; t++) {
        expect(tug_table_create(c, t, settings[t]) == 0);
        push_and_pull(c, t);
    }
    expect(tug_tick(c, 2, 0) == 0 && tug_tick(c, 2, 1) == 0);
    push_and_pull(c, 2);
    expect(tug_barrier(c) == 0);
    return tug_client_close(c);
}

static void kvapp(void **state)
{
    (void)state;
    run(kvapp_schedules, kvapp_serves, kvapp_works);
    run(kvapp_schedules, kvapp_serves, tables_work);
}

// ---------------------------------------------------------------- kvstore

static int kvstore_serves_as(const char *scheduler, int role)
{
    struct tug_node_options node;
    struct tug_kvstore_server_options o = {.node = &node};
    one_of_each(&node, role, scheduler);
    return tug_kvstore_serve(&o);
}

static int kvstore_schedules(const char *scheduler)
{
    return kvstore_serves_as(scheduler, TUG_GROUP_SCHEDULER);
}

static int kvstore_serves(const char *scheduler)
{
    return kvstore_serves_as(scheduler, TUG_GROUP_SERVERS);
}

// Pushes dense, sparse and compressed arrays, without and with an optimizer.
static void use_store(struct tug_kvstore *s)
{
    float w[N] = {0}, g[N], got[N];
    int64_t ids[] = {0, 3};
    struct tug_array stored = {TUG_FLOAT32, false, ROWS, WIDTH, w, NULL, 0};
    struct tug_array dense = {TUG_FLOAT32, false, ROWS, WIDTH, g, NULL, 0};
    struct tug_array rows = {TUG_FLOAT32, true, ROWS, WIDTH, g, ids, 2};
    struct tug_array into = {TUG_FLOAT32, false, ROWS, WIDTH, got, NULL, 0};
    struct tug_kvstore_item init = {{.number = 1}, &stored},
                            push = {{.number = 1}, &dense};
    struct tug_kvstore_item sparse = {{.number = 1}, &rows}, out = {{.number = 1}, &into};
    for (int i = 0; i < N; i++)
        g[i] = (float)i;
    expect(tug_kvstore_init(s, &init, 1) == 0);
    for (int i = 0; i < 3; i++) {
        expect(tug_kvstore_push_pull(s, &push, 1, &out, 1, 0) == 0 &&
               got[N - 1] == N - 1);
        expect(tug_kvstore_push(s, &sparse, 1, 0) == 0);
        expect(tug_kvstore_pull(s, &out, 1, 0) == 0);
    }
    expect(tug_kvstore_set_optimizer(s, "sgd:learning_rate=1,momentum=0.5") == 0);
    expect(tug_kvstore_push_pull(s, &push, 1, &out, 1, 0) == 0);
    expect(tug_kvstore_set_compression(s, "2bit", 0.5f) == 0);
    init.key.number = push.key.number = out.key.number = 2;
    expect(tug_kvstore_init(s, &init, 1) == 0);
    for (int i = 0; i < 3; i++)
        expect(tug_kvstore_push_pull(s, &push, 1, &out, 1, 0) == 0);
    expect(tug_kvstore_barrier(s) == 0);
}

static int kvstore_works_as(const char *scheduler, const char *type)
{
    struct tug_node_options node;
    struct tug_kvstore_options o = {.type = type, .node = &node};
    struct tug_kvstore *s;
    one_of_each(&node, TUG_GROUP_WORKERS, scheduler);
    expect(tug_kvstore_open(&s, &o) == 0);
    use_store(s);
    return tug_kvstore_close(s);
}

static int kvstore_works(const char *scheduler)
{
    return kvstore_works_as(scheduler, "dist_sync");
}

static void kvstore(void **state)
{
    (void)state;
    run(kvstore_schedules, kvstore_serves, kvstore_works);
}

// --------------------------------------------- fleet: the server also runs the scheduler

static const struct tug_variable variables[] = {{.name = "w", .n = 5}};
static const struct tug_fleet_table tables[] = {
    {.number = 0, .name = "emb", .settings = "dim = 2; rule = sgd:lr=1"},
    {.number = 1,
     .name = "fc",
     .settings = "dim = 4; rule = sgd:lr=1",
     .variables = variables,
     .n_variables = 1},
};

static struct tug_fleet *fleet_as(const char *address, int role)
{
    const char *ends[] = {address};
    struct tug_role_maker *m;
    struct tug_fleet *f;
    struct tug_role_maker_options o = {
        .role = role, .worker_num = 1, .server_endpoints = ends, .n_server_endpoints = 1};
    expect(tug_role_maker_user(&m, &o) == 0);
    struct tug_fleet_options all = {
        .roles = m, .tables = tables, .n_tables = 2, .wait_seconds = 60};
    expect(tug_fleet_init(&f, &all) == 0);
    tug_role_maker_close(m);
    return f;
}

static int fleet_serves(const char *address)
{
    struct tug_fleet *f = fleet_as(address, TUG_FLEET_SERVER);
    expect(tug_fleet_init_server(f, NULL, NULL, 0) == 0);
    expect(tug_fleet_run_server(f, NULL, 0) == 0);
    tug_fleet_close(f);
    return 0;
}

static int fleet_works(const char *address)
{
    struct tug_fleet *f = fleet_as(address, TUG_FLEET_WORKER);
    double x = 3;
    float w[5] = {1, 2, 3, 4, 5};
    char mine[4] = "abc", all[4];
    expect(tug_fleet_init_worker(f) == 0);
    expect(tug_fleet_barrier_worker(f) == 0);
    expect(tug_fleet_all_reduce(f, &x, 1, TUG_FLEET_SUM) == 0 && x == 3);
    expect(tug_fleet_all_gather(f, mine, 4, all) == 0 && strcmp(all, "abc") == 0);
    push_and_pull(tug_fleet_client(f), 0);
    expect(tug_wrapper_push_dense_params(f, 1, w, 5) == 0);
    expect(tug_wrapper_pull_dense_params(f, 1, w, 5) == 0 && w[4] == 5);
    expect(tug_fleet_stop_worker(f) == 0);
    tug_fleet_close(f);
    return 0;
}

static void fleet(void **state)
{
    (void)state;
    run(NULL, fleet_serves, fleet_works);
}

// Trains with one worker and one server, in each mode.
static void train(void **state)
{
    static const char *const modes[] = {"async", "sync", "ssp:1"};
    (void)state;
    e2e_write_data(&(struct e2e_data){.path = "data", .rows = 60, .seed = 3});
    for (int i = 0; i < 3; i++)
        tug_ends(0,
                 "launch --servers 1 --workers 1 -- train --format libsvm --data data "
                 "--valid data --epochs 2 --mode %s --out out-%d",
                 modes[i], i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(kvapp), cmocka_unit_test(kvstore),
                                       cmocka_unit_test(fleet), cmocka_unit_test(train)};
    return cmocka_run_group_tests(tests, e2e_begin, e2e_end);
}
