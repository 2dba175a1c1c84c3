// Interfaces for scripts: the JSON of train and eval, predictions, tables as text,
// --init-from, standard input, directories and globs.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/command.h"

#include <math.h>
#include <sys/stat.h>

// ---------------------------------------------------------------- JSON

// The keys of the JSON result, each with its type: s text, i whole number, r number, ?
// number or null.
static const struct key {
    const char *name;
    char type;
} keys[] = {
    {"command", 's'},        {"model", 's'},   {"format", 's'},
    {"examples", 'i'},       {"epochs", 'i'},  {"auc", '?'},
    {"logloss", '?'},        {"copc", '?'},    {"examples_per_second", '?'},
    {"pr_auc", '?'},         {"ne", '?'},      {"mae", '?'},
    {"rmse", '?'},           {"keys", 'i'},    {"bytes_per_key", 'r'},
    {"peak_rss_bytes", 'i'}, {"threads", 'i'}, {"workers", 'i'},
    {"servers", 'i'},        {"seed", 'i'},    {"out", 's'},
    {"skipped_lines", 'i'},
};

static bool has_type(const json_t *v, char type)
{
    switch (type) {
    case 's':
        return json_is_string(v);
    case 'i':
        return json_is_integer(v) && json_integer_value(v) >= 0;
    case 'r':
        return json_is_number(v);
    default:
        return json_is_number(v) || json_is_null(v);
    }
}

static void check_json(void)
{
    json_t *o = e2e_json();
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
        if (!has_type(json_object_get(o, keys[i].name), keys[i].type))
            fail_msg("'%s' is missing or of another type: %s", keys[i].name, e2e_out);
    static const char *const seconds[] = {"read", "train", "test", "total"};
    const json_t *s = json_object_get(o, "seconds");
    for (size_t i = 0; i < 4; i++) {
        const json_t *v = json_object_get(s, seconds[i]);
        assert_true(json_is_number(v) && json_number_value(v) >= 0);
    }
    json_decref(o);
}

static void check_text(const char *name, const char *want)
{
    json_t *o = e2e_json();
    assert_string_equal(json_string_value(json_object_get(o, name)), want);
    json_decref(o);
}

// The parts of "seconds" add up to the total, because "other" is the time outside all
// other parts.
static void seconds_add_up(void)
{
    static const char *const parts[] = {"read", "train", "valid",
                                        "save", "test",  "other"};
    json_t *o = e2e_json(), *seconds = json_object_get(o, "seconds");
    double sum = 0, total = json_number_value(json_object_get(seconds, "total"));
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
        const json_t *part = json_object_get(seconds, parts[i]);
        assert_true(json_is_real(part) && json_real_value(part) >= 0);
        sum += json_real_value(part);
    }
    assert_true(sum > total * 0.999 && sum < total * 1.001);
    assert_true(json_number_value(json_object_get(seconds, "valid")) > 0);
    assert_true(json_number_value(json_object_get(seconds, "save")) > 0);
    json_decref(o);
}

// Checks that the rows of 600 examples take little memory for each key; the memory that a
// table needs besides its rows is counted in fixed_bytes.
static void bytes_of_rows(void)
{
    assert_true(e2e_number("bytes_per_key") < 1000);
    assert_true(e2e_number("fixed_bytes") > 10000);
}

static void json_of_train_and_eval(void **state)
{
    (void)state;
    files_remove("out");
    tug_ends(0,
             "train --data data.svm --format libsvm --model fm --epochs 3 --threads 2 "
             "--seed 1000000000000000000 --test test.svm --valid 0.1 --out out --json");
    check_json();
    check_text("command", "train");
    check_text("model", "fm");
    check_text("format", "libsvm");
    check_text("out", "out/save-000001");
    double held_out = e2e_number("held_out"); // about a tenth of 600 examples
    assert_true(e2e_number("examples") + held_out == 600 && held_out > 30 &&
                held_out < 90);
    seconds_add_up();
    bytes_of_rows();
    assert_true(e2e_number("epochs") == 3);
    assert_true(e2e_number("threads") == 2);
    assert_true(e2e_number("seed") == 1e18);
    assert_true(e2e_number("examples_per_second") > 0);
    assert_in_range((int)e2e_number("keys"), 80, 96);
    double auc = e2e_number("auc"), logloss = e2e_number("logloss"),
           copc = e2e_number("copc");
    assert_true(auc > 0.75 && auc < 1 && logloss > 0 && copc > 0);
    json_t *o = e2e_json();
    const json_t *valid = json_object_get(o, "valid");
    assert_true(json_number_value(json_object_get(valid, "auc")) > 0.5);
    double ne = json_number_value(json_object_get(valid, "ne"));
    assert_true(ne > 0 && ne < 1);
    json_decref(o);

    // eval of the saved model gives the test metrics that train printed.
    tug_ends(0, "eval --from out --data test.svm --threads 3 --json");
    check_json();
    check_text("command", "eval");
    check_text("model", "fm");
    check_text("out", "out/save-000001");
    assert_true(e2e_number("examples") == 200);
    assert_true(e2e_number("auc") == auc);
    assert_true(e2e_number("logloss") == logloss);
    assert_true(e2e_number("copc") == copc);
}

static void json_without_test(void **state)
{
    (void)state;
    tug_ends(0, "train --data data.svm --format libsvm --model lr --epochs 1 --json");
    check_json();
    assert_true(isnan(e2e_number("auc")));
    assert_true(isnan(e2e_number("logloss")));
    check_text("out", "");
    // With the squared loss, the result has a loss but no AUC.
    tug_ends(0,
             "train --data data.svm --format libsvm --model lr --loss squared --epochs 1 "
             "--test test.svm --json");
    check_json();
    assert_true(isnan(e2e_number("auc")) && isnan(e2e_number("pr_auc")));
    assert_true(isnan(e2e_number("ne")));
    double loss = e2e_number("logloss"), rmse = e2e_number("rmse");
    assert_true(loss > 0 && fabs(rmse * rmse / 2 - loss) < 1e-12);
    assert_true(e2e_number("mae") > 0 && e2e_number("mae") <= rmse);
}

// Without --json, the result is text on standard output, and progress goes to standard
// error.
static void results_as_text(void **state)
{
    (void)state;
    tug_ends(
        0, "train --data data.svm --format libsvm --model lr --epochs 2 --test test.svm");
    double at[5];
    assert_int_equal(sscanf(e2e_out,
                            "test  auc %lf  logloss %lf  copc %lf  pr_auc %lf  ne %lf  (",
                            &at[0], &at[1], &at[2], &at[3], &at[4]),
                     5);
    assert_null(strstr(e2e_out, "pass 1"));
    e2e_says("pass 2/2 done");
    files_remove("logs");
    tug_ends(0,
             "train --data data.svm --format libsvm --model lr --epochs 2 --log-dir logs "
             "--log-level error");
    assert_string_equal(e2e_err, "");
    assert_true(files_exists("logs/train.log"));
}

// ---------------------------------------------------------------- predict

static void predictions(void **state)
{
    (void)state;
    static const struct {
        const char *train, *data;
    } runs[] = {
        {"--data data.svm --format libsvm --model lr", "test.svm"},
        {"--data data.svm --format libsvm --model fm", "test.svm"},
        {"--data data.ffm --format libffm --model ffm", "test.ffm"},
    };
    for (size_t i = 0; i < 3; i++) {
        files_remove("out");
        tug_ends(0, "train %s --epochs 4 --out out", runs[i].train);
        tug_ends(0, "eval --from out --data %s --json", runs[i].data);
        double auc = e2e_number("auc");
        tug_ends(0, "predict --from out --data %s --threads 2", runs[i].data);
        assert_true(fabs(e2e_auc(runs[i].data) - auc) < 1e-6);
        char *said = mem_strdup(e2e_out);
        // Any number of threads gives the same predictions, also in a file.
        tug_ends(0, "predict --from out --data %s --threads 1 --out p.txt", runs[i].data);
        assert_string_equal(e2e_out, "");
        char *text = files_read("p.txt", NULL);
        assert_string_equal(text, said);
        mem_free(text);
        mem_free(said);
    }
}

static void predictions_without_labels(void **state)
{
    (void)state;
    files_remove("out");
    tug_ends(0, "train --data data.svm --format libsvm --model fm --epochs 2 --out out");
    files_write("labels.svm", "1 3:1 14:1\n0 9:1\n0 5:1 77:0.5\n");
    files_write("none.svm", "3:1 14:1\n9:1\n5:1 77:0.5\n");
    tug_ends(0, "predict --from out --data labels.svm");
    char *with = mem_strdup(e2e_out);
    tug_ends(0, "predict --from out --data none.svm");
    assert_string_equal(e2e_out, with);
    tug_ends(3, "eval --from out --data none.svm");
    e2e_says("label is missing");
    e2e_stdin = "none.svm";
    int code = tug("predict --from out --data -");
    e2e_stdin = NULL;
    assert_int_equal(code, 0);
    assert_string_equal(e2e_out, with);
    mem_free(with);
    // csv data may lack the label column.
    files_write("l.csv", "click,site,age\n1,a,30\n0,b,20\n1,a,20\n0,b,30\n");
    files_write("n.csv", "site,age\na,30\nb,20\na,20\nb,30\n");
    files_remove("out");
    tug_ends(0, "train --data l.csv --format csv --model lr --label click --out out");
    tug_ends(0, "predict --from out --data l.csv");
    with = mem_strdup(e2e_out);
    tug_ends(0, "predict --from out --data n.csv");
    assert_string_equal(e2e_out, with);
    mem_free(with);
}

// A feature that training never saw does not change a prediction.
static void unseen_features(void **state)
{
    (void)state;
    files_remove("out");
    tug_ends(0,
             "train --data data.svm --format libsvm --model fm --no-normalize --out out");
    files_write("a", "1 3:1 14:1\n");
    files_write("b", "1 3:1 14:1 123456789:1\n");
    tug_ends(0, "predict --from out --data a");
    char *a = mem_strdup(e2e_out);
    tug_ends(0, "predict --from out --data b");
    assert_string_equal(e2e_out, a);
    mem_free(a);
}

// ---------------------------------------------------------------- table

static void table_stat(void **state)
{
    (void)state;
    files_remove("out");
    tug_ends(0,
             "train --data data.svm --format libsvm --model fm --dim 5 --out out --json");
    int rows = (int)e2e_number("keys");
    tug_ends(0, "table stat --from out");
    assert_non_null(strstr(e2e_out, "model fm, dim 5"));
    assert_non_null(strstr(e2e_out, files_path("table sparse: %d rows", rows)));
    assert_non_null(strstr(e2e_out, "table dense: 1 row,"));
    assert_non_null(strstr(e2e_out, "adagrad"));
    tug_ends(2, "table --from out");
    tug_ends(2, "table banana --from out");
    e2e_says("list stat get settings");
    tug_ends(2, "table drop --table sparse --from out");
    e2e_says("both tables");
    tug_ends(2, "table export --from out --table nothing");
    e2e_says("there are: sparse dense");
}

// Returns the exported rows, behind the lines that describe the columns.
static const char *rows(void)
{
    const char *p = e2e_out;
    while (*p == '#')
        p += strcspn(p, "\n") + 1;
    return p;
}

// Checks that the exported rows are sorted by key, and that each number reads back as the
// same float: written again, it gives the same text.
static void check_export(size_t columns)
{
    uint64_t last = 0;
    const char *p = rows();
    for (size_t row = 0; *p != 0; row++) {
        char *end;
        uint64_t key = strtoull(p, &end, 10);
        assert_true(row == 0 || key > last);
        last = key;
        size_t n = 0;
        for (; *end == ' '; n++) {
            char again[32];
            p = end + 1;
            float x = strtof(p, &end);
            assert_true(isfinite(x));
            int len = snprintf(again, sizeof(again), "%.9g", (double)x);
            assert_int_equal(end - p, len);
            assert_memory_equal(p, again, (size_t)len);
        }
        assert_int_equal(n, columns);
        assert_int_equal(*end, '\n');
        p = end + 1;
    }
}

static size_t lines(void)
{
    size_t n = 0;
    for (const char *p = rows(); *p != 0; p++)
        n += *p == '\n';
    return n;
}

static void table_export(void **state)
{
    (void)state;
    files_remove("out");
    tug_ends(0,
             "train --data data.svm --format libsvm --model fm --dim 5 --out out --json");
    size_t n = (size_t)e2e_number("keys");
    tug_ends(0, "table export --from out");
    assert_memory_equal(e2e_out, "# tug table sparse accessor=features dim=5", 42);
    assert_int_equal(lines(), n);
    check_export(7); // the key, w, its count, and the vector v
    char *text = mem_strdup(e2e_out);
    tug_ends(0, "table export --from out --out t.txt");
    char *written = files_read("t.txt", NULL);
    assert_string_equal(written, text);
    mem_free(written);
    mem_free(text);
    tug_ends(0, "table export --from out --state");
    assert_int_equal(lines(), n);
    check_export(9); // the same columns, and the state of both update rules
    tug_ends(0, "table export --from out --table dense");
    assert_int_equal(lines(), 1);
    assert_memory_equal(rows(), "0 ", 2);
    check_export(1);
}

// The scores of a logistic regression can be computed from the exported text.
static void export_is_the_model(void **state)
{
    (void)state;
    files_remove("out");
    tug_ends(0, "train --data data.svm --format libsvm --model lr --out out");
    tug_ends(0, "table export --from out --table dense");
    double bias = strtod(strchr(rows(), ' '), NULL), w[2] = {0};
    tug_ends(0, "table export --from out");
    for (const char *line = rows(); *line != 0; line = strchr(line, '\n') + 1)
        for (int i = 0; i < 2; i++)
            if (strtoul(line, NULL, 10) == (i == 0 ? 3 : 14))
                w[i] = strtod(strchr(line, ' '), NULL);
    assert_true(w[0] != 0 && w[1] != 0);
    files_write("a", "1 3:0.5 14:2\n");
    tug_ends(0, "predict --from out --data a");
    double want = 1 / (1 + exp(-(bias + 0.5 * w[0] + 2 * w[1])));
    assert_true(fabs(strtod(e2e_out, NULL) - want) < 1e-6);
}

// ---------------------------------------------------------------- --init-from

static double loss_after(const char *more)
{
    files_remove("next");
    tug_ends(
        0,
        "train --data data.svm --format libsvm --model fm --dim 3 --epochs 1 --lr 1e-9 "
        "--optimizer sgd --out next --test test.svm --json %s",
        more);
    return e2e_number("logloss");
}

static void init_from(void **state)
{
    (void)state;
    files_remove("first");
    tug_ends(0, "train --data data.svm --format libsvm --model fm --dim 3 --epochs 9 "
                "--optimizer sgd --lr 0.1 --out first --test test.svm --json");
    double first = e2e_number("logloss");
    double fresh = loss_after(""), all = loss_after("--init-from first");
    double sparse = loss_after("--init-from first --init-tables sparse");
    double dense = loss_after("--init-from first/save-000001 --init-tables dense");
    assert_true(first < fresh - 0.02);
    assert_true(fabs(all - first) < 1e-4); // the further training learned nearly nothing
    assert_true(fabs(loss_after("--init-from first --init-tables dense,sparse") - all) <
                1e-6);
    assert_true(sparse != all && dense != all && dense > sparse);
    static const struct {
        const char *more, *why;
    } wrong[] = {
        {"--init-from first --dim 4", "--dim"},
        {"--init-from first --model lr", "--model"},
        {"--init-from first --optimizer adam", "--optimizer"},
        {"--init-from first --optimizer adagrad", "--optimizer"},
        {"--init-from first --init-tables nothing", "sparse and dense"},
        {"--init-from first --init-tables sparse,nothing", "sparse and dense"},
        {"--init-tables sparse", "--init-from"},
        {"--init-from first --resume --out first", "--resume"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        tug_ends(
            2,
            "train --data data.svm --format libsvm --model fm --dim 3 --optimizer sgd %s",
            wrong[i].more);
        e2e_says(wrong[i].why);
    }
    tug_ends(3, "train --data data.svm --format libsvm --init-from nowhere");
    e2e_says("nowhere");
}

// ---------------------------------------------------------------- sources of data

static void train_to(const char *out, const char *data)
{
    files_remove(out);
    tug_ends(
        0, "train --data %s --format libsvm --model fm --dim 2 --deterministic --out %s",
        data, out);
}

static void standard_input(void **state)
{
    (void)state;
    train_to("file", "data.svm");
    e2e_stdin = "data.svm";
    files_remove("piped");
    int code[] = {
        tug("train --data - --format libsvm --model fm --dim 2 --deterministic --out "
            "piped"),
        tug("train --data - --format libsvm --model lr --data-in stream --epochs 1"),
        tug("train --data - --format libsvm --model lr --data-in stream --epochs 2"),
    };
    e2e_stdin = NULL;
    assert_int_equal(code[0], 0);
    e2e_same_model("file", "piped");
    assert_int_equal(code[1], 0);
    assert_int_equal(code[2], 2);
    e2e_says("--epochs 1");
    e2e_stdin = "data.ffm";
    int ffm = tug("train --data - --format libffm --model ffm");
    int fields = tug("train --data - --format libffm --model ffm --fields 12 --epochs 1");
    e2e_stdin = NULL;
    assert_int_equal(ffm, 2);
    assert_int_equal(fields, 0);
}

static void copy(const char *from, const char *to)
{
    size_t n;
    char *text = files_read(from, &n);
    files_write_bytes(to, text, n);
    mem_free(text);
}

static void directories_and_globs(void **state)
{
    (void)state;
    files_remove("dir");
    assert_int_equal(mkdir("dir", 0700), 0);
    copy("data.svm", "dir/part-0");
    copy("test.svm", "dir/part-1");
    copy("data.ffm", "dir/.hidden");
    copy("data.ffm", "dir/_SUCCESS");
    train_to("two", "data.svm test.svm");
    static const char *const ways[] = {"dir",
                                       "dir/",
                                       "dir/part-*",
                                       "dir/part-[01]",
                                       "dir/part-0 dir/part-1",
                                       "dir/part-0 --data dir/part-1"};
    for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
        train_to("other", ways[i]);
        e2e_same_model("two", "other");
    }
}

// `table get` finds the first row of an export by its key; unknown keys are refused.
static void table_get(void **state)
{
    (void)state;
    files_remove("one");
    tug_ends(0, "train --data data.svm --format libsvm --model fm --epochs 1 --out one");
    tug_ends(0, "table list --from one");
    assert_string_equal(e2e_out, "sparse\ndense\n");
    tug_ends(0, "table export --from one --out -");
    char row[2048], key[32];
    snprintf(row, sizeof(row), "%.*s\n", (int)strcspn(rows(), "\n"), rows());
    snprintf(key, sizeof(key), "%.*s", (int)strcspn(row, " "), row);
    tug_ends(0, "table get %s --from one", key);
    assert_string_equal(rows(), row);
    tug_ends(3, "table get %s 4000000000 --from one", key);
    e2e_says("has no row of key 4000000000");
    tug_ends(2, "table get 1x --from one");
    e2e_says("'1x' is not a key");
    tug_ends(2, "table get --from one");
    tug_ends(0, "table stat --from one --json");
    json_t *o = e2e_json();
    assert_string_equal(json_string_value(json_object_get(o, "model")), "fm");
    const json_t *sparse = json_array_get(json_object_get(o, "tables"), 0);
    assert_string_equal(json_string_value(json_object_get(sparse, "table")), "sparse");
    assert_true(json_integer_value(json_object_get(sparse, "rows")) > 80);
    json_decref(o);
    tug_ends(2, "table stat --from one --table dens");
    e2e_says("holds no table 'dens'; did you mean 'dense'?");
}

static int begin(void **state)
{
    if (e2e_begin(state) != 0)
        return -1;
    const struct e2e_data data[] = {
        {.path = "data.svm", .rows = 600, .seed = 1},
        {.path = "test.svm", .rows = 200, .seed = 2},
        {.path = "data.ffm", .fields = true, .rows = 400, .seed = 1},
        {.path = "test.ffm", .fields = true, .rows = 200, .seed = 2},
    };
    for (size_t i = 0; i < sizeof(data) / sizeof(*data); i++)
        e2e_write_data(&data[i]);
    return 0;
}

// `table top` prints the rows of an export, sorted by the chosen column.
static void table_top(void **state)
{
    (void)state;
    tug_ends(0, "table export --from one --out -");
    double largest = 0, second = 0;
    char key[32] = "";
    for (const char *at = rows(); *at != '\0'; at += strcspn(at, "\n") + 1) {
        double w = 0;
        char k[32];
        assert_int_equal(sscanf(at, "%31s %lf", k, &w), 2);
        if (fabs(w) > fabs(largest)) {
            second = largest;
            largest = w;
            snprintf(key, sizeof(key), "%s", k);
        } else if (fabs(w) > fabs(second)) {
            second = w;
        }
    }
    tug_ends(0, "table top --from one --top 2 --json");
    json_t *o = e2e_json();
    const json_t *list = json_object_get(o, "rows"), *first = json_array_get(list, 0);
    assert_int_equal(json_array_size(list), 2);
    assert_string_equal(json_string_value(json_object_get(first, "key")), key);
    assert_true(fabs(json_number_value(json_object_get(first, "weight")) - largest) <
                1e-6);
    assert_true(
        fabs(json_number_value(json_object_get(json_array_get(list, 1), "weight")) -
             second) < 1e-6);
    json_decref(o);
    tug_ends(0, "table top --from one --top 1 --by shows");
    assert_non_null(strstr(e2e_out, "vector          shows  key\n"));
    tug_ends(2, "table top --from one --table dense --by vector");
    e2e_says("--by vector: the rows of this table have no vectors");
    tug_ends(2, "table stat --from one --top 3");
    e2e_says("--top only works with 'tug table top'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_of_train_and_eval),
        cmocka_unit_test(json_without_test),
        cmocka_unit_test(results_as_text),
        cmocka_unit_test(predictions),
        cmocka_unit_test(predictions_without_labels),
        cmocka_unit_test(unseen_features),
        cmocka_unit_test(table_stat),
        cmocka_unit_test(table_export),
        cmocka_unit_test(export_is_the_model),
        cmocka_unit_test(table_get),
        cmocka_unit_test(table_top),
        cmocka_unit_test(init_from),
        cmocka_unit_test(standard_input),
        cmocka_unit_test(directories_and_globs),
    };
    return cmocka_run_group_tests(tests, begin, e2e_end);
}
