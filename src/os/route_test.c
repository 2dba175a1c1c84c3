// Tests the addresses of this machine; the checks depend on which addresses the machine
// has.
//
// SPDX-License-Identifier: Apache-2.0
#include "os/route.h"

#include <string.h>
#include <unistd.h>

#include "kit/test.h"

static void test_split(void **state)
{
    (void)state;
    static const struct {
        const char *address, *host;
        uint16_t port; // expected port; 0: the text is not an address
    } cases[] = {
        {"a.example:1", "a.example", 1},
        {"tcp://10.0.0.1:65535", "10.0.0.1", 65535},
        {"[::1]:7", "::1", 7},
        {"unix:///run/tug/a@5.sock,tcp://127.0.0.1:5", "127.0.0.1", 5},
        {"unix:///run/tug/a@5.sock,tcp://[::1]:5", "::1", 5},
        {"tcp://a.example:5,tcp://b.example:6", "a.example", 5},
        {"a.example", NULL, 0},
        {":5", NULL, 0},
        {"a:65536", NULL, 0},
        {"a:5x", NULL, 0},
        {"", NULL, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char host[64];
        uint16_t port;
        struct err e;
        int rc = route_split(cases[i].address, host, sizeof(host), &port, &e);
        if (rc != (cases[i].host != NULL ? 0 : TUG_EUSAGE))
            fail_msg("'%s': %d", cases[i].address, rc);
        if (rc != 0)
            continue;
        assert_string_equal(host, cases[i].host);
        assert_int_equal(port, cases[i].port);
    }
}

static void test_route_to_loopback(void **state)
{
    (void)state;
    char own[ROUTE_ADDRESS_MAX];
    struct err e;
    assert_int_equal(route_address("127.0.0.1", own, &e), 0);
    assert_string_equal(own, "127.0.0.1");
}

// The address is neither loopback nor that of a bridge with a usual name: other machines
// cannot reach those.
static void test_own_address(void **state)
{
    (void)state;
    char own[ROUTE_ADDRESS_MAX];
    if (!route_own(false, own))
        skip_because("no network but loopback");
    assert_null(strstr(own, "127."));
    assert_int_not_equal(strncmp(own, "172.17.0.1", 11), 0); // docker0
    assert_string_not_equal(own, "192.168.122.1");           // virbr0
}

// By route_is_own, a server finds out whether it is the first of a list. The function
// closes the descriptors that it opens.
static void test_is_own(void **state)
{
    (void)state;
    int before = dup(0);
    assert_true(before >= 0);
    close(before);
    assert_true(route_is_own("127.0.0.1"));
    assert_true(route_is_own("127.0.0.2"));
    assert_true(route_is_own("localhost"));
    assert_false(route_is_own("203.0.113.7")); // reserved for documentation: RFC 5737
    assert_false(route_is_own("no such host"));
    int after = dup(0);
    assert_int_equal(after, before);
    close(after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_route_to_loopback),
        cmocka_unit_test(test_own_address),
        cmocka_unit_test(test_is_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
