// SPDX-License-Identifier: Apache-2.0
#include "base/buf.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "kit/test.h"

static void test_empty(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(10);
    assert_string_equal(buf_str(&b), "");
    assert_int_equal(buf_add(&b, NULL, 0), 0);
    assert_string_equal(buf_str(&b), "");
    buf_free(&b);
    buf_free(&b);
}

// Makes random additions to a buffer and to a plain array of the buffer's maximum
// size, and compares them.
static void test_against_an_array(void **state)
{
    (void)state;
    enum { MAX = 3000 };
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct buf b = BUF_INIT(MAX);
        char naive[MAX + 1];
        size_t len = 0;
        for (uint64_t i = 0; i < 60; i++) {
            char piece[200];
            size_t n = random_below(seed, 0, i, sizeof(piece));
            memset(piece, 'a' + (int)(i % 26), n);
            bool fits = n <= MAX - len;
            assert_int_equal(buf_add(&b, piece, n), fits ? 0 : TUG_EDATA);
            if (fits) {
                memcpy(naive + len, piece, n);
                len += n;
            }
            assert_int_equal(b.len, len);
            assert_true(b.cap <= MAX + 1);
        }
        naive[len] = '\0';
        assert_string_equal(buf_str(&b), naive);
        buf_free(&b);
    }
}

static void test_maximum_is_exact(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(5);
    assert_int_equal(buf_add(&b, "12345", 5), 0);
    assert_int_equal(buf_add(&b, "6", 1), TUG_EDATA);
    assert_int_equal(buf_printf(&b, "6"), TUG_EDATA);
    assert_int_equal(buf_reserve(&b, SIZE_MAX), TUG_EDATA);
    assert_string_equal(buf_str(&b), "12345");
    buf_free(&b);
}

static void test_sizes_that_overflow(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(SIZE_MAX);
    assert_int_equal(buf_add(&b, "x", 1), 0);
    assert_int_equal(buf_reserve(&b, SIZE_MAX), TUG_EDATA);
    assert_int_equal(buf_reserve(&b, SIZE_MAX - 1), TUG_ENOMEM);
    assert_int_equal(buf_reserve(&b, PTRDIFF_MAX - 1), TUG_ENOMEM);
    assert_string_equal(buf_str(&b), "x");
    buf_free(&b);
}

static void test_printf(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(1000);
    for (int i = 0; i < 5; i++)
        assert_int_equal(buf_printf(&b, "%d-%s ", i, "twenty characters..."), 0);
    assert_int_equal(b.len, 5 * 23);
    assert_int_equal(strncmp(buf_str(&b) + 23, "1-twenty", 8), 0);
    buf_clear(&b);
    assert_string_equal(buf_str(&b), "");
    assert_true(b.cap > 0);
    buf_free(&b);
}

// Texts are appended as JSON strings: quotes, control characters and invalid UTF-8 are
// escaped.
static void test_json(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "\"\""},
        {"a \"b\" \\", "\"a \\\"b\\\" \\\\\""},
        {"\n\x1b\x7f", "\"\\u000a\\u001b\\u007f\""},
        {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
         "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\""},
        {"\xff", "\"\\\\xff\""},
        {"\xc3", "\"\\\\xc3\""},            // the sequence is cut off
        {"\xe2\x82", "\"\\\\xe2\\\\x82\""}, // the sequence is cut off
        {"\xc0\xaf", "\"\\\\xc0\\\\xaf\""}, // the sequence is longer than necessary
        // The sequence is longer than necessary.
        {"\xe0\x80\xaf", "\"\\\\xe0\\\\x80\\\\xaf\""},
        {"\xed\xa0\x80", "\"\\\\xed\\\\xa0\\\\x80\""}, // half of a surrogate pair
        {"\xf4\x90\x80\x80", "\"\\\\xf4\\\\x90\\\\x80\\\\x80\""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct buf b = BUF_INIT(100);
        assert_int_equal(buf_json(&b, cases[i][0]), 0);
        assert_string_equal(buf_str(&b), cases[i][1]);
        buf_free(&b);
    }
    struct buf small = BUF_INIT(4);
    assert_int_equal(buf_json(&small, "abc"), TUG_EDATA);
    assert_int_equal(small.len, 0);
    buf_free(&small);
}

static void test_json_numbers(void **state)
{
    (void)state;
    static const double numbers[] = {0.1, -3e38, NAN, INFINITY, -INFINITY};
    struct buf b = BUF_INIT(100);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        assert_int_equal(buf_json_number(&b, 3, numbers[i]), 0);
        assert_int_equal(buf_add(&b, " ", 1), 0);
    }
    assert_string_equal(buf_str(&b), "0.1 -3e+38 null null null ");
    buf_free(&b);
}

static void test_filled_by_hand(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(1000);
    assert_int_equal(buf_reserve(&b, 10), 0);
    memset(b.data, 'x', b.cap);
    b.len = b.cap;
    mem_fault_after(0);
    assert_null(buf_str(&b));
    mem_fault_after(-1);
    assert_int_equal(strlen(buf_str(&b)), b.len);
    buf_free(&b);
}

static void test_out_of_memory_changes_nothing(void **state)
{
    (void)state;
    size_t before = mem_live();
    struct buf b = BUF_INIT(100000);
    assert_int_equal(buf_add(&b, "kept", 4), 0);
    char big[5000] = {0};
    mem_fault_after(0);
    assert_int_equal(buf_add(&b, big, sizeof(big)), TUG_ENOMEM);
    mem_fault_after(0);
    assert_int_equal(buf_printf(&b, "%5000d", 1), TUG_ENOMEM);
    mem_fault_after(-1);
    assert_string_equal(buf_str(&b), "kept");
    buf_free(&b);
    assert_int_equal(mem_live(), before);
}

// A text that is too long is not reported as out of memory.
static void test_error(void **state)
{
    (void)state;
    struct err e = {0};
    struct buf b = BUF_INIT(8);
    assert_int_not_equal(buf_add(&b, "123456789", 9), 0);
    assert_int_equal(buf_error(&b, "a name", &e), TUG_EDATA);
    assert_string_equal(e.text, "a name: too long, more than 8 bytes");
    assert_int_not_equal(buf_printf(&b, "%s", "123456789"), 0);
    assert_int_equal(buf_error(&b, "a name", &e), TUG_EDATA);
    mem_fault_after(0);
    assert_int_equal(buf_add(&b, "1234", 4), TUG_ENOMEM);
    mem_fault_after(-1);
    assert_int_equal(buf_error(&b, "a name", &e), TUG_ENOMEM);
    assert_int_equal(buf_add(&b, "1234", 4), 0);
    buf_free(&b);
}

static void test_wiped(void **state)
{
    (void)state;
    long before = mem_live();
    struct buf b = BUF_INIT(8);
    buf_wipe(&b);
    assert_int_equal(buf_add(&b, "secret", 6), 0);
    buf_wipe(&b);
    assert_int_equal(mem_live(), before);
    assert_null(b.data);
    assert_int_equal(b.len, 0);
    assert_int_equal(buf_add(&b, "12345678", 8), 0); // the maximum is as before
    buf_wipe(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_error),
        cmocka_unit_test(test_against_an_array),
        cmocka_unit_test(test_maximum_is_exact),
        cmocka_unit_test(test_sizes_that_overflow),
        cmocka_unit_test(test_printf),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_json_numbers),
        cmocka_unit_test(test_wiped),
        cmocka_unit_test(test_filled_by_hand),
        cmocka_unit_test(test_out_of_memory_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
