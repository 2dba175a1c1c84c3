// Tests of list.h against an array.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/list.h"

#include <string.h>

#include "base/random.h"
#include "kit/test.h"

enum { N = 12 };

struct element {
    struct element *before, *behind;
    bool in;
};

struct list {
    struct element *first, *last;
};

// Checks that the list has the elements of `want`, read from both ends.
static void check(const struct list *l, struct element *const *want, size_t n)
{
    const struct element *x = l->first;
    for (size_t i = 0; i < n; i++, x = x->behind)
        assert_ptr_equal(x, want[i]);
    assert_null(x);
    x = l->last;
    for (size_t i = n; i-- > 0; x = x->before)
        assert_ptr_equal(x, want[i]);
    assert_null(x);
}

static void test_any_order(void **state)
{
    struct element all[N] = {{0}}, *want[N];
    struct list l = {0};
    size_t n = 0;
    (void)state;
    for (uint64_t i = 0; i < 2000; i++) {
        struct element *x = &all[random_below(1, 0, i, N)];
        if (!x->in) {
            list_append(l.first, l.last, x, before, behind);
            want[n++] = x;
        } else {
            size_t at = 0;
            while (want[at] != x)
                at++;
            list_remove(l.first, l.last, x, before, behind);
            memmove(want + at, want + at + 1, (--n - at) * sizeof(*want));
        }
        x->in = !x->in;
        check(&l, want, n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_any_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
