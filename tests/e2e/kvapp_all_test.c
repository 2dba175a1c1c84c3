// Calls every function of tug/kvapp.h in one cluster, once with processes and once with
// threads of one process.
//
// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "kit/nodes.h"

enum { STORE = 0, KEEPER = 1, TALK = 2, HAND = 3 }; // ids of the apps
enum { GROUPS = TUG_GROUP_SERVERS + TUG_GROUP_WORKERS, NO = 13 };

#define LAST UINT64_MAX // a key that the last server has

static const uint64_t keys[] = {3, LAST};

static void add_one(void *ctx)
{
    atomic_fetch_add((atomic_int *)ctx, 1);
}

// An exit function. Exit functions run in the order of their registration, after the node
// has left the cluster and before it is freed.
static void count_up(void *ctx)
{
    int *n = ctx;
    *n = *n * 10 + 1;
}

static void count_double(void *ctx)
{
    int *n = ctx;
    *n *= 2;
}

static struct tug_node *join(int role, const char *scheduler, int *exits)
{
    struct tug_node_options o;
    struct tug_node *n;
    nodes_options(&o, role, scheduler);
    o.async = true;
    expect(tug_node_start(&n, &o) == 0 && tug_node_wait(n) == 0);
    expect(tug_node_role(n) == role);
    *exits = 0;
    expect(tug_node_at_exit(n, count_up, exits) == 0);
    expect(tug_node_at_exit(n, count_double, exits) == 0);
    return n;
}

static int leave(struct tug_node *n, const int *exits)
{
    int rc = tug_node_finalize(n, true);
    expect(*exits == 2); // (0 * 10 + 1) * 2
    return rc;
}

// ---------------------------------------------------------------- roles and ranks

static void look_around(struct tug_node *n)
{
    uint32_t ids[NODES_PROCESSES + 1], dead;
    uint64_t first, last;
    struct tug_node_info info;
    expect(tug_node_servers(n) == NODES_SERVERS && tug_node_workers(n) == NODES_WORKERS);
    expect(tug_node_ids(n, TUG_GROUP_ALL, ids, NODES_PROCESSES + 1) == NODES_PROCESSES);
    expect(tug_node_ids(n, TUG_GROUP_SERVERS, ids, 1) == NODES_SERVERS && ids[0] == 8);
    expect(tug_node_dead(n, &dead, 1) == 0);
    expect(tug_node_range(n, 0, &first, &last) == 0 && first == 0);
    expect(tug_node_range(n, NODES_SERVERS - 1, &first, &last) == 0 && last == LAST);
    expect(tug_node_range(n, NODES_SERVERS, &first, &last) == TUG_EUSAGE);
    expect(tug_node_find(n, tug_node_id(n), &info) == 0);
    expect(info.role == tug_node_role(n) && info.rank == tug_node_rank(n) && info.alive);
    expect(tug_node_find(n, 4711, &info) == TUG_EUSAGE);
    expect(tug_node_reach(n, 8) == 0 && tug_node_reach(n, 4711) == TUG_EUSAGE);
    expect(tug_node_barrier(n, TUG_GROUP_ALL) == 0);
}

// ---------------------------------------------------------------- servers

// This server keeps pushed values, answers pulls with them, and refuses one command.
struct keeper {
    void *kept[2];
    const float *values;
    size_t n;
};

static void keep(void *ctx, struct tug_app *a, const struct tug_kv_meta *m,
                 const struct tug_kv_data *d)
{
    struct keeper *k = ctx;
    struct tug_kv_data answer = {
        .n_keys = d->n_keys, .values = k->values, .n_values = k->n};
    if (m->cmd == NO) {
        expect(tug_app_refuse(a, m->ticket, TUG_EDATA, "not this one") == 0);
        return;
    }
    if (m->push) {
        k->kept[0] = tug_app_keep(a, m->ticket);
        k->kept[1] = tug_app_keep(a, m->ticket);
        expect(k->kept[0] != NULL && k->kept[1] != NULL);
        k->values = d->values;
        k->n = d->n_values;
    }
    expect(tug_kv_answer(a, m->ticket, m->pull ? &answer : NULL, NULL, NULL) == 0);
}

static void echo(void *ctx, struct tug_app *a, const struct tug_simple *q)
{
    (void)ctx;
    expect(tug_node_wait(tug_app_node(a)) == TUG_EUSAGE); // a handler may not wait
    expect(tug_app_answer(a, q->ticket, q->body, q->body_bytes) == 0);
}

static void answer_by_hand(void *ctx, struct tug_app *a, const struct tug_message *m)
{
    struct tug_message answer = *m;
    (void)ctx;
    answer.request = false;
    answer.receiver = m->sender;
    expect(tug_message_send(tug_app_node(a), &answer) == 0);
}

static int serve(const char *scheduler)
{
    int exits;
    struct tug_node *n = join(TUG_GROUP_SERVERS, scheduler, &exits);
    struct tug_kv_default *store;
    struct tug_app *a;
    struct keeper keeper = {0};
    expect(tug_kv_default_open(&store) == 0);
    const struct tug_app_handlers h[] = {
        [STORE] = {.kv = tug_kv_default_handle, .ctx = store},
        [KEEPER] = {.kv = keep, .ctx = &keeper},
        [TALK] = {.request = echo},
        [HAND] = {.message = answer_by_hand},
    };
    for (uint32_t i = 0; i <= HAND; i++)
        expect(tug_app_open(&a, n, i, i, &h[i]) == 0);
    expect(tug_app_open(&a, n, TALK, TALK, NULL) == TUG_EUSAGE);
    look_around(n);
    expect(tug_node_barrier(n, GROUPS) == 0); // all workers have pushed
    expect(tug_kv_default_keys(store) == 1);
    int rc = leave(n, &exits);
    expect(keeper.values[0] == 5 && keeper.n == 1); // the kept values are still readable
    tug_app_release(keeper.kept[0]);
    tug_app_release(keeper.kept[1]);
    tug_kv_default_close(store);
    return rc;
}

static int schedule(const char *scheduler)
{
    int exits;
    struct tug_node *n = join(TUG_GROUP_SCHEDULER, scheduler, &exits);
    look_around(n);
    return leave(n, &exits);
}

// ---------------------------------------------------------------- workers

static int ask(struct tug_app *a, int32_t cmd, const float *pushed, float *pulled)
{
    struct tug_kv_request q = {
        .push = pushed != NULL,
        .pull = pulled != NULL,
        .cmd = cmd,
        .data = {keys, 2, pushed, pushed != NULL ? 2 : 0, NULL, 0},
        .pulled = pulled,
        .n_pulled = 2,
    };
    uint32_t ts, n;
    int rc = tug_kv_send(a, &q, &ts);
    rc = rc != 0 ? rc : tug_app_wait(a, ts);
    expect(tug_app_responses(a, ts, &n) == 0 && n == NODES_SERVERS);
    return rc;
}

static void push_and_pull(struct tug_node *n, struct tug_app *store,
                          struct tug_app *keeper)
{
    const float ones[] = {1, 2}, fives[] = {5, 5};
    float got[2];
    expect(ask(store, 0, ones, NULL) == 0);
    expect(ask(store, 0, ones, got) == 0 && got[0] >= 2 && got[1] >= 4);
    expect(ask(keeper, NO, NULL, got) == TUG_EDATA);
    expect(strstr(tug_last_error(), "not this one") != NULL);
    if (tug_node_rank(n) == 0)
        expect(ask(keeper, 0, fives, NULL) == 0);
    expect(tug_node_barrier(n, GROUPS) == 0);
    expect(ask(keeper, 0, NULL, got) == 0 && got[0] == 5 && got[1] == 5);
    expect(ask(store, 0, NULL, got) == 0);
    expect(got[0] == 2 * NODES_WORKERS && got[1] == 4 * NODES_WORKERS);
}

static void hear(void *ctx, struct tug_app *a, const struct tug_simple *r)
{
    (void)a;
    if (r->body_bytes == 2 && memcmp(r->body, "hi", 2) == 0)
        add_one(ctx);
}

static void hear_by_hand(void *ctx, struct tug_app *a, const struct tug_message *m)
{
    (void)a;
    if (m->head == 7 && m->body_bytes == 3)
        add_one(ctx);
}

static void talk(struct tug_node *n)
{
    atomic_int heard = 0;
    struct tug_app *a, *b;
    struct tug_app_handlers h = {.response = hear, .ctx = &heard};
    struct tug_message m = {.head = 7,
                            .request = true,
                            .simple = true,
                            .app = HAND,
                            .body = "yes",
                            .body_bytes = 3,
                            .receiver = 8};
    uint32_t ts;
    expect(tug_app_open(&a, n, TALK, 0, &h) == 0 && tug_app_node(a) == n);
    expect(tug_app_find(n, TALK, 0, 0) == a && tug_app_find(n, TALK, 5, 0) == NULL);
    expect(tug_app_request(a, 1, "hi", 2, TUG_GROUP_SERVERS, &ts) == 0);
    expect(tug_app_wait(a, ts) == 0 && atomic_load(&heard) == NODES_SERVERS);
    expect(tug_app_wait(a, ts + 1) == TUG_EUSAGE);
    h = (struct tug_app_handlers){.message = hear_by_hand, .ctx = &heard};
    expect(tug_app_open(&b, n, HAND, 0, &h) == 0);
    expect(tug_app_new_request(b, TUG_GROUP_SERVERS, &m.timestamp) == 0);
    expect(tug_message_send(n, &m) == 0);
    // Counts an answer of the other server, to which no request was sent.
    expect(tug_app_add_responses(b, m.timestamp, 1) == 0);
    expect(tug_app_wait(b, m.timestamp) == 0);
    expect(atomic_load(&heard) == NODES_SERVERS + 1);
    expect(tug_node_call(n, add_one, &heard) == 0);
    expect(tug_app_request(a, 1, "hi", 2, 8, &ts) ==
           0); // the answer arrives after the call returned
    expect(tug_app_wait(a, ts) == 0 && atomic_load(&heard) == NODES_SERVERS + 3);
    expect(tug_app_close(a) == 0);
    expect(tug_app_close(b) == 0);
    expect(tug_app_close(NULL) == 0);
}

static int work(const char *scheduler)
{
    int exits;
    struct tug_node *n = join(TUG_GROUP_WORKERS, scheduler, &exits);
    struct tug_app *store, *keeper;
    expect(tug_app_open(&store, n, STORE, 0, NULL) == 0);
    expect(tug_app_open(&keeper, n, KEEPER, 0, NULL) == 0);
    look_around(n);
    push_and_pull(n, store, keeper);
    talk(n);
    expect(tug_node_barrier_of(n, 6, TUG_GROUP_WORKERS) == 0);
    return leave(n, &exits);
}

static void by_processes(void **state)
{
    int status[NODES_PROCESSES];
    (void)state;
    nodes_run(schedule, serve, work, status);
    for (int i = 0; i < NODES_PROCESSES; i++)
        assert_int_equal(0, status[i]);
}

struct thread {
    pthread_t id;
    nodes_main main;
    const char *scheduler;
    int rc;
};

static void *run(void *arg)
{
    struct thread *t = arg;
    t->rc = t->main(t->scheduler);
    return NULL;
}

static void by_threads(void **state)
{
    char scheduler[NODES_ADDRESS];
    struct thread t[NODES_PROCESSES] = {{.main = schedule}};
    (void)state;
    nodes_address(scheduler);
    for (int i = 0; i < NODES_PROCESSES; i++) {
        t[i].scheduler = scheduler;
        t[i].main = i == 0 ? schedule : i <= NODES_SERVERS ? serve : work;
        assert_int_equal(0, pthread_create(&t[i].id, NULL, run, &t[i]));
    }
    for (int i = 0; i < NODES_PROCESSES; i++) {
        assert_int_equal(0, pthread_join(t[i].id, NULL));
        assert_int_equal(0, t[i].rc);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_processes),
        cmocka_unit_test(by_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
