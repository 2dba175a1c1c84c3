// Whole runs in one process: threads that share rows (also under ThreadSanitizer), and
// every allocation of a run failing in turn.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "kit/files.h"
#include "kit/test.h"
#include "kit/toy_model.h"
#include "kit/training.h"
#include "os/log.h"
#include "train/config.h"
#include "train/refit.h"

static struct train_result result;
static const char *data[1];

static struct train_config config_of(const char *model, int threads)
{
    struct train_config c = training_config(model, data);
    c.threads = threads;
    return c;
}

static void train(const struct train_config *c)
{
    struct err e = {0};
    size_t live = mem_live();
    if (train_run(c, &result, &e) != 0)
        fail_msg("%s", e.text);
    assert_int_equal(mem_live(), live);
}

// Four threads train on few rows, and on rows that are made while others are trained.
static void shared_rows(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        enum rule_kind rule;
        bool sees_pairs; // whether the model can learn pairs of two fields, which decide
                         // the label
    } runs[] = {{"lr", RULE_ADAGRAD, false},
                {"fm", RULE_FTRL, true},
                {"ffm", RULE_ADAM, false},
                {"toy", RULE_ADAGRAD, false}};
    data[0] = training_data("few.ffm", 1500, 3, 0);
    for (size_t i = 0; i < sizeof(runs) / sizeof(*runs); i++) {
        struct train_config c = config_of(runs[i].model, 4);
        c.model = training_model_by(runs[i].model, runs[i].rule);
        c.model.dim = 8;
        train(&c);
        assert_int_equal(result.examples, 1500);
        assert_int_equal(result.trained_examples, 4500);
        assert_int_equal(result.keys, 12);
        assert_true(result.tested && isfinite(result.test.logloss));
        if (runs[i].sees_pairs)
            assert_true(result.test.auc > 0.9);
    }
}

static void growing_tables(void **state)
{
    (void)state;
    data[0] = training_data("long.ffm", 700, 500, 5000);
    for (size_t kind = 0; model_at(kind) != NULL; kind++)
        for (int deterministic = 0; deterministic < 2; deterministic++) {
            struct train_config c = config_of(model_at(kind)->name, 4);
            c.data_in = DATA_IN_STREAM;
            c.deterministic = deterministic;
            c.valid_part.share = 0.1;
            c.model.fields = 4;
            train(&c);
            assert_int_equal(result.examples, 700);
            assert_true(result.validated && result.valid.examples > 30);
            assert_true(result.keys > 1000);
        }
}

// Checks the counts in the result of a run.
static void counts(void **state)
{
    (void)state;
    data[0] = training_data("counts.ffm", 100, 3, 0);
    struct train_config c = config_of("lr", 2);
    c.valid_part.share = 0.3;
    c.epochs = 5;
    c.patience = 1;
    train(&c);
    uint64_t held_out = result.valid.examples;
    assert_in_range(held_out, 10, 60);
    assert_int_equal(result.trained_examples, result.epochs * (100 - held_out));
    assert_int_equal(result.test.examples, 100);
    assert_true(result.total_seconds >= result.train_seconds + result.read_seconds);
    assert_int_equal(result.skipped_lines, 0);
    assert_string_equal(result.saved, "");
}

static atomic_bool stop_now;

// A signal that came while the data was read ends the run at once, before training.
static void interrupted(void **state)
{
    (void)state;
    data[0] = training_data("stop.ffm", 100, 3, 0);
    atomic_store(&stop_now, true);
    for (int deterministic = 0; deterministic < 2; deterministic++) {
        struct train_config c = config_of("lr", 3);
        struct err e = {0};
        c.interrupted = &stop_now;
        c.deterministic = deterministic;
        assert_int_equal(train_run(&c, &result, &e), TUG_EINTERRUPTED);
        assert_non_null(strstr(e.text, "nothing was saved"));
        assert_int_equal(result.trained_examples, 0);
        c.valid_part.share = 0.3;
        // The directory is missing, but the error is the interruption.
        c.out = "somewhere";
        assert_int_equal(refit_run(&c, &result, &e), TUG_EINTERRUPTED);
        assert_non_null(strstr(e.text, "nothing was saved"));
        assert_null(strstr(e.text, "no --out"));
    }
}

static void stop_after_second(void *ctx, const struct train_news *n)
{
    (void)ctx;
    if (n->done && n->pass == 2)
        atomic_store(&stop_now, true);
}

// The error of a run that is interrupted between two passes names the pass that has ended,
// as do the lines of progress before.
static void interrupted_between_passes(void **state)
{
    (void)state;
    const struct train_listener listener = {.hear = stop_after_second};
    struct train_config c = config_of("lr", 3);
    struct err e = {0};
    data[0] = training_data("between.ffm", 100, 3, 0);
    atomic_store(&stop_now, false);
    c.interrupted = &stop_now;
    c.listener = &listener;
    assert_int_equal(train_run(&c, &result, &e), TUG_EINTERRUPTED);
    assert_string_equal(e.text,
                        "interrupted after pass 2; nothing was saved, because there "
                        "is no --out DIR");
    assert_int_equal(result.epochs, 2);
}

// A fraction of --valid that leaves no example for training or for
// validation is an error.
static void nothing_left(void **state)
{
    (void)state;
    data[0] = training_data("ten.ffm", 10, 3, 0);
    struct train_config c = config_of("lr", 2);
    for (int in = DATA_IN_MEMORY; in <= DATA_IN_STREAM; in++) {
        struct err e = {0};
        c.data_in = (enum data_in)in;
        c.valid_part.share = 0.9999999;
        assert_int_equal(train_run(&c, &result, &e), TUG_EDATA);
        assert_non_null(strstr(e.text, "none of the 10 examples to train on"));
        c.valid_part.share = 1e-9;
        assert_int_equal(train_run(&c, &result, &e), TUG_EDATA);
        assert_non_null(strstr(e.text, "none of the 10 examples to validate on"));
    }
}

// Refuses test data with a field for which the model has no vectors, and a csv file with
// more columns than --fields.
static void too_many_fields(void **state)
{
    (void)state;
    const char *more[] = {
        files_write(files_in("more.ffm"), "1 0:1:1\n0 0:1:1 3:2:1 4000:7:1\n")};
    data[0] = training_data("four.ffm", 50, 3, 0);
    struct train_config c = config_of("ffm", 2);
    struct err e = {0};
    c.model.fields = 0;
    c.test.items = more;
    assert_int_equal(train_run(&c, &result, &e), TUG_EDATA);
    assert_non_null(strstr(e.text, "more.ffm:2: field 4000 is not below 4"));
    assert_null(strstr(e.text, "subtract 1"));
    more[0] = files_write(files_in("one.ffm"), "1 1:1:1\n0 1:1:1 4:2:1\n");
    assert_int_equal(train_run(&c, &result, &e), TUG_EDATA);
    assert_non_null(strstr(e.text, "field 4 is not below 4"));
    assert_non_null(strstr(e.text, "counts its fields from 1 and the training data did "
                                   "from 0, subtract 1"));
    data[0] = files_write(files_in("three.csv"), "label,a,b,c\n1,2,3,4\n0,3,4,5\n");
    c.reader.format = "csv";
    c.model.fields = 2;
    c.test.n = 0;
    assert_int_equal(train_run(&c, &result, &e), TUG_EDATA);
    assert_non_null(strstr(e.text, "three.csv:2: field "));
}

// Errors of the first save are reported before training: a directory that another run
// writes to, and names that JSON cannot hold. Long lists of columns are allowed.
static void saves_that_would_fail(void **state)
{
    (void)state;
    static char drop[3000];
    data[0] = files_write(files_in("two.csv"), "y,a,b\n1,2,3\n0,3,4\n");
    struct train_config c = config_of("lr", 2);
    struct err e = {0};
    int lock;
    c.reader.format = "csv";
    c.out = files_in("out");
    assert_int_equal(file_make_dir(c.out, &e), 0);
    assert_int_equal(file_lock_dir(c.out, &lock, &e), 0);
    assert_int_equal(train_run(&c, &result, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "in use by another process"));
    file_unlock_dir(lock);
    data[0] = files_write(files_in("latin.csv"), "y,caf\xe9\n1,2\n0,3\n");
    assert_int_equal(train_run(&c, &result, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "must be UTF-8"));
    data[0] = files_in("two.csv");
    for (size_t i = 0; i + 2 < sizeof(drop); i += 2)
        memcpy(drop + i, "a,", 3);
    drop[sizeof(drop) - 3] = 0; // removes the last comma
    c.reader.drop = drop;
    train(&c);
    struct saved_run m;
    struct schema_column column;
    size_t at = 0;
    assert_int_equal(saved_read(&m, result.saved, &e), 0);
    assert_int_equal(m.schema.columns, 3);
    assert_true(schema_next(&m.schema, &at, &column) && column.use == SCHEMA_LABEL);
    assert_true(schema_next(&m.schema, &at, &column) && column.use == SCHEMA_DROPPED);
    assert_true(schema_next(&m.schema, &at, &column) && column.use == SCHEMA_WORDS);
    assert_string_equal(column.name, "b");
}

// The states of some rules are decaying means (moments). Changes of several workers to
// them cannot be added up, because the sum would fall below zero.
static void hot_rows_that_decay(void **state)
{
    (void)state;
    static char text[20000 * 20];
    size_t n = 0;
    for (int i = 0; i < 20000; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%d 1:%g\n", i % 2,
                              i < 2000 ? 5 : 0.01);
    data[0] = files_write(files_in("falling.svm"), text);
    struct train_config c = config_of("lr", 8);
    c.reader.format = "libsvm";
    c.batch = 256;
    c.epochs = 8;
    c.model = training_model_by("lr", RULE_RMSPROP);
    train(&c);
}

// Uses one thread. The threads that read ahead also allocate memory, so the n-th
// allocation may be one of theirs.
static void failing_allocations(void **state)
{
    (void)state;
    data[0] = training_data("tiny.ffm", 40, 3, 0);
    struct train_config c = config_of("fm", 1);
    c.epochs = 1;
    c.deterministic = true;
    c.valid_part.share = 0.2;
    FAIL_EACH_ALLOCATION(train_run(&c, &result, &test_err), );
    c = config_of("ffm", 1);
    c.epochs = 1;
    c.test.n = 0;
    FAIL_EACH_ALLOCATION(train_run(&c, &result, &test_err), );
}

static int quiet(void **state)
{
    log_set_level(LOG_ERROR);
    assert_int_equal(model_register(&toy, NULL), 0);
    return files_begin(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shared_rows),
        cmocka_unit_test(growing_tables),
        cmocka_unit_test(counts),
        cmocka_unit_test(interrupted),
        cmocka_unit_test(interrupted_between_passes),
        cmocka_unit_test(nothing_left),
        cmocka_unit_test(too_many_fields),
        cmocka_unit_test(saves_that_would_fail),
        cmocka_unit_test(hot_rows_that_decay),
        cmocka_unit_test(failing_allocations),
    };
    return cmocka_run_group_tests(tests, quiet, files_end);
}
