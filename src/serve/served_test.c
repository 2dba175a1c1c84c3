// A model is served while it is published: by another process, which is killed now and
// then; with a damaged delta; in steps, compared with a naive table; and with each
// allocation failing.
//
// SPDX-License-Identifier: Apache-2.0
#include "serve/served.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/random.h"
#include "kit/files.h"
#include "kit/publisher.h"
#include "kit/saves.h"
#include "kit/test.h"
#include "os/clock.h"
#include "os/log.h"
#include "serve/score.h"

enum {
    ROWS = SANITIZED ? 300 : 600,
    SAVES = SANITIZED ? 150 : 1000,
    BASE_EVERY = 23,
    KILL_EVERY = SAVES / 7,
    DAMAGED = SAVES / 2,
    READERS = 3,
    BATCH = 100,
    FEATURES = 3,
    PATIENCE = 90, // seconds; only a test that hangs reaches this
};

// The publisher is this program, run again as another process.

static int publish(const char *dir, uint32_t end, uint32_t damaged)
{
    struct publisher p;
    publisher_open(&p, dir, ROWS);
    uint32_t number = 0;
    bool base = store_published_by(p.sparse, NULL) == 0;
    while (number < end) {
        bool damage = damaged != 0 && number + 1 >= damaged && !base;
        number = publisher_save(&p, base ? SAVE_BASE : SAVE_DELTA, 1, damage);
        if (damage)
            break; // this publisher ends; the next one begins a new model
        base = number % BASE_EVERY == 0;
    }
    publisher_close(&p);
    return 0;
}

static pid_t start_publisher(const char *dir, uint32_t end, uint32_t damaged)
{
    char numbers[2][16];
    snprintf(numbers[0], sizeof(numbers[0]), "%u", end);
    snprintf(numbers[1], sizeof(numbers[1]), "%u", damaged);
    pid_t pid = fork();
    if (pid == 0) {
        execl("/proc/self/exe", "publisher", dir, numbers[0], numbers[1], (char *)NULL);
        _exit(127);
    }
    return pid;
}

static uint32_t newest(const char *dir)
{
    char path[FILE_PATH_MAX];
    return save_find(dir, path, NULL) == 0 ? save_number(strrchr(path, '/') + 1) : 0;
}

// ---------------------------------------------------- threads that read the served model

struct readers {
    struct served *s;
    atomic_bool stop;
    atomic_uint seeds;
    atomic_ulong batches, mixed, backwards;
};

static void make_rows(uint64_t seed, uint64_t *offsets, uint64_t *keys)
{
    for (uint64_t i = 0; i < BATCH * FEATURES; i++)
        keys[i] = random_below(seed, 7, i, ROWS);
    for (uint64_t i = 0; i <= BATCH; i++)
        offsets[i] = i * FEATURES;
}

static bool all_are(const float *scores, uint32_t number)
{
    for (size_t i = 0; i < BATCH; i++)
        if (fabs((double)scores[i] - publisher_score(number)) > 0.25)
            return false;
    return true;
}

// Yields the processor, which the publisher and other tests need, too.
static void give_way(void)
{
    sched_yield();
}

static void *read_on(void *arg)
{
    struct readers *x = arg;
    uint64_t offsets[BATCH + 1], keys[BATCH * FEATURES];
    uint64_t seed = (uint64_t)atomic_fetch_add(&x->seeds, 1) << 32;
    float scores[BATCH];
    uint32_t before = 0, number = 0;
    struct score_rows rows = {.n = BATCH, .offsets = offsets, .keys = keys};
    for (struct err e = {0}; !atomic_load(&x->stop); before = number) {
        make_rows(seed++, offsets, keys);
        if (score_rows(x->s, &rows, true, scores, &number, &e) != 0 ||
            !all_are(scores, number))
            atomic_fetch_add(&x->mixed, 1);
        if (number < before)
            atomic_fetch_add(&x->backwards, 1);
        atomic_fetch_add(&x->batches, 1);
        give_way();
    }
    return NULL;
}

static void await(struct readers *x, bool (*there)(struct readers *x, uint32_t n),
                  uint32_t n)
{
    uint64_t until = clock_ns() + PATIENCE * SECOND_NS;
    while (!there(x, n)) {
        if (clock_ns() > until)
            fail_msg("save %u is not served: save %u is; %s", n,
                     served_status(x->s).number, served_status(x->s).refusal.text);
        give_way();
    }
}

static bool is_served(struct readers *x, uint32_t n)
{
    return served_status(x->s).number >= n;
}

static bool is_refused(struct readers *x, uint32_t n)
{
    return served_status(x->s).refused >= n;
}

static bool has_read(struct readers *x, uint32_t n)
{
    return atomic_load(&x->batches) >= n;
}

// Runs a process that publishes up to save `end`, and kills it at any moment after save
// `kill_at` exists.
static void run_publisher(const char *dir, uint32_t end, uint32_t kill_at,
                          uint32_t damaged)
{
    uint64_t until = clock_ns() + PATIENCE * SECOND_NS;
    int status = 0;
    pid_t pid = start_publisher(dir, end, damaged);
    assert_true(pid > 0);
    while (waitpid(pid, &status, WNOHANG) == 0) {
        assert_true(clock_ns() < until);
        if (newest(dir) >= kill_at) {
            kill(pid, SIGKILL);
            assert_int_equal(waitpid(pid, &status, 0), pid);
            assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
            return;
        }
        give_way();
    }
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void publish_all(struct readers *x, const char *dir)
{
    for (uint32_t n; (n = newest(dir)) < SAVES;) {
        uint32_t kill_at = (n / KILL_EVERY + 1) * KILL_EVERY;
        bool damage = n < DAMAGED && kill_at >= DAMAGED;
        run_publisher(dir, damage ? DAMAGED : SAVES, damage ? SAVES : kill_at,
                      damage ? DAMAGED : 0);
        if (damage)
            await(x, is_refused, 1);
    }
    await(x, is_served, SAVES);
}

static void test_published(void **state)
{
    (void)state;
    const char *dir = saves_fresh("published");
    size_t live = mem_live();
    struct readers x = {0};
    pthread_t threads[READERS];
    run_publisher(dir, 1, UINT32_MAX, 0);
    enum log_level before = log_set_level(LOG_ERROR);
    OK(served_open(&x.s, dir, &(struct served_options){.follow = true, .poll_ms = 1},
                   &ok_e));
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_on, &x), 0);
    publish_all(&x, dir);
    await(&x, has_read, (uint32_t)atomic_load(&x.batches) + READERS + 1);
    atomic_store(&x.stop, true);
    for (int i = 0; i < READERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&x.mixed), 0);
    assert_int_equal(atomic_load(&x.backwards), 0);
    assert_true(served_status(x.s).taken > 3);
    served_stop(x.s);
    score_close(x.s);
    served_close(x.s);
    log_set_level(before);
    assert_int_equal(mem_live(), live);
}

// -------------------------------------------- one thread that refreshes the model itself

static float score_one(struct served *s, uint64_t key, uint32_t *ret_number)
{
    uint64_t offsets[2] = {0, FEATURES}, keys[FEATURES] = {key, key, key};
    float score;
    OK(score_rows(s, &(struct score_rows){.n = 1, .offsets = offsets, .keys = keys}, true,
                  &score, ret_number, &ok_e));
    return score;
}

static void close_all(struct served *s)
{
    score_close(s);
    served_close(s);
}

static bool look(struct served *s)
{
    bool taken;
    OK(served_refresh(s, &taken, &ok_e));
    return taken;
}

static void test_damaged(void **state)
{
    (void)state;
    const char *dir = saves_fresh("damaged");
    const struct served_options o = {.threads = 1};
    enum log_level before = log_set_level(LOG_ERROR);
    struct publisher p;
    struct served *s;
    uint32_t number;
    publisher_open(&p, dir, 50);
    assert_int_equal(publisher_save(&p, SAVE_BASE, 0, false), 1);
    OK(served_open(&s, dir, &o, &ok_e));
    assert_false(look(s));
    publisher_save(&p, SAVE_DELTA, 0, false);
    assert_true(look(s));
    publisher_save(&p, SAVE_DELTA, 0, true);
    assert_false(look(s));
    publisher_save(&p, SAVE_DELTA, 0, false); // a delta that builds on the damaged one
    assert_false(look(s));
    assert_true(score_one(s, 1, &number) == (float)publisher_score(2));
    assert_int_equal(number, 2);
    struct served_status now = served_status(s);
    assert_int_equal(now.refused, 2);
    assert_non_null(strstr(now.refusal.text, "save-000003/sparse-0.rows' is damaged"));
    publisher_save(&p, SAVE_BASE, 0, false);
    assert_true(look(s));
    publisher_save(&p, SAVE_DELTA, 0, false);
    assert_true(look(s));
    assert_true(score_one(s, 1, &number) == (float)publisher_score(6));
    assert_int_equal(served_status(s).refusal.code, 0);
    // Without the manifest of the served save, and then without any save, nothing new is
    // found.
    files_remove(saves_path(dir, "save-000006"));
    files_remove(saves_path(dir, "save-000005"));
    for (int i = 1; i <= 4; i++)
        files_remove(files_path("%s/save-00000%d", dir, i));
    assert_false(look(s));
    assert_true(score_one(s, 1, &number) == (float)publisher_score(6));
    close_all(s);
    publisher_close(&p);
    log_set_level(before);
}

// Rows are added, changed and removed. The served model is compared with an array that
// has the last value of each key.
static void test_naive(void **state)
{
    (void)state;
    enum { KEYS = 400, STEPS = SANITIZED ? 20 : 60 };
    static uint32_t naive[KEYS];
    const char *dir = saves_fresh("naive");
    struct publisher p;
    struct served *s;
    memset(naive, 0, sizeof(naive));
    publisher_open(&p, dir, 0);
    publisher_set(&p, 1, 1);
    naive[0] = 1;
    publisher_save_as_is(&p, SAVE_BASE, 1, false);
    OK(served_open(&s, dir, &(struct served_options){.threads = 2}, &ok_e));
    for (uint32_t step = 2; step < STEPS; step++) {
        uint64_t n = 1 + random_below(step, 1, 0, KEYS);
        if (random_below(step, 2, 0, 8) == 0) {
            OK(store_finish(p.sparse, &ok_e));
            OK(store_admin(p.sparse, STORE_SHRINK, 1e9f, &ok_e)); // removes all rows
            OK(store_finish(p.sparse, &ok_e));
            memset(naive, 0, sizeof(naive));
        }
        publisher_set(&p, step, n);
        for (uint64_t key = 0; key < n; key++)
            naive[key] = step;
        bool base = random_below(step, 3, 0, 6) == 0;
        publisher_save_as_is(&p, base ? SAVE_BASE : SAVE_DELTA, 1, false);
        if (random_below(step, 4, 0, 3) == 0)
            continue; // skips a refresh, so that the next one takes several saves
        uint32_t number;
        assert_true(look(s));
        for (uint64_t key = 0; key < KEYS; key++) {
            double want = publisher_score(naive[key]) - naive[key] + step;
            if (fabs((double)score_one(s, key, &number) - want) > 1e-3)
                fail_msg("step %u, key %lu: %f, not %f", step, (unsigned long)key,
                         (double)score_one(s, key, &number), want);
        }
        assert_int_equal(number, newest(dir));
    }
    close_all(s);
    publisher_close(&p);
}

// ----------------------------------------------- saves that cannot be opened are refused

static void assert_refused(const char *from, bool follow, int code, const char *why)
{
    struct served *s;
    struct err e = {0};
    assert_int_equal(
        served_open(&s, from, &(struct served_options){.follow = follow}, &e), code);
    if (strstr(e.text, why) == NULL)
        fail_msg("'%s' says nothing of '%s'", e.text, why);
}

static void test_refused(void **state)
{
    (void)state;
    const char *dir = saves_fresh("refused");
    const char *save = files_path("%s/save-000001", dir);
    struct publisher p;
    assert_refused(dir, true, TUG_EDATA, "holds no save");
    publisher_open(&p, dir, 20);
    struct store *only = p.sparse;
    OK(saves_one(only, dir, SAVE_BASE, 0, &ok_e));
    assert_refused(dir, false, TUG_EDATA, "no description of a model");
    publisher_save(&p, SAVE_BASE, 1, false);
    assert_refused(files_path("%s/save-000002", dir), true, TUG_EUSAGE, "is one save");
    files_remove(files_path("%s/save-000002/dense-0.rows", dir));
    assert_refused(dir, false, TUG_EDATA, "dense-0.rows");
    (void)save;
    publisher_close(&p);
}

static void test_allocations(void **state)
{
    (void)state;
    const char *dir = saves_fresh("allocations");
    enum log_level before = log_set_level(LOG_ERROR);
    struct publisher p;
    struct served *s;
    publisher_open(&p, dir, 30);
    publisher_save(&p, SAVE_BASE, 1, false);
    publisher_save(&p, SAVE_DELTA, 1, false);
    const struct served_options o = {.threads = 1};
    size_t live = mem_live();
    // Opening makes hundreds of allocations, most of them for similar pieces of JSON, so
    // only some of them are made to fail.
    for (long n = 0, opened = 0; opened == 0; n += 1 + n / 10) {
        mem_fault_after(n);
        int rc = served_open(&s, dir, &o, &test_err);
        bool faulted = mem_faulted();
        mem_fault_after(-1);
        assert_true(rc == 0 || (faulted && rc == TUG_ENOMEM));
        opened = !faulted;
        if (rc == 0)
            close_all(s);
        assert_int_equal(mem_live(), live);
    }
    // A refresh that fails leaves the served model as it was, and a later refresh takes
    // the new save.
    for (long n = 0, taken = 0; taken == 0; n += 1 + n / 5) {
        OK(served_open(&s, dir, &o, &ok_e));
        uint32_t number, next = publisher_save(&p, SAVE_DELTA, 1, false);
        bool got;
        mem_fault_after(n);
        (void)served_refresh(s, &got, &test_err);
        bool faulted = mem_faulted();
        mem_fault_after(-1);
        (void)score_one(s, 0, &number);
        assert_true(number == next || (faulted && !got && number == next - 1));
        for (int i = 0; i < 9 && number != next; i++) {
            (void)look(s);
            (void)score_one(s, 0, &number);
        }
        assert_int_equal(number, next);
        taken = !faulted;
        close_all(s);
    }
    publisher_close(&p);
    log_set_level(before);
}

int main(int argc, char **argv)
{
    if (argc == 4)
        return publish(argv[1], (uint32_t)strtoul(argv[2], NULL, 10),
                       (uint32_t)strtoul(argv[3], NULL, 10));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_naive),     cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_refused),   cmocka_unit_test(test_allocations),
        cmocka_unit_test(test_published),
    };
    return cmocka_run_group_tests(tests, files_begin_in_memory, files_end);
}
