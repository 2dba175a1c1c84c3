// See history.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/history.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/random.h"
#include "kit/servers.h"
#include "os/clock.h"

// A worker's pushes add 1 to its own column. The keys belong to some of the 256 partitions.
enum { WORKERS = HISTORY_WORKERS, KEYS = 24, MOST_KEYS = 4, LEAST_REQUESTS = 300 };

// The workers and the test share these.
static struct shared {
    atomic_uint requests[WORKERS];
    atomic_bool waits[WORKERS]; // for the end of a request
} * shared;

static pid_t pids[WORKERS];
static bool stopped; // worker 0 is stopped
static int over[2];  // a pipe; the test closes its second end when workers must end

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
    atomic_store(&shared->waits[worker], true);
    rc = rc == 0 ? tug_wait(c, ts, 0) : rc;
    atomic_store(&shared->waits[worker], false);
    q->end = clock_ns();
    if (kind <= 2)
        write_push(to, q, worker, rc != 0);
    if (rc == 0 && (kind == 0 || kind > 2))
        write_pull(to, q);
    return rc;
}

// Returns whether the test has closed its end of the pipe. It waits for that for at most 1 ms
// at every fourth request, because the history of a long test must not become too long.
static bool is_over(uint64_t number)
{
    struct pollfd end = {.fd = over[0]};
    return poll(&end, 1, number % 4 == 1) > 0;
}

static int work(unsigned worker)
{
    uint32_t table;
    struct request q;
    struct tug_client *c = tables_client();
    FILE *to = fopen(files_path("history%u", worker), "w");
    int rc = tug_table_find(c, "counts", &table);
    for (uint64_t i = 0; rc == 0 && !is_over(i); i++) {
        rc = send_one(c, table, &q, worker, i, to);
        atomic_fetch_add(&shared->requests[worker], 1);
    }
    if (rc != 0)
        fprintf(stderr, "worker %u: %s\n", worker, tug_last_error());
    return fclose(to) != 0 || rc != 0 || tug_client_close(c) != 0;
}

void history_start(void)
{
    if (shared == NULL) {
        void *p = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        assert_true(p != MAP_FAILED);
        shared = p;
    }
    for (unsigned i = 0; i < WORKERS; i++) // of a test that has failed
        if (pids[i] != 0) {
            (void)kill(pids[i], SIGKILL);
            (void)waitpid(pids[i], NULL, 0);
        }
    memset(shared, 0, sizeof(*shared));
    stopped = false;
    assert_int_equal(pipe2(over, O_CLOEXEC), 0);
    for (unsigned i = 0; i < WORKERS; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            (void)close(over[1]);
            _exit(work(i));
        }
    }
}

void history_await(void)
{
    for (unsigned i = stopped; i < WORKERS; i++) {
        unsigned least = atomic_load(&shared->requests[i]) + LEAST_REQUESTS;
        assert_soon(atomic_load(&shared->requests[i]) >= least);
    }
}

static bool stops_in_request(void)
{
    int status;
    assert_int_equal(kill(pids[0], SIGSTOP), 0);
    assert_true(waitpid(pids[0], &status, WUNTRACED) == pids[0] && WIFSTOPPED(status));
    if (atomic_load(&shared->waits[0]))
        return true;
    assert_int_equal(kill(pids[0], SIGCONT), 0);
    return false;
}

void history_stop(void)
{
    assert_soon(stops_in_request());
    stopped = true;
}

void history_continue(void)
{
    assert_int_equal(kill(pids[0], SIGCONT), 0);
    stopped = false;
}

// Pulls all keys when no worker pushes any more, so that the history contains the sums.
static void pull_all(void)
{
    struct request q = {.n = 1};
    uint64_t ts;
    uint32_t table;
    struct tug_client *c = tables_client();
    FILE *to = fopen(files_path("history%u", WORKERS), "w");
    tables_check(tug_table_find(c, "counts", &table));
    for (uint64_t key = 0; key < KEYS; key++) {
        q.keys[0] = key;
        q.begin = clock_ns();
        tables_check(tug_pull(c, table, q.keys, 1, q.pulled, NULL, NULL, &ts));
        tables_check(tug_wait(c, ts, 0));
        q.end = clock_ns();
        write_pull(to, &q);
    }
    assert_int_equal(fclose(to), 0);
    tables_check(tug_client_close(c));
}

void history_end(void)
{
    int status;
    assert_int_equal(close(over[1]), 0);
    for (unsigned i = 0; i < WORKERS; i++) {
        assert_true(waitpid(pids[i], &status, 0) == pids[i]);
        pids[i] = 0;
        assert_int_equal(status, 0);
    }
    assert_int_equal(close(over[0]), 0);
    pull_all();
}

void history_check(const char *script)
{
    if (cluster_system("python3 -B %s history0 history1 history2 history3 history4",
                       script) != 0)
        cluster_fail("%s", e2e_err);
    print_message("%s", e2e_out);
}
