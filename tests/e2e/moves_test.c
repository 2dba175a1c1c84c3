// Servers join a running training and leave it: the result is as if nothing had happened.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "kit/processes.h"

enum { EPOCHS = 100 };

static const char *words_of(const char *out, const char *more)
{
    static char words[512];
    snprintf(words, sizeof(words),
             "train --data data.svm --test test.svm --format libsvm --batch 64 "
             "--data-in memory --json --epochs %d --out %s %s",
             EPOCHS, out, more);
    return words;
}

static unsigned port;
static double quiet_auc; // of the run `quiet`, in which nothing moves

static void start_server(const char *name, const char *more)
{
    cluster_start(name, "server --scheduler 127.0.0.1:%u %s", port, more);
}

// Starts two servers and two workers, and waits until the training is under way.
static void start_run(const char *words)
{
    cluster_start("run", "scheduler --servers 2 --workers 2 -- %s", words);
    port = cluster_port("run");
    start_server("first", "");
    start_server("second", "--rank 1");
    cluster_start("w0", "worker --scheduler 127.0.0.1:%u -- %s", port, words);
    cluster_start("w1", "worker --scheduler 127.0.0.1:%u -- %s", port, words);
    cluster_await("run", "pass 1/");
}

static void run_ends(void)
{
    cluster_ends("run", 0, CLUSTER_PATIENCE);
}

static void others_end(const char *const *names)
{
    for (; *names != NULL; names++)
        cluster_ends(*names, 0, CLUSTER_PATIENCE);
    cluster_none_left();
}

static void join(const char *name, const char *more)
{
    start_server(name, files_path("--join %s", more));
}

static void drain(unsigned rank)
{
    tug_ends(0, "drain %u --wait --timeout %d --scheduler 127.0.0.1:%u", rank,
             CLUSTER_PATIENCE, port);
    assert_non_null(strstr(e2e_out, files_path("server %u has left", rank)));
}

// Changes all servers within one run: a server joins, both of the first ones are drained, the
// second one perhaps by a signal, and another joins.
static void change_all_servers(bool by_signal)
{
    join("third", "");
    cluster_await("run", "because server 2 has joined");
    cluster_await("run", "have moved");
    drain(0);
    cluster_ends("first", 0, CLUSTER_PATIENCE);
    join("fourth", "--loops 2");
    cluster_await("run", "because server 3 has joined");
    if (by_signal)
        cluster_signal("second", SIGTERM);
    else
        drain(1);
    cluster_ends("second", 0, CLUSTER_PATIENCE);
}

static void sync_has_the_same_bits(void **state)
{
    (void)state;
    start_run(words_of("moved", "--mode sync --save-every 4"));
    change_all_servers(false);
    run_ends();
    others_end((const char *const[]){"third", "fourth", "w0", "w1", NULL});
    cluster_same_parts("truth", "moved");
}

// No update is lost or applied twice: each row counts its updates.
static void async_counts_each_example(void **state)
{
    (void)state;
    start_run(words_of("async", ""));
    change_all_servers(false);
    run_ends();
    assert_true(fabs(e2e_number("auc") - quiet_auc) < 0.02);
    others_end((const char *const[]){"third", "fourth", "w0", "w1", NULL});
    cluster_same_counts("quiet", "async");
}

static void ssp_goes_on(void **state)
{
    (void)state;
    start_run(words_of("ssp", "--mode ssp:2"));
    change_all_servers(true);
    run_ends();
    others_end((const char *const[]){"third", "fourth", "w0", "w1", NULL});
    cluster_same_counts("quiet", "ssp");
}

// Continues a copy of the run "cut" with n servers. It ends with the bits of a quiet run.
static void resume_with(unsigned n)
{
    files_remove("again");
    cluster_system("cp -r cut again");
    tug_ends(0, "launch --servers %u --workers 1 -- %s", n,
             words_of("again", "--mode sync --resume"));
    cluster_same_parts("truth", "again");
}

// A save that was made between moves has exactly the rows of its moment: a
// run that continues from it, in one process or with any number of servers,
// ends with the same bits.
static void save_between_moves(void **state)
{
    (void)state;
    start_run(words_of("cut", "--mode sync"));
    join("third", "");
    cluster_await("run", "because server 2 has joined");
    cluster_signal("run", SIGINT); // saves while partitions move
    cluster_ends("run", 130, CLUSTER_PATIENCE);
    cluster_said("run", "saved to cut/save-");
    for (const char *const *name =
             (const char *const[]){"first", "second", "third", "w0", "w1", NULL};
         *name != NULL; name++)
        cluster_wait(*name, CLUSTER_PATIENCE);
    for (unsigned n = 1; n <= 3; n++)
        resume_with(n);
    tug_ends(0, "%s", words_of("cut", "--deterministic --resume"));
    cluster_same_parts("truth", "cut");
}

// If a server dies while its partitions move, the run fails, and the error names the
// partitions that the server still had.
static void source_is_killed(void **state)
{
    (void)state;
    start_run(words_of("killed", "--epochs 100000"));
    tug_ends(0, "drain 0 --scheduler 127.0.0.1:%u", port);
    cluster_signal("first", SIGKILL);
    cluster_ends("run", 4, CLUSTER_PATIENCE);
    cluster_said("run", "server 0");
    cluster_said("run", "is gone, and with it partitions");
    for (const char *const *name =
             (const char *const[]){"first", "second", "w0", "w1", NULL};
         *name != NULL; name++)
        cluster_wait(*name, CLUSTER_PATIENCE);
}

// A server without room for a partition gets none, the run goes on, and the server may die.
static void server_without_room(void **state)
{
    (void)state;
    start_run(words_of("full", "--mode sync"));
    join("third", "--memory 20k");
    cluster_await("run", "--memory");
    cluster_signal("third", SIGKILL);
    cluster_wait("third", CLUSTER_PATIENCE);
    run_ends();
    others_end((const char *const[]){"first", "second", "w0", "w1", NULL});
    cluster_same_parts("truth", "full");
}

static void refusals(void **state)
{
    (void)state;
    start_run(words_of("refused", "--epochs 100000"));
    tug_ends(2, "drain 7 --scheduler 127.0.0.1:%u", port);
    e2e_says("there is no server 7 in this cluster");
    tug_ends(2, "drain --scheduler 127.0.0.1:%u", port);
    e2e_says("give the rank of one server");
    drain(1);
    tug_ends(2, "drain 0 --scheduler 127.0.0.1:%u", port);
    e2e_says("no other server can take its partitions");
    start_server("late", "");
    cluster_ends("late", 4, CLUSTER_PATIENCE);
    cluster_said("late", "--join");
    tug_ends(0, "rebalance --scheduler 127.0.0.1:%u", port);
    assert_non_null(strstr(e2e_out, "nothing moves"));
    tug_ends(0, "stop --scheduler 127.0.0.1:%u", port);
    cluster_wait("run", CLUSTER_PATIENCE);
    for (const char *const *name =
             (const char *const[]){"first", "second", "w0", "w1", NULL};
         *name != NULL; name++)
        cluster_wait(*name, CLUSTER_PATIENCE);
}

static int begin(void **state)
{
    if (cluster_begin(state) != 0)
        return -1;
    tug_ends(0, "synth --rows 6000 --test-rows 1000 --format libsvm --out data.svm "
                "--test-out test.svm");
    tug_ends(0, "%s", words_of("truth", "--deterministic"));
    tug_ends(0, "%s", words_of("quiet", "--threads 1"));
    quiet_auc = e2e_number("auc");
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_test(sync_has_the_same_bits),
        cluster_test(async_counts_each_example),
        cluster_test(ssp_goes_on),
        cluster_test(save_between_moves),
        cluster_test(source_is_killed),
        cluster_test(server_without_room),
        cluster_test(refusals),
    };
    return cmocka_run_group_tests(tests, begin, cluster_end);
}
