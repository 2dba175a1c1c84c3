// Headers of HTTP answers: which values are read, and that nothing is read past their
// ends.
//
// SPDX-License-Identifier: Apache-2.0
#include "web/http_header_internal.h"

#include <stdio.h>
#include <string.h>

#include "kit/test.h"

static struct http_answer take(const char *line)
{
    struct http_answer a = {0};
    http_take_header(&a, "x-other", line, strlen(line));
    return a;
}

static void takes_ranges(void **state)
{
    (void)state;
    struct http_answer a = take("content-range: bytes 5-9/100\r\n");
    assert_true(a.has_range && a.from == 5 && a.total == 100);
    a = take("Content-Range: bytes */7");
    assert_true(a.has_range && a.from == 0 && a.total == 7);
}

static void ignores_wrong_ranges(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "bytes ",
                                      "bytes 5",
                                      "bytes 5-",
                                      "bytes 5-9",
                                      "bytes 5-9/",
                                      "bytes",
                                      "bytes 5/100",
                                      "bytes -/100",
                                      "bytes 5-9/*",
                                      "bytes *",
                                      "bytes /100",
                                      "5-9/100",
                                      "bytes 5-*/100",
                                      "bytes 99999999999999999999-9/100"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char line[128];
        snprintf(line, sizeof line, "Content-Range: %s", bad[i]);
        assert_false(take(line).has_range);
    }
}

// Values that fill the whole text, cut at every place: sanitizers notice reading past
// their ends.
static void no_reading_past_the_value(void **state)
{
    (void)state;
    static const char *const ends[] = {"5", "5-", "5-9", "5-9/", "*", "*/"};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        char line[256] = "Content-Range: bytes ";
        size_t n = strlen(line), name = strlen("Content-Range: ");
        while (n - name + strlen(ends[i]) < HTTP_TEXT_MAX - 1)
            line[n++] = '0';
        snprintf(line + n, sizeof line - n, "%s", ends[i]);
        assert_int_equal(strlen(line) - name, HTTP_TEXT_MAX - 1);
        assert_false(take(line).has_range);
    }
}

static void takes_other_headers(void **state)
{
    (void)state;
    struct http_answer a = take("HTTP/1.1 206 Partial\r\n");
    assert_int_equal(a.status, 206);
    static const char length[] = "Content-Length: 12\r\n", etag[] = "ETag: \"e\"\r\n",
                      date[] = "Last-Modified: now\r\n";
    http_take_header(&a, "x-other", length, strlen(length));
    http_take_header(&a, "x-other", etag, strlen(etag));
    http_take_header(&a, "x-other", date, strlen(date));
    assert_string_equal(a.wanted, "");
    static const char other[] = "X-Other: else\r\n";
    http_take_header(&a, NULL, other, strlen(other));
    assert_string_equal(a.wanted, "");
    http_take_header(&a, "x-other", other, strlen(other));
    assert_string_equal(a.wanted, "else");
    assert_true(a.has_length && a.length == 12);
    assert_string_equal(a.version, "\"e\"");
    assert_int_equal(take("HTTP/2").status, 0);
    assert_false(take("Content-Length: -1").has_length);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_ranges),
        cmocka_unit_test(ignores_wrong_ranges),
        cmocka_unit_test(no_reading_past_the_value),
        cmocka_unit_test(takes_other_headers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
