// Copies of hot rows: no worker's change is lost, and cold rows have no copies.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/rows/hot.h"

#include <string.h>

#include "base/alloc.h"
#include "base/relaxed.h"
#include "kit/test.h"
#include "os/team.h"
#include "table/table.h"

enum { WIDTH = 5, WORKERS = 4, ROUNDS = 2000 };

struct job {
    struct table *table;
    struct hot_rows rows;
};

static bool find_row(const void *table, uint32_t id, float *ret[HOT_PIECES])
{
    ret[0] = table_row(table_slabs(table), id);
    return true;
}

static int open_copies(struct hot_copies *c, struct hot_rows *h, const struct table *t)
{
    const uint32_t widths[HOT_PIECES] = {WIDTH};
    return hot_open(c, h, widths, find_row, t);
}

// Each worker adds 1 to column 0 of its copies and sometimes merges.
static void work(void *arg, int rank)
{
    struct job *j = arg;
    struct hot_copies c;
    assert_int_equal(open_copies(&c, &j->rows, j->table), 0);
    hot_begin(&c);
    for (int i = 0; i < ROUNDS; i++) {
        for (uint32_t r = 0; r < j->rows.n; r++) {
            float *row = hot_row(&c, j->rows.id[r]);
            assert_non_null(row);
            row[0] += 1;
        }
        if (i % (rank + 3) == 0)
            hot_merge(&c);
    }
    hot_finish(&c);
    assert_false(c.begun);
    hot_close(&c);
}

static void clear(struct hot_rows *h)
{
    h->n = 0;
    for (uint32_t i = 0; i < 1 << HOT_MAP_BITS; i++)
        h->map[i] = HOT_NONE;
}

static void add(struct hot_rows *h, uint32_t id)
{
    h->map[hot_hash(id)] = (uint16_t)h->n;
    h->id[h->n++] = id;
}

static void test_nothing_is_lost(void **state)
{
    (void)state;
    struct table_options o = {.width = WIDTH};
    static struct job j;
    uint64_t keys[3] = {10, 20, 30};
    uint32_t ids[3];
    assert_int_equal(table_open(&j.table, &o, NULL), 0);
    assert_int_equal(table_rows(j.table, keys, 3, ids), 0);
    clear(&j.rows);
    for (int i = 0; i < 3; i++) {
        add(&j.rows, ids[i]);
    }
    struct team *team;
    assert_int_equal(team_open(&team, WORKERS, NULL), 0);
    team_run(team, work, &j);
    team_close(team);
    for (int i = 0; i < 3; i++)
        assert_true(table_row(table_slabs(j.table), ids[i])[0] ==
                    (float)(WORKERS * ROUNDS));
    table_close(j.table);
}

static void test_cold_rows_are_shared(void **state)
{
    (void)state;
    struct table_options o = {.width = WIDTH};
    struct table *t;
    static struct hot_rows h;
    struct hot_copies c;
    uint64_t key = 7;
    uint32_t id;
    assert_int_equal(table_open(&t, &o, NULL), 0);
    assert_int_equal(table_rows(t, &key, 1, &id), 0);
    float *shared = table_row(table_slabs(t), id);
    clear(&h);
    add(&h, id);
    assert_int_equal(open_copies(&c, &h, t), 0);
    hot_merge(&c); // copies have not begun, so the merge does nothing
    relaxed_store(shared, 3);
    hot_begin(&c);
    assert_true(hot_row(&c, id)[0] == 3);
    assert_null(hot_row(&c, id + 1));
    relaxed_store(shared, 5); // as if another worker had written the row
    hot_row(&c, id)[0] += 2;
    hot_merge(&c);
    assert_true(shared[0] == 7 && hot_row(&c, id)[0] == 7);
    hot_close(&c);
    mem_fault_after(0);
    assert_int_equal(open_copies(&c, &h, t), TUG_ENOMEM);
    mem_fault_after(-1);
    table_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_lost),
        cmocka_unit_test(test_cold_rows_are_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
