// tug bench: measures tug on this machine, without data or peers.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "bench/bench.h"
#include "cli/cli.h"
#include "run/model.h"

struct bench_values {
    struct option_list names;
    struct bench_options o;
    uint64_t threads;
    int transport;
};

enum { SPIN_US = 50 };

#define OPTIONS_OF struct bench_values

static const struct option options[] = {
    {"name", .group = "What to measure",
     .choices =
         "table train van cluster moves replicas kvstore rules save shrink tier score",
     LIST_AT(names, "NAME"),
     "table: finding and reading random rows, growth, memory; train: reading and "
     "training rates of each model; van: messages over loopback; cluster: pushes and "
     "pulls; moves: a server that joins under load; replicas: a server that dies "
     "under load, and what saves and replicas cost; kvstore: push and pull of a large "
     "array beside vans alone; rules: applying gradients; save: saves, loads and "
     "deltas; shrink: removing old rows; tier: rows on disk; score: a served model"},
    {"read-keys", .group = "For table", U64_AT(o.read_keys, "N", "10000000", 1000, 1e9),
     "keys of the table whose rows are read"},
    {"grow-keys", U64_AT(o.grow_keys, "N", "100000000", 0, 1e9),
     "keys inserted into a table that begins empty; the growth is not measured if N is "
     "0, or if less than 60 bytes of memory are free for each key"},
    {"rows", .group = "For train", U64_AT(o.rows, "N", "500000", 1, INFINITY),
     "synthetic examples, written to a file in $TMPDIR that is then removed"},
    {"epochs", U64_AT(o.epochs, "N", "2", 1, 1000), "passes over these examples"},
    {"threads", U64_AT(threads, "N", "0", 0, 1024),
     "threads to compare with one thread; 0: one per core"},
    {"seconds", .group = "For van, cluster, moves and replicas",
     F64_AT(o.seconds, "S", "0.5", 0.001, 3600),
     "time for which each figure is measured"},
    {"spin-us", F64_AT(o.spin_us, "US", "-1", -1, 1e6),
     "how long a thread polls for a message before it sleeps; -1: 50, but 0 where more "
     "threads wait than there are cores"},
    {"transport", CHOICE_AT(transport, "tcp unix", "unix"),
     "how the cluster's processes talk, as in tug launch"},
    {"max-bytes", .group = "For van and kvstore",
     SIZE_AT(o.max_bytes, "SIZE", "64M", 256 << 10, 1 << 30),
     "van: messages longer than this are left out; kvstore: the size of its array"},
    {"servers", .group = "For cluster, moves, replicas and kvstore",
     U64_AT(o.servers, "N", "1", 1, 64), "server processes (replicas: always 3)"},
    {"workers", U64_AT(o.workers, "N", "1", 1, 64), "worker processes"},
    {"keys", U64_AT(o.keys, "N", "1e7", 1000, 1e9),
     "keys in the cluster's tables, 100 bytes each"},
    {"table-rows", .group = "For rules, save, shrink, tier and score",
     U64_AT(o.table_rows, "N", "1e7", 1000, 1e9), "rows in the table"},
    {"hot-rows", U64_AT(o.hot_rows, "N", "0", 0, 1e9),
     "tier: rows that stay in memory; 0: a tenth of the rows"},
    {"dir", STRING_AT(o.dir, "DIR"),
     "where temporary files are written: the disk to measure (default: $TMPDIR)"},
    {"json", .group = "Output", FLAG_AT(o.json),
     "the last line of standard output is one JSON object"},
};

const struct option_table cli_bench_options = {
    .command = "bench",
    .summary = "measure this machine: tables, training, saves, messages, a cluster",
    .usage = "table|train|van|cluster|moves|replicas|kvstore|rules|save|shrink|tier|"
             "score [options]",
    .about =
        "table compares the rate at which one thread finds and reads the rows of random "
        "keys with the rate at which it reads random cache lines with prefetch: the "
        "limit of the memory. It takes half a minute and 3 GB.\n"
        "train makes synthetic examples and trains lr, fm and ffm on them, with one "
        "thread and with several.\n"
        "van sends messages over loopback, by a plain socket, by the van (tug's "
        "transport), and by the van with TLS, in turn.\n"
        "cluster runs a scheduler, servers and workers as processes of this machine, "
        "and pushes to and pulls from tables that hold all --keys.\n"
        "moves runs a cluster in which workers push and pull, and lets one more server "
        "join; then it lets a second server join a cluster without load, and compares "
        "the rate of the moved bytes with that of a van.\n"
        "replicas kills one of three servers, twenty times, and measures how long the "
        "first push of each of its partitions waits; then it saves a table while workers "
        "push, and compares the CPU time of servers for a push and a pull with one and "
        "with two replicas.\n"
        "kvstore pushes and pulls an array of --max-bytes from all workers; in turn "
        "with this, it sends the same bytes between vans without a kvstore.\n"
        "rules applies gradients to random rows of a large table by several update "
        "rules, and compares the rate with that of changing random cache lines; save "
        "writes a table, loads it, saves what has changed, and trains while it is "
        "saved, and compares this with plain writing and reading; shrink removes old "
        "rows; tier keeps most rows on disk. They take some minutes and, at 10 M rows, "
        "up to 10 GB of memory and of disk.\n"
        "Other work on the machine makes all results worse.",
    .examples = "tug bench table\n"
                "tug bench train --rows 1e6 --json\n"
                "tug bench cluster --servers 2 --workers 2\n"
                "tug bench moves --servers 3 --workers 2 --seconds 3",
    .operands = "name",
    CLI_OPTIONS(options),
};

static int bench_command(const void *values, const struct options *options_given,
                         struct err *e)
{
    (void)options_given;
    const struct bench_values *v = values;
    struct bench_options o = v->o;
    const char *name = v->names.n == 1 ? v->names.items[0] : "";
    o.threads = model_threads(v->threads);
    o.sockets = v->transport == 1; // 1 is the index of "unix" in "tcp unix"
    // Polling pays only if each process has a core.
    uint64_t busy = strcmp(name, "van") == 0 ? 2 : o.servers + o.workers;
    if (o.spin_us < 0)
        o.spin_us = busy <= (uint64_t)model_threads(0) ? SPIN_US : 0;
    return bench_run(name, &o, e);
}

const struct cli_command cli_bench = {&cli_bench_options, sizeof(struct bench_values),
                                      .run = bench_command};
