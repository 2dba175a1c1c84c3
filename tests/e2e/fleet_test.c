// Fleets (tug/fleet.h): two servers and two workers as real processes with Paddle's
// environment variables, the same as threads of one process with a role maker of the
// program, and a worker alone. The same checks compare all of them with plain arithmetic.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "base/alloc.h"
#include "kit/command.h"
#include "kit/nodes.h"
#include "kit/ports.h"
#include "tug/fleet.h"

enum { SERVERS = 2, WORKERS = 2, PROCESSES = SERVERS + WORKERS };
enum { SPARSE = 0, DENSE = 7, DIM = 2, KEYS = 50, PUSH = 1 + DIM + 3, PULL = 3 + DIM };
enum { FLOATS = 5 + 3, LONG = 70000 };

#define refused(call, why)                                                               \
    expect((call) == TUG_EUSAGE && strstr(tug_last_error(), why) != NULL)

static const struct tug_variable variables[] = {
    {.name = "w", .n = 5, .init = "constant:0.5"},
    {.name = "b", .n = 3, .init = "constant:-1"},
};
static const struct tug_fleet_table tables[] = {
    {.number = SPARSE,
     .name = "emb",
     .settings = "accessor=ctr;dim=2;embedx-threshold=0;rule=sgd:lr=0.5;"
                 "embedx-rule=sgd:lr=0.5;base-threshold=0;delta-threshold=0"},
    {.number = DENSE,
     .name = "fc",
     .settings = "accessor=plain;dim=4;rule=sgd:lr=1",
     .variables = variables,
     .n_variables = 2},
};

// ---------------------------------------------------------------- roles

struct part {
    int role;
    uint32_t index;
    uint16_t ports[SERVERS];
    bool by_environment, all_first; // all_first: every worker claims to be worker 0
    void (*server)(struct tug_fleet *f);
    void (*worker)(struct tug_fleet *f);
};

static struct tug_role_maker *of_environment(const struct part *p)
{
    char list[96], port[32], id[32];
    struct tug_role_maker *m;
    snprintf(list, sizeof(list), "PADDLE_PSERVERS_IP_PORT_LIST=127.0.0.1:%u,127.0.0.1:%u",
             p->ports[0], p->ports[1]);
    snprintf(port, sizeof(port), "PADDLE_PORT=%u", p->ports[p->index]);
    snprintf(id, sizeof(id), "PADDLE_TRAINER_ID=%u", p->index);
    const char *environment[] = {list,
                                 "PADDLE_TRAINERS_NUM=2",
                                 p->role == TUG_FLEET_SERVER ? "TRAINING_ROLE=PSERVER"
                                                             : "TRAINING_ROLE=TRAINER",
                                 "POD_IP=127.0.0.1",
                                 port,
                                 id,
                                 NULL};
    expect(tug_role_maker_cloud(&m, environment) == 0);
    return m;
}

static struct tug_role_maker *of_program(const struct part *p)
{
    char ends[SERVERS][32];
    const char *all[] = {ends[0], ends[1]};
    struct tug_role_maker *m;
    for (int i = 0; i < SERVERS; i++)
        snprintf(ends[i], sizeof(ends[i]), "127.0.0.1:%u", p->ports[i]);
    struct tug_role_maker_options o = {
        .role = p->role,
        .current_id = p->index,
        // Workers learn the number of workers from the servers.
        .worker_num = p->role == TUG_FLEET_SERVER ? WORKERS : 0,
        .server_endpoints = all,
        .n_server_endpoints = SERVERS,
    };
    expect(tug_role_maker_user(&m, &o) == 0);
    return m;
}

static int run(const struct part *p)
{
    struct tug_role_maker *m = p->by_environment ? of_environment(p) : of_program(p);
    struct tug_fleet_options o = {
        .roles = m, .tables = tables, .n_tables = 2, .wait_seconds = 60};
    struct tug_fleet *f;
    expect(tug_fleet_init(&f, &o) == 0);
    tug_role_maker_close(m);
    expect(tug_fleet_is_server(f) == (p->role == TUG_FLEET_SERVER));
    expect(tug_fleet_is_worker(f) != tug_fleet_is_server(f));
    if (tug_fleet_is_server(f))
        p->server(f);
    else
        p->worker(f);
    tug_fleet_close(f);
    return 0;
}

// ------------------------------------------------------ running all processes of a fleet

static void make_parts(struct part parts[PROCESSES], const struct part *like)
{
    struct part p = *like;
    unsigned ports[SERVERS];
    ports_free(ports, SERVERS);
    for (int i = 0; i < SERVERS; i++)
        p.ports[i] = (uint16_t)ports[i];
    for (uint32_t i = 0; i < PROCESSES; i++) {
        parts[i] = p;
        parts[i].role = i < SERVERS ? TUG_FLEET_SERVER : TUG_FLEET_WORKER;
        parts[i].index = i < SERVERS ? i : p.all_first ? 0 : i - SERVERS;
    }
}

static void as_processes(void (*server)(struct tug_fleet *),
                         void (*worker)(struct tug_fleet *))
{
    struct part parts[PROCESSES];
    pid_t pids[PROCESSES];
    make_parts(parts, &(struct part){
                          .by_environment = true, .server = server, .worker = worker});
    for (int i = 0; i < PROCESSES; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) {
            alarm(100); // ends the process if something hangs
            _exit(run(&parts[i]));
        }
    }
    for (int i = 0, status; i < PROCESSES; i++) {
        assert_int_equal(pids[i], waitpid(pids[i], &status, 0));
        assert_int_equal(0, status);
    }
}

static void *run_thread(void *arg)
{
    (void)run(arg);
    return NULL;
}

static void as_threads_like(const struct part *like)
{
    struct part parts[PROCESSES];
    pthread_t ids[PROCESSES];
    make_parts(parts, like);
    for (int i = 0; i < PROCESSES; i++)
        assert_int_equal(0, pthread_create(&ids[i], NULL, run_thread, &parts[i]));
    for (int i = 0; i < PROCESSES; i++)
        pthread_join(ids[i], NULL);
}

static void as_threads(void (*server)(struct tug_fleet *),
                       void (*worker)(struct tug_fleet *))
{
    as_threads_like(&(struct part){.server = server, .worker = worker});
}

// ------------------------------------------------------------- the functions of a server

static void serve(struct tug_fleet *f)
{
    uint32_t index = tug_fleet_server_index(f);
    uint16_t port = 0;
    expect(index < SERVERS && tug_fleet_worker_index(f) == UINT32_MAX);
    expect(tug_fleet_worker_num(f) == WORKERS && tug_fleet_server_num(f) == SERVERS);
    expect(!tug_fleet_is_first_worker(f) && tug_fleet_client(f) == NULL);
    refused(tug_fleet_init_worker(f), "is for workers, and this process is server");
    refused(tug_fleet_barrier_worker(f), "call tug_fleet_init_worker first");
    refused(tug_fleet_init_server(f, NULL, (const char *[]){"emb"}, 1), "no directory");
    refused(tug_fleet_init_server(f, "/tmp", (const char *[]){"nosuch"}, 1), "'nosuch'");
    refused(tug_wrapper_load_sparse(f, 3, "/tmp"), "table 3");
    expect(tug_fleet_init_server(f, NULL, NULL, 0) == 0);
    if (index == 0) {
        refused(tug_fleet_run_server(f, "127.0.0.1", 1),
                "where the other processes connect");
        expect(tug_fleet_run_server(f, NULL, 0) == 0);
        return;
    }
    port = (uint16_t)strtoul(strrchr(tug_fleet_server_endpoint(f, 1), ':') + 1, NULL, 10);
    expect(tug_fleet_run_server(f, "127.0.0.1", port) == 0);
}

// -------------------------------------------------- collective operations of the workers

static void reduce(struct tug_fleet *f)
{
    uint32_t me = tug_fleet_worker_index(f), n = tug_fleet_worker_num(f);
    double x[3] = {me + 0.1, -(double)me, 1e300}, *many;
    int64_t y[2] = {(int64_t)me - 5, INT64_MAX};
    expect(tug_fleet_all_reduce(f, x, 2, TUG_FLEET_SUM) == 0);
    expect(x[0] == (n == 2 ? 0.1 + 1.1 : 0.1) && x[1] == -(double)(n - 1));
    x[0] = me;
    x[1] = NAN;
    expect(tug_fleet_all_reduce(f, x, 3, TUG_FLEET_MAX) == 0);
    expect(x[0] == n - 1 && isnan(x[1]) && x[2] == 1e300);
    x[0] = -(double)me;
    expect(tug_fleet_all_reduce(f, x, 1, TUG_FLEET_MIN) == 0 && x[0] == -(double)(n - 1));
    expect(tug_fleet_all_reduce_whole(f, y, 1, TUG_FLEET_SUM) == 0);
    expect(y[0] == (n == 2 ? -9 : -5));
    int rc = tug_fleet_all_reduce_whole(f, y + 1, 1, TUG_FLEET_SUM);
    expect(n == 1 ? rc == 0 : rc == TUG_EUSAGE && y[1] == INT64_MAX);
    refused(tug_fleet_all_reduce(f, x, 1, (enum tug_fleet_reduce)9), "how: 9");
    expect(tug_fleet_all_reduce(f, x, 0, TUG_FLEET_SUM) == 0);
    many = mem_zalloc((LONG + WORKERS) * sizeof(*many));
    expect(many != NULL);
    for (size_t i = 0; i < LONG; i++)
        many[i] = (double)i * (me + 1);
    expect(tug_fleet_all_reduce(f, many, LONG, TUG_FLEET_SUM) == 0);
    for (size_t i = 0; i < LONG; i++)
        expect(many[i] == (double)i * (n == 2 ? 3 : 1));
    if (n == 2) { // the workers' arrays have different lengths
        refused(tug_fleet_all_reduce(f, many, LONG + me, TUG_FLEET_SUM), "numbers");
        refused(tug_fleet_all_reduce(f, many, 1 + me, TUG_FLEET_SUM), "different calls");
    }
    mem_free(many);
}

static void gather(struct tug_fleet *f)
{
    uint32_t me = tug_fleet_worker_index(f), n = tug_fleet_worker_num(f);
    unsigned char mine[300], all[WORKERS * 300];
    size_t first, some;
    for (size_t round = 0; round < 3; round++) {
        size_t bytes = round == 0 ? 300 : round * 7;
        for (size_t i = 0; i < bytes; i++)
            mine[i] = (unsigned char)(i * 5 + me * 91 + round);
        expect(tug_fleet_all_gather(f, mine, bytes, all) == 0);
        for (size_t i = 0; i < n * bytes; i++)
            expect(all[i] == (unsigned char)(i % bytes * 5 + i / bytes * 91 + round));
    }
    const char *files[] = {"c", "a", "b"}, *twice[] = {"a", "b", "a"};
    expect(tug_fleet_get_file_shard(f, files, 3, &first, &some) == 0);
    expect(n == 1 ? first == 0 && some == 3 : first == me * 2 && some == 2 - me);
    expect(strcmp(files[0], "a") == 0 && strcmp(files[2], "c") == 0);
    refused(tug_fleet_get_file_shard(f, twice, 3, &first, &some), "a is listed twice");
    expect(tug_fleet_get_file_shard(f, files, 0, &first, &some) == 0 && some == 0);
}

static void clients(struct tug_fleet *f)
{
    uint32_t n = tug_fleet_worker_num(f);
    char mine[TUG_CLIENT_INFO_MAX] = "", all[WORKERS][TUG_CLIENT_INFO_MAX];
    const char *infos[WORKERS] = {all[0], all[1]};
    refused(tug_wrapper_create_client2client_connection(f), "tug_wrapper_set_clients");
    expect(tug_wrapper_get_client_info(f, mine) == 0);
    expect(tug_fleet_all_gather(f, mine, sizeof(mine), all) == 0);
    refused(tug_wrapper_set_clients(f, infos, n + 1), "of");
    expect(tug_wrapper_set_clients(f, infos, n) == 0);
    expect(tug_wrapper_create_client2client_connection(f) == 0);
    snprintf(all[0], sizeof(all[0]), "somebody");
    expect(tug_wrapper_set_clients(f, infos, n) == 0);
    refused(tug_wrapper_create_client2client_connection(f), "'somebody'");
}

// ---------------------------------------------------------------- dense and sparse rows

static void dense(struct tug_fleet *f)
{
    float x[FLOATS], want[FLOATS];
    for (int i = 0; i < FLOATS; i++)
        want[i] = i < 5 ? 0.5f : -1;
    expect(tug_wrapper_pull_dense_params(f, DENSE, x, FLOATS) == 0);
    expect(memcmp(x, want, sizeof(x)) == 0);
    refused(tug_wrapper_pull_dense_params(f, DENSE, x, 3), "have 8 floats, not 3");
    refused(tug_wrapper_push_dense_params(f, SPARSE, x, FLOATS), "is sparse");
    expect(tug_fleet_barrier_worker(f) == 0);
    for (int i = 0; i < FLOATS; i++)
        want[i] = (float)i;
    if (tug_fleet_is_first_worker(f))
        expect(tug_wrapper_push_dense_params(f, DENSE, want, FLOATS) == 0);
    expect(tug_fleet_barrier_worker(f) == 0);
    expect(tug_wrapper_pull_dense_params(f, DENSE, x, FLOATS) == 0);
    expect(memcmp(x, want, sizeof(x)) == 0);
    expect(tug_fleet_barrier_worker(f) == 0);
}

// Dense rows have four floats: w begins with key 0, b with key 2.
static void communicate(struct tug_fleet *f)
{
    uint32_t n = tug_fleet_worker_num(f);
    struct tug_communicator *m, *other;
    const uint64_t keys[] = {0, 2};
    const float gradients[8] = {1, 1, 1, 1, 2, 2, 2, 2};
    float x[FLOATS];
    expect(tug_fleet_communicator(f, NULL, 0, &m) == 0);
    refused(tug_fleet_communicator(f, NULL, 0, &other), "already");
    expect(!tug_communicator_is_running(m));
    expect(tug_communicator_start(m) == 0 && tug_communicator_is_running(m));
    for (int i = 0; i < 10; i++)
        expect(tug_communicator_send(m, DENSE, keys, 2, gradients, 0) == 0);
    // The values contain this worker's pushes.
    expect(tug_fleet_recv(f, DENSE, x, FLOATS) == 0);
    expect(x[0] <= -10 && x[5] <= 5 - 20);
    expect(tug_fleet_barrier_worker(f) == 0);
    expect(tug_fleet_recv(f, DENSE, x, FLOATS) == 0);
    expect(x[0] == -10 * (float)n && x[4] == 4 && x[5] == 5 - 20 * (float)n);
    expect(tug_communicator_stop(m, 0) == 0 && !tug_communicator_is_running(m));
    expect(tug_fleet_barrier_worker(f) == 0);
}

// Each worker pushes one show for half of the keys; together they push all keys once.
static void push(struct tug_fleet *f)
{
    uint64_t keys[KEYS], ts;
    float rows[KEYS * PUSH];
    uint32_t n = tug_fleet_worker_num(f), me = tug_fleet_worker_index(f);
    size_t some = 0;
    for (uint64_t k = me; k < KEYS; k += n) {
        float *row = rows + some * PUSH;
        for (int i = 0; i < PUSH; i++)
            row[i] = i < 1 + DIM ? (float)k : 0;
        row[1 + DIM] = 1; // show
        keys[some++] = k;
    }
    struct tug_client *c = tug_fleet_client(f);
    expect(tug_push(c, SPARSE, keys, some, rows, NULL, NULL, &ts) == 0);
    expect(tug_wait(c, ts, 0) == 0);
    expect(tug_fleet_barrier_worker(f) == 0);
}

static void check_rows(struct tug_fleet *f, bool there)
{
    uint64_t keys[KEYS], ts;
    float rows[KEYS * PULL];
    struct tug_client *c = tug_fleet_client(f);
    for (uint64_t k = 0; k < KEYS; k++)
        keys[k] = k;
    expect(tug_pull(c, SPARSE, keys, KEYS, rows, NULL, NULL, &ts) == 0);
    expect(tug_wait(c, ts, 0) == 0);
    for (uint64_t k = 0; k < KEYS; k++) {
        expect(rows[k * PULL] == (there ? 1 : 0)); // show
        expect(rows[k * PULL + 2] == (there ? -0.5f * (float)k : 0));
    }
}

static uint64_t rows_of(struct tug_fleet *f, uint32_t table)
{
    struct tug_table_stats s;
    expect(tug_wrapper_sparse_table_stat(f, table, &s) == 0);
    return s.rows;
}

// Worker 0 alone writes the table to a file and checks the lines.
static void dump(struct tug_fleet *f, const char *mode)
{
    char file[64], line[256];
    size_t lines = 0;
    snprintf(file, sizeof(file), "rows-%s.txt", mode);
    expect(tug_wrapper_recv_and_save_model(f, SPARSE, file) == 0);
    FILE *in = fopen(file, "r");
    expect(in != NULL);
    while (fgets(line, sizeof(line), in) != NULL)
        lines += line[0] != '#';
    fclose(in);
    expect(lines >= KEYS);
}

static void save(struct tug_fleet *f)
{
    char path[4096] = "x";
    bool first = tug_fleet_is_first_worker(f);
    refused(tug_fleet_save_persistables(f, "m", (enum tug_fleet_mode)5, path), "mode: 5");
    refused(tug_fleet_save_one_table(f, 1, "m", TUG_FLEET_ALL, path), "table 1");
    expect(tug_fleet_save_persistables(f, "model", TUG_FLEET_ALL, path) == 0);
    expect(first == (path[0] != '\0'));
    expect(tug_fleet_save_one_table(f, DENSE, "one", TUG_FLEET_ALL, NULL) == 0);
    if (first) {
        expect(access("model/save-000001", F_OK) == 0 && strstr(path, "save-000001"));
        expect(tug_wrapper_save_all_model(f, "other", TUG_FLEET_BASE, NULL) == 0);
        expect(tug_wrapper_save_one_model(f, SPARSE, "other", TUG_FLEET_DELTA, path) ==
               0);
        expect(strstr(path, "other/save-000002") != NULL);
        dump(f, tug_fleet_worker_num(f) == 1 ? "alone" : "two");
    }
    expect(tug_fleet_barrier_worker(f) == 0);
}

static void shrink_and_load(struct tug_fleet *f)
{
    uint64_t removed;
    bool first = tug_fleet_is_first_worker(f);
    float x[FLOATS] = {0}, zeros[FLOATS] = {0};
    refused(tug_wrapper_shrink_sparse_table(f, DENSE, NAN, &removed),
            "only rows of sparse tables can shrink");
    expect(tug_fleet_shrink(f, 1000, &removed) == 0 && removed == KEYS);
    expect(rows_of(f, SPARSE) == 0);
    check_rows(f, false);
    expect(tug_fleet_load_one_table(f, SPARSE, "model") == 0);
    expect(rows_of(f, SPARSE) == KEYS);
    check_rows(f, true);
    expect(tug_fleet_barrier_worker(f) == 0);
    if (first) {
        expect(tug_wrapper_shrink_sparse_table(f, SPARSE, 1000, &removed) == 0);
        expect(removed == KEYS);
        expect(tug_wrapper_load_one_table(f, SPARSE, "model") == 0);
        expect(tug_wrapper_push_dense_params(f, DENSE, zeros, FLOATS) == 0);
    }
    expect(tug_fleet_load_model(f, "model") == 0);
    expect(tug_wrapper_pull_dense_params(f, DENSE, x, FLOATS) == 0 && x[4] == 4);
    check_rows(f, true);
    expect(tug_fleet_load_model(f, "nosuch") == TUG_EDATA);
    expect(strstr(tug_last_error(), "nosuch") != NULL);
    expect(first == (strstr(tug_last_error(), "worker 0 could not load") == NULL));
    if (first) {
        expect(tug_wrapper_load_model(f, "model") == 0);
        expect(tug_wrapper_load_model(f, "nosuch") == TUG_EDATA);
    }
    expect(tug_fleet_barrier_worker(f) == 0);
}

static void work(struct tug_fleet *f)
{
    bool alone = tug_fleet_server_endpoint(f, 0) == NULL;
    refused(tug_fleet_run_server(f, NULL, 0), "is for servers");
    refused(tug_fleet_stop_worker(f), "call tug_fleet_init_worker first");
    refused(tug_fleet_save_persistables(f, "model", TUG_FLEET_ALL, NULL), "first");
    expect(tug_fleet_init_worker(f) == 0);
    refused(tug_fleet_init_worker(f), "already");
    expect(tug_fleet_worker_num(f) == (alone ? 1 : WORKERS));
    expect(tug_fleet_server_num(f) == (alone ? 1 : SERVERS));
    expect(tug_fleet_is_first_worker(f) == (tug_fleet_worker_index(f) == 0));
    expect(tug_fleet_worker_endpoint(f, 0) == NULL);
    reduce(f);
    gather(f);
    clients(f);
    dense(f);
    communicate(f);
    push(f);
    check_rows(f, true);
    save(f);
    shrink_and_load(f);
    expect(tug_fleet_stop_worker(f) == 0);
    expect(tug_fleet_client(f) == NULL);
}

// --------------------------------------------------- servers load a save when they start

static void serve_dense(struct tug_fleet *f)
{
    expect(tug_fleet_init_server(f, "model", (const char *[]){"fc"}, 1) == 0);
    expect(tug_fleet_run_server(f, NULL, 0) == 0);
}

static void find_dense(struct tug_fleet *f)
{
    float x[FLOATS];
    expect(tug_fleet_init_worker(f) == 0);
    expect(tug_wrapper_pull_dense_params(f, DENSE, x, FLOATS) == 0 && x[4] == 4);
    expect(rows_of(f, SPARSE) == 0);
    expect(tug_fleet_stop_worker(f) == 0);
}

static void serve_sparse(struct tug_fleet *f)
{
    expect(tug_wrapper_load_sparse(f, SPARSE, "model") == 0);
    expect(tug_fleet_run_server(f, NULL, 0) == 0);
}

static void find_sparse(struct tug_fleet *f)
{
    float x[FLOATS];
    expect(tug_fleet_init_worker(f) == 0);
    check_rows(f, true);
    expect(tug_wrapper_pull_dense_params(f, DENSE, x, FLOATS) == 0 && x[4] == 0.5f);
    expect(tug_fleet_stop_worker(f) == 0);
}

static void serve_all(struct tug_fleet *f)
{
    expect(tug_fleet_init_server(f, "model", NULL, 0) == 0);
    int rc = tug_fleet_run_server(f, NULL, 0); // returns when a worker stops the servers
    expect(rc == TUG_EINTERRUPTED &&
           strstr(tug_last_error(), "worker 1 stopped") != NULL);
}

static void find_all(struct tug_fleet *f)
{
    float x[FLOATS];
    expect(tug_fleet_init_worker(f) == 0);
    check_rows(f, true);
    expect(tug_wrapper_pull_dense_params(f, DENSE, x, FLOATS) == 0 && x[4] == 4);
    expect(tug_fleet_barrier_worker(f) == 0);
    if (tug_fleet_worker_index(f) == 1)
        expect(tug_wrapper_stop_server(f) == 0);
    else // the other worker has not reached this barrier
        (void)tug_fleet_barrier_worker(f);
}

static void serve_missing(struct tug_fleet *f)
{
    expect(tug_fleet_init_server(f, "empty", NULL, 0) == 0);
    expect(tug_fleet_run_server(f, NULL, 0) != 0);
    expect(tug_fleet_server_index(f) != 0 || strstr(tug_last_error(), "empty") != NULL);
}

static void find_nothing(struct tug_fleet *f)
{
    expect(tug_fleet_init_worker(f) != 0);
    expect(strstr(tug_last_error(), "server 0 could not load") != NULL);
    expect(tug_fleet_client(f) == NULL);
}

// Runs the servers for the tests one_leaves and be_another. In be_another, two processes
// both claim to be worker 0, and both are refused.
static void serve_two(struct tug_fleet *f)
{
    expect(tug_fleet_run_server(f, NULL, 0) == 0);
}

static void be_another(struct tug_fleet *f)
{
    refused(tug_fleet_init_worker(f), "DMLC_WORKER_ID");
    expect(tug_fleet_client(f) == NULL);
}

// The other workers do not wait for a worker that has left, and the bytes that it gave to an
// earlier operation do not count in the current one.
static void one_leaves(struct tug_fleet *f)
{
    enum { BYTES = 1000 };
    char mine[BYTES] = "x", all[WORKERS * BYTES];
    double x = 1;
    expect(tug_fleet_init_worker(f) == 0);
    expect(tug_fleet_all_gather(f, mine, BYTES, all) == 0 && all[BYTES] == 'x');
    if (tug_fleet_worker_index(f) == 0) {
        expect(tug_fleet_all_gather(f, mine, BYTES, all) == TUG_EIO);
        expect(strstr(tug_last_error(), "worker 1 took no part in") != NULL);
        expect(tug_fleet_all_reduce(f, &x, 1, TUG_FLEET_SUM) == TUG_EIO && x == 1);
    }
    expect(tug_fleet_stop_worker(f) == 0);
}

static atomic_bool met;

// A callback calls a collective operation, which is refused; the run continues.
static void meet(void *ctx, uint64_t timestamp, int rc)
{
    double x = 2;
    char all[1] = {0};
    (void)timestamp;
    assert_int_equal(0, rc);
    assert_int_equal(TUG_EUSAGE, tug_fleet_all_reduce(ctx, &x, 1, TUG_FLEET_SUM));
    assert_int_equal(TUG_EUSAGE, tug_fleet_all_gather(ctx, all, 1, all));
    assert_non_null(strstr(tug_last_error(), "a callback must not wait"));
    assert_true(x == 2);
    atomic_store(&met, true);
}

static void pull_and_meet(struct tug_fleet *f, struct tug_client *c)
{
    const uint64_t key = 1;
    float row[2];
    uint64_t ts;
    assert_int_equal(0, tug_table_create(c, 1, "dim = 2"));
    assert_int_equal(0, tug_pull(c, 1, &key, 1, row, meet, f, &ts));
    while (!atomic_load(&met))
        assert_int_equal(0, tug_barrier(c)); // callbacks run while the barrier waits
    atomic_store(&met, false);
}

// The fleet uses a client that the program owns, and leaves it open.
static void client_of_the_program(void **state)
{
    (void)state;
    struct tug_role_maker *m;
    struct tug_client *c;
    struct tug_fleet *f;
    int64_t x = 7;
    assert_int_equal(0,
                     tug_client_open(&c, &(struct tug_client_options){.local_loops = 1}));
    assert_int_equal(0, tug_role_maker_user(&m, &(struct tug_role_maker_options){
                                                    .role = TUG_FLEET_WORKER}));
    struct tug_fleet_options o = {.roles = m, .client = c};
    for (int again = 0; again < 2; again++) {
        assert_int_equal(0, tug_fleet_init(&f, &o));
        assert_int_equal(0, tug_fleet_init_worker(f));
        assert_ptr_equal(c, tug_fleet_client(f));
        assert_int_equal(0, tug_fleet_all_reduce_whole(f, &x, 1, TUG_FLEET_SUM));
        assert_int_equal(7, x);
        pull_and_meet(f, c);
        assert_int_equal(0, tug_fleet_all_reduce_whole(f, &x, 1, TUG_FLEET_SUM));
        tug_fleet_close(f);
        assert_int_equal(0, tug_barrier(c));
    }
    tug_role_maker_close(m);
    assert_int_equal(0, tug_client_close(c));
}

static void clean(void)
{
    assert_int_equal(0, system("rm -rf model one other empty rows-*.txt; mkdir empty"));
}

static void alone(void **state)
{
    (void)state;
    clean();
    struct tug_role_maker *m;
    assert_int_equal(0, tug_role_maker_user(&m, &(struct tug_role_maker_options){
                                                    .role = TUG_FLEET_WORKER}));
    struct tug_fleet_options o = {.roles = m,
                                  .tables = tables,
                                  .n_tables = 2,
                                  .wait_seconds = 60,
                                  .local_loops = 2};
    struct tug_fleet *f;
    assert_int_equal(0, tug_fleet_init(&f, &o));
    tug_role_maker_close(m);
    work(f);
    // A worker that has stopped can start again; closing the fleet stops it.
    assert_int_equal(0, tug_fleet_init_worker(f));
    tug_fleet_close(f);
    tug_fleet_close(NULL);
}

static void options(void **state)
{
    (void)state;
    struct tug_role_maker *m;
    struct tug_fleet *f;
    assert_int_equal(0, tug_role_maker_user(&m, &(struct tug_role_maker_options){
                                                    .role = TUG_FLEET_WORKER}));
    struct tug_fleet_table two[] = {{.number = 1, .name = "a"},
                                    {.number = 1, .name = "b"}};
    struct tug_fleet_options o = {.roles = m, .tables = two, .n_tables = 2};
    assert_int_equal(TUG_EUSAGE, tug_fleet_init(&f, &o));
    two[1] = (struct tug_fleet_table){.number = 2, .name = "a"};
    assert_int_equal(TUG_EUSAGE, tug_fleet_init(&f, &o));
    two[1] = (struct tug_fleet_table){.number = 4096, .name = "b"};
    assert_int_equal(TUG_EUSAGE, tug_fleet_init(&f, &o));
    two[1] = (struct tug_fleet_table){.number = 2, .name = "b", .settings = "nosuch=1"};
    assert_int_equal(0, tug_fleet_init(&f, &o));
    assert_int_equal(TUG_EUSAGE, tug_fleet_init_worker(f));
    assert_non_null(strstr(tug_last_error(), "nosuch"));
    tug_fleet_close(f);
    tug_role_maker_close(m);
}

static void processes(void **state)
{
    (void)state;
    clean();
    as_processes(serve, work);
    as_processes(serve_dense, find_dense);
    as_processes(serve_sparse, find_sparse);
    as_processes(serve_all, find_all);
    as_processes(serve_missing, find_nothing);
}

static void threads(void **state)
{
    (void)state;
    clean();
    as_threads(serve, work);
    as_threads(serve_dense, find_dense);
    as_threads(serve_sparse, find_sparse);
    as_threads(serve_all, find_all);
    as_threads(serve_missing, find_nothing);
    as_threads(serve_two, one_leaves);
    as_threads_like(
        &(struct part){.server = serve_two, .worker = be_another, .all_first = true});
}

static int begin(void **state)
{
    int rc = e2e_begin(state);
    char here[4096];
    if (rc == 0 && getcwd(here, sizeof(here)) != NULL)
        rc = setenv("TUG_SAVE_ROOT", here, 1) + setenv("TUG_WAIT_SECONDS", "60", 1);
    return rc;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alone),
        cmocka_unit_test(options),
        cmocka_unit_test(client_of_the_program),
        cmocka_unit_test(threads),
        cmocka_unit_test(processes),
    };
    return cmocka_run_group_tests(tests, begin, e2e_end);
}
