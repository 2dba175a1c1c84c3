// Programs on tug/kvapp.h, as real processes: a scheduler, two servers and two workers.
//
// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>

#include "kit/nodes.h"
#include "os/clock.h"

enum { SERVERS = NODES_SERVERS, WORKERS = NODES_WORKERS, PROCESSES = NODES_PROCESSES };
enum { STORE = 0, LATER = 1, TALK = 2, STRICT = 3 }; // ids of the apps
enum { DIE = 13 };

#define HALF ((uint64_t)1 << 63) // the first key of the second server's range

// The server's handler stores tickets, and another thread answers them.

struct later {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct tug_app *app;
    uint64_t tickets[64];
    size_t n;
    bool stop;
    pthread_t thread;
};

static void *answer_later(void *arg)
{
    struct later *l = arg;
    const float value[] = {42};
    struct tug_kv_data d = {.n_keys = 1, .values = value, .n_values = 1};
    pthread_mutex_lock(&l->lock);
    while (!l->stop || l->n > 0) {
        if (l->n == 0) {
            pthread_cond_wait(&l->more, &l->lock);
            continue;
        }
        struct tug_app *app = l->app;
        uint64_t ticket = l->tickets[--l->n]; // answers the newest request first
        pthread_mutex_unlock(&l->lock);
        expect(tug_kv_answer(app, ticket, &d, NULL, NULL) == 0);
        expect(tug_kv_answer(app, ticket, &d, NULL, NULL) == TUG_EUSAGE);
        pthread_mutex_lock(&l->lock);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

static void put_off(void *ctx, struct tug_app *a, const struct tug_kv_meta *m,
                    const struct tug_kv_data *d)
{
    struct later *l = ctx;
    expect(m->pull && d->n_keys == 1);
    pthread_mutex_lock(&l->lock);
    l->app = a;
    l->tickets[l->n++] = m->ticket;
    pthread_cond_signal(&l->more);
    pthread_mutex_unlock(&l->lock);
}

// Refuses every request, except that the command DIE kills the server's process.
static void be_strict(void *ctx, struct tug_app *a, const struct tug_kv_meta *m,
                      const struct tug_kv_data *d)
{
    (void)ctx, (void)d;
    if (m->cmd == DIE)
        raise(SIGKILL);
    expect(tug_app_refuse(a, m->ticket, TUG_EDATA, "not in this house") == 0);
}

static void echo(void *ctx, struct tug_app *a, const struct tug_simple *q)
{
    (void)ctx;
    expect(tug_app_answer(a, q->ticket, q->body, q->body_bytes) == 0);
}

static int serve(const char *scheduler)
{
    struct tug_node_options o;
    struct tug_node *n;
    struct tug_kv_default *store;
    struct tug_app *apps[4];
    struct later later = {.lock = PTHREAD_MUTEX_INITIALIZER,
                          .more = PTHREAD_COND_INITIALIZER};
    nodes_options(&o, TUG_GROUP_SERVERS, scheduler);
    expect(tug_node_start(&n, &o) == 0);
    expect(tug_kv_default_open(&store) == 0);
    pthread_create(&later.thread, NULL, answer_later, &later);
    struct tug_app_handlers h[] = {
        {.kv = tug_kv_default_handle, .ctx = store},
        {.kv = put_off, .ctx = &later},
        {.request = echo},
        {.kv = be_strict},
    };
    for (uint32_t i = 0; i < 4; i++)
        expect(tug_app_open(&apps[i], n, i, i, &h[i]) == 0);
    int rc = tug_node_finalize(n, true);
    pthread_mutex_lock(&later.lock);
    later.stop = true;
    pthread_cond_signal(&later.more);
    pthread_mutex_unlock(&later.lock);
    pthread_join(later.thread, NULL);
    tug_kv_default_close(store);
    return rc;
}

static int schedule(const char *scheduler)
{
    struct tug_node_options o;
    struct tug_node *n;
    nodes_options(&o, TUG_GROUP_SCHEDULER, scheduler);
    expect(tug_node_start(&n, &o) == 0);
    expect(tug_node_id(n) == 1);
    return tug_node_finalize(n, true);
}

// ---------------------------------------------------------------- the workers' part

static int push(struct tug_app *a, const uint64_t *keys, size_t n, const float *values,
                size_t n_values, const int32_t *lengths)
{
    struct tug_kv_request q = {
        .push = true,
        .data = {keys, n, values, n_values, lengths},
    };
    uint32_t ts;
    int rc = tug_kv_send(a, &q, &ts);
    return rc != 0 ? rc : tug_app_wait(a, ts);
}

static int pull(struct tug_app *a, const uint64_t *keys, size_t n, float *values,
                size_t n_values, int32_t *lengths)
{
    struct tug_kv_request q = {
        .pull = true,
        .data = {.keys = keys, .n_keys = n},
        .pulled = values,
        .n_pulled = n_values,
        .pulled_lengths = lengths,
    };
    uint32_t ts;
    int rc = tug_kv_send(a, &q, &ts);
    return rc != 0 ? rc : tug_app_wait(a, ts);
}

static void barrier(struct tug_node *n)
{
    expect(tug_node_barrier(n, TUG_GROUP_WORKERS) == 0);
}

static void look_around(struct tug_node *n)
{
    uint32_t ids[8];
    uint64_t first, last;
    expect(tug_node_servers(n) == SERVERS && tug_node_workers(n) == WORKERS);
    expect(tug_node_id(n) == 9 + 2 * tug_node_rank(n));
    expect(tug_node_ids(n, TUG_GROUP_SERVERS, ids, 8) == SERVERS);
    expect(ids[0] == 8 && ids[1] == 10);
    expect(tug_node_ids(n, TUG_GROUP_ALL, ids, 8) == PROCESSES);
    expect(tug_node_range(n, 0, &first, &last) == 0 && first == 0 && last == HALF - 1);
    expect(tug_node_range(n, 1, &first, &last) == 0 && first == HALF &&
           last == UINT64_MAX);
    expect(tug_node_range(n, 2, &first, &last) == TUG_EUSAGE);
    expect(tug_node_dead(n, ids, 8) == 0);
}

static void check_sums(struct tug_node *n, struct tug_app *a)
{
    const uint64_t keys[] = {0, 7, HALF - 1, HALF, UINT64_MAX};
    const float ones[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    float got[10];
    expect(push(a, keys, 5, ones, 10, NULL) == 0);
    barrier(n);
    expect(pull(a, keys, 5, got, 10, NULL) == 0);
    for (int i = 0; i < 10; i++)
        expect(got[i] == 2 * ones[i]);
    const uint64_t unknown[] = {5};
    expect(pull(a, unknown, 1, got, 2, NULL) == 0 && got[0] == 0 && got[1] == 0);
    barrier(n);
}

// Pushes and pulls keys that have different numbers of values, with their lengths.
static void check_lengths(struct tug_node *n, struct tug_app *a)
{
    const uint64_t keys[] = {100, 101, HALF + 100};
    const int32_t lengths[] = {1, 3, 4};
    const float values[] = {1, 2, 3, 4, 5, 6, 7, 8};
    float got[8];
    int32_t got_lengths[3];
    expect(push(a, keys, 3, values, 8, lengths) == 0);
    barrier(n);
    expect(pull(a, keys, 3, got, 8, got_lengths) == 0);
    for (int i = 0; i < 8; i++)
        expect(got[i] == 2 * values[i]);
    expect(memcmp(lengths, got_lengths, sizeof(lengths)) == 0);
    expect(pull(a, keys, 3, got, 7, got_lengths) == TUG_EUSAGE);
    // The lengths differ from those of the first push.
    expect(push(a, keys, 3, values, 3, NULL) == TUG_EUSAGE);
    expect(strstr(tug_last_error(), "server ") != NULL);
    barrier(n);
}

static float *give_room(void *ctx, size_t n)
{
    float **room = ctx;
    expect(n == 2);
    return *room;
}

static void check_push_pull(struct tug_node *n, struct tug_app *a)
{
    const uint64_t keys[] = {tug_node_rank(n) * HALF + 200};
    const float values[] = {1.5f, 2.5f};
    float got[2] = {0}, *room = got;
    struct tug_kv_request q = {
        .push = true,
        .pull = true,
        .data = {keys, 1, values, 2, NULL},
        .room = give_room,
        .ctx = &room,
    };
    uint32_t ts;
    expect(tug_kv_send(a, &q, &ts) == 0 && tug_app_wait(a, ts) == 0);
    expect(got[0] == 1.5f && got[1] == 2.5f);
}

struct seen {
    struct tug_app *app;
    atomic_int calls, wait_rc;
};

static void look_back(void *ctx, uint32_t ts, int rc)
{
    struct seen *s = ctx;
    expect(rc == 0);
    atomic_store(&s->wait_rc, tug_app_wait(s->app, ts));
    atomic_fetch_add(&s->calls, 1);
}

static void check_callbacks(struct tug_app *a)
{
    const uint64_t keys[] = {7, HALF};
    const float values[] = {0, 0, 0, 0};
    struct seen s = {.app = a};
    struct tug_kv_request q = {
        .push = true,
        .data = {keys, 2, values, 4, NULL},
        .done = look_back,
        .ctx = &s,
    };
    uint32_t ts;
    for (int i = 1; i <= 20; i++) {
        expect(tug_kv_send(a, &q, &ts) == 0 && tug_app_wait(a, ts) == 0);
        expect(atomic_load(&s.calls) == i && atomic_load(&s.wait_rc) == TUG_EUSAGE);
    }
    expect(tug_app_wait(a, ts + 1) == TUG_EUSAGE); // no request has this number
}

static void check_refusals(struct tug_app *a, struct tug_app *strict)
{
    const uint64_t keys[] = {5, 3, HALF}, twice[] = {5, 5};
    const float values[] = {1, 2, 3}, nan[] = {1, __builtin_nanf("")};
    const int32_t lengths[] = {1, 5};
    uint64_t two[] = {300, 301};
    expect(push(a, keys, 3, values, 3, NULL) == TUG_EUSAGE);
    expect(strstr(tug_last_error(), "ascend") != NULL);
    expect(push(a, twice, 2, values, 2, NULL) == TUG_EUSAGE);
    expect(push(a, two, 2, values, 3, NULL) == TUG_EUSAGE);
    expect(push(a, two, 2, values, 3, lengths) == TUG_EUSAGE);
    expect(push(a, two, 1, nan, 2, NULL) == TUG_EUSAGE);
    // If one part of a push is not finite, no server applies its part.
    const uint64_t both[] = {302, HALF + 302};
    const float part[] = {1, 1, 1, __builtin_inff()};
    float got[4] = {7, 7, 7, 7};
    expect(push(a, both, 2, part, 4, NULL) == TUG_EUSAGE);
    expect(strstr(tug_last_error(), "value 3 of a push is not finite") != NULL);
    expect(pull(a, both, 2, got, 4, NULL) == 0 && got[0] == 0 && got[2] == 0);
    expect(push(strict, two, 1, values, 1, NULL) == TUG_EDATA);
    expect(strstr(tug_last_error(), "not in this house") != NULL);
    expect(push(a, NULL, 0, NULL, 0, NULL) == 0); // an empty push succeeds
}

static void check_later(struct tug_app *a)
{
    const uint64_t keys[] = {1, HALF + 1};
    float got[16];
    uint32_t ts[16];
    for (size_t i = 0; i < 16; i++) {
        struct tug_kv_request q = {
            .pull = true,
            .data = {.keys = &keys[i % 2], .n_keys = 1},
            .pulled = &got[i],
            .n_pulled = 1,
        };
        expect(tug_kv_send(a, &q, &ts[i]) == 0);
    }
    for (size_t i = 0; i < 16; i++)
        expect(tug_app_wait(a, ts[i]) == 0 && got[i] == 42);
}

struct heard {
    atomic_int answers, right;
};

static void hear(void *ctx, struct tug_app *a, const struct tug_simple *r)
{
    struct heard *h = ctx;
    (void)a;
    atomic_fetch_add(&h->right, r->body_bytes == 5 && memcmp(r->body, "hello", 5) == 0 &&
                                    r->head == 77);
    atomic_fetch_add(&h->answers, 1);
}

// Sends simple requests to servers, to the other worker, and to this worker itself.
static void check_talk(struct tug_node *n, struct tug_app *a, struct heard *h)
{
    uint32_t ts, other = 9 + 2 * (1 - tug_node_rank(n));
    expect(tug_app_request(a, 77, "hello", 5, TUG_GROUP_SERVERS, &ts) == 0);
    expect(tug_app_wait(a, ts) == 0 && atomic_load(&h->answers) == SERVERS);
    expect(tug_app_request(a, 77, "hello", 5, other, &ts) == 0);
    expect(tug_app_wait(a, ts) == 0 && atomic_load(&h->answers) == SERVERS + 1);
    expect(tug_app_request(a, 77, "hello", 5, TUG_GROUP_WORKERS, &ts) == 0);
    expect(tug_app_wait(a, ts) == 0);
    expect(atomic_load(&h->right) == SERVERS + 1 + WORKERS);
    expect(tug_app_request(a, 77, "hello", 5, 1000, &ts) == TUG_EUSAGE);
    barrier(n); // the other worker may still send requests to this one
}

static int work(const char *scheduler)
{
    struct tug_node_options o;
    struct tug_node *n;
    struct tug_app *apps[4];
    struct heard heard = {0};
    struct tug_app_handlers talk = {.request = echo, .response = hear, .ctx = &heard};
    nodes_options(&o, TUG_GROUP_WORKERS, scheduler);
    expect(tug_node_start(&n, &o) == 0);
    for (uint32_t i = 0; i < 4; i++)
        expect(tug_app_open(&apps[i], n, i, 0, i == TALK ? &talk : NULL) == 0);
    expect(tug_app_open(&apps[0], n, 0, 0, NULL) == TUG_EUSAGE);
    look_around(n);
    check_sums(n, apps[STORE]);
    check_callbacks(apps[STORE]);
    check_push_pull(n, apps[STORE]);
    check_refusals(apps[STORE], apps[STRICT]);
    check_lengths(n, apps[STORE]);
    check_later(apps[LATER]);
    check_talk(n, apps[TALK], &heard);
    return tug_node_finalize(n, true);
}

static void whole_cluster(void **state)
{
    int status[PROCESSES];
    (void)state;
    nodes_run(schedule, serve, work, status);
    for (int i = 0; i < PROCESSES; i++)
        assert_int_equal(0, status[i]);
}

// The second server dies in the middle of a request.
static int work_until_death(const char *scheduler)
{
    const uint64_t key = HALF + 5;
    const float value = 1;
    struct tug_node_options o;
    struct tug_node *n;
    struct tug_app *strict, *later;
    struct tug_kv_request q = {.push = true, .data = {&key, 1, &value, 1, NULL}};
    uint32_t ts;
    nodes_options(&o, TUG_GROUP_WORKERS, scheduler);
    expect(tug_node_start(&n, &o) == 0);
    expect(tug_app_open(&strict, n, STRICT, 0, NULL) == 0);
    expect(tug_app_open(&later, n, LATER, 0, NULL) == 0);
    barrier(n);
    double began = clock_seconds();
    q.cmd = DIE;
    expect(tug_kv_send(strict, &q, &ts) == 0);
    expect(tug_app_wait(strict, ts) == TUG_EIO);
    expect(strstr(tug_last_error(), "server ") != NULL);
    // Barriers do not wait for the dead server; then the scheduler ends the run.
    int rc = 0;
    while (rc == 0 && clock_seconds() - began < 30)
        rc = tug_node_barrier(n, TUG_GROUP_ALL);
    expect(rc == TUG_EIO);
    expect(strstr(tug_last_error(), "server ") != NULL);
    expect(tug_kv_send(strict, &q, &ts) == TUG_EIO);
    expect(clock_seconds() - began < 30);
    expect(tug_node_finalize(n, false) == TUG_EIO);
    return 0;
}

static void dead_server(void **state)
{
    int status[PROCESSES], killed = 0;
    (void)state;
    nodes_run(schedule, serve, work_until_death, status);
    assert_int_equal(-TUG_EIO, WEXITSTATUS(status[0]));
    for (int i = 1; i <= SERVERS; i++) {
        killed += WIFSIGNALED(status[i]);
        assert_true(WIFSIGNALED(status[i]) || WEXITSTATUS(status[i]) == -TUG_EIO);
    }
    assert_int_equal(1, killed);
    for (int i = 1 + SERVERS; i < PROCESSES; i++)
        assert_int_equal(0, status[i]);
}

// The servers of a program also hold tables for clients.

static void count_up(void *ctx, uint64_t ts, int rc)
{
    (void)ts;
    expect(rc == 0);
    atomic_fetch_add((atomic_int *)ctx, 1);
}

static void check_tables(struct tug_client *c)
{
    const uint64_t keys[] = {9, HALF, 9, 3}, distinct[] = {3, 9, HALF, 77};
    const float values[] = {1, 2, 3, 4, 5, 6, 7, 8};
    const float sums[] = {14, 16, 12, 16, 6, 8, 0, 0};
    float got[8];
    uint64_t ts;
    expect(tug_push(c, 5, keys, 4, values, NULL, NULL, &ts) == 0);
    expect(tug_wait(c, ts, 0) == 0 && tug_wait(c, ts, 0) == TUG_EUSAGE);
    expect(tug_barrier(c) == 0);
    expect(tug_pull(c, 5, distinct, 4, got, NULL, NULL, &ts) == 0);
    expect(tug_wait(c, ts, 0) == 0 && memcmp(got, sums, sizeof(sums)) == 0);
    // One of the keys occurs twice.
    expect(tug_pull(c, 5, keys, 4, got, NULL, NULL, &ts) == 0);
    expect(tug_wait(c, ts, 0) == 0 && got[0] == 12 && got[4] == 12 && got[6] == 14);
    expect(tug_barrier(c) == 0);
    const uint64_t own = 1000 + tug_client_rank(c);
    expect(tug_push_pull(c, 5, &own, 1, values, got, NULL, NULL, &ts) == 0);
    expect(tug_wait(c, ts, 0) == 0 && got[0] == 1 && got[1] == 2);
    expect(tug_push(c, 6, keys, 1, values, NULL, NULL, &ts) == TUG_EUSAGE);
    expect(
        tug_table_create(c, 5, "name = sums; dim = 3; rule = sum; placement = range") ==
        TUG_EUSAGE);
    expect(tug_table_create(c, 5, "name = sums; dim = 2; rule = sam") == TUG_EUSAGE);
    expect(strstr(tug_last_error(), "sam") != NULL);
}

static int work_tables(const char *scheduler)
{
    struct tug_client_options o = {.scheduler = scheduler, .wait_seconds = 60};
    const char *sums = "name = sums; dim = 2; rule = sum; placement = range";
    struct tug_client *c;
    atomic_int calls = 0;
    uint64_t keys[200];
    const float zero[2] = {0};
    expect(tug_client_open(&c, &o) == 0);
    expect(tug_client_workers(c) == WORKERS && tug_client_rank(c) < WORKERS);
    expect(tug_table_create(c, 5, sums) == 0 && tug_table_create(c, 5, sums) == 0);
    check_tables(c);
    for (uint64_t i = 0; i < 200; i++) {
        keys[i] = i * i; // the array belongs to the request until the request is done
        expect(tug_push(c, 5, &keys[i], 1, zero, count_up, &calls, NULL) == 0);
    }
    expect(tug_client_close(c) == 0);
    expect(atomic_load(&calls) == 200);
    return 0;
}

// The scheduler and the servers of a program whose workers are clients only wait.
static int serve_tables(const char *scheduler)
{
    struct tug_node_options o;
    struct tug_node *n;
    nodes_options(&o, TUG_GROUP_SERVERS, scheduler);
    expect(tug_node_start(&n, &o) == 0);
    return tug_node_finalize(n, false);
}

static void clients(void **state)
{
    int status[PROCESSES];
    (void)state;
    nodes_run(nodes_schedule, serve_tables, work_tables, status);
    for (int i = 0; i < PROCESSES; i++)
        assert_int_equal(0, status[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_cluster),
        cmocka_unit_test(dead_server),
        cmocka_unit_test(clients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
