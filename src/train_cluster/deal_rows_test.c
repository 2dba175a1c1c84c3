// Dealing rows to servers: after an interrupt, no memory that was freed is sent; and a
// bucket is refused if rows on the servers lead to pieces that do not exist.
//
// SPDX-License-Identifier: Apache-2.0
#include "train_cluster/deal_rows.h"

#include <string.h>

#include "cluster/node.h"
#include "kit/test.h"
#include "kit/training.h"
#include "server/embedded.h"
#include "train_cluster/remote.h"

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
    check(client_leave(remote.client, NULL, &test_err));
    remote_close(&remote);
    node_close(&node);
    embedded_close(servers);
}

struct dealing {
    struct deal_rows_options options;
    struct deal_rows *rows;
};

static void open_dealing(struct dealing *d, const char *path, uint64_t piece_bytes)
{
    struct pieces_options po = {.paths = &path, .n_paths = 1, .piece_bytes = piece_bytes};
    struct reader_options ro = {.format = "libffm", .labels = true};
    d->options = (struct deal_rows_options){
        .client = remote.client, .deal = {.buckets = 2, .option = "--shuffle-by"}};
    check(pieces_open(&d->options.pieces, &po, &test_err));
    check(reader_open(&d->options.deal.reader, &ro, &test_err));
    check(deal_rows_open(&d->rows, &d->options, &test_err));
}

static void close_dealing(struct dealing *d)
{
    deal_rows_close(d->rows);
    reader_close(d->options.deal.reader);
    pieces_close(d->options.pieces);
}

static void interrupted(void **state)
{
    (void)state;
    struct dealing d;
    atomic_bool now = true;
    bool at_end;
    open_client();
    open_dealing(&d, training_data("deal.ffm", 100, 3, 0), 1 << 20);
    client_set_interrupt(remote.client, &now);
    assert_int_equal(deal_rows_put(d.rows, 0, 0, &at_end, &test_err), TUG_EINTERRUPTED);
    assert_int_equal(client_in_flight(remote.client), 1);
    close_dealing(&d);
    assert_int_equal(client_in_flight(remote.client), 0);
    client_set_interrupt(remote.client, NULL);
    close_client();
}

// The servers have the first piece of a file, whose head says that a second piece
// follows. But the file that the workers read has only that one piece.
static void without_an_end(void **state)
{
    (void)state;
    struct dealing larger, smaller;
    struct dataset_options o = {0};
    struct dataset *data = NULL;
    bool at_end;
    open_client();
    open_dealing(&larger, training_data("larger.ffm", 100, 3, 0), 1 << 10);
    check(deal_rows_put(larger.rows, 0, 0, &at_end, &test_err));
    assert_false(at_end);
    open_dealing(&smaller, training_data("smaller.ffm", 10, 3, 0), 1 << 20);
    assert_int_equal(deal_rows_load(smaller.rows, 0, &o, &data, &test_err), TUG_EIO);
    assert_non_null(strstr(test_err.text, "piece 1 of "));
    assert_null(data);
    close_dealing(&smaller);
    close_dealing(&larger);
    close_client();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interrupted),
        cmocka_unit_test(without_an_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
