// See servers.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/servers.h"

#include "base/random.h"

unsigned tables_port, tables_loops;

void tables_start(unsigned servers)
{
    cluster_start("scheduler", "scheduler --servers %u --workers 0", servers);
    tables_port = cluster_port("scheduler");
    for (unsigned i = 0; i < servers; i++)
        cluster_start(files_path("server%u", i),
                      "server --scheduler 127.0.0.1:%u --loops %u --save-root . "
                      "--load-root /",
                      tables_port, tables_loops > 0 ? tables_loops : 1);
    cluster_await("scheduler", "all have joined");
}

void tables_stop(void)
{
    tug_ends(0, "stop --scheduler 127.0.0.1:%u", tables_port);
    cluster_none_left();
}

void tables_kill(unsigned servers)
{
    cluster_signal("scheduler", SIGKILL);
    for (unsigned i = 0; i < servers; i++)
        cluster_signal(files_path("server%u", i), SIGKILL);
    cluster_none_left();
}

void tables_admin(int code, const char *words, ...)
{
    char text[4096];
    va_list args;
    va_start(args, words);
    int n = vsnprintf(text, sizeof(text), words, args);
    va_end(args);
    assert_in_range(n, 1, sizeof(text) - 1);
    tug_ends(code, "table %s --scheduler 127.0.0.1:%u", text, tables_port);
}

void tables_need_disk(void)
{
    struct tug_client *one;
    struct tug_client_options o = {.local_loops = 1, .wait_seconds = CLUSTER_PATIENCE};
    tables_check(tug_client_open(&one, &o));
    bool missing = tug_table_create(one, 0, "name=t;cold=t") != 0 &&
                   strstr(tug_last_error(), "librocksdb-dev") != NULL;
    tables_check(tug_client_close(one));
    if (missing)
        skip_because("built without RocksDB: librocksdb-dev");
}

void tables_check(int rc)
{
    if (rc != 0)
        cluster_fail("%s", tug_last_error());
}

struct tug_client *tables_client(void)
{
    char address[64];
    struct tug_client *c;
    snprintf(address, sizeof(address), "127.0.0.1:%u", tables_port);
    struct tug_client_options o = {
        .scheduler = address, .guest = true, .wait_seconds = CLUSTER_PATIENCE};
    tables_check(tug_client_open(&c, &o));
    return c;
}

void tables_push_from(struct tug_client *c, uint32_t table, uint64_t first, uint64_t seed,
                      size_t n)
{
    uint64_t *keys = mem_array(n, sizeof(*keys)), ts;
    float *values = mem_array(n * TABLES_PUSH, sizeof(*values));
    assert_true(keys != NULL && values != NULL);
    for (size_t i = 0; i < n; i++) {
        float *v = values + i * TABLES_PUSH, skewed = random_f32(seed, 1, i);
        keys[i] = first + (uint64_t)(skewed * skewed * TABLES_KEYS);
        for (size_t k = 0; k <= TABLES_DIM; k++)
            v[k] = random_f32(seed, 2, i * TABLES_PUSH + k) - 0.5f;
        v[1 + TABLES_DIM] = 1;
        v[2 + TABLES_DIM] = random_f32(seed, 3, i) < 0.1f;
        v[3 + TABLES_DIM] = (float)(keys[i] % 10);
    }
    tables_check(tug_push(c, table, keys, n, values, NULL, NULL, &ts));
    tables_check(tug_wait(c, ts, 0));
    mem_free(keys);
    mem_free(values);
}

void tables_push(struct tug_client *c, uint32_t table, uint64_t seed, size_t n)
{
    tables_push_from(c, table, 0, seed, n);
}

void tables_same_files(const char *a, const char *b)
{
    size_t size = 0;
    mem_free(files_read(a, &size));
    if (size == 0)
        cluster_fail("%s is missing or empty", a);
    if (!files_same(a, b))
        cluster_fail("%s and %s differ", a, b);
}
