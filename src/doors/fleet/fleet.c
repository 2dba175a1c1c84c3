// A fleet: its tables, starting servers and workers, and leaving the run.
//
// When a run begins, workers and servers wait at a common barrier, which servers reach
// after server 0 has loaded the tables of tug_fleet_init_server. If server 0 cannot load
// a table, the run ends for all processes.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/plural.h"
#include "doors/fleet/fleet_internal.h"
#include "doors/kvapp/above.h"
#include "doors/tables/tug_client.h"
#include "os/below.h"
#include "os/descriptors.h"
#include "os/file.h"
#include "os/route.h"

#define ALL_MEET (WIRE_GROUP_SERVERS | WIRE_GROUP_WORKERS)

// ---------------------------------------------------------------- tables

static int copy_variables(struct fleet_table *t, const struct tug_fleet_table *from,
                          struct err *e)
{
    t->variables = mem_zalloc((from->n_variables + 1) * sizeof(*t->variables));
    if (t->variables == NULL)
        return err_nomem(e, "the variables of a table");
    for (size_t i = 0; i < from->n_variables; i++) {
        const struct tug_variable *v = &from->variables[i];
        struct tug_variable *to = &t->variables[t->n_variables++];
        to->n = v->n;
        to->name = v->name != NULL ? mem_strdup(v->name) : NULL;
        to->init = v->init != NULL ? mem_strdup(v->init) : NULL;
        if (v->name == NULL || v->name[0] == '\0')
            return err_set(e, TUG_EUSAGE, "variable %zu of table %u has no name", i,
                           from->number);
        if (to->name == NULL || (v->init != NULL && to->init == NULL))
            return err_nomem(e, "the variables of a table");
    }
    return 0;
}

static int take_table(struct tug_fleet *f, const struct tug_fleet_table *from,
                      struct err *e)
{
    const char *settings = from->settings != NULL ? from->settings : "";
    if (from->number >= TUG_TABLES_MAX || from->name == NULL || from->name[0] == '\0')
        return err_set(e, TUG_EUSAGE, "table %u needs a name, and a number below %d",
                       from->number, TUG_TABLES_MAX);
    for (size_t i = 0; i < f->n_tables; i++)
        if (f->tables[i].number == from->number ||
            strcmp(f->tables[i].name, from->name) == 0)
            return err_set(e, TUG_EUSAGE,
                           "table %u '%.100s': another table has this number or name",
                           from->number, from->name);
    struct fleet_table *t = &f->tables[f->n_tables++];
    size_t n = strlen(from->name) + strlen(settings) + sizeof("name=;");
    t->number = from->number;
    t->name = mem_strdup(from->name);
    t->settings = mem_alloc(n);
    if (t->name == NULL || t->settings == NULL)
        return err_nomem(e, "a table's settings");
    snprintf(t->settings, n, "name=%s;%s", from->name, settings);
    return copy_variables(t, from, e);
}

static void free_table(struct fleet_table *t)
{
    for (size_t i = 0; i < t->n_variables; i++) {
        mem_free((void *)(uintptr_t)t->variables[i].name);
        mem_free((void *)(uintptr_t)t->variables[i].init);
    }
    mem_free(t->variables);
    mem_free(t->name);
    mem_free(t->settings);
}

int fleet_find(const struct tug_fleet *f, uint32_t number, struct fleet_table **ret)
{
    for (size_t i = 0; i < f->n_tables; i++)
        if (f->tables[i].number == number) {
            *ret = &f->tables[i];
            return 0;
        }
    return err_set(last_error(), TUG_EUSAGE,
                   "table %u is not one of the fleet's %zu tables", number, f->n_tables);
}

static int make_tables(struct tug_fleet *f, struct tug_client *c)
{
    for (size_t i = 0; i < f->n_tables; i++)
        TRY(tug_table_create(c, f->tables[i].number, f->tables[i].settings));
    return 0;
}

// ---------------------------------------------------------------- opening and closing

static int take_options(struct tug_fleet *f, const struct tug_fleet_options *o,
                        struct err *e)
{
    f->wait_seconds = o->wait_seconds;
    f->local_loops = o->local_loops != 0 ? o->local_loops : 1;
    f->lent = o->client;
    f->tables = mem_zalloc((o->n_tables + 1) * sizeof(*f->tables));
    if (f->tables == NULL)
        return err_nomem(e, "the tables of a fleet");
    if (o->roles != NULL)
        TRY(role_maker_copy(&f->roles, o->roles, e));
    else
        TRY(tug_role_maker_cloud(&f->roles, NULL));
    for (size_t i = 0; i < o->n_tables; i++)
        TRY(take_table(f, &o->tables[i], e));
    return 0;
}

int tug_fleet_init(struct tug_fleet **ret, const struct tug_fleet_options *o)
{
    descriptors_hold_standard();
    static const struct tug_fleet_options none;
    struct tug_fleet *f = mem_zalloc(sizeof(*f));
    if (f == NULL)
        return err_nomem(last_error(), "a fleet");
    int rc = take_options(f, o != NULL ? o : &none, last_error());
    if (rc != 0)
        tug_fleet_close(f);
    else
        *ret = f;
    return rc;
}

void tug_fleet_close(struct tug_fleet *f)
{
    if (f == NULL)
        return;
    struct err e = *last_error();
    if (f->client != NULL)
        (void)tug_fleet_stop_worker(f);
    *last_error() = e;
    for (size_t i = 0; i < f->n_tables; i++)
        free_table(&f->tables[i]);
    for (size_t i = 0; i < f->n_loads; i++)
        mem_free(f->loads[i].path);
    for (size_t i = 0; i < f->n_infos; i++)
        mem_free(f->infos[i]);
    mem_free(f->infos);
    mem_free(f->loads);
    mem_free(f->tables);
    tug_role_maker_close(f->roles);
    mem_free(f);
}

// ------------------------------------------------ the role and the place of this process

static enum wire_role role_of(const struct tug_fleet *f)
{
    return f->roles->role.role;
}

bool tug_fleet_is_worker(const struct tug_fleet *f)
{
    return role_of(f) == WIRE_WORKER;
}

bool tug_fleet_is_server(const struct tug_fleet *f)
{
    return role_of(f) == WIRE_SERVER;
}

bool tug_fleet_is_first_worker(const struct tug_fleet *f)
{
    return tug_fleet_worker_index(f) == 0;
}

uint32_t tug_fleet_worker_index(const struct tug_fleet *f)
{
    return tug_fleet_is_worker(f) ? f->roles->role.rank : UINT32_MAX;
}

uint32_t tug_fleet_server_index(const struct tug_fleet *f)
{
    return tug_fleet_is_server(f) ? f->roles->role.rank : UINT32_MAX;
}

uint32_t tug_fleet_worker_num(const struct tug_fleet *f)
{
    return f->roles->role.workers;
}

uint32_t tug_fleet_server_num(const struct tug_fleet *f)
{
    return f->roles->role.servers;
}

const char *tug_fleet_worker_endpoint(const struct tug_fleet *f, uint32_t index)
{
    return tug_role_maker_endpoint(f->roles, TUG_FLEET_WORKER, index);
}

const char *tug_fleet_server_endpoint(const struct tug_fleet *f, uint32_t index)
{
    return tug_role_maker_endpoint(f->roles, TUG_FLEET_SERVER, index);
}

static int is_for(const struct tug_fleet *f, bool right, const char *call,
                  const char *role)
{
    struct tug_place p;
    tug_role_maker_place(f->roles, &p);
    return right ? 0
                 : err_set(last_error(), TUG_EUSAGE,
                           "%s is for %ss, and this process is %s %u", call, role,
                           role_name(p.role), p.index);
}

int fleet_in_run(const struct tug_fleet *f)
{
    return f->client != NULL ? 0
                             : err_set(last_error(), TUG_EUSAGE,
                                       "this worker has not joined the run: call "
                                       "tug_fleet_init_worker first");
}

// ---------------------------------------------------------------- servers

static int add_load(struct tug_fleet *f, uint32_t table, const char *path)
{
    char absolute[FILE_PATH_MAX];
    TRY(below_absolute(path, absolute, last_error()));
    if (strchr(absolute, ',') != NULL)
        return err_set(last_error(), TUG_EUSAGE,
                       "'%s': a directory to load from cannot have a comma in its name",
                       absolute);
    struct fleet_load *loads = mem_realloc_array(f->loads, f->n_loads + 1,
                                                 sizeof(*loads));
    if (loads == NULL)
        return err_nomem(last_error(), "the list of tables that a server loads");
    f->loads = loads;
    loads[f->n_loads] = (struct fleet_load){table, mem_strdup(absolute)};
    if (loads[f->n_loads].path == NULL)
        return err_nomem(last_error(), "the list of tables that a server loads");
    f->n_loads++;
    return 0;
}

static int find_name(const struct tug_fleet *f, const char *name, uint32_t *ret)
{
    for (size_t i = 0; i < f->n_tables; i++)
        if (name != NULL && strcmp(f->tables[i].name, name) == 0) {
            *ret = (uint32_t)i;
            return 0;
        }
    return err_set(last_error(), TUG_EUSAGE,
                   "there is no table '%.100s' among the fleet's %zu",
                   name != NULL ? name : "", f->n_tables);
}

int tug_fleet_init_server(struct tug_fleet *f, const char *dirname,
                          const char *const *names, size_t n_names)
{
    uint32_t table;
    TRY(is_for(f, !tug_fleet_is_worker(f), "tug_fleet_init_server", "server"));
    if (dirname == NULL && n_names > 0)
        return err_set(last_error(), TUG_EUSAGE,
                       "tug_fleet_init_server: names of tables were given, but no "
                       "directory to load them from");
    for (size_t i = 0; i < n_names; i++)
        TRY(find_name(f, names[i], &table));
    if (dirname == NULL)
        return 0;
    if (f->n_tables == 0)
        return err_set(
            last_error(), TUG_EUSAGE,
            "tug_fleet_init_server: nothing can be loaded from %.200s, because "
            "the fleet was given no tables",
            dirname);
    if (n_names == 0) {
        for (size_t i = 0; i < f->n_tables; i++)
            TRY(add_load(f, (uint32_t)i, dirname));
        return 0;
    }
    for (size_t i = 0; i < n_names; i++) {
        TRY(find_name(f, names[i], &table));
        TRY(add_load(f, table, dirname));
    }
    return 0;
}

int tug_wrapper_load_sparse(struct tug_fleet *f, uint32_t table, const char *path)
{
    struct fleet_table *t;
    TRY(is_for(f, !tug_fleet_is_worker(f), "tug_wrapper_load_sparse", "server"));
    TRY(fleet_find(f, table, &t));
    return add_load(f, (uint32_t)(t - f->tables), path);
}

// Fills the options of a server's node: its address, and the directories from which it
// may load.
static int node_options(struct tug_fleet *f, const char *ip, uint16_t port,
                        struct tug_node_options *ret, struct err *e)
{
    const struct role *r = &f->roles->role;
    *ret = (struct tug_node_options){
        .role = tug_fleet_is_server(f) ? TUG_GROUP_SERVERS : TUG_GROUP_SCHEDULER,
        .servers = r->servers,
        .workers = r->workers,
        .scheduler = r->scheduler,
        .host = ip != NULL           ? ip
                : r->host[0] != '\0' ? r->host
                                     : NULL,
        .network = ip == NULL && r->interface[0] != '\0' ? r->interface : NULL,
        .port = port != 0 ? port : r->port,
        .wait_seconds = f->wait_seconds,
        .hosts_scheduler = r->hosts_scheduler,
    };
    if (!r->hosts_scheduler || (ip == NULL && port == 0))
        return 0;
    char host[ROLE_TEXT_MAX];
    uint16_t own = 0;
    TRY(route_split(r->scheduler, host, sizeof(host), &own, e));
    if ((ip != NULL && strcmp(ip, host) != 0) || (port != 0 && port != own))
        return err_set(e, TUG_EUSAGE,
                       "the first server must listen at %s, where the other processes "
                       "connect to it, not at %s:%u",
                       r->scheduler, ip != NULL ? ip : host, port != 0 ? port : own);
    ret->port = 0;
    return 0;
}

static int load_roots(const struct tug_fleet *f, char **ret, struct err *e)
{
    size_t bytes = 1, at = 0;
    for (size_t i = 0; i < f->n_loads; i++)
        bytes += strlen(f->loads[i].path) + 1;
    *ret = mem_zalloc(bytes);
    if (*ret == NULL)
        return err_nomem(e, "the directories that a server loads from");
    for (size_t i = 0; i < f->n_loads; i++) {
        const char *path = f->loads[i].path;
        bool again = i > 0 && strcmp(f->loads[i - 1].path, path) == 0;
        if (!again)
            at += (size_t)snprintf(*ret + at, bytes - at, "%s%s", at > 0 ? "," : "",
                                   path);
    }
    return 0;
}

static int load_all(struct tug_fleet *f, struct tug_client *c)
{
    TRY(make_tables(f, c));
    for (size_t i = 0; i < f->n_loads; i++)
        TRY(tug_load(c, f->tables[f->loads[i].table].number, f->loads[i].path, NULL,
                     NULL));
    return 0;
}

// Loads the tables with which the run starts. For this, server 0 joins its own cluster as
// a guest. If loading fails, ends the run, because workers wait for the loaded tables.
static int load_first(struct tug_fleet *f)
{
    struct tug_client *c;
    struct tug_client_options o = {.scheduler = f->roles->role.scheduler,
                                   .guest = true,
                                   .wait_seconds = f->wait_seconds};
    if (f->n_loads == 0 || tug_fleet_server_index(f) != 0)
        return 0;
    TRY(tug_client_open(&c, &o));
    int rc = load_all(f, c);
    struct err e = *last_error();
    if (rc != 0) {
        char why[ERR_TEXT_MAX];
        snprintf(why, sizeof(why),
                 "server 0 could not load the save that the run begins with: %.300s",
                 e.text);
        (void)tug_stop(c, why);
    }
    (void)tug_client_close(c);
    return rc != 0 ? last_error_is(&e) : 0;
}

static int fleet_serve(struct tug_fleet *f, const struct tug_node_options *o)
{
    struct tug_node *n;
    struct err e = {0};
    TRY(tug_node_start(&n, o));
    int rc = load_first(f);
    if (rc == 0 && tug_fleet_is_server(f))
        rc = tug_node_barrier(n, ALL_MEET);
    if (rc != 0 && kv_has_ended_well(n))
        rc = 0;
    if (rc != 0)
        e = *last_error();
    int ended = tug_node_finalize(n, false);
    return rc != 0 ? last_error_is(&e) : ended;
}

int tug_fleet_run_server(struct tug_fleet *f, const char *ip, uint16_t port)
{
    struct tug_node_options o;
    char *roots = NULL;
    TRY(is_for(f, !tug_fleet_is_worker(f), "tug_fleet_run_server", "server"));
    TRY(node_options(f, ip, port, &o, last_error()));
    int rc = load_roots(f, &roots, last_error());
    if (rc == 0) {
        o.load_root = tug_fleet_is_server(f) && roots[0] != '\0' ? roots : NULL;
        rc = fleet_serve(f, &o);
    }
    mem_free(roots);
    return rc;
}

// ---------------------------------------------------------------- workers

static int open_dense(struct tug_fleet *f)
{
    for (size_t i = 0; i < f->n_tables; i++) {
        struct fleet_table *t = &f->tables[i];
        if (t->n_variables > 0)
            TRY(tug_dense_open(&t->dense, f->client, t->number, t->variables,
                               t->n_variables));
    }
    return 0;
}

static int meet_servers(struct tug_fleet *f)
{
    if (f->roles->alone || f->lent != NULL)
        return 0;
    int rc = calls_barrier(f->client, ALL_MEET);
    return rc != 0 ? err_wrap(last_error(), "the run has not begun (has each server "
                                            "called tug_fleet_run_server?)")
                   : 0;
}

// Checks that the run has as many servers and workers as this worker's options say. If
// not, ends the run, because the other processes would wait for this worker for ever.
static int check_counts(struct tug_fleet *f)
{
    const struct role *r = &f->roles->role;
    uint32_t workers = tug_client_workers(f->client);
    uint32_t servers = tug_client_servers(f->client);
    if (f->roles->alone || ((r->workers == 0 || r->workers == workers) &&
                            (r->servers == 0 || r->servers == servers)))
        return 0;
    struct err e;
    uint32_t expected = r->workers != 0 ? r->workers : workers;
    err_set(
        &e, TUG_EUSAGE,
        "worker %u was started for %u server%s and %u worker%s, but the run has %u and "
        "%u: the list of servers (PADDLE_PSERVERS_IP_PORT_LIST) and the number of "
        "workers (PADDLE_TRAINERS_NUM) must be the same in all processes",
        r->rank, r->servers, PLURAL_S(r->servers), expected, PLURAL_S(expected), servers,
        workers);
    (void)tug_stop(f->client, e.text);
    return last_error_is(&e);
}

static int fleet_join(struct tug_fleet *f)
{
    struct role *r = &f->roles->role;
    uint32_t workers = tug_client_workers(f->client);
    TRY(check_counts(f));
    if (r->rank >= workers)
        return err_set(last_error(), TUG_EUSAGE,
                       "this worker has the index %u, but the run has only %u workers, "
                       "counted from 0",
                       r->rank, workers);
    r->workers = workers;
    r->servers = f->roles->alone ? 1 : tug_client_servers(f->client);
    TRY(make_tables(f, f->client));
    TRY(meet_servers(f));
    TRY(fleet_exchange_open(f));
    return open_dense(f);
}

static void close_dense(struct tug_fleet *f)
{
    for (size_t i = 0; i < f->n_tables; i++) {
        tug_dense_close(f->tables[i].dense);
        f->tables[i].dense = NULL;
    }
}

static int open_client(struct tug_fleet *f)
{
    struct tug_client_options o = {.wait_seconds = f->wait_seconds};
    f->client = f->lent;
    if (f->lent != NULL)
        return 0;
    if (f->roles->alone)
        o.local_loops = f->local_loops;
    else
        o.scheduler = f->roles->role.scheduler;
    return tug_client_open(&f->client, &o);
}

int tug_fleet_init_worker(struct tug_fleet *f)
{
    TRY(is_for(f, tug_fleet_is_worker(f), "tug_fleet_init_worker", "worker"));
    if (f->client != NULL)
        return err_set(last_error(), TUG_EUSAGE,
                       "tug_fleet_init_worker: this worker is in a run already");
    TRY(open_client(f));
    int rc = fleet_join(f);
    if (rc != 0) {
        struct err e = *last_error();
        (void)tug_fleet_stop_worker(f);
        return last_error_is(&e);
    }
    return 0;
}

struct tug_client *tug_fleet_client(struct tug_fleet *f)
{
    return f->client;
}

int tug_fleet_stop_worker(struct tug_fleet *f)
{
    struct err e = {0};
    TRY(fleet_in_run(f));
    if (f->communicator != NULL && tug_communicator_is_running(f->communicator) &&
        tug_communicator_stop(f->communicator, 0) != 0)
        e = *last_error();
    (void)tug_communicator_close(f->communicator);
    f->communicator = NULL;
    close_dense(f);
    int rc = f->lent != NULL ? 0 : tug_client_close(f->client);
    f->client = NULL;
    return e.code != 0 ? last_error_is(&e) : rc;
}

int tug_fleet_barrier_worker(struct tug_fleet *f)
{
    TRY(fleet_in_run(f));
    return tug_barrier(f->client);
}

// ---------------------------------------------------------- dividing files among workers

static int by_path(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int tug_fleet_get_file_shard(const struct tug_fleet *f, const char **paths, size_t n,
                             size_t *ret_first, size_t *ret_n)
{
    size_t workers = tug_fleet_worker_num(f), index = tug_fleet_worker_index(f);
    TRY(is_for(f, tug_fleet_is_worker(f), "tug_fleet_get_file_shard", "worker"));
    if (workers == 0)
        return fleet_in_run(f); // before the run, the number of workers is not known
    qsort(paths, n, sizeof(*paths), by_path);
    for (size_t i = 1; i < n; i++)
        if (strcmp(paths[i - 1], paths[i]) == 0)
            return err_set(last_error(), TUG_EUSAGE, "files: %.200s is listed twice",
                           paths[i]);
    size_t each = n / workers, more = n % workers;
    *ret_first = each * index + (index < more ? index : more);
    *ret_n = each + (index < more);
    return 0;
}
