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
    uint64_t read_keys, grow_keys;
    uint64_t rows, epochs, threads;
    double seconds, spin_us;
    int transport;
    uint64_t max_bytes, servers, workers, keys;
    uint64_t table_rows, hot_rows;
    const char *dir;
    bool json;
};

enum { SPIN_US = 50 };

#define AT(field) .offset = offsetof(struct bench_values, field)
#define TEXT(number) TEXT_OF(number)
#define TEXT_OF(number) #number

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
     AT(read_keys),
     .fallback = TEXT(BENCH_READ_KEYS),
     .min = 1000,
     .max = 1e9,
     .metavar = "N",
     .group = "Of table",
     .help = "keys of the table whose rows are read"},
    {.name = "grow-keys",
     .kind = OPTION_U64,
     AT(grow_keys),
     .fallback = TEXT(BENCH_GROW_KEYS),
     .max = 1e9,
     .metavar = "N",
     .help = "keys of the table that grows; this part is left out with 0, or when there "
             "is less free memory than 60 bytes for each"},
    {.name = "rows",
     .kind = OPTION_U64,
     AT(rows),
     .fallback = "500000",
     .min = 1,
     .max = INFINITY,
     .metavar = "N",
     .group = "Of train",
     .help = "synthetic examples, written to a file in $TMPDIR that is then removed"},
    {.name = "epochs",
     .kind = OPTION_U64,
     AT(epochs),
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
     AT(seconds),
     .fallback = "0.5",
     .min = 0.001,
     .max = 3600,
     .metavar = "S",
     .group = "Of van and cluster",
     .help = "for each figure"},
    {.name = "spin-us",
     .kind = OPTION_F64,
     AT(spin_us),
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
     AT(max_bytes),
     .fallback = "64M",
     .min = 256 << 10,
     .max = 1 << 30,
     .metavar = "SIZE",
     .group = "Of van",
     .help = "messages longer than this are left out"},
    {.name = "servers",
     .kind = OPTION_U64,
     AT(servers),
     .fallback = "1",
     .min = 1,
     .max = 64,
     .metavar = "N",
     .group = "Of cluster",
     .help = "processes"},
    {.name = "workers",
     .kind = OPTION_U64,
     AT(workers),
     .fallback = "1",
     .min = 1,
     .max = 64,
     .metavar = "N",
     .help = "processes"},
    {.name = "keys",
     .kind = OPTION_U64,
     AT(keys),
     .fallback = "1e7",
     .min = 1000,
     .max = 1e9,
     .metavar = "N",
     .help = "in its tables, 100 bytes each"},
    {.name = "table-rows",
     .kind = OPTION_U64,
     AT(table_rows),
     .fallback = "1e7",
     .min = 1000,
     .max = 1e9,
     .metavar = "N",
     .group = "Of rules, save, shrink and tier",
     .help = "in the table"},
    {.name = "hot-rows",
     .kind = OPTION_U64,
     AT(hot_rows),
     .fallback = "0",
     .max = 1e9,
     .metavar = "N",
     .help = "tier: rows that stay in memory; 0: a tenth of the rows"},
    {.name = "dir",
     .kind = OPTION_STRING,
     AT(dir),
     .metavar = "DIR",
     .help = "where temporary files are written: the disk to measure (default: $TMPDIR)"},
    {.name = "json",
     .kind = OPTION_FLAG,
     AT(json),
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

// Busy waiting is worth it only while everybody has a core.
static double spin_us(const struct bench_values *v, uint64_t busy)
{
    if (v->spin_us >= 0)
        return v->spin_us;
    return busy <= (uint64_t)model_threads(0) ? SPIN_US : 0;
}

static const struct {
    const char *name;
    int (*run)(const struct bench_store_options *o, struct err *e);
} stores[] = {
    {"rules", bench_rules},
    {"save", bench_save},
    {"shrink", bench_shrink},
    {"tier", bench_tier},
};

static int run(const void *values, const struct options *o, struct err *e)
{
    (void)o;
    const struct bench_values *v = values;
    const char *name = v->names.n == 1 ? v->names.items[0] : "";
    if (strcmp(name, "table") == 0) {
        struct bench_table_options table = {v->read_keys, v->grow_keys, v->json};
        return bench_table(&table, e);
    }
    if (strcmp(name, "train") == 0) {
        struct bench_train_options train = {v->rows, v->epochs, model_threads(v->threads),
                                            v->json};
        return bench_train(&train, e);
    }
    for (size_t i = 0; i < sizeof(stores) / sizeof(*stores); i++) {
        struct bench_store_options store = {v->table_rows, v->hot_rows, v->dir, v->json};
        if (strcmp(name, stores[i].name) == 0)
            return stores[i].run(&store, e);
    }
    struct bench_net_options net = {
        .seconds = v->seconds,
        .max_bytes = v->max_bytes,
        .servers = (uint32_t)v->servers,
        .workers = (uint32_t)v->workers,
        .keys = v->keys,
        .json = v->json,
    };
    if (strcmp(name, "van") == 0) {
        net.spin_us = spin_us(v, 2);
        return bench_van(&net, e);
    }
    if (strcmp(name, "cluster") == 0) {
        net.sockets = v->transport == 1; // of "tcp unix"
        net.spin_us = spin_us(v, v->servers + v->workers);
        return bench_cluster(&net, e);
    }
    return err_set(
        e, TUG_EUSAGE,
        "say what to measure: 'tug bench' and one of table, train, van, cluster, rules, "
        "save, shrink and tier");
}

const struct cli_command cli_bench = {
    .options = &cli_bench_options,
    .values_size = sizeof(struct bench_values),
    .run = run,
};
