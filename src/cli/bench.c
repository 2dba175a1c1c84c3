// tug bench: what this machine makes of tug, without any data or peer at hand.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "bench/bench.h"
#include "cli/cli.h"
#include "cli/model.h"

struct bench_values {
    struct option_list names;
    struct bench_options o;
    uint64_t threads;
    int transport;
};

enum { SPIN_US = 50 };

#define AT(field) .offset = offsetof(struct bench_values, field)

static const struct option options[] = {
    {.name = "name",
     .kind = OPTION_LIST,
     AT(names),
     .metavar = "NAME",
     .choices = "table train van cluster rules save shrink tier",
     .group = "What to measure",
     .help =
         "table: finding and reading random rows, growth, memory; train: reading and "
         "training rates of each model; van: messages over loopback; cluster: pushes "
         "and pulls; rules: applying gradients; save: saves, loads and deltas; shrink: "
         "forgetting; tier: rows on disk"},
    {.name = "read-keys",
     .kind = OPTION_U64,
     AT(o.read_keys),
     .fallback = "10000000",
     .min = 1000,
     .max = 1e9,
     .metavar = "N",
     .group = "Of table",
     .help = "keys of the table whose rows are read"},
    {.name = "grow-keys",
     .kind = OPTION_U64,
     AT(o.grow_keys),
     .fallback = "100000000",
     .max = 1e9,
     .metavar = "N",
     .help = "keys of the table that grows; this part is left out with 0, or when there "
             "is less free memory than 60 bytes for each"},
    {.name = "rows",
     .kind = OPTION_U64,
     AT(o.rows),
     .fallback = "500000",
     .min = 1,
     .max = INFINITY,
     .metavar = "N",
     .group = "Of train",
     .help = "synthetic examples, written to a file in $TMPDIR that is then removed"},
    {.name = "epochs",
     .kind = OPTION_U64,
     AT(o.epochs),
     .fallback = "2",
     .min = 1,
     .max = 1000,
     .metavar = "N",
     .help = "passes over them"},
    {.name = "threads",
     .kind = OPTION_U64,
     AT(threads),
     .fallback = "0",
     .max = 1024,
     .metavar = "N",
     .help = "threads to compare with one thread; 0: one per core"},
    {.name = "seconds",
     .kind = OPTION_F64,
     AT(o.seconds),
     .fallback = "0.5",
     .min = 0.001,
     .max = 3600,
     .metavar = "S",
     .group = "Of van and cluster",
     .help = "for each figure"},
    {.name = "spin-us",
     .kind = OPTION_F64,
     AT(o.spin_us),
     .fallback = "-1",
     .min = -1,
     .max = 1e6,
     .metavar = "US",
     .help = "how long a thread polls for a message before it sleeps; -1: 50, but 0 "
             "where more threads wait than there are cores"},
    {.name = "transport",
     .kind = OPTION_CHOICE,
     AT(transport),
     .choices = "tcp unix",
     .fallback = "unix",
     .help = "how the cluster's processes talk, as in tug launch"},
    {.name = "max-bytes",
     .kind = OPTION_SIZE,
     AT(o.max_bytes),
     .fallback = "64M",
     .min = 256 << 10,
     .max = 1 << 30,
     .metavar = "SIZE",
     .group = "Of van",
     .help = "messages longer than this are left out"},
    {.name = "servers",
     .kind = OPTION_U64,
     AT(o.servers),
     .fallback = "1",
     .min = 1,
     .max = 64,
     .metavar = "N",
     .group = "Of cluster",
     .help = "processes"},
    {.name = "workers",
     .kind = OPTION_U64,
     AT(o.workers),
     .fallback = "1",
     .min = 1,
     .max = 64,
     .metavar = "N",
     .help = "processes"},
    {.name = "keys",
     .kind = OPTION_U64,
     AT(o.keys),
     .fallback = "1e7",
     .min = 1000,
     .max = 1e9,
     .metavar = "N",
     .help = "in its tables, 100 bytes each"},
    {.name = "table-rows",
     .kind = OPTION_U64,
     AT(o.table_rows),
     .fallback = "1e7",
     .min = 1000,
     .max = 1e9,
     .metavar = "N",
     .group = "Of rules, save, shrink and tier",
     .help = "in the table"},
    {.name = "hot-rows",
     .kind = OPTION_U64,
     AT(o.hot_rows),
     .fallback = "0",
     .max = 1e9,
     .metavar = "N",
     .help = "tier: rows that stay in memory; 0: a tenth of the rows"},
    {.name = "dir",
     .kind = OPTION_STRING,
     AT(o.dir),
     .metavar = "DIR",
     .help = "where temporary files are written: the disk to measure (default: $TMPDIR)"},
    {.name = "json",
     .kind = OPTION_FLAG,
     AT(o.json),
     .group = "Output",
     .help = "the last line of standard output is one JSON object"},
};

const struct option_table cli_bench_options = {
    .command = "bench",
    .summary = "measure this machine: tables, training, saves, messages, a cluster",
    .usage = "table|train|van|cluster|rules|save|shrink|tier [options]",
    .about =
        "table compares the rate at which one thread finds and reads the rows of random "
        "keys with the rate at which it reads random cache lines with prefetch: the "
        "limit of the memory. It takes half a minute and 3 GB.\n"
        "train makes synthetic examples and trains lr, fm and ffm on them, with one "
        "thread and with several.\n"
        "van sends messages over loopback, by a plain socket, the van, and the van with "
        "TLS in turn.\n"
        "cluster runs a scheduler, servers and workers as processes of this machine, and "
        "pushes to and pulls from tables that hold all --keys.\n"
        "rules applies gradients to random rows of a large table by several update "
        "rules, "
        "against changing random cache lines; save writes a table, loads it, saves what "
        "has changed, and trains while it is saved, against plain writing and reading; "
        "shrink forgets; tier keeps most rows on disk. They take some minutes and, at 10 "
        "M rows, up to 10 GB of memory and of disk.\n"
        "Other work on the machine makes all of it slower.",
    .examples = "tug bench table\n"
                "tug bench train --rows 1e6 --json\n"
                "tug bench cluster --servers 2 --workers 2",
    .options = options,
    .n_options = sizeof(options) / sizeof(*options),
    .operands = "name",
    .family = cli_tables,
};

static int run(const void *values, const struct options *options_given, struct err *e)
{
    (void)options_given;
    const struct bench_values *v = values;
    struct bench_options o = v->o;
    const char *name = v->names.n == 1 ? v->names.items[0] : "";
    o.threads = model_threads(v->threads);
    o.sockets = v->transport == 1; // of "tcp unix"
    // Busy waiting is worth it only while everybody has a core.
    uint64_t busy = strcmp(name, "van") == 0 ? 2 : o.servers + o.workers;
    if (o.spin_us < 0)
        o.spin_us = busy <= (uint64_t)model_threads(0) ? SPIN_US : 0;
    return bench_run(name, &o, e);
}

const struct cli_command cli_bench = {
    .options = &cli_bench_options,
    .values_size = sizeof(struct bench_values),
    .run = run,
};
