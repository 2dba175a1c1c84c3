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

struct train_config training_config(const char *model, const char *const *data)
{
    return (struct train_config){
        .data = {data, 1},
        .test = {data, 1},
        .reader = {.format = "libffm", .loss = LOSS_LOGISTIC, .labels = true},
        .model = training_model(model),
        .epochs = 3,
        .batch = 16,
        .threads = 1,
        .data_in = DATA_IN_MEMORY,
        .window_bytes = 1 << 20,
        .keep = 1,
    };
}

void training_linear(struct parameters *p, uint64_t n, float (*weight)(uint64_t key))
{
    struct model_options o = training_model("lr");
    assert_int_equal(parameters_open(p, &o, NULL), 0);
    for (uint64_t key = 0; key < n; key++) {
        uint32_t id;
        assert_int_equal(parameters_resolve_new(p, &key, 1, &id), 0);
        float *row = table_row(table_slabs(p->sparse), id);
        row[0] = weight(key);
        row[p->model.accessor.count] = 1;
    }
}

struct team *training_team(int threads)
{
    struct team *t;
    assert_int_equal(team_open(&t, threads, NULL), 0);
    return t;
}
