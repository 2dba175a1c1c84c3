// Compares numbers with the C library, over texts of every form.
//
// SPDX-License-Identifier: Apache-2.0
#include "data/format/number.h"

#include <math.h>

#include "base/random.h"
#include "kit/lines.h"
#include "kit/test.h"

static uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

// Compares number_parse and number_short with strtof. The text is followed by characters
// that could be taken for further digits.
static void check(const char *text)
{
    float want = strtof(text, NULL), got = -7;
    enum number_status status = number_parse(text, strlen(text), &got);
    if (!isfinite(want)) {
        assert_int_equal(status, NUMBER_NOT_FINITE);
        return;
    }
    if (status != NUMBER_OK || bits_of(got) != bits_of(want))
        fail_msg("'%s': %a, should be %a", text, got, want);
    struct line l = line_make(text, strlen(text));
    const char *stop = number_short(l.text, &got);
    if (stop != NULL && (stop != l.text + l.len || bits_of(got) != bits_of(want)))
        fail_msg("'%s' by the short way: %a, should be %a", text, got, want);
    mem_free(l.text);
}

static void test_printed_floats(void **state)
{
    (void)state;
    static const char *const forms[] = {"%.9g", "%g", "%.17g", "%.1f",
                                        "%.7f", "%e", "%.0f"};
    for (int i = 0; i < 30000; i++) {
        uint32_t u = (uint32_t)any((uint64_t)1 << 32);
        float x;
        memcpy(&x, &u, sizeof x);
        if (any_in_100(50))
            x = (float)any(1000000) / (float)(1 + any(1000));
        if (!isfinite(x))
            continue;
        char text[400];
        snprintf(text, sizeof text, forms[any(sizeof forms / sizeof forms[0])],
                 (double)x);
        if (strlen(text) <= NUMBER_MAX)
            check(text);
    }
}

static size_t add_digits(char *to, size_t max)
{
    size_t n = any(max + 1);
    for (size_t i = 0; i < n; i++)
        to[i] = (char)('0' + any(10));
    return n;
}

static void test_random_decimals(void **state)
{
    (void)state;
    for (int i = 0; i < 100000; i++) {
        char text[100];
        size_t n = 0, most = any_in_100(70) ? 7 : 25;
        if (any_in_100(20))
            text[n++] = '-';
        size_t digits = add_digits(text + n, most);
        n += digits;
        if (any_in_100(60)) {
            text[n++] = '.';
            size_t part = add_digits(text + n, most);
            digits += part;
            n += part;
        }
        if (digits == 0)
            text[n++] = '5';
        if (any_in_100(15))
            n += (size_t)snprintf(text + n, 10, "e%d", (int)any(90) - 45);
        text[n] = '\0';
        check(text);
    }
}

// Texts near the middle between two floats, where rounding twice would give a wrong
// result.
static void test_middles_between_floats(void **state)
{
    (void)state;
    for (int i = 0; i < 3000; i++) {
        float x = (float)any(1 << 30) / (float)(1 << any(20));
        double middle = ((double)x + (double)nextafterf(x, INFINITY)) / 2;
        char text[120];
        snprintf(text, sizeof text, "%.40f", middle);
        check(text);
        size_t n = strlen(text);
        snprintf(text + n, sizeof text - n, "%d", (int)any(10));
        check(text);
        snprintf(text, sizeof text, "%.12f", middle);
        check(text);
    }
    check("8388608.5");
    check("16777217");
    check("9007199791611905"); // 1 more than the middle between two floats; as a double
                               // it would be the middle
    check("0.00000000000000000000000000000000000000000000070064923216240854");
    check("3.4028235e38");
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",    "-",  "+",    ".",     "-.",   "1e", "1e+", "e5",   "0x1", "1 ", " 1",
        "--1", "1-", "1..2", "1.2.3", "nano", "in", "1,5", "1e5.", "+-1", "1f", "nan(1)"};
    static const char *const infinite[] = {"nan",      "NaN",  "-nan",  "inf",   "-Inf",
                                           "Infinity", "1e39", "1e999", "-1e999"};
    float x = 5;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(number_parse(bad[i], strlen(bad[i]), &x), NUMBER_BAD);
    for (size_t i = 0; i < sizeof infinite / sizeof infinite[0]; i++)
        assert_int_equal(number_parse(infinite[i], strlen(infinite[i]), &x),
                         NUMBER_NOT_FINITE);
    char longest[NUMBER_MAX + 2];
    memset(longest, '1', sizeof longest);
    assert_int_equal(number_parse(longest, NUMBER_MAX + 1, &x), NUMBER_BAD);
    assert_true(x == 5);
    assert_int_equal(number_parse("+.5", 3, &x), NUMBER_OK);
    assert_true(x == 0.5F);
}

static void test_integers(void **state)
{
    (void)state;
    for (int i = 0; i < 20000; i++) {
        uint64_t want = random_u64(2, 2, (uint64_t)i) >> any(64), got = 1;
        char text[40];
        int n = snprintf(text, sizeof text, "%llu", (unsigned long long)want);
        assert_true(number_u64(text, (size_t)n, &got));
        assert_true(got == want);
        struct line l = line_make(text, (size_t)n);
        unsigned digits = digits_count(load_word(l.text));
        assert_int_equal(digits, n < 8 ? n : 8);
        uint64_t head = want;
        for (int k = n; k > 8; k--)
            head /= 10;
        assert_true(digits_value(load_word(l.text), digits) == head);
        mem_free(l.text);
    }
    uint64_t x;
    assert_true(number_u64("18446744073709551615", 20, &x));
    assert_false(number_u64("18446744073709551616", 20, &x));
    assert_false(number_u64("99999999999999999999999", 23, &x));
    assert_false(number_u64("", 0, &x));
    assert_false(number_u64("-1", 2, &x));
    assert_false(number_u64("1a", 2, &x));
}

static void test_words(void **state)
{
    (void)state;
    for (int byte = 0; byte < 256; byte++) {
        char text[8];
        memset(text, '5', sizeof text);
        text[3] = (char)byte;
        bool digit = byte >= '0' && byte <= '9';
        assert_int_equal(digits_count(load_word(text)), digit ? 8 : 3);
    }
    for (int i = 0; i < 20000; i++) {
        char text[64];
        size_t len = any(40);
        for (size_t k = 0; k < sizeof text; k++)
            text[k] = (char)any(any_in_100(50) ? 3 : 256);
        const char *found = memchr(text, 1, len);
        assert_ptr_equal(find_byte(text, text + len, 1),
                         found != NULL ? found : text + len);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_printed_floats),
        cmocka_unit_test(test_random_decimals),
        cmocka_unit_test(test_middles_between_floats),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
