// Metrics of groups of examples: the numbers that the command prints are compared with
// metrics computed here from its predictions.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "base/random.h"
#include "kit/command.h"

enum { ROWS = 3000, USERS = 400, DEVICES = 5, MOST = 60000 };

static const char *const devices[DEVICES] = {"phone", "tablet", "", "tv, \"smart\"",
                                             "pc"};

// Writes data whose clicks depend on the ad and the device. Some rows have no user;
// training drops that column.
static void write_rows(const char *path, uint64_t seed)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "click,user,device,ad,w\n");
    for (uint64_t i = 0; i < ROWS; i++) {
        uint64_t user = random_below(seed, 1, i, 1 + random_below(seed, 2, i, USERS));
        uint64_t device = random_below(seed, 3, i, DEVICES),
                 ad = random_below(seed, 4, i, 9);
        double p = 0.1 + 0.06 * (double)ad + 0.05 * (double)device;
        bool quotes = strchr(devices[device], '"') != NULL;
        fprintf(f, "%d,", random_f64(seed, 5, i) < p);
        if (user % 10 != 3)
            fprintf(f, "u%d", (int)user);
        fprintf(f, ",%s,%d,%d\n", quotes ? "\"tv, \"\"smart\"\"\"" : devices[device],
                (int)ad, 1 + (int)random_below(seed, 6, i, 3));
    }
    assert_int_equal(fclose(f), 0);
}

static struct row {
    char group[40];
    double label, weight, score;
} rows[MOST];
static size_t n_rows;

// Reads the lines "GROUP,LABEL,WEIGHT,SCORE" that the command printed; lines without a
// weight get the weight 1.
static void read_rows(bool weights, char separator)
{
    n_rows = 0;
    for (const char *p = e2e_out; *p != '\0'; n_rows++) {
        struct row *r = &rows[n_rows];
        const char *comma = strchr(p, separator);
        char *end;
        assert_true(n_rows < MOST && comma != NULL && comma - p < 40);
        snprintf(r->group, sizeof(r->group), "%.*s", (int)(comma - p), p);
        r->label = strtod(comma + 1, &end);
        r->weight = weights ? strtod(end + 1, &end) : 1;
        r->score = strtod(end + 1, &end);
        assert_int_equal(*end, '\n');
        p = end + 1;
    }
}

static struct found {
    double gauc, counted, one_class, without;
} naive(void)
{
    struct found f = {0};
    double sum = 0, weights = 0;
    for (size_t g = 0; g < n_rows; g++) {
        double won = 0, pairs = 0, weight = 0;
        bool first = true;
        for (size_t i = 0; i < n_rows && first; i++) {
            if (strcmp(rows[i].group, rows[g].group) != 0)
                continue;
            first = i >= g;
            weight += rows[i].weight;
            for (size_t j = 0; j < n_rows && rows[i].label > 0; j++) {
                if (rows[j].label > 0 || strcmp(rows[j].group, rows[g].group) != 0)
                    continue;
                double w = rows[i].weight * rows[j].weight;
                pairs += w;
                won += rows[i].score > rows[j].score    ? w
                       : rows[i].score == rows[j].score ? w / 2
                                                        : 0;
            }
        }
        f.without += rows[g].group[0] == '\0';
        if (!first || rows[g].group[0] == '\0')
            continue;
        f.counted += pairs > 0;
        f.one_class += pairs == 0;
        sum += pairs > 0 ? weight * won / pairs : 0;
        weights += pairs > 0 ? weight : 0;
    }
    f.gauc = sum / weights;
    return f;
}

static double number_in(const char *object, const char *name)
{
    json_t *o = e2e_json();
    const json_t *v = json_object_get(json_object_get(o, object), name);
    if (!json_is_number(v))
        fail_msg("there is no number %s.%s: %s", object, name, e2e_out);
    double x = json_number_value(v);
    json_decref(o);
    return x;
}

static void same(const struct found *want)
{
    double got = e2e_number("gauc");
    if (!(fabs(got - want->gauc) < 1e-9))
        fail_msg("gauc is %.12f, not %.12f", got, want->gauc);
    assert_true(number_in("groups", "counted") == want->counted);
    assert_true(number_in("groups", "one_class") == want->one_class);
    assert_true(number_in("groups", "without") == want->without);
}

static const char *const train =
    "train --data train.csv --test test.csv --format csv --drop user --weight-column w "
    "--model lr --epochs 2 --group user --json";

static void gauc(void **state)
{
    (void)state;
    tug_ends(0, "%s --out out", train);
    double trained = e2e_number("gauc");
    char *said = e2e_out;
    e2e_out = NULL;
    tug_ends(0,
             "predict --from out --data test.csv --raw --no-header --keep user,click,w");
    read_rows(true, ',');
    assert_int_equal(n_rows, ROWS);
    struct found want = naive();
    assert_true(want.counted > 50 && want.one_class > 5 && want.without > 50);
    mem_free(e2e_out);
    e2e_out = said;
    same(&want);
    for (int threads = 1; threads <= 3; threads++) {
        tug_ends(0, "eval --from out --data test.csv --group user --json --threads %d",
                 threads);
        same(&want);
        assert_true(e2e_number("gauc") == trained); // the numbers are bit-identical
    }
    tug_ends(0, "eval --from out --data test.csv --group user");
    assert_non_null(strstr(e2e_out, files_path("  gauc %.5f  (3000 examples)", trained)));
    assert_non_null(
        strstr(e2e_out, files_path("gauc averages %d groups", (int)want.counted)));
    tug_ends(0, "eval --from out --data test.csv --json");
    assert_true(isnan(e2e_number("gauc")));
}

static const json_t *line_of(const json_t *table, const char *value)
{
    for (size_t i = 0; i < json_array_size(table); i++) {
        const json_t *line = json_array_get(table, i),
                     *v = json_object_get(line, "value");
        if (value[0] != '\0' ? json_is_string(v) && !strcmp(json_string_value(v), value)
                             : json_is_null(v))
            return line;
    }
    fail_msg("there is no line of '%s': %s", value, e2e_out);
    return NULL;
}

static double cell(const json_t *line, const char *name)
{
    return json_number_value(json_object_get(line, name));
}

// Each line of the table of --by has a value of the column, and the metrics of the rows
// with this value.
static void table(void **state)
{
    (void)state;
    tug_ends(0, "predict --from model --data test.csv --no-header --keep ad,click,w");
    read_rows(true, ',');
    tug_ends(0, "eval --from model --data test.csv --by ad --group user --json");
    json_t *o = e2e_json();
    const json_t *by = json_object_get(o, "by"), *lines = json_object_get(by, "table");
    assert_true(isfinite(e2e_number("gauc")));
    assert_string_equal(json_string_value(json_object_get(by, "columns")), "ad");
    assert_int_equal(json_integer_value(json_object_get(by, "values")), 9);
    assert_int_equal(json_array_size(lines), 9);
    double last = ROWS;
    for (size_t i = 0; i < 9; i++) { // the largest group comes first
        double n = cell(json_array_get(lines, i), "examples");
        assert_true(n <= last);
        last = n;
    }
    for (int ad = 0; ad < 9; ad++) {
        double n = 0, weight = 0, positives = 0, loss = 0, predicted = 0, observed = 0;
        const char *value = files_path("%d", ad);
        for (size_t i = 0; i < n_rows; i++) {
            const struct row *r = &rows[i];
            if (strcmp(r->group, value) != 0)
                continue;
            n++;
            weight += r->weight;
            positives += r->label;
            predicted += r->weight * r->score;
            observed += r->weight * r->label;
            loss -= r->weight * log(r->label > 0 ? r->score : 1 - r->score);
        }
        const json_t *line = line_of(lines, value);
        assert_true(cell(line, "examples") == n && cell(line, "positives") == positives);
        assert_true(fabs(cell(line, "logloss") - loss / weight) < 1e-5);
        assert_true(fabs(cell(line, "copc") - predicted / observed) < 1e-5);
        assert_true(cell(line, "auc") > 0.3 && cell(line, "auc") < 0.7);
    }
    json_decref(o);
}

// Checks the text of the table of --by: empty cells, several columns, --top, and wrong
// options.
static void table_as_text(void **state)
{
    (void)state;
    tug_ends(0, "eval --from model --data test.csv --by device");
    const char *head = strstr(e2e_out, "    examples     positives       auc   logloss"
                                       "      copc  device\n");
    assert_non_null(head);
    assert_non_null(strstr(head, "  phone\n"));
    assert_non_null(strstr(head, "  (empty)\n"));
    assert_non_null(strstr(head, "  tv, \"smart\"\n"));
    assert_null(strstr(e2e_out, "with most examples"));
    tug_ends(0, "eval --from model --data test.csv --by ad,device --top 3");
    head = strstr(e2e_out, "the 3 of 45 values with most examples:\n");
    assert_non_null(head);
    size_t lines = 0;
    for (; *head != '\0'; head++)
        lines += *head == '\n';
    assert_int_equal(lines, 5);
    tug_ends(2, "eval --from model --data test.csv --top 3");
    e2e_says("--top needs --by");
    tug_ends(3, "eval --from model --data test.csv --by phone --group user");
    e2e_says("the data has no column 'phone', which --group or --by names");
    tug_ends(3, "eval --from model --data test.csv --by=");
    e2e_says("the data has no column '', which --by names");
    tug_ends(3, "eval --from model --data test.csv --group=");
    e2e_says("the data has no column '', which --group names");
}

// pandas writes a header with an empty name for the index of a frame.
static void column_with_an_empty_name(void **state)
{
    (void)state;
    FILE *f = fopen("unnamed.csv", "w");
    assert_non_null(f);
    fputs(",clicked,ad\n", f);
    for (int i = 0; i < 120; i++)
        fprintf(f, "%d,%d,a%d\n", i % 3, (i / 3) % 2, i % 5);
    assert_int_equal(fclose(f), 0);
    tug_ends(
        0,
        "train --data unnamed.csv --format csv --label clicked --epochs 1 --out unnamed");
    tug_ends(0, "eval --from unnamed --data unnamed.csv --group= --json");
    assert_true(e2e_number("gauc") > 0 && e2e_number("gauc") < 1);
    tug_ends(0, "eval --from unnamed --data unnamed.csv --by= --json");
    json_t *o = e2e_json();
    const json_t *lines = json_object_get(json_object_get(o, "by"), "table");
    assert_int_equal(json_array_size(lines), 3);
    assert_true(cell(line_of(lines, "2"), "examples") == 40);
    json_decref(o);
}

// Importance of columns. Clicks depend on the ad and the device. The data is scored once
// more for each column.
static void importance(void **state)
{
    (void)state;
    tug_ends(0, "eval --from model --data test.csv --json");
    double auc = e2e_number("auc");
    tug_ends(0, "eval --from model --data test.csv --importance --json");
    assert_true(e2e_number("auc") == auc);
    json_t *o = e2e_json();
    const json_t *lines = json_object_get(o, "importance");
    assert_int_equal(json_array_size(lines), 2);
    for (size_t i = 0; i < 2; i++) {
        const json_t *line = json_array_get(lines, i);
        assert_string_equal(json_string_value(json_object_get(line, "column")),
                            i == 0 ? "ad" : "device");
        assert_true(cell(line, "auc_drop") > 0.01 && cell(line, "logloss_rise") > 0);
        assert_true(cell(line, "auc") == auc - cell(line, "auc_drop"));
    }
    json_decref(o);
    tug_ends(0, "eval --from model --data test.csv --importance --only ad+device");
    assert_non_null(strstr(e2e_out, "  ad+device\n"));
    tug_ends(2, "eval --from model --data test.csv --importance --only ad+user");
    e2e_says("--only: there is no feature column 'user'");
    tug_ends(2, "eval --from model --data test.csv --only ad");
    e2e_says("--only needs --importance");
    tug_ends(2, "eval --from model --data test.csv --importance --by ad");
    e2e_says("--importance cannot be combined with --group or --by");
}

// Each example is in one bin of --calibration, and all bins together give copc.
static void calibration(void **state)
{
    (void)state;
    tug_ends(0, "eval --from model --data test.csv --calibration --json");
    json_t *o = e2e_json();
    const json_t *bins = json_object_get(o, "calibration");
    double examples = 0, predicted = 0, observed = 0;
    assert_in_range(json_array_size(bins), 2, 10);
    for (size_t i = 0; i < json_array_size(bins); i++) {
        const json_t *bin = json_array_get(bins, i);
        examples += cell(bin, "examples");
        predicted += cell(bin, "weight") * cell(bin, "predicted");
        observed += cell(bin, "weight") * cell(bin, "observed");
        assert_true(cell(bin, "from") <= cell(bin, "predicted") &&
                    cell(bin, "predicted") <= cell(bin, "to"));
    }
    json_decref(o);
    assert_true(examples == e2e_number("examples"));
    assert_true(fabs(predicted / observed - e2e_number("copc")) < 1e-6);
    tug_ends(0, "eval --from model --data test.csv --calibration");
    assert_non_null(strstr(e2e_out, " predicted  observed\n"));
}

// --valid with a share of the data, in memory or read again, and with a file.
static void validation(void **state)
{
    (void)state;
    static const char *const ways[] = {"--valid 0.3 --data-in memory",
                                       "--valid 0.3 --data-in stream",
                                       "--valid test.csv"};
    double gauc[3];
    for (int i = 0; i < 3; i++) {
        tug_ends(0, "%s %s --deterministic --epochs 1", train, ways[i]);
        gauc[i] = number_in("valid", "gauc");
        assert_true(gauc[i] > 0.5 && gauc[i] < 1);
        if (i == 2)
            assert_true(e2e_number("gauc") == gauc[i]);
    }
    assert_true(gauc[0] != gauc[2] && fabs(gauc[0] - gauc[1]) < 0.02);
}

// The driver of a cluster evaluates as one process does.
static void on_a_cluster(void **state)
{
    (void)state;
    tug_ends(0, "launch --servers 2 --workers 2 -- %s --mode sync --out many", train);
    double gauc = e2e_number("gauc");
    tug_ends(0, "eval --from many --data test.csv --group user --json");
    assert_true(e2e_number("gauc") == gauc);
}

// Wrong options are reported before any training.
static void mistakes(void **state)
{
    (void)state;
    tug_ends(3, "%s --group nobody --max-bad-lines 100", train);
    e2e_says("test.csv:2: the data has no column 'nobody', which --group names");
    tug_ends(3, "train --data train.csv --format csv --valid 0.1 --group nobody");
    e2e_says("train.csv: the data has no column 'nobody', which --group names");
    tug_ends(2, "train --data train.csv --format csv --group user");
    e2e_says("--group needs --test or --valid: it says how they are evaluated");
    tug_ends(2, "%s --loss squared", train);
    e2e_says(
        "--group: the AUC needs labels 0 and 1, but this model has the squared loss");
    files_write("d.svm", "1 7:1\n0 8:1\n");
    tug_ends(2, "train --data d.svm --test d.svm --format libsvm --group 7");
    e2e_says("--group works with csv, criteo, libffm and multislot data");
}

// MovieLens-1M: field 0 is the user.
static void ml1m(void **state)
{
    (void)state;
    const char *data = files_shared("ml1m/train.ffm.zst"),
               *test = files_shared("ml1m/test.ffm.zst");
    tug_ends(0,
             "train --data %s --test %s --format libffm --model fm --epochs 2 --group 0 "
             "--json --out movies",
             data, test);
    double gauc = e2e_number("gauc"), auc = e2e_number("auc");
    // The AUC within users is lower than the overall AUC, because the overall order also
    // profits from users that like everything.
    assert_true(gauc > 0.73 && gauc < auc);
    assert_true(number_in("groups", "counted") == 2447);
    assert_true(number_in("groups", "one_class") == 515);
}

static int begin(void **state)
{
    if (e2e_begin(state) != 0)
        return -1;
    write_rows("train.csv", 1);
    write_rows("test.csv", 2);
    tug_ends(0, "%s --out model", train);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gauc),          cmocka_unit_test(table),
        cmocka_unit_test(table_as_text), cmocka_unit_test(column_with_an_empty_name),
        cmocka_unit_test(importance),    cmocka_unit_test(validation),
        cmocka_unit_test(on_a_cluster),  cmocka_unit_test(mistakes),
        cmocka_unit_test(ml1m),          cmocka_unit_test(calibration),
    };
    return cmocka_run_group_tests(tests, begin, e2e_end);
}
