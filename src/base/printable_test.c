// SPDX-License-Identifier: Apache-2.0
#include "base/printable.h"

#include <stdio.h>
#include <string.h>

#include "kit/test.h"

static void check(const char *text, const char *want)
{
    char made[64];
    snprintf(made, sizeof(made), "%s", text);
    printable_make(made);
    assert_string_equal(made, want);
    assert_int_equal(printable_check(text, strlen(text)), strcmp(text, want) == 0);
}

static void control_characters_are_replaced(void **state)
{
    (void)state;
    check("", "");
    check("tables/\u00fcber \u20ac \U0001f600 ~", "tables/\u00fcber \u20ac \U0001f600 ~");
    check("a\nb\tc\x1b[31md\x7f", "a?b?c?[31md?");
    check("csi \xc2\x9b", "csi ??"); // U+009B begins a control sequence, as ESC [ does
    check("\xc0\xaf \xed\xa0\x80 \xf4\x90\x80\x80 \xff", "?? ??? ???? ?");
    check("cut \xe2\x82", "cut ??");
}

static void check_copy(const char *text, size_t cap, const char *want)
{
    char made[64];
    size_t n = strlen(text), used = printable_copy(made, cap, text, n);
    assert_string_equal(made, want);
    assert_true(used <= n);
    assert_true(printable_check(made, strlen(made)));
}

// Copies printable characters, escapes all other bytes, and cuts long texts between
// characters.
static void copies(void **state)
{
    (void)state;
    check_copy("", 64, "");
    check_copy("\u70b9\u51fb", 64, "\u70b9\u51fb");
    check_copy("a\tb\nc\r", 64, "a\\tb\\nc\\r");
    check_copy("us\x1b[31mer\xff\xc2\x9b", 64, "us\\x1b[31mer\\xff\\xc2\\x9b");
    check_copy("a\u70b9", 5, "a\u70b9");
    check_copy("a\u70b9", 4, "a");
    check_copy("ab\t", 4, "ab");
    check_copy("abc", 1, "");
}

// Every code point is printable unless it is a control character.
static void code_points(void **state)
{
    (void)state;
    for (uint32_t c = 1; c < 0x800; c++) {
        char text[2] = {(char)(c < 0x80 ? c : 0xc0 | c >> 6), (char)(0x80 | (c & 0x3f))};
        bool control = c < 0x20 || (c >= 0x7f && c < 0xa0);
        assert_int_equal(printable_check(text, c < 0x80 ? 1 : 2), !control);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(control_characters_are_replaced),
        cmocka_unit_test(copies),
        cmocka_unit_test(code_points),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
