// tug launch: starts, watches and ends a scheduler, servers and workers together.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/cli.h"
#include "cli/launch_again.h"
#include "cli/launch_http.h"
#include "cli/launch_refit.h"
#include "cli/nodes/node_options.h"
#include "cli/nodes/role_http.h"
#include "cli/nodes/roles.h"
#include "launch/argv.h"
#include "launch/launch.h"
#include "monitor/monitor.h"
#include "os/file.h"
#include "os/log.h"
#include "run/train_config.h"
#include "run/train_refit.h"

struct launch_values {
    struct node_values node;
    uint64_t servers, workers, replicas, loops, sparse_loops;
    double dead_timeout, gather_timeout;
    const char *hosts, *sync;
    const char *save_root, *cold_root;
    struct option_list load_roots;
    bool force;
    struct option_list wraps, env;
    const char *log_dir, *http_targets;
    double http_wait;
    int restart;
    uint64_t restart_limit;
    uint64_t child_of;
    bool supervise;
    const char *lock;
};

enum { RESTART_NEVER, RESTART_ROLE };

#define OPTIONS_OF struct launch_values

static const struct option options[] = {
    {"servers", .group = "How many", U64_AT(servers, "S", "1", 1, 4096),
     "number of server processes, which hold the tables"},
    {"workers", U64_AT(workers, "W", "1", 1, 4096),
     "number of worker processes, which read the data and compute"},
    {CLUSTER_REPLICAS_OPTION},
    {"loops", U64_AT(loops, "N", "1", 1, 256),
     "number of event loops of each server; use one for each core that the server may "
     "use"},
    {"sparse-loops", U64_AT(sparse_loops, "M", "0", 0, 255),
     "number of these loops that hold sparse tables, while the others hold dense ones; "
     "0: all loops hold both"},
    {"hosts", .group = "Where", STRING_AT(hosts, "FILE"),
     "file of the hosts to run on, which ssh reaches without a password: lines "
     "'user@host slots=N' or "
     "'host:port'; without this option all processes run on this machine"},
    {"sync", STRING_AT(sync, "DIR"),
     "with --hosts: copy this directory to ~/.tug/CLUSTER/work of each host and run "
     "there; without this option all hosts must have the same directory at the same "
     "path"},
    {"save-root", STRING_AT(save_root, "DIR"),
     "directory below which servers write and read saves (default: train's --out, or "
     "its --publish)"},
    {"load-root", LIST_AT(load_roots, "DIR"),
     "another directory below which servers read saves (default: train's --init-from)"},
    {"cold-root", STRING_AT(cold_root, "DIR"),
     "directory below which servers keep rows on disk (default: the directory that "
     "'cold' of train's --table names)"},
    {"force", FLAG_AT(force),
     "with --hosts: end the remaining processes of an earlier run of this cluster on "
     "the hosts"},
    {NODE_HOST_OPTION(
        "address of the scheduler and, on one machine, of all processes (default: "
        "loopback; "
        "with --hosts, the address from which this machine reaches the first host)")},
    {NODE_INTERFACE_OPTION},
    {NODE_PORT_OPTION(NULL, "port of the scheduler; 0: any free one")},
    {NODE_ADVERTISE_OPTION},
    {NODE_TRANSPORT_OPTION(
        "unix",
        "on one machine: unix: Unix sockets in the user's runtime directory, and TCP "
        "for programs that know only TCP; tcp: TCP alone, for proxies and tests")},
    NODE_REACH_OPTIONS("60"),
    {CLUSTER_DEAD_OPTION},
    {CLUSTER_GATHER_OPTION("")},
    {"restart", CHOICE_AT(restart, "never role", "never"),
     "role: restart a killed scheduler or worker, and with --replicas 2 or more a killed "
     "server, while the other processes continue; if a killed server has no replicas, "
     "resume the whole run from its last save in train's --out"},
    {"restart-limit", U64_AT(restart_limit, "N", "10", 1, 1000),
     "with --restart role: how often each process is restarted and the run is resumed; "
     "the first time a process is restarted after 0.25 s and the run is resumed after 1 "
     "s, and each further time after twice as long, at most 30 s"},
    {"wrap", .group = "Looking in", LIST_AT(wraps, "ROLE:RANK=COMMAND"),
     "run one process under another command, on this terminal, such as worker:0='gdb "
     "--args'"},
    {"env", LIST_AT(env, "NAME=VALUE"), "set an environment variable for all processes"},
    {"log-dir", STRING_AT(log_dir, "DIR"),
     "also write the messages of each process to DIR/scheduler.log, DIR/server-0.log, "
     "..., and those of launch to DIR/launch.log; at SIGHUP tug opens these files "
     "again, for logrotate"},
    {NODE_LOG_LEVEL_OPTION},
    {NODE_LOG_FORMAT_OPTION},
    {"http", STRING_AT(node.http.address, "HOST:PORT|unix:PATH"),
     "serve a page about the cluster, and /metrics for Prometheus: at an address of "
     "loopback, for all accounts of this machine; at a Unix socket, for this account; or "
     "at "
     "any other address, with TLS and a token. Servers and workers of this machine, and "
     "launch itself, get free ports of the same host, or PATH.server-0, ..."},
    HTTP_TRUST_OPTIONS(node.http),
    {"http-targets", STRING_AT(http_targets, "FILE"),
     "with --http: keep a list of these addresses in this file, for Prometheus's "
     "file_sd_configs"},
    {"http-wait", F64_AT(http_wait, "SECONDS", "60", 0, 3600),
     "with --http-targets: how long a failed run waits for Prometheus to read its last "
     "state; 0: not at all"},
    {"child-of", .group = "For processes that launch starts itself",
     U64_AT(child_of, "PID", "0", 0, 1e9),
     "become the program after --, and be killed when process PID ends"},
    {"supervise", FLAG_AT(supervise),
     "run the program after --, and end it with all its processes when standard input "
     "closes"},
    {"lock", STRING_AT(lock, "FILE"),
     "with --supervise: refuse to run while another process holds this file"},
};

const struct option_table cli_launch_options = {
    .command = "launch",
    .summary = "train on several processes, or run a program in all roles",
    .usage =
        "--servers S --workers W [--hosts FILE] [options] -- train ... | PROGRAM ...",
    .about =
        "Starts a scheduler, servers and workers, prints their messages, each after the "
        "role and rank of its process, and ends all of them when the run is over or "
        "cannot continue. The words after -- are the same `train` command as on one "
        "machine, and its result is printed in the same way. Ctrl-C saves the model and "
        "stops.\n"
        "If the first word after -- is not a command of tug, it is a program. It runs "
        "once in every role, with the variables of ps-lite (DMLC_ROLE, ...) and Paddle "
        "(TRAINING_ROLE, ...), and gets the options of launch that concern its nodes as "
        "variables (TUG_DEAD_SECONDS, TUG_WAIT_SECONDS, TUG_SAVE_ROOT, TUG_CA, ...).",
    .examples =
        "tug launch --servers 2 --workers 2 -- train --data day.tsv --format criteo\n"
        "tug launch --hosts hosts --servers 4 --workers 8 -- train --data /data/day.tsv "
        "--format criteo --out /data/model\n"
        "tug launch --workers 2 --wrap worker:0='gdb --args' -- train --data day.tsv "
        "--format criteo\n"
        "tug launch --servers 1 --workers 2 -- ./my_program",
    CLI_OPTIONS(options),
};

static int launch_check(struct launch_values *v, int argc, char *const *argv,
                        struct err *e)
{
    if (argc == 0)
        return err_set(
            e, TUG_EUSAGE,
            "there is nothing to run: add -- and a train command or a program, as in "
            "'tug launch --servers 1 --workers 2 -- train ...'");
    if (cli_find(argv[0]) != NULL && strcmp(argv[0], "train") != 0)
        return err_set(
            e, TUG_EUSAGE,
            "'tug %s' cannot be launched on a cluster; only 'train' and programs can",
            argv[0]);
    if (v->sparse_loops > 0 && v->sparse_loops >= v->loops)
        return err_set(e, TUG_EUSAGE,
                       "--sparse-loops %llu of --loops %llu leave no loop for dense "
                       "tables: give fewer --sparse-loops",
                       (unsigned long long)v->sparse_loops, (unsigned long long)v->loops);
    v->node.http.cluster_cert = v->node.cert;
    v->node.http.cluster_key = v->node.key;
    TRY(monitor_check(&v->node.http, e));
    const char *http = v->node.http.address;
    if (v->http_targets != NULL && (http == NULL || strncmp(http, "unix:", 5) == 0))
        return err_set(e, TUG_EUSAGE,
                       "--http-targets needs --http HOST:PORT: Prometheus cannot read "
                       "from a Unix socket");
    if (v->hosts == NULL && (v->sync != NULL || v->force))
        return err_set(e, TUG_EUSAGE, "--%s works only together with --hosts",
                       v->sync != NULL ? "sync" : "force");
    for (size_t i = 0; i < v->env.n; i++)
        if (strchr(v->env.items[i], '=') == NULL || v->env.items[i][0] == '=')
            return err_set(e, TUG_EUSAGE, "--env takes NAME=VALUE, not '%.200s'",
                           v->env.items[i]);
    const char *name = v->node.cluster;
    if (name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                          "0123456789_-")] != 0 ||
        strlen(name) > 60 || name[0] == 0)
        return err_set(e, TUG_EUSAGE,
                       "--cluster: '%.100s' is not a valid name: use at most 60 letters, "
                       "digits, - and _",
                       name);
    return 0;
}

static int check_wraps(const struct launch_values *v, struct err *e)
{
    for (size_t i = 0; i < v->wraps.n; i++) {
        const char *w = v->wraps.items[i];
        char role[16] = "";
        unsigned rank = 0;
        int n = 0;
        bool good = sscanf(w, "%15[a-z]:%u=%n", role, &rank, &n) == 2 && n > 0 &&
                    w[n] != 0;
        uint64_t of = strcmp(role, "scheduler") == 0 ? 1
                      : strcmp(role, "server") == 0  ? v->servers
                      : strcmp(role, "worker") == 0  ? v->workers
                                                     : 0;
        if (!good || rank >= of)
            return err_set(e, TUG_EUSAGE,
                           "--wrap takes ROLE:RANK=COMMAND with a role of this run, as "
                           "worker:0='gdb --args', not '%.200s'",
                           w);
    }
    if (v->wraps.n > 0 && v->hosts != NULL)
        return err_set(e, TUG_EUSAGE,
                       "--wrap needs this terminal, so it cannot be used with --hosts");
    return 0;
}

// The options of train that tug launch needs: the directories that servers may use if
// their command line names none, and whether train runs a second time (--refit).
struct launch_roots {
    const char *save, *cold;
    const char *load[1];
    bool refit, quiet, saves;
    const char *not_kept; // an option that --restart cannot be used with, or NULL
    char cold_dir[CONFIG_PATH_MAX];
};

static void roots_of_training(struct launch_roots *r, int argc, char *const *argv)
{
    struct train_options t = {0};
    struct options *parsed = NULL;
    struct table_config config = table_config_defaults();
    struct err ignored = {0}; // the roles report errors in these options
    *r = (struct launch_roots){0};
    if (training_words(argc, argv, &t, &parsed, &ignored) != 0)
        return;
    // The roots are copied, because texts of options from a file are freed with `parsed`.
    const char *save = t.out != NULL ? t.out : t.publish;
    r->save = save != NULL ? mem_strdup(save) : NULL;
    r->refit = t.refit;
    r->saves = t.out != NULL;
    r->not_kept = role_not_kept(&t);
    r->quiet = t.quiet;
    r->load[0] = t.init_from != NULL ? mem_strdup(t.init_from) : NULL;
    if (t.table != NULL && train_read_table(&config, t.table, &ignored) == 0 &&
        config.cold[0] != '\0') {
        snprintf(r->cold_dir, sizeof(r->cold_dir), "%s",
                 config.cold[0] == '/' ? config.cold : ".");
        r->cold = r->cold_dir;
    }
    options_close(parsed);
}

static void roots_free(struct launch_roots *r)
{
    mem_free((char *)(uintptr_t)r->save);
    mem_free((char *)(uintptr_t)r->load[0]);
}

// Reports errors in the words after "--" once, before any process is started. Does not
// check files, because other hosts may have different files.
static int check_training(int argc, char *const *argv, struct err *e)
{
    struct train_options t = {0};
    struct options *parsed = NULL;
    // a role other than the driver's, so that warnings are left to the driver
    struct node n = {.options.role = WIRE_WORKER};
    struct train_setup *s = mem_zalloc(sizeof(*s));
    if (s == NULL)
        return err_nomem(e, "the options of a run");
    int rc = training_words(argc, argv, &t, &parsed, e);
    bool refit = t.refit;
    t.refit = false; // launch_refit decides which of the two runs this is
    if (rc == 0 && !options_help_wanted(parsed)) {
        rc = train_configure(s, &t, parsed, &n, e);
        if (rc == 0 && refit)
            rc = train_check_refit(&s->config, e);
        if (rc == 0)
            rc = train_check_data(&s->config, NULL, e);
    }
    train_setup_close(s);
    options_close(parsed);
    mem_free(s);
    return rc;
}

// Adds options as environment variables for the nodes of a program, because launch does
// not write their command lines.
static int add_variables(const struct launch_values *v, const struct options *given,
                         struct argv *to)
{
    struct buf roots = BUF_INIT(1 << 20);
    const struct {
        const char *option, *variable, *text;
    } texts[] = {
        {"save-root", "TUG_SAVE_ROOT", v->save_root},
        {"cold-root", "TUG_COLD_ROOT", v->cold_root},
        {"ca", "TUG_CA", v->node.ca},
        {"cert", "TUG_CERT", v->node.cert},
        {"key", "TUG_KEY", v->node.key},
        {"insecure", "TUG_INSECURE", v->node.insecure ? "1" : NULL},
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
        if (texts[i].text != NULL && options_given(given, texts[i].option))
            TRY(argv_set(to, "%s=%s", texts[i].variable, texts[i].text));
    int rc = 0;
    for (size_t i = 0; i < v->load_roots.n && rc == 0; i++)
        rc = buf_printf(&roots, "%s%s", i > 0 ? "," : "", v->load_roots.items[i]);
    const char *text = rc == 0 ? buf_str(&roots) : NULL;
    rc = text == NULL          ? TUG_ENOMEM
         : v->load_roots.n > 0 ? argv_set(to, "TUG_LOAD_ROOT=%s", text)
                               : 0;
    buf_free(&roots);
    TRY(rc);
    if (options_given(given, "gather-timeout"))
        TRY(argv_set(to, "TUG_WAIT_SECONDS=%g", v->gather_timeout));
    if (options_given(given, "dead-timeout"))
        TRY(argv_set(to, "TUG_DEAD_SECONDS=%g", v->dead_timeout));
    return 0;
}

// Makes the environment that is set for all processes; --env comes last, so it wins.
static int environment_of(const struct launch_values *v, const struct options *given,
                          bool program, struct argv *ret, struct err *e)
{
    static const char *const of_train[] = {
        "loops", "sparse-loops", "connect-timeout", "advertise",
        "http",  "restart",      "restart-limit",   "replicas"};
    for (size_t i = 0; i < sizeof(of_train) / sizeof(*of_train) && program; i++)
        if (options_given(given, of_train[i]) && strncmp(of_train[i], "restart", 7) == 0)
            return err_set(e, TUG_EUSAGE,
                           "--%s works only with 'tug launch ... -- train': a process of "
                           "another program would begin anew; leave the option out, or "
                           "start the roles by hand, with --state for 'tug scheduler'",
                           of_train[i]);
        else if (options_given(given, of_train[i]) &&
                 strcmp(of_train[i], "replicas") == 0)
            return err_set(
                e, TUG_EUSAGE,
                "--replicas works only with 'tug launch ... -- train': handlers "
                "of a program hold state that has no replicas; leave the option "
                "out");
        else if (options_given(given, of_train[i]))
            return err_set(e, TUG_EUSAGE,
                           "--%s works only with 'tug launch ... -- train'; a program "
                           "sets this itself, so leave the option out",
                           of_train[i]);
    int rc = program ? add_variables(v, given, ret) : 0;
    for (size_t i = 0; i < v->env.n && rc == 0; i++)
        rc = argv_set(ret, "%s", v->env.items[i]);
    return rc == 0 ? 0 : err_nomem(e, "the environment of a run");
}

static const char *const levels[] = {"error", "warn", "info", "debug"};

// Returns the level of the logs of the launcher and of its processes. The option --quiet
// of train also applies to all roles except the driver.
static int level_of(const struct launch_values *v, const struct options *given,
                    const struct launch_roots *roots)
{
    bool quiet = roots->quiet && !options_given(given, "log-level");
    return quiet && v->node.log_level > LOG_WARN ? LOG_WARN : v->node.log_level;
}

static void tell_failure(void *ctx, const char *address, const struct err *why)
{
    const struct launch_values *v = ctx;
    struct monitor_options at = v->node.http;
    at.address = address;
    if (v->http_wait <= 0)
        return;
    // The launcher's own handlers were removed when its processes had ended.
    node_catch_signals();
    role_http_tell_failure(&at, why, v->http_wait);
}

// Returns the options of a run of the words `argv`: a command of tug, or a program.
static struct launch_options options_of(const struct launch_values *v, const char *tug,
                                        const struct options *given, int argc,
                                        char *const *argv,
                                        const struct launch_roots *roots,
                                        const struct argv *env, int level)
{
    return (struct launch_options){
        .tug = tug,
        .servers = (uint32_t)v->servers,
        .workers = (uint32_t)v->workers,
        .replicas = (uint32_t)v->replicas,
        .words = {(const char *const *)argv, (size_t)argc},
        .program = cli_find(argv[0]) == NULL,
        .cluster = v->node.cluster,
        .host = v->node.host,
        .interface = v->node.interface,
        .port = (uint16_t)v->node.port,
        .loops = (uint32_t)v->loops,
        .sparse_loops = (uint32_t)v->sparse_loops,
        .save_root = v->save_root != NULL ? v->save_root : roots->save,
        .cold_root = v->cold_root != NULL ? v->cold_root : roots->cold,
        .load_roots = v->load_roots.n > 0
                          ? (struct launch_list){v->load_roots.items, v->load_roots.n}
                          : (struct launch_list){roots->load, roots->load[0] != NULL},
        .ca = v->node.ca,
        .cert = v->node.cert,
        .key = v->node.key,
        .insecure = v->node.insecure,
        .connect_seconds = v->node.connect_timeout,
        .dead_seconds = v->dead_timeout,
        .dead_given = options_given(given, "dead-timeout"),
        .gather_seconds = v->gather_timeout,
        .restarts = v->restart == RESTART_ROLE ? (uint32_t)v->restart_limit : 0,
        .log_level = levels[level],
        // True also if an option of train asks for it.
        .log_json = log_format() == LOG_JSON,
        .hosts = v->hosts,
        .sync = v->sync,
        .force = v->force,
        .wraps = {v->wraps.items, v->wraps.n},
        .env = {env->at, env->n},
        .log_dir = v->log_dir,
        .http = v->node.http.address,
        .http_cert = v->node.http.cert,
        .http_key = v->node.http.key,
        .http_token_file = v->node.http.token_file,
        .http_targets = v->http_targets,
        .failed = tell_failure,
        .failed_ctx = (void *)(uintptr_t)v,
        .advertise = v->node.advertise,
        .sockets = v->node.transport == NODE_TRANSPORT_UNIX,
    };
}

// Runs the processes. Meanwhile the launcher serves its own page if --http asks for one.
static int run_watched(struct launch_options *o, const struct monitor_options *http,
                       const struct launch_roots *roots, struct err *e)
{
    struct launch_http own;
    int rc = launch_http_open(&own, http, o, e);
    if (rc == 0)
        rc = roots->refit ? launch_refit(o, e) : launch_again(o, roots->saves, e);
    launch_http_close(&own);
    return rc;
}

static int run_launch(const struct launch_values *v, const struct options *given,
                      const char *tug, int argc, char *const *argv, struct err *e)
{
    bool program = cli_find(argv[0]) == NULL;
    struct launch_roots roots = {0};
    struct argv env = {0};
    if (!program && v->hosts == NULL)
        TRY(check_training(argc, argv, e));
    int rc = environment_of(v, given, program, &env, e);
    if (rc != 0) {
        argv_free(&env);
        return rc;
    }
    if (!program)
        roots_of_training(&roots, argc, argv);
    if (v->restart == RESTART_ROLE && roots.not_kept != NULL) {
        err_set(e, TUG_EUSAGE,
                "--restart role cannot be used with %s of -- train: a scheduler that is "
                "started again could not continue it; leave out one of the two",
                roots.not_kept);
        roots_free(&roots);
        argv_free(&env);
        return TUG_EUSAGE;
    }
    int level = level_of(v, given, &roots);
    struct launch_options o = options_of(v, tug, given, argc, argv, &roots, &env, level);
    log_set_level((enum log_level)level);
    rc = run_watched(&o, &v->node.http, &roots, e);
    roots_free(&roots);
    argv_free(&env);
    return rc;
}

static int launch_command(const void *values, const struct options *o, int argc,
                          char *const *argv, struct err *e)
{
    struct launch_values v = *(const struct launch_values *)values;
    if (argc > 0 && v.child_of != 0)
        return launch_child_of(v.child_of, argv, e);
    if (argc > 0 && v.supervise) {
        int code;
        TRY(launch_supervise(argv, v.lock, v.force, &code, e));
        fflush(stdout);
        _exit(code); // passes on the program's exit code
    }
    TRY(launch_check(&v, argc, argv, e));
    TRY(check_wraps(&v, e));
    char self[FILE_PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (n <= 0)
        return err_sys(e, TUG_EIO, "cannot find the program file of tug itself");
    self[n] = 0;
    return run_launch(&v, o, self, argc, argv, e);
}

const struct cli_command cli_launch = {&cli_launch_options, sizeof(struct launch_values),
                                       .run_tail = launch_command};
