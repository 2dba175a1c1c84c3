// Warnings and errors about likely mistakes: a model that is worse than a guess, data
// that the model does not know, and files in another format than the command says. Each
// message names the mistake and what to do.
//
// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>
#include <unistd.h>

#include "kit/command.h"

#define TRAIN "train --data data.svm --format libsvm --model lr "

static void silent(const char *text)
{
    if (strstr(e2e_err, text) != NULL)
        fail_msg("'%s' is in: %s", text, e2e_err);
}

static void write_numbered(const char *path, int base, int rows, bool learnable)
{
    static char text[1 << 16];
    size_t n = 0;
    for (int i = 0; i < rows; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%d %d:1\n",
                              learnable ? i % 4 == 0 : i * 7 % 11 < 3, base + i % 4);
    files_write(path, text);
}

static void worse_than_a_guess(void **state)
{
    (void)state;
    tug_ends(0, TRAIN "--epochs 2 --test data.svm");
    silent("worse than a guess");
    e2e_says("the model knows 100.0 % of the features in --test");
    files_write("wide.svm",
                "0 1:900 2:1\n1 1:-700 2:1\n0 1:-800 2:1\n1 1:900\n1 1:-2 2:1\n");
    tug_ends(0, "train --data wide.svm --format libsvm --model lr --optimizer sgd --lr 3 "
                "--epochs 4 --deterministic");
    e2e_says(
        "warning: the model is worse than a guess: its loss on the training data is ");
    e2e_says("try a smaller --lr (it is 3)");
    // A model that has hardly begun to learn has not diverged: it needs a larger rate.
    write_numbered("rare.svm", 1000, 600, true);
    tug_ends(0, "train --data rare.svm --format libsvm --model lr --optimizer sgd "
                "--lr 0.00001 --epochs 2 --deterministic");
    e2e_says(
        "It is still close to the untrained model: try more --epochs, a smaller --batch, "
        "or a larger --lr (it is 1e-05)");
    silent("diverged");
    // If the warning about the training data is given, the warning about --test is left
    // out, because a diverged model does not fit other data, either.
    tug_ends(0, "train --data wide.svm --format libsvm --model lr --optimizer sgd --lr 3 "
                "--epochs 4 --deterministic --test wide.svm");
    e2e_says("worse than a guess: its loss on the training data is ");
    silent("on --test the model is worse than a guess");
    // The model has memorised the training data, and the labels of the test data are
    // inverted.
    files_write("turned.svm", "0 100:1\n1 101:1\n1 102:1\n1 103:1\n");
    tug_ends(0, TRAIN "--epochs 20 --test turned.svm --out model");
    e2e_says("warning: on --test the model is worse than a guess");
    silent("its loss on the training data");
    tug_ends(0, "eval --from model --data turned.svm");
    e2e_says("warning: on this data the model is worse than a guess");
    tug_ends(0, "predict --from model --data turned.svm");
    silent("worse than a guess");
}

// Targets whose mean is far from 0, the value at which a model begins: training warns in
// one pass and in several, in one process and on a cluster.
static void far_from_zero(void **state)
{
    (void)state;
    const char *squared = "train --format csv --label y --loss squared --quiet --lr 0.1";
    const char *far = "Labels are far from 0, where a model begins: subtract their mean, "
                      "1000.5, and divide by their spread";
    static char text[64 * 1000];
    size_t n = (size_t)snprintf(text, sizeof(text), "y,a\n");
    for (int i = 0; i < 4000; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%d,w%d\n", 1000 + i % 2,
                              i % 2);
    files_write("far.csv", text);
    for (int epochs = 1; epochs <= 2; epochs++) {
        tug_ends(0, "%s --model lr --data far.csv --epochs %d", squared, epochs);
        e2e_says(
            "while predicting the mean of the labels for every example has a loss of "
            "0.12500");
        e2e_says("It is still close to the untrained model");
        e2e_says(far);
    }
    tug_ends(0, "launch --workers 1 -- %s --model lr --data far.csv --epochs 2", squared);
    e2e_says(far);
    // There is no warning: the model learns the mean in the first pass, and the loss of
    // this pass is high only for that reason.
    tug_ends(0, "%s --model lr --data far.csv --lr 300 --epochs 1", squared);
    silent("worse than a guess");
    files_write("same.csv", "y,a\n7,u\n7,v\n7,u\n");
    tug_ends(0, "%s --model lr --data same.csv --data-in stream", squared);
    e2e_says("all labels of the training data are 7: there is nothing to learn\n");
}

// A warning names a file of --test or --valid that is also in --data, by whatever path;
// another file with the same bytes causes no warning.
static void test_data_that_was_trained_on(void **state)
{
    (void)state;
    const char *says = "is in --data, and in --valid or --test too";
    write_numbered(files_path("other.svm"), 100, 40, true);
    assert_int_equal(symlink("data.svm", files_path("link.svm")), 0);
    tug_ends(0, TRAIN "--test other.svm");
    silent(says);
    tug_ends(0, TRAIN "--test other.svm --valid link.svm");
    e2e_says("warning: 'link.svm' is in --data");
    tug_ends(0, TRAIN "--test data.svm");
    e2e_says(says);
    // --refit also trains on --valid at the end.
    tug_ends(0, TRAIN "--test other.svm --valid other.svm --refit --epochs 2");
    e2e_says("warning: 'other.svm' is in --data");
}

// A warning reports data with only one class, also when no progress is printed.
static void one_class(void **state)
{
    (void)state;
    files_write("one.svm", "1 1:1\n1 2:1\n1 1:1\n");
    tug_ends(0, "train --data one.svm --format libsvm --model lr --epochs 3 --quiet");
    e2e_says("warning: all 3 labels are 1: there is nothing to learn, and no AUC");
    silent("worse than a guess");
    tug_ends(0, TRAIN "--epochs 2 --test one.svm");
    silent("worse than a guess");
}

static void unknown_features(void **state)
{
    (void)state;
    files_remove("model");
    tug_ends(0, TRAIN "--epochs 2 --out model");
    tug_ends(0, "eval --from model --data data.svm --json");
    assert_true(e2e_number("known_features") == 1);
    write_numbered("strange.svm", 7000, 40, true);
    tug_ends(0, "eval --from model --data strange.svm --json");
    assert_true(e2e_number("known_features") == 0);
    e2e_says("warning: the model knows 0.0 % of the features in this data");
    tug_ends(0, "predict --from model --data strange.svm");
    e2e_says("warning: the model knows 0.0 % of the features in this data");
    tug_ends(0, "predict --from model --data strange.svm data.svm");
    e2e_says("the model knows 90.9 % of the features in this data");
    silent("warning");
    // A line with one word may be a label without features, and predict does not read
    // labels. A csv line with several fields is an error.
    files_write("words.txt", "one\ntwo\n");
    tug_ends(0, "predict --from model --data words.txt");
    e2e_says(
        "warning: no example of this data has a feature, so all predictions are equal");
    files_write("rows.csv", "1,17,c5\n0,18,c6\n");
    tug_ends(3, "predict --from model --data rows.csv");
    e2e_says("rows.csv:1: '1,17,c5' is not a feature of the form index:value");
    files_write("rows.csv", "label,age,site\n1,17,c5\n");
    tug_ends(3, "predict --from model --data rows.csv");
    e2e_says("this line looks like a header, and the model was trained on libsvm data");
}

static void headers(void **state)
{
    (void)state;
    files_write("head.svm", "label,a,b\n1 1:1\n0 2:1\n");
    tug_ends(3, "train --data head.svm --format libsvm --epochs 1");
    e2e_says("head.svm:1: the label 'label,a,b' is");
    e2e_says("this line looks like a header, which libsvm data does not have");
    files_write("head.tsv", "label\tI1\tI2\n");
    tug_ends(3, "train --data head.tsv --format criteo --epochs 1");
    e2e_says("this line looks like a header, which criteo data does not have");
    files_write("bare.csv", "1,17,c5\n0,18,c6\n");
    tug_ends(3, "train --data bare.csv --format csv --epochs 1");
    e2e_says(
        "bare.csv:1: the column of the label is called '1'; this line looks like data: "
        "csv needs a header");
    files_write("late.svm", "1 1:1\nlabel\n");
    tug_ends(3, "train --data late.svm --format libsvm --epochs 1");
    silent("looks like a header");
    files_write("later.svm", "\nlabel\n");
    tug_ends(3, TRAIN "--epochs 1 --test later.svm");
    e2e_says("later.svm:2: the label 'label' is not a number");
    silent("looks like a header");
    // A bad line after a skipped header is not taken for a second header.
    files_write("passed.svm", "label,a,b\n1 1:1\n0 2:x\n");
    tug_ends(3, "train --data passed.svm --format libsvm --epochs 1 --max-bad-lines 1");
    e2e_says("passed.svm:3: ");
    silent("looks like a header");
}

static void other_kinds(void **state)
{
    (void)state;
    files_write_bytes("data.parquet", "PAR1\x15\x04\x15\x10", 8);
    files_write_bytes("data.bz2", "BZh91AY&SY\x01\x02", 12);
    files_write_bytes("data.xz",
                      "\xfd"
                      "7zXZ\0\0\4",
                      8);
    files_write_bytes("data.utf16",
                      "\xff\xfe"
                      "y\0,\0a\0\n\0",
                      10);
    static const char *const files[][2] = {{"data.parquet", "is a Parquet file"},
                                           {"data.bz2", "is compressed with bzip2"},
                                           {"data.xz", "is compressed with xz"},
                                           {"data.utf16", "is text in UTF-16"}};
    for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
        tug_ends(3, "train --data %s --format csv", files[i][0]);
        e2e_says(files[i][1]);
        tug_ends(3, TRAIN "--test %s", files[i][0]);
        e2e_says(files[i][1]);
    }
    // Both files are reported before any file is read, together with all other problems.
    tug_ends(3, TRAIN "--test missing.svm --valid data.xz");
    e2e_says("2 problems: (1) no data at 'missing.svm': ");
    e2e_says("(2) data.xz is compressed with xz");
    e2e_stdin = "data.xz";
    tug_ends(3, "train --data - --format csv");
    e2e_stdin = NULL;
    e2e_says("tug train: (standard input) is compressed with xz");
    // A tar archive has no mark at its beginning, only the name of its first file.
    files_write_bytes("data.tar", "train.csv\0\0\0\n", 13);
    tug_ends(3, "train --data data.tar --format csv");
    e2e_says("data.tar:1: the line has a byte 0, which no text has: is the file binary");
}

// Models of libsvm and libffm data: lr and fm have the same keys in both formats; ffm
// needs fields.
static void without_fields(void **state)
{
    (void)state;
    files_write("data.ffm",
                "1 0:1:1 1:2:1\n0 0:3:1 1:2:1\n1 0:1:1 1:4:1\n0 0:3:1 1:4:1\n");
    files_write("fields.svm", "1 1:1 2:1\n0 3:1 2:1\n");
    tug_ends(0, "train --data data.ffm --format libffm --model ffm --out fields");
    tug_ends(0, "eval --from fields --data data.ffm");
    tug_ends(2, "eval --from fields --data fields.svm --format libsvm");
    e2e_says(
        "--format libsvm, but the model ffm needs the fields of the features, and libsvm "
        "data has none");
    tug_ends(2, "predict --from fields --data fields.svm --format libsvm");
    tug_ends(0, "train --data data.ffm --format libffm --model fm --out keys");
    tug_ends(0, "eval --from keys --data fields.svm --format libsvm");
}

static void no_model_on_standard_output(void **state)
{
    (void)state;
    tug_ends(2, TRAIN "--out -");
    e2e_says("--out -: a model is a directory");
    assert_false(files_exists("-"));
}

// Errors of --test and --valid files come before the first pass, not after the last.
static void bad_files_are_found_before_training(void **state)
{
    (void)state;
    files_write("bad.svm", "1 x:1\n");
    files_write("good.csv", "y,a\n1,p\n0,q\n");
    files_write("other.csv", "y,b\n1,p\n0,q\n");
    static const char *const options[] = {"--test", "--valid"};
    for (size_t i = 0; i < 2; i++) {
        tug_ends(3, TRAIN "--epochs 3 %s bad.svm", options[i]);
        e2e_says("bad.svm:1: index 'x' is");
        silent("pass 1");
        tug_ends(3, "train --data good.csv --format csv --epochs 3 %s other.csv",
                 options[i]);
        e2e_says("other.csv:1: the first file does not have the column 'b'");
        silent("pass 1");
    }
    tug_ends(0, TRAIN "--epochs 1 --test data.svm bad.svm --max-bad-lines 1");
    assert_int_equal(mkfifo("pipe", 0600), 0);
    tug_ends(2, TRAIN "--epochs 3 --valid pipe");
    e2e_says("--valid names a pipe, but its data is read after every pass");
}

static int begin(void **state)
{
    if (e2e_begin(state) != 0)
        return -1;
    write_numbered("data.svm", 100, 400, true);
    return 0;
}

// A warning names a file that is in --data twice, by whatever paths; another file with
// the same bytes causes no warning.
static void trained_on_twice(void **state)
{
    (void)state;
    const char *says = "is twice in --data";
    files_remove("parts");
    assert_int_equal(mkdir(files_path("parts"), 0700), 0);
    write_numbered(files_path("parts/a.svm"), 100, 40, true);
    write_numbered(files_path("parts/b.svm"), 100, 40, true);
    tug_ends(0, "train --data parts --format libsvm --model lr --epochs 1 --out once");
    silent(says);
    static const char *const ways[] = {"parts/a.svm parts/a.svm", "parts ./parts/b.svm",
                                       "parts/a.svm parts/*.svm", "parts again.svm"};
    (void)unlink("again.svm");
    assert_int_equal(symlink("parts/a.svm", files_path("again.svm")), 0);
    for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
        tug_ends(0, "train --data %s --format libsvm --model lr --epochs 1", ways[i]);
        e2e_says(says);
    }
    tug_ends(0, "eval --from once --data parts --data parts/a.svm");
    e2e_says(says);
}

// -1 and 0 both mean negative, so a file that has both is a mistake.
static void three_labels(void **state)
{
    (void)state;
    const char *says = "warning: the data has the labels 0 and -1";
    files_remove("mixed");
    assert_int_equal(mkdir(files_path("mixed"), 0700), 0);
    files_write("mixed/a", "1 1:1\n0 2:1\n1 1:1\n0 3:1\n");
    files_write("mixed/b", "1 1:1\n-1 2:1\n");
    static const char *const ways[] = {"", "--data-in stream", "--threads 3"};
    for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
        tug_ends(0, "train --data mixed --format libsvm --model lr %s", ways[i]);
        e2e_says(says);
    }
    tug_ends(0, "train --data mixed/a --test mixed/b --format libsvm --model lr");
    silent(says);
    tug_ends(0, "train --data mixed --format libsvm --model lr --loss squared");
    silent(says);
    tug_ends(0, "train --data mixed --format libsvm --model lr --out m3");
    tug_ends(0, "eval --from m3 --data mixed");
    e2e_says(says);
    tug_ends(0, "predict --from m3 --data mixed");
    silent(says);
    files_write("mixed.csv", "y,u\nno,a\n1,b\n-1,a\n");
    tug_ends(0, "train --data mixed.csv --format csv --model lr");
    e2e_says(says);
}

static void weights_of_nothing(void **state)
{
    (void)state;
    files_write("light.csv", "y,u,w\n1,a,0\n0,b,0\n1,a,0\n");
    tug_ends(
        0,
        "train --data light.csv --format csv --weight-column w --model lr --out light");
    e2e_says("warning: all weights of the training data are 0");
    tug_ends(0, "eval --from light --data light.csv");
    e2e_says("warning: all weights of this data are 0");
    // In a stream, data with one class is found only at the end, because a sorted file
    // also begins with one class.
    files_write("none.svm", "0 1:1\n0 2:1\n");
    tug_ends(0, "train --data none.svm --format libsvm --model lr --data-in stream");
    e2e_says("warning: all labels of the training data are 0");
}

// predict does not read the column of the label, because the labels of data to predict
// are not known.
static void labels_of_predictions(void **state)
{
    (void)state;
    static const char *const words[] = {"?", "nan", "77", "abcd-1234", "-1"};
    tug_ends(0, TRAIN "--epochs 1 --out asked");
    files_write("asked.csv", "y,u\n1,a\n0,b\n");
    tug_ends(0,
             "train --data asked.csv --format csv --model lr --epochs 1 --out asked-csv");
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
        char text[64];
        snprintf(text, sizeof(text), "%s 1:1\n", words[i]);
        files_write("asked.svm", text);
        tug_ends(0, "predict --from asked --data asked.svm");
        snprintf(text, sizeof(text), "y,u\n%s,a\n", words[i]);
        files_write("asked.csv", text);
        tug_ends(0, "predict --from asked-csv --data asked.csv");
        tug_ends(strcmp(words[i], "-1") == 0 ? 0 : 3,
                 "eval --from asked-csv --data asked.csv");
    }
}

// The warning names a column all of whose words are unknown, though the words of other
// columns are known.
static void unknown_columns(void **state)
{
    (void)state;
    static char text[1 << 14], other[1 << 14];
    size_t n = (size_t)snprintf(text, sizeof(text), "y,member,site\n"), m = n;
    memcpy(other, text, n);
    for (int i = 0; i < 400; i++) {
        const char *yes = i % 3 == 0 ? "true" : "false";
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%d,%s,s%d\n", i % 2, yes,
                              i % 7);
        m += (size_t)snprintf(other + m, sizeof(other) - m, "%d,%s,s%d\n", i % 2,
                              i % 3 == 0 ? "True" : "False", i % 7);
    }
    files_write("spelt.csv", text);
    files_write("other.csv", other);
    tug_ends(0, "train --data spelt.csv --format csv --model lr --epochs 1 --out spelt");
    tug_ends(0, "eval --from spelt --data spelt.csv");
    silent("warning");
    static const char *const commands[] = {
        "eval --from spelt --data other.csv",
        "eval --from spelt --data other.csv --threads 3",
        "predict --from spelt --data other.csv",
        "train --data spelt.csv --test other.csv --format csv --model fm --epochs 1"};
    for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
        tug_ends(0, "%s", commands[i]);
        e2e_says("the model knows 0.0 % of the values of column 'member' in ");
        e2e_says(", such as 'True', 'False': ");
        silent("'site'");
    }
    // Standard input cannot be read again to find the unknown words.
    e2e_stdin = "other.csv";
    tug_ends(0, "predict --from spelt --data -");
    e2e_says("the values of column 'member' in this data: were");
    e2e_stdin = NULL;
    files_write("fields.ffm", "1 3:7:1 4:1:1\n0 3:8:1 4:2:1\n");
    files_write("others.ffm", "1 3:70:1 4:1:1\n0 3:80:1 4:2:1\n1 3:90:1 4:2:1\n");
    tug_ends(
        0,
        "train --data fields.ffm --format libffm --model ffm --epochs 1 --out by-field");
    tug_ends(0, "eval --from by-field --data others.ffm");
    e2e_says("column '3' in this data, such as '70', '80', '90'");
}

// A command refuses to overwrite a file that it reads or that another of its options
// writes.
static void outputs_that_are_inputs(void **state)
{
    (void)state;
    tug_ends(0, TRAIN "--epochs 1 --out kept");
    (void)unlink(files_path("same.svm"));
    assert_int_equal(symlink("data.svm", files_path("same.svm")), 0);
    static const char *const names[] = {"data.svm", "./data.svm", "same.svm"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        tug_ends(2, "predict --from kept --data data.svm --out %s", names[i]);
        e2e_says("is the data, and would be overwritten: give another file");
        tug_ends(2, TRAIN "--epochs 1 --history %s", names[i]);
        tug_ends(2, TRAIN "--epochs 1 --dump %s", names[i]);
    }
    tug_ends(2, "train --data kept --test data.svm --format libsvm --epochs 1 "
                "--history look --dump look");
    e2e_says("--dump and --history name the same file, 'look': give two");
    tug_ends(2, "synth --rows 10 --out made --test-rows 5 --test-out made");
    e2e_says("--out and --test-out are the same file, 'made': give two");
    tug_ends(0, "eval --from kept --data data.svm --json");
    assert_true(e2e_number("examples") == 400);
}

// An undefined metric is printed as "none", never as "nan".
static void undefined_metrics(void **state)
{
    (void)state;
    files_write("numbers.csv", "y,a\n1.5,x\n2.5,y\n3,x\n2,y\n1,x\n4,y\n2,x\n3,y\n");
    tug_ends(0, "train --data numbers.csv --format csv --loss squared --model lr "
                "--epochs 2 --cv 2 --quiet");
    assert_non_null(strstr(e2e_out, "none"));
    assert_null(strstr(e2e_out, "nan"));
    tug_ends(0, "train --data numbers.csv --format csv --loss squared --model lr "
                "--epochs 2 --fetch loss,auc --fetch-every 1");
    e2e_says("auc none");
    silent("nan");
    tug_ends(0, "train --data numbers.csv --format csv --loss squared --model lr "
                "--epochs 2 --out of-numbers");
    tug_ends(0, "eval --from of-numbers --data numbers.csv --importance");
    const char *table = strstr(e2e_out, "     loss rise      loss      rmse  column\n");
    assert_non_null(table);
    assert_null(strstr(table, "none"));
    assert_null(strstr(table, "auc"));
    tug_ends(0, "synth --rows 1 --out one.tsv");
    assert_non_null(strstr(e2e_out, "all labels of the training rows are the same"));
    assert_null(strstr(e2e_out, "nan"));
}

// A run refuses to write into a directory of data: the next run would read the output as
// data.
static void outputs_among_data(void **state)
{
    (void)state;
    tug_ends(0, TRAIN "--epochs 1 --out among");
    assert_int_equal(mkdir(files_path("days"), 0777), 0);
    assert_int_equal(link(files_path("data.svm"), files_path("days/1.svm")), 0);
    const char *train = "train --data days --format libsvm --model lr --epochs 1";
    static const char *const options[] = {"--out", "--history", "--dump"};
    for (size_t i = 0; i < 3; i++) {
        tug_ends(2, "%s %s days/new", train, options[i]);
        e2e_says("days/new' lies in 'days', a folder of data");
        e2e_says(options[i]);
    }
    tug_ends(2, "train --data data.svm --valid days --format libsvm --model lr --out "
                "./days/below/new");
    tug_ends(2, "predict --from among --data days --out days/predictions");
    e2e_says("--out: 'days/predictions' lies in 'days'");
    tug_ends(0, "%s --out days/_new", train);
    tug_ends(0, "predict --from among --data days --out days-predictions");
    tug_ends(3, "train --data among --format libsvm --model lr");
    e2e_says("is a part of a saved model or table");
    tug_ends(3, "eval --from among --data among");
    e2e_says("is a part of a saved model or table");
}

// Training and scored files number features from 0 or from 1: each command that scores
// compares the smallest and the largest number of both, and warns if the numberings
// differ.
static void numbered_from_one(void **state)
{
    (void)state;
    write_numbered("zero.svm", 0, 400, true);
    write_numbered("one.svm", 1, 400, true);
    for (int one = 0; one < 2; one++) {
        const char *mine = one ? "one" : "zero", *other = one ? "zero" : "one";
        const char *says = one ? "its features are numbered from 0 to 3, and the model "
                                 "knows features 1 to 4: add 1 to each number"
                               : "its features are numbered from 1 to 4, and the model "
                                 "knows features 0 to 3: subtract 1 from each number";
        tug_ends(0,
                 "train --data %s.svm --format libsvm --model lr --epochs 2 --out of-%s "
                 "--valid %s.svm --test %s.svm",
                 mine, mine, other, other);
        e2e_says("warning: --valid: its features");
        e2e_says("warning: --test: its features");
        e2e_says(says);
        static const char *const commands[] = {"eval", "predict", "predict --explain"};
        for (size_t i = 0; i < 3; i++) {
            tug_ends(0, "%s --from of-%s --data %s.svm", commands[i], mine, mine);
            silent("are numbered from");
            tug_ends(0, "%s --from of-%s --data %s.svm", commands[i], mine, other);
            e2e_says("warning: this data: its features");
            e2e_says(says);
        }
        for (int stream = 0; stream < 2; stream++) {
            const char *begin = "train --model lr --epochs 2 --data-in";
            const char *in = stream ? "stream" : "memory";
            tug_ends(0, "%s %s --init-from of-%s --data %s.svm", begin, in, mine, mine);
            silent("are numbered from");
            tug_ends(0, "%s %s --init-from of-%s --data %s.svm", begin, in, mine, other);
            e2e_says("warning: --data: its features");
            e2e_says(says);
        }
    }
    static const char *const ways[] = {"--score-by driver", "--score-by workers",
                                       "--mode sync"};
    const char *run =
        "train --data one.svm --format libsvm --model lr --epochs 2 --seed 1";
    tug_ends(0, "%s --table rule=adagrad --test zero.svm --out living", run);
    e2e_says("warning: --test: its features are numbered from 0 to 3");
    for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
        tug_ends(0, "launch --workers 2 -- %s %s --valid zero.svm --test zero.svm", run,
                 ways[i]);
        e2e_says("warning: --valid: its features are numbered from 0 to 3");
        e2e_says("warning: --test: its features are numbered from 0 to 3");
        tug_ends(0, "launch --workers 2 -- %s %s --valid one.svm --test one.svm", run,
                 ways[i]);
        silent("are numbered from");
    }
    tug_ends(0, "launch --workers 1 -- train --data one.svm --format libsvm --model lr "
                "--epochs 1 --out cluster");
    tug_ends(0, "eval --from cluster --data zero.svm");
    e2e_says("the model knows features 1 to 4");
}

// Options without effect are named once, by one process of a run.
static void options_without_effect(void **state)
{
    (void)state;
    const char *run = "train --data numbers.csv --format csv --loss squared --epochs 2";
    tug_ends(0, "%s --model lr --dim 4 --latent-lr 2 --init 1", run);
    e2e_says("--dim has no effect: an lr model has no vectors");
    e2e_says("--init has no effect: ");
    e2e_says("--latent-lr has no effect: ");
    tug_ends(0, "%s --model fm --dim 4", run);
    silent("has no effect");
    tug_ends(0, "launch --servers 1 --workers 2 -- %s --model fm --fields 4", run);
    e2e_says("--fields has no effect: an fm model does not use fields");
    const char *first = strstr(e2e_err, "has no effect");
    assert_null(strstr(first + 1, "has no effect"));
    tug_ends(2, "%s --deterministic --mode async", run);
    e2e_says("--deterministic and --mode async cannot be used together");
    tug_ends(0, "%s --deterministic --mode sync", run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(worse_than_a_guess),
        cmocka_unit_test(far_from_zero),
        cmocka_unit_test(test_data_that_was_trained_on),
        cmocka_unit_test(trained_on_twice),
        cmocka_unit_test(unknown_columns),
        cmocka_unit_test(three_labels),
        cmocka_unit_test(weights_of_nothing),
        cmocka_unit_test(labels_of_predictions),
        cmocka_unit_test(one_class),
        cmocka_unit_test(unknown_features),
        cmocka_unit_test(numbered_from_one),
        cmocka_unit_test(outputs_among_data),
        cmocka_unit_test(headers),
        cmocka_unit_test(other_kinds),
        cmocka_unit_test(without_fields),
        cmocka_unit_test(bad_files_are_found_before_training),
        cmocka_unit_test(outputs_that_are_inputs),
        cmocka_unit_test(undefined_metrics),
        cmocka_unit_test(options_without_effect),
        cmocka_unit_test(no_model_on_standard_output),
    };
    return cmocka_run_group_tests(tests, begin, e2e_end);
}
