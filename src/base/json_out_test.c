// SPDX-License-Identifier: Apache-2.0
#include "base/json_out.h"

#include <math.h>
#include <stdint.h>

#include "base/alloc.h"
#include "kit/test.h"

static void put_all(struct json_out *o)
{
    json_out_open(o, NULL, '{');
    json_out_u64(o, "zero", 0);
    json_out_u64(o, "most", UINT64_MAX);
    json_out_i64(o, "least", INT64_MIN);
    json_out_i64(o, "some", 1234567890);
    json_out_real(o, "half", 3, 0.5);
    json_out_real(o, "none", 3, NAN);
    json_out_open(o, "list", '[');
    json_out_close(o, ']');
    json_out_open(o, "pairs", '[');
    json_out_open(o, NULL, '{');
    json_out_flag(o, "yes", true);
    json_out_flag(o, "no", false);
    json_out_close(o, '}');
    json_out_u64(o, NULL, 10);
    json_out_close(o, ']');
    json_out_text(o, "text", "<a> \"b\"\n\xff");
    json_out_text(o, "missing", NULL);
    json_out_null(o, "null");
    json_out_raw(o, "raw", "[1]", 3);
    json_out_close(o, '}');
}

static void test_text(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(4096);
    struct json_out o = JSON_OUT(&b);
    put_all(&o);
    assert_int_equal(o.rc, 0);
    assert_string_equal(
        buf_str(&b),
        "{\"zero\":0,\"most\":9223372036854775807,\"least\":-9223372036854775808,"
        "\"some\":1234567890,\"half\":0.5,\"none\":null,\"list\":[],\"pairs\":[{\"yes\":"
        "true,\"no\":false},10],\"text\":\"<a> "
        "\\\"b\\\"\\u000a\\\\xff\",\"missing\":null,"
        "\"null\":null,\"raw\":[1]}");
    buf_free(&b);
}

// The first error is kept, whichever call it occurs in.
static void test_too_long(void **state)
{
    (void)state;
    struct buf whole = BUF_INIT(4096);
    struct json_out o = JSON_OUT(&whole);
    put_all(&o);
    for (size_t max = 0; max < whole.len; max++) {
        struct buf b = BUF_INIT(max);
        o = JSON_OUT(&b);
        put_all(&o);
        assert_int_equal(o.rc, TUG_EDATA);
        buf_free(&b);
    }
    buf_free(&whole);
}

static void test_without_memory(void **state)
{
    (void)state;
    bool failed = true;
    for (long n = 0; failed; n++) {
        struct buf b = BUF_INIT(4096);
        struct json_out o = JSON_OUT(&b);
        mem_fault_after(n);
        put_all(&o);
        failed = mem_faulted();
        mem_fault_after(-1);
        assert_int_equal(o.rc, failed ? TUG_ENOMEM : 0);
        buf_free(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_too_long),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
