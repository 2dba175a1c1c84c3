// Tests the address that a node announces to other nodes.
//
// SPDX-License-Identifier: Apache-2.0
#include "cluster/node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kit/test.h"

static char dir[] = "/tmp/tug-node-XXXXXX";

static int begin(void **state)
{
    (void)state;
    return mkdtemp(dir) == NULL || setenv("XDG_RUNTIME_DIR", dir, 1) != 0;
}

static int finish(void **state)
{
    char path[64];
    (void)state;
    snprintf(path, sizeof(path), "%s/tug", dir);
    rmdir(path);
    return rmdir(dir);
}

static void on_message(void *ctx, van_link link, struct van_message *m, uint64_t now)
{
    (void)ctx, (void)link, (void)m, (void)now;
}

// Gets the address that a node with these options tells other nodes for its second loop.
// Returns the error code.
static int told(const struct node_options *o, char ret[VAN_ADDRESS_MAX], struct err *e)
{
    struct node n;
    struct van *v;
    const struct van_handler h = {.message = on_message};
    assert_int_equal(node_open(&n, o, e), 0);
    assert_int_equal(node_van(&n, &v, &h, false, e), 0);
    int rc = node_listen(&n, v, 1, ret, e);
    van_free(v);
    node_close(&n);
    return rc;
}

static void test_advertised(void **state)
{
    (void)state;
    char address[VAN_ADDRESS_MAX];
    struct err e = {0};
    struct node_options o = {.insecure = true, .advertise = "gate.example:7000"};
    assert_int_equal(told(&o, address, &e), 0);
    assert_string_equal(address, "tcp://gate.example:7001");
    o.advertise = "[2001:db8::7]:9";
    assert_int_equal(told(&o, address, &e), 0);
    assert_string_equal(address, "tcp://[2001:db8::7]:10");
    // The advertised address has no port, so the node adds its own port.
    o.advertise = "gate.example";
    assert_int_equal(told(&o, address, &e), 0);
    assert_int_equal(strncmp(address, "tcp://gate.example:", 19), 0);
    assert_int_not_equal(strtol(address + 19, NULL, 10), 0);
    o.advertise = "a:65535";
    assert_int_equal(told(&o, address, &e), TUG_EUSAGE);
    o.advertise = "2001:db8::7"; // an address without a port
    assert_int_equal(told(&o, address, &e), 0);
    assert_int_equal(strncmp(address, "tcp://[2001:db8::7]:", 20), 0);
    static const char *const bad[] = {"tcp://a:1", "a:1,b:1", "<script>", "<script>:7",
                                      "a b",       "a:x",     "",         "-a",
                                      "a/b:1",     "[a]:b",   "a\nb"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        o.advertise = bad[i];
        assert_int_equal(told(&o, address, &e), TUG_EUSAGE);
        assert_non_null(strstr(e.text, "--advertise takes HOST or HOST:PORT"));
    }
}

// A node that listens on all addresses tells others the address from which it reaches the
// scheduler.
static void test_toward_the_scheduler(void **state)
{
    (void)state;
    char address[VAN_ADDRESS_MAX];
    struct err e = {0};
    const struct node_options o = {
        .insecure = true, .host = "0.0.0.0", .scheduler = "127.0.0.1:9"};
    assert_int_equal(told(&o, address, &e), 0);
    assert_int_equal(strncmp(address, "tcp://127.0.0.1:", 16), 0);
}

// A node with `sockets` set also listens on a Unix socket, whose name contains
// the scheduler's port.
static void test_sockets(void **state)
{
    (void)state;
    char address[VAN_ADDRESS_MAX], begins[128];
    struct err e = {0};
    struct node_options o = {.scheduler = "unix:///x/tug@77.sock,tcp://127.0.0.1:77"};
    snprintf(begins, sizeof(begins), "unix://%s/tug/tug@77-", dir);
    assert_int_equal(told(&o, address, &e), 0);
    if (strncmp(address, begins, strlen(begins)) != 0)
        fail_msg("%s", address);
    assert_non_null(strstr(address, ".sock,tcp://127.0.0.1:"));
    // without a scheduler's address the node is itself a scheduler
    o = (struct node_options){.sockets = true, .cluster = "a"};
    snprintf(begins, sizeof(begins), "unix://%s/tug/a@", dir);
    assert_int_equal(told(&o, address, &e), 0);
    assert_int_equal(strncmp(address, begins, strlen(begins)), 0);
    const char *rest = address + strlen(begins); // rest is "PORT.sock,tcp://..."
    rest += strspn(rest, "0123456789");
    assert_int_equal(strncmp(rest, ".sock,tcp://", 12), 0);
    char name[100] = {0};
    memset(name, 'n', 90);
    o.cluster = name;
    // The path is too long for a socket, so the node tells only its TCP address.
    assert_int_equal(told(&o, address, &e), 0);
    assert_int_equal(strncmp(address, "tcp://", 6), 0);
}

// The caller may free the cluster's name after node_open, although the node needs it
// later for opening links.
static void test_a_name_is_kept(void **state)
{
    (void)state;
    struct node n;
    struct err e = {0};
    char name[] = "here", file[FILE_PATH_MAX];
    const struct node_options o = {.cluster = name};
    assert_int_equal(node_open(&n, &o, &e), 0);
    memset(name, 'x', sizeof(name) - 1);
    assert_int_equal(node_make_token(&n, &e), 0);
    assert_int_equal(node_leave_token(&n, "tcp://127.0.0.1:7", &e), 0);
    snprintf(file, sizeof(file), "%s", n.token_file);
    node_close(&n);
    assert_non_null(strstr(file, "here"));
    char longest[NODE_CLUSTER_MAX + 1] = {0};
    memset(longest, 'n', NODE_CLUSTER_MAX);
    assert_int_equal(node_open(&n, &(struct node_options){.cluster = longest}, &e),
                     TUG_EUSAGE);
    assert_non_null(strstr(e.text, "--cluster: the name has 256 bytes"));
    node_close(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_name_is_kept),
        cmocka_unit_test(test_advertised),
        cmocka_unit_test(test_toward_the_scheduler),
        cmocka_unit_test(test_sockets),
    };
    return cmocka_run_group_tests(tests, begin, finish);
}
