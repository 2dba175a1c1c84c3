// A run from its start to its end; see launch.h. plan.c makes the command lines of roles,
// exit_policy.c decides when a run is over, and processes.c runs the processes.
//
// SPDX-License-Identifier: Apache-2.0
#include "launch/launch.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "launch/copy.h"
#include "launch/exit_policy.h"
#include "launch/plan.h"
#include "launch/processes.h"
#include "launch/restart.h"
#include "os/clock.h"
#include "os/disk.h"
#include "os/file.h"
#include "os/log.h"
#include "os/route.h"
#include "os/runtime_dir.h"

// How long the launcher waits before it asks processes to end (STAGE_WAIT), and then
// before it kills them (STAGE_GENTLE). An interrupted run gets an hour, because it has a
// pass to finish and a model to save; a second signal (os/wish.h) ends the run at once.
// Supervisors get two seconds more than the programs that they end.
enum {
    TOLD_SECONDS = 2,
    LEAVE_SECONDS = 5,
    GENTLE_SECONDS = LAUNCH_GENTLE_SECONDS + 2,
    SAVE_SECONDS = 3600
};
// After the first failure in a run of a program, the launcher waits this long before it
// ends the other processes: the process that caused the failure may end a little later.
#define CAUSE_SECONDS .5

enum { INTERRUPTED = 130 }; // exit code of an interrupted run

enum stage { STAGE_RUN, STAGE_WAIT, STAGE_GENTLE, STAGE_KILL };

struct run {
    const struct launch_options *o;
    struct plan plan;
    struct processes *processes;
    struct exit_policy policy;
    enum stage stage;
    bool interrupted, announced;
    struct err start_error;
    enum reason reason; // the reason of the failure that the scheduler has announced
    struct buf told;    // all lines that were printed and must not be printed again
    struct buf held;    // lines about processes that ended in the last TOLD_SECONDS
    char address_file[FILE_PATH_MAX]; // "": not written
    // For each process, and last for the launcher: whether it runs; used for
    // --http-targets.
    bool *runs;
    struct restart *restarts; // one for each process
    bool lost;                // a server has ended, and its rows are lost
    bool targets_fail; // the file of targets could not be written, and this was logged
};

// Returns the index of a process: first the scheduler, then the servers, then the
// workers.
static uint32_t member_of(const struct run *r, enum launch_role role, uint32_t rank)
{
    return role == LAUNCH_SCHEDULER ? 0
           : role == LAUNCH_SERVER  ? 1 + rank
                                    : 1 + r->o->servers + rank;
}

// Returns the number of the run's processes, which is also the launcher's index in `runs`.
static uint32_t processes_of(const struct run *r)
{
    return member_of(r, LAUNCH_WORKER, r->o->workers);
}

static void role_of(const struct run *r, uint32_t member, enum launch_role *ret_role,
                    uint32_t *ret_rank)
{
    *ret_role = member == 0               ? LAUNCH_SCHEDULER
                : member <= r->o->servers ? LAUNCH_SERVER
                                          : LAUNCH_WORKER;
    *ret_rank = member - member_of(r, *ret_role, 0);
}

// ---------------------------------------------------------------- last words

// When a run fails, each process prints the reason, and most print the same one; the
// launcher prints it once, at the end. Lines that begin with one of these words are held
// until the end.
static const char *const last_words[] = {
    "tug scheduler: ", "tug server: ", "tug worker: ", "the cluster ends: "};

static const char *without_head(const char *line, size_t n)
{
    for (size_t i = 0; i < sizeof(last_words) / sizeof(*last_words); i++) {
        size_t head = strlen(last_words[i]);
        if (n > head && memcmp(line, last_words[i], head) == 0)
            return line + head;
    }
    return NULL;
}

static bool is_last_word(const char *line, size_t n)
{
    return without_head(line, n) != NULL;
}

static const struct err *end_of(const struct run *r)
{
    return r->start_error.code != 0 ? &r->start_error : &r->policy.end;
}

static bool is_said(void *ctx, const char *line)
{
    struct run *r = ctx;
    const char *text = without_head(line, strlen(line)), *end = end_of(r)->text,
               *told = r->told.len > 0 ? buf_str(&r->told) : NULL;
    if (end_of(r)->code != 0 && end[0] != '\0' &&
        (strstr(end, text) != NULL || strstr(text, end) != NULL))
        return true;
    if (told != NULL && strstr(told, text) != NULL)
        return true;
    // Remember the line, so that it is not printed twice.
    (void)buf_printf(&r->told, "%s\n", text);
    return false;
}

// Returns whether the error that ends the run contains the line `text` about a process
// (after its first ": ").
static bool is_the_end(const struct run *r, const char *text)
{
    const char *said = strstr(text, ": ");
    return end_of(r)->code != 0 && said != NULL && strstr(end_of(r)->text, said + 2);
}

// Warns of processes that have ended although the run continues. If a process ended because
// the run ended, it has the same error as the run, which launch prints at the end; so this
// function does not report it.
static void say_ended(struct run *r)
{
    const char *line = r->held.len > 0 ? buf_str(&r->held) : NULL;
    while (line != NULL && *line != '\0') {
        size_t n = strcspn(line, "\n");
        char text[EXIT_POLICY_TEXT_MAX];
        snprintf(text, sizeof(text), "%.*s", (int)n, line);
        line += n + (line[n] == '\n');
        if (is_the_end(r, text))
            continue;
        log_warn("%s", text);
        (void)buf_printf(&r->told, "%s\n", text);
    }
    buf_clear(&r->held);
}

static void say_held(struct run *r)
{
    uint32_t n = processes_of(r);
    for (uint32_t i = 0; i < n && processes_has(r->processes, i); i++)
        processes_say_held(r->processes, i, is_said, r);
}

// ---------------------------------------------------------------- the end

static void go_to(struct run *r, enum stage stage, double seconds)
{
    if (stage < r->stage)
        return;
    r->stage = stage;
    if (stage == STAGE_GENTLE)
        processes_signal_all(r->processes, SIGTERM);
    if (stage == STAGE_KILL)
        processes_kill_all(r->processes);
    if (stage != STAGE_KILL)
        processes_timer(r->processes, seconds);
}

static void on_timer(void *ctx)
{
    struct run *r = ctx;
    if (r->stage == STAGE_RUN)
        say_ended(r);
    else if (r->stage == STAGE_WAIT)
        go_to(r, STAGE_GENTLE, GENTLE_SECONDS);
    else if (r->stage == STAGE_GENTLE)
        go_to(r, STAGE_KILL, 0);
}

static void on_interrupted(void *ctx, bool at_once)
{
    struct run *r = ctx;
    if (at_once) {
        go_to(r, STAGE_KILL, 0);
        return;
    }
    r->interrupted = true;
    exit_policy_interrupted(&r->policy);
    if (r->o->program || !r->announced || r->restarts[0].due_ns != 0) {
        go_to(r, STAGE_GENTLE, GENTLE_SECONDS);
        return;
    }
    // After this signal, the scheduler makes a save and ends the other processes in order.
    processes_signal(r->processes, 0, SIGTERM);
    go_to(r, STAGE_WAIT, SAVE_SECONDS);
}

// Records whether a process runs, and writes the list of running processes for Prometheus
// (--http-targets).
static void tell_targets(struct run *r, uint32_t member, bool runs)
{
    struct err e = {0};
    r->runs[member] = runs;
    bool fails = plan_write_targets(&r->plan, r->runs, &e) != 0;
    if (fails && !r->targets_fail)
        log_warn("--http-targets: Prometheus may see an old list: %s", e.text);
    r->targets_fail = fails;
}

// Removes a process that has ended from the file of --http-targets; with the last process,
// also the launcher.
static void tell_ended(struct run *r, uint32_t member)
{
    uint32_t launcher = processes_of(r), running = 0;
    for (uint32_t i = 0; i < launcher; i++)
        running += r->runs[i] && i != member;
    r->runs[launcher] = running > 0;
    tell_targets(r, member, false);
}

// Sets the timer for the next process that is started again.
static void set_restart_timer(struct run *r)
{
    uint64_t next = UINT64_MAX, now = clock_ns();
    for (uint32_t i = 0; i < processes_of(r); i++)
        if (r->restarts[i].due_ns != 0 && r->restarts[i].due_ns < next)
            next = r->restarts[i].due_ns;
    if (next != UINT64_MAX)
        processes_later(r->processes, next > now ? (double)(next - now) * 1e-9 : 0);
}

// Returns whether another process than `member` runs.
static bool others_run(const struct run *r, uint32_t member)
{
    for (uint32_t i = 0; i < processes_of(r); i++)
        if (r->runs[i] && i != member)
            return true;
    return false;
}

// Plans to start a process that has ended again. Returns false if the process must not be
// started again.
static bool restart_later(struct run *r, uint32_t member, const struct launch_exit *x)
{
    char text[EXIT_POLICY_TEXT_MAX];
    if (r->o->restarts == 0 || r->o->program || r->stage != STAGE_RUN || r->interrupted ||
        !r->announced || !others_run(r, member) ||
        (x->role == LAUNCH_SERVER && r->o->replicas < 2) ||
        !restart_plan(&r->restarts[member], x, r->o->restarts, clock_ns()))
        return false;
    log_warn("%s; it is started again in %.3g s (restart %u of at most %u)",
             exit_policy_describe(x, text), r->restarts[member].delay,
             r->restarts[member].times, r->o->restarts);
    set_restart_timer(r);
    return true;
}

static void on_ended(void *ctx, uint32_t member, int pid, int code, int number,
                     const char *said)
{
    struct run *r = ctx;
    struct launch_exit x = {
        .code = code, .signal = number, .said = said, .asked = r->stage >= STAGE_GENTLE};
    role_of(r, member, &x.role, &x.rank);
    tell_ended(r, member);
    bool supervised = r->o->program || plan_host(&r->plan, x.role, x.rank) != NULL;
    x.pid = supervised ? 0 : pid;
    if (supervised && code > 128 && code < 128 + NSIG && code != INTERRUPTED) {
        // A supervisor's exit code for a signal is 128 + its number.
        x.signal = code - 128;
        x.code = 0;
    }
    launch_facts_ended(r->o->facts, member, x.code, x.signal);
    if (r->interrupted && member != 0)
        return; // the interrupted run has asked the processes to end
    char text[EXIT_POLICY_TEXT_MAX];
    bool killed = x.signal != 0 && r->stage == STAGE_RUN;
    r->lost |= x.role == LAUNCH_SERVER && killed;
    if (restart_later(r, member, &x))
        return;
    switch (exit_policy_exit(&r->policy, &x)) {
    case EXIT_POLICY_GO_ON:
        if ((code != 0 || number != 0) && code != INTERRUPTED && r->stage == STAGE_RUN) {
            const char *rest = "; the run goes on if other servers have its partitions";
            (void)buf_printf(&r->held, "%s%s\n", exit_policy_describe(&x, text),
                             x.role == LAUNCH_SERVER && killed ? rest : "");
            if (number != 0)
                // A process that was killed did not end because of the run's end, so it is
                // reported at once.
                say_ended(r);
            else
                processes_timer(r->processes, TOLD_SECONDS);
        }
        if (r->stage == STAGE_RUN && r->held.len == 0)
            processes_say_held(r->processes, member, is_said, r);
        break;
    case EXIT_POLICY_SETTLE:
        // Waits until the scheduler has noticed and reported the loss.
        go_to(r, STAGE_WAIT, r->o->dead_seconds + LEAVE_SECONDS);
        break;
    case EXIT_POLICY_TOLD:
        go_to(r, STAGE_WAIT, TOLD_SECONDS);
        break;
    case EXIT_POLICY_LEAVE:
        go_to(r, STAGE_WAIT, LEAVE_SECONDS);
        break;
    case EXIT_POLICY_END: // the scheduler cannot end the other processes
        if (!r->o->program)
            go_to(r, STAGE_GENTLE, TOLD_SECONDS);
        else if (r->stage == STAGE_RUN)
            go_to(r, STAGE_WAIT, CAUSE_SECONDS);
        break;
    }
}

// ---------------------------------------------------------------- the start

static const char *log_path(const struct run *r, enum launch_role role, uint32_t rank,
                            char to[FILE_PATH_MAX])
{
    if (r->o->log_dir == NULL)
        return NULL;
    if (role == LAUNCH_SCHEDULER)
        snprintf(to, FILE_PATH_MAX, "%s/scheduler.log", r->o->log_dir);
    else
        snprintf(to, FILE_PATH_MAX, "%s/%s-%u.log", r->o->log_dir, launch_role_name(role),
                 rank);
    return to;
}

static void tell_began(struct run *r, enum launch_role role, uint32_t rank)
{
    uint32_t member = member_of(r, role, rank);
    const struct host *host = plan_host(&r->plan, role, rank);
    launch_facts_began(r->o->facts, member, processes_pid(r->processes, member),
                       host != NULL ? host->name : NULL);
    restart_began(&r->restarts[member], clock_ns());
    r->runs[processes_of(r)] = true; // the launcher itself runs
    tell_targets(r, member, true);
}

static int start_role(struct run *r, enum launch_role role, uint32_t rank, struct err *e)
{
    struct argv argv, env;
    struct buf input;
    char log[FILE_PATH_MAX], name[40];
    uint32_t member = member_of(r, role, rank);
    bool again = processes_has(r->processes, member);
    r->plan.joins = again && role == LAUNCH_SERVER;
    TRY(plan_role(&r->plan, role, rank, &argv, &env, &input, e));
    if (role == LAUNCH_SCHEDULER)
        snprintf(name, sizeof(name), "scheduler");
    else
        snprintf(name, sizeof(name), "%s %u", launch_role_name(role), rank);
    bool wrapped = plan_wrap(&r->plan, role, rank) != NULL;
    bool training = role == LAUNCH_SCHEDULER && !r->o->program;
    bool leash = r->o->program || plan_host(&r->plan, role, rank) != NULL;
    struct processes_process p = {
        .name = name,
        .argv = argv.at,
        .env = env.at,
        .output = wrapped    ? PROCESSES_TERMINAL
                  : training ? PROCESSES_RAW
                             : PROCESSES_LINES,
        .lines_to_stdout = r->o->program,
        .announces = training,
        .input = input.len > 0 ? input.data
                 : leash       ? ""
                               : NULL,
        .n_input = input.len,
        .log = log_path(r, role, rank, log),
        .json = r->o->log_json,
        .role = launch_role_name(role),
        .rank = role == LAUNCH_SCHEDULER ? -1 : (int)rank,
        .holds = r->o->program ? NULL : is_last_word,
    };
    p.again = again;
    int rc = p.again ? processes_start_again(r->processes, member, &p, e)
                     : processes_start(r->processes, &p, e);
    if (rc == 0)
        tell_began(r, role, rank);
    argv_free(&argv);
    argv_free(&env);
    buf_wipe(&input);
    return rc;
}

// Starts the processes that are due to be started again. If the run is about to end, starts
// none.
static void on_later(void *ctx)
{
    struct run *r = ctx;
    uint64_t now = clock_ns();
    for (uint32_t i = 0; i < processes_of(r); i++) {
        enum launch_role role;
        uint32_t rank;
        if (r->restarts[i].due_ns == 0 ||
            (r->restarts[i].due_ns > now && !r->interrupted))
            continue;
        r->restarts[i].due_ns = 0;
        role_of(r, i, &role, &rank);
        if (r->stage == STAGE_RUN && !r->policy.scheduler_ended &&
            start_role(r, role, rank, &r->start_error) != 0)
            go_to(r, STAGE_GENTLE, GENTLE_SECONDS);
    }
    set_restart_timer(r);
}

static int start_members(struct run *r, struct err *e)
{
    for (uint32_t i = 0; i < r->o->servers; i++)
        TRY(start_role(r, LAUNCH_SERVER, i, e));
    for (uint32_t i = 0; i < r->o->workers; i++)
        TRY(start_role(r, LAUNCH_WORKER, i, e));
    return 0;
}

// Gets the path of the file for the scheduler's address. The path contains the port, so that
// runs of the same name have different files.
static int address_file(const struct run *r, char ret[FILE_PATH_MAX], struct err *e)
{
    char dir[FILE_PATH_MAX], host[PLAN_ADDRESS_MAX], name[128];
    uint16_t port;
    TRY(route_split(r->plan.scheduler, host, sizeof(host), &port, e));
    TRY(runtime_dir_make(dir, e));
    snprintf(name, sizeof(name), "%.100s@%u.addr", r->o->cluster, port);
    return file_join(ret, dir, name, e);
}

static int write_address(const struct run *r, const char *path, struct err *e)
{
    struct file_writer *w = NULL;
    mode_t old = umask(077);
    int rc = file_create_in(&w, FILE_OWN, path, e);
    umask(old);
    if (rc == 0)
        rc = file_write(w, r->plan.scheduler, strlen(r->plan.scheduler), e);
    if (rc == 0)
        return file_commit(w, e);
    file_abort(w);
    return rc;
}

// Writes the scheduler's address to a file, for tools.
static void publish(struct run *r)
{
    struct err e;
    if (address_file(r, r->address_file, &e) == 0 &&
        write_address(r, r->address_file, &e) == 0)
        return;
    r->address_file[0] = 0;
    log_warn("tug status will need --scheduler to find this run: %s", e.text);
}

static void unpublish(const struct run *r)
{
    struct buf b = BUF_INIT(PLAN_ADDRESS_MAX);
    if (r->address_file[0] != 0 && file_read(r->address_file, &b, NULL) == 0 &&
        strcmp(buf_str(&b), r->plan.scheduler) == 0)
        (void)disk_remove(r->address_file); // it still has the address of this run
    buf_free(&b);
}

static void on_announced(void *ctx, uint32_t member, const char *line)
{
    struct run *r = ctx;
    const size_t head = strlen(PROCESSES_REASON);
    (void)member;
    if (strncmp(line, PROCESSES_REASON, head) == 0) {
        unsigned long reason = strtoul(line + head, NULL, 10);
        r->reason = reason < REASONS ? (enum reason)reason : REASON_NONE;
        return;
    }
    if (r->announced || r->stage != STAGE_RUN)
        return;
    r->announced = true;
    snprintf(r->plan.scheduler, sizeof(r->plan.scheduler), "%s", line);
    publish(r);
    if (start_members(r, &r->start_error) != 0)
        go_to(r, STAGE_GENTLE, GENTLE_SECONDS);
}

// Opens the launcher's own log: only the launcher knows why processes ended.
static int open_log(const char *dir, struct err *e)
{
    char path[FILE_PATH_MAX];
    TRY(file_make_dir(dir, e));
    TRY(file_join(path, dir, "launch.log", e));
    return log_set_file(path, e);
}

static int launch_begin(struct run *r, struct err *e)
{
    struct processes_handler h = {
        .ctx = r,
        .ended = on_ended,
        .announced = on_announced,
        .interrupted = on_interrupted,
        .timer = on_timer,
        .later = on_later,
    };
    TRY(plan_open(&r->plan, r->o, e));
    TRY(plan_write_targets(&r->plan, r->runs, e));
    if (r->o->log_dir != NULL)
        TRY(open_log(r->o->log_dir, e));
    if (r->o->sync != NULL)
        TRY(copy_workspace(&r->plan, e));
    TRY(processes_open(&r->processes, &h, e));
    for (size_t i = 0; i < r->o->wraps.n && isatty(STDIN_FILENO); i++)
        signal(SIGINT, SIG_IGN); // only the debugger handles Ctrl-C
    TRY(start_role(r, LAUNCH_SCHEDULER, 0, e));
    return r->o->program ? start_members(r, e) : 0;
}

// Lets Prometheus know that the run has failed.
static void tell_failure(struct run *r, const struct err *why)
{
    char address[PLAN_ADDRESS_MAX + 16];
    if (r->o->failed == NULL || r->o->http_targets == NULL ||
        r->plan.http_ports == NULL || r->interrupted || why->code == TUG_EINTERRUPTED)
        return;
    plan_http_scheduler(&r->plan, address);
    tell_targets(r, 0, true);
    r->o->failed(r->o->failed_ctx, address, why);
    tell_targets(r, 0, false);
}

static void run_free(struct run *r)
{
    if (r == NULL)
        return;
    mem_free(r->runs);
    mem_free(r->restarts);
    mem_free(r);
}

static struct run *run_make(const struct launch_options *o)
{
    struct run *r = mem_zalloc(sizeof(*r));
    uint32_t n = 1 + o->servers + o->workers;
    if (r != NULL) {
        r->o = o;
        r->runs = mem_zalloc((n + 1) * sizeof(*r->runs));
        r->restarts = mem_zalloc(n * sizeof(*r->restarts));
    }
    if (r != NULL && r->runs != NULL && r->restarts != NULL)
        return r;
    run_free(r);
    return NULL;
}

int launch_run(const struct launch_options *o, bool *ret_lost, struct err *e)
{
    struct run *r = run_make(o);
    if (r == NULL)
        return err_nomem(e, "the launcher");
    r->told = BUF_INIT(1 << 20);
    r->held = BUF_INIT(1 << 20);
    exit_policy_open(&r->policy, o->program, o->workers, o->replicas > 1);
    int rc = launch_begin(r, e);
    if (rc == 0)
        rc = processes_run(r->processes, e);
    struct err unlogged = {0};
    if (rc == 0)
        (void)processes_logs(r->processes, &unlogged);
    say_ended(r);
    if (r->processes != NULL)
        say_held(r);
    processes_close(r->processes);
    unpublish(r);
    r->policy.end.reason = r->reason;
    const struct err *why = end_of(r)->code != 0 ? end_of(r) : &unlogged;
    if (rc == 0 && why->code != 0)
        tell_failure(r, why);
    plan_close(&r->plan);
    if (rc == 0 && why->code != 0) {
        if (e != NULL)
            *e = *why;
        rc = why->code;
    }
    buf_free(&r->told);
    buf_free(&r->held);
    if (ret_lost != NULL)
        *ret_lost = r->lost && !r->interrupted;
    run_free(r);
    return rc;
}
