// Damaged saves of tables, and places where a save cannot be written: the error names the
// file in one sentence, and existing rows and files remain unchanged.
//
// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>
#include <sys/stat.h>

#include "kit/servers.h"

enum { FILES = 32 };

static uint32_t users;
static struct tug_client *client;

// Makes a base and a delta in "good", by a cluster of two servers that continues to run.
static void make_saves(void)
{
    files_remove("good");
    tables_start(2);
    tables_admin(0, "create --settings %s", TABLES_USERS);
    client = tables_client();
    tables_check(tug_table_find(client, "users", &users));
    tables_push(client, users, 1, 3000);
    tables_admin(0, "save --table users --mode base --out good");
    tables_push(client, users, 2, 3000);
    tables_admin(0, "save --table users --mode delta --out good");
    tables_admin(0, "dump --table users --out rows.txt");
}

static void end_cluster(void)
{
    tables_check(tug_client_close(client));
    tables_stop();
}

// Checks that the failures have not changed the rows, and that the rows can still be
// changed.
static void rows_are_as_they_were(void)
{
    tables_admin(0, "dump --table users --out now.txt");
    tables_same_files("rows.txt", "now.txt");
}

static void still_trains(uint64_t seed)
{
    tables_push(client, users, seed, 500);
    tables_admin(0, "dump --table users --out rows.txt");
}

// ---------------------------------------------------------------- damage

static void refused(const char *file)
{
    const char *name = strrchr(file, '/') + 1;
    int code = tug("table stat --from bad");
    if (code != 3 || strstr(e2e_err, name) == NULL)
        cluster_fail("%s damaged: stat ended with %d: %s", file, code, e2e_err);
    code = tug("table export --from bad --out none.txt");
    if (code != 3 || strstr(e2e_err, name) == NULL || files_exists("none.txt"))
        cluster_fail("%s damaged: export ended with %d: %s", file, code, e2e_err);
    code = tug("table load --table users --from bad --scheduler 127.0.0.1:%u",
               tables_port);
    if (code != 3 || strstr(e2e_err, name) == NULL)
        cluster_fail("%s damaged: load ended with %d: %s", file, code, e2e_err);
}

static void damage(const char *file, int how)
{
    size_t n;
    char *bytes = files_read(file, &n);
    assert_true(bytes != NULL && n > 16);
    if (how == 0)
        files_remove(file);
    // Leaves out the last two bytes, because the last may be a newline.
    else if (how == 1)
        files_write_bytes(file, bytes, n - 2);
    else if (how == 2)
        files_write_bytes(file, bytes, n / 2);
    else if (how == 3)
        files_write_bytes(file, bytes, 0);
    if (how == 4) {
        bytes[n / 3] ^= 0x10;
        files_write_bytes(file, bytes, n);
    }
    mem_free(bytes);
}

// Damages each file of each save: it is missing, cut short, empty, or has a flipped bit.
static void damaged_files(void **state)
{
    (void)state;
    make_saves();
    for (int save = 1; save <= 2; save++) {
        char names[FILES][64];
        size_t n = files_list(files_path("good/save-%06d", save), names, FILES);
        assert_int_equal(n, 4); // a manifest, a file of each of two servers, and run.json
        for (size_t i = 0; i < n; i++)
            for (int how = 0; how < 5; how++) {
                char file[FILES_PATH];
                snprintf(file, sizeof(file), "bad/save-%06d/%s", save, names[i]);
                bool manifest = strcmp(names[i], "manifest.json") == 0;
                // A save without a manifest does not exist, and run.json is only for
                // people.
                if (strcmp(names[i], "run.json") == 0 || (manifest && how == 0))
                    continue;
                files_remove("bad");
                files_copy_dir("good", "bad");
                damage(file, how);
                refused(file);
                // These kinds of damage are noticed before any row is changed.
                if (how < 4)
                    rows_are_as_they_were();
                else
                    tables_admin(0, "load --table users --from good");
            }
    }
    rows_are_as_they_were();
    end_cluster();
}

// Refuses a file of the same name and length from another save, a wrong parent of a
// delta, and a delta whose parent is missing.
static void exchanged_files(void **state)
{
    (void)state;
    make_saves();
    tables_admin(0, "save --table users --mode base --out other");
    char names[FILES][64];
    assert_true(files_list("good/save-000001", names, FILES) > 2);
    const char *rows = strcmp(names[0], "manifest.json") == 0 ? names[2] : names[0];
    size_t n;
    char *bytes = files_read(files_path("other/save-000001/%s", rows), &n);
    files_remove("bad");
    files_copy_dir("good", "bad");
    files_write_bytes(files_path("bad/save-000001/%s", rows), bytes, n);
    mem_free(bytes);
    refused(files_path("bad/save-000001/%s", rows));

    files_remove("bad/save-000001");
    tug_ends(3, "table stat --from bad");
    e2e_says("save-000001");
    tables_admin(3, "load --table users --from bad");
    e2e_says("save-000001");

    // Puts another save in the place of the one that the delta builds on.
    files_copy_dir("other/save-000001", "bad/save-000001");
    tug_ends(3, "table stat --from bad");
    e2e_says("save-000001");
    tables_admin(3, "load --table users --from bad");
    e2e_says("save-000001");
    rows_are_as_they_were();
    end_cluster();
}

// The commands ignore unfinished saves, which a crash leaves behind.
static void unfinished_saves(void **state)
{
    (void)state;
    char names[FILES][64];
    make_saves();
    tug_ends(0, "table export --from good --state --out one.txt");
    assert_int_equal(mkdir("good/save-000003", 0700), 0);
    files_write("good/save-000003/users-8.rows", "half a ro");
    files_write("good/save-000003/manifest.json.0123456789abcdef.tmp", "{");
    tug_ends(0, "table export --from good --state --out two.txt");
    tables_same_files("one.txt", "two.txt");
    tables_admin(0, "load --table users --from good");
    rows_are_as_they_were();
    tables_admin(0, "save --table users --mode delta --out good");
    assert_int_equal(files_list("good", names, FILES), 3);
    tug_ends(0, "table stat --from good");
    end_cluster();
}

static void other_tables(void **state)
{
    (void)state;
    make_saves();
    tables_admin(0, "create --settings name=wide;accessor=ctr;dim=6");
    tables_admin(2, "load --table wide --from good");
    e2e_says("wide");
    tug_ends(2, "table export --from good --table user");
    e2e_says("did you mean 'users'?");
    tug_ends(2, "table shrink --from good --table ads");
    e2e_says("there are: users");
    // With --keep, the save of one table could remove those of another table, so --keep
    // is refused.
    tables_admin(2, "save --table wide --out good --keep 1");
    e2e_says("another directory");
    tug_ends(0, "table stat --from good");
    end_cluster();
}

// ---------------------------------------------------------------- saves that cannot be written

static void fails_here(const char *out, const char *says)
{
    tables_admin(4, "save --table users --out %s", out);
    e2e_says(says);
    rows_are_as_they_were();
}

static void places_that_cannot_be(void **state)
{
    (void)state;
    make_saves();
    files_write("file", "");
    fails_here("file", "file");
    fails_here("file/saves", "file/saves");
    if (geteuid() != 0) { // root may write anywhere
        assert_int_equal(mkdir("readonly", 0500), 0);
        fails_here("readonly", "readonly");
        fails_here("readonly/saves", "readonly/saves");
    }
    tables_admin(4, "dump --table users --out missing/rows.txt");
    e2e_says("missing/rows.txt");
    still_trains(5);
    tables_admin(0, "save --table users --mode delta --out good");
    end_cluster();
}

// Limits the size of the files that a server writes; 0: no limit.
static void limit_server(const char *node, rlim_t bytes)
{
    struct rlimit limit;
    pid_t pid = cluster_node("scheduler", node);
    assert_int_equal(prlimit(pid, RLIMIT_FSIZE, NULL, &limit), 0);
    limit.rlim_cur = bytes != 0 ? bytes : limit.rlim_max;
    assert_int_equal(prlimit(pid, RLIMIT_FSIZE, &limit, NULL), 0);
}

static void no_save_more_than(size_t n)
{
    char names[FILES][64];
    assert_int_equal(files_list("good", names, FILES), n);
    tug_ends(0, "table stat --from good");
}

// The disk of a server is full, or the disk of the process that writes the manifest.
static void full_disks(void **state)
{
    (void)state;
    make_saves();
    static const rlim_t limits[] = {8192, 1024};
    for (unsigned i = 0; i < 2; i++) {
        limit_server(files_path("server %u", i), limits[i]);
        fails_here("good", "good/save-000003/users-");
        no_save_more_than(2);
        still_trains(10 + i);
        limit_server(files_path("server %u", i), 0);
    }
    e2e_file_limit = 512;
    int code = tug("table save --table users --out good --scheduler 127.0.0.1:%u",
                   tables_port);
    e2e_file_limit = 0;
    assert_int_equal(code, 4);
    e2e_says("good/save-000003/manifest.json");
    no_save_more_than(2);
    rows_are_as_they_were();
    still_trains(20);
    // Rows that a failed delta could not save are in the next delta.
    tables_admin(0, "save --table users --mode delta --out good");
    tables_admin(0, "load --table users --from good");
    rows_are_as_they_were();
    end_cluster();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_test(damaged_files),         cluster_test(exchanged_files),
        cluster_test(unfinished_saves),      cluster_test(other_tables),
        cluster_test(places_that_cannot_be), cluster_test(full_disks),
    };
    return cmocka_run_group_tests(tests, cluster_begin, cluster_end);
}
