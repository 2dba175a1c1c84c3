// Training: validation and early stopping, held-out examples, divergence, progress lines,
// threads that share rows.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/command.h"

#include <math.h>
#include <sys/stat.h>

#include "train/evaluate/evaluate.h"

static const char *const svm = "--data data.svm --format libsvm --threads 2";

static json_t *valid_of(json_t *o)
{
    json_t *v = json_object_get(o, "valid");
    assert_true(json_is_object(v));
    return v;
}

static double valid_number(const char *name)
{
    json_t *o = e2e_json();
    double x = json_number_value(json_object_get(valid_of(o), name));
    json_decref(o);
    return x;
}

// ---------------------------------------------------------------- --valid

// Returns the command of a run with a learning rate that is too high: the validation loss
// gets worse after a few passes.
static const char *stop_early(const char *valid, const char *more)
{
    return files_path(
        "train %s --model fm --lr 1 --l2 0 --prior 0 --no-normalize --deterministic "
        "--valid %s --json --out out %s",
        svm, valid, more);
}

static void early_stop(void **state)
{
    (void)state;
    static const char *const valid[] = {"valid.svm", "0.3"};
    for (size_t i = 0; i < 2; i++) {
        files_remove("out");
        tug_ends(0, "%s", stop_early(valid[i], "--epochs 30 --patience 3"));
        double epochs = e2e_number("epochs"), best = valid_number("epoch");
        assert_true(epochs < 30 && best == epochs - 3);
        e2e_says("stopped after pass");
        double loss = valid_number("logloss");

        // The saved model is that of the best pass: a run of that length ends with the
        // same model.
        tug_ends(0, "eval --from out --data test.svm --json");
        double kept = e2e_number("logloss");
        files_remove("out");
        tug_ends(0, "%s",
                 stop_early(valid[i], files_path("--epochs %.0f --patience 0", best)));
        assert_true(valid_number("logloss") == loss);
        tug_ends(0, "eval --from out --data test.svm --json");
        assert_true(e2e_number("logloss") == kept);

        // With patience 0, the run trains all passes, and still keeps the best model.
        files_remove("out");
        tug_ends(0, "%s", stop_early(valid[i], "--epochs 12 --patience 0"));
        assert_true(e2e_number("epochs") == 12);
        assert_true(valid_number("epoch") == best);
        tug_ends(0, "eval --from out --data test.svm --json");
        assert_true(e2e_number("logloss") == kept);
    }
}

// --valid FILE reports the metrics that eval gives for the kept model and the file.
static void valid_is_eval(void **state)
{
    (void)state;
    files_remove("out");
    tug_ends(0, "train %s --model lr --valid valid.svm --epochs 4 --out out --json", svm);
    double loss = valid_number("logloss"), auc = valid_number("auc");
    tug_ends(0, "eval --from out --data valid.svm --json");
    assert_true(e2e_number("logloss") == loss);
    assert_true(e2e_number("auc") == auc);
}

// --refit gives the model that training on all files for the best number of passes gives.
static void refit(void **state)
{
    (void)state;
    static const char *const valid[] = {"valid.svm", "0.3"};
    for (size_t i = 0; i < 2; i++) {
        const char *how =
            "--format libsvm --model fm --lr 1 --l2 0 --prior 0 --no-normalize "
            "--deterministic --data-in "
            "memory";
        files_remove("again");
        files_remove("whole");
        tug_ends(0,
                 "train --data data.svm --valid %s --epochs 30 --patience 3 %s --refit "
                 "--test test.svm --json --out again",
                 valid[i], how);
        double passes = e2e_number("epochs"), auc = e2e_number("auc");
        double best = valid_number("auc");
        assert_true(valid_number("epoch") == passes && passes < 28 && best > 0);
        tug_ends(0,
                 "train --data data.svm %s --epochs %d %s --test test.svm --json --out "
                 "whole",
                 i == 0 ? valid[i] : "", (int)passes, how);
        assert_true(e2e_number("auc") == auc);
        e2e_same_model("again", "whole");
        files_remove("again");
        tug_ends(0,
                 "launch --servers 1 --workers 2 -- train --data data.svm --valid %s "
                 "--epochs 30 --patience 3 %s --refit --test test.svm --json --out again",
                 valid[i], how);
        assert_true(e2e_number("auc") == auc && valid_number("epoch") == passes);
        assert_true(e2e_number("epochs") == passes && valid_number("auc") == best);
        e2e_same_model("again", "whole");
        tug_ends(2, "train --data data.svm --valid %s %s --refit --resume --out again",
                 valid[i], how);
        e2e_says("--refit cannot be resumed");
    }
    files_remove("pipe");
    assert_int_equal(mkfifo("pipe", 0600), 0);
    tug_ends(2, "train --data pipe --format libsvm --valid 0.1 --refit");
    e2e_says("--refit reads the data several times, and pipe is a pipe");
    tug_ends(2, "train --data data.svm --format libsvm --valid - --refit");
    e2e_says("--refit reads the data several times, and (standard input) is a pipe");
    tug_ends(2, "train %s --refit", svm);
    e2e_says("--refit needs --valid");
    tug_ends(2, "scheduler --servers 1 --workers 1 -- train %s --valid valid.svm --refit",
             svm);
    e2e_says("--refit on a cluster needs tug launch");
    tug_ends(2, "launch --servers 1 --workers 1 -- train %s --refit", svm);
    e2e_says("--refit needs --valid");
    // The error comes before any process starts.
    assert_null(strstr(e2e_err, "scheduler"));
    tug_ends(2,
             "launch --servers 1 --workers 1 -- train %s --refit --valid 0.2 --mode sync "
             "--publish published",
             svm);
    e2e_says("--refit and --publish cannot be used together");
    assert_null(strstr(e2e_err, "scheduler"));
}

static bool is_held_out(size_t row)
{
    return held_out_has((struct held_out){.share = 0.25}, 5, row);
}

static bool is_trained_on_once(size_t row)
{
    return row == 17 || (row == 18 && is_held_out(17));
}

static double held_out_loss(const char *out, const char *data, const char *way)
{
    files_remove(out);
    tug_ends(
        0,
        "train --data %s --format libsvm --model fm --valid 0.25 --seed 5 --epochs 2 "
        "--patience 0 --deterministic --data-in %s --batch 32 --out %s --json",
        data, way, out);
    return valid_number("logloss");
}

// Returns whether the training state after the last pass is the same in both saves.
static bool same_training(const char *a, const char *b)
{
    size_t n[2];
    char *text[2] = {
        files_read(files_path("%s/save-000001/training-sparse-0.rows", a), &n[0]),
        files_read(files_path("%s/save-000001/training-sparse-0.rows", b), &n[1])};
    assert_true(text[0] != NULL && text[1] != NULL);
    bool same = n[0] == n[1] && memcmp(text[0], text[1], n[0]) == 0;
    mem_free(text[0]);
    mem_free(text[1]);
    return same;
}

// Inverting the labels of all held-out examples changes the validation metrics, but no
// bit of the trained model; inverting one trained example's label changes the model.
static void held_out(void **state)
{
    (void)state;
    static const char *const ways[] = {"memory", "stream --window 1"};
    struct e2e_data d = {.path = "long.svm", .rows = 300, .seed = 1, .padding = 8000};
    e2e_write_data(&d);
    d.path = "turned.svm", d.flip = is_held_out;
    e2e_write_data(&d);
    d.path = "one.svm", d.flip = is_trained_on_once;
    e2e_write_data(&d);
    double in_memory = 0;
    for (size_t i = 0; i < 2; i++) {
        double loss = held_out_loss("a", "long.svm", ways[i]);
        if (i == 0)
            in_memory = loss;
        else // windows change the order of the examples
            assert_true(fabs(loss - in_memory) < 0.02);
        assert_true(held_out_loss("b", "turned.svm", ways[i]) > loss + 0.1);
        assert_true(same_training("a", "b"));
        held_out_loss("b", "one.svm", ways[i]);
        assert_false(same_training("a", "b"));
    }
}

static void assert_same_bytes(const char *one, const char *other)
{
    size_t n, m;
    char *a = files_read(one, &n), *b = files_read(other, &m);
    assert_true(a != NULL && b != NULL && n == m);
    assert_memory_equal(a, b, n);
    mem_free(a);
    mem_free(b);
}

// --valid with a fraction of standard input, which can be read only once, gives the loss of
// the same data in a file. Features that only held-out examples have do not change the model.
static void held_out_of_standard_input(void **state)
{
    (void)state;
    const char *options =
        "--format libsvm --model fm --no-normalize --deterministic --json "
        "--valid 0.25 --seed 5 --epochs 3";
    tug_ends(0, "train --data data.svm %s", options);
    double loss = valid_number("logloss");
    e2e_stdin = "data.svm";
    int code = tug("train --data - %s", options);
    e2e_stdin = NULL;
    assert_int_equal(code, 0);
    assert_true(valid_number("logloss") == loss);
    char *text = files_read("data.svm", NULL);
    FILE *f = fopen("unseen.svm", "w");
    size_t row = 0;
    for (const char *line = text; *line != 0; row++) {
        int n = (int)strcspn(line, "\n");
        fprintf(f, "%.*s", n, line);
        if (is_held_out(row))
            fprintf(f, " %zu:1", 1000 + row);
        fputc('\n', f);
        line += n + 1;
    }
    fclose(f);
    mem_free(text);
    tug_ends(0, "train --data unseen.svm %s --out unseen", options);
    assert_true(valid_number("logloss") == loss);
    // Features that no trained example has are not saved.
    tug_ends(0, "train --data data.svm %s --out seen", options);
    assert_same_bytes("seen/save-000001/sparse-0.rows",
                      "unseen/save-000001/sparse-0.rows");
    tug_ends(0, "train --data unseen.svm %s --data-in stream", options);
    assert_true(fabs(valid_number("logloss") - loss) < 1e-9);
}

static void wrong_shares(void **state)
{
    (void)state;
    static const char *const wrong[] = {"0", "1", "1.5", "-0.1", "nan"};
    for (size_t i = 0; i < 4; i++) {
        tug_ends(2, "train %s --valid %s", svm, wrong[i]);
        e2e_says("--valid");
    }
    files_write("few.svm", "1 1:1\n0 2:1\n");
    tug_ends(3, "train --data few.svm --format libsvm --valid 0.000001");
    e2e_says("leaves none of the 2 examples to validate on");
}

static void wrong_combinations(void **state)
{
    (void)state;
    static const struct {
        const char *options, *why;
    } wrong[] = {
        {"--schedule exp --schedule-b 0", "--schedule-b"},
        {"--schedule discexp --schedule-b 0", "--schedule-b"},
        {"--schedule-a 2", "--schedule-a needs --schedule, of which it is a parameter"},
        {"--patience 3", "--patience needs --valid, by which a run stops early"},
        {"--lr 0", "--lr"},
        {"--mode ssp:3", "--mode"},
        {"--mode geo", "--mode"},
        {"--save-every 3", "--out"},
        {"--save-every 3batch --out x", "--save-every"},
        {"--label click", "csv"},
        {"--model ffm", "libffm"},
        {"--test - --valid -", "given twice"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        tug_ends(2, "train %s %s", svm, wrong[i].options);
        e2e_says(wrong[i].why);
    }
    tug_ends(0, "train %s --mode sync --epochs 1", svm);
    tug_ends(0, "train %s --mode async --epochs 1", svm);
}

// ---------------------------------------------------------------- divergence

static void divergence(void **state)
{
    (void)state;
    FILE *f = fopen("wild.svm", "w");
    assert_non_null(f);
    for (int i = 0; i < 200; i++)
        fprintf(f, "%d 1:%d 77:%d\n", i * 1000, i * 900, i % 7 * 1000000);
    fclose(f);
    static const char *const models[] = {"lr", "fm"};
    static const char *const ways[] = {"", "--deterministic",
                                       "--data-in stream --epochs 1", "--threads 1"};
    for (size_t i = 0; i < 8; i++) {
        files_remove("out");
        tug_ends(3,
                 "train --data wild.svm --format libsvm --model %s --loss squared "
                 "--optimizer sgd "
                 "--lr 100 --batch 16 --out out %s",
                 models[i % 2], ways[i / 2]);
        e2e_says("training diverged: the score of wild.svm:");
        e2e_says("not finite");
        e2e_says("--lr");
        assert_true(strstr(e2e_err, "of feature 1") != NULL ||
                    strstr(e2e_err, "of feature 77") != NULL);
        // A diverged model is not saved.
        char names[4][64];
        assert_int_equal(files_list("out", names, 4), 0);
    }
    // The error names the layer.
    files_write("wild.ffm", "1000 0:1:30 1:2:40\n-3000 0:1:50 1:3:70\n9 0:4:60 1:2:80\n");
    tug_ends(3, "train --data wild.ffm --format libffm --model mlp --hidden 4,3 --loss "
                "squared --dense-optimizer sgd --dense-lr 1000 --lr 0.001 --epochs 40 "
                "--threads 1");
    e2e_says("wild.ffm:");
    e2e_says("; in table dense, the weights of ");
}

// The gradient of the last example exceeds a float. No later example reads the weight
// that this gradient changes, so the divergence has to be found at the end.
static void divergence_at_the_end(void **state)
{
    (void)state;
    files_write("end.svm", "1e30 1:1e30\n");
    int code = tug(
        "train --data end.svm --format libsvm --model lr --loss squared --optimizer "
        "sgd --lr 100 --epochs 1 --out wild");
    assert_int_equal(code, 3);
    e2e_says("the weights of feature 1 are not finite (first in end.svm:1)");
    assert_false(files_exists("wild/save-000001"));
}

// In the error about a divergence, a worker of a cluster also names columns and lines,
// wherever the rules are applied.
static void divergence_on_a_cluster(void **state)
{
    (void)state;
    static char text[1 << 16];
    size_t n = (size_t)snprintf(text, sizeof(text), "y,id,word\n");
    for (int i = 0; i < 1000; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%d,%d0000000000000000,w%d\n",
                              i % 3 == 0, i % 100 + 10, i % 7);
    files_write("wild.csv", text);
    tug_ends(3, "launch --servers 1 --workers 2 -- train --data wild.csv --format csv "
                "--label y --numeric id --model fm --out cluster");
    e2e_says("training diverged: an update is not finite (of column 'id', first in "
             "wild.csv:2): use a smaller --lr");
    static const char *const modes[] = {"async", "sync", "half-async"};
    for (size_t i = 0; i < 3; i++) {
        tug_ends(3,
                 "launch --servers 1 --workers 2 -- train --data wild.csv --format csv "
                 "--label y --drop id --model fm --optimizer sgd --lr 900 "
                 "--epochs 20 --mode %s --out cluster",
                 modes[i]);
        e2e_says("training diverged: ");
        e2e_says(" of column 'word', first in wild.csv:");
    }
    assert_false(files_exists("cluster/save-000001"));
}

// Servers apply the rule and skip updates that are not finite. The worker, which knows
// the column, reports their number.
static void left_out_on_a_cluster(void **state)
{
    (void)state;
    static const char *const modes[] = {"sync", "half-async"};
    for (size_t i = 0; i < 2; i++) {
        tug_ends(0,
                 "launch --servers 1 --workers 1 -- train --data wild.csv --format csv "
                 "--label y --numeric id --model fm --epochs 2 --mode %s",
                 modes[i]);
        e2e_says("an update of column 'id' (first in wild.csv:2) was left out, because a "
                 "state of its rule would become infinite: use a smaller --lr");
        e2e_says("of this worker had updates that servers left out");
    }
}

// ---------------------------------------------------------------- progress

static size_t count(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *p = strstr(text, what); p != NULL; p = strstr(p + 1, what))
        n++;
    return n;
}

// Checks that the mean of the windows' losses is the loss of the pass: all windows have
// the same number of examples.
static void windows_add_up(const char *lines)
{
    double sum = 0, loss = 0, window;
    for (int b = 10; b <= 30; b += 10) {
        const char *at = strstr(lines, files_path("batch %d  loss ", b));
        assert_non_null(at);
        assert_int_equal(sscanf(at, "batch %*d  loss %lf", &loss), 1);
        assert_int_equal(sscanf(strstr(at, "window loss "), "window loss %lf", &window),
                         1);
        sum += window;
        assert_true(fabs(sum / (b / 10) - loss) < 2e-5);
    }
}

static void lines_every_n_batches(void **state)
{
    (void)state;
    // 600 examples in batches of 20: 30 batches a pass.
    static const char *const ways[] = {"", "--deterministic",
                                       "--save-every 7batches --out lines"};
    for (size_t i = 0; i < 3; i++) {
        tug_ends(0, "train %s --model lr --epochs 2 --batch 20 --log-every 10 %s", svm,
                 ways[i]);
        assert_int_equal(count(e2e_err, "  batch "), 6);
        for (int b = 10; b <= 60; b += 10)
            e2e_says(files_path("batch %d  loss ", b));
        assert_int_equal(count(e2e_err, "done  loss"), 2);
        windows_add_up(e2e_err);
        assert_int_equal(count(e2e_err, "\033"), 0);
        assert_int_equal(count(e2e_err, "\r"), 0);
    }
    tug_ends(0, "train %s --model lr --epochs 1 --batch 20", svm);
    // The run is too short for a line within a pass.
    assert_int_equal(count(e2e_err, "\n"), 1);
}

// ---------------------------------------------------------------- hogwild

// Many threads train few rows, and new rows are added meanwhile: under ThreadSanitizer
// this test checks that rows are shared only in the intended ways.
static void threads_share_rows(void **state)
{
    (void)state;
    struct e2e_data d = {.path = "shared.ffm", .rows = 2000, .seed = 3, .fields = true};
    e2e_write_data(&d);
    d = (struct e2e_data){.path = "shared.svm", .rows = 700, .seed = 3, .padding = 6000};
    e2e_write_data(&d);
    static const char *const runs[] = {
        "--data shared.svm --format libsvm --model lr",
        "--data shared.svm --format libsvm --model fm --optimizer ftrl",
        "--data shared.svm --format libsvm --model fm --data-in stream --window 1",
        "--data shared.ffm --format libffm --model ffm --dim 2",
        "--data shared.ffm --format libffm --model ffm --deterministic --dim 2",
    };
    for (size_t i = 0; i < sizeof(runs) / sizeof(*runs); i++) {
        tug_ends(0,
                 "train %s --threads 4 --batch 8 --epochs 3 --valid 0.1 --test %s --json "
                 "--log-every 50",
                 runs[i], i < 3 ? "test.svm" : "shared.ffm");
        assert_true(e2e_number("auc") > 0.75);
    }
}

// Several threads together give a model that is not worse than that of one thread.
static void as_good_as_one_thread(void **state)
{
    (void)state;
    double auc[2];
    for (int i = 0; i < 2; i++) {
        tug_ends(0,
                 "train --data data.svm --format libsvm --model fm --threads %d --test "
                 "test.svm "
                 "--json",
                 i == 0 ? 1 : 4);
        auc[i] = e2e_number("auc");
    }
    assert_true(fabs(auc[0] - auc[1]) < 0.03);
}

// Returns the weight of the first row that `table export` prints of a saved model's
// table.
static double exported(const char *model, const char *table)
{
    double key, w;
    tug_ends(0, "table export --from %s --table %s", model, table);
    const char *row = strrchr(e2e_out, '#');
    assert_non_null(row);
    row = strchr(row, '\n');
    assert_true(row != NULL && sscanf(row, "%lf %lf", &key, &w) == 2);
    return w;
}

// Checks one update by all gradients of a batch against the formulas of docs/models.md: 6
// examples of key 1 are clicks, 6 of key 2 are not, so the bias stays 0.
static void penalties_of_batches(void **state)
{
    (void)state;
    const char *six = "1 1:1\n0 2:1\n1 1:1\n0 2:1\n1 1:1\n0 2:1\n";
    files_write("even.svm", files_path("%s%s", six, six));
    static const struct {
        const char *options;
        double want;
    } runs[] = {
        // z = -3, n = 9: l2 is added once, not to each of the six gradients.
        {"--optimizer ftrl --lr .1 --l2 10 --epochs 1", 3 / ((1 + 3) / .1 + 10)},
        // The first pass gives w = 1 / 4. The second adds half of (1 - p) and subtracts
        // half of l2 w: the other half of the batch has another key.
        {"--optimizer sgd --lr 1 --l2 1 --epochs 2 --reduce mean",
         .25 + .5 * (1 - 1 / (1 + exp(-.25))) - .5 * .25},
        {"--optimizer sgd --lr .1 --l2 1 --epochs 2",
         .3 + .6 * (1 - 1 / (1 + exp(-.3))) - .6 * .3},
    };
    static const char *const ways[] = {"", "launch --servers 2 --workers 2 -- "};
    for (size_t i = 0; i < sizeof(runs) / sizeof(*runs); i++)
        for (size_t k = 0; k < 2; k++) {
            files_remove("even");
            tug_ends(0,
                     "%strain --data even.svm --format libsvm --model lr --prior 0 "
                     "--deterministic --batch 100 --out even %s",
                     ways[k], runs[i].options);
            double got = exported("even", "sparse");
            if (fabs(got - runs[i].want) > 1e-5)
                fail_msg("%s%s: %g is not %g", ways[k], runs[i].options, got,
                         runs[i].want);
        }
}

// --l1 makes weights of features 0, but does not apply to the bias.
static void bias_without_penalty(void **state)
{
    (void)state;
    files_write("clicks.svm", "1 1:1\n1 2:1\n1 3:1\n1 1:1\n0 2:1\n1 3:1\n");
    static const char *const ways[] = {"--threads 1", "--deterministic --batch 2"};
    for (size_t i = 0; i < 2; i++) {
        files_remove("clicks");
        tug_ends(0,
                 "train --data clicks.svm --format libsvm --model lr --optimizer sgd "
                 "--lr .1 --l1 5 --prior 0 --epochs 3 --out clicks %s",
                 ways[i]);
        assert_true(exported("clicks", "sparse") == 0);
        assert_true(exported("clicks", "dense") > .2);
    }
}

static int begin(void **state)
{
    if (e2e_begin(state) != 0)
        return -1;
    const struct e2e_data data[] = {
        {.path = "data.svm", .rows = 600, .seed = 1},
        {.path = "valid.svm", .rows = 200, .seed = 3},
        {.path = "test.svm", .rows = 300, .seed = 2},
    };
    for (size_t i = 0; i < sizeof(data) / sizeof(*data); i++)
        e2e_write_data(&data[i]);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(early_stop),
        cmocka_unit_test(valid_is_eval),
        cmocka_unit_test(refit),
        cmocka_unit_test(held_out),
        cmocka_unit_test(held_out_of_standard_input),
        cmocka_unit_test(wrong_shares),
        cmocka_unit_test(wrong_combinations),
        cmocka_unit_test(divergence),
        cmocka_unit_test(divergence_at_the_end),
        cmocka_unit_test(divergence_on_a_cluster),
        cmocka_unit_test(left_out_on_a_cluster),
        cmocka_unit_test(lines_every_n_batches),
        cmocka_unit_test(threads_share_rows),
        cmocka_unit_test(as_good_as_one_thread),
        cmocka_unit_test(penalties_of_batches),
        cmocka_unit_test(bias_without_penalty),
    };
    return cmocka_run_group_tests(tests, begin, e2e_end);
}
