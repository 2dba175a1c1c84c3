// Options common to the processes of a cluster; see node_options.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "cli/nodes/node_options.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/log_options.h"
#include "launch/secrets.h"
#include "os/clock.h"
#include "os/descriptors.h"
#include "os/disk.h"
#include "os/file.h"
#include "os/log.h"
#include "os/route.h"
#include "os/runtime_dir.h"
#include "os/wish.h"

atomic_bool node_interrupted;

static struct wish wish;

// Handles a signal: the first one asks for an end in order, a later one ends the process
// at once.
static void on_signal(int number)
{
    atomic_store(&node_interrupted, true);
    if (wish_take(&wish, clock_ns()) == WISH_AT_ONCE) {
        signal(number, SIG_DFL);
        raise(number);
    }
}

void node_catch_signals(void)
{
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    // SIGHUP stays ignored if nohup made this process ignore it.
    if (signal(SIGHUP, on_signal) == SIG_IGN)
        signal(SIGHUP, SIG_IGN);
    log_options_catch(on_signal);
}

static const char *get_variable(void *ctx, const char *name)
{
    (void)ctx;
    return getenv(name);
}

int node_role(struct role *ret, enum wire_role command, struct err *e)
{
    return role_read(ret, command, get_variable, NULL, e);
}

void node_values_fill(struct node_values *v, const struct options *o,
                      const struct role *r)
{
    if (r->scheme == ROLE_NONE)
        return;
    if (v->scheduler == NULL)
        v->scheduler = r->scheduler;
    if (v->host == NULL && r->host[0] != 0)
        v->host = r->host;
    if (v->interface == NULL && r->interface[0] != 0)
        v->interface = r->interface;
    if (r->has_rank && !options_given(o, "rank"))
        v->rank = r->rank;
    if (!options_given(o, "port"))
        v->port = r->port;
    if (r->hosts_scheduler && options_given(o, "port"))
        v->port = 0; // PADDLE_PORT is the scheduler's port
}

// The running clusters of a name that tug launch has recorded.
struct found {
    uint32_t n;
    char first[VAN_ADDRESS_MAX];
    char all[512]; // the addresses of all clusters found, for the error message
};

// Returns whether the scheduler at a Unix socket is dead: then the socket refuses
// connections. Returns false for addresses of other kinds, without connecting.
static bool is_dead(const char *address)
{
    char path[VAN_ADDRESS_MAX];
    if (strncmp(address, "unix://", 7) != 0)
        return false;
    snprintf(path, sizeof(path), "%.*s", (int)strcspn(address + 7, ","), address + 7);
    return !file_exists(path) || runtime_socket_is_dead(path);
}

static void node_options_look_at(void *ctx, const char *path)
{
    struct found *f = ctx;
    struct buf b = BUF_INIT(VAN_ADDRESS_MAX - 1);
    if (file_read(path, &b, NULL) == 0 && b.len > 0) {
        const char *address = buf_str(&b);
        if (is_dead(address)) {
            // The command tug launch was killed before it could remove the file.
            (void)disk_remove(path);
        } else {
            size_t at = strlen(f->all);
            if (f->n++ == 0)
                snprintf(f->first, sizeof(f->first), "%s", address);
            snprintf(f->all + at, sizeof(f->all) - at, "%s%s", at > 0 ? " or " : "",
                     address);
        }
    }
    buf_free(&b);
}

// The names of all running clusters that tug launch has recorded.
struct names {
    char cluster[128]; // the first name
    uint32_t n;
    char all[256]; // for the error message
};

static void node_options_name(void *ctx, const char *path)
{
    struct names *f = ctx;
    const char *slash = strrchr(path, '/'), *base = slash != NULL ? slash + 1 : path;
    const char *at = strrchr(base, '@');
    struct found running = {0};
    size_t end = strlen(f->all);
    char name[sizeof(f->cluster) + 2];
    node_options_look_at(&running, path);
    if (at == NULL || running.n == 0)
        return;
    snprintf(name, sizeof(name), "'%.*s'", (int)(at - base), base);
    if (strstr(f->all, name) != NULL)
        return; // another run of a cluster that was counted already
    if (f->n++ == 0)
        snprintf(f->cluster, sizeof(f->cluster), "%.*s", (int)(at - base), base);
    snprintf(f->all + end, sizeof(f->all) - end, "%s%s", end > 0 ? ", " : "", name);
}

// Returns the error that no run of this name was found. It names the clusters that run on
// this machine.
static int not_found(const struct node_values *v, struct err *e)
{
    struct names f = {0};
    runtime_dir_list("", ".addr", node_options_name, &f);
    if (f.n == 1)
        return err_set(e, TUG_EUSAGE,
                       "no run of cluster '%s' was launched on this machine, but one of "
                       "'%s': give --cluster %s",
                       v->cluster, f.cluster, f.cluster);
    if (f.n > 1)
        return err_set(e, TUG_EUSAGE,
                       "no run of cluster '%s' was launched on this machine; choose one "
                       "of %s with --cluster",
                       v->cluster, f.all);
    return err_set(e, TUG_EUSAGE,
                   "no run of cluster '%s' was launched on this machine; give its "
                   "scheduler's address with --scheduler HOST:PORT",
                   v->cluster);
}

// Finds the scheduler for a tool in the files that tug launch wrote, and copies the
// scheduler's address to `to`.
static int find_scheduler(const struct node_values *v, char to[VAN_ADDRESS_MAX],
                          struct err *e)
{
    char begins[128];
    struct found f = {0};
    snprintf(begins, sizeof(begins), "%.100s@", v->cluster);
    runtime_dir_list(begins, ".addr", node_options_look_at, &f);
    if (f.n == 0)
        return not_found(v, e);
    if (f.n > 1)
        return err_set(e, TUG_EUSAGE,
                       "%u runs of cluster '%s' were launched on this machine; choose "
                       "one with --scheduler %s",
                       f.n, v->cluster, f.all);
    memcpy(to, f.first, VAN_ADDRESS_MAX);
    return 0;
}

static bool is_loopback(const char *host)
{
    return strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0 ||
           strcmp(host, "localhost") == 0;
}

// Chooses the default listening address: one by which the scheduler can reach this
// machine.
static int choose_host(struct opened_node *n, struct node_options *o, struct err *e)
{
    char list[VAN_ADDRESS_MAX], host[VAN_ADDRESS_MAX];
    uint16_t port;
    if (o->host != NULL || o->interface != NULL ||
        strstr(o->scheduler, "unix://") != NULL)
        return 0;
    TRY(node_address(o->scheduler, list, e));
    TRY(route_split(list, host, sizeof(host), &port, e));
    if (is_loopback(host))
        return 0;
    TRY(route_address(host, n->host, e));
    o->host = n->host;
    return 0;
}

int node_values_open(struct opened_node *ret, const struct node_values *v,
                     enum wire_role role, struct err *e)
{
    char found[VAN_ADDRESS_MAX];
    struct node_options o = {
        .cluster = v->cluster,
        .scheduler = v->scheduler,
        .host = v->host,
        .interface = v->interface,
        .advertise = v->advertise,
        .sockets = v->transport == NODE_TRANSPORT_UNIX,
        .port = (uint16_t)v->port,
        .ca = v->ca,
        .cert = v->cert,
        .key = v->key,
        .insecure = v->insecure,
        .memory = v->memory,
        .spin_us = v->spin_us,
        .scheduler_timeout_seconds = v->connect_timeout,
        .late = v->join,
        .zone = v->zone,
        .role = role == WIRE_SCHEDULER ? WIRE_OPERATOR : role,
        .wish = role == WIRE_SCHEDULER || v->rank < 0 ? 0 : (uint32_t)v->rank + 1,
    };
    bool asks = role == WIRE_TOOL || role == WIRE_OPERATOR;
    *ret = (struct opened_node){.http = v->http};
    ret->http.cluster_cert = v->cert;
    ret->http.cluster_key = v->key;
    TRY(monitor_check(&ret->http, e));
    // Writes to a socket that the peer has closed must not end the process.
    signal(SIGPIPE, SIG_IGN);
    descriptors_raise(); // the usual limit of 1024 is meant for programs that use select
    // Most commands that only ask have no --log-level, so v->log_level has its initial
    // value.
    if (!asks || v->log_level != LOG_ERROR)
        log_set_level((enum log_level)v->log_level);
    if (!asks)
        log_set_role(wire_role_name(role),
                     role == WIRE_SCHEDULER || v->rank < 0 ? -1 : (int)v->rank);
    if (v->log_file != NULL)
        TRY(log_set_file(v->log_file, e));
    if (v->pem_stdin)
        TRY(secrets_read(STDIN_FILENO, &ret->pem, e));
    if (v->pem_stdin && (o.pem = buf_str(&ret->pem)) == NULL)
        return err_nomem(e, "the keys");
    if ((asks || v->join) && o.scheduler == NULL) {
        TRY(find_scheduler(v, found, e));
        o.scheduler = found; // node_open copies it
    }
    if (role != WIRE_SCHEDULER && o.scheduler == NULL)
        return err_set(e, TUG_EUSAGE,
                       "the scheduler's address is missing: give --scheduler HOST:PORT, "
                       "or set DMLC_PS_ROOT_URI and DMLC_PS_ROOT_PORT");
    if (role != WIRE_SCHEDULER && !asks)
        TRY(choose_host(ret, &o, e));
    int rc = node_open(&ret->node, &o, e);
    ret->node.options.scheduler = ret->node.scheduler;
    return rc;
}

void opened_node_close(struct opened_node *n)
{
    node_close(&n->node);
    buf_wipe(&n->pem);
}
