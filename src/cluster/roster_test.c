// Encodes and decodes rosters, and tests that rosters with any kind of damage are
// refused.
//
// SPDX-License-Identifier: Apache-2.0
#include "cluster/roster.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/random.h"
#include "kit/test.h"

enum { BITS = 3, PARTITIONS = 1 << BITS };

static struct roster_node lines[] = {
    {.id = 1, .role = WIRE_SCHEDULER, .alive = true, .host = "a"},
    {.id = 8, .role = WIRE_SERVER, .alive = true, .session = 5, .address = "tcp://a:1"},
    {.id = 9, .role = WIRE_WORKER, .alive = false, .session = 6, .pid = 77, .host = "b"},
    {.id = 10, .role = WIRE_SERVER, .alive = true, .rank = 1, .loop = 2, .process = 99},
};
static uint32_t owners[WIRE_SPACES][PARTITIONS];
static struct roster_move moves[] = {
    {.id = 4, .space = WIRE_SPACE_SPARSE, .partition = 2, .to = 8},
    {.id = 3, .space = WIRE_SPACE_DENSE, .partition = 1, .to = 8},
    {.id = 5, .space = WIRE_SPACE_DENSE, .partition = 2, .to = 10},
};
enum { MOVES = sizeof(moves) / sizeof(moves[0]) };

static struct roster example(uint64_t epoch)
{
    struct roster r = {
        .epoch = epoch,
        .version = 3,
        .servers = 2,
        .workers = 1,
        .partition_bits = BITS,
        .n_nodes = sizeof(lines) / sizeof(lines[0]),
        .nodes = lines,
        .moves = moves,
        .n_moves = epoch == 0 ? 0 : MOVES,
    };
    for (int space = 0; space < WIRE_SPACES; space++) {
        for (uint32_t p = 0; p < PARTITIONS; p++)
            owners[space][p] = (p + (uint32_t)space) % 3 == 0 ? 8 : 10;
        r.owners[space] = epoch == 0 ? NULL : owners[space];
    }
    return r;
}

static void check_equal(const struct roster *a, const struct roster *b)
{
    assert_int_equal(a->epoch, b->epoch);
    assert_int_equal(a->version, b->version);
    assert_int_equal(a->servers, b->servers);
    assert_int_equal(a->workers, b->workers);
    assert_int_equal(a->partition_bits, b->partition_bits);
    assert_int_equal(a->n_nodes, b->n_nodes);
    for (uint32_t i = 0; i < a->n_nodes; i++) {
        const struct roster_node *x = &a->nodes[i], *y = &b->nodes[i];
        assert_int_equal(x->id, y->id);
        assert_int_equal(x->role, y->role);
        assert_int_equal(x->tables, y->tables);
        assert_int_equal(x->alive, y->alive);
        assert_int_equal(x->rank, y->rank);
        assert_int_equal(x->session, y->session);
        assert_int_equal(x->process, y->process);
        assert_int_equal(x->loop, y->loop);
        assert_int_equal(x->pid, y->pid);
        assert_string_equal(x->host, y->host);
        assert_string_equal(x->address, y->address);
    }
    assert_int_equal(a->n_moves, b->n_moves);
    for (uint32_t i = 0; i < a->n_moves; i++) {
        assert_int_equal(a->moves[i].id, b->moves[i].id);
        assert_int_equal(a->moves[i].space, b->moves[i].space);
        assert_int_equal(a->moves[i].partition, b->moves[i].partition);
        assert_int_equal(a->moves[i].to, b->moves[i].to);
    }
    for (int space = 0; space < WIRE_SPACES; space++) {
        if (b->epoch == 0)
            assert_null(a->owners[space]);
        else
            assert_memory_equal(a->owners[space], b->owners[space], sizeof(owners[0]));
    }
}

static struct buf node_bytes, owner_bytes;

static struct msg_roster encode(const struct roster *r)
{
    struct msg_roster m;
    node_bytes = BUF_INIT(1 << 20);
    owner_bytes = BUF_INIT(1 << 20);
    assert_int_equal(roster_encode(r, &node_bytes, &owner_bytes, &m), 0);
    return m;
}

static void free_bytes(void)
{
    buf_free(&node_bytes);
    buf_free(&owner_bytes);
}

static void test_encode_and_decode(void **state)
{
    (void)state;
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        struct roster r = example(epoch), back;
        struct msg_roster m = encode(&r);
        assert_int_equal(roster_decode(&back, &m, NULL), 0);
        check_equal(&back, &r);
        roster_free(&back);
        free_bytes();
    }
}

static void check_refused(const struct msg_roster *m)
{
    struct roster r;
    struct err e = {0};
    size_t live = mem_live();
    assert_int_equal(roster_decode(&r, m, &e), TUG_EDATA);
    assert_true(e.text[0] != 0);
    assert_int_equal(mem_live(), live);
}

static void test_refused(void **state)
{
    (void)state;
    struct roster r = example(1);
    struct msg_roster m = encode(&r), bad = m;
    for (uint32_t n = 1; n < m.nodes.n; n++) {
        bad.nodes.n = n;
        struct roster back;
        // A truncated list of nodes lacks nodes that own partitions, so that it is never
        // taken for a shorter roster.
        assert_int_equal(roster_decode(&back, &bad, NULL), TUG_EDATA);
    }
    bad = m;
    bad.nodes.n = 0;
    check_refused(&bad);
    for (uint64_t n = 0; n < m.owners.n; n++) {
        bad = m;
        bad.owners.n = n;
        check_refused(&bad);
    }
    bad = m;
    bad.partition_bits = 17;
    check_refused(&bad);
    bad = m;
    bad.servers = UINT32_MAX;
    check_refused(&bad);
    bad.servers = 0;
    check_refused(&bad);
    bad = m;
    bad.workers = UINT32_MAX;
    check_refused(&bad);
    bad = m;
    bad.epoch = 0; // a roster of epoch 0 must not have owners
    check_refused(&bad);
    free_bytes();
}

static void check_line_refused(struct roster_node line)
{
    struct roster_node was = lines[3];
    struct roster r = example(1);
    lines[3] = line;
    struct msg_roster m = encode(&r);
    check_refused(&m);
    free_bytes();
    lines[3] = was;
}

static void test_lines_refused(void **state)
{
    (void)state;
    struct roster_node line = lines[3];
    line.id = 9;
    check_line_refused(line); // the same id occurs twice
    line.id = 2;
    check_line_refused(line); // the ids do not ascend
    line = lines[3];
    line.alive = false;
    check_line_refused(line); // a dead server that owns partitions
    line = lines[3];
    line.role = WIRE_WORKER;
    check_line_refused(line);
    line.role = WIRE_TOOL;
    check_line_refused(line);
    line = lines[3];
    line.tables = 3;
    check_line_refused(line);
    line = lines[3];
    // the host name is printed, so escape sequences are refused
    snprintf(line.host, sizeof(line.host), "a\x1b[2J");
    check_line_refused(line);
}

static void check_move_refused(struct roster_move move)
{
    struct roster_move was = moves[1];
    struct roster r = example(1);
    moves[1] = move;
    struct msg_roster m = encode(&r);
    check_refused(&m);
    free_bytes();
    moves[1] = was;
}

static void test_moves(void **state)
{
    (void)state;
    struct roster r = example(1);
    assert_ptr_equal(roster_move_of(&r, WIRE_SPACE_SPARSE, 2), &moves[0]);
    assert_ptr_equal(roster_move_of(&r, WIRE_SPACE_DENSE, 2), &moves[2]);
    assert_null(roster_move_of(&r, WIRE_SPACE_SPARSE, 1));
    assert_null(roster_move_of(&r, WIRE_SPACE_RANGE, 2));
    struct roster_move move = moves[1];
    move.to = 10; // a move to the owner itself
    check_move_refused(move);
    move.to = 9; // a move to a worker
    check_move_refused(move);
    move.to = 7; // a move to a node that the roster does not have
    check_move_refused(move);
    move = moves[1];
    move.id = 0;
    check_move_refused(move);
    move = moves[1];
    move.partition = PARTITIONS;
    check_move_refused(move);
    move = moves[1];
    move.space = WIRE_SPACES;
    check_move_refused(move);
    move.space = WIRE_SPACE_SPARSE; // the moves are not in order
    check_move_refused(move);
    check_move_refused(moves[0]); // two moves of the same partition
    struct msg_roster m = encode(&r), cut = m;
    cut.moves.n--;
    check_refused(&cut);
    cut = m;
    cut.epoch = 0;
    cut.owners.n = 0; // without a placement nothing can move
    check_refused(&cut);
    free_bytes();
}

static void test_bytes_at_random(void **state)
{
    (void)state;
    struct roster r = example(1);
    struct msg_roster m = encode(&r);
    for (uint64_t i = 0; i < 20000; i++) {
        size_t at = random_below(1, 1, i, node_bytes.len);
        char was = node_bytes.data[at];
        node_bytes.data[at] = (char)random_u64(1, 2, i);
        struct roster back;
        int rc = roster_decode(&back, &m, NULL);
        if (rc == 0) { // accepted: every field that is used as an index or as text must
                       // be valid
            for (uint32_t k = 0; k < back.n_moves; k++)
                assert_non_null(roster_find(&back, back.moves[k].to));
            for (uint32_t k = 0; k < back.n_nodes; k++) {
                char name[ROSTER_NAME_MAX];
                assert_true(strlen(roster_name(&back.nodes[k], name)) > 0);
            }
            roster_free(&back);
        }
        node_bytes.data[at] = was;
    }
    free_bytes();
}

static void test_find_and_name(void **state)
{
    (void)state;
    struct roster r = example(1);
    char name[ROSTER_NAME_MAX];
    for (uint32_t i = 0; i < r.n_nodes; i++)
        assert_ptr_equal(roster_find(&r, lines[i].id), &lines[i]);
    assert_null(roster_find(&r, 0));
    assert_null(roster_find(&r, 7));
    assert_null(roster_find(&r, 11));
    assert_string_equal(roster_name(&lines[2], name), "worker 0 (b:77)");
}

static void test_partition(void **state)
{
    (void)state;
    assert_int_equal(roster_partition(0, WIRE_SPACE_SPARSE, UINT64_MAX), 0);
    assert_int_equal(roster_partition(4, WIRE_SPACE_RANGE, UINT64_MAX), 15);
    assert_int_equal(roster_partition(4, WIRE_SPACE_RANGE, (uint64_t)3 << 60), 3);
    assert_int_equal(roster_partition(8, WIRE_SPACE_DENSE, 5), mix64(5) >> 56);
}

static void test_no_memory(void **state)
{
    (void)state;
    struct roster r = example(1), back;
    struct msg_roster m = encode(&r);
    for (long k = 0; k < 5; k++) {
        size_t live = mem_live();
        mem_fault_after(k);
        assert_int_equal(roster_decode(&back, &m, NULL), TUG_ENOMEM);
        mem_fault_after(-1);
        assert_int_equal(mem_live(), live);
    }
    free_bytes();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_encode_and_decode), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_lines_refused),     cmocka_unit_test(test_moves),
        cmocka_unit_test(test_bytes_at_random),   cmocka_unit_test(test_find_and_name),
        cmocka_unit_test(test_partition),         cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
