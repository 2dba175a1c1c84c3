// `tug bench table` as a program of its own: it needs the table and nothing above it, so
// it builds and profiles alone.
//
//   bench_table [--json] [--read-keys N] [--grow-keys N]
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"

int main(int argc, char **argv)
{
    struct bench_table_options o = {BENCH_READ_KEYS, BENCH_GROW_KEYS, false};
    struct err e = {0};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            o.json = true;
        else if (strcmp(argv[i], "--read-keys") == 0 && i + 1 < argc)
            o.read_keys = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--grow-keys") == 0 && i + 1 < argc)
            o.grow_keys = strtoull(argv[++i], NULL, 10);
    }
    int rc = bench_table(&o, &e);
    if (rc != 0)
        fprintf(stderr, "%s\n", e.text);
    return err_exit_code(rc);
}
