// Several labels on the command line. A rare label is learnt better with a frequent label
// that depends on the same features. Such models are saved, resumed and scored, on any
// number of servers and workers. Labels may be missing. Unsupported options are refused.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "base/random.h"
#include "kit/processes.h"

enum { USERS = 300, ITEMS = 200, CITIES = 20, FACTORS = 3 };

// Returns the sum of three uniform numbers, which has about a normal distribution of
// variance 1.
static double drawn(uint64_t stream, uint64_t i, uint64_t k)
{
    double x = 0;
    for (uint64_t n = 0; n < 3; n++)
        x += 2 * random_f64(stream, k * 3 + n, i) - 1;
    return x;
}

// A click depends on the pair of user and item. A purchase is 15 times rarer; it depends
// on the same pair and a little on the city. `gap`: 1 leaves out the purchase label of
// rows without a click, 2 leaves out the click label of every fourth row.
static void write_rows(const char *path, size_t rows, uint64_t seed, int gap)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "click,user,item,city,buy\n");
    for (size_t i = 0; i < rows; i++) {
        uint64_t user = random_below(seed, 1, i, USERS),
                 item = random_below(seed, 2, i, ITEMS),
                 city = random_below(seed, 3, i, CITIES);
        double z = (drawn(1, user, 9) + drawn(2, item, 9)) / 2;
        for (uint64_t k = 0; k < FACTORS; k++)
            z += drawn(1, user, k) * drawn(2, item, k);
        double y = 0.9 * z + 0.3 * drawn(3, city, 0);
        int click = random_f64(seed, 4, i) < 1 / (1 + exp(0.5 - z)),
            buy = random_f64(seed, 5, i) < 1 / (1 + exp(4.5 - y));
        if (gap == 2 && i % 4 == 0)
            fprintf(f, ",u%d,", (int)user);
        else
            fprintf(f, "%d,u%d,", click, (int)user);
        if (gap == 1 && !click)
            fprintf(f, "i%d,c%d,\n", (int)item, (int)city);
        else
            fprintf(f, "i%d,c%d,%d\n", (int)item, (int)city, buy);
    }
    assert_int_equal(fclose(f), 0);
}

static void write_all(void)
{
    static bool written;
    if (!written) {
        write_rows("train.csv", 60000, 1, 0);
        write_rows("test.csv", 20000, 2, 0);
        write_rows("few.csv", 4000, 3, 0);
    }
    written = true;
}

// Returns a number of one label in the last JSON result: in "labels" of the object
// `where`, or of the whole result if `where` is NULL.
static double of_label(const char *where, const char *label, const char *name)
{
    json_t *o = e2e_json(), *at = where != NULL ? json_object_get(o, where) : o;
    json_t *v = json_object_get(json_object_get(json_object_get(at, "labels"), label),
                                name);
    if (!json_is_number(v))
        cluster_fail("no '%s' of '%s' in: %s", name, label, e2e_out);
    double x = json_number_value(v);
    json_decref(o);
    return x;
}

// Purchases are so rare that a model of purchases alone sees too few of them to learn the
// pairs.
static void a_rare_label_gains(void **state)
{
    (void)state;
    write_all();
    const char *all =
        "train --format csv --data train.csv --test test.csv --hidden 64,32 "
        "--epochs 3 --deterministic --data-in memory --json";
    static const char *const models[] = {"deepfm", "dcn"};
    for (size_t i = 0; i < 2; i++) {
        tug_ends(0, "%s --model %s --label buy --drop click", all, models[i]);
        double buy = e2e_number("auc");
        tug_ends(0, "%s --model %s --label click --drop buy", all, models[i]);
        double click = e2e_number("auc");
        tug_ends(0, "%s --model %s --label click,buy --tower 16", all, models[i]);
        assert_true(of_label(NULL, "click", "auc") == e2e_number("auc"));
        if (of_label(NULL, "buy", "auc") < buy + 0.03 ||
            of_label(NULL, "click", "auc") < click - 0.01)
            cluster_fail("%s: AUC %.5f and %.5f, alone %.5f and %.5f", models[i],
                         of_label(NULL, "click", "auc"), of_label(NULL, "buy", "auc"),
                         click, buy);
    }
}

static const char *const models[] = {"mlp --tower 8 --batch-norm", "wide_deep",
                                     "deepfm --tower 8,4 --task-weights 1,0.5",
                                     "dcn --dropout 0.2"};
enum { N_MODELS = sizeof(models) / sizeof(*models) };

static const char *words_of(const char *model, const char *out, const char *more)
{
    files_remove(out);
    return files_path(
        "train --format csv --data few.csv --test few.csv --label click,buy "
        "--model %s --dim 4 --hidden 16,8 --data-in memory --json --out %s "
        "--batch 100 %s",
        model, out, more);
}

static void launch(const char *words)
{
    cluster_start("run", "launch --servers 2 --workers 2 -- %s", words);
    cluster_ends("run", 0, CLUSTER_PATIENCE);
    cluster_none_left();
}

static void sync_has_the_same_bytes(void **state)
{
    (void)state;
    write_all();
    for (size_t i = 0; i < N_MODELS; i++) {
        const char *all = "--epochs 2 --valid few.csv";
        tug_ends(0, "%s --deterministic --threads 1", words_of(models[i], "one", all));
        double click = of_label(NULL, "click", "auc"), buy = of_label(NULL, "buy", "auc");
        assert_true(of_label("valid", "buy", "logloss") > 0);
        tug_ends(0, "%s --deterministic --threads 3", words_of(models[i], "many", all));
        cluster_same_parts("one", "many");
        launch(files_path("%s --mode sync", words_of(models[i], "many", all)));
        assert_true(of_label(NULL, "click", "auc") == click);
        assert_true(of_label(NULL, "buy", "auc") == buy);
        cluster_same_parts("one", "many");
    }
}

static void others_are_as_good(void **state)
{
    (void)state;
    write_all();
    static const char *const modes[] = {"--mode async", "--mode half-async",
                                        "--mode async --table embedx-threshold=0",
                                        "--mode async --shuffle global"};
    const char *all = "--epochs 8 --optimizer adagrad --latent-lr 0.3 --init 0.05";
    tug_ends(0, "%s --deterministic", words_of("mlp", "one", all));
    double click = of_label(NULL, "click", "auc"), buy = of_label(NULL, "buy", "auc");
    if (click < 0.7 || buy < 0.9)
        cluster_fail("AUC %.5f and %.5f of what was trained on", click, buy);
    for (size_t m = 0; m < sizeof(modes) / sizeof(*modes); m++) {
        launch(files_path("%s %s", words_of("mlp", "many", all), modes[m]));
        if (of_label(NULL, "click", "auc") < click - 0.05 ||
            of_label(NULL, "buy", "auc") < buy - 0.05)
            cluster_fail("%s: AUC %.5f and %.5f, in sync %.5f and %.5f", modes[m],
                         of_label(NULL, "click", "auc"), of_label(NULL, "buy", "auc"),
                         click, buy);
    }
    tug_ends(0, "%s --table accessor=sparse", words_of("mlp", "table", "--epochs 2"));
    tug_ends(2, "%s --table accessor=sparse", words_of("deepfm", "table", ""));
    e2e_says("deepfm needs one for each of the 2 labels: give --model mlp or dcn");
}

// eval and predict of a saved model give the numbers that train printed, and a run can be
// resumed.
static void saved_and_resumed(void **state)
{
    (void)state;
    write_all();
    for (size_t i = 0; i < N_MODELS; i++) {
        const char *all = "--deterministic --valid few.csv --patience 0";
        tug_ends(0, "%s --epochs 3", words_of(models[i], "whole", all));
        double click = of_label(NULL, "click", "auc"), buy = of_label(NULL, "buy", "auc"),
               valid = of_label("valid", "buy", "auc");
        tug_ends(0, "eval --from whole --data few.csv --json");
        assert_true(of_label(NULL, "click", "auc") == click);
        assert_true(of_label(NULL, "buy", "auc") == buy);
        tug_ends(0, "%s --epochs 2", words_of(models[i], "parts", all));
        tug_ends(0,
                 "train --format csv --data few.csv --test few.csv --label click,buy "
                 "--model %s --dim 4 --hidden 16,8 --data-in memory --json --out parts "
                 "--batch 100 %s --epochs 3 --resume",
                 models[i], all);
        assert_true(of_label("valid", "buy", "auc") == valid);
        cluster_same_parts("whole", "parts");
    }
    tug_ends(2, "train --format csv --data few.csv --label buy,click --model dcn --dim 4 "
                "--hidden 16,8 --out parts --epochs 4 --resume");
    e2e_says("the model has 2 labels, from 'click' on");
    tug_ends(2, "train --format csv --data few.csv --label click,buy --model dcn --dim 4 "
                "--hidden 16,8 --tower 3 --data-in memory --deterministic --dropout 0.2 "
                "--batch 100 --out parts --epochs 4 --resume");
    e2e_says("had --tower nothing, but this run has '3'");
}

// predict writes one column for each label, in the order of --label. The AUC of each
// column is the AUC that eval prints.
static void predicted(void **state)
{
    (void)state;
    write_all();
    tug_ends(0, "%s", words_of("deepfm", "model", "--epochs 2 --deterministic"));
    double wanted[2] = {of_label(NULL, "click", "logloss"),
                        of_label(NULL, "buy", "logloss")},
           loss[2] = {0};
    tug_ends(0, "predict --from model --data few.csv --keep click,buy");
    static const char header[] = "click,buy,prediction_click,prediction_buy\n";
    assert_memory_equal(e2e_out, header, strlen(header));
    size_t n = 0;
    for (const char *p = e2e_out + strlen(header); *p != '\0';
         p = strchr(p, '\n') + 1, n++) {
        int label[2];
        double x[2];
        assert_int_equal(sscanf(p, "%d,%d,%lf,%lf\n", &label[0], &label[1], &x[0], &x[1]),
                         4);
        for (int k = 0; k < 2; k++)
            loss[k] -= log(label[k] ? x[k] : 1 - x[k]);
    }
    assert_int_equal(n, 4000);
    for (int k = 0; k < 2; k++)
        assert_true(fabs(loss[k] / 4000 - wanted[k]) < 1e-5);

    // Data without labels, and with a bad line.
    FILE *f = fopen("new.csv", "w");
    assert_non_null(f);
    fprintf(f, "user,item,city\nu1,i1,c1\nbroken\nu2,i2,c2\n");
    assert_int_equal(fclose(f), 0);
    tug_ends(0, "predict --from model --data new.csv --max-bad-lines 1");
    assert_non_null(strstr(e2e_out, "\nnan,nan\n"));
    tug_ends(0, "predict --from model --data new.csv --max-bad-lines 1 --json");
    assert_non_null(strstr(e2e_out, "{\"prediction\":{\"click\":0."));
    assert_non_null(strstr(e2e_out, ",\"buy\":"));
    tug_ends(2, "predict --from model --data few.csv --explain");
    e2e_says(
        "--explain works only for models with one label, and this model has 2 labels");
}

// A missing label is neither trained on nor counted in metrics; rows without any label
// are refused.
static void missing_labels(void **state)
{
    (void)state;
    write_all();
    write_rows("bought.csv", 4000, 3, 1);
    write_rows("clicked.csv", 4000, 3, 2);
    const char *all =
        "train --format csv --label click,buy --model mlp --dim 4 --hidden 8 "
        "--epochs 2 --json --deterministic";
    tug_ends(0, "%s --data bought.csv --test few.csv", all);
    assert_true(of_label(NULL, "buy", "examples") == 4000);
    tug_ends(0, "%s --data few.csv --test bought.csv", all);
    assert_true(of_label(NULL, "click", "examples") == 4000);
    assert_in_range((int)of_label(NULL, "buy", "examples"), 1000, 3000);
    tug_ends(0, "%s --data clicked.csv --test clicked.csv", all);
    assert_true(of_label(NULL, "click", "examples") == 3000);
    assert_true(of_label(NULL, "buy", "examples") == 4000);
    FILE *f = fopen("none.csv", "w");
    assert_non_null(f);
    fprintf(f, "click,user,buy\n1,u1,\n,u2,\n");
    assert_int_equal(fclose(f), 0);
    tug_ends(3, "%s --data none.csv", all);
    e2e_says("none.csv:3: all 2 labels are missing");

    // A label that no example has is reported.
    f = fopen("unbought.csv", "w");
    assert_non_null(f);
    fprintf(f, "click,user,buy\n1,u1,\n0,u2,\n1,u2,\n");
    assert_int_equal(fclose(f), 0);
    tug_ends(0, "%s --data unbought.csv", all);
    e2e_says("no example of this pass has the label 'buy'");
    tug_ends(0, "%s --data few.csv", all);
    assert_null(strstr(e2e_err, "no example of this pass"));

    // If several lines are merged into one example, a label comes from the line that has
    // it; if two lines differ, the label is left out.
    f = fopen("merged.csv", "w");
    assert_non_null(f);
    fprintf(f, "click,id,user,item,buy\n1,a,u1,,\n1,a,,i1,\n0,b,u1,,1\n0,b,,i2,\n"
               "1,c,u2,,1\n0,c,,i2,\n");
    assert_int_equal(fclose(f), 0);
    tug_ends(0, "%s --data merged.csv --drop id --merge-ids id:2", all);
    assert_true(e2e_number("examples") == 2);
}

static void progress_names_labels(void **state)
{
    (void)state;
    write_all();
    tug_ends(0,
             "train --format csv --data few.csv --valid few.csv --test few.csv --label "
             "buy,click --model mlp --dim 4 --hidden 8 --epochs 1 --log-every 10");
    e2e_says("  buy loss 0.");
    e2e_says("  window buy loss 0.");
    e2e_says("  window click auc 0.");
    e2e_says("  valid click loss 0.");
    assert_int_equal(strncmp(e2e_out, "test buy  auc 0.", 16), 0);
    assert_non_null(strstr(e2e_out, "\ntest click  auc 0."));
}

static void refused(void **state)
{
    (void)state;
    write_all();
    static const char *const cases[][2] = {
        {"--model fm --label click,buy",
         "the examples have 2 labels, but model fm can learn only one"},
        {"--model mlp --label click --drop buy --tower 8",
         "--tower needs several labels"},
        {"--model mlp --label click --drop buy --task-weights 2",
         "there is 1 weight, and 1 label, whose loss needs none"},
        {"--model mlp --label click,buy --task-weights 1,2,3",
         "--task-weights: there are 3 weights, and 2 labels"},
        {"--model mlp --label click,buy --task-weights 1,0",
         "--task-weights: '1,0' is not a list of weights"},
        {"--model mlp --label click,buy --tower 8,0", "--tower: '8,0' is not a list"},
        {"--model mlp --label click,click", "--label names the column 'click' twice"},
        {"--model mlp --label click,bought", "no column 'bought', which --label names"},
        {"--model lr --label click --drop buy --tower 8",
         "--tower: an lr model has no layers"},
        {"--model mlp --label click,buy --fields 3",
         "several --label and --fields cannot be used together"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        assert_int_not_equal(tug("train --data few.csv --format csv %s", cases[i][0]), 0);
        e2e_says(cases[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_test(a_rare_label_gains),
        cluster_test(sync_has_the_same_bytes),
        cluster_test(others_are_as_good),
        cluster_test(saved_and_resumed),
        cluster_test(predicted),
        cluster_test(missing_labels),
        cluster_test(progress_names_labels),
        cluster_test(refused),
    };
    return cmocka_run_group_tests(tests, cluster_begin, cluster_end);
}
