// The end of a run; see exit_policy.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "launch/exit_policy.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

const char *launch_role_name(enum launch_role role)
{
    static const char *const names[] = {"scheduler", "server", "worker"};
    return names[role];
}

void exit_policy_open(struct exit_policy *v, bool program, uint32_t workers,
                      bool replicas)
{
    *v = (struct exit_policy){
        .program = program, .workers = workers, .replicas = replicas};
}

// Returns the last line that the process wrote, without the "tug worker: " in front.
static const char *without_command(const struct launch_exit *x)
{
    char command[32];
    int n = snprintf(command, sizeof(command), "tug %s: ", launch_role_name(x->role));
    return strncmp(x->said, command, (size_t)n) == 0 ? x->said + n : x->said;
}

// Returns whether the signal asks a process to end. (Other signals count as a crash.)
static bool is_request(int number)
{
    return number == SIGINT || number == SIGTERM || number == SIGHUP;
}

const char *exit_policy_describe(const struct launch_exit *x,
                                 char to[EXIT_POLICY_TEXT_MAX])
{
    char who[64], process[32] = "";
    if (x->pid != 0)
        snprintf(process, sizeof(process), " (process %d)", x->pid);
    if (x->role == LAUNCH_SCHEDULER)
        snprintf(who, sizeof(who), "the scheduler");
    else
        snprintf(who, sizeof(who), "%s %u%s", launch_role_name(x->role), x->rank,
                 process);
    const char *said = x->code != 0 ? without_command(x) : "";
    if (x->signal != 0)
        snprintf(to, EXIT_POLICY_TEXT_MAX, "%s was %s by signal %d (%s)", who,
                 is_request(x->signal) ? "interrupted" : "killed", x->signal,
                 strsignal(x->signal));
    else
        snprintf(to, EXIT_POLICY_TEXT_MAX, "%s ended with exit code %d%s%s", who, x->code,
                 said[0] != 0 ? ": " : "", said);
    return to;
}

// Returns the error code for the end of a process; TUG_EIO if the exit code is not one of
// tug's.
static int status_of(const struct launch_exit *x)
{
    static const int known[] = {TUG_EUSAGE, TUG_EDATA, TUG_EIO, TUG_EINTERNAL,
                                TUG_EINTERRUPTED};
    if (x->signal != 0)
        return is_request(x->signal) ? TUG_EINTERRUPTED : TUG_EIO;
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
        if (err_exit_code(known[i]) == x->code)
            return known[i];
    return TUG_EIO;
}

static void note(struct exit_policy *v, const struct launch_exit *x)
{
    char text[EXIT_POLICY_TEXT_MAX];
    if (v->end.code != 0)
        return;
    err_set(&v->end, status_of(x), "%s", exit_policy_describe(x, text));
    v->decisive = v->n_failures > 0 ? v->n_failures - 1 : 0;
}

// Stores the failure of a process in a run of a program. If the list is full, the new
// failure replaces the last one, unless the last one has ended the run.
static void remember(struct exit_policy *v, const struct launch_exit *x)
{
    bool full = v->n_failures == EXIT_POLICY_FAILURES_MAX;
    if (full && v->end.code != 0 && v->decisive == v->n_failures - 1)
        return;
    v->n_failures -= full;
    struct exit_policy_failure *f = &v->failures[v->n_failures++];
    if (x->role == LAUNCH_SCHEDULER)
        snprintf(f->name, sizeof(f->name), "the scheduler");
    else
        snprintf(f->name, sizeof(f->name), "%s %u", launch_role_name(x->role), x->rank);
    snprintf(f->said, sizeof(f->said), "%s", x->code != 0 ? x->said : "");
    (void)exit_policy_describe(x, f->text);
    f->status = status_of(x);
}

static bool says_name(const char *said, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = strstr(said, name); at != NULL; at = strstr(at + n, name))
        if (at[n] < '0' || at[n] > '9')
            return true;
    return false;
}

// Returns the index of a failure that was not seen yet and whose process the last line of
// failure `of` names, and marks it as seen. Returns `of` if there is no such failure.
static uint32_t named_by(const struct exit_policy *v, uint32_t of, bool *seen)
{
    for (uint32_t i = 0; i < v->n_failures; i++)
        if (!seen[i] && says_name(v->failures[of].said, v->failures[i].name)) {
            seen[i] = true;
            return i;
        }
    return of;
}

// Finds the cause of the failure that ended the run: if the last line of a failed process
// names another failed process, the other process failed earlier. Follows such names as far
// as possible.
static void find_cause(struct exit_policy *v)
{
    bool seen[EXIT_POLICY_FAILURES_MAX] = {0};
    uint32_t at = v->decisive, next = at;
    seen[at] = true;
    do {
        at = next;
        next = named_by(v, at, seen);
    } while (next != at);
    if (at != v->decisive)
        err_set(&v->end, v->failures[at].status, "%s", v->failures[at].text);
}

static bool is_well(const struct launch_exit *x)
{
    return x->code == 0 && x->signal == 0;
}

static bool is_contagious(const struct launch_exit *x)
{
    return x->signal == 0 && (x->code == 2 || x->code == 3 || x->code == 5);
}

static enum exit_policy_next cannot_go_on(struct exit_policy *v,
                                          const struct launch_exit *x)
{
    note(v, x);
    if (v->program)
        return EXIT_POLICY_END;
    v->killed |= x->signal != 0;
    return x->signal == 0 ? EXIT_POLICY_TOLD : EXIT_POLICY_SETTLE;
}

static enum exit_policy_next scheduler_exit(struct exit_policy *v,
                                            const struct launch_exit *x)
{
    v->scheduler_ended = true;
    if (v->program) {
        if (is_well(x))
            return EXIT_POLICY_GO_ON;
        note(v, x);
        return EXIT_POLICY_END;
    }
    const char *why = without_command(x);
    if (is_well(x)) {
        if (v->end.code == TUG_EINTERRUPTED)
            v->end = (struct err){0}; // the run had finished before it was interrupted
        return EXIT_POLICY_LEAVE;
    }
    bool told_by_us = status_of(x) == TUG_EINTERRUPTED && v->end.code != 0 &&
                      v->end.code != TUG_EINTERRUPTED;
    if (told_by_us)
        return EXIT_POLICY_LEAVE; // the launcher ended the scheduler; `end` has the error
    if (x->signal != 0 || why == x->said) {
        note(v, x);
        return x->signal != 0 ? EXIT_POLICY_END : EXIT_POLICY_LEAVE;
    }
    // Prefer the scheduler's error: another process may only have noticed that a process
    // ended.
    char seen[ERR_TEXT_MAX];
    snprintf(seen, sizeof(seen), "%s", v->killed ? v->end.text : "");
    err_set(&v->end, status_of(x), "%s%s%s", seen, seen[0] != 0 ? ": " : "", why);
    return EXIT_POLICY_LEAVE;
}

static enum exit_policy_next worker_exit(struct exit_policy *v,
                                         const struct launch_exit *x)
{
    v->workers_ended++;
    v->workers_done += is_well(x);
    if (is_well(x))
        return EXIT_POLICY_GO_ON;
    if (is_contagious(x) || (v->program && x->signal == 0))
        return cannot_go_on(v, x);
    if (v->workers_ended == v->workers && v->workers_done == 0)
        return cannot_go_on(v, x);
    return EXIT_POLICY_GO_ON;
}

static enum exit_policy_next any_exit(struct exit_policy *v, const struct launch_exit *x)
{
    if (x->role == LAUNCH_SCHEDULER)
        return scheduler_exit(v, x);
    if (x->role == LAUNCH_WORKER)
        return worker_exit(v, x);
    bool replaced = v->replicas && !v->program && !is_contagious(x);
    return is_well(x) || replaced ? EXIT_POLICY_GO_ON : cannot_go_on(v, x);
}

enum exit_policy_next exit_policy_exit(struct exit_policy *v, const struct launch_exit *x)
{
    if (v->scheduler_ended && !v->program)
        return EXIT_POLICY_GO_ON;
    bool failed = v->program && !is_well(x) && !x->asked;
    if (failed)
        remember(v, x);
    enum exit_policy_next next = any_exit(v, x);
    if (failed && v->end.code != 0 && v->end.code != TUG_EINTERRUPTED)
        find_cause(v);
    return next;
}

void exit_policy_interrupted(struct exit_policy *v)
{
    err_set(&v->end, TUG_EINTERRUPTED, "interrupted");
}
