// Files of hosts, and the placement of processes on them.
//
// SPDX-License-Identifier: Apache-2.0
#include "launch/hosts.h"

#include <string.h>

#include "base/alloc.h"
#include "kit/test.h"

static void good_files(void **state)
{
    (void)state;
    struct hosts h;
    struct err e = {0};
    const char *text =
        "# two machines\n\nann@a.example slots=3\r\n  b:2222\t# here\nfe80::1";
    assert_int_equal(hosts_parse(&h, "hosts", text, &e), 0);
    assert_int_equal(h.n, 3);
    assert_string_equal(h.list[0].name, "ann@a.example");
    assert_string_equal(hosts_address(&h.list[0]), "a.example");
    assert_int_equal(h.list[0].slots, 3);
    assert_int_equal(h.list[0].port, 0);
    assert_string_equal(h.list[1].name, "b");
    assert_int_equal(h.list[1].port, 2222);
    assert_int_equal(h.list[1].slots, 1);
    assert_string_equal(h.list[2].name, "fe80::1");
    assert_int_equal(h.list[2].port, 0);
    hosts_free(&h);
}

static void bad_files(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"", "no host"},
        {"# nothing\n\n", "no host"},
        {"a\nb slots=0\n", "hosts:2: 'slots=0'"},
        {"a slots=99999\n", "hosts:1"},
        {"a slots=1x\n", "hosts:1"},
        {"a slots=\n", "hosts:1"},
        {"a:0\n", "hosts:1: 'a:0'"},
        {"a:70000\n", "hosts:1"},
        {":22\n", "hosts:1"},
        {"a b\n", "'b'"},
        {"-oProxyCommand=sh\n", "hosts:1"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct hosts h;
        struct err e = {0};
        assert_int_equal(hosts_parse(&h, "hosts", bad[i].text, &e), TUG_EUSAGE);
        if (strstr(e.text, bad[i].says) == NULL)
            fail_msg("'%s' is not in: %s", bad[i].says, e.text);
    }
}

static void slots_are_filled_in_turns(void **state)
{
    (void)state;
    struct hosts h;
    struct err e = {0};
    assert_int_equal(hosts_parse(&h, "hosts", "a slots=1\nb slots=3\nc slots=2", &e), 0);
    const uint32_t wanted[] = {0, 1, 2, 1, 2, 1, 0, 1, 2};
    for (uint32_t i = 0; i < 9; i++)
        assert_int_equal(hosts_place(&h, i), wanted[i]);
    hosts_free(&h);
}

static void memory_runs_out(void **state)
{
    (void)state;
    size_t before = mem_live();
    bool struck = true;
    for (long i = 0; struck; i++) {
        struct hosts h;
        struct err e = {0};
        mem_fault_after(i);
        int rc = hosts_parse(&h, "hosts", "a\nb\nc", &e);
        struck = mem_faulted();
        mem_fault_after(-1);
        assert_int_equal(rc, struck ? TUG_ENOMEM : 0);
        if (rc == 0)
            hosts_free(&h);
        assert_int_equal(mem_live(), before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_files),
        cmocka_unit_test(bad_files),
        cmocka_unit_test(slots_are_filled_in_turns),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
