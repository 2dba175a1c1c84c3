// Dealing rows to servers, interrupted: nothing may be sent from arrays that are freed.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/deal_rows.h"

#include <string.h>

#include "cluster/node.h"
#include "kit/test.h"
#include "kit/training.h"
#include "server/embedded.h"
#include "train/remote.h"

static void check(int rc)
{
    if (rc != 0)
        fail_msg("%s", test_err.text);
}

static struct embedded *servers;
static struct node node;
static struct remote remote;

static void open_client(void)
{
    check(embedded_open(&servers, 2, &test_err));
    struct node_options no = {.cluster = embedded_cluster(servers),
                              .scheduler = embedded_scheduler(servers),
                              .token = embedded_token(servers)};
    check(node_open(&node, &no, &test_err));
    struct train_cluster how = {.node = &node, .mode = CONFIG_ASYNC};
    struct train_config c = {.cluster = &how, .model = training_model("lr")};
    struct remote_options ro = {.role = WIRE_WORKER, .loops = 1};
    check(remote_open(&remote, &c, &ro, &test_err));
}

static void close_client(void)
{
    check(client_leave(remote.client, 0, "", &test_err));
    remote_close(&remote);
    node_close(&node);
    embedded_close(servers);
}

static void interrupted(void **state)
{
    (void)state;
    const char *path = training_data("deal.ffm", 100, 3, 0);
    struct pieces_options po = {.paths = &path, .n_paths = 1, .piece_bytes = 1 << 20};
    struct reader_options ro = {.format = "libffm", .labels = true};
    struct deal_rows_options o = {.deal = {.buckets = 2, .option = "--shuffle-by"}};
    struct deal_rows *d;
    atomic_bool now = true;
    bool at_end;
    open_client();
    check(pieces_open(&o.pieces, &po, &test_err));
    check(reader_open(&o.deal.reader, &ro, &test_err));
    o.client = remote.client;
    check(deal_rows_open(&d, &o, &test_err));
    client_set_interrupt(remote.client, &now);
    assert_int_equal(deal_rows_put(d, 0, 0, &at_end, &test_err), TUG_EINTERRUPTED);
    assert_int_equal(client_in_flight(remote.client), 1);
    deal_rows_close(d);
    assert_int_equal(client_in_flight(remote.client), 0);
    client_set_interrupt(remote.client, NULL);
    reader_close(o.deal.reader);
    pieces_close(o.pieces);
    close_client();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interrupted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
