// Tables as text. Rows that are read back equal the rows that were written. Paddle's
// lines give the same rows as rows made by hand. The error for a wrong line names its
// place.
//
// SPDX-License-Identifier: Apache-2.0
#include "save/text.h"

#include <math.h>
#include <string.h>

#include "base/random.h"
#include "kit/saves.h"
#include "kit/test.h"

static int put(void *ctx, const char *bytes, size_t n, struct err *e)
{
    (void)e;
    return buf_add(ctx, bytes, n);
}

static struct buf text_of(struct store *s, bool state)
{
    struct buf b = BUF_INIT(64 << 20);
    OK(text_export(s, state, put, &b, &ok_e));
    assert_non_null(buf_str(&b));
    return b;
}

// Imports the text several times, in pieces of every size.
static int import(struct store *s, bool paddle, const char *text, uint64_t *ret_rows,
                  struct err *e)
{
    struct text_import *x;
    TRY(text_import_open(&x, s, paddle, e));
    int rc = text_import_file(x, "part-0", e);
    for (size_t at = 0, n, all = strlen(text); at < all && rc == 0; at += n) {
        n = 1 + random_below(1, 2, at, 60);
        n = n < all - at ? n : all - at;
        rc = text_import_add(x, text + at, n, e);
    }
    if (rc == 0)
        return text_import_end(x, ret_rows, e);
    text_import_abort(x);
    return rc;
}

static const char *const tables[] = {
    CTR,
    CTR "ttl-steps=100",
    "name=users; accessor=ctr_double; dim=2; rule=adam; embedx-threshold=3",
    "name=users; accessor=plain; dim=5; rule=adam",
    "name=users; accessor=features; embed=2; dim=4; rule=adagrad; "
    "embedx-rule=adagrad-row:block=2; embedx-init=0.1",
    "name=users; accessor=sparse; dim=0; rule=ftrl; placement=range",
    "name=users; accessor=merge; dim=1; rule=sum",
    "name=users; accessor=counter; dim=2",
};
enum { N_TABLES = sizeof(tables) / sizeof(*tables) };

static void test_round_trip(void **state)
{
    (void)state;
    for (size_t t = 0; t < N_TABLES; t++) {
        struct store *s = stores_open(tables[t], 3);
        for (int i = 0; i < 5; i++) {
            saves_push(s, (struct saves_owner){0, 1}, (uint64_t)i, 1, 500);
            store_set_step(s, (uint64_t)i * 7);
            store_day(s);
        }
        struct buf b = text_of(s, true);
        struct store *r = stores_open(tables[t], (uint32_t)(1 + t % 5));
        uint64_t rows;
        OK(import(r, false, b.data, &rows, &ok_e));
        assert_int_equal(rows, store_stats(s).rows);
        assert_true(rows_same(s, r));
        assert_int_equal(store_stats(r).day, 5);
        assert_int_equal(store_step_of(r), 28);
        // Importing a text without the rules' state restores weights, shows and clicks;
        // all other values are those of new rows.
        struct buf weights = text_of(s, false);
        store_close(r);
        r = stores_open(tables[t], 2);
        OK(import(r, false, weights.data, &rows, &ok_e));
        struct buf again = text_of(r, false);
        assert_string_equal(buf_str(&weights), buf_str(&again));
        buf_free(&again);
        buf_free(&weights);
        buf_free(&b);
        store_close(r);
        store_close(s);
    }
}

static void test_example(void **state)
{
    (void)state;
    struct store *s = stores_open(CTR, 3);
    uint64_t rows;
    OK(import(s, false,
              "# tug table users accessor=ctr dim=3 state=yes day=12 step=3400\n"
              "# a comment\n"
              "\n"
              "44 0.5 0.25 -1 2 0 1 0\r\n"
              "18446744073709551615 1 2 3 4 5 6 7\n"
              // the last line has no newline
              "18\t0.100000001 1.5 -1 0 3 7 1 0.125 -0.5 2.75 1 2 3",
              &rows, &ok_e));
    assert_int_equal(rows, 3);
    struct buf b = text_of(s, true);
    assert_string_equal(
        buf_str(&b),
        "# tug table users accessor=ctr dim=3 state=yes day=12 step=3400\n"
        "# key embed embed.state slot unseen_days delta_score show click embedx:3 "
        "embedx.state:3\n"
        "18 0.100000001 1.5 -1 0 3 7 1 0.125 -0.5 2.75 1 2 3\n"
        "44 0.5 0.25 -1 2 0 1 0\n"
        "18446744073709551615 1 2 3 4 5 6 7\n");
    buf_free(&b);
    b = text_of(s, false);
    assert_string_equal(buf_str(&b),
                        "# tug table users accessor=ctr dim=3 state=no day=12 step=3400\n"
                        "# key show click embed embedx:3\n"
                        "18 7 1 0.100000001 0.125 -0.5 2.75\n"
                        "44 1 0 0.5\n"
                        "18446744073709551615 6 7 1\n");
    buf_free(&b);
    store_close(s);
}

// A count is stored as a double whose two halves, read as floats, would be NaN.
static void test_counts(void **state)
{
    (void)state;
    struct store *s = stores_open("name=users; accessor=counter; dim=2", 2);
    uint64_t rows, key = 7;
    const char *const text =
        "# tug table users accessor=counter dim=2 state=no day=0 step=0\n"
        "# key count:2\n"
        "7 281474976710655 0.10000000149011612\n";
    OK(import(s, false, text, &rows, &ok_e));
    float x[4];
    OK(store_pull(s, &key, 1, x, NULL, &ok_e));
    assert_true((double)x[0] * 0x1p24 + (double)x[1] == 281474976710655.0);
    struct buf b = text_of(s, false);
    assert_string_equal(buf_str(&b), text);
    buf_free(&b);
    store_close(s);
}

// If a key occurs twice, the last line counts, even if the lines are in different
// batches.
static void test_twice(void **state)
{
    (void)state;
    struct store *s = stores_open("name=users; accessor=plain; dim=1; rule=sgd", 2);
    struct buf text = BUF_INIT(1 << 20);
    for (int i = 0; i < 5000; i++)
        OK(buf_printf(&text, "%d %d\n", i % 700, i));
    uint64_t rows;
    OK(import(s, false, buf_str(&text), &rows, &ok_e));
    assert_int_equal(rows, 5000);
    assert_int_equal(store_stats(s).rows, 700);
    for (uint64_t key = 0; key < 700; key++)
        assert_true(store_row(s, key, NULL)[0] ==
                    (float)(4900 + key - (key < 100 ? 0 : 700)));
    buf_free(&text);
    store_close(s);
}

static const float *row_of(struct store *s, uint64_t key, const float **ret_extra)
{
    const float *row = store_row(s, key, ret_extra);
    assert_non_null(row);
    return row;
}

static void test_paddle_ctr(void **state)
{
    (void)state;
    struct store *s = stores_open(
        "accessor=DownpourCtrAccessor; dim=2; rule=adagrad-shared; embedx-rule=adam", 2);
    const struct accessor *a = store_accessor(s);
    uint64_t rows;
    OK(import(s, true,
              "7 101 2 0.5 30 4 0.123457 3.5\n"
              "9 102 99999 0.25 3e+06 1 -1e-05 0 0.1 0.2 1 2 3 4 0.81 0.998001\n",
              &rows, &ok_e));
    assert_int_equal(rows, 2);
    const float *extra, *row = row_of(s, 7, &extra), *stats = row + a->stats;
    uint32_t day = store_stats(s).day;
    assert_true(day == 31 && extra == NULL);
    assert_true(row[0] == 0.123457f && row[1] == 3.5f);
    assert_true(stats[LIFE_SLOT] == 101 && stats[LIFE_DAY] == (float)(day - 2));
    assert_true(stats[LIFE_DELTA] == 0.5f && stats[LIFE_SHOW] == 30 &&
                stats[LIFE_CLICK] == 4);
    row = row_of(s, 9, &extra);
    assert_non_null(extra);
    assert_true(row[a->stats + LIFE_DAY] == 0 && row[a->stats + LIFE_SHOW] == 3e6f);
    const struct accessor_group *g = &a->groups[1];
    assert_true(extra[g->weights] == 0.1f && extra[g->weights + 1] == 0.2f);
    for (uint32_t i = 0; i < 4; i++)
        assert_true(extra[g->state + i] == (float)(i + 1));
    // Paddle's text has beta^(t + 1), here for t = 1 step; tug keeps 1 - beta^t.
    assert_true(fabsf(extra[g->state + 4] - 0.1f) < 1e-6f);
    assert_true(fabsf(extra[g->state + 5] - 0.001f) < 1e-6f);
    // No setting refers to a month of unseen days, so a row that was unseen for a month
    // is removed, and the other row stays.
    OK(store_admin(s, STORE_SHRINK, NAN, &ok_e));
    OK(store_finish(s, &ok_e));
    assert_null(store_row(s, 9, NULL));
    assert_non_null(store_row(s, 7, NULL));
    store_close(s);
}

static double wide_at(const float *row)
{
    double x;
    memcpy(&x, row, sizeof(x));
    return x;
}

static void test_paddle_double(void **state)
{
    (void)state;
    struct store *s = stores_open("accessor=ctr_double; dim=2", 2);
    const struct accessor *a = store_accessor(s);
    uint64_t rows;
    OK(import(s, true,
              "1 3 0.5 16777217 5 0.25 1.5 77 2.5 0.1 0.2\n"
              "2 3 0.5 10 5 0.25 1.5 77\n"
              "3 3 0.5 10 5 0.25 1.5 2.5 0.1 0.2\n"
              "4 3 0.5 10 5 0.25 1.5\n",
              &rows, &ok_e));
    assert_int_equal(rows, 4);
    for (uint64_t key = 1; key <= 4; key++) {
        const float *extra, *row = row_of(s, key, &extra);
        assert_true(row[a->stats + LIFE_SLOT] == (key < 3 ? 77 : -1));
        assert_true(wide_at(row + a->stats + LIFE_SHOW) == (key == 1 ? 16777217 : 10));
        assert_true(wide_at(row + a->stats + LIFE_SHOW + 2) == 5);
        assert_true(row[0] == 0.25f && row[1] == 1.5f);
        assert_int_equal(extra != NULL, key % 2);
        if (extra != NULL)
            assert_true(extra[0] == 0.1f && extra[1] == 0.2f && extra[2] == 2.5f);
    }
    store_close(s);
}

static void test_paddle_block(void **state)
{
    (void)state;
    struct store *s = stores_open("accessor=plain; dim=3; rule=adam", 2);
    uint64_t rows;
    OK(import(s, true,
              "5\t12\t0\t1\t0.1,0.2,0.3,\n"
              "6\t1\t4\t0\t0,0,0,\n"
              "7\t12\t0\t1\t1,2,3,9,9,9\n",
              &rows, &ok_e));
    assert_int_equal(rows, 2);
    assert_null(store_row(s, 6, NULL));
    const float *row = row_of(s, 7, NULL);
    assert_true(row[0] == 1 && row[1] == 2 && row[2] == 3 && row[3] == 0);
    store_close(s);
}

static void refuse(const char *settings, bool paddle, const char *text, int code,
                   const char *what)
{
    struct store *s = stores_open(settings, 2);
    struct err e = {0};
    uint64_t rows;
    assert_int_equal(import(s, paddle, text, &rows, &e), code);
    if (strstr(e.text, what) == NULL)
        fail_msg("'%s' instead of '%s'", e.text, what);
    store_close(s);
}

static void test_refused(void **state)
{
    (void)state;
    static const char plain[] = "accessor=plain; dim=2; rule=sgd";
    static const struct {
        const char *text, *what;
    } lines[] = {
        {"1 2 3\n2 3\n",
         "part-0:2: the key is followed by 1 number; a row of this table has 2"},
        {"1 2 3 4", "part-0:1: the key is followed by 3 numbers"},
        {"1 2 3 4 5 6 7 8 9 10 11 12 13 14 15", "the key is followed by 10 numbers"},
        {"x 2 3", "does not begin with a key"},
        {"-1 2 3", "does not begin with a key"},
        {"1.5 2 3", "does not begin with a key"},
        {"18446744073709551616 2 3", "does not begin with a key"},
        {"\n\n1 2 nan", "part-0:3: 'nan' is not a finite number"},
        {"1 2 inf", "not a finite number"},
        {"1 2 1e39", "not a finite number"},
        {"1 2 0x10", "not a finite number"},
        {"1 2 3,4", "not a finite number"},
        {"1 2 ,", "not a finite number"},
        {"# tug table a accessor=ctr dim=2 state=yes day=1 step=2\n",
         "part-0:1: rows of accessor ctr with dim 2 cannot become rows of plain"},
        {"# tug table a accessor=plain dim=2 state=yes day=99999999 step=2\n",
         "last possible day"},
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
        refuse(plain, false, lines[i].text, TUG_EDATA, lines[i].what);
    refuse(plain, true, "1\t2\t3\t1\t5,\n", TUG_EDATA, "the line has 1 value,");
    refuse(plain, true, "1\t2\t3\t1\t5,,6\n", TUG_EDATA, "not a finite number");
    refuse(plain, true, "1\t2\n", TUG_EDATA, "not a finite number");
    refuse("accessor=ctr; dim=2", true, "5 1 2 3 4\n", TUG_EDATA,
           "part-0:1: the key is followed by 4 numbers; Paddle's rows of this table have "
           "7, or "
           "10 with embedx");
    refuse("accessor=ctr_double; dim=0", true, "5 1 2 3 4\n", TUG_EDATA, "have 7");
    refuse("accessor=ctr; dim=2; rule=ftrl", true, "", TUG_EUSAGE,
           "rule ftrl has no counterpart");
    refuse("accessor=ctr_double; dim=2; rule=adam", true, "", TUG_EUSAGE, "not adam");

    struct store *s = stores_open(plain, 2);
    struct text_import *x;
    struct err e;
    OK(text_import_open(&x, s, false, &ok_e));
    OK(text_import_file(x, "zero", &ok_e));
    assert_int_equal(text_import_add(x, "1 2\0 3\n", 7, &e), TUG_EDATA);
    assert_non_null(strstr(e.text, "zero:1: there is a zero byte"));
    text_import_abort(x);
    store_close(s);
}

static void test_no_memory(void **state)
{
    (void)state;
    struct store *s = stores_open(CTR, 2);
    saves_push(s, (struct saves_owner){0, 1}, 1, 4, 300);
    struct buf b = text_of(s, true);
    for (long n = 0;; n++) {
        struct buf text = BUF_INIT(64 << 20);
        struct err e = {0};
        mem_fault_after(n);
        int rc = text_export(s, true, put, &text, &e);
        bool struck = mem_faulted();
        mem_fault_after(-1);
        assert_int_equal(rc, struck ? TUG_ENOMEM : 0);
        buf_free(&text);
        if (!struck)
            break;
    }
    for (long n = 0;; n++) {
        struct store *r = stores_open(CTR, 3);
        struct err e = {0};
        uint64_t rows;
        mem_fault_after(n);
        int rc = import(r, false, b.data, &rows, &e);
        bool struck = mem_faulted();
        mem_fault_after(-1);
        assert_int_equal(rc, struck ? TUG_ENOMEM : 0);
        store_close(r);
        if (!struck)
            break;
    }
    buf_free(&b);
    store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),   cmocka_unit_test(test_example),
        cmocka_unit_test(test_counts),       cmocka_unit_test(test_twice),
        cmocka_unit_test(test_paddle_ctr),   cmocka_unit_test(test_paddle_double),
        cmocka_unit_test(test_paddle_block), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
