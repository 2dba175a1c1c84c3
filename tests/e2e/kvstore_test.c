// Stores of a cluster (tug/kvstore.h): a scheduler, two servers and two workers, as real
// processes and as threads of one process. The results are compared with plain
// arithmetic.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "base/hash.h"
#include "kit/command.h"
#include "kit/nodes.h"
#include "os/clock.h"
#include "os/file.h"
#include "tug/kvstore.h"

enum { ROWS = 5, WIDTH = 3, N = ROWS * WIDTH };
// Arrays with at least this many elements are spread over the servers.
enum { BIG = 1000 };
enum { SLICE = 150 }; // elements of one slice of a sliced array

#define refused(call, why)                                                               \
    expect((call) == TUG_EUSAGE && strstr(tug_last_error(), why) != NULL)

static struct tug_kvstore *open_store(const char *type, const char *scheduler)
{
    struct tug_node_options node;
    struct tug_kvstore_options o = {
        .type = type, .node = &node, .big_array = BIG, .slice = SLICE};
    struct tug_kvstore *s;
    nodes_options(&node, TUG_GROUP_WORKERS, scheduler);
    expect(tug_kvstore_open(&s, &o) == 0);
    return s;
}

// ------------------------------------------------------------- servers and the scheduler

static int serve_with(const char *scheduler, int role,
                      const struct tug_kvstore_server_options *more)
{
    struct tug_node_options node;
    struct tug_kvstore_server_options o = *more;
    nodes_options(&node, role, scheduler);
    o.node = &node;
    int rc = tug_kvstore_serve(&o);
    if (rc != 0)
        fprintf(stderr, "serving: %s\n", tug_last_error());
    return rc;
}

static int schedule(const char *scheduler)
{
    return serve_with(scheduler, TUG_GROUP_SCHEDULER,
                      &(struct tug_kvstore_server_options){0});
}

static int serve(const char *scheduler)
{
    return serve_with(scheduler, TUG_GROUP_SERVERS,
                      &(struct tug_kvstore_server_options){0});
}

// A server with callbacks of the program: a command has a number by which later pushes
// are multiplied.
struct own {
    pthread_t main;
    float scale;
};

static int control(void *ctx, int32_t head, const void *body, size_t n)
{
    struct own *o = ctx;
    expect(pthread_equal(o->main, pthread_self()));
    if (head != 7 || n != sizeof(float))
        return TUG_EDATA;
    memcpy(&o->scale, body, n);
    return 0;
}

static int scale_and_add(void *ctx, const struct tug_kvstore_key *key,
                         const struct tug_array *merged, struct tug_array *stored)
{
    const struct own *o = ctx;
    expect(pthread_equal(o->main, pthread_self()));
    expect(key->name == NULL && (key->number == 3 || key->number == -4));
    for (uint64_t i = 0; i < merged->rows * merged->width; i++)
        ((float *)stored->data)[i] += o->scale * ((const float *)merged->data)[i];
    return 0;
}

// Serves for a short while at a time, like a program that also has other work.
static int serve_own(const char *scheduler)
{
    struct own own = {.main = pthread_self(), .scale = 1};
    struct tug_node_options node;
    struct tug_kvstore_server_options o = {
        .node = &node, .controller = control, .updater = scale_and_add, .ctx = &own};
    struct tug_kvstore_server *s;
    bool over = false;
    int n = 0;
    nodes_options(&node, TUG_GROUP_SERVERS, scheduler);
    expect(tug_kvstore_server_open(&s, &o) == 0);
    for (; !over; n++)
        expect(tug_kvstore_server_run(s, 0.001, &over) == 0);
    expect(n > 1);
    return tug_kvstore_server_close(s);
}

// ---------------------------------------------------------------- the cluster

static void processes(nodes_main server, nodes_main worker)
{
    int status[NODES_PROCESSES];
    nodes_run(schedule, server, worker, status);
    for (int i = 0; i < NODES_PROCESSES; i++)
        assert_int_equal(0, status[i]);
}

struct part {
    nodes_main fn;
    const char *scheduler;
    int rc;
};

static void *run_part(void *arg)
{
    struct part *p = arg;
    p->rc = p->fn(p->scheduler);
    return NULL;
}

static void threads(nodes_main server, nodes_main worker)
{
    char scheduler[NODES_ADDRESS];
    pthread_t ids[NODES_PROCESSES];
    struct part parts[NODES_PROCESSES];
    nodes_address(scheduler);
    for (int i = 0; i < NODES_PROCESSES; i++) {
        parts[i] = (struct part){i == 0               ? schedule
                                 : i <= NODES_SERVERS ? server
                                                      : worker,
                                 scheduler, 0};
        assert_int_equal(0, pthread_create(&ids[i], NULL, run_part, &parts[i]));
    }
    for (int i = 0; i < NODES_PROCESSES; i++) {
        pthread_join(ids[i], NULL);
        assert_int_equal(0, parts[i].rc);
    }
}

// Arrays: small and large, with rows and with one row, float and half.

struct kind {
    int64_t key;
    enum tug_dtype dtype;
    bool sparse;
    uint64_t rows, width;
};

static const struct kind kinds[] = {
    {3, TUG_FLOAT32, false, ROWS, WIDTH}, {4, TUG_FLOAT32, false, 401, 11},
    {5, TUG_FLOAT32, false, 1, 2003},     {6, TUG_FLOAT16, false, 1203, 1},
    {7, TUG_FLOAT32, true, 307, 5},       {8, TUG_FLOAT64, false, ROWS, WIDTH},
    {9, TUG_INT64, false, 1100, 2},       {10, TUG_INT32, true, ROWS, WIDTH},
    {11, TUG_FLOAT16, true, 333, 3},
};
enum { KINDS = sizeof(kinds) / sizeof(*kinds), MOST = 5000 };

static size_t size_of(enum tug_dtype t)
{
    return t == TUG_FLOAT16 ? 2 : t == TUG_FLOAT32 || t == TUG_INT32 ? 4 : 8;
}

static uint16_t half_of(int x) // `x` is a small integer
{
    int e = 0, a = x < 0 ? -x : x;
    if (a == 0)
        return 0;
    while (a >> (e + 1) != 0)
        e++;
    return (uint16_t)((x < 0) << 15 | (e + 15) << 10 | ((a << (10 - e)) & 0x3ff));
}

static void put(enum tug_dtype t, void *to, size_t i, int x)
{
    if (t == TUG_FLOAT16)
        ((uint16_t *)to)[i] = half_of(x);
    else if (t == TUG_FLOAT32)
        ((float *)to)[i] = (float)x;
    else if (t == TUG_FLOAT64)
        ((double *)to)[i] = x;
    else if (t == TUG_INT32)
        ((int32_t *)to)[i] = x;
    else
        ((int64_t *)to)[i] = x;
}

static int number(int worker, int step, size_t i)
{
    return (int)((i * 7 + (size_t)worker * 3 + (size_t)step * 5) % 11) - 5;
}

static bool pushes_row(int worker, int step, uint64_t row)
{
    return step != 2 && (row * 3 + (uint64_t)worker + (uint64_t)step) % 3 != 0;
}

struct buffers {
    char data[MOST * 8];
    int64_t ids[MOST];
    double got[MOST], expected[MOST];
};

static void fill(const struct kind *k, int worker, int step, struct buffers *b,
                 struct tug_array *ret)
{
    size_t n = 0;
    *ret = (struct tug_array){k->dtype, k->sparse, k->rows, k->width, b->data, b->ids, 0};
    for (uint64_t r = 0; r < k->rows; r++) {
        if (k->sparse && !pushes_row(worker, step, r))
            continue;
        for (uint64_t c = 0; c < k->width; c++)
            put(k->dtype, b->data, n * k->width + c,
                number(worker, step, r * k->width + c));
        b->ids[n++] = (int64_t)r;
    }
    ret->n_ids = k->sparse ? n : 0;
}

// Writes the expected array to b: the array after all workers' pushes of a step.
static void sum_up(const struct kind *k, int step, bool adds, struct buffers *b)
{
    for (uint64_t r = 0; r < k->rows; r++)
        for (uint64_t c = 0; c < k->width; c++) {
            size_t i = r * k->width + c;
            int sum = 0;
            for (int w = 0; w < NODES_WORKERS; w++)
                if (!k->sparse || pushes_row(w, step, r))
                    sum += number(w, step, i);
            b->expected[i] = adds ? b->expected[i] + sum : sum;
        }
}

static void check_pull(struct tug_kvstore *s, const struct kind *k, struct buffers *b)
{
    struct tug_array own = {k->dtype, false, k->rows, k->width, b->data, NULL, 0};
    struct tug_array wide = {TUG_FLOAT64, false, k->rows, k->width, b->got, NULL, 0};
    char twice[MOST * 8];
    struct tug_array again = own;
    again.data = twice;
    struct tug_kvstore_item items[] = {{{.number = k->key}, &own},
                                       {{.number = k->key}, &wide},
                                       {{.number = k->key}, &again}};
    expect(tug_kvstore_pull(s, items, 3, 0) == 0);
    for (size_t i = 0; i < k->rows * k->width; i++) {
        expect(b->got[i] == b->expected[i]);
        put(k->dtype, twice, i, (int)b->expected[i]);
    }
    expect(memcmp(own.data, twice, k->rows * k->width * size_of(k->dtype)) == 0);
}

static void check_rows(struct tug_kvstore *s, const struct kind *k, struct buffers *b)
{
    int64_t ids[] = {0, 2, 3, (int64_t)k->rows - 1};
    struct tug_array to = {TUG_FLOAT64, true, k->rows, k->width, b->got, ids, 4};
    struct tug_kvstore_item item = {{.number = k->key}, &to};
    expect(tug_kvstore_pull_rows(s, &item, 1, 0) == 0);
    for (size_t i = 0; i < 4; i++)
        for (size_t c = 0; c < k->width; c++)
            expect(b->got[i * k->width + c] ==
                   b->expected[(size_t)ids[i] * k->width + c]);
    to.n_ids = 0;
    expect(tug_kvstore_pull_rows(s, &item, 1, 0) == 0);
    to.ids = b->ids;
    expect(tug_kvstore_pull(s, &item, 1, 0) == 0);
    size_t n = 0;
    for (uint64_t r = 0; r < k->rows; r++) {
        bool zero = true;
        for (size_t c = 0; c < k->width; c++)
            zero &= b->expected[r * k->width + c] == 0;
        expect(zero || b->ids[n] == (int64_t)r);
        n += !zero;
    }
    expect(to.n_ids == n);
}

static void check_kind(struct tug_kvstore *s, const struct kind *k, bool adds)
{
    struct buffers *b = mem_alloc(sizeof(*b));
    struct tug_array a;
    struct tug_kvstore_item item = {{.number = k->key}, &a};
    int rank = (int)tug_kvstore_rank(s);
    uint64_t rounds;
    fill(k, rank, 100, b, &a); // the store keeps the values of rank 0
    expect(tug_kvstore_init(s, &item, 1) == 0);
    for (uint64_t i = 0; i < k->rows * k->width; i++)
        b->expected[i] = !k->sparse || pushes_row(0, 100, i / k->width)
                             ? number(0, 100, i)
                             : 0;
    check_pull(s, k, b);
    expect(tug_kvstore_barrier(s) == 0);
    for (int step = 0; step < 5; step++) {
        fill(k, rank, step, b, &a);
        expect(tug_kvstore_push(s, &item, 1, -step) == 0);
        memset(b->data, 0x55, sizeof(b->data)); // the store no longer uses the arrays
        sum_up(k, step, adds, b);
        check_pull(s, k, b);
        if (k->sparse)
            check_rows(s, k, b);
    }
    expect(tug_kvstore_rounds(s, &item.key, &rounds) == 0 && rounds == 5);
    mem_free(b);
}

static void check_misuse(struct tug_kvstore *s)
{
    float w[N] = {0};
    struct tug_array a = {TUG_FLOAT32, false, ROWS, WIDTH, w, NULL, 0};
    struct tug_array other = {TUG_FLOAT32, false, WIDTH, ROWS, w, NULL, 0};
    struct tug_kvstore_item item = {{.number = 999}, &a};
    uint32_t dead = 9;
    uint64_t updates;
    refused(tug_kvstore_push(s, &item, 1, 0), "key 999");
    refused(tug_kvstore_pull(s, &item, 1, 0), "key 999");
    item.key.number = 3;
    // A second init of this array changes nothing.
    expect(tug_kvstore_init(s, &item, 1) == 0);
    item.array = &other;
    refused(tug_kvstore_init(s, &item, 1), "5 x 3");
    refused(tug_kvstore_set_updater(s, NULL, NULL), "servers");
    refused(tug_kvstore_command(s, 1, NULL, 0), "controller");
    refused(tug_kvstore_set_optimizer(s, "lamb"), "call set_optimizer before init");
    refused(tug_kvstore_set_optimizer(s, "lbsgd"), "lbsgd");
    refused(tug_kvstore_num_update(s, &updates), "servers");
    refused(tug_kvstore_save_states(s, "states"), "no optimizer");
    expect(tug_kvstore_dead(s, TUG_GROUP_ALL, &dead) == 0 && dead == 0);
    expect(!tug_kvstore_recovers(s) && tug_kvstore_is_dist(s));
    expect(tug_kvstore_workers(s) == NODES_WORKERS &&
           tug_kvstore_rank(s) < NODES_WORKERS);
    // The ranks give different shapes: a worker whose rank is not 0 gets an error.
    item = (struct tug_kvstore_item){{.number = 500}, &a};
    if (tug_kvstore_rank(s) == 0) {
        expect(tug_kvstore_init(s, &item, 1) == 0);
    } else {
        item.array = &other;
        refused(tug_kvstore_init(s, &item, 1), "key 500");
    }
}

static int work_sync(const char *scheduler)
{
    struct tug_kvstore *s = open_store("dist_sync_device", scheduler);
    for (size_t i = 0; i < KINDS; i++)
        check_kind(s, &kinds[i], false);
    check_misuse(s);
    expect(tug_kvstore_close(s) == 0);
    return 0;
}

static int work_optimized(const char *scheduler)
{
    struct tug_kvstore *s = open_store("dist", scheduler);
    expect(tug_kvstore_set_optimizer(s, "test") == 0);
    for (size_t i = 0; i < KINDS; i++)
        if (kinds[i].dtype != TUG_INT32 && kinds[i].dtype != TUG_INT64)
            check_kind(s, &kinds[i], true);
    expect(tug_kvstore_close(s) == 0);
    return 0;
}

static void sync_processes(void **state)
{
    (void)state;
    processes(serve, work_sync);
}

static void sync_threads(void **state)
{
    (void)state;
    threads(serve, work_sync);
}

static void optimized(void **state)
{
    (void)state;
    processes(serve, work_optimized);
    threads(serve, work_optimized);
}

// An earlier push of the second key has failed, so a push of two keys returns that error
// and sends nothing. The failed push must not leave values of the first key in the
// residual of the compression. The values of the next push are below the threshold, so
// they must arrive as zeros.
static void refuse_after_coding(struct tug_kvstore *s)
{
    float w[N], g[N];
    struct tug_array a = {TUG_FLOAT32, false, ROWS, WIDTH, w, NULL, 0}, b = a;
    struct tug_kvstore_item item = {{.name = "w"}, &a};
    struct tug_kvstore_item push[] = {{{.name = "w"}, &b}, {{.name = "v"}, &b}};
    b.data = g;
    for (int i = 0; i < N; i++)
        w[i] = 0, g[i] = 0.3f;
    expect(tug_kvstore_init(s, &(struct tug_kvstore_item){{.name = "v"}, &a}, 1) == 0);
    expect(tug_kvstore_set_compression(s, "2bit", 0.5f) == 0);
    expect(tug_kvstore_push(s, push + 1, 1, 0) == 0);
    refused(tug_kvstore_push(s, push, 2, 0), "set_optimizer");
    expect(tug_kvstore_barrier(s) == 0);
    expect(tug_kvstore_set_optimizer(s, "test") == 0);
    expect(tug_kvstore_push(s, push, 1, 0) == 0);
    expect(tug_kvstore_barrier(s) == 0);
    expect(tug_kvstore_pull(s, &item, 1, 0) == 0);
    for (int i = 0; i < N; i++)
        expect(w[i] == 0);
    // Waits until all workers have checked this round.
    expect(tug_kvstore_barrier(s) == 0);
    expect(tug_kvstore_set_compression(s, "none", 0) == 0);
}

// In an async store each push counts at once, so the store needs an optimizer or updater.
static int work_async(const char *scheduler)
{
    float w[N], g[N], first[N];
    struct tug_kvstore *s = open_store("dist_async", scheduler);
    struct tug_array a = {TUG_FLOAT32, false, ROWS, WIDTH, w, NULL, 0}, b = a, c = a;
    struct tug_kvstore_item item = {{.name = "w"}, &a}, push = {{.name = "w"}, &b};
    struct tug_kvstore_item got = {{.name = "w"}, &c};
    b.data = g;
    c.data = first;
    for (int i = 0; i < N; i++)
        g[i] = (float)i;
    expect(strcmp(tug_kvstore_type(s), "dist_async") == 0);
    for (int i = 0; i < N; i++) // the store keeps the values of rank 0
        w[i] = (float)tug_kvstore_rank(s), first[i] = 9;
    expect(tug_kvstore_broadcast(s, &item, 1, &got, 1, 0) == 0);
    for (int i = 0; i < N; i++)
        expect(first[i] == 0);
    expect(tug_kvstore_push(s, &push, 1, 0) == 0);
    refused(tug_kvstore_wait(s), "set_optimizer");
    expect(strstr(tug_last_error(), "key 'w'") != NULL);
    expect(tug_kvstore_barrier(s) == 0);
    refuse_after_coding(s);
    expect(tug_kvstore_set_optimizer(s, "test:rescale_grad=2") == 0);
    for (int step = 0; step < 10; step++)
        expect(tug_kvstore_push(s, &push, 1, 0) == 0);
    expect(tug_kvstore_barrier(s) == 0);
    expect(tug_kvstore_push_pull(s, NULL, 0, &item, 1, 0) == 0);
    for (int i = 0; i < N; i++)
        expect(w[i] == 2 * 10 * NODES_WORKERS * g[i]);
    expect(tug_kvstore_close(s) == 0);
    return 0;
}

static void async(void **state)
{
    (void)state;
    processes(serve, work_async);
    threads(serve, work_async);
}

// Compression: the pulled values equal those that the test computes from the compressed
// gradients, into whatever pieces the arrays are cut.

enum { CODED = 4999 };

static float coded_gradient(int worker, int step, size_t i)
{
    return (float)number(worker, step, i) * 0.125f;
}

static void check_coded(struct tug_kvstore *s, int64_t key, bool two, size_t n)
{
    static _Thread_local float w[CODED], g[CODED], left[NODES_WORKERS][CODED];
    struct tug_array a = {TUG_FLOAT32, false, n, 1, w, NULL, 0}, b = a;
    struct tug_kvstore_item item = {{.number = key}, &a}, push = {{.number = key}, &b};
    int rank = (int)tug_kvstore_rank(s);
    b.data = g;
    for (size_t i = 0; i < n; i++)
        w[i] = 1;
    memset(left, 0, sizeof(left));
    expect(tug_kvstore_set_compression(s, "none", 0) == 0);
    expect(tug_kvstore_init(s, &item, 1) == 0);
    expect(tug_kvstore_set_compression(s, two ? "2bit" : "1bit", 0.5f) == 0);
    for (int step = 0; step < 8; step++) {
        for (size_t i = 0; i < n; i++)
            g[i] = coded_gradient(rank, step, i);
        expect(tug_kvstore_push_pull(s, &push, 1, &item, 1, 0) == 0);
        for (size_t i = 0; i < n; i++) {
            float sum = 0;
            for (int k = 0; k < NODES_WORKERS; k++) {
                float *r = &left[k][i], sent;
                *r += coded_gradient(k, step, i);
                if (two)
                    sent = *r >= 0.5f ? 0.5f : *r <= -0.5f ? -0.5f : 0;
                else
                    sent = *r > 0.5f ? 1 : -1;
                *r -= sent;
                sum += sent;
            }
            expect(w[i] == sum);
        }
    }
}

static int work_coded(const char *scheduler)
{
    struct tug_kvstore *s = open_store("dist_sync", scheduler);
    double d[3] = {0};
    struct tug_array a = {TUG_FLOAT64, false, 3, 1, d, NULL, 0};
    struct tug_kvstore_item item = {{.number = 1}, &a};
    check_coded(s, 20, true, 13);
    check_coded(s, 21, true, CODED);
    check_coded(s, 22, false, 70);
    check_coded(s, 23, false, CODED);
    expect(tug_kvstore_init(s, &item, 1) == 0);
    refused(tug_kvstore_push(s, &item, 1, 0), "float64");
    check_kind(s, &kinds[4], false); // arrays with rows are not compressed
    expect(tug_kvstore_close(s) == 0);
    return 0;
}

static void compressed(void **state)
{
    (void)state;
    processes(serve, work_coded);
    threads(serve, work_coded);
}

// Arrays whose slices are spread over the servers in turn behave like all arrays.
static int work_sliced(const char *scheduler)
{
    struct tug_kvstore *s = open_store("p3", scheduler);
    for (size_t i = 0; i < KINDS; i++)
        check_kind(s, &kinds[i], false);
    refused(tug_kvstore_set_optimizer(s, "lamb"), "call set_optimizer before init");
    check_coded(s, 21, true, CODED);
    check_coded(s, 23, false, CODED);
    expect(tug_kvstore_close(s) == 0);
    return 0;
}

static void sliced(void **state)
{
    (void)state;
    threads(serve, work_sliced);
}

// A push has more slices than may be in flight: it waits for earlier slices. If an
// earlier slice fails, the error names its key.
enum { LONG = 1024 * SLICE, LONGS = 4 };

static int work_many(const char *scheduler)
{
    static _Thread_local float w[LONGS][LONG];
    struct tug_array a[LONGS];
    struct tug_kvstore_item items[LONGS];
    struct tug_kvstore *s = open_store("p3", scheduler);
    for (int k = 0; k < LONGS; k++) {
        a[k] = (struct tug_array){TUG_FLOAT32, false, LONG, 1, w[k], NULL, 0};
        items[k] = (struct tug_kvstore_item){{.number = k}, &a[k]};
    }
    expect(tug_kvstore_init(s, items, LONGS) == 0);
    expect(tug_kvstore_set_optimizer(s, "sgd:learning_rate=1e38") == 0);
    w[0][LONG / 2] = 1e30f; // two updates with this value exceed a float
    for (int k = 0; k < LONGS; k++)
        expect(tug_kvstore_push(s, &items[k], 1, k) == 0);
    refused(tug_kvstore_pull(s, items, 1, 0),
            "key 0: this push would give optimizer sgd");
    expect(tug_kvstore_pull(s, items, LONGS, 0) == 0);
    expect(tug_kvstore_wait(s) == 0 && w[LONGS - 1][LONG - 1] == 0);
    expect(tug_kvstore_close(s) == 0);
    return 0;
}

static void many(void **state)
{
    (void)state;
    threads(serve, work_many);
}

// An optimizer that needs norms gets whole arrays, whatever their size.
static int work_whole(const char *scheduler)
{
    static _Thread_local float w[2 * BIG], g[2 * BIG];
    struct tug_kvstore *s = open_store("dist_sync", scheduler);
    struct tug_array a = {TUG_FLOAT32, false, 2 * BIG, 1, w, NULL, 0}, b = a;
    struct tug_kvstore_item item = {{.name = "w"}, &a}, push = {{.name = "w"}, &b};
    // The gradient whose norm is used is the sum of the two workers' gradients.
    float rate = sqrtf(5 * BIG) / sqrtf(40 * BIG);
    b.data = g;
    for (int i = 0; i < 2 * BIG; i++) {
        w[i] = i < BIG ? 1 : 2;
        g[i] = i < BIG ? 1 : 3;
    }
    expect(tug_kvstore_set_optimizer(s, "lars:learning_rate=1,eta=1,epsilon=0") == 0);
    expect(tug_kvstore_init(s, &item, 1) == 0);
    expect(tug_kvstore_push_pull(s, &push, 1, &item, 1, 0) == 0);
    expect(fabsf(w[0] - (1 - 2 * rate)) < 1e-5f);
    expect(fabsf(w[2 * BIG - 1] - (2 - 6 * rate)) < 1e-5f);
    expect(tug_kvstore_close(s) == 0);
    return 0;
}

static void whole(void **state)
{
    (void)state;
    threads(serve, work_whole);
}

// --------------------------------------------------- servers with a program of their own

static int work_own(const char *scheduler)
{
    static _Thread_local float w[2000], g[2000];
    struct tug_kvstore *s = open_store("dist_sync", scheduler);
    struct tug_array a = {TUG_FLOAT32, false, 1000, 2, w, NULL, 0}, b = a;
    struct tug_kvstore_item item = {{.number = -4}, &a}, push = {{.number = -4}, &b};
    float scale = 0.5f;
    b.data = g;
    for (int i = 0; i < 2000; i++)
        g[i] = (float)i;
    expect(tug_kvstore_init(s, &item, 1) == 0);
    if (tug_kvstore_rank(s) == 1)
        expect(tug_kvstore_command(s, 7, &scale, sizeof(scale)) == 0);
    expect(tug_kvstore_command(s, 8, NULL, 0) == TUG_EDATA);
    expect(tug_kvstore_barrier(s) == 0);
    refused(tug_kvstore_set_optimizer(s, "sgd"), "updater");
    expect(tug_kvstore_push_pull(s, &push, 1, &item, 1, 0) == 0);
    for (int i = 0; i < 2000; i++)
        expect(w[i] == 0.5f * NODES_WORKERS * g[i]);
    expect(tug_kvstore_close(s) == 0);
    return 0;
}

static void own_servers(void **state)
{
    (void)state;
    processes(serve_own, work_own);
    threads(serve_own, work_own);
}

// The states of all servers are saved to a file. A store that continues from this file
// has the same result as a store that was not interrupted.

// The states of the last server in a file are wrong: loading the file changes the states
// of no server.
static void refuse_states(struct tug_kvstore *s, const char *good)
{
    char bad[120], before[120], after[120];
    struct buf b = BUF_INIT(SIZE_MAX / 2), c = BUF_INIT(SIZE_MAX / 2);
    struct file_writer *w;
    struct err e;
    uint64_t first, sum;
    snprintf(bad, sizeof(bad), "%s.bad", good);
    snprintf(before, sizeof(before), "%s.before", good);
    snprintf(after, sizeof(after), "%s.after", good);
    expect(file_read(good, &b, &e) == 0);
    memcpy(&first, b.data + 16, sizeof(first));  // size of server 0's states, in bytes
    b.data[16 + sizeof(first) + first + 8] += 1; // number of server 1's states
    sum = hash_bytes(b.data, b.len - sizeof(sum), 0);
    memcpy(b.data + b.len - sizeof(sum), &sum, sizeof(sum));
    expect(file_create(&w, bad, &e) == 0 && file_write(w, b.data, b.len, &e) == 0 &&
           file_commit(w, &e) == 0);
    expect(tug_kvstore_save_states(s, before) == 0);
    expect(tug_kvstore_load_states(s, bad) == TUG_EDATA);
    expect(strstr(tug_last_error(), "server 1"));
    expect(tug_kvstore_save_states(s, after) == 0);
    b.len = 0;
    expect(file_read(before, &b, &e) == 0 && file_read(after, &c, &e) == 0);
    expect(b.len == c.len && memcmp(b.data, c.data, b.len) == 0);
    buf_free(&b);
    buf_free(&c);
    unlink(bad);
    unlink(before);
    unlink(after);
}

static int work_states(const char *scheduler)
{
    static _Thread_local float w[2][2000], g[2000];
    struct tug_kvstore *s = open_store("dist_sync", scheduler);
    struct tug_array a[2], b = {TUG_FLOAT32, false, 2000, 1, g, NULL, 0};
    struct tug_kvstore_item items[2], push[2];
    int rank = (int)tug_kvstore_rank(s);
    char path[100];
    snprintf(path, sizeof(path), "/tmp/tug_kvstore_%s.states",
             strchr(scheduler, ':') + 1);
    for (int i = 0; i < 2; i++) {
        a[i] = b;
        a[i].data = w[i];
        items[i] = (struct tug_kvstore_item){{.number = i}, &a[i]};
        push[i] = (struct tug_kvstore_item){{.number = i}, &b};
    }
    expect(tug_kvstore_init(s, items, 2) == 0);
    expect(tug_kvstore_set_optimizer(s, "adam:learning_rate=0.1") == 0);
    for (int step = 0; step < 8; step++) {
        for (int i = 0; i < 2000; i++)
            g[i] = (float)number(rank, step, (size_t)i);
        expect(tug_kvstore_push(s, push, 2, 0) == 0);
        expect(tug_kvstore_barrier(s) == 0);
        if (step == 3 && rank == 0) // loading what was just saved changes nothing
            expect(tug_kvstore_save_states(s, path) == 0 &&
                   tug_kvstore_load_states(s, path) == 0);
        expect(tug_kvstore_barrier(s) == 0);
    }
    expect(tug_kvstore_pull(s, items, 2, 0) == 0);
    expect(memcmp(w[0], w[1], sizeof(w[0])) == 0 && w[0][5] != 0);
    // The states from the file differ from those at the start.
    for (int step = 4; step < 8; step++) {
        if (step == 4 && rank == 0)
            expect(tug_kvstore_load_states(s, path) == 0);
        expect(tug_kvstore_barrier(s) == 0);
        expect(tug_kvstore_push(s, push, 1, 0) == 0);
    }
    expect(tug_kvstore_barrier(s) == 0);
    if (rank == 0) {
        refuse_states(s, path);
        unlink(path);
    }
    expect(tug_kvstore_close(s) == 0);
    return 0;
}

static void saved_states(void **state)
{
    (void)state;
    processes(serve, work_states);
    threads(serve, work_states);
}

// A worker is killed between rounds and started again: the new process takes the place of
// the dead worker.

enum { ROUNDS = 12, DIES_AT = 5 };

static void one_round(struct tug_kvstore *s, int step)
{
    static float w[2000], g[2000];
    struct tug_array a = {TUG_FLOAT32, false, 2000, 1, w, NULL, 0}, b = a;
    struct tug_kvstore_item item = {{.name = "w"}, &a}, push = {{.name = "w"}, &b};
    b.data = g;
    for (int i = 0; i < 2000; i++)
        g[i] = (float)number((int)tug_kvstore_rank(s), step, (size_t)i);
    expect(tug_kvstore_push(s, &push, 1, 0) == 0);
    expect(tug_kvstore_pull(s, &item, 1, 0) == 0);
    for (int i = 0; i < 2000; i++) {
        float sum = 0;
        for (int k = 0; k <= step; k++)
            for (int r = 0; r < NODES_WORKERS; r++)
                sum += (float)number(r, k, (size_t)i);
        expect(w[i] == sum);
    }
}

static int work_and_die(const char *scheduler)
{
    float zero[2000] = {0};
    struct tug_array a = {TUG_FLOAT32, false, 2000, 1, zero, NULL, 0};
    struct tug_kvstore_item item = {{.name = "w"}, &a};
    struct tug_kvstore *s = open_store("dist_sync", scheduler);
    uint64_t done;
    uint32_t dead;
    // For a worker that recovers, this only looks the key up.
    expect(tug_kvstore_init(s, &item, 1) == 0);
    expect(tug_kvstore_set_optimizer(s, "test") == 0);
    expect(tug_kvstore_rounds(s, &item.key, &done) == 0);
    expect(done == (tug_kvstore_recovers(s) ? DIES_AT : 0));
    for (int step = (int)done; step < ROUNDS; step++) {
        if (step == DIES_AT && tug_kvstore_rank(s) == 1 && !tug_kvstore_recovers(s))
            raise(SIGKILL);
        one_round(s, step);
    }
    expect(tug_kvstore_dead(s, TUG_GROUP_WORKERS, &dead) == 0 && dead == 0);
    expect(tug_kvstore_close(s) == 0);
    return 0;
}

static void killed_worker(void **state)
{
    char scheduler[NODES_ADDRESS];
    pid_t pids[NODES_PROCESSES];
    int n = NODES_PROCESSES, status, killed = 0;
    (void)state;
    nodes_start(schedule, serve, work_and_die, scheduler, pids);
    while (n > 0) {
        pid_t pid = wait(&status);
        assert_true(pid > 0);
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && killed++ == 0) {
            nodes_begin(work_and_die, scheduler);
            continue;
        }
        assert_int_equal(0, status);
        n--;
    }
    assert_int_equal(1, killed);
}

// A worker sends arbitrary messages in the protocol of stores: the servers refuse
// impossible ones, and continue to serve the other worker.

static uint32_t draw(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

static int answer_of(struct tug_app *a, int rc, const uint32_t *ts)
{
    expect(rc == 0);
    rc = tug_app_wait(a, *ts);
    expect(rc == 0 || rc == TUG_EDATA || rc == TUG_EUSAGE || rc == TUG_ENOMEM);
    return rc;
}

// The words of the request that makes key 3, which are also those of a push to key 3.
enum { HEAD = 16 }; // words before the values

static size_t right_words(uint32_t words[64])
{
    const uint32_t head[HEAD] = {[0] = TUG_FLOAT32, [2] = ROWS, [4] = WIDTH, [8] = 3};
    memset(words, 0, 64 * sizeof(*words));
    memcpy(words, head, sizeof(head));
    return HEAD + N;
}

// Builds the request of right_words with some words changed, and sometimes with another
// length.
static size_t draw_words(uint64_t *seed, uint32_t words[64])
{
    static const uint32_t likely[] = {0, 1, 3, 5, 15, 2, UINT32_MAX, 0x3f000000, 255};
    size_t n = right_words(words);
    for (uint32_t i = draw(seed) % 4; i > 0; i--)
        words[draw(seed) % 20] = likely[draw(seed) % (sizeof(likely) / sizeof(*likely))];
    if (draw(seed) % 4 == 0)
        n = draw(seed) % 64;
    for (size_t i = 0; i < n; i++) // keeps the pushed values finite
        if ((words[i] & 0x7f800000) == 0x7f800000)
            words[i] = 0xff7fffff;
    return n;
}

// Sends n values of value_bytes bytes each; 0 means 32-bit words.
static int send_values(struct tug_app *a, uint64_t key, int32_t cmd, bool pull,
                       const uint32_t *words, size_t n, uint32_t value_bytes)
{
    static _Thread_local float room[N];
    uint32_t ts;
    struct tug_kv_request q = {
        .push = true,
        .pull = pull,
        .cmd = cmd,
        .data = {&key, 1, (const float *)(const void *)words, n, NULL, value_bytes},
        .pulled = room,
        .n_pulled = N,
    };
    return answer_of(a, tug_kv_send(a, &q, &ts), &ts);
}

static int send_words(struct tug_app *a, uint64_t key, int32_t cmd, bool pull,
                      const uint32_t *words, size_t n)
{
    return send_values(a, key, cmd, pull, words, n, 0);
}

// Sends a request that is shorter than its header announces. A server that trusted the
// count of words would read past the end.
static void send_short(struct tug_app *a, uint64_t key)
{
    uint32_t words[64];
    size_t n = right_words(words);
    for (uint32_t bytes = 1; bytes <= 8; bytes *= 2)
        expect(send_values(a, key, 1, false, words, n, bytes) == TUG_EDATA);
}

// Pulls all rows of key 3 and one of them twice. The other worker may not have made the
// key yet.
static void pull_too_many_rows(struct tug_app *a, uint64_t key)
{
    uint32_t words[64] = {[0] = TUG_FLOAT32, [2] = ROWS, [4] = WIDTH, [6] = ROWS + 1};
    int rc = TUG_EUSAGE;
    for (int i = 0; i < 100000 && rc == TUG_EUSAGE; i++)
        rc = send_words(a, key, 6, false, words, HEAD + 2 * (ROWS + 1));
    expect(rc == TUG_EDATA && strstr(tug_last_error(), "a pull asks for"));
}

// A worker that enters the barrier again while it waits gets an error for each such
// request, and no memory leaks.
static void wait_twice(struct tug_app *a)
{
    enum { BARRIER = 5 };
    uint32_t first, again;
    expect(tug_app_request(a, BARRIER, NULL, 0, TUG_GROUP_SERVERS, &first) == 0);
    expect(tug_app_request(a, BARRIER, NULL, 0, TUG_GROUP_SERVERS, &again) == 0);
    expect(tug_app_wait(a, first) == TUG_EUSAGE);
    expect(strstr(tug_last_error(), "second time"));
}

static void say_anything(struct tug_app *a, uint64_t *seed, uint64_t key)
{
    uint32_t words[64], ts;
    size_t n = draw_words(seed, words);
    (void)send_words(a, draw(seed) % 8 == 0 ? key + 1 : key, (int32_t)(draw(seed) % 8),
                     draw(seed) % 2, words, n);
    int32_t head = (int32_t)(draw(seed) % 11);
    if (head == 1 || head == 2 || head == 5 ||
        head == 8) // replaces commands that change the mode or wait
        head = 10;
    (void)answer_of(a, tug_app_request(a, head, words, n * 4, TUG_GROUP_SERVERS, &ts),
                    &ts);
}

static uint64_t key_of_3(struct tug_node *n)
{
    const int64_t number = 3;
    uint64_t first, last, id = hash_bytes(&number, sizeof(number), 0) >> 16;
    expect(tug_node_range(n, (uint32_t)(id % NODES_SERVERS), &first, &last) == 0);
    return first + id;
}

static int work_beside(const char *scheduler)
{
    float w[N] = {0};
    struct tug_array a = {TUG_FLOAT32, false, ROWS, WIDTH, w, NULL, 0};
    struct tug_kvstore_item item = {{.number = 3}, &a};
    struct tug_kvstore *s = open_store("dist_async", scheduler);
    tug_kvstore_barrier_before_exit(s, false);
    expect(tug_kvstore_init(s, &item, 1) == 0);
    for (int i = 0; i < 200; i++)
        expect(tug_kvstore_pull(s, &item, 1, 0) == 0);
    expect(tug_kvstore_close(s) == 0);
    return 0;
}

static int speak(const char *scheduler)
{
    enum { STORES = 77 };
    const uint32_t hello[] = {1, NODES_WORKERS};
    struct tug_node_options o;
    struct tug_node *n;
    struct tug_app *a;
    uint32_t ts, words[64];
    nodes_options(&o, TUG_GROUP_WORKERS, scheduler);
    expect(tug_node_start(&n, &o) == 0);
    expect(tug_app_open(&a, n, STORES, STORES, NULL) == 0);
    expect(tug_app_request(a, 1, hello, 7, TUG_GROUP_SERVERS, &ts) == 0);
    expect(tug_app_wait(a, ts) == TUG_EDATA);
    expect(tug_app_request(a, 6, NULL, 0, TUG_GROUP_SERVERS, &ts) == 0);
    expect(tug_app_wait(a, ts) == TUG_EUSAGE && strstr(tug_last_error(), "hello"));
    expect(tug_app_request(a, 1, hello, 8, TUG_GROUP_SERVERS, &ts) == 0);
    expect(tug_app_wait(a, ts) == 0);
    uint64_t seed = 1, key = key_of_3(n);
    size_t right = right_words(words);
    bool first = tug_node_rank(n) == 0; // only rank 0 makes keys
    expect(send_words(a, key, 1, false, words, right) == (first ? 0 : TUG_EUSAGE));
    expect(send_words(a, key, 1, false, words, right - 1) ==
           (first ? TUG_EDATA : TUG_EUSAGE));
    send_short(a, key);
    pull_too_many_rows(a, key);
    for (int i = 0; i < 3000; i++)
        say_anything(a, &seed, key);
    wait_twice(a);
    return tug_node_finalize(n, false);
}

static atomic_int speakers;

static int speak_or_work(const char *scheduler)
{
    return atomic_fetch_add(&speakers, 1) == 0 ? speak(scheduler)
                                               : work_beside(scheduler);
}

static void garbage(void **state)
{
    (void)state;
    threads(serve, speak_or_work);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sync_processes), cmocka_unit_test(sync_threads),
        cmocka_unit_test(sliced),         cmocka_unit_test(whole),
        cmocka_unit_test(many),           cmocka_unit_test(optimized),
        cmocka_unit_test(async),          cmocka_unit_test(compressed),
        cmocka_unit_test(own_servers),    cmocka_unit_test(saved_states),
        cmocka_unit_test(killed_worker),  cmocka_unit_test(garbage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
