// Broken data: for each kind of mistake, the command ends with its exit status and prints
// one line that names the place and the cause.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/command.h"

#include <sys/stat.h>

#include "data/input/encode.h"

// Returns twenty examples with these features, with labels of both classes: enough to
// train on.
static char *good_lines(const char *features)
{
    char *text = mem_alloc(20 * (strlen(features) + 4) + 1);
    assert_non_null(text);
    size_t n = 0;
    for (int i = 0; i < 20; i++)
        n += (size_t)snprintf(text + n, strlen(features) + 5, "%d %s\n", i % 2, features);
    return text;
}

// Writes twenty good lines and then `line` to the file "data".
static void write_after_good(const char *features, const char *line)
{
    char *text = good_lines(features);
    FILE *f = fopen("data", "w");
    assert_non_null(f);
    fputs(text, f);
    fputs(line, f);
    fclose(f);
    mem_free(text);
}

static int train(const char *format)
{
    return tug("train --data data --format %s --model lr --epochs 1 --threads 2 --json",
               format);
}

// Checks that standard error has exactly one line, and that it contains the expected
// words.
static void is_one_line(void)
{
    size_t n = strcspn(e2e_err, "\n");
    if (e2e_err[n] != '\n' || e2e_err[n + 1] != 0)
        fail_msg("not one line: %s", e2e_err);
}

static void refused(const char *format, const char *where, const char *why)
{
    int code = train(format);
    if (code != 3)
        fail_msg("exit status %d instead of 3 for '%s': %s", code, why, e2e_err);
    e2e_says(where);
    e2e_says(why);
    is_one_line();
    assert_string_equal(e2e_out, "");
}

// ---------------------------------------------------------------- broken files

static void compress(const char *path, const char *text)
{
    struct encoder *x;
    struct err e;
    assert_int_equal(encoder_open(&x, path, &e), 0);
    assert_int_equal(encoder_write(x, text, strlen(text), &e), 0);
    assert_int_equal(encoder_commit(x, NULL, &e), 0);
}

static void no_data(void **state)
{
    (void)state;
    refused("libsvm", "data", "no such file");
    tug_ends(3, "train --data data data2 --test data3 --valid data4 --format libsvm");
    e2e_says("4 problems: (1) no data at 'data': ");
    e2e_says("(4) no data at 'data4': there is no such file");
    files_write("data", "");
    refused("libsvm", "data", "empty");
    // Both errors are found before any data is read.
    tug_ends(3, "train --data data data2 --format libsvm");
    e2e_says("2 problems: (1) no data at 'data2': ");
    e2e_says("(2) 'data' is empty");
    e2e_stdin = "data";
    tug_ends(3, "train --data - --format libsvm --epochs 1");
    e2e_says("(standard input) is empty");
    e2e_stdin = NULL;
    compress("data.gz", "");
    tug_ends(3, "train --data data.gz --format libsvm --epochs 1");
    e2e_says("'data.gz' is empty");
    files_remove("data");
    assert_int_equal(mkdir("data", 0700), 0);
    refused("libsvm", "data", "there are no plain files in it or below it");
    files_write("data/.hidden", "1 1:1\n");
    files_write("data/_SUCCESS", "1 1:1\n");
    refused("libsvm", "data", "there are no plain files in it or below it");
    files_remove("data");
    tug_ends(3, "train --data no*thing --format libsvm --model lr");
    e2e_says("no data at 'no*thing': the pattern matches nothing");
    // The file has lines, but no line has an example.
    files_write("data", "\n\n# nothing\n\n");
    refused("libsvm", "data", "no example");
    files_write("data", "click,site\n");
    refused("csv", "data", "no example");
}

static void no_test_data(void **state)
{
    (void)state;
    tug_ends(3, "train --data missing,too --format libsvm --model lr");
    e2e_says("(several files are separated by blanks, not by commas)");
    write_after_good("1:1", "");
    tug_ends(3, "train --data data --format libsvm --test missing");
    e2e_says("no data at 'missing': there is no such file or directory");
    // The error comes before training, which may take hours.
    assert_null(strstr(e2e_err, "pass 1"));
    tug_ends(3, "train --data data --format libsvm --valid missing");
    e2e_says("no data at 'missing': there is no such file or directory");
    assert_null(strstr(e2e_err, "pass 1"));
    files_write("empty", "\n");
    tug_ends(3, "train --data data --format libsvm --test empty");
    e2e_says("empty: there is no example in the data");
}

static void binary_files(void **state)
{
    (void)state;
    unsigned char bytes[4096];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)(i * 131 >> 3 ^ i);
    static const char *const formats[][2] = {{"libsvm", "the line has a byte 0"},
                                             {"libffm", "the line has a byte 0"},
                                             {"criteo", "the line has a byte 0"},
                                             {"csv", "the line has a byte 0"}};
    for (size_t i = 0; i < 4; i++) {
        files_write_bytes("data", bytes, sizeof(bytes));
        refused(formats[i][0], "data:1: ", formats[i][1]);
        files_write_bytes("data", (char[100]){0}, 100);
        refused(formats[i][0], "data:1: ", formats[i][1]);
    }
}

// ---------------------------------------------------------------- compressed files

static void truncated_files(void **state)
{
    (void)state;
    static const char *const names[] = {"data.gz", "data.zst", "data.lz4"};
    char *text = good_lines("1:1 2:0.5 77:1 12345678:3");
    for (size_t i = 0; i < 3; i++) {
        size_t n;
        compress(names[i], text);
        tug_ends(0, "train --data %s --format libsvm --model lr --epochs 1", names[i]);
        char *bytes = files_read(names[i], &n);
        for (size_t cut = 1; cut <= n / 2; cut += n / 9) {
            files_write_bytes(names[i], bytes, n - cut);
            tug_ends(3, "train --data %s --format libsvm --model lr --epochs 1",
                     names[i]);
            e2e_says(names[i]);
            is_one_line();
        }
        bytes[n / 2] = (char)(bytes[n / 2] ^ 16);
        files_write_bytes(names[i], bytes, n);
        tug_ends(3, "train --data %s --format libsvm --model lr --epochs 1", names[i]);
        e2e_says(names[i]);
        mem_free(bytes);
    }
    mem_free(text);
}

// ---------------------------------------------------------------- valid lines

static void fine(const char *format, const char *text, double examples)
{
    files_write("data", text);
    int code = train(format);
    if (code != 0)
        fail_msg("exit status %d: %s", code, e2e_err);
    assert_true(e2e_number("examples") == examples);
}

static void unusual_but_valid(void **state)
{
    (void)state;
    fine("libsvm", "1 1:1\r\n0 2:1\r\n", 2); // CRLF
    fine("libsvm", "1 1:1\n0 2:1", 2);       // the last line has no newline
    fine("libsvm", "1 1:1\r\n0 2:1\r", 2);
    fine("libsvm", "+1 0:1\n-1 18446744073709551615:1\n", 2);
    fine("libsvm", "1\n0\n", 2); // no features
    fine("csv", "click,site\r\n1,a\r\n0,b", 2);
    fine("libffm", "1 0:0:1\r\n0 0:1:1", 2);
    // Lines that end in CRLF give the same model as lines that end in LF: the CR does not
    // become a part of the last value.
    files_write("a", "1 1:1 2:0.5\n0 2:1 1:2\n");
    files_write("b", "1 1:1 2:0.5\r\n0 2:1 1:2\r\n");
    for (const char *f = "a"; *f == 'a' || *f == 'b'; f = *f == 'a' ? "b" : "") {
        files_remove(files_path("out-%s", f));
        tug_ends(0, "train --data %s --format libsvm --deterministic --out out-%s", f, f);
    }
    e2e_same_model("out-a", "out-b");
}

// Trains on a line of 10 MB that has many features, and refuses a line of 10 MB whose
// feature is not a number.
static void long_lines(void **state)
{
    (void)state;
    enum { BYTES = 10 << 20 };
    char *text = mem_alloc(BYTES + 64);
    assert_non_null(text);
    size_t n = (size_t)snprintf(text, BYTES, "1 1:1\n0");
    for (unsigned i = 0; n < BYTES; i++)
        n += (size_t)snprintf(text + n, 32, " %u:1", i % 1000000);
    snprintf(text + n, 32, "\n1 2:1\n");
    fine("libsvm", text, 3);
    memset(text + 8, 'x', BYTES - 8);
    files_write("data", text);
    refused("libsvm", "data:2: ", "xxx");
    // The message quotes only the beginning of the line.
    assert_in_range(strlen(e2e_err), 1, 400);
    mem_free(text);
}

// ---------------------------------------------------------------- broken lines

static const struct bad_line {
    const char *format, *good, *line, *why;
} bad_lines[] = {
    {"libsvm", "1:1", "1:1 2:1\n", "label is missing"},
    {"libsvm", "1:1", "2 1:1\n", "label '2'"},
    {"libsvm", "1:1", "nan 1:1\n", "the label 'nan' is not finite"},
    {"libsvm", "1:1", "0.5 1:1\n", "the label '0.5' is not one of"},
    {"libsvm", "1:1", "1 3:nan\n", "value 'nan' of feature 3 is not finite"},
    {"libsvm", "1:1", "1 3:inf\n", "value 'inf' of feature 3 is not finite"},
    {"libsvm", "1:1", "1 3:1e999\n", "value '1e999' of feature 3 is too large"},
    {"libsvm", "1:1", "1 3:-1e999\n", "value '-1e999' of feature 3 is too large"},
    {"libsvm", "1:1", "1 -3:1\n", "negative"},
    {"libsvm", "1:1", "1 18446744073709551616:1\n", "over 2^64"},
    {"libsvm", "1:1", "1 99999999999999999999999:1\n", "over 2^64"},
    {"libsvm", "1:1", "1 1:1:1\n", "--format libffm"},
    {"libsvm", "1:1", "1 a:1\n", "index 'a'"},
    {"libsvm", "1:1", "1 3\n", "index:value"},
    {"libsvm", "1:1", "1 3:\n", "value of feature 3 is missing"},
    {"libsvm", "1:1", "one 3:1", "label 'one'"},
    {"libffm", "0:1:1", "1 0:1\n", "field:index:value"},
    {"libffm", "0:1:1", "0:1:1\n", "label is missing"},
    {"libffm", "0:1:1", "1 -1:1:1\n", "field '-1' is not a whole number"},
    {"libffm", "0:1:1", "1 70000:1:1\n", "field 70000 is not below 65536"},
    {"libffm", "0:1:1", "1 0:1:nan\n", "value 'nan' of feature 1 is not finite"},
    {"libffm", "0:1:1", "1 0:18446744073709551616:1\n", "over 2^64"},
};

static void lines_of_sparse_formats(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bad_lines) / sizeof(*bad_lines); i++) {
        const struct bad_line *b = &bad_lines[i];
        write_after_good(b->good, b->line);
        refused(b->format, "data:21: ", b->why);
    }
    // "nan" is not a valid label, and the header check must not take it for a column's
    // name.
    files_write("data", "nan 1:1\n");
    tug_ends(3, "train --data data --format libsvm");
    e2e_says("data:1: the label 'nan' is not finite");
    assert_null(strstr(e2e_err, "header"));
}

static void lines_of_columns(void **state)
{
    (void)state;
    files_write("data", "click,site,age\n1,a,3\n0,b\n");
    refused("csv", "data:3: ", "found 2 columns, the header has 3");
    files_write("data", "click,site,age\n1,a,3\n0,b,4,5\n");
    refused("csv", "data:3: ", "found 4 columns, the header has 3");
    files_write("data", "click,site,age\n1,a,3\n,b,4\n");
    refused("csv", "data:3: ", "the label is missing");
    files_write("data", "click,site,age\n1,a,3\n0,\"b\"c,4\n");
    refused("csv", "data:3: ", "the closing quote of 'b' is not followed by ','");
    files_write("data", "click,site,age\n1,a,3\n0,\"b,4\n");
    refused("csv", "data:3: ", "the quote before 'b,4' is not closed in its line");
    files_write("data", "click,site,age\n1,a,3\n2,b,4\n");
    refused("csv", "data:3: ", "'2'");
    files_write("data", "1\t2\t3\n");
    refused("criteo", "data:1: ", "found 3 columns between tabs, expected 40");
    tug_ends(3, "train --data data --format csv --model lr --label clicked");
    e2e_says("the header has no column 'clicked', which --label names");
    files_write("data", "click,site,age\n1,a,3\n0,b,old\n");
    tug_ends(3, "train --data data --format csv --model lr --numeric age");
    e2e_says("data:3: ");
    e2e_says("value 'old' of column 'age' is not a number");
    tug_ends(3, "train --data data --format csv --model lr --drop sites");
    e2e_says("the header has no column 'sites', which --drop names");
}

static void one_class(void **state)
{
    (void)state;
    files_write("data", "0 1:1\n0 2:1\n0 1:1\n");
    tug_ends(0, "train --data data --format libsvm --model lr --test data --json");
    e2e_says("all 3 labels are 0");
    // The JSON has null, which e2e_number() returns as NaN.
    assert_true(e2e_number("auc") != e2e_number("auc"));
    assert_true(e2e_number("copc") != e2e_number("copc"));
    assert_true(e2e_number("logloss") > 0);
    files_write("data", "1 1:1\n");
    tug_ends(0, "train --data data --format libsvm --model lr --json");
    e2e_says("all 1 labels are 1");
}

// ---------------------------------------------------------------- --max-bad-lines

static void skipped_lines(void **state)
{
    (void)state;
    write_after_good("1:1", "2 1:1\n1 1:x\n1 2:1\n");
    const char *command =
        "train --data data --format libsvm --model lr --epochs 3 --json";
    static const char *const ways[] = {"--data-in memory", "--data-in stream",
                                       "--threads 3 --valid 0.3"};
    for (size_t i = 0; i < 3; i++) {
        tug_ends(3, "%s --max-bad-lines 1 %s", command, ways[i]);
        e2e_says("data:22: ");
        e2e_says("that is one line more than --max-bad-lines 1 allows");
        tug_ends(0, "%s --max-bad-lines 2 %s", command, ways[i]);
        assert_true(e2e_number("skipped_lines") == 2);
        // With --valid, "examples" does not count the held-out examples.
        assert_true(i < 2 ? e2e_number("examples") == 21 : e2e_number("examples") < 21);
        tug_ends(0, "%s --max-bad-lines 1000 %s", command, ways[i]);
        assert_true(e2e_number("skipped_lines") == 2);
    }
    // train also counts the bad lines of --test, and eval counts the bad lines of its
    // data.
    files_write("test", "1 1:1\n?\n0 2:1\n");
    files_remove("out");
    tug_ends(0, "%s --max-bad-lines 3 --test test --out out", command);
    assert_true(e2e_number("skipped_lines") == 3);
    tug_ends(3, "eval --from out --data test");
    e2e_says("test:2: ");
    tug_ends(0, "eval --from out --data test --max-bad-lines 1 --json");
    assert_true(e2e_number("skipped_lines") == 1);
    assert_true(e2e_number("examples") == 2);
    // predict writes one prediction for each line, so it cannot skip a bad line.
    files_write("test", "1 1:1\n? 1:x\n0 2:1\n");
    tug_ends(3, "predict --from out --data test");
    e2e_says("test:2: ");
    // Every line is bad.
    files_write("data", "x\ny\n");
    tug_ends(3, "%s --max-bad-lines 5", command);
    e2e_says("no example");
}

// eval and predict of a saved model refuse bad data as train does.
static void saved_models_and_bad_data(void **state)
{
    (void)state;
    write_after_good("1:1", "");
    files_remove("out");
    tug_ends(0, "train --data data --format libsvm --model lr --out out");
    static const char *const commands[] = {"eval", "predict"};
    for (size_t i = 0; i < 2; i++) {
        tug_ends(3, "%s --from out --data missing", commands[i]);
        e2e_says("missing");
        files_write("data", "");
        tug_ends(3, "%s --from out --data data", commands[i]);
        e2e_says("data");
        files_write("data", "\n");
        tug_ends(3, "%s --from out --data data", commands[i]);
        e2e_says("no example");
        files_write("data", "1 1:1\n1 1:nan\n");
        tug_ends(3, "%s --from out --data data", commands[i]);
        e2e_says("data:2: ");
        assert_string_equal(e2e_out, "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_data),
        cmocka_unit_test(no_test_data),
        cmocka_unit_test(binary_files),
        cmocka_unit_test(truncated_files),
        cmocka_unit_test(unusual_but_valid),
        cmocka_unit_test(long_lines),
        cmocka_unit_test(lines_of_sparse_formats),
        cmocka_unit_test(lines_of_columns),
        cmocka_unit_test(one_class),
        cmocka_unit_test(skipped_lines),
        cmocka_unit_test(saved_models_and_bad_data),
    };
    return cmocka_run_group_tests(tests, e2e_begin, e2e_end);
}
