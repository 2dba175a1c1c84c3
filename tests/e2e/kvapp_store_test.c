// A server with the default store dies: a pull returns the acknowledged values, or an
// error. A process that is started in its place has an empty store, so it is not let in
// (docs/design/0019).
//
// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "kit/nodes.h"

enum { STORE = 1, DIES = 2, PUSHES = 50 };

static const uint64_t keys[] = {1, 2, UINT64_MAX - 1, UINT64_MAX};
enum { KEYS = sizeof(keys) / sizeof(*keys) };

static void die(void *ctx, struct tug_app *a, const struct tug_simple *q)
{
    (void)ctx, (void)a, (void)q;
    (void)raise(SIGKILL);
}

static int serve(const char *scheduler)
{
    struct tug_node_options o;
    struct tug_node *n;
    struct tug_app *a;
    struct tug_kv_default *store;
    nodes_options(&o, TUG_GROUP_SERVERS, scheduler);
    int rc = tug_node_start(&n, &o);
    if (rc != 0)
        return rc;
    expect(tug_kv_default_open(&store) == 0);
    struct tug_app_handlers h = {.kv = tug_kv_default_handle, .ctx = store};
    expect(tug_app_open(&a, n, STORE, STORE, &h) == 0);
    h = (struct tug_app_handlers){.request = die};
    expect(tug_app_open(&a, n, DIES, DIES, &h) == 0);
    rc = tug_node_finalize(n, false);
    tug_kv_default_close(store);
    return rc;
}

static int pull(struct tug_app *a, float got[KEYS])
{
    struct tug_kv_request q = {.pull = true,
                               .data = {.keys = keys, .n_keys = KEYS},
                               .pulled = got,
                               .n_pulled = KEYS};
    uint32_t ts;
    int rc = tug_kv_send(a, &q, &ts);
    return rc == 0 ? tug_app_wait(a, ts) : rc;
}

// The last server dies, and another process tries to replace it.
static void replace_server(struct tug_app *a, const char *scheduler)
{
    uint32_t ts;
    int status;
    expect(tug_app_request(a, 0, NULL, 0, 8 + 2 * (NODES_SERVERS - 1), &ts) == 0);
    expect(tug_app_wait(a, ts) == TUG_EIO);
    pid_t other = nodes_begin(serve, scheduler);
    expect(waitpid(other, &status, 0) == other);
    expect(WIFEXITED(status) && WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 99);
}

// The first push to a store has keys but no values.
static void push_nothing(struct tug_app *a)
{
    const uint64_t all[] = {7, UINT64_MAX - 7};
    struct tug_kv_request q = {.push = true, .data = {.keys = all, .n_keys = 2}};
    uint32_t ts;
    expect(tug_kv_send(a, &q, &ts) == 0 && tug_app_wait(a, ts) == 0);
}

static int work(const char *scheduler)
{
    struct tug_node_options o;
    struct tug_node *n;
    struct tug_app *store, *dies;
    const float ones[KEYS] = {1, 1, 1, 1};
    float got[KEYS];
    struct tug_kv_request q = {.push = true, .data = {keys, KEYS, ones, KEYS, NULL, 0}};
    uint32_t ts;
    nodes_options(&o, TUG_GROUP_WORKERS, scheduler);
    expect(tug_node_start(&n, &o) == 0);
    expect(tug_app_open(&store, n, STORE, 0, NULL) == 0);
    expect(tug_app_open(&dies, n, DIES, 0, NULL) == 0);
    push_nothing(store);
    expect(tug_node_barrier(n, TUG_GROUP_WORKERS) == 0);
    for (int i = 0; i < PUSHES; i++)
        expect(tug_kv_send(store, &q, &ts) == 0 && tug_app_wait(store, ts) == 0);
    expect(tug_node_barrier(n, TUG_GROUP_WORKERS) == 0);
    expect(pull(store, got) == 0);
    for (int i = 0; i < KEYS; i++)
        expect(got[i] == PUSHES * NODES_WORKERS);
    if (tug_node_barrier(n, TUG_GROUP_WORKERS) == 0 && tug_node_rank(n) == 0)
        replace_server(dies, scheduler);
    int rc = 0;
    while (rc == 0) { // until all nodes know of the death
        rc = pull(store, got);
        for (int i = 0; i < KEYS && rc == 0; i++)
            expect(got[i] == PUSHES * NODES_WORKERS);
    }
    expect(rc == TUG_EIO && strstr(tug_last_error(), "server ") != NULL);
    expect(tug_node_finalize(n, false) == TUG_EIO);
    return 0;
}

static void dead_server(void **state)
{
    int status[NODES_PROCESSES], killed = 0;
    (void)state;
    nodes_run(nodes_schedule, serve, work, status);
    for (int i = 1; i <= NODES_SERVERS; i++)
        killed += WIFSIGNALED(status[i]);
    assert_int_equal(1, killed);
    for (int i = 1 + NODES_SERVERS; i < NODES_PROCESSES; i++)
        assert_int_equal(0, status[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(dead_server)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
