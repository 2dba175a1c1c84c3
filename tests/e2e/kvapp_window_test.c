// A server that never answers. Its buffers count the requests that it has, and it
// receives no more requests than fit its window. A wait for a request beyond the window
// fails at its deadline, and the error says why the request is not sent.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "doors/kvapp/node.h"
#include "kit/nodes.h"

enum { APP = 1, BEYOND = 10, ASKED = KV_WINDOW + BEYOND };

static uint32_t held;

// Keeps every request for ever; their bytes stay counted in the process's buffers.
static void hold(void *ctx, struct tug_app *a, const struct tug_kv_meta *m,
                 const struct tug_kv_data *d)
{
    struct tug_node *n = tug_app_node(a);
    (void)ctx, (void)m, (void)d;
    held++;
    pump_enter(n->pump);
    expect(budget_used(&n->process.budget, BUDGET_PENDING) >=
           held * sizeof(struct received));
    pump_leave(n->pump);
    expect(held <= KV_WINDOW);
}

static int serve(const char *scheduler)
{
    struct tug_node_options o;
    struct tug_node *n;
    struct tug_app *a;
    struct tug_app_handlers h = {.kv = hold};
    nodes_options(&o, TUG_GROUP_SERVERS, scheduler);
    expect(tug_node_start(&n, &o) == 0);
    expect(tug_app_open(&a, n, APP, APP, &h) == 0);
    expect(tug_node_finalize(n, false) == 0);
    expect(held == 0 || held == KV_WINDOW);
    return 0;
}

static int work(const char *scheduler)
{
    static uint32_t ts[ASKED];
    struct tug_node_options o;
    struct tug_node *n;
    struct tug_app *a;
    const uint64_t key = 1;
    const float value = 1;
    struct tug_kv_request q = {.push = true, .data = {&key, 1, &value, 1, NULL, 0}};
    nodes_options(&o, TUG_GROUP_WORKERS, scheduler);
    expect(tug_node_start(&n, &o) == 0);
    expect(tug_app_open(&a, n, APP, APP, NULL) == 0);
    expect(tug_node_barrier(n, TUG_GROUP_WORKERS) == 0);
    if (tug_node_rank(n) == 0) {
        for (int i = 0; i < ASKED; i++)
            expect(tug_kv_send(a, &q, &ts[i]) == 0);
        n->o.wait_seconds = 0.3;
        expect(tug_app_wait(a, ts[ASKED - 1]) == TUG_EIO);
        n->o.wait_seconds = o.wait_seconds;
        expect(strstr(tug_last_error(), "to be sent: server 0"));
        expect(
            strstr(tug_last_error(), "at most 4096 requests, counted from the oldest"));
        pump_enter(n->pump);
        kv_requests_give_up(a);
        pump_leave(n->pump);
        expect(tug_app_wait(a, ts[0]) == TUG_EIO);
    }
    return tug_node_finalize(n, false);
}

static void window(void **state)
{
    int status[NODES_PROCESSES];
    (void)state;
    nodes_run(nodes_schedule, serve, work, status);
    for (int i = 0; i < NODES_PROCESSES; i++)
        assert_int_equal(0, status[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(window)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
