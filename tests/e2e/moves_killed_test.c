// A server dies while partitions move: the run goes on if the server owns no partition; otherwise
// it ends with an error that names the lost partitions.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/joins.h"

static const char *const all[] = {"first", "second", "third", "w0", "w1", NULL};
static const char *const two[] = {"first", "second", "w0", "w1", NULL};

static void source_is_killed(void **state)
{
    (void)state;
    joins_start(joins_words("killed", "--epochs 100000"), "");
    tug_ends(0, "drain 0 --scheduler 127.0.0.1:%u", joins_port());
    cluster_signal("first", SIGKILL);
    cluster_ends("run", 4, CLUSTER_PATIENCE);
    cluster_said("run", "server 0");
    cluster_said("run", "was lost with partitions");
    joins_wait(two);
}

// The two servers that own all partitions are stopped (SIGSTOP) when the third server
// joins, so no partition has moved when the third server dies.
static void target_is_killed_before_it_owns(const char *out, const char *mode)
{
    joins_start(joins_words(out, mode), "");
    cluster_signal("first", SIGSTOP);
    cluster_signal("second", SIGSTOP);
    joins_server("third", "");
    cluster_await("run", "because server 2 has joined");
    cluster_signal("third", SIGKILL);
    cluster_wait("third", CLUSTER_PATIENCE);
    cluster_signal("first", SIGCONT);
    cluster_signal("second", SIGCONT);
    cluster_await("run", "no sign of life");
    joins_end(two);
}

static void target_owned_nothing(void **state)
{
    (void)state;
    tug_ends(0, "%s", joins_words("truth", "--deterministic"));
    target_is_killed_before_it_owns("sync", "--mode sync");
    cluster_same_parts("truth", "sync");
    target_is_killed_before_it_owns("async", "");
    cluster_same_counts("truth", "async");
}

static void target_owned_some(void **state)
{
    (void)state;
    joins_start(joins_words("lost", "--epochs 100000"), "");
    joins_server("third", "");
    cluster_await("run", "have moved");
    cluster_signal("third", SIGKILL);
    cluster_ends("run", 4, CLUSTER_PATIENCE);
    cluster_said("run", "server 2");
    cluster_said("run", "was lost with partitions");
    joins_wait(all);
}

// A server without memory for a partition gets none. The run continues, also after this
// server was killed.
static void server_without_room(void **state)
{
    (void)state;
    joins_start(joins_words("full", "--mode sync"), "");
    joins_server("third", "--memory 20k");
    cluster_await("run", "--memory");
    cluster_signal("third", SIGKILL);
    cluster_wait("third", CLUSTER_PATIENCE);
    joins_end(two);
    cluster_same_parts("truth", "full");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_test(source_is_killed),
        cluster_test(target_owned_nothing),
        cluster_test(target_owned_some),
        cluster_test(server_without_room),
    };
    return cmocka_run_group_tests(tests, joins_begin, cluster_end);
}
