// Compares tables by group with groups found by comparing texts.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/evaluate/group_table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "kit/test.h"

enum { MOST = 400, TEXT = 32 };

// Texts of three columns; the second and third form the groups.
static char texts[MOST][TEXT], shown[MOST][TEXT];
static struct scored scores[MOST];

static void write_texts(uint64_t seed, size_t n)
{
    uint64_t values = 1 + random_below(seed, 1, 0, seed % 2 ? 30 : 350);
    for (size_t i = 0; i < n; i++) {
        uint64_t v = random_below(seed, 2, i, values);
        char a[8] = "", b[8] = "";
        if (v % 5 != 0)
            snprintf(a, sizeof(a), "%d", (int)(v / 5));
        if (v % 3 != 0)
            snprintf(b, sizeof(b), "x%d", (int)v);
        snprintf(texts[i], TEXT, "%d%c%s%c%s", (int)i, 0, a, 0, b);
        snprintf(shown[i], TEXT, "%s%s%s", a, a[0] || b[0] ? "," : "", b);
        float weight = random_below(seed, 3, i, 20) == 0 ? 0 : 1 + (float)(i % 3);
        bool label = random_below(seed, 4, i, 3) == 0;
        scores[i] = (struct scored){random_f32(seed, 5, i) * 4 - 2,
                                    label ? weight : -weight};
    }
}

static int fill(struct group_table *t, size_t n, size_t top, struct err *e)
{
    struct groups g = groups_of("b,c", 1);
    int rc = groups_reserve(&g, n, e);
    for (size_t i = 0; i < n && rc == 0; i++) {
        groups_put(&g, i, texts[i], scores[i]);
        if (scores[i].weight != 0)
            rc = group_table_meet(t, &g, g.graded[i].group, texts[i], e);
    }
    if (rc == 0)
        rc = group_table_make(t, &g, n, top, e);
    groups_free(&g);
    if (rc != 0)
        group_table_free(t);
    return rc;
}

// Computes the metrics of the examples that have this value.
static struct group_metrics naive(const char *value, size_t n)
{
    static struct graded of[MOST], scratch[MOST];
    size_t k = 0;
    for (size_t i = 0; i < n; i++)
        if (scores[i].weight != 0 && strcmp(shown[i], value) == 0)
            of[k++] = (struct graded){1, scores[i]};
    graded_sort(of, scratch, k);
    return group_metrics(of, k);
}

static void against_naive(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        size_t n = random_below(seed, 0, 0, MOST),
               top = 1 + random_below(seed, 0, 1, seed % 8 ? 12 : 500);
        uint64_t groups = 0;
        struct group_table t = {0};
        write_texts(seed, n);
        assert_int_equal(fill(&t, n, top, &test_err), 0);
        for (size_t i = 0; i < n; i++) {
            size_t j = 0;
            while (j < i && (scores[j].weight == 0 || strcmp(shown[i], shown[j]) != 0))
                j++;
            groups += j == i && scores[i].weight != 0;
        }
        assert_int_equal(t.groups, groups);
        assert_int_equal(t.n, groups < top ? groups : top);
        uint64_t least = UINT64_MAX;
        for (size_t i = 0; i < t.n; i++) {
            struct group_metrics want = naive(t.line[i].value, n);
            assert_memory_equal(&want, &t.line[i].metrics, sizeof(want));
            assert_true(want.examples > 0 && want.examples <= least);
            least = want.examples;
            for (size_t j = 0; j < i; j++)
                assert_string_not_equal(t.line[i].value, t.line[j].value);
        }
        for (size_t i = 0; i < n; i++) { // groups that were left out are not larger
            size_t j = 0;
            while (j < t.n && strcmp(t.line[j].value, shown[i]) != 0)
                j++;
            assert_true(scores[i].weight == 0 || j < t.n ||
                        naive(shown[i], n).examples <= least);
        }
        group_table_free(&t);
    }
}

// Values of groups are made printable, because they are printed on a terminal.
static void values_are_printable(void **state)
{
    (void)state;
    struct group_table t = {0};
    memcpy(texts[0], "0\0a\033[2J\0b\n", 11);
    scores[0] = (struct scored){0.5f, 1};
    assert_int_equal(fill(&t, 1, 5, &test_err), 0);
    assert_int_equal(t.n, 1);
    assert_string_equal(t.line[0].value, "a\\x1b[2J,b\\n");
    group_table_free(&t);
}

static void failing_allocations(void **state)
{
    (void)state;
    struct group_table t = {0};
    write_texts(7, MOST);
    FAIL_EACH_ALLOCATION(fill(&t, MOST, 10, &test_err), group_table_free(&t));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(against_naive),
        cmocka_unit_test(values_are_printable),
        cmocka_unit_test(failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
