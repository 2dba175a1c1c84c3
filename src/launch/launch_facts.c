// The facts of a run's processes; see launch_facts.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "launch/launch_facts.h"

#include <pthread.h>
#include <stdio.h>

#include "base/alloc.h"
#include "os/process_state.h"

enum { HOST_MAX = 256 };

enum state { WAITING, RUNNING, ENDED };

struct process {
    enum state state;
    int pid, code, signal;
    uint64_t began; // how often the process was started
    char host[HOST_MAX];
};

struct launch_facts {
    pthread_mutex_t lock;
    uint32_t servers, n;
    struct process *processes;
};

int launch_facts_open(struct launch_facts **ret, uint32_t servers, uint32_t workers,
                      struct err *e)
{
    struct launch_facts *f = mem_zalloc(sizeof(*f));
    uint32_t n = 1 + servers + workers;
    if (f != NULL)
        f->processes = mem_zalloc(n * sizeof(*f->processes));
    if (f == NULL || f->processes == NULL) {
        mem_free(f);
        return err_nomem(e, "the state of the processes");
    }
    pthread_mutex_init(&f->lock, NULL);
    f->servers = servers;
    f->n = n;
    *ret = f;
    return 0;
}

void launch_facts_close(struct launch_facts *f)
{
    if (f == NULL)
        return;
    pthread_mutex_destroy(&f->lock);
    mem_free(f->processes);
    mem_free(f);
}

void launch_facts_began(struct launch_facts *f, uint32_t member, int pid,
                        const char *host)
{
    if (f == NULL || member >= f->n)
        return;
    pthread_mutex_lock(&f->lock);
    struct process *p = &f->processes[member];
    p->state = RUNNING;
    p->pid = pid;
    p->began++;
    snprintf(p->host, sizeof(p->host), "%s", host != NULL ? host : "");
    pthread_mutex_unlock(&f->lock);
}

void launch_facts_ended(struct launch_facts *f, uint32_t member, int code, int signal)
{
    if (f == NULL || member >= f->n)
        return;
    pthread_mutex_lock(&f->lock);
    struct process *p = &f->processes[member];
    p->state = ENDED;
    p->code = code;
    p->signal = signal;
    pthread_mutex_unlock(&f->lock);
}

// ---------------------------------------------------------------- printing

static void put_name(const struct launch_facts *f, uint32_t i, struct json_out *to)
{
    char name[40];
    bool server = i <= f->servers;
    uint32_t rank = server ? i - 1 : i - 1 - f->servers;
    if (i == 0) {
        json_out_text(to, "name", "scheduler");
        json_out_text(to, "role", "scheduler");
        return;
    }
    snprintf(name, sizeof(name), "%s %u", server ? "server" : "worker", rank);
    json_out_text(to, "name", name);
    json_out_text(to, "role", server ? "server" : "worker");
    json_out_u64(to, "rank", rank);
}

static void put_process(const struct process *p, struct json_out *to)
{
    static const char *const states[] = {"waiting", "running", "ended"};
    // The pid of a process on another machine is that of its ssh here.
    bool stopped = p->state == RUNNING && process_is_stopped(p->pid);
    json_out_text(to, "state", stopped ? "stopped" : states[p->state]);
    json_out_flag(to, "up", p->state == RUNNING && !stopped);
    if (p->state != WAITING) {
        json_out_i64(to, "pid", p->pid);
        json_out_text(to, "host", p->host[0] != '\0' ? p->host : NULL);
    }
    if (p->state == ENDED) {
        // as in shells, the code for a signal is 128 plus the signal's number
        json_out_i64(to, "code", p->signal != 0 ? 128 + p->signal : p->code);
        if (p->signal != 0)
            json_out_i64(to, "signal", p->signal);
    }
    json_out_u64(to, "restarts", p->began > 0 ? p->began - 1 : 0);
}

void launch_facts_put(struct launch_facts *f, struct json_out *to)
{
    if (f == NULL)
        return;
    pthread_mutex_lock(&f->lock);
    json_out_open(to, "processes", '[');
    for (uint32_t i = 0; i < f->n; i++) {
        json_out_open(to, NULL, '{');
        put_name(f, i, to);
        put_process(&f->processes[i], to);
        json_out_close(to, '}');
    }
    json_out_close(to, ']');
    pthread_mutex_unlock(&f->lock);
}
