// tug launch --restart role: processes of a run are killed, and launch starts them again.
// A scheduler, whose process also has the driver, goes on in the open pass; a worker is
// replaced; after the death of a server the whole run is resumed from its last save. In
// mode sync the model has the bits of a run that was not disturbed.
//
// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/random.h"
#include "kit/processes.h"

enum { ROWS = 9000, EPOCHS = 60, KILLS = 4, MOST_MS = 300 };

static const char *words_of(const char *out, const char *more)
{
    // Static, because the caller uses this text after files_path() has reused its memory.
    static char words[FILES_PATH];
    files_remove(out);
    snprintf(words, sizeof(words),
             "train --data data.svm --format libsvm --epochs %d --json --out %s --batch "
             "64 --dim 2 --data-in memory %s",
             EPOCHS, out, more);
    return words;
}

static void launch(const char *out, const char *more)
{
    cluster_start("run",
                  "launch --servers 2 --workers 2 --dead-timeout 20 --restart role "
                  "--restart-limit 20 -- %s",
                  words_of(out, more));
}

// Returns the process id of a child of launch with this role and option ("--rank=0"), or
// 0. The arguments of a process are separated by zeros.
static pid_t look(pid_t launcher, const char *role, const char *rank)
{
    pid_t found = 0;
    DIR *d = opendir("/proc");
    assert_non_null(d);
    for (struct dirent *x; found == 0 && (x = readdir(d)) != NULL;) {
        char line[4096] = "", *end;
        long pid = strtol(x->d_name, &end, 10);
        if (*end != '\0' || pid <= 0)
            continue;
        FILE *f = fopen(files_path("/proc/%ld/stat", pid), "r");
        long parent = 0;
        if (f != NULL) {
            if (fscanf(f, "%*d (%*[^)]) %*c %ld", &parent) != 1)
                parent = 0;
            fclose(f);
        }
        f = parent == launcher ? fopen(files_path("/proc/%ld/cmdline", pid), "r") : NULL;
        if (f == NULL)
            continue;
        size_t n = fread(line, 1, sizeof(line) - 1, f);
        fclose(f);
        for (size_t i = 0; i < n; i++)
            line[i] = line[i] == '\0' ? ' ' : line[i];
        if (strstr(line, files_path(" %s ", role)) != NULL &&
            strstr(line, rank) != NULL && strstr(line, "--child-of") == NULL)
            found = (pid_t)pid;
    }
    closedir(d);
    return found;
}

static pid_t child(const char *role, const char *rank)
{
    double until = cluster_now() + CLUSTER_PATIENCE;
    pid_t pid;
    while ((pid = look(cluster_pid("run"), role, rank)) == 0) {
        if (cluster_now() > until)
            cluster_fail("launch has no %s", role);
        (void)poll(NULL, 0, 5);
    }
    return pid;
}

static void check_end(void)
{
    cluster_ends("run", 0, 2 * CLUSTER_PATIENCE);
    assert_true(e2e_number("examples") == ROWS && e2e_number("epochs") == EPOCHS);
    cluster_none_left();
}

static void scheduler_killed(const char *mode, uint64_t seed)
{
    launch("many", files_path("--mode %s", mode));
    cluster_await("run", "pass 2/60 done");
    for (uint64_t i = 0; i < KILLS; i++) {
        assert_int_equal(kill(child("scheduler", ""), SIGKILL), 0);
        cluster_await("run", files_path("restart %d of at most 20", (int)i + 1));
        (void)child("scheduler", "");
        // Now and then the scheduler dies before it listens, or before the driver has
        // joined.
        (void)poll(NULL, 0, (int)random_below(seed, 1, i, MOST_MS));
    }
    check_end();
    cluster_said("run", "the scheduler was killed by signal 9");
    cluster_said("run", "the scheduler was started again");
    cluster_same_counts("truth", "many");
}

static void scheduler_killed_in_sync(void **state)
{
    (void)state;
    scheduler_killed("sync", 1);
    cluster_same_parts("truth", "many");
}

static void scheduler_killed_in_async(void **state)
{
    (void)state;
    scheduler_killed("async", 2);
}

static void worker_killed(const char *mode)
{
    launch("many", files_path("--mode %s", mode));
    cluster_await("run", "pass 2/60 done");
    assert_int_equal(kill(child("worker", "--rank=1"), SIGKILL), 0);
    cluster_await("run", "restart 1 of at most 20");
    cluster_await("run", "joined as node 1"); // the new worker
    check_end();
    cluster_said("run", "was killed by signal 9 (Killed); it is started again in 0.25 s");
    cluster_same_counts("truth", "many");
}

static void worker_killed_in_sync(void **state)
{
    (void)state;
    worker_killed("sync");
    cluster_same_parts("truth", "many");
}

static void worker_killed_in_async(void **state)
{
    (void)state;
    worker_killed("async");
}

// The rows of the server that was not killed are newer than the save: they must not
// remain after the restart.
static void server_killed(void **state)
{
    (void)state;
    launch("many", "--mode sync --save-every 1");
    cluster_await("run", "pass 3/60 done");
    assert_int_equal(kill(child("server", "--rank=1"), SIGKILL), 0);
    check_end();
    cluster_said("run", "the whole run is resumed from its last save in 1 s (restart 1");
    cluster_said("run", "resumed");
    cluster_same_parts("truth", "many");
    cluster_same_counts("truth", "many");
}

// Without a directory for saves there is nothing to resume from: the run ends.
static void server_killed_without_saves(void **state)
{
    (void)state;
    cluster_start("run",
                  "launch --servers 2 --workers 2 --dead-timeout 2 --connect-timeout 2 "
                  "--restart role -- train --data data.svm --format libsvm --epochs 4000 "
                  "--batch 64 --data-in memory");
    cluster_await("run", "pass 2/4000 done");
    assert_int_equal(kill(child("server", "--rank=0"), SIGKILL), 0);
    cluster_ends("run", 4, CLUSTER_PATIENCE);
    cluster_said("run", "was killed by signal 9");
    cluster_none_left();
}

static void what_cannot_be_kept_is_refused(void **state)
{
    (void)state;
    tug_ends(2, "launch --restart role -- train --data data.svm --format libsvm --fetch "
                "bias");
    e2e_says("--restart role cannot be used with --fetch of -- train");
    tug_ends(2, "launch --restart role -- ./program");
    e2e_says("--restart works only with 'tug launch ... -- train': a process of another "
             "program would begin anew");
}

// Launch removes the state of a launcher that was killed, but not the state of a launcher
// that runs.
static void states_of_the_dead_are_removed(void **state)
{
    (void)state;
    pid_t dead = fork();
    if (dead == 0)
        _exit(0);
    assert_int_equal(waitpid(dead, NULL, 0), dead);
    assert_int_equal(mkdir("runtime", 0700), 0);
    assert_int_equal(mkdir("runtime/tug", 0700), 0);
    assert_int_equal(mkdir(files_path("runtime/tug/a-%d.state", dead), 0700), 0);
    files_write(files_path("runtime/tug/a-%d.state/journal", dead), "x");
    assert_int_equal(mkdir(files_path("runtime/tug/b-%d.state", getpid()), 0700), 0);
    setenv("XDG_RUNTIME_DIR", files_in("runtime"), 1);
    launch("swept", "--mode sync");
    cluster_ends("run", 0, CLUSTER_PATIENCE);
    unsetenv("XDG_RUNTIME_DIR");
    assert_int_not_equal(access(files_path("runtime/tug/a-%d.state", dead), F_OK), 0);
    assert_int_equal(access(files_path("runtime/tug/b-%d.state", getpid()), F_OK), 0);
}

static int begin(void **state)
{
    if (cluster_begin(state) != 0)
        return -1;
    tug_ends(0, "synth --rows %d --format libsvm --out data.svm", ROWS);
    tug_ends(0, "%s", words_of("truth", "--deterministic"));
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_test(scheduler_killed_in_sync),
        cluster_test(scheduler_killed_in_async),
        cluster_test(worker_killed_in_sync),
        cluster_test(worker_killed_in_async),
        cluster_test(server_killed),
        cluster_test(server_killed_without_saves),
        cluster_test(what_cannot_be_kept_is_refused),
        cluster_test(states_of_the_dead_are_removed),
    };
    return cmocka_run_group_tests(tests, begin, cluster_end);
}
