// Compares the texts of keys with those in a plain array.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/key_texts.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "kit/test.h"

static int add(struct key_texts *t, uint64_t key)
{
    size_t at = t->text.len;
    TRY(key_texts_reserve(t));
    TRY(buf_printf(&t->text, "%llu", (unsigned long long)key));
    return key_texts_add(t, key, at);
}

static void check(const struct key_texts *t, uint64_t key, size_t number)
{
    char text[32];
    snprintf(text, sizeof(text), "%llu", (unsigned long long)key);
    assert_int_equal(key_texts_find(t, key), number + 1);
    assert_string_equal(key_texts_at(t, number), text);
    assert_true(t->key[number] == key);
}

static void test_numbers(void **state)
{
    (void)state;
    enum { KEYS = 1000 };
    struct key_texts t = KEY_TEXTS_INIT(1 << 20);
    assert_int_equal(key_texts_find(&t, 0), 0);
    for (uint64_t i = 0; i < KEYS; i++) {
        assert_int_equal(key_texts_find(&t, mix64(i)), 0);
        assert_int_equal(add(&t, mix64(i)), 0);
        check(&t, mix64(i), (size_t)i);
    }
    assert_int_equal(t.n, KEYS);
    for (uint64_t i = 0; i < KEYS; i++)
        check(&t, mix64(i), (size_t)i);
    key_texts_fini(&t);
    assert_int_equal(t.n, 0);
    assert_int_equal(key_texts_find(&t, mix64(3)), 0);
    assert_int_equal(add(&t, 7), 0); // the set can be used again after key_texts_fini()
    check(&t, 7, 0);
    key_texts_fini(&t);
    assert_int_equal(mem_live(), 0);
}

// A text that does not fit leaves no bytes behind.
static void test_full(void **state)
{
    (void)state;
    struct key_texts t = KEY_TEXTS_INIT(5);
    assert_int_equal(add(&t, 12), 0);
    assert_int_equal(key_texts_reserve(&t), 0);
    assert_int_equal(buf_printf(&t.text, "%s", "34"), 0);
    assert_int_equal(key_texts_add(&t, 34, 3), TUG_EDATA);
    assert_int_equal(t.n, 1);
    assert_int_equal(key_texts_find(&t, 34), 0);
    assert_int_equal(add(&t, 5), 0);
    check(&t, 12, 0);
    check(&t, 5, 1);
    key_texts_fini(&t);
}

static int fill(void)
{
    struct key_texts t = KEY_TEXTS_INIT(1 << 20);
    int rc = 0;
    for (uint64_t i = 0; i < 100 && rc == 0; i++) {
        rc = add(&t, i);
        for (uint64_t k = 0; k < t.n; k++) // earlier texts stay after any failure
            check(&t, k, (size_t)k);
    }
    key_texts_fini(&t);
    return rc;
}

static void test_no_memory(void **state)
{
    (void)state;
    FAIL_EACH_ALLOCATION(fill(), );
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
