// Servers or the saving process are killed (kill -9) at random moments of saves:
// afterwards the last good save can be loaded and has the state of one moment, never a
// mixture.
//
// The rows tell the moment: version v of the table sets the rows v, v + 3, v + 6, ... to
// v, so the rows of remainder r (key modulo 3) have the greatest version up to v with
// that remainder. Versions are saved as base, delta, delta, delta, base, ...
//
// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <sys/wait.h>

#include "base/random.h"
#include "kit/servers.h"

enum { KILLS = 50, SERVERS = 2, ROWS = 600, DIM = 8 };
// Before every fourth kill, the cluster loads the saved state; after the last kill, the
// test waits until the scheduler has noticed the death.
enum { LOADS = 4, PATIENT = 1 };
// MOST_US: the longest time before a kill, in microseconds; MOST_SAVES: the most saves in
// the directory.
enum { MOST_US = 60000, MOST_SAVES = 512 };

#define VERSIONED "name=versions;accessor=plain;dim=8;rule=sgd;deltas=yes"

static uint64_t seed;

// ---------------------------------------------------------------- the saving process

static int set_version(struct tug_client *c, uint32_t table, uint64_t version)
{
    static float values[ROWS * DIM];
    uint64_t keys[ROWS], ts;
    size_t n = 0;
    for (uint64_t key = version % 3; key < ROWS; key += 3) {
        keys[n] = key;
        for (size_t i = 0; i < DIM; i++)
            values[n * DIM + i] = (float)version;
        n++;
    }
    int rc = tug_assign(c, table, keys, n, values, NULL, NULL, &ts);
    return rc == 0 ? tug_wait(c, ts, 0) : rc;
}

static int save_version(struct tug_client *c, uint32_t table, uint64_t version,
                        enum tug_save_mode mode)
{
    struct tug_save_options o = {
        .directory = "saves", .mode = mode, .tables = &table, .n_tables = 1, .keep = 2};
    int rc = set_version(c, table, version);
    return rc == 0 ? tug_save(c, &o, NULL) : rc;
}

// The body of the saving process, which is killed or sees its servers die. It makes the
// rows unless they exist (`loaded`). It writes the version that it begins with to `to`,
// and then each version that it has saved; it ends when a save fails.
static void save_on(int to, uint64_t version, bool loaded)
{
    uint32_t table;
    struct tug_client *c;
    struct tug_client_options o = {.scheduler = files_path("127.0.0.1:%u", tables_port),
                                   .guest = true};
    int rc = tug_client_open(&c, &o);
    if (rc == 0)
        rc = tug_table_find(c, "versions", &table);
    for (uint64_t v = version - 2; v <= version && rc == 0 && !loaded; v++)
        rc = set_version(c, table, v);
    while (rc == 0 && write(to, &version, sizeof(version)) == sizeof(version)) {
        version++;
        rc = save_version(c, table, version,
                          !loaded || version % 4 == 0 ? TUG_BASE : TUG_DELTA);
        loaded = true;
    }
    _exit(0);
}

static pid_t start_saver(uint64_t version, bool loaded, int *ret_from)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(ends[0]);
        save_on(ends[1], version, loaded);
    }
    close(ends[1]);
    *ret_from = ends[0];
    return pid;
}

// ---------------------------------------------------------------- checking the saved state

// Returns the version of the exported table; fails the test if the rows are not of one
// version.
static uint64_t version_of(const char *path)
{
    uint64_t newest[3] = {0}, version = 0;
    size_t rows = 0;
    char *text = files_read(path, NULL);
    assert_non_null(text);
    for (char *line = text; *line != 0; line += strcspn(line, "\n") + 1) {
        char *at;
        if (*line == '#')
            continue;
        uint64_t key = strtoull(line, &at, 10);
        assert_int_equal(key, rows);
        for (size_t i = 0; i < DIM; i++) {
            uint64_t v = (uint64_t)strtod(at, &at);
            if (rows < 3 && i == 0)
                newest[key % 3] = v;
            if (v != newest[key % 3] || v % 3 != key % 3)
                cluster_fail("row %zu holds %zu beside %zu", rows, (size_t)v,
                             (size_t)newest[key % 3]);
        }
        rows++;
    }
    assert_int_equal(rows, ROWS);
    for (size_t r = 0; r < 3; r++)
        version = newest[r] > version ? newest[r] : version;
    for (size_t r = 0; r < 3; r++)
        assert_true(newest[r] + 3 > version);
    mem_free(text);
    return version;
}

static uint64_t saved_version(void)
{
    tug_ends(0, "table export --from saves --out versions.txt");
    return version_of("versions.txt");
}

// ---------------------------------------------------------------- killing

static void wait_us(uint64_t us)
{
    struct timespec t = {.tv_nsec = (long)us * 1000};
    ppoll(NULL, 0, &t, NULL);
}

// Reads all that the saver has written, and returns the last version in it.
static uint64_t last_said(int from, uint64_t version)
{
    uint64_t said;
    while (read(from, &said, sizeof(said)) == sizeof(said))
        version = said;
    close(from);
    return version;
}

static bool start_cluster(uint64_t version, bool loads)
{
    tables_start(SERVERS);
    tables_admin(0, "create --settings %s", VERSIONED);
    if (!loads)
        return false;
    tables_admin(0, "load --table versions --from saves");
    tables_admin(0, "dump --table versions --out loaded.txt");
    assert_true(version_of("loaded.txt") == version);
    return true;
}

static void kill_server(unsigned server, pid_t saver, bool waits)
{
    cluster_signal(files_path("server%u", server), SIGKILL);
    if (waits)
        return; // the saver ends when the scheduler has declared the server dead
    wait_us(MOST_US / 16);
    kill(saver, SIGKILL);
}

// Kills a server or the saver while it saves the versions from `version` + 1 on; returns
// the last version that the saver reported.
static uint64_t kill_one(uint64_t version, bool loaded, unsigned kill_number)
{
    int from, status;
    uint64_t said;
    uint64_t who = random_below(seed, 1, kill_number, SERVERS + 1);
    pid_t saver = start_saver(version, loaded, &from);
    // After its first message, the saver saves almost all the time.
    assert_true(read(from, &said, sizeof(said)) == sizeof(said));
    wait_us(random_below(seed, 2, kill_number, MOST_US));
    if (who < SERVERS)
        kill_server((unsigned)who, saver, kill_number >= KILLS - PATIENT);
    else
        kill(saver, SIGKILL);
    said = last_said(from, said);
    assert_true(waitpid(saver, &status, 0) == saver);
    return said;
}

// Returns whether the newest save was interrupted. The test checks that some kills
// interrupt a save, because kills between saves would prove little.
static bool is_cut(void)
{
    static char names[MOST_SAVES][64];
    size_t n = files_list("saves", names, MOST_SAVES);
    assert_in_range(n, 1, MOST_SAVES - 1);
    return !files_exists(files_path("saves/%s/manifest.json", names[n - 1]));
}

static void first_saves(void)
{
    uint32_t table;
    tables_start(SERVERS);
    tables_admin(0, "create --settings %s", VERSIONED);
    struct tug_client *c = tables_client();
    tables_check(tug_table_find(c, "versions", &table));
    for (uint64_t version = 0; version < 3; version++)
        tables_check(set_version(c, table, version));
    tables_check(tug_client_close(c));
    tables_admin(0, "save --table versions --mode base --out saves");
    tables_kill(SERVERS);
}

static void killed_while_saving(void **state)
{
    (void)state;
    uint64_t version = 2;
    unsigned cut = 0;
    first_saves();
    for (unsigned i = 0; i < KILLS; i++) {
        bool loaded = start_cluster(version, i % LOADS == LOADS - 1);
        uint64_t said = kill_one(version, loaded, i);
        cut += is_cut();
        version = saved_version();
        // The saver may be killed between the commit and its message.
        if (version != said && version != said + 1)
            cluster_fail("seed %zu, kill %u: version %zu was saved last, %zu is there",
                         (size_t)seed, i, (size_t)said, (size_t)version);
        tables_kill(SERVERS);
    }
    print_message("%u of %d kills were in the middle of a save\n", cut, KILLS);
    assert_true(cut >= KILLS / 10);
}

int main(void)
{
    seed = (uint64_t)getpid();
    const struct CMUnitTest tests[] = {cluster_test(killed_while_saving)};
    return cmocka_run_group_tests(tests, cluster_begin, cluster_end);
}
