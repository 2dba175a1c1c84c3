// --fetch and --dump of a run: their output equals the contents and predictions of a save
// made at the same batch.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/random.h"
#include "kit/command.h"
#include "kit/files.h"
#include "kit/test.h"

enum { ROWS = 3000, BATCH = 100, EVERY = 10, USERS = 40 };

static void write_rows(void)
{
    struct buf b = BUF_INIT(1 << 20);
    buf_printf(&b, "y,user,item\n");
    for (uint64_t i = 0; i < ROWS; i++) {
        uint64_t user = random_below(1, 1, i, USERS);
        buf_printf(
            &b, "%d,u%llu,%llu\n", random_f64(1, 2, i) < 0.2 + 0.6 * (double)(user % 2),
            (unsigned long long)user, (unsigned long long)random_below(1, 3, i, 9));
    }
    files_write("t.csv", buf_str(&b));
    buf_free(&b);
}

static int begin(void **state)
{
    int rc = e2e_begin(state);
    write_rows();
    return rc;
}

#define TRAIN                                                                            \
    "train --data t.csv --format csv --label y --model lr --epochs 1 --batch 100 "       \
    "--deterministic "

// Runs `tug predict` with the save, and returns the predictions of the data.
static void predict(const char *save, double ret[ROWS])
{
    tug_ends(0, "predict --from %s --data t.csv", save);
    const char *at = e2e_out;
    for (size_t i = 0; i < ROWS; i++) {
        char *end;
        ret[i] = strtod(at, &end);
        assert_true(end > at);
        at = end;
    }
}

static const char *text_of(const json_t *o, const char *name)
{
    return json_string_value(json_object_get(o, name));
}

static double number_of(const json_t *o, const char *name)
{
    return json_number_value(json_object_get(o, name));
}

// Returns the column `user` of a line of the data; lines count from 1.
static void user_of(const char *data, unsigned line, char ret[32])
{
    for (; line > 1; line--)
        data = strchr(data, '\n') + 1;
    data = strchr(data, ',') + 1;
    snprintf(ret, 32, "%.*s", (int)strcspn(data, ","), data);
}

// Checks the examples of the first batch that --dump wrote, and returns their number.
static size_t check_examples(const double *predictions)
{
    char *dump = files_read("d.jsonl", NULL), *data = files_read("t.csv", NULL), user[32];
    size_t n = 0, layers = 0;
    for (char *line = dump, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = '\0';
        json_t *o = json_loads(line, 0, NULL);
        assert_non_null(o);
        unsigned number = 0;
        layers += json_object_get(o, "layers") != NULL;
        if (number_of(o, "batch") == EVERY && text_of(o, "line") != NULL) {
            assert_int_equal(sscanf(text_of(o, "line"), "t.csv:%u", &number), 1);
            user_of(data, number, user);
            assert_string_equal(text_of(o, "user"), user);
            assert_true(fabs(number_of(o, "prediction") - predictions[number - 2]) <
                        1e-5);
            n++;
        }
        json_decref(o);
    }
    mem_free(dump);
    mem_free(data);
    assert_int_equal(layers, ROWS / BATCH / EVERY);
    return n;
}

// Returns the number that --fetch printed after `name` for the first batch that it shows.
static double fetched(const char *name)
{
    const char *line = strstr(e2e_err, files_path("fetch  pass 1 batch %d  ", EVERY));
    const char *at = line != NULL ? strstr(line, name) : NULL;
    if (at == NULL)
        fail_msg("'%s' was not fetched: %s", name, e2e_err);
    return strtod(at + strlen(name), NULL);
}

static void as_saved(void **state)
{
    (void)state;
    static double predictions[ROWS];
    files_write("look.yaml",
                "fetch: \"loss, the bias, user=u7, item=3\"\nfetch-every: 10\n"
                "dump: d.jsonl\ndump-fields: user\n");
    tug_ends(0, TRAIN "--config look.yaml --save-every 10batches --keep 9 --out m");
    double loss = fetched("loss "), weight = fetched("user=u7 weight ");
    assert_true(loss > 0.3 && loss < 0.8 && fabs(fetched("the bias ")) > 0);
    predict("m/save-000001", predictions);
    assert_int_equal(check_examples(predictions), BATCH);
    tug_ends(0, "table get user=u7 --from m/save-000001");
    assert_true(fabs(strtod(strchr(e2e_out, ' '), NULL) - weight) < 1e-4);
    // --fetch and --dump do not change the model.
    tug_ends(0, TRAIN "--out blind");
    files_remove("m");
    tug_ends(0, TRAIN "--config look.yaml --out m");
    e2e_same_model("m", "blind");
}

// On a cluster, the last output of --fetch and --dump has the rows that are saved.
static void on_a_cluster(void **state)
{
    (void)state;
    files_write("far.yaml", "fetch: \"loss, auc, the bias, user=u7, user=u77\"\n"
                            "fetch-every: 10\ndump: l.jsonl\n");
    for (int sync = 0; sync < 2; sync++) {
        tug_ends(0,
                 "launch --servers 2 --workers 2 -- train --data t.csv --format csv "
                 "--label y --model deepfm --hidden 4,3 --epochs 2 --batch 100 --mode %s "
                 "--config far.yaml --out c",
                 sync ? "sync" : "async");
        e2e_says("fetch  pass 1 batch ");
        const char *line = strstr(e2e_err, "fetch  pass 2 batch 60  ");
        assert_non_null(line);
        double weight = 0, loss = 0;
        assert_int_equal(sscanf(line, "fetch  pass 2 batch 60  loss %lf  auc ", &loss),
                         1);
        assert_true(loss > 0.3 && loss < 0.8);
        assert_non_null(strstr(line, "user=u77 has no row yet"));
        const char *at = strstr(line, "user=u7 weight ");
        assert_true(at != NULL && sscanf(at, "user=u7 weight %lf", &weight) == 1);
        tug_ends(0, "table get user=u7 --from c");
        assert_true(fabs(strtod(strchr(e2e_out, ' '), NULL) - weight) < 1e-4);
        char *dump = files_read("l.jsonl", NULL);
        assert_non_null(strstr(dump, "{\"pass\":2,\"batch\":60,\"layers\":[{\"name\":"));
        assert_null(strstr(dump, "\"line\""));
        mem_free(dump);
        files_remove("c");
    }
}

static void layers(void **state)
{
    (void)state;
    tug_ends(0, "train --data t.csv --format csv --label y --model deepfm --hidden 4,3 "
                "--epochs 1 --batch 100 --fetch layers --fetch-every 30");
    e2e_says("layer 1 of 2 norm ");
    e2e_says("layer 2 of 2 norm ");
    e2e_says("the unit on the layers norm ");
    // The norm of layers covers their exact length: the padding of the table's last block
    // is not counted.
    static const char *const models[] = {"deepfm", "wide_deep", "dcn"};
    for (size_t i = 0; i < sizeof(models) / sizeof(*models); i++) {
        tug_ends(
            0,
            "train --data t.csv --format csv --label y --model %s --hidden 40,8 --dim 2 "
            "--epochs 1 --batch 100 --fetch layers --dump l.jsonl --fetch-every 30",
            models[i]);
        char *dump = files_read("l.jsonl", NULL);
        assert_non_null(strstr(dump, "\"the unit on the layers\",\"floats\":8,"));
        assert_null(strstr(dump, "of label"));
        assert_null(strstr(e2e_err, "of label"));
        if (strcmp(models[i], "dcn") == 0)
            assert_non_null(strstr(dump, "\"a unit on the cross layers\",\"floats\":4,"));
        mem_free(dump);
    }
}

static void refused(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"--fetch losses", "--fetch: there is no 'losses'; give loss, auc, 'the bias'"},
        {"--fetch usr=u7", "did you mean 'user'?"},
        {"--fetch-every 3", "--fetch-every needs --fetch or --dump"},
        {"--fetch loss --dump-fields user", "--dump-fields needs --dump"},
        {"--fetch loss --table embedx-threshold=2", "cannot be used with --table"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        tug_ends(2, TRAIN "%s", bad[i][0]);
        e2e_says(bad[i][1]);
    }
    tug_ends(2,
             "launch --workers 1 -- train --data t.csv --format csv --label y --dump d "
             "--dump-fields user");
    e2e_says("on a cluster --dump writes layers only");
    tug_ends(3, TRAIN "--dump d --dump-fields usr");
    e2e_says("the data has no column 'usr', which --dump-fields names");
    // --dump refuses to overwrite a file that the run reads, by whatever path.
    assert_int_equal(symlink("t.csv", "link.csv"), 0);
    tug_ends(2, TRAIN "--dump t.csv");
    e2e_says("--dump: 't.csv' is a file that this run reads");
    tug_ends(2, "launch --workers 1 -- train --data *.csv --format csv --label y "
                "--model lr --epochs 1 --dump t.csv");
    e2e_says("--dump: 't.csv' is a file that this run reads");
    tug_ends(2, TRAIN "--dump ./link.csv");
    e2e_says("--dump: './link.csv' is a file that this run reads");
    assert_int_equal(unlink("link.csv"), 0);
    tug_ends(0, TRAIN);
    tug_ends(4, TRAIN "--dump nosuch/d.jsonl");
    e2e_says("--dump: cannot write 'nosuch/d.jsonl'");
    tug_ends(4, TRAIN "--dump /dev/full --fetch-every 1");
    e2e_says("--dump: cannot write '/dev/full'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_saved), cmocka_unit_test(on_a_cluster),
        cmocka_unit_test(layers), cmocka_unit_test(refused)};
    return cmocka_run_group_tests(tests, begin, e2e_end);
}
