// Tests communicators on a cluster inside this process: servers get all queued pushes,
// however they are merged; queues are bounded, and failures are returned.
//
// SPDX-License-Identifier: Apache-2.0
#include "tug/communicator.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "kit/test.h"
#include "os/clock.h"
#include "tug/table.h"

enum { TABLE = 3, OTHER = 4, WIDTH = 3, KEYS = 50 };

static const char of_width_3[] = "dim = 3; rule = sum";

static struct tug_client *client;

static void check(int rc)
{
    if (rc != 0)
        fail_msg("%s", tug_last_error());
}

static void fails(int rc, int code, const char *says)
{
    assert_int_equal(rc, code);
    if (strstr(tug_last_error(), says) == NULL)
        fail_msg("'%s' is not in: %s", says, tug_last_error());
}

static int begin(void **state)
{
    (void)state;
    struct tug_client_options o = {.local_loops = 2, .wait_seconds = 60};
    check(tug_client_open(&client, &o));
    check(tug_table_create(client, TABLE, of_width_3));
    return 0;
}

static int end(void **state)
{
    (void)state;
    check(tug_client_close(client));
    return 0;
}

static struct tug_communicator *open_of(struct tug_communicator_table t)
{
    struct tug_communicator *m;
    check(tug_communicator_open(&m, client, &t, 1));
    return m;
}

static void pull(uint32_t table, const uint64_t *keys, size_t n, float *values)
{
    uint64_t ts;
    check(tug_pull(client, table, keys, n, values, NULL, NULL, &ts));
    check(tug_wait(client, ts, 0));
}

static struct tug_communicator_stats stats_of(struct tug_communicator *m)
{
    struct tug_communicator_stats s;
    check(tug_communicator_stat(m, TABLE, &s));
    return s;
}

// ---------------------------------------------------------------- sums of all pushes

enum { SENDERS = 3, SENDS = 300 };

struct sender {
    struct tug_communicator *m;
    pthread_t thread;
    uint64_t number;
    double sums[2][KEYS][WIDTH]; // sums of what this thread has pushed to each table
};

static void *send_many(void *arg)
{
    struct sender *s = arg;
    for (uint64_t i = 0; i < SENDS; i++) {
        size_t n = random_below(s->number, 1, i, 10), table = random_below(9, 2, i, 2);
        uint64_t keys[10];
        float values[10 * WIDTH];
        for (size_t k = 0; k < n; k++)
            keys[k] = random_below(s->number, 3, i * 10 + k, KEYS);
        for (size_t v = 0; v < n * WIDTH; v++) {
            values[v] = (float)random_below(s->number, 4, i * 100 + v, 16);
            s->sums[table][keys[v / WIDTH]][v % WIDTH] += values[v];
        }
        check(tug_communicator_send(s->m, TABLE + (uint32_t)table, keys, n, values, 0));
        memset(keys, 0xff, sizeof(keys)); // the communicator must have copied the arrays
        memset(values, 0xff, sizeof(values));
    }
    return NULL;
}

static void check_sums(const struct sender *senders)
{
    for (uint32_t t = 0; t < 2; t++)
        for (uint64_t k = 0; k < KEYS; k++) {
            float row[WIDTH];
            pull(TABLE + t, &k, 1, row);
            for (size_t c = 0; c < WIDTH; c++) {
                double sum = 0;
                for (size_t i = 0; i < SENDERS; i++)
                    sum += senders[i].sums[t][k][c];
                assert_true(row[c] == sum);
            }
        }
}

// Several threads fill the queues; no push may be lost or applied twice.
static void sums(void **state)
{
    (void)state;
    static struct sender senders[SENDERS];
    const struct tug_communicator_table tables[] = {
        {.table = TABLE, .queue = 4}, {.table = OTHER, .queue = 3, .merge = 2}};
    struct tug_communicator *m;
    check(tug_table_create(client, OTHER, of_width_3));
    check(tug_communicator_open(&m, client, tables, 2));
    check(tug_communicator_start(m));
    for (uint64_t i = 0; i < SENDERS; i++) {
        senders[i].m = m;
        senders[i].number = i + 1;
        assert_int_equal(pthread_create(&senders[i].thread, NULL, send_many, &senders[i]),
                         0);
    }
    for (size_t i = 0; i < SENDERS; i++)
        pthread_join(senders[i].thread, NULL);
    check(tug_communicator_flush(m, 0));
    check_sums(senders);
    struct tug_communicator_stats s = stats_of(m);
    assert_true(s.taken > SENDS && s.taken < SENDERS * SENDS && s.queued == 0);
    assert_true(s.sent < s.taken && s.failed == 0);
    assert_true(s.waits > 0 && s.waited_seconds > 0);
    check(tug_communicator_stop(m, 0));
    check(tug_communicator_close(m));
}

// ---------------------------------------------------------------- merging

static uint64_t pushes_of(uint32_t table)
{
    struct tug_table_stats s;
    check(tug_table_stat(client, table, &s));
    return s.pushes;
}

// Queues n pushes of key 1 with the values 1 to n.
static void send_numbers(struct tug_communicator *m, uint32_t table, size_t n)
{
    const uint64_t key = 1;
    for (size_t i = 1; i <= n; i++)
        check(tug_communicator_send(m, table, &key, 1, &(float){(float)i}, 0));
}

static float weight_after(uint32_t table, enum tug_grad_reduce reduce)
{
    const uint64_t key = 1;
    float row;
    check(tug_table_create(client, table, "accessor=plain; dim=1; rule=sgd:lr=1"));
    struct tug_communicator *m = open_of((struct tug_communicator_table){
        .table = table, .queue = 8, .merge = 4, .grad_reduce = reduce});
    send_numbers(m, table, 5);
    assert_int_equal(pushes_of(table), 0); // the thread does not run yet
    check(tug_communicator_start(m));
    check(tug_communicator_stop(m, 0));
    // Four pushes were merged into one, and the fifth was sent alone.
    assert_int_equal(pushes_of(table), 2);
    check(tug_communicator_close(m));
    pull(table, &key, 1, &row);
    check(tug_table_drop(client, table));
    return row;
}

static void merged(void **state)
{
    (void)state;
    assert_true(weight_after(20, TUG_GRAD_SUM) == -15);
    assert_true(weight_after(21, TUG_GRAD_MEAN) == -(1 + 2 + 3 + 4) / 4.0f - 5);
}

// When pushes of a key are merged, gradients are averaged, shows and clicks are added up,
// and the slot is that of the last push.
static void counts_are_added(void **state)
{
    (void)state;
    enum { DIM = 2 };
    const uint64_t key = 7;
    const float a[1 + DIM + 3] = {1, 1, 1, 1, 1, 5}, b[1 + DIM + 3] = {3, 1, 1, 1, 0, 6};
    float row[2 + 1 + DIM];
    check(tug_table_create(client, 22,
                           "accessor=ctr; dim=2; rule=sgd:lr=0.5; embedx-threshold=100"));
    struct tug_communicator *m = open_of(
        (struct tug_communicator_table){.table = 22, .grad_reduce = TUG_GRAD_MEAN});
    check(tug_communicator_send(m, 22, &key, 1, a, 0));
    check(tug_communicator_send(m, 22, &key, 1, b, 0));
    check(tug_communicator_start(m));
    check(tug_communicator_stop(m, 0));
    check(tug_communicator_close(m));
    pull(22, &key, 1, row);
    assert_true(row[0] == 2 && row[1] == 1);
    assert_true(fabsf(row[2] + 0.5f * 2 / 2) < 1e-6f); // one step with the mean gradient
    check(tug_table_drop(client, 22));
}

// ------------------------------------------------------------- full queues, and stopping

static void full(void **state)
{
    (void)state;
    const uint64_t key = 1000;
    const float ones[WIDTH] = {1, 1, 1};
    float row[WIDTH];
    struct tug_communicator *m = open_of(
        (struct tug_communicator_table){.table = TABLE, .queue = 2});
    check(tug_communicator_send(m, TABLE, &key, 1, ones, 0));
    check(tug_communicator_send(m, TABLE, &key, 1, ones, 0));
    fails(tug_communicator_send(m, TABLE, &key, 1, ones, 0.05), TUG_EIO,
          "has been full for 0.05 s");
    struct tug_communicator_stats s = stats_of(m);
    assert_true(s.taken == 2 && s.queued == 2 && s.waits == 1 &&
                s.waited_seconds >= 0.04);
    fails(tug_communicator_stop(m, 0), TUG_EUSAGE, "was not started");
    check(tug_communicator_start(m));
    fails(tug_communicator_start(m), TUG_EUSAGE, "runs already");
    check(tug_communicator_stop(m, 0)); // sends the queued pushes
    pull(TABLE, &key, 1, row);
    assert_true(row[0] == 2);
    check(tug_communicator_stop(m, 0)); // stopping twice is fine
    check(tug_communicator_start(m));
    check(tug_communicator_send(m, TABLE, &key, 1, ones, 0));
    check(tug_communicator_flush(m, 0));
    pull(TABLE, &key, 1, row);
    assert_true(row[0] == 3);
    check(tug_communicator_close(m)); // ends the thread, which still runs
}

// ---------------------------------------------------------------- failures

static void failures_are_returned_once(void **state)
{
    (void)state;
    const uint64_t key = 1;
    check(tug_table_create(client, 23, "accessor=plain; dim=1"));
    struct tug_communicator *m = open_of((struct tug_communicator_table){.table = 23});
    check(tug_table_drop(client, 23)); // so the server refuses the push
    send_numbers(m, 23, 1);
    check(tug_communicator_start(m));
    while (true) {
        struct tug_communicator_stats s;
        check(tug_communicator_stat(m, 23, &s));
        if (s.sent > 0)
            break;
    }
    fails(tug_communicator_send(m, 23, &key, 1, &(float){1}, 0), TUG_EUSAGE, "table 23");
    fails(tug_communicator_flush(m, 0), TUG_EUSAGE, "table 23");
    check(tug_communicator_flush(m, 0));
    struct tug_communicator_stats s;
    check(tug_communicator_stat(m, 23, &s));
    assert_true(s.taken == 1 && s.sent == 1 && s.failed == 1 && s.queued == 0);
    check(tug_communicator_stop(m, 0));
    check(tug_communicator_close(m));
}

// In a callback of the client, calls that would wait for the communicator's thread must
// fail, because that thread waits for the callback.
static void on_done(void *ctx, uint64_t timestamp, int rc)
{
    (void)timestamp, (void)rc;
    const uint64_t key = 5;
    const float ones[WIDTH] = {1, 1, 1};
    check(tug_communicator_send(ctx, TABLE, &key, 1, ones, 0)); // does not wait
    fails(tug_communicator_flush(ctx, 0), TUG_EUSAGE, "callback");
    fails(tug_communicator_stop(ctx, 0), TUG_EUSAGE, "callback");
    fails(tug_communicator_close(ctx), TUG_EUSAGE, "callback");
}

static void in_a_callback(void **state)
{
    (void)state;
    const uint64_t key = 5;
    float row[WIDTH], pulled[WIDTH];
    struct tug_communicator *m = open_of((struct tug_communicator_table){.table = TABLE});
    check(tug_communicator_start(m));
    check(tug_pull(client, TABLE, &key, 1, pulled, on_done, m, NULL));
    while (stats_of(m).taken == 0)
        pull(TABLE, &key, 1, row); // the callback runs during the wait for this pull
    assert_true(tug_communicator_is_running(m));
    check(tug_communicator_stop(m, 0));
    pull(TABLE, &key, 1, row);
    assert_true(row[0] == pulled[0] + 1);
    check(tug_communicator_close(m));
}

// ----------------------------------------------------------- stopping by several threads

static atomic_bool joins_wait;
static atomic_uint joins; // calls of pthread_join since joins_wait was set

// Replaces the C library's function, so that joining a thread takes as long as a test
// wants.
int pthread_join(pthread_t thread, void **ret)
{
    int (*real)(pthread_t, void **);
    void *found = dlsym(RTLD_NEXT, "pthread_join");
    memcpy(&real, &found, sizeof(real));
    atomic_fetch_add(&joins, 1);
    while (atomic_load(&joins_wait)) {
    }
    return real(thread, ret);
}

struct stopper {
    struct tug_communicator *m;
    pthread_t thread;
    atomic_bool over;
};

static void *stop(void *arg)
{
    struct stopper *s = arg;
    check(tug_communicator_stop(s->m, 0));
    atomic_store(&s->over, true);
    return NULL;
}

static bool over_in(struct stopper *s, double seconds)
{
    double until = clock_seconds() + seconds;
    while (!atomic_load(&s->over) && clock_seconds() < until) {
    }
    return atomic_load(&s->over);
}

static void begin_stop(struct stopper *s)
{
    assert_int_equal(pthread_create(&s->thread, NULL, stop, s), 0);
}

// While one thread stops a communicator, tug_communicator_start is refused, and
// tug_communicator_stop in another thread returns only after the thread has ended.
static void stopped_by_two(void **state)
{
    (void)state;
    struct tug_communicator *m = open_of((struct tug_communicator_table){.table = TABLE});
    struct stopper s[2] = {{.m = m}, {.m = m}};
    check(tug_communicator_start(m));
    atomic_store(&joins, 0);
    atomic_store(&joins_wait, true);
    begin_stop(&s[0]);
    while (atomic_load(&joins) == 0) {
    }
    int started = tug_communicator_start(m);
    begin_stop(&s[1]);
    bool early = over_in(&s[1], 0.1);
    unsigned joined = atomic_load(&joins);
    atomic_store(&joins_wait, false);
    assert_int_equal(started, TUG_EUSAGE);
    assert_false(early);
    assert_int_equal(joined, 1);
    for (size_t i = 0; i < 2; i++) {
        assert_true(over_in(&s[i], 20));
        pthread_join(s[i].thread, NULL);
    }
    check(tug_communicator_start(m));
    check(tug_communicator_close(m));
}

static void refused(const struct tug_communicator_table *tables, size_t n,
                    const char *says)
{
    struct tug_communicator *m = NULL;
    fails(tug_communicator_open(&m, client, tables, n), TUG_EUSAGE, says);
    assert_null(m);
}

static void refusals(void **state)
{
    (void)state;
    const uint64_t key = 1;
    const float wrong[WIDTH] = {1, NAN, 1};
    refused(NULL, 0, "at least one table");
    refused(&(struct tug_communicator_table){.table = 77}, 1, "table 77");
    const struct tug_communicator_table twice[] = {{.table = TABLE}, {.table = TABLE}};
    refused(twice, 2, "listed twice");
    refused(&(struct tug_communicator_table){.table = TABLE,
                                             .grad_reduce = (enum tug_grad_reduce)2},
            1, "neither sum nor mean");
    check(tug_table_create(client, 24, "accessor=plain; dim=1; rule=assign"));
    refused(&(struct tug_communicator_table){.table = 24}, 1, "set 'merge' to 1");
    struct tug_communicator *m = open_of(
        (struct tug_communicator_table){.table = 24, .merge = 1});
    send_numbers(m, 24, 5);
    check(tug_communicator_start(m));
    check(tug_communicator_stop(m, 0));
    float row;
    pull(24, &key, 1, &row);
    assert_true(row == 5); // the value of the last push, because pushes keep their order
    fails(tug_communicator_send(m, TABLE, &key, 1, wrong, 0), TUG_EUSAGE, "no table 3");
    check(tug_communicator_close(m));
    check(tug_communicator_close(NULL));
    m = open_of((struct tug_communicator_table){.table = TABLE});
    fails(tug_communicator_send(m, TABLE, &key, 1, wrong, 0), TUG_EUSAGE, "not finite");
    assert_int_equal(stats_of(m).taken, 0);
    check(tug_communicator_close(m));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums),
        cmocka_unit_test(merged),
        cmocka_unit_test(full),
        cmocka_unit_test(counts_are_added),
        cmocka_unit_test(failures_are_returned_once),
        cmocka_unit_test(stopped_by_two),
        cmocka_unit_test(refusals),
        cmocka_unit_test(in_a_callback),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
