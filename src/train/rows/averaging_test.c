// Averaging of parameters. The mean of a run equals the one computed by the formula, in
// double precision, from the parameters of the run's saves. Swapping exchanges the mean
// and the parameters. A run that learns in large steps predicts better with the mean.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/rows/averaging.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "kit/files.h"
#include "kit/test.h"
#include "kit/training.h"
#include "os/log.h"
#include "train/config.h"
#include "train/saved/saved.h"

// A pass has 9 batches. The numbers are chosen so that at the end of the run two batches
// have no sample yet, and that the last sample of some pass covers one batch.
enum { WINDOW = 33, PASSES = 5, BATCHES = 9, KEYS = 48 };

static struct train_result result;
static char path[FILE_PATH_MAX], out[FILE_PATH_MAX];
static const char *const data[] = {path};

// Trains on a copy of the text, because the buffers of files_in are reused.
static void train_on(const char *text)
{
    snprintf(path, sizeof(path), "%s", text);
    snprintf(out, sizeof(out), "%s", files_in("out"));
}

static struct train_config config_of(const char *model)
{
    struct train_config c = training_config(model, data);
    c.epochs = PASSES;
    c.threads = 2;
    c.deterministic = true;
    c.keep = 1000;
    return c;
}

static void train(const struct train_config *c)
{
    struct err e = {0};
    size_t live = mem_live();
    files_remove(files_in("out"));
    if (train_run(c, &result, &e) != 0)
        fail_msg("%s", e.text);
    assert_int_equal(mem_live(), live);
}

// Loads the parameters of a role from a save of the last run.
static bool load(struct parameters *p, unsigned save, enum saved_role role,
                 struct saved_run *m)
{
    struct team *team = training_team(1);
    const char *dir = files_in("out/save-%06u", save);
    bool there = saved_read(m, dir, NULL) == 0;
    if (there)
        assert_int_equal(saved_load(dir, m, role, team, p, &test_err), 0);
    team_close(team);
    return there;
}

// The mean of a key's weights by the formula; valid once `begun` is set, at the first
// save that has the key.
struct naive {
    bool begun;
    double weights[256];
};

static size_t weights_of(const struct accessor *a, const float *row, double *ret)
{
    size_t n = 0;
    for (uint32_t g = 0; g < a->n_groups; g++)
        for (uint32_t i = 0; i < a->groups[g].n; i++)
            ret[n++] = (double)row[a->groups[g].weights + i];
    return n;
}

static void add(struct naive *of, const struct accessor *a, const float *row,
                double share)
{
    double now[256];
    size_t n = weights_of(a, row, now);
    assert_true(n <= 256);
    for (size_t i = 0; i < n; i++)
        of->weights[i] = of->begun ? of->weights[i] + share * (now[i] - of->weights[i])
                                   : now[i];
    of->begun = true;
}

static float *row_of(struct table *t, uint64_t key)
{
    uint32_t handle;
    table_find(t, &key, 1, &handle);
    return handle != TABLE_NONE ? table_row(table_slabs(t), handle) : NULL;
}

// Adds the parameters of a save to the means; rows that were never updated are left out.
static void add_all(struct naive *sparse, struct naive *dense, struct parameters *p,
                    double share)
{
    for (uint64_t key = 0; key < KEYS; key++) {
        const float *row = row_of(p->sparse, key);
        if (row != NULL)
            add(&sparse[key], &p->model.accessor, row, share);
    }
    for (size_t i = 0; i < p->model.blocks; i++)
        add(&dense[i], &p->model.dense, p->blocks[i], share);
}

static void assert_close(const struct naive *want, const struct accessor *a,
                         const float *row)
{
    double have[256];
    assert_int_equal(want->begun, row != NULL);
    size_t n = row != NULL ? weights_of(a, row, have) : 0;
    for (size_t i = 0; i < n; i++)
        if (fabs(have[i] - want->weights[i]) > 1e-5)
            fail_msg("weight %zu is %.8f and should be %.8f", i, have[i],
                     want->weights[i]);
}

// Returns whether there is a sample after `batches` batches, if the last one was after
// `before`.
static bool is_sampled(double batches, double before, double window)
{
    double every = ceil((before < window ? before : window) / 32);
    return fmod(batches, BATCHES) == 0 || batches - before >= every;
}

// Computes the mean from the saves of a run without a mean, one save after each batch.
static void naive_mean(struct naive *sparse, struct naive *dense, double window)
{
    static struct saved_run m;
    struct parameters p;
    double before = 0;
    for (unsigned save = 1; load(&p, save, SAVED_MODEL, &m); save++) {
        double batches = (double)m.at.batches, over = batches < window ? batches : window;
        if (batches > before && is_sampled(batches, before, window)) {
            add_all(sparse, dense, &p, (batches - before) / over);
            before = batches;
        }
        parameters_close(&p);
    }
}

static void by_the_formula(void **state)
{
    (void)state;
    // The last window is longer than the run, so its mean is the plain mean of the whole
    // run.
    static const struct {
        const char *model;
        uint64_t window;
    } trials[] = {{"fm", WINDOW}, {"mlp", WINDOW}, {"fm", 1000000}};
    static struct naive sparse[KEYS], dense[8];
    static struct saved_run m;
    train_on(training_data("formula.ffm", BATCHES * 16, KEYS / 4, 0));
    for (size_t i = 0; i < sizeof(trials) / sizeof(*trials); i++) {
        struct parameters p;
        struct train_config c = config_of(trials[i].model);
        memset(sparse, 0, sizeof(sparse));
        memset(dense, 0, sizeof(dense));
        c.out = out;
        c.save_batches = 1;
        c.save_passes = 1;
        train(&c);
        naive_mean(sparse, dense, (double)trials[i].window);
        c.save_batches = c.save_passes = 0;
        c.average = trials[i].window;
        train(&c);
        assert_true(load(&p, 1, SAVED_MODEL, &m));
        assert_int_equal(m.at.averaged, PASSES * BATCHES);
        for (uint64_t key = 0; key < KEYS; key++)
            assert_close(&sparse[key], &p.model.accessor, row_of(p.sparse, key));
        for (size_t b = 0; b < p.model.blocks; b++)
            assert_close(&dense[b], &p.model.dense, p.blocks[b]);
        parameters_close(&p);
    }
}

// Averaging does not change the trained parameters.
static void averaging_does_not_change_training(void **state)
{
    (void)state;
    static struct saved_run m;
    struct parameters with, without;
    train_on(training_data("same.ffm", 300, 7, 0));
    struct train_config c = config_of("fm");
    c.out = out;
    train(&c);
    assert_true(load(&without, 1, SAVED_MODEL, &m));
    c.average = WINDOW;
    c.valid = c.test; // validation exchanges the mean and the parameters
    c.patience = 0;
    train(&c);
    assert_true(load(&with, 1, SAVED_TRAINING, &m));
    for (uint64_t key = 0; key < 28; key++) {
        const float *a = row_of(with.sparse, key), *b = row_of(without.sparse, key);
        assert_true(a != NULL && b != NULL);
        assert_memory_equal(a, b, with.model.accessor.width * sizeof(*a));
    }
    parameters_close(&with);
    parameters_close(&without);
}

// Swaps twice, with rows added and a sample taken between the swaps: afterwards all rows
// and means are as before.
static void swapping(void **state)
{
    (void)state;
    struct team *team = training_team(3);
    struct model_options o = training_model("fm");
    struct parameters p;
    struct averaging *a;
    uint64_t at = 0;
    assert_int_equal(parameters_open(&p, &o, NULL), 0);
    assert_int_equal(averaging_open(&a, 10, team, &p, NULL), 0);
    assert_int_equal(averaging_next(a, 0), 1);
    assert_int_equal(averaging_next(a, 9000), 9001);
    for (uint64_t key = 0; key < 2000; key++) {
        uint32_t id;
        assert_int_equal(parameters_resolve_new(&p, &key, 1, &id), 0);
        float *row = table_row(table_slabs(p.sparse), id);
        row[p.model.accessor.count] = key % 3 == 0 ? 0 : 1;
        row[p.model.accessor.groups[1].weights] = (float)key;
        if (key == 999)
            assert_int_equal(averaging_sample(a, 1, &at, NULL), 0);
        if (key < 1000)
            row[p.model.accessor.groups[1].weights] += key == 999 ? 1 : 0;
    }
    for (int times = 0; times < 2; times++) {
        assert_int_equal(averaging_swap(a, NULL), 0);
        for (uint64_t key = 0; key < 2000; key++) {
            const float *row = row_of(p.sparse, key);
            bool mean = key < 1000 && key % 3 != 0;
            bool updated = times > 0 ? key % 3 != 0 : mean;
            assert_true((row[p.model.accessor.count] != 0) == updated);
            if (updated)
                assert_true(row[p.model.accessor.groups[1].weights] ==
                            (float)key + (float)(key == 999 && times > 0));
        }
    }
    averaging_close(a);
    parameters_close(&p);
    team_close(team);
}

// Checks that the mean is better than the last parameters if steps are so large that the
// parameters wander around the best ones; also with hogwild.
static void better_than_the_last(void **state)
{
    (void)state;
    static char text[6000 * 32];
    size_t n = 0;
    // Each example has one of 20 features, and its label is 1 with probability .2 or .8,
    // depending on the feature.
    for (int i = 0; i < 6000; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%d 0:%d:1\n",
                              i / 20 * 7 % 10 < (i % 2 ? 8 : 2), i % 20);
    train_on(files_write(files_in("noise.ffm"), text));
    for (int deterministic = 0; deterministic < 2; deterministic++) {
        struct train_config c = config_of("lr");
        c.deterministic = deterministic;
        c.threads = deterministic ? 2 : 1;
        c.model = training_model_by("lr", RULE_SGD);
        c.model.linear.lr = 0.5f;
        train(&c);
        double last = result.test.logloss;
        c.average = 900;
        train(&c);
        if (!(result.test.logloss < last - 0.03))
            fail_msg("the mean has %g, the last parameters %g", result.test.logloss,
                     last);
    }
}

static void failing_allocations(void **state)
{
    (void)state;
    train_on(training_data("tiny.ffm", 40, 3, 0));
    struct train_config c = config_of("fm");
    c.threads = 1;
    c.epochs = 1;
    c.average = 3;
    c.valid_part.share = 0.2;
    FAIL_EACH_ALLOCATION(train_run(&c, &result, &test_err), );
}

static int quiet(void **state)
{
    log_set_level(LOG_ERROR);
    return files_begin(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_the_formula),
        cmocka_unit_test(averaging_does_not_change_training),
        cmocka_unit_test(swapping),
        cmocka_unit_test(better_than_the_last),
        cmocka_unit_test(failing_allocations),
    };
    return cmocka_run_group_tests(tests, quiet, files_end);
}
