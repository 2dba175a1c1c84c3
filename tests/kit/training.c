// See training.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/training.h"

#include <stdio.h>

#include "base/random.h"
#include "kit/files.h"
#include "kit/test.h"

const char *training_data(const char *name, uint64_t rows, uint64_t features, int padding)
{
    const char *path = files_in("%s", name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (uint64_t i = 0; i < rows; i++) {
        uint64_t x[4];
        for (uint64_t k = 0; k < 4; k++)
            x[k] = random_below(1, k, i, features);
        fprintf(f, "%d", (int)((x[0] + x[1]) % 2));
        for (uint64_t k = 0; k < 4; k++)
            fprintf(f, " %d:%d:%g", (int)k, (int)(k * features + x[k]),
                    k == 2 ? 0.5 : 1.0);
        if (padding > 0)
            fprintf(f, " #%*s", padding, "");
        fputc('\n', f);
    }
    assert_int_equal(fclose(f), 0);
    return path;
}

struct model_options training_model_by(const char *name, enum rule_kind rule)
{
    const struct model_ops *ops;
    assert_int_equal(model_find(name, &ops, NULL), 0);
    struct model_options o = {.seed = 1, .fields = ops->needs_fields ? 4 : 0};
    model_defaults(&o, ops, rule);
    o.dim = 2;
    if (ops->dense != NULL) {
        o.hidden[0] = 6;
        o.hidden[1] = 3;
        o.hidden[2] = 0;
    }
    return o;
}

struct model_options training_model(const char *name)
{
    return training_model_by(name, RULE_ADAGRAD);
}

struct team *training_team(int threads)
{
    struct team *t;
    assert_int_equal(team_open(&t, threads, NULL), 0);
    return t;
}
