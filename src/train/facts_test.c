// Checks the JSON that train_facts_put writes about a run.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/facts.h"

#include <math.h>
#include <string.h>

#include <jansson.h>

#include "kit/clock.h"
#include "kit/files.h"
#include "kit/test.h"
#include "os/clock.h"
#include "train/history.h"

static json_t *printed(struct train_facts *f)
{
    struct buf b = BUF_INIT(1 << 20);
    struct json_out o = JSON_OUT(&b);
    json_out_open(&o, NULL, '{');
    train_facts_put(f, "run", &o);
    json_out_close(&o, '}');
    assert_int_equal(o.rc, 0);
    json_t *all = json_loadb(b.data, b.len, 0, NULL);
    assert_non_null(all);
    buf_free(&b);
    json_t *run = json_incref(json_object_get(all, "run"));
    json_decref(all);
    return run;
}

static void text_is(const json_t *o, const char *name, const char *want)
{
    const char *text = json_string_value(json_object_get(o, name));
    assert_true(want == NULL ? text == NULL : text != NULL && strcmp(text, want) == 0);
}

static void number_is(const json_t *o, const char *name, double want)
{
    const json_t *v = json_object_get(o, name);
    if (isnan(want))
        assert_true(json_is_null(v));
    else
        assert_true(json_is_number(v) && fabs(json_number_value(v) - want) < 1e-9);
}

static void nobody_asks(void **state)
{
    (void)state;
    train_facts_begin(NULL, "lr", 1);
    assert_int_equal(train_facts_state(NULL, TRAIN_SAVING), TRAIN_SAVING);
    assert_false(train_facts_due(NULL));
    train_facts_alive(NULL);
    train_facts_saved(NULL, "x", 1, 1, NULL);
    train_facts_past(NULL, NULL, 0);
    train_facts_end(NULL, &(struct err){.code = TUG_EIO, .text = "x"});
    train_facts_close(NULL);
}

static void a_run(void **state)
{
    (void)state;
    struct train_facts *f = NULL;
    struct err e;
    assert_int_equal(train_facts_open(&f, &e), 0);
    train_facts_begin(f, "fm", 3);
    json_t *run = printed(f);
    text_is(run, "state", "loading");
    number_is(run, "loss", (double)NAN);
    assert_true(json_is_null(json_object_get(json_object_get(run, "saves"), "last")));
    json_decref(run);

    struct metrics m = {.examples = 100, .logloss = .5, .auc = (double)NAN};
    train_facts_progress(f, &(struct train_now){1, .25, 7, &m});
    assert_int_equal(train_facts_state(f, TRAIN_SAVING), TRAIN_LOADING);
    struct history_pass p = {.pass = 1, .examples = 400, .validated = true};
    p.seen[0] = (struct history_score){400, .4, .8};
    p.valid[0] = (struct history_score){100, .6, .7};
    struct history h = {.labels = 1, .pass = &p, .n = 1};
    run = printed(f);
    number_is(run, "share", .25);
    number_is(run, "examples", 100);
    number_is(run, "batches", 7);
    number_is(run, "auc", (double)NAN);
    json_decref(run);

    train_facts_pass(f, &h, 1, .55);
    files_write(files_in("save"), "12345");
    train_facts_saved(f, files_dir, .5, 1, NULL);
    train_facts_saved(f, NULL, .5, 1, "the disk is full");
    train_facts_end(f, &(struct err){.code = TUG_EDATA,
                                     .reason = REASON_RUN_ENDED,
                                     .about = REASON_DIVERGED,
                                     .text = "worker 1 ended: \"x\""});
    run = printed(f);
    text_is(run, "state", "failed");
    text_is(run, "error", "worker 1 ended: \"x\"");
    assert_true(json_is_true(json_object_get(run, "diverged")));
    number_is(run, "loss", .4);
    number_is(run, "base_loss", .55);
    number_is(run, "valid_auc", .7);
    number_is(run, "best_pass", 1);
    assert_int_equal(json_array_size(json_object_get(run, "history")), 1);
    const json_t *saves = json_object_get(run, "saves");
    number_is(saves, "made", 1);
    number_is(saves, "failed", 1);
    text_is(saves, "error", "the disk is full");
    number_is(json_object_get(saves, "last"), "bytes", 5);
    json_decref(run);
    train_facts_close(f);
}

static double number_of(struct train_facts *f, const char *name)
{
    json_t *run = printed(f);
    double x = json_number_value(json_object_get(run, name));
    json_decref(run);
    return x;
}

// The reported speed falls while no example is trained. The share of a pass is 1 while
// the pass is validated.
static void a_run_that_stands_still(void **state)
{
    (void)state;
    struct train_facts *f = NULL;
    struct metrics m = {.examples = 1000};
    assert_int_equal(train_facts_open(&f, NULL), 0);
    kit_clock_skip(SECOND_NS);
    train_facts_progress(f, &(struct train_now){1, .69, 7, &m});
    double rate = number_of(f, "examples_per_second");
    assert_true(rate > 500 && rate <= 1000);
    kit_clock_skip(100 * SECOND_NS);
    assert_true(number_of(f, "examples_per_second") < rate / 10);
    (void)train_facts_state(f, TRAIN_VALIDATING);
    assert_true(number_of(f, "share") == 1);
    train_facts_close(f);
}

// A validation or save that stalls makes no progress. Each change of the state counts as
// progress. A complete save removes the error of an earlier save.
static void each_state_has_progress(void **state)
{
    (void)state;
    struct train_facts *f = NULL;
    assert_int_equal(train_facts_open(&f, NULL), 0);
    kit_clock_skip(100 * SECOND_NS);
    assert_true(number_of(f, "seconds_since_progress") >= 100);
    (void)train_facts_state(f, TRAIN_VALIDATING);
    assert_true(number_of(f, "seconds_since_progress") < 50);
    kit_clock_skip(100 * SECOND_NS);
    assert_true(number_of(f, "seconds_since_progress") >= 100);
    train_facts_alive(f);
    assert_true(number_of(f, "seconds_since_progress") < 50);
    kit_clock_skip(100 * SECOND_NS);
    (void)train_facts_state(f, TRAIN_SAVING);
    assert_true(number_of(f, "seconds_since_progress") < 50);
    train_facts_saved(f, NULL, .5, 1, NULL);
    train_facts_saved(f, files_dir, .5, 1, NULL);
    json_t *run = printed(f);
    text_is(json_object_get(run, "saves"), "error", NULL);
    json_decref(run);
    train_facts_close(f);
}

// The last examples of a pass are counted only after its validation, but were trained
// before it: the time of the validation must not lower the speed.
static void short_passes_have_their_speed(void **state)
{
    (void)state;
    struct train_facts *f = NULL;
    struct metrics m = {.examples = 1000};
    assert_int_equal(train_facts_open(&f, NULL), 0);
    for (uint32_t pass = 1; pass < 30; pass++) {
        (void)train_facts_state(f, TRAIN_TRAINING);
        kit_clock_skip(SECOND_NS / 4);
        (void)train_facts_state(f, TRAIN_VALIDATING);
        kit_clock_skip(SECOND_NS / 2);
        (void)train_facts_state(f, TRAIN_TRAINING);
        train_facts_progress(f, &(struct train_now){pass, 1, pass, &m});
    }
    double rate = number_of(f, "examples_per_second");
    assert_true(rate > 3000 && rate <= 4000);
    train_facts_close(f);
}

// The speed is that of training: the time of a validation does not count, and one slow
// second does not turn the time left into hours.
static void the_speed_is_that_of_training(void **state)
{
    (void)state;
    struct train_facts *f = NULL;
    struct metrics m = {.examples = 1000};
    assert_int_equal(train_facts_open(&f, NULL), 0);
    (void)train_facts_state(f, TRAIN_TRAINING);
    kit_clock_skip(SECOND_NS);
    train_facts_progress(f, &(struct train_now){1, .5, 1, &m});
    (void)train_facts_state(f, TRAIN_VALIDATING);
    kit_clock_skip(100 * SECOND_NS);
    double rate = number_of(f, "examples_per_second");
    assert_true(rate > 500 && rate <= 1000); // a validation is not a standstill
    (void)train_facts_state(f, TRAIN_TRAINING);
    kit_clock_skip(SECOND_NS);
    train_facts_progress(f, &(struct train_now){2, .5, 2, &m});
    rate = number_of(f, "examples_per_second");
    assert_true(rate > 500 && rate <= 1000);
    kit_clock_skip(SECOND_NS);
    m.examples = 1001;
    train_facts_progress(f, &(struct train_now){2, .5, 3, &m});
    assert_true(number_of(f, "examples_per_second") > rate / 2);
    train_facts_close(f);
}

// A scheduler that was started again has not trained the first examples of its pass: they
// must not count in its speed.
static void the_speed_leaves_out_other_processes(void **state)
{
    (void)state;
    struct train_facts *f = NULL;
    struct metrics m = {.examples = 1000000};
    assert_int_equal(train_facts_open(&f, NULL), 0);
    train_facts_goes_on(f);
    (void)train_facts_state(f, TRAIN_TRAINING);
    kit_clock_skip(SECOND_NS);
    train_facts_progress(f, &(struct train_now){7, .5, 1, &m});
    kit_clock_skip(SECOND_NS);
    m.examples += 1000;
    train_facts_progress(f, &(struct train_now){7, .6, 2, &m});
    double rate = number_of(f, "examples_per_second");
    assert_true(rate > 500 && rate <= 1000);
    train_facts_close(f);
}

// Only the last 1,000 passes are kept.
static void many_passes(void **state)
{
    (void)state;
    struct train_facts *f = NULL;
    assert_int_equal(train_facts_open(&f, NULL), 0);
    struct history_pass p = {.examples = 4};
    struct history h = {.labels = 1, .pass = &p, .n = 1};
    for (p.pass = 1; p.pass <= 1003; p.pass++)
        train_facts_pass(f, &h, 0, (double)NAN);
    json_t *run = printed(f);
    const json_t *all = json_object_get(run, "history");
    assert_int_equal(json_array_size(all), 1000);
    number_is(json_array_get(all, 0), "pass", 4);
    number_is(json_array_get(all, 999), "pass", 1003);
    json_decref(run);
    train_facts_close(f);
}

static void best_is(const json_t *run, const char *name, double value, double pass)
{
    const json_t *one = json_object_get(json_object_get(run, "best"), name);
    if (isnan(value)) {
        assert_true(json_is_null(one));
        return;
    }
    number_is(one, "value", value);
    number_is(one, "pass", pass);
}

// The best values are those of all passes, although only the last 1,000 passes are kept.
static void the_best_of_all_passes(void **state)
{
    (void)state;
    struct train_facts *f = NULL;
    assert_int_equal(train_facts_open(&f, NULL), 0);
    json_t *run = printed(f);
    best_is(run, "valid_auc", (double)NAN, 0);
    json_decref(run);
    struct history_pass p = {.examples = 4, .validated = true};
    struct history h = {.labels = 1, .pass = &p, .n = 1};
    for (p.pass = 1; p.pass <= 1200; p.pass++) {
        p.seen[0] = (struct history_score){4, p.pass == 5 ? .1 : .4, (double)NAN};
        p.valid[0] = (struct history_score){4, p.pass == 3 ? .3 : .5,
                                            p.pass == 7 ? .9 : .6};
        train_facts_pass(f, &h, 3, (double)NAN);
    }
    run = printed(f);
    best_is(run, "loss", .1, 5);
    best_is(run, "auc", (double)NAN, 0);
    best_is(run, "valid_loss", .3, 3);
    best_is(run, "valid_auc", .9, 7);
    number_is(json_array_get(json_object_get(run, "history"), 0), "pass", 201);
    json_decref(run);
    train_facts_close(f);
}

// A resumed run, and a scheduler that takes over, show the passes before.
static void passes_of_an_earlier_process(void **state)
{
    (void)state;
    struct train_facts *f = NULL;
    assert_int_equal(train_facts_open(&f, NULL), 0);
    struct history_pass p[3] = {{.pass = 1, .examples = 9, .validated = true},
                                {.pass = 2, .examples = 9, .validated = true},
                                {.pass = 3, .examples = 9, .validated = true}};
    for (int i = 0; i < 3; i++) {
        p[i].seen[0] = (struct history_score){9, .5, .6};
        p[i].valid[0] = (struct history_score){9, .5 + .1 * i, .7};
    }
    struct history h = {.labels = 1, .pass = p, .n = 2};
    kit_clock_skip(SECOND_NS);
    train_facts_past(f, &h, 1);
    json_t *run = printed(f);
    assert_int_equal(json_array_size(json_object_get(run, "history")), 2);
    number_is(run, "best_pass", 1);
    number_is(run, "valid_loss", .6);
    number_is(run, "examples_per_second", (double)NAN); // another process trained them
    best_is(run, "valid_loss", .5, 1);
    json_decref(run);
    h.n = 3;
    train_facts_pass(f, &h, 1, (double)NAN);
    run = printed(f);
    assert_int_equal(json_array_size(json_object_get(run, "history")), 3);
    number_is(run, "pass", 3);
    json_decref(run);
    train_facts_close(f);
}

static void tables(void **state)
{
    (void)state;
    struct train_facts *f = NULL;
    struct buf b = BUF_INIT(1 << 20);
    struct json_out o = JSON_OUT(&b);
    train_facts_tables(NULL, NULL, 0);
    train_facts_put_tables(NULL, &o);
    assert_int_equal(train_facts_open(&f, NULL), 0);
    const struct train_table two[] = {{.name = "sparse",
                                       .rows = 5,
                                       .bytes = 640,
                                       .cold = true,
                                       .cold_rows = 3,
                                       .hits = 8,
                                       .reads = 2,
                                       .writes = 9},
                                      {.name = "dense", .rows = 1, .bytes = 1024}};
    train_facts_tables(f, two, 2);
    json_out_open(&o, NULL, '{');
    train_facts_put_tables(f, &o);
    json_out_close(&o, '}');
    assert_int_equal(o.rc, 0);
    assert_string_equal(buf_str(&b),
                        "{\"tables\":[{\"id\":0,\"name\":\"sparse\",\"rows\":5,\"bytes\":"
                        "640,\"cold\":{\"rows\":3,\"hits\":8,\"reads\":2,\"writes\":9}},{"
                        "\"id\":1,\"name\":\"dense\",\"rows\":1,\"bytes\":1024}]}");
    buf_free(&b);
    train_facts_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_asks),
        cmocka_unit_test(a_run),
        cmocka_unit_test(a_run_that_stands_still),
        cmocka_unit_test(the_speed_is_that_of_training),
        cmocka_unit_test(the_speed_leaves_out_other_processes),
        cmocka_unit_test(short_passes_have_their_speed),
        cmocka_unit_test(each_state_has_progress),
        cmocka_unit_test(many_passes),
        cmocka_unit_test(the_best_of_all_passes),
        cmocka_unit_test(passes_of_an_earlier_process),
        cmocka_unit_test(tables),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
