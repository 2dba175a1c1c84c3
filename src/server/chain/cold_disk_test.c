// Members of chains whose rows on disk are damaged: no wrong row is answered. A backup leaves
// the chains of a record that it cannot apply, and a primary those of a request that it cannot
// serve, and another member leads.
//
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kit/files.h"
#include "kit/replicas.h"
#include "kit/tiers.h"
#include "server/rows/tables.h"
#include "server/saves/roots.h"
#include "server/shard_internal.h"
#include "store/cold.h"

static struct roots *roots;

// Opens chains of two servers with a table whose rows that are not in use are on disk.
static struct replicas *open_on_disk(uint64_t seed)
{
    OK(roots_open(&roots, &(struct roots_options){.cold = files_dir}, &ok_e));
    struct shard_options o = {.roots = roots};
    struct replicas *w = replicas_open(seed, 2, 2, 1, &o);
    replicas_make_spec(w, CONFIG_ASYNC, 1);
    snprintf(w->spec.config.cold, sizeof(w->spec.config.cold), "rows");
    w->spec.config.hot_rows = 1;
    replicas_make_table(w);
    return w;
}

static void close_on_disk(struct replicas *w)
{
    replicas_close(w);
    roots_close(roots);
}

static void use_all(struct replicas *w, bool pull)
{
    for (uint32_t key = 0; key < REPLICAS_KEYS; key++)
        replicas_add_op(w, pull, &key, 1);
}

static void flip(const char *path)
{
    char bytes[1 << 12];
    int fd = open(path, O_RDWR);
    ssize_t n = fd >= 0 ? pread(fd, bytes, sizeof(bytes), 0) : -1;
    assert_true(n > 0);
    for (ssize_t i = 0; i < n; i += 16)
        bytes[i] ^= 4;
    assert_int_equal(pwrite(fd, bytes, (size_t)n, 0), n);
    close(fd);
}

// Flips bits in all files with rows of a server.
static void damage(struct replicas *w, uint32_t server)
{
    struct store *s = w->servers[server].shard->tables[REPLICAS_TABLE]->store;
    char names[64][64], dir[FILE_PATH_MAX];
    unsigned flipped = 0;
    for (uint32_t p = 0; p < REPLICAS_PARTITIONS; p++)
        OK(cold_demote(s, p, &ok_e));
    OK(cold_write_waiting(s->cold, &ok_e));
    OK(tier_flush(s->cold->tier, &ok_e));
    assert_int_equal(store_stats(s).rows, 0);
    OK(file_join(dir, s->cold->dir, "rows", &ok_e));
    size_t n = files_list(dir, names, 64);
    for (size_t i = 0; i < n; i++) {
        if (strstr(names[i], ".sst") == NULL)
            continue;
        flip(files_path("%s/%s", dir, names[i]));
        flipped++;
    }
    assert_true(flipped > 0);
}

// The server leaves its chains, and then all requests succeed. The worker checks that pulls
// return all pushes.
static void check_out(struct replicas *w, uint32_t server)
{
    REPLICAS_UNTIL(w, w->out == replicas_id(server));
    assert_int_equal(w->out_code, TUG_ENOMEM); // so another loop is filled
    assert_non_null(strstr(w->out_why, "cannot read rows in"));
    assert_false(replicas_all_done(w));
    replicas_take_out(w, server);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    use_all(w, true);
    REPLICAS_UNTIL(w, replicas_all_done(w));
}

static void test_primary(void **state)
{
    (void)state;
    for (uint64_t pull = 0; pull < 2; pull++) {
        struct replicas *w = open_on_disk(pull);
        use_all(w, false);
        REPLICAS_UNTIL(w, replicas_all_done(w));
        damage(w, 0);
        use_all(w, pull != 0);
        check_out(w, 0);
        close_on_disk(w);
    }
}

static void test_backup(void **state)
{
    (void)state;
    struct replicas *w = open_on_disk(3);
    use_all(w, false);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    damage(w, 1);
    use_all(w, false);
    check_out(w, 1);
    close_on_disk(w);
}

// Without another member the worker gets the error, as without replicas.
static void test_alone(void **state)
{
    (void)state;
    struct replicas *w = open_on_disk(4);
    use_all(w, false);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    replicas_take_out(w, 1);
    damage(w, 0);
    use_all(w, true);
    REPLICAS_UNTIL(w, strstr(w->refusal, "the rows are damaged") != NULL);
    assert_int_equal(w->out, 0);
    close_on_disk(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_primary),
        cmocka_unit_test(test_backup),
        cmocka_unit_test(test_alone),
    };
    int rc;
    return tiers_begin(&rc) ? cmocka_run_group_tests(tests, NULL, files_end) : rc;
}
