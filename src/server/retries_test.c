// Compares the clock of pushes with a naive model that remembers everything.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "kit/test.h"
#include "protocol/limits.h"
#include "protocol/spec.h"
#include "server/moves/stream.h"
#include "server/retries.h"

enum {
    BITS = 7,
    PARTITIONS = 1 << BITS,
    SESSIONS = 5,
    NUMBERS = 400,
    PIECES = 12,
    GROUPS = 9,
    TABLES = 2,
    ROUNDS = 20000,
};

struct model {
    bool applied[SESSIONS][NUMBERS][PARTITIONS];
    bool done[PIECES][TABLES][GROUPS][PARTITIONS];
    uint64_t low[SESSIONS]; // the mark that each session sends
    uint32_t group_low[PIECES][TABLES];
    uint64_t pass; // the newest pass; all earlier ones are over
};

static bool model_applied(const struct model *m, uint64_t session, uint64_t number,
                          const struct retries_id *id, uint32_t p)
{
    return m->applied[session][number][p] || (id->pass != 0 && id->pass < m->pass) ||
           (id->pass == m->pass && (m->done[id->piece][id->table][id->group][p] ||
                                    id->group < m->group_low[id->piece][id->table]));
}

static uint64_t draw(uint64_t round, uint64_t what, uint64_t n)
{
    return random_below(4, round, what, n);
}

// Applies a push in some partitions; any push may be repeated.
static void push(struct retries *r, struct model *m, uint64_t round,
                 enum wire_space space)
{
    uint64_t session = draw(round, 0, SESSIONS);
    uint64_t low = m->low[session], back = low < 40 ? low : 40;
    uint64_t number = low - back + draw(round, 1, back + SHARD_WINDOW);
    struct retries_id id = {.pass = draw(round, 2, 3),
                            .piece = draw(round, 3, PIECES),
                            .table = (uint32_t)draw(round, 4, TABLES),
                            .group = (uint32_t)draw(round, 5, GROUPS)};
    struct retries_push known;
    if (number >= NUMBERS)
        return;
    id.pass = id.pass == 0                             ? 0 // 0: the push has no identity
              : draw(round, 24, 8) == 0 && m->pass > 1 ? m->pass - 1
                                                       : m->pass;
    uint32_t *group_low = &m->group_low[id.piece][id.table];
    if (draw(round, 22, 3) == 0)
        id.low = (uint32_t)draw(round, 23, id.group + 1);
    if (id.pass == m->pass && id.low > *group_low)
        *group_low = id.low;
    // A message that was delayed for long carries an old mark.
    uint64_t said = low < number ? low - draw(round, 6, low < 5 ? low + 1 : 5) : number;
    assert_int_equal(
        retries_begin(r, 100 + session, number, said, space, &id, &known, NULL), 0);
    for (uint32_t i = 0; i < 6; i++) {
        uint32_t p = (uint32_t)draw(round, 7 + i, PARTITIONS);
        bool below = number < low;
        bool is = model_applied(m, session, number, &id, p);
        assert_true(retries_applied(&known, p) == (is || below));
        if (is || below)
            continue;
        retries_note(&known, p);
        m->applied[session][number][p] = true;
        if (id.pass == m->pass)
            m->done[id.piece][id.table][id.group][p] = true;
    }
    if (number == low && draw(round, 20, 2) == 0) {
        // The session's mark rises, and one more push carries the higher mark.
        m->low[session] += draw(round, 21, 8);
        assert_int_equal(retries_begin(r, 100 + session, m->low[session], m->low[session],
                                       space, &(struct retries_id){0}, &known, NULL),
                         0);
    }
}

static void test_model(void **state)
{
    (void)state;
    struct retries *r;
    struct model *m = mem_zalloc(sizeof(*m));
    m->pass = 1;
    size_t live = mem_live();
    assert_int_equal(retries_open(&r, BITS, NULL, NULL), 0);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        push(r, m, round, WIRE_SPACE_SPARSE);
        if (round % 300 == 299) {
            uint64_t piece = draw(round, 30, PIECES);
            retries_forget(r, m->pass, piece);
            retries_forget(r, 0, 0); // pass 0 does not exist, so nothing is forgotten
            memset(m->done[piece], 0, sizeof(m->done[piece]));
            memset(m->group_low[piece], 0, sizeof(m->group_low[piece]));
            if (draw(round, 32, 8) == 0) { // a pass is over when the next one has begun
                retries_forget(r, ++m->pass, piece);
                memset(m->done, 0, sizeof(m->done));
                memset(m->group_low, 0, sizeof(m->group_low));
            }
        }
        if (round % 2000 == 1999) {
            uint64_t session = draw(round, 31, SESSIONS);
            retries_end_session(r, 100 + session);
            retries_end_session(r, 100 + session);
            memset(m->applied[session], 0, sizeof(m->applied[session]));
            m->low[session] = 0;
        }
    }
    retries_close(r);
    assert_int_equal(mem_live(), live);
    mem_free(m);
}

static int begin(struct retries *r, uint64_t number, uint64_t low, struct retries_push *p,
                 struct err *e)
{
    return retries_begin(r, 1, number, low, WIRE_SPACE_SPARSE, &(struct retries_id){0}, p,
                         e);
}

static void test_window(void **state)
{
    (void)state;
    struct retries *r;
    struct retries_push p;
    struct err e;
    assert_int_equal(retries_open(&r, BITS, NULL, NULL), 0);
    assert_int_equal(begin(r, SHARD_WINDOW - 1, 0, &p, &e), 0);
    retries_note(&p, 3);
    assert_int_equal(begin(r, SHARD_WINDOW, 0, &p, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "more than 63 above 0"));
    assert_int_equal(begin(r, 4, 5, &p, &e), TUG_EUSAGE);
    assert_non_null(
        strstr(e.text, "number is 4, but it acknowledges all numbers below 5"));
    // This push raises the mark to 1, so it (number SHARD_WINDOW) may use the entry of
    // push 0.
    assert_int_equal(begin(r, SHARD_WINDOW, 1, &p, &e), 0);
    assert_false(retries_applied(&p, 3));
    assert_int_equal(begin(r, 0, 0, &p, &e), 0);
    // Push 0 is below the mark and therefore counts as applied.
    assert_true(retries_applied(&p, 3) && retries_applied(&p, 4));
    assert_int_equal(begin(r, SHARD_WINDOW - 1, 0, &p, &e), 0);
    assert_true(retries_applied(&p, 3) && !retries_applied(&p, 4));
    // The largest numbers are accepted. A mark far above all recorded numbers drops the
    // records of these numbers.
    assert_int_equal(begin(r, UINT64_MAX, UINT64_MAX - 1, &p, &e), 0);
    assert_false(retries_applied(&p, 3));
    retries_close(r);
}

static int begin_group(struct retries *r, uint64_t number, const struct retries_id *id,
                       struct retries_push *p, struct err *e)
{
    return retries_begin(r, 1, number, number, WIRE_SPACE_SPARSE, id, p, e);
}

// A piece may have more batches than a server can record, because only the batches under
// way take memory. A worker that repeats the piece is told that each push was applied.
static void test_long_piece(void **state)
{
    (void)state;
    enum { GROUPS_OF_PIECE = RETRIES_MAX_IDENTITIES + 1000, FLIGHT = 24 };
    struct budget b;
    struct retries *r;
    struct retries_push p;
    struct err e = {0};
    budget_open(&b, 1 << 20);
    assert_int_equal(retries_open(&r, 3, &b, NULL), 0);
    struct retries_id id = {.pass = 1, .piece = 5, .table = 1};
    for (; id.group < GROUPS_OF_PIECE; id.group++) {
        id.low = id.group < FLIGHT ? 0 : id.group - FLIGHT;
        if (begin_group(r, 1 + id.group, &id, &p, &e) != 0)
            fail_msg("group %u: %s", id.group, e.text);
        assert_false(retries_applied(&p, 3));
        retries_note(&p, 3);
    }
    assert_true(budget_used(&b, BUDGET_CLOCKS) < 16 << 10);
    struct retries_id heir = {.pass = 1, .piece = 5, .table = 1};
    uint64_t number = 1 + (uint64_t)GROUPS_OF_PIECE;
    for (; heir.group < GROUPS_OF_PIECE; heir.group += 997) {
        assert_int_equal(begin_group(r, ++number, &heir, &p, &e), 0);
        assert_true(retries_applied(&p, 3));
    }
    heir.group = GROUPS_OF_PIECE - 1; // this group was still in flight: it was applied in
                                      // some partitions only
    assert_int_equal(begin_group(r, ++number, &heir, &p, &e), 0);
    assert_true(retries_applied(&p, 3) && !retries_applied(&p, 4));
    heir.table = 2;
    heir.group = 0;
    assert_int_equal(begin_group(r, ++number, &heir, &p, &e), 0);
    assert_false(retries_applied(&p, 3));
    retries_forget(r, 1, 5);
    heir.table = 1;
    assert_int_equal(begin_group(r, ++number, &heir, &p, &e), 0);
    assert_false(retries_applied(&p, 3));
    // No correct worker sends these messages. They make the server forget billions of
    // groups, which must not take a step for each group.
    heir.group = UINT32_MAX - 1, heir.low = UINT32_MAX - 1;
    assert_int_equal(begin_group(r, ++number, &heir, &p, &e), 0);
    heir.group = 6, heir.low = 7;
    assert_int_equal(begin_group(r, ++number, &heir, &p, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "group 6 of a piece is below 7"));
    heir.group = UINT32_MAX;
    assert_int_equal(begin_group(r, ++number, &heir, &p, &e), TUG_EUSAGE);
    retries_close(r);
}

// A server forgets a piece without a look at the other pieces, whose number may be large
// when the scheduler has held FORGET for a while. Only the first piece of a new pass costs a
// look at all.
static void test_forget_looks_at_one_piece(void **state)
{
    (void)state;
    enum { MANY = 3000, FLIGHT = 4 };
    struct retries *r;
    struct retries_push p;
    struct err e = {0};
    uint64_t number = 0;
    assert_int_equal(retries_open(&r, 3, NULL, NULL), 0);
    struct retries_id id = {.pass = 1};
    for (id.piece = 0; id.piece < MANY; id.piece++)
        for (id.table = 1; id.table <= TABLES; id.table++)
            for (id.group = 0; id.group < FLIGHT; id.group++) {
                assert_int_equal(begin_group(r, ++number, &id, &p, &e), 0);
                retries_note(&p, 3);
            }
    retries_forget(r, 1, 0);
    uint64_t before = retries_looked(r);
    for (uint64_t piece = 1; piece < MANY; piece++)
        retries_forget(r, 1, piece);
    assert_int_equal(retries_looked(r) - before, (MANY - 1) * TABLES * (FLIGHT + 1));
    for (id.piece = 0; id.piece < MANY; id.piece += 100)
        for (id.table = 1, id.group = 0; id.group < FLIGHT; id.group++) {
            assert_int_equal(begin_group(r, ++number, &id, &p, &e), 0);
            assert_false(retries_applied(&p, 3));
        }
    retries_close(r);
}

// When a piece of pass 3 is done, all pushes of pass 2 were applied, and a late
// push of pass 2 takes no memory. A shard that takes over a partition also
// knows that pass 2 is over.
static void test_old_pass(void **state)
{
    (void)state;
    struct retries *a, *b;
    struct retries_push p;
    struct err e = {0};
    struct buf bytes = BUF_INIT(1 << 20);
    struct retries_id late = {.pass = 2, .piece = 5, .table = 1, .group = 7, .low = 6};
    assert_int_equal(retries_open(&a, BITS, NULL, NULL), 0);
    assert_int_equal(retries_open(&b, BITS, NULL, NULL), 0);
    assert_int_equal(begin_group(a, 1, &late, &p, &e), 0);
    assert_false(retries_applied(&p, 3));
    retries_forget(a, 3, 1);
    assert_int_equal(begin_group(a, 2, &late, &p, &e), 0);
    assert_true(p.below && p.identity == NULL);
    assert_int_equal(retries_get(a, 9, WIRE_SPACE_SPARSE, &bytes), 0);
    struct stream x = {bytes.data, bytes.len, 0};
    assert_int_equal(retries_put(b, 9, WIRE_SPACE_SPARSE, &x, &e), 0);
    assert_int_equal(begin_group(b, 3, &late, &p, &e), 0);
    assert_true(p.below);
    late.pass = 3; // pass 3 is not over yet
    assert_int_equal(begin_group(b, 4, &late, &p, &e), 0);
    assert_false(p.below);
    buf_free(&bytes);
    retries_close(a);
    retries_close(b);
}

// A shard takes no records of tables that cannot exist: each forgotten piece costs a search
// in each table.
static void test_move_of_no_table(void **state)
{
    (void)state;
    struct retries *a, *b;
    struct retries_push p;
    struct err e;
    struct buf bytes = BUF_INIT(1 << 20);
    struct retries_id id = {.pass = 1, .piece = 2, .table = SPEC_MAX_TABLES, .group = 3};
    assert_int_equal(retries_open(&a, BITS, NULL, NULL), 0);
    assert_int_equal(retries_open(&b, BITS, NULL, NULL), 0);
    assert_int_equal(begin_group(a, 1, &id, &p, &e), 0);
    retries_note(&p, 9);
    assert_int_equal(retries_get(a, 9, WIRE_SPACE_SPARSE, &bytes), 0);
    struct stream x = {bytes.data, bytes.len, 0};
    assert_int_equal(retries_put(b, 9, WIRE_SPACE_SPARSE, &x, &e), TUG_EDATA);
    buf_free(&bytes);
    retries_close(a);
    retries_close(b);
}

// After a partition has moved, the new shard knows the pushes that were applied in this
// partition, and no others. Each space has its own partitions.
static void test_move(void **state)
{
    (void)state;
    struct retries *a, *b;
    struct retries_push p;
    struct retries_id id = {1, 2, 3, 4, 2}, other = {1, 2, 3, 5, 0};
    assert_int_equal(retries_open(&a, BITS, NULL, NULL), 0);
    assert_int_equal(retries_open(&b, BITS, NULL, NULL), 0);
    assert_int_equal(retries_begin(a, 1, 7, 5, WIRE_SPACE_SPARSE, &id, &p, NULL), 0);
    retries_note(&p, 9);
    retries_note(&p, 10);
    assert_int_equal(retries_begin(a, 1, 8, 5, WIRE_SPACE_DENSE, &other, &p, NULL), 0);
    retries_note(&p, 9);
    for (long n = 0; n >= 0; n++) { // each allocation fails once
        mem_fault_after(n);
        struct buf bytes = BUF_INIT(1 << 20);
        int rc = retries_get(a, 9, WIRE_SPACE_SPARSE, &bytes);
        struct stream x = {bytes.data, bytes.len, 0};
        if (rc == 0)
            rc = retries_put(b, 9, WIRE_SPACE_SPARSE, &x, NULL);
        bool struck = mem_faulted();
        mem_fault_after(-1);
        assert_true(rc != 0 || x.at == x.n);
        buf_free(&bytes);
        assert_int_equal(rc, struck ? TUG_ENOMEM : 0);
        if (rc == 0)
            break;
    }
    assert_int_equal(
        retries_begin(b, 1, 7, 0, WIRE_SPACE_SPARSE, &(struct retries_id){0}, &p, NULL),
        0);
    assert_true(retries_applied(&p, 9) && !retries_applied(&p, 10));
    assert_int_equal(
        retries_begin(b, 1, 4, 0, WIRE_SPACE_SPARSE, &(struct retries_id){0}, &p, NULL),
        0);
    assert_true(p.below); // the mark has moved with the partition
    assert_int_equal(retries_begin(b, 2, 1, 1, WIRE_SPACE_SPARSE, &id, &p, NULL), 0);
    assert_true(retries_applied(&p, 9) && !retries_applied(&p, 10));
    assert_int_equal(retries_begin(b, 1, 8, 0, WIRE_SPACE_DENSE, &other, &p, NULL), 0);
    assert_false(retries_applied(&p, 9));
    // The push is below the piece's mark, which has also moved.
    struct retries_id early = {1, 2, 3, 1, 0};
    assert_int_equal(retries_begin(b, 2, 2, 2, WIRE_SPACE_SPARSE, &early, &p, NULL), 0);
    assert_true(p.below);
    retries_close(a);
    retries_close(b);
}

// A partition that is dropped forgets its pushes, and others of its space do not. Marks
// stay.
static void test_drop(void **state)
{
    (void)state;
    struct retries *r;
    struct retries_push p;
    struct retries_id id = {1, 2, 3, 4, 2}, none = {0}, dense = {1, 2, 3, 5, 0};
    assert_int_equal(retries_open(&r, BITS, NULL, NULL), 0);
    assert_int_equal(retries_begin(r, 1, 7, 5, WIRE_SPACE_SPARSE, &id, &p, NULL), 0);
    retries_note(&p, 9);
    retries_note(&p, 10);
    assert_int_equal(retries_begin(r, 1, 8, 5, WIRE_SPACE_DENSE, &dense, &p, NULL), 0);
    retries_note(&p, 9);
    retries_drop(r, 9, WIRE_SPACE_SPARSE);
    assert_int_equal(retries_begin(r, 1, 7, 5, WIRE_SPACE_SPARSE, &none, &p, NULL), 0);
    assert_true(!retries_applied(&p, 9) && retries_applied(&p, 10));
    assert_int_equal(retries_begin(r, 2, 1, 1, WIRE_SPACE_SPARSE, &id, &p, NULL), 0);
    assert_true(!retries_applied(&p, 9) && retries_applied(&p, 10));
    assert_int_equal(retries_begin(r, 1, 8, 5, WIRE_SPACE_DENSE, &dense, &p, NULL), 0);
    assert_true(retries_applied(&p, 9));
    assert_int_equal(retries_begin(r, 1, 4, 0, WIRE_SPACE_SPARSE, &none, &p, NULL), 0);
    assert_true(p.below);
    retries_close(r);
}

static void test_allocations(void **state)
{
    (void)state;
    bool struck = true;
    for (long n = 0; struck; n++) {
        size_t live = mem_live();
        struct retries *r;
        struct retries_push p;
        mem_fault_after(n);
        int rc = retries_open(&r, BITS, NULL, NULL);
        for (uint32_t i = 0; i < 100 && rc == 0; i++) {
            struct retries_id id = {1, i, 0, 1 + i % 3, i % 2};
            rc = retries_begin(r, 1 + i % 40, 1 + i / 40, 1, WIRE_SPACE_SPARSE, &id, &p,
                               NULL);
        }
        struck = mem_faulted();
        mem_fault_after(-1);
        assert_int_equal(rc, struck ? TUG_ENOMEM : 0);
        retries_close(r);
        assert_int_equal(mem_live(), live);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model),
        cmocka_unit_test(test_window),
        cmocka_unit_test(test_long_piece),
        cmocka_unit_test(test_forget_looks_at_one_piece),
        cmocka_unit_test(test_old_pass),
        cmocka_unit_test(test_move_of_no_table),
        cmocka_unit_test(test_move),
        cmocka_unit_test(test_drop),
        cmocka_unit_test(test_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
