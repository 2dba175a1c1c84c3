// csv data whose columns have another order in each file, through train, eval, predict,
// --resume and --init-from, in one process and on a cluster. Features are found by the
// names of columns, and the saved model says how the data is read.
//
// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include "base/buf.h"
#include "base/hash.h"
#include "kit/processes.h"

enum { ROWS = 400 };

// Appends a row's value of a column: the click, a value that the click depends on, or a
// value that predicts nothing.
static void put_value(struct buf *b, char column, uint64_t row)
{
    uint64_t x = mix64(row + 1);
    unsigned city = (unsigned)(x % 20), shop = (unsigned)(x / 20 % 8),
             age = (unsigned)(x / 160 % 60);
    switch (column) {
    case 'y':
        buf_printf(b, "%d", shop < (city % 2 == 0 ? 7 : 1));
        break;
    case 'c':
        buf_printf(b, "c%u", city);
        break;
    case 's':
        buf_printf(b, "%u", shop); // the same text also occurs as a city and as an age
        break;
    case 'a':
        buf_printf(b, "0.%u", age);
        break;
    default:
        buf_printf(b, "%llu", (unsigned long long)x);
    }
}

static const char *name_of(char column)
{
    static const struct {
        char column;
        const char *name;
    } names[] = {{'y', "click"}, {'c', "city"}, {'s', "shop"},
                 {'a', "age"},   {'i', "id"},   {'z', "new"}};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (names[i].column == column)
            return names[i].name;
    return "";
}

// Writes a file with these columns, in this order, of the rows from `first` on.
static void write_csv(const char *path, const char *columns, uint64_t first, size_t rows)
{
    struct buf b = BUF_INIT(1 << 20);
    for (size_t i = 0; columns[i] != 0; i++)
        buf_printf(&b, "%s%s", i > 0 ? "," : "", name_of(columns[i]));
    for (uint64_t row = first; row < first + rows; row++)
        for (size_t i = 0; columns[i] != 0; i++) {
            buf_printf(&b, "%c", i > 0 ? ',' : '\n');
            put_value(&b, columns[i], row);
        }
    buf_printf(&b, "\n");
    files_write(path, buf_str(&b));
    buf_free(&b);
}

#define HOW                                                                              \
    "--format csv --label click --drop id --numeric age --model fm --dim 2 --epochs 3 "  \
    "--deterministic --seed 3"

static void train_model(void)
{
    files_remove("model");
    tug_ends(0, "train --data train.csv " HOW " --out model");
}

// ---------------------------------------------------------------- eval and predict

static double auc_of(const char *words)
{
    tug_ends(0, "eval --from model --json --data %s", words);
    return e2e_number("auc");
}

static char *predictions_of(const char *words)
{
    size_t n;
    files_remove("p.txt");
    tug_ends(0, "predict --from model --out p.txt --data %s", words);
    return files_read("p.txt", &n);
}

static void assert_predicts(const char *want, const char *words)
{
    char *got = predictions_of(words);
    assert_string_equal(got, want);
    mem_free(got);
}

static void any_order(void **state)
{
    (void)state;
    train_model();
    double auc = auc_of("test.csv");
    assert_true(auc > 0.8);
    char *want = predictions_of("test.csv");
    static const char *const orders[] = {"ycsai", "aiscy", "siyca", "yasc"};
    for (size_t i = 0; i < sizeof(orders) / sizeof(*orders); i++) {
        write_csv("other.csv", orders[i], 10000, ROWS);
        assert_true(auc_of("other.csv") == auc);
        assert_predicts(want, "other.csv");
    }
    write_csv("unlabelled.csv", "sac", 10000, ROWS);
    assert_predicts(want, "unlabelled.csv");
    tug_ends(3, "eval --from model --data unlabelled.csv");
    e2e_says("unlabelled.csv:1: the label column 'click' is missing");
    mem_free(want);
}

static void inserted_and_missing(void **state)
{
    (void)state;
    train_model();
    double auc = auc_of("test.csv");
    write_csv("more.csv", "zycsai", 10000, ROWS);
    tug_ends(3, "eval --from model --data more.csv");
    e2e_says("more.csv:1: the model was not trained with the column 'new'");
    e2e_says("--drop 'new'");
    tug_ends(3, "predict --from model --data more.csv");
    assert_true(auc_of("more.csv --drop new") == auc);
    write_csv("less.csv", "ycai", 10000, ROWS);
    tug_ends(3, "eval --from model --data less.csv");
    e2e_says("less.csv:1: the header lacks the feature column 'shop'");
    e2e_says("--allow-missing");
    tug_ends(3, "predict --from model --data less.csv");
    double less = auc_of("less.csv --allow-missing");
    assert_true(less > 0.5 && less < auc);
    e2e_says("warning: feature columns of the model that are missing in some file count "
             "as empty there: 'shop'");
    tug_ends(0, "predict --from model --data less.csv --allow-missing");
    e2e_says("count as empty there: 'shop'");
    (void)auc_of("test.csv --allow-missing");
    assert_null(strstr(e2e_err, "warning"));
    write_csv("other.csv", "zyai", 10000, 5);
    tug_ends(3, "eval --from model --data other.csv");
    e2e_says(
        "the model was not trained with the column 'new'; use --drop 'new' to ignore it; "
        "the header lacks the feature columns 'city', 'shop', which the model was "
        "trained with; --allow-missing reads the file without them");
    files_write("bare.csv", "1,17,c5,s1,3\n0,18,c6,s2,4\n");
    tug_ends(3, "predict --from model --data bare.csv");
    e2e_says("this line looks like data: csv needs a header");
    tug_ends(2, "eval --from model --data test.csv --drop city");
    e2e_says("--drop 'city', but the model was trained with that column");
    tug_ends(2, "eval --from model --data test.csv --missing NA");
    e2e_says("'tug eval' has no option '--missing', only 'tug train' has it");
    tug_ends(3, "eval --from model --data test.csv --columns click,city,shop,age,id");
    e2e_says("remove the line, or leave --columns out");
    tug_ends(2, "eval --from model --data test.csv --format criteo");
    e2e_says("--format criteo, but the model was trained on csv");
    write_csv("twice.csv", "ycsac", 10000, 5);
    tug_ends(3, "eval --from model --data twice.csv");
    e2e_says("the header has the column 'city' twice");
}

// ---------------------------------------------------------------- training

static void files_of_one_run(void **state)
{
    (void)state;
    write_csv("one.csv", "ycsai", 0, 200);
    write_csv("two.csv", "ycsai", 200, 200);
    write_csv("turned.csv", "saycz", 200, 200);
    write_csv("turned-all.csv", "saycz", 200, 200);
    for (int i = 0; i < 2; i++)
        files_remove(i == 0 ? "same" : "mixed");
    tug_ends(0, "train --data one.csv two.csv " HOW " --test test.csv --out same");
    tug_ends(3, "train --data one.csv turned.csv " HOW " --out mixed");
    e2e_says("turned.csv:1: the first file does not have the column 'new'");
    files_remove("mixed");
    write_csv("turned.csv", "zsayc", 200, 200);
    tug_ends(0, "train --data one.csv turned.csv " HOW
                " --drop id,new --test test.csv --out mixed");
    size_t n;
    char *same = files_read("same/save-000001/sparse-0.rows", &n), *mixed = NULL;
    mixed = files_read("mixed/save-000001/sparse-0.rows", &n);
    assert_memory_equal(same, mixed, n);
    mem_free(same);
    mem_free(mixed);
    files_remove("typo");
    tug_ends(3, "train --data one.csv turned.csv " HOW " --drop idd --out typo");
    e2e_says("one.csv:1: the header has no column 'idd', which --drop names");
    tug_ends(3, "train --data one.csv --format csv --label clik --drop idd,odd");
    e2e_says(
        "no column 'clik', which --label names (did you mean 'click'?); the header has "
        "no column 'idd', which --drop names (did you mean 'id'?); the header has no "
        "column 'odd'");
}

// Some tools write the row's number at the start of each line: that column has an empty
// name.
static void empty_name(void **state)
{
    (void)state;
    files_write("index.csv", ",y,a\n0,1,p\n1,0,q\n2,1,p\n3,0,q\n");
    tug_ends(0, "train --data index.csv --format csv --label y --drop= --epochs 1 --json "
                "--model lr");
    json_t *o = e2e_json();
    assert_int_equal(json_integer_value(json_object_get(o, "keys")), 2);
    json_decref(o);
}

// With --init-from, settings of the saved model need not be given again, and cannot be
// changed.
static void begun_from(void **state)
{
    (void)state;
    train_model();
    write_csv("day2.csv", "aiscy", 2000, ROWS);
    files_remove("newer");
    tug_ends(0, "train --data day2.csv --model fm --dim 2 --epochs 1 --test test.csv "
                "--init-from model --out newer --json");
    assert_true(e2e_number("auc") > 0.8);
    double auc = e2e_number("auc");
    tug_ends(0, "eval --from newer --json --data test.csv");
    assert_true(e2e_number("auc") == auc);
    static const char *const otherwise[][2] = {
        {"--numeric city", "--numeric 'city', but the model was not trained on"},
        {"--label shop", "--label 'shop', but in the model's data it is column 'click'"},
        {"--drop shop", "--drop 'shop', but the model was trained with"},
        {"--separator ;", "--separator ;, but the model's data has ,"},
        {"--loss squared", "--loss squared, but the model was trained with logistic"},
        {"--format libsvm", "--format libsvm, but the model was trained on csv"},
    };
    for (size_t i = 0; i < sizeof(otherwise) / sizeof(*otherwise); i++) {
        files_remove("newest");
        tug_ends(2,
                 "train --data day2.csv --model fm --dim 2 --init-from model %s --out "
                 "newest",
                 otherwise[i][0]);
        e2e_says(otherwise[i][1]);
    }
    files_remove("newest");
    write_csv("less.csv", "ycai", 2000, ROWS);
    tug_ends(3,
             "train --data less.csv --model fm --dim 2 --init-from model --out newest");
    e2e_says("lacks the feature column 'shop'");
    tug_ends(2, "train --data day2.csv --model fm");
    e2e_says("--format is missing");
}

// ---------------------------------------------------------------- resuming a run

static void resumed(void **state)
{
    (void)state;
    train_model();
    files_remove("straight");
    tug_ends(0, "train --data train.csv " HOW " --epochs 5 --out straight");
    // The command need not repeat how the data is read.
    tug_ends(0, "train --data train.csv --model fm --dim 2 --epochs 5 --deterministic "
                "--seed 3 --out model --resume");
    e2e_same_model("straight", "model");
    tug_ends(0, "train --data train.csv " HOW " --epochs 5 --out model --resume");
    assert_non_null(strstr(e2e_out, "nothing to do"));
    // The run wrote no other save.
    assert_string_equal(e2e_newest("model"), "model/save-000002");
    // A resumed run refuses data that differs from the run's: another order of columns,
    // more lines, another name, more files.
    write_csv("other/train.csv", "aiscy", 0, ROWS);
    tug_ends(3, "train --data other/train.csv " HOW " --epochs 5 --out model --resume");
    e2e_says("--data is not the data of the run in model: 'train.csv' is as long");
    e2e_says("--init-from model");
    write_csv("other/train.csv", "ycsai", 0, ROWS);
    tug_ends(0, "train --data other/train.csv " HOW " --epochs 5 --out model --resume");
    write_csv("day2.csv", "ycsai", 0, ROWS);
    tug_ends(3, "train --data day2.csv " HOW " --epochs 6 --out model --resume");
    e2e_says("file 1 is 'day2.csv', but it was 'train.csv'");
    tug_ends(3,
             "train --data train.csv day2.csv " HOW " --epochs 6 --out model --resume");
    e2e_says("there are 2 files, but there were 1");
    size_t n;
    char *text = files_read("train.csv", &n);
    text[n / 2] = text[n / 2] == '1' ? '2' : '1';
    files_write_bytes("other/train.csv", text, n);
    mem_free(text);
    tug_ends(3, "train --data other/train.csv " HOW " --epochs 6 --out model --resume");
    e2e_says("'train.csv' is as long as it was, but its contents differ");
}

// With --resume=auto, the same command starts the run and later resumes it. Batch systems
// need this, because they repeat the same command.
static void resumed_if_there(void **state)
{
    (void)state;
    files_remove("auto");
    files_remove("straight");
    tug_ends(0, "train --data train.csv " HOW " --out straight");
    tug_ends(0, "train --data train.csv " HOW " --epochs 1 --out auto --resume=auto");
    tug_ends(0, "train --data train.csv " HOW " --out auto --resume=auto");
    e2e_says("resuming from auto/save-000001");
    e2e_same_model("straight", "auto");
    tug_ends(0, "train --data train.csv " HOW " --out auto --resume=auto");
    assert_non_null(strstr(e2e_out, "nothing to do"));
    // --resume=auto also starts and resumes a run that begins with another model.
    files_remove("next");
    for (int i = 1; i <= 2; i++)
        tug_ends(0,
                 "train --data train.csv " HOW " --epochs %d --init-from straight --out "
                 "next --resume=auto",
                 i);
    assert_string_equal(e2e_newest("next"), "next/save-000002");
    tug_ends(2, "train --data train.csv " HOW " --resume=always --out auto");
    e2e_says("no yes auto");
}

// ---------------------------------------------------------------- on a cluster

static void launch(int code, const char *words)
{
    cluster_start("run", "launch --servers 1 --workers 2 -- train %s", words);
    cluster_ends("run", code, 2 * CLUSTER_PATIENCE);
    cluster_none_left();
}

static void on_a_cluster(void **state)
{
    (void)state;
    write_csv("one.csv", "ycsai", 0, 200);
    write_csv("turned.csv", "saiyc", 200, 200);
    files_remove("alone");
    files_remove("cluster");
    tug_ends(0, "train --data one.csv turned.csv " HOW " --out alone");
    launch(0, "--data one.csv turned.csv " HOW " --test test.csv --out cluster");
    e2e_same_model("alone", "cluster");
    // The columns are read by the settings of the saved model, although the workers do
    // not know its directory.
    launch(0, "--data one.csv turned.csv --model fm --dim 2 --epochs 4 --deterministic "
              "--seed 3 --out cluster --resume");
    tug_ends(0,
             "train --data one.csv turned.csv " HOW " --epochs 4 --out alone --resume");
    e2e_same_model("alone", "cluster");
    launch(3, "--data turned.csv one.csv " HOW " --epochs 5 --out cluster --resume");
    cluster_said("run", "file 1 is 'turned.csv', but it was 'one.csv'");
    launch(0, "--data one.csv turned.csv " HOW " --epochs 4 --out cluster --resume");
    assert_non_null(strstr(e2e_out, "nothing to do"));
    files_remove("newer");
    write_csv("day2.csv", "aiscyz", 2000, ROWS);
    launch(3, "--data day2.csv --model fm --dim 2 --init-from cluster --out newer");
    cluster_said("run", "the model was not trained with the column 'new'");
    files_remove("newer");
    launch(0,
           "--data day2.csv --model fm --dim 2 --epochs 1 --init-from cluster --drop new "
           "--test test.csv --out newer");
    tug_ends(0, "eval --from newer --json --data test.csv");
    assert_true(e2e_number("auc") > 0.8);
}

// The first column is the label by default. If another column has a label's usual name, a
// warning asks whether that column was meant.
static void first_column(void **state)
{
    (void)state;
    files_write("first.csv", "male,age,click\n1,3,0\n0,4,1\n1,3,1\n0,5,0\n");
    tug_ends(0, "train --data first.csv --format csv --model lr --epochs 1");
    e2e_says(
        "warning: the label is the first column, 'male', because no --label was given: "
        "give --label 'click' if that column is the label");
    static const char *const labels[] = {"male", "click"};
    for (size_t i = 0; i < 2; i++) {
        tug_ends(0,
                 "train --data first.csv --format csv --model lr --epochs 1 --label %s",
                 labels[i]);
        assert_null(strstr(e2e_err, "the label is"));
    }
}

// pandas writes its row numbers into a first column without a name.
static void row_numbers(void **state)
{
    (void)state;
    files_write("rows.csv", ",y,a\n0,1,3\n1,0,4\n2,1,3\n3,0,5\n");
    const char *train =
        "train --data rows.csv --format csv --model lr --epochs 1 --label y";
    tug_ends(0, train);
    e2e_says(
        "warning: the first column has no name, and is taken as words: if it has row "
        "numbers, as pandas writes them, give --drop ''");
    tug_ends(0, "%s --drop=", train);
    assert_null(strstr(e2e_err, "no name"));
}

// Numbers with a decimal comma in a column of words give a warning, also if some cells have
// a word for a missing value. The warning advises only options that were not given.
static void decimal_commas(void **state)
{
    (void)state;
    files_write("commas.csv", "y;p;q\n1;2,5;1,2\n0;NA;3,4\n1;3,5;a\n0;1,25;b\n1;2,5;c\n"
                              "0;;5,6\n1;3,5;7,8\n0;1,75;d\n1;2,5;e\n");
    const char *train = "train --data commas.csv --format csv --model lr --epochs 1 "
                        "--separator ;";
    tug_ends(0, train);
    e2e_says(
        "warning: column 'p' has numbers with a decimal comma, such as '1,75', and is "
        "taken as words: give --numeric 'p' --decimal , if they are numbers");
    assert_null(strstr(e2e_err, "column 'q'"));
    tug_ends(0, "%s --decimal ,", train);
    e2e_says("is taken as words: give --numeric 'p' if they are numbers");
    tug_ends(0, "%s --decimal , --numeric p --missing NA", train);
    assert_null(strstr(e2e_err, "decimal comma"));
    files_write("thousands.csv",
                "y,p\n1,\"1,001\"\n0,\"2,002\"\n1,\"3,003\"\n0,\"1,004\"\n"
                "1,\"1,005\"\n0,\"1,006\"\n1,\"1,007\"\n0,\"1,008\"\n");
    tug_ends(0, "train --data thousands.csv --format csv --model lr --epochs 1");
    e2e_says(
        "column 'p' has numbers with commas, such as '1,008', and is taken as words: "
        "remove the commas and give --numeric 'p' if they separate thousands");
}

static int begin(void **state)
{
    if (cluster_begin(state) != 0)
        return -1;
    assert_int_equal(mkdir("other", 0700), 0);
    write_csv("train.csv", "ycsai", 0, ROWS);
    write_csv("test.csv", "ycsai", 10000, ROWS);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_test(any_order),        cluster_test(inserted_and_missing),
        cluster_test(files_of_one_run), cluster_test(empty_name),
        cluster_test(begun_from),       cluster_test(resumed),
        cluster_test(resumed_if_there), cluster_test(on_a_cluster),
        cluster_test(first_column),     cluster_test(decimal_commas),
        cluster_test(row_numbers),
    };
    return cmocka_run_group_tests(tests, begin, cluster_end);
}
