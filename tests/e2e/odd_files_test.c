// Files as other tools write them: empty, with byte order marks, with other line ends.
// Their examples equal those of plain files, or a message says what the file is.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/command.h"

#include <sys/stat.h>

static void write_bytes(const char *path, const char *bytes, size_t n)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void write_text(const char *path, const char *text)
{
    write_bytes(path, text, strlen(text));
}

static void shell(const char *command)
{
    assert_int_equal(system(command), 0);
}

static int train(const char *format, const char *rest)
{
    return tug("train --format %s --model lr --epochs 1 --threads 2 --json %s", format,
               rest);
}

static void gives(const char *format, const char *rest, const char *examples)
{
    char want[64];
    if (train(format, rest) != 0)
        fail_msg("%s: %s", rest, e2e_err);
    snprintf(want, sizeof want, "\"examples\":%s,", examples);
    if (strstr(e2e_out, want) == NULL)
        fail_msg("%s: %s is not in %s", rest, want, e2e_out);
}

static void refused(const char *format, const char *rest, const char *why)
{
    assert_int_equal(train(format, rest), 3);
    e2e_says(why);
}

static const char svm[] = "1 1:1\n0 2:1\n", csv[] = "y,u\n1,a\n0,b\n";

// Spark writes a file for every task, also for tasks without output.
static void test_empty_parts(void **state)
{
    (void)state;
    shell("rm -rf d e; mkdir d e");
    write_text("d/part-0", "");
    write_text("d/part-1", svm);
    write_text("d/part-2", "\n\n");
    write_text("d/part-4", svm);
    shell("for i in 3 5; do printf '' | gzip > d/part-$i.gz; done");
    gives("libsvm", "--data d", "4");
    gives("libsvm", "--data d/part-0 --data d/part-1", "2");
    gives("libsvm", "--data d --data-in stream", "4");
    gives("libsvm", "--data d --pipe-command cat", "4");
    write_text("e/0.csv", "");
    write_text("e/1.csv", "\n");
    write_text("e/2.csv", csv);
    write_text("e/3.csv", "\r\n\r\n");
    gives("csv", "--data e", "2");
    gives("csv", "--data e --data-in stream", "2");
    gives("csv", "--data e --test e", "2");
    refused("libsvm", "--data d/part-0", "'d/part-0' is empty");
    refused("libsvm", "--data d/part-0 --data d/part-3.gz",
            "there is no data: all 2 files are empty");
}

static void test_marks_and_line_ends(void **state)
{
    (void)state;
    write_text("mark", "\xef\xbb\xbf"
                       "1 1:1\r\n0 2:1\r\n\xef\xbb\xbf"
                       "1 1:1\n");
    gives("libsvm", "--data mark", "3");
    assert_non_null(strstr(e2e_out, "\"keys\":2,"));
    shell("gzip -c mark > mark.gz");
    gives("libsvm", "--data mark.gz", "3");
    gives("libsvm", "--data mark --pipe-command cat", "3");
    e2e_stdin = "mark";
    gives("libsvm", "--data -", "3");
    e2e_stdin = NULL;
    write_text("words.csv", "\xef\xbb\xbfu1,1\nu2,0\nu1,1\n");
    gives("csv", "--data words.csv --columns u,y --label y", "3");
    assert_non_null(strstr(e2e_out, "\"keys\":2,"));
    write_text("mac", "1 1:1\r0 2:1\r");
    refused("libsvm", "--data mac", "mac:1: the line has a carriage return (CR)");
    write_text("mac.csv", "y,u\r1,a\r0,b\r");
    refused("csv", "--data mac.csv", "mac.csv:1: the line has a carriage return (CR)");
    write_bytes("wide.csv", "\xff\xfey\0,\0u\0\n\0", 10);
    refused("csv", "--data wide.csv", "UTF-16");
    shell("gzip -c wide.csv > wide.csv.gz");
    refused("csv", "--data wide.csv.gz", "UTF-16");
    e2e_stdin = "wide.csv";
    refused("csv", "--data -", "UTF-16");
    e2e_stdin = NULL;
}

// Names are printed unchanged, except that control characters are printed as text, in
// errors, warnings and tables.
static void test_names_in_messages(void **state)
{
    (void)state;
    write_text("names.csv", "\u70b9\u51fb,\u7528\u6237\n1,a\n0,b\n");
    refused("csv", "--data names.csv --label click",
            "it has '\u70b9\u51fb', '\u7528\u6237'");
    write_text("steers.csv", "clicked,us\x1b[31mer,\u7528\n1,a,b\n0,c,b\n1,a,b\n");
    refused("csv", "--data steers.csv --label click", "'us\\x1b[31mer'");
    tug_ends(0,
             "train --data steers.csv --format csv --label clicked --model lr --epochs 1 "
             "--out steers --keep-names 10");
    tug_ends(0, "eval --from steers --data steers.csv --importance");
    assert_null(strchr(e2e_out, '\x1b'));
    assert_non_null(strstr(e2e_out, "us\\x1b[31mer\n"));
    assert_non_null(strstr(e2e_out, "\u7528\n"));
    static const char *const commands[] = {
        "eval --from steers --data steers.csv --by us\x1b[31mer",
        "table stat --from steers", "table top --from steers",
        "predict --from steers --data steers.csv --explain 2"};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        (void)tug("%s", commands[i]);
        assert_null(strchr(e2e_out, '\x1b'));
        assert_null(strchr(e2e_err, '\x1b'));
    }
}

// An error names the problem, and the command that it suggests works.
static void test_advice(void **state)
{
    (void)state;
    write_text("lines.svm", "1 3:1 9:0.5\n0 4:1\n");
    tug_ends(3, "train --data lines.svm --format libffm --model ffm");
    e2e_says("lines.svm:1: '3:1' is not a feature of the form field:index:value");
    write_text("bare", "1\n0\n");
    tug_ends(3, "train --data bare --format libffm --model ffm");
    e2e_says("bare: no line has a feature");
    write_text("large", "1 1:1\n0 1:-1.797e308\n");
    refused("libsvm", "--data large",
            "too large: numbers are 32-bit floats, up to 3.4e38");
    tug_ends(2, "train --data lines.svm --format libsvm --table users.table");
    e2e_says("--table: there is no file 'users.table'");
    tug_ends(0,
             "train --data lines.svm --format libsvm --model lr --epochs 1 --out lines");
    write_text("other.csv", "id,click\n1,0\n");
    tug_ends(3, "eval --from lines --data other.csv");
    e2e_says("the model was trained on libsvm data");
    assert_null(strstr(e2e_err, "read the data with --format"));
    write_text("grows.csv", "y,id,u\n1,0,a\n1e30,1e30,b\n");
    tug_ends(3,
             "train --data grows.csv --format csv --numeric id --model lr --loss squared "
             "--optimizer sgd --lr 100 --epochs 1 --threads 1 --out grows");
    e2e_says("(first in grows.csv:2)");
    e2e_says("column 'id'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty_parts),
        cmocka_unit_test(test_marks_and_line_ends),
        cmocka_unit_test(test_names_in_messages),
        cmocka_unit_test(test_advice),
    };
    return cmocka_run_group_tests(tests, e2e_begin, e2e_end);
}
