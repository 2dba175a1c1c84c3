// A customer is closed while requests arrive: the customer is only freed after its handler has
// returned, and nodes that wait for an answer get an error.
//
// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <stdatomic.h>
#include <string.h>

#include "kit/nodes.h"

enum { APP = 4, ASKED = 5, HELD = 1, SLOW = 2 };

static atomic_int handled;
static atomic_bool inside;

// Never answers the first request, and answers the next one only after 300 ms.
static void handle(void *ctx, struct tug_app *a, const struct tug_simple *q)
{
    (void)ctx;
    if (atomic_fetch_add(&handled, 1) + 1 != SLOW)
        return;
    atomic_store(&inside, true);
    poll(NULL, 0, 300);
    expect(tug_app_answer(a, q->ticket, NULL, 0) == 0);
    atomic_store(&inside, false);
}

static int serve(const char *scheduler)
{
    const struct tug_app_handlers h = {.request = handle};
    struct tug_node_options o;
    struct tug_node *n;
    struct tug_app *a;
    nodes_options(&o, TUG_GROUP_SERVERS, scheduler);
    expect(tug_node_start(&n, &o) == 0);
    expect(tug_app_open(&a, n, APP, APP, &h) == 0);
    if (tug_node_rank(n) == 0) {
        while (!atomic_load(&inside))
            poll(NULL, 0, 1);
        expect(tug_app_close(a) == 0);
        expect(!atomic_load(&inside));
        expect(atomic_load(&handled) == SLOW);
    }
    return tug_node_finalize(n, false);
}

static int work(const char *scheduler)
{
    struct tug_node_options o;
    struct tug_node *n;
    struct tug_app *a;
    uint32_t ts[ASKED + 1], server;
    nodes_options(&o, TUG_GROUP_WORKERS, scheduler);
    o.wait_seconds = 20;
    expect(tug_node_start(&n, &o) == 0);
    expect(tug_app_open(&a, n, APP, APP, NULL) == 0);
    expect(tug_node_ids(n, TUG_GROUP_SERVERS, &server, 1) == NODES_SERVERS);
    for (int i = 1; i <= ASKED && tug_node_rank(n) == 0; i++)
        expect(tug_app_request(a, 0, NULL, 0, server, &ts[i]) == 0);
    for (int i = 1; i <= ASKED && tug_node_rank(n) == 0; i++) {
        expect(tug_app_wait(a, ts[i]) == (i == SLOW ? 0 : TUG_EUSAGE));
        expect(i == SLOW || strstr(tug_last_error(), "was closed"));
    }
    return tug_node_finalize(n, false);
}

static void asked_meanwhile(void **state)
{
    int status[NODES_PROCESSES];
    (void)state;
    nodes_run(nodes_schedule, serve, work, status);
    for (int i = 0; i < NODES_PROCESSES; i++)
        assert_int_equal(0, status[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(asked_meanwhile)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
