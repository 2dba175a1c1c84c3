// A worker of a synchronous store is killed in the middle of a push and replaced. Every
// rank counts once in each round on every server, however many servers the push had
// reached, and whatever the other worker does meanwhile.
//
// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "doors/kvapp/node.h"
#include "doors/kvstore/kvstore_internal.h"
#include "kit/nodes.h"

enum { BIG = 1000, N = 2000, ROUNDS = 6, DIES_AT = 2 };

// The progress of the processes, in memory that they share.
static struct shared {
    atomic_bool pushed; // the worker that dies has sent its push
    // The worker that replaces the dead one has asked for the finished rounds.
    atomic_bool counted;
    atomic_bool over; // the round that includes the push is over
} * shared;

static struct way {
    // The first piece that is pushed before the death, and the number of such pieces.
    uint32_t first, n;
    // Whether the other worker pushes only after the new worker has asked for the rounds.
    bool late;
} way;

static void until(const atomic_bool *x)
{
    while (!atomic_load(x))
        poll(NULL, 0, 1);
}

static struct tug_kvstore *open_store(const char *scheduler)
{
    struct tug_node_options node;
    struct tug_kvstore_options o = {.type = "dist_sync", .node = &node, .big_array = BIG};
    struct tug_kvstore *s;
    nodes_options(&node, TUG_GROUP_WORKERS, scheduler);
    expect(tug_kvstore_open(&s, &o) == 0);
    return s;
}

static float gradient(uint32_t rank, int step, int i)
{
    return (float)((i * 7 + step * 31 + (int)rank * 13) % 101);
}

// Pushes the pieces that `way` selects, and dies. The servers have handled the push when
// they have answered the request sent after it.
static void die_pushing(struct tug_kvstore *s, const struct tug_array *gradients)
{
    struct kvs_entry *x = s->entries.list[0];
    expect(x->n_pieces == NODES_SERVERS);
    expect(kvs_parts_write(s, x, gradients) == 0);
    x->pieces += way.first;
    x->n_pieces = way.n;
    expect(kvs_parts_send(s, x, 0) == 0);
    expect(kvs_dist_tell(s, KVS_META, KVS_ALL_SERVERS, &x->key.id, sizeof(x->key.id)) ==
           0);
    atomic_store(&shared->pushed, true);
    raise(SIGKILL);
}

static void push(struct tug_kvstore *s, const struct tug_kvstore_item *item, int step)
{
    bool new = tug_kvstore_recovers(s);
    if (step == DIES_AT && s->rank == 1 && !new)
        die_pushing(s, item->array);
    if (step == DIES_AT && s->rank == 0)
        until(way.late ? &shared->counted : &shared->pushed);
    if (step == DIES_AT && new &&way.late)
        until(&shared->over);
    expect(tug_kvstore_push(s, item, 1, 0) == 0);
    if (step == DIES_AT && s->rank == 0 && way.late) {
        expect(tug_kvstore_wait(s) == 0);
        atomic_store(&shared->over, true);
    }
}

static void one_round(struct tug_kvstore *s, int step)
{
    static float w[N], g[N];
    struct tug_array a = {TUG_FLOAT32, false, N, 1, w, NULL, 0}, b = a;
    struct tug_kvstore_item item = {{.name = "w"}, &a}, pushed = {{.name = "w"}, &b};
    b.data = g;
    for (int i = 0; i < N; i++)
        g[i] = gradient(s->rank, step, i);
    push(s, &pushed, step);
    expect(tug_kvstore_pull(s, &item, 1, 0) == 0);
    for (int i = 0; i < N; i++) {
        float sum = 0;
        for (int k = 0; k <= step; k++)
            for (uint32_t r = 0; r < NODES_WORKERS; r++)
                sum += gradient(r, k, i);
        expect(w[i] == sum);
    }
}

static int work(const char *scheduler)
{
    float zero[N] = {0};
    struct tug_array a = {TUG_FLOAT32, false, N, 1, zero, NULL, 0};
    struct tug_kvstore_item item = {{.name = "w"}, &a};
    struct tug_kvstore *s = open_store(scheduler);
    uint64_t done;
    expect(tug_kvstore_init(s, &item, 1) == 0);
    expect(tug_kvstore_set_optimizer(s, "test") == 0);
    expect(tug_kvstore_rounds(s, &item.key, &done) == 0);
    // Whether the new worker finds the round of the push finished.
    uint32_t over = way.n == NODES_SERVERS && !way.late;
    expect(done == (tug_kvstore_recovers(s) ? DIES_AT + over : 0));
    if (tug_kvstore_recovers(s))
        atomic_store(&shared->counted, true);
    for (int step = (int)done; step < ROUNDS; step++)
        one_round(s, step);
    expect(tug_kvstore_rounds(s, &item.key, &done) == 0 && done == ROUNDS);
    expect(tug_kvstore_close(s) == 0);
    return 0;
}

static void run(struct way how)
{
    char scheduler[NODES_ADDRESS];
    pid_t pids[NODES_PROCESSES];
    int n = NODES_PROCESSES, status, killed = 0;
    way = how;
    *shared = (struct shared){0};
    nodes_start(nodes_kvstore_schedule, nodes_kvstore_serve, work, scheduler, pids);
    while (n > 0) {
        pid_t pid = wait(&status);
        assert_true(pid > 0);
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && killed++ == 0) {
            nodes_begin(work, scheduler);
            continue;
        }
        assert_int_equal(0, status);
        n--;
    }
    assert_int_equal(1, killed);
}

// The round of the push is over at one server and open at the other.
static void push_at_some(void **state)
{
    (void)state;
    run((struct way){.first = 0, .n = 1});
    run((struct way){.first = 1, .n = 1});
}

// The round of the push was open when the new worker asked for the rounds, and is over
// when it pushes.
static void push_at_all(void **state)
{
    (void)state;
    run((struct way){.n = NODES_SERVERS});
    run((struct way){.n = NODES_SERVERS, .late = true});
}

// No worker replaces the dead one: the error of the other worker names the dead worker.

static int wait_in_vain(const char *scheduler)
{
    float w[N] = {0};
    struct tug_array a = {TUG_FLOAT32, false, N, 1, w, NULL, 0};
    struct tug_kvstore_item item = {{.name = "w"}, &a};
    struct tug_kvstore *s = open_store(scheduler);
    expect(tug_kvstore_init(s, &item, 1) == 0);
    if (s->rank == 1)
        raise(SIGKILL);
    s->node->o.wait_seconds = 5; // the push never comes, so a short wait is enough
    expect(tug_kvstore_push(s, &item, 1, 0) == 0);
    expect(tug_kvstore_wait(s) == TUG_EIO);
    expect(strstr(tug_last_error(), "key 'w'") && strstr(tug_last_error(), "worker 1 ("));
    expect(tug_kvstore_close(s) == 0);
    return 0;
}

static void nobody_comes(void **state)
{
    int status[NODES_PROCESSES], well = 0, killed = 0;
    (void)state;
    nodes_run(nodes_kvstore_schedule, nodes_kvstore_serve, wait_in_vain, status);
    for (int i = 0; i < NODES_PROCESSES; i++) {
        killed += WIFSIGNALED(status[i]);
        well += status[i] == 0;
    }
    assert_int_equal(1, killed);
    assert_int_equal(1, well);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(push_at_some),
                                       cmocka_unit_test(push_at_all),
                                       cmocka_unit_test(nobody_comes)};
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
