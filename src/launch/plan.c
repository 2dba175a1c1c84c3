// Command lines and environments of a run's roles; see plan.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "launch/plan.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cluster/node.h"
#include "launch/secrets.h"
#include "os/file.h"
#include "os/log.h"
#include "os/route.h"
#include "os/runtime_dir.h"

#define STATE_ENDS ".state" // the end of the names of schedulers' states
enum { REMOTE_PORT = 36000, SPIN_US = 30 };

// ---------------------------------------------------------------- the whole run

// Returns whether processes may poll for messages instead of sleeping, which helps only if
// each process has a core of its own.
static bool may_spin(const struct launch_options *o)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t busy = (uint64_t)o->servers * o->loops + o->workers;
    return o->hosts == NULL && cores > 0 && busy <= (uint64_t)cores;
}

static int find_host(struct plan *p, struct err *e)
{
    const char *host = p->o->host;
    if (host != NULL || p->hosts.n == 0) {
        snprintf(p->host, sizeof(p->host), "%s", host != NULL ? host : "127.0.0.1");
        return 0;
    }
    int rc = route_address(hosts_address(&p->hosts.list[0]), p->host, e);
    return rc == 0 ? 0
                   : err_wrap(e, "the address at which the scheduler should listen is "
                                 "missing: give --host");
}

// Chooses a port and holds it until the run has ended. Otherwise the system could give
// the port to another process before the process of this run listens at it.
static int hold_port(struct plan *p, const char *host, uint16_t *ret, struct err *e)
{
    TRY(route_hold_port(host, ret, &p->held[p->n_held], e));
    p->n_held++;
    return 0;
}

static int choose_ports(struct plan *p, struct err *e)
{
    uint32_t n = 1 + p->o->servers + p->o->workers;
    p->port = p->o->port;
    p->held = mem_zalloc(n * sizeof(*p->held));
    if (p->held == NULL)
        return err_nomem(e, "the ports");
    if (!p->o->program)
        return plan_http_choose(p, e);
    p->server_ports = mem_zalloc((p->o->servers + 1) * sizeof(*p->server_ports));
    if (p->server_ports == NULL)
        return err_nomem(e, "the ports");
    if (p->port == 0)
        TRY(hold_port(p, p->host, &p->port, e));
    for (uint32_t i = 0; i < p->o->servers; i++) {
        p->server_ports[i] = (uint16_t)(REMOTE_PORT + i);
        if (p->hosts.n == 0)
            TRY(hold_port(p, p->host, &p->server_ports[i], e));
    }
    return 0;
}

// Returns whether processes may use Unix sockets: only if all run on this machine, by the
// same user, and no certificates are to identify peers.
static bool may_use_sockets(const struct plan *p)
{
    const struct launch_options *o = p->o;
    return o->sockets && p->hosts.n == 0 && o->ca == NULL && o->interface == NULL &&
           o->advertise == NULL &&
           (strncmp(p->host, "127.", 4) == 0 || strcmp(p->host, "::1") == 0);
}

// Computes the scheduler's address before the scheduler runs, because the environment of
// programs contains the address.
static int foresee_address(struct plan *p, struct err *e)
{
    char tcp[PLAN_ADDRESS_MAX], local[VAN_ADDRESS_MAX];
    struct err why;
    snprintf(tcp, sizeof(tcp), strchr(p->host, ':') != NULL ? "[%s]:%u" : "%s:%u",
             p->host, p->port);
    if (p->sockets && node_socket(local, p->o->cluster, p->port, p->port, &why) != 0) {
        log_warn("the processes use TCP: %s", why.text);
        p->sockets = false;
    }
    int n = p->sockets
                ? snprintf(p->scheduler, sizeof(p->scheduler), "%s,tcp://%s", local, tcp)
                : snprintf(p->scheduler, sizeof(p->scheduler), "%s", tcp);
    if (n >= 0 && (size_t)n < sizeof(p->scheduler))
        return 0;
    return err_set(e, TUG_EUSAGE, "--host: the name is too long");
}

// Removes the state of a run whose launcher was killed, unless a scheduler still uses the
// state.
static void sweep_state(void *ctx, const char *path)
{
    const char *pid = strrchr(path, '-');
    char *end;
    long launcher = pid != NULL ? strtol(pid + 1, &end, 10) : 0;
    int lock = -1;
    (void)ctx;
    if (launcher <= 0 || strcmp(end, STATE_ENDS) != 0 || kill((pid_t)launcher, 0) == 0 ||
        errno != ESRCH || file_lock_dir(path, &lock, NULL) != 0)
        return;
    (void)file_remove_tree(path, NULL);
    file_unlock_dir(lock);
}

// Chooses the directory of the scheduler's state: below the user's runtime directory. The
// state is needed only while the launcher runs, and is removed at the end.
static int choose_state(struct plan *p, struct err *e)
{
    char dir[FILE_PATH_MAX], name[128];
    if (p->o->restarts == 0 || p->o->program)
        return 0;
    TRY(runtime_dir_make(dir, e));
    runtime_dir_list_in(dir, "", STATE_ENDS, sweep_state, NULL);
    snprintf(name, sizeof(name), "%.60s-%ld" STATE_ENDS, p->o->cluster, (long)getpid());
    TRY(file_join(p->state, dir, name, e));
    // A launcher that was killed may have had the same pid and left its state.
    return file_remove_tree(p->state, e);
}

int plan_open(struct plan *p, const struct launch_options *o, struct err *e)
{
    *p = (struct plan){.o = o, .spin = may_spin(o)};
    snprintf(p->job, sizeof(p->job), "%s", o->cluster);
    if (o->hosts != NULL)
        TRY(hosts_read(&p->hosts, o->hosts, e));
    TRY(find_host(p, e));
    TRY(choose_ports(p, e));
    TRY(choose_state(p, e));
    p->sockets = may_use_sockets(p);
    if (o->program)
        TRY(foresee_address(p, e));
    if (p->hosts.n > 0 && !o->insecure && !o->program)
        TRY(secrets_open(&p->secrets, o->ca, o->cert, o->key, e));
    return 0;
}

void plan_close(struct plan *p)
{
    if (p->state[0] != '\0')
        (void)file_remove_tree(p->state, NULL);
    hosts_free(&p->hosts);
    secrets_close(&p->secrets);
    mem_free(p->server_ports);
    mem_free(p->http_ports);
    for (uint32_t i = 0; i < p->n_held; i++)
        close(p->held[i]);
    mem_free(p->held);
}

static const char *role_text(enum launch_role role, uint32_t rank, char to[48])
{
    snprintf(to, 48, "%s:%u", launch_role_name(role), rank);
    return to;
}

const char *plan_wrap(const struct plan *p, enum launch_role role, uint32_t rank)
{
    char name[48];
    size_t n = strlen(role_text(role, rank, name));
    for (size_t i = 0; i < p->o->wraps.n; i++) {
        const char *wrap = p->o->wraps.items[i];
        if (strncmp(wrap, name, n) == 0 && wrap[n] == '=')
            return wrap + n + 1;
    }
    return NULL;
}

const struct host *plan_host(const struct plan *p, enum launch_role role, uint32_t rank)
{
    if (p->hosts.n == 0 || role == LAUNCH_SCHEDULER)
        return NULL;
    uint32_t i = role == LAUNCH_SERVER ? rank : p->o->servers + rank;
    return &p->hosts.list[hosts_place(&p->hosts, i)];
}

// ---------------------------------------------------------------- command lines

static int add_wrap(struct argv *w, const char *wrap)
{
    while (*wrap != 0) {
        size_t skip = strspn(wrap, " "), n = strcspn(wrap + skip, " ");
        if (n > 0)
            TRY(argv_add(w, "%.*s", (int)n, wrap + skip));
        wrap += skip + n;
    }
    return 0;
}

static int add_common(struct argv *w, const struct plan *p, enum launch_role role)
{
    const struct launch_options *o = p->o;
    TRY(argv_add(w, "%s", o->tug));
    TRY(argv_add(w, "%s", launch_role_name(role)));
    TRY(argv_add(w, "--cluster=%s", o->cluster));
    TRY(argv_add(w, "--log-level=%s", o->log_level));
    if (o->log_json)
        TRY(argv_add(w, "--log-format=json"));
    TRY(argv_add(w, "--connect-timeout=%g", o->connect_seconds));
    if (o->insecure)
        TRY(argv_add(w, "--insecure"));
    if (p->secrets.used)
        return argv_add(w, "--pem-stdin");
    if (o->ca != NULL)
        TRY(argv_add(w, "--ca=%s", o->ca));
    if (o->cert != NULL)
        TRY(argv_add(w, "--cert=%s", o->cert));
    if (o->key != NULL)
        TRY(argv_add(w, "--key=%s", o->key));
    return 0;
}

static int add_scheduler(struct argv *w, const struct plan *p)
{
    const struct launch_options *o = p->o;
    TRY(argv_add(w, "--servers=%u", o->servers));
    TRY(argv_add(w, "--workers=%u", o->workers));
    TRY(argv_add(w, "--replicas=%u", o->replicas));
    if (o->interface != NULL)
        TRY(argv_add(w, "--interface=%s", o->interface));
    else
        TRY(argv_add(w, "--host=%s", p->host));
    TRY(argv_add(w, "--port=%u", p->port));
    if (o->advertise != NULL)
        TRY(argv_add(w, "--advertise=%s", o->advertise));
    TRY(argv_add(w, "--transport=%s", p->sockets ? "unix" : "tcp"));
    TRY(argv_add(w, "--announce"));
    if (p->state[0] != '\0')
        TRY(argv_add(w, "--state=%s", p->state));
    if (o->dead_given)
        TRY(argv_add(w, "--dead-timeout=%g", o->dead_seconds));
    return argv_add(w, "--gather-timeout=%g", o->gather_seconds);
}

static int add_member(struct argv *w, const struct plan *p, enum launch_role role,
                      uint32_t rank)
{
    const struct launch_options *o = p->o;
    TRY(argv_add(w, "--scheduler=%s", p->scheduler));
    if (p->hosts.n == 0 && o->interface != NULL)
        TRY(argv_add(w, "--interface=%s", o->interface));
    else if (p->hosts.n == 0)
        TRY(argv_add(w, "--host=%s", p->host));
    TRY(argv_add(w, "--port=0"));
    TRY(argv_add(w, "--rank=%u", rank));
    TRY(argv_add(w, "--spin-us=%d", p->spin ? SPIN_US : 0));
    if (role == LAUNCH_WORKER)
        return argv_add(w, "--threads=1");
    if (o->save_root != NULL)
        TRY(argv_add(w, "--save-root=%s", o->save_root));
    for (size_t i = 0; i < o->load_roots.n; i++)
        TRY(argv_add(w, "--load-root=%s", o->load_roots.items[i]));
    if (o->cold_root != NULL)
        TRY(argv_add(w, "--cold-root=%s", o->cold_root));
    if (p->joins)
        TRY(argv_add(w, "--join"));
    TRY(argv_add(w, "--loops=%u", o->loops));
    return argv_add(w, "--sparse-loops=%u", o->sparse_loops);
}

// Adds the command of a process, without the ssh command that may run it.
static int add_command(struct argv *w, const struct plan *p, enum launch_role role,
                       uint32_t rank)
{
    const struct launch_list *words = &p->o->words;
    if (p->o->program)
        return argv_add_all(w, words->items, words->n);
    TRY(add_common(w, p, role));
    TRY(plan_http_add(w, p, role, rank));
    TRY(role == LAUNCH_SCHEDULER ? add_scheduler(w, p) : add_member(w, p, role, rank));
    if (role == LAUNCH_SERVER)
        return 0;
    TRY(argv_add(w, "--"));
    return argv_add_all(w, words->items, words->n);
}

// ---------------------------------------------------------------- environments

// Returns whether an environment variable of the launcher describes a cluster. Processes of
// the run do not get such variables.
static int is_of_a_cluster(const char *name_value)
{
    static const char *const beginnings[] = {
        "DMLC_",     "PADDLE_PSERVERS_", "PADDLE_TRAINER", "PADDLE_PORT=",
        "POD_IP=",   "TRAINING_ROLE=",   "TUG_SCHEDULER=", "TUG_HOST=",
        "TUG_PORT=", "TUG_INTERFACE=",   "TUG_CA=",        "TUG_CERT=",
        "TUG_KEY=",  "TUG_SERVERS=",     "TUG_WORKERS=",   "TUG_LAUNCHED=",
        "TUG_HTTP=",
    };
    for (size_t i = 0; i < sizeof(beginnings) / sizeof(*beginnings); i++)
        if (strncmp(name_value, beginnings[i], strlen(beginnings[i])) == 0)
            return 1;
    return 0;
}

static int is_not_ours(const char *name_value)
{
    return strncmp(name_value, "TUG_", 4) != 0 || is_of_a_cluster(name_value);
}

static const char *server_host(const struct plan *p, uint32_t rank)
{
    const struct host *h = plan_host(p, LAUNCH_SERVER, rank);
    return h != NULL ? hosts_address(h) : p->host;
}

static int set_paddle(struct argv *env, const struct plan *p, enum launch_role role,
                      uint32_t rank, const char *host)
{
    struct buf list = BUF_INIT(1 << 20);
    int rc = buf_printf(&list, "PADDLE_PSERVERS_IP_PORT_LIST=");
    for (uint32_t i = 0; i < p->o->servers && rc == 0; i++)
        rc = buf_printf(&list, "%s%s:%u", i > 0 ? "," : "", server_host(p, i),
                        p->server_ports[i]);
    const char *text = rc == 0 ? buf_str(&list) : NULL;
    rc = text != NULL ? argv_set(env, "%s", text) : TUG_ENOMEM;
    buf_free(&list);
    TRY(rc);
    TRY(argv_set(env, "PADDLE_TRAINERS_NUM=%u", p->o->workers));
    TRY(argv_set(env, "POD_IP=%s", host));
    if (role == LAUNCH_SERVER) {
        TRY(argv_set(env, "PADDLE_PORT=%u", p->server_ports[rank]));
        return argv_set(env, "TRAINING_ROLE=PSERVER");
    }
    TRY(argv_set(env, "PADDLE_TRAINER_ID=%u", rank));
    return argv_set(env, "TRAINING_ROLE=TRAINER");
}

static int set_program(struct argv *env, const struct plan *p, enum launch_role role,
                       uint32_t rank)
{
    const struct host *h = plan_host(p, role, rank);
    const char *host = h != NULL ? hosts_address(h) : p->host;
    TRY(argv_set(env, "DMLC_ROLE=%s", launch_role_name(role)));
    TRY(argv_set(env, "DMLC_NUM_WORKER=%u", p->o->workers));
    TRY(argv_set(env, "DMLC_NUM_SERVER=%u", p->o->servers));
    TRY(argv_set(env, "DMLC_PS_ROOT_URI=%s", p->host));
    TRY(argv_set(env, "DMLC_PS_ROOT_PORT=%u", p->port));
    TRY(argv_set(env, "DMLC_NODE_HOST=%s", host));
    if (p->o->interface != NULL)
        TRY(argv_set(env, "DMLC_INTERFACE=%s", p->o->interface));
    if (role != LAUNCH_SCHEDULER)
        TRY(argv_set(env, "DMLC_%s_ID=%u", role == LAUNCH_SERVER ? "SERVER" : "WORKER",
                     rank));
    TRY(argv_set(env, "TUG_SCHEDULER=%s", p->scheduler));
    TRY(argv_set(env, "TUG_CLUSTER=%s", p->o->cluster));
    if (role == LAUNCH_SCHEDULER)
        return 0;
    return set_paddle(env, p, role, rank, host);
}

// ------------------------------------------------------- processes on this and other hosts

static int add_local(struct argv *argv, const struct plan *p, enum launch_role role,
                     uint32_t rank)
{
    const char *wrap = plan_wrap(p, role, rank);
    if (wrap != NULL)
        return add_wrap(argv, wrap);
    TRY(argv_add(argv, "%s", p->o->tug));
    TRY(argv_add(argv, "launch"));
    // A program may start further processes, which only a supervisor can end.
    if (p->o->program)
        TRY(argv_add(argv, "--supervise"));
    else
        TRY(argv_add(argv, "--child-of=%d", (int)getpid()));
    return argv_add(argv, "--");
}

static int remote_command(struct buf *b, const struct plan *p, enum launch_role role,
                          uint32_t rank, const struct argv *command,
                          const struct argv *env)
{
    char here[FILE_PATH_MAX];
    TRY(buf_printf(b, "mkdir -p \"$HOME\"/.tug/%s && cd ", p->job));
    if (p->o->sync != NULL)
        TRY(buf_printf(b, "\"$HOME\"/.tug/%s/work", p->job));
    else
        TRY(argv_quote(b, getcwd(here, sizeof(here)) != NULL ? here : "."));
    TRY(buf_printf(b, " && exec env"));
    for (size_t i = 0; i < env->n; i++) {
        TRY(buf_printf(b, " "));
        TRY(argv_quote(b, env->at[i]));
    }
    TRY(buf_printf(b, " "));
    TRY(argv_quote(b, p->o->tug));
    TRY(buf_printf(b, " launch --supervise --lock=\"$HOME\"/.tug/%s/%s-%u.lock%s --",
                   p->job, launch_role_name(role), rank, p->o->force ? " --force" : ""));
    for (size_t i = 0; i < command->n; i++) {
        TRY(buf_printf(b, " "));
        TRY(argv_quote(b, command->at[i]));
    }
    return 0;
}

int plan_ssh(struct argv *argv, const struct host *h)
{
    TRY(argv_add(argv, "ssh"));
    TRY(argv_add(argv, "-oBatchMode=yes"));
    TRY(argv_add(argv, "-oConnectTimeout=10"));
    TRY(argv_add(argv, "-oServerAliveInterval=5"));
    TRY(argv_add(argv, "-T"));
    if (h->port != 0)
        TRY(argv_add(argv, "-p%u", h->port));
    return argv_add(argv, "%s", h->name);
}

static int make_remote(const struct plan *p, const struct host *h, enum launch_role role,
                       uint32_t rank, struct argv *argv, struct argv *env)
{
    struct argv command = {0};
    struct buf b = BUF_INIT(1 << 20);
    int rc = add_command(&command, p, role, rank);
    if (rc == 0)
        rc = remote_command(&b, p, role, rank, &command, env);
    const char *text = rc == 0 ? buf_str(&b) : NULL;
    rc = text != NULL ? plan_ssh(argv, h) : TUG_ENOMEM;
    if (rc == 0)
        rc = argv_add(argv, "%s", text);
    buf_free(&b);
    argv_free(&command);
    // The variables of the process on the other host are in the command. ssh itself gets the
    // variables of the launcher.
    argv_free(env);
    return rc == 0 ? argv_environment(env, is_of_a_cluster) : rc;
}

static int make_role(struct plan *p, enum launch_role role, uint32_t rank,
                     struct argv *argv, struct argv *env)
{
    const struct host *h = plan_host(p, role, rank);
    TRY(argv_environment(env, h != NULL ? is_not_ours : is_of_a_cluster));
    if (p->o->program)
        TRY(set_program(env, p, role, rank));
    for (size_t i = 0; i < p->o->env.n; i++)
        TRY(argv_set(env, "%s", p->o->env.items[i]));
    if (h != NULL)
        return make_remote(p, h, role, rank, argv, env);
    TRY(add_local(argv, p, role, rank));
    return add_command(argv, p, role, rank);
}

int plan_role(struct plan *p, enum launch_role role, uint32_t rank, struct argv *ret_argv,
              struct argv *ret_env, struct buf *ret_input, struct err *e)
{
    *ret_argv = *ret_env = (struct argv){0};
    *ret_input = BUF_INIT(1 << 20);
    int rc = make_role(p, role, rank, ret_argv, ret_env);
    if (rc != 0)
        rc = err_nomem(e, "a command line");
    char name[48];
    if (rc == 0 && p->secrets.used)
        rc = secrets_node(&p->secrets, role_text(role, rank, name),
                          launch_role_name(role), ret_input, e);
    if (rc == 0)
        return 0;
    argv_free(ret_argv);
    argv_free(ret_env);
    buf_free(ret_input);
    return rc;
}
