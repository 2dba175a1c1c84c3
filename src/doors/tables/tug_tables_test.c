// Tests tug/table.h on a cluster inside this process.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/random.h"
#include "doors/tables/tug_client.h"
#include "kit/test.h"
#include "os/file.h"
#include "tug/communicator.h"
#include "tug/table.h"

enum { KEYS = 500, DIM = 4, PUSH = 1 + DIM + 3, PULL = 2 + 1 + DIM };

static const char users[] = "name = users; accessor = ctr; dim = 4; embedx-threshold = 2;"
                            "rule = sgd:lr=0.5; embedx-rule = adagrad-shared:lr=0.1;"
                            "base-threshold = 0; delta-threshold = 0; seed = 7";

static char dir[64];

static void check(int rc)
{
    if (rc != 0)
        fail_msg("%s", tug_last_error());
}

static struct tug_client *open_client(void)
{
    struct tug_client *c;
    struct tug_client_options o = {.local_loops = 2, .wait_seconds = 60};
    check(tug_client_open(&c, &o));
    return c;
}

static void push(struct tug_client *c, uint32_t table, const uint64_t *keys, size_t n,
                 const float *values)
{
    uint64_t ts;
    check(tug_push(c, table, keys, n, values, NULL, NULL, &ts));
    check(tug_wait(c, ts, 0));
}

static void pull(struct tug_client *c, uint32_t table, const uint64_t *keys, size_t n,
                 float *values)
{
    uint64_t ts;
    check(tug_pull(c, table, keys, n, values, NULL, NULL, &ts));
    check(tug_wait(c, ts, 0));
}

static struct tug_table_stats stats_of(struct tug_client *c, uint32_t table)
{
    struct tug_table_stats s;
    check(tug_table_stat(c, table, &s));
    return s;
}

// Pushes keys 0 to n - 1 once: key k with 1 + k % 4 shows, odd keys with one click.
static void push_some(struct tug_client *c, uint32_t table, size_t n, uint64_t seed)
{
    static uint64_t keys[KEYS];
    static float values[KEYS * PUSH];
    for (size_t k = 0; k < n; k++) {
        float *v = values + k * PUSH;
        keys[k] = k;
        for (size_t i = 0; i <= DIM; i++)
            v[i] = random_f32(seed, 1, k * PUSH + i) - 0.5f;
        v[1 + DIM] = (float)(1 + k % 4);
        v[2 + DIM] = (float)(k % 2);
        v[3 + DIM] = (float)(k % 10);
    }
    push(c, table, keys, n, values);
}

static void pull_all(struct tug_client *c, uint32_t table, float *values)
{
    check(tug_pull_range(c, table, 0, KEYS, values));
}

// A call that waits fails in a callback. It must send nothing before it fails, because the
// answer would arrive after its arrays were freed.
struct inside {
    struct tug_client *client;
    struct tug_dense *dense;
    atomic_bool over;
};

static void call_all(void *ctx, uint64_t timestamp, int rc)
{
    struct inside *x = ctx;
    struct tug_client *c = x->client;
    struct tug_table_stats s;
    struct tug_save_options save = {.directory = dir};
    float values[KEYS * PULL] = {0};
    uint32_t number;
    uint64_t count;
    double auc;
    (void)timestamp;
    assert_int_equal(0, rc);
    const int said[] = {
        tug_table_create(c, 9, "dim = 2"),
        tug_table_find(c, "users", &number),
        tug_table_stat(c, 1, &s),
        tug_clear(c, 1),
        tug_shrink(c, 1, 1e9f, &count),
        tug_day(c, 1),
        tug_table_drop(c, 1),
        tug_step(c, 1, &count),
        tug_pull_range(c, 1, 0, KEYS, values),
        tug_push_range(c, 1, 0, KEYS / 2, values),
        tug_save(c, &save, NULL),
        tug_save_mark(c, 1),
        tug_load(c, 1, dir, NULL, &count),
        tug_dump(c, 1, "no.txt"),
        tug_auc_add(c, 3, values, values, 1),
        tug_auc(c, 3, &auc, NULL),
        tug_dense_pull(x->dense, values),
        tug_dense_push(x->dense, values),
        tug_dense_assign(x->dense, values),
        tug_dense_pull_range(x->dense, 0, 0, 1, values),
        tug_barrier(c),
        tug_stop(c, NULL),
        tug_client_close(c),
    };
    for (size_t i = 0; i < sizeof(said) / sizeof(*said); i++)
        if (i != 12) // call 12 has another error, because it first opens the save
            assert_int_equal(TUG_EUSAGE, said[i]);
    assert_int_not_equal(0, said[12]);
    atomic_store(&x->over, true);
}

static void test_in_a_callback(void **state)
{
    (void)state;
    struct tug_client *c = open_client();
    struct inside x = {.client = c};
    const struct tug_variable v = {.name = "w", .n = 3, .init = "constant:7"};
    const uint64_t key = 1;
    static float row[PULL];
    float w[3];
    uint32_t number = 0;
    check(tug_table_create(c, 1, users));
    check(tug_table_create(c, 2, "dim = 2"));
    check(tug_table_create(c, 3, "accessor = counter; dim = 2"));
    check(tug_dense_open(&x.dense, c, 2, &v, 1));
    push_some(c, 1, 10, 1);
    check(tug_pull(c, 1, &key, 1, row, call_all, &x, NULL));
    for (int i = 0; i < 1000 && !atomic_load(&x.over); i++)
        check(tug_table_find(c, "users", &number)); // callbacks run during this wait
    assert_true(atomic_load(&x.over));
    assert_int_equal(10,
                     stats_of(c, 1).rows); // the table was neither cleared nor dropped
    check(tug_dense_pull(x.dense, w));
    assert_true(w[0] == 7 && w[2] == 7);
    assert_int_equal(TUG_EUSAGE, tug_table_find(c, "table-9", &number));
    assert_int_equal(TUG_EUSAGE, tug_table_find(c, "", &number));
    tug_dense_close(x.dense);
    check(tug_client_close(c));
}

static void test_life(void **state)
{
    (void)state;
    static float rows[KEYS * PULL];
    const uint64_t twice[2] = {3, 3};
    const float values[2][PUSH] = {{1, 1, 1, 1, 1, 2, 1, 5}, {3, 1, 1, 1, 1, 1, 1, 6}};
    struct tug_client *c = open_client();
    struct tug_table_widths w;
    check(tug_table_create(c, 4, users));
    check(tug_table_widths(c, 4, &w));
    assert_true(w.pull == PULL && w.push == PUSH && w.assign == 1 + DIM);

    // If a key occurs twice in a push, its gradients, shows and clicks are added up.
    push(c, 4, twice, 2, values[0]);
    pull(c, 4, twice, 1, rows);
    assert_true(rows[0] == 3 && rows[1] == 2);
    assert_true(fabsf(rows[2] + 0.5f * 4 / 3) < 1e-6f); // the gradient divided by 3 shows
    assert_true(rows[3] != 0); // the score 0.1 * 1 + 2 earns embedx at once
    pull(c, 4, &(uint64_t){99}, 1, rows);
    for (size_t i = 0; i < PULL; i++)
        assert_true(rows[i] == 0);
    struct tug_table_stats s = stats_of(c, 4);
    assert_true(s.rows == 1 && s.extra_rows == 1 && s.made == 1);

    push_some(c, 4, KEYS, 1);
    s = stats_of(c, 4);
    assert_int_equal(s.rows, KEYS);
    uint64_t removed;
    check(tug_shrink(c, 4, 0.85f, &removed)); // removes the rows without a click
    assert_int_equal(removed, KEYS / 2);
    for (int i = 0; i < 31; i++)
        check(tug_day(c, 4));
    assert_int_equal(stats_of(c, 4).day, 31);
    check(tug_shrink(c, 4, NAN, &removed));
    assert_int_equal(removed, KEYS / 2);
    s = stats_of(c, 4);
    assert_true(s.rows == 0 && s.evicted_age + s.evicted_score == KEYS);
    push_some(c, 4, 10, 2);
    check(tug_clear(c, 4));
    assert_int_equal(stats_of(c, 4).rows, 0);
    uint32_t number;
    check(tug_table_drop(c, 4));
    assert_int_equal(tug_table_find(c, "users", &number), TUG_EUSAGE);
    check(tug_table_create(c, 4, users));
    check(tug_table_find(c, "users", &number));

    uint64_t step;
    check(tug_step(c, 3, &step));
    check(tug_step(c, 4, &step));
    assert_int_equal(step, 7);
    check(tug_client_close(c));
}

static void test_refusals(void **state)
{
    (void)state;
    struct tug_client *c = open_client();
    uint32_t number;
    assert_int_equal(tug_table_create(c, 1, "acessor = ctr"), TUG_EUSAGE);
    assert_non_null(strstr(tug_last_error(), "accessor"));
    assert_int_equal(tug_table_create(c, 1, "dim = -1"), TUG_EUSAGE);
    assert_int_equal(tug_table_find(c, "users", &number), TUG_EUSAGE);
    assert_non_null(strstr(tug_last_error(), "users"));
    assert_int_equal(tug_shrink(c, 1, NAN, NULL), TUG_EUSAGE);
    check(tug_table_create(c, 1, users));
    check(tug_table_find(c, "users", &number));
    assert_int_equal(number, 1);
    assert_int_equal(tug_table_create(c, 1, "name=users; accessor=ctr; dim=8"),
                     TUG_EUSAGE);
    assert_non_null(strstr(tug_last_error(), "dim"));
    const uint64_t same[2] = {1, 1};
    const float values[2 * (1 + DIM)] = {0};
    uint64_t ts;
    assert_int_equal(tug_assign(c, 1, same, 2, values, NULL, NULL, &ts), TUG_EUSAGE);
    assert_int_equal(tug_load(c, 1, "/nowhere", NULL, NULL), TUG_EDATA);
    assert_non_null(strstr(tug_last_error(), "/nowhere"));
    check(tug_client_close(c));
}

// A push with a value that is not finite is refused before any part of the push is sent.
static void test_refused_as_a_whole(void **state)
{
    (void)state;
    uint64_t keys[8] = {1, 2, 3, 4, 5, 6, 7, 8}, ts = 0;
    float values[8] = {1, 1, 1, 1, 1, 1, 1, NAN}, rows[8];
    struct tug_client *c = open_client();
    check(tug_table_create(c, 1, "name=t; accessor=plain; dim=1; rule=sgd:lr=1"));
    assert_int_equal(tug_push(c, 1, keys, 8, values, NULL, NULL, &ts), TUG_EUSAGE);
    assert_non_null(strstr(tug_last_error(), "key 8"));
    assert_int_equal(tug_assign(c, 1, keys, 8, values, NULL, NULL, &ts), TUG_EUSAGE);
    keys[7] = 1; // key 1 occurs twice; the sum of its values is not finite
    values[0] = values[7] = 3e38f;
    assert_int_equal(tug_push(c, 1, keys, 8, values, NULL, NULL, &ts), TUG_EUSAGE);
    assert_int_equal(stats_of(c, 1).rows, 0);
    values[0] = values[7] = 2;
    push(c, 1, keys, 8, values);
    keys[7] = 8;
    pull(c, 1, keys, 8, rows);
    assert_true(rows[0] == -4 && rows[1] == -1 && rows[6] == -1 && rows[7] == 0);
    check(tug_client_close(c));
}

// Examples of a second pass change weights, but not shows and clicks.
static void test_again(void **state)
{
    (void)state;
    const uint64_t keys[2] = {3, 4};
    const float values[2][PUSH] = {{1, 1, 1, 1, 1, 2, 1, 5}, {1, 1, 1, 1, 1, 1, 0, 6}};
    float first[2 * PULL], second[2 * PULL];
    struct tug_client *c = open_client();
    check(tug_table_create(c, 4, users));
    push(c, 4, keys, 2, values[0]);
    pull(c, 4, keys, 2, first);
    assert_true(first[0] == 2 && first[1] == 1);
    tug_again(c, true);
    push(c, 4, keys, 2, values[0]);
    pull(c, 4, keys, 2, second);
    assert_true(second[0] == 2 && second[1] == 1 && second[PULL] == 1);
    // Each gradient is divided by the 2 shows.
    assert_true(fabsf(second[2] - 2 * first[2]) < 1e-6f);
    tug_again(c, false);
    push(c, 4, keys, 2, values[0]);
    pull(c, 4, keys, 2, second);
    assert_true(second[0] == 4 && second[1] == 2 && second[PULL] == 2);
    check(tug_client_close(c));
}

static const char *under(const char *name)
{
    static char path[128];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

static void save(struct tug_client *c, const char *to, enum tug_save_mode mode,
                 char path[FILE_PATH_MAX])
{
    const uint32_t table = 4;
    struct tug_save_options o = {.directory = under(to),
                                 .mode = mode,
                                 .tables = &table,
                                 .n_tables = 1,
                                 .zstd = mode == TUG_BASE ? 3 : 0};
    check(tug_save(c, &o, path));
}

// A cluster that loads a base and its deltas has the same rows as one that loads a
// checkpoint.
static void test_saves(void **state)
{
    (void)state;
    static float before[KEYS * PULL], after[KEYS * PULL], checkpoint[KEYS * PULL];
    char base[FILE_PATH_MAX], delta[FILE_PATH_MAX], full[FILE_PATH_MAX];
    struct tug_client *c = open_client();
    check(tug_table_create(c, 4, users));
    push_some(c, 4, KEYS, 1);
    save(c, "published", TUG_BASE, base);
    push_some(c, 4, KEYS / 10, 2);
    save(c, "published", TUG_DELTA, delta);
    push_some(c, 4, KEYS / 5, 3);
    save(c, "published", TUG_DELTA, delta);
    save(c, "full", TUG_CHECKPOINT, full);
    pull_all(c, 4, before);
    check(tug_client_close(c));

    uint64_t rows;
    c = open_client();
    check(tug_table_create(c, 4, users));
    push_some(c, 4, 20, 9); // rows that the load removes
    check(tug_load(c, 4, under("published"), NULL, &rows));
    pull_all(c, 4, after);
    assert_memory_equal(after, before, sizeof(before));
    check(tug_load(c, 4, full, "users", &rows));
    assert_int_equal(rows, KEYS);
    pull_all(c, 4, checkpoint);
    assert_memory_equal(checkpoint, before, sizeof(before));
    assert_int_equal(stats_of(c, 4).rows, KEYS);

    // Loads the base, which is older than its deltas, without the deltas, and continues
    // training from it.
    check(tug_load(c, 4, base, "users", &rows));
    pull_all(c, 4, after);
    assert_memory_not_equal(after, before, sizeof(before));
    push_some(c, 4, KEYS / 10, 2);
    push_some(c, 4, KEYS / 5, 3);
    pull_all(c, 4, after);
    assert_memory_equal(after, before, sizeof(before));
    assert_int_equal(tug_load(c, 4, full, "items", &rows), TUG_EUSAGE);
    check(tug_client_close(c));
}

// A delta is refused unless its directory is that of the last base or delta.
static void test_wrong_directory(void **state)
{
    (void)state;
    const uint32_t table = 4;
    char path[FILE_PATH_MAX], here[128];
    snprintf(here, sizeof(here), "%s", under("here"));
    struct tug_save_options o = {
        .directory = here, .mode = TUG_DELTA, .tables = &table, .n_tables = 1};
    struct tug_client *c = open_client();
    check(tug_table_create(c, 4, users));
    push_some(c, 4, 10, 1);
    save(c, "here", TUG_BASE, path);
    push_some(c, 4, 10, 2);
    save(c, "there", TUG_BASE, path);
    assert_int_equal(tug_save(c, &o, NULL), TUG_EUSAGE);
    assert_non_null(strstr(tug_last_error(), "save a base"));
    save(c, "days", TUG_DAY, path);
    check(tug_load(c, 4, path, NULL, NULL));
    assert_int_equal(stats_of(c, 4).day, 1);
    save(c, "there", TUG_BASE, path);
    save(c, "there", TUG_CHECKPOINT, path);
    push_some(c, 4, 10, 3);
    save(c, "there", TUG_DELTA, path);
    // After this load the table comes from "here", so it cannot save a delta to "there".
    check(tug_load(c, 4, here, NULL, NULL));
    o.directory = under("there");
    assert_int_equal(tug_save(c, &o, NULL), TUG_EUSAGE);
    check(tug_client_close(c));
}

static void test_dump(void **state)
{
    (void)state;
    struct tug_client *c = open_client();
    struct err e;
    struct buf text = BUF_INIT(1 << 20);
    check(tug_table_create(c, 4, users));
    push_some(c, 4, 50, 1);
    check(tug_dump(c, 4, under("users.txt")));
    assert_int_equal(file_read(under("users.txt"), &text, &e), 0);
    uint64_t key = 0;
    static float row[PULL];
    for (const char *at = buf_str(&text), *end; *at != 0; at = end + 1, key++) {
        char *next;
        end = strchr(at, '\n');
        assert_int_equal(strtoull(at, &next, 10), key);
        pull(c, 4, &key, 1, row);
        for (size_t i = 0; i < PULL; i++)
            assert_true(strtof(next, &next) == row[i]);
        assert_ptr_equal(next, end);
    }
    assert_int_equal(key, 50);
    buf_free(&text);
    check(tug_client_close(c));
}

// This table's pulls return only weights, but a dump gets whole rows, with states. The dump
// must have only the weights, also of the second of two rows in one partition.
static void test_dump_of_whole_rows(void **state)
{
    (void)state;
    struct tug_client *c = open_client();
    uint64_t keys[2] = {7, 70}, ts;
    float gradients[4] = {1, 0, 0, 0}, rows[4];
    struct buf text = BUF_INIT(1 << 12);
    char expected[256];
    struct err e;
    check(tug_table_create(
        c, 9, "name = whole; dim = 2; rule = adam:lr=0.5; placement = range"));
    check(tug_push(c, 9, keys, 2, gradients, NULL, NULL, &ts));
    check(tug_wait(c, ts, 0));
    check(tug_pull(c, 9, keys, 2, rows, NULL, NULL, &ts));
    check(tug_wait(c, ts, 0));
    assert_true(rows[0] != 0);
    check(tug_dump(c, 9, under("whole.txt")));
    assert_int_equal(file_read(under("whole.txt"), &text, &e), 0);
    snprintf(expected, sizeof(expected), "7 %.9g %.9g\n70 %.9g %.9g\n", (double)rows[0],
             (double)rows[1], (double)rows[2], (double)rows[3]);
    assert_string_equal(buf_str(&text), expected);
    buf_free(&text);
    check(tug_client_close(c));
}

static void test_dense(void **state)
{
    (void)state;
    enum { A = 100, B = 37, ALL = A + B };
    const struct tug_variable variables[] = {{"hidden", A, "xavier:10,10"},
                                             {"bias", B, "constant:0.5"}};
    static float x[ALL], y[ALL], g[ALL], part[10];
    struct tug_client *c = open_client();
    struct tug_dense *d;
    check(tug_table_create(c, 0,
                           "name=dense; accessor=plain; dim=16; placement=dense;"
                           "rule=sgd:lr=0.1"));
    check(tug_dense_open(&d, c, 0, variables, 2));
    assert_int_equal(tug_dense_floats(d), ALL);
    check(tug_dense_pull(d, x));
    assert_true(x[0] != x[1] && fabsf(x[0]) <= sqrtf(0.3f));
    for (size_t i = 0; i < B; i++)
        assert_true(x[A + i] == 0.5f);
    for (size_t i = 0; i < ALL; i++)
        g[i] = (float)i;
    check(tug_dense_push(d, g));
    check(tug_dense_pull(d, y));
    for (size_t i = 0; i < ALL; i++)
        assert_true(y[i] == x[i] - 0.1f * (float)i);
    check(tug_dense_pull_range(d, 0, 13, 10, part));
    assert_memory_equal(part, y + 13, sizeof(part));
    assert_int_equal(tug_dense_pull_range(d, 1, 30, 10, part), TUG_EUSAGE);
    tug_dense_close(d);
    check(tug_dense_open(&d, c, 0, variables, 2)); // does not set initial values again
    check(tug_dense_pull(d, x));
    assert_memory_equal(x, y, sizeof(x));
    check(tug_dense_assign(d, g));
    check(tug_dense_pull(d, x));
    assert_memory_equal(x, g, sizeof(x));
    tug_dense_close(d);
    check(tug_client_close(c));
}

// Compares the AUC with that from counting all pairs. Then drops tables and makes new ones
// with the same numbers and other widths: they must refuse the old tables' users, whose
// arrays have the old widths.
static void test_made_anew(void **state)
{
    (void)state;
    struct tug_client *c = open_client();
    struct tug_dense *d;
    struct tug_communicator *m;
    const struct tug_variable v = {"w", 3, NULL};
    const struct tug_communicator_table queue = {.table = 1};
    const uint64_t key = 5;
    float w[3] = {1, 2, 3};
    check(tug_table_create(c, 1, "dim = 1; rule = sum"));
    check(tug_dense_open(&d, c, 1, &v, 1));
    check(tug_communicator_open(&m, c, &queue, 1));
    check(tug_communicator_send(m, 1, &key, 1, w, 0));
    check(tug_table_drop(c, 1));
    check(tug_table_create(c, 1, "dim = 1000; rule = sum"));
    assert_int_equal(TUG_EUSAGE, tug_dense_pull(d, w));
    assert_non_null(strstr(tug_last_error(), "table 1 was made anew"));
    assert_int_equal(TUG_EUSAGE, tug_dense_push(d, w));
    assert_int_equal(TUG_EUSAGE, tug_dense_assign(d, w));
    assert_int_equal(TUG_EUSAGE, tug_dense_pull_range(d, 0, 0, 1, w));
    check(tug_communicator_start(m));
    assert_int_equal(TUG_EUSAGE, tug_communicator_stop(m, 0));
    assert_int_equal(0, stats_of(c, 1).rows);
    tug_communicator_close(m);
    tug_dense_close(d);
    check(tug_client_close(c));
}

static void test_auc(void **state)
{
    (void)state;
    enum { N = 3000 };
    static float p[N], label[N];
    double pairs = 0, positives = 0, auc;
    for (size_t i = 0; i < N; i++) {
        p[i] = (float)random_below(1, 1, i, 4097) / 4096;
        label[i] = random_f32(1, 2, i) < p[i] ? 1 : 0;
        positives += (double)label[i];
    }
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < N; j++)
            if (label[i] > 0 && label[j] == 0) {
                float x = fminf(p[i], 4095.0f / 4096), y = fminf(p[j], 4095.0f / 4096);
                pairs += x > y ? 1 : x == y ? 0.5 : 0;
            }
    struct tug_client *c = open_client();
    uint64_t n;
    check(tug_table_create(c, 9, "name=auc; accessor=counter; dim=2"));
    check(tug_auc_add(c, 9, p, label, N / 3));
    check(tug_auc_add(c, 9, p + N / 3, label + N / 3, N - N / 3));
    check(tug_auc(c, 9, &auc, &n));
    assert_int_equal(n, N);
    assert_true(auc == pairs / (positives * (N - positives)));
    assert_int_equal(tug_auc_add(c, 9, &(float){1.5f}, label, 1), TUG_EUSAGE);
    // Counts beyond 2^24, where adding 1 to a float changes nothing.
    const uint64_t key = 5000;
    const float many[2] = {16777215, 1};
    float got[4];
    for (int i = 0; i < 9; i++)
        push(c, 9, &key, 1, many);
    pull(c, 9, &key, 1, got);
    assert_true(tug_count(got) == 9 * 16777215.0 && tug_count(got + 2) == 9);
    check(tug_client_close(c));
}

// ----------------------------------------------------------- A program's own update rule

static void own_apply(void *ctx, float rate, float *w, float *s, const float *g, size_t n)
{
    (void)ctx, (void)s;
    for (size_t i = 0; i < n; i++)
        w[i] += rate * (g[i] > 0 ? 1 : -1);
}

static bool own_admit(void *ctx, uint64_t key, float show, float click, float threshold)
{
    (void)ctx, (void)show, (void)click;
    return (float)(key % 10) < threshold;
}

static void own_seen(void *ctx, float *stats, const float *pushed)
{
    (void)ctx;
    stats[0] += 1;
    stats[1] = pushed[0];
}

static bool own_shrink(void *ctx, float *stats, float threshold)
{
    (void)ctx;
    return stats[0] < threshold;
}

static void register_own(void)
{
    const struct tug_rule rule = {
        .name = "sign", .apply = own_apply, .rate = 0.25f, .about = "signs"};
    const struct tug_entry_policy entry = {.name = "tenth", .admit = own_admit};
    const struct tug_accessor accessor = {.name = "latest",
                                          .stats = 2,
                                          .pushed = 1,
                                          .pulled = 2,
                                          .seen = own_seen,
                                          .shrink = own_shrink};
    check(tug_register_rule(&rule));
    check(tug_register_entry(&entry));
    check(tug_register_accessor(&accessor));
    assert_int_equal(tug_register_rule(&rule), TUG_EUSAGE);
    assert_int_equal(tug_register_accessor(&accessor), TUG_EUSAGE);
}

static void test_own_accessor_and_rule(void **state)
{
    (void)state;
    const uint64_t keys[3] = {10, 11, 19};
    const float values[3][3] = {{1, -1, 40}, {1, 1, 41}, {1, 1, 42}};
    float rows[3][4];
    register_own();
    struct tug_client *c = open_client();
    check(tug_table_create(c, 2,
                           "name=own; accessor=latest; dim=2; rule=sign;"
                           "entry=tenth:2"));
    push(c, 2, keys, 3, values[0]);
    push(c, 2, keys, 1, values[0]);
    pull(c, 2, keys, 3, rows[0]);
    const float want[3][4] = {{2, 40, 0.5f, -0.5f}, {1, 41, 0.25f, 0.25f}, {0, 0, 0, 0}};
    assert_memory_equal(rows, want, sizeof(want));
    uint64_t removed;
    check(tug_shrink(c, 2, 1.5f, &removed));
    assert_int_equal(removed, 1);
    check(tug_client_close(c));
}

static size_t in_flight(struct tug_client *c)
{
    pump_enter(c->pump);
    size_t n = client_in_flight(c->client);
    pump_leave(c->pump);
    return n;
}

// A call that takes too long is cancelled, because its answer would be written to freed
// memory.
static void test_given_up(void **state)
{
    (void)state;
    const struct tug_variable v = {.name = "w", .n = 10};
    struct tug_dense *d;
    struct tug_table_stats stats;
    float values[10];
    struct tug_save_options o = {.directory = dir};
    struct tug_client *c = open_client();
    check(tug_table_create(c, 3, "accessor=plain; dim=4"));
    check(tug_dense_open(&d, c, 3, &v, 1));
    for (int i = 0; i < 20; i++) {
        c->o.wait_seconds = 1e-9;
        (void)tug_table_stat(c, 3, &stats); // succeeds if the answer arrives in time
        (void)tug_dense_pull(d, values);
        (void)tug_pull_range(c, 3, 0, 2, values);
        (void)tug_save(c, &o, NULL);
        (void)tug_shrink(c, 3, NAN, NULL);
        assert_int_equal(in_flight(c), 0);
        assert_int_equal(c->n_calls, 0);
        c->o.wait_seconds = 60;
    }
    check(tug_dense_pull(d, values));
    assert_true(values[9] == 0);
    tug_dense_close(d);
    check(tug_client_close(c));
}

// Many requests are open at once. Waits for them in another order than that in which they
// were sent; some are cancelled, and some have callbacks.
static void test_many_open(void **state)
{
    (void)state;
    enum { MANY = 3000 };
    static uint64_t request[MANY], keys[MANY];
    static float pulled[MANY];
    struct tug_client *c = open_client();
    const float one = 1;
    check(tug_table_create(c, 4, "dim=1; rule=sum"));
    for (uint64_t i = 0; i < MANY; i++) {
        keys[i] = i % 7; // the array must stay unchanged until the request is done
        check(i % 3 == 0
                  ? tug_pull(c, 4, &keys[i], 1, &pulled[i], NULL, NULL, &request[i])
                  : tug_push(c, 4, &keys[i], 1, &one, NULL, NULL, &request[i]));
    }
    assert_int_equal(c->n_calls, MANY);
    for (uint64_t i = 0; i < MANY; i++) {
        uint64_t at = i * 1009 % MANY; // visits each request once
        if (at % 3 == 0 && at % 5 == 0)
            check(tug_cancel(c, request[at]));
        else
            check(tug_wait(c, request[at], 60));
        assert_int_equal(tug_wait(c, request[at], 60), TUG_EUSAGE);
        assert_true(tug_is_done(c, request[at]));
    }
    assert_int_equal(c->n_calls, 0);
    assert_int_equal(c->unfinished, 0);
    float sum = 0;
    for (uint64_t key = 0; key < 7; key++) {
        float row;
        check(tug_pull(c, 4, &key, 1, &row, NULL, NULL, &request[0]));
        check(tug_wait(c, request[0], 60));
        sum += row;
    }
    assert_true(sum == MANY / 3 * 2);
    check(tug_client_close(c));
}

static void test_rate(void **state)
{
    (void)state;
    const uint64_t key = 5;
    const float one = 1, pair[2] = {1, 2};
    float row, rows[2];
    struct tug_table_learning how;
    struct tug_table_widths w;
    struct tug_client *c = open_client();
    check(tug_table_create(c, 1, "dim = 1; rule = sgd:lr=0.5"));
    check(tug_table_learning(c, 1, &how));
    assert_true(how.rate == 0.5f && !how.sync);
    check(tug_rate_factor(c, 1, 0.25f));
    push(c, 1, &key, 1, &one);
    pull(c, 1, &key, 1, &row);
    assert_true(row == -0.125f);
    assert_int_equal(tug_rate_factor(c, 1, NAN), TUG_EUSAGE);
    assert_int_equal(tug_rate_factor(c, 1, -1), TUG_EUSAGE);
    assert_int_equal(tug_rate_factor(c, 2, 1), TUG_EUSAGE);
    check(tug_table_create(c, 3, "name = sums; dim = 1; rule = sum; mode = sync"));
    check(tug_table_learning(c, 3, &how));
    assert_true(isnan(how.rate) && how.sync);
    check(tug_table_create(c, 4, "name = merged; dim = 1; accessor = merge"));
    check(tug_table_learning(c, 4, &how));
    assert_true(isnan(how.rate));
    check(tug_table_create(c, 5, "name = counted; dim = 1; accessor = counter"));
    check(tug_table_learning(c, 5, &how));
    assert_true(isnan(how.rate));
    check(tug_table_drop(c, 1)); // frees the number 1 and drops what tug_batch has set
    check(tug_table_create(c, 1, "dim = 2; rule = sgd:lr=0.5; init = 0"));
    check(tug_table_learning(c, 1, &how));
    assert_true(how.rate == 0.5f);
    check(tug_table_widths(c, 1, &w));
    assert_int_equal(w.pull, 2);
    push(c, 1, &key, 1, pair);
    pull(c, 1, &key, 1, rows);
    assert_true(rows[0] == -0.5f && rows[1] == -1);
    check(tug_client_close(c));
}

static void push_part(struct tug_client *c, uint64_t batch, uint32_t part, uint32_t parts,
                      uint64_t key, float value, bool empty)
{
    check(tug_batch(c, 1, batch, part, parts));
    push(c, 1, &key, empty ? 0 : 1, &value);
}

// One client sends all parts of a batch. Adam gets the sum or mean of the parts' gradients
// as one gradient.
static void test_batches(void **state)
{
    (void)state;
    float row, want;
    for (uint32_t parts = 1; parts <= 16; parts++) {
        struct tug_client *c = open_client();
        bool mean = parts % 2 == 0;
        check(tug_table_create(c, 0, "name = one; dim = 1; rule = adagrad:lr=0.1"));
        check(tug_table_create(
            c, 1,
            mean ? "dim = 1; rule = adagrad:lr=0.1; mode = sync; reduce = mean"
                 : "dim = 1; rule = adagrad:lr=0.1; mode = sync"));
        for (uint64_t batch = 0; batch < 3; batch++) {
            uint32_t sum = 0;
            for (uint32_t p = 0; p < parts; p++) {
                push_part(c, batch, p, parts, 7, (float)(p + 1), p == 2);
                sum += p == 2 ? 0 : p + 1;
            }
            float value = mean ? (float)sum / (float)parts : (float)sum;
            push(c, 0, &(uint64_t){7}, 1, &value);
            assert_int_equal(stats_of(c, 1).clock, batch + 1);
            check(tug_batch(c, 1, batch + 1, 0, parts));
            pull(c, 1, &(uint64_t){7}, 1, &row);
            pull(c, 0, &(uint64_t){7}, 1, &want);
            assert_true(row != 0 && fabsf(row - want) < 1e-6f);
        }
        check(tug_client_close(c));
    }
}

static void *push_other_part(void *c)
{
    push_part(c, 0, 1, 2, 7, 1, false);
    return NULL;
}

static void test_batches_refused(void **state)
{
    (void)state;
    float row;
    uint64_t ts;
    struct tug_client *c = open_client();
    check(tug_table_create(c, 0, "dim = 1; rule = sgd"));
    check(tug_table_create(c, 1, "name = two; dim = 1; rule = sgd; mode = sync"));
    assert_int_equal(tug_batch(c, 0, 0, 0, 1), TUG_EUSAGE);
    assert_int_equal(tug_batch(c, 1, 0, 0, 0), TUG_EUSAGE);
    assert_int_equal(tug_batch(c, 1, 0, 2, 2), TUG_EUSAGE);
    assert_int_equal(tug_batch(c, 1, 0, 0, 17), TUG_EUSAGE);
    push_part(c, 0, 0, 2, 7, 1, false);
    check(tug_batch(c, 1, 1, 0, 2)); // the other part is sent later
    check(tug_pull(c, 1, &(uint64_t){7}, 1, &row, NULL, NULL, &ts));
    assert_int_equal(tug_wait(c, ts, 0.2), TUG_EIO);
    pthread_t thread;
    assert_int_equal(0, pthread_create(&thread, NULL, push_other_part, c));
    check(tug_wait(c, ts, HUGE_VAL)); // without a time limit
    pthread_join(thread, NULL);
    check(tug_client_close(c));
}

// If an update would make only a rule's state infinite, the push succeeds without it, and
// the client gets a warning.
static void test_left_out(void **state)
{
    (void)state;
    struct tug_client *c = open_client();
    uint64_t keys[] = {5, 7}, key;
    uint32_t table = 0;
    float values[] = {1, 1}, rows[2];
    check(tug_table_create(c, 3, "name=wild; accessor=plain; dim=1; rule=adagrad"));
    push(c, 3, keys, 2, values);
    assert_int_equal(0, tug_left_out(c, NULL, NULL));
    values[1] = 1e25f;
    pull(c, 3, keys + 1, 1, rows);
    for (uint64_t i = 1; i <= 3; i++) {
        push(c, 3, keys, 2, values);
        assert_int_equal(i, tug_left_out(c, &table, &key));
        assert_true(table == 3 && key == 7);
    }
    pull(c, 3, keys + 1, 1, rows + 1);
    assert_true(rows[0] == rows[1]);
    check(tug_client_close(c));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_left_out),
        cmocka_unit_test(test_life),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_refused_as_a_whole),
        cmocka_unit_test(test_in_a_callback),
        cmocka_unit_test(test_again),
        cmocka_unit_test(test_saves),
        cmocka_unit_test(test_dump),
        cmocka_unit_test(test_dump_of_whole_rows),
        cmocka_unit_test(test_wrong_directory),
        cmocka_unit_test(test_dense),
        cmocka_unit_test(test_made_anew),
        cmocka_unit_test(test_auc),
        cmocka_unit_test(test_own_accessor_and_rule),
        cmocka_unit_test(test_given_up),
        cmocka_unit_test(test_rate),
        cmocka_unit_test(test_many_open),
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_batches_refused),
    };
    struct err e;
    snprintf(dir, sizeof(dir), "/tmp/tug-tables-test-%d", (int)getpid());
    if (file_make_dir(dir, &e) != 0)
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    return system(command) != 0 ? 1 : failed;
}
