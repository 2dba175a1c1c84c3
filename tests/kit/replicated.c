// See replicated.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/replicated.h"

#include "kit/history.h"
#include "kit/servers.h"

static unsigned replicas, servers, clusters;
static bool on_disk;

void replicated_use_disk(bool use)
{
    on_disk = use;
}

static void start_scheduler(const char *address)
{
    cluster_start("scheduler",
                  "scheduler --scheduler %s --servers %u --workers 0 --replicas %u "
                  "--state state%u",
                  address, servers, replicas, clusters);
    tables_port = cluster_port("scheduler");
}

void replicated_restart_scheduler(void)
{
    cluster_wait("scheduler", CLUSTER_PATIENCE);
    start_scheduler(files_path("127.0.0.1:%u", tables_port));
}

void replicated_start(const char *name, const char *more)
{
    cluster_start(name, "server --scheduler 127.0.0.1:%u %s %s", tables_port,
                  on_disk ? "--cold-root ." : "--save-root .", more);
}

void replicated_begin(unsigned n, unsigned r)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    servers = n;
    replicas = r;
    clusters++; // a cluster has a state of its own
    start_scheduler("127.0.0.1:0");
    for (unsigned i = 0; i < n; i++)
        replicated_start(names[i],
                         files_path("--rank %u --loops %d", i, 1 + (i == n - 1)));
    cluster_await("scheduler", "all have joined");
    tables_admin(0, "create --settings %s%s", HISTORY_TABLE,
                 on_disk ? ";cold=rows;hot-rows=1" : "");
    history_start();
    history_await();
}

void replicated_finish(const char *script)
{
    history_await();
    history_end();
    tables_stop();
    history_check(script);
}

int64_t replicated_fact(const char *object, const char *name)
{
    tug_ends(0, "status --json --scheduler 127.0.0.1:%u", tables_port);
    json_t *all = e2e_json();
    int64_t n = json_integer_value(json_object_get(json_object_get(all, object), name));
    json_decref(all);
    return n;
}

void replicated_settle(void)
{
    assert_soon(replicated_fact("replicas", "partitions_with_fewer") == 0 &&
                replicated_fact("moving", "moves_left") == 0);
}

void replicated_fill(void)
{
    enum { ROWS = 150000, DIM = 32, MOST = 10000 };
    static const float values[MOST * DIM];
    static uint64_t keys[MOST];
    uint32_t table;
    tables_admin(0, "create --settings name=rows;accessor=plain;dim=%d;rule=sum", DIM);
    struct tug_client *c = tables_client();
    tables_check(tug_table_find(c, "rows", &table));
    for (uint64_t n = 0, ts; n < ROWS; n += MOST) {
        for (uint64_t i = 0; i < MOST; i++)
            keys[i] = n + i;
        tables_check(tug_push(c, table, keys, MOST, values, NULL, NULL, &ts));
        tables_check(tug_wait(c, ts, 0));
    }
    tables_check(tug_client_close(c));
}

void replicated_await_moves(void)
{
    assert_soon(replicated_fact("moving", "moves_left") > 0);
}

void replicated_begin_join(const char *name)
{
    replicated_start(name, "--join");
    cluster_await("scheduler", files_path(":%d) joined", (int)cluster_pid(name)));
}

void replicated_join(const char *name)
{
    replicated_begin_join(name);
    replicated_settle();
}

void replicated_await_death(pid_t pid)
{
    cluster_await("scheduler", files_path(":%d) is gone", (int)pid));
}

void replicated_kill(const char *name)
{
    pid_t pid = cluster_pid(name);
    cluster_signal(name, SIGKILL);
    cluster_wait(name, CLUSTER_PATIENCE);
    replicated_await_death(pid);
    history_await();
}

void replicated_stop(const char *name)
{
    cluster_signal(name, SIGSTOP);
    replicated_await_death(cluster_pid(name));
    history_await();
    cluster_signal(name, SIGCONT);
    cluster_ends(name, 4, CLUSTER_PATIENCE);
    cluster_said(name, "counts as dead");
    history_await();
}
