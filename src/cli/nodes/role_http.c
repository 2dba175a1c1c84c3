// Monitors of the roles; see role_http.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "cli/nodes/role_http.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/nodes/roles.h"
#include "cli/status.h"
#include "monitor/monitor.h"
#include "os/json.h"
#include "os/log.h"
#include "runtime/loop_facts.h"
#include "server/server.h"
#include "train/facts.h"

// How long a failed run waits for Prometheus, which asks once a minute or more often; and
// the time between two checks.
static const double read_seconds = 65;
static const int look_ms = 20;

// The most seconds to wait for the answer of the scheduler and of each loop.
static const double ask_seconds = 1, loop_seconds = 1;

struct role_http {
    struct monitor *monitor;
    struct node *node;
    struct journal *journal; // the scheduler's journal, or NULL
    atomic_bool closing;

    pthread_mutex_t lock;           // guards `loops`
    char (*loops)[VAN_ADDRESS_MAX]; // "": not known yet
    uint32_t n_loops;

    // about: the owner of the page, for the log; NULL: this process
    const char *role, *about;
    struct usage *usage;
    void (*more)(void *of, struct json_out *o);
    void *of;
    int rc; // the code with which the work has ended
};

static int begin(struct role_http **ret, const struct monitor_options *at,
                 int (*facts)(void *of, json_t **ret, struct err *e),
                 struct role_http *as, struct err *e)
{
    *ret = NULL;
    struct role_http *h = mem_zalloc(sizeof(*h));
    if (h == NULL)
        return err_nomem(e, "the monitor");
    h->node = as->node;
    h->journal = as->journal;
    h->role = as->role;
    h->usage = as->usage;
    h->more = as->more;
    h->of = as->of;
    pthread_mutex_init(&h->lock, NULL);
    const struct monitor_source source = {
        .facts = facts, .of = h, .closing = &h->closing};
    int rc = monitor_open(&h->monitor, at, &source, e);
    if (rc != 0) {
        role_http_close(h);
        return rc;
    }
    *ret = h;
    log_info("http: the page of %s is at %s",
             as->about != NULL ? as->about : "this process", monitor_url(h->monitor));
    return 0;
}

const char *role_http_url(const struct role_http *h)
{
    return monitor_url(h->monitor);
}

void role_http_close(struct role_http *h)
{
    if (h == NULL)
        return;
    monitor_close(h->monitor);
    pthread_mutex_destroy(&h->lock);
    mem_free(h->loops);
    mem_free(h);
}

// ---------------------------------------------------------------- the end

void role_http_end(struct role_http *h, int rc, bool launched)
{
    if (h == NULL)
        return;
    bool failed = rc != 0 && rc != TUG_EINTERRUPTED;
    bool waits = failed && !launched && monitor_is_read(h->monitor);
    h->rc = rc;
    monitor_end(h->monitor, waits ? read_seconds : 0);
    if (waits)
        log_warn("http: the final state of this run can be read at %smetrics, once, "
                 "within %.0f s; Ctrl-C ends the wait",
                 monitor_url(h->monitor), read_seconds);
}

bool role_http_is_seen(const struct role_http *h)
{
    // A signal after the end of the work ends the wait. If the signal itself has ended
    // the work, open pages are still shown the end.
    bool told_to_end = h != NULL && h->rc != TUG_EINTERRUPTED &&
                       atomic_load(&node_interrupted);
    return h == NULL || told_to_end || monitor_is_seen(h->monitor);
}

void role_http_await_seen(const struct role_http *h)
{
    while (!role_http_is_seen(h))
        // Only sleeps: the monitor's threads report no event.
        (void)poll(NULL, 0, look_ms);
}

// ---------------------------------------------------------------- the scheduler

static int tell_scheduler(void *of, json_t **ret, struct err *e)
{
    struct role_http *h = of;
    const struct status_limits limits = {ask_seconds, loop_seconds, &h->closing};
    int rc = status_ask(h->node, &limits, ret, e);
    uint64_t silent = h->journal != NULL ? journal_silent_ns(h->journal) : 0;
    if (rc != 0 && silent > 0)
        return err_set(e, rc,
                       "etcd has not answered the scheduler for %.0f s, so the scheduler "
                       "sends no answers; pushes and pulls go on",
                       (double)silent * 1e-9);
    TRY(rc);
    (void)json_object_del(*ret, "sampled_ns");
    return 0;
}

int role_http_scheduler(struct role_http **ret, const struct monitor_options *at,
                        struct node *n, struct journal *j, struct err *e)
{
    struct role_http as = {.node = n, .journal = j};
    *ret = NULL;
    return at->address != NULL ? begin(ret, at, tell_scheduler, &as, e) : 0;
}

// ---------------------------------------------------------------- a server

// Gets the address of a loop. Returns false if the loop does not listen yet.
static bool loop_address(struct role_http *h, uint32_t i, char to[VAN_ADDRESS_MAX])
{
    pthread_mutex_lock(&h->lock);
    bool known = i < h->n_loops && h->loops[i][0] != '\0';
    if (known)
        memcpy(to, h->loops[i], VAN_ADDRESS_MAX);
    pthread_mutex_unlock(&h->lock);
    return known;
}

void role_http_add_loop(void *http, uint32_t loop, const char *address)
{
    struct role_http *h = http;
    pthread_mutex_lock(&h->lock);
    if (h->loops == NULL)
        h->loops = mem_zalloc(SERVER_MAX_LOOPS * sizeof(*h->loops));
    if (h->loops != NULL && loop < SERVER_MAX_LOOPS) {
        snprintf(h->loops[loop], VAN_ADDRESS_MAX, "%s", address);
        if (loop >= h->n_loops)
            h->n_loops = loop + 1;
    }
    pthread_mutex_unlock(&h->lock);
}

// Copies members that are the same for all loops of a process from a loop's facts into
// those of the process.
static void add_process(json_t *facts, const json_t *loop)
{
    static const char *const names[] = {
        "rank",         "epoch",          "version",     "pid",
        "unix_seconds", "uptime_seconds", "cpu_seconds", "resident_bytes",
        "open_files",   "open_files_max", "disks",       "memory"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (json_object_get(loop, names[i]) != NULL)
            (void)json_object_set(facts, names[i], json_object_get(loop, names[i]));
}

static int tell_server(void *of, json_t **ret, struct err *e)
{
    struct role_http *h = of;
    char address[VAN_ADDRESS_MAX];
    json_t *loops = json_array();
    for (uint32_t i = 0; loop_address(h, i, address); i++) {
        json_t *node = json_pack("{s:s, s:i}", "address", address, "loop", (int)i);
        const struct status_limits limits = {ask_seconds, loop_seconds, &h->closing};
        (void)json_array_append_new(loops, status_ask_loop(h->node, node, &limits));
        json_decref(node);
    }
    json_t *facts = json_pack("{s:s, s:o, s:o}", "role", "server", "servers", loops,
                              "tables", loop_facts_sum_tables(loops));
    if (facts == NULL || json_memory_failed()) {
        json_decref(facts);
        return err_nomem(e, "the state of the server");
    }
    add_process(facts, json_array_get(loops, 0));
    *ret = facts;
    return 0;
}

int role_http_server(struct role_http **ret, const struct monitor_options *at,
                     struct node *n, struct err *e)
{
    struct role_http as = {.node = n};
    *ret = NULL;
    return at->address != NULL ? begin(ret, at, tell_server, &as, e) : 0;
}

// ---------------------------------------------------------------- other processes

static int tell_process(void *of, json_t **ret, struct err *e)
{
    struct role_http *h = of;
    struct buf text = BUF_INIT(1 << 20);
    struct json_out o = JSON_OUT(&text);
    json_out_open(&o, NULL, '{');
    json_out_text(&o, "role", h->role);
    usage_print(h->usage, &o);
    if (h->more != NULL)
        h->more(h->of, &o);
    json_out_close(&o, '}');
    json_t *facts = json_loadb(text.data != NULL ? text.data : "", text.len, 0, NULL);
    buf_free(&text);
    if (facts == NULL)
        return err_nomem(e, "the state of the process");
    *ret = facts;
    return 0;
}

int role_http_process(struct role_http **ret, const struct monitor_options *at,
                      const char *role, struct usage *u,
                      void (*more)(void *of, struct json_out *o), void *of, struct err *e)
{
    struct role_http as = {.role = role,
                           .about = strcmp(role, "launch") == 0 ? "the launched processes"
                                                                : NULL,
                           .usage = u,
                           .more = more,
                           .of = of};
    *ret = NULL;
    return at->address != NULL ? begin(ret, at, tell_process, &as, e) : 0;
}

// ---------------------------------------------------------------- tug launch

static void put_failure(void *of, struct json_out *o)
{
    const struct err *why = of;
    json_out_open(o, "run", '{');
    json_out_text(o, "state", "failed");
    json_out_text(o, "error", why->text);
    json_out_flag(o, "diverged", err_reason(why) == REASON_DIVERGED);
    json_out_open(o, "saves", '{');
    json_out_u64(o, "failed", err_reason(why) == REASON_SAVE_FAILED);
    json_out_close(o, '}');
    json_out_close(o, '}');
}

void role_http_tell_failure(const struct monitor_options *at, const struct err *why,
                            double seconds)
{
    struct role_http as = {
        .role = "launch", .more = put_failure, .of = (void *)(uintptr_t)why};
    struct role_http *h = NULL;
    struct err e = {0};
    if (begin(&h, at, tell_process, &as, &e) != 0) {
        log_warn("--http: the final state of the run cannot be shown: %s", e.text);
        return;
    }
    log_error("the run has failed: %s", why->text);
    log_info("http: the page shows this failure until Prometheus has read it, for at "
             "most %.0f s "
             "(--http-wait); Ctrl-C ends this",
             seconds);
    monitor_end(h->monitor, seconds);
    role_http_await_seen(h);
    role_http_close(h);
}
