// Memory for answers is taken from the pool, sent and given back.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/pool.h"

#include <string.h>

#include "base/alloc.h"
#include "kit/test.h"

// Memory that was given back is taken again, and a buffer outlives its pool.
static void test_pool(void **state)
{
    (void)state;
    size_t live = mem_live();
    struct pool *p = pool_open(NULL);
    struct van_release a, b, big;
    void *x = pool_take(p, 5000, &a);
    assert_int_equal((uintptr_t)x % 64, 0);
    memset(x, 1, 5000);
    a.release(a.ctx);
    assert_ptr_equal(pool_take(p, 4097, &a), x); // x has the same size class
    void *y = pool_take(p, 4097, &b);
    assert_ptr_not_equal(y, x);
    assert_non_null(pool_take(p, 1, &big));
    b.release(b.ctx);
    mem_fault_after(0);
    assert_null(pool_take(p, 1 << 20, &b));
    mem_fault_after(-1);
    pool_close(p);
    memset(x, 2, 4097);
    a.release(a.ctx);
    big.release(big.ctx);
    assert_int_equal(mem_live(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
