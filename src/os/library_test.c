// SPDX-License-Identifier: Apache-2.0
#include "os/library.h"

#include <string.h>

#include "kit/test.h"

static double (*cosine)(double);
static int begun;

static int begin(struct err *e)
{
    (void)e;
    begun++;
    return 0;
}

static void functions_are_found_once(void **state)
{
    (void)state;
    static const struct library_function functions[] = {{"cos", &cosine}};
    struct library l = {.file = "libm.so.6",
                        .functions = functions,
                        .n = 1,
                        .begin = begin,
                        .lock = PTHREAD_MUTEX_INITIALIZER};
    for (int i = 0; i < 2; i++)
        assert_int_equal(library_load(&l, &test_err), 0);
    assert_true(cosine(0) == 1);
    assert_int_equal(begun, 1);
}

// A second call reports the same error.
static void missing_library_is_named(void **state)
{
    (void)state;
    static const struct library_function functions[] = {{"no_cos", &cosine}};
    struct library other = {.file = "libm.so.6",
                            .other = "old",
                            .functions = functions,
                            .n = 1,
                            .lock = PTHREAD_MUTEX_INITIALIZER};
    struct library none = {.file = "libnosuch.so.1",
                           .need = "this test needs libnosuch",
                           .package = "nothing",
                           .lock = PTHREAD_MUTEX_INITIALIZER};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(library_load(&other, &test_err), TUG_EUSAGE);
        assert_string_equal(
            test_err.text,
            "libm.so.6 does not have the function no_cos: is this file old?");
        assert_int_equal(library_load(&none, &test_err), TUG_EUSAGE);
        assert_non_null(
            strstr(test_err.text, "libnosuch, which cannot be loaded (libnosuch.so.1: "));
        assert_non_null(strstr(test_err.text, "): install nothing"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_are_found_once),
        cmocka_unit_test(missing_library_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
