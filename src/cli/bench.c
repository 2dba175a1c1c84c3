// tug bench: what this machine makes of tug, without any data or peer at hand.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "cli/bench.h"
#include "cli/cli.h"
#include "cli/model.h"

struct bench_values {
    struct option_list names;
    uint64_t read_keys, grow_keys;
    uint64_t rows, epochs, threads;
    bool json;
};

#define AT(field) .offset = offsetof(struct bench_values, field)
#define TEXT(number) TEXT_OF(number)
#define TEXT_OF(number) #number

static const struct option options[] = {
    {.name = "name",
     .kind = OPTION_LIST,
     AT(names),
     .metavar = "NAME",
     .group = "What to measure",
     .help = "table: finding and reading random rows, growth, memory; train: reading and "
             "training rates of each model"},
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
     .help = "keys of the table that grows; 0, or too little free memory for 60 bytes "
             "each: that part is left out"},
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
     .help = "to compare with one; 0: one per core"},
    {.name = "json",
     .kind = OPTION_FLAG,
     AT(json),
     .group = "Output",
     .help = "the last line of standard output is one JSON object"},
};

const struct option_table cli_bench_options = {
    .command = "bench",
    .summary = "measure this machine: the table, training",
    .usage = "table|train [options]",
    .about =
        "table compares the rate at which one thread finds and reads the rows of random "
        "keys with the rate at which it reads random cache lines with prefetch: the "
        "limit of the memory. It takes half a minute and 3 GB.\n"
        "train makes synthetic examples and trains lr, fm and ffm on them, with one "
        "thread and with several.\n"
        "Other work on the machine makes all of it slower.",
    .examples = "tug bench table\n"
                "tug bench train --rows 1e6 --json",
    .options = options,
    .n_options = sizeof(options) / sizeof(*options),
    .operands = "name",
    .family = cli_tables,
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
    return err_set(e, TUG_EUSAGE,
                   "say what to measure: 'tug bench table' or 'tug bench train'");
}

const struct cli_command cli_bench = {
    .options = &cli_bench_options,
    .values_size = sizeof(struct bench_values),
    .run = run,
};
