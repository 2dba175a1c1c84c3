// SPDX-License-Identifier: Apache-2.0
#include "kit/joins.h"

enum { EPOCHS = 100 };

static unsigned port;

unsigned joins_port(void)
{
    return port;
}

int joins_begin(void **state)
{
    if (cluster_begin(state) != 0)
        return -1;
    tug_ends(0, "synth --rows 6000 --test-rows 1000 --format libsvm --out data.svm "
                "--test-out test.svm");
    return 0;
}

const char *joins_words(const char *out, const char *more)
{
    static char words[1024];
    snprintf(words, sizeof(words),
             "train --data data.svm --test test.svm --format libsvm --batch 64 "
             "--data-in memory --json --epochs %d --out %s %s",
             EPOCHS, out, more);
    return words;
}

void joins_start(const char *words, const char *of_servers)
{
    cluster_start("run", "scheduler --servers 2 --workers 2 -- %s", words);
    port = cluster_port("run");
    cluster_start("first", "server --scheduler 127.0.0.1:%u %s", port, of_servers);
    cluster_start("second", "server --scheduler 127.0.0.1:%u --rank 1 %s", port,
                  of_servers);
    cluster_start("w0", "worker --scheduler 127.0.0.1:%u -- %s", port, words);
    cluster_start("w1", "worker --scheduler 127.0.0.1:%u -- %s", port, words);
    cluster_await("run", "pass 1/");
}

void joins_server(const char *name, const char *more)
{
    cluster_start(name, "server --scheduler 127.0.0.1:%u --join %s", port, more);
}

void joins_drain(unsigned rank)
{
    tug_ends(0, "drain %u --wait --timeout %d --scheduler 127.0.0.1:%u", rank,
             CLUSTER_PATIENCE, port);
    assert_non_null(strstr(e2e_out, files_path("server %u has left", rank)));
}

void joins_change_all(bool by_signal, const char *more)
{
    joins_server("third", more);
    cluster_await("run", "because server 2 has joined");
    cluster_await("run", "have moved");
    joins_drain(0);
    cluster_ends("first", 0, CLUSTER_PATIENCE);
    joins_server("fourth", files_path("--loops 2 %s", more));
    cluster_await("run", "because server 3 has joined");
    if (by_signal)
        cluster_signal("second", SIGTERM);
    else
        joins_drain(1);
    cluster_ends("second", 0, CLUSTER_PATIENCE);
}

void joins_end(const char *const *others)
{
    for (; *others != NULL; others++)
        cluster_ends(*others, 0, CLUSTER_PATIENCE);
    cluster_ends("run", 0, CLUSTER_PATIENCE);
    cluster_none_left();
}

void joins_wait(const char *const *names)
{
    for (; *names != NULL; names++)
        cluster_wait(*names, CLUSTER_PATIENCE);
}
