// Examples whose features are drawn uniformly from a given number of keys, as libsvm text
// on standard output: what bench/growth trains on and bench_reader reads. Labels are
// drawn, too: there is nothing to learn here but how fast rows are found.
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
