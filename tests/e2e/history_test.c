// Workers push and pull while servers join and leave, and while the scheduler is killed
// and started again. Then history_check.py checks the results that the workers got: no
// push was lost, counted twice, or seen and then lost.
//
// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/random.h"
#include "kit/servers.h"
#include "os/clock.h"

// A worker's pushes add 1 to its own column. The keys belong to some of the 256 partitions.
enum { WORKERS = 4, KEYS = 24, MOST_KEYS = 4, LEAST_REQUESTS = 300 };

#define COUNTS "name=counts;accessor=plain;dim=4;rule=sum"

// The workers and the test share these.
static struct shared {
    atomic_uint requests[WORKERS];
    atomic_bool over;
} * shared;

// ---------------------------------------------------------------- a worker

struct request {
    size_t n;
    uint64_t keys[MOST_KEYS];
    float pushed[MOST_KEYS * WORKERS], pulled[MOST_KEYS * WORKERS];
    uint64_t begin, end; // ns
};

static void choose(struct request *q, unsigned worker, uint64_t number)
{
    q->n = 1 + random_below(worker, 1, number, MOST_KEYS);
    uint64_t first = random_below(worker, 2, number, KEYS);
    memset(q->pushed, 0, sizeof(q->pushed));
    for (size_t i = 0; i < q->n; i++) {
        q->keys[i] = (first + 5 * i) % KEYS; // no key twice
        q->pushed[i * WORKERS + worker] = 1;
    }
}

static void write_push(FILE *to, const struct request *q, unsigned worker, bool failed)
{
    for (size_t i = 0; i < q->n; i++) {
        fprintf(to, "{\"key\": %llu, \"column\": %u, \"begin\": %llu",
                (unsigned long long)q->keys[i], worker, (unsigned long long)q->begin);
        if (!failed)
            fprintf(to, ", \"end\": %llu", (unsigned long long)q->end);
        fprintf(to, "}\n");
    }
}

static void write_pull(FILE *to, const struct request *q)
{
    for (size_t i = 0; i < q->n; i++) {
        const float *v = q->pulled + i * WORKERS;
        fprintf(to,
                "{\"key\": %llu, \"values\": [%g, %g, %g, %g], \"begin\": %llu, "
                "\"end\": %llu}\n",
                (unsigned long long)q->keys[i], (double)v[0], (double)v[1], (double)v[2],
                (double)v[3], (unsigned long long)q->begin, (unsigned long long)q->end);
    }
}

// Sends a push, a pull or both, waits for its end, and writes it to the history.
static int send_one(struct tug_client *c, uint32_t table, struct request *q,
                    unsigned worker, uint64_t number, FILE *to)
{
    // 0: a push with a pull; 1, 2: a push; else a pull
    uint64_t kind = random_below(worker, 3, number, 5), ts;
    choose(q, worker, number);
    q->begin = clock_ns();
    int rc = kind == 0   ? tug_push_pull(c, table, q->keys, q->n, q->pushed, q->pulled,
                                         NULL, NULL, &ts)
             : kind <= 2 ? tug_push(c, table, q->keys, q->n, q->pushed, NULL, NULL, &ts)
                         : tug_pull(c, table, q->keys, q->n, q->pulled, NULL, NULL, &ts);
    rc = rc == 0 ? tug_wait(c, ts, 0) : rc;
    q->end = clock_ns();
    if (kind <= 2)
        write_push(to, q, worker, rc != 0);
    if (rc == 0 && (kind == 0 || kind > 2))
        write_pull(to, q);
    return rc;
}

static int work(unsigned worker)
{
    uint32_t table;
    struct request q;
    struct tug_client *c = tables_client();
    FILE *to = fopen(files_path("history%u", worker), "w");
    int rc = tug_table_find(c, "counts", &table);
    for (uint64_t i = 0; rc == 0 && !atomic_load(&shared->over); i++) {
        rc = send_one(c, table, &q, worker, i, to);
        atomic_fetch_add(&shared->requests[worker], 1);
        if (i % 4 ==
            0) // on a busy machine a drain takes long, and the history is checked
            (void)poll(NULL, 0, 1);
    }
    if (rc != 0)
        fprintf(stderr, "worker %u: %s\n", worker, tug_last_error());
    return fclose(to) != 0 || rc != 0 || tug_client_close(c) != 0;
}

static void start_workers(pid_t pids[WORKERS])
{
    memset(shared, 0, sizeof(*shared));
    for (unsigned i = 0; i < WORKERS; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0)
            _exit(work(i));
    }
}

static void end_workers(const pid_t pids[WORKERS])
{
    int status;
    atomic_store(&shared->over, true);
    for (unsigned i = 0; i < WORKERS; i++) {
        assert_true(waitpid(pids[i], &status, 0) == pids[i]);
        assert_int_equal(status, 0);
    }
}

// Waits until each worker has sent more requests than now.
static void await_requests(void)
{
    for (unsigned i = 0; i < WORKERS; i++) {
        unsigned least = atomic_load(&shared->requests[i]) + LEAST_REQUESTS;
        assert_soon(atomic_load(&shared->requests[i]) >= least);
    }
}

// ---------------------------------------------------------------- the cluster

static void start_scheduler(const char *address)
{
    cluster_start("scheduler",
                  "scheduler --scheduler %s --servers 2 --workers 0 --state state",
                  address);
    tables_port = cluster_port("scheduler");
}

static void start_server(const char *name, const char *more)
{
    cluster_start(name, "server --scheduler 127.0.0.1:%u %s", tables_port, more);
}

static void restart_scheduler(void)
{
    cluster_signal("scheduler", SIGKILL);
    cluster_wait("scheduler", CLUSTER_PATIENCE);
    start_scheduler(files_path("127.0.0.1:%u", tables_port));
}

static void drain(unsigned rank, const char *name)
{
    tug_ends(0, "drain %u --wait --timeout %d --scheduler 127.0.0.1:%u", rank,
             CLUSTER_PATIENCE, tables_port);
    cluster_ends(name, 0, CLUSTER_PATIENCE);
}

static void check_history(void)
{
    if (cluster_system("python3 -B %s/e2e/history_check.py history0 history1 history2 "
                       "history3",
                       TUG_TESTS_FOLDER) != 0)
        cluster_fail("%s", e2e_err);
    print_message("%s", e2e_out);
}

static void history_is_possible(void **state)
{
    pid_t pids[WORKERS];
    (void)state;
    start_scheduler("127.0.0.1:0");
    start_server("first", "");
    start_server("second", "--rank 1 --loops 2");
    cluster_await("scheduler", "all have joined");
    tables_admin(0, "create --settings %s", COUNTS);
    start_workers(pids);
    await_requests();
    start_server("third", "--join");
    drain(0, "first");
    await_requests();
    restart_scheduler();
    start_server("fourth", "--join --loops 2");
    await_requests();
    restart_scheduler();
    drain(1, "second");
    await_requests();
    end_workers(pids);
    tables_stop();
    check_history();
}

static void the_rules_agree_with_a_search(void **state)
{
    (void)state;
    if (cluster_system("python3 -B %s/e2e/history_check.py --test", TUG_TESTS_FOLDER) !=
        0)
        cluster_fail("%s%s", e2e_out, e2e_err);
}

int main(void)
{
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const struct CMUnitTest tests[] = {
        cluster_test(history_is_possible),
        cluster_test(the_rules_agree_with_a_search),
    };
    return shared == MAP_FAILED ||
           cmocka_run_group_tests(tests, cluster_begin, cluster_end) != 0;
}
