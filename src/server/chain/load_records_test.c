// Loads of tables whose partitions have replicas: the loops that lead partitions get the
// requests, and their backups read the same rows from the files.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "kit/files.h"
#include "kit/replicas.h"
#include "kit/saves.h"
#include "kit/shards.h"
#include "server/chain/chain.h"
#include "server/rows/tables.h"
#include "server/saves/roots.h"
#include "server/shard_internal.h"

enum { SPREAD = 2, MEMBERS = 3, VALUE = 7 }; // as in operations_test.c

static const uint32_t some[] = {0, 3, 6, 9, 12, 15}, others[] = {1, 4, 7, 10, 13, 16};

static uint64_t loads;

// Writes a save of a table in which all keys have the value.
static const char *write_save(struct replicas *w, const char *name)
{
    struct store *s = stores_open_with(&w->spec.config, REPLICAS_BITS, 0);
    float values[REPLICAS_KEYS];
    for (uint32_t k = 0; k < REPLICAS_KEYS; k++)
        values[k] = VALUE;
    struct store_push p = {.op = STORE_ROW,
                           .keys = w->keys,
                           .n = REPLICAS_KEYS,
                           .values = values,
                           .rate = 1};
    OK(store_push(s, &p, NULL, &ok_e));
    OK(saves_one(s, saves_path(files_dir, name), SAVE_CHECKPOINT, 0, &ok_e));
    store_close(s);
    return files_path("%s/save-000001", name);
}

static struct replicas *open_world(struct roots **ret_roots)
{
    struct roots_options o = {.save = files_dir};
    OK(roots_open(ret_roots, &o, &ok_e));
    const struct shard_options options = {.roots = *ret_roots};
    struct replicas *w = replicas_open(1, 2, 2, SPREAD, &options);
    replicas_make_spec(w, CONFIG_ASYNC, 1);
    replicas_make_table(w);
    replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    return w;
}

static void send_load(struct replicas *w, uint32_t server, const char *path,
                      uint64_t checksum)
{
    struct msg_load m = {.table = w->spec.id,
                         .epoch = w->epoch,
                         .clear = 1,
                         .number = loads,
                         .low = loads,
                         .path = wire_text(path),
                         .checksum = checksum,
                         .name = wire_text("t")};
    van_send(w->worker, w->servers[server].s.link, MSG_LOAD,
             REPLICAS_OTHER + 100 * loads + server, &m, NULL);
}

static uint64_t checksum_of(const char *path)
{
    struct save_manifest m;
    assert_int_equal(save_read(saves_path(files_dir, path), &m, NULL), 0);
    uint64_t is = m.checksum;
    save_manifest_free(&m);
    return is;
}

// Changes a byte of the rows; the length stays.
static void damage(const char *path)
{
    size_t n;
    char *bytes = files_read(path, &n);
    assert_true(bytes != NULL && n > 100);
    bytes[n / 2] ^= 1;
    files_write_bytes(path, bytes, n);
    mem_free(bytes);
}

// Returns whether all members of the chains have the value in all rows.
static bool all_loaded(struct replicas *w, float value)
{
    for (uint32_t k = 0; k < REPLICAS_KEYS; k++) {
        uint32_t first = roster_partition(REPLICAS_BITS, w->spec.space, w->keys[k]) %
                         SPREAD;
        for (uint32_t i = 0; i < MEMBERS; i++) {
            bool member = i == first || i == first + 1;
            if (replicas_value(w, i, k) != (member ? value : 0)) // NOLINT: exact
                return false;
        }
    }
    return true;
}

static void test_load(void **state)
{
    (void)state;
    struct roots *roots;
    struct replicas *w = open_world(&roots);
    const char *path = write_save(w, "good");
    loads++;
    for (uint32_t i = 0; i < SPREAD; i++)
        send_load(w, i, path, checksum_of(path));
    REPLICAS_UNTIL(w, all_loaded(w, VALUE));
    assert_string_equal(w->refusal, "");
    // A repeat changes nothing, also at a server that leads the partitions later.
    replicas_add_op(w, false, others, REPLICAS_PUSH_KEYS);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    replicas_crash(w, 0);
    replicas_take_out(w, 0);
    replicas_run(w, SECOND_NS);
    send_load(w, 1, path, checksum_of(path));
    replicas_run(w, SECOND_NS);
    for (uint32_t i = 0; i < REPLICAS_PUSH_KEYS; i++)
        assert_true(replicas_value(w, 1, others[i]) == VALUE + 1); // NOLINT: exact
    assert_int_equal(w->out, 0);
    replicas_close(w);
    roots_close(roots);
}

// The backups of an unbacked table load no rows.
static void test_unbacked_load(void **state)
{
    (void)state;
    struct roots *roots;
    const struct roots_options o = {.save = files_dir};
    OK(roots_open(&roots, &o, &ok_e));
    const struct shard_options options = {.roots = roots};
    struct replicas *w = replicas_open(1, 2, 2, SPREAD, &options);
    replicas_leave_out_backups(w);
    replicas_make_table(w);
    const char *path = write_save(w, "unbacked");
    loads++;
    for (uint32_t i = 0; i < SPREAD; i++)
        send_load(w, i, path, checksum_of(path));
    REPLICAS_UNTIL(w, w->others == SPREAD);
    replicas_run(w, SECOND_NS);
    for (uint32_t k = 0; k < REPLICAS_KEYS; k++)
        for (uint32_t i = 0; i < MEMBERS; i++) {
            uint32_t p = roster_partition(REPLICAS_BITS, w->spec.space, w->keys[k]);
            float expect = i == p % SPREAD ? VALUE : 0;
            assert_true(replicas_value(w, i, k) == expect); // NOLINT: exact
        }
    assert_int_equal(w->out, 0);
    replicas_close(w);
    roots_close(roots);
}

// A save that is damaged in the middle leaves a primary's partitions of the table empty, and
// the backup leaves their chains. Another checksum changes nothing.
static void test_bad_load(void **state)
{
    (void)state;
    struct roots *roots;
    struct replicas *w = open_world(&roots);
    const char *path = write_save(w, "bad");
    loads++;
    send_load(w, 0, path, 1);
    REPLICAS_UNTIL(w, strstr(w->refusal, "is not the save that was asked for") != NULL);
    assert_true(replicas_value(w, 0, some[0]) + replicas_value(w, 1, some[0]) > 0);
    assert_int_equal(w->out, 0);
    damage(saves_path(files_dir, files_path("%s/t-0.rows", path)));
    loads++;
    for (uint32_t i = 0; i < SPREAD; i++)
        send_load(w, i, path, checksum_of(path));
    REPLICAS_UNTIL(w, w->out != 0);
    assert_string_equal(w->out_why, "a load of a table has failed at its primary");
    uint32_t leader = w->out == replicas_id(1) ? 0 : 1;
    uint64_t rows = 0;
    for (uint32_t p = leader; p < REPLICAS_PARTITIONS; p += SPREAD)
        rows += store_rows_of(w->servers[leader].shard->tables[w->spec.id]->store, p);
    assert_int_equal(rows, 0);
    replicas_close(w);
    roots_close(roots);
}

// A backup that cannot read the save leaves its chains.
static void test_unreadable_at_backup(void **state)
{
    (void)state;
    struct roots *roots;
    struct replicas *w = open_world(&roots);
    const char *path = write_save(w, "here");
    loads++;
    w->servers[2].shard->o.roots = NULL;
    send_load(w, 1, path, checksum_of(path));
    REPLICAS_UNTIL(w, w->out == replicas_id(2));
    assert_non_null(strstr(w->out_why, "--load-root"));
    replicas_close(w);
    roots_close(roots);
}

// A load has kept a primary busy for six seconds. Its backup, which may need as long, counts as
// slow only after twice that time and five seconds more, also if a shorter load follows.
static void test_long_load(void **state)
{
    (void)state;
    struct replicas *w = replicas_open_with_table(1, 2, 2, 1);
    struct shard *s = w->servers[0].shard;
    replicas_run(w, 20 * SECOND_NS);
    s->now -= 6 * SECOND_NS;
    leave_after_load(s);
    s->now -= SECOND_NS / 10;
    leave_after_load(s);
    sim_partition(w->sim, w->servers[0].v, w->servers[1].v, true);
    replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
    replicas_run(w, 16 * SECOND_NS);
    assert_int_equal(w->out, 0);
    replicas_run(w, 2 * SECOND_NS);
    assert_int_equal(w->out, replicas_id(1));
    replicas_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_load),      cmocka_unit_test(test_unbacked_load),
        cmocka_unit_test(test_bad_load),  cmocka_unit_test(test_unreadable_at_backup),
        cmocka_unit_test(test_long_load),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
