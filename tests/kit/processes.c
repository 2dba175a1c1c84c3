// Real processes of a cluster. See processes.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/processes.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "kit/ports.h"
#include "os/clock.h"

enum {
    MAX_PROCESSES = 24,
    MAX_WORDS = 96,
    LINE = 8192,
    LEAVE_SECONDS = 30, // seconds; a sanitizer looks for leaks when a process ends
    MOMENT_MS = 5
};

struct process {
    char name[32];
    pid_t pid; // 0 if the process has ended
};

static struct process processes[MAX_PROCESSES];
static size_t n_processes;

double cluster_now(void)
{
    return (double)clock_ns() / 1e9;
}

// Sleeps for the time between two checks of something that sends no notification.
static void moment(void)
{
    poll(NULL, 0, MOMENT_MS);
}

// ---------------------------------------------------------------- failing a test

static void kill_all(void)
{
    for (size_t i = 0; i < n_processes; i++)
        if (processes[i].pid != 0)
            kill(processes[i].pid, SIGKILL);
}

void cluster_fail(const char *format, ...)
{
    char why[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof(why), format, args);
    va_end(args);
    for (size_t i = 0; i < n_processes; i++) {
        char *text = files_read(files_path("%s.err", processes[i].name), NULL);
        fprintf(stderr, "---- %s:\n%s", processes[i].name, text != NULL ? text : "");
        mem_free(text);
    }
    kill_all();
    fail_msg("%s", why);
}

// ---------------------------------------------------------------- fixtures

int cluster_begin(void **state)
{
    if (e2e_begin(state) != 0)
        return -1;
    // A launcher writes the scheduler's address to this directory.
    setenv("XDG_RUNTIME_DIR", files_dir, 1);
    // Processes that a launcher leaves behind become children of this process, which
    // looks for them.
    return prctl(PR_SET_CHILD_SUBREAPER, 1);
}

int cluster_end(void **state)
{
    return e2e_end(state);
}

int cluster_setup(void **state)
{
    (void)state;
    n_processes = 0;
    return 0;
}

static bool all_ended(double seconds)
{
    double until = cluster_now() + seconds;
    for (;;) {
        pid_t pid = waitpid(-1, NULL, WNOHANG);
        if (pid < 0 && errno == ECHILD)
            return true;
        for (size_t i = 0; pid > 0 && i < n_processes; i++)
            if (processes[i].pid == pid)
                processes[i].pid = 0;
        if (pid == 0 && cluster_now() > until)
            return false;
        if (pid == 0)
            moment();
    }
}

int cluster_teardown(void **state)
{
    (void)state;
    kill_all();
    return all_ended(LEAVE_SECONDS) ? 0 : -1;
}

void cluster_set_token(void)
{
    setenv("TUG_TOKEN",
           "operator:000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
           1);
}

int cluster_setup_etcd(struct kit_etcd *etcd, void **state)
{
    if (cluster_setup(state) != 0)
        return -1;
    cluster_set_token();
    files_remove(files_in("etcd"));
    if (kit_etcd_is_there())
        kit_etcd_start(etcd);
    return 0;
}

int cluster_teardown_etcd(struct kit_etcd *etcd, void **state)
{
    kit_etcd_kill(etcd);
    *etcd = (struct kit_etcd){0};
    return cluster_teardown(state);
}

void cluster_none_left(void)
{
    if (!all_ended(LEAVE_SECONDS))
        cluster_fail("a process is left behind");
}

// ---------------------------------------------------------------- starting

static struct process *find(const char *name)
{
    for (size_t i = 0; i < n_processes; i++)
        if (strcmp(processes[i].name, name) == 0)
            return &processes[i];
    return NULL;
}

static struct process *make(const char *name)
{
    struct process *p = find(name);
    if (p == NULL) {
        assert_true(n_processes < MAX_PROCESSES);
        p = &processes[n_processes++];
        snprintf(p->name, sizeof(p->name), "%s", name);
    }
    assert_int_equal(p->pid, 0);
    return p;
}

static void split(char *line, char *argv[MAX_WORDS], int n)
{
    for (char *w = strsep(&line, " "); w != NULL; w = strsep(&line, " "))
        if (*w != 0) {
            assert_in_range(n, 0, MAX_WORDS - 2);
            argv[n++] = w;
        }
    argv[n] = NULL;
}

static pid_t spawn(char *const *argv, const char *out, const char *err)
{
    extern char **environ;
    pid_t pid = 0;
    posix_spawn_file_actions_t f;
    int flags = O_WRONLY | O_CREAT | O_TRUNC;
    posix_spawn_file_actions_init(&f);
    posix_spawn_file_actions_addopen(&f, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&f, 1, out, flags, 0600);
    posix_spawn_file_actions_addopen(&f, 2, err, flags | O_APPEND, 0600);
    assert_int_equal(posix_spawnp(&pid, argv[0], &f, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&f);
    return pid;
}

static void start(const char *space, const char *name, const char *words, va_list args)
{
    char line[LINE], copy[64], tug[512];
    char *argv[MAX_WORDS] = {"ip", "netns", "exec", copy, tug};
    int n = vsnprintf(line, sizeof(line), words, args);
    assert_in_range(n, 1, sizeof(line) - 1);
    snprintf(tug, sizeof(tug), "%s", getenv("TUG_BINARY"));
    snprintf(copy, sizeof(copy), "%s", space != NULL ? space : "");
    split(line, argv, 5);
    struct process *p = make(name);
    p->pid = spawn(space != NULL ? argv : argv + 4, files_path("%s.out", name),
                   files_path("%s.err", name));
}

void cluster_start(const char *name, const char *words, ...)
{
    va_list args;
    va_start(args, words);
    start(NULL, name, words, args);
    va_end(args);
}

void cluster_start_in(const char *space, const char *name, const char *words, ...)
{
    va_list args;
    va_start(args, words);
    start(space, name, words, args);
    va_end(args);
}

int cluster_system(const char *words, ...)
{
    char line[LINE];
    char *argv[MAX_WORDS];
    va_list args;
    va_start(args, words);
    int n = vsnprintf(line, sizeof(line), words, args);
    va_end(args);
    assert_in_range(n, 1, sizeof(line) - 1);
    split(line, argv, 0);
    struct process *p = make("system");
    p->pid = spawn(argv, "system.out", "system.err");
    return cluster_wait("system", CLUSTER_PATIENCE);
}

// ---------------------------------------------------------------- waiting

static int wait_until(struct process *p, double seconds)
{
    int status;
    double until = cluster_now() + seconds;
    for (;;) {
        pid_t pid = waitpid(p->pid, &status, WNOHANG);
        if (pid == p->pid)
            return status;
        assert_int_equal(pid, 0);
        if (cluster_now() > until)
            cluster_fail("%s has not ended within %.3g s", p->name, seconds);
        moment();
    }
}

int cluster_wait(const char *name, double seconds)
{
    struct process *p = find(name);
    assert_non_null(p);
    int status = wait_until(p, seconds);
    p->pid = 0;
    e2e_collect(&e2e_out, files_path("%s.out", name));
    e2e_collect(&e2e_err, files_path("%s.err", name));
    if (e2e_sanitizer_complains())
        cluster_fail("a sanitizer complained");
    return e2e_status(status);
}

void cluster_ends(const char *name, int code, double seconds)
{
    int ended = cluster_wait(name, seconds);
    if (ended != code)
        cluster_fail("exit status of %s: %d instead of %d", name, ended, code);
}

void cluster_said(const char *name, const char *text)
{
    e2e_collect(&e2e_err, files_path("%s.err", name));
    if (strstr(e2e_err, text) == NULL)
        cluster_fail("%s has not said '%s'", name, text);
}

// Waits until complete lines of a process's standard error contain the text; returns the
// part after the text.
static const char *await(const char *name, const char *wanted)
{
    char text[256], path[64];
    struct process *p = find(name);
    assert_non_null(p);
    // Copied, because `wanted` may be in memory that files_path uses again.
    snprintf(text, sizeof(text), "%s", wanted);
    snprintf(path, sizeof(path), "%s.err", name);
    double until = cluster_now() + CLUSTER_PATIENCE;
    for (;;) {
        siginfo_t i = {0};
        bool ended = waitid(P_PID, (id_t)p->pid, &i, WEXITED | WNOHANG | WNOWAIT) == 0 &&
                     i.si_pid != 0;
        e2e_collect(&e2e_err, path);
        const char *at = strstr(e2e_err, text);
        if (at != NULL && strchr(at, '\n') != NULL)
            return at + strlen(text);
        if (ended || cluster_now() > until)
            cluster_fail("%s %s without '%s'", name, ended ? "ended" : "goes on", text);
        moment();
    }
}

void cluster_await(const char *name, const char *text)
{
    await(name, text);
}

void cluster_signal(const char *name, int number)
{
    struct process *p = find(name);
    assert_non_null(p);
    assert_true(p->pid > 0);
    assert_int_equal(kill(p->pid, number), 0);
}

// Reads the line "worker 1 (HOST:PID) joined as node 11".
pid_t cluster_node(const char *name, const char *node)
{
    const char *at = await(name, files_path("%s (", node));
    long pid = strtol(at + strcspn(at, ":") + 1, NULL, 10);
    assert_true(pid > 1);
    return (pid_t)pid;
}

pid_t cluster_kill_node(const char *name, const char *node)
{
    pid_t pid = cluster_node(name, node);
    assert_int_equal(kill(pid, SIGKILL), 0);
    return pid;
}

pid_t cluster_pid(const char *name)
{
    const struct process *p = find(name);
    assert_non_null(p);
    assert_true(p->pid > 0);
    return p->pid;
}

// Reads the line "scheduler of cluster 'tug' at tcp://127.0.0.1:38795, waiting ...".
unsigned cluster_port(const char *name)
{
    const char *at = strstr(await(name, "scheduler of cluster"), "tcp://");
    assert_non_null(at);
    long port = strtol(strchr(at + strlen("tcp://"), ':') + 1, NULL, 10);
    assert_in_range(port, 1, 65535);
    return (unsigned)port;
}

unsigned cluster_free_port(void)
{
    unsigned port;
    ports_free(&port, 1);
    return port;
}

// ---------------------------------------------------------------- models

static char *export(const char *from, const char *words)
{
    tug_ends(0, "table export --from %s %s", from, words);
    char *text = e2e_out;
    e2e_out = NULL;
    return text;
}

// Reads the key and the count, which are the first and third word of a line. Returns the
// next line.
static const char *take_counts(const char *line, unsigned long long ret[2])
{
    ret[0] = strtoull(line, NULL, 10);
    for (int words = 0; words < 2; words++) {
        line += strcspn(line, " \n");
        assert_int_equal(*line++, ' ');
    }
    ret[1] = strtoull(line, NULL, 10);
    line += strcspn(line, "\n");
    assert_int_equal(*line, '\n');
    return line + 1;
}

void cluster_same_counts(const char *a, const char *b)
{
    char *text[2] = {export(a, ""), export(b, "")};
    const char *line[2] = {text[0], text[1]};
    assert_true(*line[0] != 0);
    while (*line[0] != 0 && *line[1] != 0) {
        unsigned long long x[2][2];
        for (int i = 0; i < 2; i++)
            line[i] = take_counts(line[i], x[i]);
        if (x[0][0] != x[1][0] || x[0][1] != x[1][1])
            cluster_fail("key and count of %s: %llu %llu; of %s: %llu %llu", a, x[0][0],
                         x[0][1], b, x[1][0], x[1][1]);
    }
    assert_int_equal(*line[0], 0);
    assert_int_equal(*line[1], 0);
    mem_free(text[0]);
    mem_free(text[1]);
}

static bool same_text(const char *a, const char *b, const char *words)
{
    char *text[2] = {export(a, words), export(b, words)};
    bool same = strcmp(text[0], text[1]) == 0;
    mem_free(text[0]);
    mem_free(text[1]);
    return same;
}

static const char *difference_of_tables(const char *a, const char *b)
{
    if (!same_text(a, b, "--state"))
        return "the exported table of features";
    return same_text(a, b, "--state --table dense") ? NULL : "the exported bias";
}

// Returns a description of the first difference; NULL if there is none.
static const char *difference(const char *a, const char *b)
{
    char names[2][16][64];
    const char *dir[2] = {e2e_newest(a), e2e_newest(b)};
    size_t n = files_list(dir[0], names[0], 16);
    if (files_list(dir[1], names[1], 16) != n)
        return "the list of files";
    for (size_t i = 0; i < n; i++) {
        const char *name = names[0][i];
        size_t len = strlen(name);
        if (len > 5 && strcmp(name + len - 5, ".rows") == 0 &&
            !files_same(files_path("%s/%s", dir[0], name),
                        files_path("%s/%s", dir[1], name)))
            return files_path("%s", name);
    }
    return difference_of_tables(a, b);
}

void cluster_same_tables(const char *a, const char *b)
{
    const char *what = difference_of_tables(a, b);
    if (what != NULL)
        cluster_fail("%s differs between %s and %s", what, a, b);
}

void cluster_same_parts(const char *a, const char *b)
{
    const char *what = difference(a, b);
    if (what != NULL)
        cluster_fail("%s differs between %s and %s", what, a, b);
}

bool cluster_parts_differ(const char *a, const char *b)
{
    return difference(a, b) != NULL;
}
