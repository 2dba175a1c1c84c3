// Log lines in JSON: valid whatever the text is, and read back by a parser.
//
// SPDX-License-Identifier: Apache-2.0
#include "os/log_json.h"

#include <math.h>
#include <string.h>

#include <jansson.h>

#include "base/printable.h"
#include "kit/rng.h"
#include "kit/test.h"

enum { TEXT = 400 };

static const struct log_origin worker = {.role = "worker", .rank = 3, .pid = 77};

static json_t *parsed(const char *line, size_t n)
{
    json_error_t why;
    assert_int_equal(line[n - 1], '\n');
    assert_null(memchr(line, '\n', n - 1));
    json_t *o = json_loadb(line, n, 0, &why);
    if (o == NULL)
        fail_msg("%s: %.*s", why.text, (int)n, line);
    return o;
}

static const char *text_of(const json_t *o, const char *name)
{
    return json_string_value(json_object_get(o, name));
}

static void all_members(void **state)
{
    (void)state;
    char line[LOG_JSON_HEAD_MAX + TEXT];
    const struct log_field fields[] = {{"pass", 2}, {"auc", (double)NAN}, {"loss", .25}};
    struct log_origin from = worker;
    from.host = "a\"b\xff";
    size_t n = log_json_line(line, sizeof(line), LOG_WARN, &from, fields, 3, "slow", 4);
    json_t *o = parsed(line, n);
    assert_string_equal(text_of(o, "level"), "warn");
    assert_string_equal(text_of(o, "role"), "worker");
    assert_string_equal(text_of(o, "host"), "a\"b\\xff");
    assert_string_equal(text_of(o, "message"), "slow");
    assert_int_equal(json_integer_value(json_object_get(o, "rank")), 3);
    assert_int_equal(json_integer_value(json_object_get(o, "pid")), 77);
    assert_int_equal(json_integer_value(json_object_get(o, "pass")), 2);
    assert_true(json_real_value(json_object_get(o, "loss")) == .25);
    assert_null(json_object_get(o, "auc")); // JSON has no NaN
    int year, day, ms, end = 0;
    assert_int_equal(sscanf(text_of(o, "time"), "%4d-%*2d-%2dT%*2d:%*2d:%*2d.%3dZ%n",
                            &year, &day, &ms, &end),
                     3);
    assert_int_equal(end, 24);
    json_decref(o);

    const struct log_origin unknown = {.rank = -1};
    n = log_json_line(line, sizeof(line), LOG_INFO, &unknown, NULL, 0, "", 0);
    o = parsed(line, n);
    assert_int_equal(json_object_size(o), 3); // time, level, message
    json_decref(o);
}

// Texts of random bytes, many of them quotes, backslashes, line ends and parts of
// characters, are written to lines with enough and with too few bytes.
static void any_bytes(void **state)
{
    (void)state;
    static const char odd[] = "\"\\\n\r\t\0\x7f\xff\xc3\xa4\xe2\x82\xac\xf0\x9f{}u";
    struct rng r = {.seed = 7};
    char text[TEXT], line[LOG_JSON_HEAD_MAX + 8 * TEXT], want[8 * TEXT], got[8 * TEXT];
    for (int i = 0; i < 2000; i++) {
        size_t n = rng_below(&r, TEXT);
        for (size_t k = 0; k < n; k++)
            text[k] = rng_below(&r, 2) != 0 ? odd[rng_below(&r, sizeof(odd))]
                                            : (char)rng_below(&r, 256);
        bool cut = i % 2 != 0;
        size_t cap = cut ? LOG_JSON_HEAD_MAX + rng_below(&r, TEXT) : sizeof(line);
        size_t len = log_json_line(line, cap, LOG_INFO, &worker, NULL, 0, text, n);
        assert_true(len < cap);
        json_decref(parsed(line, len));
        (void)printable_copy(want, sizeof(want), text, n);
        assert_true(log_json_message(line, len, got, sizeof(got)));
        assert_int_equal(strncmp(got, want, cut ? strlen(got) : sizeof(want)), 0);
    }
}

// Output of programs that only looks like log lines is not taken for log lines.
static void other_lines(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "",
        "text",
        "{",
        "[1]",
        "{}",
        "{\"message\":\"a\"}",
        "{\"time\":\"t\",\"level\":1,\"message\":\"a\"}",
        "{\"time\":\"t\",\"level\":\"info\",\"message\":7}",
        "{\"time\":\"t\",\"level\":\"info\",\"message\":\"a\"} x",
        "{\"time\":\"t\",\"level\":\"info\",\"message\":\"\xff\"}",
    };
    char got[16];
    for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
        assert_false(log_json_message(lines[i], strlen(lines[i]), got, sizeof(got)));
    static const char good[] = "{\"time\":\"t\",\"level\":\"info\",\"message\":\"a long "
                               "text\", \"more\":[1]}";
    assert_true(log_json_message(good, strlen(good), got, 7));
    assert_string_equal(got, "a long");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_members),
        cmocka_unit_test(any_bytes),
        cmocka_unit_test(other_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
