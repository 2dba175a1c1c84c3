// Forks the processes of a cluster of programs, and waits for them.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/nodes.h"

#include <sys/wait.h>

#include "kit/ports.h"
#include "tug/kvstore.h"

double nodes_dead_seconds = 60;

void nodes_options(struct tug_node_options *o, int role, const char *scheduler)
{
    *o = (struct tug_node_options){
        .role = role,
        .servers = NODES_SERVERS,
        .workers = NODES_WORKERS,
        .scheduler = scheduler,
        .wait_seconds = 60,
        .dead_seconds = nodes_dead_seconds,
    };
}

void nodes_address(char ret[NODES_ADDRESS])
{
    unsigned port;
    ports_free(&port, 1);
    snprintf(ret, NODES_ADDRESS, "127.0.0.1:%u", port);
}

pid_t nodes_begin(nodes_main fn, const char *scheduler)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(100); // ends the process if something hangs
        _exit(-fn(scheduler));
    }
    return pid;
}

void nodes_start(nodes_main scheduling, nodes_main server, nodes_main worker,
                 char ret_scheduler[NODES_ADDRESS], pid_t ret_pids[NODES_PROCESSES])
{
    int n = 0;
    nodes_address(ret_scheduler);
    ret_pids[n++] = nodes_begin(scheduling, ret_scheduler);
    for (int i = 0; i < NODES_SERVERS; i++)
        ret_pids[n++] = nodes_begin(server, ret_scheduler);
    for (int i = 0; i < NODES_WORKERS; i++)
        ret_pids[n++] = nodes_begin(worker, ret_scheduler);
}

void nodes_run(nodes_main scheduling, nodes_main server, nodes_main worker,
               int ret_status[NODES_PROCESSES])
{
    char scheduler[NODES_ADDRESS];
    pid_t pids[NODES_PROCESSES];
    nodes_start(scheduling, server, worker, scheduler, pids);
    for (int i = 0; i < NODES_PROCESSES; i++)
        assert_int_equal(pids[i], waitpid(pids[i], &ret_status[i], 0));
}

int nodes_schedule(const char *scheduler)
{
    struct tug_node_options o;
    struct tug_node *n;
    nodes_options(&o, TUG_GROUP_SCHEDULER, scheduler);
    expect(tug_node_start(&n, &o) == 0);
    expect(tug_node_id(n) == 1);
    return tug_node_finalize(n, false);
}

static int serve_kvstore(const char *scheduler, int role)
{
    struct tug_node_options node;
    struct tug_kvstore_server_options o = {.node = &node};
    nodes_options(&node, role, scheduler);
    int rc = tug_kvstore_serve(&o);
    if (rc != 0)
        fprintf(stderr, "serving: %s\n", tug_last_error());
    return rc;
}

int nodes_kvstore_schedule(const char *scheduler)
{
    return serve_kvstore(scheduler, TUG_GROUP_SCHEDULER);
}

int nodes_kvstore_serve(const char *scheduler)
{
    return serve_kvstore(scheduler, TUG_GROUP_SERVERS);
}
