// Tests which versions two nodes may have, and the error for a node whose version is too
// old.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "kit/test.h"
#include "wire/wire.h"

static int agree(unsigned oldest, unsigned newest, struct err *e)
{
    const struct wire_versions with = {(uint8_t)oldest, (uint8_t)newest};
    return wire_agree(with, wire_text("9.9"), e);
}

static void test_one_in_common(void **state)
{
    (void)state;
    struct err e = {0};
    const struct wire_versions own = wire_own_versions();
    assert_int_equal(own.newest, WIRE_VERSION);
    assert_int_equal(agree(own.oldest, own.newest, &e), 0);
    assert_int_equal(agree(own.newest, own.newest + 3, &e), 0);
    assert_int_equal(agree(1, own.oldest, &e), 0);
    assert_int_equal(agree(0, 0, &e), 0);
}

static void test_none_in_common(void **state)
{
    (void)state;
    struct err e = {0};
    char text[ERR_TEXT_MAX];
    assert_int_equal(agree(1, WIRE_OLDEST - 1, &e), TUG_EUSAGE);
    snprintf(text, sizeof(text),
             "tug 9.9 speaks versions up to 3 of the protocol, but tug %s needs version "
             "4: install tug %s or a newer one in place of tug 9.9",
             tug_version(), tug_version());
    assert_string_equal(e.text, text);
    assert_int_equal(agree(WIRE_VERSION + 1, WIRE_VERSION + 2, &e), TUG_EUSAGE);
    snprintf(text, sizeof(text),
             "tug 9.9 needs version 5 of the protocol, but tug %s speaks versions up to "
             "4: install tug 9.9 or a newer one in place of tug %s",
             tug_version(), tug_version());
    assert_string_equal(e.text, text);
}

// Tries each pair of versions that a peer can send.
static void test_all_pairs(void **state)
{
    (void)state;
    const struct wire_versions own = wire_own_versions();
    for (unsigned oldest = 0; oldest < 256; oldest++)
        for (unsigned newest = 1; newest < 256; newest++) {
            bool fits = oldest <= own.newest && newest >= own.oldest && oldest <= newest;
            assert_int_equal(agree(oldest, newest, NULL) == 0, fits);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_in_common),
        cmocka_unit_test(test_none_in_common),
        cmocka_unit_test(test_all_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
