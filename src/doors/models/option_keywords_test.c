// Tests that sentences name options as Python's keywords.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "kit/test.h"
#include "tug/train.h"

static void test_keywords(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", ""},
        {"try a smaller --lr, or --numeric COLUMN:log",
         "try a smaller lr, or numeric='COLUMN:log'"},
        {"--pipe-command 'xz -dc'", "pipe_command='xz -dc'"},
        {"--by and --raw are of eval and predict", "by and raw are of eval and predict"},
        {"'tug train --lr 1' and --lr", "'tug train --lr 1' and lr"},
        {"'tug train --lr 1",
         "'tug train lr=1"}, // a quotation without its end is changed
        {"--no-such-option, a--lr, ---lr, --lr-x, --",
         "--no-such-option, a--lr, ---lr, --lr-x, --"},
        {"(--l1)--l2", "(l1)l2"},
        {"give --decimal ,", "give decimal=','"},
        {"--decimal , or --drop 'a b' leaves it out, and --drop is used",
         "decimal=',' or drop='a b' leaves it out, and drop is used"},
        {"--epochs 3, --l2 1e-6. --valid FILE; --lr. Then --threads N",
         "epochs=3, l2=1e-6. valid=FILE; lr. Then threads=N"},
        {"use --loss squared, or --format libffm (x)",
         "use loss='squared', or format='libffm' (x)"},
        {"--drop 'unended", "drop 'unended"},
        {"--separator tab, --separator ';'", "separator='tab', separator=';'"},
        {"--separator gives another", "separator gives another"},
        {"lr --lr: xz -dc FILE | tug ... --data -",
         "lr lr: xz -dc FILE | tug ... --data -"},
        {"with --valid 1/5 and so on", "with valid='1/5' and so on"},
        {"--lr, --lr I --lr Is", "lr, lr=I lr Is"},
        {"--ca, --cert and --key; --save-root DIR", "ca, cert and key; save_root=DIR"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char text[128];
        snprintf(text, sizeof(text), "%s", cases[i][0]);
        tug_option_keywords(text);
        assert_string_equal(text, cases[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_keywords)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
