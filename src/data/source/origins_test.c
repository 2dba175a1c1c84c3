// Messages name the origins of the lines of a merged file. A damaged or missing origins
// file is ignored.
//
// SPDX-License-Identifier: Apache-2.0
#include "data/source/origins.h"

#include "kit/files.h"
#include "kit/test.h"

static void says(const char *file, uint64_t line, const char *want)
{
    char got[ORIGIN_TEXT_MAX];
    origins_text(file, line, got);
    assert_string_equal(got, want);
}

static void test_places(void **state)
{
    (void)state;
    files_write(".made.origins", "F a b.txt\nF /d/c\n1 10 0\n4 1 1\n5 8 0\n7 2 9\n");
    says("made", 1, "a b.txt:10");
    says("made", 3, "a b.txt:12");
    says("made", 4, "/d/c:1");
    says("made", 6, "a b.txt:9");
    says("made", 7, "made:7"); // the entry of line 7 refers to a file that is not listed
    says("./made", 4, "/d/c:1");
    says("other", 3, "other:3");
}

static void test_damaged(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "F a\n",
                                        "1 1 0\n",
                                        "1 1\nF a\n",
                                        "F\n1 1 0\n",
                                        "F a\n9 1 0\n",
                                        "x 1 0\nF a\n1 1 0\n"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        files_write(".made.origins", texts[i]);
        says("made", 3, "made:3");
    }
    files_write(".made.origins", "F a\x1b[2J\n1 1 0\n");
    says("made", 1, "a?[2J:1");
}

static void test_piped(void **state)
{
    (void)state;
    files_write(".made.origins", "F a\n1 10 0\n");
    assert_false(origins_piped("made"));
    assert_false(origins_piped("other"));
    files_write(".made.origins", "P\nF a\n1 10 0\n4 2 0\n");
    assert_true(origins_piped("made"));
    says("made", 2, "a:11");
    says("made", 5, "a:3");
    files_write(".made.origins", "F P\n1 10 0\nPx\n");
    assert_false(origins_piped("made"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_piped),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
