// Chooses the addresses at which the processes of a run serve their pages and metrics,
// and writes the file with these addresses for Prometheus (file_sd).
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "launch/plan.h"
#include "os/json.h"
#include "os/route.h"

static bool is_unix(const struct plan *p)
{
    return strncmp(p->o->http, "unix:", 5) == 0;
}

int plan_http_choose(struct plan *p, struct err *e)
{
    uint32_t n = 1 + p->o->servers + p->o->workers;
    if (p->o->http == NULL || is_unix(p))
        return 0;
    uint16_t port;
    TRY(route_split(p->o->http, p->http_host, sizeof(p->http_host), &port, e));
    p->http_ports = mem_zalloc(n * sizeof(*p->http_ports));
    if (p->http_ports == NULL)
        return err_nomem(e, "the ports");
    p->http_ports[0] = port;
    // Holds the ports until the run has ended, so that no process outside the run takes them.
    for (uint32_t i = port == 0 ? 0 : 1; i < n && (i == 0 || p->hosts.n == 0); i++) {
        TRY(route_hold_port(p->http_host, &p->http_ports[i], &p->held[p->n_held], e));
        p->n_held++;
    }
    return 0;
}

static void write_address(const struct plan *p, uint32_t i, char *to, size_t cap)
{
    bool six = strchr(p->http_host, ':') != NULL;
    snprintf(to, cap, "%s%s%s:%u", six ? "[" : "", p->http_host, six ? "]" : "",
             p->http_ports[i]);
}

static int add_file(struct argv *w, const char *option, const char *file)
{
    return file != NULL ? argv_add(w, "--%s=%s", option, file) : 0;
}

void plan_http_scheduler(const struct plan *p, char ret[PLAN_ADDRESS_MAX + 16])
{
    write_address(p, 0, ret, PLAN_ADDRESS_MAX + 16);
}

int plan_http_add(struct argv *w, const struct plan *p, enum launch_role role,
                  uint32_t rank)
{
    char address[PLAN_ADDRESS_MAX + 16];
    uint32_t i = role == LAUNCH_SCHEDULER ? 0
                 : role == LAUNCH_SERVER  ? 1 + rank
                                          : 1 + p->o->servers + rank;
    // With --hosts, only the scheduler gets a page, because this machine cannot reach a
    // loopback address of another machine.
    if (p->o->http == NULL || (i > 0 && p->hosts.n > 0))
        return 0;
    TRY(add_file(w, "http-cert", p->o->http_cert));
    TRY(add_file(w, "http-key", p->o->http_key));
    TRY(add_file(w, "http-token-file", p->o->http_token_file));
    if (is_unix(p) && i > 0)
        return argv_add(w, "--http=%s.%s-%u", p->o->http, launch_role_name(role), rank);
    if (is_unix(p))
        return argv_add(w, "--http=%s", p->o->http);
    write_address(p, i, address, sizeof(address));
    return argv_add(w, "--http=%s", address);
}

static json_t *target(const struct plan *p, const char *address, const char *name)
{
    return json_pack("{s:[s], s:{s:s, s:s, s:s}}", "targets", address, "labels",
                     "__scheme__", p->o->http_cert != NULL ? "https" : "http", "cluster",
                     p->o->cluster, "process", name);
}

static json_t *target_of(const struct plan *p, uint32_t i)
{
    char address[PLAN_ADDRESS_MAX + 16], name[48];
    uint32_t servers = p->o->servers;
    write_address(p, i, address, sizeof(address));
    if (i == 0)
        snprintf(name, sizeof(name), "scheduler");
    else
        snprintf(name, sizeof(name), "%s-%u", i <= servers ? "server" : "worker",
                 i <= servers ? i - 1 : i - 1 - servers);
    return target(p, address, name);
}

int plan_write_targets(const struct plan *p, const bool *runs, struct err *e)
{
    if (p->o->http_targets == NULL || p->http_ports == NULL)
        return 0;
    json_begin();
    json_t *all = json_array();
    uint32_t n = 1 + p->o->servers + p->o->workers;
    for (uint32_t i = 0; i < n; i++)
        if (runs[i] && p->http_ports[i] != 0)
            (void)json_array_append_new(all, target_of(p, i));
    if (runs[n] && p->o->http_own != NULL)
        (void)json_array_append_new(all, target(p, p->o->http_own, "launch"));
    if (json_memory_failed()) {
        json_decref(all);
        return err_nomem(e, "the targets");
    }
    return json_write_file(all, p->o->http_targets, e);
}
