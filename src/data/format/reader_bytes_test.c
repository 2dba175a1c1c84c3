// NUL bytes in lines and headers: kept texts end with a NUL (kept.h), so a NUL inside a
// text would look like the end of a column.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "data/format/reader.h"
#include "kit/test.h"

static void test_bytes_0(void **state)
{
    (void)state;
    struct examples x = {0};
    struct err e = {0};
    struct reader *r;
    const struct reader_layout *l;
    static const char header[32] = "y,a,b", forged[32] = "y,a\0b,c";
    static const char good[32] = "1,x,y", line[32] = "1,x\0FORGED,y";
    struct reader_options o = {.format = "csv", .labels = true};
    OK(reader_open(&r, &o, &e));
    assert_int_equal(reader_header(r, forged, 7, &l, &e), TUG_EDATA);
    OK(reader_header(r, header, 5, &l, &e));
    assert_int_equal(reader_line(r, l, line, 12, &x, &e), TUG_EDATA);
    assert_non_null(strstr(e.text, "the line has a byte 0"));
    assert_int_equal(x.n, 0);
    OK(reader_line(r, l, good, 5, &x, &e));
    assert_int_equal(x.n, 1);
    reader_close(r);
    examples_free(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bytes_0)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
