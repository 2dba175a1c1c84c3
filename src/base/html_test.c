// Texts from outside become HTML that shows them; numbers have decimal points.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/html.h"

#include <string.h>

#include "base/alloc.h"
#include "kit/test.h"

static void escapes_texts(void **state)
{
    (void)state;
    struct page p;
    html_open(&p, 1 << 16);
    html_text(&p, "<script>&\"'\x01\n\xc3\xa9");
    html_text(&p, NULL);
    html_close(&p);
    assert_int_equal(p.rc, 0);
    assert_string_equal(buf_str(&p.b), "&lt;script&gt;&amp;&quot;&#39; \n\xc3\xa9");
    buf_free(&p.b);
}

static void adds_long_formats(void **state)
{
    (void)state;
    struct page p;
    html_open(&p, 1 << 16);
    html_add(&p, "%1000d|%.1f", 7, 0.5);
    html_close(&p);
    assert_int_equal(p.b.len, 1004);
    assert_non_null(strstr(buf_str(&p.b), " 7|0.5"));
    buf_free(&p.b);
}

static void keeps_the_first_error(void **state)
{
    (void)state;
    struct page p;
    html_open(&p, 4);
    html_text(&p, "longer than four bytes");
    int rc = p.rc;
    assert_int_not_equal(rc, 0);
    html_add(&p, "x");
    html_text(&p, "y");
    html_close(&p);
    assert_int_equal(p.rc, rc);
    buf_free(&p.b);
}

static void groups_digits(void **state)
{
    (void)state;
    static const struct {
        double x;
        const char *text;
    } all[] = {{0, "0"},
               {-0.2, "0"},
               {999, "999"},
               {1000, "1,000"},
               {-1234567, "-1,234,567"},
               {1e15, "1,000,000,000,000,000"}};
    char text[HTML_NUMBER_MAX];
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        assert_string_equal(html_count(all[i].x, text), all[i].text);
    assert_true(strlen(html_count(1e300, text)) < HTML_NUMBER_MAX); // the number is cut
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(escapes_texts),
        cmocka_unit_test(adds_long_formats),
        cmocka_unit_test(keeps_the_first_error),
        cmocka_unit_test(groups_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
