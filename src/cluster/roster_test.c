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
static struct roster_unbacked unbacked[] = {
    {.table = 3, .space = WIRE_SPACE_DENSE, .drops = 7},
    {.table = 4095, .space = WIRE_SPACE_DENSE},
};
static uint32_t owners[WIRE_SPACES][PARTITIONS];
static struct roster_move moves[] = {
    {.id = 4, .space = WIRE_SPACE_SPARSE, .partition = 2, .to = 8},
    {.id = 3, .space = WIRE_SPACE_DENSE, .partition = 1, .to = 8},
    {.id = 5, .space = WIRE_SPACE_DENSE, .partition = 2, .to = 10},
};
enum { MOVES = sizeof(moves) / sizeof(moves[0]) };
static uint32_t backups[WIRE_SPACES][PARTITIONS * CHAINS_MAX_REPLICAS];

static struct roster example(uint64_t epoch)
{
    struct roster r = {
        .epoch = epoch,
        .version = 3,
        .servers = 2,
        .workers = 1,
        .partition_bits = BITS,
        .replicas = 1,
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

// As example(1), with two servers more and `replicas` replicas: node 8 or 10 leads, and
// the backups are 12, 14 and the other one of 8 and 10, as far as there are places. In
// partition 0 no place is taken, and in partition 1 only the first one.
static struct roster example_of_chains(uint32_t replicas)
{
    static struct roster_node more[] = {
        {.id = 8, .role = WIRE_SERVER, .alive = true},
        {.id = 9, .role = WIRE_WORKER, .alive = true},
        {.id = 10, .role = WIRE_SERVER, .alive = true},
        {.id = 12, .role = WIRE_SERVER, .alive = true},
        {.id = 14, .role = WIRE_SERVER, .alive = true},
        {.id = 16, .role = WIRE_SERVER, .alive = false},
        {.id = 18, .role = WIRE_SERVER, .alive = true},
    };
    static struct roster_move fills[] = {
        {.id = 4, .space = WIRE_SPACE_SPARSE, .partition = 0, .to = 12, .fills = true},
        {.id = 5, .space = WIRE_SPACE_DENSE, .partition = 1, .to = 18, .fills = true},
    };
    struct roster r = example(1);
    r.nodes = more;
    r.n_nodes = sizeof(more) / sizeof(more[0]);
    r.moves = fills;
    r.n_moves = sizeof(fills) / sizeof(fills[0]);
    r.replicas = replicas;
    r.unbacked = unbacked;
    r.n_unbacked = sizeof(unbacked) / sizeof(unbacked[0]);
    memset(backups, 0, sizeof(backups));
    for (int space = 0; space < WIRE_SPACES; space++) {
        for (uint32_t p = 1; p < PARTITIONS; p++) {
            uint32_t of[] = {12, 14, owners[space][p] == 8 ? 10 : 8};
            for (uint32_t i = 0; i < replicas && i < (p == 1 ? 1 : 3); i++)
                backups[space][p * replicas + i] = of[i];
        }
        r.backups[space] = replicas > 1 ? backups[space] : NULL;
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
    assert_int_equal(a->replicas, b->replicas);
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
        assert_int_equal(a->moves[i].fills, b->moves[i].fills);
    }
    assert_int_equal(a->n_unbacked, b->n_unbacked);
    for (uint32_t i = 0; i < a->n_unbacked; i++)
        assert_same_struct(&a->unbacked[i], &b->unbacked[i]);
    for (int space = 0; space < WIRE_SPACES; space++) {
        if (b->epoch == 0)
            assert_null(a->owners[space]);
        else
            assert_memory_equal(a->owners[space], b->owners[space], sizeof(owners[0]));
        if (b->replicas == 1 || b->epoch == 0)
            assert_null(a->backups[space]);
        else
            assert_memory_equal(a->backups[space], b->backups[space],
                                PARTITIONS * b->replicas * sizeof(uint32_t));
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

static void test_chains(void **state)
{
    (void)state;
    for (uint32_t replicas = 2; replicas <= CHAINS_MAX_REPLICAS; replicas++) {
        struct roster r = example_of_chains(replicas), back;
        struct msg_roster m = encode(&r);
        assert_int_equal(roster_decode(&back, &m, NULL), 0);
        check_equal(&back, &r);
        roster_free(&back);
        free_bytes();
    }
}

// Chains of 4 and more members, and the ends of shorter ones.
static void test_members(void **state)
{
    (void)state;
    struct roster r = example_of_chains(3);
    uint32_t chain[ROSTER_MAX_CHAIN];
    uint32_t owner = r.owners[WIRE_SPACE_SPARSE][0];
    assert_int_equal(roster_chain(&r, WIRE_SPACE_SPARSE, 0, chain), 1);
    assert_int_equal(chain[0], owner);
    assert_int_equal(roster_tail(&r, WIRE_SPACE_SPARSE, 0), owner);
    assert_int_equal(roster_next(&r, WIRE_SPACE_SPARSE, 0, owner), 0);
    assert_int_equal(roster_previous(&r, WIRE_SPACE_SPARSE, 0, owner), 0);
    assert_int_equal(roster_chain(&r, WIRE_SPACE_DENSE, 1, chain), 2);
    assert_int_equal(roster_tail(&r, WIRE_SPACE_DENSE, 1), 12);

    assert_int_equal(roster_chain(&r, WIRE_SPACE_RANGE, 4, chain), 4);
    const uint32_t all[] = {8, 12, 14, 10};
    assert_memory_equal(chain, all, sizeof(all));
    assert_int_equal(roster_tail(&r, WIRE_SPACE_RANGE, 4), 10);
    for (int i = 0; i < 4; i++) {
        assert_true(roster_is_member(&r, WIRE_SPACE_RANGE, 4, all[i]));
        assert_int_equal(roster_next(&r, WIRE_SPACE_RANGE, 4, all[i]),
                         i < 3 ? all[i + 1] : 0);
        assert_int_equal(roster_previous(&r, WIRE_SPACE_RANGE, 4, all[i]),
                         i > 0 ? all[i - 1] : 0);
    }
    assert_false(roster_is_member(&r, WIRE_SPACE_RANGE, 4, 18));
    assert_int_equal(roster_next(&r, WIRE_SPACE_RANGE, 4, 18), 0);
    assert_int_equal(roster_previous(&r, WIRE_SPACE_RANGE, 4, 18), 0);

    r = example(1); // without replicas
    assert_int_equal(roster_chain(&r, WIRE_SPACE_RANGE, 4, chain), 1);
    assert_int_equal(roster_tail(&r, WIRE_SPACE_RANGE, 4), 8);
    assert_int_equal(roster_next(&r, WIRE_SPACE_RANGE, 4, 8), 0);
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

// Sets backup i of partition 2 of the dense space to `id`, and checks that the roster is
// refused.
static void check_backup_refused(uint32_t i, uint32_t id)
{
    struct roster r = example_of_chains(3);
    r.backups[WIRE_SPACE_DENSE][2 * 3 + i] = id;
    struct msg_roster m = encode(&r);
    check_refused(&m);
    free_bytes();
}

static void test_backups_refused(void **state)
{
    (void)state;
    check_backup_refused(1, owners[WIRE_SPACE_DENSE][2]); // the owner
    check_backup_refused(1, 12);                          // the first backup
    check_backup_refused(0, 0);                           // a place before it is free
    check_backup_refused(2, 9);                           // a worker
    check_backup_refused(2, 16);                          // a dead server
    check_backup_refused(2, 7); // a node that the roster does not have
    struct roster r = example_of_chains(3);
    struct msg_roster m = encode(&r), bad = m;
    for (uint64_t n = 0; n < m.backups.n; n++) {
        bad.backups.n = n;
        check_refused(&bad);
    }
    for (unsigned replicas = 0; replicas < 256; replicas++) {
        bad = m;
        bad.replicas = (uint8_t)replicas;
        if (replicas != 3)
            check_refused(&bad);
    }
    bad = m;
    bad.epoch = 0; // backups without owners
    bad.owners.n = 0;
    bad.moves.n = 0;
    check_refused(&bad);
    bad.backups.n = 0;
    struct roster back;
    assert_int_equal(roster_decode(&back, &bad, NULL), 0);
    roster_free(&back);
    free_bytes();
}

static void check_fill_refused(struct roster_move fill)
{
    struct roster r = example_of_chains(3);
    struct roster_move was = r.moves[1];
    r.moves[1] = fill;
    struct msg_roster m = encode(&r);
    check_refused(&m);
    free_bytes();
    r.moves[1] = was;
}

static void test_fills_refused(void **state)
{
    (void)state;
    struct roster_move fill = example_of_chains(3).moves[1];
    fill.to = 12; // a backup
    check_fill_refused(fill);
    fill.to = owners[WIRE_SPACE_DENSE][1];
    check_fill_refused(fill);
    fill = example_of_chains(3).moves[1];
    fill.partition = 2; // its chain has a member too many already
    check_fill_refused(fill);
    fill = example_of_chains(3).moves[1];
    fill.fills = false; // a move of the owner
    check_fill_refused(fill);
}

static void test_next(void **state)
{
    (void)state;
    struct roster none = {0}, r = example_of_chains(3), next = r;
    assert_int_equal(roster_check_next(&none, &r, NULL), 0);
    assert_int_equal(roster_check_next(&r, &next, NULL), 0);
    next.epoch = 0;
    assert_int_equal(roster_check_next(&r, &next, NULL), TUG_EDATA);
    next = r;
    next.partition_bits++;
    assert_int_equal(roster_check_next(&r, &next, NULL), TUG_EDATA);
    next = r;
    next.replicas++;
    assert_int_equal(roster_check_next(&r, &next, NULL), TUG_EDATA);
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
    move.fills = true; // without replicas
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

static void check_unbacked_refused(struct roster_unbacked x)
{
    struct roster_unbacked was = unbacked[1];
    struct roster r = example_of_chains(3);
    unbacked[1] = x;
    struct msg_roster m = encode(&r);
    check_refused(&m);
    free_bytes();
    unbacked[1] = was;
}

static void test_unbacked(void **state)
{
    (void)state;
    struct roster r = example_of_chains(3);
    assert_ptr_equal(roster_unbacked_find(&r, 4095), &unbacked[1]);
    assert_null(roster_unbacked_find(&r, 4));
    assert_true(roster_keeps_primaries(&r, WIRE_SPACE_DENSE));
    assert_false(roster_keeps_primaries(&r, WIRE_SPACE_SPARSE));
    struct roster_unbacked x = unbacked[1];
    x.table = ROSTER_TABLES;
    check_unbacked_refused(x);
    x.table = 3; // twice
    check_unbacked_refused(x);
    x = unbacked[1];
    x.space = WIRE_SPACES;
    check_unbacked_refused(x);
    struct msg_roster m = encode(&r), cut = m;
    cut.unbacked.n--;
    check_refused(&cut);
    free_bytes();
}

// Asserts that the members of all chains of an accepted roster are different nodes.
static void check_chains(const struct roster *r)
{
    for (int space = 0; space < WIRE_SPACES; space++)
        for (uint32_t p = 0; p < PARTITIONS; p++) {
            uint32_t chain[ROSTER_MAX_CHAIN];
            uint32_t n = roster_chain(r, (enum wire_space)space, p, chain);
            assert_in_range(n, 1, r->replicas + 1);
            for (uint32_t i = 0; i < n; i++) {
                assert_non_null(roster_find(r, chain[i]));
                for (uint32_t k = 0; k < i; k++)
                    assert_int_not_equal(chain[i], chain[k]);
            }
        }
}

static void test_bytes_at_random(void **state)
{
    (void)state;
    struct roster r = example_of_chains(3);
    struct msg_roster m = encode(&r);
    for (uint64_t i = 0; i < 20000; i++) {
        bool nodes = random_below(1, 3, i, 2) == 0;
        struct buf *b = nodes ? &node_bytes : &owner_bytes;
        size_t at = random_below(1, 1, i, b->len);
        char was = b->data[at];
        b->data[at] = (char)random_below(1, 2, i, nodes ? 256 : 20);
        struct roster back;
        int rc = roster_decode(&back, &m, NULL);
        if (rc == 0) { // accepted: every field that is used as an index or as text must
                       // be valid
            check_chains(&back);
            for (uint32_t k = 0; k < back.n_moves; k++)
                assert_non_null(roster_find(&back, back.moves[k].to));
            for (uint32_t k = 0; k < back.n_nodes; k++) {
                char name[ROSTER_NAME_MAX];
                assert_true(strlen(roster_name(&back.nodes[k], name)) > 0);
            }
            roster_free(&back);
        }
        b->data[at] = was;
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
    struct roster r = example_of_chains(2), back;
    struct msg_roster m = encode(&r);
    for (long k = 0; k < 8; k++) {
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
        cmocka_unit_test(test_encode_and_decode),
        cmocka_unit_test(test_chains),
        cmocka_unit_test(test_members),
        cmocka_unit_test(test_backups_refused),
        cmocka_unit_test(test_fills_refused),
        cmocka_unit_test(test_next),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_lines_refused),
        cmocka_unit_test(test_moves),
        cmocka_unit_test(test_unbacked),
        cmocka_unit_test(test_bytes_at_random),
        cmocka_unit_test(test_find_and_name),
        cmocka_unit_test(test_partition),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
