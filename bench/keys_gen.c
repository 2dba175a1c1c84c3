// Writes random examples as libsvm text to standard output, for bench/growth and
// bench_reader. Features are drawn uniformly from a given number of keys. Labels are
// random, too: the data measures how fast rows are found, not how well a model learns.
//
//   keys_gen KEYS ROWS FEATURES
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>

#include "base/random.h"

enum { SEED = 1, LABELS = 0, FEATURES = 1 };

static void put_example(uint64_t row, uint64_t keys, uint64_t features)
{
    putchar_unlocked((int)('0' + random_below(SEED, LABELS, row, 2)));
    for (uint64_t i = row * features; i < (row + 1) * features; i++)
        printf(" %llu:1",
               (unsigned long long)(1 + random_below(SEED, FEATURES, i, keys)));
    putchar_unlocked('\n');
}

int main(int argc, char **argv)
{
    uint64_t n[3] = {0};
    for (int i = 0; i < 3 && argc == 4; i++)
        n[i] = strtoull(argv[i + 1], NULL, 10);
    if (n[0] == 0 || n[1] == 0 || n[2] == 0) {
        fprintf(stderr, "usage: keys_gen KEYS ROWS FEATURES\n");
        return 2;
    }
    for (uint64_t row = 0; row < n[1]; row++)
        put_example(row, n[0], n[2]);
    return ferror(stdout) || fflush(stdout) != 0 ? 4 : 0;
}
