// Help for this part's tests: a folder, small data sets, and every
// allocation failing in turn.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_TRAIN_TESTING_H
#define TUG_TRAIN_TRAIN_TESTING_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/random.h"
#include "base/team.h"
#include "kit/test.h"
#include "train/saved.h"

#define UNUSED __attribute__((unused))

static char test_dir[64];

static UNUSED int make_test_dir(void **state)
{
    (void)state;
    snprintf(test_dir, sizeof(test_dir), "/tmp/tug-train-XXXXXX");
    return mkdtemp(test_dir) != NULL ? 0 : -1;
}

static UNUSED int remove_one(const char *path, const struct stat *st, int kind,
                             struct FTW *ftw)
{
    (void)st, (void)kind, (void)ftw;
    return remove(path);
}

// With all that is below it; fine if there is none.
static UNUSED int remove_all(const char *path)
{
    return file_exists(path) ? nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS) : 0;
}

static UNUSED int remove_test_dir(void **state)
{
    (void)state;
    return remove_all(test_dir);
}

// The path of a file in the test's folder; valid until eight more were asked for.
static UNUSED const char *path_of(const char *name)
{
    static char paths[8][256];
    static unsigned turn;
    char *p = paths[turn++ % 8];
    snprintf(p, sizeof(paths[0]), "%s/%s", test_dir, name);
    return p;
}

static UNUSED const char *write_text(const char *name, const char *text)
{
    const char *path = path_of(name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    return path;
}

// libffm lines with something to learn: the label follows the parity of two features.
// `features` of each of 4 fields; a comment of `padding` bytes.
static UNUSED const char *write_data(const char *name, uint64_t rows, uint64_t features,
                                     int padding)
{
    const char *path = path_of(name);
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

static UNUSED struct model_options model_by(const char *name, enum rule_kind rule)
{
    const struct model_ops *ops;
    assert_int_equal(model_find(name, &ops, NULL), 0);
    struct model_options o = {.seed = 1, .fields = ops->needs_fields ? 4 : 0};
    model_defaults(&o, ops, rule);
    o.dim = 2;
    return o;
}

static UNUSED struct model_options model_of(const char *name)
{
    return model_by(name, RULE_ADAGRAD);
}

static UNUSED struct team *open_team(int threads)
{
    struct team *t;
    assert_int_equal(team_open(&t, threads, NULL), 0);
    return t;
}

#endif
