// Scores with a saved model: reads lines of `key key key ...`, prints a prediction for
// each, and loads each newer save as it is published.
//
//     cc examples/score.c $(pkg-config --cflags --libs tug) -o score
//     tug synth --rows 2000 --format libsvm --out day.txt
//     tug train --data day.txt --format libsvm --model fm --epochs 1 --out model
//     echo 3 17 4 | ./score model
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <tug/score.h>

enum { KEYS = 1000 };

int main(int argc, char **argv)
{
    char line[1 << 16];
    uint64_t keys[KEYS], offsets[2] = {0, 0};
    struct tug_scorer_options o = {.follow = true, .wait_seconds = 60};
    struct tug_scorer *s;
    if (tug_scorer_open(&s, argc > 1 ? argv[1] : "model", &o) != 0) {
        fprintf(stderr, "%s\n", tug_last_error());
        return 1;
    }
    while (fgets(line, sizeof(line), stdin) != NULL) {
        char *at = line, *end;
        for (offsets[1] = 0; offsets[1] < KEYS; offsets[1]++, at = end) {
            keys[offsets[1]] = strtoull(at, &end, 10);
            if (end == at)
                break;
        }
        struct tug_rows rows = {.n = 1, .offsets = offsets, .keys = keys};
        float prediction;
        uint32_t save;
        if (tug_scorer_predict(s, &rows, false, &prediction, 1, &save) != 0)
            fprintf(stderr, "%s\n", tug_last_error());
        else
            printf("%.6f by save %u\n", (double)prediction, save);
    }
    tug_scorer_close(s);
}
