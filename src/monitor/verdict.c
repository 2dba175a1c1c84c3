// Writes the state of a process or cluster in one line, and decides whether it is ready.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/plural.h"
#include "monitor/limits_internal.h"
#include "monitor/text_internal.h"
#include "monitor/verdict_internal.h"
#include "os/clock.h"

// The largest number of workers that are looked up in the earlier facts. Without this
// limit, a cluster with many tables would take long.
enum { LOOKS_MAX = 16 };

void verdict_add(char text[RENDER_TEXT_MAX], const char *fmt, ...)
{
    size_t n = strlen(text);
    va_list args;
    va_start(args, fmt);
    if (n > 0 && n + 2 < RENDER_TEXT_MAX)
        n += (size_t)snprintf(text + n, RENDER_TEXT_MAX - n, "; ");
    if (n < RENDER_TEXT_MAX)
        vsnprintf(text + n, RENDER_TEXT_MAX - n, fmt, args);
    va_end(args);
}

// ---------------------------------------------------------------- problems

static bool is_role(const json_t *o, const char *role)
{
    return strcmp(fact_text(o, "role"), role) == 0;
}

static void judge_nodes(struct verdict *v)
{
    const json_t *nodes = fact_at(v->facts, "nodes"), *n;
    size_t i;
    json_array_foreach(nodes, i, n) {
        if (fact_true(n, "left") || (!is_role(n, "server") && !is_role(n, "worker")))
            continue;
        double idle = fact_number(n, "seconds_since_progress");
        bool first = !(fact_number(n, "loop") > 0); // all loops of a process die with it
        if (fact_is_replaced(nodes, n) || (!fact_true(n, "alive") && !first))
            continue;
        if (!fact_true(n, "alive"))
            PROBLEM(v, "%s %.0f is dead%s", fact_text(n, "role"), fact_number(n, "rank"),
                    is_role(n, "worker") ? " (its work goes to the others)" : "");
        else if (!fact_true(n, "linked"))
            PROBLEM(v, "%s %.0f has lost its link to the scheduler", fact_text(n, "role"),
                    fact_number(n, "rank"));
        else if (idle > idle_seconds && fact_number(n, "pieces_held") > 0)
            PROBLEM(v, "worker %.0f has finished nothing for %.0f s",
                    fact_number(n, "rank"), idle);
    }
}

// Names processes from which the scheduler has heard nothing for longer than the time
// between two heartbeats. Such processes are stopped or cut off, and soon count as dead.
static void judge_silence(struct verdict *v)
{
    const json_t *n;
    size_t i;
    json_array_foreach(json_object_get(v->facts, "nodes"), i, n) {
        if (!fact_is_silent(n) || fact_number(n, "loop") > 0 ||
            (!is_role(n, "server") && !is_role(n, "worker")))
            continue;
        PROBLEM(v, "%s %.0f (process %.0f on %.60s) has given no sign of life for %.0f s",
                fact_text(n, "role"), fact_number(n, "rank"), fact_number(n, "pid"),
                fact_text(n, "host"), fact_number(n, "seconds_since_sign"));
    }
}

// Returns whether two directories are on one disk. Two machines may have one name, and
// their disks the same numbers, so the sizes must agree, too, and what is free nearly.
static bool is_same_disk(const json_t *a, const json_t *b)
{
    const char *device = fact_text(a, "device");
    double size = fact_number(a, "size_bytes"),
           differs = fact_number(a, "free_bytes") - fact_number(b, "free_bytes");
    return *device != '\0' && strcmp(device, fact_text(b, "device")) == 0 &&
           strcmp(fact_text(a, "host"), fact_text(b, "host")) == 0 &&
           size == fact_number(b, "size_bytes") && fabs(differs) <= size / 100;
}

// Returns whether another directory on this disk was reported already; else notes that this
// one is. Several processes of a host often use one disk.
static bool is_reported(struct verdict *v, const json_t *disk)
{
    for (size_t i = 0; i < v->n_disks; i++)
        if (is_same_disk(v->disks[i], disk))
            return true;
    if (v->n_disks < VERDICT_DISKS)
        v->disks[v->n_disks++] = disk;
    return false;
}

// Names a disk that is nearly full, or has less room than the last save took. `who` names
// the process; "": this one.
static void judge_disks(struct verdict *v, const json_t *of, const char *who)
{
    const json_t *disk, *saves = fact_at(fact_at(of, "run"), "saves");
    double save = fact_number(fact_at(saves, "last"), "bytes");
    char text[TEXT_MAX], size[TEXT_MAX];
    size_t i;
    json_array_foreach(json_object_get(of, "disks"), i, disk) {
        double left = fact_number(disk, "free_bytes");
        const char *what = fact_text(disk, "what"), *path = fact_text(disk, "path");
        bool low = fact_disk_is_low(disk);
        if (low && is_reported(v, disk))
            continue;
        if (low)
            PROBLEM(v, "%sthe disk of %s (%.100s) is nearly full, %s are free", who, what,
                    path, text_bytes(left, text));
        else if (left < save && strcmp(what, "saves") == 0)
            PROBLEM(v,
                    "the disk of saves (%.100s) has no room for the next save: %s are "
                    "free, the last save took %s",
                    path, text_bytes(left, text), text_bytes(save, size));
    }
}

// A server's facts have the state of its last save; a run's facts have an error
// only if the save failed.
void verdict_judge_saves(struct verdict *v, const json_t *of, const char *who)
{
    const json_t *saves = fact_at(of, "saves"), *last = fact_at(saves, "last");
    const char *error = fact_text(last, "error");
    if (*error == '\0')
        error = fact_text(saves, "error");
    if (strcmp(fact_text(last, "state"), "failed") == 0 || *error != '\0')
        PROBLEM(v, "%sthe last save failed%s%.200s", who, *error != '\0' ? ": " : "",
                error);
}

static void judge_servers(struct verdict *v)
{
    const json_t *loop;
    size_t i;
    json_array_foreach(json_object_get(v->facts, "servers"), i, loop) {
        const json_t *memory = fact_at(loop, "memory");
        double rows_max = fact_number(memory, "rows_max");
        char who[64];
        snprintf(who, sizeof(who), "server %.0f: ", fact_number(loop, "rank"));
        if (*fact_text(loop, "error") != '\0')
            PROBLEM(v, "server %.0f loop %.0f does not answer: %.200s",
                    fact_number(loop, "rank"), fact_number(loop, "loop"),
                    fact_text(loop, "error"));
        if (rows_max > 0 && fact_number(memory, "rows") > memory_share * rows_max)
            PROBLEM(v, "%sits memory for rows is nearly full", who);
        verdict_judge_saves(v, loop, who);
        if (fact_number(loop, "loop") == 0) // the loops share their process's disks
            judge_disks(v, loop, who);
    }
}

static void judge_processes(struct verdict *v)
{
    const json_t *p;
    size_t i;
    json_array_foreach(json_object_get(v->facts, "processes"), i, p)
        if (fact_number(p, "code") > 0)
            PROBLEM(v, "%.60s has ended with code %.0f", fact_text(p, "name"),
                    fact_number(p, "code"));
        else if (fact_is_stopped(p))
            PROBLEM(v, "%.60s (process %.0f) is stopped, by SIGSTOP or a debugger",
                    fact_text(p, "name"), fact_number(p, "pid"));
}

// ---------------------------------------------------------------- states without
// problems

struct counts {
    unsigned servers, workers;
    double slowest;     // rank of the slowest worker
    double least, most; // examples a second of the slowest worker, and of the fastest
    double pieces;      // the most pieces that a worker has finished recently
    unsigned compared;
    unsigned holding;          // workers that have pieces of the data
    double holder, held_since; // the last of these workers: its rank, and its time
                               // without progress
};

// The recent work of a worker: the sum over its lanes.
struct speed {
    double rank;
    double rate; // examples a second; NaN: a lane was not measured long enough
    double pieces;
};

// Compares the recent speed of a worker with that of the others. Sums since the
// workers joined would show a worker that has joined later as slow, and would not show
// one that has become slow.
static void compare_worker(struct counts *c, const struct speed *s)
{
    if (isnan(s->rate))
        return;
    c->compared++;
    c->pieces = fmax(c->pieces, s->pieces);
    c->most = fmax(c->most, s->rate);
    if (s->rate < c->least) {
        c->least = s->rate;
        c->slowest = s->rank;
    }
}

// Adds a lane to the sum of its worker. Nodes are sorted by rank, so a lane of another
// worker completes the sum.
static void add_lane(struct counts *c, struct speed *s, const json_t *n)
{
    const json_t *recent = fact_at(n, "recent");
    double rank = fact_number(n, "rank");
    if (rank != s->rank) {
        compare_worker(c, s);
        *s = (struct speed){.rank = rank};
    }
    s->rate += fact_number(recent, "seconds") >= compared_seconds ? fact_recent_rate(n)
                                                                  : (double)NAN;
    s->pieces += fact_number(recent, "pieces");
}

static struct counts count_nodes(const json_t *facts)
{
    struct counts c = {.least = INFINITY};
    struct speed speed = {.rank = NAN, .rate = NAN};
    const json_t *n;
    size_t i;
    json_array_foreach(json_object_get(facts, "nodes"), i, n) {
        bool alive = fact_true(n, "alive") && !fact_true(n, "left");
        c.servers += alive && is_role(n, "server") && !(fact_number(n, "loop") > 0);
        if (!alive || !is_role(n, "worker"))
            continue;
        c.workers += !(fact_number(n, "loop") > 0);
        add_lane(&c, &speed, n);
        if (fact_number(n, "pieces_held") > 0) {
            c.holding += c.holding == 0 || fact_number(n, "rank") != c.holder;
            c.holder = fact_number(n, "rank");
            c.held_since = fact_number(n, "seconds_since_progress");
        }
    }
    compare_worker(&c, &speed);
    return c;
}

// Returns whether the worker was behind by most of the bound in the earlier facts, too,
// so that others waited for it. In each batch a worker may be behind for a moment, so one
// set of facts would often name a worker that is not slow.
static bool held_up_before(const json_t *before, const char *table, double worker)
{
    const json_t *loop, *t, *w;
    size_t i, k, m;
    json_array_foreach(json_object_get(before, "servers"), i, loop)
        json_array_foreach(json_object_get(loop, "tables"), k, t) {
            if (strcmp(fact_text(t, "name"), table) != 0 || !(fact_number(t, "held") > 0))
                continue;
            json_array_foreach(json_object_get(t, "workers"), m, w)
                if (fact_number(w, "rank") == worker &&
                    fact_holds_up(fact_number(w, "behind"), fact_number(t, "staleness")))
                    return true;
        }
    return false;
}

// Names a worker that is behind in a table of a loop by most of the bound, if pulls of
// other workers wait for it.
static bool say_behind(struct verdict *v, const json_t *before, const json_t *t)
{
    const json_t *w;
    size_t i;
    if (!(fact_number(t, "held") > 0))
        return false;
    json_array_foreach(json_object_get(t, "workers"), i, w) {
        double rank = fact_number(w, "rank"), behind = fact_number(w, "behind"),
               bound = fact_number(t, "staleness");
        if (!fact_holds_up(behind, bound) || v->looks++ >= LOOKS_MAX ||
            !held_up_before(before, fact_text(t, "name"), rank))
            continue;
        verdict_add(
            v->text,
            "worker %.0f is %.0f clocks behind the fastest one, which may be at most "
            "%.0f ahead",
            rank, behind, bound);
        return true;
    }
    return false;
}

// Names the worker that the others wait for, if they wait for one.
static void say_slowest(struct verdict *v, const json_t *before, const struct counts *c)
{
    const json_t *loop, *t;
    size_t i, k;
    json_array_foreach(json_object_get(v->facts, "servers"), i, loop)
        json_array_foreach(json_object_get(loop, "tables"), k, t)
            if (say_behind(v, before, t))
                return;
    if (c->holding == 1 && c->workers > 1 && c->held_since >= waiting_seconds)
        verdict_add(v->text, "all others wait for worker %.0f", c->holder);
    else if (c->compared > 1 && c->pieces >= compared_pieces &&
             c->least < slow_share * c->most)
        verdict_add(v->text, "worker %.0f is slow (%.0f %% of the fastest one's speed)",
                    c->slowest, 100 * c->least / c->most);
}

static void say_save(struct verdict *v)
{
    char age[TEXT_MAX];
    const json_t *last = fact_at(fact_at(fact_at(v->facts, "run"), "saves"), "last");
    double finished = fact_number(last, "finished_unix_seconds"),
           now = fact_number(v->facts, "unix_seconds");
    if (!isnan(finished) && !isnan(now))
        verdict_add(v->text, "last save %s ago",
                    text_seconds(fmax(now - finished, 0), age));
}

// Writes for how many passes validation has not become better.
static void say_best(struct verdict *v, const json_t *run)
{
    const json_t *history = fact_at(run, "history"),
                 *last = json_array_get(history, json_array_size(history) - 1);
    double best = fact_number(run, "best_pass"), since = fact_number(last, "pass") - best;
    if (since >= 2 && fact_at(last, "valid") != NULL)
        verdict_add(v->text,
                    "validation was best at pass %.0f, %.0f passes before the last one",
                    best, since);
}

static void say_run(struct verdict *v)
{
    const json_t *run = fact_at(v->facts, "run");
    char speed[TEXT_MAX];
    if (run == NULL)
        return;
    const char *state = fact_text(run, "state");
    double pass = fact_number(run, "pass"), passes = fact_number(run, "passes");
    if (isnan(passes)) // the facts of tug launch have only the state
        verdict_add(v->text, "the run: %.60s", state);
    else if (strcmp(state, "training") == 0)
        verdict_add(v->text, "training, pass %.0f of %.0f, %s examples a second", pass,
                    passes, text_count(fact_number(run, "examples_per_second"), speed));
    else
        verdict_add(v->text, "%.60s, pass %.0f of %.0f", state, pass, passes);
    say_best(v, run);
}

// Says which servers are drained, and how many partitions are still to move.
static void say_moves(struct verdict *v)
{
    const json_t *n;
    double left = fact_number(fact_at(v->facts, "moving"), "moves_left");
    char text[TEXT_MAX];
    size_t i;
    json_array_foreach(json_object_get(v->facts, "nodes"), i, n)
        if (fact_true(n, "draining") && fact_true(n, "alive") &&
            !(fact_number(n, "loop") > 0))
            verdict_add(v->text, "server %.0f is drained", fact_number(n, "rank"));
    if (left > 0)
        verdict_add(v->text, "%s partition%s still to move", text_count(left, text),
                    left == 1 ? " is" : "s are");
}

static void say_cluster(struct verdict *v, const json_t *before)
{
    const struct counts c = count_nodes(v->facts);
    double servers = fact_number(v->facts, "servers_wanted"),
           workers = fact_number(v->facts, "workers_wanted");
    if (strcmp(fact_text(v->facts, "phase"), "gathering") == 0)
        verdict_add(
            v->text, "gathering: %u of %.0f server%s and %u of %.0f worker%s have joined",
            c.servers, servers, PLURAL_S(servers), c.workers, workers, PLURAL_S(workers));
    else
        verdict_add(v->text, "%u server%s and %u worker%s alive", c.servers,
                    PLURAL_S(c.servers), c.workers, PLURAL_S(c.workers));
    say_slowest(v, before, &c);
    say_moves(v);
    say_run(v);
    say_save(v);
}

static void say_state(struct verdict *v, const json_t *before)
{
    const json_t *processes = fact_at(v->facts, "processes"), *p;
    size_t i, running = 0;
    char count[TEXT_MAX];
    if (is_role(v->facts, "scheduler")) {
        say_cluster(v, before);
    } else if (is_role(v->facts, "server")) {
        size_t loops = json_array_size(fact_at(v->facts, "servers")),
               tables = json_array_size(fact_at(v->facts, "tables"));
        verdict_add(v->text, "serving %zu table%s on %zu loop%s", tables,
                    PLURAL_S(tables), loops, PLURAL_S(loops));
    } else if (is_role(v->facts, "worker")) {
        verdict_add(v->text,
                    fact_true(v->facts, "joined") ? "joined, pass %.0f, %s examples"
                                                  : "not joined yet",
                    fact_number(v->facts, "pass"),
                    text_count(fact_number(v->facts, "examples"), count));
    } else if (is_role(v->facts, "standby")) {
        verdict_add(v->text, "%.400s", fact_text(v->facts, "standby"));
    } else if (processes != NULL) {
        json_array_foreach(processes, i, p)
            running += strcmp(fact_text(p, "state"), "running") == 0;
        verdict_add(v->text, "%zu of %zu processes run", running,
                    json_array_size(processes));
    } else {
        say_run(v);
        say_save(v);
    }
}

void render_state(const struct facts_told *t, char ret[RENDER_TEXT_MAX])
{
    struct verdict v = {.facts = t->now, .text = ret};
    ret[0] = '\0';
    say_state(&v, t->before);
    if (ret[0] == '\0')
        verdict_add(ret, "running");
}

bool render_verdict(const struct facts_told *t, char ret[RENDER_TEXT_MAX])
{
    struct verdict v = {.facts = t->now, .text = ret};
    ret[0] = '\0';
    if (t->now == NULL) {
        verdict_add(ret, "%s", t->why.code != 0 ? t->why.text : "nothing is known yet");
        return false;
    }
    if (t->why.code != 0)
        PROBLEM(&v, "these facts are %.0f s old: %.250s",
                (double)(clock_ns() - t->asked_ns) * 1e-9, t->why.text);
    judge_nodes(&v);
    judge_silence(&v);
    judge_servers(&v);
    verdict_judge_run(&v);
    if (!is_role(t->now, "server")) // a server's loops have already reported their disks
        judge_disks(&v, t->now, "");
    judge_processes(&v);
    if (v.problems == 0)
        render_state(t, ret);
    return v.problems == 0;
}

void monitor_problems(json_t *facts, char ret[MONITOR_TEXT_MAX])
{
    const struct facts_told t = {.now = facts};
    if (render_verdict(&t, ret))
        ret[0] = '\0';
}

// ---------------------------------------------------------------- ready

static bool scheduler_is_ready(const struct facts_told *t, char ret[RENDER_TEXT_MAX])
{
    struct verdict v = {.facts = t->now, .text = ret};
    if (strcmp(fact_text(t->now, "phase"), "gathering") == 0) {
        say_cluster(&v, t->before);
        return false;
    }
    judge_nodes(&v);
    if (v.problems == 0)
        verdict_add(ret, "ready: all processes have joined");
    return v.problems == 0;
}

static bool server_is_ready(const json_t *facts, char ret[RENDER_TEXT_MAX])
{
    const json_t *loops = fact_at(facts, "servers"), *loop;
    size_t i;
    json_array_foreach(loops, i, loop) {
        if (*fact_text(loop, "error") != '\0')
            verdict_add(ret, "loop %zu does not answer: %.200s", i,
                        fact_text(loop, "error"));
        else if (!(fact_number(loop, "epoch") > 0))
            verdict_add(ret,
                        "loop %zu has no partitions yet: the cluster is not complete", i);
    }
    if (json_array_size(loops) == 0)
        verdict_add(ret, "the loops are not running yet");
    bool ready = *ret == '\0';
    if (ready)
        verdict_add(ret, "ready: all loops serve their partitions");
    return ready;
}

static bool worker_is_ready(const json_t *facts, char ret[RENDER_TEXT_MAX])
{
    const json_t *joined = fact_at(facts, "joined");
    verdict_add(ret, "%s",
                json_is_true(joined) ? "ready: the worker has joined"
                : json_is_false(joined)
                    ? "the worker has not joined yet"
                    : "the worker does not tell whether it has joined");
    return json_is_true(joined);
}

static bool run_is_ready(const json_t *run, char ret[RENDER_TEXT_MAX])
{
    bool loading = strcmp(fact_text(run, "state"), "loading") == 0,
         failed = strcmp(fact_text(run, "state"), "failed") == 0;
    verdict_add(ret, "%s%.400s",
                run == NULL ? "the run does not tell its state"
                : loading   ? "the data is being read"
                : failed    ? "the run has failed: "
                            : "ready",
                failed ? fact_text(run, "error") : "");
    return run != NULL && !loading && !failed;
}

static bool processes_are_ready(const json_t *all, char ret[RENDER_TEXT_MAX])
{
    const json_t *p;
    size_t i;
    json_array_foreach(all, i, p)
        if (strcmp(fact_text(p, "state"), "running") != 0)
            verdict_add(ret, "%.60s: %.60s", fact_text(p, "name"), fact_text(p, "state"));
    bool ready = ret[0] == '\0';
    if (ready)
        verdict_add(ret, "ready: all processes run");
    return ready;
}

bool render_ready(const struct facts_told *t, char ret[RENDER_TEXT_MAX])
{
    ret[0] = '\0';
    if (t->now == NULL || t->why.code != 0) {
        (void)render_verdict(t, ret);
        return false;
    }
    if (is_role(t->now, "scheduler"))
        return scheduler_is_ready(t, ret);
    if (is_role(t->now, "standby")) {
        render_state(t, ret);
        return false; // it listens nowhere
    }
    if (is_role(t->now, "server"))
        return server_is_ready(t->now, ret);
    if (fact_at(t->now, "processes") != NULL)
        return processes_are_ready(fact_at(t->now, "processes"), ret);
    if (is_role(t->now, "worker"))
        return worker_is_ready(t->now, ret);
    return run_is_ready(fact_at(t->now, "run"), ret);
}
