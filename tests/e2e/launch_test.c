// tug launch with real processes: what they print, how a run ends when a process ends,
// and that no process or file remains.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/command.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "os/clock.h"

enum { WAIT_SECONDS = 20 };

#define TRAIN "train --data day.svm --format libsvm --model lr --seed 3"

static int begin(void **state)
{
    if (e2e_begin(state) != 0)
        return -1;
    // tug launch writes the scheduler's address to this directory
    setenv("XDG_RUNTIME_DIR", files_dir, 1);
    struct e2e_data d = {.path = "day.svm", .rows = 20000, .seed = 1};
    e2e_write_data(&d);
    d = (struct e2e_data){.path = "next.svm", .rows = 4000, .seed = 2};
    e2e_write_data(&d);
    files_write("bad.svm", "1 3:1\n0 x:y\n");
    return 0;
}

// ---------------------------------------------------------------- watching processes

static bool said(const char *path, const char *text)
{
    char *all = files_read(path, NULL);
    bool found = all != NULL && strstr(all, text) != NULL;
    mem_free(all);
    return found;
}

static void wait_until_said(const char *path, const char *text)
{
    uint64_t until = clock_ns() + (uint64_t)WAIT_SECONDS * 1000000000;
    while (!said(path, text)) {
        if (clock_ns() > until)
            fail_msg("'%s' did not come in %s", text, path);
        poll(NULL, 0, 5);
    }
}

// Returns the PID in "worker 1 (host:PID) joined" in the scheduler's log.
static pid_t pid_of(const char *log, const char *who)
{
    char wanted[64];
    snprintf(wanted, sizeof(wanted), "%s (", who);
    wait_until_said(log, wanted);
    char *all = files_read(log, NULL);
    const char *at = strchr(strstr(all, wanted), ':');
    assert_non_null(at);
    pid_t pid = (pid_t)strtol(at + 1, NULL, 10);
    mem_free(all);
    assert_true(pid > 1);
    return pid;
}

static void wait_until_gone(pid_t pid)
{
    uint64_t until = clock_ns() + (uint64_t)WAIT_SECONDS * 1000000000;
    while (kill(pid, 0) == 0) {
        if (clock_ns() > until)
            fail_msg("process %d is still there", (int)pid);
        poll(NULL, 0, 5);
    }
}

enum { ROLES = 4 };
static const char *const roles[ROLES] = {"server 0", "server 1", "worker 0", "worker 1"};

// Starts a long run with 2 servers and 2 workers, and returns when training has begun.
// `pids` gets the PIDs.
static pid_t start_run(const char *log_dir, pid_t pids[ROLES + 1], const char *options)
{
    char log[FILES_PATH];
    pid_t pid = tug_start("launch --servers 2 --workers 2 --cluster %s --log-dir %s "
                          "--dead-timeout 2.5 -- " TRAIN " %s",
                          log_dir, log_dir, options);
    snprintf(log, sizeof(log), "%s/scheduler.log", log_dir);
    wait_until_said(log, "pass 1");
    for (int i = 0; i < ROLES; i++)
        pids[i] = pid_of(log, roles[i]);
    pids[ROLES] = pid_of(log, "driver 0");
    return pid;
}

static void all_are_gone(const pid_t pids[ROLES + 1])
{
    for (int i = 0; i <= ROLES; i++)
        wait_until_gone(pids[i]);
}

// ---------------------------------------------------------------- programs

static void programs_get_their_roles(void **state)
{
    (void)state;
    tug_ends(0, "launch --servers 1 --workers 2 --env COLOUR=blue -- env");
    static const char *const wanted[] = {
        "[scheduler] DMLC_ROLE=scheduler\n", "[server 0] DMLC_ROLE=server\n",
        "[worker 1] DMLC_ROLE=worker\n",     "[worker 0] DMLC_NUM_WORKER=2\n",
        "[worker 0] DMLC_NUM_SERVER=1\n",    "[worker 0] DMLC_PS_ROOT_URI=127.0.0.1\n",
        "[worker 0] DMLC_PS_ROOT_PORT=",     "[worker 1] TRAINING_ROLE=TRAINER\n",
        "[worker 1] PADDLE_TRAINER_ID=1\n",  "[server 0] TRAINING_ROLE=PSERVER\n",
        "[server 0] PADDLE_PORT=",           "[worker 0] COLOUR=blue\n",
        "[worker 0] TUG_SCHEDULER=unix:///",
    };
    for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++)
        if (strstr(e2e_out, wanted[i]) == NULL)
            fail_msg("'%s' is not in: %s", wanted[i], e2e_out);
}

// Options that a role of tug would get on its command line reach a program as variables;
// an option without a variable is refused.
static void programs_get_the_options_of_launch(void **state)
{
    (void)state;
    tug_ends(0, "launch --gather-timeout 7 --dead-timeout 3 --save-root s --load-root a "
                "--load-root b --env TUG_DEAD_SECONDS=4 -- env");
    assert_non_null(strstr(e2e_out, "[worker 0] TUG_WAIT_SECONDS=7\n"));
    assert_non_null(strstr(e2e_out, "[scheduler] TUG_DEAD_SECONDS=4\n"));
    assert_non_null(strstr(e2e_out, "[server 0] TUG_SAVE_ROOT=s\n"));
    assert_non_null(strstr(e2e_out, "[server 0] TUG_LOAD_ROOT=a,b\n"));
    tug_ends(0, "launch -- env");
    assert_null(strstr(e2e_out, "TUG_WAIT_SECONDS"));
    tug_ends(2, "launch --loops 2 -- env");
    e2e_says("--loops works only with 'tug launch ... -- train'");
    tug_ends(2, "launch --replicas 2 -- env");
    e2e_says("handlers of a program hold state that has no replicas");
}

static void a_program_that_fails_ends_all(void **state)
{
    (void)state;
    files_write("fails.sh",
                "sleep 1000 &\n"
                "echo $! >>pids\n"
                "echo $$ >>pids\n"
                "test $DMLC_ROLE$PADDLE_TRAINER_ID = worker1 || exec sleep 1000\n"
                "while test $(wc -l <pids) -lt 8; do :; done\n"
                "echo what went wrong >&2\n"
                "exit 3\n");
    tug_ends(3, "launch --servers 1 --workers 2 -- sh fails.sh");
    e2e_says("[worker 1] what went wrong\n");
    e2e_says("tug launch: worker 1 ended with exit code 3: what went wrong\n");
    char *pids = files_read("pids", NULL);
    int n = 0;
    // The child processes of the programs have also ended.
    for (char *at = pids, *end; strtol(at, &end, 10) > 0 && end != at; at = end, n++)
        wait_until_gone((pid_t)strtol(at, NULL, 10));
    assert_int_equal(n, 8);
    mem_free(pids);
}

static void no_program_no_run(void **state)
{
    (void)state;
    tug_ends(2, "launch --servers 1 --workers 1 -- ./nosuch");
    e2e_says("nosuch");
    tug_ends(2, "launch --servers 1 --workers 1");
    e2e_says("there is nothing to run: add --");
    tug_ends(2, "launch -- predict --from x");
    e2e_says("'tug predict' cannot be launched on a cluster");
    tug_ends(2, "launch --wrap worker:1=gdb -- env");
    e2e_says("--wrap takes ROLE:RANK=COMMAND");
    tug_ends(2, "launch --env NAME -- env");
    tug_ends(2, "launch --cluster a/b -- env");
    tug_ends(2, "launch --sync . -- env");
}

// The started processes and their children are killed when the launcher is.
static void nothing_outlives_the_launcher(void **state)
{
    (void)state;
    files_write("stays.sh", "sleep 1000 &\necho $! >>stay\necho $$ >>stay\nwait\n");
    pid_t pid = tug_start("launch --servers 1 --workers 1 -- sh stays.sh");
    uint64_t until = clock_ns() + (uint64_t)WAIT_SECONDS * 1000000000;
    char *text = NULL;
    long pids[6] = {0};
    while (pids[5] == 0 && clock_ns() < until) {
        mem_free(text);
        text = files_read("stay", NULL);
        int n = 0;
        for (char *at = text, *end; at != NULL && n < 6; at = end, n++) {
            pids[n] = strtol(at, &end, 10);
            if (*end != '\n')
                break;
        }
        poll(NULL, 0, 5);
    }
    mem_free(text);
    assert_true(pids[5] > 1);
    kill(pid, SIGKILL);
    assert_int_equal(tug_finish(pid), 128 + SIGKILL);
    for (int i = 0; i < 6; i++)
        wait_until_gone((pid_t)pids[i]);
}

// ---------------------------------------------------------------- training

static void trains_as_on_one_machine(void **state)
{
    (void)state;
    static const char *const modes[] = {"async", "ssp:2", "sync"};
    tug_ends(0, TRAIN " --test next.svm --epochs 4 --deterministic --batch 1000 --json");
    double alone = e2e_number("auc");
    for (size_t i = 0; i < 3; i++) {
        tug_ends(0,
                 "launch --servers 2 --workers 2 --loops 2 -- " TRAIN
                 " --test next.svm --epochs 4 --batch 1000 --json --mode %s",
                 modes[i]);
        double auc = e2e_number("auc");
        if (!(auc > alone - 0.02 && auc < alone + 0.02))
            fail_msg("%s: auc %f, alone %f", modes[i], auc, alone);
        assert_true(e2e_number("workers") == 2);
        assert_true(e2e_number("servers") == 2);
        assert_true(e2e_number("examples") == 20000);
    }
}

static int times_said(const char *text)
{
    int n = 0;
    for (const char *at = e2e_err; (at = strstr(at, text)) != NULL; at++)
        n++;
    return n;
}

static void bad_input(void **state)
{
    (void)state;
    // The launcher prints the error once, although it ends several processes; the log of
    // each process has the error.
    tug_ends(3, "launch --servers 2 --workers 2 --log-dir bl -- train --data bad.svm "
                "--format libsvm");
    assert_int_equal(times_said("bad.svm:2: "), 1);
    assert_true(said("bl/scheduler.log", "bad.svm:2: ") &&
                said("bl/server-1.log", "bad.svm:2: ") &&
                said("bl/worker-0.log", "bad.svm:2: "));
    // Errors that can be found earlier are reported before any process starts.
    tug_ends(3,
             "launch --workers 2 -- train --data no.svm --data nor.svm --valid nay.svm "
             "--format libsvm");
    e2e_says(
        "3 problems: (1) no data at 'no.svm': there is no such file or directory (2) "
        "no data at 'nor.svm': there is no such file or directory (3) no data at "
        "'nay.svm': ");
    assert_int_equal(times_said("scheduler"), 0);
    tug_ends(2, "launch --workers 2 -- " TRAIN " --mode geo:3 --rules server");
    assert_int_equal(times_said("each worker applies"), 1);
    tug_ends(3, "launch --workers 2 -- train --data bad.svm --format libsvm");
    e2e_says("bad.svm:2: ");
    tug_ends(3, "launch -- train --data nosuch.svm --format libsvm");
    e2e_says("nosuch.svm");
    tug_ends(2, "launch -- train --data day.svm --format libsvmm");
    e2e_says("libsvmm");
    tug_ends(2, "launch -- train --data - --format libsvm");
    e2e_says("(standard input) is a pipe, which the workers of a cluster cannot share");
    tug_ends(2, "launch -- " TRAIN " --mode geo:3 --rules server");
    e2e_says("each worker applies the rules to its own copy");
    tug_ends(2, "launch -- " TRAIN " --mode geo:3 --optimizer ftrl");
    e2e_says("its weights are computed from its state; give another --optimizer");
    tug_ends(2, "launch -- " TRAIN " --mode geo:3 --table dim=2");
    e2e_says("--table cannot be used together");
    // Settings of the table that the run's own options decide are refused.
    static const char *const settings[] = {"dim=3", "seed=9", "mode=sync", "reduce=mean",
                                           "placement=range"};
    for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++) {
        tug_ends(2, "launch -- " TRAIN " --model fm --table accessor=ctr;%s",
                 settings[i]);
        e2e_says("follows from the run");
    }
    // Wrong settings of the table are refused: launch checks the settings itself.
    static const char *const refused[] = {"rate=exponential:x=5", "nonsense=1",  "dim=x",
                                          "accessor=none-such",   "entry=7:7:7", ";;=;"};
    for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++)
        tug_ends(2, "launch -- " TRAIN " --table %s", refused[i]);
    tug_ends(2, "launch -- " TRAIN " --mode geo:0");
    e2e_says("must be 1 or more");
    tug_ends(2, "launch -- train --data day.svm --format libsvm --model deepfm "
                "--mode elastic:3 --optimizer adagrad --dense-optimizer ftrl");
    e2e_says("its weights are computed from its state; give another --dense-optimizer");
    tug_ends(2, "launch -- " TRAIN " --mode elastic:3:1.5");
    e2e_says("elastic:K:RATE, with a RATE above 0 and at most 1");
    tug_ends(2, "launch -- " TRAIN " --mode half-async --rules worker");
    e2e_says("the threads of a worker add up the gradients");
    tug_ends(2, "launch -- " TRAIN " --deterministic --mode async");
    e2e_says("--mode sync");
}

// Whichever write of the run fails on the full disk, one sentence names the path and the reason.
// The older save stays, and no other files are left.
static void full_disks(void **state)
{
    (void)state;
    static const char *const runs[][2] = {
        {TRAIN " --out full", "full/save-000002/"},
        {TRAIN " --out full --table rule=adagrad", "full/save-000002/"},
        {TRAIN " --history /dev/full", "--history: cannot write '/dev/full'"},
    };
    char names[4][64];
    for (size_t i = 0; i < sizeof(runs) / sizeof(*runs); i++) {
        bool saves = strstr(runs[i][0], "--out") != NULL;
        files_remove("full");
        if (saves)
            tug_ends(0, "launch --workers 2 -- %s --epochs 1", runs[i][0]);
        e2e_file_limit = saves ? 2500 : 0; // more bytes than the messages have
        int code = tug("launch --workers 2 -- %s --epochs 2 %s", runs[i][0],
                       saves ? "--resume" : "");
        e2e_file_limit = 0;
        assert_int_equal(code, 4);
        e2e_says(runs[i][1]);
        assert_int_equal(times_said("tug launch: "), 1);
        assert_int_equal(times_said("ended with exit code"), 0);
        if (saves)
            assert_int_equal(files_list("full", names, 4), 1);
    }
}

static void quiet_runs(void **state)
{
    (void)state;
    tug_ends(0, "launch --workers 2 -- " TRAIN " --epochs 2 --quiet");
    assert_string_equal(e2e_err, "");
    tug_ends(0, "launch --workers 2 --log-level info -- " TRAIN " --epochs 2 --quiet");
    e2e_says("waiting for 1 server and 2 workers");
}

static void a_worker_is_killed(void **state)
{
    (void)state;
    pid_t pids[ROLES + 1];
    pid_t run = start_run("wk", pids, "--epochs 25 --json");
    kill(pids[3], SIGKILL);
    assert_int_equal(tug_finish(run), 0);
    e2e_says("was killed by signal 9");
    assert_true(e2e_number("epochs") == 25);
    all_are_gone(pids);
}

static void a_server_is_killed(void **state)
{
    (void)state;
    pid_t pids[ROLES + 1];
    pid_t run = start_run("sk", pids, "--epochs 100000");
    kill(pids[1], SIGKILL);
    assert_int_equal(tug_finish(run), 4);
    e2e_says("was killed by signal 9");
    e2e_says("was lost with partitions ");
    all_are_gone(pids);
}

static void the_scheduler_is_killed(void **state)
{
    (void)state;
    pid_t pids[ROLES + 1];
    pid_t run = start_run("dk", pids, "--epochs 100000");
    kill(pids[ROLES], SIGKILL);
    assert_int_equal(tug_finish(run), 4);
    e2e_says("tug launch: the scheduler was killed by signal 9");
    all_are_gone(pids);
}

static void the_launcher_is_killed(void **state)
{
    (void)state;
    pid_t pids[ROLES + 1];
    pid_t run = start_run("lk", pids, "--epochs 100000");
    kill(run, SIGKILL);
    assert_int_equal(tug_finish(run), 128 + SIGKILL);
    all_are_gone(pids);
}

static void interrupted_runs_save(void **state)
{
    (void)state;
    pid_t pids[ROLES + 1];
    pid_t run = start_run("in", pids, "--epochs 100000 --out saved");
    kill(run, SIGINT);
    // If a whole group of processes is stopped, each of them gets a signal. All these
    // signals count as one request to stop.
    kill(run, SIGTERM);
    // The scheduler gets the group's signal and the one that the launcher passes on.
    kill(pids[ROLES], SIGTERM);
    kill(pids[ROLES], SIGTERM);
    kill(run, SIGTERM);
    assert_int_equal(tug_finish(run), 130);
    all_are_gone(pids);
    assert_true(files_exists(e2e_newest("saved")));
}

// SIGTERM to a server moves its partitions to the other servers; SIGTERM to the last
// server stops the whole run.
static void servers_are_asked_to_end(void **state)
{
    (void)state;
    pid_t pids[ROLES + 1];
    pid_t run = start_run("se", pids, "--epochs 100000 --out ended");
    kill(pids[1], SIGTERM);
    wait_until_said("se/scheduler.log",
                    "server 1 was asked to end: its partitions move to the other");
    wait_until_gone(pids[1]);
    kill(pids[0], SIGTERM);
    wait_until_said("se/scheduler.log", "server 0 was asked to end: the whole run ends");
    assert_int_equal(tug_finish(run), 130);
    all_are_gone(pids);
    assert_true(files_exists(e2e_newest("ended")));
}

// All processes get SIGTERM at once, as when a service manager stops a group: no worker
// remains that could take over the work.
static void all_are_asked_to_end(void **state)
{
    (void)state;
    pid_t pids[ROLES + 1];
    pid_t run = start_run("ae", pids, "--epochs 100000 --out all");
    for (int i = 0; i <= ROLES; i++)
        kill(pids[i], SIGTERM);
    kill(run, SIGTERM);
    assert_int_equal(tug_finish(run), 130);
    all_are_gone(pids);
    assert_true(files_exists(e2e_newest("all")));
}

// ---------------------------------------------------------------- tools that watch a run

// Checks that the numbers of a status agree: each push that a table counts was a request.
static void facts_agree(const json_t *s)
{
    json_t *one;
    size_t i;
    json_int_t pushes = 0, requests = 0, examples = 0;
    json_array_foreach(json_object_get(s, "tables"), i, one)
        pushes += json_integer_value(json_object_get(one, "pushes"));
    json_array_foreach(json_object_get(s, "servers"), i, one)
        requests += json_integer_value(json_object_get(
            json_object_get(json_object_get(one, "requests"), "push"), "count"));
    json_array_foreach(json_object_get(s, "nodes"), i, one)
        examples += json_integer_value(json_object_get(one, "examples"));
    assert_true(pushes > 0 && requests >= pushes);
    assert_true(examples > 0);
    const json_t *run = json_object_get(s, "run");
    assert_string_equal(json_string_value(json_object_get(run, "model")), "lr");
    assert_int_equal(json_integer_value(json_object_get(run, "passes")), 100000);
    const json_t *first = json_array_get(json_object_get(s, "operations"), 0);
    assert_string_equal(json_string_value(json_object_get(first, "what")), "join");
}

static void tools_watch_a_run(void **state)
{
    (void)state;
    pid_t pids[ROLES + 1];
    tug_ends(2, "status --cluster st");
    e2e_says("no run of cluster 'st' was launched on this machine");
    pid_t run = start_run("st", pids, "--epochs 100000 --mode ssp:4");
    tug_ends(0, "status --cluster st --json");
    json_t *s = e2e_json();
    assert_int_equal(json_array_size(json_object_get(s, "nodes")), ROLES + 1);
    assert_int_equal(json_array_size(json_object_get(s, "servers")), 2);
    json_t *table = json_array_get(json_object_get(s, "tables"), 0);
    assert_true(json_number_value(json_object_get(table, "rows")) > 0);
    facts_agree(s);
    json_decref(s);
    tug_ends(0, "status --cluster st");
    assert_non_null(strstr(e2e_out, "running (2 servers, 2 workers)"));
    assert_non_null(strstr(e2e_out, "requests took: push p50 "));
    assert_non_null(strstr(e2e_out, "run: lr, "));
    assert_non_null(strstr(e2e_out, "last operations\n"));
    // Between passes the servers wait for no worker, so the status shows no clock: the
    // test asks until a pass is running.
    for (int i = 0; i < 1000 && strstr(e2e_out, " of pass ") == NULL; i++)
        tug_ends(0, "status --cluster st");
    assert_non_null(strstr(e2e_out, ", clock "));
    assert_non_null(strstr(e2e_out, " of pass "));
    tug_ends(0, "doctor --cluster st");
    assert_non_null(strstr(e2e_out, "no problem found"));
    tug_ends(0, "stop --cluster st --timeout 15");
    all_are_gone(pids);
    int status;
    assert_int_equal(waitpid(run, &status, 0), run);
    assert_int_equal(WEXITSTATUS(status), 130);
    tug_ends(4, "doctor --scheduler 127.0.0.1:9 --connect-timeout 0.2");
    e2e_says("the scheduler does not answer");
}

// ---------------------------------------------------------------- --out

// Servers may write below --out, whose path launch gives them; a symbolic link that the
// user names is followed.
static void out_through_a_link(void **state)
{
    (void)state;
    struct stat st;
    assert_int_equal(mkdir("far", 0755), 0);
    assert_int_equal(symlink("far", "near"), 0);
    const char *launch = "launch --servers 2 --workers 1 -- " TRAIN " --table entry=none";
    tug_ends(0, "%s --epochs 1 --out near/model", launch);
    assert_int_equal(lstat("near", &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_true(files_exists("far/model/save-000001/manifest.json"));
    tug_ends(0, "%s --epochs 2 --out near/model --resume", launch);
    tug_ends(0, "%s --epochs 1 --init-from near/model --out far/next", launch);
    files_nothing_beside("far/model");
    files_remove("far");
    files_remove("near");
}

// ---------------------------------------------------------------- keys

static void keys_of_a_cluster(void **state)
{
    (void)state;
    struct stat st;
    tug_ends(3, "cert node --dir keys");
    e2e_says("there is no CA yet: run 'tug cert ca --dir keys' first");
    tug_ends(0, "cert ca --dir keys");
    tug_ends(0, "cert node --dir keys --name all");
    assert_int_equal(stat("keys/ca.key", &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(stat("keys/all.key", &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    tug_ends(2, "cert ca --dir keys");
    e2e_says("is not overwritten");
    assert_int_equal(chmod("keys/ca.key", 0640), 0);
    tug_ends(0, "cert node --dir keys --name more");
    e2e_says("'keys/ca.key' is a key that other accounts can read: run chmod 600 on it");
    tug_ends(2, "cert node --dir keys --name all");
    tug_ends(2, "cert node --dir keys --name ca");
    tug_ends(2, "cert");
    tug_ends(0, "launch --servers 1 --workers 2 --ca keys/ca.pem --cert keys/all.pem "
                "--key keys/all.key -- " TRAIN " --epochs 2");
    tug_ends(2, "launch --ca keys/ca.pem -- " TRAIN);
    e2e_says("--cert");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_get_their_roles),
        cmocka_unit_test(programs_get_the_options_of_launch),
        cmocka_unit_test(a_program_that_fails_ends_all),
        cmocka_unit_test(no_program_no_run),
        cmocka_unit_test(nothing_outlives_the_launcher),
        cmocka_unit_test(trains_as_on_one_machine),
        cmocka_unit_test(bad_input),
        cmocka_unit_test(full_disks),
        cmocka_unit_test(quiet_runs),
        cmocka_unit_test(a_worker_is_killed),
        cmocka_unit_test(servers_are_asked_to_end),
        cmocka_unit_test(all_are_asked_to_end),
        cmocka_unit_test(a_server_is_killed),
        cmocka_unit_test(the_scheduler_is_killed),
        cmocka_unit_test(the_launcher_is_killed),
        cmocka_unit_test(interrupted_runs_save),
        cmocka_unit_test(tools_watch_a_run),
        cmocka_unit_test(out_through_a_link),
        cmocka_unit_test(keys_of_a_cluster),
    };
    return cmocka_run_group_tests(tests, begin, e2e_end);
}
