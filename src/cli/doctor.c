// tug doctor: finds out why a cluster does not work. It checks which nodes reach each
// other, and their versions, clocks and certificates, and gives advice for each problem.
//
// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <openssl/asn1.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/nodes/node_options.h"
#include "cli/status.h"
#include "os/clock.h"
#include "os/json.h"
#include "os/process_state.h"
#include "runtime/tool.h"

struct doctor_values {
    struct node_values node;
    bool json;
};

#define OPTIONS_OF struct doctor_values

static const struct option options[] = {
    {TOOL_SCHEDULER_OPTION},
    NODE_REACH_OPTIONS("5"),
    {"json", .group = "Output", FLAG_AT(json), "print one JSON object"},
};

const struct option_table cli_doctor_options = {
    .command = "doctor",
    .summary = "find out what is wrong with a cluster",
    .usage = "[--scheduler HOST:PORT] [--json]",
    .about =
        "Connects to the scheduler and to every node that listens, compares versions "
        "and clocks, checks the certificate, and asks the scheduler which nodes still "
        "send messages, and whether a worker is slow or makes no progress. Prints one "
        "line for each problem, with a remedy. Run this command on the machine that has "
        "the problem. The exit code is 4 when there is a problem.",
    .examples = "tug doctor\n"
                "tug doctor --scheduler 10.0.0.1:9100 --ca ca.pem --cert me.pem --key "
                "me.key",
    CLI_OPTIONS(options),
};

enum { NODE_SECONDS = 5, NODES_SECONDS = 60, EXPIRY_DAYS = 14, PINGS = 5 };
// Speeds of workers are compared after RECENT_SECONDS, if the fastest worker has finished
// RECENT_PIECES recently.
enum { RECENT_SECONDS = 10, RECENT_PIECES = 5, IDLE_SECONDS = 60 };
#define SLOW_SHARE .8

struct examination {
    struct opened_node *node;
    json_t *rows, *problems;
};

static void problem(struct examination *x, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void problem(struct examination *x, const char *fmt, ...)
{
    char text[ERR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    json_array_append_new(x->problems, json_string(text));
}

// Returns the shortest time of a few requests; an answer also shows that the node's loop
// runs.
static double round_trip_ms(struct tool *t)
{
    double best = INFINITY;
    for (int i = 0; i < PINGS; i++) {
        uint64_t begin = clock_ns();
        struct err e = {0};
        if (tool_ask(t, MSG_STATUS, &(struct msg_status){}, NODE_SECONDS, &e) != 0)
            return (double)NAN;
        best = fmin(best, (double)(clock_ns() - begin) * 1e-6);
    }
    return best;
}

static void look_at_version(struct examination *x, const char *name, const char *version)
{
    if (strcmp(version, tug_version()) != 0)
        problem(x,
                "%s runs tug %s, but this command is tug %s: install the same version "
                "everywhere and start the cluster again",
                name, version, tug_version());
}

static void look_at_clock(struct examination *x, const char *name, double skew)
{
    if (fabs(skew) > 1)
        problem(x,
                "the clock of %s is %.1f s %s: let NTP set it, because otherwise the "
                "times in logs do not match, and certificates may count as expired",
                name, fabs(skew), skew > 0 ? "ahead" : "behind");
}

static void name_of(const json_t *n, char to[64])
{
    if (tool_number(n, "loop") > 0)
        snprintf(to, 64, "%s %.0f loop %.0f", tool_text(n, "role"),
                 tool_number(n, "rank"), tool_number(n, "loop"));
    else
        snprintf(to, 64, "%s %.0f", tool_text(n, "role"), tool_number(n, "rank"));
}

// Returns whether the process exists and is not a zombie.
static bool is_there(pid_t pid)
{
    char state = process_state(pid);
    if (state == 0)
        return kill(pid, 0) == 0 || errno != ESRCH; // /proc may be missing
    return state != 'Z' && state != 'X';
}

static bool is_local(const json_t *n)
{
    char here[HOST_NAME_MAX + 1] = "";
    return gethostname(here, sizeof(here) - 1) == 0 &&
           strcmp(here, tool_text(n, "host")) == 0;
}

static bool has_gone(const json_t *n)
{
    pid_t pid = (pid_t)tool_number(n, "pid");
    return is_local(n) && pid > 0 && !is_there(pid);
}

// Reports a dead node. A process that fails logs the reason first; a killed one cannot.
static void look_at_the_dead(struct examination *x, const json_t *n, const char *name)
{
    const char *host = tool_text(n, "host");
    pid_t pid = (pid_t)tool_number(n, "pid");
    bool local = is_local(n);
    if (has_gone(n))
        problem(x,
                "%s was killed: its process %d ended without a message; look into its "
                "log and "
                "for 'Out of memory' in the output of dmesg",
                name, (int)pid);
    else if (local && pid > 0)
        problem(x,
                "%s counts as dead, but its process %d still exists: it was stopped, or "
                "got no CPU time for longer than --dead-timeout; look into its log",
                name, (int)pid);
    else
        problem(x,
                "%s is dead: its process %d on %s was killed, or that machine or its "
                "network is gone; look into its log there",
                name, (int)pid, host);
}

// Checks a node as the scheduler sees it.
static void look_at_link(struct examination *x, const json_t *n, const char *name)
{
    // has_gone finds a dead process before the scheduler's timeout.
    if (!tool_true(n, "alive") || has_gone(n))
        look_at_the_dead(x, n, name);
    else if (!tool_true(n, "linked"))
        problem(x,
                "%s (%s) has lost its link to the scheduler: a firewall in between may "
                "close idle connections",
                name, tool_text(n, "host"));
    else if (tool_number(n, "seconds_since_sign") > 3)
        problem(x,
                "%s (%s) has not been heard from for %.0f s: its process %.0f is "
                "stopped, or its machine has no memory left or has lost its network",
                name, tool_text(n, "host"), tool_number(n, "seconds_since_sign"),
                tool_number(n, "pid"));
}

static void examine_node(struct examination *x, const json_t *n)
{
    struct tool t = {.interrupted = &node_interrupted};
    struct err e = {0};
    char name[64];
    name_of(n, name);
    double skew = tool_number(n, "clock_skew_seconds"), trip = (double)NAN;
    const char *address = tool_text(n, "address");
    bool alive = tool_true(n, "alive") && !has_gone(n), listens = address[0] != 0,
         reached = false;
    look_at_link(x, n, name);
    if (alive)
        look_at_clock(x, name, skew);
    if (alive && listens &&
        tool_open(&t, &x->node->node, address, NODE_SECONDS, &e) == 0) {
        reached = true;
        look_at_version(x, name, t.version);
        trip = round_trip_ms(&t);
    } else if (alive && listens) {
        problem(x,
                "%s cannot be reached from this machine: %s; open its port for this "
                "machine, or "
                "start it with the --host or --interface of a network that both machines "
                "are on",
                name, e.text);
    }
    json_t *row = json_pack(
        "{s:s, s:s, s:s, s:b, s:b, s:o, s:s, s:o, s:f}", "node", name, "host",
        tool_text(n, "host"), "address", address, "alive", alive, "heard_by_scheduler",
        tool_true(n, "linked"), "reached_from_here",
        listens ? json_boolean(reached) : json_null(), "version", t.version,
        "round_trip_ms", json_real_or_null(trip), "clock_skew_seconds", skew);
    json_array_append_new(x->rows, row);
    tool_close(&t);
}

static void look_at_certificate(struct examination *x, const char *path, json_t *ret)
{
    FILE *f = path != NULL ? fopen(path, "re") : NULL;
    X509 *cert = f != NULL ? PEM_read_X509(f, NULL, NULL, NULL) : NULL;
    if (f != NULL)
        fclose(f);
    if (cert == NULL)
        return;
    char subject[256] = "";
    int days = 0, seconds = 0;
    X509_NAME_oneline(X509_get_subject_name(cert), subject, sizeof(subject));
    ASN1_TIME_diff(&days, &seconds, NULL, X509_get0_notAfter(cert));
    json_object_set_new(ret, "certificate",
                        json_pack("{s:s, s:i}", "subject", subject, "days_left", days));
    if (days < EXPIRY_DAYS)
        problem(x,
                "the certificate %s (%s) expires in %d days: make a new one with 'tug "
                "cert node'",
                path, subject, days);
    X509_free(cert);
}

static void look_at_phase(struct examination *x, const json_t *s)
{
    if (strcmp(tool_text(s, "phase"), "gathering") != 0)
        return;
    unsigned servers = 0, workers = 0;
    json_t *n;
    size_t i;
    json_array_foreach(json_object_get(s, "nodes"), i, n) {
        bool counts = tool_true(n, "alive") && tool_number(n, "loop") == 0;
        servers += counts && strcmp(tool_text(n, "role"), "server") == 0;
        workers += counts && strcmp(tool_text(n, "role"), "worker") == 0;
    }
    problem(x,
            "the cluster is still waiting: %u of %.0f servers and %u of %.0f workers "
            "have joined; look into the logs of the others",
            servers, tool_number(s, "servers_wanted"), workers,
            tool_number(s, "workers_wanted"));
}

static bool is_living_worker(const json_t *n)
{
    return tool_true(n, "alive") && !tool_true(n, "left") &&
           strcmp(tool_text(n, "role"), "worker") == 0;
}

// Returns the recent examples per second of the lane of a worker; NaN if they cover less
// than RECENT_SECONDS.
static double recent_speed(const json_t *n)
{
    const json_t *recent = json_object_get(n, "recent");
    double seconds = tool_number(recent, "seconds");
    return seconds >= RECENT_SECONDS ? tool_number(recent, "examples") / seconds
                                     : (double)NAN;
}

// Sums the recent speeds and pieces of all living lanes of the worker of nodes[*at], which
// follow each other, because the nodes are sorted. Sets *at to the last node of the worker.
static double worker_speed(const json_t *nodes, size_t *at, double *ret_pieces)
{
    const json_t *first = json_array_get(nodes, *at), *n = first;
    double sum = 0;
    *ret_pieces = 0;
    for (size_t i = *at; n != NULL && strcmp(tool_text(n, "role"), "worker") == 0 &&
                         tool_number(n, "rank") == tool_number(first, "rank");
         n = json_array_get(nodes, ++i)) {
        *at = i;
        if (!is_living_worker(n))
            continue;
        sum += recent_speed(n);
        *ret_pieces += tool_number(json_object_get(n, "recent"), "pieces");
    }
    return sum;
}

// Names a worker that is much slower than the fastest one, as the page of --http does.
static void look_at_speed(struct examination *x, const json_t *s)
{
    const json_t *slowest = NULL;
    double least = INFINITY, most = 0, pieces = 0, finished;
    json_t *nodes = json_object_get(s, "nodes"), *n;
    size_t i;
    json_array_foreach(nodes, i, n) {
        if (!is_living_worker(n))
            continue;
        double speed = worker_speed(nodes, &i, &finished);
        if (isnan(speed))
            continue;
        pieces = fmax(pieces, finished);
        most = fmax(most, speed);
        if (speed < least) {
            least = speed;
            slowest = n;
        }
    }
    if (slowest != NULL && pieces >= RECENT_PIECES && least < SLOW_SHARE * most)
        problem(x,
                "worker %.0f (%s) is slow: it trains on %.0f examples a second, and the "
                "fastest worker on %.0f; look for other work on its machine ('top'), or "
                "a slow link or disk",
                tool_number(slowest, "rank"), tool_text(slowest, "host"), least, most);
}

// Reports workers without progress, and a training without progress.
static void look_at_progress(struct examination *x, const json_t *s)
{
    const json_t *run = json_object_get(s, "run");
    json_t *n;
    size_t i;
    json_array_foreach(json_object_get(s, "nodes"), i, n)
        if (tool_true(n, "alive") && tool_number(n, "pieces_held") > 0 &&
            tool_number(n, "seconds_since_progress") > IDLE_SECONDS)
            problem(x,
                    "worker %.0f (%s) has pieces of the data and has finished none for "
                    "%.0f s; killing its process %.0f gives them to the others",
                    tool_number(n, "rank"), tool_text(n, "host"),
                    tool_number(n, "seconds_since_progress"), tool_number(n, "pid"));
    if (strcmp(tool_text(run, "state"), "training") == 0 &&
        tool_number(run, "seconds_since_progress") > IDLE_SECONDS)
        problem(x, "the training has made no progress for %.0f s",
                tool_number(run, "seconds_since_progress"));
}

// Returns whether a dead node need not be reported: a living node has taken its place, or
// the first loop of its process is reported.
static bool is_told_elsewhere(const json_t *nodes, const json_t *n)
{
    const json_t *other;
    size_t i;
    if (tool_true(n, "alive"))
        return false;
    json_array_foreach(nodes, i, other)
        if (tool_true(other, "alive") &&
            strcmp(tool_text(other, "role"), tool_text(n, "role")) == 0 &&
            tool_count(other, "rank") == tool_count(n, "rank") &&
            tool_count(other, "loop") == tool_count(n, "loop"))
            return true;
    return tool_count(n, "loop") > 0;
}

static int examine(struct examination *x, const struct doctor_values *v, json_t *ret,
                   struct err *e)
{
    struct tool t = {.interrupted = &node_interrupted};
    json_t *status = NULL, *n;
    size_t i;
    int rc = tool_open(&t, &x->node->node, x->node->node.scheduler,
                       v->node.connect_timeout, e);
    double skew = rc == 0 && t.unix_ns != 0
                      ? ((double)t.unix_ns - (double)clock_unix_ns()) * 1e-9
                      : 0;
    if (rc == 0)
        rc = tool_status(&t, NODE_SECONDS, &status, e);
    if (rc != 0) {
        tool_close(&t);
        return err_wrap(e, "the scheduler does not answer");
    }
    status_sort_nodes(status);
    look_at_version(x, "the scheduler", t.version);
    look_at_clock(x, "the scheduler's machine", skew);
    json_array_append_new(
        x->rows,
        json_pack("{s:s, s:s, s:s, s:b, s:b, s:b, s:s, s:f, s:f}", "node", "scheduler",
                  "host", "", "address", t.address, "alive", 1, "heard_by_scheduler", 1,
                  "reached_from_here", 1, "version", t.version, "round_trip_ms",
                  round_trip_ms(&t), "clock_skew_seconds", skew));
    look_at_phase(x, status);
    look_at_progress(x, status);
    look_at_speed(x, status);
    uint64_t until = clock_ns() + NODES_SECONDS * SECOND_NS;
    json_array_foreach(json_object_get(status, "nodes"), i, n) {
        if (clock_ns() >= until) {
            problem(x,
                    "the nodes from number %zu on were not asked, because asking the "
                    "earlier nodes took %d s",
                    i, NODES_SECONDS);
            break;
        }
        // a driver or worker that has left is not missed
        if (!tool_true(n, "left") &&
            !is_told_elsewhere(json_object_get(status, "nodes"), n))
            examine_node(x, n);
    }
    look_at_certificate(x, v->node.cert, ret);
    json_decref(status);
    tool_close(&t);
    return 0;
}

static const char *yes_no(const json_t *value)
{
    return json_is_null(value) ? "-" : json_is_true(value) ? "yes" : "NO";
}

static void print_all(const json_t *all)
{
    json_t *row, *one;
    size_t i;
    cli_printf("%-18s %-16s %-28s %-9s %-9s %-8s %8s %8s\n", "node", "host", "address",
               "scheduler", "here", "version", "ms", "skew s");
    json_array_foreach(json_object_get(all, "nodes"), i, row) {
        char trip[32] = "-";
        if (json_is_real(json_object_get(row, "round_trip_ms")))
            snprintf(trip, sizeof(trip), "%.3f", tool_number(row, "round_trip_ms"));
        cli_printf("%-18s %-16s %-28s %-9s %-9s %-8s %8s %8.3f\n", tool_text(row, "node"),
                   tool_text(row, "host"), tool_text(row, "address"),
                   yes_no(json_object_get(row, "heard_by_scheduler")),
                   yes_no(json_object_get(row, "reached_from_here")),
                   tool_text(row, "version"), trip,
                   tool_number(row, "clock_skew_seconds"));
    }
    const json_t *cert = json_object_get(all, "certificate");
    if (cert != NULL)
        cli_printf("certificate %s, good for %.0f days\n", tool_text(cert, "subject"),
                   tool_number(cert, "days_left"));
    json_array_foreach(json_object_get(all, "problems"), i, one)
        cli_printf("problem: %s\n", json_string_value(one));
    if (json_array_size(json_object_get(all, "problems")) == 0)
        cli_printf("no problem found with processes, links, versions, clocks and the "
                   "speed of workers; tug status and the page of --http show how the run "
                   "goes\n");
}

static int print(json_t *all, bool json, struct err *e)
{
    if (!json) {
        print_all(all);
        return 0;
    }
    return json_print(json_incref(all), 0, e);
}

static int doctor_command(const void *values, const struct options *o, struct err *e)
{
    (void)o;
    const struct doctor_values *v = values;
    struct opened_node n;
    json_begin();
    json_t *all = json_pack("{s:[], s:[]}", "nodes", "problems");
    if (all == NULL)
        return err_nomem(e, "the answer");
    struct examination x = {.node = &n,
                            .rows = json_object_get(all, "nodes"),
                            .problems = json_object_get(all, "problems")};
    node_catch_signals();
    int rc = node_values_open(&n, &v->node, WIRE_TOOL, e);
    if (rc == 0)
        rc = examine(&x, v, all, e);
    if (rc == 0)
        rc = print(all, v->json, e);
    size_t found = json_array_size(x.problems);
    if (rc == 0 && found > 0)
        rc = err_set(e, TUG_EIO, "%zu problem%s found", found, found == 1 ? "" : "s");
    json_decref(all);
    opened_node_close(&n);
    return rc;
}

const struct cli_command cli_doctor = {&cli_doctor_options, sizeof(struct doctor_values),
                                       .run = doctor_command};
