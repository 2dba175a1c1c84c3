// tug scheduler: the process by which all processes of a cluster find each other. With
// `-- train ...` it also runs the driver of a training, on a second thread.
//
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/plural.h"
#include "cli/cli.h"
#include "cli/nodes/roles.h"
#include "cli/nodes/standby.h"
#include "cli/train_output.h"
#include "cluster/journal/journal.h"
#include "cluster/scheduler/scheduler.h"
#include "etcd/etcd.h"
#include "launch/processes.h"
#include "os/clock.h"
#include "os/log.h"
#include "os/route.h"
#include "os/usage.h"
#include "run/train_resumed.h"
#include "train/facts.h"
#include "train/saved/kept_run.h"
#include "train/saved/saved.h"
#include "train_cluster/report.h"

static const uint64_t poll_ns = 200000000; // time between two checks for signals
// Time between two checks when the run has ended.
static const uint64_t look_ns = 20000000;

enum {
    // At the end all nodes must leave within this time, which is enough to replace a
    // silent link.
    LEAVE_SECONDS = 30,
    LATE_SECONDS = 3, // time for which the scheduler stays with `tells_late`
};

#define OPTIONS_OF struct scheduler_values

static const struct option options[] = {
    {NODE_SCHEDULER_OPTION(
        "address at which the scheduler listens, in place of --host and --port "
        "(DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT)")},
    {"servers", .env = "DMLC_NUM_SERVER", U64_AT(servers, "S", "1", 1, 4096),
     "server processes to wait for"},
    {"workers", .env = "DMLC_NUM_WORKER PADDLE_TRAINERS_NUM",
     U64_AT(workers, "W", "1", 0, 4096), "worker processes to wait for"},
    {CLUSTER_REPLICAS_OPTION},
    NODE_REACH_OPTIONS("60"),
    {NODE_PEM_OPTION},
    {CLUSTER_DEAD_OPTION},
    {CLUSTER_GATHER_OPTION("; after that the run ends with an error that names the "
                           "missing processes")},
    {NODE_HOST_OPTION("address of this machine, by default loopback")},
    {NODE_INTERFACE_OPTION},
    {NODE_PORT_OPTION(NULL, "port to listen at; 0: any free one")},
    {NODE_ADVERTISE_OPTION},
    {NODE_TRANSPORT_OPTION("tcp", "unix: listen also on a Unix socket in the user's "
                                  "runtime directory; nodes that get its address "
                                  "(unix://...) then do the same")},
    {"announce", FLAG_AT(announce),
     "for tug launch: write the address to descriptor 3 when the scheduler listens, and "
     "at the end the reason of a failure"},
    {"state", .group = "Files", STRING_AT(state, "DIR|URL"),
     "keep the state of the cluster in this directory, or in etcd: "
     "etcd://HOST:PORT,HOST:PORT[/PREFIX]. A scheduler that was killed continues when "
     "it is started again with the same options; with etcd, a second scheduler with "
     "these options waits, and takes over when the first one is dead. Certificates: "
     "ETCDCTL_CACERT, ETCDCTL_CERT, ETCDCTL_KEY; account: ETCDCTL_USER"},
    {NODE_SPIN_OPTION},
    {NODE_LOG_LEVEL_OPTION},
    NODE_LOG_OPTIONS,
    NODE_HTTP_OPTIONS,
};

const struct option_table cli_scheduler_options = {
    .command = "scheduler",
    .summary = "run the scheduler of a cluster",
    .usage = "--servers S --workers W [options] [-- train ...]",
    .about =
        "Waits for all servers and workers, tells each process the addresses of all "
        "others, notices when a process dies, and ends all of them when the run is over. "
        "With `-- train` and "
        "the options of `tug train` it also drives the training and prints its result; "
        "give the same options to the workers.\n"
        "Options may come from the environment: DMLC_NUM_SERVER, DMLC_NUM_WORKER, "
        "DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT. `tug launch` starts all roles at once.",
    .examples =
        "tug scheduler --servers 1 --workers 2 --port 9100 -- train --data day.tsv "
        "--format criteo",
    CLI_OPTIONS(options),
};

struct process {
    struct opened_node node;
    struct usage *usage;
    struct role_http *http;
    struct train_facts *facts; // facts of the training that this process drives, or NULL
    struct journal *journal;   // the journal of --state, or NULL
    struct scheduler *scheduler;
    struct van *van;
    char address[VAN_ADDRESS_MAX];

    bool drives;
    struct kept_run kept; // the note of the pass with which the driver goes on
    struct train_setup setup;
    struct train_result result;
    pthread_t driver;
    atomic_bool driver_over;
    int driver_rc;
    struct err driver_error;
};

static void say(void *ctx, const char *line)
{
    (void)ctx;
    log_info("%s", line);
}

// Sets the listening address to the "HOST:PORT" that other processes are given, unless
// other options give an address.
static int set_place(struct scheduler_values *v, char host[VAN_ADDRESS_MAX],
                     struct err *e)
{
    uint16_t port;
    if (v->node.scheduler == NULL)
        return 0;
    TRY(route_split(v->node.scheduler, host, VAN_ADDRESS_MAX, &port, e));
    if (v->node.host == NULL)
        v->node.host = host;
    if (v->node.port == 0)
        v->node.port = port;
    v->node.scheduler = NULL;
    return 0;
}

// Returns whether the path is a pipe or a device. A scheduler that is started again cannot
// replace what was written to it.
static bool is_stream(const char *path)
{
    struct stat s;
    return path != NULL && stat(path, &s) == 0 && !S_ISREG(s.st_mode);
}

const char *role_not_kept(const struct train_options *t)
{
    return t->average > 0          ? "--average"
           : t->fetch != NULL      ? "--fetch"
           : t->dump != NULL       ? "--dump"
           : t->report != NULL     ? "--report"
           : t->tfevents != NULL   ? "--tfevents"
           : t->publish != NULL    ? "--publish"
           : t->refit              ? "--refit"
           : is_stream(t->history) ? "a stream as --history"
                                   : NULL;
}

static int check_kept(const struct train_options *t, struct err *e)
{
    const char *option = role_not_kept(t);
    if (option == NULL)
        return 0;
    return err_set(e, TUG_EUSAGE,
                   "--state cannot be used with %s of -- train: a scheduler that is "
                   "started again could not continue it; leave out one of the two",
                   option);
}

// Writes the text by which this scheduler is known in etcd, to people and to standbys.
static void describe(const struct process *p, char ret[VAN_ADDRESS_MAX])
{
    const struct node *n = &p->node.node;
    const char *host = n->options.advertise != NULL ? n->options.advertise : n->bind;
    if (n->options.port != 0 && strchr(host, ':') == NULL)
        snprintf(ret, VAN_ADDRESS_MAX, "%.150s:%u (process %d on %.60s)", host,
                 n->options.port, getpid(), n->host);
    else
        snprintf(ret, VAN_ADDRESS_MAX, "%.150s (process %d on %.60s)", host, getpid(),
                 n->host);
}

static int open_state(struct process *p, const struct scheduler_values *v,
                      const struct training *t, struct err *e)
{
    struct standby standby;
    char about[VAN_ADDRESS_MAX];
    if (v->state == NULL)
        return 0;
    if (t != NULL)
        TRY(check_kept(t->values, e));
    describe(p, about);
    const struct etcd_options o = {
        .state = v->state,
        .cluster = v->node.cluster,
        .about = about,
        .insecure = v->node.insecure,
        .patience = node_scheduler_timeout(&p->node.node),
        .interrupt = {.wake_fd = -1, .flag = &node_interrupted},
        .say = standby_say,
        .ctx = &standby,
    };
    standby_open(&standby, &p->node.http, p->usage);
    int rc = etcd_is(v->state) ? etcd_open(&p->journal, &o, e)
                               : journal_open(&p->journal, v->state, e);
    if (rc == 0 && !etcd_is(v->state))
        rc = journal_thread(&p->journal, e);
    standby_close(&standby);
    return rc == 0 || rc == TUG_EINTERRUPTED ? rc : err_wrap(e, "--state");
}

static void wake_van(void *van)
{
    van_wake(van);
}

// Lets a scheduler that is started again listen where the members look for it.
static int take_port(struct process *p, struct err *e)
{
    char host[VAN_ADDRESS_MAX];
    const char *tcp = strstr(scheduler_address(p->scheduler), "tcp://");
    uint16_t port;
    if (tcp == NULL || p->node.node.options.port != 0)
        return 0;
    TRY(route_split(tcp, host, sizeof(host), &port, e));
    p->node.node.options.port = port;
    return 0;
}

static int open_scheduler(struct process *p, const struct scheduler_values *v,
                          bool drives, struct err *e)
{
    struct scheduler_options o = {
        .cluster = p->node.node.cluster,
        .servers = (uint32_t)v->servers,
        .workers = (uint32_t)v->workers,
        .partition_bits = ROSTER_PARTITION_BITS,
        .replicas = (uint32_t)v->replicas,
        .gather_timeout_ns = (uint64_t)(v->gather_timeout * (double)SECOND_NS),
        .dead_timeout_ns = (uint64_t)(v->dead_timeout * (double)SECOND_NS),
        .server_timeout_ns = (uint64_t)(v->server_timeout * (double)SECOND_NS),
        .leave_timeout_ns = LEAVE_SECONDS * SECOND_NS,
        .session_base = clock_unix_ns(),
        .pid = (uint32_t)getpid(),
        .host = p->node.node.host,
        .ends_in_order = drives,
        .journal = p->journal,
        .merge = report_merge,
        .usage = p->usage,
        .run_facts = p->facts != NULL ? train_facts_put : NULL,
        .run_facts_ctx = p->facts,
        .log = say,
    };
    TRY(node_make_token(&p->node.node, e));
    TRY(node_random(o.session_key, e));
    TRY(scheduler_open(&p->scheduler, &o, e));
    TRY(take_port(p, e));
    struct van_handler h = scheduler_handler(p->scheduler);
    TRY(node_van(&p->node.node, &p->van, &h, true, e));
    if (p->journal != NULL)
        journal_wake_by(p->journal, wake_van, p->van);
    TRY(node_listen(&p->node.node, p->van, 0, p->address, e));
    TRY(node_leave_token(&p->node.node, p->address, e));
    // The driver in this process connects to the scheduler as other nodes do.
    snprintf(p->node.node.scheduler, sizeof(p->node.node.scheduler), "%s", p->address);
    scheduler_serve(p->scheduler, p->van, p->address);
    log_info(
        "scheduler of cluster '%s' at %s, waiting for %llu server%s and %llu worker%s",
        v->node.cluster, p->address, (unsigned long long)v->servers, PLURAL_S(v->servers),
        (unsigned long long)v->workers, PLURAL_S(v->workers));
    return 0;
}

// Reports the address. The port is bound by then, so that no other process can take it.
static int announce(const struct process *p, struct err *e)
{
    // commands that this process runs must not keep the pipe open
    (void)fcntl(PROCESSES_ANNOUNCE_FD, F_SETFD, FD_CLOEXEC);
    if (dprintf(PROCESSES_ANNOUNCE_FD, "%s\n", p->address) < 0)
        return err_sys(e, TUG_EIO, "--announce: cannot write to descriptor %d",
                       PROCESSES_ANNOUNCE_FD);
    return 0;
}

// Gives the launcher the reason of the end as a number, because it only prints
// the text of an error.
static void announce_end(const struct err *e)
{
    if (err_reason(e) != REASON_NONE)
        (void)dprintf(PROCESSES_ANNOUNCE_FD, PROCESSES_REASON "%d\n", err_reason(e));
}

static void *drive(void *arg)
{
    struct process *p = arg;
    int rc = train_run(&p->setup.config, &p->result, &p->driver_error);
    p->driver_rc = train_tell_taken(&p->setup, rc, &p->driver_error);
    atomic_store(&p->driver_over, true);
    van_wake(p->van);
    return NULL;
}

// Waits until this scheduler's lease holds, if it has one.
static int may_write(void *process, struct err *e)
{
    struct process *p = process;
    return p->journal != NULL ? journal_wait(p->journal, e) : 0;
}

// Tells the driver that it shares --out with the drivers before and after it.
static void share_out(struct process *p, const struct scheduler_values *v)
{
    struct train_cluster *c = &p->setup.cluster;
    c->shares_out = v->state != NULL && etcd_is(v->state);
    c->took_over = scheduler_generation(p->scheduler) > 1;
    c->may_write = may_write;
    c->may_write_ctx = p;
}

// Gives the driver the note of the pass that the driver before it had opened.
static int take_note(struct process *p, struct err *e)
{
    struct wire_text note = scheduler_note_of_pass(p->scheduler);
    p->setup.cluster.keeps = p->journal != NULL;
    if (note.n == 0)
        return 0;
    TRY(kept_run_parse(&p->kept, note.data, note.n, e));
    p->setup.cluster.kept = &p->kept;
    return 0;
}

static int begin_driver(struct process *p, const struct scheduler_values *v,
                        const struct training *t, struct err *e)
{
    if (t == NULL)
        return 0;
    if (scheduler_over(p->scheduler)) {
        log_info("the training was over before the scheduler was started again");
        return 0;
    }
    p->setup.interrupted = &node_interrupted;
    TRY(train_configure(&p->setup, t->values, t->options, &p->node.node, e));
    TRY(train_open_log(t->values, t->options, &p->node.node, e));
    p->setup.config.facts = p->facts;
    TRY(take_note(p, e));
    share_out(p, v);
    if (t->values->http != NULL)
        log_warn("--http of the training has no effect on a cluster: use tug launch "
                 "--http HOST:PORT, or give it to tug scheduler, server and worker");
    if (t->values->log_dir != NULL)
        log_warn("--log-dir of the training has no effect on a cluster: use tug launch "
                 "--log-dir DIR, which keeps a log of each process");
    if (pthread_create(&p->driver, NULL, drive, p) != 0)
        return err_set(e, TUG_EIO, "cannot start the thread that drives the training");
    p->drives = true;
    return 0;
}

// Serves until the cluster has ended; *ret_why says how it ended.
static int process_serve(struct process *p, struct err *ret_why, struct err *e)
{
    struct err interrupted;
    bool told = false;
    while (!scheduler_finished(p->scheduler, ret_why)) {
        if (p->drives && scheduler_asked(p->scheduler))
            atomic_store(&node_interrupted, true);
        // An interrupted driver saves first and then ends the run itself.
        if (!told && !p->drives && atomic_load(&node_interrupted)) {
            told = true;
            err_set(&interrupted, TUG_EINTERRUPTED, "interrupted");
            scheduler_stop(p->scheduler, &interrupted);
        }
        if (!told && p->drives && atomic_load(&p->driver_over) && p->driver_rc != 0) {
            told = true;
            scheduler_stop(p->scheduler, &p->driver_error);
        }
        TRY(van_poll(p->van, van_now(p->van) + poll_ns, e));
    }
    return 0;
}

// Tells processes that connect late why the run has ended before it began.
static int tell_late(struct process *p, const struct err *why, struct err *e)
{
    uint64_t until = van_now(p->van) + LATE_SECONDS * SECOND_NS;
    bool begun = scheduler_roster(p->scheduler)->epoch != 0;
    if (begun || (why->code != TUG_EUSAGE && why->code != TUG_EDATA))
        return 0;
    while (van_now(p->van) < until && !atomic_load(&node_interrupted))
        TRY(van_poll(p->van, clock_earlier(until, van_now(p->van) + poll_ns), e));
    return 0;
}

// Adds to an error the save from which the run can be resumed.
static void name_checkpoint(const struct process *p, struct err *e)
{
    char dir[FILE_PATH_MAX];
    const char *out = p->setup.config.out;
    if (e->code != TUG_EIO || !p->drives || out == NULL || save_find(out, dir, NULL) != 0)
        return;
    err_add(e, " (the last save is %s: --resume continues from it)", dir);
}

static int finish_process(struct process *p, const struct scheduler_values *v,
                          const struct err *why, struct err *e)
{
    const struct err *end = why;
    if (p->drives && p->driver_rc == TUG_EINTERRUPTED) {
        train_report_interrupted(&p->setup, &p->result, (uint32_t)v->servers,
                                 (uint32_t)v->workers, &p->driver_error);
        end = &p->driver_error; // the driver's error names the checkpoint
    } else if (p->drives && why->code == 0)
        end = &p->driver_error;
    int rc = p->drives && p->driver_rc == 0
                 ? train_print(&p->setup, &p->result, (uint32_t)v->servers,
                               (uint32_t)v->workers, e)
                 : 0;
    if (rc != 0 || end->code == 0)
        return rc;
    int code = end->code;
    if (e != NULL) {
        *e = *end;
        name_checkpoint(p, e);
    }
    return code;
}

// Answers until the end of the run is seen: see role_http_end.
static int show_end(struct process *p, const struct scheduler_values *v, int rc,
                    struct err *e)
{
    role_http_end(p->http, rc, v->announce);
    while (!role_http_is_seen(p->http))
        TRY(van_poll(p->van, van_now(p->van) + look_ns, e));
    return 0;
}

// Ends this process at once, as kill -9 would, but prints an error. The scheduler may not
// act for the cluster any more: its journal has failed, or another scheduler has taken
// over. So the driver would wait for answers until its deadline, and keep --out locked for
// that time, although the next driver needs it. The old driver must also not save any more.
static void end_at_once(struct process *p, const struct scheduler_values *v,
                        const struct err *why)
{
    char line[ERR_TEXT_MAX + 64];
    struct err e = *why;
    if (scheduler_cannot_write(p->scheduler)) // else the next scheduler continues the run
        name_checkpoint(p, &e);
    snprintf(line, sizeof(line), "tug scheduler: %s", e.text);
    log_last_words(line);
    if (v->announce)
        announce_end(&e);
    node_take_token(&p->node.node);
    _exit(err_exit_code(e.code));
}

static int run_process(struct process *p, const struct scheduler_values *v,
                       const struct training *t, struct err *e)
{
    struct err why = {0};
    TRY(open_state(p, v, t, e));
    if (v->state != NULL && p->journal == NULL) {
        log_info("the cluster has ended, so this standby ends, too");
        return 0;
    }
    TRY(open_scheduler(p, v, t != NULL, e));
    TRY(role_http_scheduler(&p->http, &p->node.http, &p->node.node, p->journal, e));
    TRY(begin_driver(p, v, t, e));
    int rc = v->announce ? announce(p, e) : 0;
    if (rc == 0)
        rc = process_serve(p, &why, e);
    if (rc == 0 && p->drives && scheduler_silent(p->scheduler))
        end_at_once(p, v, &why);
    if (rc == 0 && v->tells_late)
        rc = tell_late(p, &why, e);
    if (p->drives) {
        atomic_store(&node_interrupted, atomic_load(&node_interrupted) || rc != 0);
        pthread_join(p->driver, NULL); // the driver ends when the cluster has ended
    }
    if (rc == 0)
        rc = finish_process(p, v, &why, e);
    if (v->announce && rc != 0 && e != NULL)
        announce_end(e);
    struct err unseen = {0};
    (void)show_end(p, v, rc, &unseen); // the run has ended, whether that is seen or not
    return rc;
}

void scheduler_values_fill(struct scheduler_values *v, const struct options *o,
                           const struct role *r)
{
    if (r->scheme == ROLE_NONE)
        return;
    node_values_fill(&v->node, o, r);
    if (!options_given(o, "servers"))
        v->servers = r->servers;
    if (!options_given(o, "workers"))
        v->workers = r->workers;
}

static int open_facts(struct process *p, const struct scheduler_values *v,
                      const struct training *t, struct err *e)
{
    const struct usage_disk disks[] = {{"saves", t != NULL ? t->values->out : NULL},
                                       {"log", v->node.log_file}};
    if (t != NULL)
        TRY(train_facts_open(&p->facts, e));
    return usage_open(&p->usage, disks, sizeof(disks) / sizeof(*disks), e);
}

int role_scheduler(const struct scheduler_values *values, const struct training *t,
                   struct err *e)
{
    struct scheduler_values v = *values;
    char host[VAN_ADDRESS_MAX];
    TRY(set_place(&v, host, e));
    struct process *p = mem_zalloc(sizeof(*p));
    if (p == NULL)
        return err_nomem(e, "the scheduler");
    int rc = node_values_open(&p->node, &v.node, WIRE_SCHEDULER, e);
    if (rc == 0)
        rc = open_facts(p, &v, t, e);
    if (rc == 0)
        rc = run_process(p, &v, t, e);
    role_http_close(p->http);
    node_take_token(&p->node.node);
    if (p->journal != NULL)
        journal_wake_by(p->journal, NULL, NULL);
    van_free(p->van);
    scheduler_forget(p->scheduler);
    scheduler_close(p->scheduler);
    journal_close(p->journal);
    train_setup_close(&p->setup);
    kept_run_free(&p->kept);
    train_facts_close(p->facts);
    usage_close(p->usage);
    opened_node_close(&p->node);
    mem_free(p);
    return rc;
}

static int scheduler_command(const void *values, const struct options *o, int argc,
                             char *const *argv, struct err *e)
{
    struct scheduler_values v = *(const struct scheduler_values *)values;
    struct role role;
    struct train_options train;
    struct training t = {&train, NULL};
    struct options *parsed = NULL;
    if (v.node.scheduler == NULL && !options_given(o, "port"))
        TRY(node_role(&role, WIRE_SCHEDULER, e));
    else
        role = (struct role){0};
    scheduler_values_fill(&v, o, &role);
    if (v.replicas > 1 && !options_given(o, "dead-timeout"))
        v.server_timeout = REPLICAS_DEAD_SECONDS;
    TRY(training_words(argc, argv, &train, &parsed, e));
    t.options = parsed;
    node_catch_signals();
    int rc = role_scheduler(&v, parsed != NULL ? &t : NULL, e);
    options_close(parsed);
    return rc;
}

const struct cli_command cli_scheduler = {&cli_scheduler_options,
                                          sizeof(struct scheduler_values),
                                          .run_tail = scheduler_command};
