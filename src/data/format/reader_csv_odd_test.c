// Warnings about columns of csv files whose words a model of an earlier version, trained
// on a data frame, may know under another spelling.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "data/format/reader_ops.h"
#include "kit/lines.h"
#include "kit/test.h"
#include "os/log.h"

static char told[4096];

static bool take(const char *text)
{
    size_t n = strlen(told);
    snprintf(told + n, sizeof told - n, "%s\n", text);
    return true;
}

static void fill_schema(struct schema *s, bool old)
{
    static const struct {
        enum schema_use use;
        const char *name;
    } columns[] = {{SCHEMA_LABEL, "y"},
                   {SCHEMA_WORDS, "flag"},
                   {SCHEMA_WORDS, "size"},
                   {SCHEMA_WORDS, "agent"},
                   {SCHEMA_NUMBERS, "n"}};
    *s = (struct schema){.format = "csv", .separator = ','};
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++)
        assert_int_equal(
            schema_add(s, columns[i].use, columns[i].name, strlen(columns[i].name), NULL),
            0);
    if (!old)
        assert_int_equal(schema_add(s, SCHEMA_WRITTEN, "1", 1, NULL), 0);
}

static void read_lines(bool old, const char *const *lines, size_t n)
{
    static struct schema s;
    struct examples x = {0};
    struct reader *r = NULL;
    struct err e;
    fill_schema(&s, old);
    struct reader_options o = {.schema = &s, .labels = true};
    if (reader_open(&r, &o, &e) != 0)
        fail_msg("%s", e.text);
    told[0] = '\0';
    line_layout = NULL;
    if (reader_header(r, lines[0], strlen(lines[0]), &line_layout, &e) != 0)
        fail_msg("'%s': %s", lines[0], e.text);
    log_take_warnings(take);
    for (size_t i = 1; i < n; i++)
        if (line_parse(r, lines[i], &x, &e) != 0)
            fail_msg("'%s': %s", lines[i], e.text);
    log_take_warnings(NULL);
    examples_free(&x);
    reader_close(r);
}

static void test_old_words(void **state)
{
    (void)state;
    static const char *const same[] = {"y,flag,size,agent,n", "1,true,19,007,2.0",
                                       "0,false,0.5,1.2.3,3", "0,,1e+16,.,4.0"};
    static const char *const other[] = {"y,flag,size,agent,n", "1,true,19,007,2.0",
                                        "0,True,0.5,v1.0,3", "1,FALSE,2.0,True,4",
                                        "1,False,3.50,x,4"};
    read_lines(true, same, sizeof same / sizeof same[0]);
    assert_string_equal(told, "");
    read_lines(false, other, sizeof other / sizeof other[0]);
    assert_string_equal(told, "");
    read_lines(true, other, sizeof other / sizeof other[0]);
#define TELLS(column, is, old)                                                           \
    "column '" column "' has '" is "', which the model may know as '" old                \
    "': it was trained on a data frame by an earlier version of tug, which spelled "     \
    "bools and numbers differently. Score a data frame, or train the model again\n"
    assert_string_equal(told, TELLS("flag", "True", "true") TELLS("size", "2.0", "2")
                                  TELLS("agent", "True", "true"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_old_words)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
