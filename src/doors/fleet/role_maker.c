// Role makers: find the role of a process in the environment or in the program's options.
//
// runtime/role.c reads the role from the environment, as for all commands. This file adds
// what only fleets use: indexes and the endpoints of all processes.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "doors/fleet/fleet_internal.h"
#include "os/route.h"

static const char servers_list[] = "PADDLE_PSERVERS_IP_PORT_LIST";
static const char workers_list[] = "PADDLE_TRAINER_ENDPOINTS";

const char *role_name(int role)
{
    return role == TUG_FLEET_WORKER   ? "worker"
           : role == TUG_FLEET_SERVER ? "server"
                                      : "scheduler";
}

static int fleet_role(enum wire_role role)
{
    return role == WIRE_WORKER   ? TUG_FLEET_WORKER
           : role == WIRE_SERVER ? TUG_FLEET_SERVER
                                 : TUG_FLEET_SCHEDULER;
}

// ---------------------------------------------------------------- endpoints

static void endpoints_free(struct endpoints *x)
{
    mem_free(x->text);
    mem_free(x->at);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int check_twice(const struct endpoints *x, const char *what, struct err *e)
{
    const char **sorted = mem_array(x->n + 1, sizeof(*sorted)), *twice = NULL;
    if (sorted == NULL)
        return err_nomem(e, "endpoints");
    memcpy(sorted, x->at, x->n * sizeof(*sorted));
    qsort(sorted, x->n, sizeof(*sorted), by_text);
    for (size_t i = 1; i < x->n && twice == NULL; i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0)
            twice = sorted[i];
    mem_free(sorted);
    return twice != NULL ? err_set(e, TUG_EUSAGE, "%s: %s is listed twice", what, twice)
                         : 0;
}

static int check_endpoint(const char *text, const char *what, struct err *e)
{
    char host[ROLE_TEXT_MAX];
    uint16_t port = 0;
    if (strlen(text) < sizeof(host) &&
        route_split(text, host, sizeof(host), &port, &(struct err){0}) == 0 &&
        host[0] != '\0' && port != 0)
        return 0;
    return err_set(e, TUG_EUSAGE, "%s: '%.100s' is not HOST:PORT", what, text);
}

// Splits a text at commas, semicolons and spaces into endpoints.
static int endpoints_read(struct endpoints *ret, const char *text, const char *what,
                          struct err *e)
{
    static const char between[] = ",; ";
    size_t room = 1;
    for (const char *at = text; *at != '\0'; at++)
        room += strchr(between, *at) != NULL;
    ret->text = mem_strdup(text);
    ret->at = mem_array(room, sizeof(*ret->at));
    if (ret->text == NULL || ret->at == NULL)
        return err_nomem(e, "endpoints");
    for (char *at = ret->text; *at != '\0';) {
        size_t n = strcspn(at, between);
        char *next = at + n + (at[n] != '\0');
        at[n] = '\0';
        if (n > 0) {
            TRY(check_endpoint(at, what, e));
            ret->at[ret->n++] = at;
        }
        at = next;
    }
    if (ret->n > ROLE_PROCESSES_MAX)
        return err_set(e, TUG_EUSAGE, "%s has %zu endpoints, but can have %d at most",
                       what, ret->n, ROLE_PROCESSES_MAX);
    return check_twice(ret, what, e);
}

static int endpoints_of(struct endpoints *ret, const char *const *list, size_t n,
                        const char *what, struct err *e)
{
    size_t bytes = 1, at = 0;
    for (size_t i = 0; i < n; i++) {
        if (list[i] == NULL || strpbrk(list[i], ",; ") != NULL || list[i][0] == '\0')
            return err_set(e, TUG_EUSAGE, "%s: endpoint %zu is not HOST:PORT", what, i);
        bytes += strlen(list[i]) + 1;
    }
    char *text = mem_alloc(bytes);
    if (text == NULL)
        return err_nomem(e, "endpoints");
    text[0] = '\0';
    for (size_t i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, bytes - at, "%s,", list[i]);
    int rc = endpoints_read(ret, text, what, e);
    mem_free(text);
    return rc;
}

// ------------------------------------------------------ roles that the environment gives

static const char *role_maker_get(void *ctx, const char *name)
{
    const char *const *environment = ctx, *value = NULL;
    size_t n = strlen(name);
    if (environment == NULL)
        value = getenv(name);
    for (; environment != NULL && *environment != NULL && value == NULL; environment++)
        if (strncmp(*environment, name, n) == 0 && (*environment)[n] == '=')
            value = *environment + n + 1;
    return value != NULL && value[0] != '\0' ? value : NULL;
}

#define FOR_ONE                                                                          \
    "tug launch and Paddle's launchers set them; a single process needs none of them "   \
    "if its user-defined role maker has one worker"

static int nothing_said(void *ctx, struct err *e)
{
    char missing[256] = "TRAINING_ROLE";
    static const char *const others[] = {servers_list, "PADDLE_TRAINERS_NUM"};
    for (int i = 0; i < 2; i++) {
        size_t n = strlen(missing);
        if (role_maker_get(ctx, others[i]) == NULL)
            snprintf(missing + n, sizeof(missing) - n, ", %s", others[i]);
    }
    return err_set(e, TUG_EUSAGE, "these environment variables are missing: %s; " FOR_ONE,
                   missing);
}

// Reads this process's index from DMLC_SERVER_ID or DMLC_WORKER_ID, which ps-lite's
// launchers set.
static int read_dmlc_index(struct role *r, void *ctx, struct err *e)
{
    const char *name = r->role == WIRE_SERVER ? "DMLC_SERVER_ID" : "DMLC_WORKER_ID";
    uint32_t n = r->role == WIRE_SERVER ? r->servers : r->workers;
    const char *text = role_maker_get(ctx, name);
    char *end;
    if (r->role == WIRE_SCHEDULER)
        return 0;
    if (text == NULL)
        return err_set(e, TUG_EUSAGE,
                       "these environment variables are missing: %s; " FOR_ONE, name);
    unsigned long value = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || value >= n)
        return err_set(e, TUG_EUSAGE,
                       "%s='%.40s' is not a number below %u, the number of %ss", name,
                       text, n, role_name(fleet_role(r->role)));
    r->rank = (uint32_t)value;
    return 0;
}

static int check_roles(void *ctx, struct err *e)
{
    const char *dmlc = role_maker_get(ctx, "DMLC_ROLE"),
               *paddle = role_maker_get(ctx, "TRAINING_ROLE");
    if (dmlc == NULL || paddle == NULL || strcmp(dmlc, "scheduler") == 0)
        return 0;
    if (strcmp(dmlc, strcmp(paddle, "PSERVER") == 0 ? "server" : "worker") != 0)
        return err_set(e, TUG_EUSAGE,
                       "DMLC_ROLE=%.40s and TRAINING_ROLE=%.40s contradict each other; "
                       "unset one of them",
                       dmlc, paddle);
    return 0;
}

static int check_counts(struct tug_role_maker *m, struct err *e)
{
    struct role *r = &m->role;
    if (r->scheme == ROLE_PADDLE && r->role == WIRE_WORKER && r->rank >= r->workers)
        return err_set(
            e, TUG_EUSAGE,
            "PADDLE_TRAINER_ID is %u, and must be below PADDLE_TRAINERS_NUM, %u", r->rank,
            r->workers);
    if (m->workers.n > 0 && m->workers.n != r->workers)
        return err_set(e, TUG_EUSAGE,
                       "%s has %zu endpoints, but there are %u workers "
                       "(PADDLE_TRAINERS_NUM, DMLC_NUM_WORKER)",
                       workers_list, m->workers.n, r->workers);
    if (m->servers.n > 0 && m->servers.n != r->servers)
        return err_set(e, TUG_EUSAGE, "%s has %zu endpoints, but DMLC_NUM_SERVER is %u",
                       servers_list, m->servers.n, r->servers);
    return 0;
}

static int read_environment(struct tug_role_maker *m, void *ctx, struct err *e)
{
    struct role *r = &m->role;
    const char *paddle = role_maker_get(ctx, "TRAINING_ROLE"), *at;
    if (role_maker_get(ctx, "DMLC_ROLE") == NULL && paddle == NULL)
        return nothing_said(ctx, e);
    if (paddle != NULL &&
        (strcmp(paddle, "HETER_TRAINER") == 0 || strcmp(paddle, "COORDINATOR") == 0))
        return err_set(e, TUG_EUSAGE,
                       "TRAINING_ROLE=%s: tug has neither heterogeneous trainers nor "
                       "federated learning; roles are TRAINER and PSERVER",
                       paddle);
    TRY(check_roles(ctx, e));
    TRY(role_needs_servers(role_maker_get, ctx, e));
    TRY(role_read(r, WIRE_NOBODY, role_maker_get, ctx, e));
    if (r->scheme == ROLE_DMLC)
        TRY(read_dmlc_index(r, ctx, e));
    if ((at = role_maker_get(ctx, servers_list)) != NULL)
        TRY(endpoints_read(&m->servers, at, servers_list, e));
    if ((at = role_maker_get(ctx, workers_list)) != NULL)
        TRY(endpoints_read(&m->workers, at, workers_list, e));
    if ((at = role_maker_get(ctx, "TUG_SCHEDULER")) != NULL &&
        snprintf(r->scheduler, sizeof(r->scheduler), "%s", at) >=
            (int)sizeof(r->scheduler))
        return err_set(e, TUG_EUSAGE, "TUG_SCHEDULER is longer than %d bytes",
                       ROLE_TEXT_MAX - 1);
    return check_counts(m, e);
}

static int role_maker_finish(struct tug_role_maker **ret, struct tug_role_maker *m,
                             int rc)
{
    if (rc != 0)
        tug_role_maker_close(m);
    else
        *ret = m;
    return rc;
}

int tug_role_maker_cloud(struct tug_role_maker **ret, const char *const *environment)
{
    struct tug_role_maker *m = mem_zalloc(sizeof(*m));
    if (m == NULL)
        return err_nomem(last_error(), "a role maker");
    return role_maker_finish(
        ret, m, read_environment(m, (void *)(uintptr_t)environment, last_error()));
}

// ------------------------------------------------- roles that the program's options give

static int take_user(struct tug_role_maker *m, const struct tug_role_maker_options *o,
                     struct err *e)
{
    struct role *r = &m->role;
    bool worker = o->role == TUG_FLEET_WORKER;
    if (!worker && o->role != TUG_FLEET_SERVER)
        return err_set(e, TUG_EUSAGE,
                       "role: %d is neither Role.WORKER (1) nor Role.SERVER (2)",
                       o->role);
    TRY(endpoints_of(&m->servers, o->server_endpoints, o->n_server_endpoints,
                     "server_endpoints", e));
    TRY(endpoints_of(&m->workers, o->worker_endpoints, o->n_worker_endpoints,
                     "worker_endpoints", e));
    r->role = worker ? WIRE_WORKER : WIRE_SERVER;
    r->servers = m->servers.n > 0 ? (uint32_t)m->servers.n : 1;
    m->alone = m->servers.n == 0;
    r->workers = o->worker_num != 0              ? o->worker_num
                 : m->alone && m->workers.n == 0 ? 1
                                                 : (uint32_t)m->workers.n;
    if (m->workers.n > 0 && m->workers.n != r->workers)
        return err_set(e, TUG_EUSAGE,
                       "worker_endpoints has %zu endpoints, but worker_num is %u",
                       m->workers.n, r->workers);
    if (m->alone && (!worker || r->workers != 1))
        return err_set(
            e, TUG_EUSAGE,
            "server_endpoints: is empty; only a single worker can do without servers");
    if (r->workers > ROLE_PROCESSES_MAX || (!worker && r->workers == 0))
        return err_set(e, TUG_EUSAGE, "worker_num: %u is not from 1 to %d", r->workers,
                       ROLE_PROCESSES_MAX);
    uint32_t n = !worker ? r->servers : r->workers != 0 ? r->workers : ROLE_PROCESSES_MAX;
    if (o->current_id >= n)
        return err_set(e, TUG_EUSAGE, "current_id: %u is not from 0 to %u", o->current_id,
                       n - 1);
    r->rank = o->current_id;
    return 0;
}

static void take_addresses(struct tug_role_maker *m)
{
    struct role *r = &m->role;
    uint16_t port = 0;
    if (m->alone)
        return;
    snprintf(r->scheduler, sizeof(r->scheduler), "%s", m->servers.at[0]);
    if (r->role == WIRE_SERVER) {
        r->hosts_scheduler = r->rank == 0;
        (void)route_split(m->servers.at[r->rank], r->host, sizeof(r->host), &port,
                          &(struct err){0});
        r->port = r->hosts_scheduler ? 0 : port;
    }
}

int tug_role_maker_user(struct tug_role_maker **ret,
                        const struct tug_role_maker_options *o)
{
    struct tug_role_maker *m = mem_zalloc(sizeof(*m));
    if (m == NULL)
        return err_nomem(last_error(), "a role maker");
    int rc = take_user(m, o, last_error());
    if (rc == 0)
        take_addresses(m);
    return role_maker_finish(ret, m, rc);
}

void tug_role_maker_close(struct tug_role_maker *m)
{
    if (m == NULL)
        return;
    endpoints_free(&m->servers);
    endpoints_free(&m->workers);
    mem_free(m);
}

int role_maker_copy(struct tug_role_maker **ret, const struct tug_role_maker *m,
                    struct err *e)
{
    struct tug_role_maker *copy = mem_zalloc(sizeof(*copy));
    if (copy == NULL)
        return err_nomem(e, "a role maker");
    copy->role = m->role;
    copy->alone = m->alone;
    int rc = endpoints_of(&copy->servers, m->servers.at, m->servers.n, "servers", e);
    if (rc == 0)
        rc = endpoints_of(&copy->workers, m->workers.at, m->workers.n, "workers", e);
    return role_maker_finish(ret, copy, rc);
}

// ---------------------------------------------------------------- facts about the run

void tug_role_maker_place(const struct tug_role_maker *m, struct tug_place *ret)
{
    *ret = (struct tug_place){
        .role = fleet_role(m->role.role),
        .index = m->role.role == WIRE_SCHEDULER ? 0 : m->role.rank,
        .workers = m->role.workers,
        .servers = m->role.servers,
        .server_endpoints = (uint32_t)m->servers.n,
        .worker_endpoints = (uint32_t)m->workers.n,
        .alone = m->alone,
    };
}

const char *tug_role_maker_endpoint(const struct tug_role_maker *m, int role,
                                    uint32_t index)
{
    const struct endpoints *x = role == TUG_FLEET_SERVER   ? &m->servers
                                : role == TUG_FLEET_WORKER ? &m->workers
                                                           : NULL;
    return x != NULL && index < x->n ? x->at[index] : NULL;
}
