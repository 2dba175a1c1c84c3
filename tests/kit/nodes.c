// Forks the processes of a cluster of programs, and waits for them.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/nodes.h"

#include <arpa/inet.h>
#include <sys/wait.h>

void nodes_options(struct tug_node_options *o, int role, const char *scheduler)
{
    *o = (struct tug_node_options){
        .role = role,
        .servers = NODES_SERVERS,
        .workers = NODES_WORKERS,
        .scheduler = scheduler,
        .wait_seconds = 60,
        .dead_seconds = 1,
    };
}

void nodes_address(char ret[NODES_ADDRESS])
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(0, bind(fd, (struct sockaddr *)&a, sizeof(a)));
    assert_int_equal(0, getsockname(fd, (struct sockaddr *)&a, &len));
    close(fd);
    snprintf(ret, NODES_ADDRESS, "127.0.0.1:%u", ntohs(a.sin_port));
}

pid_t nodes_begin(nodes_main fn, const char *scheduler)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(100); // nothing hangs
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
