// SPDX-License-Identifier: Apache-2.0
#include "kit/test.h"

static int never(const void *a, const void *b)
{
    (void)a, (void)b;
    fail();
    return 0;
}

// The null pointers are hidden from the compiler and the sanitizer. The calls are
// ordinary calls: base/bytes.h is included in every file automatically.
static void test_no_bytes(void **state)
{
    (void)state;
    void *volatile null = NULL;
    volatile size_t zero = 0;
    assert_null(memcpy(null, null, zero));
    assert_null(memmove(null, null, zero));
    assert_null(memset(null, 1, zero));
    assert_int_equal(memcmp(null, "x", zero), 0);
    assert_null(memchr(null, 'x', zero));
    assert_null(memrchr(null, 'x', zero));
    assert_int_equal(strncmp(null, "x", zero), 0);
    qsort(null, zero, 8, never);
    assert_null(bsearch("x", null, zero, 1, never));
}

static int by_byte(const void *a, const void *b)
{
    return *(const char *)a - *(const char *)b;
}

static void test_some_bytes(void **state)
{
    (void)state;
    char to[8] = "";
    volatile size_t n = 4;
    assert_ptr_equal(memcpy(to, "dbca", n), to);
    qsort(to, n, 1, by_byte);
    assert_string_equal(to, "abcd");
    assert_ptr_equal(bsearch("c", to, n, 1, by_byte), to + 2);
    assert_ptr_equal(memmove(to + 1, to, n), to + 1);
    assert_string_equal(to, "aabcd");
    assert_ptr_equal(memchr(to, 'a', n), to);
    assert_ptr_equal(memrchr(to, 'a', n), to + 1);
    assert_true(memcmp(to, "aabd", n) < 0 && strncmp(to, "aabcx", n) == 0);
    assert_ptr_equal(memset(to, 'x', n), to);
    assert_string_equal(to, "xxxxd");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_bytes),
        cmocka_unit_test(test_some_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
