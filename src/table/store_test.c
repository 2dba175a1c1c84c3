// Stores against a naive model. SPDX-License-Identifier: Apache-2.0
#include "table/store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>

#include <cmocka.h>

static void test_smoke(void **state)
{
    (void)state;
    struct table_config c = table_config_defaults();
    struct err e = {0};
    assert_int_equal(table_config_parse(&c, "accessor=ctr;dim=4;embedx-threshold=0.5", &e), 0);
    struct store *s;
    struct store_options o = {.config = &c};
    if (store_open(&s, &o, &e) != 0)
        fail_msg("%s", e.text);
    uint64_t keys[] = {1, 2, 3};
    float v[3 * 8] = {0.1f, 1, 2, 3, 4, 1, 0, 0, 0.1f, 1, 2, 3, 4, 10, 0, 0, 0.2f, 1, 2, 3, 4, 1, 1, 5};
    struct store_push p = {.keys = keys, .n = 3, .values = v, .rate = 1, .scale = 1};
    assert_int_equal(store_accessor(s)->push_width, 8);
    assert_int_equal(store_push(s, &p, NULL, &e), 0);
    float r[3 * 7];
    assert_int_equal(store_pull(s, keys, 3, r, NULL, &e), 0);
    for (int i = 0; i < 21; i++)
        printf("%g%c", (double)r[i], i % 7 == 6 ? '\n' : ' ');
    assert_int_equal(store_order(s, STORE_SHRINK, NAN, &e), 0);
    assert_int_equal(store_finish(s, &e), 0);
    struct store_stats x = store_stats(s);
    printf("rows %lu extra %lu evicted %lu changed %lu bytes %lu\n", x.rows, x.extra_rows, x.evicted_score, x.changed, x.bytes);
    store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_smoke)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
