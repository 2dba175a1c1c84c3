// The lines that `tug predict` writes: the line of the data that each of them belongs to,
// and the time at which it is written.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/command.h"

#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

static size_t lines_of(const char *text)
{
    size_t n = 0;
    for (; *text != '\0'; text++)
        n += *text == '\n';
    return n;
}

// --keep copies columns unchanged, with quotes where csv needs them.
static void columns_are_kept(void **state)
{
    (void)state;
    tug_ends(0, "predict --from model --data new.csv");
    double plain[3];
    assert_int_equal(sscanf(e2e_out, "%lf\n%lf\n%lf\n", plain, plain + 1, plain + 2), 3);
    tug_ends(0, "predict --from model --data new.csv --keep id,site");
    char want[512];
    snprintf(want, sizeof(want),
             "id,site,prediction\n17,a,%.7g\n\"x,\"\"y\",b,%.7g\n,a,%.7g\n", plain[0],
             plain[1], plain[2]);
    assert_string_equal(e2e_out, want);
    tug_ends(0, "predict --from model --data new.csv --keep id,site --no-header");
    assert_string_equal(e2e_out, strchr(want, '\n') + 1);
    tug_ends(2, "predict --from model --data new.csv --no-header");
    e2e_says("--no-header needs --keep");
    tug_ends(0, "predict --from model --data new.csv --keep id --json");
    assert_int_equal(lines_of(e2e_out), 3);
    json_t *o = json_loadb(e2e_out, strcspn(e2e_out, "\n"), 0, NULL);
    assert_string_equal(json_string_value(json_object_get(o, "id")), "17");
    assert_true(fabs(json_number_value(json_object_get(o, "prediction")) - plain[0]) <
                1e-6);
    json_decref(o);
    tug_ends(3, "predict --from model --data new.csv --keep nobody");
    e2e_says("the data has no column 'nobody', which --keep names");
    assert_string_equal(e2e_out, "");
    tug_ends(0, "predict --from model --data new.csv --out -");
    assert_int_equal(lines_of(e2e_out), 3);
}

// Another program writes the same rows in another form of csv: the predictions are the same.
static void other_writers(void **state)
{
    (void)state;
    char wanted[200];
    files_write("point.csv", "y,x\n1,2.5\n0,0.5\n1,3.5\n0,1.25\n");
    files_write("comma.csv", "y;x\n1;2,5\n0;0,5\n1;3,5\n0;1,25\n");
    tug_ends(0, "train --data point.csv --format csv --label y --numeric x --model lr "
                "--epochs 2 --out ours");
    tug_ends(0, "predict --from ours --data point.csv");
    snprintf(wanted, sizeof(wanted), "%s", e2e_out);
    tug_ends(3, "predict --from ours --data comma.csv");
    e2e_says(
        "the separator is ',', that of the model's training data; it looks separated "
        "by semicolons: --separator ';'");
    tug_ends(3, "predict --from ours --data comma.csv --separator tab");
    e2e_says(
        "--separator is tab, and that of the model's training data was ','; it looks "
        "separated by semicolons: --separator ';'");
    tug_ends(3, "predict --from ours --data comma.csv --separator ;");
    e2e_says("has a decimal comma: give --decimal ,");
    tug_ends(0, "predict --from ours --data comma.csv --separator ; --decimal ,");
    assert_string_equal(e2e_out, wanted);
    tug_ends(0, "eval --from ours --data comma.csv --separator ; --decimal ,");
    tug_ends(2, "eval --from ours --data comma.csv --decimal x");
    tug_ends(2, "eval --from svm --data data.svm --decimal ,");
    e2e_says("--decimal works only with --format csv");
}

// The ending of an output's name sets its format and compression, and predict refuses to
// overwrite a file of the model.
static void names_of_outputs(void **state)
{
    (void)state;
    tug_ends(0, "train --data train.csv --format csv --label click --drop id --model lr "
                "--epochs 1 --out kept");
    tug_ends(0, "predict --from kept --data new.csv --keep id --out p.csv.gz");
    assert_int_equal(system("gzip -dc p.csv.gz >p.csv"), 0);
    tug_ends(0, "predict --from kept --data new.csv --keep id");
    char *unpacked = files_read("p.csv", NULL);
    assert_string_equal(unpacked, e2e_out);
    mem_free(unpacked);
    char *manifest = files_read("kept/save-000001/manifest.json", NULL);
    assert_int_equal(symlink("kept/save-000001/manifest.json", "link.txt"), 0);
    static const char *const commands[] = {
        "predict --from kept --data new.csv --out",
        "synth --rows 10 --out",
        "synth --rows 10 --out some.tsv --test-rows 10 --test-out",
        "table export --from kept --out",
        "profile stop --out",
        "train --data train.csv --format csv --label click --history",
        "train --data train.csv --format csv --label click --fetch loss --dump",
    };
    for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
        tug_ends(2, "%s kept/save-000001/manifest.json", commands[i]);
        e2e_says("lies in the saved model");
        tug_ends(2, "%s kept/save-000001/new.txt", commands[i]);
        e2e_says("lies in the saved model");
        tug_ends(2, "%s link.txt", commands[i]);
        e2e_says("lies in the saved model");
        tug_ends(2, "%s kept", commands[i]);
        e2e_says("'kept' is the directory of a saved model: give a file");
        tug_ends(2, "%s new.xz", commands[i]);
        e2e_says("'new.xz' ends in .xz");
        assert_false(files_exists("new.xz"));
        static const char *const names[] = {"new.GZ", "new.parquet", "new.Zip"};
        for (size_t k = 0; k < sizeof(names) / sizeof(*names); k++) {
            tug_ends(2, "%s %s", commands[i], names[k]);
            e2e_says(files_path("'%s' ends in .", names[k]));
            assert_false(files_exists(names[k]));
        }
        if (i < 3)
            continue;
        tug_ends(2, "%s new.gz", commands[i]);
        e2e_says("'new.gz' ends in .gz, but tug does not compress this file");
    }
    char *now = files_read("kept/save-000001/manifest.json", NULL);
    assert_string_equal(now, manifest);
    mem_free(now);
    mem_free(manifest);
}

// --keep selects fields of libffm by their numbers; libsvm has no fields.
static void fields_are_kept(void **state)
{
    (void)state;
    files_write("d.ffm", "1 0:7:1 1:3:1 1:4:1\n0 0:8:1\n");
    files_write("d.svm", "1 7:1\n0 8:1\n");
    tug_ends(0, "train --data d.ffm --format libffm --model lr --epochs 1 --out fields");
    tug_ends(0, "predict --from fields --data d.ffm --keep 1,0");
    double p[2];
    assert_int_equal(sscanf(e2e_out, "3|4\t7\t%lf\n\t8\t%lf\n", &p[0], &p[1]), 2);
    tug_ends(3, "predict --from fields --data d.ffm --keep user");
    e2e_says("d.ffm: the data has no column 'user', which --keep names; its columns are "
             "the numbers of its fields");
    tug_ends(2, "predict --from fields --data d.svm --format libsvm --keep 1");
    e2e_says("--keep works with csv, criteo, libffm and multislot data");
}

static void scores(void **state)
{
    (void)state;
    double p[3], s[3];
    tug_ends(0, "predict --from model --data new.csv");
    assert_int_equal(sscanf(e2e_out, "%lf\n%lf\n%lf\n", p, p + 1, p + 2), 3);
    tug_ends(0, "predict --from model --data new.csv --raw");
    assert_int_equal(sscanf(e2e_out, "%lf\n%lf\n%lf\n", s, s + 1, s + 2), 3);
    for (int i = 0; i < 3; i++)
        assert_true(fabs(1 / (1 + exp(-s[i])) - p[i]) < 1e-5);
}

static double number(const json_t *o, const char *name)
{
    return json_number_value(json_object_get(o, name));
}

// Returns the feature that an explanation has for a column.
static const json_t *feature_of(const json_t *o, const char *column)
{
    size_t i;
    json_t *f;
    json_array_foreach(json_object_get(o, "features"), i, f) {
        const char *name = json_string_value(json_object_get(f, "column"));
        if (name != NULL && strcmp(name, column) == 0)
            return f;
    }
    return NULL;
}

// The parts of an explanation add up to the score, and "without" a word is the score of a
// line that lacks the word.
static void predictions_are_explained(void **state)
{
    (void)state;
    double whole, without;
    files_write("two.csv", "age,site\n3,a\n3,\n");
    tug_ends(0, "predict --from model --data two.csv --raw");
    assert_int_equal(sscanf(e2e_out, "%lf\n%lf\n", &whole, &without), 2);
    tug_ends(0, "predict --from model --data two.csv --explain --json");
    assert_int_equal(lines_of(e2e_out), 2);
    json_t *o = json_loadb(e2e_out, strcspn(e2e_out, "\n"), 0, NULL);
    assert_non_null(o);
    assert_true(fabs(number(o, "score") - whole) < 1e-6);
    assert_true(fabs(number(o, "bias") + number(o, "linear") - whole) < 1e-6);
    const json_t *site = feature_of(o, "site"), *age = feature_of(o, "age");
    assert_string_equal(json_string_value(json_object_get(site, "word")), "a");
    assert_true(fabs(number(site, "left_out") - (whole - without)) < 1e-6);
    assert_string_equal(json_string_value(json_object_get(age, "word")), "3");
    char key[64];
    snprintf(key, sizeof(key), "%s ", json_string_value(json_object_get(site, "key")));
    json_decref(o);
    tug_ends(0, "table get site=a --from model");
    assert_memory_equal(e2e_out, key, strlen(key));
    tug_ends(3, "table get site=nobody --from model");
    e2e_says("has no row of 'site=nobody' (key ");
    tug_ends(2, "table get page=a --from model");
    e2e_says("the data of the model: there is no feature column 'page'");
    tug_ends(2, "table top site --from model");
    e2e_says("the columns of the rows in model are unknown");
    files_write("two.csv", "age,site\n3,nobody\n3,a\n");
    tug_ends(0, "predict --from model --data two.csv --explain");
    assert_non_null(strstr(e2e_out, "two.csv:2: prediction "));
    assert_non_null(strstr(e2e_out, "site=nobody (the model does not know it)\n"));
    assert_non_null(strstr(e2e_out, "two.csv:3: prediction "));
    tug_ends(2, "predict --from model --data two.csv --explain --raw");
    e2e_says("--raw cannot be used with --explain");
    tug_ends(2, "predict --from model --data two.csv --explain --keep age");
    e2e_says("--keep cannot be used with --explain");
    tug_ends(2, "predict --from model --data two.csv --top 3");
    e2e_says("--top needs --explain");
}

// Explanations of values near the largest float are valid JSON, with null for NaN.
static void explained_numbers_are_json(void **state)
{
    (void)state;
    files_write("near.svm", "1 1:1 2:1\n0 3:1\n1 1:1 2:1\n0 3:1\n");
    files_write("far.svm", "1 1:3e38 2:3e38 3:-3e38\n");
    tug_ends(0, "train --data near.svm --format libsvm --model fm --lr 10 --epochs 20 "
                "--quiet --no-normalize --out far");
    tug_ends(0, "predict --from far --data far.svm --explain --json");
    json_t *o = e2e_json();
    assert_true(json_is_null(json_object_get(o, "score")));
    assert_int_equal(json_array_size(json_object_get(o, "features")), 3);
    json_decref(o);
}

// With --keep-names, words are saved, printed, kept when rows are changed, and refused
// when their file is damaged.
static void names_are_kept(void **state)
{
    (void)state;
    tug_ends(0, "train --data train.csv --format csv --label click --drop id --model lr "
                "--epochs 1 --keep-names 100 --out named");
    tug_ends(0, "table get site=a --from named");
    assert_memory_equal(e2e_out, "# site=a in 3 examples\n", 23);
    tug_ends(0, "table shrink --from named");
    tug_ends(0, "table top site --from named --json");
    json_t *o = e2e_json();
    const json_t *rows = json_object_get(o, "rows");
    assert_int_equal(json_array_size(rows), 3); // a, b and c
    for (size_t i = 0; i < 3; i++)
        assert_memory_equal(
            json_string_value(json_object_get(json_array_get(rows, i), "name")),
            "site=", 5);
    assert_int_equal(json_integer_value(json_object_get(o, "rows_without_name")), 0);
    json_decref(o);
    tug_ends(2, "table top sit --from named");
    e2e_says("there is no feature column 'sit'; did you mean 'site'?");
    tug_ends(2, "table top click --from named"); // the label's column has no rows
    e2e_says("there is no feature column 'click'");
    tug_ends(0, "train --data train.csv --format csv --label click --drop id --model lr "
                "--epochs 1 --keep-names 1 --numeric age --out few");
    tug_ends(3, "table get age=banana --from few");
    e2e_says("banana");
    tug_ends(0, "table get age=17 --from few");
    tug_ends(0, "table top site --from few --json");
    o = e2e_json();
    e2e_says(
        files_path("warning: %d rows of few have no name",
                   (int)json_integer_value(json_object_get(o, "rows_without_name"))));
    assert_int_equal(json_array_size(json_object_get(o, "rows")), 1);
    assert_true(json_integer_value(json_object_get(o, "rows_without_name")) > 1);
    json_decref(o);
    files_write("named/save-000002/names.words", "tugnames, but not");
    tug_ends(3, "table top --from named");
    e2e_says("named/save-000002/names.words is damaged");
    tug_ends(2, "train --data train.csv --format csv --label click --keep-names 5");
    e2e_says("--keep-names needs --out");
    tug_ends(2, "train --data data.svm --format libsvm --keep-names 5 --out unnamed");
    e2e_says("keys of libsvm data are indices and have no words");
    // A cluster saves the same words as one process.
    tug_ends(0,
             "launch --servers 1 --workers 2 -- train --data train.csv --format csv "
             "--label click --drop id --model lr --epochs 1 --keep-names 1 --numeric age "
             "--out shared");
    assert_true(
        files_same("few/save-000001/names.words", "shared/save-000001/names.words"));
}

// The explanation of a model with pairs and layers has all parts, and their sum is the
// score.
static void pairs_and_layers_are_explained(void **state)
{
    (void)state;
    static const char *const models[] = {"fm", "ffm", "deepfm", "dcn"};
    for (size_t i = 0; i < sizeof(models) / sizeof(*models); i++) {
        tug_ends(0,
                 "train --data train.csv --format csv --label click --model %s --dim 2 "
                 "--epochs 2 --quiet --out %s%s",
                 models[i], models[i], i > 1 ? " --hidden 4,3" : "");
        tug_ends(0, "predict --from %s --data train.csv --explain --json --top 2",
                 models[i]);
        json_t *o = json_loadb(e2e_out, strcspn(e2e_out, "\n"), 0, NULL);
        assert_non_null(o);
        assert_true(fabs(number(o, "bias") + number(o, "linear") + number(o, "pairs") +
                         number(o, "layers") - number(o, "score")) < 1e-5);
        assert_int_equal(json_array_size(json_object_get(o, "features")), 3);
        assert_int_equal(json_array_size(json_object_get(o, "largest_pairs")),
                         i < 3 ? 2 : 0);
        assert_true((number(o, "layers") != 0) == (i > 1));
        json_decref(o);
    }
    tug_ends(0, "predict --from svm --data bad.svm --max-bad-lines 2 --explain");
    assert_non_null(strstr(e2e_out, "bad.svm:2: could not be read\n"));
    // An index has no word and is printed itself.
    assert_non_null(strstr(e2e_out, "  5\n"));
}

static void bad_lines_have_a_place(void **state)
{
    (void)state;
    files_write("bad.svm", "1 3:1 5:1\n0 broken\n1 4:1\n0 5:x\n0 3:1\n");
    tug_ends(3, "predict --from svm --data bad.svm");
    e2e_says("bad.svm:2: ");
    tug_ends(3, "predict --from svm --data bad.svm --max-bad-lines 1");
    e2e_says("bad.svm:4: ");
    tug_ends(0, "predict --from svm --data bad.svm --max-bad-lines 2");
    e2e_says("2 lines of the data could not be read and have the prediction 'nan'");
    char one[32], two[32], three[32], four[32], five[32];
    assert_int_equal(
        sscanf(e2e_out, "%31s %31s %31s %31s %31s", one, two, three, four, five), 5);
    assert_string_equal(two, "nan");
    assert_string_equal(four, "nan");
    files_write("good.svm", "1 3:1 5:1\n1 4:1\n0 3:1\n");
    tug_ends(0, "predict --from svm --data good.svm");
    char want[256];
    snprintf(want, sizeof(want), "%s\n%s\n%s\n", one, three, five);
    assert_string_equal(e2e_out, want);
    tug_ends(0, "predict --from svm --data bad.svm --max-bad-lines 2 --json");
    assert_non_null(strstr(e2e_out, "{\"prediction\":null}\n"));
}

// With --stream, each answer comes before the next line arrives: a program at the other
// ends of the pipes waits for each answer.
static void streams(void **state)
{
    (void)state;
    int in[2], out[2], status;
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        execl(getenv("TUG_BINARY"), "tug", "predict", "--from", "svm", "--data", "-",
              "--stream", (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    for (int i = 0; i < 5; i++) {
        char line[64], answer[64];
        // The first line is shorter than the bytes by which tug recognizes a compressed
        // file.
        int n = i == 0 ? snprintf(line, sizeof(line), "1\n")
                       : snprintf(line, sizeof(line), "1 %d:1\n", 3 + i);
        assert_int_equal(write(in[1], line, (size_t)n), n);
        struct pollfd p = {.fd = out[0], .events = POLLIN};
        if (poll(&p, 1, 60000) != 1) {
            kill(pid, SIGKILL);
            fail_msg("no prediction of line %d came", i);
        }
        ssize_t got = read(out[0], answer, sizeof(answer));
        assert_true(got > 2 && answer[got - 1] == '\n');
    }
    close(in[1]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    close(out[0]);
}

// Ctrl-C while predict waits for more lines ends predict at once, by the signal, and
// leaves no file.
static void interrupts_end_it(void **state)
{
    (void)state;
    static const char *const how[] = {"", " --explain"};
    assert_int_equal(mkfifo(files_path("slow.svm"), 0600), 0);
    for (size_t i = 0; i < 2; i++) {
        pid_t pid = tug_start("predict --from svm --data slow.svm --out end.txt%s",
                              how[i]);
        // Returns when predict has opened the pipe.
        int fd = open(files_path("slow.svm"), O_WRONLY | O_CLOEXEC);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, "1 3:1\n", 6), 6);
        assert_int_equal(kill(pid, SIGINT), 0);
        assert_int_equal(tug_finish(pid), 128 + SIGINT);
        close(fd);
        assert_false(files_exists("end.txt"));
    }
}

static int begin(void **state)
{
    if (e2e_begin(state) != 0)
        return -1;
    files_write("train.csv", "click,id,site,age\n1,1,a,3\n0,2,b,4\n1,3,a,5\n0,4,b,6\n"
                             "1,5,a,2\n0,6,c,7\n");
    files_write("new.csv", "id,age,site\n17,3,a\n\"x,\"\"y\",4,b\n,5,a\n");
    e2e_write_data(&(struct e2e_data){.path = "data.svm", .rows = 300, .seed = 1});
    tug_ends(0, "train --data train.csv --format csv --label click --drop id --model lr "
                "--epochs 3 --deterministic --out model");
    tug_ends(0, "train --data data.svm --format libsvm --model lr --epochs 1 --out svm");
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_kept),
        cmocka_unit_test(other_writers),
        cmocka_unit_test(names_of_outputs),
        cmocka_unit_test(fields_are_kept),
        cmocka_unit_test(scores),
        cmocka_unit_test(bad_lines_have_a_place),
        cmocka_unit_test(predictions_are_explained),
        cmocka_unit_test(explained_numbers_are_json),
        cmocka_unit_test(pairs_and_layers_are_explained),
        cmocka_unit_test(names_are_kept),
        cmocka_unit_test(streams),
        cmocka_unit_test(interrupts_end_it),
    };
    return cmocka_run_group_tests(tests, begin, e2e_end);
}
